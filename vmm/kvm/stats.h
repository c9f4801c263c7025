// File: stats.h
//
// KVM's binary statistics (KVM_GET_STATS_FD): what the kernel counted for a VM or a vCPU, by name.
//
//   SLUICE_ASSIGN_OR_RETURN(BinaryStats stats, vcpu->Stats());
//   SLUICE_ASSIGN_OR_RETURN(StatValues values, stats.Read());
//   uint64_t exits = values["exits"][0];
#ifndef SLUICE_VMM_KVM_STATS_H_
#define SLUICE_VMM_KVM_STATS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "vmm/base/unique_fd.h"

namespace sluice::kvm {

enum class StatType : uint8_t { kCumulative, kInstant, kPeak, kLinearHistogram, kLogHistogram, kOther };
enum class StatUnit : uint8_t { kNone, kBytes, kSeconds, kCycles, kBoolean, kOther };

struct StatDescriptor {
  std::string name;
  StatType type = StatType::kOther;
  StatUnit unit = StatUnit::kNone;
  bool base_is_two = false;  // a value is in units of 2^exponent (else 10^exponent)
  int16_t exponent = 0;
  uint32_t count = 0;        // values: 1, or the buckets of a histogram
  uint64_t offset = 0;       // bytes, from the data block's start
  uint32_t bucket_size = 0;  // linear histograms
};

// Name -> values (one, or a histogram's buckets).
using StatValues = std::map<std::string, std::vector<uint64_t>>;

// Movable; Read() is thread-safe. Keeps working after its VM or vCPU is closed (the values then stand still).
class BinaryStats {
 public:
  // Takes a statistics descriptor and reads its header. Errors: INTERNAL when the layout is not as documented.
  static absl::StatusOr<BinaryStats> FromFd(UniqueFd fd);

  const std::vector<StatDescriptor>& descriptors() const { return descriptors_; }
  // The values now.
  absl::StatusOr<StatValues> Read() const;

 private:
  BinaryStats() = default;
  UniqueFd fd_;
  std::vector<StatDescriptor> descriptors_;
  uint64_t data_offset_ = 0;
  uint64_t data_bytes_ = 0;
};

}  // namespace sluice::kvm

#endif  // SLUICE_VMM_KVM_STATS_H_
