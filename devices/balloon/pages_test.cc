#include "devices/balloon/pages.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <numeric>

#include "vmm/base/checked.h"

namespace sluice::balloon {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;

constexpr uint64_t kPages = 64;

class PagesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(ram_.Fill(GuestAddress(0), 0xaa, kPages * kPageSize).ok()); }
  // Pages that the host holds for the guest.
  uint64_t Resident() const {
    uint64_t blocks = 0;
    for (const memory::Region& region : ram_.regions()) {
      struct stat status {};
      if (fstat(region.fd(), &status) == 0) blocks += static_cast<uint64_t>(status.st_blocks);
    }
    return blocks * 512 / kPageSize;
  }
  uint8_t At(uint64_t address) const { return ram_.Read<uint8_t>(GuestAddress(address)).value_or(0xff); }

  GuestMemory ram_ = *GuestMemory::CreateSimple(kPages * kPageSize);
};

TEST_F(PagesTest, PagesLeaveTheHostAndReadAsZeros) {
  ASSERT_EQ(Resident(), kPages);
  const Released released = ReleasePages(ram_, {9, 3, 5, 4});
  EXPECT_EQ(released.pages, 4u);
  EXPECT_EQ(released.refused, 0u);
  EXPECT_EQ(Resident(), kPages - 4);
  for (const uint64_t page : {3, 4, 5, 9}) EXPECT_EQ(At(page * kPageSize + 7), 0) << page;
  for (const uint64_t page : {2, 6, 8, 10}) EXPECT_EQ(At(page * kPageSize + 7), 0xaa) << page;
}

TEST_F(PagesTest, AReleasedPageComesBackWhenItIsWritten) {
  ReleasePages(ram_, {3});
  ASSERT_TRUE(ram_.Write<uint8_t>(GuestAddress(3 * kPageSize), 1).ok());
  EXPECT_EQ(At(3 * kPageSize), 1);
  EXPECT_EQ(At(3 * kPageSize + 1), 0);
}

TEST_F(PagesTest, PagesNamedTwiceCountOnce) {
  EXPECT_EQ(ReleasePages(ram_, {3, 3, 3}).pages, 1u);
}

TEST_F(PagesTest, WhatIsNoRamIsRefusedAndTheRestReleased) {
  const Released released = ReleasePages(ram_, {kPages - 1, kPages, kPages + 1, UINT32_MAX, UINT32_MAX - 1, 0});
  EXPECT_EQ(released.pages, 2u);
  EXPECT_EQ(released.refused, 4u);
  EXPECT_EQ(At(0), 0);
  EXPECT_EQ(At(kPageSize), 0xaa);
}

TEST_F(PagesTest, NothingIsNothing) {
  EXPECT_EQ(ReleasePages(ram_, {}).pages, 0u);
  EXPECT_EQ(ReleaseRange(ram_, GuestAddress(0), 0).pages, 0u);
  EXPECT_EQ(ReleasePages(GuestMemory(), {0}).refused, 1u);
}

TEST_F(PagesTest, ARangeLosesItsWholePagesOnly) {
  const Released released = ReleaseRange(ram_, GuestAddress(kPageSize + 1), 3 * kPageSize);
  EXPECT_EQ(released.pages, 2u);
  EXPECT_EQ(At(2 * kPageSize - 1), 0xaa);
  EXPECT_EQ(At(2 * kPageSize), 0);
  EXPECT_EQ(At(4 * kPageSize - 1), 0);
  EXPECT_EQ(At(4 * kPageSize), 0xaa);
  EXPECT_EQ(ReleaseRange(ram_, GuestAddress(8), kPageSize).pages, 0u);
}

TEST_F(PagesTest, ARangeThatLeavesRamOrWrapsIsRefused) {
  EXPECT_EQ(ReleaseRange(ram_, GuestAddress((kPages - 1) * kPageSize), 2 * kPageSize).refused, 2u);
  EXPECT_EQ(ReleaseRange(ram_, GuestAddress(UINT64_MAX - 100), 2 * kPageSize).refused, 2u);
  EXPECT_EQ(Resident(), kPages);
}

TEST(PagesOfSeveralRegionsTest, ARunCrossesFromOneRegionIntoTheNextAtItsFileOffset) {
  auto fd = CreateMemFd("both", 16 * kPageSize);
  ASSERT_TRUE(fd.ok());
  std::vector<memory::RegionConfig> regions(2);
  regions[0] = {.start = GuestAddress(0), .size = 4 * kPageSize, .name = "low"};
  regions[1] = {.start = GuestAddress(4 * kPageSize),
                .size = 4 * kPageSize,
                .name = "next",
                .fd = *std::move(fd),
                .fd_offset = 8 * kPageSize};
  const GuestMemory ram = *GuestMemory::Create(std::move(regions));
  ASSERT_TRUE(ram.Fill(GuestAddress(0), 0xaa, 8 * kPageSize).ok());
  EXPECT_EQ(ReleasePages(ram, {3, 4, 5}).pages, 3u);
  for (uint64_t page = 0; page < 8; ++page) {
    EXPECT_EQ(*ram.Read<uint8_t>(GuestAddress(page * kPageSize)), page >= 3 && page <= 5 ? 0 : 0xaa) << page;
  }
}

}  // namespace
}  // namespace sluice::balloon
