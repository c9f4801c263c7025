// File: harness.h
//
// What tests and benchmarks of machines share: whether there is a KVM, and a guest run from start to end under a
// deadline.
#ifndef SLUICE_VMM_MACHINE_TESTING_HARNESS_H_
#define SLUICE_VMM_MACHINE_TESTING_HARNESS_H_

#include <dirent.h>
#include <fcntl.h>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "vmm/base/mutex.h"
#include "vmm/kvm/system.h"
#include "vmm/machine/machine.h"
#include "vmm/machine/testing/tiny_guest.h"

namespace sluice::machine::testing {

inline constexpr std::chrono::seconds kPatience(60);

// An open /dev/kvm, or invalid if this host has none that can be used.
inline UniqueFd OpenKvm() {
  if (!kvm::System::Open().ok()) return UniqueFd();
  return UniqueFd(open("/dev/kvm", O_RDWR | O_CLOEXEC));
}

// Open descriptors of this process.
inline int CountOpenFds() {
  DIR* dir = opendir("/proc/self/fd");
  if (dir == nullptr) return -1;
  int count = -1;  // the directory itself
  while (const dirent* entry = readdir(dir)) count += entry->d_name[0] != '.';
  closedir(dir);
  return count;
}

struct RunResult {
  absl::Status status;  // of Create and Start
  MachineEnd end;
  bool timed_out = false;
  std::string serial;
  std::vector<uint64_t> marks;  // calls of OnFirstMark
};

inline MachineOptions TinyOptions(const TinyCode& code) {
  MachineOptions options;
  options.kvm = OpenKvm();
  options.firmware = TinyElf(code.bytes());
  options.mem_mib = 8;
  return options;
}

// A machine on a loop of its own.
class Runner {
 public:
  explicit Runner(MachineOptions options) : loop_(1), timer_(loop_) {
    if (!options.serial) {
      options.serial = [this](absl::string_view text) {
        const MutexLock lock(&mu_);
        serial_.append(text.data(), text.size());
      };
    }
    auto machine = Machine::Create(loop_, std::move(options));
    result_.status = machine.status();
    if (machine.ok()) machine_ = *std::move(machine);
  }

  Machine* machine() { return machine_.get(); }
  asio::io_context& loop() { return loop_; }
  std::string serial() {
    const MutexLock lock(&mu_);
    return serial_;
  }

  // Stops the guest `delay` after its first mark (which tells that it runs).
  void StopAfterMark(std::chrono::milliseconds delay) { stop_after_mark_ = delay; }

  RunResult Run() {
    if (machine_ == nullptr) return result_;
    machine_->OnFirstMark([this](uint64_t ns) {
      result_.marks.push_back(ns);
      if (!stop_after_mark_.has_value()) return;
      stop_timer_.emplace(loop_, *stop_after_mark_);
      stop_timer_->async_wait([this](const asio::error_code& error) {
        if (!error) machine_->Stop();
      });
    });
    result_.status = machine_->Start([this](const MachineEnd& end) {
      result_.end = end;
      loop_.stop();
    });
    if (!result_.status.ok()) return result_;
    timer_.expires_after(kPatience);
    timer_.async_wait([this](const asio::error_code& error) {
      if (error) return;
      result_.timed_out = true;
      machine_->Stop();
    });
    loop_.run();
    timer_.cancel();
    result_.serial = serial();
    return result_;
  }

 private:
  asio::io_context loop_;
  asio::steady_timer timer_;
  std::optional<asio::steady_timer> stop_timer_;
  std::optional<std::chrono::milliseconds> stop_after_mark_;
  Mutex mu_;
  std::string serial_ ABSL_GUARDED_BY(mu_);
  RunResult result_;
  std::unique_ptr<Machine> machine_;  // last: its threads call into the members above
};

inline RunResult RunGuest(MachineOptions options) {
  return Runner(std::move(options)).Run();
}

}  // namespace sluice::machine::testing

#endif  // SLUICE_VMM_MACHINE_TESTING_HARNESS_H_
