// File: fake_disk.h
//
// A disk in memory that a test can hold still, break, and question.
//
//   auto disk = std::make_unique<FakeDisk>(1 << 20);
//   disk->Hold(true);                   // whoever comes now waits
//   disk->FailNext(absl::InternalError("no"));
//   disk->Log();                        // "write 0+512 durable", ...
#ifndef SLUICE_DEVICES_BLOCK_TESTING_FAKE_DISK_H_
#define SLUICE_DEVICES_BLOCK_TESTING_FAKE_DISK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "devices/block/disk.h"
#include "vmm/base/mutex.h"

namespace sluice::block::testing {

// Thread-safe.
class FakeDisk final : public Disk {
 public:
  explicit FakeDisk(uint64_t bytes, bool read_only = false);

  // While held, operations have begun and do not go on.
  void Hold(bool hold);
  // Operations that wait because of Hold; waits up to 10 s until there are `count`. False: there were not.
  bool WaitUntilHeld(size_t count);
  // The next operation to finish fails.
  void FailNext(absl::Status status);
  // What was done so far, in order.
  std::vector<std::string> Log() const;
  std::vector<uint8_t> Contents(uint64_t offset, uint64_t bytes) const;

  const DiskInfo& info() const override { return info_; }
  absl::Status Read(uint64_t offset, absl::Span<iovec> pieces) override;
  absl::Status Write(uint64_t offset, absl::Span<iovec> pieces, bool durable) override;
  absl::Status Flush() override;
  absl::Status Discard(uint64_t offset, uint64_t bytes) override;
  absl::Status WriteZeroes(uint64_t offset, uint64_t bytes, bool unmap) override;

 private:
  absl::Status Begin(std::string what);

  DiskInfo info_;
  mutable Mutex mu_;
  CondVar changed_;
  bool hold_ ABSL_GUARDED_BY(mu_) = false;
  size_t held_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<absl::Status> failure_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mu_);
  std::vector<uint8_t> bytes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice::block::testing

#endif  // SLUICE_DEVICES_BLOCK_TESTING_FAKE_DISK_H_
