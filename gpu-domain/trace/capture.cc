#include "gpu-domain/trace/capture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "flatbuf/schema_hash.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::trace {
namespace {

uint64_t MonotonicNs() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(ts.tv_nsec);
}

// The bytes of a trivially copyable value, as a vector: records are small and rare enough.
template <typename T>
void Put(std::vector<uint8_t>& to, const T& value) {
  const size_t at = to.size();
  to.resize(at + sizeof(T));
  std::memcpy(to.data() + at, &value, sizeof(T));
}

absl::Span<const uint8_t> Bytes(absl::string_view text, std::vector<uint8_t>& storage) {
  storage.assign(text.begin(), text.end());
  return storage;
}

absl::Status WriteAll(int fd, absl::Span<const uint8_t> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ErrnoToStatus(n < 0 ? errno : EIO, "capture: write");
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

// Reads up to `size` bytes; fewer only at the end of the file.
absl::StatusOr<size_t> ReadUpTo(int fd, uint8_t* to, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = read(fd, to + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoToStatus(errno, "capture: read");
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

uint64_t Padding(uint64_t bytes) {
  return (8 - bytes % 8) % 8;
}

}  // namespace

CaptureWriter::CaptureWriter(UniqueFd fd, absl::string_view frontend, std::atomic<uint64_t>* failed)
    : active_(fd.valid()), failed_(failed), fd_(std::move(fd)) {
  if (!active_) return;
  CaptureHeader header{};
  std::memcpy(header.magic, kCaptureMagic, sizeof(header.magic));
  header.version = kCaptureVersion;
  header.header_bytes = sizeof(header);
  header.schema_hash = wire::kSchemaHash;
  std::memcpy(header.frontend, frontend.data(), std::min(frontend.size(), sizeof(header.frontend) - 1));
  std::vector<uint8_t> bytes;
  Put(bytes, header);
  MutexLock lock(&mu_);
  WriteOrEnd(bytes);
}

void CaptureWriter::WriteOrEnd(absl::Span<const uint8_t> bytes) {
  const absl::Status status = WriteAll(fd_.get(), bytes);
  if (status.ok()) return;
  SLUICE_LOG(warn, "capture ends: {}", std::string(status.message()));
  fd_.Reset();
  if (failed_ != nullptr) failed_->store(1, std::memory_order_relaxed);
}

void CaptureWriter::Append(CaptureKind kind, uint32_t context, uint32_t ring, absl::Span<const uint8_t> head,
                           absl::Span<const uint8_t> body) {
  const size_t payload = head.size() + body.size();
  if (payload > kMaxCapturePayload) return;
  CaptureRecord record{};
  record.kind = static_cast<uint32_t>(kind);
  record.context = context;
  record.ring = ring;
  record.bytes = static_cast<uint32_t>(payload);
  record.time_ns = MonotonicNs();
  std::vector<uint8_t> bytes;
  bytes.reserve(sizeof(record) + payload + 8);
  Put(bytes, record);
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  bytes.resize(bytes.size() + Padding(payload), 0);
  MutexLock lock(&mu_);
  if (!fd_.valid()) return;
  WriteOrEnd(bytes);
}

void CaptureWriter::ContextCreate(uint32_t context, absl::string_view name) {
  if (!active_) return;
  std::vector<uint8_t> storage;
  Append(CaptureKind::kContextCreate, context, 0, Bytes(name, storage), {});
}

void CaptureWriter::ContextDestroy(uint32_t context) {
  if (active_) Append(CaptureKind::kContextDestroy, context, 0, {}, {});
}

void CaptureWriter::BlobCreate(uint32_t context, const BlobRecord& blob) {
  if (!active_) return;
  std::vector<uint8_t> head;
  Put(head, blob);
  Append(CaptureKind::kBlobCreate, context, 0, head, {});
}

void CaptureWriter::BlobDestroy(uint32_t context, uint32_t resource) {
  if (!active_) return;
  std::vector<uint8_t> head;
  Put(head, BlobRecord{resource, 0, 0, 0});
  Append(CaptureKind::kBlobDestroy, context, 0, head, {});
}

void CaptureWriter::Frame(CaptureKind kind, uint32_t context, uint32_t ring, const wire::FrameHeader& header,
                          absl::Span<const uint8_t> payload) {
  if (!active_) return;
  wire::FrameHeader whole = header;
  whole.size = static_cast<uint32_t>(payload.size());
  std::vector<uint8_t> head;
  Put(head, whole);
  Append(kind, context, ring, head, payload);
}

void CaptureWriter::Request(uint32_t context, uint32_t ring, const wire::FrameHeader& header,
                            absl::Span<const uint8_t> payload) {
  Frame(CaptureKind::kRequest, context, ring, header, payload);
}

void CaptureWriter::Reply(uint32_t context, uint32_t ring, const wire::FrameHeader& header,
                          absl::Span<const uint8_t> payload) {
  Frame(CaptureKind::kReply, context, ring, header, payload);
}

void CaptureWriter::Lost(uint32_t context, wire::LostReason reason, absl::string_view message) {
  if (!active_) return;
  std::vector<uint8_t> head;
  Put(head, LostRecord{static_cast<uint32_t>(reason), 0});
  std::vector<uint8_t> storage;
  Append(CaptureKind::kLost, context, 0, head, Bytes(message.substr(0, 1024), storage));
}

absl::StatusOr<CaptureReader> CaptureReader::Open(const std::string& path) {
  // Without O_NONBLOCK a FIFO would keep open(2) until somebody writes.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoToStatus(errno, "open");
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return ErrnoToStatus(errno, "fstat");
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError("not a regular file");
  return FromFd(std::move(fd));
}

absl::StatusOr<CaptureReader> CaptureReader::FromFd(UniqueFd fd) {
  CaptureReader reader(std::move(fd));
  std::vector<uint8_t> bytes(sizeof(CaptureHeader));
  SLUICE_ASSIGN_OR_RETURN(const size_t got, ReadUpTo(reader.fd_.get(), bytes.data(), bytes.size()));
  std::memcpy(&reader.header_, bytes.data(), bytes.size());
  if (got != bytes.size() || std::memcmp(reader.header_.magic, kCaptureMagic, sizeof(kCaptureMagic)) != 0) {
    return absl::InvalidArgumentError("not a Sluice capture file");
  }
  if (reader.header_.version != kCaptureVersion || reader.header_.header_bytes != sizeof(CaptureHeader)) {
    return absl::InvalidArgumentError(absl::StrCat("capture format version ", reader.header_.version,
                                                   "; this program reads version ", kCaptureVersion));
  }
  reader.header_.frontend[sizeof(reader.header_.frontend) - 1] = '\0';
  reader.offset_ = sizeof(CaptureHeader);
  return reader;
}

absl::StatusOr<std::optional<CaptureEntry>> CaptureReader::Next() {
  if (truncated_) return std::optional<CaptureEntry>();
  CaptureEntry entry{};
  std::vector<uint8_t> bytes(sizeof(CaptureRecord));
  SLUICE_ASSIGN_OR_RETURN(const size_t head, ReadUpTo(fd_.get(), bytes.data(), bytes.size()));
  if (head == 0) return std::optional<CaptureEntry>();
  if (head != bytes.size()) {
    truncated_ = true;
    return std::optional<CaptureEntry>();
  }
  std::memcpy(&entry.record, bytes.data(), bytes.size());
  if (entry.record.bytes > kMaxCapturePayload) {
    return absl::InvalidArgumentError(absl::StrCat("record at offset ", offset_, " claims ", entry.record.bytes,
                                                   " bytes; at most ", kMaxCapturePayload));
  }
  // Read in steps: a short file that claims a large record must not cost the memory.
  const uint64_t total = entry.record.bytes + Padding(entry.record.bytes);
  while (entry.payload.size() < total) {
    const size_t at = entry.payload.size();
    const size_t step = std::min<uint64_t>(total - at, 64 * 1024);
    entry.payload.resize(at + step);
    SLUICE_ASSIGN_OR_RETURN(const size_t got, ReadUpTo(fd_.get(), entry.payload.data() + at, step));
    if (got != step) {
      truncated_ = true;
      return std::optional<CaptureEntry>();
    }
  }
  entry.payload.resize(entry.record.bytes);
  offset_ += sizeof(CaptureRecord) + total;
  return std::optional<CaptureEntry>(std::move(entry));
}

}  // namespace sluice::trace
