// A disk in a temporary file, used through its PCI registers: a sector written, made durable, and read back.
#include <fcntl.h>
#include <unistd.h>

#include <asio/executor_work_guard.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "devices/block/device.h"
#include "vmm/virtio/pci_transport.h"
#include "vmm/virtio/testing/fake_pci.h"

namespace {

using namespace sluice;

// Sends one request and waits for its answer: data and status.
std::vector<uint8_t> Run(asio::io_context& loop, virtio::testing::FakePciDriver& driver, block::RequestHeader header,
                         const std::string& data, uint32_t writable) {
  auto chain = driver.queue(0).Chain();
  chain.ReadableObject(header);
  if (!data.empty()) chain.Readable(std::vector<uint8_t>(data.begin(), data.end()));
  if (!chain.Writable(writable).Submit().ok()) return {};
  driver.Notify(0);
  for (int i = 0; i < 10000; ++i) {
    loop.restart();
    loop.run_one_for(std::chrono::milliseconds(1));
    if (auto done = driver.queue(0).Collect()) return done->data;
  }
  return {};
}

}  // namespace

int main() {
  UniqueFd file(open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.valid() || ftruncate(file.get(), 1 << 20) != 0) return 77;
  auto disk = block::OpenDisk(std::move(file), /*read_only=*/false);
  auto ram = memory::GuestMemory::CreateSimple(8 << 20);
  if (!disk.ok() || !ram.ok()) return 1;

  asio::io_context loop;
  const auto work = asio::make_work_guard(loop);
  block::BlockOptions options;
  options.loop = &loop;
  options.disk = *std::move(disk);
  options.serial = "example";
  auto device = block::BlockDevice::Create(std::move(options));
  if (!device.ok()) {
    std::printf("%s\n", device.status().ToString().c_str());
    return 1;
  }
  std::printf("engine: %s\n", std::string((*device)->engine_name()).c_str());

  virtio::testing::TaskQueue tasks;  // a real machine posts to its event loop
  virtio::testing::FakeNotifier notifier;
  auto transport = virtio::PciTransport::Create(
      *std::move(device), {.name = "disk", .memory = *ram, .notifier = &notifier, .post = tasks.poster()});
  if (!transport.ok()) return 1;
  virtio::testing::FakePciDriver driver(transport->get(), &tasks);
  if (!driver.Start(virtio::kFeatureVersion1 | block::kFeatureFlush, *ram, {64}).ok()) return 1;

  std::string text = "written through a virtqueue";
  text.resize(512, ' ');
  const auto wrote = Run(loop, driver, {block::kTypeOut, 0, 5}, text, 1);
  const auto flushed = Run(loop, driver, {block::kTypeFlush, 0, 0}, "", 1);
  const auto read = Run(loop, driver, {block::kTypeIn, 0, 5}, "", 513);
  if (wrote.size() != 1 || flushed.size() != 1 || read.size() != 513) return 1;
  std::printf("write %u, flush %u, read %u: \"%.27s\"\n", wrote[0], flushed[0], read[512],
              std::string(read.begin(), read.end()).c_str());
  return driver.Reset() && std::string(read.begin(), read.begin() + 512) == text ? 0 : 1;
}
