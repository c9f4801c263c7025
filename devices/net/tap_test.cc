// The tap back end against the host's own network code, in a network namespace of the test's own.
#include "devices/net/tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "devices/net/testing/net_driver.h"

namespace sluice::net {
namespace {

using testing::Bytes;
using testing::MakeFrame;
using testing::NetDriver;

constexpr uint8_t kGuestMac[] = {0x52, 0x54, 0x00, 0x12, 0x34, 0x56};
constexpr char kHostIp[] = "10.9.8.1";
constexpr char kGuestIp[] = "10.9.8.2";
constexpr uint16_t kPort = 4242;
constexpr size_t kIpAt = 14;
constexpr size_t kUdpAt = 34;
constexpr size_t kDataAt = 42;

void Put16(Bytes* to, size_t at, uint16_t value) {
  (*to)[at] = static_cast<uint8_t>(value >> 8);
  (*to)[at + 1] = static_cast<uint8_t>(value);
}

uint16_t Checksum(const Bytes& bytes, size_t from, size_t to, uint32_t sum = 0) {
  for (size_t i = from; i < to; i += 2) sum += static_cast<uint32_t>(bytes[i] << 8) + (i + 1 < to ? bytes[i + 1] : 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

// A UDP datagram from the guest; its checksum is what a driver with VIRTIO_NET_F_CSUM writes: that of the pseudo
// header.
Bytes UdpFrame(const Bytes& host_mac, absl::string_view data) {
  Bytes frame(kDataAt + data.size());
  std::copy(host_mac.begin(), host_mac.end(), frame.begin());
  std::copy(std::begin(kGuestMac), std::end(kGuestMac), frame.begin() + 6);
  Put16(&frame, 12, 0x0800);
  frame[kIpAt] = 0x45;
  Put16(&frame, kIpAt + 2, static_cast<uint16_t>(28 + data.size()));
  frame[kIpAt + 8] = 64;
  frame[kIpAt + 9] = IPPROTO_UDP;
  inet_pton(AF_INET, kGuestIp, frame.data() + kIpAt + 12);
  inet_pton(AF_INET, kHostIp, frame.data() + kIpAt + 16);
  Put16(&frame, kIpAt + 10, static_cast<uint16_t>(~Checksum(frame, kIpAt, kUdpAt)));
  Put16(&frame, kUdpAt, 999);
  Put16(&frame, kUdpAt + 2, kPort);
  Put16(&frame, kUdpAt + 4, static_cast<uint16_t>(8 + data.size()));
  Put16(&frame, kUdpAt + 6, Checksum(frame, kIpAt + 12, kUdpAt, IPPROTO_UDP + 8 + static_cast<uint32_t>(data.size())));
  std::copy(data.begin(), data.end(), frame.begin() + kDataAt);
  return frame;
}

FrameHeader Unfinished() {
  FrameHeader header;
  header.flags = kHeaderNeedsCsum;
  header.csum_start = kUdpAt;
  header.csum_offset = 6;
  return header;
}

class TapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
      GTEST_SKIP() << "THE TAP BACK END IS NOT TESTED HERE: no network namespace (" << std::strerror(errno) << ")";
    }
    absl::StatusOr<UniqueFd> tap = OpenTap("sluice0");
    if (absl::IsNotFound(tap.status()) || absl::IsPermissionDenied(tap.status())) {
      GTEST_SKIP() << "THE TAP BACK END IS NOT TESTED HERE: " << tap.status();
    }
    ASSERT_TRUE(tap.ok()) << tap.status();
    EXPECT_EQ(*TapName(tap->get()), "sluice0");
    ifreq request{};
    std::strcpy(request.ifr_name, "sluice0");
    auto* const address = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
    address->sin_family = AF_INET;
    inet_pton(AF_INET, kHostIp, &address->sin_addr);
    socket_.Reset(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(ioctl(socket_.get(), SIOCSIFADDR, &request), 0) << std::strerror(errno);
    inet_pton(AF_INET, "255.255.255.0", &address->sin_addr);
    ASSERT_EQ(ioctl(socket_.get(), SIOCSIFNETMASK, &request), 0);
    ASSERT_EQ(ioctl(socket_.get(), SIOCGIFHWADDR, &request), 0);
    host_mac_.assign(request.ifr_hwaddr.sa_data, request.ifr_hwaddr.sa_data + 6);
    request.ifr_flags = IFF_UP;
    ASSERT_EQ(ioctl(socket_.get(), SIOCSIFFLAGS, &request), 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(kPort);
    ASSERT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
    tap_ = *std::move(tap);
  }

  void Start(uint64_t features) {
    NetDriver::Options options;
    options.features = features;
    options.net.backend = std::make_unique<Tap>(std::move(tap_));
    net_ = std::make_unique<NetDriver>(std::move(options));
    for (int i = 0; i < 32; ++i) ASSERT_TRUE(net_->PostReceive(4096));
  }

  // The next frame that `is` holds for; empty: none came.
  template <typename F>
  Bytes NextFrame(F is) {
    Bytes found;
    net_->PumpUntil([&] {
      while (found.empty() && !net_->received().empty()) {
        if (is(net_->received().front())) found = net_->received().front();
        net_->received().pop_front();
        net_->PostReceive(4096);
      }
      return !found.empty();
    });
    return found;
  }

  // Makes the host know the guest's address, as a guest does when it is asked.
  void AnswerArp() {
    const Bytes asked = NextFrame([](const Bytes& b) { return b[12 + 12] == 0x08 && b[12 + 13] == 0x06; });
    ASSERT_FALSE(asked.empty());
    Bytes answer(42);
    std::copy(host_mac_.begin(), host_mac_.end(), answer.begin());
    std::copy(std::begin(kGuestMac), std::end(kGuestMac), answer.begin() + 6);
    Put16(&answer, 12, 0x0806);
    Put16(&answer, 14, 1);
    Put16(&answer, 16, 0x0800);
    answer[18] = 6;
    answer[19] = 4;
    Put16(&answer, 20, 2);
    std::copy(std::begin(kGuestMac), std::end(kGuestMac), answer.begin() + 22);
    inet_pton(AF_INET, kGuestIp, answer.data() + 28);
    std::copy(host_mac_.begin(), host_mac_.end(), answer.begin() + 32);
    inet_pton(AF_INET, kHostIp, answer.data() + 38);
    ASSERT_TRUE(net_->Transmit({}, answer));
  }

  void SendToGuest(absl::string_view data) {
    sockaddr_in guest{};
    guest.sin_family = AF_INET;
    guest.sin_port = htons(999);
    inet_pton(AF_INET, kGuestIp, &guest.sin_addr);
    ASSERT_EQ(sendto(socket_.get(), data.data(), data.size(), 0, reinterpret_cast<sockaddr*>(&guest), sizeof(guest)),
              static_cast<ssize_t>(data.size()))
        << std::strerror(errno);
  }

  UniqueFd tap_;
  UniqueFd socket_;
  Bytes host_mac_;
  std::unique_ptr<NetDriver> net_;
};

bool IsUdp(const Bytes& bytes) {
  return bytes.size() > 12 + kDataAt && bytes[12 + 12] == 0x08 && bytes[12 + 13] == 0 &&
         bytes[12 + kIpAt + 9] == IPPROTO_UDP && bytes[12 + kUdpAt + 2] == (999 >> 8);
}

TEST_F(TapTest, ChecksumsAreLeftToTheHostAndToTheGuest) {
  Start(~uint64_t{0});
  ASSERT_TRUE(net_->Transmit(Unfinished(), UdpFrame(host_mac_, "from the guest")));
  char text[64] = {};
  ASSERT_TRUE(net_->PumpUntil([&] { return recv(socket_.get(), text, sizeof(text), 0) > 0; }));
  EXPECT_STREQ(text, "from the guest");

  SendToGuest("from the host");
  AnswerArp();
  const Bytes frame = NextFrame(IsUdp);
  ASSERT_FALSE(frame.empty());
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof(header));
  EXPECT_EQ(header.flags, kHeaderNeedsCsum);
  EXPECT_EQ(header.csum_start, kUdpAt);
  EXPECT_EQ(absl::string_view(reinterpret_cast<const char*>(frame.data()) + 12 + kDataAt, 13), "from the host");
}

TEST_F(TapTest, WithoutOffloadsTheHostFinishesChecksumsAndAnUnfinishedFrameIsLost) {
  Start(0);
  ASSERT_TRUE(net_->Transmit(Unfinished(), UdpFrame(host_mac_, "unfinished")));
  EXPECT_EQ(net_->device().counters().tx_dropped, 1u);
  // The same without the flag is a frame with a wrong checksum.
  ASSERT_TRUE(net_->Transmit({}, UdpFrame(host_mac_, "wrong")));
  char text[64] = {};
  EXPECT_LT(recv(socket_.get(), text, sizeof(text), 0), 0);

  SendToGuest("checked");
  AnswerArp();
  const Bytes frame = NextFrame(IsUdp);
  ASSERT_FALSE(frame.empty());
  EXPECT_EQ(frame[0], 0);
  const Bytes packet(frame.begin() + 12, frame.end());
  EXPECT_EQ(Checksum(packet, kIpAt + 12, packet.size(), IPPROTO_UDP + 8 + 7), 0xffff);
}

TEST_F(TapTest, AnInterfaceThatIsDownLosesFramesOnly) {
  Start(0);
  ifreq request{};
  std::strcpy(request.ifr_name, "sluice0");
  ASSERT_EQ(ioctl(socket_.get(), SIOCSIFFLAGS, &request), 0);
  ASSERT_TRUE(net_->Transmit({}, MakeFrame(60)));
  EXPECT_EQ(net_->transmitted(), 1u);
  EXPECT_TRUE(net_->device().link_up());
}

TEST_F(TapTest, DescriptorsThatAreNoFitTapAreRefused) {
  EXPECT_EQ(PrepareTap(socket_.get()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TapName(socket_.get()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenTap("a-name-that-is-too-long").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenTap("a/b").status().code(), absl::StatusCode::kInvalidArgument);
  UniqueFd plain(open("/dev/net/tun", O_RDWR | O_CLOEXEC));
  ifreq request{};
  std::strcpy(request.ifr_name, "plain0");
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  ASSERT_EQ(ioctl(plain.get(), TUNSETIFF, &request), 0);
  EXPECT_THAT(PrepareTap(plain.get()).message(), ::testing::HasSubstr("IFF_VNET_HDR"));
}

}  // namespace
}  // namespace sluice::net
