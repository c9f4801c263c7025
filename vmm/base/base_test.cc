#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vmm/base/checked.h"
#include "vmm/base/futex.h"
#include "vmm/base/log.h"
#include "vmm/base/mapping.h"
#include "vmm/base/mutex.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/thread.h"
#include "vmm/base/unique_fd.h"

namespace sluice {
namespace {

TEST(CheckedTest, RangesThatWrapDoNotFit) {
  EXPECT_TRUE(RangeFits(0, 10, 10));
  EXPECT_TRUE(RangeFits(10, 0, 10));
  EXPECT_FALSE(RangeFits(1, 10, 10));
  EXPECT_FALSE(RangeFits(UINT64_MAX, 2, 10));
  EXPECT_FALSE(RangeFits(2, UINT64_MAX, 10));
  EXPECT_FALSE(CheckedAlignUp(UINT64_MAX, 4096).has_value());
  EXPECT_EQ(CheckedAlignUp(4097, 4096), 8192u);
  EXPECT_FALSE(CheckedMul<uint32_t>(1u << 31, 2).has_value());
}

TEST(MemFdTest, CannotBeShrunkByAPeer) {
  auto fd = CreateMemFd("t", 1);
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_NE(ftruncate(fd->get(), 0), 0);
  auto map = Mapping::MapShared(fd->get(), 0, 4096, Mapping::kReadWrite);
  ASSERT_TRUE(map.ok()) << map.status();
  map->data()[4095] = 7;
  EXPECT_FALSE(CreateMemFd("t", 0).ok());
  EXPECT_FALSE(CreateMemFd("t", UINT64_MAX).ok());
}

TEST(ThreadTest, RunsItsBodyAndIsJoined) {
  int ran = 0;
  auto thread = StartThread([&] { ran = 1; });
  ASSERT_TRUE(thread.ok()) << thread.status();
  Thread moved = *std::move(thread);
  EXPECT_TRUE(moved.joinable());
  moved.Join();
  EXPECT_FALSE(moved.joinable());
  EXPECT_EQ(ran, 1);
}

TEST(ThreadTest, AHostWithoutThreadsIsAnErrorAndNotTheEnd) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Root is exempt from the limit: be somebody else.
    const rlimit none = {0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || (getuid() == 0 && setresuid(65534, 65534, 65534) != 0)) _exit(2);
    auto started = StartThread([] {});
    if (started.ok()) {
      started->Join();
      _exit(3);
    }
    _exit(started.status().code() == absl::StatusCode::kUnavailable ||
                  started.status().code() == absl::StatusCode::kResourceExhausted
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "the limit cannot be set here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(FutexTest, AWakeReachesASleeperThroughAnotherMapping) {
  auto fd = CreateMemFd("word", 4096);
  ASSERT_TRUE(fd.ok());
  auto mine = Mapping::MapShared(fd->get(), 0, 4096, Mapping::kReadWrite);
  auto theirs = Mapping::MapShared(fd->get(), 0, 4096, Mapping::kReadWrite);
  ASSERT_TRUE(mine.ok() && theirs.ok());
  auto* word = reinterpret_cast<std::atomic<uint32_t>*>(mine->data());
  auto* same = reinterpret_cast<std::atomic<uint32_t>*>(theirs->data());
  std::thread sleeper([&] {
    while (word->load() == 0) FutexWait(word, 0, absl::InfiniteDuration());
  });
  same->store(1);
  FutexWakeAll(same);
  sleeper.join();
  EXPECT_TRUE(FutexWait(word, 0, absl::InfiniteDuration())) << "the word is another already";
  EXPECT_FALSE(FutexWait(word, 1, absl::Milliseconds(1)));
}

TEST(SeqPacketTest, CarriesBytesAndDescriptorsAsOnePacket) {
  auto pair = CreateSeqPacketPair();
  ASSERT_TRUE(pair.ok());
  auto event = CreateEventFd(true);
  ASSERT_TRUE(event.ok());
  const std::vector<uint8_t> bytes = {1, 2, 3};
  ASSERT_TRUE(SendPacket(pair->first.get(), bytes, {event->get()}).ok());
  auto got = ReceivePacket(pair->second.get());
  ASSERT_TRUE(got.ok() && got->has_value());
  EXPECT_EQ((*got)->bytes, bytes);
  ASSERT_EQ((*got)->fds.size(), 1u);
  SignalEventFd((*got)->fds[0].get());
  EXPECT_EQ(DrainEventFd(event->get()), 1u);
}

TEST(SeqPacketTest, OversizeIsRefusedAndAClosedPeerIsNullopt) {
  auto pair = CreateSeqPacketPair();
  ASSERT_TRUE(pair.ok());
  const std::vector<uint8_t> big(kMaxPacketBytes + 1);
  EXPECT_EQ(SendPacket(pair->first.get(), big, {}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReceivePacket(pair->first.get(), true).status().code(), absl::StatusCode::kResourceExhausted);
  pair->second.Reset();
  auto got = ReceivePacket(pair->first.get());
  ASSERT_TRUE(got.ok());
  EXPECT_FALSE(got->has_value());
  EXPECT_EQ(SendPacket(pair->first.get(), {big.data(), 1}, {}).code(), absl::StatusCode::kUnavailable);
}

TEST(LogRateLimiterTest, StopsAFloodAndCountsWhatItDropped) {
  LogRateLimiter limiter;
  uint64_t suppressed = 0;
  int allowed = 0;
  for (int i = 0; i < 1000; ++i) allowed += limiter.Allow(&suppressed);
  EXPECT_GE(allowed, 10);
  EXPECT_LE(allowed, 20);
}

TEST(Printable, KeepsNothingThatATerminalWouldObey) {
  EXPECT_EQ(Printable("web-0 ~"), "web-0 ~");
  EXPECT_EQ(Printable(absl::string_view("a\x1b[2J\n\0\xc3\xa4", 9)), "a?[2J????");
}

}  // namespace
}  // namespace sluice
