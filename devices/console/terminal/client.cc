#include "devices/console/terminal/client.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <vector>

#include "devices/console/terminal/raw_mode.h"
#include "devices/console/terminal/wire.h"
#include "vmm/base/log.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"
#include "vmm/base/unique_fd.h"

namespace sluice::console {
namespace {

// Signals come as a descriptor while this lives, and as they did afterwards.
class SignalDescriptor {
 public:
  SignalDescriptor() = default;
  SignalDescriptor(const SignalDescriptor&) = delete;
  SignalDescriptor& operator=(const SignalDescriptor&) = delete;
  ~SignalDescriptor() {
    if (fd_.valid()) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  absl::Status Open() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&signals, signal);
    const int error = pthread_sigmask(SIG_BLOCK, &signals, &before_);
    if (error != 0) return ErrnoToStatus(error, "pthread_sigmask");
    fd_.Reset(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (fd_.valid()) return absl::OkStatus();
    const int failed = errno;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    return ErrnoToStatus(failed, "signalfd");
  }
  int fd() const { return fd_.get(); }
  // 0: none waits.
  int Next() const {
    signalfd_siginfo info{};
    return read(fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  UniqueFd fd_;
  sigset_t before_{};
};

class Client {
 public:
  explicit Client(const ConsoleClientOptions& options) : options_(options) {}

  absl::StatusOr<ConsoleEnd> Run() {
    SLUICE_RETURN_IF_ERROR(signals_.Open());
    SLUICE_RETURN_IF_ERROR(mode_.Enter(options_.input));
    TellSize();
    while (!end_.has_value()) {
      // While typed bytes wait for the server, no more are read.
      const bool full = !typed_.empty();
      pollfd fds[] = {{signals_.fd(), POLLIN, 0},
                      {options_.socket, static_cast<short>(POLLIN | (full ? POLLOUT : 0)), 0},
                      {input_open_ && !full ? options_.input : -1, POLLIN, 0}};
      if (poll(fds, std::size(fds), -1) < 0) {
        if (errno == EINTR) continue;
        return ErrnoToStatus(errno, "poll");
      }
      if (fds[0].revents != 0) TakeSignals();
      if (fds[1].revents != 0 && !end_.has_value()) {
        SLUICE_RETURN_IF_ERROR(SendTyped());
        SLUICE_RETURN_IF_ERROR(TakePacket());
      }
      if (fds[2].revents != 0 && !end_.has_value()) SLUICE_RETURN_IF_ERROR(TakeTyping());
    }
    return *end_;
  }

 private:
  void TakeSignals() {
    while (const int signal = signals_.Next()) {
      if (signal == SIGWINCH) {
        TellSize();
      } else {
        end_ = ConsoleEnd{ConsoleEnd::kInterrupted, "interrupted"};
      }
    }
  }

  void TellSize() {
    const auto size = TerminalSize(options_.output);
    if (!size.has_value()) return;
    const auto [cols, rows] = *size;
    const uint8_t payload[] = {static_cast<uint8_t>(cols), static_cast<uint8_t>(cols >> 8), static_cast<uint8_t>(rows),
                               static_cast<uint8_t>(rows >> 8)};
    // A size that a full socket does not take is told at the next change.
    SendConsolePacket(options_.socket, PacketKind::kResize, payload).IgnoreError();
  }

  absl::Status TakeTyping() {
    std::array<uint8_t, 4096> bytes;
    const ssize_t size = read(options_.input, bytes.data(), bytes.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) return absl::OkStatus();
    if (size <= 0) {
      input_open_ = false;  // a pipe that ended, a terminal that hung up
      return absl::OkStatus();
    }
    auto typed = absl::MakeConstSpan(bytes).subspan(0, static_cast<size_t>(size));
    if (options_.escape.has_value()) {
      const auto escape = std::find(typed.begin(), typed.end(), *options_.escape);
      if (escape != typed.end()) {
        end_ = ConsoleEnd{ConsoleEnd::kDetached, "left the console"};
        typed = typed.subspan(0, static_cast<size_t>(escape - typed.begin()));
      }
    }
    typed_.assign(typed.begin(), typed.end());
    return SendTyped();
  }

  absl::Status SendTyped() {
    if (typed_.empty()) return absl::OkStatus();
    const absl::Status sent = SendConsolePacket(options_.socket, PacketKind::kData, typed_);
    if (absl::IsResourceExhausted(sent)) return absl::OkStatus();
    typed_.clear();
    // That the server is gone shows when its last words have been read.
    return absl::IsUnavailable(sent) ? absl::OkStatus() : sent;
  }

  absl::Status TakePacket() {
    SLUICE_ASSIGN_OR_RETURN(const std::optional<Packet> packet, Received());
    if (!packet.has_value()) {
      end_ = ConsoleEnd{ConsoleEnd::kEnded, "the console's server is gone"};
      return absl::OkStatus();
    }
    if (packet->bytes.empty()) return absl::OkStatus();
    const auto payload = absl::MakeConstSpan(packet->bytes).subspan(1);
    if (packet->bytes[0] == static_cast<uint8_t>(PacketKind::kEnded)) {
      end_ = ConsoleEnd{ConsoleEnd::kEnded, Printable(std::string(payload.begin(), payload.end()))};
    } else if (packet->bytes[0] == static_cast<uint8_t>(PacketKind::kData)) {
      return Show(payload);
    }
    return absl::OkStatus();
  }

  // The next packet, an empty one when none is there, nullopt at the end.
  absl::StatusOr<std::optional<Packet>> Received() const {
    absl::StatusOr<std::optional<Packet>> packet = ReceivePacket(options_.socket, /*nonblocking=*/true);
    if (packet.ok()) return packet;
    if (absl::IsResourceExhausted(packet.status())) return std::optional<Packet>(Packet());
    if (absl::IsUnavailable(packet.status())) return std::optional<Packet>();
    return packet.status();
  }

  absl::Status Show(absl::Span<const uint8_t> bytes) const {
    while (!bytes.empty()) {
      const ssize_t size = write(options_.output, bytes.data(), bytes.size());
      if (size >= 0) {
        bytes.remove_prefix(static_cast<size_t>(size));
      } else if (errno == EAGAIN) {
        pollfd room{options_.output, POLLOUT, 0};
        poll(&room, 1, -1);
      } else if (errno != EINTR) {
        return ErrnoToStatus(errno, "the terminal cannot be written");
      }
    }
    return absl::OkStatus();
  }

  const ConsoleClientOptions options_;
  SignalDescriptor signals_;
  RawMode mode_;
  bool input_open_ = true;
  std::vector<uint8_t> typed_;  // what the server has not taken yet
  std::optional<ConsoleEnd> end_;
};

}  // namespace

absl::StatusOr<ConsoleEnd> RunConsole(const ConsoleClientOptions& options) {
  return Client(options).Run();
}

}  // namespace sluice::console
