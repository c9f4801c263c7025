// File: encode_support.h
//
// Helpers of the generated encoders. Freestanding.
#ifndef SLUICE_FLATBUF_GUEST_ENCODE_SUPPORT_H_
#define SLUICE_FLATBUF_GUEST_ENCODE_SUPPORT_H_

#include "flatbuf/guest/channel.h"
#include "flatbuf/guest/fix.h"
#include "flatbuf/guest/handle.h"
#include "flatbuf/guest/pipeline_fix.h"
#include "flatbuf/vk/opcodes.h"
#include "flatbuf/vkgen/semantics.h"
#include "flatbuffers/flatbuffers.h"

namespace sluice::guest {

inline flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>> EncodeStrings(
    flatbuffers::FlatBufferBuilder& b, const char* const* strings, size_t count) {
  Buffer<flatbuffers::Offset<flatbuffers::String>> offsets;
  for (size_t i = 0; i < count; i++) offsets.Push(b.CreateString(strings[i]));
  return b.CreateVector(offsets.data(), offsets.size());
}

template <typename T>
flatbuffers::Offset<flatbuffers::Vector<uint64_t>> EncodeHandles(flatbuffers::FlatBufferBuilder& b, const T* handles,
                                                                 size_t count) {
  uint64_t* ids = nullptr;
  const flatbuffers::Offset<flatbuffers::Vector<uint64_t>> offset(b.CreateUninitializedVector<uint64_t>(count, &ids));
  for (size_t i = 0; i < count; i++) ids[i] = ToId(handles[i]);
  return offset;
}

// A column of the recorder as a vector of rows; none when it is empty.
template <typename Row>
flatbuffers::Offset<flatbuffers::Vector<const Row*>> EncodeColumn(flatbuffers::FlatBufferBuilder& b,
                                                                  const Buffer<uint8_t>& column) {
  if (column.empty()) return 0;
  return b.CreateVectorOfStructs(vk::BytesAs<Row>(column.data()), column.size() / sizeof(Row));
}

inline bool SendFinished(GuestChannel& channel, vk::Opcode opcode, bool wake) {
  return channel.Send(static_cast<uint16_t>(opcode), channel.fbb().GetBufferPointer(), channel.fbb().GetSize(), wake);
}

template <typename Reply>
const Reply* CallAndVerify(GuestChannel& channel, vk::Opcode opcode) {
  size_t size = 0;
  const uint8_t* reply =
      channel.Call(static_cast<uint16_t>(opcode), channel.fbb().GetBufferPointer(), channel.fbb().GetSize(), &size);
  if (reply == nullptr) return nullptr;
  flatbuffers::Verifier verifier(reply, size, 8, 1000, true);
  return verifier.VerifyBuffer<Reply>(nullptr) ? flatbuffers::GetRoot<Reply>(reply) : nullptr;
}

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_ENCODE_SUPPORT_H_
