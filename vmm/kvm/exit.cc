#include "vmm/kvm/exit.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace sluice::kvm {
namespace {

std::string HexBytes(absl::Span<const uint8_t> bytes) {
  constexpr size_t kMost = 16;
  std::string text;
  for (size_t i = 0; i < bytes.size() && i < kMost; ++i)
    absl::StrAppend(&text, i == 0 ? "" : " ", absl::Hex(bytes[i], absl::kZeroPad2));
  if (bytes.size() > kMost) absl::StrAppend(&text, " ... (", bytes.size(), " bytes)");
  return text;
}

absl::string_view SuberrorName(uint32_t suberror) {
  switch (suberror) {
    case KVM_INTERNAL_ERROR_EMULATION:
      return "emulation failed";
    case KVM_INTERNAL_ERROR_SIMUL_EX:
      return "simultaneous exceptions";
    case KVM_INTERNAL_ERROR_DELIVERY_EV:
      return "exit while an event was delivered";
    case KVM_INTERNAL_ERROR_UNEXPECTED_EXIT_REASON:
      return "unexpected exit reason";
    default:
      return "no name";
  }
}

absl::string_view EventName(uint32_t type) {
  switch (type) {
    case KVM_SYSTEM_EVENT_SHUTDOWN:
      return "shutdown";
    case KVM_SYSTEM_EVENT_RESET:
      return "reset";
    case KVM_SYSTEM_EVENT_CRASH:
      return "crash";
    case KVM_SYSTEM_EVENT_WAKEUP:
      return "wake-up";
    case KVM_SYSTEM_EVENT_SUSPEND:
      return "suspend";
    default:
      return "no name";
  }
}

struct Describer {
  std::string operator()(const exits::IoIn& e) const {
    return absl::StrFormat("in from port 0x%x, %d x %d bytes", e.port, e.count, e.size);
  }
  std::string operator()(const exits::IoOut& e) const {
    return absl::StrFormat("out to port 0x%x, %d x %d bytes: %s", e.port, e.count, e.size, HexBytes(e.data));
  }
  std::string operator()(const exits::MmioRead& e) const {
    return absl::StrCat("MMIO read of ", e.data.size(), " bytes at ", e.address.ToString());
  }
  std::string operator()(const exits::MmioWrite& e) const {
    return absl::StrCat("MMIO write at ", e.address.ToString(), ": ", HexBytes(e.data));
  }
  std::string operator()(const exits::Hlt&) const { return "hlt"; }
  std::string operator()(const exits::Shutdown&) const { return "shutdown (triple fault)"; }
  std::string operator()(const exits::FailEntry& e) const {
    return absl::StrFormat("entry failed, hardware reason 0x%x on CPU %d", e.hardware_reason, e.cpu);
  }
  std::string operator()(const exits::InternalError& e) const {
    std::string text = absl::StrCat("internal error ", e.suberror, " (", SuberrorName(e.suberror), ")");
    if (e.instruction_size > 0) absl::StrAppend(&text, ": instruction ", HexBytes(e.instruction_bytes()));
    return text;
  }
  std::string operator()(const exits::SystemEvent& e) const {
    return absl::StrCat("system event ", e.type, " (", EventName(e.type), ")");
  }
  std::string operator()(const exits::Interrupted&) const { return "interrupted"; }
  std::string operator()(const exits::Again&) const { return "again"; }
  std::string operator()(const exits::Debug& e) const {
    return absl::StrFormat("debug exception %d at 0x%x, dr6 0x%x", e.exception, e.pc, e.dr6);
  }
  std::string operator()(const exits::MsrRead& e) const { return absl::StrFormat("rdmsr 0x%x", e.index); }
  std::string operator()(const exits::MsrWrite& e) const {
    return absl::StrFormat("wrmsr 0x%x = 0x%x", e.index, e.value);
  }
  std::string operator()(const exits::IoapicEoi& e) const {
    return absl::StrFormat("IOAPIC EOI of vector 0x%x", e.vector);
  }
  std::string operator()(const exits::Hypercall& e) const { return absl::StrFormat("hypercall 0x%x", e.number); }
  std::string operator()(const exits::InterruptWindow&) const { return "interrupt window open"; }
  std::string operator()(const exits::SetTpr&) const { return "TPR set"; }
  std::string operator()(const exits::TprAccess& e) const { return absl::StrFormat("TPR access at 0x%x", e.rip); }
  std::string operator()(const exits::Exception& e) const {
    return absl::StrFormat("exception %d, error code 0x%x", e.exception, e.error_code);
  }
  std::string operator()(const exits::Nmi&) const { return "NMI"; }
  std::string operator()(const exits::DirtyRingFull&) const { return "dirty ring full"; }
  std::string operator()(const exits::ApResetHold&) const { return "AP reset hold"; }
  std::string operator()(const exits::BusLock&) const { return "bus lock"; }
  std::string operator()(const exits::Notify& e) const { return absl::StrFormat("notify, flags 0x%x", e.flags); }
  std::string operator()(const exits::MemoryFault& e) const {
    return absl::StrFormat("memory fault at %s, %d bytes, flags 0x%x", e.address.ToString(), e.size, e.flags);
  }
  std::string operator()(const exits::Hyperv& e) const { return absl::StrCat("Hyper-V exit ", e.type); }
  std::string operator()(const exits::Xen& e) const { return absl::StrCat("Xen exit ", e.type); }
  std::string operator()(const exits::Unknown& e) const {
    return absl::StrFormat("unknown exit %d, hardware reason 0x%x", e.reason, e.hardware_reason);
  }
};

}  // namespace

std::string DescribeExit(const VcpuExit& exit) {
  return std::visit(Describer{}, exit);
}

}  // namespace sluice::kvm
