#include "devices/console/terminal/server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "devices/console/terminal/wire.h"
#include "vmm/base/log.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"

namespace sluice::console {
namespace {

constexpr size_t kMaxHistoryBytes = 16 << 20;
constexpr size_t kResizeBytes = 4;
// Reads of one descriptor before others on the loop get a turn.
constexpr int kReadsPerTurn = 16;

using Descriptor = asio::posix::stream_descriptor;

absl::Status TakeDescriptor(Descriptor& descriptor, UniqueFd fd, const char* what) {
  const int flags = fcntl(fd.get(), F_GETFL);
  asio::error_code error;
  if (flags < 0 || fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return Annotate(ErrnoToStatus(errno, "fcntl"), what);
  }
  descriptor.assign(fd.get(), error);
  if (error) return absl::InvalidArgumentError(absl::StrCat(what, ": cannot wait for it: ", error.message()));
  fd.Release();  // now the descriptor's
  return absl::OkStatus();
}

class Server final : public ConsoleServer {
 public:
  explicit Server(ConsoleServerOptions options)
      : options_(std::move(options)),
        console_(*options_.loop),
        listener_(*options_.loop),
        self_(std::make_shared<Server*>(this)) {}

  absl::Status Start() {
    int type = 0;
    socklen_t length = sizeof(type);
    console_is_socket_ = getsockopt(options_.console.get(), SOL_SOCKET, SO_TYPE, &type, &length) == 0;
    SLUICE_RETURN_IF_ERROR(TakeDescriptor(console_, std::move(options_.console), "console"));
    if (options_.listener.valid()) {
      SLUICE_RETURN_IF_ERROR(TakeDescriptor(listener_, std::move(options_.listener), "console socket"));
      AwaitClients();
    }
    AwaitConsole();
    return absl::OkStatus();
  }

  absl::Status AddClient(UniqueFd socket) override {
    if (clients_.size() >= options_.max_clients) {
      return absl::ResourceExhaustedError(absl::StrCat("the console has ", clients_.size(), " clients already"));
    }
    auto client = std::make_unique<Client>(*options_.loop);
    SLUICE_RETURN_IF_ERROR(TakeDescriptor(client->descriptor, std::move(socket), "console client"));
    const uint64_t id = ++last_client_;
    clients_.emplace(id, std::move(client));
    const std::string history = History();
    for (size_t at = 0; at < history.size(); at += kMaxDataBytes) {
      const absl::string_view piece = absl::string_view(history).substr(at, kMaxDataBytes);
      Tell(id, PacketKind::kData, std::vector<uint8_t>(piece.begin(), piece.end()));
    }
    if (!console_.is_open()) {
      End(id, "the guest has ended");
    } else {
      AwaitTyping(id);
    }
    return absl::OkStatus();
  }

  size_t clients() const override { return clients_.size(); }
  std::string History() const override {
    return history_.substr(history_.size() - std::min(history_.size(), options_.history_bytes));
  }

 private:
  struct Client {
    explicit Client(asio::io_context& loop) : descriptor(loop) {}
    Descriptor descriptor;
    std::deque<std::vector<uint8_t>> queue;  // whole packets; the kind is the first byte
    size_t queued_bytes = 0;
    bool awaiting_writable = false;
    bool awaiting_readable = false;
    bool ending = false;  // closed when the queue is out
  };

  // A wait whose callback runs only while the server (and the client, if one is named) is there.
  template <typename F>
  void Await(Descriptor& descriptor, Descriptor::wait_type what, F f) {
    descriptor.async_wait(what, [self = std::weak_ptr<Server*>(self_), f = std::move(f)](asio::error_code error) {
      const std::shared_ptr<Server*> server = self.lock();
      if (server != nullptr && error != asio::error::operation_aborted) f(**server);
    });
  }
  Client* Find(uint64_t id) {
    const auto it = clients_.find(id);
    return it == clients_.end() ? nullptr : it->second.get();
  }

  // --- The guest's side ---

  void AwaitConsole() {
    Await(console_, Descriptor::wait_read, [](Server& server) { server.ReadConsole(); });
  }

