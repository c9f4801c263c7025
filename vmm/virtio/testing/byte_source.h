// File: byte_source.h
//
// Takes numbers from a fuzzer's input, front to back; zeros once it is used up.
//
//   ByteSource in(data, size);
//   while (!in.empty()) switch (in.Byte() % 3) { case 0: Poke(in.U16(), in.U64()); ... }
#ifndef SLUICE_VMM_VIRTIO_TESTING_BYTE_SOURCE_H_
#define SLUICE_VMM_VIRTIO_TESTING_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::virtio::testing {

class ByteSource {
 public:
  ByteSource(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ == size_; }
  uint8_t Byte() { return at_ < size_ ? data_[at_++] : 0; }
  uint16_t U16() { return static_cast<uint16_t>(Take(2)); }
  uint32_t U32() { return static_cast<uint32_t>(Take(4)); }
  uint64_t U64() { return Take(8); }
  // Little-endian, `bytes` is 1 .. 8.
  uint64_t Take(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= uint64_t{Byte()} << (8 * i);
    return value;
  }
  std::vector<uint8_t> Bytes(size_t count) {
    std::vector<uint8_t> result(count);
    for (uint8_t& b : result) b = Byte();
    return result;
  }

 private:
  const uint8_t* const data_;
  const size_t size_;
  size_t at_ = 0;
};

}  // namespace sluice::virtio::testing

#endif  // SLUICE_VMM_VIRTIO_TESTING_BYTE_SOURCE_H_
