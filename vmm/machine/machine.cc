#include "vmm/machine/machine.h"

#include <algorithm>
#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "devices/gpu-front/device.h"
#include "devices/serial/serial.h"
#include "vmm/base/log.h"
#include "vmm/base/mutex.h"
#include "vmm/base/status_macros.h"
#include "vmm/base/thread.h"
#include "vmm/boot/direct_boot.h"
#include "vmm/kvm/system.h"
#include "vmm/kvm/vcpu_snapshot.h"
#include "vmm/kvm/vm.h"
#include "vmm/machine/bus.h"
#include "vmm/machine/clock.h"
#include "vmm/machine/guest_image.h"
#include "vmm/machine/ioapic.h"
#include "vmm/machine/platform.h"
#include "vmm/machine/platform_ports.h"
#include "vmm/machine/resident_raw.h"
#include "vmm/machine/stats_raw.h"
#include "vmm/machine/virtio_slot.h"
#include "vmm/machine/window.h"
#include "vmm/pci/bus.h"
#include "vmm/pci/host_bridge.h"

namespace sluice::machine {
namespace {

constexpr uint32_t kMaxVcpus = 64;
// A vCPU thread that does not leave KVM_RUN for this long, kicked all the while, will never do so.
constexpr absl::Duration kJoinPatience = absl::Seconds(30);
constexpr absl::Duration kKickInterval = absl::Milliseconds(100);

using memory::GuestRange;

absl::Status CheckOptions(const MachineOptions& options) {
  const uint64_t most = options.kernel.has_value() ? kMaxKernelRamMib : kMaxRamMib;
  if (options.mem_mib < kMinRamMib || options.mem_mib > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("mem_mib is ", options.mem_mib, "; it may be ", kMinRamMib, "..", most));
  }
  if (options.vcpus < 1 || options.vcpus > kMaxVcpus) {
    return absl::InvalidArgumentError(absl::StrCat("vcpus is ", options.vcpus, "; it may be 1..", kMaxVcpus));
  }
  if (options.devices.size() > kMaxDevices) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.devices.size(), " devices; the PCI bus has slots for ", kMaxDevices));
  }
  if (options.gpu.has_value()) {
    const uint64_t window = options.gpu->window_bytes;
    if (!IsPowerOfTwo(window) || window < kMiB || window > kMaxWindowBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("gpu window is ", window, " bytes; it may be a power of two, 1 MiB..2 GiB"));
    }
  }
  return absl::OkStatus();
}

class MachineImpl final : public Machine {
 public:
  explicit MachineImpl(asio::io_context& loop, MachineOptions options)
      : loop_(loop), options_(std::move(options)), alive_(std::make_shared<bool>(true)) {}
  ~MachineImpl() override;

  absl::Status Build();

  absl::Status Start(std::function<void(const MachineEnd&)> on_end) override;
  void Stop() override { End({.cause = EndCause::kStopped}); }
  void OnFirstMark(std::function<void(uint64_t)> on_first_mark) override { on_first_mark_ = std::move(on_first_mark); }
  void OnMark(std::function<void(const Mark&)> on_mark) override { on_mark_ = std::move(on_mark); }
  void OnRestart(std::function<void(uint64_t)> on_restart) override { on_restart_ = std::move(on_restart); }
  size_t SerialInput(absl::string_view bytes) override { return serial_->PushInput(bytes); }
  absl::StatusOr<gpu_front::ScanoutImage> SnapshotScanout() override;
  uint64_t ResidentRamBytes() const override;

 private:
  absl::Status BuildVm();
  absl::Status BuildDevices();
  absl::Status BuildGpu();
  absl::Status AddVirtio(uint8_t slot, std::string name, std::unique_ptr<virtio::Device> device,
                         KvmWindow* window = nullptr, uint8_t window_id = 0);
  absl::Status BuildVcpus();

