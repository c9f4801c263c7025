// Fuzzes the filter between a guest and libslirp: frames of both directions, from the guest and from whoever answers
// it.
//
// Threat model: every byte of a frame is hostile. A frame never reads or writes outside itself, none to the host's
// loopback passes, and one that is changed keeps a right checksum right.
//
// Grammar of an input: a byte of options, then frames, each a direction byte, a size byte, bytes over a UDP or TCP
// frame (so that checksums can be right).
#include <cstdio>
#include <cstdlib>

#include "devices/net/user/filter.h"
#include "devices/net/user/testing/guest.h"
#include "vmm/virtio/testing/byte_source.h"

namespace {

using sluice::net::testing::Frame;
namespace testing = sluice::net::testing;

void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "filter_fuzz: %s\n", what);
  std::abort();
}

// A frame whose header and transport checksums are right, with no trailer.
bool Sound(const Frame& f) {
  if (f.size() < 54 || testing::Get16(f, 12) != 0x0800 || f[14] != 0x45 || (f[23] != 6 && f[23] != 17)) return false;
  if ((testing::Get16(f, 20) & 0x1fff) != 0) return false;
  if (f[23] == 17 && testing::Get16(f, 40) == 0) return false;
  return testing::Sum(f, 14, 34) == 0xffff && testing::TransportSum(f) == 0xffff;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::virtio::testing::ByteSource in(data, size);
  const uint8_t options = in.Byte();
  const sluice::net::Endpoint resolver{(options & 1) != 0 ? 0x7f000001u : 0x08080404u,
                                       static_cast<uint16_t>((options & 2) != 0 ? 5353 : 53)};
  sluice::net::FrameFilter filter(testing::kDnsIp, (options & 4) != 0 ? std::nullopt : std::optional(resolver),
                                  (options & 8) != 0);
  for (int frames = 0; !in.empty() && frames < 64; ++frames) {
    const uint8_t direction = in.Byte();
    const uint32_t source = (direction & 2) != 0 ? resolver.address : testing::kGuestIp;
    Frame frame = (direction & 4) != 0
                      ? testing::TcpFrame(testing::kDnsIp, in.U16(), 53, testing::kTcpSyn, in.U32(), 0)
                      : testing::UdpFrame(testing::kDnsIp, in.U16(), (direction & 8) != 0 ? in.U16() : 53,
                                          "a query of some length", source);
    for (int pokes = in.Byte() % 8; pokes > 0; --pokes) {
      const size_t at = in.Byte();
      const uint8_t value = in.Byte();
      if (at < frame.size()) frame[at] = value;
    }
    if ((direction & 16) != 0) frame.resize(in.Byte());
    const bool sound = Sound(frame);
    if ((direction & 1) != 0) {
      filter.ToGuest(absl::MakeSpan(frame));
    } else {
      const bool loopback = frame.size() >= 34 && testing::Get16(frame, 12) == 0x0800 && frame[14] == 0x45 &&
                            (frame[30] == 127 || frame[30] == 0);
      const bool passed = filter.FromGuest(absl::MakeSpan(frame));
      Check(!(loopback && passed), "a frame to the loopback passes");
    }
    if (sound) Check(Sound(frame), "a changed frame has a wrong checksum");
  }
  return 0;
}
