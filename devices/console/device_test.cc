// virtio-console through its queues, with sockets on the host's side.
#include "devices/console/device.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include "devices/console/testing/console_driver.h"

namespace sluice::console {
namespace {

using testing::ConsoleDriver;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Message = ConsoleDriver::Message;

constexpr uint64_t kPlain = kFeatureSize;

Message Said(uint32_t port, uint16_t event, uint16_t value, std::string tail = "") {
  return {{port, event, value}, std::move(tail)};
}

TEST(ConsoleConfigTest, TellsSizeAndPorts) {
  ConsoleDriver guest({.ports = 3});
  guest.device().SetSize(0x1234, 300);
  uint8_t config[16];
  for (size_t at = 0; at < 16; at += 8) guest.device().ReadConfig(at, absl::MakeSpan(config).subspan(at, 8));
  EXPECT_THAT(config, ElementsAre(0x34, 0x12, 44, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(guest.config_interrupts(), 1u);
  guest.device().SetSize(0x1234, 300);
  EXPECT_EQ(guest.config_interrupts(), 1u);
  EXPECT_EQ(guest.device().queue_max_sizes().size(), 8u);
}

TEST(ConsoleConfigTest, OptionsOutOfRangeAreRefused) {
  asio::io_context loop;
  const auto create = [&loop](size_t ports, std::string name, size_t buffer, int fd) {
    ConsoleOptions options;
    options.loop = &loop;
    for (size_t i = 0; i < ports; ++i) {
      PortOptions port;
      port.name = name;
      port.buffer_bytes = buffer;
      port.fd.Reset(fd);
      options.ports.push_back(std::move(port));
    }
    return ConsoleDevice::Create(std::move(options)).status().code();
  };
  EXPECT_EQ(create(1, "a", 100, -1), absl::StatusCode::kOk);
  EXPECT_EQ(create(16, "", 100, -1), absl::StatusCode::kOk);
  EXPECT_EQ(create(0, "a", 100, -1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(17, "a", 100, -1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(1, "a b", 100, -1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(1, std::string(129, 'a'), 100, -1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(1, "a", 0, -1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(1, "a", 100, open("/", O_RDONLY | O_CLOEXEC)), absl::StatusCode::kInvalidArgument);
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);  // a write to it could raise SIGPIPE
  EXPECT_EQ(create(1, "a", 100, fds[1]), absl::StatusCode::kInvalidArgument);
  close(fds[0]);
}

TEST(ConsoleControlTest, PortsAreIntroducedOneAfterTheOther) {
  ConsoleDriver guest({.ports = 2});
  guest.PostControl(24);
  EXPECT_THAT(guest.Messages(), IsEmpty());
  guest.SendControl({.id = 0, .event = kDeviceReady, .value = 1});
  EXPECT_THAT(guest.Messages(), ElementsAre(Said(0, kPortAdd, 1), Said(1, kPortAdd, 1)));
  guest.SendControl({.id = 1, .event = kPortReady, .value = 1});
  EXPECT_THAT(guest.Messages(), ElementsAre(Said(1, kPortName, 1, "port.1"), Said(1, kPortOpen, 1)));
  guest.SendControl({.id = 0, .event = kPortReady, .value = 1});
  EXPECT_THAT(guest.Messages(),
              ElementsAre(Said(0, kConsolePort, 1), Said(0, kPortName, 1, "console"),
                          Said(0, kResize, 1, std::string("\x19\0\x50\0", 4)), Said(0, kPortOpen, 1)));
}

TEST(ConsoleControlTest, MessagesWaitForBuffers) {
  ConsoleDriver guest({.ports = 2});
  guest.SendControl({.id = 0, .event = kDeviceReady, .value = 1});
  for (int i = 0; i < 100; ++i) guest.SendControl({.id = 1, .event = kPortReady, .value = 1});
  guest.PostControl(1);
  EXPECT_THAT(guest.Messages(), ElementsAre(Said(0, kPortAdd, 1)));
  guest.PostControl(20);
  EXPECT_THAT(guest.Messages(),
              ElementsAre(Said(1, kPortAdd, 1), Said(1, kPortName, 1, "port.1"), Said(1, kPortOpen, 1)));
}

TEST(ConsoleControlTest, ASizeIsToldToConsolePortsOnly) {
  ConsoleDriver guest({.ports = 2});
  guest.Start();
  guest.Messages();
  guest.device().SetSize(100, 40);
  EXPECT_THAT(guest.Messages(), ElementsAre(Said(0, kResize, 1, std::string("\x28\0\x64\0", 4))));
}

TEST(ConsoleControlTest, NonsenseFromTheDriverIsIgnored) {
  ConsoleDriver guest({.ports = 2});
  guest.PostControl(8);
  guest.SendControl({.id = 2, .event = kPortReady, .value = 1});
  guest.SendControl({.id = 0xffffffff, .event = kPortOpen, .value = 1});
  guest.SendControl({.id = 0, .event = 77, .value = 1});
  guest.SendControl({.id = 1, .event = kPortReady, .value = 0});
  ASSERT_TRUE(guest.queue(kControlTransmitQueue).Chain().Readable(std::vector<uint8_t>(3)).Submit().ok());
  guest.device().QueueNotified(kControlTransmitQueue);
  EXPECT_THAT(guest.Messages(), IsEmpty());
  EXPECT_FALSE(guest.needs_reset());
}

TEST(ConsoleControlTest, ABufferTooShortForAMessageNeedsAReset) {
  ConsoleDriver guest;
  guest.PostControl(1, 11);
  guest.SendControl({.id = 0, .event = kDeviceReady, .value = 1});
  EXPECT_TRUE(guest.needs_reset());
}

TEST(ConsoleOutputTest, WhatTheGuestSendsArrivesInOrder) {
  ConsoleDriver guest({.ports = 2});
  guest.Start();
  EXPECT_TRUE(guest.Send(0, "to the console\n"));
  EXPECT_TRUE(guest.Send(1, "one "));
  EXPECT_TRUE(guest.Send(1, "two"));
  EXPECT_EQ(guest.HostRead(0), "to the console\n");
  EXPECT_EQ(guest.HostRead(1), "one two");
  EXPECT_EQ(guest.Unsent(0) + guest.Unsent(1), 0u);
  EXPECT_GT(guest.interrupts(TransmitQueue(1)), 0u);
}

TEST(ConsoleOutputTest, AHostThatDoesNotReadHoldsTheGuestAfterABufferful) {
  ConsoleDriver guest({.ports = 2, .buffer_bytes = 10000});
  guest.Start();
  std::string sent;
  for (int i = 0; i < 10000; ++i) {
    const std::string line(1000, static_cast<char>('a' + i % 26));
    if (!guest.Send(1, line)) break;
    sent += line;
  }
  EXPECT_EQ(guest.Unsent(1), 32u);
  // The other port, and input, go on.
  EXPECT_TRUE(guest.Send(0, "still here"));
  EXPECT_EQ(guest.HostRead(0), "still here");
  guest.HostWrite(1, "input");
  EXPECT_EQ(guest.Received(1), "input");
  EXPECT_TRUE(guest.HostRead(1) == sent);
  EXPECT_EQ(guest.Unsent(1), 0u);
  EXPECT_EQ(guest.device().discarded_bytes(), 0u);
}

TEST(ConsoleOutputTest, APortThatDiscardsNeverHoldsTheGuest) {
  ConsoleDriver guest({.ports = 1, .buffer_bytes = 10000, .discard_when_full = true});
  guest.Start();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(guest.Send(0, std::string(4000, 'x')));
  EXPECT_EQ(guest.Unsent(0), 0u);
  const size_t read = guest.HostRead(0).size();
  EXPECT_GT(read, 10000u);
  EXPECT_EQ(read + guest.device().discarded_bytes(), 4000u * 1000);
}

TEST(ConsoleOutputTest, AChainLargerThanTheBufferGoesThroughInPieces) {
  ConsoleDriver guest({.ports = 1, .buffer_bytes = 1});
  guest.Start();
  std::string text;
  for (int i = 0; i < 300000; ++i) text.push_back(static_cast<char>('a' + i % 23));
  ASSERT_TRUE(guest.Send(0, text));
  EXPECT_TRUE(guest.HostRead(0) == text);
  EXPECT_EQ(guest.Unsent(0), 0u);
}

TEST(ConsoleInputTest, BytesWaitUntilThePortIsOpenInTheGuest) {
  std::vector<std::pair<uint32_t, bool>> opens;
  ConsoleDriver guest({.ports = 2, .on_guest_open = [&](uint32_t port, bool open) { opens.emplace_back(port, open); }});
  guest.PostControl(8);
  ASSERT_TRUE(guest.PostInput(1, 64));
  guest.HostWrite(1, "early");
  EXPECT_EQ(guest.Received(1), "");
  guest.SendControl({.id = 1, .event = kPortOpen, .value = 1});
  EXPECT_EQ(guest.Received(1), "early");
  EXPECT_TRUE(guest.device().guest_open(1));
  guest.SendControl({.id = 1, .event = kPortOpen, .value = 0});
  ASSERT_TRUE(guest.PostInput(1, 64));
  guest.HostWrite(1, "late");
  EXPECT_EQ(guest.Received(1), "");
  EXPECT_THAT(opens, ElementsAre(std::pair(1u, true), std::pair(1u, false)));
}

TEST(ConsoleInputTest, BytesAreSplitOverBuffersAndWaitForMore) {
  ConsoleDriver guest;
  guest.Start();  // four buffers of 64
  const std::string text(1000, 'i');
  EXPECT_EQ(guest.HostWrite(0, text), 1000u);
  EXPECT_EQ(guest.Received(0).size(), 256u);
  ASSERT_TRUE(guest.PostInput(0, 500));
  ASSERT_TRUE(guest.PostInput(0, 500));
  EXPECT_EQ(guest.Received(0).size(), 744u);
}

TEST(ConsoleInputTest, ABufferWithoutRoomComesBackEmpty) {
  ConsoleDriver guest;
  guest.SendControl({.id = 0, .event = kPortOpen, .value = 1});
  ASSERT_TRUE(guest.queue(0).Chain().Readable(std::vector<uint8_t>(4)).Submit().ok());
  ASSERT_TRUE(guest.PostInput(0, 16));
  guest.HostWrite(0, "x");
  EXPECT_EQ(guest.Received(0), "x");
  EXPECT_EQ(guest.queue(0).outstanding(), 0u);
}

TEST(ConsolePlainTest, WithoutMultiportThereIsOneOpenPort) {
  ConsoleDriver guest({.ports = 2, .features = kPlain});
  ASSERT_TRUE(guest.PostInput(0, 16));
  guest.HostWrite(0, "in");
  EXPECT_EQ(guest.Received(0), "in");
  ASSERT_TRUE(guest.Send(0, "out"));
  EXPECT_EQ(guest.HostRead(0), "out");
  guest.PostControl(4);
  guest.SendControl({.id = 0, .event = kDeviceReady, .value = 1});
  EXPECT_THAT(guest.Messages(), IsEmpty());
  guest.device().SetSize(99, 9);
  EXPECT_EQ(guest.config_interrupts(), 1u);
}

TEST(ConsoleHostTest, AHostThatClosesIsToldAndOutputIsDiscarded) {
  std::vector<uint32_t> closed;
  ConsoleDriver guest({.ports = 2, .on_host_closed = [&](uint32_t port) { closed.push_back(port); }});
  guest.Start();
  guest.Messages();
  guest.HostClose(1);
  EXPECT_THAT(guest.Messages(), ElementsAre(Said(1, kPortOpen, 0)));
  EXPECT_THAT(closed, ElementsAre(1u));
  EXPECT_FALSE(guest.device().host_connected(1));
  ASSERT_TRUE(guest.Send(1, "nobody"));
  EXPECT_EQ(guest.Unsent(1), 0u);
  EXPECT_EQ(guest.device().discarded_bytes(), 6u);

  ASSERT_TRUE(guest.Reconnect(1).ok());
  EXPECT_THAT(guest.Messages(), ElementsAre(Said(1, kPortOpen, 1)));
  ASSERT_TRUE(guest.Send(1, "somebody"));
  EXPECT_EQ(guest.HostRead(1), "somebody");
  guest.HostWrite(1, "again");
  EXPECT_EQ(guest.Received(1), "again");
  EXPECT_EQ(guest.Reconnect(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(guest.Reconnect(2).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ConsoleHostTest, AHostThatClosesWhileTheGuestWaitsFreesIt) {
  ConsoleDriver guest({.ports = 1});
  guest.Start();
  for (int i = 0; i < 10000 && guest.Send(0, std::string(1000, 'x')); ++i) {
  }
  ASSERT_GT(guest.Unsent(0), 0u);
  guest.HostClose(0);
  EXPECT_EQ(guest.Unsent(0), 0u);
  EXPECT_GT(guest.device().discarded_bytes(), 1000u);
}

TEST(ConsoleHostTest, ATerminalServesAsAPort) {
  UniqueFd master(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_EQ(grantpt(master.get()), 0);
  ASSERT_EQ(unlockpt(master.get()), 0);
  UniqueFd terminal(open(ptsname(master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(terminal.valid());
  termios mode{};
  tcgetattr(terminal.get(), &mode);
  cfmakeraw(&mode);
  tcsetattr(terminal.get(), TCSANOW, &mode);
  ConsoleDriver guest;
  guest.Start();
  guest.HostClose(0);
  guest.Pump();
  ASSERT_TRUE(guest.device().ConnectPort(0, std::move(master)).ok());
  ASSERT_TRUE(guest.Send(0, "login: "));
  char text[16] = {};
  EXPECT_EQ(read(terminal.get(), text, sizeof(text)), 7);
  EXPECT_STREQ(text, "login: ");
  ASSERT_EQ(write(terminal.get(), "root\n", 5), 5);
  // A terminal passes bytes on in its own time.
  std::string typed;
  for (int i = 0; i < 1000 && typed.size() < 5; ++i) {
    typed += guest.Received(0);
    usleep(1000);
  }
  EXPECT_EQ(typed, "root\n");
}

TEST(ConsoleResetTest, AResetClosesPortsAndKeepsWhatLeftTheGuest) {
  std::vector<bool> opens;
  ConsoleDriver guest({.ports = 1, .on_guest_open = [&](uint32_t, bool open) { opens.push_back(open); }});
  guest.Start();
  ASSERT_TRUE(guest.Send(0, "before"));
  guest.Reset();
  EXPECT_THAT(opens, ElementsAre(true, false));
  guest.HostWrite(0, "typed meanwhile");
  guest.Start();
  EXPECT_EQ(guest.HostRead(0), "before");
  EXPECT_EQ(guest.Received(0), "typed meanwhile");
}

TEST(ConsoleResetTest, BrokenRingsNeedAReset) {
  for (uint16_t queue = 0; queue < 4; ++queue) {
    ConsoleDriver guest;
    guest.Start();
    guest.PostControl(4);
    for (int i = 0; i < 8; ++i) guest.HostWrite(0, std::string(64, 'x'));
    guest.queue(queue).SetAvailIdx(static_cast<uint16_t>(guest.queue(queue).avail_idx() + 1000));
    guest.device().SetSize(1, 2);
    for (uint16_t q = 0; q < 4; ++q) guest.device().QueueNotified(q);
    guest.Pump();
    if (queue != kControlReceiveQueue) {
      EXPECT_TRUE(guest.needs_reset()) << queue;
    }
    guest.Reset();
    guest.Start();
    EXPECT_TRUE(guest.Send(0, "works"));
  }
}

}  // namespace
}  // namespace sluice::console
