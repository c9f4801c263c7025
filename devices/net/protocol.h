// File: protocol.h
//
// The wire of virtio-net (virtio 1.2 section 5.1), nothing else: features, frame header, configuration, control queue.
// All fields are little-endian.
#ifndef SLUICE_DEVICES_NET_PROTOCOL_H_
#define SLUICE_DEVICES_NET_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

namespace sluice::net {

inline constexpr uint16_t kVirtioDeviceIdNet = 1;

// Section 5.1.2, queues of a device without VIRTIO_NET_F_MQ.
inline constexpr uint16_t kReceiveQueue = 0;
inline constexpr uint16_t kTransmitQueue = 1;
inline constexpr uint16_t kControlQueue = 2;

// Section 5.1.3, feature bits. "Guest" is what the driver may be given, "Host" what it may send.
inline constexpr uint64_t kFeatureCsum = uint64_t{1} << 0;
inline constexpr uint64_t kFeatureGuestCsum = uint64_t{1} << 1;
inline constexpr uint64_t kFeatureCtrlGuestOffloads = uint64_t{1} << 2;
inline constexpr uint64_t kFeatureMtu = uint64_t{1} << 3;
inline constexpr uint64_t kFeatureMac = uint64_t{1} << 5;
inline constexpr uint64_t kFeatureGuestTso4 = uint64_t{1} << 7;
inline constexpr uint64_t kFeatureGuestTso6 = uint64_t{1} << 8;
inline constexpr uint64_t kFeatureGuestEcn = uint64_t{1} << 9;
inline constexpr uint64_t kFeatureGuestUfo = uint64_t{1} << 10;
inline constexpr uint64_t kFeatureHostTso4 = uint64_t{1} << 11;
inline constexpr uint64_t kFeatureHostTso6 = uint64_t{1} << 12;
inline constexpr uint64_t kFeatureHostEcn = uint64_t{1} << 13;
inline constexpr uint64_t kFeatureMrgRxbuf = uint64_t{1} << 15;
inline constexpr uint64_t kFeatureStatus = uint64_t{1} << 16;
inline constexpr uint64_t kFeatureCtrlVq = uint64_t{1} << 17;
inline constexpr uint64_t kFeatureCtrlRx = uint64_t{1} << 18;
inline constexpr uint64_t kFeatureCtrlMacAddr = uint64_t{1} << 23;

// What SetOffloads of a back end and VIRTIO_NET_CTRL_GUEST_OFFLOADS are about.
inline constexpr uint64_t kGuestOffloads =
    kFeatureGuestCsum | kFeatureGuestTso4 | kFeatureGuestTso6 | kFeatureGuestEcn | kFeatureGuestUfo;

// Section 5.1.4, struct virtio_net_config: offsets.
inline constexpr size_t kConfigMac = 0;       // u8[6]
inline constexpr size_t kConfigStatus = 6;    // u16
inline constexpr size_t kConfigMaxPairs = 8;  // u16
inline constexpr size_t kConfigMtu = 10;      // u16
inline constexpr size_t kConfigBytes = 12;
inline constexpr uint16_t kStatusLinkUp = 1;

// Section 5.1.6, struct virtio_net_hdr: before every frame, in both directions.
struct FrameHeader {
  uint8_t flags = 0;
  uint8_t gso_type = 0;
  uint16_t hdr_len = 0;
  uint16_t gso_size = 0;
  uint16_t csum_start = 0;   // from the start of the frame
  uint16_t csum_offset = 0;  // from csum_start
  uint16_t num_buffers = 0;  // receive only
};
static_assert(sizeof(FrameHeader) == 12);
inline constexpr size_t kHeaderBytes = sizeof(FrameHeader);
inline constexpr size_t kHeaderNumBuffers = 10;
inline constexpr uint8_t kHeaderNeedsCsum = 1;
inline constexpr uint8_t kGsoNone = 0;
inline constexpr uint8_t kGsoTcp4 = 1;
inline constexpr uint8_t kGsoUdp = 3;
inline constexpr uint8_t kGsoTcp6 = 4;
inline constexpr uint8_t kGsoEcn = 0x80;

// Ethernet: header, VLAN tag, and the largest frame with segmentation offloads (section 5.1.6.3.1: 65562 bytes less the
// header above).
inline constexpr size_t kEthernetHeaderBytes = 14;
inline constexpr size_t kVlanTagBytes = 4;
inline constexpr size_t kMaxFrameBytes = 65550;

// Section 5.1.6.5, the control queue: class, command, data; one byte of answer.
inline constexpr uint8_t kControlOk = 0;
inline constexpr uint8_t kControlError = 1;
inline constexpr uint8_t kControlRx = 0;  // commands 0..5, one byte: promiscuous, all-multicast, ...
inline constexpr uint8_t kControlRxCommands = 6;
inline constexpr uint8_t kControlMac = 1;
inline constexpr uint8_t kControlMacTableSet = 0;
inline constexpr uint8_t kControlMacAddrSet = 1;
inline constexpr uint8_t kControlGuestOffloads = 5;
inline constexpr uint8_t kControlGuestOffloadsSet = 0;

}  // namespace sluice::net

#endif  // SLUICE_DEVICES_NET_PROTOCOL_H_
