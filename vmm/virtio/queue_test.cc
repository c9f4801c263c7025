// A split virtqueue as its driver sees it, well-behaved and hostile.
#include "vmm/virtio/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "vmm/base/mutex.h"
#include "vmm/virtio/testing/fake_driver.h"

namespace sluice::virtio {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;
using testing::Completion;
using testing::FakeDriver;
using ::testing::HasSubstr;

constexpr uint64_t kRamBytes = 8 << 20;

std::vector<uint8_t> Bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

class QueueTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }
  void Start(const FakeDriver::Options& options, bool indirect = true) {
    auto ram = GuestMemory::CreateSimple(kRamBytes);
    ASSERT_TRUE(ram.ok()) << ram.status();
    ram_ = *ram;
    auto driver = FakeDriver::Create(ram_, options);
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = std::make_unique<FakeDriver>(*std::move(driver));
    QueueLayout layout = driver_->layout();
    layout.indirect = indirect;
    auto queue = Queue::Create(ram_, layout);
    ASSERT_TRUE(queue.ok()) << queue.status();
    queue_ = std::make_unique<Queue>(*std::move(queue));
  }
  DescriptorChain MustPop() {
    auto chain = queue_->Pop();
    EXPECT_TRUE(chain.ok()) << chain.status();
    EXPECT_TRUE(chain.ok() && chain->has_value());
    return **std::move(chain);
  }
  bool Empty() {
    auto chain = queue_->Pop();
    return chain.ok() && !chain->has_value();
  }
  // Pop fails now and for ever after, and says why.
  void ExpectBroken(const std::string& why) {
    for (int i = 0; i < 2; ++i) {
      const auto chain = queue_->Pop();
      ASSERT_FALSE(chain.ok());
      EXPECT_THAT(std::string(chain.status().message()), HasSubstr(why));
    }
    EXPECT_FALSE(queue_->status().ok());
    EXPECT_EQ(queue_->in_flight(), 0u);
  }
  static std::string ReadAll(const DescriptorChain& chain) {
    std::vector<uint8_t> bytes(chain.ReadableSize());
    EXPECT_TRUE(chain.Read(0, absl::MakeSpan(bytes)).ok());
    return {bytes.begin(), bytes.end()};
  }

  GuestMemory ram_;
  std::unique_ptr<FakeDriver> driver_;
  std::unique_ptr<Queue> queue_;
};

// ------------------------------------------------------------------------------------------------ good drivers

TEST_F(QueueTest, AnEmptyRingHasNoChain) {
  EXPECT_TRUE(Empty());
}

TEST_F(QueueTest, ARequestIsReadAndItsResponseWritten) {
  const auto head = driver_->Chain().Readable(Bytes("ping")).Writable(16).Submit();
  ASSERT_TRUE(head.ok());
  DescriptorChain chain = MustPop();
  EXPECT_EQ(chain.head(), *head);
  EXPECT_EQ(ReadAll(chain), "ping");
  EXPECT_EQ(chain.WritableSize(), 16u);
  ASSERT_TRUE(chain.Write(0, Bytes("pong")).ok());
  EXPECT_EQ(queue_->in_flight(), 1u);
  ASSERT_TRUE(queue_->Complete(std::move(chain), 4).ok());
  EXPECT_EQ(queue_->in_flight(), 0u);

  const auto done = driver_->Collect();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->head, *head);
  EXPECT_EQ(done->written, 4u);
  EXPECT_EQ(done->data, Bytes("pong"));
  EXPECT_FALSE(driver_->Collect().has_value());
}

TEST_F(QueueTest, PiecesAreOneStreamOfBytes) {
  ASSERT_TRUE(driver_->Chain()
                  .Readable(Bytes("ab"))
                  .Readable(Bytes("cde"))
                  .Readable(Bytes("f"))
                  .Writable(2)
                  .Writable(3)
                  .Submit()
                  .ok());
  DescriptorChain chain = MustPop();
  EXPECT_EQ(chain.readable().size(), 3u);
  EXPECT_EQ(chain.writable().size(), 2u);
  std::vector<uint8_t> middle(4);
  ASSERT_TRUE(chain.Read(1, absl::MakeSpan(middle)).ok());
  EXPECT_EQ(middle, Bytes("bcde"));
  ASSERT_TRUE(chain.Write(1, Bytes("XYZ")).ok());
  ASSERT_TRUE(queue_->Complete(std::move(chain), 5).ok());
  EXPECT_EQ(driver_->Collect()->data, Bytes("\xaaXYZ\xaa"));
}