  void ReadConsole() {
    std::array<uint8_t, kMaxDataBytes> bytes;
    for (int i = 0; i < kReadsPerTurn; ++i) {
      const ssize_t size = read(console_.native_handle(), bytes.data(), bytes.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == EAGAIN) break;
      if (size <= 0) return CloseConsole();
      Show(absl::MakeConstSpan(bytes).subspan(0, static_cast<size_t>(size)));
    }
    AwaitConsole();
  }

  void Show(absl::Span<const uint8_t> bytes) {
    if (options_.on_output != nullptr) options_.on_output(bytes);
    history_.append(bytes.begin(), bytes.end());
    if (history_.size() > 2 * options_.history_bytes + kMaxDataBytes) history_ = History();
    for (const uint64_t id : ClientIds()) Tell(id, PacketKind::kData, bytes);
  }

  void CloseConsole() {
    asio::error_code ignored;
    console_.close(ignored);
    typed_.clear();
    for (const uint64_t id : ClientIds()) End(id, "the guest has ended");
    if (options_.on_closed != nullptr) options_.on_closed();
  }

  // Writes what was typed, and listens to clients again once it is out.
  void FlushTyped() {
    while (!typed_.empty() && console_.is_open()) {
      const int fd = console_.native_handle();
      const ssize_t size = console_is_socket_ ? send(fd, typed_.data(), typed_.size(), MSG_NOSIGNAL | MSG_DONTWAIT)
                                              : write(fd, typed_.data(), typed_.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == EAGAIN) {
        if (!awaiting_console_writable_) {
          awaiting_console_writable_ = true;
          Await(console_, Descriptor::wait_write, [](Server& server) {
            server.awaiting_console_writable_ = false;
            server.FlushTyped();
            for (const uint64_t id : server.ClientIds()) server.AwaitTyping(id);
          });
        }
        return;
      }
      // A guest that is gone shows as the end of what it says.
      if (size < 0) typed_.clear();
      if (size > 0) typed_.erase(0, static_cast<size_t>(size));
    }
    typed_.clear();
  }

  // --- Clients ---

  std::vector<uint64_t> ClientIds() const {
    std::vector<uint64_t> ids;
    ids.reserve(clients_.size());
    for (const auto& [id, client] : clients_) ids.push_back(id);
    return ids;
  }

  void AwaitClients() {
    Await(listener_, Descriptor::wait_read, [](Server& server) { server.Accept(); });
  }

  void Accept() {
    for (int i = 0; i < kReadsPerTurn; ++i) {
      UniqueFd socket(accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.valid()) break;
      if (clients_.size() >= options_.max_clients) {
        const std::string why = absl::StrCat("the console has ", clients_.size(), " clients already");
        SendConsolePacket(socket.get(), PacketKind::kEnded, std::vector<uint8_t>(why.begin(), why.end())).IgnoreError();
        continue;
      }
      if (const absl::Status added = AddClient(std::move(socket)); !added.ok()) {
        SLUICE_LOG(warn, "console: {}", std::string(added.message()));
      }
    }
    AwaitClients();
  }

  void AwaitTyping(uint64_t id) {
    Client* const client = Find(id);
    // While typing waits for the guest, clients are not listened to.
    if (client == nullptr || client->awaiting_readable || client->ending || !typed_.empty()) return;
    client->awaiting_readable = true;
    Await(client->descriptor, Descriptor::wait_read, [id](Server& server) {
      if (Client* const c = server.Find(id)) {
        c->awaiting_readable = false;
        server.ReadTyping(id);
      }
    });
  }

  void ReadTyping(uint64_t id) {
    for (int i = 0; i < kReadsPerTurn && typed_.empty(); ++i) {
      Client* const client = Find(id);
      if (client == nullptr || client->ending) return;
      absl::StatusOr<std::optional<Packet>> packet =
          ReceivePacket(client->descriptor.native_handle(), /*nonblocking=*/true);
      if (!packet.ok() && absl::IsResourceExhausted(packet.status())) break;
      if (!packet.ok() || !packet->has_value() || !Handle((*packet)->bytes)) {
        clients_.erase(id);
        return;
      }
    }
    AwaitTyping(id);
  }

