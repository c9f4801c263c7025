#include "vmm/machine/ioapic.h"

#include <algorithm>
#include <utility>

namespace sluice::machine {
namespace {

// The register window.
constexpr uint64_t kSelect = 0x00;
constexpr uint64_t kData = 0x10;
// Indirect registers.
constexpr uint32_t kRegId = 0;
constexpr uint32_t kRegVersion = 1;
constexpr uint32_t kRegArbitration = 2;
constexpr uint32_t kRegRedirection = 0x10;
constexpr uint32_t kVersion = 0x11 | ((kIoapicPins - 1) << 16);
// Redirection table entry.
constexpr uint64_t kVectorMask = 0xff;
constexpr uint64_t kDeliveryModeMask = 0x700;
constexpr uint64_t kLogicalDestination = 1 << 11;
constexpr uint64_t kReadOnlyBits = (1 << 12) | (1 << 14);  // delivery status, remote IRR
constexpr uint64_t kLevelTriggered = 1 << 15;
constexpr uint64_t kMasked = 1 << 16;
constexpr uint32_t kDestinationShift = 56;

// The MSI that an entry stands for (Intel SDM vol. 3, "Message Signalled Interrupts").
kvm::MsiMessage ToMessage(uint64_t entry) {
  kvm::MsiMessage message;
  message.address = 0xfee0'0000 | ((entry >> kDestinationShift) << 12);
  if ((entry & kLogicalDestination) != 0) message.address |= 1 << 2;
  message.data = static_cast<uint32_t>(entry & (kVectorMask | kDeliveryModeMask));
  if ((entry & kLevelTriggered) != 0) message.data |= (1 << 15) | (1 << 14);
  return message;
}

uint32_t FromBytes(absl::Span<const uint8_t> bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < std::min<size_t>(bytes.size(), 4); ++i) value |= uint32_t{bytes[i]} << (8 * i);
  return value;
}

}  // namespace

Ioapic::Ioapic(std::function<void(const kvm::MsiMessage&)> deliver) : deliver_(std::move(deliver)) {
  entries_.fill(kMasked);
}

void Ioapic::Reset() {
  const MutexLock lock(&mu_);
  entries_.fill(kMasked);
  select_ = 0;
  id_ = 0;
}

void Ioapic::SetLine(uint32_t pin, bool level) {
  if (pin >= kIoapicPins) return;
  const MutexLock lock(&mu_);
  const uint32_t bit = uint32_t{1} << pin;
  const bool rising = level && (lines_ & bit) == 0;
  lines_ = level ? lines_ | bit : lines_ & ~bit;
  if (rising && (entries_[pin] & kMasked) == 0) deliver_(ToMessage(entries_[pin]));
}

uint32_t Ioapic::ReadRegister(uint32_t index) const {
  if (index == kRegId || index == kRegArbitration) return id_;
  if (index == kRegVersion) return kVersion;
  if (index < kRegRedirection || index >= kRegRedirection + 2 * kIoapicPins) return 0;
  const uint64_t entry = entries_[(index - kRegRedirection) / 2];
  return static_cast<uint32_t>((index & 1) != 0 ? entry >> 32 : entry);
}

void Ioapic::WriteRegister(uint32_t index, uint32_t value) {
  if (index == kRegId) id_ = value & 0x0f00'0000;
  if (index < kRegRedirection || index >= kRegRedirection + 2 * kIoapicPins) return;
  uint64_t& entry = entries_[(index - kRegRedirection) / 2];
  entry = (index & 1) != 0 ? (entry & 0xffff'ffff) | (uint64_t{value} << 32) : (entry & ~uint64_t{0xffff'ffff}) | value;
  entry &= ~kReadOnlyBits;
}

void Ioapic::Read(uint64_t offset, absl::Span<uint8_t> to) {
  std::fill(to.begin(), to.end(), 0);
  if (to.size() != 4) return;
  const MutexLock lock(&mu_);
  const uint32_t value = offset == kSelect ? select_ : offset == kData ? ReadRegister(select_) : 0;
  for (size_t i = 0; i < 4; ++i) to[i] = static_cast<uint8_t>(value >> (8 * i));
}

void Ioapic::Write(uint64_t offset, absl::Span<const uint8_t> from) {
  if (from.size() != 4) return;
  const MutexLock lock(&mu_);
  if (offset == kSelect) select_ = FromBytes(from) & 0xff;
  if (offset == kData) WriteRegister(select_, FromBytes(from));
}

}  // namespace sluice::machine
