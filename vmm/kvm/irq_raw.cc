// Interrupt controllers, routes, ioeventfds and irqfds of a Vm.
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vmm/base/status_macros.h"
#include "vmm/kvm/ioctl_raw.h"
#include "vmm/kvm/vm.h"
#include "vmm/kvm/vm_state.h"

namespace sluice::kvm {
namespace {

using internal::FlexBuffer;
using internal::KvmIoctl;
using internal::KvmIoctlFlex;
using internal::KvmIoctlValue;

constexpr uint32_t kIoapicPins = 24;
constexpr uint32_t kPicPins = 16;
// Entries that KVM's default table has: every IOAPIC pin, and the PIC pins beside the first 16.
constexpr uint32_t kDefaultRoutes = kIoapicPins + kPicPins;

kvm_irq_routing_entry ChipRoute(uint32_t gsi, uint32_t chip, uint32_t pin) {
  kvm_irq_routing_entry entry = {};
  entry.gsi = gsi;
  entry.type = KVM_IRQ_ROUTING_IRQCHIP;
  entry.u.irqchip.irqchip = chip;
  entry.u.irqchip.pin = pin;
  return entry;
}

kvm_irq_routing_entry MsiEntry(uint32_t gsi, const MsiMessage& message) {
  kvm_irq_routing_entry entry = {};
  entry.gsi = gsi;
  entry.type = KVM_IRQ_ROUTING_MSI;
  entry.u.msi.address_lo = static_cast<uint32_t>(message.address);
  entry.u.msi.address_hi = static_cast<uint32_t>(message.address >> 32);
  entry.u.msi.data = message.data;
  return entry;
}

absl::Status NoIrqchip(absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(what, " needs an in-kernel interrupt controller (CreateIrqchip)"));
}

kvm_ioeventfd ToKernel(const IoEventSpec& spec, int event_fd) {
  kvm_ioeventfd request = {};
  request.addr = spec.address;
  request.len = spec.length;
  request.fd = event_fd;
  if (spec.space == IoEventSpec::Space::kPio) request.flags |= KVM_IOEVENTFD_FLAG_PIO;
  if (spec.datamatch.has_value()) {
    request.flags |= KVM_IOEVENTFD_FLAG_DATAMATCH;
    request.datamatch = *spec.datamatch;
  }
  return request;
}

absl::StatusOr<UniqueFd> DuplicateOf(int fd) {
  UniqueFd borrowed(fd);
  auto duplicate = borrowed.Duplicate();
  (void)borrowed.Release();
  return duplicate;
}

std::string Describe(const IoEventSpec& spec) {
  std::string text = absl::StrCat(spec.space == IoEventSpec::Space::kPio ? "port " : "address ",
                                  memory::Hex(spec.address), ", length ", spec.length);
  if (spec.datamatch.has_value()) absl::StrAppend(&text, ", value ", memory::Hex(*spec.datamatch));
  return text;
}

}  // namespace

absl::Status VmState::CommitRoutes() {
  FlexBuffer<kvm_irq_routing, kvm_irq_routing_entry> table(kDefaultRoutes + msi_routes.size());
  uint32_t count = 0;
  if (irqchip == Irqchip::kKernel) {
    // As KVM sets it up itself: PIC and IOAPIC share the first 16 pins.
    for (uint32_t pin = 0; pin < kIoapicPins; ++pin) {
      if (pin < kPicPins) {
        const uint32_t chip = pin < 8 ? KVM_IRQCHIP_PIC_MASTER : KVM_IRQCHIP_PIC_SLAVE;
        table.entries()[count++] = ChipRoute(pin, chip, pin % 8);
      }
      table.entries()[count++] = ChipRoute(pin, KVM_IRQCHIP_IOAPIC, pin);
    }
  }
  for (const auto& [gsi, message] : msi_routes) {
    if (message.has_value()) table.entries()[count++] = MsiEntry(gsi, *message);
  }
  table.header()->nr = count;
  if (KvmIoctlFlex<KVM_SET_GSI_ROUTING>(fd.get(), table) < 0) return ErrnoToStatus(errno, "KVM_SET_GSI_ROUTING");
  return absl::OkStatus();
}

absl::Status Vm::CreateIrqchip() const {
  MutexLock lock(&state_->mu);
  if (KvmIoctlValue<KVM_CREATE_IRQCHIP>(fd(), 0) < 0) return ErrnoToStatus(errno, "KVM_CREATE_IRQCHIP");
  state_->irqchip = VmState::Irqchip::kKernel;
  state_->first_msi_gsi = kIoapicPins;
  return absl::OkStatus();
}

