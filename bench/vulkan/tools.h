// File: tools.h
//
// Time, statistics and the report of vkbench. Results are one JSON object a line:
//   {"case":"e2e/10k/bind", "value":123.4, "unit":"ns/draw", "min":..., "max":..., "n":5}
// where value is the median over the repetitions; {"case":..., "check":"<hex>"} carries a content hash that must be
// equal on every driver which renders with the same code, {"case":..., "error":...} a failed check.
#ifndef SLUICE_BENCH_VULKAN_TOOLS_H_
#define SLUICE_BENCH_VULKAN_TOOLS_H_

#include <sys/resource.h>
#include <vulkan/vulkan.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vkbench {

using Clock = std::chrono::steady_clock;

inline double nowNs() {
  return std::chrono::duration<double, std::nano>(Clock::now().time_since_epoch()).count();
}

inline double cpuNs() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  auto ns = [](const timeval& t) { return t.tv_sec * 1e9 + t.tv_usec * 1e3; };
  return ns(u.ru_utime) + ns(u.ru_stime);
}

[[noreturn]] inline __attribute__((format(printf, 1, 2))) void fail(const char* fmt, ...) {
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  throw std::runtime_error(text);
}

inline void checkVk(VkResult r, const char* what) {
  if (r != VK_SUCCESS) fail("%s returned %d", what, int(r));
}
#define VK(call) checkVk((call), #call)

inline double percentile(std::vector<double> v, double p) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  size_t i = std::min(v.size() - 1, size_t(p * double(v.size())));
  return v[i];
}

inline double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  size_t n = v.size();
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

// Collects samples by name; the order of first mention is the order of output.
class Report {
 public:
  void add(const std::string& name, double value, const char* unit) {
    for (auto& m : metrics_)
      if (m.name == name) {
        m.samples.push_back(value);
        return;
      }
    metrics_.push_back({name, unit, {value}});
  }
  // A content hash: has to be the same in every repetition.
  void check(const std::string& name, uint64_t hash) {
    for (auto& c : checks_)
      if (c.first == name) {
        if (c.second != hash) fail("%s: content hash differs between repetitions", name.c_str());
        return;
      }
    checks_.push_back({name, hash});
  }
  void error(const std::string& name, const std::string& text) {
    std::string esc;
    for (char c : text) {
      if (c == '"' || c == '\\') esc += '\\';
      esc += c == '\n' ? ' ' : c;
    }
    printf("{\"case\":\"%s\", \"error\":\"%s\"}\n", name.c_str(), esc.c_str());
    fflush(stdout);
    failed_ = true;
  }
  void flush() {
    for (auto& m : metrics_)
      printf("{\"case\":\"%s\", \"value\":%.6g, \"unit\":\"%s\", \"min\":%.6g, \"max\":%.6g, \"n\":%zu}\n",
             m.name.c_str(), median(m.samples), m.unit.c_str(), *std::min_element(m.samples.begin(), m.samples.end()),
             *std::max_element(m.samples.begin(), m.samples.end()), m.samples.size());
    for (auto& c : checks_)
      printf("{\"case\":\"%s\", \"check\":\"%016llx\"}\n", c.first.c_str(), (unsigned long long)c.second);
    metrics_.clear();
    checks_.clear();
    fflush(stdout);
  }
  bool failed() const { return failed_; }

 private:
  struct Metric {
    std::string name, unit;
    std::vector<double> samples;
  };
  std::vector<Metric> metrics_;
  std::vector<std::pair<std::string, uint64_t>> checks_;
  bool failed_ = false;
};

template <class F>
void timeEach(Report& r, const std::string& name, int n, F&& f, const char* unit = "us") {
  f();
  double t = nowNs();
  for (int i = 0; i < n; i++) f();
  double per = (nowNs() - t) / n;
  r.add(name, unit[0] == 'n' ? per : per / 1e3, unit);
}

inline void addPercentiles(Report& r, const std::string& name, const std::vector<double>& us) {
  r.add(name + "/p50", percentile(us, 0.50), "us");
  r.add(name + "/p99", percentile(us, 0.99), "us");
}

}  // namespace vkbench

#endif  // SLUICE_BENCH_VULKAN_TOOLS_H_
