// File: gpu_driver.h
//
// A virtio-gpu driver for tests and examples: a device with RAM, queues, a window and (if wanted) a fake domain around
// it, driven through its virtqueues only.
//
//   GpuDriver gpu({.domain = true});
//   Reply reply = gpu.Run(CommandType::kResourceCreate2d, ResourceCreate2d{1, 1, 64, 64});
//   uint64_t ticket = gpu.Send(CommandType::kSubmit3d, Submit3d{0, 0}, {.context = 1, .fence = 9});
//   gpu.domain().SayFenceSignaled(...);
//   std::optional<Reply> later = gpu.Poll(ticket);
#ifndef SLUICE_DEVICES_GPU_FRONT_TESTING_GPU_DRIVER_H_
#define SLUICE_DEVICES_GPU_FRONT_TESTING_GPU_DRIVER_H_

#include <asio/io_context.hpp>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "devices/gpu-front/device.h"
#include "devices/gpu-front/protocol.h"
#include "devices/gpu-front/testing/fake_domain.h"
#include "flatbuf/stats.h"
#include "vmm/virtio/testing/fake_driver.h"

namespace sluice::gpu_front::testing {

inline constexpr uint64_t kAllFeatures = 0x1f;  // VIRGL, EDID, RESOURCE_UUID, RESOURCE_BLOB, CONTEXT_INIT

// What the device wrote for one request.
struct Reply {
  CtrlHdr header{};           // zero if less than a header came
  std::vector<uint8_t> body;  // after the header
  uint32_t written = 0;

  ResponseType type() const { return static_cast<ResponseType>(header.type); }
  // The body as a T; zero if it is shorter.
  template <typename T>
  T As() const {
    T value{};
    if (body.size() >= sizeof(T)) std::memcpy(&value, body.data(), sizeof(T));
    return value;
  }
};

// Header fields of a request beside its type.
struct RequestOptions {
  uint32_t context = 0;
  std::optional<uint64_t> fence;  // FLAG_FENCE with this id
  std::optional<uint8_t> ring;    // FLAG_INFO_RING_IDX
  uint32_t writable = 24 + 1032;  // bytes for the response: enough for any
  uint16_t queue = kControlQueue;
};

template <typename T>
void Append(std::vector<uint8_t>* to, const T& value) {
  const size_t at = to->size();
  to->resize(at + sizeof(T));
  std::memcpy(to->data() + at, &value, sizeof(T));
}

class GpuDriver : private virtio::Interrupt {
 public:
  struct Options {
    bool domain = false;  // with a worker that has said hello
    bool hello = true;    // ... or not yet
    uint64_t features = kAllFeatures;
    uint64_t window_bytes = 64 << 20;
    uint32_t scanouts = 1;
    Limits limits;
    absl::Duration domain_timeout = absl::Seconds(30);
  };
  static constexpr uint64_t kRamBytes = 64 << 20;
  static constexpr uint64_t kPages = 32 << 20;  // RAM from here on is the test's own

  GpuDriver() : GpuDriver(Options()) {}
  // Dies if the host cannot provide what a device needs.
  explicit GpuDriver(const Options& options);
  ~GpuDriver() override;

