// File: protocol.h
//
// The virtio-gpu wire, and nothing else: the structures and numbers of virtio 1.3 section 5.7 ("GPU Device"),
// little-endian as on the wire (the hosts we build for are little-endian). Our own copy, since <linux/virtio_gpu.h>
// differs between the distributions that guests and hosts are built on, and has a flexible array that C++ does not
// take.
//
// Plain trivially copyable structs: copy one out of a request with Load<T>(bytes) in decode.h, never point into guest
// memory.
#ifndef SLUICE_DEVICES_GPU_FRONT_PROTOCOL_H_
#define SLUICE_DEVICES_GPU_FRONT_PROTOCOL_H_

#include <cstdint>

namespace sluice::gpu_front {

inline constexpr uint16_t kVirtioDeviceIdGpu = 16;

// Feature bits (5.7.3).
inline constexpr uint32_t kFeatureVirgl = 0;
inline constexpr uint32_t kFeatureEdid = 1;
inline constexpr uint32_t kFeatureResourceUuid = 2;
inline constexpr uint32_t kFeatureResourceBlob = 3;
inline constexpr uint32_t kFeatureContextInit = 4;

// Virtqueues (5.7.2).
inline constexpr uint16_t kControlQueue = 0;
inline constexpr uint16_t kCursorQueue = 1;
inline constexpr uint16_t kQueueCount = 2;

// Shared memory region of mappable blobs (VIRTIO_GPU_SHM_ID_HOST_VISIBLE).
inline constexpr uint8_t kShmIdHostVisible = 1;

// Device configuration (5.7.4).
struct GpuConfig {
  uint32_t events_read;
  uint32_t events_clear;
  uint32_t num_scanouts;
  uint32_t num_capsets;
};
static_assert(sizeof(GpuConfig) == 16);
inline constexpr uint32_t kEventDisplay = 1u << 0;

enum class CommandType : uint32_t {
  kGetDisplayInfo = 0x0100,
  kResourceCreate2d,
  kResourceUnref,
  kSetScanout,
  kResourceFlush,
  kTransferToHost2d,
  kResourceAttachBacking,
  kResourceDetachBacking,
  kGetCapsetInfo,
  kGetCapset,
  kGetEdid,
  kResourceAssignUuid,
  kResourceCreateBlob,
  kSetScanoutBlob,

  kCtxCreate = 0x0200,
  kCtxDestroy,
  kCtxAttachResource,
  kCtxDetachResource,
  kResourceCreate3d,
  kTransferToHost3d,
  kTransferFromHost3d,
  kSubmit3d,
  kResourceMapBlob,
  kResourceUnmapBlob,

  kUpdateCursor = 0x0300,
  kMoveCursor,
};

enum class ResponseType : uint32_t {
  kOkNodata = 0x1100,
  kOkDisplayInfo,
  kOkCapsetInfo,
  kOkCapset,
  kOkEdid,
  kOkResourceUuid,
  kOkMapInfo,

