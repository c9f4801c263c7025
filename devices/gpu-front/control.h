// File: control.h
//
// What each virtio-gpu command does. Bytes of a request go in, bytes of a response come out, now or later; queues,
// chains and interrupts are the business of device.h. Every request is answered exactly once, whatever the guest or the
// worker does.
//
//   Control control({...}, &responder);
//   control.Activate(ram, features);
//   control.Handle(kControlQueue, /*request=*/1, bytes, /*writable=*/24);   // -> responder.Respond(1, response)
//
// The handlers are in control_2d.cc, control_3d.cc, control_blob.cc; what the worker says is handled in
// control_domain.cc. One thread: the loop's.
#ifndef SLUICE_DEVICES_GPU_FRONT_CONTROL_H_
#define SLUICE_DEVICES_GPU_FRONT_CONTROL_H_

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "devices/gpu-front/blobs.h"
#include "devices/gpu-front/channel.h"
#include "devices/gpu-front/contexts.h"
#include "devices/gpu-front/decode.h"
#include "devices/gpu-front/fences.h"
#include "devices/gpu-front/protocol.h"
#include "devices/gpu-front/resources.h"
#include "devices/gpu-front/scanout.h"
#include "devices/gpu-front/window.h"
#include "flatbuf/stats.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::gpu_front {

enum class DomainState {
  kNone,     // there is no channel
  kWaiting,  // hello was sent
  kReady,    // the worker answered, with a usable capability set
  kGone,     // it closed the channel, broke the protocol or was too slow
};

// Takes the responses. Not called from inside the constructor; may be called from inside Handle.
class Responder {
 public:
  virtual ~Responder() = default;
  // The answer to `request`: a CtrlHdr and what follows it. Exactly once per Handle, unless Reset comes first.
  virtual void Respond(uint64_t request, absl::Span<const uint8_t> response) = 0;
};

struct ControlOptions {
  asio::io_context* loop = nullptr;
  HostVisibleWindow* window = nullptr;  // may be null
  ChannelIdentity identity;
  uint32_t scanouts = 1;
  uint32_t width = 1280;
  uint32_t height = 800;
  Limits limits;
  wire::VmStats* stats = nullptr;  // may be null
  absl::Duration domain_timeout = absl::Seconds(30);
  std::function<void(DomainState, const absl::Status& why)> on_domain_state;
};

class Control final : private ChannelHandler {
 public:
  Control(ControlOptions options, Responder* responder);
  ~Control() override;

  // Starts a channel. FAILED_PRECONDITION: there is a live one.
  absl::Status ConnectDomain(UniqueFd socket);
  // The driver is ready. `features`: negotiated; commands of other features are refused.
  void Activate(memory::GuestMemory ram, uint64_t features);
  // Handles one request. `request`: a number larger than any before. `bytes`: a private copy of the readable part
  // (needed during the call only). `writable`: bytes that the response may have; shorter than a header: it is executed,
  // and answered empty.
  void Handle(uint16_t queue, uint64_t request, absl::Span<const uint8_t> bytes, uint64_t writable);
  // Device reset: everything of the guest's is gone, pending requests are forgotten without an answer. The channel
  // stays.
  void Reset();

  void SetDisplaySize(uint32_t width, uint32_t height);
  absl::StatusOr<ScanoutImage> Snapshot(uint32_t scanout) const;
  // What scanout 0 shows, or else showed before the guest took it away or reset the device.
  absl::StatusOr<ScanoutImage> LastPicture() const;
  const CursorState& cursor() const { return scanouts_.cursor(); }
  DomainState domain_state() const { return domain_state_; }
  // What the device configuration says: 1 while there is, or may soon be, a domain. Any thread.
  uint32_t num_capsets() const { return num_capsets_.load(std::memory_order_relaxed); }
  // For tests: requests that wait.
  size_t pending_requests() const { return pending_.size(); }
  size_t resource_count() const { return resources_.size(); }
  size_t context_count() const { return contexts_.size(); }

 private:
  using Clock = std::chrono::steady_clock;
  // A response without its header's echoed fields.
  struct Response {
    ResponseType type = ResponseType::kOkNodata;
    std::vector<uint8_t> body;
  };
  // What a handler returns: a response, or nullopt when it comes later, through Finish or a fence.
  using Outcome = std::optional<Response>;

  // A request that was not answered yet.
  struct Pending {
    CtrlHdr header;
    bool fenced = false;
    TimelineKey timeline;
    Response response;  // once it is known (a fence may still hold it back)
    std::variant<std::monostate, GetCapsetInfo, GetCapset> waits_for_capset;
  };
  // The request being handled.
  struct Current {
    uint64_t request = 0;
    CtrlHdr header{};
    bool fenced = false;
    TimelineEntry entry;  // what its timeline is to know, if fenced
    std::variant<std::monostate, GetCapsetInfo, GetCapset> waits_for_capset;
  };
  // A BlobCreate that the worker did not answer yet.
  struct OutstandingBlob {
    uint32_t resource;
    uint64_t request;  // 0: abandoned, nobody waits
    Clock::time_point since;
  };

