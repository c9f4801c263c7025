// File: replay.h
//
// The toolbox of generated stream replay: one cursor per kind of command, and the pool that rows point into.
#ifndef SLUICE_GPU_DOMAIN_EXEC_REPLAY_H_
#define SLUICE_GPU_DOMAIN_EXEC_REPLAY_H_

#include <cstdint>
#include <cstring>

#include "gpu-domain/exec/decoder.h"
#include "gpu-domain/exec/stream_view.h"

namespace sluice::exec {

// The next row of that kind, or null when there is none left.
template <typename Row>
const Row* NextRow(StreamView& stream, uint32_t kind) {
  Column& column = stream.columns[kind];
  if (column.left == 0) return nullptr;
  column.left--;
  const void* row = column.next;
  column.next += sizeof(Row);
  return static_cast<const Row*>(row);
}

// The payloads of a stream. A place counts 8-byte words from 1; 0 is null. Every array is bounds-checked; a count of 0
// gives null whatever the place.
class Pool {
 public:
  Pool(Decoder& d, absl::Span<const uint64_t> words) : d_(d), words_(words) {}

  // Used where they lie.
  template <typename T>
  bool InPlace(uint64_t place, uint64_t count, bool optional, const T** out, const char* what) const {
    static_assert(sizeof(T) <= 4096);
    const void* bytes = nullptr;
    if (count > UINT32_MAX) return d_.Bad(what);
    if (!Bytes(place, count * sizeof(T), optional, &bytes, what)) return false;
    *out = BytesAs<T>(bytes);
    return true;
  }
  bool Bytes(uint64_t place, uint64_t size, bool optional, const void** out, const char* what) const {
    *out = nullptr;
    if (size == 0) return true;
    if (place == 0) return optional || d_.Bad(what);
    if (place > words_.size() || size > (words_.size() - place + 1) * 8) return d_.Bad(what);
    // Rows may share what lies here, and the driver looks at it for each of them.
    if (!d_.Charge((size + 7) / 8)) return false;
    *out = words_.data() + place - 1;
    return true;
  }
  bool String(uint64_t place, bool optional, const char** out, const char* what) const {
    *out = nullptr;
    if (place == 0) return optional || d_.Bad(what);
    if (place > words_.size()) return d_.Bad(what);
    const void* text = words_.data() + place - 1;
    *out = static_cast<const char*>(text);
    return memchr(text, 0, (words_.size() - place + 1) * 8) != nullptr || d_.Bad(what);
  }
  template <typename T>
  bool Enums(uint64_t place, uint64_t count, bool optional, const T** out, const char* what) const {
    if (!InPlace(place, count, optional, out, what)) return false;
    return d_.CheckAll(*out, count, [&](const T& e) { return ValidEnum<T>(RawEnum(e)) || d_.Bad(what); });
  }
  template <typename T>
  bool Flags(uint64_t place, uint64_t count, bool optional, T mask, const T** out, const char* what) const {
    if (!InPlace(place, count, optional, out, what)) return false;
    return d_.CheckAll(*out, count, [&](const T& e) { return (e & ~mask) == 0 || d_.Bad(what); });
  }
  template <typename T>
  bool Handles(uint64_t place, uint64_t count, bool optional, bool elem_optional, const T** out,
               const char* what) const {
    const uint64_t* ids = nullptr;
    *out = nullptr;
    if (!InPlace(place, count, optional, &ids, what)) return false;
    if (ids == nullptr) return true;
    if (!d_.Charge(count)) return false;
    T* handles = d_.NewArray<T>(count);
    if (handles == nullptr) return false;
    for (uint64_t i = 0; i < count; i++) {
      if (!d_.Handle(ids[i], elem_optional, &handles[i], what)) return false;
    }
    *out = handles;
    return true;
  }
  // Structures that are copied, because what they hold is replaced: `fix` does that to each.
  template <typename T, typename F>
  bool Copied(uint64_t place, uint64_t count, bool optional, const T** out, const char* what, F fix) const {
    const T* from = nullptr;
    *out = nullptr;
    if (!InPlace(place, count, optional, &from, what)) return false;
    return from == nullptr || d_.CopyFixed(from, count, out, fix);
  }
  // Command buffers that were checked by Handles: recorded to the end, of that level.
  bool Executable(uint64_t place, uint64_t count, VkCommandBufferLevel level, const char* what) const {
    const uint64_t* ids = nullptr;
    if (!InPlace(place, count, true, &ids, what)) return false;
    for (uint64_t i = 0; ids != nullptr && i < count; i++) {
      if (!d_.IsExecutable(ids[i], level)) return d_.Bad(what);
    }
    return true;
  }
  // The pointer that an image holds is a place until it is replaced.
  template <typename T>
  static uint64_t PlaceOf(const T* pointer) {
    return HandleValue(pointer);
  }
  // The sType at a place.
  bool TypeAt(uint64_t place, int32_t* type, const char* what) const {
    const void* bytes = nullptr;
    if (!Bytes(place, 8, false, &bytes, what)) return false;
    memcpy(type, bytes, sizeof(*type));
    return true;
  }

 private:
  Decoder& d_;
  const absl::Span<const uint64_t> words_;
};

// Generated (flatbuf/vk/exec_stream.cc). TakeBegin: the VkCommandBufferBeginInfo at a place.
bool TakeBegin(Decoder& d, const Pool& pool, uint64_t place, const VkCommandBufferBeginInfo** out);
bool ReplayCommands(Decoder& d, StreamView& in, const Pool& pool, VkCommandBuffer cb);

}  // namespace sluice::exec

#endif  // SLUICE_GPU_DOMAIN_EXEC_REPLAY_H_
