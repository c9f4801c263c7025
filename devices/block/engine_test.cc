#include "devices/block/engine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <numeric>

#include "devices/block/guest_pieces.h"

namespace sluice::block {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;

constexpr uint64_t kBytes = 8 << 20;

// Each engine on each kind of file system, through the same tests.
struct Param {
  EngineKind kind;
  const char* directory;
  const char* name;
};

class EngineTest : public ::testing::TestWithParam<Param>, public IoSink {
 protected:
  void SetUp() override {
    UniqueFd fd(open(GetParam().directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!fd.valid()) GTEST_SKIP() << GetParam().directory << " has no nameless files";
    fd_ = fd.get();
    ASSERT_EQ(ftruncate(fd_, kBytes), 0);
    auto disk = OpenDisk(std::move(fd), false);
    ASSERT_TRUE(disk.ok()) << disk.status();
    disk_ = *std::move(disk);
    ram_ = *GuestMemory::CreateSimple(kBytes);
    auto engine = CreateEngine(GetParam().kind,
                               {.loop = &loop_, .disk = disk_.get(), .sink = this, .threads = 3, .max_in_flight = 16});
    if (!engine.ok() && GetParam().kind == EngineKind::kUring) GTEST_SKIP() << engine.status();
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  void IoDone(absl::Span<const IoResult> results) override {
    EXPECT_FALSE(submitting_);
    for (const IoResult& result : results) EXPECT_TRUE(results_.emplace(result.id, result.ok).second);
  }

  IoRequest Transfer(uint64_t id, IoKind kind, uint64_t offset, uint64_t address, uint32_t bytes) {
    IoRequest request;
    request.id = id;
    request.kind = kind;
    request.offset = offset;
    request.memory = ram_;
    const virtio::Segment segments[] = {{GuestAddress(address), bytes / 2 + 100},
                                        {GuestAddress(address + bytes / 2 + 100), bytes / 2 - 100}};
    EXPECT_TRUE(AppendPieces(ram_, segments, 0, bytes, &request.pieces));
    return request;
  }

  void Submit(IoRequest request) {
    submitting_ = true;
    engine_->Submit(std::move(request));
    engine_->Kick();
    submitting_ = false;
  }

  // Waits for `count` results, at most 10 s.
  bool Wait(size_t count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (results_.size() < count && std::chrono::steady_clock::now() < end) {
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds(2));
    }
    return results_.size() >= count;
  }

  asio::io_context loop_;
  std::unique_ptr<Disk> disk_;
  int fd_ = -1;
  GuestMemory ram_;
  std::unique_ptr<IoEngine> engine_;
  std::map<uint64_t, bool> results_;
  bool submitting_ = false;
};
INSTANTIATE_TEST_SUITE_P(Engines, EngineTest,
                         ::testing::Values(Param{EngineKind::kThreads, "/var/tmp", "Threads"},
                                           Param{EngineKind::kThreads, "/dev/shm", "ThreadsTmpfs"},
                                           Param{EngineKind::kUring, "/var/tmp", "Uring"},
                                           Param{EngineKind::kUring, "/dev/shm", "UringTmpfs"}),
                         [](const auto& info) { return info.param.name; });

TEST_P(EngineTest, MovesDataBothWays) {
  std::vector<uint8_t> bytes(100 * 1024);
  std::iota(bytes.begin(), bytes.end(), uint8_t{3});
  ASSERT_TRUE(ram_.CopyTo(GuestAddress(0x1003), bytes).ok());
  Submit(Transfer(1, IoKind::kWrite, 4096, 0x1003, 100 * 1024));
  ASSERT_TRUE(Wait(1));
  EXPECT_TRUE(results_[1]);
  Submit(Transfer(2, IoKind::kRead, 4096, 0x200000, 100 * 1024));
  ASSERT_TRUE(Wait(2));
  EXPECT_TRUE(results_[2]);
  std::vector<uint8_t> back(bytes.size());
  ASSERT_TRUE(ram_.CopyFrom(GuestAddress(0x200000), absl::MakeSpan(back)).ok());
  EXPECT_EQ(back, bytes);
}

TEST_P(EngineTest, DoesEveryKindOfRequest) {
  ASSERT_TRUE(ram_.Fill(GuestAddress(0), 0x55, 65536).ok());
  IoRequest write = Transfer(1, IoKind::kWrite, 0, 0, 65536);
  write.durable = true;
  Submit(std::move(write));
  ASSERT_TRUE(Wait(1));
  Submit({.id = 2, .kind = IoKind::kFlush});
  Submit({.id = 3, .kind = IoKind::kDiscard, .ranges = {{0, 4096}}});
  Submit({.id = 4, .kind = IoKind::kWriteZeroes, .durable = true, .ranges = {{8192, 512}, {16384, 1024}}});
  ASSERT_TRUE(Wait(4));
  for (const auto& [id, ok] : results_) EXPECT_TRUE(ok) << id;
  Submit(Transfer(5, IoKind::kRead, 8192, 0x100000, 16384));
  ASSERT_TRUE(Wait(5));
  EXPECT_EQ(*ram_.Read<uint8_t>(GuestAddress(0x100000 + 511)), 0);
  EXPECT_EQ(*ram_.Read<uint8_t>(GuestAddress(0x100000 + 512)), 0x55);
  EXPECT_EQ(*ram_.Read<uint8_t>(GuestAddress(0x100000 + 8192)), 0);
}

TEST_P(EngineTest, ADurableWriteAfterADurableWriteWorks) {
  for (uint64_t id = 1; id <= 5; ++id) {
    IoRequest write = Transfer(id, IoKind::kWrite, id * 4096, 0, 4096);
    write.durable = true;
    Submit(std::move(write));
    ASSERT_TRUE(Wait(id));
    EXPECT_TRUE(results_[id]);
  }
}

TEST_P(EngineTest, ManyRequestsAllComeBackOnce) {
  constexpr uint64_t kRequests = 300;  // more than are in flight at once
  for (uint64_t id = 1; id <= kRequests; ++id) {
    engine_->Submit(Transfer(id, id % 2 == 0 ? IoKind::kRead : IoKind::kWrite, id * 4096, id * 4096, 4096));
    if (id % 10 == 0) engine_->Kick();
  }
  ASSERT_TRUE(Wait(kRequests));
  for (const auto& [id, ok] : results_) EXPECT_TRUE(ok) << id;
}

TEST_P(EngineTest, AFileThatBecameShorterIsAnError) {
  ASSERT_EQ(ftruncate(fd_, 4096), 0);
  Submit(Transfer(1, IoKind::kRead, 0, 0, 8192));
  ASSERT_TRUE(Wait(1));
  EXPECT_FALSE(results_[1]);
}

TEST_P(EngineTest, AfterQuiescingNothingIsToldAndTheEngineStillWorks) {
  for (int round = 0; round < 20; ++round) {
    for (uint64_t id = 1; id <= 60; ++id) engine_->Submit(Transfer(id, IoKind::kRead, id * 4096, id * 4096, 4096));
    engine_->Submit({.id = 99, .kind = IoKind::kDiscard, .ranges = {{0, 4096}}});
    if (round % 2 == 0) engine_->Kick();
    engine_->Quiesce();
    loop_.restart();
    loop_.poll();
    EXPECT_TRUE(results_.empty());
  }
  Submit(Transfer(1, IoKind::kRead, 0, 0, 4096));
  ASSERT_TRUE(Wait(1));
  EXPECT_TRUE(results_[1]);
}

TEST_P(EngineTest, MayGoWithRequestsInFlightWhichKeepGuestMemory) {
  for (uint64_t id = 1; id <= 60; ++id) engine_->Submit(Transfer(id, IoKind::kRead, id * 4096, id * 4096, 4096));
  engine_->Kick();
  ram_ = GuestMemory();
  engine_.reset();
  loop_.restart();
  loop_.poll();
  EXPECT_TRUE(results_.empty());
}

TEST(GuestPiecesTest, CrossRegionsAndStopAtTheEndOfRam) {
  std::vector<memory::RegionConfig> regions(2);
  regions[0] = {.start = GuestAddress(0), .size = 64 << 10, .name = "low"};
  regions[1] = {.start = GuestAddress(64 << 10), .size = 64 << 10, .name = "next"};
  const GuestMemory ram = *GuestMemory::Create(std::move(regions));
  const virtio::Segment segments[] = {{GuestAddress(0x100), 0x10}, {GuestAddress((64 << 10) - 8), 24}};
  std::vector<iovec> pieces;
  ASSERT_TRUE(AppendPieces(ram, segments, 4, 36, &pieces));
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].iov_len, 12u);
  EXPECT_EQ(pieces[0].iov_base, ram.regions()[0].mapping()->data() + 0x104);
  EXPECT_EQ(pieces[1].iov_len, 8u);
  EXPECT_EQ(pieces[2].iov_base, ram.regions()[1].mapping()->data());
  EXPECT_EQ(pieces[2].iov_len, 16u);
  pieces.clear();
  EXPECT_FALSE(AppendPieces(ram, segments, 4, 37, &pieces));
  const virtio::Segment outside[] = {{GuestAddress((128 << 10) - 8), 16}, {GuestAddress(UINT64_MAX - 3), 8}};
  EXPECT_FALSE(AppendPieces(ram, absl::MakeConstSpan(outside).subspan(0, 1), 0, 16, &pieces));
  EXPECT_FALSE(AppendPieces(ram, absl::MakeConstSpan(outside).subspan(1), 0, 8, &pieces));
  EXPECT_FALSE(AppendPieces(ram, absl::MakeConstSpan(outside).subspan(1), 7, 1, &pieces));
}

}  // namespace
}  // namespace sluice::block
