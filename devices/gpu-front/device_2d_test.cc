// The 2D half of the device, seen through its queues.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "devices/gpu-front/device.h"
#include "devices/gpu-front/testing/gpu_driver.h"

namespace sluice::gpu_front {
namespace {

using testing::Append;
using testing::GpuDriver;
using testing::Reply;
using testing::RequestOptions;

constexpr uint64_t kPages = GpuDriver::kPages;

// Fills RAM from kPages on with pixel values that name their place.
void FillPicture(const GpuDriver& gpu, uint32_t width, uint32_t height, uint32_t salt = 0) {
  std::vector<uint8_t> bytes;
  for (uint32_t i = 0; i < width * height; ++i) Append(&bytes, i ^ salt);
  ASSERT_TRUE(gpu.ram().CopyTo(memory::GuestAddress(kPages), bytes).ok());
}

std::vector<uint32_t> Pixels(const ScanoutImage& image) {
  std::vector<uint32_t> pixels(size_t{image.width} * image.height);
  if (pixels.empty()) return pixels;
  const Mapping map = *Mapping::MapShared(image.memfd.get(), 0, pixels.size() * 4, Mapping::kRead);
  std::memcpy(pixels.data(), map.data(), pixels.size() * 4);
  return pixels;
}

ResponseType Transfer(GpuDriver& gpu, uint32_t id, const Rect& rect, uint64_t offset) {
  return gpu.Run(CommandType::kTransferToHost2d, TransferToHost2d{rect, offset, id, 0}).type();
}
ResponseType SetScanoutTo(GpuDriver& gpu, uint32_t scanout, uint32_t id, const Rect& rect) {
  return gpu.Run(CommandType::kSetScanout, SetScanout{rect, scanout, id}).type();
}
ResponseType Flush(GpuDriver& gpu, uint32_t id, const Rect& rect) {
  return gpu.Run(CommandType::kResourceFlush, ResourceFlush{rect, id, 0}).type();
}
ResponseType Unref(GpuDriver& gpu, uint32_t id) {
  return gpu.Run(CommandType::kResourceUnref, ResourceRef{id, 0}).type();
}

TEST(Gpu2dTest, DisplayInfoListsTheScanoutsThatExist) {
  GpuDriver gpu({.scanouts = 2});
  const Reply reply = gpu.Run(CommandType::kGetDisplayInfo);
  ASSERT_EQ(reply.type(), ResponseType::kOkDisplayInfo);
  ASSERT_EQ(reply.body.size(), sizeof(RespDisplayInfo));
  const auto info = reply.As<RespDisplayInfo>();
  for (uint32_t i = 0; i < kMaxScanouts; ++i) EXPECT_EQ(info.pmodes[i].enabled, i < 2 ? 1u : 0u);
  EXPECT_EQ(info.pmodes[0].r.width, 640u);
  EXPECT_EQ(info.pmodes[0].r.height, 480u);
}

TEST(Gpu2dTest, EdidComesForScanoutsThatExist) {
  GpuDriver gpu;
  const Reply reply = gpu.Run(CommandType::kGetEdid, GetEdid{0, 0});
  ASSERT_EQ(reply.type(), ResponseType::kOkEdid);
  EXPECT_EQ(reply.As<RespEdid>().size, 128u);
  EXPECT_EQ(reply.As<RespEdid>().edid[1], 0xff);
  EXPECT_EQ(gpu.Run(CommandType::kGetEdid, GetEdid{1, 0}).type(), ResponseType::kErrInvalidScanoutId);
}

TEST(Gpu2dTest, APictureInScatteredPagesReachesTheScanoutByteForByte) {
  GpuDriver gpu;
  constexpr uint32_t kWidth = 100, kHeight = 37;
  FillPicture(gpu, kWidth, kHeight);
  ASSERT_TRUE(gpu.Create2d(1, kWidth, kHeight));
  // The same bytes in three pieces, in order.
  ASSERT_TRUE(
      gpu.Attach(1, {{kPages, 5000, 0}, {kPages + 5000, 3, 0}, {kPages + 5003, kWidth * kHeight * 4 - 5003, 0}}));
  ASSERT_EQ(Transfer(gpu, 1, {0, 0, kWidth, kHeight}, 0), ResponseType::kOkNodata);
  ASSERT_EQ(SetScanoutTo(gpu, 0, 1, {0, 0, kWidth, kHeight}), ResponseType::kOkNodata);
  ASSERT_EQ(Flush(gpu, 1, {0, 0, kWidth, kHeight}), ResponseType::kOkNodata);
  const ScanoutImage image = *gpu.device().SnapshotScanout(0);
  EXPECT_EQ(image.width, kWidth);
  EXPECT_EQ(image.height, kHeight);
  EXPECT_EQ(image.stride, kWidth * 4);
  EXPECT_EQ(image.format, static_cast<uint32_t>(Format::kB8G8R8A8));
  EXPECT_EQ(image.frames, 1u);
  const std::vector<uint32_t> pixels = Pixels(image);
  for (uint32_t i = 0; i < pixels.size(); ++i) ASSERT_EQ(pixels[i], i);
  EXPECT_EQ(gpu.stats().frames.load(), 1u);
}

TEST(Gpu2dTest, ATransferOfARectangleTouchesThatRectangleOnly) {
  GpuDriver gpu;
  FillPicture(gpu, 64, 64, 0x80000000);
  ASSERT_TRUE(gpu.Create2d(1, 64, 64));
  ASSERT_TRUE(gpu.Attach(1, {{kPages, 64 * 64 * 4, 0}}));
  // As Linux computes it: the offset is that of the rectangle's first pixel.
  ASSERT_EQ(Transfer(gpu, 1, {10, 20, 5, 3}, (20 * 64 + 10) * 4), ResponseType::kOkNodata);
  ASSERT_EQ(SetScanoutTo(gpu, 0, 1, {0, 0, 64, 64}), ResponseType::kOkNodata);
  const std::vector<uint32_t> pixels = Pixels(*gpu.device().SnapshotScanout(0));
  for (uint32_t y = 0; y < 64; ++y) {
    for (uint32_t x = 0; x < 64; ++x) {
      const bool inside = x >= 10 && x < 15 && y >= 20 && y < 23;
      ASSERT_EQ(pixels[y * 64 + x], inside ? ((y * 64 + x) ^ 0x80000000) : 0u) << x << "," << y;
    }
  }
}

TEST(Gpu2dTest, AScanoutMayShowAPart) {
  GpuDriver gpu;
  FillPicture(gpu, 16, 16);
  ASSERT_TRUE(gpu.Create2d(1, 16, 16));
  ASSERT_TRUE(gpu.Attach(1, {{kPages, 1024, 0}}));
  ASSERT_EQ(Transfer(gpu, 1, {0, 0, 16, 16}, 0), ResponseType::kOkNodata);
  ASSERT_EQ(SetScanoutTo(gpu, 0, 1, {4, 8, 2, 2}), ResponseType::kOkNodata);
  EXPECT_THAT(Pixels(*gpu.device().SnapshotScanout(0)),
              ::testing::ElementsAre(8 * 16 + 4, 8 * 16 + 5, 9 * 16 + 4, 9 * 16 + 5));
  // A flush beside what is shown is fine, and no frame.
  EXPECT_EQ(Flush(gpu, 1, {0, 0, 4, 4}), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.stats().frames.load(), 0u);
  EXPECT_EQ(Flush(gpu, 1, {0, 0, 16, 16}), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.stats().frames.load(), 1u);
}

TEST(Gpu2dTest, EveryFormatOfTheSpecificationIsTakenAndNoOther) {
  GpuDriver gpu;
  uint32_t id = 1;
  for (uint32_t format : {1u, 2u, 3u, 4u, 67u, 68u, 121u, 134u}) {
    EXPECT_EQ(gpu.Run(CommandType::kResourceCreate2d, ResourceCreate2d{id++, format, 4, 4}).type(),
              ResponseType::kOkNodata);
  }
  for (uint32_t format : {0u, 5u, 66u, 69u, 120u, 133u, 135u, 0xffffffffu}) {
    EXPECT_EQ(gpu.Run(CommandType::kResourceCreate2d, ResourceCreate2d{id++, format, 4, 4}).type(),
              ResponseType::kErrInvalidParameter);
  }
}

TEST(Gpu2dTest, CreatingRefusesZeroSidesTakenIdsAndGiants) {
  GpuDriver gpu;
  const auto create = [&](uint32_t id, uint32_t width, uint32_t height) {
    return gpu.Run(CommandType::kResourceCreate2d, ResourceCreate2d{id, 1, width, height}).type();
  };
  EXPECT_EQ(create(0, 4, 4), ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(create(1, 0, 4), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(create(1, 4, 0), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(create(1, 0xffffffff, 0xffffffff), ResponseType::kErrOutOfMemory);
  EXPECT_EQ(create(1, 0x40000000, 4), ResponseType::kErrOutOfMemory);
  EXPECT_EQ(create(1, 4, 16385), ResponseType::kErrOutOfMemory);
  EXPECT_EQ(create(1, 16384, 16384), ResponseType::kErrOutOfMemory);
  EXPECT_EQ(create(1, 4, 4), ResponseType::kOkNodata);
  EXPECT_EQ(create(1, 4, 4), ResponseType::kErrInvalidResourceId);
}

TEST(Gpu2dTest, HostMemoryAndCountAreCappedAndComeBack) {
  GpuDriver gpu({.limits = {.max_resources = 4, .max_image_bytes = 1 << 20, .max_host_image_bytes = 2 << 20}});
  EXPECT_TRUE(gpu.Create2d(1, 512, 512));
  EXPECT_TRUE(gpu.Create2d(2, 512, 512));
  EXPECT_EQ(gpu.Run(CommandType::kResourceCreate2d, ResourceCreate2d{3, 1, 1, 1}).type(),
            ResponseType::kErrOutOfMemory);
  EXPECT_EQ(Unref(gpu, 1), ResponseType::kOkNodata);
  for (uint32_t id : {3, 4, 5}) EXPECT_TRUE(gpu.Create2d(id, 1, 1));
  EXPECT_EQ(gpu.Run(CommandType::kResourceCreate2d, ResourceCreate2d{6, 1, 1, 1}).type(),
            ResponseType::kErrOutOfMemory);
}

TEST(Gpu2dTest, BackingPiecesAreCappedAndComeBack) {
  GpuDriver gpu({.limits = {.max_backing_pieces = 4}});
  ASSERT_TRUE(gpu.Create2d(1, 4, 4));
  ASSERT_TRUE(gpu.Create2d(2, 4, 4));
  const std::vector<MemEntry> three = {{kPages, 16, 0}, {kPages + 0x1000, 16, 0}, {kPages + 0x2000, 16, 0}};
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(gpu.Attach(1, three));
    ASSERT_FALSE(gpu.Attach(2, three));
    ASSERT_EQ(gpu.Run(CommandType::kResourceDetachBacking, ResourceRef{1, 0}).type(), ResponseType::kOkNodata);
  }
  EXPECT_TRUE(gpu.Attach(2, three));
}

TEST(Gpu2dTest, AttachAndDetachBackingErrors) {
  GpuDriver gpu;
  ASSERT_TRUE(gpu.Create2d(1, 4, 4));
  const auto attach = [&](uint32_t id, std::vector<MemEntry> entries) {
    std::vector<uint8_t> extra;
    for (const MemEntry& entry : entries) Append(&extra, entry);
    return gpu
        .Run(CommandType::kResourceAttachBacking, ResourceAttachBacking{id, static_cast<uint32_t>(entries.size())},
             RequestOptions(), extra)
        .type();
  };
  EXPECT_EQ(attach(9, {{kPages, 64, 0}}), ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(attach(1, {}), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(attach(1, {{GpuDriver::kRamBytes - 1, 2, 0}}), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(attach(1, {{~uint64_t{0}, 16, 0}}), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(gpu.Run(CommandType::kResourceDetachBacking, ResourceRef{1, 0}).type(), ResponseType::kErrUnspec);
  EXPECT_EQ(gpu.Run(CommandType::kResourceDetachBacking, ResourceRef{9, 0}).type(),
            ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(attach(1, {{kPages, 64, 0}}), ResponseType::kOkNodata);
  EXPECT_EQ(attach(1, {{kPages, 64, 0}}), ResponseType::kErrUnspec);
  // The count says more entries than bytes that follow.
  EXPECT_EQ(gpu.Run(CommandType::kResourceAttachBacking, ResourceAttachBacking{1, 1000}).type(),
            ResponseType::kErrInvalidParameter);
}

TEST(Gpu2dTest, TransferErrors) {
  GpuDriver gpu;
  ASSERT_TRUE(gpu.Create2d(1, 16, 16));
  EXPECT_EQ(Transfer(gpu, 1, {0, 0, 16, 16}, 0), ResponseType::kErrUnspec);  // nothing attached
  ASSERT_TRUE(gpu.Attach(1, {{kPages, 16 * 16 * 4, 0}}));
  EXPECT_EQ(Transfer(gpu, 2, {0, 0, 16, 16}, 0), ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(Transfer(gpu, 1, {0, 0, 17, 16}, 0), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(Transfer(gpu, 1, {0, 0, 0, 16}, 0), ResponseType::kErrInvalidParameter);
  // x + width wraps to a number that looks right.
  EXPECT_EQ(Transfer(gpu, 1, {0xffffffff, 0, 2, 1}, 0), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(Transfer(gpu, 1, {1, 1, 0xffffffff, 0xffffffff}, 0), ResponseType::kErrInvalidParameter);
  // Past the end of the backing, and an offset that wraps.
  EXPECT_EQ(Transfer(gpu, 1, {0, 0, 16, 16}, 4), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(Transfer(gpu, 1, {0, 0, 16, 16}, ~uint64_t{0} - 1023), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(Transfer(gpu, 1, {8, 15, 8, 1}, (15 * 16 + 8) * 4), ResponseType::kOkNodata);
}

TEST(Gpu2dTest, ScanoutErrors) {
  GpuDriver gpu;
  ASSERT_TRUE(gpu.Create2d(1, 16, 16));
  EXPECT_EQ(SetScanoutTo(gpu, 1, 1, {0, 0, 16, 16}), ResponseType::kErrInvalidScanoutId);
  EXPECT_EQ(SetScanoutTo(gpu, 0xffffffff, 0, {0, 0, 0, 0}), ResponseType::kErrInvalidScanoutId);
  EXPECT_EQ(SetScanoutTo(gpu, 0, 2, {0, 0, 16, 16}), ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(SetScanoutTo(gpu, 0, 1, {0, 0, 17, 16}), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(SetScanoutTo(gpu, 0, 1, {0xffffffff, 0xffffffff, 2, 2}), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(SetScanoutTo(gpu, 0, 1, {0, 0, 0, 0}), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(gpu.device().SnapshotScanout(0)->width, 0u);
  EXPECT_FALSE(gpu.device().SnapshotScanout(1).ok());
}

TEST(Gpu2dTest, AFlushLargerThanItsResourceIsDroppedAndTheNextIsRight) {
  GpuDriver gpu;
  ASSERT_TRUE(gpu.Create2d(1, 16, 16));
  ASSERT_EQ(SetScanoutTo(gpu, 0, 1, {0, 0, 16, 16}), ResponseType::kOkNodata);
  for (uint32_t side = 17; side < 200; ++side) {
    ASSERT_EQ(Flush(gpu, 1, {0, 0, side, side}), ResponseType::kErrInvalidParameter);
  }
  EXPECT_EQ(Flush(gpu, 1, {0xfffffff8, 0, 16, 16}), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(Flush(gpu, 3, {0, 0, 16, 16}), ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(gpu.stats().frames.load(), 0u);
  EXPECT_EQ(Flush(gpu, 1, {0, 0, 16, 16}), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.stats().frames.load(), 1u);
}

TEST(Gpu2dTest, ScanoutsLetGoOfAResourceThatIsDestroyed) {
  GpuDriver gpu({.scanouts = 2});
  ASSERT_TRUE(gpu.Create2d(1, 16, 16));
  ASSERT_EQ(SetScanoutTo(gpu, 0, 1, {0, 0, 16, 16}), ResponseType::kOkNodata);
  ASSERT_EQ(SetScanoutTo(gpu, 1, 1, {0, 0, 8, 8}), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.device().SnapshotScanout(1)->width, 8u);
  EXPECT_EQ(Unref(gpu, 1), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.device().SnapshotScanout(0)->width, 0u);
  EXPECT_EQ(gpu.device().SnapshotScanout(1)->width, 0u);
  EXPECT_EQ(Unref(gpu, 1), ResponseType::kErrInvalidResourceId);
}

TEST(Gpu2dTest, ResourceZeroTurnsAScanoutOff) {
  GpuDriver gpu;
  ASSERT_TRUE(gpu.Create2d(1, 16, 16));
  ASSERT_EQ(SetScanoutTo(gpu, 0, 1, {0, 0, 16, 16}), ResponseType::kOkNodata);
  EXPECT_EQ(SetScanoutTo(gpu, 0, 0, {0, 0, 0, 0}), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.device().SnapshotScanout(0)->width, 0u);
}

TEST(Gpu2dTest, AUuidIsStableUniqueAndOfVersion4) {
  GpuDriver gpu;
  ASSERT_TRUE(gpu.Create2d(1, 4, 4));
  ASSERT_TRUE(gpu.Create2d(2, 4, 4));
  const auto uuid = [&](uint32_t id) {
    const Reply reply = gpu.Run(CommandType::kResourceAssignUuid, ResourceRef{id, 0});
    EXPECT_EQ(reply.type(), ResponseType::kOkResourceUuid);
    return std::to_array(reply.As<RespResourceUuid>().uuid);
  };
  EXPECT_EQ(uuid(1), uuid(1));
  EXPECT_NE(uuid(1), uuid(2));
  EXPECT_EQ(uuid(1)[6] >> 4, 4);
  EXPECT_EQ(uuid(1)[8] >> 6, 2);
  EXPECT_EQ(gpu.Run(CommandType::kResourceAssignUuid, ResourceRef{3, 0}).type(), ResponseType::kErrInvalidResourceId);
}

TEST(Gpu2dTest, CursorUpdatesAndMoves) {
  GpuDriver gpu;
  ASSERT_TRUE(gpu.Create2d(1, 64, 64));
  ASSERT_TRUE(gpu.Create2d(2, 32, 64));
  const RequestOptions on_cursor{.queue = kCursorQueue};
  const auto update = [&](const UpdateCursor& body) {
    return gpu.Run(CommandType::kUpdateCursor, body, on_cursor).type();
  };
  EXPECT_EQ(update({{0, 10, 20, 0}, 1, 3, 4, 0}), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.device().cursor().resource_id, 1u);
  EXPECT_EQ(gpu.device().cursor().hot_y, 4u);
  EXPECT_EQ(gpu.Run(CommandType::kMoveCursor, UpdateCursor{{0, 11, 21, 0}, 99, 99, 99, 0}, on_cursor).type(),
            ResponseType::kOkNodata);
  EXPECT_EQ(gpu.device().cursor().x, 11u);
  EXPECT_EQ(gpu.device().cursor().resource_id, 1u);
  EXPECT_EQ(update({{0, 0, 0, 0}, 2, 0, 0, 0}), ResponseType::kErrInvalidParameter);   // not 64 x 64
  EXPECT_EQ(update({{0, 0, 0, 0}, 1, 64, 0, 0}), ResponseType::kErrInvalidParameter);  // hot spot outside
  EXPECT_EQ(update({{1, 0, 0, 0}, 1, 0, 0, 0}), ResponseType::kErrInvalidScanoutId);
  EXPECT_EQ(update({{0, 0, 0, 0}, 7, 0, 0, 0}), ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(Unref(gpu, 1), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.device().cursor().resource_id, 0u);
}

TEST(Gpu2dTest, ACursorCommandWithoutRoomForAnAnswerIsCarriedOut) {
  GpuDriver gpu;
  const uint64_t ticket = gpu.Send(CommandType::kMoveCursor, UpdateCursor{{0, 5, 6, 0}, 0, 0, 0, 0},
                                   RequestOptions{.writable = 0, .queue = kCursorQueue});
  const auto reply = gpu.Poll(ticket);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->written, 0u);
  EXPECT_EQ(gpu.device().cursor().x, 5u);
}

TEST(Gpu2dTest, UnknownCommandsAndShortRequestsAreAnswered) {
  GpuDriver gpu;
  for (uint32_t type : {0u, 0xffu, 0x10eu, 0x1ffu, 0x20au, 0x300u, 0x302u, 0x1100u, 0xffffffffu}) {
    EXPECT_EQ(gpu.Run(static_cast<CommandType>(type)).type(), ResponseType::kErrUnspec) << type;
  }
  EXPECT_EQ(gpu.RunBytes({}).type(), ResponseType::kErrUnspec);
  EXPECT_EQ(gpu.RunBytes(std::vector<uint8_t>(23)).type(), ResponseType::kErrUnspec);
  EXPECT_EQ(gpu.Run(CommandType::kResourceCreate2d).type(), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(gpu.stats().gpu_errors.load(), 12u);
  EXPECT_EQ(gpu.Run(CommandType::kGetDisplayInfo).type(), ResponseType::kOkDisplayInfo);
}

TEST(Gpu2dTest, ARequestWhoseAnswerHasNoRoomIsAnErrorAndIsNotCarriedOut) {
  GpuDriver gpu;
  EXPECT_EQ(gpu.Run(CommandType::kGetDisplayInfo, RequestOptions{.writable = 24 + 383}).type(),
            ResponseType::kErrInvalidParameter);
  EXPECT_EQ(gpu.Run(CommandType::kGetDisplayInfo, RequestOptions{.writable = 24 + 384}).type(),
            ResponseType::kOkDisplayInfo);
  // Less than a header: nothing can be said, but the chain comes back.
  const auto reply = gpu.Poll(gpu.Send(CommandType::kGetDisplayInfo, RequestOptions{.writable = 23}));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->written, 0u);
}

TEST(Gpu2dTest, AFencedCommandEchoesItsFenceAlsoWhenItFails) {
  GpuDriver gpu;
  const Reply good = gpu.Run(CommandType::kResourceCreate2d, ResourceCreate2d{1, 1, 4, 4}, RequestOptions{.fence = 77});
  EXPECT_EQ(good.type(), ResponseType::kOkNodata);
  EXPECT_EQ(good.header.flags, kFlagFence);
  EXPECT_EQ(good.header.fence_id, 77u);
  const Reply bad = gpu.Run(CommandType::kResourceUnref, ResourceRef{9, 0}, RequestOptions{.context = 3, .fence = 78});
  EXPECT_EQ(bad.type(), ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(bad.header.flags, kFlagFence);
  EXPECT_EQ(bad.header.fence_id, 78u);
  EXPECT_EQ(bad.header.ctx_id, 3u);
  EXPECT_EQ(gpu.stats().fences.load(), 2u);
  EXPECT_EQ(gpu.Run(CommandType::kGetDisplayInfo).header.flags, 0u);
}

TEST(Gpu2dTest, CommandsOfFeaturesThatWereNotNegotiatedAreRefused) {
  GpuDriver gpu({.features = 0});
  ASSERT_TRUE(gpu.Create2d(1, 4, 4));
  EXPECT_EQ(gpu.Run(CommandType::kGetEdid, GetEdid{0, 0}).type(), ResponseType::kErrUnspec);
  EXPECT_EQ(gpu.Run(CommandType::kResourceAssignUuid, ResourceRef{1, 0}).type(), ResponseType::kErrUnspec);
  EXPECT_EQ(gpu.Run(CommandType::kResourceCreateBlob, ResourceCreateBlob{2, 1, 0, 0, 0, 4096}).type(),
            ResponseType::kErrUnspec);
  EXPECT_EQ(gpu.Run(CommandType::kCtxCreate, CtxCreate{}, RequestOptions{.context = 1}).type(),
            ResponseType::kErrUnspec);
  EXPECT_EQ(gpu.Run(CommandType::kGetCapsetInfo, GetCapsetInfo{0, 0}).type(), ResponseType::kErrUnspec);
}

TEST(Gpu2dTest, ResetForgetsEverything) {
  GpuDriver gpu;
  ASSERT_TRUE(gpu.Create2d(1, 16, 16));
  ASSERT_EQ(SetScanoutTo(gpu, 0, 1, {0, 0, 16, 16}), ResponseType::kOkNodata);
  gpu.Reset();
  EXPECT_EQ(gpu.device().SnapshotScanout(0)->width, 0u);
  EXPECT_EQ(Flush(gpu, 1, {0, 0, 1, 1}), ResponseType::kErrInvalidResourceId);
  EXPECT_TRUE(gpu.Create2d(1, 16, 16));
}

TEST(Gpu2dTest, TheLastPictureOutlivesWhatTheGuestTakesAway) {
  GpuDriver gpu;
  EXPECT_EQ(gpu.device().LastPicture()->width, 0u);
  ASSERT_TRUE(gpu.Create2d(1, 16, 8));
  ASSERT_EQ(SetScanoutTo(gpu, 0, 1, {0, 0, 16, 8}), ResponseType::kOkNodata);
  ASSERT_EQ(Flush(gpu, 1, {0, 0, 16, 8}), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.device().LastPicture()->width, 16u);
  ASSERT_EQ(SetScanoutTo(gpu, 0, 0, {}), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.device().SnapshotScanout(0)->width, 0u);
  EXPECT_EQ(gpu.device().LastPicture()->height, 8u);
  gpu.Reset();
  ASSERT_TRUE(gpu.Create2d(1, 4, 4));
  ASSERT_EQ(SetScanoutTo(gpu, 0, 1, {0, 0, 4, 4}), ResponseType::kOkNodata);
  gpu.Reset();
  EXPECT_EQ(gpu.device().LastPicture()->width, 4u) << "and the next one takes its place";
}

TEST(Gpu2dTest, ConfigurationSaysWhatIsThereAndEventsCanBeCleared) {
  GpuDriver gpu({.scanouts = 3});
  const auto read = [&] {
    GpuConfig config{};
    std::array<uint8_t, sizeof(config)> bytes;
    gpu.device().ReadConfig(0, absl::MakeSpan(bytes));
    std::memcpy(&config, bytes.data(), sizeof(config));
    return config;
  };
  EXPECT_EQ(read().num_scanouts, 3u);
  EXPECT_EQ(read().num_capsets, 0u);  // there is no GPU Domain
  EXPECT_EQ(read().events_read, 0u);
  EXPECT_TRUE(gpu.device().ResizeDisplay(800, 600).ok());
  EXPECT_FALSE(gpu.device().ResizeDisplay(0, 600).ok());
  EXPECT_EQ(read().events_read, kEventDisplay);
  EXPECT_EQ(gpu.config_interrupts(), 1u);
  EXPECT_EQ(gpu.Run(CommandType::kGetDisplayInfo).As<RespDisplayInfo>().pmodes[0].r.width, 800u);
  const uint8_t clear[4] = {kEventDisplay, 0, 0, 0};
  gpu.device().WriteConfig(4, clear);
  EXPECT_EQ(read().events_read, 0u);
  // Beyond the end reads zero; odd writes do nothing.
  uint8_t beyond[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  gpu.device().ReadConfig(12, absl::MakeSpan(beyond));
  EXPECT_THAT(beyond, ::testing::Each(0));
  gpu.device().ReadConfig(~uint64_t{0} - 2, absl::MakeSpan(beyond));
  gpu.device().WriteConfig(~uint64_t{0}, clear);
}

TEST(Gpu2dTest, ABrokenRingAsksForAReset) {
  GpuDriver gpu;
  ASSERT_TRUE(gpu.Create2d(1, 4, 4));
  gpu.queue(kControlQueue).Publish(300);  // no such descriptor
  gpu.device().QueueNotified(kControlQueue);
  EXPECT_TRUE(gpu.needs_reset());
  gpu.Reset();
  EXPECT_TRUE(gpu.Create2d(1, 4, 4));
}

TEST(Gpu2dTest, ManyRequestsAtOnceAreAllAnsweredOverSeveralTurns) {
  GpuDriver gpu;
  std::vector<uint64_t> tickets;
  for (int i = 0; i < 120; ++i)
    tickets.push_back(gpu.SendUnnotified(GpuDriver::Header(CommandType::kGetDisplayInfo, {})));
  gpu.device().QueueNotified(kControlQueue);
  for (uint64_t ticket : tickets) EXPECT_EQ(gpu.Poll(ticket).value_or(Reply()).type(), ResponseType::kOkDisplayInfo);
}

TEST(GpuFrontCreateTest, OptionsOutOfRangeAreNamed) {
  asio::io_context loop;
  const auto create = [&](auto change) {
    GpuFrontOptions options;
    options.loop = &loop;
    change(options);
    return GpuFront::Create(std::move(options)).status();
  };
  EXPECT_TRUE(create([](GpuFrontOptions&) {}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(create([](GpuFrontOptions& o) { o.loop = nullptr; })));
  EXPECT_TRUE(absl::IsInvalidArgument(create([](GpuFrontOptions& o) { o.scanouts = 0; })));
  EXPECT_TRUE(absl::IsInvalidArgument(create([](GpuFrontOptions& o) { o.scanouts = 17; })));
  EXPECT_TRUE(absl::IsInvalidArgument(create([](GpuFrontOptions& o) { o.width = 4096; })));
  EXPECT_TRUE(absl::IsInvalidArgument(create([](GpuFrontOptions& o) { o.height = 0; })));
  EXPECT_TRUE(absl::IsInvalidArgument(create([](GpuFrontOptions& o) { o.domain_timeout = absl::ZeroDuration(); })));
}

}  // namespace
}  // namespace sluice::gpu_front
