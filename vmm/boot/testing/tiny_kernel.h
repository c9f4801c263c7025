// File: tiny_kernel.h
//
// Makes small kernels, right or wrong on purpose, for tests and corpora: a bzImage, and an ELF file with a PVH note.
//
//   std::vector<uint8_t> file = TinyBzImage(code).Build();
//   std::vector<uint8_t> other = TinyPvh(code).Build();
#ifndef SLUICE_VMM_BOOT_TESTING_TINY_KERNEL_H_
#define SLUICE_VMM_BOOT_TESTING_TINY_KERNEL_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "vmm/boot/linux_params.h"
#include "vmm/boot/pvh.h"
#include "vmm/boot/testing/tiny_elf.h"

namespace sluice::boot::testing {

// One setup sector besides the boot sector, then 0x200 bytes of int3, then `code` at the 64-bit entry point.
class TinyBzImage {
 public:
  static constexpr uint64_t kPreferred = 0x200000;
  static constexpr uint64_t kPayload = 2 * kSectorBytes;

  explicit TinyBzImage(absl::Span<const uint8_t> code) : file_(kPayload + kEntry64Offset + code.size(), 0xcc) {
    std::fill_n(file_.begin(), kPayload, 0);
    std::copy(code.begin(), code.end(), file_.begin() + kPayload + kEntry64Offset);
    Set<uint8_t>(kHdrSetupSects, 1);
    Set<uint16_t>(kHdrBootFlag, kBootFlag);
    Set<uint16_t>(kHdrJump, 0x6aeb);
    Set<uint32_t>(kHdrMagic, kHdrS);
    Set<uint16_t>(kHdrVersion, 0x020f);
    Set<uint8_t>(kHdrLoadFlags, kLoadedHigh);
    Set<uint32_t>(kHdrInitrdAddrMax, 0x7fffffff);
    Set<uint32_t>(kHdrKernelAlignment, 0x200000);
    Set<uint8_t>(kHdrRelocatable, 1);
    Set<uint16_t>(kHdrXloadFlags, kXlfKernel64);
    Set<uint32_t>(kHdrCmdlineSize, 2047);
    Set<uint64_t>(kHdrPrefAddress, kPreferred);
    Set<uint32_t>(kHdrInitSize, 0x100000);
  }

  template <typename T>
  TinyBzImage& Set(uint32_t offset, T value) {
    std::memcpy(file_.data() + offset, &value, sizeof(value));
    return *this;
  }
  std::vector<uint8_t> Build() const { return file_; }

 private:
  std::vector<uint8_t> file_;
};

// A TinyElf with notes: one of somebody else's, then the PVH note.
class TinyPvh {
 public:
  static constexpr uint64_t kAddress = 0x200000;
  struct Note {
    std::vector<uint8_t> owner;
    uint32_t type;
    std::vector<uint8_t> description;
  };

  explicit TinyPvh(absl::Span<const uint8_t> code) : elf(code, kAddress) {
    notes.push_back({{'G', 'N', 'U', 0}, kXenNotePhys32Entry, {1, 2, 3, 4, 5}});
    notes.push_back({{'X', 'e', 'n', 0}, kXenNotePhys32Entry, Bytes(kAddress, 8)});
  }

  static std::vector<uint8_t> Bytes(uint64_t value, int count) {
    std::vector<uint8_t> bytes;
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
    return bytes;
  }

  std::vector<uint8_t> Build() {
    std::vector<uint8_t> bytes;
    const auto append = [&bytes](const std::vector<uint8_t>& from) {
      bytes.insert(bytes.end(), from.begin(), from.end());
      bytes.resize((bytes.size() + 3) & ~size_t{3});
    };
    for (const Note& note : notes) {
      append(Bytes(note.owner.size(), 4));
      append(Bytes(note.description.size(), 4));
      append(Bytes(note.type, 4));
      append(note.owner);
      append(note.description);
    }
    Elf64_Phdr& p = elf.AddSegment(0);
    p.p_type = PT_NOTE;
    p.p_offset = elf.Build().size();
    p.p_filesz = p.p_memsz = bytes.size();
    std::vector<uint8_t> file = elf.Build();
    file.insert(file.end(), bytes.begin(), bytes.end());
    return file;
  }

  TinyElf elf;
  std::vector<Note> notes;
};

}  // namespace sluice::boot::testing

#endif  // SLUICE_VMM_BOOT_TESTING_TINY_KERNEL_H_
