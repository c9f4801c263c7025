#include "devices/gpu-front/decode.h"

#include <cstring>
#include <type_traits>

#include "flatbuf/wire.h"
#include "vmm/base/log.h"

namespace sluice::gpu_front {
namespace {

// Takes values off the front of a span; after the first that does not fit, everything fails.
class Reader {
 public:
  explicit Reader(absl::Span<const uint8_t> bytes) : rest_(bytes) {}

  template <typename T>
  bool Take(T* value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (rest_.size() < sizeof(T)) return false;
    std::memcpy(value, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return true;
  }
  // `count` is at most kMaxEntriesPerRequest. Allocates only what the bytes at hand justify.
  bool TakeEntries(uint32_t count, std::vector<MemEntry>* entries) {
    const size_t bytes = size_t{count} * sizeof(MemEntry);
    if (rest_.size() < bytes) return false;
    entries->resize(count);
    if (bytes > 0) std::memcpy(entries->data(), rest_.data(), bytes);
    rest_.remove_prefix(bytes);
    return true;
  }
  bool TakeBytes(size_t bytes, absl::Span<const uint8_t>* out) {
    if (rest_.size() < bytes) return false;
    *out = rest_.first(bytes);
    rest_.remove_prefix(bytes);
    return true;
  }

 private:
  absl::Span<const uint8_t> rest_;
};

Command Truncated() {
  return Malformed{ResponseType::kErrInvalidParameter, "request is shorter than its command"};
}

// Commands whose variant alternative is the wire struct itself.
template <typename T>
Command Plain(Reader reader) {
  T body;
  if (!reader.Take(&body)) return Truncated();
  return body;
}

// Commands that only name a resource.
template <typename T>
Command Ref(Reader reader) {
  ResourceRef body;
  if (!reader.Take(&body)) return Truncated();
  return T{body.resource_id};
}

template <typename T>
Command Transfer3d(Reader reader) {
  TransferHost3d body;
  if (!reader.Take(&body)) return Truncated();
  return T{body};
}

Command DecodeAttachBacking(Reader reader) {
  ResourceAttachBacking body;
  if (!reader.Take(&body)) return Truncated();
  if (body.nr_entries > kMaxEntriesPerRequest)
    return Malformed{ResponseType::kErrOutOfMemory, "too many backing entries"};
  AttachBackingCmd command{body.resource_id, {}};
  if (!reader.TakeEntries(body.nr_entries, &command.entries)) return Truncated();
  return command;
}

Command DecodeCreateBlob(Reader reader) {
  CreateBlobCmd command;
  if (!reader.Take(&command.body)) return Truncated();
  if (command.body.nr_entries > kMaxEntriesPerRequest) {
    return Malformed{ResponseType::kErrOutOfMemory, "too many blob entries"};
  }
  if (!reader.TakeEntries(command.body.nr_entries, &command.entries)) return Truncated();
  return command;
}

Command DecodeCtxCreate(Reader reader) {
  CtxCreate body;
  if (!reader.Take(&body)) return Truncated();
  if (body.nlen > sizeof(body.debug_name))
    return Malformed{ResponseType::kErrInvalidParameter, "context name too long"};
  return CtxCreateCmd{body.context_init, Printable({body.debug_name, strnlen(body.debug_name, body.nlen)})};
}

Command DecodeSubmit(Reader reader) {
  Submit3d body;
  if (!reader.Take(&body)) return Truncated();
  if (body.size > wire::kMaxSubmitBytes) return Malformed{ResponseType::kErrInvalidParameter, "submit over 64 KiB"};
  Submit3dCmd command;
  if (!reader.TakeBytes(body.size, &command.payload)) return Truncated();
  return command;
}

Command DecodeCursor(CommandType type, Reader reader) {
  UpdateCursor body;
  if (!reader.Take(&body)) return Truncated();
  if (type == CommandType::kMoveCursor) return MoveCursorCmd{body.pos};
  return UpdateCursorCmd{body};
}

Command DecodeControl(CommandType type, Reader reader) {
  switch (type) {
    case CommandType::kGetDisplayInfo:
      return GetDisplayInfoCmd{};
    case CommandType::kResourceCreate2d:
      return Plain<ResourceCreate2d>(reader);
    case CommandType::kResourceUnref:
      return Ref<ResourceUnrefCmd>(reader);
    case CommandType::kSetScanout:
      return Plain<SetScanout>(reader);
    case CommandType::kResourceFlush:
      return Plain<ResourceFlush>(reader);
    case CommandType::kTransferToHost2d:
      return Plain<TransferToHost2d>(reader);
    case CommandType::kResourceAttachBacking:
      return DecodeAttachBacking(reader);
    case CommandType::kResourceDetachBacking:
      return Ref<DetachBackingCmd>(reader);
    case CommandType::kGetCapsetInfo:
      return Plain<GetCapsetInfo>(reader);
    case CommandType::kGetCapset:
      return Plain<GetCapset>(reader);
    case CommandType::kGetEdid:
      return Plain<GetEdid>(reader);
    case CommandType::kResourceAssignUuid:
      return Ref<AssignUuidCmd>(reader);
    case CommandType::kResourceCreateBlob:
      return DecodeCreateBlob(reader);
    case CommandType::kSetScanoutBlob:
      return Plain<SetScanoutBlob>(reader);
    case CommandType::kCtxCreate:
      return DecodeCtxCreate(reader);
    case CommandType::kCtxDestroy:
      return CtxDestroyCmd{};
    case CommandType::kCtxAttachResource:
      return Ref<CtxAttachCmd>(reader);
    case CommandType::kCtxDetachResource:
      return Ref<CtxDetachCmd>(reader);
    case CommandType::kResourceCreate3d:
      return Plain<ResourceCreate3d>(reader);
    case CommandType::kTransferToHost3d:
      return Transfer3d<TransferToHost3dCmd>(reader);
    case CommandType::kTransferFromHost3d:
      return Transfer3d<TransferFromHost3dCmd>(reader);
    case CommandType::kSubmit3d:
      return DecodeSubmit(reader);
    case CommandType::kResourceMapBlob:
      return Plain<ResourceMapBlob>(reader);
    case CommandType::kResourceUnmapBlob:
      return Ref<UnmapBlobCmd>(reader);
    case CommandType::kUpdateCursor:
    case CommandType::kMoveCursor:
      return Malformed{ResponseType::kErrUnspec, "cursor command on the control queue"};
  }
  return Malformed{ResponseType::kErrUnspec, "unknown control command"};
}

}  // namespace

Decoded Decode(uint16_t queue, absl::Span<const uint8_t> bytes) {
  Decoded decoded;
  Reader reader(bytes);
  if (!reader.Take(&decoded.header)) {
    decoded.command = Malformed{ResponseType::kErrUnspec, "request is shorter than a header"};
    return decoded;
  }
  const auto type = static_cast<CommandType>(decoded.header.type);
  if (queue == kControlQueue) {
    decoded.command = DecodeControl(type, reader);
  } else if (type == CommandType::kUpdateCursor || type == CommandType::kMoveCursor) {
    decoded.command = DecodeCursor(type, reader);
  } else {
    decoded.command = Malformed{ResponseType::kErrUnspec, "not a cursor command"};
  }
  return decoded;
}

size_t ResponseBodyBytes(const Command& command, size_t capset_bytes) {
  if (std::holds_alternative<GetDisplayInfoCmd>(command)) return sizeof(RespDisplayInfo);
  if (std::holds_alternative<GetEdid>(command)) return sizeof(RespEdid);
  if (std::holds_alternative<GetCapsetInfo>(command)) return sizeof(RespCapsetInfo);
  if (std::holds_alternative<GetCapset>(command)) return capset_bytes;
  if (std::holds_alternative<AssignUuidCmd>(command)) return sizeof(RespResourceUuid);
  if (std::holds_alternative<ResourceMapBlob>(command)) return sizeof(RespMapInfo);
  return 0;
}

}  // namespace sluice::gpu_front
