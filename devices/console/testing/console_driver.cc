#include "devices/console/testing/console_driver.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vmm/base/status_macros.h"

namespace sluice::console::testing {
namespace {

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "ConsoleDriver: %s\n", value.status().ToString().c_str());
    std::abort();
  }
  return *std::move(value);
}

std::pair<UniqueFd, UniqueFd> StreamPair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) std::abort();
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

constexpr uint64_t kRings = 0x10000;
constexpr uint64_t kBuffers = 0x400000;

}  // namespace

ConsoleDriver::ConsoleDriver(const Options& options) : options_(options) {
  ConsoleOptions device;
  device.loop = &loop_;
  for (uint32_t i = 0; i < options.ports; ++i) {
    auto [ours, hosts] = StreamPair();
    hosts_.push_back(std::move(hosts));
    PortOptions port;
    port.name = i == 0 ? "console" : absl::StrCat("port.", i);
    port.console = i == 0;
    port.fd = std::move(ours);
    port.buffer_bytes = options.buffer_bytes;
    port.discard_when_full = options.discard_when_full;
    device.ports.push_back(std::move(port));
  }
  device.on_guest_open = options.on_guest_open;
  device.on_host_closed = options.on_host_closed;
  device_ = OrDie(ConsoleDevice::Create(std::move(device)));
  const uint64_t queues = device_->queue_max_sizes().size();
  ram_ = OrDie(memory::GuestMemory::CreateSimple(kBuffers + queues * options.ram_per_queue));
  interrupts_.resize(queues);
  Activate();
}

ConsoleDriver::~ConsoleDriver() {
  device_->Reset();
}

void ConsoleDriver::Activate() {
  queues_.clear();
  virtio::Activation activation;
  activation.memory = ram_;
  activation.features = (options_.features & device_->features()) | virtio::kFeatureVersion1;
  activation.interrupt = this;
  const auto count = static_cast<uint16_t>(device_->queue_max_sizes().size());
  for (uint64_t i = 0; i < count; ++i) {
    queues_.push_back(OrDie(virtio::testing::FakeDriver::Create(
        ram_, {.size = 32,
               .rings = memory::GuestAddress(kRings + i * 0x10000),
               .buffers = memory::GuestAddress(kBuffers + i * options_.ram_per_queue),
               .buffer_bytes = options_.ram_per_queue})));
    activation.queues.push_back(OrDie(virtio::Queue::Create(ram_, queues_.back().layout())));
  }
  if (!device_->Activate(std::move(activation)).ok()) std::abort();
  for (uint16_t i = 0; i < count; ++i) device_->QueueNotified(i);
  Pump();
}

void ConsoleDriver::Start() {
  PostControl(24);
  SendControl({.id = 0, .event = kDeviceReady, .value = 1});
  for (uint32_t i = 0; i < options_.ports; ++i) {
    SendControl({.id = i, .event = kPortReady, .value = 1});
    SendControl({.id = i, .event = kPortOpen, .value = 1});
    for (int buffer = 0; buffer < 4; ++buffer) PostInput(i, 64);
  }
}

void ConsoleDriver::PostControl(int count, uint32_t bytes) {
  for (int i = 0; i < count; ++i) {
    if (!queues_[kControlReceiveQueue].Chain().Writable(bytes).Submit().ok()) break;
  }
  device_->QueueNotified(kControlReceiveQueue);
  Pump();
}

void ConsoleDriver::SendControl(const ControlMessage& message) {
  while (queues_[kControlTransmitQueue].Collect().has_value()) {
  }
  if (!queues_[kControlTransmitQueue].Chain().ReadableObject(message).Submit().ok()) return;
  device_->QueueNotified(kControlTransmitQueue);
  Pump();
}

std::vector<ConsoleDriver::Message> ConsoleDriver::Messages() {
  Pump();
  std::vector<Message> messages;
  while (auto done = queues_[kControlReceiveQueue].Collect()) {
    Message message;
    if (done->data.size() < sizeof(message.header)) continue;
    std::memcpy(&message.header, done->data.data(), sizeof(message.header));
    message.tail.assign(done->data.begin() + sizeof(message.header), done->data.end());
    messages.push_back(std::move(message));
  }
  return messages;
}

bool ConsoleDriver::PostInput(uint32_t port, uint32_t bytes) {
  const bool posted = queues_[ReceiveQueue(port)].Chain().Writable(bytes).Submit().ok();
  device_->QueueNotified(ReceiveQueue(port));
  Pump();
  return posted;
}

bool ConsoleDriver::Send(uint32_t port, absl::string_view text) {
  auto& queue = queues_[TransmitQueue(port)];
  while (queue.Collect().has_value()) {
  }
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  const bool sent = queue.Chain().Readable(bytes).Submit().ok();
  device_->QueueNotified(TransmitQueue(port));
  Pump();
  return sent;
}

std::string ConsoleDriver::Received(uint32_t port) {
  Pump();
  std::string text;
  while (auto done = queues_[ReceiveQueue(port)].Collect()) text.append(done->data.begin(), done->data.end());
  return text;
}

size_t ConsoleDriver::Unsent(uint32_t port) {
  Pump();
  auto& queue = queues_[TransmitQueue(port)];
  while (queue.Collect().has_value()) {
  }
  return queue.outstanding();
}

std::string ConsoleDriver::HostRead(uint32_t port) {
  Pump();
  std::string text;
  char bytes[4096];
  for (ssize_t size; (size = read(hosts_[port].get(), bytes, sizeof(bytes))) > 0;) {
    text.append(bytes, static_cast<size_t>(size));
    Pump();
  }
  return text;
}

size_t ConsoleDriver::HostWrite(uint32_t port, absl::string_view text) {
  const ssize_t size = send(hosts_[port].get(), text.data(), text.size(), MSG_NOSIGNAL);
  Pump();
  return size < 0 ? 0 : static_cast<size_t>(size);
}

absl::Status ConsoleDriver::Reconnect(uint32_t port) {
  auto [ours, host] = StreamPair();
  SLUICE_RETURN_IF_ERROR(device_->ConnectPort(port, std::move(ours)));
  hosts_[port] = std::move(host);
  Pump();
  return absl::OkStatus();
}

void ConsoleDriver::Pump() {
  loop_.restart();
  // Bounded: a device that posts to itself for ever would be found by the test's deadline, not here.
  for (int i = 0; i < 10000 && loop_.poll_one() > 0; ++i) {
  }
}

void ConsoleDriver::Reset() {
  device_->Reset();
  needs_reset_ = false;
  Activate();
}

}  // namespace sluice::console::testing
