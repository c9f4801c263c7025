// Capability sets, contexts, submits, fences and blobs, seen through the queues, with a worker that tells the truth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "devices/gpu-front/device.h"
#include "devices/gpu-front/testing/gpu_driver.h"
#include "flatbuf/ring.h"
#include "vmm/base/checked.h"

namespace sluice::gpu_front {
namespace {

using testing::Append;
using ::testing::ElementsAre;
using testing::GpuDriver;
using testing::Reply;
using testing::RequestOptions;

constexpr uint64_t kPages = GpuDriver::kPages;

uint32_t NumCapsets(GpuDriver& gpu) {
  uint8_t bytes[4];
  gpu.device().ReadConfig(12, absl::MakeSpan(bytes));
  uint32_t value;
  std::memcpy(&value, bytes, 4);
  return value;
}

ResponseType CreateContext(GpuDriver& gpu, uint32_t id, uint32_t init) {
  CtxCreate body{};
  body.context_init = init;
  return gpu.Run(CommandType::kCtxCreate, body, RequestOptions{.context = id}).type();
}
ResponseType DestroyContext(GpuDriver& gpu, uint32_t id) {
  return gpu.Run(CommandType::kCtxDestroy, RequestOptions{.context = id}).type();
}
ResponseType CtxResource(GpuDriver& gpu, CommandType type, uint32_t context, uint32_t resource) {
  return gpu.Run(type, ResourceRef{resource, 0}, RequestOptions{.context = context}).type();
}
ResponseType MapBlob(GpuDriver& gpu, uint32_t id, uint64_t offset) {
  return gpu.Run(CommandType::kResourceMapBlob, ResourceMapBlob{id, 0, offset}).type();
}
ResponseType UnmapBlob(GpuDriver& gpu, uint32_t id) {
  return gpu.Run(CommandType::kResourceUnmapBlob, ResourceRef{id, 0}).type();
}
ResponseType Unref(GpuDriver& gpu, uint32_t id) {
  return gpu.Run(CommandType::kResourceUnref, ResourceRef{id, 0}).type();
}
ResponseType CreateGuestBlob(GpuDriver& gpu, uint32_t id, uint64_t size, const std::vector<MemEntry>& entries,
                             uint32_t flags = kBlobFlagShareable) {
  std::vector<uint8_t> extra;
  for (const MemEntry& entry : entries) Append(&extra, entry);
  return gpu
      .Run(CommandType::kResourceCreateBlob,
           ResourceCreateBlob{id, 1, flags, static_cast<uint32_t>(entries.size()), 0, size}, RequestOptions(), extra)
      .type();
}

TEST(GpuCapsetTest, WithoutADomainThereIsNoneAndNo3d) {
  GpuDriver gpu;
  EXPECT_EQ(NumCapsets(gpu), 0u);
  EXPECT_EQ(gpu.Run(CommandType::kGetCapsetInfo, GetCapsetInfo{0, 0}).type(), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(gpu.Run(CommandType::kGetCapset, GetCapset{wire::kCapsetId, 1}).type(), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(CreateContext(gpu, 1, wire::kCapsetId), ResponseType::kErrUnspec);
}

TEST(GpuCapsetTest, IsTheDomainsOwn) {
  GpuDriver gpu({.domain = true});
  EXPECT_EQ(NumCapsets(gpu), 1u);
  const Reply info = gpu.Run(CommandType::kGetCapsetInfo, GetCapsetInfo{0, 0});
  ASSERT_EQ(info.type(), ResponseType::kOkCapsetInfo);
  EXPECT_EQ(info.As<RespCapsetInfo>().capset_id, wire::kCapsetId);
  EXPECT_EQ(info.As<RespCapsetInfo>().capset_max_size, sizeof(wire::Capset));
  const Reply capset = gpu.Run(CommandType::kGetCapset, GetCapset{wire::kCapsetId, wire::kCapsetVersion});
  ASSERT_EQ(capset.type(), ResponseType::kOkCapset);
  const wire::Capset want = testing::MakeCapset();
  const auto got = capset.As<wire::Capset>();
  EXPECT_EQ(std::memcmp(&got, &want, sizeof(want)), 0);
  EXPECT_EQ(gpu.Run(CommandType::kGetCapsetInfo, GetCapsetInfo{1, 0}).type(), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(gpu.Run(CommandType::kGetCapset, GetCapset{4, 0}).type(), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(gpu.Run(CommandType::kGetCapset, GetCapset{wire::kCapsetId, 2}).type(), ResponseType::kErrInvalidParameter);
}

TEST(GpuCapsetTest, AGuestThatAsksBeforeTheWorkersHelloWaitsForItAndOthersGoOn) {
  GpuDriver gpu({.domain = true, .hello = false});
  EXPECT_EQ(NumCapsets(gpu), 1u);
  const uint64_t info = gpu.Send(CommandType::kGetCapsetInfo, GetCapsetInfo{0, 0});
  const uint64_t capset = gpu.Send(CommandType::kGetCapset, GetCapset{wire::kCapsetId, 1}, RequestOptions{.fence = 3});
  EXPECT_FALSE(gpu.Poll(info).has_value());
  EXPECT_FALSE(gpu.Poll(capset).has_value());
  EXPECT_EQ(gpu.Run(CommandType::kGetDisplayInfo).type(), ResponseType::kOkDisplayInfo);
  EXPECT_TRUE(gpu.CreateContext(1));
  gpu.domain().SayHello();
  EXPECT_EQ(gpu.Poll(info).value_or(Reply()).type(), ResponseType::kOkCapsetInfo);
  const Reply late = gpu.Poll(capset).value_or(Reply());
  EXPECT_EQ(late.type(), ResponseType::kOkCapset);
  EXPECT_EQ(late.header.fence_id, 3u);
}

TEST(GpuContextTest, CreateReachesTheWorkerWithItsNameAndDestroyFollows) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(7));
  const auto created = gpu.domain().ReceiveA<wire::ContextCreateT>();
  ASSERT_NE(created, nullptr);
  EXPECT_EQ(created->context, 7u);
  EXPECT_EQ(created->name, "test");
  EXPECT_EQ(DestroyContext(gpu, 7), ResponseType::kOkNodata);
  const auto destroyed = gpu.domain().ReceiveA<wire::ContextDestroyT>();
  ASSERT_NE(destroyed, nullptr);
  EXPECT_EQ(destroyed->context, 7u);
}

TEST(GpuContextTest, BadIdsAndCapabilitySetsAreRefused) {
  GpuDriver gpu({.domain = true, .limits = {.max_contexts = 2}});
  EXPECT_EQ(CreateContext(gpu, 0, wire::kCapsetId), ResponseType::kErrInvalidContextId);
  EXPECT_EQ(CreateContext(gpu, 1, 2), ResponseType::kErrInvalidParameter);  // virgl2
  EXPECT_EQ(CreateContext(gpu, 1, 255), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(CreateContext(gpu, 1, wire::kCapsetId | 0xff00), ResponseType::kOkNodata);  // only bits 0-7 count
  EXPECT_EQ(CreateContext(gpu, 1, wire::kCapsetId), ResponseType::kErrInvalidContextId);
  EXPECT_EQ(CreateContext(gpu, 2, wire::kCapsetId), ResponseType::kOkNodata);
  EXPECT_EQ(CreateContext(gpu, 3, wire::kCapsetId), ResponseType::kErrOutOfMemory);
  EXPECT_EQ(DestroyContext(gpu, 9), ResponseType::kErrInvalidContextId);
  EXPECT_EQ(DestroyContext(gpu, 2), ResponseType::kOkNodata);
  EXPECT_EQ(DestroyContext(gpu, 2), ResponseType::kErrInvalidContextId);
}

TEST(GpuContextTest, AContextOfCapabilitySetZeroHoldsResourcesButSubmitsNothing) {
  GpuDriver gpu;  // stock drivers make such contexts for 2D programs, with or without a domain
  ASSERT_EQ(CreateContext(gpu, 1, 0), ResponseType::kOkNodata);
  ASSERT_TRUE(gpu.Create2d(5, 4, 4));
  EXPECT_EQ(CtxResource(gpu, CommandType::kCtxAttachResource, 1, 5), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.Poll(gpu.SendSubmit(1, std::nullopt)).value_or(Reply()).type(), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(gpu.Poll(gpu.SendCreateBlob(1, 6, wire::BlobKind::kMemory, 4096)).value_or(Reply()).type(),
            ResponseType::kErrInvalidParameter);
  EXPECT_EQ(DestroyContext(gpu, 1), ResponseType::kOkNodata);
}

TEST(GpuContextTest, UnknownStaleAndForeignIdsAreErrorsAndTheQueueMovesOn) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  ASSERT_TRUE(gpu.CreateContext(2));
  ASSERT_TRUE(gpu.Create2d(5, 4, 4));
  EXPECT_EQ(CtxResource(gpu, CommandType::kCtxAttachResource, 1, 5), ResponseType::kOkNodata);
  EXPECT_EQ(CtxResource(gpu, CommandType::kCtxAttachResource, 1, 5), ResponseType::kOkNodata);
  EXPECT_EQ(CtxResource(gpu, CommandType::kCtxAttachResource, 1, 6), ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(CtxResource(gpu, CommandType::kCtxAttachResource, 3, 5), ResponseType::kErrInvalidContextId);
  EXPECT_EQ(CtxResource(gpu, CommandType::kCtxDetachResource, 3, 5), ResponseType::kErrInvalidContextId);   // unknown
  EXPECT_EQ(CtxResource(gpu, CommandType::kCtxDetachResource, 2, 5), ResponseType::kErrInvalidResourceId);  // foreign
  EXPECT_EQ(CtxResource(gpu, CommandType::kCtxDetachResource, 1, 5), ResponseType::kOkNodata);
  EXPECT_EQ(CtxResource(gpu, CommandType::kCtxDetachResource, 1, 5), ResponseType::kErrInvalidResourceId);  // stale
  EXPECT_EQ(CtxResource(gpu, CommandType::kCtxAttachResource, 1, 5), ResponseType::kOkNodata);
  EXPECT_EQ(Unref(gpu, 5), ResponseType::kOkNodata);
  EXPECT_EQ(CtxResource(gpu, CommandType::kCtxDetachResource, 1, 5), ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(gpu.Poll(gpu.SendSubmit(9, 1)).value_or(Reply()).type(), ResponseType::kErrInvalidContextId);
  EXPECT_TRUE(gpu.Create2d(5, 4, 4));
}

TEST(GpuSubmitTest, AnUnfencedSubmitIsForwardedAndAnsweredAtOnce) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  EXPECT_EQ(gpu.Poll(gpu.SendSubmit(1, std::nullopt, 5)).value_or(Reply()).type(), ResponseType::kOkNodata);
  const auto submit = gpu.NextSubmit();
  ASSERT_NE(submit, nullptr);
  EXPECT_EQ(submit->context, 1u);
  EXPECT_EQ(submit->ring_idx, 5);
  EXPECT_FALSE(submit->fenced);
  wire::SubmitCommand kick;
  ASSERT_EQ(submit->payload.size(), sizeof(kick));
  std::memcpy(&kick, submit->payload.data(), sizeof(kick));
  EXPECT_EQ(kick.op, wire::kSubmitKick);
}

TEST(GpuSubmitTest, SixtyFourKiBPassAndOneByteMoreDoesNot) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  std::vector<uint8_t> payload(wire::kMaxSubmitBytes, 0x5a);
  const auto submit = [&](uint32_t size, absl::Span<const uint8_t> bytes) {
    return gpu.Run(CommandType::kSubmit3d, Submit3d{size, 0}, RequestOptions{.context = 1}, bytes).type();
  };
  EXPECT_EQ(submit(wire::kMaxSubmitBytes, payload), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.NextSubmit()->payload, payload);
  payload.push_back(0);
  EXPECT_EQ(submit(wire::kMaxSubmitBytes + 1, payload), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(submit(17, absl::MakeSpan(payload).subspan(0, 16)), ResponseType::kErrInvalidParameter);  // truncated
  EXPECT_EQ(gpu.NextSubmit(), nullptr);
}

TEST(GpuFenceTest, AFencedSubmitIsAnsweredWhenTheWorkerSignals) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  const uint64_t ticket = gpu.SendSubmit(1, 900, 3);
  EXPECT_FALSE(gpu.Poll(ticket).has_value());
  const auto submit = gpu.NextSubmit();
  ASSERT_TRUE(submit->fenced);
  gpu.domain().SayFenceSignaled(1, 3, submit->fence_id);
  const Reply reply = gpu.Poll(ticket).value_or(Reply());
  EXPECT_EQ(reply.type(), ResponseType::kOkNodata);
  EXPECT_EQ(reply.header.flags, kFlagFence | kFlagInfoRingIdx);
  EXPECT_EQ(reply.header.fence_id, 900u);
  EXPECT_EQ(reply.header.ctx_id, 1u);
  EXPECT_EQ(reply.header.ring_idx, 3);
  EXPECT_EQ(gpu.stats().fences.load(), 1u);
}

TEST(GpuFenceTest, NoTrafficOfTheGuestIsNeededForACompletion) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  const uint64_t ticket = gpu.SendSubmit(1, 1, 1);
  gpu.Pump();
  const uint64_t before = gpu.interrupts();
  gpu.domain().SayFenceSignaled(1, 1, gpu.NextSubmit()->fence_id);
  EXPECT_TRUE(gpu.Poll(ticket).has_value());
  EXPECT_GT(gpu.interrupts(), before);
}

TEST(GpuFenceTest, RingsCompleteOutOfOrderAndOneRingInOrder) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  ASSERT_TRUE(gpu.CreateContext(2));
  const uint64_t a1 = gpu.SendSubmit(1, 1, 1), a2 = gpu.SendSubmit(1, 2, 1);
  const uint64_t b1 = gpu.SendSubmit(1, 3, 2), c1 = gpu.SendSubmit(2, 4, 1);
  const uint64_t f1 = gpu.NextSubmit()->fence_id, f2 = gpu.NextSubmit()->fence_id, f3 = gpu.NextSubmit()->fence_id,
                 f4 = gpu.NextSubmit()->fence_id;
  const size_t start = gpu.completed().size();
  gpu.domain().SayFenceSignaled(2, 1, f4);
  gpu.domain().SayFenceSignaled(1, 2, f3);
  gpu.domain().SayFenceSignaled(1, 1, f2);  // before f1: both are complete, in order
  gpu.domain().SayFenceSignaled(1, 1, f1);  // late: nothing more happens
  gpu.Pump();
  EXPECT_THAT(std::vector<uint64_t>(gpu.completed().begin() + start, gpu.completed().end()),
              ElementsAre(c1, b1, a1, a2));
}

TEST(GpuFenceTest, GuestFenceIdsMayRepeatOrFall) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  const uint64_t first = gpu.SendSubmit(1, 5, 0), second = gpu.SendSubmit(1, 5, 0), third = gpu.SendSubmit(1, 4, 0);
  gpu.domain().SayFenceSignaled(1, 0, gpu.NextSubmit()->fence_id);
  EXPECT_TRUE(gpu.Poll(first).has_value());
  EXPECT_FALSE(gpu.Poll(second).has_value());
  gpu.NextSubmit();
  gpu.domain().SayFenceSignaled(1, 0, gpu.NextSubmit()->fence_id);
  EXPECT_TRUE(gpu.Poll(second).has_value());
  EXPECT_EQ(gpu.Poll(third).value_or(Reply()).header.fence_id, 4u);
}

TEST(GpuFenceTest, A2dFenceWaitsForOlderOnesOfTheGlobalTimelineOnly) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  const uint64_t on_ring = gpu.SendSubmit(1, 1, 4);
  gpu.NextSubmit();
  const RequestOptions fenced{.fence = 2};
  EXPECT_EQ(gpu.Run(CommandType::kGetDisplayInfo, fenced).type(), ResponseType::kOkDisplayInfo);
  const uint64_t global = gpu.SendSubmit(1, 3);
  const uint64_t flush = gpu.Send(CommandType::kGetDisplayInfo, fenced);
  EXPECT_FALSE(gpu.Poll(flush).has_value());
  EXPECT_EQ(gpu.Run(CommandType::kGetDisplayInfo).type(), ResponseType::kOkDisplayInfo);  // unfenced ones go on
  gpu.domain().SayFenceSignaled(1, 0, gpu.NextSubmit()->fence_id);
  EXPECT_TRUE(gpu.Poll(global).has_value());
  EXPECT_TRUE(gpu.Poll(flush).has_value());
  EXPECT_FALSE(gpu.Poll(on_ring).has_value());
}

TEST(GpuFenceTest, RingIndexOver63IsAnErrorThatCarriesItsFence) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  const Reply reply = gpu.Poll(gpu.SendSubmit(1, 8, 64)).value_or(Reply());
  EXPECT_EQ(reply.type(), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(reply.header.fence_id, 8u);
  EXPECT_EQ(reply.header.ring_idx, 64);
}

TEST(GpuFenceTest, DestroyingAContextCompletesItsFences) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  ASSERT_TRUE(gpu.CreateContext(2));
  const uint64_t mine = gpu.SendSubmit(1, 1, 0), other = gpu.SendSubmit(2, 2, 0);
  EXPECT_EQ(DestroyContext(gpu, 1), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.Poll(mine).value_or(Reply()).type(), ResponseType::kOkNodata);
  EXPECT_FALSE(gpu.Poll(other).has_value());
  // The worker, which did not know yet, signals: nobody cares.
  gpu.domain().SayFenceSignaled(1, 0, gpu.NextSubmit()->fence_id);
  gpu.Pump();
  EXPECT_TRUE(gpu.CreateContext(1));
}

