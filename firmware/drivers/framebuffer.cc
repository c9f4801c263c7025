#include "firmware/drivers/framebuffer.h"

#include "firmware/lib/clock.h"
#include "firmware/lib/heap.h"

namespace sluice::firmware {

Framebuffer::Framebuffer(Gpu* gpu, uint32_t width, uint32_t height)
    : gpu_(gpu), width_(width), height_(height), pixels_(static_cast<uint32_t*>(AllocateZeroed(bytes(), 4096))) {}

Framebuffer::~Framebuffer() {
  // The scanout goes on showing the last picture; the memory behind the resource is ours and must not stay attached.
  if (resource_ == 0 || gpu_->DetachBacking(resource_) == GpuResult::kOk) ::operator delete(pixels_);
}

GpuResult Framebuffer::Create(uint32_t scanout) {
  scanout_ = scanout;
  const uint32_t resource = gpu_->NewResourceId();
  GpuResult result = gpu_->Create2d(resource, gpu::kFormatR8G8B8A8, width_, height_);
  if (result != GpuResult::kOk) return result;
  resource_ = resource;
  result = gpu_->AttachBacking(resource_, pixels_, static_cast<uint32_t>(bytes()));
  if (result != GpuResult::kOk) return result;
  return gpu_->SetScanout(scanout_, resource_, {0, 0, width_, height_});
}

GpuResult Framebuffer::Show() {
  const gpu::Rect all = {0, 0, width_, height_};
  // Two commands at once: one interrupt's wait, not two.
  const gpu::Transfer2dRequest transfer = {{.type = gpu::kTransferToHost2d}, all, 0, resource_, 0};
  const gpu::FlushRequest flush = {{.type = gpu::kResourceFlush}, all, resource_, 0};
  const Ticket first = gpu_->Start(&transfer, sizeof(transfer));
  const Ticket second = gpu_->Start(&flush, sizeof(flush));
  constexpr uint64_t kTimeoutNs = 30'000'000'000;
  gpu_->Wait(second, NowNs() + kTimeoutNs);
  gpu_->Wait(first, NowNs() + kTimeoutNs);
  const GpuResult transferred = gpu_->Take(first);
  const GpuResult flushed = gpu_->Take(second);
  return transferred != GpuResult::kOk ? transferred : flushed;
}

}  // namespace sluice::firmware