  // vCPU threads.
  void VcpuMain(kvm::Vcpu& vcpu);
  // False: this vCPU is done.
  bool Handle(const kvm::VcpuExit& exit);
  void SetMark(uint32_t value);
  void OnPowerRequest(PowerRequest request);
  void OnPanic(PanicEvent event);
  // A guest that restarts: its vCPU threads park, the last one hands over to the loop.
  void Park();
  void ResetDevicesOnLoop();
  void RestartOnLoop();
  absl::Status Restart();
  // The first cause stays. Any thread.
  void End(MachineEnd end);
  void KickAll();
  // Ends and joins all vCPU threads.
  void Join();
  void FinishOnLoop();

  asio::io_context& loop_;
  MachineOptions options_;
  const std::shared_ptr<bool> alive_;  // posted tasks hold it weakly
  VmStatsPage stats_;

  memory::GuestMemory ram_;
  std::optional<kvm::System> system_;
  std::optional<kvm::Vm> vm_;
  // Order of destruction, from below: vCPUs, then devices and what they notify, then the VM.
  std::unique_ptr<KvmWindow> window_;
  std::unique_ptr<Ioapic> ioapic_;
  std::unique_ptr<serial::Serial> serial_;
  pci::HostBridge host_bridge_;
  gpu_front::GpuFront* gpu_ = nullptr;  // owned by its slot
  std::vector<std::unique_ptr<VirtioSlot>> slots_;
  std::unique_ptr<pci::PciBus> pci_;
  std::vector<std::unique_ptr<BusHandler>> handlers_;
  Bus ports_;
  Bus mmio_;
  std::optional<GuestImage> image_;
  std::vector<std::unique_ptr<kvm::Vcpu>> vcpus_;
  std::vector<kvm::VcpuSnapshot> fresh_;  // of each vCPU, where the guest may restart
  std::vector<Thread> threads_;

  // Keeps the loop running as long as a guest does.
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::function<void(const MachineEnd&)> on_end_;
  std::function<void(uint64_t)> on_first_mark_;
  std::function<void(const Mark&)> on_mark_;
  std::function<void(uint64_t)> on_restart_;
  std::atomic<uint32_t> marks_{0};
  std::atomic<bool> ending_{false};
  std::atomic<bool> parking_{false};
  uint64_t restarts_ = 0;  // loop thread

  Mutex mu_;
  CondVar gate_;
  CondVar thread_ended_;
  bool go_ ABSL_GUARDED_BY(mu_) = false;
  size_t running_threads_ ABSL_GUARDED_BY(mu_) = 0;
  bool restarting_ ABSL_GUARDED_BY(mu_) = false;
  size_t parked_threads_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<MachineEnd> end_ ABSL_GUARDED_BY(mu_);
};

absl::Status MachineImpl::Build() {
  if (options_.start_time_ns == 0) options_.start_time_ns = MonotonicNanos();
  SLUICE_RETURN_IF_ERROR(CheckOptions(options_));
  SLUICE_ASSIGN_OR_RETURN(stats_, VmStatsPage::Create(std::move(options_.stats)));
  SLUICE_ASSIGN_OR_RETURN(image_, GuestImage::Create(options_));
  SLUICE_RETURN_IF_ERROR(BuildVm());
  SLUICE_RETURN_IF_ERROR(BuildDevices());
  return BuildVcpus();
}

