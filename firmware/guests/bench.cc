// Measures the way of commands and fences as a guest sees it, at CPL3, and prints `BENCH name value unit` lines.
// Options: rounds=N for latencies (default 1000), commands=N (default 500000), mib=N of ring payload (default 256).
//
//   doorbell_fence_*   a command in the ring, the doorbell of a sleeping worker, a fenced SUBMIT_3D, its interrupt,
//   guest awake submit_fence_*     a fenced SUBMIT_3D for what is executed already: control queue, worker and back,
//   interrupt call_*             a command with a reply through the rings alone, worker awake or not as it comes
//   queue_fence_*      an empty vkQueueSubmit with a VkFence, and vkWaitForFences
//   encode             vkCmd* calls recorded per second, sending included; execute: until the worker has replayed them
//   ring               payload bytes per second from vkCmdUpdateBuffer (64 KiB each) to the worker's having replayed
//   them
#include <string.h>

#include <algorithm>

#include "firmware/guests/scene_guest.h"
#include "firmware/lib/clock.h"
#include "firmware/lib/cpu.h"
#include "firmware/lib/interrupts.h"
#include "firmware/lib/runtime.h"
#include "firmware/lib/serial.h"

namespace sluice::firmware {
namespace {

class Samples {
 public:
  explicit Samples(uint32_t capacity) : values_(new uint64_t[capacity]) {}
  ~Samples() { delete[] values_; }
  Samples(const Samples&) = delete;
  Samples& operator=(const Samples&) = delete;
  void Add(uint64_t ns) { values_[count_++] = ns; }
  void Report(const char* name) {
    std::sort(values_, values_ + count_);
    Line(name, "p50", values_[count_ / 2]);
    Line(name, "p99", values_[count_ - 1 - count_ / 100]);
    count_ = 0;
  }

