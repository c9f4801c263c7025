#include "vmm/topology/control_socket.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::topology {

ReadableWatch::ReadableWatch(asio::io_context& loop, UniqueFd fd) : descriptor_(loop) {
  asio::error_code error;
  descriptor_.assign(fd.get(), error);
  if (!error) fd.Release();
}

void ReadableWatch::Start(std::function<bool()> ready) {
  ready_ = std::move(ready);
  Wait();
}

void ReadableWatch::Wait() {
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (error || !descriptor_.is_open()) return;
    if (ready_() && descriptor_.is_open()) Wait();
  });
}

void ReadableWatch::Close() {
  asio::error_code ignored;
  descriptor_.close(ignored);
}

void ControlSocket::Start(std::function<absl::Status(Packet)> on_packet,
                          std::function<void(const std::string&)> on_close) {
  on_packet_ = std::move(on_packet);
  on_close_ = std::move(on_close);
  // A few at a time: one peer that never stops talking does not starve the others.
  watch_.Start([this] { return Receive(16); });
}

void ControlSocket::Drain() {
  if (watch_.open() && !closed_) Receive(kMaxPackets);
}

bool ControlSocket::Receive(int limit) {
  std::string why;
  for (int i = 0; i < limit; ++i) {
    absl::StatusOr<std::optional<Packet>> packet = ReceivePacket(watch_.fd(), /*nonblocking=*/true);
    if (absl::IsResourceExhausted(packet.status())) return true;
    if (packet.ok() && packet->has_value()) {
      absl::Status status = ++packets_ > kMaxPackets ? absl::ResourceExhaustedError("it sent too many messages")
                                                     : on_packet_(*std::move(*packet));
      if (closed_ || !watch_.open()) return false;
      if (status.ok()) continue;
      why = std::string(status.message());
    } else if (!packet.ok()) {
      why = std::string(packet.status().message());
    }
    closed_ = true;
    watch_.Close();
    on_close_(why);
    return false;
  }
  return true;
}

absl::Status ControlSocket::Send(const flatbuffers::FlatBufferBuilder& message, std::initializer_list<int> fds) {
  if (!watch_.open()) return absl::UnavailableError("the peer is gone");
  return SendPacket(watch_.fd(), absl::MakeConstSpan(message.GetBufferPointer(), message.GetSize()),
                    absl::MakeConstSpan(fds.begin(), fds.size()), /*nonblocking=*/true);
}

absl::StatusOr<UniqueFd> DuplicateFd(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy.valid()) return ErrnoToStatus(errno, "F_DUPFD_CLOEXEC");
  return copy;
}

std::string ShortText(const flatbuffers::String* text) {
  return text == nullptr ? "" : Printable(absl::string_view(text->c_str(), std::min<size_t>(text->size(), 500)));
}

}  // namespace sluice::topology