absl::Status MachineImpl::BuildVm() {
  SLUICE_ASSIGN_OR_RETURN(ram_, memory::GuestMemory::Create(RamRegions(options_.mem_mib)));
  SLUICE_ASSIGN_OR_RETURN(system_, kvm::System::FromFd(std::move(options_.kvm)));
  SLUICE_RETURN_IF_ERROR(
      system_->Require({kvm::Capability::kUserMemory, kvm::Capability::kSplitIrqchip, kvm::Capability::kSignalMsi,
                        kvm::Capability::kIrqfd, kvm::Capability::kIoeventfd, kvm::Capability::kIoeventfdAnyLength,
                        kvm::Capability::kIrqRouting, kvm::Capability::kImmediateExit}));
  SLUICE_ASSIGN_OR_RETURN(vm_, kvm::Vm::Create(*system_));
  // Intel processors need these pages; others ignore them.
  SLUICE_RETURN_IF_ERROR(vm_->SetIdentityMapAddress(kIdentityMap));
  SLUICE_RETURN_IF_ERROR(vm_->SetTssAddress(kTssPages));
  // Local APICs in the kernel, the IOAPIC here: docs/decisions/0007-split-irqchip.md.
  SLUICE_RETURN_IF_ERROR(vm_->CreateSplitIrqchip(kIoapicPins));
  if (system_->Check(kvm::Capability::kExitOnEmulationFailure) > 0) {
    // The exit then says which instruction it was.
    SLUICE_RETURN_IF_ERROR(vm_->EnableCap(kvm::Capability::kExitOnEmulationFailure, {1}));
  }
  if ((vm_->Check(kvm::Capability::kDisableQuirks2) & KVM_X86_QUIRK_IGNORE_GUEST_PAT) != 0) {
    // The guest's memory types then count, as on AMD processors.
    SLUICE_RETURN_IF_ERROR(vm_->EnableCap(kvm::Capability::kDisableQuirks2, {KVM_X86_QUIRK_IGNORE_GUEST_PAT}));
  }
  return vm_->AddGuestMemory(ram_).status();
}

absl::Status MachineImpl::BuildDevices() {
  ioapic_ = std::make_unique<Ioapic>([this](const kvm::MsiMessage& message) { (void)vm_->SignalMsi(message); });
  serial_ = std::make_unique<serial::Serial>(serial::Serial::Options{
      .output =
          [this](absl::Span<const uint8_t> bytes) {
            if (options_.serial) options_.serial(std::string(bytes.begin(), bytes.end()));
          },
      .interrupt = [this](bool level) { ioapic_->SetLine(kSerialIrq, level); },
  });
  const auto window32 = GuestRange::Create(kBar32Start, kBar32Bytes);
  const auto window64 = GuestRange::Create(kBar64Start, kBar64Bytes);
  pci_ = std::make_unique<pci::PciBus>(pci::PciBus::Options{.ecam = kEcamStart, .windows = {*window32, *window64}});
  SLUICE_RETURN_IF_ERROR(pci_->Add(kHostBridgeSlot, &host_bridge_));
  if (options_.gpu.has_value()) SLUICE_RETURN_IF_ERROR(BuildGpu());
  for (size_t i = 0; i < options_.devices.size(); ++i) {
    const VirtioDeviceOptions& wanted = options_.devices[i];
    absl::StatusOr<std::unique_ptr<virtio::Device>> device = wanted.create({.loop = loop_});
    if (!device.ok()) return Annotate(device.status(), absl::StrCat("device '", wanted.name, "'"));
    SLUICE_RETURN_IF_ERROR(AddVirtio(static_cast<uint8_t>(kFirstDeviceSlot + i), wanted.name, *std::move(device)));
  }
  SLUICE_RETURN_IF_ERROR(pci_->AssignBars());
  for (const auto& slot : slots_) slot->Watch();

  auto add = [this](Bus& bus, uint64_t start, uint64_t size, absl::string_view name,
                    std::unique_ptr<BusHandler> handler) {
    handlers_.push_back(std::move(handler));
    return bus.Add(start, size, name, handlers_.back().get());
  };
  SLUICE_RETURN_IF_ERROR(
      add(ports_, kSerialPort, kSerialPorts, "serial", std::make_unique<SerialPorts>(serial_.get())));
  SLUICE_RETURN_IF_ERROR(add(ports_, kPciConfigPort, kPciConfigPorts, "pci", std::make_unique<PciPorts>(pci_.get())));
  SLUICE_RETURN_IF_ERROR(
      add(ports_, kDebugExitPort, 1, "debug exit", std::make_unique<WritePort>([this](uint32_t code) {
            End({.cause = EndCause::kGuestExit, .code = static_cast<int>(code & 0xff)});
          })));
  SLUICE_RETURN_IF_ERROR(
      add(ports_, kMarkerPort, 4, "marker", std::make_unique<WritePort>([this](uint32_t value) { SetMark(value); })));
  SLUICE_RETURN_IF_ERROR(add(ports_, kPowerPorts, kPowerPortCount, "power",
                             std::make_unique<PowerPorts>([this](PowerRequest request) { OnPowerRequest(request); })));
  SLUICE_RETURN_IF_ERROR(
      add(ports_, kPanicPort, 1, "panic", std::make_unique<PanicPort>([this](PanicEvent event) { OnPanic(event); })));
  SLUICE_RETURN_IF_ERROR(mmio_.Add(kIoapic.value(), kIoapicBytes, "ioapic", ioapic_.get()));
  SLUICE_RETURN_IF_ERROR(
      add(mmio_, kEcamStart.value(), kEcamBytes, "ecam", std::make_unique<PciMmio>(pci_.get(), kEcamStart)));
  SLUICE_RETURN_IF_ERROR(
      add(mmio_, kBar32Start.value(), kBar32Bytes, "bars", std::make_unique<PciMmio>(pci_.get(), kBar32Start)));
  return add(mmio_, kBar64Start.value(), kBar64Bytes, "64-bit bars",
             std::make_unique<PciMmio>(pci_.get(), kBar64Start));
}

