#include "vmm/kvm/stats.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"
#include "vmm/kvm/abi.h"

namespace sluice::kvm {
namespace {

// Far above what any kernel has; bounds what its header can make us allocate.
constexpr uint32_t kMaxDescriptors = 4096;
constexpr uint32_t kMaxNameBytes = 4096;

absl::Status ReadAt(int fd, uint64_t offset, void* to, size_t bytes) {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = pread(fd, out, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoToStatus(errno, "reading KVM statistics");
    if (n == 0) return absl::InternalError(absl::StrCat("KVM statistics end at byte ", offset));
    out += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

StatType TypeOf(uint32_t flags) {
  switch (flags & KVM_STATS_TYPE_MASK) {
    case KVM_STATS_TYPE_CUMULATIVE:
      return StatType::kCumulative;
    case KVM_STATS_TYPE_INSTANT:
      return StatType::kInstant;
    case KVM_STATS_TYPE_PEAK:
      return StatType::kPeak;
    case KVM_STATS_TYPE_LINEAR_HIST:
      return StatType::kLinearHistogram;
    case KVM_STATS_TYPE_LOG_HIST:
      return StatType::kLogHistogram;
    default:
      return StatType::kOther;
  }
}

StatUnit UnitOf(uint32_t flags) {
  switch (flags & KVM_STATS_UNIT_MASK) {
    case KVM_STATS_UNIT_NONE:
      return StatUnit::kNone;
    case KVM_STATS_UNIT_BYTES:
      return StatUnit::kBytes;
    case KVM_STATS_UNIT_SECONDS:
      return StatUnit::kSeconds;
    case KVM_STATS_UNIT_CYCLES:
      return StatUnit::kCycles;
    case KVM_STATS_UNIT_BOOLEAN:
      return StatUnit::kBoolean;
    default:
      return StatUnit::kOther;
  }
}

}  // namespace

absl::StatusOr<BinaryStats> BinaryStats::FromFd(UniqueFd fd) {
  kvm_stats_header header = {};
  SLUICE_RETURN_IF_ERROR(ReadAt(fd.get(), 0, &header, sizeof(header)));
  if (header.num_desc > kMaxDescriptors || header.name_size > kMaxNameBytes || header.name_size == 0) {
    return absl::InternalError(absl::StrCat("KVM statistics claim ", header.num_desc, " descriptors with names of ",
                                            header.name_size, " bytes"));
  }
  BinaryStats stats;
  stats.data_offset_ = header.data_offset;
  const size_t stride = sizeof(kvm_stats_desc) + header.name_size;
  std::vector<char> block(stride * header.num_desc);
  SLUICE_RETURN_IF_ERROR(ReadAt(fd.get(), header.desc_offset, block.data(), block.size()));
  stats.descriptors_.reserve(header.num_desc);
  for (uint32_t i = 0; i < header.num_desc; ++i) {
    const char* at = block.data() + i * stride;
    kvm_stats_desc raw = {};
    std::memcpy(&raw, at, sizeof(raw));
    const char* name = at + sizeof(raw);
    StatDescriptor d;
    d.name.assign(name, strnlen(name, header.name_size));
    d.type = TypeOf(raw.flags);
    d.unit = UnitOf(raw.flags);
    d.base_is_two = (raw.flags & KVM_STATS_BASE_MASK) == KVM_STATS_BASE_POW2;
    d.exponent = raw.exponent;
    d.count = raw.size;
    d.offset = raw.offset;
    d.bucket_size = raw.bucket_size;
    stats.data_bytes_ = std::max(stats.data_bytes_, d.offset + uint64_t{d.count} * sizeof(uint64_t));
    stats.descriptors_.push_back(std::move(d));
  }
  stats.fd_ = std::move(fd);
  return stats;
}

absl::StatusOr<StatValues> BinaryStats::Read() const {
  StatValues values;
  for (const StatDescriptor& d : descriptors_) {
    std::vector<uint64_t>& out = values[d.name];
    out.resize(d.count);
    SLUICE_RETURN_IF_ERROR(ReadAt(fd_.get(), data_offset_ + d.offset, out.data(), out.size() * sizeof(uint64_t)));
  }
  return values;
}

}  // namespace sluice::kvm