  // control.cc
  Outcome Execute(const Command& command);
  bool Negotiated(uint32_t feature) const { return (features_ >> feature) & 1; }
  void Answer(uint64_t request, const CtrlHdr& header, bool fenced, const Response& response);
  // The response of a request that returned nullopt is known now.
  void Finish(uint64_t request, Response response);
  // These requests' fences completed, in this order.
  void Complete(const std::vector<uint64_t>& done);
  static Response Error(ResponseType type) { return {type, {}}; }
  static ResponseType ToResponse(const absl::Status& status);
  // Takes a resource away from everything that names it.
  void RemoveResource(uint32_t id);

  // control_2d.cc
  Outcome On(const Malformed& c);
  Outcome On(const GetDisplayInfoCmd& c);
  Outcome On(const GetEdid& c);
  Outcome On(const ResourceCreate2d& c);
  Outcome On(const ResourceUnrefCmd& c);
  Outcome On(const AttachBackingCmd& c);
  Outcome On(const DetachBackingCmd& c);
  Outcome On(const TransferToHost2d& c);
  Outcome On(const SetScanout& c);
  Outcome On(const SetScanoutBlob& c);
  Outcome On(const ResourceFlush& c);
  Outcome On(const AssignUuidCmd& c);
  Outcome On(const UpdateCursorCmd& c);
  Outcome On(const MoveCursorCmd& c);

  // control_3d.cc
  Outcome On(const GetCapsetInfo& c);
  Outcome On(const GetCapset& c);
  // Once the domain's state is known.
  Response CapsetInfo(const GetCapsetInfo& c) const;
  Response CapsetPayload() const;
  Outcome On(const CtxCreateCmd& c);
  Outcome On(const CtxDestroyCmd& c);
  Outcome On(const CtxAttachCmd& c);
  Outcome On(const CtxDetachCmd& c);
  Outcome On(const Submit3dCmd& c);
  Outcome On(const ResourceCreate3d& c);
  Outcome On(const TransferToHost3dCmd& c);
  Outcome On(const TransferFromHost3dCmd& c);
  // Ends a context's hopes: rings say why, its blobs that were not made never will be, its fences complete with an
  // error.
  void LoseContext(Context* context, wire::LostReason reason, ResponseType fences);

  // control_blob.cc
  Outcome On(const CreateBlobCmd& c);
  Outcome On(const ResourceMapBlob& c);
  Outcome On(const UnmapBlobCmd& c);
  Outcome CreateHostBlob(const CreateBlobCmd& c);
  Response MapNow(Resource* resource);
  // The worker's answer to a BlobCreate becomes part of the resource, or a reason why not.
  absl::Status AdoptBlob(Resource* resource, const wire::BlobCreated& message, std::vector<UniqueFd> fds);
  void Unmap(Resource* resource);
  // A host blob that will never exist: its waiting requests get `type`, the resource goes.
  void AbandonBlob(uint32_t resource_id, ResponseType type);
  void SetStatusOfRings(uint32_t context, wire::LostReason reason);

  // control_domain.cc: ChannelHandler
  void OnHello(absl::Span<const uint8_t> capset) override;
  void OnBlobCreated(const wire::BlobCreated& message, std::vector<UniqueFd> fds) override;
  void OnFenceSignaled(uint32_t context, uint8_t ring_idx, uint64_t fence_id) override;
  void OnContextLost(uint32_t context, uint32_t reason, absl::string_view message) override;
  void OnClosed(const absl::Status& why) override;
  void SetDomainState(DomainState state);
  Clock::duration Timeout() const {
    return std::chrono::duration_cast<Clock::duration>(absl::ToChronoNanoseconds(options_.domain_timeout));
  }
  // Before its hello a worker loads its driver, and beside others that do the same on a busy host that takes a while.
  Clock::duration HelloTimeout() const { return 4 * Timeout(); }
  void AnswerCapsetRequests();
  bool ChannelOpen() const { return channel_ != nullptr && channel_->open(); }
  void WatchDomain();
  void OnWatch();

  const ControlOptions options_;
  Responder* const responder_;
  memory::GuestMemory ram_;
  uint64_t features_ = 0;
  uint32_t width_;
  uint32_t height_;

  ResourceTable resources_;
  ContextTable contexts_;
  // Call before scanout 0 may lose what it shows.
  void KeepPicture();
  // SET_SCANOUT and SET_SCANOUT_BLOB with resource 0. `scanout_id` exists.
  Outcome DisableScanout(uint32_t scanout_id);

  Scanouts scanouts_;
  ScanoutImage kept_picture_;
  BlobWindow window_;
  FenceTimelines timelines_;
  uint32_t doorbells_ = 0;  // descriptors held
  absl::flat_hash_map<uint64_t, Pending> pending_;
  Current current_;

  std::unique_ptr<Channel> channel_;
  uint64_t channel_generation_ = 0;
  DomainState domain_state_ = DomainState::kNone;
  std::vector<uint8_t> capset_;
  std::deque<OutstandingBlob> outstanding_blobs_;
  Clock::time_point hello_sent_;
  asio::steady_timer watch_;
  bool watching_ = false;
  std::atomic<uint32_t> num_capsets_{0};
  std::shared_ptr<Control*> self_;  // timer callbacks hold it weakly
};

}  // namespace sluice::gpu_front

#endif  // SLUICE_DEVICES_GPU_FRONT_CONTROL_H_
