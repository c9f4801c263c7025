// File: device.h
//
// The virtio-gpu device that a front-end VM sees (virtio 1.3 section 5.7): 2D pictures in this process; contexts,
// blobs, submits and fences routed to a GPU Domain's worker over a service channel. It never looks into Vulkan
// commands.
//
//   GpuFrontOptions options;
//   options.loop = &loop;
//   options.window = &window;                       // machine: memslots; may be null
//   options.channel = std::move(channel_socket);    // invalid: no GPU Domain, 2D only
//   options.identity = {.frontend = "web-0", .os = "linux"};
//   SLUICE_ASSIGN_OR_RETURN(auto gpu, GpuFront::Create(std::move(options)));
//   GpuFront* device = gpu.get();
//   SLUICE_ASSIGN_OR_RETURN(auto transport, virtio::PciTransport::Create(std::move(gpu), {...}));
//   ...
//   SLUICE_ASSIGN_OR_RETURN(ScanoutImage picture, device->SnapshotScanout(0));
//
// Threads: everything on the loop's thread, with two exceptions. ReadConfig and WriteConfig run on vCPU threads; what
// they touch (pending events, the number of capability sets) is atomic, there is no lock. Nothing here waits for the
// domain: requests that depend on it keep their descriptor chain and are answered when it speaks, when it dies or after
// `domain_timeout`.
#ifndef SLUICE_DEVICES_GPU_FRONT_DEVICE_H_
#define SLUICE_DEVICES_GPU_FRONT_DEVICE_H_

#include <asio/io_context.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "devices/gpu-front/channel.h"
#include "devices/gpu-front/control.h"
#include "devices/gpu-front/protocol.h"
#include "devices/gpu-front/resources.h"
#include "devices/gpu-front/scanout.h"
#include "devices/gpu-front/window.h"
#include "flatbuf/stats.h"
#include "vmm/base/unique_fd.h"
#include "vmm/virtio/device.h"

namespace sluice::gpu_front {

struct GpuFrontOptions {
  asio::io_context* loop = nullptr;     // outlives the device
  HostVisibleWindow* window = nullptr;  // outlives the device; null or size 0: no blob can be mapped
  UniqueFd channel;                     // service channel; invalid: no GPU Domain
  ChannelIdentity identity;
  uint32_t scanouts = 1;  // 1..16
  uint32_t width = 1280;  // of the display that the guest is offered, pixels, 1..4095
  uint32_t height = 800;
  Limits limits;
  wire::VmStats* stats = nullptr;  // gpu_commands, gpu_errors, frames, fences; outlives the device; null: nobody counts
  // How long the worker may take for a blob (0 < t <= 1 h); for its hello, four times that. Then it counts as dead.
  absl::Duration domain_timeout = absl::Seconds(30);
  // Called on the loop when the domain's state changes. `why` is OK for kReady.
  std::function<void(DomainState, const absl::Status& why)> on_domain_state;
};

class GpuFront final : public virtio::Device, private Responder {
 public:
  // INVALID_ARGUMENT: an option is out of range. Says hello to the worker, does not wait for its answer: a machine that
  // wants the guest to find the capability set at once starts its vCPUs when on_domain_state says kReady (a guest that
  // asks earlier is kept waiting for the answer, not refused).
  static absl::StatusOr<std::unique_ptr<GpuFront>> Create(GpuFrontOptions options);
  ~GpuFront() override;

  // --- For the machine, loop thread ---

  // A copy of what scanout `scanout` shows now; width 0 when it shows nothing. INVALID_ARGUMENT: no such scanout.
  absl::StatusOr<ScanoutImage> SnapshotScanout(uint32_t scanout) const;
  // What scanout 0 shows; if nothing, what it showed before the guest took it away or reset the device, as guests do
  // when they shut down. Width 0: there never was a picture.
  absl::StatusOr<ScanoutImage> LastPicture() const { return control_->LastPicture(); }
  const CursorState& cursor() const { return control_->cursor(); }
  DomainState domain_state() const { return control_->domain_state(); }
  // Gives a device whose domain is gone (or that never had one) a new worker. FAILED_PRECONDITION: it has one. The old
  // contexts stay lost; new ones work.
  absl::Status ConnectDomain(UniqueFd channel);
  // Changes the offered resolution and tells the driver (VIRTIO_GPU_EVENT_DISPLAY).
  absl::Status ResizeDisplay(uint32_t width, uint32_t height);

  // --- virtio::Device ---

  uint16_t device_id() const override { return kVirtioDeviceIdGpu; }
  uint32_t pci_class() const override { return 0x038000; }  // display controller, other
  uint64_t features() const override;
  absl::Span<const uint16_t> queue_max_sizes() const override;
  std::vector<virtio::SharedMemoryRegion> shared_memory_regions() const override;
  void ReadConfig(uint64_t offset, absl::Span<uint8_t> to) override;
  void WriteConfig(uint64_t offset, absl::Span<const uint8_t> from) override;
  absl::Status Activate(virtio::Activation activation) override;
  void QueueNotified(uint16_t index) override;
  void Reset() override;

 private:
  struct InFlight {
    uint16_t queue;
    virtio::DescriptorChain chain;
  };

  explicit GpuFront(GpuFrontOptions options);
  void Drain(uint16_t index);
  void Take(uint16_t index, virtio::DescriptorChain chain);
  void Respond(uint64_t request, absl::Span<const uint8_t> response) override;
  void Interrupt(uint16_t index);

  GpuFrontOptions options_;
  std::unique_ptr<Control> control_;
  std::optional<virtio::Activation> activation_;
  absl::flat_hash_map<uint64_t, InFlight> in_flight_;
  uint64_t last_request_ = 0;  // strictly rising over resets: numbers of a former life name nothing
  bool draining_ = false;      // interrupts are sent once per batch
  std::atomic<uint32_t> events_{0};
  std::shared_ptr<GpuFront*> self_;  // posted tasks hold it weakly
};

}  // namespace sluice::gpu_front

#endif  // SLUICE_DEVICES_GPU_FRONT_DEVICE_H_