TEST_F(QueueTest, ObjectsAreCopiedAcrossPieces) {
  ASSERT_TRUE(
      driver_->Chain().Readable(Bytes("\x01\x02")).Readable(Bytes("\x03\x04")).Writable(3).Writable(1).Submit().ok());
  DescriptorChain chain = MustPop();
  const auto value = chain.ReadObject<uint32_t>(0);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value, 0x04030201u);
  EXPECT_TRUE(chain.WriteObject<uint32_t>(0, 0x0d0c0b0a).ok());
  ASSERT_TRUE(queue_->Complete(std::move(chain), 4).ok());
  EXPECT_EQ(driver_->Collect()->data, Bytes("\x0a\x0b\x0c\x0d"));
}

TEST_F(QueueTest, AccessesBeyondAPartFailAndCopyNothing) {
  ASSERT_TRUE(driver_->Chain().Readable(Bytes("abcd")).Writable(4).Submit().ok());
  DescriptorChain chain = MustPop();
  std::vector<uint8_t> five(5, 0x55);
  EXPECT_EQ(chain.Read(0, absl::MakeSpan(five)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(five, std::vector<uint8_t>(5, 0x55));
  EXPECT_FALSE(chain.Read(UINT64_MAX, absl::MakeSpan(five)).ok());
  EXPECT_FALSE(chain.Write(1, Bytes("wxyz")).ok());
  EXPECT_FALSE(chain.Write(UINT64_MAX - 1, Bytes("wxyz")).ok());
  EXPECT_FALSE(chain.ReadObject<uint64_t>(0).ok());
  EXPECT_FALSE(chain.WriteObject<uint64_t>(0, 1).ok());
  EXPECT_TRUE(chain.Read(4, {}).ok());
  ASSERT_TRUE(queue_->Complete(std::move(chain), 4).ok());
  EXPECT_EQ(driver_->Collect()->data, Bytes("\xaa\xaa\xaa\xaa"));
}

TEST_F(QueueTest, ChainsCompleteInAnyOrder) {
  std::vector<uint16_t> heads;
  std::vector<DescriptorChain> chains;
  for (int i = 0; i < 4; ++i) heads.push_back(*driver_->Chain().Readable(Bytes("x")).Writable(1).Submit());
  for (int i = 0; i < 4; ++i) chains.push_back(MustPop());
  EXPECT_TRUE(Empty());
  for (const int i : {2, 0, 3, 1}) {
    ASSERT_TRUE(queue_->Complete(std::move(chains[i]), 1).ok());
    EXPECT_EQ(driver_->Collect()->head, heads[i]);
  }
}

TEST_F(QueueTest, TheRingsWrapAroundFarBeyond16Bits) {
  for (int i = 0; i < 70000; ++i) {
    ASSERT_TRUE(driver_->Chain().Readable(Bytes("x")).Submit().ok());
    ASSERT_TRUE(queue_->Complete(MustPop(), 0).ok());
    ASSERT_TRUE(driver_->Collect().has_value());
  }
}

TEST_F(QueueTest, AFullRingOfSingleDescriptorsWorks) {
  std::vector<DescriptorChain> chains;
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(driver_->Chain().Writable(1).Submit().ok());
  EXPECT_FALSE(driver_->Chain().Writable(1).Submit().ok());
  for (int i = 0; i < 16; ++i) chains.push_back(MustPop());
  EXPECT_EQ(queue_->in_flight(), 16u);
  for (auto& chain : chains) ASSERT_TRUE(queue_->Complete(std::move(chain), 1).ok());
}

TEST_F(QueueTest, IndirectTablesAreFollowed) {
  ASSERT_TRUE(driver_->Chain().Readable(Bytes("ab")).Readable(Bytes("cd")).Writable(8).Indirect().Submit().ok());
  DescriptorChain chain = MustPop();
  EXPECT_EQ(ReadAll(chain), "abcd");
  EXPECT_EQ(chain.WritableSize(), 8u);
}

TEST_F(QueueTest, AnIndirectTableMayFollowDirectDescriptors) {
  ASSERT_TRUE(driver_->Chain().Readable(Bytes("ab")).Readable(Bytes("cd")).Writable(8).Indirect(1).Submit().ok());
  DescriptorChain chain = MustPop();
  EXPECT_EQ(ReadAll(chain), "abcd");
  EXPECT_EQ(chain.WritableSize(), 8u);
}

TEST_F(QueueTest, AnIndirectTableMayBeLongerThanTheQueue) {
  auto builder = driver_->Chain();
  std::string expected;
  for (uint32_t i = 0; i < kMaxChainDescriptors - 1; ++i) {
    expected.push_back(static_cast<char>(i));
    builder.Readable(Bytes(expected.substr(i)));
  }
  ASSERT_TRUE(builder.Writable(1).Indirect().Submit().ok());
  DescriptorChain chain = MustPop();
  EXPECT_EQ(ReadAll(chain), expected);
  EXPECT_EQ(chain.writable().size(), 1u);
}

TEST_F(QueueTest, TheWriteFlagOfATableIsIgnored) {
  // Section 2.7.5.3.2.
  ASSERT_TRUE(ram_.Write(GuestAddress(0x200000), VirtqDesc{0x300000, 4, 0, 0}).ok());
  driver_->WriteDescriptor(0, {0x200000, 16, kDescIndirect | kDescWrite, 0});
  driver_->Publish(0);
  EXPECT_EQ(MustPop().ReadableSize(), 4u);
}

TEST_F(QueueTest, EmptyDescriptorsAreSkipped) {
  ASSERT_TRUE(driver_->Chain().Raw(UINT64_MAX, 0, 0).Readable(Bytes("a")).Raw(0, 0, kDescWrite).Submit().ok());
  DescriptorChain chain = MustPop();
  EXPECT_EQ(ReadAll(chain), "a");
  EXPECT_EQ(chain.WritableSize(), 0u);
}

TEST_F(QueueTest, WrittenIsCappedToTheWritableSize) {
  ASSERT_TRUE(driver_->Chain().Readable(Bytes("abc")).Writable(2).Submit().ok());
  ASSERT_TRUE(queue_->Complete(MustPop(), UINT64_MAX).ok());
  EXPECT_EQ(driver_->Collect()->written, 2u);
}

TEST_F(QueueTest, DescriptorsAreFetchedOnce) {
  ASSERT_TRUE(driver_->Chain().Readable(Bytes("good")).Submit().ok());
  DescriptorChain chain = MustPop();
  driver_->WriteDescriptor(0, {UINT64_MAX, 0xffffffff, kDescWrite, 0});  // too late
  EXPECT_EQ(ReadAll(chain), "good");
}

// --------------------------------------------------------------------------------------- exactly-once completion

TEST_F(QueueTest, AMovedFromOrCompletedChainCompletesNothing) {
  ASSERT_TRUE(driver_->Chain().Writable(4).Submit().ok());
  DescriptorChain chain = MustPop();
  DescriptorChain other = std::move(chain);
  EXPECT_EQ(queue_->Complete(std::move(chain), 0).code(), absl::StatusCode::kFailedPrecondition);  // NOLINT
  EXPECT_TRUE(queue_->Complete(std::move(other), 0).ok());
  EXPECT_EQ(queue_->Complete(std::move(other), 0).code(), absl::StatusCode::kFailedPrecondition);  // NOLINT
  EXPECT_EQ(driver_->used_idx(), 1u);
  EXPECT_EQ(other.ReadableSize(), 0u);  // NOLINT
}

TEST_F(QueueTest, AChainOfBeforeAResetIsRefused) {
  ASSERT_TRUE(driver_->Chain().Writable(4).Submit().ok());
  DescriptorChain old = MustPop();
  *queue_ = *Queue::Create(ram_, driver_->layout());  // the driver set the same rings up again
  EXPECT_EQ(queue_->Complete(std::move(old), 4).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(driver_->used_idx(), 0u);
  EXPECT_EQ(queue_->in_flight(), 0u);
}

TEST_F(QueueTest, AChainOutlivesItsQueueAndItsMemoryHandle) {
  ASSERT_TRUE(driver_->Chain().Readable(Bytes("late")).Submit().ok());
  DescriptorChain chain = MustPop();
  queue_.reset();
  driver_.reset();
  ram_ = GuestMemory();
  EXPECT_EQ(ReadAll(chain), "late");
}

// -------------------------------------------------------------------------------------------- hostile drivers

TEST_F(QueueTest, AnIndexThatJumpsBreaksTheQueue) {
  driver_->SetAvailIdx(17);
  ExpectBroken("available index moved by 17");
}

TEST_F(QueueTest, AHeadOutsideTheTableBreaksTheQueue) {
  driver_->Publish(16);
  ExpectBroken("descriptor 16 does not exist");
}

TEST_F(QueueTest, ANextOutsideTheTableBreaksTheQueue) {
  driver_->WriteDescriptor(0, {0x200000, 4, kDescNext, 16});
  driver_->Publish(0);
  ExpectBroken("descriptor 16 does not exist");
}

TEST_F(QueueTest, ALoopEnds) {
  driver_->WriteDescriptor(0, {0x200000, 4, kDescNext, 1});
  driver_->WriteDescriptor(1, {0x200000, 4, kDescNext, 0});
  driver_->Publish(0);
  ExpectBroken("does not end");
}

TEST_F(QueueTest, AnIndirectLoopEnds) {
  ASSERT_TRUE(ram_.Write(GuestAddress(0x200000), VirtqDesc{0x300000, 4, kDescNext, 0}).ok());
  driver_->WriteDescriptor(0, {0x200000, 16, kDescIndirect, 0});
  driver_->Publish(0);
  ExpectBroken("does not end");
}

TEST_F(QueueTest, ATableLongerThanTheCapIsRefused) {
  for (uint32_t i = 0; i <= kMaxChainDescriptors; ++i) {
    const VirtqDesc entry = {0x300000, 1, kDescNext, static_cast<uint16_t>(i + 1)};
    ASSERT_TRUE(ram_.Write(GuestAddress(0x200000 + 16 * i), entry).ok());
  }
  driver_->WriteDescriptor(0, {0x200000, 16 * (kMaxChainDescriptors + 1), kDescIndirect, 0});
  driver_->Publish(0);
  ExpectBroken("too long");
}

TEST_F(QueueTest, NestedTablesAreRefused) {
  ASSERT_TRUE(ram_.Write(GuestAddress(0x200000), VirtqDesc{0x200000, 16, kDescIndirect, 0}).ok());
  driver_->WriteDescriptor(0, {0x200000, 16, kDescIndirect, 0});
  driver_->Publish(0);
  ExpectBroken("indirect table within another");
}

TEST_F(QueueTest, ATableCannotGoOn) {
  driver_->WriteDescriptor(0, {0x200000, 16, kDescIndirect | kDescNext, 1});
  driver_->Publish(0);
  ExpectBroken("both INDIRECT and NEXT");
}

TEST_F(QueueTest, TablesOfOddSizeOrOutsideRamAreRefused) {
  struct Case {
    uint64_t address;
    uint32_t size;
    const char* why;
  };
  for (const Case& c : {Case{0x200000, 0, "table of 0 bytes"}, Case{0x200000, 17, "table of 17 bytes"},
                        Case{0x200000, 8, "table of 8 bytes"}, Case{kRamBytes - 16, 32, "not RAM"},
                        Case{UINT64_MAX - 15, 16, "not RAM"}, Case{0x1000, 0xfffffff0, "not RAM"}}) {
    Start({});
    driver_->WriteDescriptor(0, {c.address, c.size, kDescIndirect, 0});
    driver_->Publish(0);
    ExpectBroken(c.why);
  }
}

TEST_F(QueueTest, IndirectWithoutNegotiationIsRefused) {
  Start({}, /*indirect=*/false);
  ASSERT_TRUE(driver_->Chain().Readable(Bytes("a")).Indirect().Submit().ok());
  ExpectBroken("without VIRTIO_F_INDIRECT_DESC");
}

TEST_F(QueueTest, BuffersOutsideRamAreRefused) {
  struct Case {
    uint64_t address;
    uint32_t size;
  };
  for (const Case& c : {Case{kRamBytes, 1}, Case{kRamBytes - 1, 2}, Case{UINT64_MAX, 1}, Case{UINT64_MAX - 3, 8},
                        Case{0, 0xffffffff}, Case{0x4000000000, 4096}}) {
    Start({});
    ASSERT_TRUE(driver_->Chain().Raw(c.address, c.size, 0).Submit().ok());
    ExpectBroken("not RAM");
  }
}

TEST_F(QueueTest, ReadableAfterWritableIsRefused) {
  ASSERT_TRUE(driver_->Chain().Writable(4).Readable(Bytes("a")).Submit().ok());
  ExpectBroken("readable descriptor after a writable one");
}

TEST_F(QueueTest, AChainOfFourGibibytesIsRefused) {
  // The same 8 MiB over and over, all valid by itself.
  auto builder = driver_->Chain();
  for (int i = 0; i < 512; ++i) builder.Raw(0, kRamBytes, 0);
  ASSERT_TRUE(builder.Indirect().Submit().ok());
  ExpectBroken("4 GiB");
}

TEST_F(QueueTest, MoreChainsThanDescriptorsAreRefused) {
  driver_->WriteDescriptor(3, {0x200000, 4, 0, 0});
  std::vector<DescriptorChain> chains;
  for (int i = 0; i < 16; ++i) {
    driver_->Publish(3);
    chains.push_back(MustPop());
  }
  driver_->Publish(3);
  EXPECT_FALSE(queue_->Pop().ok());
  // What is in flight can still be given back.
  for (auto& chain : chains) EXPECT_TRUE(queue_->Complete(std::move(chain), 0).ok());
  EXPECT_FALSE(queue_->Pop().ok());
}

TEST(Queue, BadLayoutsAreRefused) {
  const GuestMemory ram = *GuestMemory::CreateSimple(1 << 20);
  const QueueLayout good = {.size = 16,
                            .descriptors = GuestAddress(0x1000),
                            .driver_area = GuestAddress(0x2000),
                            .device_area = GuestAddress(0x3000)};
  EXPECT_TRUE(Queue::Create(ram, good).ok());
  const auto refused = [&](auto change) {
    QueueLayout layout = good;
    change(layout);
    return Queue::Create(ram, layout).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](QueueLayout& l) { l.size = 0; }));
  EXPECT_TRUE(refused([](QueueLayout& l) { l.size = 24; }));
  EXPECT_TRUE(refused([](QueueLayout& l) { l.size = 65535; }));
  EXPECT_TRUE(refused([](QueueLayout& l) { l.descriptors = GuestAddress(0x1008); }));
  EXPECT_TRUE(refused([](QueueLayout& l) { l.driver_area = GuestAddress(0x2001); }));
  EXPECT_TRUE(refused([](QueueLayout& l) { l.device_area = GuestAddress(0x3002); }));
  EXPECT_TRUE(refused([](QueueLayout& l) { l.descriptors = GuestAddress((1 << 20) - 128); }));
  EXPECT_TRUE(refused([](QueueLayout& l) { l.driver_area = GuestAddress(1 << 20); }));
  EXPECT_TRUE(refused([](QueueLayout& l) { l.device_area = GuestAddress(UINT64_MAX - 3); }));
}

// ------------------------------------------------------------------------------------------------ notifications

TEST_F(QueueTest, InterruptsAreWantedOncePerBatchOfCompletions) {
  EXPECT_FALSE(queue_->NeedsInterrupt());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(driver_->Chain().Writable(1).Submit().ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue_->Complete(MustPop(), 1).ok());
  EXPECT_TRUE(queue_->NeedsInterrupt());
  EXPECT_FALSE(queue_->NeedsInterrupt());
}

TEST_F(QueueTest, TheNoInterruptFlagIsHeeded) {
  driver_->SetNoInterrupt(true);
  ASSERT_TRUE(driver_->Chain().Writable(1).Submit().ok());
  ASSERT_TRUE(queue_->Complete(MustPop(), 1).ok());
  EXPECT_FALSE(queue_->NeedsInterrupt());
}

TEST_F(QueueTest, WithEventIndicesTheDriverNamesTheCompletionItWaitsFor) {
  Start({.event_idx = true});
  driver_->SetUsedEvent(2);  // wake me when the third is used
  std::vector<bool> interrupts;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(driver_->Chain().Writable(1).Submit().ok());
    ASSERT_TRUE(queue_->Complete(MustPop(), 1).ok());
    interrupts.push_back(queue_->NeedsInterrupt());
  }
  EXPECT_EQ(interrupts, (std::vector<bool>{false, false, true, false, false}));
}