  kErrUnspec = 0x1200,
  kErrOutOfMemory,
  kErrInvalidScanoutId,
  kErrInvalidResourceId,
  kErrInvalidContextId,
  kErrInvalidParameter,
};
constexpr bool IsError(ResponseType type) {
  return static_cast<uint32_t>(type) >= 0x1200;
}

inline constexpr uint32_t kFlagFence = 1u << 0;
inline constexpr uint32_t kFlagInfoRingIdx = 1u << 1;

struct CtrlHdr {
  uint32_t type;
  uint32_t flags;
  uint64_t fence_id;
  uint32_t ctx_id;
  uint8_t ring_idx;  // meaningful with kFlagInfoRingIdx
  uint8_t padding[3];
};
static_assert(sizeof(CtrlHdr) == 24);

struct Rect {
  uint32_t x;
  uint32_t y;
  uint32_t width;
  uint32_t height;
};

// ---- 2D requests; each follows a CtrlHdr that is not part of the struct here.

struct ResourceCreate2d {
  uint32_t resource_id;
  uint32_t format;
  uint32_t width;
  uint32_t height;
};
struct ResourceRef {  // UNREF, DETACH_BACKING, ASSIGN_UUID, CTX_ATTACH/DETACH_RESOURCE, UNMAP_BLOB
  uint32_t resource_id;
  uint32_t padding;
};
struct SetScanout {
  Rect r;
  uint32_t scanout_id;
  uint32_t resource_id;
};
struct ResourceFlush {
  Rect r;
  uint32_t resource_id;
  uint32_t padding;
};
struct TransferToHost2d {
  Rect r;
  uint64_t offset;
  uint32_t resource_id;
  uint32_t padding;
};
struct MemEntry {
  uint64_t addr;
  uint32_t length;
  uint32_t padding;
};
static_assert(sizeof(MemEntry) == 16);
struct ResourceAttachBacking {  // followed by nr_entries x MemEntry
  uint32_t resource_id;
  uint32_t nr_entries;
};
struct GetEdid {
  uint32_t scanout;
  uint32_t padding;
};

inline constexpr uint32_t kMaxScanouts = 16;
struct DisplayOne {
  Rect r;
  uint32_t enabled;
  uint32_t flags;
};
struct RespDisplayInfo {
  DisplayOne pmodes[kMaxScanouts];
};
static_assert(sizeof(RespDisplayInfo) == 384);
struct RespEdid {
  uint32_t size;
  uint32_t padding;
  uint8_t edid[1024];
};
struct RespResourceUuid {
  uint8_t uuid[16];
};

// Pixel formats (5.7.6.8), all 4 bytes per pixel; the name gives the order of the bytes in memory.
enum class Format : uint32_t {
  kB8G8R8A8 = 1,
  kB8G8R8X8 = 2,
  kA8R8G8B8 = 3,
  kX8R8G8B8 = 4,
  kR8G8B8A8 = 67,
  kX8B8G8R8 = 68,
  kA8B8G8R8 = 121,
  kR8G8B8X8 = 134,
};
inline constexpr uint32_t kBytesPerPixel = 4;
constexpr bool IsKnownFormat(uint32_t format) {
  return (format >= 1 && format <= 4) || format == 67 || format == 68 || format == 121 || format == 134;
}

// ---- 3D and blob requests

struct GetCapsetInfo {
  uint32_t capset_index;
  uint32_t padding;
};
struct GetCapset {
  uint32_t capset_id;
  uint32_t capset_version;
};
struct RespCapsetInfo {
  uint32_t capset_id;
  uint32_t capset_max_version;
  uint32_t capset_max_size;
  uint32_t padding;
};
struct CtxCreate {
  uint32_t nlen;
  uint32_t context_init;
  char debug_name[64];
};
inline constexpr uint32_t kContextInitCapsetIdMask = 0xff;
struct ResourceCreate3d {
  uint32_t resource_id;
  uint32_t target;
  uint32_t format;
  uint32_t bind;
  uint32_t width;
  uint32_t height;
  uint32_t depth;
  uint32_t array_size;
  uint32_t last_level;
  uint32_t nr_samples;
  uint32_t flags;
  uint32_t padding;
};
struct Box {
  uint32_t x, y, z, w, h, d;
};
struct TransferHost3d {
  Box box;
  uint64_t offset;
  uint32_t resource_id;
  uint32_t level;
  uint32_t stride;
  uint32_t layer_stride;
};
struct Submit3d {  // followed by size bytes
  uint32_t size;
  uint32_t padding;
};
enum class BlobMem : uint32_t { kGuest = 1, kHost3d = 2, kHost3dGuest = 3 };
inline constexpr uint32_t kBlobFlagMappable = 1u << 0;
inline constexpr uint32_t kBlobFlagShareable = 1u << 1;
inline constexpr uint32_t kBlobFlagCrossDevice = 1u << 2;
inline constexpr uint32_t kBlobFlagsKnown = 7;
struct ResourceCreateBlob {  // followed by nr_entries x MemEntry
  uint32_t resource_id;
  uint32_t blob_mem;
  uint32_t blob_flags;
  uint32_t nr_entries;
  uint64_t blob_id;
  uint64_t size;
};
static_assert(sizeof(ResourceCreateBlob) == 32);
struct SetScanoutBlob {
  Rect r;
  uint32_t scanout_id;
  uint32_t resource_id;
  uint32_t width;
  uint32_t height;
  uint32_t format;
  uint32_t padding;
  uint32_t strides[4];
  uint32_t offsets[4];
};
static_assert(sizeof(SetScanoutBlob) == 72);
struct ResourceMapBlob {
  uint32_t resource_id;
  uint32_t padding;
  uint64_t offset;
};
struct RespMapInfo {
  uint32_t map_info;
  uint32_t padding;
};
inline constexpr uint32_t kMapCacheCached = 1;

// ---- cursor queue

struct CursorPos {
  uint32_t scanout_id;
  uint32_t x;
  uint32_t y;
  uint32_t padding;
};
struct UpdateCursor {  // UPDATE_CURSOR and MOVE_CURSOR
  CursorPos pos;
  uint32_t resource_id;
  uint32_t hot_x;
  uint32_t hot_y;
  uint32_t padding;
};
static_assert(sizeof(UpdateCursor) == 32);
inline constexpr uint32_t kCursorSize = 64;  // pixels, both ways (5.7.6.8)

}  // namespace sluice::gpu_front

#endif  // SLUICE_DEVICES_GPU_FRONT_PROTOCOL_H_
