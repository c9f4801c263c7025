#include "flatbuf/guest/out_chain.h"

namespace sluice::guest {
namespace {

// sType, padding, pNext.
constexpr size_t kHeadBytes = 16;

// 0: not allowed.
uint32_t SizeOf(const vk::OutStruct* allowed, size_t allowed_count, int32_t type) {
  for (size_t i = 0; i < allowed_count; i++) {
    if (allowed[i].type == type) return allowed[i].size;
  }
  return 0;
}

// The structure of that type in the program's chain.
VkBaseOutStructure* Find(void* chain, int32_t type) {
  for (auto* s = static_cast<VkBaseOutStructure*>(chain); s != nullptr; s = s->pNext) {
    if (static_cast<int32_t>(s->sType) == type) return s;
  }
  return nullptr;
}

// Calls visit(index of the root, type, offset in words, size) for every structure. Ends at what is no structure.
template <typename F>
void ForEach(const OutWords* words, const vk::OutStruct* allowed, size_t allowed_count, F visit) {
  uint32_t index = 0;
  bool any = false;
  for (uint32_t at = 0; at < words->size();) {
    const auto type = static_cast<int32_t>(words->Get(at));
    const uint32_t size = SizeOf(allowed, allowed_count, type);
    if (size == 0 || size / 8 > words->size() - at) return;
    if (type == allowed[0].type) {
      if (any) index++;
      any = true;
    }
    if (!any) return;
    visit(index, type, at, size);
    at += size / 8;
  }
}

}  // namespace

flatbuffers::Offset<flatbuffers::Vector<int32_t>> EncodeOutTypes(flatbuffers::FlatBufferBuilder& b,
                                                                 const vk::OutStruct* allowed, size_t allowed_count,
                                                                 const void* first, uint32_t count) {
  // Asked for, in the order of the list: at most as many as the list has.
  constexpr size_t kMost = 256;
  bool wanted[kMost] = {};
  size_t total = 0;
  const auto* bytes = static_cast<const uint8_t*>(first);
  for (uint32_t i = 0; i < count; i++) {
    const void* element = bytes + size_t{i} * allowed[0].size;
    auto* s = static_cast<const VkBaseInStructure*>(element)->pNext;
    for (; s != nullptr; s = s->pNext) {
      for (size_t j = 1; j < allowed_count && j < kMost; j++) {
        if (allowed[j].type != static_cast<int32_t>(s->sType) || wanted[j]) continue;
        wanted[j] = true;
        total++;
      }
    }
  }
  if (total == 0) return 0;
  int32_t* types = nullptr;
  const flatbuffers::Offset<flatbuffers::Vector<int32_t>> offset(b.CreateUninitializedVector<int32_t>(total, &types));
  for (size_t j = 1, n = 0; j < allowed_count && j < kMost; j++) {
    if (wanted[j]) types[n++] = allowed[j].type;
  }
  return offset;
}

bool ReadOutBytes(const OutWords* words, const vk::OutStruct* allowed, size_t allowed_count, uint32_t index,
                  void* out) {
  bool found = false;
  ForEach(words, allowed, allowed_count, [&](uint32_t root, int32_t type, uint32_t at, uint32_t size) {
    if (root != index) return;
    found = true;
    auto* to = static_cast<VkBaseOutStructure*>(out);
    if (type != allowed[0].type) to = Find(to->pNext, type);
    if (to == nullptr) return;
    void* bytes = to;
    memcpy(static_cast<uint8_t*>(bytes) + kHeadBytes, words->Data() + uint64_t{at} * 8 + kHeadBytes, size - kHeadBytes);
  });
  return found;
}

uint32_t CountOut(const OutWords* words, const vk::OutStruct* allowed, size_t allowed_count) {
  uint32_t count = 0;
  ForEach(words, allowed, allowed_count, [&](uint32_t root, int32_t, uint32_t, uint32_t) { count = root + 1; });
  return count;
}

}  // namespace sluice::guest
