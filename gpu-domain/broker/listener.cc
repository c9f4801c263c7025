#include "gpu-domain/broker/listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gpu-domain/broker/unix_socket_raw.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::broker {

absl::StatusOr<std::unique_ptr<Listener>> Listener::Create(asio::io_context& loop, const std::string& path,
                                                           DomainSpec domain, WorkerSpec spec, size_t max_workers) {
  SLUICE_ASSIGN_OR_RETURN(UniqueFd socket, ListenUnix(path));
  return std::unique_ptr<Listener>(
      new Listener(loop, path, std::move(socket), std::move(domain), std::move(spec), max_workers));
}

Listener::Listener(asio::io_context& loop, std::string path, UniqueFd socket, DomainSpec domain, WorkerSpec spec,
                   size_t max_workers)
    : loop_(loop),
      path_(std::move(path)),
      socket_(loop, socket.Release()),
      spec_(std::move(spec)),
      max_workers_(max_workers),
      broker_(loop, std::move(domain), [](uint32_t id, const jail::ExitStatus& status) {
        SLUICE_LOG(info, "connection {} ended: {}", id, status.ToString());
      }) {
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
  if (broker_.workers() >= max_workers_) {
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
}

}  // namespace sluice::broker
