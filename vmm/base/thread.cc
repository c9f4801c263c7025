#include "vmm/base/thread.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include "vmm/base/status_macros.h"

namespace sluice {
namespace {

void* ThreadMain(void* argument) {
  const std::unique_ptr<std::function<void()>> body(static_cast<std::function<void()>*>(argument));
  (*body)();
  return nullptr;
}

}  // namespace

Thread::Thread(Thread&& other) noexcept : handle_(other.handle_), joinable_(std::exchange(other.joinable_, false)) {}

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this == &other) return *this;
  if (joinable_) std::abort();
  handle_ = other.handle_;
  joinable_ = std::exchange(other.joinable_, false);
  return *this;
}

Thread::~Thread() {
  if (joinable_) std::abort();
}

void Thread::Join() {
  pthread_join(handle_, nullptr);
  joinable_ = false;
}

absl::StatusOr<Thread> StartThread(std::function<void()> body) {
  auto argument = std::make_unique<std::function<void()>>(std::move(body));
  Thread thread;
  if (const int error = pthread_create(&thread.handle_, nullptr, ThreadMain, argument.get()); error != 0) {
    return ErrnoToStatus(error, "pthread_create");
  }
  (void)argument.release();  // the thread's now
  thread.joinable_ = true;
  return thread;
}

}  // namespace sluice
