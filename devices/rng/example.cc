// A guest asks for 16 random bytes, through the device's PCI registers.
#include <cstdio>

#include "devices/rng/device.h"
#include "vmm/virtio/testing/fake_pci.h"

int main() {
  using namespace sluice;
  asio::io_context loop;
  auto device = rng::RngDevice::Create({.loop = &loop, .bytes = {.per_second = 1 << 20, .burst = 4096}});
  auto ram = memory::GuestMemory::CreateSimple(8 << 20);
  if (!device.ok() || !ram.ok()) return 1;
  virtio::testing::TaskQueue tasks;  // a real machine posts to its event loop
  virtio::testing::FakeNotifier notifier;
  auto transport = virtio::PciTransport::Create(
      *std::move(device), {.name = "rng", .memory = *ram, .notifier = &notifier, .post = tasks.poster()});
  if (!transport.ok()) return 1;
  virtio::testing::FakePciDriver driver(transport->get(), &tasks);
  if (!driver.Start(virtio::kFeatureVersion1, *ram, {16}).ok()) return 1;
  if (!driver.queue(0).Chain().Writable(16).Submit().ok()) return 1;
  driver.Notify(0);
  const auto done = driver.queue(0).Collect();
  if (!done.has_value()) return 1;
  for (const uint8_t byte : done->data) std::printf("%02x", byte);
  std::printf("\n");
  return done->data.size() == 16 ? 0 : 1;
}
