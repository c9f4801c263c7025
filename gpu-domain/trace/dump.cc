#include "gpu-domain/trace/dump.h"

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "flatbuf/schema_hash.h"
#include "flatbuf/vk/opcodes.h"
#include "flatbuf/wire.h"
#include "gpu-domain/trace/capture.h"
#include "gpu-domain/trace/frame_text.h"
#include "gpu-domain/trace/json.h"
#include "vmm/base/status_macros.h"

namespace sluice::trace {
namespace {

// Bytes of a body that is not decoded: enough to tell two apart.
constexpr size_t kHexBytes = 64;
// Names of a recording's commands that are printed; the body has all of them as numbers.
constexpr size_t kStreamNames = 10'000;

const char* KindName(uint32_t kind) {
  switch (static_cast<CaptureKind>(kind)) {
    case CaptureKind::kContextCreate:
      return "context-create";
    case CaptureKind::kContextDestroy:
      return "context-destroy";
    case CaptureKind::kBlobCreate:
      return "blob-create";
    case CaptureKind::kBlobDestroy:
      return "blob-destroy";
    case CaptureKind::kRequest:
      return "request";
    case CaptureKind::kReply:
      return "reply";
    case CaptureKind::kLost:
      return "lost";
  }
  return "unknown";
}

const char* BlobKindName(uint64_t blob_id) {
  switch (static_cast<wire::BlobKind>(wire::BlobIdKind(blob_id))) {
    case wire::BlobKind::kRing:
      return "ring";
    case wire::BlobKind::kDoorbell:
      return "doorbell";
    case wire::BlobKind::kMemory:
      return "memory";
  }
  return "unknown";
}

absl::string_view Text(absl::Span<const uint8_t> bytes, std::string& storage) {
  storage.assign(bytes.begin(), bytes.end());
  return storage;
}

std::string FrameFields(const CaptureEntry& entry, FrameText& frames) {
  wire::FrameHeader header{};
  if (entry.payload.size() < sizeof(header)) return ", \"invalid\": true";
  std::memcpy(&header, entry.payload.data(), sizeof(header));
  const absl::Span<const uint8_t> body = absl::MakeConstSpan(entry.payload).subspan(sizeof(header));
  const bool reply = static_cast<CaptureKind>(entry.record.kind) == CaptureKind::kReply;
  std::string out = absl::StrCat(", \"ring\": ", entry.record.ring, ", \"sequence\": ", header.sequence,
                                 ", \"command\": ", JsonString(FrameText::Name(header.opcode)));
  if (!reply) absl::StrAppend(&out, ", \"wants_reply\": ", (header.flags & wire::kFrameReply) != 0 ? "true" : "false");
  absl::StrAppend(&out, ", \"bytes\": ", body.size());
  // Which table it is follows from the record, not from what the header claims.
  header.flags = reply ? wire::kFrameReply : 0;
  const std::optional<std::string> text = frames.Body(header, body);
  if (!text.has_value()) return absl::StrCat(out, ", \"invalid\": true, \"hex\": ", JsonHex(body, kHexBytes));
  const std::vector<std::string> commands = header.opcode == static_cast<uint16_t>(vk::Opcode::kCommandStream) && !reply
                                                ? FrameText::StreamCommands(body, kStreamNames)
                                                : std::vector<std::string>();
  if (!commands.empty()) absl::StrAppend(&out, ", \"commands\": [\"", absl::StrJoin(commands, "\", \""), "\"]");
  return absl::StrCat(out, ", \"body\": ", *text);
}

std::string Fields(const CaptureEntry& entry, FrameText& frames) {
  const absl::Span<const uint8_t> payload = entry.payload;
  std::string text;
  switch (static_cast<CaptureKind>(entry.record.kind)) {
    case CaptureKind::kContextCreate:
      return absl::StrCat(", \"name\": ", JsonString(Text(payload, text)));
    case CaptureKind::kContextDestroy:
      return "";
    case CaptureKind::kBlobCreate:
    case CaptureKind::kBlobDestroy: {
      BlobRecord blob{};
      if (payload.size() < sizeof(blob)) return ", \"invalid\": true";
      std::memcpy(&blob, payload.data(), sizeof(blob));
      if (static_cast<CaptureKind>(entry.record.kind) == CaptureKind::kBlobDestroy) {
        return absl::StrCat(", \"resource\": ", blob.resource);
      }
      return absl::StrCat(", \"resource\": ", blob.resource, ", \"blob\": \"", BlobKindName(blob.blob_id),
                          "\", \"index\": ", wire::BlobIdIndex(blob.blob_id), ", \"size\": ", blob.size);
    }
    case CaptureKind::kRequest:
    case CaptureKind::kReply:
      return FrameFields(entry, frames);
    case CaptureKind::kLost: {
      LostRecord lost{};
      if (payload.size() < sizeof(lost)) return ", \"invalid\": true";
      std::memcpy(&lost, payload.data(), sizeof(lost));
      return absl::StrCat(", \"reason\": ", lost.reason,
                          ", \"message\": ", JsonString(Text(payload.subspan(sizeof(lost)), text)));
    }
  }
  return absl::StrCat(", \"bytes\": ", payload.size());
}

}  // namespace

absl::Status DumpTrace(const std::string& path, std::ostream& out) {
  SLUICE_ASSIGN_OR_RETURN(CaptureReader reader, CaptureReader::Open(path));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<FrameText> frames, FrameText::Create());
  const CaptureHeader& header = reader.header();
  if (header.schema_hash != wire::kSchemaHash) {
    return absl::FailedPreconditionError(
        absl::StrFormat("captured with schema %016x; this program knows %016x. Use the sluice that made it",
                        header.schema_hash, wire::kSchemaHash));
  }
  out << absl::StrFormat("{\"version\": %u, \"schema_hash\": \"0x%016x\", \"frontend\": %s, \"records\": [\n",
                         header.version, header.schema_hash, JsonString(header.frontend));
  uint64_t start_ns = 0;
  bool first = true;
  for (;;) {
    const absl::StatusOr<std::optional<CaptureEntry>> next = reader.Next();
    if (!next.ok()) {
      out << "\n], \"error\": " << JsonString(next.status().message()) << "}\n";
      out.flush();
      return next.status();
    }
    const std::optional<CaptureEntry>& entry = *next;
    if (!entry.has_value()) break;
    if (first) start_ns = entry->record.time_ns;
    const uint64_t since = entry->record.time_ns >= start_ns ? entry->record.time_ns - start_ns : 0;
    out << (first ? "" : ",\n")
        << absl::StrCat("{\"time_us\": ", since / 1000, ", \"context\": ", entry->record.context, ", \"kind\": \"",
                        KindName(entry->record.kind), "\"", Fields(*entry, *frames), "}");
    first = false;
    if (!out.good()) return absl::UnavailableError("trace dump: output cannot be written");
  }
  out << "\n], \"truncated\": " << (reader.truncated() ? "true" : "false") << "}\n";
  out.flush();
  return out.good() ? absl::OkStatus() : absl::UnavailableError("trace dump: output cannot be written");
}

}  // namespace sluice::trace
