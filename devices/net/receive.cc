// Frames from the back end to the driver.
#include <algorithm>
#include <cstring>
#include <utility>

#include "devices/net/device.h"

namespace sluice::net {
namespace {

// Frames handled before others on the loop get a turn.
constexpr int kFramesPerTurn = 64;

}  // namespace

void NetDevice::Receive() {
  if (queue(kReceiveQueue) == nullptr || !backend_alive_) return;
  bool more = true;
  for (int i = 0; more && i < kFramesPerTurn; ++i) {
    more = (received_bytes_ != 0 || FetchFrame() == Step::kDone) && DeliverFrame() == Step::kDone;
  }
  Interrupt(kReceiveQueue);
  if (more) Later(&NetDevice::Receive);
}

// kDone: a frame was fetched, or one was dropped (received_bytes_ is then 0). kWait: something will call Receive.
NetDevice::Step NetDevice::FetchFrame() {
  if (!cable_) {
    // Frames that arrive meanwhile are lost, as they are without a cable.
    const absl::StatusOr<std::optional<size_t>> lost = options_.backend->Receive(absl::MakeSpan(received_));
    if (!lost.ok()) {
      LoseBackend(lost.status());
      return Step::kWait;
    }
    if (lost->has_value()) {
      ++counters_.rx_dropped;
      return Step::kDone;
    }
    AwaitReadable();
    return Step::kWait;
  }
  if (gathered_.empty() && !GatherBuffer()) return Step::kWait;
  if (Delay(receive_timer_, receive_limit_, &NetDevice::Receive)) return Step::kWait;
  const absl::StatusOr<std::optional<size_t>> size = options_.backend->Receive(absl::MakeSpan(received_));
  if (!size.ok()) {
    LoseBackend(size.status());
    return Step::kWait;
  }
  if (!size->has_value()) {
    AwaitReadable();
    return Step::kWait;
  }
  FrameHeader header;
  std::memcpy(&header, received_.data(), sizeof(header));
  // A tap may still hold frames from before the driver gave an offload up.
  const bool unwanted = (header.flags & kHeaderNeedsCsum) != 0 && (guest_offloads_ & kFeatureGuestCsum) == 0;
  const bool segmented = header.gso_type != kGsoNone;
  const bool unwanted_segments = segmented && (guest_offloads_ & (kFeatureGuestTso4 | kFeatureGuestTso6)) == 0;
  if (**size == 0 || unwanted || unwanted_segments || (!segmented && **size > LongestFrame())) {
    ++counters_.rx_dropped;
    return Step::kDone;
  }
  receive_limit_.Take(**size);
  received_bytes_ = **size;
  return Step::kDone;
}

bool NetDevice::GatherBuffer() {
  std::optional<virtio::DescriptorChain> chain = NextChain(kReceiveQueue);
  if (!chain.has_value()) return false;
  if (gathered_.empty() && chain->WritableSize() < kHeaderBytes) {
    BreakQueue(kReceiveQueue, absl::InvalidArgumentError("a receive buffer is shorter than a header"));
    queue(kReceiveQueue)->Complete(*std::move(chain), 0).IgnoreError();
    return false;
  }
  gathered_bytes_ += chain->WritableSize();
  gathered_.push_back(*std::move(chain));
  return true;
}

NetDevice::Step NetDevice::DeliverFrame() {
  if (received_bytes_ == 0) return Step::kDone;
  virtio::Queue& to = *queue(kReceiveQueue);
  const bool merge = (activation_->features & kFeatureMrgRxbuf) != 0;
  const size_t total = kHeaderBytes + received_bytes_;
  while (gathered_bytes_ < total) {
    if (!gathered_.empty() && (!merge || gathered_.size() >= to.size())) {
      // It never fits. The buffers serve for the next frame.
      ++counters_.rx_dropped;
      received_bytes_ = 0;
      return Step::kDone;
    }
    if (!GatherBuffer()) return Step::kWait;
  }
  // The buffers that this frame needs: all but those that a longer, dropped one left.
  size_t count = 0;
  for (uint64_t room = 0; room < total; ++count) room += gathered_[count].WritableSize();
  const auto num_buffers = static_cast<uint16_t>(count);
  std::memcpy(received_.data() + kHeaderNumBuffers, &num_buffers, sizeof(num_buffers));

  size_t done = 0;
  for (size_t i = 0; i < count; ++i) {
    virtio::DescriptorChain& chain = gathered_[i];
    const uint64_t room = chain.WritableSize();
    const size_t bytes = std::min<uint64_t>(room, total - done);
    chain.Write(0, absl::MakeConstSpan(received_).subspan(done, bytes)).IgnoreError();
    to.Complete(std::move(chain), bytes).IgnoreError();
    done += bytes;
    gathered_bytes_ -= room;
  }
  gathered_.erase(gathered_.begin(), gathered_.begin() + static_cast<std::ptrdiff_t>(count));
  ++counters_.rx_frames;
  counters_.rx_bytes += received_bytes_;
  received_bytes_ = 0;
  return Step::kDone;
}

void NetDevice::AwaitReadable() {
  if (awaiting_readable_) return;
  awaiting_readable_ = true;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = std::weak_ptr<NetDevice*>(self_)](asio::error_code error) {
                           const std::shared_ptr<NetDevice*> device = self.lock();
                           if (device == nullptr) return;
                           (*device)->awaiting_readable_ = false;
                           if (!error) (*device)->Receive();
                         });
}

}  // namespace sluice::net
