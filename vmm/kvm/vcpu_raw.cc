#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"
#include "vmm/kvm/ioctl_raw.h"
#include "vmm/kvm/vcpu.h"
#include "vmm/kvm/vm_state.h"

namespace sluice::kvm {
namespace {

using internal::FlexBuffer;
using internal::KvmIoctl;
using internal::KvmIoctlFlex;
using internal::KvmIoctlValue;

constexpr size_t kMaxCpuidEntries = 256;
constexpr size_t kMaxMsrs = 1024;

int ThisThread() {
  static thread_local const int id = gettid();
  return id;
}

// kvm_run.memory_fault, newer than Debian 12's headers.
struct MemoryFaultExit {
  uint64_t flags;
  uint64_t address;
  uint64_t size;
};

template <typename T>
T CopyOut(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T, typename F>
absl::StatusOr<T> Get(const char* name, F get) {
  T value = {};
  if (get(&value) < 0) return ErrnoToStatus(errno, name);
  return value;
}

absl::Status Done(int result, const char* name) {
  return result < 0 ? ErrnoToStatus(errno, name) : absl::OkStatus();
}

}  // namespace

Vcpu::Vcpu(std::shared_ptr<VmState> vm, UniqueFd fd, Mapping run, uint32_t id, uint32_t xsave_bytes)
    : vm_(std::move(vm)),
      fd_(std::move(fd)),
      run_(std::move(run)),
      id_(id),
      xsave_bytes_(xsave_bytes),
      process_(getpid()) {}

Vcpu::~Vcpu() = default;

kvm_run* Vcpu::run() const {
  // SAFETY: the mapping is the vCPU descriptor's own page(s), at least sizeof(kvm_run) bytes (System::FromFd checks),
  // and is shared with the kernel alone, which writes it only during KVM_RUN.
  return reinterpret_cast<kvm_run*>(run_.data());
}

void Vcpu::Kick() {
  // The order matters, and both sides are sequentially consistent: either Run() sees the flag (in KVM_RUN), or this
  // sees Run()'s thread and its signal interrupts KVM_RUN.
  __atomic_store_n(&run()->immediate_exit, 1, __ATOMIC_SEQ_CST);
  const int thread = running_thread_.load(std::memory_order_seq_cst);
  // The thread may have left Run() or ended since: the signal then does nothing.
  if (thread != 0) (void)tgkill(process_, thread, kick_signal());
}

absl::StatusOr<VcpuExit> Vcpu::Run() {
  running_thread_.store(ThisThread(), std::memory_order_seq_cst);
  const int result = KvmIoctlValue<KVM_RUN>(fd_.get(), 0);
  const int error = errno;
  running_thread_.store(0, std::memory_order_seq_cst);
  if (result < 0) {
    switch (error) {
      case EINTR:
        // Kicks until here are answered by this return; later ones set the flag again.
        __atomic_store_n(&run()->immediate_exit, 0, __ATOMIC_SEQ_CST);
        return VcpuExit(exits::Interrupted{});
      case EAGAIN:
        return VcpuExit(exits::Again{});
      case EFAULT:
        if (run()->exit_reason == KVM_EXIT_MEMORY_FAULT) return Decode();
        return absl::InternalError(absl::StrCat("KVM_RUN of vCPU ", id_,
                                                ": the host memory behind a guest address is not accessible (EFAULT)"));
      default:
        return ErrnoToStatus(error, absl::StrCat("KVM_RUN of vCPU ", id_));
    }
  }
  return Decode();
}

VcpuExit Vcpu::Decode() {
  kvm_run* r = run();
  switch (r->exit_reason) {
    case KVM_EXIT_IO: {
      const uint64_t bytes = uint64_t{r->io.count} * r->io.size;
      if (!RangeFits(r->io.data_offset, bytes, run_.size())) break;
      uint8_t* data = run_.data() + r->io.data_offset;
      if (r->io.direction == KVM_EXIT_IO_IN) {
        return exits::IoIn{r->io.port, r->io.size, r->io.count, absl::MakeSpan(data, bytes)};
      }
      return exits::IoOut{r->io.port, r->io.size, r->io.count, absl::MakeConstSpan(data, bytes)};
    }
    case KVM_EXIT_MMIO: {
      const size_t bytes = std::min<size_t>(r->mmio.len, sizeof(r->mmio.data));
      const GuestAddress address(r->mmio.phys_addr);
      if (r->mmio.is_write) return exits::MmioWrite{address, absl::MakeConstSpan(r->mmio.data, bytes)};
      return exits::MmioRead{address, absl::MakeSpan(r->mmio.data, bytes)};
    }
    case KVM_EXIT_HLT:
      return exits::Hlt{};
    case KVM_EXIT_SHUTDOWN:
      return exits::Shutdown{};
    case KVM_EXIT_FAIL_ENTRY:
      return exits::FailEntry{r->fail_entry.hardware_entry_failure_reason, r->fail_entry.cpu};
    case KVM_EXIT_INTERNAL_ERROR: {
      exits::InternalError e = {};
      e.suberror = r->internal.suberror;
      e.data_count = std::min<uint32_t>(r->internal.ndata, e.data.size());
      std::copy_n(r->internal.data, e.data_count, e.data.begin());
      // Overlaid on data[0] (flags) and data[1..2] (size and bytes); valid only as far as ndata reaches.
      if (e.suberror == KVM_INTERNAL_ERROR_EMULATION && e.data_count >= 3 &&
          (r->emulation_failure.flags & KVM_INTERNAL_ERROR_EMULATION_FLAG_INSTRUCTION_BYTES) != 0) {
        e.instruction_size = std::min<uint8_t>(r->emulation_failure.insn_size, e.instruction.size());
        std::copy_n(r->emulation_failure.insn_bytes, e.instruction_size, e.instruction.begin());
      }
      return e;
    }
    case KVM_EXIT_SYSTEM_EVENT: {
      exits::SystemEvent e = {};
      e.type = r->system_event.type;
      e.data_count = std::min<uint32_t>(r->system_event.ndata, e.data.size());
      std::copy_n(r->system_event.data, e.data_count, e.data.begin());
      return e;
    }
    case KVM_EXIT_INTR:
      __atomic_store_n(&r->immediate_exit, 0, __ATOMIC_SEQ_CST);
      return exits::Interrupted{};
    case KVM_EXIT_DEBUG:
      return exits::Debug{r->debug.arch.exception, r->debug.arch.pc, r->debug.arch.dr6, r->debug.arch.dr7};
    case KVM_EXIT_X86_RDMSR: {
      // SAFETY: kvm_run's __u64 is the same type of object as uint64_t (unsigned, 64 bits); the page outlives the exit.
      auto* value = reinterpret_cast<uint64_t*>(&r->msr.data);
      return exits::MsrRead{r->msr.index, r->msr.reason, value, &r->msr.error};
    }
    case KVM_EXIT_X86_WRMSR:
      return exits::MsrWrite{r->msr.index, r->msr.reason, r->msr.data, &r->msr.error};
    case KVM_EXIT_IOAPIC_EOI:
      return exits::IoapicEoi{r->eoi.vector};
    case KVM_EXIT_HYPERCALL: {
      exits::Hypercall h = {};
      h.number = r->hypercall.nr;
      std::copy(std::begin(r->hypercall.args), std::end(r->hypercall.args), h.args.begin());
      h.long_mode = r->hypercall.longmode != 0;
      // SAFETY: as for KVM_EXIT_X86_RDMSR.
      h.result = reinterpret_cast<uint64_t*>(&r->hypercall.ret);
      return h;
    }
    case KVM_EXIT_IRQ_WINDOW_OPEN:
      return exits::InterruptWindow{};
    case KVM_EXIT_SET_TPR:
      return exits::SetTpr{};
    case KVM_EXIT_TPR_ACCESS:
      return exits::TprAccess{r->tpr_access.rip, r->tpr_access.is_write != 0};
    case KVM_EXIT_EXCEPTION:
      return exits::Exception{r->ex.exception, r->ex.error_code};
    case KVM_EXIT_NMI:
      return exits::Nmi{};
    case KVM_EXIT_DIRTY_RING_FULL:
      return exits::DirtyRingFull{};
    case KVM_EXIT_AP_RESET_HOLD:
      return exits::ApResetHold{};
    case KVM_EXIT_X86_BUS_LOCK:
      return exits::BusLock{};
    case KVM_EXIT_NOTIFY:
      return exits::Notify{r->notify.flags};
    case KVM_EXIT_MEMORY_FAULT: {
      const auto fault = CopyOut<MemoryFaultExit>(r->padding);
      return exits::MemoryFault{fault.flags, GuestAddress(fault.address), fault.size};
    }
    case KVM_EXIT_HYPERV:
      return exits::Hyperv{r->hyperv.type};
    case KVM_EXIT_XEN:
      return exits::Xen{r->xen.type};
    case KVM_EXIT_UNKNOWN:
      return exits::Unknown{KVM_EXIT_UNKNOWN, r->hw.hardware_exit_reason};
    default:
      break;
  }
  return exits::Unknown{r->exit_reason, 0};
}

absl::StatusOr<kvm_regs> Vcpu::GetRegs() const {
  return Get<kvm_regs>("KVM_GET_REGS", [this](kvm_regs* v) { return KvmIoctl<KVM_GET_REGS>(fd(), v); });
}
absl::Status Vcpu::SetRegs(const kvm_regs& regs) {
  kvm_regs copy = regs;
  return Done(KvmIoctl<KVM_SET_REGS>(fd(), &copy), "KVM_SET_REGS");
}
absl::StatusOr<kvm_sregs> Vcpu::GetSregs() const {
  return Get<kvm_sregs>("KVM_GET_SREGS", [this](kvm_sregs* v) { return KvmIoctl<KVM_GET_SREGS>(fd(), v); });
}
absl::Status Vcpu::SetSregs(const kvm_sregs& sregs) {
  kvm_sregs copy = sregs;
  return Done(KvmIoctl<KVM_SET_SREGS>(fd(), &copy), "KVM_SET_SREGS");
}
absl::StatusOr<kvm_fpu> Vcpu::GetFpu() const {
  return Get<kvm_fpu>("KVM_GET_FPU", [this](kvm_fpu* v) { return KvmIoctl<KVM_GET_FPU>(fd(), v); });
}
absl::Status Vcpu::SetFpu(const kvm_fpu& fpu) {
  kvm_fpu copy = fpu;
  return Done(KvmIoctl<KVM_SET_FPU>(fd(), &copy), "KVM_SET_FPU");
}

absl::StatusOr<std::vector<kvm_msr_entry>> Vcpu::GetMsrs(absl::Span<const uint32_t> indices) const {
  if (indices.size() > kMaxMsrs) return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxMsrs, " MSRs"));
  FlexBuffer<kvm_msrs, kvm_msr_entry> buffer(indices.size());
  buffer.header()->nmsrs = static_cast<uint32_t>(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) buffer.entries()[i].index = indices[i];
  const int done = KvmIoctlFlex<KVM_GET_MSRS>(fd(), buffer);
  if (done < 0) return ErrnoToStatus(errno, "KVM_GET_MSRS");
  if (static_cast<size_t>(done) < indices.size()) {
    return absl::NotFoundError(absl::StrCat("KVM_GET_MSRS: no MSR ", memory::Hex(indices[done])));
  }
  return std::vector<kvm_msr_entry>(buffer.entries().begin(), buffer.entries().end());
}

