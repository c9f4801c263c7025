// File: fake_frontend.h
//
// The other end of a service channel for tests: says what a gpu-front device says, and holds what its guest would have
// mapped. With GuestPlatform, the guest's Vulkan entry points (flatbuf/guest) run against a worker without any VM.
//
//   FakeFrontend frontend(std::move(socket));
//   ASSERT_TRUE(frontend.Hello("linux").ok());
//   frontend.CreateContext(1);
//   ASSERT_TRUE(GuestPlatform::Create(&frontend, 1).ok());
#ifndef SLUICE_GPU_DOMAIN_WORKER_TESTING_FAKE_FRONTEND_H_
#define SLUICE_GPU_DOMAIN_WORKER_TESTING_FAKE_FRONTEND_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "flatbuf/channel_generated.h"
#include "flatbuf/guest/channel.h"
#include "flatbuf/guest/platform.h"
#include "flatbuf/ring.h"
#include "flatbuf/wire.h"
#include "vmm/base/mapping.h"
#include "vmm/base/unique_fd.h"

namespace sluice::worker::testing {

// Longest wait for anything in a test; generous, since test machines are busy.
inline constexpr absl::Duration kPatience = absl::Seconds(60);

// A blob as the device and its guest see it.
struct FrontendBlob {
  wire::BlobStatus status = wire::BlobStatus::BadRequest;
  wire::BlobBacking backing = wire::BlobBacking::Memory;
  uint64_t size = 0;
  UniqueFd fd;
  Mapping mapping;  // of memory and rings
};

// One thread.
class FakeFrontend {
 public:
  explicit FakeFrontend(UniqueFd socket) : socket_(std::move(socket)) {}

  // Sends Hello and waits for the reply. UNAVAILABLE: the worker closed the channel.
  absl::StatusOr<wire::Capset> Hello(const std::string& os, uint32_t version, uint64_t schema_hash);
  absl::StatusOr<wire::Capset> Hello(const std::string& os);
  void CreateContext(uint32_t context);
  void DestroyContext(uint32_t context);
  // Waits for the answer, and maps what came.
  absl::StatusOr<FrontendBlob> CreateBlob(uint32_t context, uint32_t resource, uint64_t blob_id, uint64_t size);
  void DestroyBlob(uint32_t resource);
  void Submit(uint32_t context, absl::Span<const uint8_t> payload, std::optional<uint64_t> fence_id, uint8_t ring_idx);
  // A fenced kick; returns its fence id.
  uint64_t Fence(uint32_t context, uint32_t ring, uint64_t position, uint8_t ring_idx);
  // DEADLINE_EXCEEDED or UNAVAILABLE.
  absl::Status WaitFence(uint32_t context, uint64_t fence_id, absl::Duration timeout = kPatience);
  // True if the worker has closed the channel. Any thread.
  bool Closed() const;
  bool Signaled(uint32_t context, uint64_t fence_id) const { return fences_.count({context, fence_id}) > 0; }
  absl::StatusOr<wire::LostReason> WaitLost(uint32_t context, absl::Duration timeout = kPatience);
  std::optional<wire::LostReason> Lost(uint32_t context) const;
  // Takes what has come, without waiting.
  void Pump() { (void)Receive(absl::ZeroDuration()); }
  // True once the worker has closed the channel (waits for that).
  bool WaitClosed(absl::Duration timeout = kPatience);
  // Sends bytes as they are.
  absl::Status SendRaw(absl::Span<const uint8_t> bytes);
  // As if the VM process had ended.
  void Close() { socket_.Reset(); }
  uint32_t NewResource() { return next_resource_++; }
  // The one that NewResource() returns next.
  uint32_t next_resource() const { return next_resource_; }

 private:
  // Handles one message. DEADLINE_EXCEEDED: none came; UNAVAILABLE: closed.
  absl::Status Receive(absl::Duration timeout);
  void Send(flatbuffers::FlatBufferBuilder& fbb);

  UniqueFd socket_;
  uint64_t next_fence_ = 1;
  uint32_t next_resource_ = 1000;
  std::optional<wire::Capset> capset_;
  std::map<uint32_t, FrontendBlob> answers_;  // by resource, until taken
  std::set<std::pair<uint32_t, uint64_t>> fences_;
  std::map<uint32_t, wire::LostReason> lost_;
};

// A guest process: one context with one ring, and the Platform that the guest runtime wants. Becomes the current
// channel. Its program may have several threads, as long as nobody else uses the front-end meanwhile.
class GuestPlatform final : public guest::Platform {
 public:
  static absl::StatusOr<std::unique_ptr<GuestPlatform>> Create(FakeFrontend* frontend, uint32_t context,
                                                               uint64_t ring_bytes = 1 << 20);
  virtual ~GuestPlatform();

  guest::GuestChannel& channel() { return channel_; }
  const Mapping& ring() const { return ring_.mapping; }
  wire::RingHeader& header();

  void RingDoorbell() override;
  void WaitForPosition(uint64_t position) override;
  void WaitTimeline(uint32_t timeline, uint64_t position, uint64_t timeout_ns) override;
  void SleepOn(std::atomic<uint32_t>* word, uint32_t seen, const guest::Awaited& awaited) override;
  void WakeSleepers(std::atomic<uint32_t>* word) override;
  bool AllocateSharedMemory(uint64_t size, guest::SharedMemory* out) override;
  void FreeSharedMemory(const guest::SharedMemory& memory) override;
  void Yield() override;
  uint64_t NowNs() override;
  void Lock() override;
  void Unlock() override;

  uint64_t doorbells() const { return doorbells_; }

 private:
  GuestPlatform(FakeFrontend* frontend, uint32_t context) : frontend_(frontend), context_(context) {}
  void Await(uint64_t fence_id, absl::Duration timeout);
  FakeFrontend* const frontend_;
  const uint32_t context_;
  FrontendBlob ring_;
  UniqueFd doorbell_;
  uint64_t doorbells_ = 0;
  std::map<uint32_t, FrontendBlob> memory_;
  std::mutex mu_;
  guest::GuestChannel channel_;
};

}  // namespace sluice::worker::testing

#endif  // SLUICE_GPU_DOMAIN_WORKER_TESTING_FAKE_FRONTEND_H_
