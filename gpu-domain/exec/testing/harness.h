// File: harness.h
//
// Guest and worker in one process over one in-memory ring, without threads: whenever the guest would wait, the worker's
// half runs. For tests, benchmarks and fuzzers of the executor; the real worker is gpu-domain/worker.
//
//   Harness harness;                      // the Vulkan entry points of flatbuf/guest now talk to it
//   vkCreateInstance(&info, nullptr, &instance);
//   EXPECT_TRUE(harness.status().ok());
#ifndef SLUICE_GPU_DOMAIN_EXEC_TESTING_HARNESS_H_
#define SLUICE_GPU_DOMAIN_EXEC_TESTING_HARNESS_H_

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "flatbuf/guest/channel.h"
#include "gpu-domain/exec/context.h"
#include "vmm/base/mapping.h"

namespace sluice::exec::testing {

// DriverPolicy with what a worker adds: host-visible memory imported from shared "blobs", fence slots, live object
// counts.
class HarnessPolicy : public DriverPolicy {
 public:
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr() override {
    return driver != nullptr ? driver : DriverPolicy::GetInstanceProcAddr();
  }
  VkResult vkCreateDevice(Call&, VkPhysicalDevice, const VkDeviceCreateInfo*, const VkAllocationCallbacks*,
                          VkDevice*) override;
  void vkDestroyDevice(Call&, VkDevice, const VkAllocationCallbacks*) override;
  VkResult vkQueueSubmit(Call&, VkQueue, uint32_t, const VkSubmitInfo*, uint32_t slot, uint64_t batch) override;
  VkResult vkQueueSubmit2(Call&, VkQueue, uint32_t, const VkSubmitInfo2*, uint32_t slot, uint64_t batch) override;
  VkResult vkAllocateMemory(Call&, VkDevice, const VkMemoryAllocateInfo*, const VkAllocationCallbacks*, VkDeviceMemory*,
                            uint32_t resource_id, uint64_t resource_offset) override;
  void vkFreeMemory(Call&, VkDevice, VkDeviceMemory, const VkAllocationCallbacks*) override;
  VkResult vkCreateBuffer(Call&, VkDevice, const VkBufferCreateInfo*, const VkAllocationCallbacks*, VkBuffer*) override;
  VkResult vkCreateImage(Call&, VkDevice, const VkImageCreateInfo*, const VkAllocationCallbacks*, VkImage*) override;

  PFN_vkGetInstanceProcAddr driver = nullptr;  // null: the one of this machine
  std::map<uint32_t, Mapping> blobs;           // by resource id
  volatile uint64_t* slots = nullptr;
  uint64_t slot_count = 0;
  uint64_t memory_limit = 256ull << 20;  // refuses larger allocations: fuzzers ask for anything
  int devices = 0;                       // alive
  int memories = 0;
  int buffers_made = 0;
  int images_made = 0;
  VkResult next_buffer = VK_SUCCESS;  // the same for vkCreateBuffer
  VkResult next_submit = VK_SUCCESS;  // what the next vkQueueSubmit answers, if not success
};

class Harness final : public guest::Platform, public ReplySink {
 public:
  explicit Harness(const ContextOptions& options = {}, uint64_t ring_bytes = 1 << 20);
  ~Harness() override;

  // The context's state: the first error of Execute sticks.
  const absl::Status& status() const { return status_; }
  guest::GuestChannel& channel() { return channel_; }
  Context& context() { return *context_; }
  HarnessPolicy& policy() { return policy_; }
  // Runs everything that lies in the ring.
  void Pump();
  // Executes one frame as the worker would, past the guest's encoders.
  absl::Status ExecuteRaw(uint16_t opcode, uint16_t flags, absl::Span<const uint8_t> payload);
  // Ends the context; all driver objects are gone afterwards.
  void DestroyContext() { context_.reset(); }
  // Messages executed, in order (when `keep` is set).
  struct Message {
    uint16_t opcode;
    uint16_t flags;
    std::vector<uint8_t> payload;
  };
  std::vector<Message> messages;
  bool keep = false;
  int doorbells = 0;
  // Whether this machine has a Vulkan driver at all.
  static bool HaveDriver();

  // guest::Platform
  void RingDoorbell() override;
  void WaitForPosition(uint64_t) override { Pump(); }
  void WaitTimeline(uint32_t, uint64_t, uint64_t) override { Pump(); }
  bool AllocateSharedMemory(uint64_t size, guest::SharedMemory* out) override;
  void FreeSharedMemory(const guest::SharedMemory& memory) override;
  void Yield() override { Pump(); }
  // ReplySink
  absl::Status Reply(uint16_t opcode, uint64_t sequence, absl::Span<const uint8_t> payload) override;

 private:
  absl::Status Consume();

  Mapping ring_;
  HarnessPolicy policy_;
  std::unique_ptr<Context> context_;
  wire::RingHeader* header_ = nullptr;
  wire::RingConsumer consumer_;
  wire::RingProducer reply_producer_;
  std::vector<uint64_t> message_;  // uint64_t for alignment; reserve keeps it 16-aligned through the allocator
  size_t message_bytes_ = 0;
  uint32_t next_resource_ = 1;
  absl::Status status_;
  guest::GuestChannel channel_;
};

}  // namespace sluice::exec::testing

#endif  // SLUICE_GPU_DOMAIN_EXEC_TESTING_HARNESS_H_