absl::Status Vcpu::SetMsrs(absl::Span<const kvm_msr_entry> msrs) {
  if (msrs.size() > kMaxMsrs) return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxMsrs, " MSRs"));
  FlexBuffer<kvm_msrs, kvm_msr_entry> buffer(msrs.size());
  buffer.header()->nmsrs = static_cast<uint32_t>(msrs.size());
  std::copy(msrs.begin(), msrs.end(), buffer.entries().begin());
  const int done = KvmIoctlFlex<KVM_SET_MSRS>(fd(), buffer);
  if (done < 0) return ErrnoToStatus(errno, "KVM_SET_MSRS");
  if (static_cast<size_t>(done) < msrs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("KVM_SET_MSRS: MSR ", memory::Hex(msrs[done].index), " refuses ", memory::Hex(msrs[done].data)));
  }
  return absl::OkStatus();
}

absl::Status Vcpu::SetCpuid(const CpuidTable& table) {
  if (table.size() > kMaxCpuidEntries) {
    return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxCpuidEntries, " CPUID entries"));
  }
  FlexBuffer<kvm_cpuid2, kvm_cpuid_entry2> buffer(table.size());
  buffer.header()->nent = static_cast<uint32_t>(table.size());
  std::copy(table.begin(), table.end(), buffer.entries().begin());
  return Done(KvmIoctlFlex<KVM_SET_CPUID2>(fd(), buffer), "KVM_SET_CPUID2");
}

