// File: host_copies.h
//
// Host-visible memory of drivers that cannot import ours (no VK_EXT_external_memory_host): the guest sees a shared
// blob, the driver has memory of its own, and the two are made equal at the moments when the specification lets one
// side see what the other wrote: before a submission or a signal (host to device), and after a submission is complete,
// before anybody hears of it (device to host).
//
// Either side may write while the other's bytes are copied, each to its own parts of one allocation. So a third copy
// remembers what both last agreed on: a byte goes over only if its side has changed it since. The costs, three times
// the memory and a comparison per moment, are why importing is the rule.
//
//   HostCopies copies;
//   copies.Add(memory, blob, offset, driver_pointer, size);
//   copies.ToDevice();   vkQueueSubmit(...);   ...   copies.ToHost();   publish the completion
#ifndef SLUICE_GPU_DOMAIN_WORKER_HOST_COPIES_H_
#define SLUICE_GPU_DOMAIN_WORKER_HOST_COPIES_H_

#include <vulkan/vulkan_core.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "gpu-domain/worker/blob.h"
#include "vmm/base/mutex.h"

namespace sluice::worker {

// Thread-safe: submissions copy on the executing thread, completions on the queues'.
class HostCopies {
 public:
  // [offset, offset + size) of `blob` stands for `size` bytes at `device`, the driver's mapping, from now on; both get
  // what the blob holds. The range lies in the blob (checked by the caller).
  void Add(VkDeviceMemory memory, std::shared_ptr<Blob> blob, uint64_t offset, uint8_t* device, uint64_t size);
  // Before the driver's mapping goes. Unknown memory is ignored.
  void Remove(VkDeviceMemory memory);

  // What the guest has written goes to the driver's memory, or the other way round. Cheap when there is nothing.
  void ToDevice();
  void ToHost();

 private:
  struct Pair {
    std::shared_ptr<Blob> blob;
    uint8_t* host = nullptr;  // in the blob: the guest writes at any time
    uint8_t* device = nullptr;
    std::vector<uint8_t> agreed;
  };
  Mutex mu_;
  std::atomic<size_t> count_{0};
  absl::flat_hash_map<VkDeviceMemory, Pair> pairs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_HOST_COPIES_H_
