// File: window.h
//
// The host-visible window over KVM: blobs are memslots that own their mappings, doorbells are ioeventfds without memory
// behind them, and both follow the BAR when the guest moves it. What is not mapped is nobody's memory: reads exit and
// the device answers all-ones.
#ifndef SLUICE_VMM_MACHINE_WINDOW_H_
#define SLUICE_VMM_MACHINE_WINDOW_H_

#include <memory>
#include <optional>

#include "absl/container/btree_map.h"
#include "devices/gpu-front/window.h"
#include "vmm/base/mutex.h"
#include "vmm/kvm/vm.h"

namespace sluice::machine {

// Thread-safe: the device maps on the loop thread, the BAR moves on a vCPU thread. `mu_` covers all and is taken after
// the PCI device's lock.
class KvmWindow final : public gpu_front::HostVisibleWindow {
 public:
  // `vm` outlives it.
  KvmWindow(const kvm::Vm* vm, uint64_t size) : vm_(vm), size_(size) {}

  // Where the window is decoded from now on; nullopt: nowhere. What the guest put over RAM or elsewhere impossible
  // stays hidden.
  void SetBase(std::optional<memory::GuestAddress> base);

  uint64_t size() const override { return size_; }
  absl::Status Map(uint64_t offset, std::shared_ptr<const Mapping> mapping) override;
  absl::Status MapDoorbell(uint64_t offset, int event_fd) override;
  void Unmap(uint64_t offset) override;

 private:
  struct Entry {
    std::shared_ptr<const Mapping> mapping;  // null: a doorbell
    UniqueFd event_fd;
    std::optional<kvm::MemSlot> slot;
    kvm::IoEvent doorbell;
  };
  absl::Status Show(uint64_t offset, Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Hide(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const kvm::Vm* const vm_;
  const uint64_t size_;
  Mutex mu_;
  std::optional<memory::GuestAddress> base_ ABSL_GUARDED_BY(mu_);
  absl::btree_map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice::machine

#endif  // SLUICE_VMM_MACHINE_WINDOW_H_