 private:
  static void Line(const char* name, const char* what, uint64_t ns) {
    Print("BENCH %s_%s %.2f us\n", name, what, static_cast<double>(ns) / 1000.0);
  }
  uint64_t* values_;
  uint32_t count_ = 0;
};

void Require(VkResult result, SceneGuest& guest, const char* what) {
  if (result != VK_SUCCESS) guest.Require(scenes::SceneStatus{what, result});
}

// Sleeps until the worker has executed everything sent so far.
void Drain(SceneGuest& guest) {
  const uint64_t position = guest.vulkan().channel().position();
  const Ticket fence = guest.vulkan().Fence(0, position);
  guest.gpu().Wait(fence, NowNs() + 60'000'000'000);
  guest.Require(guest.gpu().Take(fence), "fence");
  if (guest.vulkan().channel().lost()) guest.Require(scenes::SceneStatus{"context", VK_ERROR_DEVICE_LOST});
}

void WaitUntilWorkerSleeps(SceneGuest& guest) {
  const uint64_t deadline = NowNs() + 1'000'000'000;
  while (guest.vulkan().ring_header()->consumer_sleeping.load() == 0 && NowNs() < deadline) SleepNs(100'000);
}

void Latencies(SceneGuest& guest, uint32_t rounds) {
  const VkDevice device = guest.device().device();
  VkEvent event;
  VkEventCreateInfo event_info = {.sType = VK_STRUCTURE_TYPE_EVENT_CREATE_INFO};
  Require(vkCreateEvent(device, &event_info, nullptr, &event), guest, "vkCreateEvent");
  Samples samples(rounds);

  uint64_t doorbells = guest.vulkan().doorbells();
  for (uint32_t i = 0; i < rounds; i++) {
    WaitUntilWorkerSleeps(guest);
    const uint64_t begin = NowNs();
    Require(vkSetEvent(device, event), guest, "vkSetEvent");
    Drain(guest);
    samples.Add(NowNs() - begin);
  }
  doorbells = guest.vulkan().doorbells() - doorbells;
  samples.Report("doorbell_fence");
  Print("BENCH doorbells_per_round %.3f ratio\n", static_cast<double>(doorbells) / rounds);

  for (uint32_t i = 0; i < rounds; i++) {
    const uint64_t begin = NowNs();
    Drain(guest);
    samples.Add(NowNs() - begin);
  }
  samples.Report("submit_fence");

  for (uint32_t i = 0; i < rounds; i++) {
    const uint64_t begin = NowNs();
    Require(vkGetEventStatus(device, event) == VK_EVENT_SET ? VK_SUCCESS : VK_ERROR_DEVICE_LOST, guest,
            "vkGetEventStatus");
    samples.Add(NowNs() - begin);
  }
  samples.Report("call");
  vkDestroyEvent(device, event, nullptr);

  VkFence fence;
  VkFenceCreateInfo fence_info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  Require(vkCreateFence(device, &fence_info, nullptr, &fence), guest, "vkCreateFence");
  for (uint32_t i = 0; i < rounds; i++) {
    const uint64_t begin = NowNs();
    Require(vkQueueSubmit(guest.device().queue(), 0, nullptr, fence), guest, "vkQueueSubmit");
    Require(vkWaitForFences(device, 1, &fence, VK_TRUE, UINT64_MAX), guest, "vkWaitForFences");
    samples.Add(NowNs() - begin);
    vkResetFences(device, 1, &fence);
  }
  samples.Report("queue_fence");
  vkDestroyFence(device, fence, nullptr);
}

void Commands(SceneGuest& guest, uint32_t count) {
  scenes::SceneCommands commands;
  guest.Require(commands.Create(&guest.device()));
  guest.Require(commands.Begin());
  Drain(guest);
  const uint64_t begin = NowNs();
  for (uint32_t i = 0; i < count; i++) vkCmdSetDepthBias(commands.buffer(), 0.0f, 0.0f, static_cast<float>(i));
  const uint64_t encoded = NowNs();
  Require(vkEndCommandBuffer(commands.buffer()), guest, "vkEndCommandBuffer");
  Drain(guest);
  const uint64_t executed = NowNs();
  Print("BENCH encode %.3f Mcommands/s\n", count * 1e3 / static_cast<double>(encoded - begin));
  Print("BENCH execute %.3f Mcommands/s\n", count * 1e3 / static_cast<double>(executed - begin));
}

void Throughput(SceneGuest& guest, uint64_t mib) {
  constexpr uint32_t kPiece = 65536, kBatch = 256;
  static uint8_t data[kPiece];
  for (uint32_t i = 0; i < kPiece; i++) data[i] = static_cast<uint8_t>(i * 7);
  scenes::SceneBuffer buffer;
  guest.Require(buffer.Create(&guest.device(), kPiece, VK_BUFFER_USAGE_TRANSFER_DST_BIT));
  scenes::SceneCommands commands;
  guest.Require(commands.Create(&guest.device()));
  Drain(guest);
  const uint64_t pieces = (mib << 20) / kPiece;
  const uint64_t begin = NowNs();
  for (uint64_t done = 0; done < pieces; done += kBatch) {
    guest.Require(commands.Begin());
    for (uint32_t i = 0; i < kBatch; i++) vkCmdUpdateBuffer(commands.buffer(), buffer.buffer(), 0, kPiece, data);
    Require(vkEndCommandBuffer(commands.buffer()), guest, "vkEndCommandBuffer");
  }
  Drain(guest);
  const uint64_t ns = NowNs() - begin;
  const uint64_t bytes = (pieces + kBatch - 1) / kBatch * kBatch * kPiece;
  Print("BENCH ring %.3f GB/s\n", static_cast<double>(bytes) / static_cast<double>(ns));
}

}  // namespace

int GuestMain() {
  const auto rounds = static_cast<uint32_t>(OptionNumber("rounds", 1000, 10, 1'000'000));
  const auto count = static_cast<uint32_t>(OptionNumber("commands", 500'000, 1, 100'000'000));
  const uint64_t mib = OptionNumber("mib", 256, 16, 65536);
  SceneGuest guest("bench");
  Latencies(guest, rounds);
  Commands(guest, count);
  Throughput(guest, mib);
  guest.device().Close();
  Print("BENCH interrupts %llu count\n", static_cast<unsigned long long>(guest.gpu().interrupts()));
  return 0;
}

}  // namespace sluice::firmware
