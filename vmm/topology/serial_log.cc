#include "vmm/topology/serial_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "vmm/base/status_macros.h"

namespace sluice::topology {
namespace {

void WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a full disk costs the log, not the run
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<SerialLog>> SerialLog::Create(asio::io_context& loop, const std::string& path,
                                                             std::function<void(absl::string_view)> also) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoToStatus(errno, "pipe2");
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  // Only this end: a guest that writes faster than the log is read waits.
  if (fcntl(read_end.get(), F_SETFL, O_NONBLOCK) != 0) return ErrnoToStatus(errno, "O_NONBLOCK");
  UniqueFd file;
  if (!path.empty()) {
    file.Reset(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.valid()) return ErrnoToStatus(errno, path);
  }
  std::unique_ptr<SerialLog> log(
      new SerialLog(loop, std::move(read_end), std::move(write_end), std::move(file), std::move(also)));
  log->watch_.Start([raw = log.get()] { return raw->ReadSome(); });
  return log;
}

SerialLog::SerialLog(asio::io_context& loop, UniqueFd read_end, UniqueFd write_end, UniqueFd file,
                     std::function<void(absl::string_view)> also)
    : watch_(loop, std::move(read_end)),
      write_end_(std::move(write_end)),
      file_(std::move(file)),
      also_(std::move(also)) {}

void SerialLog::Finish() {
  // Bounded: a pipe holds 64 KiB. Whoever else holds the write end writes for nobody.
  for (int i = 0; i < 64 && watch_.open() && ReadSome(); ++i) {
  }
  watch_.Close();
  file_.Reset();
}

bool SerialLog::ReadSome() {
  std::array<char, 16384> buffer;
  const ssize_t n = read(watch_.fd(), buffer.data(), buffer.size());
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  Keep(absl::string_view(buffer.data(), static_cast<size_t>(n)));
  return true;
}

void SerialLog::Keep(absl::string_view bytes) {
  if (also_) also_(bytes);
  if (!file_.valid() || kept_ >= kMaxLogBytes) return;
  const absl::string_view part = bytes.substr(0, kMaxLogBytes - kept_);
  WriteAll(file_.get(), part);
  kept_ += part.size();
  if (kept_ >= kMaxLogBytes) WriteAll(file_.get(), "\n[the log ends here: the guest wrote more than 4 MiB]\n");
}

}  // namespace sluice::topology
