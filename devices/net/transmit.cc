// Frames from the driver to the back end.
#include <cstring>
#include <utility>

#include "devices/net/device.h"
#include "devices/net/offload.h"
#include "vmm/base/log.h"

namespace sluice::net {
namespace {

// Frames handled before others on the loop get a turn.
constexpr int kFramesPerTurn = 64;

}  // namespace

void NetDevice::Transmit() {
  virtio::Queue* const from = queue(kTransmitQueue);
  if (from == nullptr || (awaiting_writable_ && link_up_)) return;
  bool more = false;
  for (int i = 0; i < kFramesPerTurn; ++i) {
    more = false;
    if (!held_.has_value()) {
      held_ = NextChain(kTransmitQueue);
      if (!held_.has_value()) break;
      if (!LoadFrame(*held_)) sent_bytes_ = 0;
    }
    if (sent_bytes_ == 0 || !link_up_) {
      ++counters_.tx_dropped;
    } else {
      const uint64_t frame = sent_bytes_ - kHeaderBytes;
      if (Delay(transmit_timer_, transmit_limit_, &NetDevice::Transmit)) break;
      const absl::StatusOr<bool> sent = options_.backend->Send(absl::MakeConstSpan(sent_).subspan(0, sent_bytes_));
      if (!sent.ok()) {
        ++counters_.tx_dropped;
        LoseBackend(sent.status());
      } else if (!*sent) {
        AwaitWritable();
        break;
      } else {
        transmit_limit_.Take(frame);
        ++counters_.tx_frames;
        counters_.tx_bytes += frame;
      }
    }
    from->Complete(*std::exchange(held_, std::nullopt), 0).IgnoreError();
    more = true;
  }
  Interrupt(kTransmitQueue);
  if (more) Later(&NetDevice::Transmit);
}

// Copies header and frame out of the guest, and checks the copy. False: drop it.
bool NetDevice::LoadFrame(const virtio::DescriptorChain& chain) {
  const uint64_t total = chain.ReadableSize();
  if (total < kHeaderBytes + kEthernetHeaderBytes || total > kHeaderBytes + kMaxFrameBytes) {
    SLUICE_LOG_GUEST(warn, "virtio-net: a frame of {} bytes with its header", total);
    return false;
  }
  if (!chain.Read(0, absl::MakeSpan(sent_).subspan(0, total)).ok()) return false;
  FrameHeader header;
  std::memcpy(&header, sent_.data(), sizeof(header));
  const uint64_t frame = total - kHeaderBytes;
  const absl::StatusOr<FrameHeader> clean = CheckHeader(header, frame, activation_->features);
  if (!clean.ok()) {
    SLUICE_LOG_GUEST(warn, "virtio-net: {}", std::string(clean.status().message()));
    return false;
  }
  if (clean->gso_type == kGsoNone && frame > LongestFrame()) {
    SLUICE_LOG_GUEST(warn, "virtio-net: a frame of {} bytes on a link with MTU {}", frame, options_.mtu);
    return false;
  }
  std::memcpy(sent_.data(), &*clean, sizeof(*clean));
  sent_bytes_ = total;
  return true;
}

void NetDevice::AwaitWritable() {
  if (awaiting_writable_) return;
  awaiting_writable_ = true;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_write,
                         [self = std::weak_ptr<NetDevice*>(self_)](asio::error_code error) {
                           const std::shared_ptr<NetDevice*> device = self.lock();
                           if (device == nullptr) return;
                           (*device)->awaiting_writable_ = false;
                           if (!error) (*device)->Transmit();
                         });
}

}  // namespace sluice::net
