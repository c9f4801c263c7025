#include "devices/block/disk.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace sluice::block {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBytes = 1 << 20;

// A nameless file of kBytes in `directory`.
UniqueFd TempFile(const std::string& directory, uint64_t bytes = kBytes) {
  UniqueFd fd(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.valid() && ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return UniqueFd();
  return fd;
}

std::vector<uint8_t> Pattern(size_t bytes) {
  std::vector<uint8_t> pattern(bytes);
  std::iota(pattern.begin(), pattern.end(), uint8_t{1});
  return pattern;
}

absl::Status Write(Disk& disk, uint64_t offset, std::vector<uint8_t> bytes, bool durable = false) {
  std::vector<iovec> pieces = {{bytes.data(), bytes.size() / 3}, {bytes.data() + bytes.size() / 3, 0}};
  pieces[1].iov_len = bytes.size() - pieces[0].iov_len;
  return disk.Write(offset, absl::MakeSpan(pieces), durable);
}

std::vector<uint8_t> Read(Disk& disk, uint64_t offset, size_t bytes) {
  std::vector<uint8_t> result(bytes, 0xcc);
  std::vector<iovec> pieces = {{result.data(), bytes}};
  EXPECT_TRUE(disk.Read(offset, absl::MakeSpan(pieces)).ok());
  return result;
}

// On a file system that knows holes and zero ranges (most often), and on one that only knows holes (tmpfs).
class DiskTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    UniqueFd fd = TempFile(GetParam());
    if (!fd.valid()) GTEST_SKIP() << GetParam() << " has no nameless files";
    fd_ = fd.get();
    auto disk = OpenDisk(std::move(fd), /*read_only=*/false);
    ASSERT_TRUE(disk.ok()) << disk.status();
    disk_ = *std::move(disk);
  }
  int64_t Blocks() const {
    struct stat status {};
    return fstat(fd_, &status) == 0 ? status.st_blocks : -1;
  }
  std::unique_ptr<Disk> disk_;
  int fd_ = -1;
};
INSTANTIATE_TEST_SUITE_P(FileSystems, DiskTest, ::testing::Values("/var/tmp", "/dev/shm"),
                         [](const auto& info) { return info.param == "/dev/shm" ? "Tmpfs" : "VarTmp"; });

TEST_P(DiskTest, KnowsItsSize) {
  EXPECT_EQ(disk_->info().bytes, kBytes);
  EXPECT_FALSE(disk_->info().read_only);
  EXPECT_EQ(disk_->info().logical_block, 512u);
  EXPECT_GE(disk_->info().physical_block, 512u);
}

TEST_P(DiskTest, ReadsWhatWasWritten) {
  for (const bool durable : {false, true}) {
    const std::vector<uint8_t> bytes = Pattern(5000);
    ASSERT_TRUE(Write(*disk_, 777, bytes, durable).ok());
    EXPECT_EQ(Read(*disk_, 777, bytes.size()), bytes);
  }
  EXPECT_TRUE(disk_->Flush().ok());
  EXPECT_EQ(Read(*disk_, 0, 777), std::vector<uint8_t>(777, 0));
}

TEST_P(DiskTest, MorePiecesThanOneCallTakesAreMoved) {
  std::vector<uint8_t> bytes = Pattern(3000);
  std::vector<iovec> pieces;
  for (uint8_t& byte : bytes) pieces.push_back({&byte, 1});
  ASSERT_TRUE(disk_->Write(100, absl::MakeSpan(pieces), false).ok());
  EXPECT_EQ(Read(*disk_, 100, 3000), bytes);
}

TEST_P(DiskTest, ZeroesAreWrittenWhateverTheHostKnows) {
  for (const bool unmap : {false, true}) {
    ASSERT_TRUE(Write(*disk_, 0, Pattern(300000)).ok());
    ASSERT_TRUE(disk_->WriteZeroes(1000, 200000, unmap).ok());
    const std::vector<uint8_t> back = Read(*disk_, 0, 300000);
    const std::vector<uint8_t> before = Pattern(300000);
    EXPECT_TRUE(std::equal(back.begin(), back.begin() + 1000, before.begin()));
    EXPECT_EQ(std::count(back.begin() + 1000, back.begin() + 201000, 0), 200000);
    EXPECT_TRUE(std::equal(back.begin() + 201000, back.end(), before.begin() + 201000));
  }
}

TEST_P(DiskTest, DiscardGivesSpaceBackAndKeepsTheSize) {
  ASSERT_TRUE(Write(*disk_, 0, Pattern(512 << 10)).ok());
  ASSERT_TRUE(disk_->Flush().ok());
  const int64_t before = Blocks();
  ASSERT_TRUE(disk_->Discard(0, 256 << 10).ok());
  EXPECT_LT(Blocks(), before);
  EXPECT_EQ(Read(*disk_, 512 << 10, 512), std::vector<uint8_t>(512, 0));
}

TEST_P(DiskTest, AFileThatBecameShorterIsAnErrorNotAnEndlessLoop) {
  ASSERT_EQ(ftruncate(fd_, 4096), 0);
  std::vector<uint8_t> bytes(8192);
  std::vector<iovec> pieces = {{bytes.data(), bytes.size()}};
  EXPECT_EQ(disk_->Read(0, absl::MakeSpan(pieces)).code(), absl::StatusCode::kDataLoss);
}

