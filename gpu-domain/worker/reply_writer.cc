#include "gpu-domain/worker/reply_writer.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "vmm/base/status_macros.h"

namespace sluice::worker {

absl::Status ReplyWriter::WaitForRoom(uint64_t payload, uint8_t** frame) {
  *frame = producer_.Reserve(payload);
  if (*frame != nullptr) return absl::OkStatus();
  const absl::Time deadline = absl::Now() + timeout_;
  absl::Duration pause = absl::Microseconds(20);
  while (!stop_->load(std::memory_order_relaxed)) {
    if (absl::Now() >= deadline) return absl::ResourceExhaustedError("the guest does not read its replies");
    if (view_ != nullptr) view_->WakeProgress();  // it may sleep on the parts that are there
    absl::SleepFor(pause);
    pause = std::min(pause * 2, absl::Milliseconds(2));
    *frame = producer_.Reserve(payload);
    if (*frame != nullptr) return absl::OkStatus();
  }
  return absl::CancelledError("stopped while waiting for room in the reply ring");
}

absl::Status ReplyWriter::Write(uint16_t opcode, uint64_t sequence, absl::Span<const uint8_t> payload) {
  if (payload.size() > wire::kMaxMessageBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("reply of ", payload.size(), " bytes"));
  }
  do {
    const size_t part = std::min<uint64_t>(payload.size(), max_payload_);
    const bool more = part < payload.size();
    uint8_t* frame = nullptr;
    SLUICE_RETURN_IF_ERROR(WaitForRoom(part, &frame));
    const wire::FrameHeader header = {opcode, static_cast<uint16_t>(wire::kFrameReply | (more ? wire::kFrameMore : 0)),
                                      static_cast<uint32_t>(part), sequence};
    std::memcpy(frame, &header, sizeof(header));
    if (part > 0) std::memcpy(frame + sizeof(header), payload.data(), part);
    producer_.Commit(part);
    payload.remove_prefix(part);
  } while (!payload.empty());
  if (view_ != nullptr) view_->WakeProgress();
  return absl::OkStatus();
}

}  // namespace sluice::worker
