// The parts of the device that hold no queue: decoder, timelines, window bookkeeping, backing, EDID.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <numeric>

#include "devices/gpu-front/backing.h"
#include "devices/gpu-front/blobs.h"
#include "devices/gpu-front/decode.h"
#include "devices/gpu-front/edid.h"
#include "devices/gpu-front/fences.h"
#include "devices/gpu-front/testing/gpu_driver.h"

namespace sluice::gpu_front {
namespace {

using testing::Append;
using ::testing::ElementsAre;
using testing::GpuDriver;
using ::testing::IsEmpty;

ResponseType MalformedResponse(const Decoded& decoded) {
  const auto* malformed = std::get_if<Malformed>(&decoded.command);
  return malformed == nullptr ? ResponseType::kOkNodata : malformed->response;
}

TEST(DecodeTest, LessThanAHeaderIsMalformedWithAZeroHeader) {
  const std::vector<uint8_t> bytes(23, 0xff);
  const Decoded decoded = Decode(kControlQueue, bytes);
  EXPECT_EQ(MalformedResponse(decoded), ResponseType::kErrUnspec);
  EXPECT_EQ(decoded.header.flags, 0u);
  EXPECT_EQ(MalformedResponse(Decode(kControlQueue, {})), ResponseType::kErrUnspec);
}

TEST(DecodeTest, EveryCommandCutByOneByteIsInvalidParameter) {
  const std::pair<CommandType, size_t> kBodies[] = {
      {CommandType::kResourceCreate2d, 16},
      {CommandType::kResourceUnref, 8},
      {CommandType::kSetScanout, 24},
      {CommandType::kResourceFlush, 24},
      {CommandType::kTransferToHost2d, 32},
      {CommandType::kResourceAttachBacking, 8},
      {CommandType::kResourceDetachBacking, 8},
      {CommandType::kGetCapsetInfo, 8},
      {CommandType::kGetCapset, 8},
      {CommandType::kGetEdid, 8},
      {CommandType::kResourceAssignUuid, 8},
      {CommandType::kResourceCreateBlob, 32},
      {CommandType::kSetScanoutBlob, 72},
      {CommandType::kCtxCreate, 72},
      {CommandType::kCtxAttachResource, 8},
      {CommandType::kCtxDetachResource, 8},
      {CommandType::kResourceCreate3d, 48},
      {CommandType::kTransferToHost3d, 48},
      {CommandType::kTransferFromHost3d, 48},
      {CommandType::kSubmit3d, 8},
      {CommandType::kResourceMapBlob, 16},
      {CommandType::kResourceUnmapBlob, 8},
  };
  for (const auto& [type, body] : kBodies) {
    std::vector<uint8_t> bytes = GpuDriver::Header(type, {});
    bytes.resize(bytes.size() + body);
    EXPECT_FALSE(std::holds_alternative<Malformed>(Decode(kControlQueue, bytes).command)) << std::hex << int(type);
    bytes.pop_back();
    EXPECT_EQ(MalformedResponse(Decode(kControlQueue, bytes)), ResponseType::kErrInvalidParameter)
        << std::hex << int(type);
  }
}

TEST(DecodeTest, EntriesMustAllBeThereAndCountIsCappedBeforeAnyAllocation) {
  std::vector<uint8_t> bytes = GpuDriver::Header(CommandType::kResourceAttachBacking, {});
  Append(&bytes, ResourceAttachBacking{1, 2});
  Append(&bytes, MemEntry{0x1000, 16, 0});
  EXPECT_EQ(MalformedResponse(Decode(kControlQueue, bytes)), ResponseType::kErrInvalidParameter);
  Append(&bytes, MemEntry{0x2000, 16, 0});
  const Decoded good = Decode(kControlQueue, bytes);
  ASSERT_TRUE(std::holds_alternative<AttachBackingCmd>(good.command));
  EXPECT_EQ(std::get<AttachBackingCmd>(good.command).entries[1].addr, 0x2000u);

  std::vector<uint8_t> huge = GpuDriver::Header(CommandType::kResourceAttachBacking, {});
  Append(&huge, ResourceAttachBacking{1, 0xffffffff});
  EXPECT_EQ(MalformedResponse(Decode(kControlQueue, huge)), ResponseType::kErrOutOfMemory);
}

TEST(DecodeTest, ASubmitOver64KiBIsRefusedWhateverFollows) {
  std::vector<uint8_t> bytes = GpuDriver::Header(CommandType::kSubmit3d, {});
  Append(&bytes, Submit3d{wire::kMaxSubmitBytes + 1, 0});
  bytes.resize(bytes.size() + wire::kMaxSubmitBytes + 1);
  EXPECT_EQ(MalformedResponse(Decode(kControlQueue, bytes)), ResponseType::kErrInvalidParameter);
}

TEST(DecodeTest, EachQueueRefusesTheOthersCommands) {
  std::vector<uint8_t> cursor = GpuDriver::Header(CommandType::kUpdateCursor, {});
  cursor.resize(cursor.size() + sizeof(UpdateCursor));
  EXPECT_EQ(MalformedResponse(Decode(kControlQueue, cursor)), ResponseType::kErrUnspec);
  EXPECT_TRUE(std::holds_alternative<UpdateCursorCmd>(Decode(kCursorQueue, cursor).command));
  const std::vector<uint8_t> info = GpuDriver::Header(CommandType::kGetDisplayInfo, {});
  EXPECT_EQ(MalformedResponse(Decode(kCursorQueue, info)), ResponseType::kErrUnspec);
}

TEST(DecodeTest, AContextNameEndsAtNulOrItsLengthAndMustFit) {
  CtxCreate body{};
  std::memcpy(body.debug_name, "ab\0cd", 5);
  body.nlen = 5;
  std::vector<uint8_t> bytes = GpuDriver::Header(CommandType::kCtxCreate, {});
  Append(&bytes, body);
  EXPECT_EQ(std::get<CtxCreateCmd>(Decode(kControlQueue, bytes).command).name, "ab");
  body.nlen = 65;
  bytes = GpuDriver::Header(CommandType::kCtxCreate, {});
  Append(&bytes, body);
  EXPECT_EQ(MalformedResponse(Decode(kControlQueue, bytes)), ResponseType::kErrInvalidParameter);
}

class FencesTest : public ::testing::Test {
 protected:
  void AddDomain(uint64_t request, uint32_t context, uint8_t ring, bool global = false) {
    timelines_.Add(global ? TimelineKey::Global() : TimelineKey::Ring(context, ring),
                   {.request = request, .from_domain = true, .context = context, .ring = ring}, &done_);
  }
  std::vector<uint64_t> Take() { return std::exchange(done_, {}); }
  FenceTimelines timelines_;
  std::vector<uint64_t> done_;
};

TEST_F(FencesTest, AReadyRequestOnAnIdleTimelineCompletesAtOnce) {
  timelines_.Add(TimelineKey::Global(), {.request = 1, .ready = true}, &done_);
  EXPECT_THAT(Take(), ElementsAre(1));
  EXPECT_EQ(timelines_.outstanding(), 0u);
}

TEST_F(FencesTest, InOneTimelineAReadyRequestWaitsForOlderOnes) {
  AddDomain(1, 5, 2);
  timelines_.Add(TimelineKey::Ring(5, 2), {.request = 2, .ready = true}, &done_);
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_TRUE(timelines_.Signal(5, 2, 1, &done_));
  EXPECT_THAT(Take(), ElementsAre(1, 2));
}

TEST_F(FencesTest, ASignalCompletesAllOlderOnesOfItsRingInOrder) {
  AddDomain(1, 5, 2);
  AddDomain(2, 5, 2);
  AddDomain(3, 5, 2);
  EXPECT_TRUE(timelines_.Signal(5, 2, 2, &done_));
  EXPECT_THAT(Take(), ElementsAre(1, 2));
  EXPECT_FALSE(timelines_.Signal(5, 2, 1, &done_));
  EXPECT_TRUE(timelines_.Signal(5, 2, 3, &done_));
  EXPECT_THAT(Take(), ElementsAre(3));
}

TEST_F(FencesTest, RingsAndContextsDoNotWaitForEachOther) {
  AddDomain(1, 5, 0);
  AddDomain(2, 5, 1);
  AddDomain(3, 6, 0);
  EXPECT_TRUE(timelines_.Signal(6, 0, 3, &done_));
  EXPECT_TRUE(timelines_.Signal(5, 1, 2, &done_));
  EXPECT_THAT(Take(), ElementsAre(3, 2));
  EXPECT_EQ(timelines_.outstanding(), 1u);
}

TEST_F(FencesTest, AnInventedNumberOrRingCompletesNothing) {
  AddDomain(4, 5, 1);
  EXPECT_FALSE(timelines_.Signal(5, 1, 5, &done_));
  EXPECT_FALSE(timelines_.Signal(5, 2, 4, &done_));
  EXPECT_FALSE(timelines_.Signal(6, 1, 4, &done_));
  EXPECT_FALSE(timelines_.Signal(5, 1, ~uint64_t{0}, &done_));
  EXPECT_THAT(Take(), IsEmpty());
}

TEST_F(FencesTest, TheGlobalTimelineKeepsTheOrderOverContexts) {
  AddDomain(1, 5, 0, /*global=*/true);
  AddDomain(2, 6, 0, /*global=*/true);
  EXPECT_TRUE(timelines_.Signal(6, 0, 2, &done_));
  EXPECT_THAT(Take(), IsEmpty());  // a driver would take the completion of 2 for that of 1
  EXPECT_TRUE(timelines_.Signal(5, 0, 1, &done_));
  EXPECT_THAT(Take(), ElementsAre(1, 2));
}

TEST_F(FencesTest, ReleasingAContextFreesItsFencesOnly) {
  AddDomain(1, 5, 0, /*global=*/true);
  AddDomain(2, 6, 3);
  AddDomain(3, 5, 3);
  std::vector<uint64_t> affected;
  timelines_.ReleaseContext(5, &affected, &done_);
  EXPECT_THAT(affected, ::testing::UnorderedElementsAre(1, 3));
  EXPECT_THAT(Take(), ::testing::UnorderedElementsAre(1, 3));
  EXPECT_EQ(timelines_.outstanding(), 1u);
}

TEST(BlobWindowTest, RefusesWhatIsNotWholePagesOutsideOrOverlapping) {
  BlobWindow window(16 * kPageSize);
  EXPECT_TRUE(window.Reserve(4 * kPageSize, 4 * kPageSize).ok());
  EXPECT_FALSE(window.Reserve(1, kPageSize).ok());
  EXPECT_FALSE(window.Reserve(0, 1).ok());
  EXPECT_FALSE(window.Reserve(0, 0).ok());
  EXPECT_FALSE(window.Reserve(16 * kPageSize, kPageSize).ok());
  EXPECT_FALSE(window.Reserve(15 * kPageSize, 2 * kPageSize).ok());
  EXPECT_FALSE(window.Reserve(~uint64_t{0xfff}, kPageSize).ok());
  EXPECT_FALSE(window.Reserve(0, ~uint64_t{0xfff}).ok());
  EXPECT_FALSE(window.Reserve(3 * kPageSize, 2 * kPageSize).ok());  // its end
  EXPECT_FALSE(window.Reserve(7 * kPageSize, 2 * kPageSize).ok());  // its start
  EXPECT_FALSE(window.Reserve(5 * kPageSize, kPageSize).ok());      // inside
  EXPECT_FALSE(window.Reserve(0, 16 * kPageSize).ok());             // around
  EXPECT_TRUE(window.Reserve(0, 4 * kPageSize).ok());
  EXPECT_TRUE(window.Reserve(8 * kPageSize, 8 * kPageSize).ok());
  window.Release(4 * kPageSize);
  EXPECT_TRUE(window.Reserve(5 * kPageSize, 2 * kPageSize).ok());
}

TEST(MapBlobMemoryTest, RefusesWhatCouldFaultLater) {
  const UniqueFd good = *CreateMemFd("good", 2 * kPageSize);
  EXPECT_TRUE(MapBlobMemory(good, 2 * kPageSize).ok());
  EXPECT_FALSE(MapBlobMemory(good, 3 * kPageSize).ok());
  const UniqueFd unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), kPageSize), 0);
  EXPECT_FALSE(MapBlobMemory(unsealed, kPageSize).ok());
  const UniqueFd event = *CreateEventFd(true);
  EXPECT_FALSE(MapBlobMemory(event, kPageSize).ok());
  EXPECT_FALSE(MapBlobMemory(UniqueFd(), kPageSize).ok());
}

