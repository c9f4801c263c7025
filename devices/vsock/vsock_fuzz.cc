// Fuzzes virtio-vsock from its untrusted side, a guest that owns all queues, with hosts that come, go and stop reading.
//
// Threat model: a guest controls every byte of its rings and packets and when it resets the device. It may not crash
// the VM process, hold more connections or bytes than the options allow, or keep the loop busy for ever.
//
// Grammar of an input: steps, each one byte of kind and what the kind takes (missing bytes read as 0).
//   0 packet: op, ports, length, flags, credit   1 packet with a raw header   2 receive buffers   3 read packets
//   4 host connects   5 host writes   6 host reads   7 host closes   8 connector answers, or holds   9 reset
//   10 transport reset   11 poke a descriptor and publish it   12 event buffer   13 answer the oldest request
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "devices/vsock/testing/vsock_driver.h"
#include "vmm/virtio/testing/byte_source.h"

namespace sluice::vsock {
namespace {

using testing::VsockDriver;
using virtio::testing::ByteSource;

constexpr uint32_t kMaxConnections = 6;

class Session {
 public:
  Session()
      : guest_(
            {.max_connections = kMaxConnections, .buffer_bytes = 4096, .ram_per_queue = 256 << 10, .queue_size = 32}) {
    guest_.Offer(0);
    guest_.Offer(1);
  }

  void Run(ByteSource& in) {
    for (int steps = 0; !in.empty() && steps < 300; ++steps) {
      Step(in);
      if (guest_.device().connections() > kMaxConnections) {
        std::fprintf(stderr, "vsock_fuzz: %zu connections\n", guest_.device().connections());
        std::abort();
      }
    }
  }

 private:
  void Step(ByteSource& in) {
    switch (in.Byte() % 14) {
      case 0: {
        const uint16_t op = in.Byte() % 9;
        const uint32_t guest_port = in.Byte() % 4;
        // Small ones are services, large ones connections that the host made.
        const uint8_t host = in.Byte() % 8;
        const uint32_t host_port = host < 4 ? host : (1u << 30) + host - 4;
        const std::string payload(in.U16() % 5000, 'p');
        const uint32_t flags = in.Byte() % 4;
        guest_.buf_alloc = in.U16();
        guest_.fwd_cnt = in.U16();
        guest_.Send(op, guest_port, host_port, payload, flags);
        return;
      }
      case 1: {
        PacketHeader header = guest_.Header(kOpData, 0, 0, 0);
        const std::vector<uint8_t> bytes = in.Bytes(sizeof(header));
        std::memcpy(&header, bytes.data(), sizeof(header));
        if ((in.Byte() & 1) != 0) {
          header.src_cid = VsockDriver::kGuestCid;
          header.dst_cid = kHostCid;
        }
        guest_.SendPacket(header, std::string(in.Byte(), 'r'));
        return;
      }
      case 2: {
        const int count = in.Byte() % 8;
        guest_.PostReceive(count, 40 + in.U16() % 5000);
        return;
      }
      case 3:
        for (int i = in.Byte() % 16; i >= 0; --i) {
          const VsockDriver::Packet packet = guest_.NextPacket();
          if (packet.op() == kOpRequest) asked_.push_back(packet);
          if (packet.op() == kOpData && packet.payload.empty() && sound_) std::abort();
        }
        return;
      case 4: {
        static constexpr const char* kLines[] = {"CONNECT 1\n", "CONNECT 2\nhello", "CONN", "x\n", ""};
        hosts_.push_back(guest_.HostConnects(kLines[in.Byte() % std::size(kLines)]));
        guest_.Pump();
        return;
      }
      case 5:
        if (const UniqueFd* host = Host(in.Byte())) guest_.HostWrite(*host, std::string(1 + in.U16() % 9000, 'h'));
        return;
      case 6:
        if (const UniqueFd* host = Host(in.Byte())) guest_.HostRead(*host);
        return;
      case 7: {
        UniqueFd* const host = Host(in.Byte());
        if (host == nullptr) return;
        if ((in.Byte() & 1) != 0) {
          shutdown(host->get(), SHUT_WR);
        } else {
          host->Reset();
        }
        return guest_.Pump();
      }
      case 8:
        guest_.connector().hold = (in.Byte() & 1) != 0;
        return guest_.Pump();
      case 9:
        asked_.clear();
        return guest_.Reset();
      case 10:
        asked_.clear();
        return guest_.device().ResetTransport();
      case 11: {
        sound_ = false;
        const uint16_t queue = in.Byte() % 3;
        const auto index = static_cast<uint16_t>(in.Byte() % 32);
        guest_.queue(queue).WriteDescriptor(index, {in.U32(), in.U32(), in.Byte(), in.Byte()});
        guest_.queue(queue).Publish(index);
        guest_.device().QueueNotified(queue);
        return guest_.Pump();
      }
      case 12:
        guest_.queue(kEventQueue).Chain().Writable(1 + in.Byte() % 8).Submit().status().IgnoreError();
        return guest_.device().QueueNotified(kEventQueue);
      default:
        if (asked_.empty()) return;
        guest_.Answer(asked_.front(), kOpResponse);
        asked_.erase(asked_.begin());
    }
  }

  UniqueFd* Host(uint8_t which) {
    for (UniqueFd& host : guest_.connector().hosts) hosts_.push_back(std::move(host));
    guest_.connector().hosts.clear();
    if (hosts_.empty()) return nullptr;
    return &hosts_[which % hosts_.size()];
  }

  VsockDriver guest_;
  bool sound_ = true;  // false: the driver does not keep account of its chains any more
  std::vector<UniqueFd> hosts_;
  std::vector<VsockDriver::Packet> asked_;
};

}  // namespace
}  // namespace sluice::vsock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  spdlog::set_level(spdlog::level::off);
  sluice::virtio::testing::ByteSource in(data, size);
  sluice::vsock::Session session;
  session.Run(in);
  return 0;
}
