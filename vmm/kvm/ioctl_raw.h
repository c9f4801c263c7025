// File: ioctl_raw.h
//
// Private to vmm/kvm: the three places that call ioctl(2) on KVM descriptors. The request is a template parameter, so
// that the size which it encodes is checked against the object that the kernel will read or write, when this is
// compiled.
//
//   kvm_regs regs;
//   if (KvmIoctl<KVM_GET_REGS>(fd, &regs) < 0) return ErrnoToStatus(errno, "KVM_GET_REGS");
#ifndef SLUICE_VMM_KVM_IOCTL_RAW_H_
#define SLUICE_VMM_KVM_IOCTL_RAW_H_

#include <sys/ioctl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "vmm/kvm/abi.h"

namespace sluice::kvm::internal {

// A request with a fixed-size argument.
template <unsigned long kRequest, typename T>
int KvmIoctl(int fd, T* argument) {
  static_assert(_IOC_SIZE(kRequest) == sizeof(T), "the request is for another type");
  // SAFETY: the kernel accesses _IOC_SIZE(kRequest) bytes at `argument`, which is one whole T (asserted above).
  return ioctl(fd, kRequest, argument);
}

// A request whose argument is a number (made with _IO: no size).
template <unsigned long kRequest>
int KvmIoctlValue(int fd, unsigned long value) {
  static_assert(_IOC_SIZE(kRequest) == 0, "the request takes a pointer");
  // SAFETY: no memory is passed.
  return ioctl(fd, kRequest, value);
}

// A Header and `capacity` Entries behind it in memory, zeroed: KVM's flexible-array structures.
template <typename Header, typename Entry>
class FlexBuffer {
 public:
  explicit FlexBuffer(size_t capacity)
      : words_((sizeof(Header) + capacity * sizeof(Entry) + sizeof(uint64_t) - 1) / sizeof(uint64_t)),
        capacity_(capacity) {
    static_assert(sizeof(Header) % alignof(Entry) == 0 && alignof(Entry) <= alignof(uint64_t));
  }
  Header* header() {
    // SAFETY: words_ holds a Header first (size by construction), aligned as uint64_t; both are plain kernel
    // structures.
    return reinterpret_cast<Header*>(words_.data());
  }
  absl::Span<Entry> entries() {
    // SAFETY: capacity_ Entries follow the Header within words_ (size by construction), aligned (asserted above).
    return absl::Span<Entry>(reinterpret_cast<Entry*>(header() + 1), capacity_);
  }

 private:
  std::vector<uint64_t> words_;
  size_t capacity_;
};

// A request whose argument is a flexible-array structure; its header's count must not exceed the buffer's capacity.
template <unsigned long kRequest, typename Header, typename Entry>
int KvmIoctlFlex(int fd, FlexBuffer<Header, Entry>& buffer) {
  static_assert(_IOC_SIZE(kRequest) == sizeof(Header), "the request is for another type");
  // SAFETY: the kernel accesses the Header and as many Entries as its count says; callers set the count to the capacity
  // or less.
  return ioctl(fd, kRequest, buffer.header());
}

}  // namespace sluice::kvm::internal

#endif  // SLUICE_VMM_KVM_IOCTL_RAW_H_
