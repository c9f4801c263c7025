// virtio-net through its queues, over a frame socket and over a back end that claims offloads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "devices/net/testing/net_driver.h"

namespace sluice::net {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using testing::MakeFrame;
using testing::NetDriver;
using ::testing::SizeIs;

bool Put(NetDriver& net, const Bytes& frame) {
  const absl::StatusOr<bool> sent = SendFrame(net.wire(), frame);
  return sent.ok() && *sent;
}

Bytes WithHeader(const FrameHeader& header, const Bytes& frame) {
  Bytes bytes(sizeof(header));
  std::memcpy(bytes.data(), &header, sizeof(header));
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  return bytes;
}

FrameHeader HeaderOf(const Bytes& bytes) {
  FrameHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

Bytes FrameOf(const Bytes& bytes) {
  return Bytes(bytes.begin() + kHeaderBytes, bytes.end());
}

TEST(NetConfigTest, TellsAddressLinkAndMtu) {
  NetDriver net({.net = {.mac = {0x02, 1, 2, 3, 4, 5}, .mtu = 1400}});
  EXPECT_THAT(net.Config(), ElementsAre(0x02, 1, 2, 3, 4, 5, 1, 0, 1, 0, 0x78, 0x05));
  Bytes beyond(8, 0xee);
  net.device().ReadConfig(10, absl::MakeSpan(beyond));
  EXPECT_THAT(beyond, ElementsAre(0x78, 0x05, 0, 0, 0, 0, 0, 0));
  net.device().ReadConfig(~uint64_t{0} - 2, absl::MakeSpan(beyond));
  EXPECT_THAT(beyond, ::testing::Each(0));
}

TEST(NetConfigTest, MacAddressesAreParsedStrictly) {
  EXPECT_THAT(*ParseMac("52:54:00:aB:cd:0f"), ElementsAre(0x52, 0x54, 0, 0xab, 0xcd, 0x0f));
  for (const char* bad : {"", "52:54:00:12:34", "52:54:00:12:34:56:78", "52-54-00-12-34-56", "52:54:00:12:34:5",
                          "53:54:00:12:34:56", "52:54:00:12:34:0x5", "52:54:00:12:34:g0"}) {
    EXPECT_FALSE(ParseMac(bad).ok()) << bad;
  }
}

TEST(NetConfigTest, OptionsOutOfRangeAreRefused) {
  asio::io_context loop;
  const auto create = [&loop](uint16_t mtu, uint8_t first) {
    NetOptions options;
    options.loop = &loop;
    options.backend = std::make_unique<FrameSocket>(std::move(CreateFrameSocketPair()->first));
    options.mtu = mtu;
    options.mac[0] = first;
    return NetDevice::Create(std::move(options)).status().code();
  };
  EXPECT_EQ(create(1500, 0x52), absl::StatusCode::kOk);
  EXPECT_EQ(create(67, 0x52), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(65521, 0x52), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(1500, 0x53), absl::StatusCode::kInvalidArgument);
  NetOptions none;
  none.loop = &loop;
  EXPECT_EQ(NetDevice::Create(std::move(none)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(NetConfigTest, OffloadsAreOfferedOnlyWhereTheBackEndHasThem) {
  constexpr uint64_t kOffloads = kFeatureCsum | kFeatureHostTso4 | kFeatureGuestCsum | kFeatureCtrlGuestOffloads;
  NetDriver plain;
  EXPECT_EQ(plain.device().features() & kOffloads, 0u);
  EXPECT_NE(plain.device().features() & kFeatureMrgRxbuf, 0u);
  NetDriver full({.header_socket = true});
  EXPECT_EQ(full.device().features() & kOffloads, kOffloads);
  EXPECT_EQ(full.device().features() & kFeatureMrgRxbuf, 0u);
  NetDriver off({.header_socket = true, .net = {.offloads = false}});
  EXPECT_EQ(off.device().features() & kOffloads, 0u);
  NetDriver jumbo({.net = {.mtu = 9000}});
  EXPECT_EQ(jumbo.device().features() & kFeatureMrgRxbuf, 0u);
}

TEST(NetReceiveTest, AFrameArrivesWithItsHeader) {
  NetDriver net;
  ASSERT_TRUE(net.PostReceive(1526));
  const Bytes frame = MakeFrame(60);
  ASSERT_TRUE(Put(net, frame));
  net.Pump();
  ASSERT_THAT(net.received(), SizeIs(1));
  EXPECT_EQ(FrameOf(net.received()[0]), frame);
  const FrameHeader header = HeaderOf(net.received()[0]);
  EXPECT_EQ(header.flags, 0);
  EXPECT_EQ(header.gso_type, kGsoNone);
  EXPECT_EQ(header.num_buffers, 1);
  EXPECT_EQ(net.interrupts(kReceiveQueue), 1u);
  EXPECT_EQ(net.device().counters().rx_bytes, 60u);
}

TEST(NetReceiveTest, FramesWaitInTheSocketUntilThereAreBuffers) {
  NetDriver net;
  for (uint8_t i = 0; i < 5; ++i) ASSERT_TRUE(Put(net, MakeFrame(60, i)));
  net.Pump();
  EXPECT_THAT(net.received(), SizeIs(0));
  // Nothing was taken off the socket: a second look at it finds all five once there are buffers.
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(net.PostReceive({1526}, /*notify=*/i == 3));
  EXPECT_THAT(net.received(), SizeIs(4));
  ASSERT_TRUE(net.PostReceive(1526));
  ASSERT_THAT(net.received(), SizeIs(5));
  for (uint8_t i = 0; i < 5; ++i) EXPECT_EQ(FrameOf(net.received()[i]), MakeFrame(60, i));
}

TEST(NetReceiveTest, ADriverWithoutBuffersIsAskedToNotify) {
  NetDriver net;
  EXPECT_TRUE(net.queue(kReceiveQueue).Chain().Writable(1526).Submit().ok());
  EXPECT_TRUE(net.queue(kReceiveQueue).NeedsNotify());
  net.device().QueueNotified(kReceiveQueue);
  net.Pump();
  // The device now holds a buffer and waits for frames, not for the driver.
  EXPECT_TRUE(net.queue(kReceiveQueue).Chain().Writable(1526).Submit().ok());
  EXPECT_FALSE(net.queue(kReceiveQueue).NeedsNotify());
  ASSERT_TRUE(Put(net, MakeFrame(60)));
  ASSERT_TRUE(Put(net, MakeFrame(61)));
  net.Pump();
  EXPECT_THAT(net.received(), SizeIs(2));
}

TEST(NetReceiveTest, ALongFrameIsSpreadOverMergedBuffers) {
  NetDriver net({.net = {.mtu = 4000, .merge_buffers = MergeBuffers::kAlways}});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(net.PostReceive(1000));
  const Bytes frame = MakeFrame(3000);
  ASSERT_TRUE(Put(net, frame));
  net.Pump();
  ASSERT_THAT(net.received(), SizeIs(4));
  EXPECT_EQ(HeaderOf(net.received()[0]).num_buffers, 4);
  Bytes joined;
  for (const Bytes& part : net.received()) joined.insert(joined.end(), part.begin(), part.end());
  EXPECT_EQ(FrameOf(joined), frame);
  EXPECT_THAT(net.received()[3], SizeIs(12));
}

TEST(NetReceiveTest, AFrameWaitsForTheRestOfItsBuffers) {
  NetDriver net({.net = {.mtu = 4000, .merge_buffers = MergeBuffers::kAlways}});
  ASSERT_TRUE(net.PostReceive(1000));
  ASSERT_TRUE(Put(net, MakeFrame(1500)));
  net.Pump();
  EXPECT_THAT(net.received(), SizeIs(0));
  ASSERT_TRUE(net.PostReceive(1000));
  EXPECT_THAT(net.received(), SizeIs(2));
}

TEST(NetReceiveTest, WithoutMergingAFrameThatDoesNotFitIsDroppedAndTheBufferServesTheNext) {
  NetDriver net({.features = ~kFeatureMrgRxbuf});
  ASSERT_TRUE(net.PostReceive(100));
  ASSERT_TRUE(Put(net, MakeFrame(200)));
  ASSERT_TRUE(Put(net, MakeFrame(80)));
  net.Pump();
  ASSERT_THAT(net.received(), SizeIs(1));
  EXPECT_EQ(FrameOf(net.received()[0]), MakeFrame(80));
  EXPECT_EQ(net.device().counters().rx_dropped, 1u);
}

TEST(NetReceiveTest, BuffersMayBeSplitIntoPieces) {
  NetDriver net;
  ASSERT_TRUE(net.PostReceive({5, 7, 1, 40, 1000}));
  ASSERT_TRUE(Put(net, MakeFrame(300)));
  net.Pump();
  ASSERT_THAT(net.received(), SizeIs(1));
  EXPECT_EQ(FrameOf(net.received()[0]), MakeFrame(300));
}

TEST(NetReceiveTest, FramesOverTheMtuAreDropped) {
  NetDriver net({.net = {.mtu = 576}});
  ASSERT_TRUE(net.PostReceive(4096));
  ASSERT_TRUE(Put(net, MakeFrame(576 + 18)));
  ASSERT_TRUE(Put(net, MakeFrame(576 + 19)));
  net.Pump();
  EXPECT_EQ(net.device().counters().rx_frames, 1u);
  EXPECT_EQ(net.device().counters().rx_dropped, 0u);  // not read: there is no buffer for it
  ASSERT_TRUE(net.PostReceive(4096));
  EXPECT_EQ(net.device().counters().rx_dropped, 1u);
  EXPECT_EQ(net.device().counters().rx_frames, 1u);
}

TEST(NetReceiveTest, ABufferShorterThanAHeaderNeedsAReset) {
  NetDriver net;
  ASSERT_TRUE(net.PostReceive(11));
  EXPECT_TRUE(net.needs_reset());
  net.Reset();
  ASSERT_TRUE(net.PostReceive(1526));
  ASSERT_TRUE(Put(net, MakeFrame(60)));
  net.Pump();
  EXPECT_THAT(net.received(), SizeIs(1));
}

TEST(NetReceiveTest, ABrokenRingNeedsAReset) {
  NetDriver net;
  net.queue(kReceiveQueue).Publish(0x7000);
  net.device().QueueNotified(kReceiveQueue);
  net.Pump();
  EXPECT_TRUE(net.needs_reset());
}

TEST(NetTransmitTest, AFrameLeavesWithoutItsHeader) {
  NetDriver net;
  const Bytes frame = MakeFrame(1514);
  ASSERT_TRUE(net.Transmit({}, frame));
  EXPECT_EQ(net.NextOnWire(), frame);
  EXPECT_EQ(net.transmitted(), 1u);
  EXPECT_EQ(net.interrupts(kTransmitQueue), 1u);
  EXPECT_EQ(net.device().counters().tx_frames, 1u);
}

TEST(NetTransmitTest, MalformedFramesAreDroppedAndGivenBack) {
  NetDriver net;
  ASSERT_TRUE(net.TransmitBytes(Bytes(5)));
  ASSERT_TRUE(net.Transmit({}, MakeFrame(13)));
  ASSERT_TRUE(net.Transmit({}, MakeFrame(1519)));
  ASSERT_TRUE(net.Transmit({}, MakeFrame(70000)));
  FrameHeader checksum;
  checksum.flags = kHeaderNeedsCsum;  // not negotiated: the back end has no offloads
  checksum.csum_start = 34;
  ASSERT_TRUE(net.Transmit(checksum, MakeFrame(100)));
  EXPECT_EQ(net.NextOnWire(), std::nullopt);
  EXPECT_EQ(net.transmitted(), 5u);
  EXPECT_EQ(net.device().counters().tx_dropped, 5u);
  ASSERT_TRUE(net.Transmit({}, MakeFrame(14)));
  EXPECT_EQ(net.NextOnWire(), MakeFrame(14));
}

TEST(NetTransmitTest, ABackEndThatDoesNotReadHoldsTheQueueAndLosesNothing) {
  NetDriver net;
  size_t put = 0;
  for (size_t before = 0; put < 5000; ++put) {
    if (!net.Transmit({}, MakeFrame(1500, static_cast<uint8_t>(put)))) break;
    before = net.transmitted();
    (void)before;
  }
  ASSERT_LT(put, 5000u);  // the queue filled up
  const size_t sent = net.transmitted();
  EXPECT_EQ(put, sent + 64);
  size_t read = 0;
  ASSERT_TRUE(net.PumpUntil([&] {
    while (auto frame = net.NextOnWire()) {
      EXPECT_EQ(*frame, MakeFrame(1500, static_cast<uint8_t>(read)));
      ++read;
    }
    return read == put;
  }));
  EXPECT_EQ(net.transmitted(), put);
}

TEST(NetTransmitTest, AnUnreadTransmitQueueDoesNotStopReception) {
  NetDriver net;
  while (net.Transmit({}, MakeFrame(1500))) {
  }
  ASSERT_TRUE(net.PostReceive(1526));
  ASSERT_TRUE(Put(net, MakeFrame(60)));
  net.Pump();
  EXPECT_THAT(net.received(), SizeIs(1));
}

TEST(NetOffloadTest, NegotiatedOffloadsReachTheBackEndAsACleanHeader) {
  NetDriver net({.header_socket = true});
  FrameHeader header;
  header.flags = kHeaderNeedsCsum | 0xf0;
  header.gso_type = kGsoTcp4;
  header.gso_size = 1448;
  header.hdr_len = 66;
  header.csum_start = 34;
  header.csum_offset = 16;
  header.num_buffers = 0x7777;
  const Bytes frame = MakeFrame(40000);
  ASSERT_TRUE(net.Transmit(header, frame));
  const std::optional<Bytes> sent = net.NextOnWire();
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(FrameOf(*sent), frame);
  header.flags = kHeaderNeedsCsum;
  header.num_buffers = 0;
  const FrameHeader clean = HeaderOf(*sent);
  EXPECT_EQ(std::memcmp(&clean, &header, sizeof(header)), 0);
}

TEST(NetOffloadTest, HostileHeadersAreDropped) {
  NetDriver net({.header_socket = true});
  FrameHeader good;
  good.flags = kHeaderNeedsCsum;
  good.gso_type = kGsoTcp4;
  good.gso_size = 1448;
  good.hdr_len = 66;
  good.csum_start = 34;
  good.csum_offset = 16;
  const auto dropped = [&](auto change) {
    FrameHeader header = good;
    change(header);
    EXPECT_TRUE(net.Transmit(header, MakeFrame(200)));
    return !net.NextOnWire().has_value();
  };
  EXPECT_FALSE(dropped([](FrameHeader&) {}));
  EXPECT_TRUE(dropped([](FrameHeader& h) { h.csum_start = 199; }));
  EXPECT_TRUE(dropped([](FrameHeader& h) { h.csum_start = 0xffff, h.csum_offset = 0xffff; }));
  EXPECT_TRUE(dropped([](FrameHeader& h) { h.csum_start = 13; }));
  EXPECT_TRUE(dropped([](FrameHeader& h) { h.csum_offset = 165; }));
  EXPECT_FALSE(dropped([](FrameHeader& h) { h.csum_offset = 164; }));
  EXPECT_TRUE(dropped([](FrameHeader& h) { h.gso_size = 0; }));
  EXPECT_TRUE(dropped([](FrameHeader& h) { h.flags = 0; }));
  EXPECT_TRUE(dropped([](FrameHeader& h) { h.hdr_len = 201; }));
  EXPECT_TRUE(dropped([](FrameHeader& h) { h.hdr_len = 33; }));
  EXPECT_TRUE(dropped([](FrameHeader& h) { h.gso_type = kGsoUdp; }));
  EXPECT_TRUE(dropped([](FrameHeader& h) { h.gso_type = 2; }));
  EXPECT_TRUE(dropped([](FrameHeader& h) { h.gso_type = kGsoEcn; }));
  EXPECT_FALSE(dropped([](FrameHeader& h) { h.gso_type = kGsoTcp6 | kGsoEcn; }));
}

TEST(NetOffloadTest, OffloadsThatTheDriverDidNotTakeAreRefusedAndSwitchedOff) {
  NetDriver net({.features = kFeatureCsum | kFeatureGuestCsum, .header_socket = true});
  EXPECT_EQ(net.header_socket().guest_offloads(), kFeatureGuestCsum);
  FrameHeader header;
  header.flags = kHeaderNeedsCsum;
  header.csum_start = 34;
  header.csum_offset = 16;
  header.gso_type = kGsoTcp4;
  header.gso_size = 100;
  ASSERT_TRUE(net.Transmit(header, MakeFrame(200)));
  EXPECT_EQ(net.NextOnWire(), std::nullopt);
  // And a frame that the back end had queued with an offload does not reach the driver.
  ASSERT_TRUE(net.PostReceive(4096));
  ASSERT_TRUE(Put(net, WithHeader(header, MakeFrame(200))));
  header.gso_type = kGsoNone;
  header.gso_size = 0;
  ASSERT_TRUE(Put(net, WithHeader(header, MakeFrame(201))));
  net.Pump();
  ASSERT_THAT(net.received(), SizeIs(1));
  EXPECT_EQ(FrameOf(net.received()[0]), MakeFrame(201));
  EXPECT_EQ(HeaderOf(net.received()[0]).csum_start, 34);
}

TEST(NetOffloadTest, ASegmentedFrameFillsALargeBuffer) {
  NetDriver net({.header_socket = true});
  ASSERT_TRUE(net.PostReceive({4096, 60000, 4096}));
  FrameHeader header;
  header.flags = kHeaderNeedsCsum;
  header.csum_start = 34;
  header.csum_offset = 16;
  header.gso_type = kGsoTcp4;
  header.gso_size = 1448;
  ASSERT_TRUE(Put(net, WithHeader(header, MakeFrame(65000))));
  net.Pump();
  ASSERT_THAT(net.received(), SizeIs(1));
  EXPECT_EQ(FrameOf(net.received()[0]), MakeFrame(65000));
  EXPECT_EQ(HeaderOf(net.received()[0]).gso_size, 1448);
  EXPECT_EQ(HeaderOf(net.received()[0]).num_buffers, 1);
}

TEST(NetControlTest, OffloadsCanBeChangedWhileItRuns) {
  NetDriver net({.header_socket = true});
  Bytes offloads(8, 0);
  EXPECT_EQ(net.Control(kControlGuestOffloads, kControlGuestOffloadsSet, offloads), kControlOk);
  EXPECT_EQ(net.header_socket().guest_offloads(), 0u);
  offloads[0] = kFeatureGuestCsum;
  EXPECT_EQ(net.Control(kControlGuestOffloads, kControlGuestOffloadsSet, offloads), kControlOk);
  EXPECT_EQ(net.header_socket().guest_offloads(), kFeatureGuestCsum);
  offloads[1] = 0x04;  // GUEST_UFO, never offered
  EXPECT_EQ(net.Control(kControlGuestOffloads, kControlGuestOffloadsSet, offloads), kControlError);
  EXPECT_EQ(net.Control(kControlGuestOffloads, kControlGuestOffloadsSet, Bytes(7)), kControlError);
}

TEST(NetControlTest, TheAddressCanBeChangedAndAResetBringsItBack) {
  NetDriver net({.net = {.mac = {0x02, 0, 0, 0, 0, 1}}});
  EXPECT_EQ(net.Control(kControlMac, kControlMacAddrSet, Bytes{2, 9, 8, 7, 6, 5}), kControlOk);
  EXPECT_EQ(net.Config()[1], 9);
  EXPECT_EQ(net.Control(kControlMac, kControlMacAddrSet, Bytes{3, 9, 8, 7, 6, 5}), kControlError);
  EXPECT_EQ(net.Control(kControlMac, kControlMacAddrSet, Bytes{2, 9}), kControlError);
  net.Reset();
  EXPECT_EQ(net.Config()[5], 1);
}

TEST(NetControlTest, ReceiveModesAreTakenAndUnknownCommandsRefused) {
  NetDriver net;
  EXPECT_EQ(net.Control(kControlRx, 0, Bytes{1}), kControlOk);
  EXPECT_EQ(net.Control(kControlRx, 5, Bytes{1}), kControlOk);
  EXPECT_EQ(net.Control(kControlRx, 6, Bytes{1}), kControlError);
  EXPECT_EQ(net.Control(kControlRx, 0, {}), kControlError);
  EXPECT_EQ(net.Control(kControlMac, kControlMacTableSet, Bytes(8)), kControlOk);
  EXPECT_EQ(net.Control(4, 0, Bytes{1, 0}), kControlError);
  EXPECT_EQ(net.Control(0xff, 0xff, {}), kControlError);
  // A command of one byte, and one without room for an answer.
  ASSERT_TRUE(net.queue(kControlQueue).Chain().Readable(Bytes{0}).Writable(1).Submit().ok());
  ASSERT_TRUE(net.queue(kControlQueue).Chain().Readable(Bytes{0, 0, 1}).Submit().ok());
  net.device().QueueNotified(kControlQueue);
  net.Pump();
  EXPECT_EQ(net.queue(kControlQueue).outstanding(), 0u);
  EXPECT_FALSE(net.needs_reset());
}

TEST(NetLinkTest, ACablePulledLosesFramesAndTellsTheDriver) {
  NetDriver net;
  ASSERT_TRUE(net.PostReceive(1526));
  net.device().SetLink(false);
  net.Pump();
  EXPECT_EQ(net.config_interrupts(), 1u);
  EXPECT_EQ(net.Config()[kConfigStatus], 0);
  ASSERT_TRUE(net.Transmit({}, MakeFrame(60)));
  EXPECT_EQ(net.NextOnWire(), std::nullopt);
  EXPECT_EQ(net.transmitted(), 1u);
  ASSERT_TRUE(Put(net, MakeFrame(60, 1)));
  net.Pump();
  EXPECT_THAT(net.received(), SizeIs(0));
  net.device().SetLink(true);
  net.Pump();
  EXPECT_EQ(net.config_interrupts(), 2u);
  ASSERT_TRUE(Put(net, MakeFrame(60, 2)));
  net.Pump();
  ASSERT_THAT(net.received(), SizeIs(1));
  EXPECT_EQ(FrameOf(net.received()[0]), MakeFrame(60, 2));
}

TEST(NetLinkTest, ALostBackEndTakesTheLinkDownOnceAndForGood) {
  int lost = 0;
  NetDriver net({.net = {.on_backend_lost = [&lost](const absl::Status& why) {
                   EXPECT_FALSE(why.ok());
                   ++lost;
                 }}});
  ASSERT_TRUE(net.PostReceive(1526));
  net.CloseWire();
  ASSERT_TRUE(net.PumpUntil([&] { return lost == 1; }));
  EXPECT_EQ(net.Config()[kConfigStatus], 0);
  net.device().SetLink(true);
  EXPECT_FALSE(net.device().link_up());
  ASSERT_TRUE(net.Transmit({}, MakeFrame(60)));
  EXPECT_EQ(net.transmitted(), 1u);
  EXPECT_EQ(lost, 1);
  net.Reset();
  ASSERT_TRUE(net.Transmit({}, MakeFrame(60)));
  EXPECT_EQ(net.transmitted(), 2u);
}

TEST(NetLinkTest, ABackEndLostWhileFramesWaitGivesThemBack) {
  NetDriver net;
  while (net.Transmit({}, MakeFrame(1500))) {
  }
  ASSERT_GT(net.queue(kTransmitQueue).outstanding(), 0u);
  net.CloseWire();
  ASSERT_TRUE(net.PumpUntil([&] { return net.queue(kTransmitQueue).outstanding() == 0; }));
}

TEST(NetResetTest, AResetForgetsBuffersAndAHalfDeliveredFrame) {
  NetDriver net({.net = {.mtu = 4000, .merge_buffers = MergeBuffers::kAlways}});
  ASSERT_TRUE(net.PostReceive(1000));
  ASSERT_TRUE(Put(net, MakeFrame(1500)));
  net.Pump();
  net.Reset();
  ASSERT_TRUE(net.PostReceive(2000));
  EXPECT_THAT(net.received(), SizeIs(0));
  ASSERT_TRUE(Put(net, MakeFrame(100)));
  net.Pump();
  ASSERT_THAT(net.received(), SizeIs(1));
  EXPECT_EQ(FrameOf(net.received()[0]), MakeFrame(100));
}

TEST(NetLimitTest, TransmissionWaitsForItsBucket) {
  // 3 frames of burst; at 20 frames a second a fourth and fifth take some 50 ms each, and none is lost.
  NetDriver net({.net = {.transmit = {.frames = {.per_second = 20, .burst = 3}}}});
  for (uint8_t i = 0; i < 6; ++i) ASSERT_TRUE(net.Transmit({}, MakeFrame(100, i)));
  EXPECT_LT(net.transmitted(), 6u);
  EXPECT_GE(net.transmitted(), 3u);  // the burst
  ASSERT_TRUE(net.PumpUntil([&] { return net.transmitted() == 6; }));
  for (uint8_t i = 0; i < 6; ++i) EXPECT_EQ(net.NextOnWire(), MakeFrame(100, i));
}

TEST(NetLimitTest, ReceptionWaitsForItsBucket) {
  NetDriver net({.net = {.receive = {.bytes = {.per_second = 20000, .burst = 1000}}}});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(net.PostReceive(1526));
  for (uint8_t i = 0; i < 4; ++i) ASSERT_TRUE(Put(net, MakeFrame(1400, i)));
  net.Pump();
  EXPECT_THAT(net.received(), SizeIs(1));
  ASSERT_TRUE(net.PumpUntil([&] { return net.received().size() == 4; }));
  for (uint8_t i = 0; i < 4; ++i) EXPECT_EQ(FrameOf(net.received()[i]), MakeFrame(1400, i));
}

}  // namespace
}  // namespace sluice::net
