#include "vmm/pci/config_space.h"

#include "absl/strings/str_cat.h"

namespace sluice::pci {

uint16_t ConfigSpace::Get16(uint16_t offset) const {
  return static_cast<uint16_t>(bytes_[offset] | (bytes_[offset + 1] << 8));
}

uint32_t ConfigSpace::Get32(uint16_t offset) const {
  return Get16(offset) | (uint32_t{Get16(static_cast<uint16_t>(offset + 2))} << 16);
}

void ConfigSpace::Set16(uint16_t offset, uint16_t value) {
  bytes_[offset] = static_cast<uint8_t>(value);
  bytes_[offset + 1] = static_cast<uint8_t>(value >> 8);
}

void ConfigSpace::Set32(uint16_t offset, uint32_t value) {
  Set16(offset, static_cast<uint16_t>(value));
  Set16(static_cast<uint16_t>(offset + 2), static_cast<uint16_t>(value >> 16));
}

void ConfigSpace::SetWritable16(uint16_t offset, uint16_t mask) {
  masks_[offset] = static_cast<uint8_t>(mask);
  masks_[offset + 1] = static_cast<uint8_t>(mask >> 8);
}

void ConfigSpace::SetWritable32(uint16_t offset, uint32_t mask) {
  SetWritable16(offset, static_cast<uint16_t>(mask));
  SetWritable16(static_cast<uint16_t>(offset + 2), static_cast<uint16_t>(mask >> 16));
}

absl::StatusOr<uint8_t> ConfigSpace::AddCapability(uint8_t id, absl::Span<const uint8_t> body) {
  const uint16_t offset = next_capability_;
  const size_t size = 2 + body.size();
  if (size > kConfigSpaceBytes || offset + size > kConfigSpaceBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("capability ", id, " of ", size, " bytes does not fit into configuration space"));
  }
  Set8(offset, id);
  Set8(static_cast<uint16_t>(offset + 1), 0);
  for (size_t i = 0; i < body.size(); ++i) bytes_[offset + 2 + i] = body[i];
  Set8(last_link_, static_cast<uint8_t>(offset));
  Set16(kRegStatus, Get16(kRegStatus) | kStatusCapabilities);
  last_link_ = static_cast<uint16_t>(offset + 1);
  next_capability_ = static_cast<uint16_t>((offset + size + 3) & ~size_t{3});
  return static_cast<uint8_t>(offset);
}

void ConfigSpace::Read(uint16_t offset, absl::Span<uint8_t> to) const {
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t at = offset + i;
    to[i] = at < bytes_.size() ? bytes_[at] : 0xff;
  }
}

void ConfigSpace::Write(uint16_t offset, absl::Span<const uint8_t> from) {
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t at = offset + i;
    if (at >= bytes_.size()) return;
    bytes_[at] = static_cast<uint8_t>((bytes_[at] & ~masks_[at]) | (from[i] & masks_[at]));
  }
}

}  // namespace sluice::pci
