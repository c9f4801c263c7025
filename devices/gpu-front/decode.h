// File: decode.h
//
// From bytes to a command. The bytes are a private copy of a request's readable part: whatever the guest writes to its
// memory meanwhile, what was checked is what is used. Decode() never fails; bytes that are no command decode to
// Malformed, which says what the specification answers.
//
//   Decoded request = Decode(kControlQueue, bytes);
//   std::visit(handlers, request.command);
//
// Syntax only: whether ids exist and numbers make sense is for control.cc. Thread-safe (no state).
#ifndef SLUICE_DEVICES_GPU_FRONT_DECODE_H_
#define SLUICE_DEVICES_GPU_FRONT_DECODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "devices/gpu-front/protocol.h"

namespace sluice::gpu_front {

// Entries that one ATTACH_BACKING or RESOURCE_CREATE_BLOB may carry: 1 GiB in 4 KiB pages.
inline constexpr uint32_t kMaxEntriesPerRequest = 1u << 18;
// Bytes of one request that are looked at. A request with more readable bytes is cut off here; none needs more.
inline constexpr size_t kMaxRequestBytes = 64 + size_t{kMaxEntriesPerRequest} * sizeof(MemEntry);

// What the bytes were not. `response` is the answer, `why` a constant for the log.
struct Malformed {
  ResponseType response = ResponseType::kErrUnspec;
  const char* why = "";
};

struct GetDisplayInfoCmd {};
struct ResourceUnrefCmd {
  uint32_t resource_id;
};
struct AttachBackingCmd {
  uint32_t resource_id;
  std::vector<MemEntry> entries;
};
struct DetachBackingCmd {
  uint32_t resource_id;
};
struct AssignUuidCmd {
  uint32_t resource_id;
};
struct CreateBlobCmd {
  ResourceCreateBlob body;
  std::vector<MemEntry> entries;
};
struct CtxCreateCmd {
  uint32_t context_init;
  std::string name;  // at most 64 bytes, without NUL
};
struct CtxDestroyCmd {};
struct CtxAttachCmd {
  uint32_t resource_id;
};
struct CtxDetachCmd {
  uint32_t resource_id;
};
struct TransferToHost3dCmd {
  TransferHost3d body;
};
struct TransferFromHost3dCmd {
  TransferHost3d body;
};
struct Submit3dCmd {
  absl::Span<const uint8_t> payload;  // in the bytes given to Decode
};
struct UnmapBlobCmd {
  uint32_t resource_id;
};
struct UpdateCursorCmd {
  UpdateCursor body;
};
struct MoveCursorCmd {
  CursorPos pos;
};

using Command =
    std::variant<Malformed, GetDisplayInfoCmd, ResourceCreate2d, ResourceUnrefCmd, SetScanout, ResourceFlush,
                 TransferToHost2d, AttachBackingCmd, DetachBackingCmd, GetCapsetInfo, GetCapset, GetEdid, AssignUuidCmd,
                 CreateBlobCmd, SetScanoutBlob, CtxCreateCmd, CtxDestroyCmd, CtxAttachCmd, CtxDetachCmd,
                 ResourceCreate3d, TransferToHost3dCmd, TransferFromHost3dCmd, Submit3dCmd, ResourceMapBlob,
                 UnmapBlobCmd, UpdateCursorCmd, MoveCursorCmd>;

struct Decoded {
  CtrlHdr header{};  // zero if not even a header was there
  Command command;
};

// `queue`: kControlQueue or kCursorQueue; a command of the other queue is malformed. `bytes` outlives the result.
Decoded Decode(uint16_t queue, absl::Span<const uint8_t> bytes);

// Bytes after the header that the successful answer to `command` has. `capset_bytes`: of GET_CAPSET's answer.
size_t ResponseBodyBytes(const Command& command, size_t capset_bytes);

}  // namespace sluice::gpu_front

#endif  // SLUICE_DEVICES_GPU_FRONT_DECODE_H_
