// Memory slots, event descriptors, interrupt routes, statistics and devices of a VM on real KVM.
#include "vmm/kvm/vm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include "vmm/kvm/testing/guest_rig.h"

namespace sluice::kvm {
namespace {

using memory::kKiB;
using memory::kMiB;
using ::testing::AllOf;
using testing::GuestRig;
using ::testing::HasSubstr;
using testing::RigOptions;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

Mapping Memory(uint64_t bytes, uint8_t first = 0) {
  auto mapping = Mapping::MapAnonymous(bytes);
  EXPECT_TRUE(mapping.ok());
  mapping->data()[0] = first;
  return *std::move(mapping);
}

UniqueFd EventFd(bool nonblocking = true) {
  auto fd = CreateEventFd(nonblocking);
  EXPECT_TRUE(fd.ok());
  return *std::move(fd);
}

// Waits up to ten seconds for an eventfd to be signalled; its count.
uint64_t WaitFor(const UniqueFd& fd) {
  pollfd p = {fd.get(), POLLIN, 0};
  if (poll(&p, 1, 10000) != 1) return 0;
  return DrainEventFd(fd.get());
}

// The value of an MMIO write or port output exit; nullopt for anything else.
std::optional<uint64_t> Value(const absl::StatusOr<VcpuExit>& exit) {
  absl::Span<const uint8_t> data;
  if (!exit.ok()) return std::nullopt;
  if (const auto* w = std::get_if<exits::MmioWrite>(&*exit)) data = w->data;
  if (const auto* w = std::get_if<exits::IoOut>(&*exit)) data = w->data;
  if (data.empty() || data.size() > 8) return std::nullopt;
  uint64_t value = 0;
  std::memcpy(&value, data.data(), data.size());
  return value;
}

std::string Describe(const absl::StatusOr<VcpuExit>& exit) {
  return exit.ok() ? DescribeExit(*exit) : exit.status().ToString();
}

#define EXPECT_OUTPUT(expected, run)                                              \
  do {                                                                            \
    const auto output_exit_ = (run);                                              \
    EXPECT_EQ(Value(output_exit_), uint64_t{expected}) << Describe(output_exit_); \
  } while (false)

// --- memory slots ---

// Loads from 0xd0000000 and writes what it saw to port 0x10, for ever.
GUEST_CODE(ReportByte, R"(
  mov $0xd0000000, %esi
1:mov (%rsi), %al
  out %al, $0x10
  jmp 1b)");

TEST(MemSlotTest, AGuestSeesASlotUntilItIsRemovedAndTheMappingComesBack) {
  SLUICE_RIG_OR_SKIP(rig);
  rig.Load(ReportByte());
  const auto slot = rig.vm.AddMemory(GuestAddress(GuestRig::kMmio), Memory(4 * kKiB, 0x42));
  ASSERT_TRUE(slot.ok()) << slot.status();
  EXPECT_OUTPUT(0x42, rig.Run());
  const auto mapping = rig.vm.RemoveMemory(*slot);
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_EQ((*mapping)->data()[0], 0x42);
  const auto exit = rig.Run();
  ASSERT_TRUE(exit.ok() && std::holds_alternative<exits::MmioRead>(*exit)) << Describe(exit);
  EXPECT_EQ(rig.vm.RemoveMemory(*slot).status().code(), absl::StatusCode::kNotFound) << "only once";
}

TEST(MemSlotTest, SharedMappingsStaySharedWithTheGuest) {
  SLUICE_RIG_OR_SKIP(rig);
  rig.Load(ReportByte());
  auto mapping = std::make_shared<const Mapping>(Memory(4 * kKiB, 1));
  ASSERT_TRUE(rig.vm.AddMemory(GuestAddress(GuestRig::kMmio), mapping).ok());
  EXPECT_OUTPUT(1, rig.Run());
  mapping->data()[0] = 2;
  EXPECT_OUTPUT(2, rig.Run());
}

TEST(MemSlotTest, TheVmKeepsTheMappingAliveAndLetsGoInTheEnd) {
  std::weak_ptr<const Mapping> watch;
  {
    SLUICE_RIG_OR_SKIP(rig);
    auto mapping = std::make_shared<const Mapping>(Memory(4 * kKiB, 7));
    watch = mapping;
    ASSERT_TRUE(rig.vm.AddMemory(GuestAddress(GuestRig::kMmio), std::move(mapping)).ok());
    EXPECT_FALSE(watch.expired());
    // A vCPU alone still keeps it: the guest may be running on it.
    rig.Load(ReportByte());
    { const Vm gone = std::move(rig.vm); }
    EXPECT_FALSE(watch.expired());
    EXPECT_OUTPUT(7, rig.Run());
  }
  EXPECT_TRUE(watch.expired());
}

TEST(MemSlotTest, BadSlotsAreRefusedWithTheirNumbers) {
  SLUICE_RIG_OR_SKIP(rig);
  const absl::Status overlap = rig.vm.AddMemory(GuestAddress(2 * kMiB), Memory(4 * kKiB)).status();
  EXPECT_EQ(overlap.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Message(overlap), "memory slot 0x200000+0x1000 overlaps slot 0 at 0x0+0x400000");
  EXPECT_EQ(rig.vm.AddMemory(GuestAddress(0xd0000800), Memory(4 * kKiB)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rig.vm.AddMemory(GuestAddress(0xd0000000), Memory(5000)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rig.vm.AddMemory(GuestAddress(~uint64_t{0xfff}), Memory(8 * kKiB)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rig.vm.AddMemory(GuestAddress(0xd0000000), Mapping()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rig.vm.RemoveMemory(MemSlot(99)).status().code(), absl::StatusCode::kNotFound);
}

TEST(MemSlotTest, FreedSlotNumbersAreUsedAgain) {
  SLUICE_RIG_OR_SKIP(rig);
  std::vector<MemSlot> slots;
  for (uint64_t i = 0; i < 3; ++i) {
    const auto slot = rig.vm.AddMemory(GuestAddress(0xd0000000 + i * 0x10000), Memory(4 * kKiB));
    ASSERT_TRUE(slot.ok()) << slot.status();
    slots.push_back(*slot);
  }
  ASSERT_TRUE(rig.vm.RemoveMemory(slots[1]).ok());
  const auto again = rig.vm.AddMemory(GuestAddress(0xe0000000), Memory(4 * kKiB));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->id(), slots[1].id());
}

TEST(MemSlotTest, AddingAllOfARamIsAllOrNothing) {
  SLUICE_RIG_OR_SKIP(rig);
  std::vector<memory::RegionConfig> regions(2);
  regions[0] = {.start = GuestAddress(0x10000000), .size = 64 * kKiB};
  regions[1] = {.start = GuestAddress(0x20000000), .size = 64 * kKiB};
  const auto ram = memory::GuestMemory::Create(std::move(regions));
  ASSERT_TRUE(ram.ok());
  const auto blocker = rig.vm.AddMemory(GuestAddress(0x20008000), Memory(4 * kKiB));
  ASSERT_TRUE(blocker.ok());
  EXPECT_EQ(rig.vm.AddGuestMemory(*ram).status().code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(rig.vm.RemoveMemory(*blocker).ok());
  const auto slots = rig.vm.AddGuestMemory(*ram);
  ASSERT_TRUE(slots.ok()) << slots.status();
  EXPECT_EQ(slots->size(), 2u);
}

GUEST_CODE(WriteAndRead, R"(
  mov $0xd0000000, %esi
  movb $9, 5(%rsi)
  mov 5(%rsi), %al
  out %al, $0x10
  hlt)");

TEST(MemSlotTest, WritesToAReadOnlySlotExit) {
  SLUICE_RIG_OR_SKIP(rig);
  rig.Load(WriteAndRead());
  Mapping mapping = Memory(4 * kKiB);
  mapping.data()[5] = 1;
  ASSERT_TRUE(rig.vm.AddMemory(GuestAddress(GuestRig::kMmio), std::move(mapping), {.read_only = true}).ok());
  const auto exit = rig.Run();
  ASSERT_TRUE(exit.ok() && std::holds_alternative<exits::MmioWrite>(*exit)) << Describe(exit);
  EXPECT_EQ(std::get<exits::MmioWrite>(*exit).address.value(), GuestRig::kMmio + 5);
  EXPECT_OUTPUT(1, rig.Run());
}

GUEST_CODE(DirtyTwoPages, R"(
  mov $0xd0001000, %esi
  movb $1, (%rsi)
  mov $0xd0041000, %esi
  movb $1, (%rsi)
  hlt)");

TEST(MemSlotTest, TheDirtyLogNamesThePagesWritten) {
  SLUICE_RIG_OR_SKIP(rig);
  rig.Load(DirtyTwoPages());
  const auto slot = rig.vm.AddMemory(GuestAddress(GuestRig::kMmio), Memory(512 * kKiB), {.log_dirty = true});
  ASSERT_TRUE(slot.ok()) << slot.status();
  const auto exit = rig.Run();
  ASSERT_TRUE(exit.ok() && std::holds_alternative<exits::Hlt>(*exit)) << Describe(exit);
  const auto bits = rig.vm.TakeDirtyLog(*slot);
  ASSERT_TRUE(bits.ok()) << bits.status();
  EXPECT_THAT(*bits, ::testing::ElementsAre(uint64_t{1} << 1, uint64_t{1} << 1));
  EXPECT_THAT(*rig.vm.TakeDirtyLog(*slot), ::testing::ElementsAre(0u, 0u)) << "taken";
  EXPECT_EQ(rig.vm.TakeDirtyLog(MemSlot(99)).status().code(), absl::StatusCode::kNotFound);
}

// Polls 0xd0000000 without an exit in between (once there is memory) and writes each change to 0xd0100000.
GUEST_CODE(Watch, R"(
  mov $0xd0000000, %esi
  mov $0xd0100000, %edi
  xor %ebx, %ebx
1:mov (%rsi), %al
  cmp %al, %bl
  je 1b
  mov %al, %bl
  mov %al, (%rdi)
  jmp 1b)");

class RunningGuestTest : public ::testing::TestWithParam<int> {};

TEST_P(RunningGuestTest, SlotsComeAndGoUnderIt) {
  SLUICE_RIG_OR_SKIP(rig, {.cpl = GetParam()});
  rig.Load(Watch());
  std::atomic<bool> stop{false};
  std::atomic<int> reported{-1};
  std::atomic<int> unbacked_reads{0};
  std::string failure;
  std::thread runner([&] {
    while (!stop.load()) {
      const auto exit = rig.vcpu->Run();
      if (!exit.ok()) {
        failure = exit.status().ToString();
        return;
      }
      if (const auto* read = std::get_if<exits::MmioRead>(&*exit)) {
        read->data[0] = 0;
        ++unbacked_reads;
      } else if (const auto* write = std::get_if<exits::MmioWrite>(&*exit)) {
        reported = write->data[0];
      }
    }
  });
  const auto wait_until = [](auto condition) {
    for (int i = 0; i < 10000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return condition();
  };
  EXPECT_TRUE(wait_until([&] { return unbacked_reads.load() > 0; })) << "no memory there yet";
  for (uint8_t round = 1; round <= 5; ++round) {
    const auto slot = rig.vm.AddMemory(GuestAddress(GuestRig::kMmio), Memory(4 * kKiB, round));
    EXPECT_TRUE(slot.ok()) << slot.status();
    EXPECT_TRUE(wait_until([&] { return reported.load() == round; })) << "round " << int{round};
    EXPECT_TRUE(rig.vm.RemoveMemory(*slot).ok());
    const int before = unbacked_reads.load();
    EXPECT_TRUE(wait_until([&] { return unbacked_reads.load() > before + 1; })) << "gone again";
  }
  stop = true;
  rig.vcpu->Kick();
  runner.join();
  EXPECT_EQ(failure, "");
}

INSTANTIATE_TEST_SUITE_P(Privilege, RunningGuestTest, ::testing::Values(0, 3),
                         [](const auto& param_info) { return param_info.param == 0 ? "Cpl0" : "Cpl3"; });

// --- ioeventfds ---

// Each store of 4 bytes to 0xd0000000, each port output: 1, 2, 3; a byte store; then the end at port 0x11.
GUEST_CODE(Doorbells, R"(
  mov $0xd0000000, %esi
  mov $1, %eax
1:mov %eax, (%rsi)
  out %eax, $0x10
  inc %eax
  cmp $4, %eax
  jne 1b
  mov %al, (%rsi)
  out %eax, $0x11
  jmp .)");

TEST(IoEventTest, AnyLengthCatchesEveryStoreWithoutAnExit) {
  SLUICE_RIG_OR_SKIP(rig);
  rig.Load(Doorbells());
  const UniqueFd mmio = EventFd(), pio = EventFd();
  const auto a = rig.vm.RegisterIoEvent({.address = GuestRig::kMmio, .length = 0}, mmio.get());
  ASSERT_TRUE(a.ok()) << a.status();
  const auto b = rig.vm.RegisterIoEvent({.space = IoEventSpec::Space::kPio, .address = 0x10, .length = 4}, pio.get());
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_OUTPUT(4, rig.Run());
  EXPECT_EQ(DrainEventFd(mmio.get()), 4u);
  EXPECT_EQ(DrainEventFd(pio.get()), 3u);
}

TEST(IoEventTest, ADatamatchCatchesOnlyItsValue) {
  SLUICE_RIG_OR_SKIP(rig, {.cpl = 3});
  rig.Load(Doorbells());
  const UniqueFd two = EventFd(), three = EventFd(), pio = EventFd();
  const auto a = rig.vm.RegisterIoEvent({.address = GuestRig::kMmio, .length = 4, .datamatch = 2}, two.get());
  const auto b = rig.vm.RegisterIoEvent({.address = GuestRig::kMmio, .length = 4, .datamatch = 3}, three.get());
  const auto c = rig.vm.RegisterIoEvent({.space = IoEventSpec::Space::kPio, .address = 0x10, .length = 4}, pio.get());
  ASSERT_TRUE(a.ok() && b.ok() && c.ok()) << a.status() << b.status() << c.status();
  EXPECT_OUTPUT(1, rig.Run());  // not matched
  EXPECT_OUTPUT(4, rig.Run());  // the byte store: another length
  EXPECT_EQ(DrainEventFd(two.get()), 1u);
  EXPECT_EQ(DrainEventFd(three.get()), 1u);
}

TEST(IoEventTest, AfterItsEndWritesExitAgain) {
  SLUICE_RIG_OR_SKIP(rig);
  rig.Load(Doorbells());
  const UniqueFd fd = EventFd();
  {
    auto event = rig.vm.RegisterIoEvent({.address = GuestRig::kMmio, .length = 0}, fd.get());
    ASSERT_TRUE(event.ok());
    IoEvent moved = *std::move(event);
    EXPECT_TRUE(moved.registered());
    EXPECT_FALSE(event->registered());
    EXPECT_OUTPUT(1, rig.Run());  // the port: the store made no exit
    moved = IoEvent();
    EXPECT_FALSE(moved.registered());
  }
  EXPECT_OUTPUT(2, rig.Run());
  EXPECT_EQ(DrainEventFd(fd.get()), 1u);
}

TEST(IoEventTest, BadRegistrationsAreRefused) {
  SLUICE_RIG_OR_SKIP(rig);
  const UniqueFd fd = EventFd();
  const IoEventSpec spec = {.address = GuestRig::kMmio, .length = 4};
  const auto first = rig.vm.RegisterIoEvent(spec, fd.get());
  ASSERT_TRUE(first.ok());
  const absl::Status twice = rig.vm.RegisterIoEvent(spec, fd.get()).status();
  EXPECT_EQ(twice.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(twice), HasSubstr("KVM_IOEVENTFD(address 0xd0000000, length 4)"));
  EXPECT_EQ(rig.vm.RegisterIoEvent({.address = 0xd0001000, .length = 3}, fd.get()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(rig.vm.RegisterIoEvent({.address = 0xd0001000, .length = 4}, -1).ok());
  EXPECT_FALSE(rig.vm.RegisterIoEvent({.address = 0xd0001000, .length = 4}, STDERR_FILENO).ok()) << "no eventfd";
}

TEST(IoEventTest, ARegistrationMayOutliveItsVm) {
  IoEvent survivor;
  MsiRoute route;
  IrqFd irq;
  {
    SLUICE_RIG_OR_SKIP(rig, {.irqchip = RigOptions::kIrqchip});
    const UniqueFd fd = EventFd(), irq_fd = EventFd();
    survivor = *rig.vm.RegisterIoEvent({.address = GuestRig::kMmio, .length = 4}, fd.get());
    route = *rig.vm.AllocateMsiRoute();
    irq = *rig.vm.RegisterIrqFd(route.gsi(), irq_fd.get());
  }
  EXPECT_TRUE(survivor.registered());
  EXPECT_EQ(route.Set({.address = 0xfee00000, .data = 0x40}).code(), absl::StatusCode::kFailedPrecondition);
}

// --- interrupts ---

// Turns the local APIC on, says 0 at port 0x10 (ready), then sleeps; each interrupt writes its number there.
GUEST_CODE(Sleeper, R"(
  mov $0xfee000f0, %esi
  movl $0x1ff, (%rsi)
  xor %eax, %eax
  out %al, $0x10
1:sti
  hlt
  cli
  jmp 1b)");
GUEST_CODE(HandlerA, "mov $0xaa, %al; out %al, $0x10; mov $0xfee000b0, %esi; movl $0, (%rsi); iretq");
GUEST_CODE(HandlerB, "mov $0xbb, %al; out %al, $0x10; mov $0xfee000b0, %esi; movl $0, (%rsi); iretq");

constexpr MsiMessage kVectorA = {.address = 0xfee00000, .data = 0x41};
constexpr MsiMessage kVectorB = {.address = 0xfee00000, .data = 0x42};

// A rig whose guest has handlers for vectors 0x41 (writes 0xaa) and 0x42 (0xbb) and is ready for them.
#define SLEEPER_OR_SKIP(rig, kind)                                                      \
  SLUICE_RIG_OR_SKIP(rig, {.irqchip = (kind)});                                         \
  ASSERT_TRUE(rig.ram.CopyTo(GuestAddress(GuestRig::kCode + 0x1000), HandlerA()).ok()); \
  ASSERT_TRUE(rig.ram.CopyTo(GuestAddress(GuestRig::kCode + 0x2000), HandlerB()).ok()); \
  rig.SetGate(0x41, GuestRig::kCode + 0x1000);                                          \
  rig.SetGate(0x42, GuestRig::kCode + 0x2000);                                          \
  rig.Load(Sleeper());                                                                  \
  EXPECT_OUTPUT(0, rig.Run())

// Runs without an interrupt pending must not answer: kick them after a moment.
bool StaysAsleep(GuestRig& rig) {
  std::thread kicker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    rig.vcpu->Kick();
  });
  const auto exit = rig.vcpu->Run();
  kicker.join();
  return exit.ok() && std::holds_alternative<exits::Interrupted>(*exit);
}

TEST(InterruptTest, EachWriteToAnIrqfdIsOneMsi) {
  SLEEPER_OR_SKIP(rig, RigOptions::kIrqchip);
  auto route = rig.vm.AllocateMsiRoute();
  ASSERT_TRUE(route.ok()) << route.status();
  EXPECT_GE(route->gsi().value(), 24u);
  ASSERT_TRUE(route->Set(kVectorA).ok());
  const UniqueFd event = EventFd();
  const auto irq = rig.vm.RegisterIrqFd(route->gsi(), event.get());
  ASSERT_TRUE(irq.ok()) << irq.status();
  for (int i = 0; i < 3; ++i) {
    SignalEventFd(event.get());
    EXPECT_OUTPUT(0xaa, rig.Run());
  }
  EXPECT_TRUE(StaysAsleep(rig));
}

TEST(InterruptTest, AnIrqfdWakesAGuestThatSleepsInKvm) {
  SLEEPER_OR_SKIP(rig, RigOptions::kIrqchip);
  auto route = rig.vm.AllocateMsiRoute();
  ASSERT_TRUE(route.ok() && route->Set(kVectorB).ok());
  const UniqueFd event = EventFd();
  const auto irq = rig.vm.RegisterIrqFd(route->gsi(), event.get());
  ASSERT_TRUE(irq.ok());
  std::thread device([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    SignalEventFd(event.get());
  });
  EXPECT_OUTPUT(0xbb, rig.Run());
  device.join();
}

TEST(InterruptTest, OneRouteCanBeChangedWithoutTouchingTheOthers) {
  SLEEPER_OR_SKIP(rig, RigOptions::kIrqchip);
  auto a = rig.vm.AllocateMsiRoute(), b = rig.vm.AllocateMsiRoute();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(a->gsi(), b->gsi());
  ASSERT_TRUE(a->Set(kVectorA).ok() && b->Set(kVectorB).ok());
  const UniqueFd event_a = EventFd(), event_b = EventFd();
  const auto irq_a = rig.vm.RegisterIrqFd(a->gsi(), event_a.get());
  const auto irq_b = rig.vm.RegisterIrqFd(b->gsi(), event_b.get());
  ASSERT_TRUE(irq_a.ok() && irq_b.ok());
  ASSERT_TRUE(a->Set(kVectorB).ok());
  ASSERT_TRUE(a->Set(kVectorB).ok()) << "the same again";
  SignalEventFd(event_a.get());
  EXPECT_OUTPUT(0xbb, rig.Run());
  SignalEventFd(event_b.get());
  EXPECT_OUTPUT(0xbb, rig.Run());
  ASSERT_TRUE(b->Clear().ok());
  SignalEventFd(event_b.get());
  EXPECT_TRUE(StaysAsleep(rig)) << "a cleared route drops interrupts";
  ASSERT_TRUE(b->Set(kVectorA).ok());
  SignalEventFd(event_b.get());
  EXPECT_OUTPUT(0xaa, rig.Run());
}

TEST(InterruptTest, AfterItsEndAnIrqfdRaisesNothing) {
  SLEEPER_OR_SKIP(rig, RigOptions::kIrqchip);
  auto route = rig.vm.AllocateMsiRoute();
  ASSERT_TRUE(route.ok() && route->Set(kVectorA).ok());
  const UniqueFd event = EventFd();
  { ASSERT_TRUE(rig.vm.RegisterIrqFd(route->gsi(), event.get()).ok()); }
  SignalEventFd(event.get());
  EXPECT_TRUE(StaysAsleep(rig));
  EXPECT_EQ(DrainEventFd(event.get()), 1u) << "KVM no longer reads it";
}

TEST(InterruptTest, MsisCanBeSentDirectly) {
  SLEEPER_OR_SKIP(rig, RigOptions::kIrqchip);
  const auto delivered = rig.vm.SignalMsi(kVectorA);
  ASSERT_TRUE(delivered.ok()) << delivered.status();
  EXPECT_TRUE(*delivered);
  EXPECT_OUTPUT(0xaa, rig.Run());
}

TEST(InterruptTest, ASplitIrqchipRoutesTheVmmsOwnPinsToo) {
  SLEEPER_OR_SKIP(rig, RigOptions::kSplitIrqchip);
  auto pin = rig.vm.TakePinRoute(Gsi(4));
  ASSERT_TRUE(pin.ok()) << pin.status();
  EXPECT_EQ(rig.vm.TakePinRoute(Gsi(4)).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(rig.vm.TakePinRoute(Gsi(24)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(rig.vm.AllocateMsiRoute()->gsi().value(), 24u);
  ASSERT_TRUE(pin->Set(kVectorA).ok());
  const UniqueFd event = EventFd();
  const auto irq = rig.vm.RegisterIrqFd(pin->gsi(), event.get());
  ASSERT_TRUE(irq.ok()) << irq.status();
  SignalEventFd(event.get());
  EXPECT_OUTPUT(0xaa, rig.Run());
}

// The IOAPIC's pin 20 (which the PIC does not share) becomes level-triggered vector 0x41.
GUEST_CODE(LevelSleeper, R"(
  mov $0xfee000f0, %esi
  movl $0x1ff, (%rsi)
  mov $0xfec00000, %edi
  movl $0x39, (%rdi)
  movl $0, 0x10(%rdi)
  movl $0x38, (%rdi)
  movl $0x8041, 0x10(%rdi)
  xor %eax, %eax
  out %al, $0x10
1:sti
  hlt
  cli
  jmp 1b)");

TEST(InterruptTest, ALevelIrqfdIsResampledAtEndOfInterrupt) {
  SLUICE_RIG_OR_SKIP(rig, {.irqchip = RigOptions::kIrqchip});
  ASSERT_TRUE(rig.ram.CopyTo(GuestAddress(GuestRig::kCode + 0x1000), HandlerA()).ok());
  rig.SetGate(0x41, GuestRig::kCode + 0x1000);
  rig.Load(LevelSleeper());
  EXPECT_OUTPUT(0, rig.Run());
  const UniqueFd event = EventFd(), resample = EventFd();
  const auto irq = rig.vm.RegisterIrqFd(Gsi(20), event.get(), resample.get());
  ASSERT_TRUE(irq.ok()) << irq.status();
  SignalEventFd(event.get());
  EXPECT_OUTPUT(0xaa, rig.Run());
  // The guest goes on, says EOI and sleeps. (Some KVMs end the interrupt when it is delivered, so "not before" is not
  // checked.)
  EXPECT_TRUE(StaysAsleep(rig)) << "the line went down";
  EXPECT_EQ(WaitFor(resample), 1u);
  // The line by hand.
  ASSERT_TRUE(rig.vm.SetIrqLine(Gsi(20), true).ok());
  EXPECT_OUTPUT(0xaa, rig.Run());
  ASSERT_TRUE(rig.vm.SetIrqLine(Gsi(20), false).ok());
}

TEST(InterruptTest, GsisAreFreedAndExhaustionIsAnError) {
  SLUICE_RIG_OR_SKIP(rig, {.irqchip = RigOptions::kIrqchip});
  std::vector<MsiRoute> routes;
  absl::Status last;
  for (int i = 0; i < 10000 && last.ok(); ++i) {
    auto route = rig.vm.AllocateMsiRoute();
    last = route.status();
    if (route.ok()) routes.push_back(*std::move(route));
  }
  EXPECT_EQ(last.code(), absl::StatusCode::kResourceExhausted);
  const Gsi freed = routes[10].gsi();
  routes.erase(routes.begin() + 10);
  EXPECT_EQ(rig.vm.AllocateMsiRoute()->gsi(), freed);
  EXPECT_TRUE(routes.back().Set(kVectorA).ok()) << "even the last one works";
}

TEST(InterruptTest, WithoutAnIrqchipTheErrorSaysSo) {
  SLUICE_RIG_OR_SKIP(rig);
  const UniqueFd event = EventFd();
  EXPECT_THAT(Message(rig.vm.AllocateMsiRoute().status()), HasSubstr("needs an in-kernel interrupt controller"));
  EXPECT_EQ(rig.vm.RegisterIrqFd(Gsi(5), event.get()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(InterruptTest, TheSameEventfdCannotRaiseTwoInterrupts) {
  SLUICE_RIG_OR_SKIP(rig, {.irqchip = RigOptions::kIrqchip});
  const UniqueFd event = EventFd();
  const auto first = rig.vm.RegisterIrqFd(Gsi(5), event.get());
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(rig.vm.RegisterIrqFd(Gsi(6), event.get()).status().code(), absl::StatusCode::kAlreadyExists);
}

// --- the rest ---

TEST(VmTest, TwoVcpusRunAtOnce) {
  SLUICE_RIG_OR_SKIP(rig, {.irqchip = RigOptions::kIrqchip});
  auto second = rig.vm.CreateVcpu(1);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(rig.vm.CreateVcpu(1).status().code(), absl::StatusCode::kAlreadyExists);
  // The second waits for its start-up IPI: it comes back only for kicks, with Interrupted or Again.
  std::thread kicker([&] { (*second)->Kick(); });
  const auto exit = (*second)->Run();
  kicker.join();
  ASSERT_TRUE(exit.ok()) << exit.status();
  EXPECT_TRUE(std::holds_alternative<exits::Interrupted>(*exit) || std::holds_alternative<exits::Again>(*exit))
      << DescribeExit(*exit);
  rig.Load(ReportByte());
  ASSERT_TRUE(rig.vm.AddMemory(GuestAddress(GuestRig::kMmio), Memory(4 * kKiB, 3)).ok());
  EXPECT_OUTPUT(3, rig.Run());
}

TEST(VmTest, PlatformDevicesAreMade) {
  SLUICE_RIG_OR_SKIP(rig);
  EXPECT_FALSE(rig.vm.CreatePit2().ok()) << "needs an irqchip";
  auto vm = Vm::Create(rig.system);
  ASSERT_TRUE(vm.ok());
  EXPECT_TRUE(vm->CreateIrqchip().ok());
  EXPECT_TRUE(vm->CreatePit2().ok());
  EXPECT_TRUE(vm->SetBootCpu(0).ok());
  EXPECT_EQ(vm->CreateIrqchip().code(), absl::StatusCode::kAlreadyExists);
}

TEST(VmTest, StatisticsHaveNamesAndValues) {
  SLUICE_RIG_OR_SKIP(rig);
  if (rig.vm.Check(Capability::kBinaryStatsFd) == 0) GTEST_SKIP() << "NOT TESTED, this KVM has no statistics";
  rig.Load(ReportByte());
  ASSERT_TRUE(rig.vm.AddMemory(GuestAddress(GuestRig::kMmio), Memory(4 * kKiB)).ok());
  const auto stats = rig.vcpu->Stats();
  ASSERT_TRUE(stats.ok()) << stats.status();
  auto before = stats->Read();
  ASSERT_TRUE(before.ok()) << before.status();
  for (int i = 0; i < 10; ++i) EXPECT_OUTPUT(0, rig.Run());
  auto after = stats->Read();
  ASSERT_TRUE(after.ok());
  ASSERT_EQ((*after)["exits"].size(), 1u);
  EXPECT_GE((*after)["exits"][0], (*before)["exits"][0] + 10);
  const auto vm_stats = rig.vm.Stats();
  ASSERT_TRUE(vm_stats.ok()) << vm_stats.status();
  EXPECT_FALSE(vm_stats->descriptors().empty());
  EXPECT_TRUE(vm_stats->Read().ok());
}

TEST(VmTest, UnknownDevicesAreRefused) {
  SLUICE_RIG_OR_SKIP(rig);
  const absl::Status status = rig.vm.CreateDevice(0x7fff).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(Message(status), HasSubstr("KVM_CREATE_DEVICE(type 32767)"));
}

TEST(VmTest, TheVfioDeviceHasItsAttributes) {
  SLUICE_RIG_OR_SKIP(rig);
  const auto device = rig.vm.CreateDevice(KVM_DEV_TYPE_VFIO);
  if (!device.ok()) GTEST_SKIP() << "NOT TESTED, this kernel has no KVM VFIO device: " << device.status();
  EXPECT_TRUE(device->HasAttribute(KVM_DEV_VFIO_GROUP, KVM_DEV_VFIO_GROUP_ADD));
  EXPECT_FALSE(device->HasAttribute(KVM_DEV_VFIO_GROUP, 99));
  const uint8_t no_fd[] = {0xff, 0xff, 0xff, 0xff};
  EXPECT_THAT(Message(device->SetAttribute(KVM_DEV_VFIO_GROUP, KVM_DEV_VFIO_GROUP_ADD, no_fd)),
              HasSubstr("KVM_SET_DEVICE_ATTR(1, 1)"));
}

TEST(VmTest, CapabilitiesAreEnabledOrRefusedByName) {
  SLUICE_RIG_OR_SKIP(rig);
  const absl::Status status = rig.vm.EnableCap(static_cast<Capability>(0x7fffffff));
  EXPECT_THAT(Message(status), HasSubstr("KVM_ENABLE_CAP(KVM_CAP 2147483647)"));
}

}  // namespace
}  // namespace sluice::kvm
