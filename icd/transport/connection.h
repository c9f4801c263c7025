// File: connection.h
//
// One connection to a GPU Domain: a Unix socket that speaks flatbuf/channel.fbs. It makes contexts, blobs and fences;
// commands do not pass here but through the rings in shared memory. The domain is not trusted: every message is checked
// before it is used, and a wrong one ends the connection.
//
//   std::string why;
//   std::shared_ptr<Connection> connection = Connection::Open("/run/gpu.sock", &why);
//   connection->SendBlobCreate(context, resource, wire::MakeBlobId(wire::BlobKind::kRing, 0), 4 << 20);
//   BlobAnswer ring = connection->TakeBlob(resource, wire::BlobBacking::Ring);
//
// Threads: any. There is no thread of its own: whoever waits reads the socket for all (one at a time), the others sleep
// until it has handled something.
#ifndef SLUICE_ICD_TRANSPORT_CONNECTION_H_
#define SLUICE_ICD_TRANSPORT_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "flatbuf/channel_generated.h"
#include "flatbuf/wire.h"
#include "icd/transport/futex.h"
#include "icd/transport/host_raw.h"

namespace sluice::icd {

// A blob as the domain made it.
struct BlobAnswer {
  bool ok = false;
  uint64_t size = 0;  // bytes, whole pages
  Fd fd;              // memory file or eventfd
};

class Connection {
 public:
  // Connects, says hello and waits for the answer. Null: *why says what failed, for a person.
  static std::shared_ptr<Connection> Open(const char* path, std::string* why);
  // Over a socket that is connected already.
  static std::shared_ptr<Connection> Greet(Fd socket, std::string* why);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const wire::Capset& capset() const { return capset_; }
  // False once the domain is gone or has broken the protocol; never true again.
  bool alive() const { return alive_.load(std::memory_order_acquire); }

  // A number for a context or resource that was never used in this connection.
  uint32_t NewContext() { return next_context_.fetch_add(1, std::memory_order_relaxed); }
  uint32_t NewResource() { return next_resource_.fetch_add(1, std::memory_order_relaxed); }

  // These only send. False: the connection is dead.
  bool SendContextCreate(uint32_t context, const char* name);
  bool SendContextDestroy(uint32_t context);
  bool SendBlobCreate(uint32_t context, uint32_t resource, uint64_t blob_id, uint64_t size);
  bool SendBlobDestroy(uint32_t resource);

  // The answer to SendBlobCreate of that resource; waits for it. !ok: refused, or the connection is dead.
  BlobAnswer TakeBlob(uint32_t resource, wire::BlobBacking backing);

  // A fenced kick: the fence is signaled when ring 0 of the context has been executed up to `position` (`timeline` 0),
  // or the work that was submitted by then to the queue of that timeline is done. Returns its number; 0: dead.
  uint64_t SendFence(uint32_t context, uint32_t timeline, uint64_t position);
  // Whether it is signaled; waits at most about `timeout_ns`. A dead connection signals everything.
  bool WaitFence(uint32_t context, uint32_t timeline, uint64_t fence, uint64_t timeout_ns);
  // Nothing of the context is of interest any more.
  void ForgetContext(uint32_t context);

  // Handles what has come, without waiting. False: the connection is dead.
  bool Poll();
  // What the domain said when it ended the context; "" as long as it has not.
  std::string LostMessage(uint32_t context) { return AwaitLostMessage(context, 0); }
  std::string AwaitLostMessage(uint32_t context, uint64_t timeout_ns);

  // In the child of a fork: the connection is the parent's. Dead from here on, and its descriptors are closed. The lock
  // is held (LockForFork).
  void AbandonInChild();
  void LockForFork() { lock_.lock(); }
  void UnlockAfterFork() { lock_.unlock(); }

 private:
  explicit Connection(Fd socket) : socket_(std::move(socket)) {}

  bool Send(flatbuffers::FlatBufferBuilder& fbb);
  // Waits until `done()`, which runs under the lock, is true. False: time is up, or the connection is dead.
  template <typename F>
  bool WaitUntil(F done, uint64_t timeout_ns);
  // Under the lock. Reads all that is there.
  void Drain();
  void Handle(Message& message, const uint8_t* bytes);
  void OnHello(const wire::HelloReply& hello);
  void Die(const char* why);

  FutexLock lock_;
  std::atomic<bool> alive_{true};
  std::atomic<uint32_t> handled_{0};  // counts up whenever the reader has handled something; a futex word
  bool reading_ = false;              // somebody sleeps in the socket for all
  uint32_t sleepers_ = 0;             // in handled_
  Fd socket_;
  bool greeted_ = false;
  wire::Capset capset_ = {};
  std::atomic<uint32_t> next_context_{1};
  std::atomic<uint32_t> next_resource_{1};
  uint64_t next_fence_ = 1;
  struct PendingBlob {
    bool answered = false;
    wire::BlobBacking backing = wire::BlobBacking::Memory;
    BlobAnswer answer;
  };
  std::map<uint32_t, PendingBlob> blobs_;     // asked for, by resource, until taken
  std::map<uint64_t, uint64_t> fences_;       // context << 8 | timeline -> newest signaled fence
  std::map<uint32_t, std::string> contexts_;  // alive -> what the domain said when it ended it
  std::unique_ptr<uint8_t[]> buffer_;
};

}  // namespace sluice::icd

#endif  // SLUICE_ICD_TRANSPORT_CONNECTION_H_
