#include "devices/block/testing/fake_disk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/status_macros.h"

namespace sluice::block::testing {
namespace {

uint64_t Sum(absl::Span<const iovec> pieces) {
  uint64_t sum = 0;
  for (const iovec& piece : pieces) sum += piece.iov_len;
  return sum;
}

}  // namespace

FakeDisk::FakeDisk(uint64_t bytes, bool read_only) : bytes_(bytes) {
  info_.bytes = bytes;
  info_.read_only = read_only;
}

void FakeDisk::Hold(bool hold) {
  MutexLock lock(&mu_);
  hold_ = hold;
  changed_.SignalAll();
}

bool FakeDisk::WaitUntilHeld(size_t count) {
  MutexLock lock(&mu_);
  while (held_ < count) {
    if (changed_.WaitWithTimeout(&mu_, absl::Seconds(10))) return held_ >= count;
  }
  return true;
}

void FakeDisk::FailNext(absl::Status status) {
  MutexLock lock(&mu_);
  failure_ = std::move(status);
}

std::vector<std::string> FakeDisk::Log() const {
  MutexLock lock(&mu_);
  return log_;
}

std::vector<uint8_t> FakeDisk::Contents(uint64_t offset, uint64_t bytes) const {
  MutexLock lock(&mu_);
  if (!RangeFits(offset, bytes, bytes_.size())) return {};
  const auto first = bytes_.begin() + static_cast<std::ptrdiff_t>(offset);
  return {first, first + static_cast<std::ptrdiff_t>(bytes)};
}

absl::Status FakeDisk::Begin(std::string what) {
  MutexLock lock(&mu_);
  ++held_;
  changed_.SignalAll();
  while (hold_) changed_.Wait(&mu_);
  --held_;
  log_.push_back(std::move(what));
  if (failure_.has_value()) return *std::exchange(failure_, std::nullopt);
  return absl::OkStatus();
}

absl::Status FakeDisk::Read(uint64_t offset, absl::Span<iovec> pieces) {
  SLUICE_RETURN_IF_ERROR(Begin(absl::StrCat("read ", offset, "+", Sum(pieces))));
  MutexLock lock(&mu_);
  if (!RangeFits(offset, Sum(pieces), bytes_.size())) return absl::OutOfRangeError("read past the end");
  for (const iovec& piece : pieces) {
    std::memcpy(piece.iov_base, bytes_.data() + offset, piece.iov_len);
    offset += piece.iov_len;
  }
  return absl::OkStatus();
}

absl::Status FakeDisk::Write(uint64_t offset, absl::Span<iovec> pieces, bool durable) {
  SLUICE_RETURN_IF_ERROR(Begin(absl::StrCat("write ", offset, "+", Sum(pieces), durable ? " durable" : "")));
  MutexLock lock(&mu_);
  if (!RangeFits(offset, Sum(pieces), bytes_.size())) return absl::OutOfRangeError("write past the end");
  for (const iovec& piece : pieces) {
    std::memcpy(bytes_.data() + offset, piece.iov_base, piece.iov_len);
    offset += piece.iov_len;
  }
  return absl::OkStatus();
}

absl::Status FakeDisk::Flush() {
  return Begin("flush");
}

absl::Status FakeDisk::Discard(uint64_t offset, uint64_t bytes) {
  SLUICE_RETURN_IF_ERROR(Begin(absl::StrCat("discard ", offset, "+", bytes)));
  MutexLock lock(&mu_);
  return RangeFits(offset, bytes, bytes_.size()) ? absl::OkStatus() : absl::OutOfRangeError("discard past the end");
}

absl::Status FakeDisk::WriteZeroes(uint64_t offset, uint64_t bytes, bool unmap) {
  SLUICE_RETURN_IF_ERROR(Begin(absl::StrCat("zero ", offset, "+", bytes, unmap ? " unmap" : "")));
  MutexLock lock(&mu_);
  if (!RangeFits(offset, bytes, bytes_.size())) return absl::OutOfRangeError("zeroes past the end");
  std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), bytes, uint8_t{0});
  return absl::OkStatus();
}

}  // namespace sluice::block::testing