absl::Status MachineImpl::BuildGpu() {
  window_ = std::make_unique<KvmWindow>(&*vm_, options_.gpu->window_bytes);
  gpu_front::GpuFrontOptions front;
  front.loop = &loop_;
  front.window = window_.get();
  front.channel = std::move(options_.gpu->channel);
  front.identity = {.frontend = options_.name, .os = options_.gpu->os};
  front.width = options_.gpu->width;
  front.height = options_.gpu->height;
  front.stats = stats_.get();
  front.on_domain_state = [](gpu_front::DomainState, const absl::Status& why) {
    if (!why.ok()) SLUICE_LOG(warn, "GPU Domain: {}", why.ToString());
  };
  SLUICE_ASSIGN_OR_RETURN(auto device, gpu_front::GpuFront::Create(std::move(front)));
  gpu_ = device.get();
  return AddVirtio(kGpuSlot, "gpu-front", std::move(device), window_.get(), gpu_front::kShmIdHostVisible);
}

absl::Status MachineImpl::AddVirtio(uint8_t slot, std::string name, std::unique_ptr<virtio::Device> device,
                                    KvmWindow* window, uint8_t window_id) {
  const VirtioSlot::Environment environment = {.loop = &loop_, .vm = &*vm_, .memory = ram_, .stats = stats_.get()};
  SLUICE_ASSIGN_OR_RETURN(auto added,
                          VirtioSlot::Create(std::move(name), std::move(device), environment, window, window_id));
  SLUICE_RETURN_IF_ERROR(pci_->Add(slot, added->pci_device()));
  slots_.push_back(std::move(added));
  return absl::OkStatus();
}

