// The control queues (virtio 1.2 section 5.3.6.2).
#include <algorithm>

#include "devices/console/device.h"
#include "devices/console/port.h"
#include "vmm/base/log.h"

namespace sluice::console {
namespace {

constexpr uint32_t kMessagesPerTurn = 64;

}  // namespace

void ConsoleDevice::DrainControl(uint32_t unused) {
  virtio::Queue* const from = queue(kControlTransmitQueue);
  if (from == nullptr || !from->status().ok()) return;
  const absl::StatusOr<bool> more = from->Drain(kMessagesPerTurn, [&](virtio::DescriptorChain chain) {
    const absl::StatusOr<ControlMessage> message = chain.ReadObject<ControlMessage>(0);
    from->Complete(std::move(chain), 0).IgnoreError();
    if (message.ok()) HandleControl(*message);
  });
  Interrupt(kControlTransmitQueue);
  SendControl(0);
  if (!more.ok()) {
    BreakQueue(kControlTransmitQueue, more.status());
  } else if (*more) {
    Later(&ConsoleDevice::DrainControl, 0);
  }
}

void ConsoleDevice::HandleControl(const ControlMessage& message) {
  if (!multiport()) return;
  if (message.event == kDeviceReady) {
    for (const std::unique_ptr<Port>& port : ports_) port->tell_add = message.value == 1;
    return;
  }
  if (message.id >= ports_.size()) {
    SLUICE_LOG_GUEST(warn, "virtio-console: message {} about port {}", message.event, message.id);
    return;
  }
  Port& port = *ports_[message.id];
  switch (message.event) {
    case kPortReady:
      if (message.value != 1) return;  // the driver could not make the port
      port.tell_console = port.tell_resize = port.console;
      port.tell_name = !port.name.empty();
      port.tell_open = true;
      return;
    case kPortOpen: {
      const bool open = message.value != 0;
      if (port.guest_open == open) return;
      port.guest_open = open;
      if (options_.on_guest_open != nullptr) options_.on_guest_open(message.id, open);
      if (open) Later(&ConsoleDevice::Input, message.id);
      return;
    }
    default:
      SLUICE_LOG_GUEST(warn, "virtio-console: unknown message {}", message.event);
  }
}

// What the driver is to be told is state, not a list: it stays bounded whatever the driver does.
void ConsoleDevice::SendControl(uint32_t unused) {
  virtio::Queue* const to = queue(kControlReceiveQueue);
  if (to == nullptr || !multiport()) return;
  const auto waits = [](const std::unique_ptr<Port>& p) {
    return p->tell_add || p->tell_console || p->tell_name || p->tell_resize || p->tell_open;
  };
  while (std::any_of(ports_.begin(), ports_.end(), waits)) {
    std::optional<virtio::DescriptorChain> chain = NextChain(kControlReceiveQueue);
    if (!chain.has_value()) break;
    uint64_t written = 0;
    if (!WriteControl(*chain, &written)) {
      BreakQueue(kControlReceiveQueue, absl::InvalidArgumentError("a control buffer is shorter than a message"));
      break;
    }
    to->Complete(*std::move(chain), written).IgnoreError();
  }
  Interrupt(kControlReceiveQueue);
}

// Writes the first message that waits. Precondition: one does. False: the buffer is too short.
bool ConsoleDevice::WriteControl(const virtio::DescriptorChain& chain, uint64_t* written) {
  if (chain.WritableSize() < sizeof(ControlMessage) + sizeof(ControlSize)) return false;
  for (uint32_t id = 0; id < ports_.size(); ++id) {
    Port& port = *ports_[id];
    ControlMessage message{.id = id, .event = 0, .value = 1};
    std::vector<uint8_t> tail;
    if (port.tell_add) {
      port.tell_add = false;
      message.event = kPortAdd;
    } else if (port.tell_console) {
      port.tell_console = false;
      message.event = kConsolePort;
    } else if (port.tell_name) {
      port.tell_name = false;
      message.event = kPortName;
      tail.assign(port.name.begin(), port.name.end());
      tail.resize(std::min<uint64_t>(tail.size(), chain.WritableSize() - sizeof(message)));
    } else if (port.tell_resize) {
      port.tell_resize = false;
      message.event = kResize;
      ControlSize size;
      {
        MutexLock lock(&config_mu_);
        size = {.rows = rows_, .cols = cols_};
      }
      tail = {static_cast<uint8_t>(size.rows), static_cast<uint8_t>(size.rows >> 8), static_cast<uint8_t>(size.cols),
              static_cast<uint8_t>(size.cols >> 8)};
    } else if (port.tell_open) {
      port.tell_open = false;
      message.event = kPortOpen;
      message.value = port.descriptor.is_open() ? 1 : 0;
    } else {
      continue;
    }
    chain.WriteObject(0, message).IgnoreError();
    chain.Write(sizeof(message), tail).IgnoreError();
    *written = sizeof(message) + tail.size();
    return true;
  }
  return true;
}

}  // namespace sluice::console
