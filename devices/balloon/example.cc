// The host wants 4 MiB; a driver hears of it, gives them page by page, and the host holds 4 MiB less.
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "devices/balloon/device.h"
#include "vmm/virtio/testing/fake_pci.h"

namespace {

using namespace sluice;

unsigned long long ResidentKiB(const memory::GuestMemory& ram) {
  struct stat status {};
  if (fstat(ram.regions()[0].fd(), &status) != 0) return 0;
  return static_cast<unsigned long long>(status.st_blocks) / 2;
}

}  // namespace

int main() {
  asio::io_context loop;
  auto created = balloon::BalloonDevice::Create({.loop = &loop});
  auto ram = memory::GuestMemory::CreateSimple(16 << 20);
  if (!created.ok() || !ram.ok()) return 1;
  balloon::BalloonDevice* device = created->get();
  virtio::testing::TaskQueue tasks;  // a real machine posts to its event loop
  virtio::testing::FakeNotifier notifier;
  auto transport = virtio::PciTransport::Create(
      *std::move(created), {.name = "balloon", .memory = *ram, .notifier = &notifier, .post = tasks.poster()});
  if (!transport.ok()) return 1;
  virtio::testing::FakePciDriver driver(transport->get(), &tasks);
  if (!driver.Start(virtio::kFeatureVersion1, *ram, {16, 16}).ok()) return 1;
  if (!ram->Fill(memory::GuestAddress(8 << 20), 1, 8 << 20).ok()) return 1;  // a guest that uses its memory
  const auto before = ResidentKiB(*ram);

  if (!device->SetTarget(4 << 20).ok()) return 1;
  const auto wanted = static_cast<uint32_t>(driver.ReadBar(virtio::kRegisterBar, virtio::kDeviceConfigOffset, 4));
  std::vector<uint32_t> pfns;
  for (uint32_t i = 0; i < wanted; ++i) pfns.push_back((8 << 20) / 4096 + i);
  std::vector<uint8_t> bytes(pfns.size() * sizeof(uint32_t));
  std::memcpy(bytes.data(), pfns.data(), bytes.size());
  if (!driver.queue(0).Chain().Readable(bytes).Submit().ok()) return 1;
  driver.Notify(0);
  driver.WriteBar(virtio::kRegisterBar, virtio::kDeviceConfigOffset + 4, 4, wanted);

  std::printf("wanted %u pages, got %llu KiB; the host holds %llu KiB, before %llu KiB\n", wanted,
              static_cast<unsigned long long>(device->actual_bytes()) / 1024, ResidentKiB(*ram), before);
  // Less the page that the driver's list itself took.
  return device->actual_bytes() == 4 << 20 && ResidentKiB(*ram) + 4000 < before ? 0 : 1;
}
