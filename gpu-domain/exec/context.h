// File: context.h
//
// One guest context: the Vulkan objects of one guest process, and the executor that runs its frames. Everything that a
// frame says is checked here before the driver sees it; one bad frame ends the context and nothing else.
//
//   WorkerPolicy policy(...);
//   exec::Context context(exec::ContextOptions{}, &policy);
//   absl::Status status = context.Execute(header, payload, &sink);   // payload: private copy, 16-byte aligned
//   if (!status.ok()) ring->status = exec::LostReasonOf(status);
#ifndef SLUICE_GPU_DOMAIN_EXEC_CONTEXT_H_
#define SLUICE_GPU_DOMAIN_EXEC_CONTEXT_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "flatbuf/wire.h"
#include "gpu-domain/exec/policy.h"

namespace sluice::exec {

struct ContextOptions {
  uint32_t max_objects = 200'000;          // Vulkan objects alive at once
  uint64_t max_arena_bytes = 64ull << 20;  // decoded form of one frame
  uint64_t max_reply_bytes = 1ull << 20;   // data one command may ask back
};

// Where replies go: the worker writes them into the reply ring, splitting long ones.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  // `payload` lives during the call. An error ends the context.
  virtual absl::Status Reply(uint16_t opcode, uint64_t sequence, absl::Span<const uint8_t> payload) = 0;
};

// Thread-compatible: one thread at a time. Destroying it destroys all its objects, children first, after waiting for
// each device to go idle.
class Context {
 public:
  // `policy` outlives the context.
  Context(const ContextOptions& options, Policy* policy);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Executes one message. `payload` is a whole message (frames with kFrameMore joined by the caller) in private memory,
  // 16-byte aligned. Every error is final: the context refuses all that follows.
  // INVALID_ARGUMENT: the guest broke the protocol or Vulkan's rules (LostReason::kBadFrame).
  // RESOURCE_EXHAUSTED: a limit was exceeded, or the driver ran out of memory in a command without reply (kLimit).
  // ABORTED: VK_ERROR_DEVICE_LOST (kDeviceLost). UNAVAILABLE and others: the sink's.
  absl::Status Execute(const wire::FrameHeader& header, absl::Span<const uint8_t> payload, ReplySink* sink);

  // Vulkan objects alive, all types.
  uint64_t objects() const;
  // Vulkan commands executed so far, those inside command streams included.
  uint64_t commands() const;

  class Impl;
  Impl& impl() { return *impl_; }  // for generated code and policies inside gpu-domain/exec

 private:
  std::unique_ptr<Impl> impl_;
};

// The reason to publish in RingHeader::status for an Execute error.
wire::LostReason LostReasonOf(const absl::Status& status);

}  // namespace sluice::exec

#endif  // SLUICE_GPU_DOMAIN_EXEC_CONTEXT_H_
