// File: tiny_elf.h
//
// Makes small ELF files, right or wrong on purpose, for tests, examples and corpora.
//
//   std::vector<uint8_t> file = TinyElf(code).Build();
//   TinyElf bad(code);
//   bad.header.e_machine = EM_386;
#ifndef SLUICE_VMM_BOOT_TESTING_TINY_ELF_H_
#define SLUICE_VMM_BOOT_TESTING_TINY_ELF_H_

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "vmm/boot/start_info.h"

namespace sluice::boot::testing {

// One segment that holds `code` and 4 KiB of zeros behind it, entered at its first byte; every field may be changed
// before Build().
class TinyElf {
 public:
  static constexpr uint64_t kCodeOffset = 0x200;

  explicit TinyElf(absl::Span<const uint8_t> code, uint64_t address = kFirmwareStart)
      : code_(code.begin(), code.end()) {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_EXEC;
    header.e_machine = EM_X86_64;
    header.e_version = EV_CURRENT;
    header.e_entry = address;
    header.e_phoff = sizeof(Elf64_Ehdr);
    header.e_ehsize = sizeof(Elf64_Ehdr);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 1;
    Elf64_Phdr p = {};
    p.p_type = PT_LOAD;
    p.p_flags = PF_R | PF_W | PF_X;
    p.p_offset = kCodeOffset;
    p.p_vaddr = p.p_paddr = address;
    p.p_filesz = code_.size();
    p.p_memsz = code_.size() + 0x1000;
    p.p_align = 1;
    segments.push_back(p);
  }

  // A second segment like the first, elsewhere; counted in e_phnum.
  Elf64_Phdr& AddSegment(uint64_t address) {
    segments.push_back(segments.front());
    segments.back().p_vaddr = segments.back().p_paddr = address;
    ++header.e_phnum;
    return segments.back();
  }

  std::vector<uint8_t> Build() const {
    std::vector<uint8_t> file(kCodeOffset + code_.size());
    std::memcpy(file.data(), &header, sizeof(header));
    const size_t bytes = std::min(segments.size() * sizeof(Elf64_Phdr), size_t{kCodeOffset} - sizeof(header));
    std::memcpy(file.data() + sizeof(header), segments.data(), bytes);
    std::copy(code_.begin(), code_.end(), file.begin() + kCodeOffset);
    return file;
  }

  Elf64_Ehdr header = {};
  std::vector<Elf64_Phdr> segments;

 private:
  std::vector<uint8_t> code_;
};

}  // namespace sluice::boot::testing

#endif  // SLUICE_VMM_BOOT_TESTING_TINY_ELF_H_
