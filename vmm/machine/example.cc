// Builds a machine around a guest of a few bytes, runs it, says how it ended. Needs /dev/kvm.
#include <fcntl.h>

#include <asio/io_context.hpp>
#include <cstdio>
#include <string>

#include "vmm/base/log.h"
#include "vmm/machine/machine.h"
#include "vmm/machine/testing/tiny_guest.h"

int main() {
  using namespace sluice::machine;
  sluice::InitLogging("machine_example", sluice::LogLevel::kWarn);
  MachineOptions options;
  options.kvm.Reset(open("/dev/kvm", O_RDWR | O_CLOEXEC));
  if (!options.kvm) {
    std::puts("needs KVM: /dev/kvm cannot be opened");
    return 77;
  }
  options.firmware = testing::TinyElf(testing::TinyCode().Mark().Print("hello, world\n").Exit(0).bytes());
  options.mem_mib = 16;
  options.gpu.emplace();  // a display device without a GPU Domain
  options.serial = [](absl::string_view text) { std::printf("guest: %s", std::string(text).c_str()); };

  asio::io_context loop;
  auto machine = Machine::Create(loop, std::move(options));
  if (!machine.ok()) {
    std::printf("%s\n", machine.status().ToString().c_str());
    return 1;
  }
  MachineEnd end;
  (*machine)->OnFirstMark(
      [](uint64_t ns) { std::printf("first instruction after %.1f ms\n", static_cast<double>(ns) / 1e6); });
  if (!(*machine)
           ->Start([&](const MachineEnd& e) {
             end = e;
             loop.stop();
           })
           .ok())
    return 1;
  loop.run();
  std::printf("ended: %s\n", end.ToString().c_str());
  return end.ok() ? 0 : 1;
}
