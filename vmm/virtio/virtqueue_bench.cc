// How many requests a second pass through a virtqueue on one thread: the driver's share (a FakeDriver's) included, and
// without.
#include <benchmark/benchmark.h>

#include <array>

#include "vmm/virtio/queue.h"
#include "vmm/virtio/testing/fake_driver.h"

namespace sluice::virtio {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;
using testing::FakeDriver;

// The device alone: the same descriptors are made available again by moving the index, which costs one store.
void PopComplete(benchmark::State& state, uint32_t pieces, bool indirect) {
  const GuestMemory ram = *GuestMemory::CreateSimple(8 << 20);
  constexpr uint16_t kSize = 256;
  FakeDriver driver = *FakeDriver::Create(ram, {.size = kSize, .event_idx = true});
  {
    auto builder = driver.Chain();
    const std::array<uint8_t, 64> request = {};
    for (uint32_t i = 0; i + 1 < pieces; ++i) builder.Readable(request);
    builder.Writable(24);
    if (indirect) builder.Indirect();
    if (!builder.Submit().ok()) return state.SkipWithError("the chain does not fit");
  }
  for (uint16_t i = 0; i < kSize; ++i) {
    ram.Write<uint16_t>(GuestAddress(driver.layout().driver_area.value() + kRingEntries + 2 * i), 0).IgnoreError();
  }
  Queue queue = *Queue::Create(ram, driver.layout());
  uint16_t idx = 1;
  for (auto _ : state) {
    ram.Store<uint16_t>(GuestAddress(driver.layout().driver_area.value() + kRingIdx), idx++).IgnoreError();
    auto chain = queue.Pop();
    benchmark::DoNotOptimize(queue.Complete(**std::move(chain), 24).ok());
    benchmark::DoNotOptimize(queue.NeedsInterrupt());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(PopComplete, direct_2, 2, false);
BENCHMARK_CAPTURE(PopComplete, indirect_2, 2, true);
BENCHMARK_CAPTURE(PopComplete, direct_16, 16, false);
BENCHMARK_CAPTURE(PopComplete, indirect_256, 256, true);

// Request and response through the rings, batches of `state.range(0)`.
void RoundTrip(benchmark::State& state) {
  const GuestMemory ram = *GuestMemory::CreateSimple(8 << 20);
  FakeDriver driver = *FakeDriver::Create(ram, {.size = 256, .event_idx = true});
  Queue queue = *Queue::Create(ram, driver.layout());
  const std::array<uint8_t, 64> request = {};
  const std::array<uint8_t, 24> response = {};
  for (auto _ : state) {
    for (int64_t i = 0; i < state.range(0); ++i) driver.Chain().Readable(request).Writable(24).Submit().IgnoreError();
    queue
        .Drain(256,
               [&](DescriptorChain chain) {
                 std::array<uint8_t, 64> copy;
                 chain.Read(0, absl::MakeSpan(copy)).IgnoreError();
                 benchmark::DoNotOptimize(copy);
                 chain.Write(0, response).IgnoreError();
                 queue.Complete(std::move(chain), response.size()).IgnoreError();
               })
        .IgnoreError();
    benchmark::DoNotOptimize(queue.NeedsInterrupt());
    while (driver.Collect().has_value()) {
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(RoundTrip)->Arg(1)->Arg(64);

}  // namespace
}  // namespace sluice::virtio