absl::Status Vm::CreateSplitIrqchip(uint32_t ioapic_pins) const {
  MutexLock lock(&state_->mu);
  SLUICE_RETURN_IF_ERROR(EnableCap(Capability::kSplitIrqchip, {ioapic_pins}));
  state_->irqchip = VmState::Irqchip::kSplit;
  state_->first_msi_gsi = ioapic_pins;
  return absl::OkStatus();
}

absl::Status Vm::CreatePit2(bool speaker_dummy) const {
  {
    // Older kernels would make one that nothing can hear.
    MutexLock lock(&state_->mu);
    if (state_->irqchip != VmState::Irqchip::kKernel) return NoIrqchip("the i8254");
  }
  kvm_pit_config config = {};
  config.flags = speaker_dummy ? KVM_PIT_SPEAKER_DUMMY : 0;
  if (KvmIoctl<KVM_CREATE_PIT2>(fd(), &config) < 0) return ErrnoToStatus(errno, "KVM_CREATE_PIT2");
  return absl::OkStatus();
}

absl::Status Vm::SetIrqLine(Gsi gsi, bool level) const {
  kvm_irq_level request = {};
  request.irq = gsi.value();
  request.level = level ? 1 : 0;
  if (KvmIoctl<KVM_IRQ_LINE>(fd(), &request) < 0) {
    return ErrnoToStatus(errno, absl::StrCat("KVM_IRQ_LINE(", gsi.value(), ")"));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Vm::SignalMsi(const MsiMessage& message) const {
  kvm_msi msi = {};
  msi.address_lo = static_cast<uint32_t>(message.address);
  msi.address_hi = static_cast<uint32_t>(message.address >> 32);
  msi.data = message.data;
  const int delivered = KvmIoctl<KVM_SIGNAL_MSI>(fd(), &msi);
  if (delivered < 0) return ErrnoToStatus(errno, "KVM_SIGNAL_MSI");
  return delivered > 0;
}

absl::StatusOr<IoEvent> Vm::RegisterIoEvent(const IoEventSpec& spec, int event_fd) const {
  SLUICE_ASSIGN_OR_RETURN(UniqueFd own, DuplicateOf(event_fd));
  kvm_ioeventfd request = ToKernel(spec, own.get());
  if (KvmIoctl<KVM_IOEVENTFD>(fd(), &request) < 0) {
    return ErrnoToStatus(errno, absl::StrCat("KVM_IOEVENTFD(", Describe(spec), ")"));
  }
  return IoEvent(state_, spec, std::move(own));
}

IoEvent& IoEvent::operator=(IoEvent&& other) noexcept {
  if (this != &other) {
    Unregister();
    vm_ = std::move(other.vm_);
    spec_ = other.spec_;
    event_fd_ = std::move(other.event_fd_);
  }
  return *this;
}

IoEvent::~IoEvent() {
  Unregister();
}

void IoEvent::Unregister() {
  const auto vm = vm_.lock();
  vm_.reset();
  if (vm != nullptr && event_fd_.valid()) {
    kvm_ioeventfd request = ToKernel(spec_, event_fd_.get());
    request.flags |= KVM_IOEVENTFD_FLAG_DEASSIGN;
    // Cannot fail: this very eventfd is registered there.
    (void)KvmIoctl<KVM_IOEVENTFD>(vm->fd.get(), &request);
  }
  event_fd_.Reset();
}

absl::StatusOr<IrqFd> Vm::RegisterIrqFd(Gsi gsi, int event_fd, int resample_fd) const {
  {
    MutexLock lock(&state_->mu);
    if (state_->irqchip == VmState::Irqchip::kNone) return NoIrqchip("an irqfd");
  }
  SLUICE_ASSIGN_OR_RETURN(UniqueFd own, DuplicateOf(event_fd));
  kvm_irqfd request = {};
  request.fd = static_cast<uint32_t>(own.get());
  request.gsi = gsi.value();
  if (resample_fd >= 0) {
    request.flags |= KVM_IRQFD_FLAG_RESAMPLE;
    request.resamplefd = static_cast<uint32_t>(resample_fd);
  }
  if (KvmIoctl<KVM_IRQFD>(fd(), &request) < 0) {
    // The kernel's word for "this eventfd feeds an interrupt already".
    if (errno == EBUSY) {
      return absl::AlreadyExistsError(
          absl::StrCat("KVM_IRQFD(GSI ", gsi.value(), "): the eventfd is registered already"));
    }
    return ErrnoToStatus(errno, absl::StrCat("KVM_IRQFD(GSI ", gsi.value(), ")"));
  }
  return IrqFd(state_, gsi, std::move(own));
}

IrqFd& IrqFd::operator=(IrqFd&& other) noexcept {
  if (this != &other) {
    Unregister();
    vm_ = std::move(other.vm_);
    gsi_ = other.gsi_;
    event_fd_ = std::move(other.event_fd_);
  }
  return *this;
}

IrqFd::~IrqFd() {
  Unregister();
}

void IrqFd::Unregister() {
  const auto vm = vm_.lock();
  vm_.reset();
  if (vm != nullptr && event_fd_.valid()) {
    kvm_irqfd request = {};
    request.fd = static_cast<uint32_t>(event_fd_.get());
    request.gsi = gsi_.value();
    request.flags = KVM_IRQFD_FLAG_DEASSIGN;
    // Cannot fail: this very eventfd is registered for this GSI.
    (void)KvmIoctl<KVM_IRQFD>(vm->fd.get(), &request);
  }
  event_fd_.Reset();
}

absl::StatusOr<MsiRoute> Vm::AllocateMsiRoute() const {
  MutexLock lock(&state_->mu);
  if (state_->irqchip == VmState::Irqchip::kNone) return NoIrqchip("an MSI route");
  uint32_t gsi = state_->first_msi_gsi;
  for (auto it = state_->msi_routes.lower_bound(gsi); it != state_->msi_routes.end() && it->first == gsi; ++it) ++gsi;
  if (gsi >= state_->gsi_limit || state_->msi_routes.size() + kDefaultRoutes >= state_->gsi_limit) {
    return absl::ResourceExhaustedError(absl::StrCat("all ", state_->msi_routes.size(), " MSI routes are taken"));
  }
  state_->msi_routes.emplace(gsi, std::nullopt);
  return MsiRoute(state_, Gsi(gsi));
}

absl::StatusOr<MsiRoute> Vm::TakePinRoute(Gsi gsi) const {
  MutexLock lock(&state_->mu);
  if (state_->irqchip != VmState::Irqchip::kSplit || gsi.value() >= state_->first_msi_gsi) {
    return absl::FailedPreconditionError(
        absl::StrCat("GSI ", gsi.value(), " is not a pin of a userspace IOAPIC (CreateSplitIrqchip)"));
  }
  if (!state_->msi_routes.emplace(gsi.value(), std::nullopt).second) {
    return absl::AlreadyExistsError(absl::StrCat("the route of GSI ", gsi.value(), " is taken"));
  }
  return MsiRoute(state_, gsi);
}

MsiRoute::MsiRoute(MsiRoute&& other) noexcept : vm_(std::move(other.vm_)), gsi_(other.gsi_) {
  other.vm_.reset();
}

MsiRoute& MsiRoute::operator=(MsiRoute&& other) noexcept {
  if (this != &other) {
    Free();
    vm_ = std::move(other.vm_);
    gsi_ = other.gsi_;
    other.vm_.reset();
  }
  return *this;
}

MsiRoute::~MsiRoute() {
  Free();
}

void MsiRoute::Free() {
  (void)Clear();
  const auto vm = vm_.lock();
  vm_.reset();
  if (vm == nullptr) return;
  MutexLock lock(&vm->mu);
  vm->msi_routes.erase(gsi_.value());
}

absl::Status MsiRoute::Set(const MsiMessage& message) {
  const auto vm = vm_.lock();
  if (vm == nullptr) return absl::FailedPreconditionError("the VM of this MSI route is gone");
  MutexLock lock(&vm->mu);
  std::optional<MsiMessage>& route = vm->msi_routes[gsi_.value()];
  if (route == message) return absl::OkStatus();
  const std::optional<MsiMessage> before = std::exchange(route, message);
  absl::Status status = vm->CommitRoutes();
  if (!status.ok()) vm->msi_routes[gsi_.value()] = before;
  return status;
}

absl::Status MsiRoute::Clear() {
  const auto vm = vm_.lock();
  if (vm == nullptr) return absl::OkStatus();
  MutexLock lock(&vm->mu);
  std::optional<MsiMessage>& route = vm->msi_routes[gsi_.value()];
  if (!route.has_value()) return absl::OkStatus();
  route.reset();
  return vm->CommitRoutes();
}

}  // namespace sluice::kvm
