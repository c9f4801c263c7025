#include "vmm/boot/elf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <limits>

#include "vmm/boot/testing/tiny_elf.h"

namespace sluice::boot {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;
using memory::kMiB;
using ::testing::HasSubstr;
using testing::TinyElf;

constexpr uint8_t kCode[] = {0xf4, 0x90, 0x90, 0xc3};
constexpr uint64_t kTop = std::numeric_limits<uint64_t>::max();

TEST(LoadElfTest, CopiesTheFileBytesAndZeroesTheRest) {
  const auto ram = GuestMemory::CreateSimple(2 * kMiB);
  ASSERT_TRUE(ram.ok());
  ASSERT_TRUE(ram->Fill(GuestAddress(kFirmwareStart), 0xaa, 0x3000).ok());
  const auto loaded = LoadElf(TinyElf(kCode).Build(), *ram);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->entry.value(), kFirmwareStart);
  EXPECT_EQ(loaded->low.value(), kFirmwareStart);
  EXPECT_EQ(loaded->end.value(), kFirmwareStart + 0x1004);
  EXPECT_EQ(*ram->Read<uint32_t>(GuestAddress(kFirmwareStart)), 0xc39090f4u);
  EXPECT_EQ(*ram->Read<uint32_t>(GuestAddress(kFirmwareStart + 4)), 0u);
  EXPECT_EQ(*ram->Read<uint8_t>(GuestAddress(kFirmwareStart + 0x1003)), 0);
  EXPECT_EQ(*ram->Read<uint8_t>(GuestAddress(kFirmwareStart + 0x1004)), 0xaa) << "one byte too many";
}

TEST(LoadElfTest, EntersAtThePhysicalAddressOfTheVirtualEntry) {
  TinyElf elf(kCode);
  elf.segments[0].p_vaddr = 0xffffffff80000000;
  elf.header.e_entry = 0xffffffff80000001;
  const auto image = ParseElf(elf.Build());
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->entry.value(), kFirmwareStart + 1);
}

TEST(LoadElfTest, SegmentsWithoutMemoryAndOtherHeadersAreIgnored) {
  TinyElf elf(kCode);
  Elf64_Phdr& note = elf.AddSegment(0);
  note.p_type = PT_NOTE;
  Elf64_Phdr& empty = elf.AddSegment(kTop);
  empty.p_filesz = empty.p_memsz = 0;
  const auto image = ParseElf(elf.Build());
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->segments.size(), 1u);
}

TEST(LoadElfTest, NothingIsWrittenUnlessEverySegmentFits) {
  const auto ram = GuestMemory::CreateSimple(2 * kMiB);
  ASSERT_TRUE(ram.ok());
  TinyElf elf(kCode);
  elf.AddSegment(2 * kMiB - 0x1000);
  const absl::Status status = LoadElf(elf.Build(), *ram).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ELF segment 0x1ff000+0x1004 is not all in RAM"));
  EXPECT_EQ(*ram->Read<uint32_t>(GuestAddress(kFirmwareStart)), 0u);
}

TEST(LoadElfTest, TheBootDataIsNotOverwritten) {
  const auto ram = GuestMemory::CreateSimple(2 * kMiB);
  ASSERT_TRUE(ram.ok());
  const absl::Status status = LoadElf(TinyElf(kCode, 0x1000).Build(), *ram).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("below 0x100000"));
}

TEST(LoadElfTest, EveryTruncationIsRefusedWithoutAccessPastTheEnd) {
  const std::vector<uint8_t> whole = TinyElf(kCode).Build();
  for (size_t n = 0; n < whole.size(); ++n) {
    // A vector of its own size, so that the sanitizer sees one byte too far.
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n));
    EXPECT_EQ(ParseElf(cut).status().code(), absl::StatusCode::kInvalidArgument) << n;
  }
}

struct BadField {
  const char* name;
  std::function<void(TinyElf&)> spoil;
  const char* message;
};

class BadFieldTest : public ::testing::TestWithParam<BadField> {};