absl::StatusOr<CpuidTable> Vcpu::GetCpuid() const {
  FlexBuffer<kvm_cpuid2, kvm_cpuid_entry2> buffer(kMaxCpuidEntries);
  buffer.header()->nent = kMaxCpuidEntries;
  if (KvmIoctlFlex<KVM_GET_CPUID2>(fd(), buffer) < 0) return ErrnoToStatus(errno, "KVM_GET_CPUID2");
  const auto entries = buffer.entries().first(std::min<size_t>(buffer.header()->nent, kMaxCpuidEntries));
  return CpuidTable(entries.begin(), entries.end());
}

absl::StatusOr<kvm_xcrs> Vcpu::GetXcrs() const {
  return Get<kvm_xcrs>("KVM_GET_XCRS", [this](kvm_xcrs* v) { return KvmIoctl<KVM_GET_XCRS>(fd(), v); });
}
absl::Status Vcpu::SetXcrs(const kvm_xcrs& xcrs) {
  kvm_xcrs copy = xcrs;
  return Done(KvmIoctl<KVM_SET_XCRS>(fd(), &copy), "KVM_SET_XCRS");
}

absl::StatusOr<std::vector<uint8_t>> Vcpu::GetXsave() const {
  FlexBuffer<kvm_xsave, uint8_t> buffer(xsave_bytes_ - sizeof(kvm_xsave));
  // KVM_GET_XSAVE2 writes as many bytes as KVM_CAP_XSAVE2 said, KVM_GET_XSAVE exactly 4096.
  const bool large = xsave_bytes_ > sizeof(kvm_xsave);
  const int result =
      large ? KvmIoctlFlex<KVM_GET_XSAVE2>(fd(), buffer) : KvmIoctl<KVM_GET_XSAVE>(fd(), buffer.header());
  if (result < 0) return ErrnoToStatus(errno, large ? "KVM_GET_XSAVE2" : "KVM_GET_XSAVE");
  std::vector<uint8_t> area(xsave_bytes_);
  std::memcpy(area.data(), buffer.header(), area.size());
  return area;
}

