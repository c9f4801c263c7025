// File: platform.h
//
// One context of a GPU Domain as the guest runtime (flatbuf/guest) wants it: ring, doorbell, shared memory and waiting,
// over a Connection. A VkInstance has one.
//
//   std::unique_ptr<SocketPlatform> platform = SocketPlatform::Open(connection, &why);
//   platform->channel();
//
// Owner: the ChannelSource (source.h). Threads: the runtime's; whatever changes state holds Lock().
#ifndef SLUICE_ICD_TRANSPORT_PLATFORM_H_
#define SLUICE_ICD_TRANSPORT_PLATFORM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "flatbuf/guest/channel.h"
#include "flatbuf/guest/platform.h"
#include "flatbuf/ring.h"
#include "icd/transport/connection.h"
#include "icd/transport/futex.h"

namespace sluice::icd {

// Bytes of a context's ring: half of it commands, a quarter replies.
inline constexpr uint64_t kRingBytes = uint64_t{4} << 20;

// Told once when a context is lost, by the thread that notices, outside all locks.
class LostListener {
 public:
  virtual void OnContextLost(const std::string& reason) = 0;

 protected:
  ~LostListener() = default;
};

class SocketPlatform final : public guest::Platform {
 public:
  // Null: *why says what failed.
  static std::unique_ptr<SocketPlatform> Open(std::shared_ptr<Connection> connection, std::string* why);
  // Ends the context in the domain and takes its memory away.
  virtual ~SocketPlatform();
  SocketPlatform(const SocketPlatform&) = delete;
  SocketPlatform& operator=(const SocketPlatform&) = delete;

  guest::GuestChannel& channel() { return channel_; }
  Connection& connection() { return *connection_; }
  const wire::Capset& capset() const { return connection_->capset(); }
  // What the domain said when it ended the context, for a person. "" while it lives.
  std::string LostMessage();

  // The ring's memory and its bytes, for tests.
  std::pair<void*, uint64_t> ring() { return {ring_, ring_bytes_}; }

  // Null: nobody listens. Not owned.
  void SetLostListener(LostListener* listener) { listener_.store(listener, std::memory_order_release); }

  // In the child of a fork: the context belongs to the parent.
  void AbandonInChild();

  void RingDoorbell() override;
  void WaitForPosition(uint64_t position) override;
  void WaitTimeline(uint32_t timeline, uint64_t position, uint64_t timeout_ns) override;
  void SleepOn(std::atomic<uint32_t>* word, uint32_t seen, const guest::Awaited& awaited) override;
  void WakeSleepers(std::atomic<uint32_t>* word) override;
  bool AllocateSharedMemory(uint64_t size, guest::SharedMemory* out) override;
  void FreeSharedMemory(const guest::SharedMemory& memory) override;
  void LookAtPeer() override;
  void Yield() override;
  uint64_t NowNs() override;
  void Lock() override { lock_.lock(); }
  void Unlock() override {
    const bool lost = channel_.lost();
    lock_.unlock();
    if (lost) ReportLost();
  }
  // For whoever holds the lock across a fork.
  void UnlockAfterFork() { lock_.unlock(); }

 private:
  SocketPlatform(std::shared_ptr<Connection> connection, uint32_t context)
      : connection_(std::move(connection)),
        context_(context),
        ring_resource_(connection_->NewResource()),
        doorbell_resource_(connection_->NewResource()) {}
  bool Init(std::string* why);
  void Await(uint32_t timeline, uint64_t position, uint64_t timeout_ns);
  // The domain is gone: the ring says so, as a device would.
  void MarkGone();
  void ReportLost();
  wire::RingHeader* header() { return static_cast<wire::RingHeader*>(ring_); }

  const std::shared_ptr<Connection> connection_;
  const uint32_t context_;
  const uint32_t ring_resource_, doorbell_resource_;
  FutexLock lock_;
  Fd doorbell_;
  void* ring_ = nullptr;
  uint64_t ring_bytes_ = 0;
  std::atomic<bool> reported_{false};
  std::atomic<LostListener*> listener_{nullptr};
  guest::GuestChannel channel_;
};

}  // namespace sluice::icd

#endif  // SLUICE_ICD_TRANSPORT_PLATFORM_H_
