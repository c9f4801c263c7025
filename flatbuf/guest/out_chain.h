// File: out_chain.h
//
// Output structures with sType and pNext, and lists in Vulkan's two-call idiom: what a request asks for, and how a
// reply is handed out. A reply comes from the worker, which a program need not trust with its memory: nothing is
// written beyond what the program gave room for. Freestanding.
#ifndef SLUICE_FLATBUF_GUEST_OUT_CHAIN_H_
#define SLUICE_FLATBUF_GUEST_OUT_CHAIN_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <vulkan/vulkan_core.h>

#include "flatbuf/vk/out_structs.h"
#include "flatbuffers/flatbuffers.h"

namespace sluice::guest {

using OutWords = flatbuffers::Vector<uint64_t>;

// The types chained to `count` structures of allowed[0], each once; those that are not allowed are left out, as a
// driver leaves what it does not know.
flatbuffers::Offset<flatbuffers::Vector<int32_t>> EncodeOutTypes(flatbuffers::FlatBufferBuilder& b,
                                                                 const vk::OutStruct* allowed, size_t allowed_count,
                                                                 const void* first, uint32_t count);
// Copies the `index`th structure and what is chained to it into `out` and its chain. False if the reply has no such
// structure.
bool ReadOutBytes(const OutWords* words, const vk::OutStruct* allowed, size_t allowed_count, uint32_t index, void* out);
// How many structures (with their chains) the words hold.
uint32_t CountOut(const OutWords* words, const vk::OutStruct* allowed, size_t allowed_count);

template <size_t N, typename T>
flatbuffers::Offset<flatbuffers::Vector<int32_t>> EncodeOutChain(flatbuffers::FlatBufferBuilder& b,
                                                                 const vk::OutStruct (&allowed)[N], const T* first,
                                                                 uint32_t count) {
  return EncodeOutTypes(b, allowed, N, first, first == nullptr ? 0 : count);
}
template <size_t N, typename T>
bool ReadOutChain(const OutWords* words, const vk::OutStruct (&allowed)[N], T* out) {
  return ReadOutBytes(words, allowed, N, 0, out);
}

// The end of a two-call command: `have` there are, the program has room for *count (or asks how many: false).
inline bool WantsList(uint32_t have, uint32_t* count, bool room, VkResult* result) {
  const uint32_t given = room && *count < have ? *count : have;
  *result = given < have ? VK_INCOMPLETE : VK_SUCCESS;
  *count = given;
  return room;
}
template <size_t N, typename T>
VkResult ReadOutChains(const OutWords* words, const vk::OutStruct (&allowed)[N], uint32_t* count, T* out) {
  VkResult result = VK_SUCCESS;
  if (WantsList(CountOut(words, allowed, N), count, out != nullptr, &result)) {
    for (uint32_t i = 0; i < *count; i++) ReadOutBytes(words, allowed, N, i, out + i);
  }
  return result;
}
// Plain structures or numbers, of the same layout on both sides.
template <typename W, typename T>
VkResult ReadList(const flatbuffers::Vector<W>* from, uint32_t* count, T* out) {
  static_assert(flatbuffers::IndirectHelper<W>::element_stride == sizeof(T));
  VkResult result = VK_SUCCESS;
  if (WantsList(from->size(), count, out != nullptr, &result) && *count != 0) {
    memcpy(static_cast<void*>(out), from->Data(), *count * sizeof(T));
  }
  return result;
}
// As many numbers as were asked for; what is missing is zero.
template <typename W, typename T>
void ReadExactly(const flatbuffers::Vector<W>* from, uint32_t count, T* out) {
  static_assert(flatbuffers::IndirectHelper<W>::element_stride == sizeof(T));
  const uint32_t have = from->size() < count ? from->size() : count;
  memset(static_cast<void*>(out), 0, count * sizeof(T));
  if (have != 0) memcpy(static_cast<void*>(out), from->Data(), have * sizeof(T));
}
// Bytes in the two-call idiom. `size`: what the worker says there are; `from`: those that it sent.
inline VkResult ReadBlob(const flatbuffers::Vector<uint8_t>* from, uint64_t size, size_t* count, void* out) {
  if (out == nullptr) {
    *count = size;
    return VK_SUCCESS;
  }
  const size_t have = from->size() < *count ? from->size() : *count;
  if (have != 0) memcpy(out, from->Data(), have);
  *count = have;
  return VK_SUCCESS;
}

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_OUT_CHAIN_H_