TEST_F(QueueTest, WithEventIndicesABatchThatPassesTheEventInterruptsOnce) {
  Start({.event_idx = true});
  driver_->SetUsedEvent(1);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(driver_->Chain().Writable(1).Submit().ok());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(queue_->Complete(MustPop(), 1).ok());
  EXPECT_TRUE(queue_->NeedsInterrupt());
  EXPECT_FALSE(queue_->NeedsInterrupt());
}

class DrainTest : public QueueTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override { Start({.event_idx = GetParam()}); }
};
INSTANTIATE_TEST_SUITE_P(Notifications, DrainTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "EventIdx" : "Flags"; });

TEST_P(DrainTest, HandlesAllAndAsksToBeNotifiedOfTheNext) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(driver_->Chain().Writable(1).Submit().ok());
  EXPECT_TRUE(driver_->NeedsNotify());
  int handled = 0;
  const auto more = queue_->Drain(10, [&](DescriptorChain chain) {
    if (handled == 1) {
      // Made available while we work: found without a notification.
      EXPECT_TRUE(driver_->Chain().Writable(1).Submit().ok());
      EXPECT_FALSE(driver_->NeedsNotify());
    }
    ++handled;
    EXPECT_TRUE(queue_->Complete(std::move(chain), 1).ok());
  });
  ASSERT_TRUE(more.ok());
  EXPECT_FALSE(*more);
  EXPECT_EQ(handled, 4);
  ASSERT_TRUE(driver_->Chain().Writable(1).Submit().ok());
  EXPECT_TRUE(driver_->NeedsNotify());
}

