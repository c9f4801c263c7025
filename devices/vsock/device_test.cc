// virtio-vsock through its queues, with sockets on the host's side.
#include "devices/vsock/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "devices/vsock/testing/vsock_driver.h"

namespace sluice::vsock {
namespace {

using testing::VsockDriver;
using Packet = VsockDriver::Packet;

TEST(VsockConfigTest, TellsTheContextId) {
  VsockDriver guest;
  uint8_t config[8];
  guest.device().ReadConfig(0, absl::MakeSpan(config));
  EXPECT_THAT(config, ::testing::ElementsAre(VsockDriver::kGuestCid, 0, 0, 0, 0, 0, 0, 0));
  guest.device().ReadConfig(~uint64_t{0}, absl::MakeSpan(config));
  EXPECT_THAT(config, ::testing::Each(0));
}

TEST(VsockConfigTest, OptionsOutOfRangeAreRefused) {
  asio::io_context loop;
  const auto create = [&loop](uint64_t cid, uint32_t connections, uint32_t buffer) {
    VsockOptions options;
    options.loop = &loop;
    options.guest_cid = cid;
    options.max_connections = connections;
    options.buffer_bytes = buffer;
    return VsockDevice::Create(std::move(options)).status().code();
  };
  EXPECT_EQ(create(3, 1, 4096), absl::StatusCode::kOk);
  EXPECT_EQ(create(2, 1, 4096), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(0xffffffff, 1, 4096), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(3, 0, 4096), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(3, 4097, 4096), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(3, 1, 4095), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(3, 1, 0xffffffff), absl::StatusCode::kInvalidArgument);
}

TEST(VsockHostTest, AProgramOnTheHostReachesAPortOfTheGuest) {
  VsockDriver guest;
  guest.PostReceive(8);
  const UniqueFd host = guest.HostConnects("CONNECT 52\nearly");
  const Packet asked = guest.NextPacket();
  EXPECT_EQ(asked.op(), kOpRequest);
  EXPECT_EQ(asked.header.src_cid, kHostCid);
  EXPECT_EQ(asked.header.dst_cid, VsockDriver::kGuestCid);
  EXPECT_EQ(asked.header.dst_port, 52u);
  EXPECT_GE(asked.header.src_port, 1u << 30);
  EXPECT_EQ(asked.header.buf_alloc, 4096u);
  EXPECT_EQ(guest.HostRead(host), "");

  guest.Answer(asked, kOpResponse);
  EXPECT_EQ(guest.HostRead(host), absl::StrCat("OK ", static_cast<uint32_t>(asked.header.src_port), "\n"));
  // What followed the greeting is data.
  const Packet data = guest.NextPacket();
  EXPECT_EQ(data.op(), kOpData);
  EXPECT_EQ(data.payload, "early");
  guest.Answer(asked, kOpData, "hello host");
  EXPECT_EQ(guest.HostRead(host), "hello host");
  EXPECT_GT(guest.interrupts(kReceiveQueue), 0u);
}

TEST(VsockHostTest, ARefusedConnectionIsClosed) {
  VsockDriver guest;
  guest.PostReceive(8);
  const UniqueFd host = guest.HostConnects("CONNECT 52\n");
  guest.Answer(guest.NextPacket(), kOpReset);
  EXPECT_TRUE(guest.HostEnded(host));
  EXPECT_EQ(guest.device().connections(), 0u);
}

TEST(VsockHostTest, GreetingsThatAreNoneAreClosed) {
  for (const char* line :
       {"HELLO 52\n", "CONNECT\n", "CONNECT \n", "CONNECT -1\n", "CONNECT 4294967296\n", "CONNECT 5 2\n",
        "CONNECT  52\n", "connect 52\n", "\n", "CONNECT 111111111111111111111111111111111111111111111"}) {
    VsockDriver guest;
    guest.PostReceive(8);
    const UniqueFd host = guest.HostConnects(line);
    guest.Pump();
    char byte;
    EXPECT_NE(recv(host.get(), &byte, 1, 0), 1) << line;
    EXPECT_TRUE(guest.HostEnded(host) || errno == ECONNRESET) << line;
    EXPECT_EQ(guest.NextPacket().op(), kOpInvalid) << line;
  }
}

TEST(VsockHostTest, AGreetingMayComeInPiecesAndWithACarriageReturn) {
  VsockDriver guest;
  guest.PostReceive(8);
  const UniqueFd host = guest.HostConnects("CON");
  guest.HostWrite(host, "NECT 4294967295");
  EXPECT_EQ(guest.NextPacket().op(), kOpInvalid);
  guest.HostWrite(host, "\r\n");
  EXPECT_EQ(guest.NextPacket().header.dst_port, 0xffffffffu);
}

TEST(VsockHostTest, ASilentProgramAndASilentGuestRunOutOfTime) {
  VsockDriver guest({.patience = absl::Milliseconds(300)});
  guest.PostReceive(8);
  const UniqueFd silent = guest.HostConnects("");
  const UniqueFd waits = guest.HostConnects("CONNECT 9\n");
  ASSERT_EQ(guest.NextPacket().op(), kOpRequest);
  EXPECT_TRUE(guest.PumpUntil([&] { return guest.HostEnded(silent) && guest.HostEnded(waits); }));
  EXPECT_EQ(guest.NextPacket().op(), kOpReset);
  EXPECT_EQ(guest.device().connections(), 0u);
}

TEST(VsockGuestTest, AProgramInTheGuestReachesAServiceOfTheHost) {
  VsockDriver guest;
  guest.PostReceive(8);
  const UniqueFd host = guest.Connect(1000, 80);
  ASSERT_TRUE(host.valid());
  guest.Send(kOpData, 1000, 80, "GET /");
  EXPECT_EQ(guest.HostRead(host), "GET /");
  guest.HostWrite(host, "200");
  const Packet answer = guest.NextPacket();
  EXPECT_EQ(answer.op(), kOpData);
  EXPECT_EQ(answer.payload, "200");
  EXPECT_EQ(answer.header.src_port, 80u);
  EXPECT_EQ(answer.header.dst_port, 1000u);
  EXPECT_EQ(answer.header.fwd_cnt, 5u);
}

TEST(VsockGuestTest, ServicesThatAreNotThereAreReset) {
  VsockDriver guest;
  guest.PostReceive(8);
  guest.Send(kOpRequest, 1000, 81);
  const Packet reset = guest.NextPacket();
  EXPECT_EQ(reset.op(), kOpReset);
  EXPECT_EQ(reset.header.src_port, 81u);
  EXPECT_EQ(reset.header.dst_port, 1000u);
  EXPECT_EQ(guest.device().connections(), 0u);
}

TEST(VsockGuestTest, AGuestThatGivesUpBeforeTheHostAnswersIsForgotten) {
  VsockDriver guest;
  guest.PostReceive(8);
  guest.Offer(80);
  guest.connector().hold = true;
  guest.Send(kOpRequest, 1000, 80);
  guest.Send(kOpReset, 1000, 80);
  EXPECT_EQ(guest.device().connections(), 0u);
  guest.Send(kOpRequest, 1000, 80);  // the same ports again, while the first is still being made
  ASSERT_TRUE(guest.connector().Answer());
  EXPECT_EQ(guest.NextPacket().op(), kOpInvalid);
  ASSERT_TRUE(guest.connector().Answer());
  EXPECT_EQ(guest.NextPacket().op(), kOpResponse);
  ASSERT_EQ(guest.connector().hosts.size(), 2u);
  EXPECT_TRUE(guest.HostEnded(guest.connector().hosts[0]));
  EXPECT_FALSE(guest.HostEnded(guest.connector().hosts[1]));
}

TEST(VsockCreditTest, TheHostIsReadOnlyAsFarAsTheGuestHasCredit) {
  VsockDriver guest;
  guest.PostReceive(16);
  guest.buf_alloc = 10;
  const UniqueFd host = guest.Connect(1000, 80);
  guest.HostWrite(host, "0123456789abcdef");
  EXPECT_EQ(guest.NextPacket().payload, "0123456789");
  EXPECT_EQ(guest.NextPacket().op(), kOpCreditRequest);
  EXPECT_EQ(guest.NextPacket().op(), kOpInvalid);
  guest.fwd_cnt = 4;
  guest.Send(kOpCreditUpdate, 1000, 80);
  EXPECT_EQ(guest.NextPacket().payload, "abcd");
  guest.fwd_cnt = 14;
  guest.Send(kOpCreditUpdate, 1000, 80);
  Packet rest = guest.NextPacket();
  if (rest.op() == kOpCreditRequest) rest = guest.NextPacket();
  EXPECT_EQ(rest.payload, "ef");
  // A guest that claims to have passed on more than it was given has no credit.
  guest.fwd_cnt = 1000;
  guest.Send(kOpCreditUpdate, 1000, 80);
  guest.HostWrite(host, "more");
  for (Packet packet = guest.NextPacket(); packet.op() != kOpInvalid; packet = guest.NextPacket()) {
    EXPECT_EQ(packet.op(), kOpCreditRequest);
  }
}

TEST(VsockCreditTest, AGuestWithoutReceiveBuffersDelaysAndLosesNothing) {
  VsockDriver guest;
  guest.PostReceive(1);
  const UniqueFd host = guest.Connect(1000, 80);
  guest.HostWrite(host, std::string(5000, 'a'));
  EXPECT_EQ(guest.NextPacket().op(), kOpInvalid);
  EXPECT_EQ(guest.PostReceive(3, 44 + 2000), 3);
  size_t got = 0;
  for (Packet packet = guest.NextPacket(); packet.op() == kOpData; packet = guest.NextPacket()) {
    EXPECT_LE(packet.payload.size(), 2000u);
    got += packet.payload.size();
  }
  EXPECT_EQ(got, 5000u);
}

TEST(VsockCreditTest, AGuestThatSendsBeyondItsCreditIsReset) {
  VsockDriver guest;
  guest.PostReceive(8);
  const UniqueFd host = guest.Connect(1000, 80);
  // The host does not read: its socket fills, then the 4096 bytes of the connection.
  size_t sent = 0;
  Packet packet;
  for (int i = 0; i < 2000 && packet.op() != kOpReset; ++i) {
    guest.Send(kOpData, 1000, 80, std::string(4096, 'x'));
    sent += 4096;
    packet = guest.NextPacket();
    guest.PostReceive(1);
  }
  EXPECT_EQ(packet.op(), kOpReset);
  EXPECT_EQ(guest.device().connections(), 0u);
  EXPECT_EQ(guest.Unsent(), 0u);
  EXPECT_LT(guest.HostRead(host).size(), sent);
}

TEST(VsockCreditTest, AGuestThatKeepsToItsCreditLosesNothingAndIsToldOfMore) {
  VsockDriver guest;
  guest.PostReceive(32);
  const UniqueFd host = guest.Connect(1000, 80);
  uint32_t sent = 0;
  uint32_t passed = 0;
  std::string expected;
  std::string got;
  const auto listen = [&] {
    for (Packet packet = guest.NextPacket(); packet.op() != kOpInvalid; packet = guest.NextPacket()) {
      EXPECT_EQ(packet.op(), kOpCreditUpdate);
      passed = packet.header.fwd_cnt;
      guest.PostReceive(1);
    }
  };
  for (int round = 0; round < 3000 && sent < 2'000'000; ++round) {
    const uint32_t credit = 4096 - (sent - passed);
    if (credit > 0) {
      const std::string piece(credit, static_cast<char>('a' + round % 26));
      guest.Send(kOpData, 1000, 80, piece);
      sent += credit;
      expected += piece;
    } else {
      got += guest.HostRead(host);
    }
    listen();
  }
  got += guest.HostRead(host);
  EXPECT_GE(sent, 2'000'000u);
  EXPECT_TRUE(got == expected);
  guest.Send(kOpCreditRequest, 1000, 80);
  const Packet update = guest.NextPacket();
  EXPECT_EQ(update.op(), kOpCreditUpdate);
  EXPECT_EQ(update.header.fwd_cnt, sent);
}

TEST(VsockEndTest, TheGuestsOrderlyEndReachesTheHostAfterItsLastBytes) {
  VsockDriver guest;
  guest.PostReceive(8);
  const UniqueFd host = guest.Connect(1000, 80);
  guest.Send(kOpData, 1000, 80, "bye");
  guest.Send(kOpShutdown, 1000, 80, "", kShutdownBoth);
  EXPECT_EQ(guest.NextPacket().op(), kOpReset);
  EXPECT_EQ(guest.HostRead(host), "bye");
  EXPECT_TRUE(guest.HostEnded(host));
  EXPECT_EQ(guest.device().connections(), 0u);
}

TEST(VsockEndTest, OneDirectionMayEndBeforeTheOther) {
  VsockDriver guest;
  guest.PostReceive(8);
  const UniqueFd host = guest.Connect(1000, 80);
  guest.Send(kOpData, 1000, 80, "question");
  guest.Send(kOpShutdown, 1000, 80, "", kShutdownSend);
  EXPECT_EQ(guest.HostRead(host), "question");
  EXPECT_TRUE(guest.HostEnded(host));
  guest.HostWrite(host, "answer");
  EXPECT_EQ(guest.NextPacket().payload, "answer");
  // After that the guest may not send.
  guest.Send(kOpData, 1000, 80, "!");
  EXPECT_EQ(guest.NextPacket().op(), kOpReset);
}

TEST(VsockEndTest, TheHostsHalfEndIsTold) {
  VsockDriver guest;
  guest.PostReceive(8);
  const UniqueFd host = guest.Connect(1000, 80);
  guest.HostWrite(host, "last");
  ASSERT_EQ(shutdown(host.get(), SHUT_WR), 0);
  EXPECT_EQ(guest.NextPacket().payload, "last");
  const Packet end = guest.NextPacket();
  EXPECT_EQ(end.op(), kOpShutdown);
  EXPECT_EQ(end.header.flags, kShutdownSend);
  guest.Send(kOpData, 1000, 80, "still heard");
  EXPECT_EQ(guest.HostRead(host), "still heard");
}

TEST(VsockEndTest, AHostThatClosesEndsBothDirectionsAndWaitsForTheGuest) {
  VsockDriver guest;
  guest.PostReceive(8);
  UniqueFd host = guest.Connect(1000, 80);
  guest.HostWrite(host, "last");
  host.Reset();
  EXPECT_EQ(guest.NextPacket().payload, "last");
  const Packet end = guest.NextPacket();
  EXPECT_EQ(end.op(), kOpShutdown);
  EXPECT_EQ(end.header.flags, kShutdownBoth);
  EXPECT_EQ(guest.device().connections(), 1u);
  guest.Send(kOpReset, 1000, 80);
  EXPECT_EQ(guest.device().connections(), 0u);
}

TEST(VsockEndTest, AGuestThatNeverEndsIsReset) {
  VsockDriver guest({.patience = absl::Milliseconds(300)});
  guest.PostReceive(8);
  UniqueFd host = guest.Connect(1000, 80);
  host.Reset();
  EXPECT_EQ(guest.NextPacket().op(), kOpShutdown);
  EXPECT_TRUE(guest.PumpUntil([&] { return guest.device().connections() == 0; }));
  EXPECT_EQ(guest.NextPacket().op(), kOpReset);
}

TEST(VsockHostileTest, PacketsOfNoConnectionAreAnsweredWithAReset) {
  VsockDriver guest;
  guest.PostReceive(16);
  for (const uint16_t op : {kOpInvalid, kOpResponse, kOpShutdown, kOpData, kOpCreditUpdate, kOpCreditRequest}) {
    guest.Send(op, 5, 6);
    EXPECT_EQ(guest.NextPacket().op(), kOpReset) << op;
  }
  guest.Send(99, 5, 6);
  EXPECT_EQ(guest.NextPacket().op(), kOpReset);
  guest.Send(kOpReset, 5, 6);
  EXPECT_EQ(guest.NextPacket().op(), kOpInvalid);
}

TEST(VsockHostileTest, ForeignAndMalformedPacketsDoNoHarm) {
  VsockDriver guest;
  guest.PostReceive(16);
  guest.Offer(80);
  PacketHeader header = guest.Header(kOpRequest, 1, 80, 0);
  header.src_cid = 8;  // another guest's
  guest.SendPacket(header, "");
  header = guest.Header(kOpRequest, 1, 80, 0);
  header.dst_cid = 3;
  guest.SendPacket(header, "");
  EXPECT_EQ(guest.NextPacket().op(), kOpInvalid);
  header = guest.Header(kOpRequest, 1, 80, 0);
  header.type = 2;  // seqpacket, not offered
  guest.SendPacket(header, "");
  const Packet reset = guest.NextPacket();
  EXPECT_EQ(reset.op(), kOpReset);
  EXPECT_EQ(reset.header.type, 2);
  // Short of a header.
  ASSERT_TRUE(guest.queue(kTransmitQueue).Chain().Readable(std::vector<uint8_t>(43)).Submit().ok());
  guest.device().QueueNotified(kTransmitQueue);
  EXPECT_EQ(guest.Unsent(), 0u);
  // A length that the packet does not have ends the connection.
  const UniqueFd host = guest.Connect(1000, 80);
  ASSERT_TRUE(host.valid());
  header = guest.Header(kOpData, 1000, 80, 0xffffffff);
  guest.SendPacket(header, "abc");
  EXPECT_EQ(guest.NextPacket().op(), kOpReset);
  EXPECT_EQ(guest.HostRead(host), "");
  EXPECT_TRUE(guest.HostEnded(host));
}

TEST(VsockHostileTest, OperationsThatDoNotFitTheStateEndTheConnection) {
  for (const uint16_t op : {kOpInvalid, kOpRequest, kOpResponse}) {
    VsockDriver guest;
    guest.PostReceive(8);
    const UniqueFd host = guest.Connect(1000, 80);
    guest.Send(op, 1000, 80);
    EXPECT_EQ(guest.NextPacket().op(), kOpReset) << op;
    EXPECT_TRUE(guest.HostEnded(host));
  }
  for (const uint16_t op : {kOpData, kOpShutdown, kOpCreditUpdate, kOpCreditRequest}) {
    VsockDriver guest;
    guest.PostReceive(8);
    const UniqueFd host = guest.HostConnects("CONNECT 1\n");
    guest.Answer(guest.NextPacket(), op);
    EXPECT_EQ(guest.NextPacket().op(), kOpReset) << op;
    EXPECT_TRUE(guest.HostEnded(host));
  }
}

TEST(VsockHostileTest, ConnectionsAreLimitedForBothSides) {
  VsockDriver guest({.max_connections = 3});
  guest.PostReceive(32);
  const UniqueFd one = guest.Connect(1, 80);
  const UniqueFd two = guest.Connect(2, 80);
  const UniqueFd greeting = guest.HostConnects("CONN");
  guest.Send(kOpRequest, 3, 80);
  EXPECT_EQ(guest.NextPacket().op(), kOpReset);
  const UniqueFd refused = guest.HostConnects("");
  EXPECT_TRUE(guest.HostEnded(refused));
  guest.Send(kOpReset, 1, 80);
  EXPECT_TRUE(guest.HostEnded(one));
  EXPECT_TRUE(guest.Connect(3, 80).valid());
}

TEST(VsockHostileTest, ResetsThatTheGuestDoesNotFetchHoldItsPacketsAndNothingElse) {
  VsockDriver guest;
  int sent = 0;
  while (guest.Send(kOpData, static_cast<uint32_t>(sent), 6)) {
    ++sent;
    ASSERT_LT(sent, 1000);
  }
  EXPECT_EQ(guest.Unsent(), 64u);
  for (int got = 0; got < sent;) {
    guest.PostReceive(8);
    const Packet packet = guest.NextPacket();
    ASSERT_EQ(packet.op(), kOpReset);
    EXPECT_EQ(packet.header.dst_port, static_cast<uint32_t>(got));
    ++got;
  }
  EXPECT_EQ(guest.Unsent(), 0u);
}

TEST(VsockHostileTest, MakingAndDroppingConnectionsWithoutReadingLeavesNothing) {
  VsockDriver guest;
  guest.Offer(80);
  for (uint32_t i = 0; i < 5000; ++i) {
    ASSERT_TRUE(guest.Send(kOpRequest, i % 7, 80));
    ASSERT_TRUE(guest.Send(kOpReset, i % 7, 80));
    guest.connector().hosts.clear();
  }
  EXPECT_EQ(guest.device().connections(), 0u);
  guest.PostReceive(4);
  EXPECT_EQ(guest.NextPacket().op(), kOpInvalid);
}

TEST(VsockHostileTest, OneConnectionDoesNotHoldUpAnother) {
  VsockDriver guest;
  guest.PostReceive(32);
  const UniqueFd stuck = guest.Connect(1, 80);
  const UniqueFd fine = guest.Connect(2, 80);
  // The host of the first does not read, and the guest takes nothing from it.
  guest.buf_alloc = 0;
  guest.Send(kOpCreditUpdate, 1, 80);
  guest.HostWrite(stuck, "unread");
  for (int i = 0; i < 100; ++i) {
    guest.Send(kOpData, 1, 80, std::string(2048, 'x'));
    if (guest.NextPacket().op() != kOpInvalid) guest.PostReceive(1);
  }
  guest.buf_alloc = 1 << 20;
  guest.Send(kOpData, 2, 80, "through");
  EXPECT_EQ(guest.HostRead(fine), "through");
  guest.HostWrite(fine, "back");
  Packet packet = guest.NextPacket();
  while (packet.op() != kOpInvalid && packet.op() != kOpData) packet = guest.NextPacket();
  EXPECT_EQ(packet.payload, "back");
}

TEST(VsockHostileTest, ShortReceiveBuffersAndBrokenRingsNeedAReset) {
  VsockDriver guest;
  guest.PostReceive(1, 44);
  guest.Send(kOpData, 5, 6);
  EXPECT_TRUE(guest.needs_reset());
  for (const uint16_t queue : {kReceiveQueue, kTransmitQueue}) {
    VsockDriver broken;
    broken.queue(queue).SetAvailIdx(1000);
    broken.device().QueueNotified(queue);
    broken.Send(kOpData, 5, 6);
    EXPECT_TRUE(broken.needs_reset()) << queue;
    broken.Reset();
    broken.PostReceive(8);
    EXPECT_TRUE(broken.Connect(1, 80).valid());
  }
}

TEST(VsockResetTest, AResetOfTheDeviceClosesTheHostsSockets) {
  VsockDriver guest;
  guest.PostReceive(8);
  const UniqueFd host = guest.Connect(1, 80);
  const UniqueFd greeting = guest.HostConnects("CONNECT");
  guest.Reset();
  EXPECT_TRUE(guest.HostEnded(host));
  EXPECT_TRUE(guest.HostEnded(greeting));
  EXPECT_EQ(guest.device().connections(), 0u);
}

TEST(VsockResetTest, ATransportResetIsAnEvent) {
  VsockDriver guest;
  guest.PostReceive(8);
  const UniqueFd host = guest.Connect(1, 80);
  guest.device().ResetTransport();
  EXPECT_TRUE(guest.HostEnded(host));
  EXPECT_EQ(guest.NextPacket().op(), kOpInvalid);
  ASSERT_TRUE(guest.queue(kEventQueue).Chain().Writable(4).Submit().ok());
  guest.device().QueueNotified(kEventQueue);
  const auto event = guest.queue(kEventQueue).Collect();
  ASSERT_TRUE(event.has_value());
  EXPECT_THAT(event->data, ::testing::ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(guest.interrupts(kEventQueue), 1u);
}

}  // namespace
}  // namespace sluice::vsock
