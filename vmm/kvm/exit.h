// File: exit.h
//
// Why a vCPU came back: one type per KVM_EXIT_* reason that x86 has. Spans and pointers point into the vCPU's shared
// page and are valid until its next Run(); an exit that wants an answer is answered through them before that.
//
//   std::visit(Overloaded{[&](const exits::IoIn& io) { std::fill(io.data.begin(), io.data.end(), 0xff); },
//                         [&](const exits::MmioWrite& w) { bus.Write(w.address, w.data); },
//                         [&](const auto& other) { SLUICE_LOG(warn, "{}", DescribeExit(other)); }}, exit);
#ifndef SLUICE_VMM_KVM_EXIT_H_
#define SLUICE_VMM_KVM_EXIT_H_

#include <array>
#include <cstdint>
#include <string>
#include <variant>

#include "absl/types/span.h"
#include "vmm/kvm/types.h"

namespace sluice::kvm {

namespace exits {

// IN or INS. `data` is count * size bytes (`size` 1, 2 or 4 each); the guest sees what is put there.
struct IoIn {
  uint16_t port;
  uint8_t size;
  uint32_t count;
  absl::Span<uint8_t> data;
};
// OUT or OUTS. `data` is count * size bytes.
struct IoOut {
  uint16_t port;
  uint8_t size;
  uint32_t count;
  absl::Span<const uint8_t> data;
};
// A load of 1..8 bytes from an address without a memslot; the guest sees what is put into `data`.
struct MmioRead {
  GuestAddress address;
  absl::Span<uint8_t> data;
};
// A store of 1..8 bytes to an address without a memslot, or to a read-only one.
struct MmioWrite {
  GuestAddress address;
  absl::Span<const uint8_t> data;
};
// HLT without an in-kernel local APIC.
struct Hlt {};
// Triple fault.
struct Shutdown {};
// The hardware refused to enter the guest.
struct FailEntry {
  uint64_t hardware_reason;
  uint32_t cpu;
};
// KVM gave up: most often an instruction that it cannot emulate, whose first bytes are then in `instruction`.
struct InternalError {
  uint32_t suberror;  // KVM_INTERNAL_ERROR_*
  std::array<uint64_t, 16> data;
  uint32_t data_count;
  std::array<uint8_t, 15> instruction;
  uint8_t instruction_size;  // 0 when unknown
  absl::Span<const uint8_t> instruction_bytes() const {
    return absl::MakeConstSpan(instruction.data(), instruction_size);
  }
};
struct SystemEvent {
  uint32_t type;  // KVM_SYSTEM_EVENT_*
  std::array<uint64_t, 16> data;
  uint32_t data_count;
};
// EINTR: a Kick(), or another signal. Nothing else happened; Run() again or look at your mail.
struct Interrupted {};
// EAGAIN: an application processor that waits for its start-up IPI was woken. Run() again.
struct Again {};
struct Debug {
  uint32_t exception;
  uint64_t pc;
  uint64_t dr6;
  uint64_t dr7;
};
// With Capability::kX86UserSpaceMsr. Answer through *value, or set *error to 1 for #GP.
struct MsrRead {
  uint32_t index;
  uint32_t reason;  // KVM_MSR_EXIT_REASON_*
  uint64_t* value;
  uint8_t* error;
};
struct MsrWrite {
  uint32_t index;
  uint32_t reason;
  uint64_t value;
  uint8_t* error;
};
// End of interrupt for a userspace IOAPIC (split irqchip).
struct IoapicEoi {
  uint8_t vector;
};
struct Hypercall {
  uint64_t number;
  std::array<uint64_t, 6> args;
  bool long_mode;
  uint64_t* result;
};
// The guest can take an interrupt now (asked for with Vcpu::RequestInterruptWindow).
struct InterruptWindow {};
struct SetTpr {};
struct TprAccess {
  uint64_t rip;
  bool is_write;
};
struct Exception {
  uint32_t exception;
  uint32_t error_code;
};
struct Nmi {};
struct DirtyRingFull {};
struct ApResetHold {};
struct BusLock {};
struct Notify {
  uint32_t flags;
};
// The host memory behind a guest address is not accessible. (Without this exit KVM_RUN fails with EFAULT.)
struct MemoryFault {
  uint64_t flags;
  GuestAddress address;
  uint64_t size;
};
struct Hyperv {
  uint32_t type;
};
struct Xen {
  uint32_t type;
};
// KVM_EXIT_UNKNOWN (then with the hardware's own number), or a reason that this library has no name for.
struct Unknown {
  uint32_t reason;
  uint64_t hardware_reason;
};

}  // namespace exits

using VcpuExit = std::variant<exits::IoIn, exits::IoOut, exits::MmioRead, exits::MmioWrite, exits::Hlt, exits::Shutdown,
                              exits::FailEntry, exits::InternalError, exits::SystemEvent, exits::Interrupted,
                              exits::Again, exits::Debug, exits::MsrRead, exits::MsrWrite, exits::IoapicEoi,
                              exits::Hypercall, exits::InterruptWindow, exits::SetTpr, exits::TprAccess,
                              exits::Exception, exits::Nmi, exits::DirtyRingFull, exits::ApResetHold, exits::BusLock,
                              exits::Notify, exits::MemoryFault, exits::Hyperv, exits::Xen, exits::Unknown>;

// One line for logs and reports: "internal error 1 (emulation failed): 0f 38 f0 ...".
std::string DescribeExit(const VcpuExit& exit);

// For std::visit with lambdas.
template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace sluice::kvm

#endif  // SLUICE_VMM_KVM_EXIT_H_
