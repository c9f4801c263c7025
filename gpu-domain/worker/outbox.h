// File: outbox.h
//
// What the worker says to the front-end: messages of flatbuf/channel.fbs, sent from any thread, in the order of the
// calls. Never blocks: what the socket does not take waits in memory, and the worker stops reading requests while too
// much waits (Full), so that a front-end that does not read cannot make it grow.
#ifndef SLUICE_GPU_DOMAIN_WORKER_OUTBOX_H_
#define SLUICE_GPU_DOMAIN_WORKER_OUTBOX_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "flatbuf/wire.h"
#include "vmm/base/mutex.h"
#include "vmm/base/unique_fd.h"

namespace sluice::worker {

enum class BlobAnswer : uint8_t { kOk, kBadRequest, kOutOfMemory, kNoContext };

// Thread-safe, except Flush: loop thread only.
class Outbox {
 public:
  static constexpr size_t kHighWater = 4096;  // messages

  // `socket` outlives the outbox. `want_write` is called (any thread, lock held) when the socket is full: the loop then
  // waits for it to be writable and calls Flush.
  Outbox(int socket, std::function<void()> want_write) : socket_(socket), want_write_(std::move(want_write)) {}

  // Before anything is sent, if it was not known when the outbox was made.
  void SetSocket(int socket) { socket_ = socket; }

  void HelloReply(const wire::Capset& capset);
  // `fd` is valid exactly when the answer is kOk. `size`: rounded.
  void BlobCreated(uint32_t resource, BlobAnswer answer, wire::BlobKind kind, uint64_t size, UniqueFd fd);
  void FenceSignaled(uint32_t context, uint8_t ring_idx, uint64_t fence_id);
  void ContextLost(uint32_t context, wire::LostReason reason, absl::string_view message);

  // Sends what waits. True: nothing is left.
  bool Flush();
  // Too much waits: read no more requests.
  bool Full() const;
  // The peer is gone or the socket failed; nothing more is sent.
  bool broken() const;

 private:
  struct Waiting {
    std::vector<uint8_t> bytes;
    UniqueFd fd;
  };
  void Send(const uint8_t* bytes, size_t size, UniqueFd fd);
  // OK: sent. RESOURCE_EXHAUSTED: later.
  absl::Status SendNow(const uint8_t* bytes, size_t size, const UniqueFd& fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  int socket_;
  const std::function<void()> want_write_;
  mutable Mutex mu_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_OUTBOX_H_