absl::Status Vcpu::SetXsave(absl::Span<const uint8_t> area) {
  if (area.size() != xsave_bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("an XSAVE area has ", xsave_bytes_, " bytes here, not ", area.size()));
  }
  FlexBuffer<kvm_xsave, uint8_t> buffer(xsave_bytes_ - sizeof(kvm_xsave));
  std::memcpy(static_cast<void*>(buffer.header()), area.data(), area.size());
  return Done(KvmIoctlFlex<KVM_SET_XSAVE>(fd(), buffer), "KVM_SET_XSAVE");
}

absl::StatusOr<kvm_debugregs> Vcpu::GetDebugRegs() const {
  return Get<kvm_debugregs>("KVM_GET_DEBUGREGS",
                            [this](kvm_debugregs* v) { return KvmIoctl<KVM_GET_DEBUGREGS>(fd(), v); });
}
absl::Status Vcpu::SetDebugRegs(const kvm_debugregs& regs) {
  kvm_debugregs copy = regs;
  return Done(KvmIoctl<KVM_SET_DEBUGREGS>(fd(), &copy), "KVM_SET_DEBUGREGS");
}

absl::StatusOr<uint32_t> Vcpu::GetMpState() const {
  kvm_mp_state state = {};
  if (KvmIoctl<KVM_GET_MP_STATE>(fd(), &state) < 0) return ErrnoToStatus(errno, "KVM_GET_MP_STATE");
  return state.mp_state;
}
absl::Status Vcpu::SetMpState(uint32_t state) {
  kvm_mp_state value = {state};
  return Done(KvmIoctl<KVM_SET_MP_STATE>(fd(), &value), "KVM_SET_MP_STATE");
}

