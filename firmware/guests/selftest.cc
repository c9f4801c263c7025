// Tests of the library and the drivers, run where they run. Prints one line for each group, ends with 0 if all hold.
// With a virtio-gpu device it tests the 2D driver too; gpu=0 leaves that out, gpu=1 demands it.
#include <stdint.h>
#include <string.h>

#include <initializer_list>

#include "firmware/drivers/framebuffer.h"
#include "firmware/drivers/gpu.h"
#include "firmware/drivers/ranges.h"
#include "firmware/drivers/virtqueue.h"
#include "firmware/lib/clock.h"
#include "firmware/lib/hash.h"
#include "firmware/lib/heap.h"
#include "firmware/lib/interrupts.h"
#include "firmware/lib/random.h"
#include "firmware/lib/runtime.h"
#include "firmware/lib/serial.h"

namespace sluice::firmware {
namespace {

void Check(bool holds, const char* what, int line) {
  if (!holds) Fail(ExitCode::kCheckFailed, "line %d: %s", line, what);
}
#define CHECK_THAT(condition) Check((condition), #condition, __LINE__)

bool Formats(const char* expected, const char* format, ...) __attribute__((format(printf, 2, 3)));
bool Formats(const char* expected, const char* format, ...) {
  char text[64];
  va_list arguments;
  va_start(arguments, format);
  const size_t n = FormatV(text, sizeof(text), format, arguments);
  va_end(arguments);
  if (strcmp(text, expected) == 0 && n == strlen(expected)) return true;
  Print("'%s' instead of '%s'\n", text, expected);
  return false;
}

void TestFormat() {
  CHECK_THAT(Formats("a 1 -2 3 ffffffff", "%c %d %i %u %x", 'a', 1, -2, 3u, 0xffffffffu));
  CHECK_THAT(Formats("-9223372036854775808 18446744073709551615", "%lld %llu", INT64_MIN + 0ll, UINT64_MAX + 0ull));
  CHECK_THAT(Formats("[  42] [42  ] [0042] [+42]", "[%4d] [%-4d] [%04d] [%+d]", 42, 42, 42, 42));
  CHECK_THAT(Formats("[-007] [000000ff]", "[%04d] [%08x]", -7, 255u));
  CHECK_THAT(Formats("[abc] [ab] [  abc] [%]", "[%s] [%.2s] [%5s] [%%]", "abc", "abc", "abc"));
  CHECK_THAT(Formats("3.14 -0.500000 2.0 1e", "%.2f %f %.1f 1e", 3.14159, -0.5, 1.96));
  char small[4];
  CHECK_THAT(Format(small, sizeof(small), "%s", "abcdef") == 3 && strcmp(small, "abc") == 0);
}

void TestMemory() {
  uint8_t a[64], b[64];
  for (int i = 0; i < 64; i++) a[i] = static_cast<uint8_t>(i);
  memcpy(b, a, 64);
  CHECK_THAT(memcmp(a, b, 64) == 0);
  memmove(b + 3, b, 40);  // overlapping, upwards
  CHECK_THAT(b[3] == 0 && b[42] == 39 && b[43] == 43);
  memcpy(b, a, 64);
  memmove(b, b + 3, 40);  // downwards
  CHECK_THAT(b[0] == 3 && b[39] == 42 && b[40] == 40);
  memset(b, 0xa5, 7);
  CHECK_THAT(b[6] == 0xa5 && b[7] == 10);
  CHECK_THAT(memcmp("abc", "abd", 3) < 0 && strcmp("b", "a") > 0 && strncmp("abc", "abd", 2) == 0 &&
             strlen("four") == 4);
}

void TestHeap() {
  const HeapStats before = GetHeapStats();
  Random random(7);
  constexpr int kBlocks = 300;
  static uint8_t* blocks[kBlocks];
  static size_t sizes[kBlocks];
  for (int round = 0; round < 5000; round++) {
    const auto i = static_cast<int>(random.Below(kBlocks));
    if (blocks[i] != nullptr) {
      for (size_t k = 0; k < sizes[i]; k += 97) CHECK_THAT(blocks[i][k] == static_cast<uint8_t>(i));
      ::operator delete(blocks[i]);
      blocks[i] = nullptr;
      continue;
    }
    sizes[i] = 1 + random.Below(random.OneIn(20) ? 100'000 : 600);
    const size_t alignment = size_t{1} << random.Below(13);
    blocks[i] = static_cast<uint8_t*>(AllocateAligned(sizes[i], alignment));
    CHECK_THAT(reinterpret_cast<uint64_t>(blocks[i]) % alignment == 0);
    memset(blocks[i], i, sizes[i]);
  }
  for (uint8_t*& block : blocks) {
    ::operator delete(block);
    block = nullptr;
  }
  const HeapStats after = GetHeapStats();
  CHECK_THAT(after.live_blocks == before.live_blocks && after.used_bytes == before.used_bytes);
  // Large blocks come back whole: most of the heap can be had twice.
  for (int i = 0; i < 2; i++) ::operator delete(AllocateAligned(before.total_bytes / 2, 4096));
}

void TestRanges() {
  RangeAllocator ranges(16 * 4096);
  uint64_t a, b, c, d;
  CHECK_THAT(ranges.Allocate(1, &a) && a == 0);
  CHECK_THAT(ranges.Allocate(8192, &b) && b == 4096);
  CHECK_THAT(ranges.Allocate(13 * 4096, &c) && c == 3 * 4096);
  CHECK_THAT(!ranges.Allocate(1, &d) && !ranges.Allocate(0, &d) && !ranges.Allocate(UINT64_MAX, &d));
  ranges.Free(b, 8192);
  CHECK_THAT(!ranges.Allocate(3 * 4096, &d) && ranges.free_bytes() == 8192);
  ranges.Free(a, 1);
  ranges.Free(c, 13 * 4096);
  CHECK_THAT(ranges.Allocate(16 * 4096, &d) && d == 0);
}

void TestNumbers() {
  CHECK_THAT(Fnv1a64("a", 1) == 0xaf63dc4c8601ec8c);
  CHECK_THAT(Crc32("123456789", 9) == 0xcbf43926);
  Random one(1), same(1), other(2);
  const uint64_t first = one.Next();
  CHECK_THAT(first == same.Next() && first != other.Next());
  for (int i = 0; i < 1000; i++) CHECK_THAT(one.Below(7) < 7);
}

void TestTime() {
  const uint64_t begin = NowNs();
  SleepNs(5'000'000);
  const uint64_t slept = NowNs() - begin;
  CHECK_THAT(slept >= 5'000'000);
  const volatile uint64_t* never = InterruptCount(kLastVector);
  SleepUntilChangedOr(never, *never, NowNs() + 2'000'000);
  SleepUntilChanged(never, *never + 1);  // it is another already: does not sleep
}

// The queue without a device: what the driver wrote is what a device would read.
void TestVirtqueue(uint64_t features) {
  Virtqueue queue(8, features);
  const uint8_t data[3] = {};
  const VirtPiece pieces[3] = {{&data[0], 1}, {&data[1], 1}, {&data[2], 1}};
  uint16_t heads[9], head;
  uint32_t written;
  const int room = (features & kVirtioFeatureIndirect) != 0 ? 8 : 2;
  auto* used = reinterpret_cast<volatile uint16_t*>(queue.device_address());
  auto* elements = reinterpret_cast<volatile uint32_t*>(queue.device_address() + 4);
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < room; i++) CHECK_THAT(queue.Add(pieces, 2, 1, &heads[i]));
    CHECK_THAT(!queue.Add(pieces, 2, 1, &heads[room]));
    queue.Publish();
    CHECK_THAT(!queue.HasUsed());
    // A device that answers in the other order, and lies once.
    const uint16_t at = used[1];
    for (int i = 0; i <= room; i++) {
      const uint16_t slot = static_cast<uint16_t>(at + i) % 8;
      elements[2 * slot] = i == room ? 77u : heads[room - 1 - i];
      elements[2 * slot + 1] = static_cast<uint32_t>(i);
      if (i == 6) break;  // the ring has eight places
    }
    const int answered = room > 7 ? 7 : room + 1;
    used[1] = static_cast<uint16_t>(at + answered);
    int got = 0;
    while (queue.PopUsed(&head, &written)) {
      CHECK_THAT(head == heads[room - 1 - got] && written == static_cast<uint32_t>(got));
      got++;
    }
    if (room > 7) {  // the eighth
      const uint16_t slot = used[1] % 8;
      elements[2 * slot] = heads[0];
      used[1] = static_cast<uint16_t>(used[1] + 1);
      CHECK_THAT(queue.PopUsed(&head, &written) && head == heads[0]);
      got++;
    }
    CHECK_THAT(got == room && !queue.PopUsed(&head, &written));
  }
  CHECK_THAT(room > 7 || queue.bogus() == 20);
}

void TestGpu(Gpu* gpu) {
  uint32_t width, height;
  CHECK_THAT(gpu->GetDisplaySize(0, &width, &height) == GpuResult::kOk && width > 0 && height > 0);
  CHECK_THAT(gpu->Create2d(0, gpu::kFormatR8G8B8A8, 4, 4) == GpuResult::kErrInvalidResourceId);
  CHECK_THAT(gpu->Flush(1234, {0, 0, 1, 1}) == GpuResult::kErrInvalidResourceId);
  Framebuffer screen(gpu, 64, 32);
  CHECK_THAT(screen.Create(0) == GpuResult::kOk);
  for (uint32_t i = 0; i < 64 * 32; i++) screen.pixels()[i] = 0xff000000 | i * 8;
  const uint64_t interrupts = gpu->interrupts();
  for (int i = 0; i < 100; i++) CHECK_THAT(screen.Show() == GpuResult::kOk);
  CHECK_THAT(gpu->interrupts() > interrupts);
  // More than fit: Start sleeps until there is room.
  Ticket tickets[100];
  const gpu::Header info = {.type = gpu::kGetDisplayInfo};
  for (Ticket& ticket : tickets) {
    ticket = gpu->Start(&info, sizeof(info));
    CHECK_THAT(ticket != 0);
    if (&ticket - tickets >= 20) gpu->Take((&ticket)[-20]);
  }
  CHECK_THAT(gpu->Wait(tickets[99], NowNs() + 10'000'000'000));
  CHECK_THAT(gpu->Take(tickets[99]) == GpuResult::kOk && gpu->Take(tickets[99]) == GpuResult::kDead);
}

}  // namespace

int GuestMain() {
  const char* with_gpu = Option("gpu", nullptr);
  TestFormat();
  TestMemory();
  TestHeap();
  TestRanges();
  TestNumbers();
  TestTime();
  TestVirtqueue(0);
  TestVirtqueue(kVirtioFeatureIndirect);
  TestVirtqueue(kVirtioFeatureIndirect | kVirtioFeatureEventIdx);
  Print("library: ok\n");
  if (with_gpu == nullptr || strcmp(with_gpu, "0") != 0) {
    // Each set of ring features in turn.
    for (const uint64_t ring : {kVirtioFeatureIndirect | kVirtioFeatureEventIdx, kVirtioFeatureIndirect, uint64_t{0}}) {
      Gpu gpu;
      GpuOptions options;
      options.features = ring | gpu::kFeatureEdid;
      if (!gpu.Open(options)) {
        if (with_gpu == nullptr) break;
        Fail(ExitCode::kNoDevice, "no virtio-gpu device");
      }
      TestGpu(&gpu);
      Print("gpu with features %llx: ok\n", static_cast<unsigned long long>(gpu.features()));
    }
  }
  return 0;
}

}  // namespace sluice::firmware
