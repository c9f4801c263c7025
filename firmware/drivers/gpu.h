// File: gpu.h
//
// Driver of the virtio-gpu device: commands on the control queue, in order or many at once, their completion by
// interrupt.
//
//   Gpu gpu;
//   if (!gpu.Open()) Fail(ExitCode::kNoDevice, "no virtio-gpu device");
//   gpu.Create2d(1, gpu::kFormatR8G8B8A8, 256, 256);
//   ...
//   Ticket ticket = gpu.SubmitFenced(context, /*ring_idx=*/0, &kick, sizeof(kick));    // does not wait
//   gpu.Wait(ticket, NowNs() + 1'000'000'000);                                          // sleeps until it is done
//   if (gpu.Take(ticket) != GpuResult::kOk) ...
//
// Waiting sleeps in hlt after a few microseconds of polling. A device that does not answer within the timeout, or says
// NEEDS_RESET, is dead: from then on every command fails with kDead at once.
#ifndef SLUICE_FIRMWARE_DRIVERS_GPU_H_
#define SLUICE_FIRMWARE_DRIVERS_GPU_H_

#include <stddef.h>
#include <stdint.h>

#include "firmware/drivers/gpu_protocol.h"
#include "firmware/drivers/ranges.h"
#include "firmware/drivers/virtio_pci.h"
#include "firmware/drivers/virtqueue.h"
#include "flatbuf/wire.h"

namespace sluice::firmware {

// A response's type (VIRTIO_GPU_RESP_*), or one of ours.
enum class GpuResult : uint32_t {
  kOk = 0,  // any of the 0x11xx responses
  kErrUnspec = 0x1200,
  kErrOutOfMemory = 0x1201,
  kErrInvalidScanoutId = 0x1202,
  kErrInvalidResourceId = 0x1203,
  kErrInvalidContextId = 0x1204,
  kErrInvalidParameter = 0x1205,
  kDead = 1,     // the device does not answer any more
  kTooBig = 2,   // a request that the driver cannot send
  kGarbage = 3,  // the response is none
};
const char* GpuResultName(GpuResult result);

// A command on its way; 0 is none.
using Ticket = uint32_t;

struct GpuOptions {
  uint16_t queue_size = 64;
  uint64_t features = gpu::kFeatureVirgl | gpu::kFeatureEdid | gpu::kFeatureResourceBlob | gpu::kFeatureContextInit |
                      kVirtioFeatureIndirect | kVirtioFeatureEventIdx;
  // Until a command that is waited for counts as lost: longer than the device itself gives a worker to come up.
  uint64_t timeout_ns = 150'000'000'000;
  uint64_t reset_timeout_ns = 10'000'000'000;  // until a device that does not reset counts as none
};

class Gpu {
 public:
  static constexpr uint32_t kMaxInFlight = 32;
  static constexpr size_t kMaxRequestBytes = 256;    // without payload
  static constexpr size_t kMaxResponseBytes = 1088;  // the EDID's
  static constexpr size_t kMaxPayloadBytes = 1 << 20;

  Gpu() = default;
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Finds the device, resets it and brings it up. False: there is none, or it refuses.
  bool Open(const GpuOptions& options = {});
  uint64_t features() const { return features_; }
  bool dead() const { return dead_; }
  VirtioPci& pci() { return pci_; }

  // --- Commands in general (gpu.cc)

  // Starts a command: `request` (header first, at most kMaxRequestBytes) and `payload` are copied. Sleeps while
  // kMaxInFlight are on their way. 0: the device is dead or the request too big.
  Ticket Start(const void* request, size_t request_bytes, const void* payload = nullptr, size_t payload_bytes = 0);
  bool Finished(Ticket ticket);
  // Sleeps until the command is finished; false at `deadline_ns` (clock.h) or when the device died.
  bool Wait(Ticket ticket, uint64_t deadline_ns);
  // Ends a ticket: finished ones give their result and response (up to `bytes`, the rest of it zero). One that is not
  // finished is given up; its buffers come back when the device is done with it.
  GpuResult Take(Ticket ticket, void* response = nullptr, size_t bytes = 0);
  // Start, Wait, Take.
  GpuResult Execute(const void* request, size_t request_bytes, void* response = nullptr, size_t response_bytes = 0,
                    const void* payload = nullptr, size_t payload_bytes = 0);
  // Commands that were sent, and interrupts that came.
  uint64_t commands() const { return commands_; }
  uint64_t interrupts() const { return *interrupt_count_; }

