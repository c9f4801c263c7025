#include "firmware/vulkan/vulkan_context.h"

#include "firmware/lib/clock.h"
#include "firmware/lib/cpu.h"
#include "firmware/lib/serial.h"

namespace sluice::firmware {
namespace {

constexpr uint32_t kRing = 0;
constexpr uint64_t kPage = 4096;
// How long one wait may sleep before the runtime looks at the context's status again.
constexpr uint64_t kLookAgainNs = 5'000'000'000;

}  // namespace

VulkanContext::~VulkanContext() {
  Close();
}

bool VulkanContext::FailWith(const char* what, GpuResult result) {
  Format(error_text_, sizeof(error_text_), "%s: %s", what, GpuResultName(result));
  error_ = error_text_;
  return false;
}

bool VulkanContext::Open(const VulkanContextOptions& options) {
  if (!gpu_->GetCapset(&capset_)) {
    error_ = "no capability set: the device has no GPU Domain";
    return false;
  }
  GpuResult result = gpu_->CreateContext(options.context, options.name);
  if (result != GpuResult::kOk) return FailWith("context", result);
  context_ = options.context;

  ring_bytes_ = options.ring_bytes;
  ring_resource_ = gpu_->NewResourceId();
  result = gpu_->CreateBlob(context_, ring_resource_, wire::MakeBlobId(wire::BlobKind::kRing, kRing), ring_bytes_);
  if (result != GpuResult::kOk) return FailWith("ring blob", result);
  result = gpu_->MapBlob(ring_resource_, ring_bytes_, &ring_);
  if (result != GpuResult::kOk) return FailWith("mapping the ring", result);

  doorbell_resource_ = gpu_->NewResourceId();
  result = gpu_->CreateBlob(context_, doorbell_resource_, wire::MakeBlobId(wire::BlobKind::kDoorbell, kRing), kPage);
  if (result != GpuResult::kOk) return FailWith("doorbell blob", result);
  result = gpu_->MapBlob(doorbell_resource_, kPage, &doorbell_);
  if (result != GpuResult::kOk) return FailWith("mapping the doorbell", result);

  if (!channel_.Init(ring_, ring_bytes_, this)) {
    error_ = "the worker speaks another protocol version or schema";
    return false;
  }
  guest::SetChannel(&channel_);
  error_ = "none";
  return true;
}

void VulkanContext::Close() {
  if (guest::CurrentChannel() == &channel_) guest::SetChannel(nullptr);
  if (context_ == 0) return;
  for (Pending& pending : pending_) {
    if (pending.ticket != 0) gpu_->Take(pending.ticket);
    pending.ticket = 0;
  }
  if (doorbell_ != nullptr) gpu_->UnmapBlob(doorbell_resource_, doorbell_, kPage);
  if (ring_ != nullptr) gpu_->UnmapBlob(ring_resource_, ring_, ring_bytes_);
  gpu_->DestroyContext(context_);
  if (doorbell_resource_ != 0) gpu_->Unref(doorbell_resource_);
  if (ring_resource_ != 0) gpu_->Unref(ring_resource_);
  context_ = ring_resource_ = doorbell_resource_ = 0;
  ring_ = doorbell_ = nullptr;
}

Ticket VulkanContext::Fence(uint32_t timeline, uint64_t position) {
  const wire::SubmitCommand kick = {wire::kSubmitKick, kRing, position};
  waits_++;
  return gpu_->SubmitFenced(context_, static_cast<uint8_t>(timeline), &kick, sizeof(kick));
}

void VulkanContext::RingDoorbell() {
  doorbells_++;
  Mmio<uint32_t>(reinterpret_cast<uint64_t>(doorbell_)).Write(1);
}

void VulkanContext::WaitForPosition(uint64_t position) {
  WaitTimeline(0, position, kLookAgainNs);
}

void VulkanContext::WaitTimeline(uint32_t timeline, uint64_t position, uint64_t timeout_ns) {
  if (timeline >= wire::kMaxTimelines) return;
  Pending& pending = pending_[timeline];
  if (pending.ticket != 0 && pending.position < position) {
    gpu_->Take(pending.ticket);
    pending.ticket = 0;
  }
  if (pending.ticket == 0) pending = {Fence(timeline, position), position};
  const uint64_t sleep_ns = timeout_ns < kLookAgainNs ? timeout_ns : kLookAgainNs;
  if (gpu_->Wait(pending.ticket, NowNs() + sleep_ns)) {
    gpu_->Take(pending.ticket);
    pending.ticket = 0;
  }
  // A dead device says nothing to the ring; without this the runtime would wait for ever.
  if (gpu_->dead()) {
    ring_header()->status.store(static_cast<uint32_t>(wire::LostReason::kWorkerGone), std::memory_order_release);
  }
}

bool VulkanContext::AllocateSharedMemory(uint64_t size, guest::SharedMemory* out) {
  const uint64_t bytes = (size + kPage - 1) & ~(kPage - 1);
  const uint32_t resource = gpu_->NewResourceId();
  if (gpu_->CreateBlob(context_, resource, wire::MakeBlobId(wire::BlobKind::kMemory, next_memory_++), bytes) !=
      GpuResult::kOk) {
    return false;
  }
  void* pointer;
  if (gpu_->MapBlob(resource, bytes, &pointer) != GpuResult::kOk) {
    gpu_->Unref(resource);
    return false;
  }
  *out = {resource, pointer, bytes};
  return true;
}

void VulkanContext::FreeSharedMemory(const guest::SharedMemory& memory) {
  gpu_->UnmapBlob(memory.resource_id, memory.pointer, memory.size);
  gpu_->Unref(memory.resource_id);
}

void VulkanContext::Yield() {
  Pause();
}

uint64_t VulkanContext::NowNs() {
  return firmware::NowNs();
}

}  // namespace sluice::firmware
