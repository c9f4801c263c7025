// File: vulkan_context.h
//
// Vulkan for a guest without an operating system: opens one virtio-gpu context with ring and doorbell, and is the
// platform (flatbuf/guest/platform.h) under the vk* entry points that the guest then calls like any Vulkan program.
//
//   Gpu gpu;
//   VulkanContext vulkan(&gpu);
//   if (!gpu.Open() || !vulkan.Open({.name = "triangle"})) Fail(ExitCode::kNoDevice, "%s", vulkan.error());
//   vkCreateInstance(...);
//
// Waiting is sleeping: a fenced SUBMIT_3D is sent and its completion interrupt awaited in hlt.
#ifndef SLUICE_FIRMWARE_VULKAN_VULKAN_CONTEXT_H_
#define SLUICE_FIRMWARE_VULKAN_VULKAN_CONTEXT_H_

#include <stdint.h>

#include "firmware/drivers/gpu.h"
#include "flatbuf/guest/channel.h"
#include "flatbuf/guest/platform.h"
#include "flatbuf/wire.h"

namespace sluice::firmware {

struct VulkanContextOptions {
  const char* name = "guest";  // for the host's logs
  uint32_t context = 1;        // virtio-gpu context id, chosen by the guest
  uint32_t ring_bytes = 4 << 20;
};

class VulkanContext final : public guest::Platform {
 public:
  // `gpu` outlives the context and was opened before Open.
  explicit VulkanContext(Gpu* gpu) : gpu_(gpu) {}
  ~VulkanContext();
  VulkanContext(const VulkanContext&) = delete;
  VulkanContext& operator=(const VulkanContext&) = delete;

  // Makes the context and the channel, and makes it the program's current one. False: error() says what failed.
  bool Open(const VulkanContextOptions& options);
  // Destroys the context on the device. Vulkan calls fail from here on.
  void Close();

  const char* error() const { return error_; }
  const wire::Capset& capset() const { return capset_; }
  guest::GuestChannel& channel() { return channel_; }
  wire::RingHeader* ring_header() { return static_cast<wire::RingHeader*>(ring_); }
  uint32_t context() const { return context_; }
  // Writes to the doorbell page, and fenced submits, so far.
  uint64_t doorbells() const { return doorbells_; }
  uint64_t waits() const { return waits_; }

  // A fenced kick on `timeline`: finished when the ring has been executed up to `position` (timeline 0), or all work
  // submitted by then to the queue bound to the timeline is done.
  Ticket Fence(uint32_t timeline, uint64_t position);

  // --- guest::Platform

  void RingDoorbell() override;
  void WaitForPosition(uint64_t position) override;
  void WaitTimeline(uint32_t timeline, uint64_t position, uint64_t timeout_ns) override;
  bool AllocateSharedMemory(uint64_t size, guest::SharedMemory* out) override;
  void FreeSharedMemory(const guest::SharedMemory& memory) override;
  void Yield() override;
  uint64_t NowNs() override;

 private:
  bool FailWith(const char* what, GpuResult result);

  Gpu* gpu_;
  wire::Capset capset_ = {};
  guest::GuestChannel channel_;
  const char* error_ = "not opened";
  char error_text_[96];
  uint32_t context_ = 0;  // 0: not open
  uint32_t ring_resource_ = 0, doorbell_resource_ = 0;
  uint64_t ring_bytes_ = 0;
  void* ring_ = nullptr;
  void* doorbell_ = nullptr;
  uint64_t next_memory_ = 1;
  uint64_t doorbells_ = 0, waits_ = 0;
  // A wait that ended early leaves its fence behind; the next one for the same or an earlier position uses it.
  struct Pending {
    Ticket ticket = 0;
    uint64_t position = 0;
  };
  Pending pending_[wire::kMaxTimelines];
};

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_VULKAN_VULKAN_CONTEXT_H_