  // --- Pictures (gpu_2d.cc). Rectangles in pixels.

  GpuResult GetDisplaySize(uint32_t scanout, uint32_t* width, uint32_t* height);
  GpuResult Create2d(uint32_t resource, uint32_t format, uint32_t width, uint32_t height);
  // Guest memory behind a resource; stays the caller's until DetachBacking or Unref.
  GpuResult AttachBacking(uint32_t resource, const void* memory, uint32_t bytes);
  GpuResult DetachBacking(uint32_t resource);
  GpuResult TransferToHost2d(uint32_t resource, const gpu::Rect& rect, uint64_t offset);
  // resource 0: the scanout shows nothing.
  GpuResult SetScanout(uint32_t scanout, uint32_t resource, const gpu::Rect& rect);
  GpuResult Flush(uint32_t resource, const gpu::Rect& rect);
  GpuResult Unref(uint32_t resource);

  // --- Contexts, blobs and submits (gpu_3d.cc)

  // Our capability set; false: the device has none (no GPU Domain behind it) or it is of another protocol version.
  bool GetCapset(wire::Capset* capset);
  GpuResult CreateContext(uint32_t context, const char* name);
  GpuResult DestroyContext(uint32_t context);
  // A HOST3D blob of `bytes` (whole pages), attached to the context.
  GpuResult CreateBlob(uint32_t context, uint32_t resource, uint64_t blob_id, uint64_t bytes);
  // Maps a blob of `bytes` at a free place of the window. *pointer is valid until UnmapBlob.
  GpuResult MapBlob(uint32_t resource, uint64_t bytes, void** pointer);
  GpuResult UnmapBlob(uint32_t resource, void* pointer, uint64_t bytes);
  GpuResult DetachResource(uint32_t context, uint32_t resource);
  // SUBMIT_3D with a fence on timeline `ring_idx`: the ticket is finished when the fence is signaled.
  Ticket SubmitFenced(uint32_t context, uint8_t ring_idx, const void* payload, size_t bytes);
  // SUBMIT_3D without one.
  Ticket Submit(uint32_t context, const void* payload, size_t bytes);
  uint64_t window_bytes() const { return window_region_.bytes; }
  uint64_t window_address() const { return window_region_.address; }
  // A resource id that nobody has been given yet.
  uint32_t NewResourceId() { return next_resource_++; }

 private:
  enum class SlotState : uint8_t { kFree, kSent, kFinished };
  struct Slot {
    alignas(16) uint8_t request[kMaxRequestBytes];
    alignas(16) uint8_t response[kMaxResponseBytes];
    void* payload = nullptr;
    uint32_t response_bytes = 0;
    uint16_t head = 0;
    uint16_t generation = 0;
    SlotState state = SlotState::kFree;
    bool abandoned = false;
  };

  void Poll();
  Slot* Find(Ticket ticket);
  void Release(Slot* slot);
  Slot* FreeSlot();
  GpuResult Simple(uint32_t type, uint32_t resource, uint32_t context = 0);

  VirtioPci pci_;
  Virtqueue* control_ = nullptr;
  Slot* slots_ = nullptr;
  const volatile uint64_t* interrupt_count_ = nullptr;
  const volatile uint64_t* config_count_ = nullptr;
  uint64_t config_seen_ = 0;
  uint64_t features_ = 0;
  uint64_t timeout_ns_ = 0;
  uint64_t commands_ = 0;
  uint64_t next_fence_ = 1;
  uint32_t next_resource_ = 1;
  bool dead_ = false;
  SharedRegion window_region_;
  RangeAllocator window_;
};

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_DRIVERS_GPU_H_