TEST_P(DrainTest, StopsAtItsBudget) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(driver_->Chain().Writable(1).Submit().ok());
  int handled = 0;
  const auto handler = [&](DescriptorChain chain) {
    ++handled;
    EXPECT_TRUE(queue_->Complete(std::move(chain), 1).ok());
  };
  EXPECT_TRUE(*queue_->Drain(2, handler));
  EXPECT_EQ(handled, 2);
  EXPECT_TRUE(*queue_->Drain(2, handler));
  EXPECT_FALSE(*queue_->Drain(2, handler));
  EXPECT_EQ(handled, 5);
}

TEST_P(DrainTest, ReportsABrokenRing) {
  ASSERT_TRUE(driver_->Chain().Writable(1).Submit().ok());
  driver_->Publish(99);
  int handled = 0;
  EXPECT_FALSE(queue_->Drain(10, [&](DescriptorChain) { ++handled; }).ok());
  EXPECT_EQ(handled, 1);
}

// Driver and device on their own threads, each sleeping when the other has asked for nothing: no wake-up is lost.
TEST_P(DrainTest, NoNotificationIsLostBetweenThreads) {
  constexpr int kRequests = 20000;
  Mutex mu;
  CondVar cv;
  int kicks = 0;
  int interrupts = 0;
  const auto raise = [&](int& counter) {
    MutexLock lock(&mu);
    ++counter;
    cv.SignalAll();
  };
  // Waits until the counter is above `seen`; false if a minute passes, which a lost wake-up makes it do.
  const auto wait = [&](int& counter, int& seen) {
    MutexLock lock(&mu);
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (counter == seen) {
      if (cv.WaitWithTimeout(&mu, deadline - absl::Now()) && counter == seen) return false;
    }
    seen = counter;
    return true;
  };

  std::thread device([&] {
    int seen = 0;
    int done = 0;
    while (done < kRequests) {
      const auto more = queue_->Drain(64, [&](DescriptorChain chain) {
        const auto value = chain.ReadObject<uint32_t>(0);
        ASSERT_TRUE(value.ok());
        ASSERT_TRUE(chain.WriteObject<uint32_t>(0, *value + 1).ok());
        ASSERT_TRUE(queue_->Complete(std::move(chain), 4).ok());
        ++done;
      });
      ASSERT_TRUE(more.ok());
      if (queue_->NeedsInterrupt()) raise(interrupts);
      if (!*more && done < kRequests) {
        ASSERT_TRUE(wait(kicks, seen)) << "the device sleeps for ever after " << done;
      }
    }
  });
  int seen = 0;
  int sent = 0;
  int received = 0;
  while (received < kRequests) {
    while (sent < kRequests && driver_->Chain().ReadableObject(uint32_t(sent)).Writable(4).Indirect().Submit().ok()) {
      ++sent;
    }
    if (driver_->NeedsNotify()) raise(kicks);
    bool any = false;
    while (auto done = driver_->Collect()) {
      ASSERT_EQ(done->data.size(), 4u);
      any = true;
      ++received;
    }
    if (!any && received < kRequests) {
      // Asked for an interrupt at the last Collect; look once more, then sleep.
      if (driver_->used_idx() != static_cast<uint16_t>(received)) continue;
      if (!wait(interrupts, seen)) {
        ADD_FAILURE() << "the driver sleeps for ever after " << received;
        break;
      }
    }
  }
  device.join();
}

}  // namespace
}  // namespace sluice::virtio
