// File: thread.h
//
// Threads whose start may fail: at a limit of processes or memory (pthread_create(3): EAGAIN) std::thread throws, and
// this code base does not.
//
//   SLUICE_ASSIGN_OR_RETURN(thread_, StartThread([this] { Run(); }));
//   ...
//   if (thread_.joinable()) thread_.Join();
#ifndef SLUICE_VMM_BASE_THREAD_H_
#define SLUICE_VMM_BASE_THREAD_H_

#include <pthread.h>

#include <functional>

#include "absl/status/statusor.h"

namespace sluice {

// A running thread, or none. As std::thread: destroying or overwriting one that is joinable ends the process.
class Thread {
 public:
  Thread() = default;
  Thread(Thread&& other) noexcept;
  Thread& operator=(Thread&& other) noexcept;
  ~Thread();

  bool joinable() const { return joinable_; }
  // Waits for its end. Precondition: joinable(), and not from the thread itself.
  void Join();

 private:
  friend absl::StatusOr<Thread> StartThread(std::function<void()> body);

  pthread_t handle_{};
  bool joinable_ = false;
};

// Runs `body` on a new thread. Errors: RESOURCE_EXHAUSTED or UNAVAILABLE when the host gives no more threads; `body`
// was not called then.
absl::StatusOr<Thread> StartThread(std::function<void()> body);

}  // namespace sluice

#endif  // SLUICE_VMM_BASE_THREAD_H_
