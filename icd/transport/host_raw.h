// File: host_raw.h
//
// The system calls of the transport: a Unix socket that keeps message boundaries, descriptors beside the messages, and
// the memory that they name. Plain error numbers, no exceptions, no allocation.
//
//   Fd socket;
//   if (const int error = ConnectUnix(path, &socket); error != 0) ...
#ifndef SLUICE_ICD_TRANSPORT_HOST_RAW_H_
#define SLUICE_ICD_TRANSPORT_HOST_RAW_H_

#include <cstddef>
#include <cstdint>
#include <utility>

namespace sluice::icd {

// An owned descriptor, close-on-exec. -1: none.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    Reset();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  ~Fd() { Reset(); }
  void Reset();
  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// Longest message of the service channel, bytes (vmm/base/seqpacket.h has the same number).
inline constexpr size_t kMaxMessage = 96 * 1024;
// No message carries more than one descriptor; those beyond are closed.
inline constexpr size_t kMaxFds = 2;

// 0 or an errno value.
int ConnectUnix(const char* path, Fd* socket);
int SendMessage(int socket, const void* bytes, size_t size);

// One received message.
struct Message {
  size_t size = 0;
  Fd fds[kMaxFds];
  size_t fd_count = 0;
};
// Takes one message without waiting. 0; EAGAIN: none is there; ECONNRESET: the peer is gone; EMSGSIZE: it was longer
// than `capacity` or carried too many descriptors.
int ReceiveMessage(int socket, void* bytes, size_t capacity, Message* message);
// Sleeps until a message or the end of the connection is there, at most `timeout_ns`. May return early.
void WaitReadable(int socket, uint64_t timeout_ns);

// Maps `size` bytes of a memory file that its maker cannot shrink any more (F_SEAL_SHRINK), read and write. Null: the
// descriptor is something else, smaller, or may shrink, which would end this process in a bus error later.
void* MapSealed(int fd, uint64_t size);
void Unmap(void* pointer, uint64_t size);
// A write to an eventfd.
void SignalEvent(int fd);
// True if the descriptor is an eventfd, fit for SignalEvent: writing to anything else might block or do harm. Makes it
// nonblocking.
bool IsEventFd(int fd);

uint64_t MonotonicNs();

}  // namespace sluice::icd

#endif  // SLUICE_ICD_TRANSPORT_HOST_RAW_H_
