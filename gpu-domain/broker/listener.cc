#include "gpu-domain/broker/listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gpu-domain/broker/unix_socket_raw.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::broker {
namespace {
// A new spare worker loads a driver: not while a program that has just connected does the same.
constexpr std::chrono::milliseconds kSpareDelay{300};
}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Create(asio::io_context& loop, const std::string& path,
                                                           DomainSpec domain, WorkerSpec spec,
                                                           const ListenerOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(UniqueFd socket, ListenUnix(path));
  return std::unique_ptr<Listener>(
      new Listener(loop, path, std::move(socket), std::move(domain), std::move(spec), options));
}

Listener::Listener(asio::io_context& loop, std::string path, UniqueFd socket, DomainSpec domain, WorkerSpec spec,
                   const ListenerOptions& options)
    : loop_(loop),
      path_(std::move(path)),
      socket_(loop, socket.Release()),
      spec_(std::move(spec)),
      options_(options),
      spare_timer_(loop),
      broker_(loop, std::move(domain), [](uint32_t id, const jail::ExitStatus& status) {
        SLUICE_LOG(info, "connection {} ended: {}", id, status.ToString());
      }) {
  if (options_.spare_worker) broker_.PrepareSpare(spec_);
  WaitForConnection();
}

Listener::~Listener() {
  unlink(path_.c_str());
}

void Listener::Stop() {
  if (stopping_) return;
  stopping_ = true;
  asio::error_code ignored;
  socket_.cancel(ignored);
  spare_timer_.cancel();
  broker_.StopAll([this] { loop_.stop(); });
}

void Listener::WaitForConnection() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (error || stopping_) return;
    OnConnection();
    WaitForConnection();
  });
}

void Listener::OnConnection() {
  UniqueFd connection(accept4(socket_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.valid()) return;  // it went away again, or this process has too many descriptors: the next try tells
  if (broker_.workers() >= options_.max_workers) {
    SLUICE_LOG_GUEST(warn, "connection refused: {} workers run", broker_.workers());
    return;
  }
  WorkerSpec spec = spec_;
  spec.name = absl::StrCat(spec_.name, "-", next_id_);
  WorkerFds fds;
  fds.channel = std::move(connection);
  const absl::StatusOr<pid_t> pid = broker_.Attach(next_id_, spec, std::move(fds));
  if (!pid.ok()) {
    SLUICE_LOG_GUEST(error, "worker for connection {}: {}", next_id_, std::string(pid.status().message()));
  } else {
    SLUICE_LOG(info, "connection {}: worker {}", next_id_, *pid);
  }
  next_id_++;
  if (options_.spare_worker) PrepareSpareSoon();
}

void Listener::PrepareSpareSoon() {
  spare_timer_.expires_after(kSpareDelay);
  spare_timer_.async_wait([this](const asio::error_code& error) {
    if (!error && !stopping_) broker_.PrepareSpare(spec_);
  });
}

}  // namespace sluice::broker
