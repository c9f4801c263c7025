// What starting a machine costs. Needs /dev/kvm.
//
//   BM_VmProcessToFirstInstruction  Spawn of the jailed process .. the guest's first mark (goal: under 50 ms)
//   BM_MachineToFirstInstruction    Machine::Create .. first mark, in this process
//   BM_MachineLifecycle             Create, run a guest that ends at once, destroy
#include <benchmark/benchmark.h>
#include <unistd.h>

#include "flatbuf/control_generated.h"
#include "vmm/base/seqpacket.h"
#include "vmm/machine/testing/harness.h"
#include "vmm/machine/vm_process.h"

namespace sluice::machine {
namespace {

using testing::TinyCode;

void BM_VmProcessToFirstInstruction(benchmark::State& state) {
  const std::vector<uint8_t> elf = testing::TinyElf(TinyCode().Mark().Exit(0).bytes());
  auto firmware = CreateMemFd("firmware", elf.size());
  if (!testing::OpenKvm() || !firmware.ok() || write(firmware->get(), elf.data(), elf.size()) < 0) {
    state.SkipWithError("no usable /dev/kvm");
    return;
  }
  for (auto _ : state) {
    auto sockets = CreateSeqPacketPair();
    const UniqueFd kvm = testing::OpenKvm();
    const VmProcessFds fds = {.control = sockets->second.get(), .kvm = kvm.get(), .firmware = firmware->get()};
    auto child = StartVmProcess(jail::SiblingBinary("machine_bench_child"), {.name = "bench"}, fds);
    sockets->second.Reset();
    uint64_t first_ns = 0;
    while (child.ok()) {
      auto packet = ReceivePacket(sockets->first.get());
      if (!packet.ok() || !packet->has_value()) break;
      flatbuffers::Verifier verifier((*packet)->bytes.data(), (*packet)->bytes.size());
      if (!verifier.VerifyBuffer<wire::VmEvent>(nullptr)) break;
      const auto* event = flatbuffers::GetRoot<wire::VmEvent>((*packet)->bytes.data());
      if (const auto* running = event->body_as_VmRunning()) first_ns = running->first_instruction_ns();
      if (event->body_as_VmExited() != nullptr) break;
    }
    if (first_ns == 0) {
      state.SkipWithError("the VM process did not run its guest");
      return;
    }
    state.SetIterationTime(static_cast<double>(first_ns) / 1e9);
    (void)child->Wait(absl::Seconds(10));
  }
}
BENCHMARK(BM_VmProcessToFirstInstruction)->UseManualTime()->Unit(benchmark::kMillisecond)->Repetitions(3);

void BM_MachineToFirstInstruction(benchmark::State& state) {
  for (auto _ : state) {
    const testing::RunResult result = testing::RunGuest(testing::TinyOptions(TinyCode().Mark().Exit(0)));
    if (result.marks.empty()) {
      state.SkipWithError("no usable /dev/kvm");
      return;
    }
    state.SetIterationTime(static_cast<double>(result.marks[0]) / 1e9);
  }
}
BENCHMARK(BM_MachineToFirstInstruction)->UseManualTime()->Unit(benchmark::kMillisecond);

void BM_MachineLifecycle(benchmark::State& state) {
  for (auto _ : state) {
    if (!testing::RunGuest(testing::TinyOptions(TinyCode().Exit(0))).end.ok()) {
      state.SkipWithError("no usable /dev/kvm");
      return;
    }
  }
}
BENCHMARK(BM_MachineLifecycle)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice::machine
