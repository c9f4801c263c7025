// A guest's first picture and first fence, without a VM: a driver's requests go in through virtqueues, a worker answers
// on the service channel, a picture comes out.
#include <cstdio>
#include <cstring>

#include "devices/gpu-front/testing/gpu_driver.h"

namespace sluice::gpu_front {
namespace {

int Main() {
  testing::GpuDriver gpu({.domain = true});

  // 2D: a red 64x64 picture out of guest RAM.
  std::vector<uint8_t> pixels;
  for (int i = 0; i < 64 * 64; ++i) testing::Append(&pixels, uint32_t{0xffff0000});  // B8G8R8A8, little-endian
  if (!gpu.ram().CopyTo(memory::GuestAddress(testing::GpuDriver::kPages), pixels).ok()) return 1;
  if (!gpu.Create2d(1, 64, 64) || !gpu.Attach(1, {{testing::GpuDriver::kPages, 64 * 64 * 4, 0}})) return 1;
  gpu.Run(CommandType::kTransferToHost2d, TransferToHost2d{{0, 0, 64, 64}, 0, 1, 0});
  gpu.Run(CommandType::kSetScanout, SetScanout{{0, 0, 64, 64}, 0, 1});
  gpu.Run(CommandType::kResourceFlush, ResourceFlush{{0, 0, 64, 64}, 1, 0});
  const absl::StatusOr<ScanoutImage> image = gpu.device().SnapshotScanout(0);
  if (!image.ok()) return 1;
  std::printf("scanout 0: %u x %u, %llu frame(s)\n", image->width, image->height,
              static_cast<unsigned long long>(image->frames));

  // 3D: a context, memory of the GPU Domain in the guest's window, a fence that the worker signals.
  if (!gpu.CreateContext(1) || !gpu.CreateMappedBlob(1, 2, wire::BlobKind::kMemory, 1 << 20, 0)) return 1;
  std::printf("blob 2: %llu bytes at window offset 0\n", static_cast<unsigned long long>(gpu.window().at(0)->size()));
  const uint64_t submit = gpu.SendSubmit(1, /*fence=*/42, /*ring=*/1);
  std::printf("fence 42 before the worker signals: %s\n", gpu.Poll(submit).has_value() ? "complete" : "pending");
  const auto asked = gpu.NextSubmit();
  if (asked == nullptr) return 1;
  gpu.domain().SayFenceSignaled(asked->context, asked->ring_idx, asked->fence_id);
  const auto reply = gpu.Poll(submit);
  std::printf("fence %llu after: %s\n",
              reply.has_value() ? static_cast<unsigned long long>(reply->header.fence_id) : 0ull,
              reply.has_value() ? "complete" : "pending");
  return reply.has_value() && image->width == 64 ? 0 : 1;
}

}  // namespace
}  // namespace sluice::gpu_front

int main() {
  return sluice::gpu_front::Main();
}
