#include "vmm/topology/serial_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "vmm/base/status_macros.h"
#include "vmm/topology/output_file.h"

namespace sluice::topology {
absl::StatusOr<std::unique_ptr<SerialLog>> SerialLog::Create(asio::io_context& loop, UniqueFd file,
                                                             std::function<void(absl::string_view)> also) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoToStatus(errno, "pipe2");
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  // Only this end: a guest that writes faster than the log is read waits.
  if (fcntl(read_end.get(), F_SETFL, O_NONBLOCK) != 0) return ErrnoToStatus(errno, "O_NONBLOCK");
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
  if (!file_.valid() || kept_ >= kMaxLogBytes || !error_.ok()) return;
  const absl::string_view part = bytes.substr(0, kMaxLogBytes - kept_);
  error_ = WriteAll(file_.get(), part, "serial log");
  kept_ += part.size();
  if (error_.ok() && kept_ >= kMaxLogBytes)
    error_ = WriteAll(file_.get(), "\n[the log ends here: the guest wrote more than 4 MiB]\n", "serial log");
}

}  // namespace sluice::topology
