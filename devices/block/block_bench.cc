// How many requests a second a disk answers, driver's share included: a file in memory, so that the device and its
// engine are measured and no storage.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "devices/block/testing/block_driver.h"

namespace sluice::block {
namespace {

using testing::BlockDriver;

constexpr uint64_t kBytes = 64 << 20;

// `state.range(0)` requests of `state.range(1)` bytes in flight at a time.
void Requests(benchmark::State& state, EngineKind engine, bool write) {
  UniqueFd fd(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.valid() || posix_fallocate(fd.get(), 0, kBytes) != 0) return state.SkipWithError("no file in /dev/shm");
  auto disk = OpenDisk(std::move(fd), false);
  BlockOptions options;
  options.disk = *std::move(disk);
  options.engine = engine;
  BlockDriver driver(std::move(options));
  const auto bytes = static_cast<uint32_t>(state.range(1));
  const std::vector<uint8_t> data(bytes, 0x5a);
  const uint64_t sectors = kBytes / kSectorBytes - bytes / kSectorBytes;
  uint64_t sector = 0;
  driver.set_notify(false);
  for (auto _ : state) {
    for (int64_t i = 0; i < state.range(0); ++i) {
      sector = (sector + 7919 * 8) % sectors;
      if (write) {
        driver.Write(sector, data);
      } else {
        driver.Read(sector, bytes);
      }
    }
    driver.device().QueueNotified(0);
    while (driver.unanswered() > 0) {
      driver.loop().restart();
      driver.loop().run_one();
      driver.Pump();
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetBytesProcessed(state.iterations() * state.range(0) * bytes);
}

BENCHMARK_CAPTURE(Requests, threads_read, EngineKind::kThreads, false)
    ->Args({1, 4096})
    ->Args({32, 4096})
    ->Args({32, 131072})
    ->UseRealTime();
BENCHMARK_CAPTURE(Requests, threads_write, EngineKind::kThreads, true)
    ->Args({1, 4096})
    ->Args({32, 4096})
    ->UseRealTime();
BENCHMARK_CAPTURE(Requests, uring_read, EngineKind::kUring, false)
    ->Args({1, 4096})
    ->Args({32, 4096})
    ->Args({32, 131072})
    ->UseRealTime();
BENCHMARK_CAPTURE(Requests, uring_write, EngineKind::kUring, true)->Args({1, 4096})->Args({32, 4096})->UseRealTime();

}  // namespace
}  // namespace sluice::block