absl::Status MachineImpl::BuildVcpus() {
  SLUICE_ASSIGN_OR_RETURN(const boot::VcpuState state, image_->Load(ram_));
  SLUICE_ASSIGN_OR_RETURN(const kvm::CpuidTable supported, system_->SupportedCpuid());
  const kvm::CpuTopology topology = {.vcpus = options_.vcpus,
                                     .tsc_deadline_timer = system_->Check(kvm::Capability::kTscDeadlineTimer) > 0};
  const bool may_restart = options_.on_reset == ResetAction::kRestart && image_->can_restart();
  std::vector<uint32_t> msrs;
  if (may_restart) {
    SLUICE_ASSIGN_OR_RETURN(msrs, system_->MsrIndices());
  }
  for (uint32_t id = 0; id < options_.vcpus; ++id) {
    SLUICE_ASSIGN_OR_RETURN(auto vcpu, vm_->CreateVcpu(id));
    SLUICE_RETURN_IF_ERROR(vcpu->SetCpuid(kvm::MakeVcpuCpuid(supported, topology, id)));
    // The same memory types on every processor; firmware sets up others than the boot vCPU itself.
    if (image_->can_restart()) SLUICE_RETURN_IF_ERROR(vcpu->SetMsrs(state.msrs));
    if (may_restart) {
      SLUICE_ASSIGN_OR_RETURN(auto fresh, kvm::VcpuSnapshot::Take(*vcpu, msrs));
      fresh_.push_back(std::move(fresh));
    }
    if (id == 0) SLUICE_RETURN_IF_ERROR(boot::ApplyVcpuState(*vcpu, state));
    vcpus_.push_back(std::move(vcpu));
  }
  return absl::OkStatus();
}

absl::Status MachineImpl::Start(std::function<void(const MachineEnd&)> on_end) {
  if (!threads_.empty()) return absl::FailedPreconditionError("the machine was started before");
  on_end_ = std::move(on_end);
  work_.emplace(loop_.get_executor());
  {
    const MutexLock lock(&mu_);
    running_threads_ = vcpus_.size();
  }
  absl::Status started;
  for (const auto& vcpu : vcpus_) {
    absl::StatusOr<Thread> thread = StartThread([this, vcpu = vcpu.get()] {
      {
        const MutexLock lock(&mu_);
        while (!go_) gate_.Wait(&mu_);
      }
      VcpuMain(*vcpu);
    });
    if (!thread.ok()) {
      started = Annotate(thread.status(), absl::StrCat("the thread of vCPU ", threads_.size()));
      break;
    }
    threads_.push_back(*std::move(thread));
  }
  if (started.ok() && options_.confine) started = options_.confine();
  if (!started.ok()) End({.cause = EndCause::kHostError, .detail = started.ToString()});
  const MutexLock lock(&mu_);
  running_threads_ -= vcpus_.size() - threads_.size();
  go_ = true;
  gate_.SignalAll();
  return started;
}

MachineImpl::~MachineImpl() {
  Stop();
  Join();
}

void MachineImpl::Join() {
  const absl::Time deadline = absl::Now() + kJoinPatience;
  {
    const MutexLock lock(&mu_);
    while (running_threads_ > 0) {
      KickAll();
      thread_ended_.WaitWithTimeout(&mu_, kKickInterval);
      if (absl::Now() > deadline) {
        SLUICE_LOG(critical, "{} vCPU threads do not end", running_threads_);
        std::abort();
      }
    }
  }
  for (Thread& thread : threads_) {
    if (thread.joinable()) thread.Join();
  }
}

void MachineImpl::KickAll() {
  for (const auto& vcpu : vcpus_) vcpu->Kick();
}

void MachineImpl::End(MachineEnd end) {
  {
    const MutexLock lock(&mu_);
    if (end_.has_value()) return;
    end_ = std::move(end);
    gate_.SignalAll();  // for those in Park
  }
  ending_.store(true, std::memory_order_release);
  KickAll();
}

void MachineImpl::SetMark(uint32_t value) {
  const uint64_t elapsed = MonotonicNanos() - options_.start_time_ns;
  const uint32_t index = marks_.load(std::memory_order_relaxed);
  if (index >= kMaxMarks) return;
  const bool first = marks_.fetch_add(1, std::memory_order_relaxed) == 0;
  if (first) stats_->first_instruction_ns.store(elapsed, std::memory_order_relaxed);
  asio::post(loop_, [this, first, mark = Mark{value, elapsed}, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    if (first && on_first_mark_) on_first_mark_(mark.nanoseconds);
    if (on_mark_) on_mark_(mark);
  });
}

