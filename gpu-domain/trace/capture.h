// File: capture.h
//
// The capture file: everything that one worker was told, in order, in a form that can be dumped (dump.h) and replayed.
// Written through a descriptor that was open before the worker was jailed; appended to, never seeked.
//
//   offset 0   CaptureHeader, 128 bytes
//   then       records: CaptureRecord (32 bytes) + `bytes` bytes of payload + padding to 8, until the end of the file.
//              A file cut short in its last record is sound up to there: the worker may have been killed.
//
// All numbers are little-endian. Payload by record kind:
//   kContextCreate  the context's name, not terminated
//   kContextDestroy nothing
//   kBlobCreate     BlobRecord
//   kBlobDestroy    BlobRecord (only `resource` counts)
//   kRequest        wire::FrameHeader with `size` = bytes of the whole message, then the message (frames joined)
//   kReply          the same, for what went into the reply ring
//   kLost           LostRecord, then the message, not terminated
//
//   CaptureWriter capture(std::move(fd), "web-0");
//   capture.Request(context, ring, header, payload);
#ifndef SLUICE_GPU_DOMAIN_TRACE_CAPTURE_H_
#define SLUICE_GPU_DOMAIN_TRACE_CAPTURE_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "flatbuf/wire.h"
#include "vmm/base/mutex.h"
#include "vmm/base/unique_fd.h"

namespace sluice::trace {

inline constexpr char kCaptureMagic[8] = {'S', 'L', 'U', 'I', 'C', 'A', 'P', '\n'};
inline constexpr uint32_t kCaptureVersion = 1;

struct CaptureHeader {
  char magic[8];          // kCaptureMagic
  uint32_t version;       // kCaptureVersion
  uint32_t header_bytes;  // sizeof(CaptureHeader)
  uint64_t schema_hash;   // of the frames inside; another one cannot be decoded
  char frontend[64];      // NUL-terminated
  uint8_t reserved[40];
};
static_assert(sizeof(CaptureHeader) == 128);

enum class CaptureKind : uint32_t {
  kContextCreate = 1,
  kContextDestroy = 2,
  kBlobCreate = 3,
  kBlobDestroy = 4,
  kRequest = 5,
  kReply = 6,
  kLost = 7,
};

struct CaptureRecord {
  uint32_t kind;  // CaptureKind; a reader skips kinds that it does not know
  uint32_t context;
  uint32_t ring;     // kRequest, kReply; else 0
  uint32_t bytes;    // of payload, <= kMaxCapturePayload
  uint64_t time_ns;  // CLOCK_MONOTONIC
  uint64_t reserved;
};
static_assert(sizeof(CaptureRecord) == 32);

inline constexpr uint32_t kMaxCapturePayload = wire::kMaxMessageBytes + 4096;

struct BlobRecord {
  uint32_t resource;
  uint32_t reserved;
  uint64_t blob_id;
  uint64_t size;  // rounded
};
static_assert(sizeof(BlobRecord) == 24);

struct LostRecord {
  uint32_t reason;  // wire::LostReason
  uint32_t reserved;
};
static_assert(sizeof(LostRecord) == 8);

// Appends records. Thread-safe: rings of several threads write to one file, whole records at a time. When the file
// cannot be written (disk full) the capture ends, with one log line; the worker goes on.
class CaptureWriter {
 public:
  // Takes the descriptor and writes the header at once. An invalid descriptor makes every call a no-op. When a write
  // fails (disk full) the capture ends there, once, and `*failed` becomes 1; null: nobody asks.
  CaptureWriter(UniqueFd fd, absl::string_view frontend, std::atomic<uint64_t>* failed = nullptr);

  bool active() const { return active_; }
  void ContextCreate(uint32_t context, absl::string_view name);
  void ContextDestroy(uint32_t context);
  void BlobCreate(uint32_t context, const BlobRecord& blob);
  void BlobDestroy(uint32_t context, uint32_t resource);
  // `header.size` is replaced by payload.size().
  void Request(uint32_t context, uint32_t ring, const wire::FrameHeader& header, absl::Span<const uint8_t> payload);
  void Reply(uint32_t context, uint32_t ring, const wire::FrameHeader& header, absl::Span<const uint8_t> payload);
  void Lost(uint32_t context, wire::LostReason reason, absl::string_view message);

 private:
  void Frame(CaptureKind kind, uint32_t context, uint32_t ring, const wire::FrameHeader& header,
             absl::Span<const uint8_t> payload) ABSL_LOCKS_EXCLUDED(mu_);
  void Append(CaptureKind kind, uint32_t context, uint32_t ring, absl::Span<const uint8_t> head,
              absl::Span<const uint8_t> body) ABSL_LOCKS_EXCLUDED(mu_);

  void WriteOrEnd(absl::Span<const uint8_t> bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const bool active_;
  std::atomic<uint64_t>* const failed_;
  Mutex mu_;
  UniqueFd fd_ ABSL_GUARDED_BY(mu_);
};

// One record as read back.
struct CaptureEntry {
  CaptureRecord record;
  std::vector<uint8_t> payload;
};

// Reads a capture file record by record. The file is not trusted: every size is checked and capped.
//
//   SLUICE_ASSIGN_OR_RETURN(CaptureReader reader, CaptureReader::Open(path));
//   for (;;) {
//     SLUICE_ASSIGN_OR_RETURN(std::optional<CaptureEntry> entry, reader.Next());
//     if (!entry.has_value()) break;
//   }
class CaptureReader {
 public:
  // Errors, none of which names the file (the caller does): NOT_FOUND and others from open(2); INVALID_ARGUMENT: not a
  // regular file, not a capture file, or another version.
  static absl::StatusOr<CaptureReader> Open(const std::string& path);
  // The same over an open descriptor, from its current position.
  static absl::StatusOr<CaptureReader> FromFd(UniqueFd fd);

  const CaptureHeader& header() const { return header_; }
  // The next record; nullopt at the end. A last record that is cut short is the end too, with truncated() set.
  // Errors: INVALID_ARGUMENT naming the offset when a size is impossible.
  absl::StatusOr<std::optional<CaptureEntry>> Next();
  bool truncated() const { return truncated_; }
  // File offset of the record that Next() returns next.
  uint64_t offset() const { return offset_; }

 private:
  explicit CaptureReader(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
  CaptureHeader header_{};
  uint64_t offset_ = 0;
  bool truncated_ = false;
};

}  // namespace sluice::trace

#endif  // SLUICE_GPU_DOMAIN_TRACE_CAPTURE_H_
