// File: gpu_protocol.h
//
// The virtio-gpu control queue as a driver writes it (virtio 1.2, 5.7.6, and the blob and context commands of 1.3).
// Requests are whole: header first. Written apart from the device's own copy, so that one misreading does not hide
// another.
#ifndef SLUICE_FIRMWARE_DRIVERS_GPU_PROTOCOL_H_
#define SLUICE_FIRMWARE_DRIVERS_GPU_PROTOCOL_H_

#include <stdint.h>

namespace sluice::firmware::gpu {

inline constexpr uint64_t kFeatureVirgl = 1 << 0;
inline constexpr uint64_t kFeatureEdid = 1 << 1;
inline constexpr uint64_t kFeatureResourceUuid = 1 << 2;
inline constexpr uint64_t kFeatureResourceBlob = 1 << 3;
inline constexpr uint64_t kFeatureContextInit = 1 << 4;

inline constexpr uint8_t kSharedMemoryHostVisible = 1;

// Offsets in the device configuration.
inline constexpr uint16_t kConfigEventsRead = 0;
inline constexpr uint16_t kConfigEventsClear = 4;
inline constexpr uint16_t kConfigScanouts = 8;
inline constexpr uint16_t kConfigCapsets = 12;

enum : uint32_t {
  kGetDisplayInfo = 0x0100,
  kResourceCreate2d = 0x0101,
  kResourceUnref = 0x0102,
  kSetScanout = 0x0103,
  kResourceFlush = 0x0104,
  kTransferToHost2d = 0x0105,
  kResourceAttachBacking = 0x0106,
  kResourceDetachBacking = 0x0107,
  kGetCapsetInfo = 0x0108,
  kGetCapset = 0x0109,
  kGetEdid = 0x010a,
  kResourceAssignUuid = 0x010b,
  kResourceCreateBlob = 0x010c,
  kSetScanoutBlob = 0x010d,
  kCtxCreate = 0x0200,
  kCtxDestroy = 0x0201,
  kCtxAttachResource = 0x0202,
  kCtxDetachResource = 0x0203,
  kResourceCreate3d = 0x0204,
  kTransferToHost3d = 0x0205,
  kTransferFromHost3d = 0x0206,
  kSubmit3d = 0x0207,
  kResourceMapBlob = 0x0208,
  kResourceUnmapBlob = 0x0209,
  kUpdateCursor = 0x0300,
  kMoveCursor = 0x0301,

  kOkNoData = 0x1100,
  kOkDisplayInfo = 0x1101,
  kOkCapsetInfo = 0x1102,
  kOkCapset = 0x1103,
  kOkEdid = 0x1104,
  kOkResourceUuid = 0x1105,
  kOkMapInfo = 0x1106,
  kErrUnspec = 0x1200,
  kErrInvalidParameter = 0x1205,
};

inline constexpr uint32_t kFlagFence = 1 << 0;
inline constexpr uint32_t kFlagRingIdx = 1 << 1;

inline constexpr uint32_t kFormatB8G8R8X8 = 2;
inline constexpr uint32_t kFormatR8G8B8A8 = 67;

struct Header {
  uint32_t type;
  uint32_t flags;
  uint64_t fence_id;
  uint32_t ctx_id;
  uint8_t ring_idx;
  uint8_t padding[3];
};
static_assert(sizeof(Header) == 24);

struct Rect {
  uint32_t x, y, width, height;
};

struct DisplayInfoResponse {
  Header header;
  struct {
    Rect rect;
    uint32_t enabled;
    uint32_t flags;
  } modes[16];
};
struct Create2dRequest {
  Header header;
  uint32_t resource_id, format, width, height;
};
struct ResourceRequest {  // unref, detach backing, attach/detach to context, unmap, uuid
  Header header;
  uint32_t resource_id, padding;
};
struct ScanoutRequest {
  Header header;
  Rect rect;
  uint32_t scanout_id, resource_id;
};
struct FlushRequest {
  Header header;
  Rect rect;
  uint32_t resource_id, padding;
};
struct Transfer2dRequest {
  Header header;
  Rect rect;
  uint64_t offset;
  uint32_t resource_id, padding;
};
struct MemoryEntry {
  uint64_t address;
  uint32_t bytes, padding;
};
struct AttachBackingRequest {
  Header header;
  uint32_t resource_id, entries;
  MemoryEntry entry;
};
struct CapsetInfoRequest {
  Header header;
  uint32_t index, padding;
};
struct CapsetInfoResponse {
  Header header;
  uint32_t id, max_version, max_size, padding;
};
struct CapsetRequest {
  Header header;
  uint32_t id, version;
};
struct EdidRequest {
  Header header;
  uint32_t scanout, padding;
};
struct EdidResponse {
  Header header;
  uint32_t size, padding;
  uint8_t edid[1024];
};
struct CreateBlobRequest {
  Header header;
  uint32_t resource_id, blob_mem, blob_flags, entries;
  uint64_t blob_id, size;
};
inline constexpr uint32_t kBlobMemGuest = 1;
inline constexpr uint32_t kBlobMemHost3d = 2;
inline constexpr uint32_t kBlobFlagMappable = 1;
struct ScanoutBlobRequest {
  Header header;
  Rect rect;
  uint32_t scanout_id, resource_id, width, height, format, padding, strides[4], offsets[4];
};
struct CtxCreateRequest {
  Header header;
  uint32_t name_bytes, context_init;
  char name[64];
};
struct SubmitRequest {
  Header header;
  uint32_t size, padding;
};
struct MapBlobRequest {
  Header header;
  uint32_t resource_id, padding;
  uint64_t offset;
};
struct MapInfoResponse {
  Header header;
  uint32_t map_info, padding;
};
struct CursorRequest {
  Header header;
  uint32_t scanout_id, x, y, padding, resource_id, hot_x, hot_y, padding2;
};

}  // namespace sluice::firmware::gpu

#endif  // SLUICE_FIRMWARE_DRIVERS_GPU_PROTOCOL_H_
