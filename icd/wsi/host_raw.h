// File: host_raw.h
//
// Memory shared with a window system, a wake-up, and a thread: what this directory needs of the system, without Abseil,
// since it lives in other people's programs. Private to this directory.
//
//   SharedMemory memory;
//   if (!memory.Create(bytes)) return VK_ERROR_OUT_OF_HOST_MEMORY;
#ifndef SLUICE_ICD_WSI_HOST_RAW_H_
#define SLUICE_ICD_WSI_HOST_RAW_H_

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace sluice::wsi {

// A memory file that nobody can shrink or grow any more, so that neither side faults on it, and its mapping.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  // Of `bytes` > 0, zero. Call once. False: no memory or descriptor.
  bool Create(size_t bytes);
  uint8_t* data() const { return data_; }
  // Close-on-exec; -1 once it is taken or closed.
  int fd() const { return fd_; }
  int TakeFd();
  // The mapping stays.
  void CloseFd();

 private:
  int fd_ = -1;
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

// An eventfd: readable from Set() on. Thread-safe.
class WakeUp {
 public:
  WakeUp() = default;
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;
  ~WakeUp();

  bool Create();
  void Set() const;
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

// A thread that takes no signals: they are the program's.
class QuietThread {
 public:
  QuietThread() = default;
  QuietThread(const QuietThread&) = delete;
  QuietThread& operator=(const QuietThread&) = delete;

  // False: the system gives no more threads; `body` is not called then.
  bool Start(std::function<void()> body);
  bool joinable() const { return joinable_; }
  void Join();

 private:
  pthread_t handle_{};
  bool joinable_ = false;
};

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_HOST_RAW_H_
