// File: engine.h
//
// Runs a disk's requests away from the event loop and brings the results back to it.
//
//   SLUICE_ASSIGN_OR_RETURN(auto engine, CreateEngine(EngineKind::kAuto, {.loop = &loop, .disk = disk, .sink = this}));
//   engine->Submit(std::move(request));       // any number
//   engine->Kick();                           // off they go
//   ... sink->IoDone({{request.id, true}});   // later, on the loop, in any order
//   engine->Quiesce();                        // nothing of what was submitted touches guest memory any more
//
// Two kinds: threads that call preadv(2) and its like, and io_uring(7), whose ring is restricted to the operations and
// the one file that it needs before it is used. Where the kernel, or the process's filter, refuses io_uring, kAuto
// takes threads.
#ifndef SLUICE_DEVICES_BLOCK_ENGINE_H_
#define SLUICE_DEVICES_BLOCK_ENGINE_H_

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "devices/block/disk.h"
#include "vmm/memory/guest_memory.h"

namespace sluice::block {

enum class IoKind : uint8_t { kRead, kWrite, kFlush, kDiscard, kWriteZeroes };

struct ByteRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct IoRequest {
  uint64_t id = 0;  // the caller's; comes back with the result
  IoKind kind = IoKind::kFlush;
  bool durable = false;  // kWrite, kDiscard, kWriteZeroes: on the medium before it is done
  bool unmap = false;    // kWriteZeroes
  uint64_t offset = 0;   // kRead, kWrite: bytes from the disk's start
  // kRead, kWrite: guest memory, which `memory` keeps mapped. The guest changes it at any time; only the kernel looks.
  std::vector<iovec> pieces;
  memory::GuestMemory memory;
  // kDiscard, kWriteZeroes: one after the other, until one fails.
  std::vector<ByteRange> ranges;
};

struct IoResult {
  uint64_t id = 0;
  bool ok = false;  // false: the host's error was logged
};

class IoSink {
 public:
  virtual ~IoSink() = default;
  // On the loop, never from within Submit, Kick or Quiesce.
  virtual void IoDone(absl::Span<const IoResult> results) = 0;
};

// Loop thread only.
class IoEngine {
 public:
  // Waits for the requests that run.
  virtual ~IoEngine() = default;
  virtual absl::string_view name() const = 0;
  // Takes a request. Nothing is refused: the caller limits how many there are (EngineOptions::max_in_flight).
  virtual void Submit(IoRequest request) = 0;
  // After a batch of Submit: they start now, if not before.
  virtual void Kick() = 0;
  // Forgets what has not started, waits for what has. No result of either is told.
  virtual void Quiesce() = 0;
};

enum class EngineKind : uint8_t { kAuto, kThreads, kUring };

struct EngineOptions {
  asio::io_context* loop = nullptr;  // all outlive the engine
  Disk* disk = nullptr;
  IoSink* sink = nullptr;
  uint32_t threads = 4;          // kThreads: at least 1
  uint32_t max_in_flight = 128;  // 1 .. 4096
};

// All threads and kernel objects that the engine will ever need are made here, so that a process may give up the right
// to make them afterwards. Errors: no thread; kUring: the kernel, or this process's filter, has no io_uring, or the
// disk has no descriptor.
absl::StatusOr<std::unique_ptr<IoEngine>> CreateEngine(EngineKind kind, const EngineOptions& options);

// The two kinds by themselves.
absl::StatusOr<std::unique_ptr<IoEngine>> CreateThreadEngine(const EngineOptions& options);
absl::StatusOr<std::unique_ptr<IoEngine>> CreateUringEngine(const EngineOptions& options);

// Runs a request here and now; false: it failed, and a line in the log says how. Any thread.
bool RunRequest(Disk& disk, IoRequest& request);

}  // namespace sluice::block

#endif  // SLUICE_DEVICES_BLOCK_ENGINE_H_
