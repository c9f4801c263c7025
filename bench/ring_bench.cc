// The frame ring between two threads: bytes and frames per second, by payload size. The consumer copies each frame to
// private memory, as the worker does. BM_Memcpy is the same copy without a ring, for the ratio.
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "benchmark/benchmark.h"
#include "flatbuf/ring.h"

namespace sluice::wire {
namespace {

constexpr uint64_t kBlobBytes = 4 << 20;

void BM_Memcpy(benchmark::State& state) {
  const size_t bytes = state.range(0);
  std::vector<uint8_t> from(bytes, 1), middle(bytes), to(bytes);
  for (auto _ : state) {
    std::memcpy(middle.data(), from.data(), bytes);
    CopyFromShared(to.data(), middle.data(), bytes);
    benchmark::DoNotOptimize(to.data());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes));
}
BENCHMARK(BM_Memcpy)->RangeMultiplier(8)->Range(64, 256 << 10);

void BM_RingTwoThreads(benchmark::State& state) {
  const uint64_t payload = state.range(0);
  const RingLayout layout{kBlobBytes};
  std::vector<uint8_t> data(layout.command_bytes());
  RingHeader header{};
  RingProducer producer(data.data(), data.size(), &header.command_head, &header.command_tail);
  std::atomic<bool> stop{false};
  std::thread consumer([&] {
    RingConsumer ring(data.data(), data.size(), &header.command_head, &header.command_tail);
    std::vector<uint8_t> copy(layout.max_frame_payload(layout.command_bytes()));
    FrameHeader frame;
    const uint8_t* bytes;
    while (!stop.load(std::memory_order_relaxed)) {
      if (ring.Peek(&frame, &bytes) != RingConsumer::Result::kFrame) {
        std::this_thread::yield();
        continue;
      }
      CopyFromShared(copy.data(), bytes, frame.size);
      benchmark::DoNotOptimize(copy.data());
      ring.Pop();
    }
  });
  std::vector<uint8_t> source(payload, 7);
  uint64_t sequence = 0;
  for (auto _ : state) {
    uint8_t* p;
    while ((p = producer.Reserve(payload)) == nullptr) std::this_thread::yield();
    const FrameHeader frame = {kFirstGeneratedOpcode, 0, static_cast<uint32_t>(payload), ++sequence};
    std::memcpy(p, &frame, sizeof(frame));
    std::memcpy(p + sizeof(frame), source.data(), payload);
    producer.Commit(payload);
  }
  while (!producer.Drained()) std::this_thread::yield();
  stop = true;
  consumer.join();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * payload));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(BM_RingTwoThreads)->RangeMultiplier(8)->Range(64, 256 << 10)->UseRealTime();

}  // namespace
}  // namespace sluice::wire
