#include "vmm/boot/entry_state.h"

#include "vmm/base/status_macros.h"
#include "vmm/boot/start_info.h"

namespace sluice::boot::internal {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;

constexpr uint64_t kLongCr0 = 0x80000033;  // PG NE ET MP PE
constexpr uint64_t kLongCr4 = 0x620;       // OSXMMEXCPT OSFXSR PAE
constexpr uint64_t kLongEfer = 0x500;      // LMA LME
constexpr uint64_t kProtectedCr0 = 0x11;   // ET PE
constexpr uint32_t kMtrrDefType = 0x2ff;
constexpr uint64_t kMtrrWriteBack = 0xc06;  // enabled, fixed ranges enabled, default write-back
constexpr uint32_t kTssBytes = 0x68;

constexpr uint64_t kLongCode = 0x00af9b000000ffff;  // CPL0, accessed
constexpr uint64_t kCode32 = 0x00cf9b000000ffff;
constexpr uint64_t kData = 0x00cf93000000ffff;

kvm_segment Segment(uint16_t selector, uint8_t type) {
  kvm_segment s = {};
  s.limit = 0xffffffff;
  s.selector = selector;
  s.type = type;
  s.present = 1;
  s.s = 1;
  s.g = 1;
  s.db = 1;
  return s;
}

}  // namespace

absl::Status WriteGdtAndTss(const GuestMemory& ram, const Selectors& selectors, Mode mode) {
  std::vector<uint64_t> gdt(selectors.tss / 8 + 2);
  gdt[selectors.code / 8] = mode == Mode::kLong ? kLongCode : kCode32;
  gdt[selectors.data / 8] = kData;
  // Busy TSS at kBootTss. In 32-bit mode its second half is a null descriptor.
  gdt[selectors.tss / 8] =
      (kTssBytes - 1) | ((kBootTss & 0xffffff) << 16) | (uint64_t{0x8b} << 40) | ((kBootTss >> 24 & 0xff) << 56);
  gdt[selectors.tss / 8 + 1] = kBootTss >> 32;
  for (size_t i = 0; i < gdt.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(ram.Write(GuestAddress(kBootGdt + 8 * i), gdt[i]));
  }
  SLUICE_RETURN_IF_ERROR(ram.Fill(GuestAddress(kBootTss), 0, kTssBytes));
  // I/O map base behind the limit: no port is allowed at CPL3 until the guest brings a TSS of its own.
  return ram.Write<uint16_t>(GuestAddress(kBootTss + 0x66), kTssBytes);
}

VcpuState FlatState(const Selectors& selectors, Mode mode) {
  VcpuState state;
  kvm_sregs& sregs = state.sregs;
  sregs.cs = Segment(selectors.code, /*type=*/11);
  if (mode == Mode::kLong) {
    sregs.cs.l = 1;
    sregs.cs.db = 0;
  }
  sregs.ds = Segment(selectors.data, /*type=*/3);
  sregs.es = sregs.fs = sregs.gs = sregs.ss = sregs.ds;
  sregs.tr.base = kBootTss;
  sregs.tr.limit = kTssBytes - 1;
  sregs.tr.selector = selectors.tss;
  sregs.tr.type = 11;
  sregs.tr.present = 1;
  sregs.ldt.type = 2;
  sregs.ldt.unusable = 1;
  sregs.gdt.base = kBootGdt;
  sregs.gdt.limit = static_cast<uint16_t>(selectors.tss + 16 - 1);
  if (mode == Mode::kLong) {
    sregs.cr0 = kLongCr0;
    sregs.cr3 = kBootPageTables;
    sregs.cr4 = kLongCr4;
    sregs.efer = kLongEfer;
  } else {
    sregs.cr0 = kProtectedCr0;
  }
  state.regs.rflags = 2;
  state.fpu.fcw = 0x37f;  // as FNINIT and reset leave them: all exceptions masked
  state.fpu.mxcsr = 0x1f80;
  state.msrs = {{kMtrrDefType, 0, kMtrrWriteBack}};
  return state;
}

}  // namespace sluice::boot::internal
