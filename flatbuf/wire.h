// File: wire.h
//
// The constants and plain structs that a front-end guest, the gpu-front device and a GPU Domain's worker agree on,
// beside the FlatBuffers schemas in this directory. Freestanding: guests without an operating system include it.
//
// One context (one Vulkan instance of one guest process) talks through one or more *rings*. A ring lives in one HOST3D
// blob that guest and worker map; see ring.h. The virtio-gpu device only moves control messages and never looks inside.
#ifndef SLUICE_FLATBUF_WIRE_H_
#define SLUICE_FLATBUF_WIRE_H_

#include <stdint.h>

namespace sluice::wire {

// Both ends send this and the schema hash (generated: flatbuf/schema_hash.h) first; a mismatch is an error, not a
// guess.
inline constexpr uint32_t kProtocolVersion = 1;

// Our virtio-gpu capability set. 7..30 is what stock Linux drivers can carry (a 32-bit shift in capset_id_mask).
inline constexpr uint32_t kCapsetId = 24;
inline constexpr uint32_t kCapsetVersion = 1;
inline constexpr uint32_t kCapsetMagic = 0x45434c53;  // "SLCE"

// The payload of GET_CAPSET. Fixed size; strings are NUL-terminated and truncated to fit.
struct Capset {
  uint32_t magic;             // kCapsetMagic
  uint32_t protocol_version;  // kProtocolVersion
  uint64_t schema_hash;
  uint64_t memory_quota_bytes;  // device memory that all contexts of this VM together may hold
  uint32_t max_contexts;
  uint32_t max_rings;  // per context
  uint32_t min_ring_bytes;
  uint32_t max_ring_bytes;
  uint32_t max_frame_bytes;
  uint32_t max_message_bytes;  // a message may span frames (FrameFlags::kMore)
  char os_type[16];
  char domain_name[64];
  char device_name[128];
};
static_assert(sizeof(Capset) == 256);

// blob_id of RESOURCE_CREATE_BLOB(HOST3D): what the guest wants behind the resource. Kind in bits 63..56, index below.
enum class BlobKind : uint8_t {
  kRing =
      1,  // index: ring number of this context, 0 .. max_rings-1; size: power of two, min_ring_bytes..max_ring_bytes
  kDoorbell = 2,  // index: ring number; size 4096. Any write to the mapped page wakes the ring's consumer (ioeventfd).
  kMemory = 3,    // index: free for the guest; backs a later vkAllocateMemory that names the resource id
};
constexpr uint64_t MakeBlobId(BlobKind kind, uint64_t index) {
  return (static_cast<uint64_t>(kind) << 56) | (index & ((uint64_t{1} << 56) - 1));
}
constexpr uint8_t BlobIdKind(uint64_t blob_id) {
  return static_cast<uint8_t>(blob_id >> 56);
}
constexpr uint64_t BlobIdIndex(uint64_t blob_id) {
  return blob_id & ((uint64_t{1} << 56) - 1);
}

inline constexpr uint32_t kMaxRings = 8;
inline constexpr uint32_t kMinRingBytes = 64 * 1024;
inline constexpr uint32_t kMaxRingBytes = 64 * 1024 * 1024;
inline constexpr uint32_t kMaxMessageBytes = 16 * 1024 * 1024;
inline constexpr uint32_t kMaxSubmitBytes = 64 * 1024;  // SUBMIT_3D payload
inline constexpr uint32_t kMaxTimelines = 64;           // ring_idx 0..63

// SUBMIT_3D payload: wakes a ring's consumer and, when the command is fenced, says what the fence waits for.
//   ring_idx 0 (or none): the consumer has executed the ring up to `position`.
//   ring_idx k in 1..63:  that, and all work submitted so far to the VkQueue bound to timeline k has completed.
struct SubmitCommand {
  uint32_t op;        // kSubmitKick
  uint32_t ring;      // ring number of the context
  uint64_t position;  // value of RingHeader::command_head to wait for; 0: only wake
};
static_assert(sizeof(SubmitCommand) == 16);
inline constexpr uint32_t kSubmitKick = 1;

// Header of every frame in a ring, 16-byte aligned, followed by `size` bytes of FlatBuffer and padding to 16.
struct FrameHeader {
  uint16_t opcode;    // generated Opcode, or a reserved one below
  uint16_t flags;     // FrameFlags
  uint32_t size;      // payload bytes, without header and padding
  uint64_t sequence;  // requests count up from 1 per ring; a reply carries its request's
};
static_assert(sizeof(FrameHeader) == 16);

enum FrameFlags : uint16_t {
  kFrameMore = 1,   // the message goes on in the next frame (same opcode and sequence)
  kFrameReply = 2,  // request: an answer is wanted in the reply ring; reply: this is one
};

// Opcodes below 16 belong to the ring itself; generated ones start at 16.
inline constexpr uint16_t kOpcodePad = 0;    // skip to the end of the ring's data area
inline constexpr uint16_t kOpcodeError = 1;  // reply only: the request failed before Vulkan; payload: int32 VkResult
inline constexpr uint16_t kFirstGeneratedOpcode = 16;

// Why a context is lost, in RingHeader::status. 0: it is not.
enum class LostReason : uint32_t {
  kNone = 0,
  kBadFrame = 1,    // a frame or command that the worker refuses; the log says which
  kDeviceLost = 2,  // the driver answered VK_ERROR_DEVICE_LOST
  kWorkerGone = 3,  // the worker or its domain ended
  kLimit = 4,       // a limit of the front-end was exceeded
  kDestroyed = 5,   // the context was destroyed
};

// Vulkan object ids chosen by the guest: index in the low 32 bits (1 .. kMaxObjectIndex), generation in the high 32.
inline constexpr uint32_t kMaxObjectIndex = 1u << 20;

}  // namespace sluice::wire

#endif  // SLUICE_FLATBUF_WIRE_H_
