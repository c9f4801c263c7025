// File: protocol.h
//
// The wire of virtio-vsock (virtio 1.2 section 5.10), nothing else. All fields are little-endian.
#ifndef SLUICE_DEVICES_VSOCK_PROTOCOL_H_
#define SLUICE_DEVICES_VSOCK_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

namespace sluice::vsock {

inline constexpr uint16_t kVirtioDeviceIdVsock = 19;

// Section 5.10.2. "Receive" is the guest's.
inline constexpr uint16_t kReceiveQueue = 0;
inline constexpr uint16_t kTransmitQueue = 1;
inline constexpr uint16_t kEventQueue = 2;

// Section 5.10.3.
inline constexpr uint64_t kFeatureStream = uint64_t{1} << 0;

// Section 5.10.4, struct virtio_vsock_config.
inline constexpr size_t kConfigBytes = 8;  // guest_cid, u64

// Well-known context ids; guests have 3 and up.
inline constexpr uint64_t kHostCid = 2;
inline constexpr uint64_t kMinGuestCid = 3;
inline constexpr uint64_t kMaxGuestCid = 0xfffffffe;

// Section 5.10.6, struct virtio_vsock_hdr: before every payload.
struct [[gnu::packed]] PacketHeader {
  uint64_t src_cid;
  uint64_t dst_cid;
  uint32_t src_port;
  uint32_t dst_port;
  uint32_t len;  // bytes of payload
  uint16_t type;
  uint16_t op;
  uint32_t flags;
  uint32_t buf_alloc;  // the sender's buffer, bytes
  uint32_t fwd_cnt;    // bytes that the sender has passed on, modulo 2^32
};
static_assert(sizeof(PacketHeader) == 44);
inline constexpr size_t kHeaderBytes = sizeof(PacketHeader);

inline constexpr uint16_t kTypeStream = 1;

enum Op : uint16_t {
  kOpInvalid = 0,
  kOpRequest = 1,
  kOpResponse = 2,
  kOpReset = 3,
  kOpShutdown = 4,
  kOpData = 5,  // VIRTIO_VSOCK_OP_RW
  kOpCreditUpdate = 6,
  kOpCreditRequest = 7,
};

// Flags of kOpShutdown: what the sender will not do any more.
inline constexpr uint32_t kShutdownReceive = 1;
inline constexpr uint32_t kShutdownSend = 2;
inline constexpr uint32_t kShutdownBoth = kShutdownReceive | kShutdownSend;

// Section 5.10.6.7, events.
inline constexpr uint32_t kEventTransportReset = 0;

}  // namespace sluice::vsock

#endif  // SLUICE_DEVICES_VSOCK_PROTOCOL_H_
