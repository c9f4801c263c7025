// File: channel.h
//
// The device's end of a service channel: FlatBuffers of flatbuf/channel.fbs over a SOCK_SEQPACKET socket, on an event
// loop. The worker on the other end is not trusted: each packet is verified, numbers in it are only numbers until the
// handler has checked them, and nothing here ever waits for it. Sends never block: what the socket does not take at
// once is queued, up to a bound.
//
//   SLUICE_ASSIGN_OR_RETURN(auto channel, Channel::Create(loop, std::move(socket), {.frontend = "web-0", .os =
//   "linux"}, &handler)); if (!channel->SendContextCreate(1, "vkcube").ok()) ...   // queue full or channel gone: the
//   context is lost
//
// Everything runs on the loop's thread. The handler is called from the loop only, never from inside a Send.
#ifndef SLUICE_DEVICES_GPU_FRONT_CHANNEL_H_
#define SLUICE_DEVICES_GPU_FRONT_CHANNEL_H_

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "flatbuf/channel_generated.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/unique_fd.h"

namespace sluice::gpu_front {

// What the worker says. `message` lives until the call returns. Arguments are verified FlatBuffers with unchecked
// values.
class ChannelHandler {
 public:
  virtual ~ChannelHandler() = default;
  // The handshake held: same protocol version and schema hash. Comes first, once.
  virtual void OnHello(absl::Span<const uint8_t> capset) = 0;
  // `fds`: what travelled beside the message, any number.
  virtual void OnBlobCreated(const wire::BlobCreated& message, std::vector<UniqueFd> fds) = 0;
  virtual void OnFenceSignaled(uint32_t context, uint8_t ring_idx, uint64_t fence_id) = 0;
  virtual void OnContextLost(uint32_t context, uint32_t reason, absl::string_view message) = 0;
  // The channel is dead and says nothing more: the worker closed it, broke the protocol, or Close() was called. Comes
  // once.
  virtual void OnClosed(const absl::Status& why) = 0;
};

struct ChannelIdentity {
  std::string frontend;  // the front-end's name
  std::string os;        // its OS type
};

class Channel {
 public:
  // Messages and bytes that may wait for the socket. Beyond, sends that create something are refused; those that
  // destroy are always taken (each pairs with a creation that was, so they are bounded too).
  static constexpr size_t kMaxQueuedMessages = 512;
  static constexpr size_t kMaxQueuedBytes = 8 << 20;

  // Takes one end of a SOCK_SEQPACKET pair and sends Hello. `handler` outlives the channel.
  static absl::StatusOr<std::unique_ptr<Channel>> Create(asio::io_context& loop, UniqueFd socket,
                                                         const ChannelIdentity& identity, ChannelHandler* handler);
  // Silently: no OnClosed.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // RESOURCE_EXHAUSTED: over the bound, not sent. UNAVAILABLE: the channel is dead.
  absl::Status SendContextCreate(uint32_t context, absl::string_view name);
  absl::Status SendBlobCreate(uint32_t context, uint32_t resource, uint64_t blob_id, uint64_t size);
  absl::Status SendSubmit(uint32_t context, uint8_t ring_idx, bool fenced, uint64_t fence_id,
                          absl::Span<const uint8_t> payload);
  void SendContextDestroy(uint32_t context);
  void SendBlobDestroy(uint32_t resource);

  // Closes the socket; OnClosed(why) follows from the loop. Without effect on a dead channel.
  void Close(const absl::Status& why);

  bool open() const { return state_->open; }
  size_t queued_messages() const { return state_->queue.size(); }

 private:
  // Shared with the loop's callbacks, which may run after the channel's end.
  struct State : std::enable_shared_from_this<State> {
    State(asio::io_context& loop, ChannelHandler* handler) : descriptor(loop), loop(&loop), handler(handler) {}
    void ArmRead();
    void ArmWrite();
    void ReadSome();
    void Flush();
    void Shutdown(const absl::Status& why);
    // False: the peer broke the protocol.
    absl::Status Dispatch(Packet packet);
    bool OverBound(size_t bytes) const;

    asio::posix::stream_descriptor descriptor;
    asio::io_context* loop;
    ChannelHandler* handler;  // null once the Channel is gone
    std::deque<std::vector<uint8_t>> queue;
    size_t queued_bytes = 0;
    bool open = true;
    bool hello = false;    // HelloReply came
    bool writing = false;  // a wait for writability is armed
  };

  explicit Channel(std::shared_ptr<State> state) : state_(std::move(state)) {}
  absl::Status Send(absl::Span<const uint8_t> bytes, bool bounded);

  std::shared_ptr<State> state_;
};

}  // namespace sluice::gpu_front

#endif  // SLUICE_DEVICES_GPU_FRONT_CHANNEL_H_
