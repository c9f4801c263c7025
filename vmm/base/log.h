// File: log.h
//
// Logging: spdlog to standard error, one line per event, `process-name` in each line. Paths that a guest or a domain
// can trigger use SLUICE_LOG_GUEST, which is rate-limited per call site (10 a second; the number of dropped lines is
// reported).
//
//   InitLogging("vm web-0", LogLevel::kInfo);
//   SLUICE_LOG(info, "memslot {} mapped at {:#x}", slot, gpa);
//   SLUICE_LOG_GUEST(warn, "unknown control command {:#x}", type);
#ifndef SLUICE_VMM_BASE_LOG_H_
#define SLUICE_VMM_BASE_LOG_H_

#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

// Call once per process before any thread logs. `process_name` is printed in each line.
void InitLogging(absl::string_view process_name, LogLevel level);

// Text that somebody else chose (a guest, a domain), fit for a log line: whatever is no printable ASCII becomes '?'.
std::string Printable(absl::string_view text);

// Token bucket for one call site. Thread-safe, wait-free.
class LogRateLimiter {
 public:
  // True if the line may be printed. `*suppressed` is then how many were dropped since the last one that was.
  bool Allow(uint64_t* suppressed);

 private:
  std::atomic<int64_t> window_start_ns_{0};
  std::atomic<uint32_t> in_window_{0};
  std::atomic<uint64_t> suppressed_{0};
};

}  // namespace sluice

#define SLUICE_LOG(level, ...) ::spdlog::level(__VA_ARGS__)

#define SLUICE_LOG_GUEST(level, ...)                                                                    \
  do {                                                                                                  \
    static ::sluice::LogRateLimiter sluice_limiter_;                                                    \
    uint64_t sluice_suppressed_ = 0;                                                                    \
    if (sluice_limiter_.Allow(&sluice_suppressed_)) {                                                   \
      ::spdlog::level(__VA_ARGS__);                                                                     \
      if (sluice_suppressed_ > 0) ::spdlog::level("({} similar lines suppressed)", sluice_suppressed_); \
    }                                                                                                   \
  } while (false)

#endif  // SLUICE_VMM_BASE_LOG_H_