// A block device of the host's: a loop device over a nameless file. Needs root and the loop driver.
class BlockDeviceDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const UniqueFd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    const int number = control.valid() ? ioctl(control.get(), LOOP_CTL_GET_FREE) : -1;
    if (number < 0) GTEST_SKIP() << "no loop devices here";
    loop_ = UniqueFd(open(("/dev/loop" + std::to_string(number)).c_str(), O_RDWR | O_CLOEXEC));
    const UniqueFd file = TempFile("/dev/shm");
    if (!loop_.valid() || ioctl(loop_.get(), LOOP_SET_FD, file.get()) != 0) GTEST_SKIP() << "no loop device to be had";
    attached_ = true;
    auto disk = OpenDisk(*loop_.Duplicate(), /*read_only=*/false);
    ASSERT_TRUE(disk.ok()) << disk.status();
    disk_ = *std::move(disk);
  }
  ~BlockDeviceDiskTest() override {
    disk_.reset();
    if (attached_) ioctl(loop_.get(), LOOP_CLR_FD, 0);
  }
  UniqueFd loop_;
  bool attached_ = false;
  std::unique_ptr<Disk> disk_;
};

TEST_F(BlockDeviceDiskTest, IsADiskLikeAFile) {
  EXPECT_EQ(disk_->info().bytes, kBytes);
  EXPECT_EQ(disk_->info().logical_block, 512u);
  const std::vector<uint8_t> bytes = Pattern(300000);
  ASSERT_TRUE(Write(*disk_, 0, bytes, /*durable=*/true).ok());
  EXPECT_EQ(Read(*disk_, 0, bytes.size()), bytes);
  EXPECT_TRUE(disk_->Flush().ok());
}

TEST_F(BlockDeviceDiskTest, ZeroesAndDiscardsWholeBlocksAndParts) {
  const std::vector<uint8_t> bytes = Pattern(300000);
  for (const bool unmap : {false, true}) {
    for (const auto& [offset, size] : {std::pair<size_t, size_t>{4096, 8192}, {1000, 20000}}) {
      ASSERT_TRUE(Write(*disk_, 0, bytes).ok());
      ASSERT_TRUE(disk_->WriteZeroes(offset, size, unmap).ok());
      std::vector<uint8_t> want = bytes;
      std::fill_n(want.begin() + static_cast<std::ptrdiff_t>(offset), size, uint8_t{0});
      EXPECT_EQ(Read(*disk_, 0, bytes.size()), want) << unmap << " " << offset;
    }
  }
  ASSERT_TRUE(Write(*disk_, 0, bytes).ok());
  EXPECT_TRUE(disk_->Discard(1000, 20000).ok());
  EXPECT_TRUE(disk_->Discard(1000, 20).ok());
  // Bytes outside whole blocks of the range keep what they had.
  std::vector<uint8_t> back = Read(*disk_, 0, bytes.size());
  EXPECT_TRUE(std::equal(back.begin(), back.begin() + 1024, bytes.begin()));
  EXPECT_TRUE(std::equal(back.begin() + 20992, back.end(), bytes.begin() + 20992));
}

TEST(OpenDiskTest, RefusesWhatCannotBeADisk) {
  const auto open_disk = [](const char* path, int flags, bool read_only) {
    return std::string(OpenDisk(UniqueFd(open(path, flags | O_CLOEXEC)), read_only).status().message());
  };
  EXPECT_THAT(open_disk("/dev/null", O_RDWR, false), HasSubstr("neither a regular file nor a block device"));
  EXPECT_THAT(open_disk("/", O_RDONLY, true), HasSubstr("neither"));
  EXPECT_THAT(open_disk("/does/not/exist", O_RDONLY, true), HasSubstr("fstat"));
  EXPECT_THAT(open_disk("/proc/self/exe", O_RDONLY, false), HasSubstr("read-only disk"));
  EXPECT_EQ(open_disk("/proc/self/exe", O_RDONLY, true), "");
}

TEST(OpenDiskTest, RefusesFilesThatAreTooShortOrAppendOnly) {
  auto tiny = OpenDisk(TempFile("/dev/shm", 511), false);
  EXPECT_THAT(std::string(tiny.status().message()), HasSubstr("511 bytes"));
  UniqueFd appending = TempFile("/dev/shm");
  ASSERT_EQ(fcntl(appending.get(), F_SETFL, O_APPEND), 0);
  EXPECT_THAT(std::string(OpenDisk(std::move(appending), false).status().message()), HasSubstr("O_APPEND"));
}

TEST(AdvanceTest, DropsWholeAndPartialPieces) {
  std::vector<uint8_t> bytes(10);
  std::vector<iovec> pieces = {{bytes.data(), 3}, {bytes.data() + 3, 0}, {bytes.data() + 3, 7}};
  auto left = Advance(absl::MakeSpan(pieces), 4);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].iov_base, bytes.data() + 4);
  EXPECT_EQ(left[0].iov_len, 6u);
  EXPECT_TRUE(Advance(left, 6).empty());
}

}  // namespace
}  // namespace sluice::block
