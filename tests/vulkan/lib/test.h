// File: test.h
//
// A case of the Vulkan conformance suite: a small Vulkan program that writes what it saw into a canonical text (the
// dump) and asserts what must be right on any driver. The harness (tests/vulkan/compare.py) runs the same case on the
// driver itself and through Sluice and compares the two dumps line by line.
//
//   VK_CASE(copy, buffer_regions) {
//     Gpu& gpu = t.gpu();
//     ...
//     t.Bytes("result", buffer.data, buffer.size);            // into the dump
//     t.Expect(first == 7, "the first word is %u, not 7", first);  // right on any driver
//   }
//
// One process runs one or more cases, each with a device of its own. Nothing that may differ between two right runs
// (times, addresses, handles) belongs into the dump.
#ifndef SLUICE_TESTS_VULKAN_LIB_TEST_H_
#define SLUICE_TESTS_VULKAN_LIB_TEST_H_

#include <vulkan/vulkan_core.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice::vktest {

class Gpu;
struct GpuOptions;

// One running case. Main thread, unless a member says otherwise.
class Test {
 public:
  Test(std::string name, bool validate);
  ~Test();
  Test(const Test&) = delete;
  Test& operator=(const Test&) = delete;

  // A line "key = text" of the dump. Keys are unique within a case.
  void Text(const std::string& key, const std::string& text);
  void Value(const std::string& key, uint64_t value);
  void Signed(const std::string& key, int64_t value);
  // All bits of the float.
  void Float(const std::string& key, float value);
  void Result(const std::string& key, VkResult result) { Signed(key, result); }
  // Length, hash and the first bytes.
  void Bytes(const std::string& key, const void* data, size_t size);
  void Bytes(const std::string& key, const std::vector<uint8_t>& data) { Bytes(key, data.data(), data.size()); }

  // Counts a failure of the case and goes on; any thread. Returns `holds`.
  bool Expect(bool holds, const char* format, ...) __attribute__((format(printf, 3, 4)));
  // The driver lacks what the case is about: the case ends as skipped, and the harness asks whether the other side has
  // it.
  [[noreturn]] void Skip(const char* format, ...) __attribute__((format(printf, 2, 3)));

  // The device most cases use: everything the driver offers of Vulkan 1.3, no extensions. Made at the first call.
  Gpu& gpu();
  // The same with extensions, or other wishes; the first call decides.
  Gpu& gpu(const GpuOptions& options);

  // Destroys the device; with the validation layer, what it found counts as failures.
  void Finish();

  const std::string& name() const { return name_; }
  // True: instances shall enable the Khronos validation layer.
  bool validate() const { return validate_; }
  bool failed() const { return failures_ != 0; }
  const std::string& dump() const { return dump_; }

 private:
  const std::string name_;
  const bool validate_;
  std::string dump_;
  int failures_ = 0;
  std::unique_ptr<Gpu> gpu_;
};

// The program cannot go on: says why and ends the process with status 1; any thread.
[[noreturn]] void Fatal(const char* format, ...) __attribute__((format(printf, 1, 2)));
void CheckResult(VkResult result, const char* call);
#define VK(call) ::sluice::vktest::CheckResult((call), #call)

// Exit status of the process when all cases that ran were skipped (ctest's SKIP_RETURN_CODE).
inline constexpr int kExitSkipped = 77;

struct Case {
  const char* group;
  const char* name;
  void (*run)(Test&);
};
// Returns a value, so that a namespace-scope variable can call it.
int Register(const Case& test_case);
const std::vector<Case>& Cases();

// The build reads these lines: "VK_CASE(", group and name must stand on one line.
#define VK_CASE(group, name)                                               \
  static void Case_##group##_##name(::sluice::vktest::Test& t);            \
  [[maybe_unused]] static const int kRegistered_##group##_##name =         \
      ::sluice::vktest::Register({#group, #name, &Case_##group##_##name}); \
  static void Case_##group##_##name([[maybe_unused]] ::sluice::vktest::Test& t)

}  // namespace sluice::vktest

#endif  // SLUICE_TESTS_VULKAN_LIB_TEST_H_
