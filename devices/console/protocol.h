// File: protocol.h
//
// The wire of virtio-console (virtio 1.2 section 5.3), nothing else. All fields are little-endian.
#ifndef SLUICE_DEVICES_CONSOLE_PROTOCOL_H_
#define SLUICE_DEVICES_CONSOLE_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

namespace sluice::console {

inline constexpr uint16_t kVirtioDeviceIdConsole = 3;

// Section 5.3.2: port 0 has queues 0 and 1, control 2 and 3, port n > 0 has 2n + 2 and 2n + 3. "Receive" is the
// guest's.
inline constexpr uint16_t kControlReceiveQueue = 2;
inline constexpr uint16_t kControlTransmitQueue = 3;
constexpr uint16_t ReceiveQueue(uint32_t port) {
  return static_cast<uint16_t>(port == 0 ? 0 : 2 * port + 2);
}
constexpr uint16_t TransmitQueue(uint32_t port) {
  return static_cast<uint16_t>(ReceiveQueue(port) + 1);
}

// Section 5.3.3, feature bits.
inline constexpr uint64_t kFeatureSize = uint64_t{1} << 0;
inline constexpr uint64_t kFeatureMultiport = uint64_t{1} << 1;

// Section 5.3.4, struct virtio_console_config: offsets.
inline constexpr size_t kConfigCols = 0;   // u16
inline constexpr size_t kConfigRows = 2;   // u16
inline constexpr size_t kConfigPorts = 4;  // u32
inline constexpr size_t kConfigBytes = 12;

// Section 5.3.6.2, struct virtio_console_control; a name follows PORT_NAME, a size RESIZE.
struct ControlMessage {
  uint32_t id = 0;  // port
  uint16_t event = 0;
  uint16_t value = 0;
};
static_assert(sizeof(ControlMessage) == 8);
inline constexpr uint16_t kDeviceReady = 0;  // from the driver
inline constexpr uint16_t kPortAdd = 1;
inline constexpr uint16_t kPortRemove = 2;
inline constexpr uint16_t kPortReady = 3;  // from the driver
inline constexpr uint16_t kConsolePort = 4;
inline constexpr uint16_t kResize = 5;
inline constexpr uint16_t kPortOpen = 6;  // both ways
inline constexpr uint16_t kPortName = 7;

// The size after a RESIZE. The specification puts columns first; Linux reads rows first (drivers/char/virtio_console.c,
// handle_control_message), and it is Linux that must understand.
struct ControlSize {
  uint16_t rows = 0;
  uint16_t cols = 0;
};

}  // namespace sluice::console

#endif  // SLUICE_DEVICES_CONSOLE_PROTOCOL_H_
