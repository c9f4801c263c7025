#include "gpu-domain/worker/shared_raw.h"

#include "flatbuf/schema_hash.h"
#include "vmm/base/futex.h"

namespace sluice::worker {
namespace {

// The worker's half of wire::WakeWord.
void Wake(wire::WakeWord& word) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (word.sleepers.load(std::memory_order_relaxed) == 0) return;
  word.count.fetch_add(1, std::memory_order_seq_cst);
  FutexWakeAll(&word.count);
}

}  // namespace

RingView::RingView(const Mapping& mapping) : base_(mapping.data()), layout_{mapping.size()} {
  // SAFETY: the mapping is page-aligned and at least kMinRingBytes long, so a RingHeader fits at offset 0 and is
  // aligned; it consists of lock-free atomics and plain integers, for which zeroed shared memory is a valid
  // representation.
  header_ = reinterpret_cast<wire::RingHeader*>(base_);
}

void RingView::Initialise(uint64_t memory_limit, uint64_t memory_alignment) {
  header_->memory_limit = memory_limit;
  header_->memory_alignment = memory_alignment;
  header_->magic = wire::kCapsetMagic;
  header_->protocol_version = wire::kProtocolVersion;
  header_->schema_hash = wire::kSchemaHash;
}

wire::RingConsumer RingView::Commands() const {
  return wire::RingConsumer(base_ + layout_.command_offset(), layout_.command_bytes(), &header_->command_head,
                            &header_->command_tail);
}

wire::RingProducer RingView::Replies() const {
  return wire::RingProducer(base_ + layout_.reply_offset(), layout_.reply_bytes(), &header_->reply_head,
                            &header_->reply_tail);
}

void RingView::StoreFeedback(uint64_t slot, uint64_t value) const {
  if (slot >= layout_.feedback_slots()) return;
  // SAFETY: feedback_offset() is a multiple of 8 and slot < feedback_slots(), so the word lies inside the mapping,
  // aligned.
  auto* word = reinterpret_cast<std::atomic<uint64_t>*>(base_ + layout_.feedback_offset() + slot * sizeof(uint64_t));
  word->store(value, std::memory_order_release);
}

void RingView::SetStatus(wire::LostReason reason) const {
  uint32_t none = 0;
  header_->status.compare_exchange_strong(none, static_cast<uint32_t>(reason), std::memory_order_acq_rel);
  WakeProgress();
  WakeCompletion();
}

void RingView::WakeProgress() const {
  Wake(header_->progress);
}

void RingView::WakeCompletion() const {
  Wake(header_->completion);
}

wire::WorkerStats* StatsIn(const Mapping& mapping) {
  // SAFETY: the mapping is page-aligned and the caller checked that WorkerStats fits; it is lock-free atomics only.
  return reinterpret_cast<wire::WorkerStats*>(mapping.data());
}

}  // namespace sluice::worker
