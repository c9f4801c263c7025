// The control queue (virtio 1.2 section 5.1.6.5).
#include <algorithm>
#include <array>
#include <cstring>

#include "devices/net/device.h"

namespace sluice::net {
namespace {

constexpr uint32_t kCommandsPerTurn = 16;
constexpr uint64_t kCommandBytes = 2;  // class and command; data follows

}  // namespace

void NetDevice::DrainControl() {
  virtio::Queue* const from = queue(kControlQueue);
  if (from == nullptr || !from->status().ok()) return;
  const absl::StatusOr<bool> more = from->Drain(kCommandsPerTurn, [&](virtio::DescriptorChain chain) {
    // A command without room for its answer is not carried out.
    if (chain.WritableSize() == 0) {
      from->Complete(std::move(chain), 0).IgnoreError();
      return;
    }
    const uint8_t answer = Control(chain);
    chain.WriteObject(0, answer).IgnoreError();
    from->Complete(std::move(chain), sizeof(answer)).IgnoreError();
  });
  Interrupt(kControlQueue);
  if (!more.ok()) {
    BreakQueue(kControlQueue, more.status());
  } else if (*more) {
    Later(&NetDevice::DrainControl);
  }
}

uint8_t NetDevice::Control(const virtio::DescriptorChain& chain) {
  const absl::StatusOr<std::array<uint8_t, kCommandBytes>> command =
      chain.ReadObject<std::array<uint8_t, kCommandBytes>>(0);
  if (!command.ok()) return kControlError;
  const uint64_t features = activation_->features;
  const uint64_t data_bytes = chain.ReadableSize() - kCommandBytes;
  switch ((*command)[0]) {
    case kControlRx:
      // The device filters nothing, which every mode permits (section 5.1.6.5.1).
      return (features & kFeatureCtrlRx) != 0 && (*command)[1] < kControlRxCommands && data_bytes >= 1 ? kControlOk
                                                                                                       : kControlError;
    case kControlMac: {
      if ((*command)[1] == kControlMacTableSet) return (features & kFeatureCtrlRx) != 0 ? kControlOk : kControlError;
      if ((*command)[1] != kControlMacAddrSet || (features & kFeatureCtrlMacAddr) == 0) return kControlError;
      const absl::StatusOr<MacAddress> mac = chain.ReadObject<MacAddress>(kCommandBytes);
      if (!mac.ok() || ((*mac)[0] & 1) != 0) return kControlError;
      MutexLock lock(&config_mu_);
      mac_ = *mac;
      return kControlOk;
    }
    case kControlGuestOffloads: {
      if ((*command)[1] != kControlGuestOffloadsSet || (features & kFeatureCtrlGuestOffloads) == 0) {
        return kControlError;
      }
      const absl::StatusOr<uint64_t> wanted = chain.ReadObject<uint64_t>(kCommandBytes);
      if (!wanted.ok() || (*wanted & ~(features & kGuestOffloads)) != 0) return kControlError;
      return SetGuestOffloads(*wanted).ok() ? kControlOk : kControlError;
    }
    default:
      return kControlError;
  }
}

}  // namespace sluice::net