void MachineImpl::OnPowerRequest(PowerRequest request) {
  if (request == PowerRequest::kOff) return End({.cause = EndCause::kPowerOff, .code = 0});
  if (fresh_.empty()) return End({.cause = EndCause::kGuestReset});
  {
    const MutexLock lock(&mu_);
    restarting_ = true;
  }
  parking_.store(true, std::memory_order_release);
  KickAll();
}

void MachineImpl::OnPanic(PanicEvent event) {
  if (event == PanicEvent::kCrashLoaded) {
    SLUICE_LOG_GUEST(warn, "{}: the guest's kernel panicked and runs its crash kernel", options_.name);
    return;
  }
  End({.cause = EndCause::kGuestPanic});
}

void MachineImpl::Park() {
  const MutexLock lock(&mu_);
  if (!restarting_) return;
  if (++parked_threads_ == running_threads_) {
    asio::post(loop_, [this, alive = std::weak_ptr<bool>(alive_)] {
      if (!alive.expired()) ResetDevicesOnLoop();
    });
  }
  while (restarting_ && !end_.has_value()) gate_.Wait(&mu_);
  --parked_threads_;
}

void MachineImpl::ResetDevicesOnLoop() {
  if (ending_.load(std::memory_order_acquire)) return;
  for (const auto& slot : slots_) slot->Reset();
  // Behind what the devices posted.
  asio::post(loop_, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) RestartOnLoop();
  });
}

absl::Status MachineImpl::Restart() {
  ioapic_->Reset();
  SLUICE_RETURN_IF_ERROR(pci_->AssignBars());
  SLUICE_ASSIGN_OR_RETURN(const boot::VcpuState state, image_->Load(ram_));
  // Every vCPU thread waits in Park, so that the registers are this thread's meanwhile.
  for (size_t i = 0; i < vcpus_.size(); ++i) SLUICE_RETURN_IF_ERROR(fresh_[i].Restore(*vcpus_[i]));
  return boot::ApplyVcpuState(*vcpus_[0], state);
}

void MachineImpl::RestartOnLoop() {
  if (ending_.load(std::memory_order_acquire)) return;
  if (on_restart_) on_restart_(++restarts_);
  if (const absl::Status status = Restart(); !status.ok()) {
    return End({.cause = EndCause::kHostError, .detail = absl::StrCat("restart: ", status.ToString())});
  }
  parking_.store(false, std::memory_order_release);
  const MutexLock lock(&mu_);
  restarting_ = false;
  gate_.SignalAll();
}

void MachineImpl::VcpuMain(kvm::Vcpu& vcpu) {
  while (!ending_.load(std::memory_order_acquire)) {
    const absl::StatusOr<kvm::VcpuExit> exit = vcpu.Run();
    if (!exit.ok()) {
      // EFAULT: host memory behind a slot is gone or protected. Everything else is the host's fault.
      const bool fault = absl::StrContains(exit.status().message(), "Bad address");
      End({.cause = fault ? EndCause::kMemoryFault : EndCause::kHostError, .detail = exit.status().ToString()});
      break;
    }
    if (std::holds_alternative<kvm::exits::Interrupted>(*exit)) {
      // Only here: KVM has finished the instruction of the exit before, and will not touch the registers again.
      if (parking_.load(std::memory_order_acquire)) Park();
      continue;
    }
    if (!Handle(*exit)) break;
  }
  serial_->Flush();
  bool last = false;
  {
    const MutexLock lock(&mu_);
    last = --running_threads_ == 0;
    if (last) {
      // Under the lock: once the count is zero, the destructor may run as soon as it is released.
      asio::post(loop_, [this, alive = std::weak_ptr<bool>(alive_)] {
        if (!alive.expired()) FinishOnLoop();
      });
    }
    thread_ended_.SignalAll();
  }
}

