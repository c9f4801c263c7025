// File: stats.h
//
// Counters in shared memory, one page per writer: written by a worker or a VM process, read by the supervisor at any
// time. Plain monotonic counters unless a comment says gauge. Readers treat the values as untrusted numbers.
#ifndef SLUICE_FLATBUF_STATS_H_
#define SLUICE_FLATBUF_STATS_H_

#include <stdint.h>

#include <atomic>

namespace sluice::wire {

struct WorkerStats {
  std::atomic<uint64_t> commands;   // Vulkan commands executed, those inside command streams included
  std::atomic<uint64_t> frames;     // ring frames consumed
  std::atomic<uint64_t> bytes_in;   // ring bytes consumed
  std::atomic<uint64_t> bytes_out;  // reply bytes produced
  std::atomic<uint64_t> fences;     // virtio-gpu fences signaled
  std::atomic<uint64_t> submits;    // vkQueueSubmit calls
  std::atomic<uint64_t> doorbells;  // wake-ups of a sleeping consumer
  std::atomic<uint64_t> contexts;   // gauge: alive
  std::atomic<uint64_t> contexts_total;
  std::atomic<uint64_t> contexts_lost;
  std::atomic<uint64_t> objects;          // gauge: Vulkan objects alive
  std::atomic<uint64_t> memory_bytes;     // gauge: device memory and blobs held
  std::atomic<uint64_t> memory_refusals;  // allocations refused by the quota
  std::atomic<uint64_t> capture_failed;   // 1: the capture could not be written and ends early
  std::atomic<uint64_t> gpu_ns;           // time between submission and completion, summed
};

struct VmStats {
  std::atomic<uint64_t> exits_io;
  std::atomic<uint64_t> exits_mmio;
  std::atomic<uint64_t> exits_hlt;
  std::atomic<uint64_t> exits_other;
  std::atomic<uint64_t> queue_notifies;  // virtqueue notifications handled
  std::atomic<uint64_t> gpu_commands;    // virtio-gpu control commands
  std::atomic<uint64_t> gpu_errors;      // answered with an error
  std::atomic<uint64_t> frames;          // RESOURCE_FLUSH of a scanout resource: pictures shown
  std::atomic<uint64_t> fences;          // fenced commands completed
  std::atomic<uint64_t> interrupts;      // MSI-X signals sent
  std::atomic<uint64_t> first_instruction_ns;
};

}  // namespace sluice::wire

#endif  // SLUICE_FLATBUF_STATS_H_
