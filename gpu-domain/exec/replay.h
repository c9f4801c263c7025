// File: replay.h
//
// The toolbox of generated stream replay: one cursor per kind of command, and the byte pool that rows point into.
#ifndef SLUICE_GPU_DOMAIN_EXEC_REPLAY_H_
#define SLUICE_GPU_DOMAIN_EXEC_REPLAY_H_

#include <cstdint>

#include "flatbuf/vk/vulkan_generated.h"
#include "gpu-domain/exec/decoder.h"

namespace sluice::exec {

// The rows of one kind of command, in order.
template <typename Row>
class Column {
 public:
  template <typename W>
  explicit Column(const flatbuffers::Vector<const W*>* v) {
    static_assert(sizeof(W) == sizeof(Row));
    if (v == nullptr || !ElementsAligned(v)) return;  // then there is no row for its orders
    rows_ = BytesAs<Row>(v->Data());
    left_ = v->size();
  }
  // The next row, or null when there is none left.
  const Row* Next() {
    if (left_ == 0) return nullptr;
    left_--;
    return rows_++;
  }
  bool AtEnd() const { return left_ == 0; }

 private:
  const Row* rows_ = nullptr;
  uint32_t left_ = 0;
};

// Payloads of a stream. `at` counts 8-byte words. Every array is bounds-checked; a count of 0 gives null.
class Pool {
 public:
  Pool(Decoder& d, const flatbuffers::Vector<uint64_t>* words)
      : d_(d), words_(words != nullptr && ElementsAligned(words) ? words : nullptr) {}

  template <typename T>
  bool InPlace(uint32_t at, uint64_t count, const T** out, const char* what) const {
    const void* bytes = nullptr;
    if (count > UINT32_MAX || !Bytes(at, count * sizeof(T), &bytes, what)) return d_.Bad(what);
    *out = BytesAs<T>(bytes);
    return true;
  }
  bool Bytes(uint32_t at, uint64_t size, const void** out, const char* what) const {
    if (size == 0) return true;
    const uint64_t words = words_ == nullptr ? 0 : words_->size();
    if (at >= words || size > (words - at) * 8) return d_.Bad(what);
    *out = words_->Data() + uint64_t{at} * 8;
    return true;
  }
  template <typename T>
  bool Handles(uint32_t at, uint64_t count, bool elem_optional, const T** out, const char* what) const {
    const uint64_t* ids = nullptr;
    if (!InPlace(at, count, &ids, what)) return false;
    if (count == 0) return true;
    if (!d_.Charge(count)) return false;
    T* handles = d_.NewArray<T>(count);
    if (handles == nullptr) return false;
    for (uint64_t i = 0; i < count; i++) {
      if (!d_.Handle(ids[i], elem_optional, &handles[i], what)) return false;
    }
    *out = handles;
    return true;
  }
  template <typename T, typename F>
  bool Fixed(uint32_t at, uint64_t count, const T** out, const char* what, F fix) const {
    const T* from = nullptr;
    if (!InPlace(at, count, &from, what)) return false;
    return count == 0 || d_.CopyFixed(from, count, out, fix);
  }
  bool Executable(uint32_t at, uint64_t count, VkCommandBufferLevel level, const char* what) const {
    const uint64_t* ids = nullptr;
    if (!InPlace(at, count, &ids, what)) return false;
    for (uint64_t i = 0; i < count; i++) {
      if (!d_.IsExecutable(ids[i], level)) return d_.Bad(what);
    }
    return true;
  }

 private:
  Decoder& d_;
  const flatbuffers::Vector<uint64_t>* const words_;
};

// Generated (flatbuf/vk/exec_stream.cc).
bool ReplayCommands(Decoder& d, const vk::CommandStream& in, VkCommandBuffer cb);

}  // namespace sluice::exec

#endif  // SLUICE_GPU_DOMAIN_EXEC_REPLAY_H_
