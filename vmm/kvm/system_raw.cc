#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vmm/base/status_macros.h"
#include "vmm/kvm/ioctl_raw.h"
#include "vmm/kvm/system.h"

namespace sluice::kvm {
namespace {

using internal::FlexBuffer;
using internal::KvmIoctlFlex;
using internal::KvmIoctlValue;

absl::Status OpenError(int error, const std::string& path) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(
          absl::StrCat(path,
                       " is absent: this host offers no KVM. Enable virtualization in the firmware settings and load "
                       "kvm_intel or kvm_amd (in a container: pass the device in)"));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(
          absl::StrCat(path,
                       " may not be opened by this user: join its group (usually: sudo usermod -aG kvm $USER, then log "
                       "in again)"));
    case ENXIO:
    case ENODEV:
      return absl::UnavailableError(absl::StrCat(path, " has no driver behind it: load kvm_intel or kvm_amd"));
    default:
      return ErrnoToStatus(error, path);
  }
}

// A kernel that says E2BIG is asked again with twice the room, up to this many entries.
constexpr size_t kMaxEntries = 4096;

}  // namespace

absl::StatusOr<System> System::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return OpenError(errno, path);
  auto system = FromFd(UniqueFd(fd));
  if (!system.ok()) return Annotate(system.status(), path);
  return system;
}

absl::StatusOr<System> System::FromFd(UniqueFd fd) {
  const int version = KvmIoctlValue<KVM_GET_API_VERSION>(fd.get(), 0);
  if (version < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("not a KVM device (", ErrnoToStatus(errno, "KVM_GET_API_VERSION").message(), ")"));
  }
  if (version != KVM_API_VERSION) {
    return absl::FailedPreconditionError(
        absl::StrCat("KVM speaks API version ", version, ", this program ", KVM_API_VERSION));
  }
  const int bytes = KvmIoctlValue<KVM_GET_VCPU_MMAP_SIZE>(fd.get(), 0);
  if (bytes < 0) return ErrnoToStatus(errno, "KVM_GET_VCPU_MMAP_SIZE");
  if (static_cast<size_t>(bytes) < sizeof(kvm_run)) {
    return absl::FailedPreconditionError(absl::StrCat("KVM's vCPU page has only ", bytes, " bytes"));
  }
  return System(std::move(fd), static_cast<uint32_t>(bytes));
}

int System::Check(Capability capability) const {
  return std::max(0, KvmIoctlValue<KVM_CHECK_EXTENSION>(fd_.get(), static_cast<unsigned long>(capability)));
}

absl::Status System::Require(std::initializer_list<Capability> capabilities) const {
  std::vector<std::string> absent;
  for (const Capability capability : capabilities) {
    if (Check(capability) == 0) absent.push_back(CapabilityName(capability));
  }
  if (absent.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("this host's KVM lacks ", absl::StrJoin(absent, ", ")));
}

absl::StatusOr<CpuidTable> System::SupportedCpuid() const {
  for (size_t capacity = 128; capacity <= kMaxEntries; capacity *= 2) {
    FlexBuffer<kvm_cpuid2, kvm_cpuid_entry2> buffer(capacity);
    buffer.header()->nent = static_cast<uint32_t>(capacity);
    if (KvmIoctlFlex<KVM_GET_SUPPORTED_CPUID>(fd_.get(), buffer) == 0) {
      const auto entries = buffer.entries().first(std::min<size_t>(buffer.header()->nent, capacity));
      return CpuidTable(entries.begin(), entries.end());
    }
    if (errno != E2BIG) break;
  }
  return ErrnoToStatus(errno, "KVM_GET_SUPPORTED_CPUID");
}

absl::StatusOr<std::vector<uint32_t>> System::MsrIndices() const {
  for (size_t capacity = 256; capacity <= kMaxEntries; capacity *= 2) {
    FlexBuffer<kvm_msr_list, uint32_t> buffer(capacity);
    buffer.header()->nmsrs = static_cast<uint32_t>(capacity);
    if (KvmIoctlFlex<KVM_GET_MSR_INDEX_LIST>(fd_.get(), buffer) == 0) {
      const auto entries = buffer.entries().first(std::min<size_t>(buffer.header()->nmsrs, capacity));
      return std::vector<uint32_t>(entries.begin(), entries.end());
    }
    if (errno != E2BIG) break;
  }
  return ErrnoToStatus(errno, "KVM_GET_MSR_INDEX_LIST");
}

absl::StatusOr<UniqueFd> System::CreateVmFd() const {
  int fd;
  do {
    fd = KvmIoctlValue<KVM_CREATE_VM>(fd_.get(), 0);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return ErrnoToStatus(errno, "KVM_CREATE_VM");
  return UniqueFd(fd);
}

}  // namespace sluice::kvm
