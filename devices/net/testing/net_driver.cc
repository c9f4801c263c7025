#include "devices/net/testing/net_driver.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace sluice::net::testing {
namespace {

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "NetDriver: %s\n", value.status().ToString().c_str());
    std::abort();
  }
  return *std::move(value);
}

constexpr uint64_t kRings = 0x10000;
constexpr uint64_t kBuffers = 0x100000;

}  // namespace

uint64_t HeaderSocket::offload_features() const {
  return kFeatureCsum | kFeatureHostTso4 | kFeatureHostTso6 | kFeatureHostEcn | kFeatureGuestCsum | kFeatureGuestTso4 |
         kFeatureGuestTso6 | kFeatureGuestEcn;
}

absl::Status HeaderSocket::SetOffloads(uint64_t guest_offloads) {
  guest_offloads_ = guest_offloads;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<size_t>> HeaderSocket::Receive(absl::Span<uint8_t> buffer) {
  absl::StatusOr<std::optional<size_t>> size = ReceiveFrame(socket_.get(), buffer);
  if (size.ok() && size->has_value()) **size = **size <= kHeaderBytes ? 0 : **size - kHeaderBytes;
  return size;
}

NetDriver::NetDriver(Options options) : options_(std::move(options)) {
  ram_ = OrDie(memory::GuestMemory::CreateSimple(kBuffers + 3 * options_.buffer_bytes));
  options_.net.loop = &loop_;
  if (options_.net.backend == nullptr) {
    auto pair = OrDie(CreateFrameSocketPair());
    wire_ = std::move(pair.second);
    if (options_.header_socket) {
      auto backend = std::make_unique<HeaderSocket>(std::move(pair.first));
      header_socket_ = backend.get();
      options_.net.backend = std::move(backend);
    } else {
      options_.net.backend = std::make_unique<FrameSocket>(std::move(pair.first));
    }
  }
  device_ = OrDie(NetDevice::Create(std::move(options_.net)));
  Start();
}

NetDriver::~NetDriver() {
  device_->Reset();
}

void NetDriver::Start() {
  queues_.clear();
  virtio::Activation activation;
  activation.memory = ram_;
  activation.features = (options_.features & device_->features()) | virtio::kFeatureVersion1;
  activation.interrupt = this;
  for (uint64_t i = 0; i < 3; ++i) {
    queues_.push_back(OrDie(virtio::testing::FakeDriver::Create(
        ram_, {.size = options_.queue_size,
               .rings = memory::GuestAddress(kRings + i * 0x10000),
               .buffers = memory::GuestAddress(kBuffers + i * options_.buffer_bytes),
               .buffer_bytes = options_.buffer_bytes})));
    activation.queues.push_back(OrDie(virtio::Queue::Create(ram_, queues_.back().layout())));
  }
  if (!device_->Activate(std::move(activation)).ok()) std::abort();
  for (uint16_t i = 0; i < 3; ++i) device_->QueueNotified(i);
  Pump();
}

void NetDriver::Reset() {
  device_->Reset();
  needs_reset_ = false;
  received_.clear();
  Start();
}

bool NetDriver::PostReceive(const std::vector<uint32_t>& pieces, bool notify) {
  auto chain = queues_[kReceiveQueue].Chain();
  for (const uint32_t size : pieces) chain.Writable(size);
  if (!chain.Submit().ok()) return false;
  if (notify) {
    device_->QueueNotified(kReceiveQueue);
    Pump();
  }
  return true;
}

bool NetDriver::Transmit(const FrameHeader& header, absl::Span<const uint8_t> frame) {
  Bytes bytes(sizeof(header) + frame.size());
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::copy(frame.begin(), frame.end(), bytes.begin() + sizeof(header));
  return TransmitBytes(bytes);
}

bool NetDriver::TransmitBytes(absl::Span<const uint8_t> bytes) {
  if (!queues_[kTransmitQueue].Chain().Readable(bytes).Submit().ok()) return false;
  device_->QueueNotified(kTransmitQueue);
  Pump();
  return true;
}

std::optional<uint8_t> NetDriver::Control(uint8_t command_class, uint8_t command, absl::Span<const uint8_t> data) {
  answer_.reset();
  const uint8_t head[] = {command_class, command};
  auto chain = queues_[kControlQueue].Chain();
  chain.Readable(head);
  if (!data.empty()) chain.Readable(data);
  if (!chain.Writable(1).Submit().ok()) return std::nullopt;
  device_->QueueNotified(kControlQueue);
  Pump();
  return answer_;
}

void NetDriver::Pump() {
  loop_.restart();
  // Bounded: a device that posts to itself for ever would be found by the test's deadline, not here.
  for (int i = 0; i < 10000 && loop_.poll_one() > 0; ++i) {
  }
  while (auto done = queues_[kReceiveQueue].Collect()) received_.push_back(std::move(done->data));
  while (queues_[kTransmitQueue].Collect().has_value()) ++transmitted_;
  while (auto done = queues_[kControlQueue].Collect()) {
    if (done->written == 1 && !done->data.empty()) answer_ = done->data[0];
  }
}

bool NetDriver::PumpUntil(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    Pump();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::optional<Bytes> NetDriver::NextOnWire() {
  Bytes frame(kHeaderBytes + kMaxFrameBytes);
  const absl::StatusOr<std::optional<size_t>> size = ReceiveFrame(wire_.get(), absl::MakeSpan(frame));
  if (!size.ok() || !size->has_value()) return std::nullopt;
  frame.resize(**size);
  return frame;
}

Bytes NetDriver::Config() {
  Bytes config(kConfigBytes);
  for (size_t at = 0; at < config.size(); at += 4) {
    device_->ReadConfig(at, absl::MakeSpan(config).subspan(at, 4));
  }
  return config;
}

Bytes MakeFrame(size_t bytes, uint8_t seed) {
  Bytes frame(bytes);
  for (size_t i = 0; i < bytes; ++i) frame[i] = static_cast<uint8_t>(seed + i * 7);
  return frame;
}

}  // namespace sluice::net::testing
