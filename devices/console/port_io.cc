// Bytes between a port's descriptor and the driver.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/console/device.h"
#include "devices/console/port.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::console {
namespace {

constexpr size_t kChunkBytes = 4096;
// Of one port, before others on the loop get a turn.
constexpr int kInputsPerTurn = 32;
constexpr int kChunksPerTurn = 64;

// Never raises SIGPIPE: sockets are told not to, terminals do not.
ssize_t WriteSome(int fd, bool is_socket, absl::Span<const uint8_t> bytes) {
  if (!is_socket) return write(fd, bytes.data(), bytes.size());
  iovec piece{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

absl::Status ConsoleDevice::Attach(Port& port, UniqueFd fd) {
  struct stat facts {};
  if (fstat(fd.get(), &facts) != 0) return ErrnoToStatus(errno, "fstat");
  if (!S_ISSOCK(facts.st_mode) && !S_ISCHR(facts.st_mode)) {
    return absl::InvalidArgumentError("the descriptor is neither a socket nor a terminal");
  }
  const int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0 || fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) return ErrnoToStatus(errno, "fcntl");
  asio::error_code error;
  port.descriptor.assign(fd.get(), error);
  if (error) return absl::InvalidArgumentError(absl::StrCat("cannot wait for it: ", error.message()));
  fd.Release();  // now the descriptor's
  port.is_socket = S_ISSOCK(facts.st_mode);
  port.awaiting_readable = port.awaiting_writable = false;
  ++port.generation;
  return absl::OkStatus();
}

void ConsoleDevice::Input(uint32_t index) {
  Port& port = *ports_[index];
  virtio::Queue* const to = queue(ReceiveQueue(index));
  if (to == nullptr || !port.guest_open) return;
  bool more = false;
  for (int i = 0; i < kInputsPerTurn && port.descriptor.is_open(); ++i) {
    more = false;
    if (!port.input.has_value()) port.input = NextChain(ReceiveQueue(index));
    if (!port.input.has_value()) break;
    std::array<uint8_t, kChunkBytes> bytes;
    const size_t room = std::min<uint64_t>(bytes.size(), port.input->WritableSize());
    if (room > 0) {
      const ssize_t size = read(port.descriptor.native_handle(), bytes.data(), room);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == EAGAIN) {
        AwaitReadable(index);
        break;
      }
      if (size <= 0) {
        LoseHost(index);
        break;
      }
      port.input->Write(0, absl::MakeConstSpan(bytes).subspan(0, static_cast<size_t>(size))).IgnoreError();
      to->Complete(*std::exchange(port.input, std::nullopt), static_cast<uint64_t>(size)).IgnoreError();
    } else {
      to->Complete(*std::exchange(port.input, std::nullopt), 0).IgnoreError();
    }
    more = true;
  }
  Interrupt(ReceiveQueue(index));
  if (more) Later(&ConsoleDevice::Input, index);
}

void ConsoleDevice::Output(uint32_t index) {
  for (int i = 0; i < kChunksPerTurn; ++i) {
    // The order holds: what waits goes first. A descriptor that takes no more calls when it does; until then the buffer
    // fills.
    if (!FlushOutput(index)) AwaitWritable(index);
    if (!FillOutput(index)) {
      Interrupt(TransmitQueue(index));
      return;
    }
  }
  Interrupt(TransmitQueue(index));
  Later(&ConsoleDevice::Output, index);
}

// Writes what waits. True: nothing waits any more.
bool ConsoleDevice::FlushOutput(uint32_t index) {
  Port& port = *ports_[index];
  while (port.waiting() > 0 && port.descriptor.is_open()) {
    const ssize_t size =
        WriteSome(port.descriptor.native_handle(), port.is_socket, absl::MakeConstSpan(port.buffer).subspan(port.sent));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return false;
    if (size < 0) {
      LoseHost(index);
      break;
    }
    port.sent += static_cast<size_t>(size);
  }
  port.buffer.clear();
  port.sent = 0;
  return true;
}

// Takes a chunk from the driver. False: there is none, or no room for it.
bool ConsoleDevice::FillOutput(uint32_t index) {
  Port& port = *ports_[index];
  if (!port.output.has_value()) {
    port.output = NextChain(TransmitQueue(index));
    port.output_taken = 0;
    if (!port.output.has_value()) return false;
  }
  const uint64_t left = port.output->ReadableSize() - port.output_taken;
  const uint64_t room = port.buffer_bytes - std::min(port.waiting(), port.buffer_bytes);
  uint64_t take = left;
  if (!port.descriptor.is_open()) {
    discarded_bytes_ += left;
  } else if (room == 0 && left > 0) {
    if (!port.discard_when_full) return false;
    discarded_bytes_ += left;
  } else {
    take = std::min({left, room, uint64_t{kChunkBytes}});
    if (port.sent > 0) {
      port.buffer.erase(port.buffer.begin(), port.buffer.begin() + static_cast<std::ptrdiff_t>(port.sent));
      port.sent = 0;
    }
    const size_t at = port.buffer.size();
    port.buffer.resize(at + take);
    port.output->Read(port.output_taken, absl::MakeSpan(port.buffer).subspan(at)).IgnoreError();
  }
  port.output_taken += take;
  if (take == left) {
    queue(TransmitQueue(index))->Complete(*std::exchange(port.output, std::nullopt), 0).IgnoreError();
  }
  return true;
}

void ConsoleDevice::LoseHost(uint32_t index) {
  Port& port = *ports_[index];
  asio::error_code ignored;
  port.descriptor.close(ignored);
  ++port.generation;
  discarded_bytes_ += port.waiting();
  port.buffer.clear();
  port.sent = 0;
  if (multiport()) {
    port.tell_open = true;
    Later(&ConsoleDevice::SendControl, 0);
  }
  // Chains that waited for the descriptor are given back.
  Later(&ConsoleDevice::Output, index);
  if (options_.on_host_closed != nullptr) options_.on_host_closed(index);
}

void ConsoleDevice::AwaitReadable(uint32_t index) {
  Port& port = *ports_[index];
  if (port.awaiting_readable) return;
  port.awaiting_readable = true;
  port.descriptor.async_wait(
      asio::posix::stream_descriptor::wait_read,
      [self = std::weak_ptr<ConsoleDevice*>(self_), index, generation = port.generation](asio::error_code error) {
        const std::shared_ptr<ConsoleDevice*> device = self.lock();
        if (device == nullptr || (*device)->ports_[index]->generation != generation) return;
        (*device)->ports_[index]->awaiting_readable = false;
        if (!error) (*device)->Input(index);
      });
}

void ConsoleDevice::AwaitWritable(uint32_t index) {
  Port& port = *ports_[index];
  if (port.awaiting_writable) return;
  port.awaiting_writable = true;
  port.descriptor.async_wait(
      asio::posix::stream_descriptor::wait_write,
      [self = std::weak_ptr<ConsoleDevice*>(self_), index, generation = port.generation](asio::error_code error) {
        const std::shared_ptr<ConsoleDevice*> device = self.lock();
        if (device == nullptr || (*device)->ports_[index]->generation != generation) return;
        (*device)->ports_[index]->awaiting_writable = false;
        if (!error) (*device)->Output(index);
      });
}

}  // namespace sluice::console