TEST_P(BadFieldTest, IsRefusedByName) {
  TinyElf elf(kCode);
  GetParam().spoil(elf);
  const absl::Status status = ParseElf(elf.Build()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Elf, BadFieldTest,
    ::testing::Values(
        BadField{"Magic", [](TinyElf& e) { e.header.e_ident[1] = 'e'; }, "no ELF magic"},
        BadField{"Class", [](TinyElf& e) { e.header.e_ident[EI_CLASS] = ELFCLASS32; }, "EI_CLASS is 1"},
        BadField{"Endianness", [](TinyElf& e) { e.header.e_ident[EI_DATA] = ELFDATA2MSB; }, "EI_DATA is 2"},
        BadField{"IdentVersion", [](TinyElf& e) { e.header.e_ident[EI_VERSION] = 0; }, "version"},
        BadField{"Version", [](TinyElf& e) { e.header.e_version = 2; }, "version"},
        BadField{"Machine", [](TinyElf& e) { e.header.e_machine = EM_AARCH64; }, "e_machine is 183"},
        BadField{"Type", [](TinyElf& e) { e.header.e_type = ET_REL; }, "e_type is 1"},
        BadField{"HeaderSize", [](TinyElf& e) { e.header.e_ehsize = 52; }, "e_ehsize is 52"},
        BadField{"NoProgramHeaders", [](TinyElf& e) { e.header.e_phnum = 0; }, "e_phnum is 0"},
        BadField{"TooManyProgramHeaders", [](TinyElf& e) { e.header.e_phnum = PN_XNUM; }, "e_phnum is 65535"},
        BadField{"ProgramHeaderSize", [](TinyElf& e) { e.header.e_phentsize = 32; }, "e_phentsize is 32"},
        BadField{"ProgramHeadersPastTheEnd", [](TinyElf& e) { e.header.e_phoff = 0x1f0; }, "program headers at 0x1f0"},
        BadField{"ProgramHeadersWrap", [](TinyElf& e) { e.header.e_phoff = kTop - 8; }, "are past the file's end"},
        BadField{"Interpreter", [](TinyElf& e) { e.AddSegment(0).p_type = PT_INTERP; }, "dynamic linker"},
        BadField{"FileLargerThanMemory", [](TinyElf& e) { e.segments[0].p_memsz = 3; }, "exceeds p_memsz 0x3"},
        BadField{"SegmentPastTheEnd", [](TinyElf& e) { e.segments[0].p_offset += 1; }, "past the file's end"},
        BadField{"SegmentOffsetWraps", [](TinyElf& e) { e.segments[0].p_offset = kTop; }, "past the file's end"},
        BadField{"PhysicalAddressWraps", [](TinyElf& e) { e.segments[0].p_paddr = kTop - 10; }, "wraps"},
        BadField{"VirtualAddressWraps", [](TinyElf& e) { e.segments[0].p_vaddr = kTop - 10; }, "wraps"},
        BadField{"MemorySizeWraps", [](TinyElf& e) { e.segments[0].p_memsz = kTop; }, "wraps"},
        BadField{"AlignmentOdd", [](TinyElf& e) { e.segments[0].p_align = 3; }, "no power of two"},
        BadField{"AlignmentBroken",
                 [](TinyElf& e) {
                   e.segments[0].p_align = 0x1000;
                   e.segments[0].p_vaddr += 1;
                 },
                 "differ modulo"},
        BadField{"Overlap", [](TinyElf& e) { e.AddSegment(kFirmwareStart + 0x1003); }, "overlaps another"},
        BadField{"NothingToLoad", [](TinyElf& e) { e.segments[0].p_type = PT_NOTE; }, "no PT_LOAD"},
        BadField{"EntryOutside", [](TinyElf& e) { e.header.e_entry = kFirmwareStart + 0x1004; }, "in no executable"},
        BadField{"EntryBelow", [](TinyElf& e) { e.header.e_entry = kFirmwareStart - 1; }, "in no executable"},
        BadField{"EntryNotExecutable", [](TinyElf& e) { e.segments[0].p_flags = PF_R; }, "in no executable"}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(ReadImageTest, ReadsFromTheStartWhateverThePosition) {
  const auto fd = CreateMemFd("image", 4096);
  ASSERT_TRUE(fd.ok());
  ASSERT_EQ(pwrite(fd->get(), kCode, sizeof(kCode), 0), static_cast<ssize_t>(sizeof(kCode)));
  ASSERT_EQ(lseek(fd->get(), 100, SEEK_SET), 100);
  const auto bytes = ReadImage(fd->get());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->size(), 4096u);
  EXPECT_EQ((*bytes)[3], 0xc3);
}

TEST(ReadImageTest, RefusesWhatIsNoFileOrTooLong) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const UniqueFd reader(pipe_fds[0]), writer(pipe_fds[1]);
  EXPECT_THAT(std::string(ReadImage(reader.get()).status().message()), HasSubstr("not a regular file"));
  const auto fd = CreateMemFd("long", kMaxElfBytes + 4096);
  ASSERT_TRUE(fd.ok());
  EXPECT_THAT(std::string(ReadImage(fd->get()).status().message()), HasSubstr("want 1 to 67108864"));
  EXPECT_FALSE(ReadImage(-1).ok());
}

}  // namespace
}  // namespace sluice::boot