TEST(BackingTest, PiecesActAsOneRunAndNeighboursMerge) {
  const memory::GuestMemory ram = *memory::GuestMemory::CreateSimple(1 << 20);
  std::vector<uint8_t> pattern(256);
  std::iota(pattern.begin(), pattern.end(), 0);
  ASSERT_TRUE(ram.CopyTo(memory::GuestAddress(0x1000), absl::MakeConstSpan(pattern).subspan(0, 100)).ok());
  ASSERT_TRUE(ram.CopyTo(memory::GuestAddress(0x8000), absl::MakeConstSpan(pattern).subspan(100)).ok());
  const std::vector<MemEntry> entries = {{0x1000, 60, 0}, {0x103c, 40, 0}, {0x5000, 0, 0}, {0x8000, 156, 0}};
  const absl::StatusOr<Backing> backing = Backing::Create(ram, entries);
  ASSERT_TRUE(backing.ok());
  EXPECT_EQ(backing->size(), 256u);
  EXPECT_EQ(backing->pieces(), 2u);
  for (size_t offset = 0; offset < 256; offset += 7) {
    std::vector<uint8_t> out(256 - offset);
    ASSERT_TRUE(backing->CopyOut(ram, offset, absl::MakeSpan(out)).ok());
    EXPECT_TRUE(std::equal(out.begin(), out.end(), pattern.begin() + offset));
  }
  std::vector<uint8_t> out(2);
  EXPECT_FALSE(backing->CopyOut(ram, 255, absl::MakeSpan(out)).ok());
  EXPECT_FALSE(backing->CopyOut(ram, ~uint64_t{0}, absl::MakeSpan(out)).ok());
}