TEST(GpuBlobTest, AGuestBlobIsReadThroughItsPagesByTheScanout) {
  GpuDriver gpu;  // no context, no domain
  std::vector<uint8_t> bytes;
  for (uint32_t i = 0; i < 32 * 16; ++i) Append(&bytes, i * 3);
  ASSERT_TRUE(gpu.ram().CopyTo(memory::GuestAddress(kPages), absl::MakeSpan(bytes).subspan(0, 1024)).ok());
  ASSERT_TRUE(gpu.ram().CopyTo(memory::GuestAddress(kPages + 0x10000), absl::MakeSpan(bytes).subspan(1024)).ok());
  ASSERT_EQ(CreateGuestBlob(gpu, 3, 2048, {{kPages, 1024, 0}, {kPages + 0x10000, 4096, 0}}), ResponseType::kOkNodata);
  // 30 x 15 pixels with a stride of 32, from the second pixel on.
  const SetScanoutBlob set = {{0, 0, 30, 15}, 0, 3, 30, 15, 1, 0, {128, 0, 0, 0}, {4, 0, 0, 0}};
  ASSERT_EQ(gpu.Run(CommandType::kSetScanoutBlob, set).type(), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.Run(CommandType::kResourceFlush, ResourceFlush{{0, 0, 30, 15}, 3, 0}).type(), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.Run(CommandType::kResourceFlush, ResourceFlush{{0, 0, 31, 15}, 3, 0}).type(),
            ResponseType::kErrInvalidParameter);
  const ScanoutImage image = *gpu.device().SnapshotScanout(0);
  ASSERT_EQ(image.width, 30u);
  const Mapping map = *Mapping::MapShared(image.memfd.get(), 0, 30 * 15 * 4, Mapping::kRead);
  for (uint32_t y = 0; y < 15; ++y) {
    for (uint32_t x = 0; x < 30; ++x) {
      uint32_t pixel;
      std::memcpy(&pixel, map.data() + (y * 30 + x) * 4, 4);
      ASSERT_EQ(pixel, (y * 32 + x + 1) * 3);
    }
  }
}

