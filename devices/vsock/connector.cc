#include "devices/vsock/connector.h"

#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vmm/base/log.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"

namespace sluice::vsock {
namespace {

// Over the socket between a VM process and its parent: a request, answered by the same with a descriptor beside it, or
// without: refused.
struct BrokerMessage {
  uint64_t id;
  uint32_t port;
  uint32_t zero;
};
static_assert(sizeof(BrokerMessage) == 16);

constexpr int kPacketsPerTurn = 32;

using Bytes = std::array<uint8_t, sizeof(BrokerMessage)>;

Bytes Encode(const BrokerMessage& message) {
  Bytes bytes;
  std::memcpy(bytes.data(), &message, sizeof(message));
  return bytes;
}

std::optional<BrokerMessage> Decode(absl::Span<const uint8_t> bytes) {
  if (bytes.size() != sizeof(BrokerMessage)) return std::nullopt;
  BrokerMessage message;
  std::memcpy(&message, bytes.data(), sizeof(message));
  return message;
}

// One end of such a socket: gives packets to `Take` from the loop until it says no or the peer closes.
class PacketReader {
 public:
  explicit PacketReader(asio::io_context& loop) : descriptor_(loop), self_(std::make_shared<PacketReader*>(this)) {}
  virtual ~PacketReader() = default;
  PacketReader(const PacketReader&) = delete;
  PacketReader& operator=(const PacketReader&) = delete;

 protected:
  absl::Status Begin(UniqueFd socket) {
    asio::error_code error;
    descriptor_.assign(socket.get(), error);
    if (error) return absl::InvalidArgumentError(absl::StrCat("vsock broker's socket: ", error.message()));
    socket.Release();  // now the descriptor's
    Await();
    return absl::OkStatus();
  }
  // False: the peer broke the protocol.
  virtual bool Take(Packet packet) = 0;
  virtual void Ended() = 0;

  bool is_open() const { return descriptor_.is_open(); }
  int socket() { return descriptor_.native_handle(); }
  void End() {
    if (!descriptor_.is_open()) return;
    asio::error_code ignored;
    descriptor_.close(ignored);
    Ended();
  }
  // Runs `f` from the loop, if this is still there then.
  void Later(std::function<void()> f) {
    asio::post(descriptor_.get_executor(), [self = std::weak_ptr<PacketReader*>(self_), f = std::move(f)] {
      if (self.lock() != nullptr) f();
    });
  }

 private:
  void Await() {
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [self = std::weak_ptr<PacketReader*>(self_)](asio::error_code error) {
                             const std::shared_ptr<PacketReader*> reader = self.lock();
                             if (reader != nullptr && !error) (*reader)->Read();
                           });
  }
  void Read() {
    for (int i = 0; i < kPacketsPerTurn && is_open(); ++i) {
      absl::StatusOr<std::optional<Packet>> packet = ReceivePacket(socket(), /*nonblocking=*/true);
      if (!packet.ok() && absl::IsResourceExhausted(packet.status())) break;
      if (!packet.ok() || !packet->has_value() || !Take(*std::move(*packet))) return End();
    }
    if (is_open()) Await();
  }

  asio::posix::stream_descriptor descriptor_;
  std::shared_ptr<PacketReader*> self_;
};

class BrokeredConnector final : public HostConnector, private PacketReader {
 public:
  explicit BrokeredConnector(asio::io_context& loop) : PacketReader(loop) {}
  absl::Status Start(UniqueFd socket) { return Begin(std::move(socket)); }

  void Connect(uint32_t port, Done done) override {
    if (!is_open()) return Fail(std::move(done), absl::UnavailableError("nobody connects for this VM any more"));
    if (requests_.size() >= kMaxRequests) {
      return Fail(std::move(done), absl::ResourceExhaustedError("too many connections are being made"));
    }
    const uint64_t id = ++last_id_;
    const absl::Status sent = SendPacket(socket(), Encode({id, port, 0}), {}, /*nonblocking=*/true);
    if (!sent.ok()) return Fail(std::move(done), sent);
    requests_.emplace(id, std::move(done));
  }

 private:
  void Fail(Done done, absl::Status why) {
    Later([done = std::move(done), why = std::move(why)] { done(why); });
  }
  bool Take(Packet packet) override {
    const std::optional<BrokerMessage> message = Decode(packet.bytes);
    if (!message.has_value()) return false;
    const auto it = requests_.find(message->id);
    if (it == requests_.end()) return false;
    const Done done = std::move(it->second);
    requests_.erase(it);
    if (packet.fds.size() == 1) {
      done(std::move(packet.fds[0]));
    } else {
      done(absl::NotFoundError("nobody listens there"));
    }
    return true;
  }
  void Ended() override {
    for (auto& [id, done] : std::exchange(requests_, {})) {
      Fail(std::move(done), absl::UnavailableError("nobody connects for this VM any more"));
    }
  }

  std::map<uint64_t, Done> requests_;
  uint64_t last_id_ = 0;
};

class UnixBroker final : public ConnectBroker, private PacketReader {
 public:
  UnixBroker(asio::io_context& loop, std::string path) : PacketReader(loop), path_(std::move(path)) {}
  absl::Status Start(UniqueFd socket) { return Begin(std::move(socket)); }
  bool open() const override { return is_open(); }

 private:
  bool Take(Packet packet) override {
    const std::optional<BrokerMessage> message = Decode(packet.bytes);
    if (!message.has_value() || !packet.fds.empty()) return false;
    const absl::StatusOr<UniqueFd> connected = ConnectUnix(absl::StrCat(path_, "_", message->port));
    absl::Status sent;
    if (connected.ok()) {
      const int fd = connected->get();
      sent = SendPacket(socket(), Encode(*message), {fd}, /*nonblocking=*/true);
    } else {
      sent = SendPacket(socket(), Encode(*message), {}, /*nonblocking=*/true);
    }
    // A VM process that does not take its answers (at most kMaxRequests of them) gets no more.
    return sent.ok();
  }
  void Ended() override {}

  const std::string path_;
};

}  // namespace

UnixConnector::UnixConnector(asio::io_context* loop, std::string path) : loop_(loop), path_(std::move(path)) {}

void UnixConnector::Connect(uint32_t port, Done done) {
  asio::post(*loop_,
             [alive = std::weak_ptr<bool>(alive_), path = absl::StrCat(path_, "_", port), done = std::move(done)] {
               if (alive.lock() != nullptr) done(ConnectUnix(path));
             });
}

absl::StatusOr<std::unique_ptr<HostConnector>> CreateBrokeredConnector(asio::io_context* loop, UniqueFd socket) {
  auto connector = std::make_unique<BrokeredConnector>(*loop);
  SLUICE_RETURN_IF_ERROR(connector->Start(std::move(socket)));
  return connector;
}

absl::StatusOr<std::unique_ptr<ConnectBroker>> ConnectBroker::Create(asio::io_context* loop, UniqueFd socket,
                                                                     std::string path) {
  auto broker = std::make_unique<UnixBroker>(*loop, std::move(path));
  SLUICE_RETURN_IF_ERROR(broker->Start(std::move(socket)));
  return broker;
}

}  // namespace sluice::vsock
