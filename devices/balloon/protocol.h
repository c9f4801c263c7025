// File: protocol.h
//
// What virtio-balloon says on the wire: virtio 1.2 section 5.5. All fields are little-endian; a page is 4096 bytes
// whatever the guest's page size.
#ifndef SLUICE_DEVICES_BALLOON_PROTOCOL_H_
#define SLUICE_DEVICES_BALLOON_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

namespace sluice::balloon {

inline constexpr uint16_t kVirtioDeviceIdBalloon = 5;

// Section 5.5.3, feature bits.
inline constexpr uint64_t kFeatureStats = uint64_t{1} << 1;
inline constexpr uint64_t kFeatureDeflateOnOom = uint64_t{1} << 2;
inline constexpr uint64_t kFeatureFreePageHint = uint64_t{1} << 3;
inline constexpr uint64_t kFeaturePagePoison = uint64_t{1} << 4;
inline constexpr uint64_t kFeaturePageReporting = uint64_t{1} << 5;

// Section 5.5.2. The last three exist only if their feature was negotiated; see device.h for drivers that count
// otherwise.
inline constexpr uint16_t kInflateQueue = 0;
inline constexpr uint16_t kDeflateQueue = 1;
inline constexpr uint16_t kStatsQueue = 2;
inline constexpr uint16_t kFreePageQueue = 3;
inline constexpr uint16_t kReportingQueue = 4;
inline constexpr uint16_t kQueueCount = 5;

// Section 5.5.4, struct virtio_balloon_config.
struct BalloonConfig {
  uint32_t num_pages;  // that the device wants
  uint32_t actual;     // that the driver has given; the driver writes it
  uint32_t free_page_hint_cmd_id;
  uint32_t poison_val;  // what the driver fills free pages with; the driver writes it
};
static_assert(sizeof(BalloonConfig) == 16);

// Section 5.5.6.3: the statistics that a driver sends, packed.
inline constexpr size_t kStatBytes = 10;  // le16 tag, le64 val
enum class StatTag : uint16_t {
  kSwapIn = 0,   // bytes
  kSwapOut = 1,  // bytes
  kMajorFaults = 2,
  kMinorFaults = 3,
  kFreeMemory = 4,   // bytes
  kTotalMemory = 5,  // bytes
  kAvailable = 6,    // bytes
  kDiskCaches = 7,   // bytes
  kHugeTlbAllocations = 8,
  kHugeTlbFailures = 9,
};

}  // namespace sluice::balloon

#endif  // SLUICE_DEVICES_BALLOON_PROTOCOL_H_
