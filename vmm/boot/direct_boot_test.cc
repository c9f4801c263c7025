#include "vmm/boot/direct_boot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "vmm/boot/start_info.h"

namespace sluice::boot {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;
using memory::GuestRange;
using memory::kGiB;
using memory::kMiB;
using ::testing::HasSubstr;

GuestMemory Ram(uint64_t bytes = 16 * kMiB) {
  auto ram = GuestMemory::CreateSimple(bytes);
  EXPECT_TRUE(ram.ok()) << ram.status();
  return *std::move(ram);
}

DirectBootOptions Options() {
  DirectBootOptions options;
  options.entry = GuestAddress(kFirmwareStart);
  return options;
}

// What the page tables written by PrepareDirectBoot say; all levels' flags are and-ed.
struct Walked {
  uint64_t physical;
  uint64_t flags;
};
std::optional<Walked> Walk(const GuestMemory& ram, uint64_t cr3, uint64_t address) {
  uint64_t table = cr3, flags = 7;
  for (int shift = 39; shift >= 21; shift -= 9) {
    const uint64_t entry = *ram.Read<uint64_t>(GuestAddress(table + (address >> shift) % 512 * 8));
    if ((entry & 1) == 0) return std::nullopt;
    flags &= entry;
    table = entry & 0x000ffffffffff000;
    if (shift == 21) {
      EXPECT_NE(entry & 0x80, 0u) << "a 2 MiB page";
      return Walked{(table & ~(2 * kMiB - 1)) + address % (2 * kMiB), flags};
    }
  }
  return std::nullopt;
}

TEST(PrepareDirectBootTest, MapsRamAndTheGivenRangesOneToOneForEveryPrivilege) {
  const GuestMemory ram = Ram();
  DirectBootOptions options = Options();
  options.identity_ranges = {*GuestRange::Create(GuestAddress(0xe0000000), 512 * kMiB),
                             *GuestRange::Create(GuestAddress(0x4000000000), 256 * kMiB)};
  const auto state = PrepareDirectBoot(ram, options);
  ASSERT_TRUE(state.ok()) << state.status();
  for (const uint64_t address :
       {uint64_t{0}, uint64_t{0x100000}, 16 * kMiB - 1, uint64_t{0xe0000000}, uint64_t{0xfee00000},
        uint64_t{0xffffffff}, uint64_t{0x4000000000}, uint64_t{0x400fffffff}}) {
    const auto walked = Walk(ram, state->sregs.cr3, address);
    ASSERT_TRUE(walked.has_value()) << memory::Hex(address);
    EXPECT_EQ(walked->physical, address);
    EXPECT_EQ(walked->flags, 7u) << "present, writable, user";
  }
  for (const uint64_t address : {16 * kMiB, uint64_t{0xdfffffff}, uint64_t{0x100000000}, uint64_t{0x4010000000}}) {
    EXPECT_FALSE(Walk(ram, state->sregs.cr3, address).has_value()) << memory::Hex(address);
  }
}

TEST(PrepareDirectBootTest, RangesAreWidenedToLargePages) {
  const GuestMemory ram = Ram();
  DirectBootOptions options = Options();
  options.identity_ranges = {*GuestRange::Create(GuestAddress(0xfee00000), 0x1000)};
  const auto state = PrepareDirectBoot(ram, options);
  ASSERT_TRUE(state.ok());
  EXPECT_TRUE(Walk(ram, state->sregs.cr3, 0xfeffffff).has_value());
}

TEST(PrepareDirectBootTest, SaysWhenTheTablesDoNotFit) {
  const GuestMemory ram = Ram();
  DirectBootOptions options = Options();
  options.identity_ranges = {*GuestRange::Create(GuestAddress(kGiB), 9 * kGiB)};
  EXPECT_TRUE(PrepareDirectBoot(ram, options).ok());
  options.identity_ranges = {*GuestRange::Create(GuestAddress(kGiB), 10 * kGiB)};
  EXPECT_THAT(std::string(PrepareDirectBoot(ram, options).status().message()), HasSubstr("more than 10 different GiB"));
  options.identity_ranges = {*GuestRange::Create(GuestAddress(512 * kGiB - 4096), 8192)};
  EXPECT_THAT(std::string(PrepareDirectBoot(ram, options).status().message()), HasSubstr("not below 512 GiB"));
}

TEST(PrepareDirectBootTest, TheStartInfoHasCommandLineAndMemoryMap) {
  const GuestMemory ram = Ram();
  DirectBootOptions options = Options();
  options.cmdline = "seed=7 quiet";
  options.reserved_ranges = {*GuestRange::Create(GuestAddress(0xe0000000), kMiB)};
  const auto state = PrepareDirectBoot(ram, options);
  ASSERT_TRUE(state.ok());
  const auto info = *ram.Read<HvmStartInfo>(GuestAddress(state->regs.rbx));
  EXPECT_EQ(info.magic, kStartInfoMagic);
  EXPECT_EQ(info.version, 1u);
  std::vector<uint8_t> cmdline(options.cmdline.size() + 1);
  ASSERT_TRUE(ram.CopyFrom(GuestAddress(info.cmdline_paddr), absl::MakeSpan(cmdline)).ok());
  EXPECT_EQ(std::string(cmdline.begin(), cmdline.end()), std::string("seed=7 quiet", 13));
  std::vector<std::array<uint64_t, 3>> map;
  for (uint32_t i = 0; i < info.memmap_entries; ++i) {
    const auto e = *ram.Read<HvmMemmapEntry>(GuestAddress(info.memmap_paddr + i * sizeof(HvmMemmapEntry)));
    map.push_back({e.addr, e.size, e.type});
  }
  const std::vector<std::array<uint64_t, 3>> expected = {
      {0, kBootDataStart, kMemmapRam},
      {kBootDataStart, kBootDataEnd - kBootDataStart, kMemmapReserved},
      {kBootDataEnd, 16 * kMiB - kBootDataEnd, kMemmapRam},
      {0xe0000000, kMiB, kMemmapReserved}};
  EXPECT_EQ(map, expected);
}

TEST(PrepareDirectBootTest, RefusesWhatDoesNotFit) {
  DirectBootOptions options = Options();
  options.cmdline = std::string(kMaxCmdlineBytes - 1, 'x');
  EXPECT_TRUE(PrepareDirectBoot(Ram(), options).ok());
  options.cmdline += 'x';
  EXPECT_THAT(std::string(PrepareDirectBoot(Ram(), options).status().message()), HasSubstr("4096 bytes, at most 4095"));
  options.cmdline = std::string("a\0b", 3);
  EXPECT_THAT(std::string(PrepareDirectBoot(Ram(), options).status().message()), HasSubstr("NUL"));
  options = Options();
  options.entry = GuestAddress(kGiB);
  EXPECT_EQ(PrepareDirectBoot(Ram(), options).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(PrepareDirectBoot(Ram(0x8000), Options()).status().message()), HasSubstr("boot data"));
  options = Options();
  options.reserved_ranges = {*GuestRange::Create(GuestAddress(0x200000), 0x1000)};
  EXPECT_THAT(std::string(PrepareDirectBoot(Ram(), options).status().message()), HasSubstr("overlaps RAM"));
  options.reserved_ranges.assign(200, *GuestRange::Create(GuestAddress(0xe0000000), 0x1000));
  EXPECT_THAT(std::string(PrepareDirectBoot(Ram(), options).status().message()), HasSubstr("203 entries"));
}

}  // namespace
}  // namespace sluice::boot
