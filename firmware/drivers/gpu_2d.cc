// Pictures: resources with guest memory behind them, and scanouts.
#include "firmware/drivers/gpu.h"

namespace sluice::firmware {

GpuResult Gpu::GetDisplaySize(uint32_t scanout, uint32_t* width, uint32_t* height) {
  *width = 0;
  *height = 0;
  const gpu::Header request = {.type = gpu::kGetDisplayInfo};
  gpu::DisplayInfoResponse response;
  const GpuResult result = Execute(&request, sizeof(request), &response, sizeof(response));
  if (result != GpuResult::kOk || scanout >= 16 || response.modes[scanout].enabled == 0) return result;
  *width = response.modes[scanout].rect.width;
  *height = response.modes[scanout].rect.height;
  return result;
}

GpuResult Gpu::Create2d(uint32_t resource, uint32_t format, uint32_t width, uint32_t height) {
  const gpu::Create2dRequest request = {{.type = gpu::kResourceCreate2d}, resource, format, width, height};
  return Execute(&request, sizeof(request));
}

GpuResult Gpu::AttachBacking(uint32_t resource, const void* memory, uint32_t bytes) {
  // Physical is virtual, so any buffer is one piece.
  const gpu::AttachBackingRequest request = {
      {.type = gpu::kResourceAttachBacking}, resource, 1, {reinterpret_cast<uint64_t>(memory), bytes, 0}};
  return Execute(&request, sizeof(request));
}

GpuResult Gpu::DetachBacking(uint32_t resource) {
  return Simple(gpu::kResourceDetachBacking, resource);
}

GpuResult Gpu::TransferToHost2d(uint32_t resource, const gpu::Rect& rect, uint64_t offset) {
  const gpu::Transfer2dRequest request = {{.type = gpu::kTransferToHost2d}, rect, offset, resource, 0};
  return Execute(&request, sizeof(request));
}

GpuResult Gpu::SetScanout(uint32_t scanout, uint32_t resource, const gpu::Rect& rect) {
  const gpu::ScanoutRequest request = {{.type = gpu::kSetScanout}, rect, scanout, resource};
  return Execute(&request, sizeof(request));
}

GpuResult Gpu::Flush(uint32_t resource, const gpu::Rect& rect) {
  const gpu::FlushRequest request = {{.type = gpu::kResourceFlush}, rect, resource, 0};
  return Execute(&request, sizeof(request));
}

GpuResult Gpu::Unref(uint32_t resource) {
  return Simple(gpu::kResourceUnref, resource);
}

}  // namespace sluice::firmware