  // Sends a request and notifies. `extra`: bytes after the body. The result names it in Poll; 0: the queue is full.
  template <typename T>
  uint64_t Send(CommandType type, const T& body, const RequestOptions& options = {},
                absl::Span<const uint8_t> extra = {}) {
    std::vector<uint8_t> bytes = Header(type, options);
    Append(&bytes, body);
    bytes.insert(bytes.end(), extra.begin(), extra.end());
    return SendBytes(bytes, options);
  }
  uint64_t Send(CommandType type, const RequestOptions& options = {}) {
    return SendBytes(Header(type, options), options);
  }
  uint64_t SendBytes(absl::Span<const uint8_t> bytes, const RequestOptions& options = {});
  // As SendBytes, without the notification.
  uint64_t SendUnnotified(absl::Span<const uint8_t> bytes, const RequestOptions& options = {});
  // The reply, once; nullopt: there is none yet. Lets the loop work first.
  std::optional<Reply> Poll(uint64_t ticket);
  // As Poll, but waits up to 10 s.
  std::optional<Reply> Wait(uint64_t ticket);
  // Send, then Poll. A request that is not answered at once gives a Reply of type 0.
  template <typename... Args>
  Reply Run(Args&&... args) {
    return Poll(Send(std::forward<Args>(args)...)).value_or(Reply());
  }
  Reply RunBytes(absl::Span<const uint8_t> bytes, const RequestOptions& options = {}) {
    return Poll(SendBytes(bytes, options)).value_or(Reply());
  }
  // Lets everything that is ready on the loop happen.
  void Pump();
  // Resets the device, and starts it again with new queues.
  void Reset();
  // The order in which tickets were completed so far.
  const std::vector<uint64_t>& completed() const { return completed_; }

  // Requests that were not answered yet.
  size_t unanswered() const { return tickets_.size(); }
  // For misbehaving.
  virtio::testing::FakeDriver& queue(uint16_t index) { return queues_[index]; }
  GpuFront& device() { return *device_; }
  FakeDomain& domain() { return *domain_; }
  FakeWindow& window() { return window_; }
  const memory::GuestMemory& ram() const { return ram_; }
  const wire::VmStats& stats() const { return stats_; }
  uint64_t interrupts() const { return interrupts_; }
  uint64_t config_interrupts() const { return config_interrupts_; }
  bool needs_reset() const { return needs_reset_; }
  // Makes a new pair and gives the device its end.
  absl::Status ConnectDomain();

  // --- Common steps; each true if the device agreed.
  bool Create2d(uint32_t id, uint32_t width, uint32_t height, Format format = Format::kB8G8R8A8);
  bool Attach(uint32_t id, const std::vector<MemEntry>& entries);
  bool CreateContext(uint32_t id);
  // A HOST3D blob, created by the domain in the asked size, mapped at `offset`.
  bool CreateMappedBlob(uint32_t context, uint32_t id, wire::BlobKind kind, uint64_t bytes, uint64_t offset);
  // Sends RESOURCE_CREATE_BLOB(HOST3D, mappable).
  uint64_t SendCreateBlob(uint32_t context, uint32_t id, wire::BlobKind kind, uint64_t bytes,
                          std::optional<uint64_t> fence = std::nullopt);
  // A SUBMIT_3D with a kick of ring 0 as payload.
  uint64_t SendSubmit(uint32_t context, std::optional<uint64_t> fence, std::optional<uint8_t> ring = std::nullopt);
  // The domain's next Submit; its fence_id is what SayFenceSignaled wants.
  std::unique_ptr<wire::SubmitT> NextSubmit() { return domain_->ReceiveA<wire::SubmitT>(); }

  static std::vector<uint8_t> Header(CommandType type, const RequestOptions& options);

 private:
  void SignalQueue(uint16_t index) override { ++interrupts_; }
  void BumpConfigGeneration() override {}
  void SignalConfig() override { ++config_interrupts_; }
  void SetNeedsReset() override { needs_reset_ = true; }
  void Start();
  void Collect();

  const Options options_;
  asio::io_context loop_;
  FakeWindow window_;
  memory::GuestMemory ram_;
  wire::VmStats stats_{};
  std::unique_ptr<FakeDomain> domain_;
  std::unique_ptr<GpuFront> device_;
  std::vector<virtio::testing::FakeDriver> queues_;
  std::map<std::pair<uint16_t, uint16_t>, uint64_t> tickets_;  // (queue, head) -> ticket
  std::map<uint64_t, Reply> replies_;
  std::vector<uint64_t> completed_;
  uint64_t next_ticket_ = 1;
  uint64_t interrupts_ = 0;
  uint64_t config_interrupts_ = 0;
  bool needs_reset_ = false;
};

}  // namespace sluice::gpu_front::testing

#endif  // SLUICE_DEVICES_GPU_FRONT_TESTING_GPU_DRIVER_H_
