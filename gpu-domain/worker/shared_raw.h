// File: shared_raw.h
//
// Typed views of memory that is shared with another process: a ring blob and the statistics page. The only casts of the
// worker.
#ifndef SLUICE_GPU_DOMAIN_WORKER_SHARED_RAW_H_
#define SLUICE_GPU_DOMAIN_WORKER_SHARED_RAW_H_

#include <atomic>
#include <cstdint>

#include "flatbuf/ring.h"
#include "flatbuf/stats.h"
#include "vmm/base/mapping.h"

namespace sluice::worker {

// A ring blob as the worker sees it. Does not own the mapping, which outlives it. The guest may write any byte at any
// time: what the worker reads is checked by RingConsumer, what it writes it never reads back.
class RingView {
 public:
  // `mapping` is page-aligned and RingLayout::Valid(mapping.size()).
  explicit RingView(const Mapping& mapping);

  // Writes the header of a new, zeroed ring: magic, version, schema hash, and what guests are told about memory.
  void Initialise(uint64_t memory_limit = 0, uint64_t memory_alignment = 0);
  wire::RingHeader& header() const { return *header_; }
  wire::RingConsumer Commands() const;
  wire::RingProducer Replies() const;
  uint64_t feedback_slots() const { return layout_.feedback_slots(); }
  // Publishes `value` in a feedback slot (slot < feedback_slots(), else nothing happens).
  void StoreFeedback(uint64_t slot, uint64_t value) const;
  // Wake guest threads that sleep until the ring has been worked on, or until a slot was published: after the stores
  // that they are to see. Cheap while nobody sleeps.
  void WakeProgress() const;
  void WakeCompletion() const;
  // Publishes the reason why the context is lost, and wakes everybody; the first reason stays, as long as the guest
  // leaves it alone.
  void SetStatus(wire::LostReason reason) const;
  uint64_t max_reply_payload() const { return layout_.max_frame_payload(layout_.reply_bytes()); }

 private:
  uint8_t* base_;
  wire::RingLayout layout_;
  wire::RingHeader* header_;
};

// The counters in a mapped statistics page (mapping.size() >= sizeof(WorkerStats)).
wire::WorkerStats* StatsIn(const Mapping& mapping);

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_SHARED_RAW_H_
