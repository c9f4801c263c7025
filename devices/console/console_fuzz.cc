// Fuzzes virtio-console from its untrusted side, a guest that owns all queues, with hosts that come, go and stop
// reading.
//
// Threat model: a guest controls every byte of its rings, buffers and control messages and when it resets the device.
// It may not crash the VM process, make it hold more than its ports' buffers, or keep the loop busy for ever.
//
// Grammar of an input: a byte that chooses features and policy, then steps, each one byte of kind and what the kind
// takes (missing bytes read as 0).
//   0 control message   1 raw control bytes   2 control buffers   3 output   4 input buffer   5 host writes
//   6 host reads   7 host closes   8 host reconnects   9 size   10 reset   11 poke a descriptor and publish it
//   12 read configuration
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>

#include "devices/console/testing/console_driver.h"
#include "vmm/virtio/testing/byte_source.h"

namespace sluice::console {
namespace {

using testing::ConsoleDriver;
using virtio::testing::ByteSource;

constexpr uint32_t kPorts = 3;

ConsoleDriver::Options FuzzOptions(uint8_t kind) {
  ConsoleDriver::Options options;
  options.ports = kPorts;
  if ((kind & 1) != 0) options.features &= ~kFeatureMultiport;
  options.discard_when_full = (kind & 2) != 0;
  options.buffer_bytes = (kind & 4) != 0 ? 64 : 4096;
  options.ram_per_queue = 128 << 10;
  return options;
}

// `*sound` becomes false when the driver stops keeping account of its chains.
void Step(ConsoleDriver& guest, ByteSource& in, bool* sound) {
  const uint8_t kind = in.Byte() % 13;
  switch (kind) {
    case 0: {
      ControlMessage message;
      message.id = in.Byte() % (kPorts + 1);
      message.event = in.Byte() % 9;
      message.value = in.Byte() % 3;
      return guest.SendControl(message);
    }
    case 1: {
      const auto bytes = in.Bytes(1 + in.Byte() % 16);
      guest.queue(kControlTransmitQueue).Chain().Readable(bytes).Submit().status().IgnoreError();
      guest.device().QueueNotified(kControlTransmitQueue);
      return guest.Pump();
    }
    case 2: {
      const int count = in.Byte() % 8;
      return guest.PostControl(count, 1 + in.Byte());
    }
    case 3: {
      const uint32_t port = in.Byte() % kPorts;
      guest.Send(port, std::string(1 + in.U16() % 9000, 'o'));
      return;
    }
    case 4: {
      const uint32_t port = in.Byte() % kPorts;
      guest.PostInput(port, 1 + in.Byte());
      return;
    }
    case 5: {
      const uint32_t port = in.Byte() % kPorts;
      guest.HostWrite(port, std::string(1 + in.Byte(), 'i'));
      return;
    }
    case 6:
      guest.HostRead(in.Byte() % kPorts);
      return;
    case 7:
      guest.HostClose(in.Byte() % kPorts);
      return guest.Pump();
    case 8:
      guest.Reconnect(in.Byte() % kPorts).IgnoreError();
      return;
    case 9: {
      const uint16_t cols = in.U16();
      guest.device().SetSize(cols, in.U16());
      return;
    }
    case 10:
      return guest.Reset();
    case 11: {
      *sound = false;
      const uint16_t queue = in.Byte() % (2 * kPorts + 2);
      const auto index = static_cast<uint16_t>(in.Byte() % 32);
      guest.queue(queue).WriteDescriptor(index, {in.U32(), in.U32(), in.Byte(), in.Byte()});
      guest.queue(queue).Publish(index);
      guest.device().QueueNotified(queue);
      return guest.Pump();
    }
    default: {
      std::vector<uint8_t> to(1 + in.Byte() % 8);
      guest.device().ReadConfig(in.U64(), absl::MakeSpan(to));
    }
  }
}

}  // namespace
}  // namespace sluice::console

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::console;
  spdlog::set_level(spdlog::level::off);
  sluice::virtio::testing::ByteSource in(data, size);
  testing::ConsoleDriver guest(FuzzOptions(in.Byte()));
  bool sound = true;
  for (int steps = 0; !in.empty() && steps < 300; ++steps) Step(guest, in, &sound);
  if (guest.needs_reset() || !sound) return 0;
  // A sound driver that the host listens to gets every output chain back.
  for (uint32_t port = 0; port < kPorts; ++port) {
    guest.HostRead(port);
    if (guest.device().host_connected(port) && guest.Unsent(port) != 0) {
      std::fprintf(stderr, "console_fuzz: port %u keeps %zu chains\n", port, guest.Unsent(port));
      std::abort();
    }
  }
  return 0;
}
