// Threat model: the firmware file comes from whoever configures the VM, perhaps from an image registry; it must at most
// be refused. Input: the bytes of an ELF file. Checked: what ParseElf accepts is inside the file, disjoint and does not
// wrap; LoadElf writes nothing below kFirmwareStart.
#include <cstdlib>

#include "vmm/boot/elf.h"
#include "vmm/boot/start_info.h"

namespace {

using sluice::memory::GuestAddress;
using sluice::memory::GuestMemory;

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const GuestMemory ram = [] {
    auto memory = GuestMemory::CreateSimple(2 * sluice::memory::kMiB);
    Require(memory.ok());
    Require(memory->Fill(GuestAddress(0), 0x5a, sluice::boot::kFirmwareStart).ok());
    return *std::move(memory);
  }();
  const absl::Span<const uint8_t> file(data, size);
  const auto image = sluice::boot::ParseElf(file);
  if (image.ok()) {
    bool entry_inside = false;
    for (const auto& s : image->segments) {
      Require(s.file_size <= s.memory_size && s.memory_size > 0);
      Require(s.file_offset <= size && s.file_size <= size - s.file_offset);
      const auto range = sluice::memory::GuestRange::Create(s.address, s.memory_size);
      Require(range.has_value());
      entry_inside |= range->Contains(image->entry);
    }
    Require(entry_inside);
  }
  const auto loaded = sluice::boot::LoadElf(file, ram);
  Require(image.ok() || !loaded.ok());
  if (loaded.ok()) {
    Require(loaded->low < loaded->end && ram.Contains(loaded->low, *loaded->end.OffsetFrom(loaded->low)));
    Require(loaded->low.value() >= sluice::boot::kFirmwareStart);
    Require(*ram.Read<uint8_t>(GuestAddress(sluice::boot::kFirmwareStart - 1)) == 0x5a);
  }
  return 0;
}