bool MachineImpl::Handle(const kvm::VcpuExit& exit) {
  namespace exits = kvm::exits;
  auto count = [](std::atomic<uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); };
  return std::visit(
      kvm::Overloaded{
          [&](const exits::IoOut& io) {
            count(stats_->exits_io);
            for (uint32_t i = 0; i < io.count; ++i)
              ports_.Write(io.port, io.data.subspan(size_t{i} * io.size, io.size));
            return true;
          },
          [&](const exits::IoIn& io) {
            count(stats_->exits_io);
            for (uint32_t i = 0; i < io.count; ++i) ports_.Read(io.port, io.data.subspan(size_t{i} * io.size, io.size));
            return true;
          },
          [&](const exits::MmioWrite& write) {
            count(stats_->exits_mmio);
            if (ram_.Contains(write.address, 1)) {
              End({.cause = EndCause::kMemoryFault, .detail = absl::StrCat("write at ", write.address.ToString())});
              return false;
            }
            mmio_.Write(write.address.value(), write.data);
            return true;
          },
          [&](const exits::MmioRead& read) {
            count(stats_->exits_mmio);
            if (ram_.Contains(read.address, 1)) {
              End({.cause = EndCause::kMemoryFault, .detail = absl::StrCat("read at ", read.address.ToString())});
              return false;
            }
            mmio_.Read(read.address.value(), read.data);
            return true;
          },
          [&](const exits::Interrupted&) { return true; },  // VcpuMain has seen to it
          [&](const exits::Again&) { return true; },
          [&](const exits::Hlt&) {
            count(stats_->exits_hlt);
            End({.cause = EndCause::kHalted});
            return false;
          },
          [&](const exits::Shutdown&) {
            count(stats_->exits_other);
            End({.cause = EndCause::kTripleFault});
            return false;
          },
          [&](const exits::SystemEvent& event) {
            count(stats_->exits_other);
            End({.cause = EndCause::kGuestReset, .detail = kvm::DescribeExit(event)});
            return false;
          },
          [&](const exits::FailEntry& entry) {
            count(stats_->exits_other);
            End({.cause = EndCause::kFailEntry, .detail = kvm::DescribeExit(entry)});
            return false;
          },
          [&](const exits::MemoryFault& fault) {
            count(stats_->exits_other);
            End({.cause = EndCause::kMemoryFault, .detail = kvm::DescribeExit(fault)});
            return false;
          },
          [&](const exits::InternalError& error) {
            count(stats_->exits_other);
            End({.cause = EndCause::kInternalError, .detail = kvm::DescribeExit(error)});
            return false;
          },
          // Nothing else was asked for; an exit that nobody can answer would come back for ever.
          [&](const auto& other) {
            count(stats_->exits_other);
            End({.cause = EndCause::kHostError, .detail = absl::StrCat("unexpected exit: ", kvm::DescribeExit(other))});
            return false;
          },
      },
      exit);
}

void MachineImpl::FinishOnLoop() {
  work_.reset();
  // What the guest queued before its last instruction still counts: a picture flushed just before the exit is shown.
  for (const auto& slot : slots_) slot->NotifyAll();
  MachineEnd end;
  {
    const MutexLock lock(&mu_);
    if (!end_.has_value()) end_ = MachineEnd{.cause = EndCause::kHostError, .detail = "every vCPU left"};
    end = *end_;
  }
  if (on_end_) on_end_(end);
}

absl::StatusOr<gpu_front::ScanoutImage> MachineImpl::SnapshotScanout() {
  if (gpu_ == nullptr) return gpu_front::ScanoutImage();
  return gpu_->LastPicture();
}

uint64_t MachineImpl::ResidentRamBytes() const {
  uint64_t bytes = 0;
  for (const memory::Region& region : ram_.regions()) bytes += ResidentBytes(*region.mapping());
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Machine>> Machine::Create(asio::io_context& loop, MachineOptions options) {
  auto machine = std::make_unique<MachineImpl>(loop, std::move(options));
  SLUICE_RETURN_IF_ERROR(machine->Build());
  return machine;
}

}  // namespace sluice::machine
