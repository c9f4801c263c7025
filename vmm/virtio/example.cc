// A whole virtio device in thirty lines, and a driver that finds it through its PCI registers and talks to it.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "vmm/virtio/pci_transport.h"
#include "vmm/virtio/testing/fake_pci.h"

namespace {

using namespace sluice;

// Answers every request with its bytes in reverse.
class Mirror : public virtio::Device {
 public:
  uint16_t device_id() const override { return 42; }
  uint32_t pci_class() const override { return 0xff0000; }
  absl::Span<const uint16_t> queue_max_sizes() const override {
    static constexpr uint16_t kSizes[] = {64};
    return kSizes;
  }
  void ReadConfig(uint64_t, absl::Span<uint8_t> to) override { std::fill(to.begin(), to.end(), 0); }

  absl::Status Activate(virtio::Activation activation) override {
    activation_ = std::move(activation);
    return absl::OkStatus();
  }
  void QueueNotified(uint16_t index) override {
    virtio::Queue& queue = *activation_->queues[index];
    const auto more = queue.Drain(64, [&queue](virtio::DescriptorChain chain) {
      // Cap before allocating: the sizes are the guest's.
      std::vector<uint8_t> bytes(std::min<uint64_t>({chain.ReadableSize(), chain.WritableSize(), 4096}));
      uint64_t written = 0;
      if (chain.Read(0, absl::MakeSpan(bytes)).ok()) {
        std::reverse(bytes.begin(), bytes.end());
        if (chain.Write(0, bytes).ok()) written = bytes.size();
      }
      queue.Complete(std::move(chain), written).IgnoreError();
    });
    if (!more.ok()) activation_->interrupt->SetNeedsReset();  // the driver broke its ring
    if (queue.NeedsInterrupt()) activation_->interrupt->SignalQueue(index);
  }
  void Reset() override { activation_.reset(); }

 private:
  std::optional<virtio::Activation> activation_;
};

}  // namespace

int main() {
  auto ram = memory::GuestMemory::CreateSimple(8 << 20);
  if (!ram.ok()) return 1;
  virtio::testing::TaskQueue loop;  // a real machine posts to its event loop
  virtio::testing::FakeNotifier notifier;
  auto transport = virtio::PciTransport::Create(
      std::make_unique<Mirror>(), {.name = "mirror", .memory = *ram, .notifier = &notifier, .post = loop.poster()});
  if (!transport.ok()) return 1;

  virtio::testing::FakePciDriver driver(transport->get(), &loop);
  if (absl::Status status = driver.Start(virtio::kFeatureVersion1, *ram, {64}); !status.ok()) {
    std::printf("%s\n", status.ToString().c_str());
    return 1;
  }
  const std::string text = "sluice";
  const std::vector<uint8_t> request(text.begin(), text.end());
  if (!driver.queue(0).Chain().Readable(request).Writable(16).Submit().ok()) return 1;
  driver.Notify(0);
  const auto done = driver.queue(0).Collect();
  if (!done.has_value()) return 1;
  const std::string answer(done->data.begin(), done->data.end());
  std::printf("%s -> %s, %llu interrupt(s)\n", text.c_str(), answer.c_str(),
              static_cast<unsigned long long>(notifier.signals(1)));
  return answer == "eciuls" ? 0 : 1;
}