absl::StatusOr<kvm_vcpu_events> Vcpu::GetEvents() const {
  return Get<kvm_vcpu_events>("KVM_GET_VCPU_EVENTS",
                              [this](kvm_vcpu_events* v) { return KvmIoctl<KVM_GET_VCPU_EVENTS>(fd(), v); });
}
absl::Status Vcpu::SetEvents(const kvm_vcpu_events& events) {
  kvm_vcpu_events copy = events;
  return Done(KvmIoctl<KVM_SET_VCPU_EVENTS>(fd(), &copy), "KVM_SET_VCPU_EVENTS");
}

absl::StatusOr<kvm_lapic_state> Vcpu::GetLapic() const {
  return Get<kvm_lapic_state>("KVM_GET_LAPIC", [this](kvm_lapic_state* v) { return KvmIoctl<KVM_GET_LAPIC>(fd(), v); });
}
absl::Status Vcpu::SetLapic(const kvm_lapic_state& lapic) {
  kvm_lapic_state copy = lapic;
  return Done(KvmIoctl<KVM_SET_LAPIC>(fd(), &copy), "KVM_SET_LAPIC");
}

absl::Status Vcpu::InjectInterrupt(uint8_t vector) {
  kvm_interrupt request = {vector};
  return Done(KvmIoctl<KVM_INTERRUPT>(fd(), &request), "KVM_INTERRUPT");
}
absl::Status Vcpu::InjectNmi() {
  return Done(KvmIoctlValue<KVM_NMI>(fd(), 0), "KVM_NMI");
}
bool Vcpu::ready_for_interrupt() const {
  return run()->ready_for_interrupt_injection != 0;
}
void Vcpu::RequestInterruptWindow(bool on) {
  run()->request_interrupt_window = on ? 1 : 0;
}

absl::Status Vcpu::SetGuestDebug(const kvm_guest_debug& debug) {
  kvm_guest_debug copy = debug;
  return Done(KvmIoctl<KVM_SET_GUEST_DEBUG>(fd(), &copy), "KVM_SET_GUEST_DEBUG");
}

absl::Status Vcpu::EnableCap(Capability capability, std::array<uint64_t, 4> args) const {
  kvm_enable_cap request = {};
  request.cap = static_cast<uint32_t>(capability);
  std::copy(args.begin(), args.end(), request.args);
  return Done(KvmIoctl<KVM_ENABLE_CAP>(fd(), &request), "KVM_ENABLE_CAP");
}

absl::StatusOr<GuestAddress> Vcpu::Translate(uint64_t virtual_address) const {
  kvm_translation t = {};
  t.linear_address = virtual_address;
  if (KvmIoctl<KVM_TRANSLATE>(fd(), &t) < 0) return ErrnoToStatus(errno, "KVM_TRANSLATE");
  if (!t.valid)
    return absl::NotFoundError(absl::StrCat("virtual address ", memory::Hex(virtual_address), " is not mapped"));
  return GuestAddress(t.physical_address);
}

absl::StatusOr<uint32_t> Vcpu::TscKhz() const {
  const int khz = KvmIoctlValue<KVM_GET_TSC_KHZ>(fd(), 0);
  if (khz < 0) return ErrnoToStatus(errno, "KVM_GET_TSC_KHZ");
  return static_cast<uint32_t>(khz);
}

absl::StatusOr<BinaryStats> Vcpu::Stats() const {
  UniqueFd stats_fd(KvmIoctlValue<KVM_GET_STATS_FD>(fd(), 0));
  if (!stats_fd.valid()) return ErrnoToStatus(errno, "KVM_GET_STATS_FD");
  return BinaryStats::FromFd(std::move(stats_fd));
}

}  // namespace sluice::kvm
