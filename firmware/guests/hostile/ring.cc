// Attacks on a context's ring: real frames of a real program, mutated; a header that lies; doorbells and kicks without
// end; the ground pulled away while the worker is at work.
#include <string.h>

#include "firmware/guests/hostile/attack.h"
#include "firmware/lib/clock.h"
#include "firmware/lib/cpu.h"
#include "firmware/vulkan/vulkan_context.h"
#include "tests/scenes/compute_scene.h"
#include "tests/scenes/triangle_scene.h"

namespace sluice::firmware {
namespace {

constexpr uint32_t kRingBytes = 256 * 1024;
constexpr uint32_t kMaxFrames = 256;

struct Recorded {
  const uint8_t* frame;  // header first
  uint64_t bytes;
};

// Runs a small honest program, so that the ring holds frames worth mutating and the worker objects worth hitting. It
// must fit in the ring without wrapping.
void RunHonestProgram(Attack* attack) {
  scenes::SceneDevice device;
  if (!device.Open({}).ok()) return;
  if (attack->OneIn(2)) {
    scenes::TriangleScene scene;
    if (scene.Create(&device, 32).ok()) scene.Render(static_cast<uint32_t>(attack->Below(60)));
  } else {
    scenes::ComputeScene scene;
    if (scene.Create(&device, 256).ok()) scene.Run();
  }
}

uint32_t Collect(const uint8_t* commands, uint64_t end, Recorded* frames) {
  uint32_t count = 0;
  for (uint64_t at = 0; at + sizeof(wire::FrameHeader) <= end && count < kMaxFrames;) {
    wire::FrameHeader header;
    memcpy(&header, commands + at, sizeof(header));
    const uint64_t bytes = wire::FrameBytes(header.size);
    if (bytes > end - at) break;
    frames[count++] = {commands + at, bytes};
    at += bytes;
  }
  return count;
}

}  // namespace

void AttackRing(Attack* attack) {
  KeepPciFunction keep;
  Gpu gpu;
  GpuOptions options;
  options.timeout_ns = 500'000'000;
  options.reset_timeout_ns = 200'000'000;
  if (!gpu.Open(options)) return;
  VulkanContext vulkan(&gpu);
  const auto context = static_cast<uint32_t>(1 + attack->Below(3));
  if (!vulkan.Open({.name = "hostile", .context = context, .ring_bytes = kRingBytes})) return;
  RunHonestProgram(attack);

  // Keep a copy of what was sent; the ring itself is about to be overwritten.
  const wire::RingLayout layout = {kRingBytes};
  auto* ring = reinterpret_cast<uint8_t*>(vulkan.ring_header());
  uint8_t* commands = ring + layout.command_offset();
  const uint64_t sent = vulkan.channel().position();
  const uint64_t recorded_bytes = sent < layout.command_bytes() ? sent : layout.command_bytes();
  memcpy(attack->scratch(), commands, recorded_bytes);
  static Recorded frames[kMaxFrames];
  const uint32_t count = Collect(attack->scratch(), recorded_bytes, frames);

  wire::RingHeader* header = vulkan.ring_header();
  uint64_t head = sent;
  uint64_t n = 30 + attack->Below(200);
  while (attack->Go(&n) && !gpu.dead()) {
    switch (attack->Below(10)) {
      case 0:
      case 1:
      case 2:
      case 3: {  // a frame, nearly right
        if (count == 0) break;
        const Recorded& pick = frames[attack->Below(count)];
        const uint64_t to_end = layout.command_bytes() - (head & (layout.command_bytes() - 1));
        if (pick.bytes > to_end) {
          const wire::FrameHeader pad = {wire::kOpcodePad, 0, static_cast<uint32_t>(to_end - sizeof(wire::FrameHeader)),
                                         0};
          memcpy(commands + (head & (layout.command_bytes() - 1)), &pad, sizeof(pad));
          head += to_end;
        }
        uint8_t* place = commands + (head & (layout.command_bytes() - 1));
        memcpy(place, pick.frame, pick.bytes);
        if (!attack->OneIn(4))
          attack->Mutate(place + sizeof(wire::FrameHeader), pick.bytes - sizeof(wire::FrameHeader));
        if (attack->OneIn(6)) attack->Mutate(place, sizeof(wire::FrameHeader));
        if (attack->OneIn(8)) {
          auto opcode = static_cast<uint16_t>(attack->OneIn(2) ? attack->Odd64() : 16 + attack->Below(128));
          memcpy(place, &opcode, sizeof(opcode));
        }
        head += pick.bytes;
        header->command_head.store(head);
        break;
      }
      case 4:  // positions that cannot be
        if (attack->OneIn(4))
          header->command_head.store(attack->OneIn(2) ? attack->Odd64() : head + attack->Below(4096));
        if (attack->OneIn(4)) header->command_tail.store(attack->Odd64());
        if (attack->OneIn(4)) header->reply_head.store(attack->Odd64());
        if (attack->OneIn(4)) header->reply_tail.store(attack->Odd64());
        break;
      case 5:  // the header as such
        if (attack->OneIn(2)) {
          attack->Mutate(ring, sizeof(wire::RingHeader));
        } else {
          header->consumer_sleeping.store(attack->Odd32());
        }
        break;
      case 6:  // under the worker's eyes
        attack->Mutate(attack->OneIn(2) ? commands : ring, attack->OneIn(2) ? layout.command_bytes() : kRingBytes);
        break;
      case 7:
        for (uint64_t i = attack->Below(16); i > 0; i--) vulkan.RingDoorbell();
        break;
      case 8: {
        const Ticket fence = vulkan.Fence(static_cast<uint32_t>(attack->Below(attack->OneIn(4) ? 256 : 3)),
                                          attack->OneIn(3) ? attack->Odd64() : head);
        if (attack->OneIn(4)) gpu.Wait(fence, NowNs() + 2'000'000);
        gpu.Take(fence);
        break;
      }
      default:  // the ground
        if (!attack->OneIn(8)) break;
        if (attack->OneIn(2)) {
          gpu.DestroyContext(context);
        } else {
          gpu.Unref(static_cast<uint32_t>(1 + attack->Below(8)));
        }
        // The ring's memory may be gone from the window now; touching it further only exercises the hole.
        n = n < 8 ? n : 8;
    }
  }
}

}  // namespace sluice::firmware
