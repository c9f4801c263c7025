#include "icd/wsi/host_raw.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <utility>

namespace sluice::wsi {
namespace {

void* ThreadMain(void* argument) {
  const std::unique_ptr<std::function<void()>> body(static_cast<std::function<void()>*>(argument));
  (*body)();
  return nullptr;
}

}  // namespace

bool SharedMemory::Create(size_t bytes) {
  constexpr size_t kPage = 4096;
  if (bytes == 0 || bytes > SIZE_MAX / 2) return false;
  bytes = (bytes + kPage - 1) / kPage * kPage;
  fd_ = memfd_create("sluice-wsi", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return false;
  }
  // SAFETY: address chosen by the kernel, nothing existing is replaced; the file keeps its size (seals). The window
  // system may write at any time: the bytes are only ever written here, never read.
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (mapped == MAP_FAILED) return false;
  data_ = static_cast<uint8_t*>(mapped);
  bytes_ = bytes;
  return true;
}

SharedMemory::~SharedMemory() {
  CloseFd();
  if (data_ != nullptr) munmap(data_, bytes_);
}

int SharedMemory::TakeFd() {
  return std::exchange(fd_, -1);
}

void SharedMemory::CloseFd() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

bool WakeUp::Create() {
  fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return fd_ >= 0;
}

WakeUp::~WakeUp() {
  if (fd_ >= 0) close(fd_);
}

void WakeUp::Set() const {
  eventfd_write(fd_, 1);
}

bool QuietThread::Start(std::function<void()> body) {
  auto argument = std::make_unique<std::function<void()>>(std::move(body));
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  joinable_ = pthread_create(&handle_, nullptr, ThreadMain, argument.get()) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (joinable_) (void)argument.release();  // the thread's now
  return joinable_;
}

void QuietThread::Join() {
  pthread_join(handle_, nullptr);
  joinable_ = false;
}

}  // namespace sluice::wsi
