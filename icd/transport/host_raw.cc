#include "icd/transport/host_raw.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace sluice::icd {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;
// Room for more descriptors than a message may carry, so that too many are noticed and closed.
constexpr size_t kFdRoom = 8;

}  // namespace

void Fd::Reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

int ConnectUnix(const char* path, Fd* out) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = strlen(path);
  if (length == 0) return ENOENT;
  if (length >= sizeof(address.sun_path)) return ENAMETOOLONG;
  memcpy(address.sun_path, path, length);
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno;
  // SAFETY: the socket interface takes every address family through sockaddr; sun_family says which it is, and the
  // length is passed beside it.
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  while (connect(fd.get(), generic, sizeof(address)) != 0) {
    if (errno != EINTR) return errno;
  }
  *out = std::move(fd);
  return 0;
}

int SendMessage(int socket, const void* bytes, size_t size) {
  if (size > kMaxMessage) return EMSGSIZE;
  for (;;) {
    const ssize_t n = send(socket, bytes, size, MSG_NOSIGNAL);
    if (n >= 0) return static_cast<size_t>(n) == size ? 0 : EIO;
    if (errno != EINTR) return errno;
  }
}

int ReceiveMessage(int socket, void* bytes, size_t capacity, Message* message) {
  iovec part{bytes, capacity};
  alignas(cmsghdr) char control[CMSG_SPACE(kFdRoom * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t n;
  do {
    n = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return errno == EWOULDBLOCK ? EAGAIN : errno;
  size_t fds = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int raw;
      memcpy(&raw, CMSG_DATA(c) + i * sizeof(int), sizeof(raw));
      Fd fd(raw);
      if (fds < kMaxFds) message->fds[fds] = std::move(fd);
      fds++;
    }
  }
  if (n == 0 && fds == 0) return ECONNRESET;
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || fds > kMaxFds) return EMSGSIZE;
  message->size = static_cast<size_t>(n);
  message->fd_count = fds;
  return 0;
}

void WaitReadable(int socket, uint64_t timeout_ns) {
  pollfd item{socket, POLLIN, 0};
  timeout_ns = std::min(timeout_ns, 1'000'000 * kNsPerSecond);
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(timeout_ns / kNsPerSecond);
  timeout.tv_nsec = static_cast<int64_t>(timeout_ns % kNsPerSecond);
  ppoll(&item, 1, &timeout, nullptr);
}

void* MapSealed(int fd, uint64_t size) {
  struct stat info {};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return nullptr;
  if (fstat(fd, &info) != 0 || info.st_size < 0 || static_cast<uint64_t>(info.st_size) < size || size == 0) {
    return nullptr;
  }
  // SAFETY: the file has at least `size` bytes and is sealed against shrinking, so every page stays backed. What the
  // other side writes there is only read as bytes or through atomics, and checked.
  void* pointer = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return pointer == MAP_FAILED ? nullptr : pointer;
}

void Unmap(void* pointer, uint64_t size) {
  if (pointer != nullptr) munmap(pointer, size);
}

void SignalEvent(int fd) {
  const uint64_t one = 1;
  ssize_t n;
  do {
    n = write(fd, &one, sizeof(one));
  } while (n < 0 && errno == EINTR);  // EAGAIN: the counter is full, so the reader is awake
}

bool IsEventFd(int fd) {
  // A full counter must not stop the writer.
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return false;
  char link[64], target[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, target, sizeof(target) - 1);
  if (n < 0) {
    // No /proc here: at least it must be no file, socket or pipe. An anonymous inode has no type.
    struct stat info {};
    return fstat(fd, &info) == 0 && (info.st_mode & S_IFMT) == 0;
  }
  target[n] = 0;
  return strcmp(target, "anon_inode:[eventfd]") == 0;
}

uint64_t MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace sluice::icd
