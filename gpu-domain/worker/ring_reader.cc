#include "gpu-domain/worker/ring_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace sluice::worker {
namespace {

constexpr uint16_t kRequestFlags = wire::kFrameMore | wire::kFrameReply;
constexpr uint64_t kFirstBufferBytes = 16 * 1024;
constexpr uint64_t kKeptBufferBytes = 1024 * 1024;  // a larger one goes back after its message

}  // namespace

uint8_t* RingReader::data() const {
  return static_cast<uint8_t*>(static_cast<void*>(buffer_.get()));
}

RingReader::Result RingReader::Break(absl::Status error) {
  error_ = std::move(error);
  return Result::kBroken;
}

bool RingReader::Grow(uint64_t bytes) {
  if (bytes <= capacity_) return true;
  uint64_t capacity = std::max(kFirstBufferBytes, capacity_);
  while (capacity < bytes) capacity *= 2;
  std::optional<MemoryCharge> charge = staging_->Take(capacity);
  if (!charge.has_value()) return false;
  auto buffer = std::make_unique_for_overwrite<Block[]>(capacity / sizeof(Block));
  if (used_ > 0) std::memcpy(buffer.get(), buffer_.get(), used_);
  buffer_ = std::move(buffer);
  charge_ = *std::move(charge);
  capacity_ = capacity;
  return true;
}

RingReader::Result RingReader::Next(Message* message) {
  if (!error_.ok()) return Result::kBroken;
  for (;;) {
    wire::FrameHeader frame;
    const uint8_t* payload = nullptr;
    switch (consumer_.Peek(&frame, &payload)) {
      case wire::RingConsumer::Result::kEmpty:
        return Result::kEmpty;
      case wire::RingConsumer::Result::kBroken:
        return Break(absl::InvalidArgumentError("impossible ring position or frame size"));
      case wire::RingConsumer::Result::kFrame:
        break;
    }
    if (frame.opcode < wire::kFirstGeneratedOpcode) {
      return Break(absl::InvalidArgumentError(absl::StrCat("reserved opcode ", frame.opcode, " in a request")));
    }
    if ((frame.flags & ~kRequestFlags) != 0) {
      return Break(absl::InvalidArgumentError(absl::StrCat("unknown frame flags ", frame.flags)));
    }
    if (frame.sequence != next_sequence_) {
      return Break(absl::InvalidArgumentError(
          absl::StrCat("frame sequence ", frame.sequence, " where ", next_sequence_, " was due")));
    }
    const bool more = (frame.flags & wire::kFrameMore) != 0;
    if (joining_ && (frame.opcode != first_.opcode || (frame.flags | wire::kFrameMore) != first_.flags)) {
      return Break(absl::InvalidArgumentError("a message changes its opcode or flags between frames"));
    }
    if (!joining_) {
      first_ = frame;
      used_ = 0;
    }
    // used_ <= kMaxMessageBytes and frame.size < 2^32: no wrap.
    const uint64_t total = used_ + frame.size;
    if (total > wire::kMaxMessageBytes) {
      return Break(absl::InvalidArgumentError(absl::StrCat("message of more than ", wire::kMaxMessageBytes, " bytes")));
    }
    if (!Grow(total)) return Break(absl::ResourceExhaustedError("too many long messages at once"));
    if (frame.size > 0) wire::CopyFromShared(data() + used_, payload, frame.size);
    used_ = total;
    frames_++;
    if (more) {
      // Its bytes are copied: room for the rest. The message itself counts as executed only with its last frame.
      joining_ = true;
      consumer_.Pop();
      continue;
    }
    joining_ = false;
    next_sequence_++;
    message->header = first_;
    message->header.flags &= static_cast<uint16_t>(~wire::kFrameMore);
    message->header.size = static_cast<uint32_t>(used_);
    message->bytes = absl::MakeConstSpan(data(), used_);
    return Result::kMessage;
  }
}

void RingReader::Finish() {
  consumer_.Pop();
  if (capacity_ > kKeptBufferBytes) {
    buffer_.reset();
    capacity_ = 0;
    charge_ = MemoryCharge();
  }
  used_ = 0;
}

}  // namespace sluice::worker
