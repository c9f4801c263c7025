#include "vmm/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <time.h>

#include <memory>
#include <string>

namespace sluice {

void InitLogging(absl::string_view process_name, LogLevel level) {
  auto logger =
      std::make_shared<spdlog::logger>(std::string(process_name), std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%H:%M:%S.%e %L [%n] %v");
  switch (level) {
    case LogLevel::kDebug:
      logger->set_level(spdlog::level::debug);
      break;
    case LogLevel::kInfo:
      logger->set_level(spdlog::level::info);
      break;
    case LogLevel::kWarn:
      logger->set_level(spdlog::level::warn);
      break;
    case LogLevel::kError:
      logger->set_level(spdlog::level::err);
      break;
  }
  spdlog::set_default_logger(std::move(logger));
}

bool LogRateLimiter::Allow(uint64_t* suppressed) {
  constexpr int64_t kWindowNs = 1'000'000'000;
  constexpr uint32_t kPerWindow = 10;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_ns = now.tv_sec * kWindowNs + now.tv_nsec;
  int64_t start = window_start_ns_.load(std::memory_order_relaxed);
  if (start == 0 || now_ns - start >= kWindowNs) {
    if (window_start_ns_.compare_exchange_strong(start, now_ns, std::memory_order_relaxed)) {
      in_window_.store(0, std::memory_order_relaxed);
    }
  }
  if (in_window_.fetch_add(1, std::memory_order_relaxed) >= kPerWindow) {
    suppressed_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  *suppressed = suppressed_.exchange(0, std::memory_order_relaxed);
  return true;
}

std::string Printable(absl::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return result;
}

}  // namespace sluice
