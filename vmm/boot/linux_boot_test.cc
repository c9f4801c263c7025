#include "vmm/boot/linux_boot.h"

#include <asm/bootparam.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vmm/boot/bzimage.h"
#include "vmm/boot/pvh.h"
#include "vmm/boot/testing/tiny_kernel.h"

namespace sluice::boot {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;
using memory::GuestRange;
using memory::kGiB;
using memory::kMiB;
using ::testing::HasSubstr;
using testing::TinyBzImage;
using testing::TinyPvh;

constexpr uint8_t kCode[] = {0xf4, 0xeb, 0xfd};

// Our offsets against the kernel's own header.
static_assert(kHdrStart == offsetof(boot_params, hdr));
static_assert(kHdrMagic == kHdrStart + offsetof(setup_header, header));
static_assert(kHdrLoadFlags == kHdrStart + offsetof(setup_header, loadflags));
static_assert(kHdrRamdiskImage == kHdrStart + offsetof(setup_header, ramdisk_image));
static_assert(kHdrCmdLinePtr == kHdrStart + offsetof(setup_header, cmd_line_ptr));
static_assert(kHdrInitrdAddrMax == kHdrStart + offsetof(setup_header, initrd_addr_max));
static_assert(kHdrXloadFlags == kHdrStart + offsetof(setup_header, xloadflags));
static_assert(kHdrPrefAddress == kHdrStart + offsetof(setup_header, pref_address));
static_assert(kHdrInitSize == kHdrStart + offsetof(setup_header, init_size));
static_assert(kZpAcpiRsdp == offsetof(boot_params, acpi_rsdp_addr));
static_assert(kZpE820Entries == offsetof(boot_params, e820_entries));
static_assert(kZpE820Table == offsetof(boot_params, e820_table));
static_assert(sizeof(E820Entry) == sizeof(boot_e820_entry));

GuestMemory Ram(uint64_t mib = 64) {
  auto ram = GuestMemory::CreateSimple(mib * kMiB);
  EXPECT_TRUE(ram.ok()) << ram.status();
  return *ram;
}

GuestMemory TwoRegions() {
  std::vector<memory::RegionConfig> regions(2);
  regions[0] = {.start = GuestAddress(0), .size = 64 * kMiB};
  regions[1] = {.start = GuestAddress(4 * kGiB), .size = 16 * kMiB};
  auto ram = GuestMemory::Create(std::move(regions));
  EXPECT_TRUE(ram.ok()) << ram.status();
  return *ram;
}

absl::StatusOr<VcpuState> Boot(const GuestMemory& ram, const std::vector<uint8_t>& kernel,
                               const std::function<void(LinuxBootOptions&)>& change = nullptr) {
  const BytesImage image(kernel);
  LinuxBootOptions options;
  options.kernel = &image;
  options.cmdline = "console=ttyS0";
  options.rsdp = GuestAddress(kAcpiStart);
  options.reserved_ranges = {*GuestRange::Create(GuestAddress(0xe0000000), kMiB)};
  if (change) change(options);
  return PrepareLinuxBoot(ram, options);
}

std::string Refusal(const std::vector<uint8_t>& file) {
  const auto state = Boot(Ram(), file);
  return std::string(state.status().message());
}

TEST(BzImageTest, IsEnteredInLongModeWithAZeroPage) {
  const GuestMemory ram = Ram();
  const auto state = Boot(ram, TinyBzImage(kCode).Build());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->regs.rip, TinyBzImage::kPreferred + 0x200);
  EXPECT_EQ(state->regs.rflags, 2u);
  EXPECT_EQ(state->sregs.cs.selector, 0x10);
  EXPECT_EQ(state->sregs.ss.selector, 0x18);
  EXPECT_EQ(state->sregs.cs.l, 1);
  EXPECT_EQ(state->sregs.efer, 0x500u);
  EXPECT_EQ(*ram.Read<uint8_t>(GuestAddress(state->regs.rip)), kCode[0]);

  const auto page = ram.Read<boot_params>(GuestAddress(state->regs.rsi));
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->hdr.header, kHdrS);
  EXPECT_EQ(page->hdr.type_of_loader, 0xff);
  EXPECT_EQ(page->hdr.ramdisk_size, 0u);
  EXPECT_EQ(page->acpi_rsdp_addr, kAcpiStart);
  EXPECT_EQ(page->sentinel, 0);
  EXPECT_EQ(*ram.Read<uint64_t>(GuestAddress(page->hdr.cmd_line_ptr)), 0x3d656c6f736e6f63u) << "console=";
  ASSERT_EQ(page->e820_entries, 4);
  EXPECT_EQ(page->e820_table[0].size, 0xa0000u);
  EXPECT_EQ(page->e820_table[1].addr, kAcpiStart);
  EXPECT_EQ(page->e820_table[1].type, 2u);
  EXPECT_EQ(page->e820_table[2].addr, 0x100000u);
  EXPECT_EQ(page->e820_table[2].size, 63 * kMiB);
  EXPECT_EQ(page->e820_table[3].addr, 0xe0000000u);
}

