#include "devices/vsock/testing/vsock_driver.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace sluice::vsock::testing {
namespace {

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "VsockDriver: %s\n", value.status().ToString().c_str());
    std::abort();
  }
  return *std::move(value);
}

constexpr uint64_t kRings = 0x10000;
constexpr uint64_t kBuffers = 0x100000;

// A listening socket without a name in the file system: the kernel picks an abstract one.
UniqueFd Listen() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) != 0 ||
      listen(socket.get(), 16) != 0) {
    std::abort();
  }
  return socket;
}

}  // namespace

void FakeConnector::Connect(uint32_t port, Done done) {
  waiting.emplace_back(port, std::move(done));
}

bool FakeConnector::Answer() {
  if (waiting.empty()) return false;
  auto [port, done] = std::move(waiting.front());
  waiting.pop_front();
  int fds[2];
  if (offered.count(port) == 0) {
    done(absl::NotFoundError("nobody listens there"));
  } else if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0) {
    hosts.emplace_back(fds[0]);
    done(UniqueFd(fds[1]));
  }
  return true;
}

VsockDriver::VsockDriver(const Options& options) : options_(options) {
  ram_ = OrDie(memory::GuestMemory::CreateSimple(kBuffers + 3 * options.ram_per_queue));
  auto connector = std::make_unique<FakeConnector>();
  connector_ = connector.get();
  listener_ = Listen();
  VsockOptions device;
  device.loop = &loop_;
  device.guest_cid = kGuestCid;
  device.listener = OrDie(listener_.Duplicate());
  device.connector = std::move(connector);
  device.max_connections = options.max_connections;
  device.buffer_bytes = options.buffer_bytes;
  device.patience = options.patience;
  device_ = OrDie(VsockDevice::Create(std::move(device)));
  Activate();
}

VsockDriver::~VsockDriver() {
  device_->Reset();
}

void VsockDriver::Activate() {
  queues_.clear();
  virtio::Activation activation;
  activation.memory = ram_;
  activation.features = virtio::kFeatureVersion1;
  activation.interrupt = this;
  for (uint64_t i = 0; i < 3; ++i) {
    queues_.push_back(OrDie(virtio::testing::FakeDriver::Create(
        ram_, {.size = options_.queue_size,
               .rings = memory::GuestAddress(kRings + i * 0x10000),
               .buffers = memory::GuestAddress(kBuffers + i * options_.ram_per_queue),
               .buffer_bytes = options_.ram_per_queue})));
    activation.queues.push_back(OrDie(virtio::Queue::Create(ram_, queues_.back().layout())));
  }
  if (!device_->Activate(std::move(activation)).ok()) std::abort();
  for (uint16_t i = 0; i < 3; ++i) device_->QueueNotified(i);
  Pump();
}

int VsockDriver::PostReceive(int count, uint32_t bytes) {
  int posted = 0;
  for (; posted < count; ++posted) {
    if (!queues_[kReceiveQueue].Chain().Writable(bytes).Submit().ok()) break;
  }
  device_->QueueNotified(kReceiveQueue);
  Pump();
  return posted;
}

PacketHeader VsockDriver::Header(uint16_t op, uint32_t guest_port, uint32_t host_port, uint32_t len) const {
  PacketHeader header{};
  header.src_cid = kGuestCid;
  header.dst_cid = kHostCid;
  header.src_port = guest_port;
  header.dst_port = host_port;
  header.len = len;
  header.type = kTypeStream;
  header.op = op;
  header.buf_alloc = buf_alloc;
  header.fwd_cnt = fwd_cnt;
  return header;
}

bool VsockDriver::Send(uint16_t op, uint32_t guest_port, uint32_t host_port, absl::string_view payload,
                       uint32_t flags) {
  PacketHeader header = Header(op, guest_port, host_port, static_cast<uint32_t>(payload.size()));
  header.flags = flags;
  return SendPacket(header, payload);
}

bool VsockDriver::SendPacket(const PacketHeader& header, absl::string_view payload) {
  auto& queue = queues_[kTransmitQueue];
  while (queue.Collect().has_value()) {
  }
  auto chain = queue.Chain();
  chain.ReadableObject(header);
  if (!payload.empty()) chain.Readable(std::vector<uint8_t>(payload.begin(), payload.end()));
  const bool sent = chain.Submit().ok();
  device_->QueueNotified(kTransmitQueue);
  Pump();
  return sent;
}

VsockDriver::Packet VsockDriver::NextPacket() {
  Pump();
  Packet packet;
  const auto done = queues_[kReceiveQueue].Collect();
  if (!done.has_value() || done->data.size() < kHeaderBytes) return packet;
  std::memcpy(&packet.header, done->data.data(), kHeaderBytes);
  packet.payload.assign(done->data.begin() + kHeaderBytes, done->data.end());
  return packet;
}

size_t VsockDriver::Unsent() {
  Pump();
  while (queues_[kTransmitQueue].Collect().has_value()) {
  }
  return queues_[kTransmitQueue].outstanding();
}

UniqueFd VsockDriver::HostConnects(absl::string_view line) {
  UniqueFd host(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  socklen_t length = sizeof(address);
  if (getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      connect(host.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    return UniqueFd();
  }
  HostWrite(host, line);
  return host;
}

std::string VsockDriver::HostRead(const UniqueFd& host) {
  Pump();
  std::string text;
  char bytes[4096];
  for (ssize_t size; (size = read(host.get(), bytes, sizeof(bytes))) > 0;) {
    text.append(bytes, static_cast<size_t>(size));
    Pump();
  }
  return text;
}

size_t VsockDriver::HostWrite(const UniqueFd& host, absl::string_view text) {
  const ssize_t size = text.empty() ? 0 : send(host.get(), text.data(), text.size(), MSG_NOSIGNAL);
  Pump();
  return size < 0 ? 0 : static_cast<size_t>(size);
}

bool VsockDriver::HostEnded(const UniqueFd& host) {
  Pump();
  char byte = 0;
  return recv(host.get(), &byte, 1, MSG_PEEK) == 0;
}

UniqueFd VsockDriver::Connect(uint32_t guest_port, uint32_t host_port) {
  Offer(host_port);
  Send(kOpRequest, guest_port, host_port);
  if (NextPacket().op() != kOpResponse || connector_->hosts.empty()) return UniqueFd();
  UniqueFd host = std::move(connector_->hosts.back());
  connector_->hosts.pop_back();
  return host;
}

void VsockDriver::Pump() {
  loop_.restart();
  // Bounded: a device that posts to itself for ever would be found by the test's deadline, not here.
  for (int i = 0; i < 10000; ++i) {
    if (loop_.poll_one() > 0) continue;
    if (connector_->hold || !connector_->Answer()) break;
    loop_.restart();
  }
}

bool VsockDriver::PumpUntil(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    Pump();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void VsockDriver::Reset() {
  device_->Reset();
  needs_reset_ = false;
  Activate();
}

}  // namespace sluice::vsock::testing
