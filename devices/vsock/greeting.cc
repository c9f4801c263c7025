// The host's programs: "CONNECT <port>\n".
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "devices/vsock/connection.h"
#include "devices/vsock/device.h"
#include "vmm/base/log.h"

namespace sluice::vsock {
namespace {

constexpr int kAcceptsPerTurn = 16;
constexpr size_t kMaxLineBytes = 32;

}  // namespace

void VsockDevice::AwaitHosts() {
  listener_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [self = std::weak_ptr<VsockDevice*>(self_)](asio::error_code error) {
                         const std::shared_ptr<VsockDevice*> device = self.lock();
                         if (device != nullptr && !error) (*device)->Accept();
                       });
}

void VsockDevice::Accept() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    UniqueFd socket(accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) break;
    // Closed at once: no driver, or no room.
    if (!activation_.has_value() || full()) continue;
    auto greeting = std::make_unique<Greeting>(*options_.loop, ++last_id_);
    asio::error_code error;
    greeting->descriptor.assign(socket.get(), error);
    if (error) continue;
    socket.Release();  // now the descriptor's
    greeting->deadline = absl::Now() + options_.patience;
    greetings_.push_back(std::move(greeting));
    StartTimer();
    AwaitGreeting(*greetings_.back());
  }
  AwaitHosts();
}

void VsockDevice::AwaitGreeting(Greeting& greeting) {
  greeting.descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                 [self = std::weak_ptr<VsockDevice*>(self_), id = greeting.id](asio::error_code error) {
                                   const std::shared_ptr<VsockDevice*> device = self.lock();
                                   if (device != nullptr && !error) (*device)->ReadGreeting(id);
                                 });
}

void VsockDevice::ReadGreeting(uint64_t id) {
  const auto it = std::find_if(greetings_.begin(), greetings_.end(), [id](const auto& g) { return g->id == id; });
  if (it == greetings_.end()) return;
  Greeting& greeting = **it;
  // Byte by byte: what follows the line is the guest's.
  while (greeting.line.size() < kMaxLineBytes) {
    char byte = 0;
    const ssize_t size = read(greeting.descriptor.native_handle(), &byte, 1);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return AwaitGreeting(greeting);
    if (size <= 0) break;
    if (byte != '\n') {
      greeting.line.push_back(byte);
      continue;
    }
    absl::string_view text = greeting.line;
    uint32_t port = 0;
    absl::ConsumeSuffix(&text, "\r");
    if (absl::ConsumePrefix(&text, "CONNECT ") && !text.empty() && absl::ascii_isdigit(text[0]) &&
        absl::SimpleAtoi(text, &port)) {
      Admit(greeting, port);
    }
    break;
  }
  // Admitted, gone, or not understood.
  greetings_.erase(it);
}

void VsockDevice::Admit(Greeting& greeting, uint32_t port) {
  if (!activation_.has_value()) return;
  // There are more ports than connections: this ends.
  Key key{.host_port = next_host_port_, .guest_port = port};
  while (Find(key) != nullptr) ++key.host_port;
  next_host_port_ = key.host_port + 1;
  if (next_host_port_ < 1u << 30 || next_host_port_ > (1u << 31)) next_host_port_ = 1u << 30;
  const int fd = greeting.descriptor.release();
  Connection* const connection = Add(key);
  connection->state = Connection::kRequested;
  connection->tell_request = true;
  if (!Attach(*connection, UniqueFd(fd)).ok()) return Remove(key);
  MarkReady(*connection);
  GivePackets();
}

}  // namespace sluice::vsock
