// File: reply_writer.h
//
// Puts messages into a reply ring, split into frames when they are long. A guest that does not read is waited for,
// within a bound: back-pressure without a way to stop the worker for ever.
#ifndef SLUICE_GPU_DOMAIN_WORKER_REPLY_WRITER_H_
#define SLUICE_GPU_DOMAIN_WORKER_REPLY_WRITER_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "flatbuf/ring.h"
#include "gpu-domain/worker/shared_raw.h"

namespace sluice::worker {

// Owned by one thread (its ring's).
class ReplyWriter {
 public:
  // `max_payload`: of one frame. `timeout`: how long to wait for room without any progress of the guest. `stop`, when
  // it becomes true, ends a wait; it outlives the writer.
  // `view`: of the ring, to wake a guest that sleeps; outlives the writer. Null: nobody is woken.
  ReplyWriter(wire::RingProducer producer, uint64_t max_payload, absl::Duration timeout, const std::atomic<bool>* stop,
              const RingView* view = nullptr)
      : producer_(producer), max_payload_(max_payload), timeout_(timeout), stop_(stop), view_(view) {}

  // Writes one message; `sequence` is the request's. Errors: RESOURCE_EXHAUSTED: longer than kMaxMessageBytes, or the
  // guest did not make room in time; CANCELLED: stopped.
  absl::Status Write(uint16_t opcode, uint64_t sequence, absl::Span<const uint8_t> payload);

  // Ring bytes produced so far.
  uint64_t position() const { return producer_.position(); }

 private:
  absl::Status WaitForRoom(uint64_t payload, uint8_t** frame);

  wire::RingProducer producer_;
  const uint64_t max_payload_;
  const absl::Duration timeout_;
  const std::atomic<bool>* const stop_;
  const RingView* const view_;
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_REPLY_WRITER_H_
