// Threat model: the guest writes any byte of its ring blob at any time: positions, frame headers, payloads, the other
// side's positions. It may break its own ring; the consumer must not read outside the ring, loop for ever, hold more
// private memory than its limits, or hand out a message that was not checked.
//
// Grammar: an input is a list of steps that alternate with the consumer:
//   0, u32 offset, u16 n, n bytes   the guest writes into the command area (offset modulo its size)
//   1, u64 head                     the guest publishes this command_head
//   2, u64 tail                     the guest claims to have read replies up to there; then the worker replies with n =
//   tail % 5000 bytes 3, u8 opcode, u16 n             the guest sends a well-formed frame of n bytes (what an honest
//   producer would do)
// Any other value is taken modulo 4. No thread and no Vulkan: this is what a ring's thread does between two commands.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "flatbuf/ring.h"
#include "gpu-domain/worker/quota.h"
#include "gpu-domain/worker/reply_writer.h"
#include "gpu-domain/worker/ring_reader.h"
#include "gpu-domain/worker/shared_raw.h"
#include "vmm/base/mapping.h"

namespace sluice::worker {
namespace {

constexpr uint64_t kBlobBytes = wire::kMinRingBytes;
constexpr uint64_t kStagingBytes = 1 << 20;

// Takes numbers off an input; zeros after its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  template <typename T>
  T Take() {
    T value{};
    const size_t n = std::min(size_, sizeof(T));
    std::memcpy(&value, data_, n);
    Skip(n);
    return value;
  }
  absl::Span<const uint8_t> Bytes(size_t n) {
    const absl::Span<const uint8_t> bytes(data_, std::min(n, size_));
    Skip(bytes.size());
    return bytes;
  }

 private:
  void Skip(size_t n) {
    data_ += n;
    size_ -= n;
  }
  const uint8_t* data_;
  size_t size_;
};

void Consume(RingReader& reader, MemoryQuota& staging) {
  Message message;
  while (reader.Next(&message) == RingReader::Result::kMessage) {
    if (message.header.opcode < wire::kFirstGeneratedOpcode || message.header.size != message.bytes.size() ||
        message.bytes.size() > wire::kMaxMessageBytes || (message.header.flags & wire::kFrameMore) != 0) {
      abort();
    }
    uint8_t sum = 0;
    for (const uint8_t byte : message.bytes) sum = static_cast<uint8_t>(sum ^ byte);
    asm volatile("" : : "r"(sum));
    reader.Finish();
  }
  if (staging.used() > kStagingBytes) abort();
}

void Run(Input input) {
  absl::StatusOr<Mapping> mapping = Mapping::MapAnonymous(kBlobBytes);
  if (!mapping.ok()) return;
  RingView view(*mapping);
  view.Initialise();
  const wire::RingLayout layout{kBlobBytes};
  uint8_t* commands = mapping->data() + layout.command_offset();
  wire::RingHeader& header = view.header();
  MemoryQuota staging(kStagingBytes);
  RingReader reader(view.Commands(), &staging);
  const std::atomic<bool> stop{true};  // a reply that does not fit is given up at once
  ReplyWriter replies(view.Replies(), view.max_reply_payload(), absl::ZeroDuration(), &stop);
  // The honest half of the guest: starts wherever the ring stands.
  wire::RingProducer producer(commands, layout.command_bytes(), &header.command_head, &header.command_tail);
  uint64_t sequence = 0;
  while (!input.empty()) {
    switch (input.Take<uint8_t>() % 4) {
      case 0: {
        const uint64_t offset = input.Take<uint32_t>() % layout.command_bytes();
        const absl::Span<const uint8_t> bytes = input.Bytes(input.Take<uint16_t>());
        std::memcpy(commands + offset, bytes.data(), std::min<size_t>(bytes.size(), layout.command_bytes() - offset));
        break;
      }
      case 1:
        header.command_head.store(input.Take<uint64_t>());
        break;
      case 2: {
        const auto tail = input.Take<uint64_t>();
        header.reply_tail.store(tail);
        const std::vector<uint8_t> payload(tail % 5000, 0x5a);
        (void)replies.Write(20, 1, payload);
        break;
      }
      case 3: {
        const auto opcode = static_cast<uint16_t>(wire::kFirstGeneratedOpcode + input.Take<uint8_t>() % 64);
        const uint32_t size = input.Take<uint16_t>();
        uint8_t* frame = producer.Reserve(size);
        if (frame == nullptr) break;
        const wire::FrameHeader honest = {opcode, 0, size, ++sequence};
        std::memcpy(frame, &honest, sizeof(honest));
        producer.Commit(size);
        break;
      }
    }
    Consume(reader, staging);
  }
}

}  // namespace
}  // namespace sluice::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::worker::Run(sluice::worker::Input(data, size));
  return 0;
}
