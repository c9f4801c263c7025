#include "tests/vulkan/lib/test.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tests/vulkan/lib/gpu.h"

namespace sluice::vktest {
namespace {

constexpr size_t kBytesShown = 48;
std::mutex output_mutex;  // Expect and Fatal may be called on any thread

std::vector<Case>& MutableCases() {
  static std::vector<Case> cases;
  return cases;
}

void Say(const char* prefix, const char* format, va_list arguments) {
  fprintf(stderr, "%s", prefix);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  fflush(stderr);
}

// FNV-1a, 64 bits.
uint64_t Hash(const uint8_t* data, size_t size) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < size; i++) hash = (hash ^ data[i]) * 0x100000001b3;
  return hash;
}

}  // namespace

int Register(const Case& test_case) {
  MutableCases().push_back(test_case);
  return 0;
}

const std::vector<Case>& Cases() {
  return MutableCases();
}

void Fatal(const char* format, ...) {
  const std::lock_guard lock(output_mutex);
  va_list arguments;
  va_start(arguments, format);
  Say("fatal: ", format, arguments);
  va_end(arguments);
  // Not exit(): other threads may be inside the driver.
  _exit(1);
}

void CheckResult(VkResult result, const char* call) {
  if (result != VK_SUCCESS) Fatal("%s returned %d", call, static_cast<int>(result));
}

Test::Test(std::string name, bool validate) : name_(std::move(name)), validate_(validate) {}
Test::~Test() = default;

void Test::Text(const std::string& key, const std::string& text) {
  dump_ += key + " = " + text + "\n";
}

void Test::Value(const std::string& key, uint64_t value) {
  Text(key, std::to_string(value));
}

void Test::Signed(const std::string& key, int64_t value) {
  Text(key, std::to_string(value));
}

void Test::Float(const std::string& key, float value) {
  char text[64];
  snprintf(text, sizeof text, "%a", static_cast<double>(value));
  Text(key, text);
}

void Test::Bytes(const std::string& key, const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  char text[64];
  snprintf(text, sizeof text, "%zu bytes, hash %016llx:", size, static_cast<unsigned long long>(Hash(bytes, size)));
  std::string line = text;
  for (size_t i = 0; i < size && i < kBytesShown; i++) {
    snprintf(text, sizeof text, "%s%02x", i % 4 == 0 ? " " : "", bytes[i]);
    line += text;
  }
  Text(key, line);
}

bool Test::Expect(bool holds, const char* format, ...) {
  if (holds) return true;
  const std::lock_guard lock(output_mutex);
  // A broken loop need not fill the log.
  if (++failures_ <= 20) {
    va_list arguments;
    va_start(arguments, format);
    Say((name_ + ": ").c_str(), format, arguments);
    va_end(arguments);
  }
  return false;
}

void Test::Skip(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Say((name_ + ": skipped: ").c_str(), format, arguments);
  va_end(arguments);
  gpu_.reset();
  exit(kExitSkipped);
}

Gpu& Test::gpu() {
  return gpu(GpuOptions());
}

Gpu& Test::gpu(const GpuOptions& options) {
  if (gpu_ == nullptr) gpu_ = std::make_unique<Gpu>(*this, options);
  return *gpu_;
}

void Test::Finish() {
  gpu_.reset();
}

}  // namespace sluice::vktest