TEST(BzImageTest, TheIdentityMapCoversFourGib) {
  const GuestMemory ram = Ram();
  const auto state = Boot(ram, TinyBzImage(kCode).Build());
  ASSERT_TRUE(state.ok()) << state.status();
  constexpr uint64_t kFrame = ~uint64_t{0xfff};
  for (const uint64_t address : {uint64_t{0}, uint64_t{0x1200000}, uint64_t{0xffe00000}}) {
    const uint64_t pdpt = *ram.Read<uint64_t>(GuestAddress(state->sregs.cr3)) & kFrame;
    const uint64_t pd = *ram.Read<uint64_t>(GuestAddress(pdpt + 8 * (address >> 30))) & kFrame;
    EXPECT_EQ(*ram.Read<uint64_t>(GuestAddress(pd + 8 * (address >> 21 & 511))), address | 0x83);
  }
}

TEST(BzImageTest, TheInitramfsLiesHighButNotAboveItsLimitNorOverTheKernel) {
  const std::vector<uint8_t> bytes(5000, 0x5a);
  const BytesImage initramfs(bytes);
  const auto with = [&](LinuxBootOptions& options) { options.initramfs = &initramfs; };
  GuestMemory ram = Ram();
  auto state = Boot(ram, TinyBzImage(kCode).Build(), with);
  ASSERT_TRUE(state.ok()) << state.status();
  auto page = *ram.Read<boot_params>(GuestAddress(state->regs.rsi));
  EXPECT_EQ(page.hdr.ramdisk_image, 64 * kMiB - 8192);
  EXPECT_EQ(page.hdr.ramdisk_size, 5000u);
  EXPECT_EQ(*ram.Read<uint8_t>(GuestAddress(page.hdr.ramdisk_image + 4999)), 0x5a);

  ram = Ram();
  state = Boot(ram, TinyBzImage(kCode).Set<uint32_t>(kHdrInitrdAddrMax, 0x0fff'ffff >> 4).Build(), with);
  ASSERT_TRUE(state.ok()) << state.status();
  page = *ram.Read<boot_params>(GuestAddress(state->regs.rsi));
  EXPECT_EQ(page.hdr.ramdisk_image, 16 * kMiB - 8192);

  state = Boot(ram, TinyBzImage(kCode).Set<uint32_t>(kHdrInitrdAddrMax, 0x2fffff).Build(), with);
  EXPECT_EQ(state.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(state.status().message()), HasSubstr("initramfs of 5000 bytes"));
}

TEST(BzImageTest, ARelocatableKernelGoesWhereRamIs) {
  const auto high = TinyBzImage(kCode).Set<uint64_t>(kHdrPrefAddress, 0x10000000);
  auto state = Boot(Ram(), high.Build());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->regs.rip, 0x200000u + 0x200);
  state = Boot(Ram(), TinyBzImage(high).Set<uint8_t>(kHdrRelocatable, 0).Build());
  EXPECT_EQ(state.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(state.status().message()), HasSubstr("more memory"));
  EXPECT_EQ(Boot(Ram(2), high.Build()).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(BzImageTest, WrongFieldsAreNamed) {
  const TinyBzImage good(kCode);
  EXPECT_THAT(Refusal(TinyBzImage(good).Set<uint16_t>(kHdrVersion, 0x0204).Build()), HasSubstr("boot protocol 2.4"));
  EXPECT_THAT(Refusal(TinyBzImage(good).Set<uint8_t>(kHdrLoadFlags, 0).Build()), HasSubstr("zImage"));
  EXPECT_THAT(Refusal(TinyBzImage(good).Set<uint16_t>(kHdrXloadFlags, 0).Build()), HasSubstr("64-bit"));
  EXPECT_THAT(Refusal(TinyBzImage(good).Set<uint16_t>(kHdrJump, 0xffeb).Build()), HasSubstr("setup header ends"));
  EXPECT_THAT(Refusal(TinyBzImage(good).Set<uint8_t>(kHdrSetupSects, 200).Build()), HasSubstr("entry point"));
  EXPECT_THAT(Refusal(TinyBzImage(good).Set<uint32_t>(kHdrKernelAlignment, 3).Build()), HasSubstr("kernel_alignment"));
  EXPECT_THAT(Refusal(TinyBzImage(good).Set<uint32_t>(kHdrInitSize, 16).Build()), HasSubstr("init_size"));
  EXPECT_THAT(Refusal(TinyBzImage(good).Set<uint64_t>(kHdrPrefAddress, 0x1000).Build()), HasSubstr("pref_address"));
  EXPECT_THAT(Refusal(TinyBzImage(good).Set<uint64_t>(kHdrPrefAddress, ~uint64_t{0xfff}).Build()),
              HasSubstr("pref_address"));
  EXPECT_THAT(Refusal(TinyBzImage(good).Set<uint32_t>(kHdrInitrdAddrMax, 0).Build()), HasSubstr("initrd_addr_max"));
  EXPECT_THAT(Refusal(TinyBzImage(good).Set<uint32_t>(kHdrCmdlineSize, 0).Build()), HasSubstr("cmdline_size"));
  EXPECT_THAT(Refusal(TinyBzImage(good).Set<uint32_t>(kHdrMagic, 0).Build()), HasSubstr("neither a bzImage"));
}

TEST(BzImageTest, CommandLinesThatDoNotFitAreRefused) {
  const auto kernel = TinyBzImage(kCode).Set<uint32_t>(kHdrCmdlineSize, 20).Build();
  EXPECT_TRUE(Boot(Ram(), kernel, [](auto& o) { o.cmdline = std::string(20, 'a'); }).ok());
  EXPECT_THAT(std::string(Boot(Ram(), kernel, [](auto& o) { o.cmdline = std::string(21, 'a'); }).status().message()),
              HasSubstr("at most 20"));
  EXPECT_FALSE(Boot(Ram(), kernel, [](auto& o) { o.cmdline = std::string("a\0b", 3); }).ok());
}

TEST(PvhTest, IsEnteredInProtectedModeWithAStartInfo) {
  const std::vector<uint8_t> bytes(100, 0x5a);
  const BytesImage initramfs(bytes);
  const GuestMemory ram = TwoRegions();
  const auto state = Boot(ram, TinyPvh(kCode).Build(), [&](auto& o) { o.initramfs = &initramfs; });
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->regs.rip, TinyPvh::kAddress);
  EXPECT_EQ(state->sregs.cr0 & 0x80000001, 1u) << "protection on, paging off";
  EXPECT_EQ(state->sregs.efer, 0u);
  EXPECT_EQ(state->sregs.cs.db, 1);
  EXPECT_EQ(state->sregs.cs.l, 0);
  const auto info = *ram.Read<HvmStartInfo>(GuestAddress(state->regs.rbx));
  EXPECT_EQ(info.magic, kStartInfoMagic);
  EXPECT_EQ(info.rsdp_paddr, kAcpiStart);
  ASSERT_EQ(info.nr_modules, 1u);
  const auto module = *ram.Read<HvmModule>(GuestAddress(info.modlist_paddr));
  EXPECT_EQ(module.size, 100u);
  EXPECT_EQ(module.paddr, 64 * kMiB - 4096);
  ASSERT_EQ(info.memmap_entries, 5u);
  const auto last = *ram.Read<HvmMemmapEntry>(GuestAddress(info.memmap_paddr + 4 * sizeof(HvmMemmapEntry)));
  EXPECT_EQ(last.addr, 4 * kGiB);
  EXPECT_EQ(last.type, kMemmapRam);
}

TEST(PvhTest, A32BitEntryWillDoToo) {
  TinyPvh kernel(kCode);
  kernel.notes[1].description = TinyPvh::Bytes(TinyPvh::kAddress, 4);
  EXPECT_TRUE(Boot(Ram(), kernel.Build()).ok());
}

TEST(PvhTest, WrongFilesAreRefusedWithTheReason) {
  TinyPvh none(kCode);
  none.notes.pop_back();
  EXPECT_THAT(Refusal(none.Build()), HasSubstr("no PVH entry point"));
  TinyPvh outside(kCode);
  outside.notes[1].description = TinyPvh::Bytes(0x300000, 8);
  EXPECT_THAT(Refusal(outside.Build()), HasSubstr("in no segment"));
  TinyPvh odd(kCode);
  odd.notes[1].description = {1, 2};
  EXPECT_THAT(Refusal(odd.Build()), HasSubstr("PVH note has 2 bytes"));
  TinyPvh far(kCode);
  far.elf.segments[0].p_paddr = 4 * kGiB;
  EXPECT_THAT(Refusal(far.Build()), HasSubstr("below 4 GiB"));
  TinyPvh low(kCode);
  low.elf.segments[0].p_paddr = low.elf.segments[0].p_vaddr = 0x1000;
  low.notes[1].description = TinyPvh::Bytes(0x1000, 8);
  EXPECT_THAT(Refusal(low.Build()), HasSubstr("where the boot data is"));
  std::vector<uint8_t> cut = TinyPvh(kCode).Build();
  cut.resize(cut.size() - 8);
  EXPECT_THAT(Refusal(cut), HasSubstr("note segment"));
  EXPECT_THAT(Refusal({0x7f, 'E', 'L', 'F'}), HasSubstr("too short"));
}

TEST(PvhTest, ANoteThatLiesAboutItsSizeIsRefused) {
  for (const size_t field : {size_t{0}, size_t{4}}) {
    TinyPvh kernel(kCode);
    std::vector<uint8_t> file = kernel.Build();
    const uint64_t notes = kernel.elf.segments.back().p_offset;
    for (size_t i = 0; i < 4; ++i) file[notes + field + i] = 0xff;
    EXPECT_THAT(Refusal(file), HasSubstr("cut off")) << field;
  }
}

TEST(ResetVectorTest, WritesTheResetPort) {
  const GuestMemory ram = Ram();
  ASSERT_TRUE(Boot(ram, TinyPvh(kCode).Build(), [](auto& o) {
                o.reset_port = 0x602;
                o.reset_value = 7;
              }).ok());
  std::vector<uint8_t> code(10);
  ASSERT_TRUE(ram.CopyFrom(GuestAddress(0xffff0), absl::MakeSpan(code)).ok());
  EXPECT_THAT(code, ::testing::ElementsAre(0xba, 0x02, 0x06, 0xb0, 7, 0xee, 0xfa, 0xf4, 0xeb, 0xfd));
}

TEST(LinuxMemoryMapTest, AReservedRangeMustNotBeRam) {
  const auto map = LinuxMemoryMap(Ram(), {*GuestRange::Create(GuestAddress(kMiB), kMiB)});
  EXPECT_EQ(map.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FdImageTest, ReadsRegularFilesWithinTheirSize) {
  UniqueFd fd(memfd_create("image", MFD_CLOEXEC));
  ASSERT_TRUE(fd);
  EXPECT_FALSE(FdImage::Open(UniqueFd(dup(fd.get())), 100).ok()) << "empty";
  ASSERT_EQ(write(fd.get(), "0123456789", 10), 10);
  EXPECT_FALSE(FdImage::Open(UniqueFd(dup(fd.get())), 9).ok()) << "too large";
  const auto image = FdImage::Open(UniqueFd(dup(fd.get())), 10);
  ASSERT_TRUE(image.ok()) << image.status();
  uint8_t bytes[4];
  ASSERT_TRUE(image->ReadAt(6, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(bytes[3], '9');
  EXPECT_EQ(image->ReadAt(7, absl::MakeSpan(bytes)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(image->ReadAt(~uint64_t{0}, absl::MakeSpan(bytes)).code(), absl::StatusCode::kOutOfRange);
  ASSERT_EQ(ftruncate(fd.get(), 7), 0);
  EXPECT_EQ(image->ReadAt(6, absl::MakeSpan(bytes)).code(), absl::StatusCode::kOutOfRange);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[1]);
  EXPECT_FALSE(FdImage::Open(UniqueFd(ends[0]), 100).ok());
}

TEST(FdImageTest, LargeCopiesArriveWhole) {
  std::vector<uint8_t> bytes(1000 * 1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 >> 3);
  const GuestMemory ram = Ram(4);
  ASSERT_TRUE(CopyImage(BytesImage(bytes), 1, bytes.size() - 1, ram, GuestAddress(0x1001)).ok());
  std::vector<uint8_t> back(bytes.size() - 1);
  ASSERT_TRUE(ram.CopyFrom(GuestAddress(0x1001), absl::MakeSpan(back)).ok());
  EXPECT_TRUE(std::equal(back.begin(), back.end(), bytes.begin() + 1));
  EXPECT_EQ(CopyImage(BytesImage(bytes), 1, bytes.size(), ram, GuestAddress(0)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(CopyImage(BytesImage(bytes), 0, 8, ram, GuestAddress(4 * kMiB - 4)).code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace sluice::boot
