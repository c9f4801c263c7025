// File: port.h
//
// What the device remembers of a port. Private to the library; loop thread.
#ifndef SLUICE_DEVICES_CONSOLE_PORT_H_
#define SLUICE_DEVICES_CONSOLE_PORT_H_

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "devices/console/device.h"

namespace sluice::console {

struct ConsoleDevice::Port {
  explicit Port(asio::io_context& loop) : descriptor(loop) {}

  std::string name;
  bool console = false;
  size_t buffer_bytes = 0;
  bool discard_when_full = false;

  asio::posix::stream_descriptor descriptor;  // closed: nobody on the host
  uint64_t generation = 0;                    // of the descriptor: late callbacks of an older one are ignored
  bool is_socket = false;
  bool awaiting_readable = false;
  bool awaiting_writable = false;

  bool guest_open = false;

  // Messages that the driver is to get, in this order.
  bool tell_add = false;
  bool tell_console = false;
  bool tell_name = false;
  bool tell_resize = false;
  bool tell_open = false;

  std::optional<virtio::DescriptorChain> input;  // the driver's buffer for what comes next

  std::vector<uint8_t> buffer;  // output; [sent, size) waits for the descriptor
  size_t sent = 0;
  std::optional<virtio::DescriptorChain> output;  // the driver's chain that does not fit the buffer
  uint64_t output_taken = 0;                      // bytes of it that are in the buffer or beyond

  size_t waiting() const { return buffer.size() - sent; }
};

}  // namespace sluice::console

#endif  // SLUICE_DEVICES_CONSOLE_PORT_H_
