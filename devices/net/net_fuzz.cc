// Fuzzes virtio-net from both of its untrusted sides: a guest that owns all three queues, and the peer of its frame
// socket.
//
// Threat model: a guest controls every byte of its rings and buffers and when it resets the device; a peer controls
// every message. Neither may crash the VM process, let a frame header with unchecked offsets or offloads that were not
// negotiated through to the back end, or lose a transmit buffer of a well-formed ring for good.
//
// Grammar of an input: two bytes that choose features and back end, then steps, each one byte of kind and what the kind
// takes (missing bytes read as 0).
//   0 post receive buffers (count, piece sizes)   1 transmit: header, size, seed   2 raw transmit bytes
//   3 control command   4 frame from the peer     5 raw message from the peer      6 read the wire
//   7 reset   8 link    9 poke a descriptor and publish it   10 read configuration   11 peer closes
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "devices/net/testing/net_driver.h"
#include "vmm/virtio/testing/byte_source.h"

namespace sluice::net {
namespace {

using testing::Bytes;
using testing::MakeFrame;
using testing::NetDriver;
using virtio::testing::ByteSource;

void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "net_fuzz: %s\n", what);
  std::abort();
}

class Session {
 public:
  explicit Session(ByteSource& in) : features_(in.Byte()), net_(Options(in.Byte())) {}

  void Run(ByteSource& in) {
    for (int steps = 0; !in.empty() && steps < 300; ++steps) Step(in);
    ReadWire();
  }

 private:
  NetDriver::Options Options(uint8_t kind) {
    NetDriver::Options options;
    // Offloads and merging on or off.
    negotiated_ = ~uint64_t{0};
    if ((features_ & 1) != 0) negotiated_ &= ~kFeatureCsum;
    if ((features_ & 2) != 0) negotiated_ &= ~(kFeatureHostTso4 | kFeatureGuestTso4);
    if ((features_ & 4) != 0) negotiated_ &= ~kFeatureMrgRxbuf;
    if ((features_ & 8) != 0) negotiated_ &= ~kFeatureGuestCsum;
    options.features = negotiated_;
    options.queue_size = 16;
    options.buffer_bytes = 1 << 20;
    with_header_ = (kind & 1) != 0;
    options.header_socket = with_header_;
    options.net.mtu = (kind & 2) != 0 ? 9000 : 1500;
    options.net.merge_buffers = (kind & 4) != 0 ? MergeBuffers::kAlways : MergeBuffers::kAuto;
    return options;
  }

  void Step(ByteSource& in) {
    switch (in.Byte() % 12) {
      case 0: {
        std::vector<uint32_t> pieces(1 + in.Byte() % 4);
        for (uint32_t& piece : pieces) piece = 1 + in.U16() % 5000;
        net_.PostReceive(pieces);
        return;
      }
      case 1: {
        FrameHeader header;
        header.flags = in.Byte();
        header.gso_type = in.Byte();
        header.hdr_len = in.U16();
        header.gso_size = in.U16();
        header.csum_start = in.U16();
        header.csum_offset = in.U16();
        const uint16_t size = in.U16();
        net_.Transmit(header, MakeFrame(size, in.Byte()));
        return;
      }
      case 2:
        net_.TransmitBytes(in.Bytes(1 + in.Byte()));
        return;
      case 3: {
        const uint8_t command_class = in.Byte();
        const uint8_t command = in.Byte();
        net_.Control(command_class, command, in.Bytes(in.Byte() % 16));
        return;
      }
      case 4: {
        FrameHeader header;
        header.flags = in.Byte() & kHeaderNeedsCsum;
        header.gso_type = in.Byte();
        Bytes frame = MakeFrame(in.U16(), in.Byte());
        if (with_header_) {
          frame.insert(frame.begin(), kHeaderBytes, 0);
          std::memcpy(frame.data(), &header, sizeof(header));
        }
        SendFrame(net_.wire(), frame).status().IgnoreError();
        net_.Pump();
        return;
      }
      case 5:
        SendFrame(net_.wire(), in.Bytes(in.Byte())).status().IgnoreError();
        net_.Pump();
        return;
      case 6:
        return ReadWire();
      case 7:
        net_.Reset();
        return;
      case 8:
        net_.device().SetLink((in.Byte() & 1) != 0);
        net_.Pump();
        return;
      case 9: {
        const uint16_t queue = in.Byte() % 3;
        const auto index = static_cast<uint16_t>(in.Byte() % 16);
        net_.queue(queue).WriteDescriptor(index, {in.U32(), in.U32(), in.Byte(), in.Byte()});
        net_.queue(queue).Publish(index);
        net_.device().QueueNotified(queue);
        net_.Pump();
        return;
      }
      case 10: {
        Bytes to(1 + in.Byte() % 8);
        net_.device().ReadConfig(in.U64(), absl::MakeSpan(to));
        return;
      }
      default:
        net_.CloseWire();
        net_.Pump();
    }
  }

  void ReadWire() {
    while (const std::optional<Bytes> frame = net_.NextOnWire()) {
      if (!with_header_) {
        Check(frame->size() >= kEthernetHeaderBytes, "a frame without addresses left the device");
        continue;
      }
      Check(frame->size() >= kHeaderBytes + kEthernetHeaderBytes, "a frame without addresses left the device");
      FrameHeader header;
      std::memcpy(&header, frame->data(), sizeof(header));
      const size_t bytes = frame->size() - kHeaderBytes;
      Check((header.flags & ~kHeaderNeedsCsum) == 0, "unknown flags");
      if (header.flags != 0) {
        Check((negotiated_ & kFeatureCsum) != 0, "an unfinished checksum");
        Check(size_t{header.csum_start} + header.csum_offset + 2 <= bytes, "a checksum outside the frame");
      }
      if ((header.gso_type & 0x7f) == kGsoTcp4) Check((negotiated_ & kFeatureHostTso4) != 0, "segments");
      if (header.gso_type != kGsoNone) Check(header.flags != 0 && header.gso_size != 0, "segments without a checksum");
      Check(header.hdr_len <= bytes, "headers outside the frame");
    }
    net_.Pump();
  }

  const uint8_t features_;
  uint64_t negotiated_ = 0;
  bool with_header_ = false;
  NetDriver net_;
};

}  // namespace
}  // namespace sluice::net

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  spdlog::set_level(spdlog::level::off);
  sluice::virtio::testing::ByteSource in(data, size);
  sluice::net::Session session(in);
  session.Run(in);
  return 0;
}
