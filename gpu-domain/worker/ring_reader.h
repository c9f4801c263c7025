// File: ring_reader.h
//
// Takes whole messages out of a command ring: copies each frame into private memory before anything is decided about
// it, caps it, joins frames with kFrameMore, and checks what the ring protocol promises (opcode range, flags, counting
// sequence). Knows nothing of Vulkan; fuzzed alone (frame_fuzz.cc).
//
//   RingReader reader(view.Commands(), &staging);
//   Message message;
//   while (reader.Next(&message) == RingReader::Result::kMessage) { Execute(message); reader.Finish(); }
#ifndef SLUICE_GPU_DOMAIN_WORKER_RING_READER_H_
#define SLUICE_GPU_DOMAIN_WORKER_RING_READER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "flatbuf/ring.h"
#include "flatbuf/wire.h"
#include "gpu-domain/worker/quota.h"

namespace sluice::worker {

struct Message {
  wire::FrameHeader header;  // of the first frame, with `size` = bytes of the whole message and kFrameMore cleared
  absl::Span<const uint8_t> bytes;  // private memory, 16-byte aligned; valid until Finish()
};

// Owned by one thread.
class RingReader {
 public:
  enum class Result {
    kEmpty,    // nothing whole is there
    kMessage,  // *message is set; call Finish() when it was executed
    kBroken,   // the guest broke the ring protocol: see error(). Final.
  };

  // `staging` bounds the private copies of all rings of a worker together and outlives the reader.
  RingReader(wire::RingConsumer consumer, MemoryQuota* staging) : consumer_(consumer), staging_(staging) {}

  Result Next(Message* message);
  // Publishes that the message last returned was executed: the guest may reuse its bytes.
  void Finish();
  // INVALID_ARGUMENT (bad frame) or RESOURCE_EXHAUSTED (staging is full) once kBroken was returned.
  const absl::Status& error() const { return error_; }

  // True when Next may find something; for the decision to sleep.
  bool Available() const { return consumer_.Available(); }
  // Ring bytes executed: what SubmitCommand::position is compared with.
  uint64_t position() const { return consumer_.position(); }
  // Frames taken out so far.
  uint64_t frames() const { return frames_; }

 private:
  struct alignas(16) Block {
    uint8_t bytes[16];
  };

  Result Break(absl::Status error);
  // Room for `bytes` in the private buffer, keeping the first `used_` bytes.
  bool Grow(uint64_t bytes);
  uint8_t* data() const;

  wire::RingConsumer consumer_;
  MemoryQuota* const staging_;
  absl::Status error_;
  uint64_t frames_ = 0;
  uint64_t next_sequence_ = 1;
  bool joining_ = false;  // first_ is a message whose end is not there yet
  wire::FrameHeader first_{};
  uint64_t used_ = 0;
  uint64_t capacity_ = 0;
  std::unique_ptr<Block[]> buffer_;
  MemoryCharge charge_;
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_RING_READER_H_