  // False: the client breaks the rules.
  bool Handle(absl::Span<const uint8_t> packet) {
    if (packet.empty() || packet.size() > 1 + kMaxDataBytes) return false;
    const absl::Span<const uint8_t> payload = packet.subspan(1);
    if (packet[0] == static_cast<uint8_t>(PacketKind::kData)) {
      typed_.append(payload.begin(), payload.end());
      FlushTyped();
    } else if (packet[0] == static_cast<uint8_t>(PacketKind::kResize)) {
      if (payload.size() != kResizeBytes) return false;
      if (options_.on_resize != nullptr) {
        options_.on_resize(static_cast<uint16_t>(payload[0] | payload[1] << 8),
                           static_cast<uint16_t>(payload[2] | payload[3] << 8));
      }
    }
    return true;
  }

  // Sends a packet, or queues it. A client that is gone or too slow is dropped.
  void Tell(uint64_t id, PacketKind kind, absl::Span<const uint8_t> payload) {
    Client* const client = Find(id);
    if (client == nullptr || client->ending) return;
    if (client->queue.empty()) {
      const absl::Status sent = SendConsolePacket(client->descriptor.native_handle(), kind, payload);
      if (sent.ok()) return;
      if (!absl::IsResourceExhausted(sent)) {
        clients_.erase(id);
        return;
      }
    }
    if (client->queued_bytes + payload.size() > options_.client_bytes) {
      clients_.erase(id);
      return;
    }
    std::vector<uint8_t> packet;
    packet.reserve(1 + payload.size());
    packet.push_back(static_cast<uint8_t>(kind));
    packet.insert(packet.end(), payload.begin(), payload.end());
    client->queued_bytes += payload.size();
    client->queue.push_back(std::move(packet));
    AwaitRoom(id, *client);
  }

  void End(uint64_t id, absl::string_view why) {
    Tell(id, PacketKind::kEnded, std::vector<uint8_t>(why.begin(), why.end()));
    Client* const client = Find(id);
    if (client == nullptr) return;
    if (client->queue.empty()) {
      clients_.erase(id);
    } else {
      client->ending = true;
    }
  }

  void AwaitRoom(uint64_t id, Client& client) {
    if (client.awaiting_writable) return;
    client.awaiting_writable = true;
    Await(client.descriptor, Descriptor::wait_write, [id](Server& server) {
      Client* const c = server.Find(id);
      if (c == nullptr) return;
      c->awaiting_writable = false;
      while (!c->queue.empty()) {
        const absl::Status sent = SendPacket(c->descriptor.native_handle(), c->queue.front(), {}, /*nonblocking=*/true);
        if (absl::IsResourceExhausted(sent)) return server.AwaitRoom(id, *c);
        if (!sent.ok()) {
          server.clients_.erase(id);
          return;
        }
        c->queued_bytes -= c->queue.front().size() - 1;
        c->queue.pop_front();
      }
      if (c->ending) server.clients_.erase(id);
    });
  }

  ConsoleServerOptions options_;
  Descriptor console_;
  Descriptor listener_;
  bool console_is_socket_ = false;
  bool awaiting_console_writable_ = false;
  std::map<uint64_t, std::unique_ptr<Client>> clients_;
  uint64_t last_client_ = 0;
  std::string history_;
  std::string typed_;  // by clients, not yet taken by the guest
  std::shared_ptr<Server*> self_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConsoleServer>> ConsoleServer::Create(ConsoleServerOptions options) {
  if (options.loop == nullptr || !options.console.valid()) {
    return absl::InvalidArgumentError("console server: needs a loop and a console");
  }
  if (options.history_bytes > kMaxHistoryBytes) {
    return absl::InvalidArgumentError(absl::StrCat("console server: a history of ", options.history_bytes, " bytes; ",
                                                   kMaxHistoryBytes, " are the most"));
  }
  auto server = std::make_unique<Server>(std::move(options));
  SLUICE_RETURN_IF_ERROR(server->Start());
  return server;
}

}  // namespace sluice::console