TEST(BackingTest, APieceOutsideRamIsRefused) {
  const memory::GuestMemory ram = *memory::GuestMemory::CreateSimple(1 << 20);
  for (const MemEntry& entry : {MemEntry{1 << 20, 1, 0}, MemEntry{(1 << 20) - 1, 2, 0}, MemEntry{~uint64_t{0}, 2, 0},
                                MemEntry{0, 0xffffffff, 0}}) {
    EXPECT_FALSE(Backing::Create(ram, {entry}).ok()) << entry.addr;
  }
}

TEST(EdidTest, IsAValidBlockWithTheWantedPreferredTiming) {
  for (const auto& [width, height] :
       {std::pair<uint32_t, uint32_t>{640, 480}, {1280, 800}, {1920, 1080}, {3840, 2160}}) {
    const auto e = MakeEdid(width, height);
    const uint8_t kMagic[] = {0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0};
    EXPECT_EQ(std::memcmp(e.data(), kMagic, 8), 0);
    EXPECT_EQ(std::accumulate(e.begin(), e.end(), 0u) % 256, 0u);
    EXPECT_EQ(e[18], 1);
    EXPECT_EQ(e[126], 0);
    const uint8_t* d = &e[54];
    EXPECT_EQ(d[2] | ((d[4] >> 4) << 8), int(width));
    EXPECT_EQ(d[5] | ((d[7] >> 4) << 8), int(height));
    const uint32_t h_total = width + (d[3] | ((d[4] & 0xf) << 8));
    const uint32_t v_total = height + (d[6] | ((d[7] & 0xf) << 8));
    const double hz = (d[0] | (d[1] << 8)) * 10000.0 / h_total / v_total;
    EXPECT_NEAR(hz, 60, 0.5) << width;
    // Manufacturer letters are A..Z.
    const uint32_t maker = (e[8] << 8) | e[9];
    for (int shift : {0, 5, 10})
      EXPECT_THAT((maker >> shift) & 31, ::testing::AllOf(::testing::Ge(1u), ::testing::Le(26u)));
  }
}

TEST(EdidTest, SidesBeyondTwelveBitsAreClamped) {
  const auto e = MakeEdid(100000, 0);
  EXPECT_EQ(e[54 + 2] | ((e[54 + 4] >> 4) << 8), 4095);
  EXPECT_EQ(std::accumulate(e.begin(), e.end(), 0u) % 256, 0u);
}

TEST(RectFitsTest, NoSumWraps) {
  EXPECT_TRUE(RectFits({0, 0, 10, 10}, 10, 10));
  EXPECT_TRUE(RectFits({9, 9, 1, 1}, 10, 10));
  EXPECT_FALSE(RectFits({1, 0, 0xffffffff, 1}, 10, 10));
  EXPECT_FALSE(RectFits({0xffffffff, 0, 1, 1}, 10, 10));
  EXPECT_FALSE(RectFits({0xfffffffe, 0xfffffffe, 4, 4}, 10, 10));
  EXPECT_FALSE(RectFits({0, 0, 0, 10}, 10, 10));
  EXPECT_FALSE(RectFits({0, 0, 10, 11}, 10, 10));
}

}  // namespace
}  // namespace sluice::gpu_front
