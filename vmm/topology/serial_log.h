// File: serial_log.h
//
// What a guest writes to its serial port, from a pipe into a file. The guest may write for ever: the file ends at
// kMaxLogBytes with a line that says so, and the pipe is emptied on. Internal to this library; loop thread only.
#ifndef SLUICE_VMM_TOPOLOGY_SERIAL_LOG_H_
#define SLUICE_VMM_TOPOLOGY_SERIAL_LOG_H_

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "vmm/base/unique_fd.h"
#include "vmm/topology/control_socket.h"

namespace sluice::topology {

inline constexpr uint64_t kMaxLogBytes = 4 << 20;

class SerialLog {
 public:
  // `file` invalid: none. `also` may be empty.
  static absl::StatusOr<std::unique_ptr<SerialLog>> Create(asio::io_context& loop, UniqueFd file,
                                                           std::function<void(absl::string_view)> also);
  // The end to write to, for the child; the caller closes it after the child has started.
  UniqueFd TakeWriteEnd() { return std::move(write_end_); }
  // Reads what is left and closes the file. For a writer that has ended.
  void Finish();
  // Why the file is not complete, if it is not: a full disk costs the log, not the run.
  const absl::Status& error() const { return error_; }

 private:
  SerialLog(asio::io_context& loop, UniqueFd read_end, UniqueFd write_end, UniqueFd file,
            std::function<void(absl::string_view)> also);
  // False at the end of the pipe.
  bool ReadSome();
  void Keep(absl::string_view bytes);

  ReadableWatch watch_;
  UniqueFd write_end_;
  UniqueFd file_;
  std::function<void(absl::string_view)> also_;
  uint64_t kept_ = 0;
  absl::Status error_;
};

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_SERIAL_LOG_H_