TEST(GpuBlobTest, AGuestBlobMayComeBeforeItsContextAndItsPages) {
  GpuDriver gpu({.domain = true});
  ASSERT_EQ(CreateGuestBlob(gpu, 3, 8192, {}), ResponseType::kOkNodata);
  EXPECT_FALSE(gpu.Attach(3, {{kPages, 4096, 0}}));  // too little
  EXPECT_TRUE(gpu.Attach(3, {{kPages, 8192, 0}}));
  ASSERT_TRUE(gpu.CreateContext(1));
  EXPECT_EQ(CtxResource(gpu, CommandType::kCtxAttachResource, 1, 3), ResponseType::kOkNodata);
}

TEST(GpuBlobTest, GuestBlobErrors) {
  GpuDriver gpu({.limits = {.max_blob_bytes = 1 << 20}});
  EXPECT_EQ(CreateGuestBlob(gpu, 0, 4096, {{kPages, 4096, 0}}), ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(CreateGuestBlob(gpu, 1, 0, {{kPages, 4096, 0}}), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(CreateGuestBlob(gpu, 1, 4097, {{kPages, 4096, 0}}), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(CreateGuestBlob(gpu, 1, 4096, {{GpuDriver::kRamBytes, 4096, 0}}), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(CreateGuestBlob(gpu, 1, 4096, {{kPages, 4096, 0}}, 8), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(CreateGuestBlob(gpu, 1, ~uint64_t{0}, {}), ResponseType::kErrOutOfMemory);
  const auto with_mem = [&](uint32_t mem) {
    return gpu.Run(CommandType::kResourceCreateBlob, ResourceCreateBlob{1, mem, 0, 0, 0, 4096}).type();
  };
  EXPECT_EQ(with_mem(0), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(with_mem(4), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(with_mem(3), ResponseType::kErrUnspec);            // HOST3D_GUEST is not offered
  EXPECT_EQ(with_mem(2), ResponseType::kErrInvalidContextId);  // HOST3D without a context
  ASSERT_EQ(CreateGuestBlob(gpu, 1, 4096, {{kPages, 4096, 0}}), ResponseType::kOkNodata);
  EXPECT_EQ(CreateGuestBlob(gpu, 1, 4096, {{kPages, 4096, 0}}), ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(MapBlob(gpu, 1, 0), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(UnmapBlob(gpu, 1), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(gpu.Run(CommandType::kTransferToHost2d, TransferToHost2d{{0, 0, 1, 1}, 0, 1, 0}).type(),
            ResponseType::kErrInvalidParameter);
  EXPECT_EQ(gpu.Run(CommandType::kSetScanout, SetScanout{{0, 0, 1, 1}, 0, 1}).type(),
            ResponseType::kErrInvalidParameter);
}

TEST(GpuBlobTest, ScanoutBlobErrors) {
  GpuDriver gpu;
  ASSERT_EQ(CreateGuestBlob(gpu, 1, 64 * 64 * 4, {{kPages, 64 * 64 * 4, 0}}), ResponseType::kOkNodata);
  ASSERT_TRUE(gpu.Create2d(2, 64, 64));
  const SetScanoutBlob good = {{0, 0, 64, 64}, 0, 1, 64, 64, 1, 0, {256, 0, 0, 0}, {0, 0, 0, 0}};
  const auto with = [&](auto change) {
    SetScanoutBlob body = good;
    change(body);
    return gpu.Run(CommandType::kSetScanoutBlob, body).type();
  };
  EXPECT_EQ(with([](auto&) {}), ResponseType::kOkNodata);
  EXPECT_EQ(with([](auto& b) { b.scanout_id = 1; }), ResponseType::kErrInvalidScanoutId);
  EXPECT_EQ(with([](auto& b) { b.resource_id = 9; }), ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(with([](auto& b) { b.resource_id = 2; }), ResponseType::kErrInvalidParameter);  // not a blob
  EXPECT_EQ(with([](auto& b) { b.format = 5; }), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(with([](auto& b) { b.strides[0] = 255; }), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(with([](auto& b) { b.strides[0] = 257; }), ResponseType::kErrInvalidParameter);  // ends past the blob
  EXPECT_EQ(with([](auto& b) { b.strides[0] = 0xffffffff; }), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(with([](auto& b) { b.offsets[0] = 1; }), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(with([](auto& b) { b.offsets[0] = 0xffffffff; }), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(with([](auto& b) { b.r.width = 65; }), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(with([](auto& b) { b.r.x = 0xffffffff, b.r.width = 2; }), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(with([](auto& b) { b.width = 0xffffffff; }), ResponseType::kErrOutOfMemory);
  EXPECT_EQ(with([](auto& b) { b.height = 65; }), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(with([](auto& b) { b.resource_id = 0; }), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.device().SnapshotScanout(0)->width, 0u);
}

TEST(GpuBlobTest, AHostBlobIsAnsweredWhenTheWorkerMadeItAndOthersGoOnMeanwhile) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  const uint64_t create = gpu.SendCreateBlob(1, 10, wire::BlobKind::kMemory, 5000, /*fence=*/6);
  const uint64_t map = gpu.Send(CommandType::kResourceMapBlob, ResourceMapBlob{10, 0, 0x10000});
  EXPECT_FALSE(gpu.Poll(create).has_value());
  EXPECT_FALSE(gpu.Poll(map).has_value());
  EXPECT_TRUE(gpu.Create2d(11, 4, 4));
  EXPECT_EQ(UnmapBlob(gpu, 10), ResponseType::kErrInvalidParameter);         // not mapped yet
  EXPECT_EQ(MapBlob(gpu, 10, 0x20000), ResponseType::kErrInvalidParameter);  // being mapped already
  EXPECT_EQ(CtxResource(gpu, CommandType::kCtxAttachResource, 1, 10), ResponseType::kOkNodata);

  const auto asked = gpu.domain().ReceiveA<wire::BlobCreateT>();
  ASSERT_NE(asked, nullptr);
  EXPECT_EQ(asked->context, 1u);
  EXPECT_EQ(asked->resource, 10u);
  EXPECT_EQ(asked->size, 5000u);
  EXPECT_EQ(asked->blob_id, wire::MakeBlobId(wire::BlobKind::kMemory, 0));
  const UniqueFd memfd = *CreateMemFd("blob", 8192);
  gpu.domain().SayBlobCreated(10, wire::BlobBacking::Memory, 8192, {memfd.get()});
  const Reply created = gpu.Poll(create).value_or(Reply());
  EXPECT_EQ(created.type(), ResponseType::kOkNodata);
  EXPECT_EQ(created.header.fence_id, 6u);
  const Reply mapped = gpu.Poll(map).value_or(Reply());
  EXPECT_EQ(mapped.type(), ResponseType::kOkMapInfo);
  EXPECT_EQ(mapped.As<RespMapInfo>().map_info, kMapCacheCached);
  // The same bytes on both sides.
  const Mapping* guest = gpu.window().at(0x10000);
  ASSERT_NE(guest, nullptr);
  EXPECT_EQ(guest->size(), 8192u);
  const Mapping worker = *Mapping::MapShared(memfd.get(), 0, 8192, Mapping::kReadWrite);
  guest->data()[4999] = 42;
  EXPECT_EQ(worker.data()[4999], 42);

  EXPECT_EQ(UnmapBlob(gpu, 10), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.window().mapped(), 0u);
  EXPECT_EQ(UnmapBlob(gpu, 10), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(MapBlob(gpu, 10, 0), ResponseType::kOkMapInfo);
  EXPECT_EQ(Unref(gpu, 10), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.window().mapped(), 0u);
  const auto destroyed = gpu.domain().ReceiveA<wire::BlobDestroyT>();
  ASSERT_NE(destroyed, nullptr);
  EXPECT_EQ(destroyed->resource, 10u);
  EXPECT_EQ(gpu.window().violation(), "");
}

TEST(GpuBlobTest, OddSizesRoundToPagesAndNeighboursAreUntouched) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  uint32_t id = 1;
  uint64_t offset = 0;
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{4097}, uint64_t{131071}, uint64_t{16383}, uint64_t{4096}}) {
    ASSERT_TRUE(gpu.CreateMappedBlob(1, id++, wire::BlobKind::kMemory, bytes, offset)) << bytes;
    const uint64_t rounded = *CheckedAlignUp(bytes, kPageSize);
    places.emplace_back(offset, rounded);
    offset += rounded;  // side by side
  }
  for (const auto& [at, bytes] : places)
    std::memset(gpu.window().at(at)->data(), static_cast<int>(at >> 12) + 1, bytes);
  for (const auto& [at, bytes] : places) {
    const uint8_t* data = gpu.window().at(at)->data();
    for (uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], static_cast<uint8_t>((at >> 12) + 1));
  }
  EXPECT_EQ(gpu.window().violation(), "");
}

TEST(GpuBlobTest, MapErrors) {
  GpuDriver gpu({.domain = true, .window_bytes = 1 << 20});
  ASSERT_TRUE(gpu.CreateContext(1));
  ASSERT_TRUE(gpu.CreateMappedBlob(1, 1, wire::BlobKind::kMemory, 8192, 0x4000));
  const uint64_t create = gpu.SendCreateBlob(1, 2, wire::BlobKind::kMemory, 8192);
  gpu.Pump();
  const UniqueFd memfd = *CreateMemFd("blob", 8192);
  gpu.domain().SayBlobCreated(2, wire::BlobBacking::Memory, 8192, {memfd.get()});
  ASSERT_EQ(gpu.Poll(create).value_or(Reply()).type(), ResponseType::kOkNodata);
  EXPECT_EQ(MapBlob(gpu, 9, 0), ResponseType::kErrInvalidResourceId);
  EXPECT_EQ(MapBlob(gpu, 2, 1), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(MapBlob(gpu, 2, 0x5000), ResponseType::kErrInvalidParameter);            // overlaps blob 1
  EXPECT_EQ(MapBlob(gpu, 2, 0x3000), ResponseType::kErrInvalidParameter);            // its start
  EXPECT_EQ(MapBlob(gpu, 2, (1 << 20) - 4096), ResponseType::kErrInvalidParameter);  // sticks out
  EXPECT_EQ(MapBlob(gpu, 2, ~uint64_t{0xfff}), ResponseType::kErrInvalidParameter);  // wraps
  EXPECT_EQ(MapBlob(gpu, 1, 0), ResponseType::kErrInvalidParameter);                 // mapped already
  // Without room for the map info nothing is mapped.
  EXPECT_EQ(gpu.Run(CommandType::kResourceMapBlob, ResourceMapBlob{2, 0, 0}, RequestOptions{.writable = 24}).type(),
            ResponseType::kErrInvalidParameter);
  EXPECT_EQ(gpu.window().at(0), nullptr);
  // The machine cannot: the place is free again afterwards.
  gpu.window().RefuseWith(absl::ResourceExhaustedError("no memslot"));
  EXPECT_EQ(MapBlob(gpu, 2, 0), ResponseType::kErrOutOfMemory);
  gpu.window().RefuseWith(absl::OkStatus());
  EXPECT_EQ(MapBlob(gpu, 2, 0), ResponseType::kOkMapInfo);
  EXPECT_EQ(gpu.window().violation(), "");
}

TEST(GpuBlobTest, ABlobThatIsNotMappableIsNotMapped) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  const ResourceCreateBlob body = {4, 2, 0, 0, wire::MakeBlobId(wire::BlobKind::kMemory, 0), 4096};
  const uint64_t create = gpu.Send(CommandType::kResourceCreateBlob, body, RequestOptions{.context = 1});
  EXPECT_EQ(MapBlob(gpu, 4, 0), ResponseType::kErrInvalidParameter);
  const UniqueFd memfd = *CreateMemFd("blob", 4096);
  gpu.domain().SayBlobCreated(4, wire::BlobBacking::Memory, 4096, {memfd.get()});
  EXPECT_EQ(gpu.Poll(create).value_or(Reply()).type(), ResponseType::kOkNodata);
}

TEST(GpuBlobTest, AMachineWithoutAWindowMapsNothing) {
  GpuDriver gpu({.domain = true, .window_bytes = 0});
  EXPECT_TRUE(gpu.device().shared_memory_regions().empty());
  ASSERT_TRUE(gpu.CreateContext(1));
  gpu.SendCreateBlob(1, 1, wire::BlobKind::kMemory, 4096);
  EXPECT_EQ(MapBlob(gpu, 1, 0), ResponseType::kErrInvalidParameter);
}

TEST(GpuBlobTest, ADoorbellIsAnEventfdInTheWindow) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  ASSERT_TRUE(gpu.CreateMappedBlob(1, 1, wire::BlobKind::kDoorbell, 4096, 0x2000));
  EXPECT_GE(gpu.window().doorbell(0x2000), 0);
  EXPECT_EQ(gpu.window().at(0x2000), nullptr);
  EXPECT_EQ(Unref(gpu, 1), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.window().mapped(), 0u);
}

TEST(GpuBlobTest, DoorbellsAreCapped) {
  GpuDriver gpu({.domain = true, .limits = {.max_doorbells = 2}});
  ASSERT_TRUE(gpu.CreateContext(1));
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(gpu.CreateMappedBlob(1, 1, wire::BlobKind::kDoorbell, 4096, 0x1000));
    EXPECT_TRUE(gpu.CreateMappedBlob(1, 2, wire::BlobKind::kDoorbell, 4096, 0x2000));
    EXPECT_FALSE(gpu.CreateMappedBlob(1, 3, wire::BlobKind::kDoorbell, 4096, 0x3000));
    EXPECT_EQ(Unref(gpu, 1), ResponseType::kOkNodata);
    EXPECT_EQ(Unref(gpu, 2), ResponseType::kOkNodata);
  }
}

TEST(GpuBlobTest, AWorkersRefusalReachesTheGuestAndTheWaitingMap) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  const std::pair<wire::BlobStatus, ResponseType> kCases[] = {
      {wire::BlobStatus::BadRequest, ResponseType::kErrInvalidParameter},
      {wire::BlobStatus::OutOfMemory, ResponseType::kErrOutOfMemory},
      {wire::BlobStatus::NoContext, ResponseType::kErrInvalidContextId}};
  for (const auto& [status, type] : kCases) {
    const uint64_t create = gpu.SendCreateBlob(1, 1, wire::BlobKind::kMemory, 4096);
    const uint64_t map = gpu.Send(CommandType::kResourceMapBlob, ResourceMapBlob{1, 0, 0});
    gpu.domain().SayBlobFailed(1, status);
    EXPECT_EQ(gpu.Poll(create).value_or(Reply()).type(), type);
    EXPECT_EQ(gpu.Poll(map).value_or(Reply()).type(), type);
    EXPECT_EQ(Unref(gpu, 1), ResponseType::kErrInvalidResourceId);
  }
  EXPECT_EQ(gpu.domain().ReceiveA<wire::BlobDestroyT>(), nullptr);
  EXPECT_TRUE(gpu.CreateMappedBlob(1, 1, wire::BlobKind::kMemory, 4096, 0));  // id and place are free
}

TEST(GpuBlobTest, AnIdGivenUpWhilePendingMayBeTakenAgain) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  const uint64_t first = gpu.SendCreateBlob(1, 1, wire::BlobKind::kMemory, 4096);
  EXPECT_EQ(Unref(gpu, 1), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.Poll(first).value_or(Reply()).type(), ResponseType::kErrInvalidResourceId);
  const uint64_t second = gpu.SendCreateBlob(1, 1, wire::BlobKind::kMemory, 8192);
  const UniqueFd small = *CreateMemFd("first", 4096), large = *CreateMemFd("second", 8192);
  gpu.domain().SayBlobCreated(1, wire::BlobBacking::Memory, 4096, {small.get()});  // for the first: dropped
  EXPECT_FALSE(gpu.Poll(second).has_value());
  gpu.domain().SayBlobCreated(1, wire::BlobBacking::Memory, 8192, {large.get()});
  EXPECT_EQ(gpu.Poll(second).value_or(Reply()).type(), ResponseType::kOkNodata);
  EXPECT_EQ(MapBlob(gpu, 1, 0), ResponseType::kOkMapInfo);
  // The worker heard create, destroy, create, in this order.
  EXPECT_EQ(gpu.domain().ReceiveA<wire::BlobCreateT>()->size, 4096u);
  EXPECT_EQ(gpu.domain().Receive()->body.type, wire::ToDomain::BlobDestroy);
  EXPECT_EQ(gpu.domain().Receive()->body.AsBlobCreate()->size, 8192u);
}

TEST(GpuBlobTest, HostBlobErrors) {
  GpuDriver gpu({.domain = true, .limits = {.max_blob_bytes = 1 << 20}});
  ASSERT_TRUE(gpu.CreateContext(1));
  const auto create = [&](ResourceCreateBlob body, uint32_t context, absl::Span<const uint8_t> extra = {}) {
    return gpu.Run(CommandType::kResourceCreateBlob, body, RequestOptions{.context = context}, extra).type();
  };
  const uint64_t memory = wire::MakeBlobId(wire::BlobKind::kMemory, 0);
  EXPECT_EQ(create({1, 2, 1, 0, memory, 4096}, 5), ResponseType::kErrInvalidContextId);
  EXPECT_EQ(create({1, 2, 1, 0, memory, 0}, 1), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(create({1, 2, 1, 0, memory, ~uint64_t{0}}, 1), ResponseType::kErrOutOfMemory);
  EXPECT_EQ(create({1, 2, 1, 0, memory, (1 << 20) + 1}, 1), ResponseType::kErrOutOfMemory);
  EXPECT_EQ(create({0, 2, 1, 0, memory, 4096}, 1), ResponseType::kErrInvalidResourceId);
  std::vector<uint8_t> entry;
  Append(&entry, MemEntry{kPages, 4096, 0});
  EXPECT_EQ(create({1, 2, 1, 1, memory, 4096}, 1, entry), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(gpu.domain().ReceiveA<wire::BlobCreateT>(), nullptr);
  ASSERT_TRUE(gpu.CreateMappedBlob(1, 1, wire::BlobKind::kMemory, 4096, 0));
  EXPECT_FALSE(gpu.Attach(1, {{kPages, 4096, 0}}));  // its memory is the domain's
}

TEST(GpuBlobTest, AHostBlobCanBeScannedOutWithoutACopyBefore) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  ASSERT_TRUE(gpu.CreateMappedBlob(1, 1, wire::BlobKind::kMemory, 16 * 16 * 4, 0));
  const SetScanoutBlob set = {{2, 3, 4, 1}, 0, 1, 16, 16, 67, 0, {64, 0, 0, 0}, {0, 0, 0, 0}};
  ASSERT_EQ(gpu.Run(CommandType::kSetScanoutBlob, set).type(), ResponseType::kOkNodata);
  gpu.window().at(0)->data()[(3 * 16 + 2) * 4] = 99;
  const ScanoutImage image = *gpu.device().SnapshotScanout(0);
  EXPECT_EQ(image.width, 4u);
  EXPECT_EQ(image.height, 1u);
  EXPECT_EQ(image.format, 67u);
  const Mapping map = *Mapping::MapShared(image.memfd.get(), 0, 16, Mapping::kRead);
  EXPECT_EQ(map.data()[0], 99);
}

TEST(Gpu3dTest, Classic3dResourcesAndTransfersAreRefused) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.Create2d(1, 4, 4));
  EXPECT_EQ(gpu.Run(CommandType::kResourceCreate3d, ResourceCreate3d{.resource_id = 2}).type(),
            ResponseType::kErrUnspec);
  EXPECT_EQ(gpu.Run(CommandType::kResourceCreate3d, ResourceCreate3d{.resource_id = 1}).type(),
            ResponseType::kErrInvalidResourceId);
  for (CommandType type : {CommandType::kTransferToHost3d, CommandType::kTransferFromHost3d}) {
    EXPECT_EQ(gpu.Run(type, TransferHost3d{.resource_id = 1}).type(), ResponseType::kErrUnspec);
    EXPECT_EQ(gpu.Run(type, TransferHost3d{.resource_id = 9}).type(), ResponseType::kErrInvalidResourceId);
  }
}

TEST(Gpu3dTest, ResetDestroysEverythingInTheDomainAndStartsAnew) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  ASSERT_TRUE(gpu.CreateMappedBlob(1, 1, wire::BlobKind::kMemory, 4096, 0));
  gpu.SendSubmit(1, 1, 0);
  gpu.SendCreateBlob(1, 2, wire::BlobKind::kMemory, 4096);
  const uint64_t stale = gpu.NextSubmit()->fence_id;
  gpu.Reset();
  EXPECT_EQ(gpu.window().mapped(), 0u);
  EXPECT_NE(gpu.domain().ReceiveA<wire::ContextDestroyT>(), nullptr);
  // Late answers to questions of before the reset do no harm.
  const UniqueFd memfd = *CreateMemFd("blob", 4096);
  gpu.domain().SayBlobCreated(2, wire::BlobBacking::Memory, 4096, {memfd.get()});
  gpu.domain().SayFenceSignaled(1, 0, stale);
  gpu.Pump();
  ASSERT_TRUE(gpu.CreateContext(1));
  ASSERT_TRUE(gpu.CreateMappedBlob(1, 2, wire::BlobKind::kMemory, 4096, 0));
  EXPECT_EQ(gpu.window().violation(), "");
}

TEST(Gpu3dTest, ContextsAndBlobsMadeAndDroppedAThousandTimesLeaveNothing) {
  GpuDriver gpu({.domain = true});
  for (uint32_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(gpu.CreateContext(1)) << i;
    ASSERT_TRUE(gpu.CreateMappedBlob(1, 1, wire::BlobKind::kRing, wire::kMinRingBytes, 0)) << i;
    ASSERT_TRUE(gpu.Create2d(2, 64, 64));
    ASSERT_TRUE(gpu.Attach(2, {{kPages, 16384, 0}}));
    ASSERT_EQ(Unref(gpu, 1), ResponseType::kOkNodata);
    ASSERT_EQ(Unref(gpu, 2), ResponseType::kOkNodata);
    ASSERT_EQ(DestroyContext(gpu, 1), ResponseType::kOkNodata);
    while (gpu.domain().Receive().has_value()) {
    }
  }
  EXPECT_EQ(gpu.window().mapped(), 0u);
}

}  // namespace
}  // namespace sluice::gpu_front
