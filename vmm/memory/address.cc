#include "vmm/memory/address.h"

#include "absl/strings/str_format.h"

namespace sluice::memory {

std::string Hex(uint64_t value) {
  return absl::StrFormat("0x%x", value);
}

}  // namespace sluice::memory
