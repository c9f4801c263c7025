// A worker that dies, lies, or does not listen: the device answers every request and the VM goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "devices/gpu-front/device.h"
#include "devices/gpu-front/testing/gpu_driver.h"
#include "flatbuf/ring.h"
#include "flatbuf/schema_hash.h"

namespace sluice::gpu_front {
namespace {

using testing::GpuDriver;
using testing::Reply;
using testing::RequestOptions;

uint32_t RingStatus(const Mapping* ring) {
  uint32_t status;
  std::memcpy(&status, ring->data() + offsetof(wire::RingHeader, status), sizeof(status));
  return status;
}
constexpr uint32_t Reason(wire::LostReason reason) {
  return static_cast<uint32_t>(reason);
}

ResponseType TypeOf(const std::optional<Reply>& reply) {
  return reply.value_or(Reply()).type();
}

void Expect2dWorks(GpuDriver& gpu) {
  EXPECT_TRUE(gpu.Create2d(4000, 8, 8));
  EXPECT_EQ(gpu.Run(CommandType::kResourceUnref, ResourceRef{4000, 0}).type(), ResponseType::kOkNodata);
}

TEST(WorkerDeathTest, CompletesFencesBlobsAndMapsAndMarksEveryRing) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  ASSERT_TRUE(gpu.CreateContext(2));
  ASSERT_TRUE(gpu.CreateMappedBlob(1, 1, wire::BlobKind::kRing, wire::kMinRingBytes, 0));
  ASSERT_TRUE(gpu.CreateMappedBlob(2, 2, wire::BlobKind::kRing, wire::kMinRingBytes, 0x100000));
  ASSERT_TRUE(gpu.CreateMappedBlob(1, 3, wire::BlobKind::kMemory, 4096, 0x200000));
  const uint64_t s1 = gpu.SendSubmit(1, 1, 1), s2 = gpu.SendSubmit(1, 2, 1), s3 = gpu.SendSubmit(2, 3);
  const uint64_t create = gpu.SendCreateBlob(1, 4, wire::BlobKind::kMemory, 4096);
  const uint64_t map = gpu.Send(CommandType::kResourceMapBlob, ResourceMapBlob{4, 0, 0x300000});
  gpu.Pump();
  gpu.domain().Die();
  EXPECT_EQ(TypeOf(gpu.Poll(s1)), ResponseType::kErrUnspec);
  EXPECT_EQ(gpu.Poll(s2).value_or(Reply()).header.fence_id, 2u);
  EXPECT_EQ(TypeOf(gpu.Poll(s3)), ResponseType::kErrUnspec);
  EXPECT_TRUE(IsError(TypeOf(gpu.Poll(create))));
  EXPECT_TRUE(IsError(TypeOf(gpu.Poll(map))));
  EXPECT_EQ(RingStatus(gpu.window().at(0)), Reason(wire::LostReason::kWorkerGone));
  EXPECT_EQ(RingStatus(gpu.window().at(0x100000)), Reason(wire::LostReason::kWorkerGone));
  EXPECT_EQ(gpu.device().domain_state(), DomainState::kGone);
  // 3D is over, 2D is not.
  EXPECT_EQ(TypeOf(gpu.Poll(gpu.SendSubmit(1, 9, 1))), ResponseType::kErrUnspec);
  EXPECT_FALSE(gpu.CreateContext(3));
  EXPECT_EQ(TypeOf(gpu.Poll(gpu.SendCreateBlob(1, 5, wire::BlobKind::kMemory, 4096))), ResponseType::kErrUnspec);
  EXPECT_EQ(gpu.Run(CommandType::kGetCapset, GetCapset{wire::kCapsetId, 1}).type(), ResponseType::kErrInvalidParameter);
  // Memory that the guest sees stays until it lets go.
  EXPECT_EQ(gpu.Run(CommandType::kResourceUnmapBlob, ResourceRef{3, 0}).type(), ResponseType::kOkNodata);
  EXPECT_EQ(gpu.Run(CommandType::kCtxDestroy, RequestOptions{.context = 1}).type(), ResponseType::kOkNodata);
  Expect2dWorks(gpu);
}

TEST(WorkerDeathTest, BeforeItsHelloAnswersThoseWhoWaitForTheCapabilitySet) {
  GpuDriver gpu({.domain = true, .hello = false});
  const uint64_t info = gpu.Send(CommandType::kGetCapsetInfo, GetCapsetInfo{0, 0});
  gpu.Pump();
  gpu.domain().Die();
  EXPECT_EQ(TypeOf(gpu.Poll(info)), ResponseType::kErrInvalidParameter);
}

TEST(WorkerDeathTest, ANewWorkerServesNewContextsAndOldOnesStayLost) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  EXPECT_FALSE(gpu.ConnectDomain().ok());  // it has one
  GpuDriver again({.domain = true});
  ASSERT_TRUE(again.CreateContext(1));
  again.domain().Die();
  again.Pump();
  ASSERT_TRUE(again.ConnectDomain().ok());
  again.domain().SayHello();
  again.Pump();
  EXPECT_EQ(again.device().domain_state(), DomainState::kReady);
  EXPECT_EQ(TypeOf(again.Poll(again.SendSubmit(1, 1, 0))), ResponseType::kErrUnspec);
  EXPECT_EQ(again.Run(CommandType::kCtxDestroy, RequestOptions{.context = 1}).type(), ResponseType::kOkNodata);
  ASSERT_TRUE(again.CreateContext(1));
  // The new worker never heard of the old context's end.
  EXPECT_EQ(again.domain().ReceiveA<wire::HelloT>()->frontend, "test");
  EXPECT_EQ(again.domain().Receive()->body.type, wire::ToDomain::ContextCreate);
  ASSERT_TRUE(again.CreateMappedBlob(1, 1, wire::BlobKind::kMemory, 4096, 0));
}

TEST(ContextLostTest, EndsThatContextOnly) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  ASSERT_TRUE(gpu.CreateContext(2));
  ASSERT_TRUE(gpu.CreateMappedBlob(1, 1, wire::BlobKind::kRing, wire::kMinRingBytes, 0));
  ASSERT_TRUE(gpu.CreateMappedBlob(2, 2, wire::BlobKind::kRing, wire::kMinRingBytes, 0x100000));
  const uint64_t lost = gpu.SendSubmit(1, 1, 0), alive = gpu.SendSubmit(2, 2, 0);
  gpu.NextSubmit();
  const uint64_t fence = gpu.NextSubmit()->fence_id;
  gpu.domain().SayContextLost(1, wire::LostReason::kDeviceLost);
  EXPECT_EQ(TypeOf(gpu.Poll(lost)), ResponseType::kErrUnspec);
  EXPECT_EQ(RingStatus(gpu.window().at(0)), Reason(wire::LostReason::kDeviceLost));
  EXPECT_EQ(RingStatus(gpu.window().at(0x100000)), 0u);
  EXPECT_EQ(TypeOf(gpu.Poll(gpu.SendSubmit(1, 3, 0))), ResponseType::kErrUnspec);
  EXPECT_FALSE(gpu.Poll(alive).has_value());
  gpu.domain().SayFenceSignaled(2, 0, fence);
  EXPECT_EQ(TypeOf(gpu.Poll(alive)), ResponseType::kOkNodata);
  // The same id again is a new life.
  EXPECT_EQ(gpu.Run(CommandType::kCtxDestroy, RequestOptions{.context = 1}).type(), ResponseType::kOkNodata);
  EXPECT_TRUE(gpu.CreateContext(1));
  EXPECT_EQ(TypeOf(gpu.Poll(gpu.SendSubmit(1, std::nullopt))), ResponseType::kOkNodata);
}

TEST(ContextLostTest, AHangingContextDoesNotHoldTheDisplayOfRingsBack) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  const uint64_t hangs = gpu.SendSubmit(1, 1, 0);  // never signaled
  Expect2dWorks(gpu);
  EXPECT_EQ(gpu.Run(CommandType::kGetDisplayInfo, RequestOptions{.fence = 2}).type(), ResponseType::kOkDisplayInfo);
  EXPECT_FALSE(gpu.Poll(hangs).has_value());
}

TEST(LyingWorkerTest, WrongHelloIsRefusedAndThereIsNoCapabilitySet) {
  const std::vector<uint8_t> zeros(sizeof(wire::Capset));
  wire::Capset capset = testing::MakeCapset();
  std::vector<uint8_t> good(sizeof(capset));
  std::memcpy(good.data(), &capset, sizeof(capset));
  const std::vector<uint8_t> cut(good.begin(), good.end() - 1);
  struct Case {
    uint32_t version;
    uint64_t hash;
    std::vector<uint8_t> capset;
  };
  for (const Case& c :
       {Case{wire::kProtocolVersion + 1, wire::kSchemaHash, good},
        Case{wire::kProtocolVersion, wire::kSchemaHash ^ 1, good}, Case{wire::kProtocolVersion, wire::kSchemaHash, {}},
        Case{wire::kProtocolVersion, wire::kSchemaHash, zeros}, Case{wire::kProtocolVersion, wire::kSchemaHash, cut}}) {
    GpuDriver gpu({.domain = true, .hello = false});
    const uint64_t info = gpu.Send(CommandType::kGetCapsetInfo, GetCapsetInfo{0, 0});
    gpu.domain().SayHello(c.version, c.hash, c.capset);
    EXPECT_EQ(TypeOf(gpu.Poll(info)), ResponseType::kErrInvalidParameter);
    EXPECT_EQ(gpu.device().domain_state(), DomainState::kGone);
    Expect2dWorks(gpu);
  }
}

TEST(LyingWorkerTest, BytesThatDoNotVerifyEndTheChannelAndNothingElse) {
  for (const std::vector<uint8_t>& bytes :
       {std::vector<uint8_t>{0}, std::vector<uint8_t>(16, 0xff), std::vector<uint8_t>(90000, 0)}) {
    GpuDriver gpu({.domain = true});
    ASSERT_TRUE(gpu.CreateContext(1));
    const uint64_t ticket = gpu.SendSubmit(1, 1, 0);
    ASSERT_TRUE(gpu.domain().SayBytes(bytes));
    EXPECT_EQ(TypeOf(gpu.Poll(ticket)), ResponseType::kErrUnspec);
    Expect2dWorks(gpu);
  }
}

TEST(LyingWorkerTest, AnythingBeforeTheHelloOrASecondHelloEndsTheChannel) {
  GpuDriver early({.domain = true, .hello = false});
  early.domain().SayFenceSignaled(1, 0, 1);
  early.Pump();
  EXPECT_EQ(early.device().domain_state(), DomainState::kGone);
  GpuDriver twice({.domain = true});
  twice.domain().SayHello();
  twice.Pump();
  EXPECT_EQ(twice.device().domain_state(), DomainState::kGone);
}

TEST(LyingWorkerTest, WrongFenceNumbersCompleteNothing) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  const uint64_t ticket = gpu.SendSubmit(1, 1, 2);
  const uint64_t right = gpu.NextSubmit()->fence_id;
  gpu.domain().SayFenceSignaled(1, 2, 0);
  gpu.domain().SayFenceSignaled(1, 2, right + 1);
  gpu.domain().SayFenceSignaled(1, 2, ~uint64_t{0});
  gpu.domain().SayFenceSignaled(1, 3, right);
  gpu.domain().SayFenceSignaled(1, 255, right);
  gpu.domain().SayFenceSignaled(2, 2, right);
  EXPECT_FALSE(gpu.Poll(ticket).has_value());
  gpu.domain().SayFenceSignaled(1, 2, right);
  EXPECT_TRUE(gpu.Poll(ticket).has_value());
}

TEST(LyingWorkerTest, UnknownContextsAndUnaskedBlobsAreIgnored) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  gpu.domain().SayContextLost(77, wire::LostReason::kDeviceLost);
  const UniqueFd memfd = *CreateMemFd("blob", 4096);
  gpu.domain().SayBlobCreated(5, wire::BlobBacking::Memory, 4096, {memfd.get()});
  ASSERT_TRUE(gpu.CreateMappedBlob(1, 6, wire::BlobKind::kMemory, 4096, 0));
  gpu.domain().SayBlobCreated(6, wire::BlobBacking::Memory, 4096, {memfd.get()});  // again
  gpu.Pump();
  EXPECT_EQ(gpu.device().domain_state(), DomainState::kReady);
  EXPECT_EQ(TypeOf(gpu.Poll(gpu.SendSubmit(1, std::nullopt))), ResponseType::kOkNodata);
}

TEST(LyingWorkerTest, ABlobThatIsNotWhatWasAskedForIsRefused) {
  const UniqueFd right = *CreateMemFd("right", 8192);
  const UniqueFd small = *CreateMemFd("small", 4096);
  const UniqueFd unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 8192), 0);
  const UniqueFd event = *CreateEventFd(true);
  struct Case {
    const char* what;
    wire::BlobBacking backing;
    uint64_t size;
    std::vector<int> fds;
  };
  const Case kCases[] = {
      {"no descriptor", wire::BlobBacking::Memory, 8192, {}},
      {"two descriptors", wire::BlobBacking::Memory, 8192, {right.get(), right.get()}},
      {"another size", wire::BlobBacking::Memory, 4096, {right.get()}},
      {"a huge size", wire::BlobBacking::Memory, ~uint64_t{0}, {right.get()}},
      {"a memfd that is too short", wire::BlobBacking::Memory, 8192, {small.get()}},
      {"a memfd that can shrink", wire::BlobBacking::Memory, 8192, {unsealed.get()}},
      {"an eventfd", wire::BlobBacking::Memory, 8192, {event.get()}},
      {"a ring", wire::BlobBacking::Ring, 8192, {right.get()}},
      {"a doorbell", wire::BlobBacking::Doorbell, 8192, {event.get()}},
      {"a backing that does not exist", static_cast<wire::BlobBacking>(9), 8192, {right.get()}},
  };
  for (const Case& c : kCases) {
    GpuDriver gpu({.domain = true});
    ASSERT_TRUE(gpu.CreateContext(1));
    const uint64_t create = gpu.SendCreateBlob(1, 1, wire::BlobKind::kMemory, 8192);
    const uint64_t map = gpu.Send(CommandType::kResourceMapBlob, ResourceMapBlob{1, 0, 0});
    gpu.Pump();
    ASSERT_TRUE(gpu.domain().SayBlobCreated(1, c.backing, c.size, c.fds));
    EXPECT_EQ(TypeOf(gpu.Poll(create)), ResponseType::kErrUnspec) << c.what;
    EXPECT_EQ(TypeOf(gpu.Poll(map)), ResponseType::kErrUnspec) << c.what;
    EXPECT_EQ(gpu.window().mapped(), 0u) << c.what;
    // It is told to forget it, and the next one works.
    EXPECT_NE(gpu.domain().ReceiveA<wire::BlobDestroyT>(), nullptr) << c.what;
    EXPECT_TRUE(gpu.CreateMappedBlob(1, 1, wire::BlobKind::kMemory, 8192, 0)) << c.what;
  }
}

TEST(SlowWorkerTest, OneThatNeverSaysHelloCountsAsDead) {
  GpuDriver gpu({.domain = true, .hello = false, .domain_timeout = absl::Milliseconds(50)});
  const auto reply = gpu.Wait(gpu.Send(CommandType::kGetCapsetInfo, GetCapsetInfo{0, 0}));
  EXPECT_EQ(TypeOf(reply), ResponseType::kErrInvalidParameter);
  EXPECT_EQ(gpu.device().domain_state(), DomainState::kGone);
}

TEST(SlowWorkerTest, OneThatNeverAnswersForABlobCountsAsDead) {
  GpuDriver gpu({.domain = true, .domain_timeout = absl::Milliseconds(200)});
  ASSERT_TRUE(gpu.CreateContext(1));
  ASSERT_EQ(gpu.device().domain_state(), DomainState::kReady);
  const uint64_t create = gpu.SendCreateBlob(1, 1, wire::BlobKind::kMemory, 4096);
  const uint64_t map = gpu.Send(CommandType::kResourceMapBlob, ResourceMapBlob{1, 0, 0});
  EXPECT_TRUE(IsError(TypeOf(gpu.Wait(map))));
  EXPECT_TRUE(IsError(TypeOf(gpu.Wait(create))));
}

TEST(SlowWorkerTest, OneThatDoesNotReadPoisonsTheFloodingContextAndOthersGoOn) {
  GpuDriver gpu({.domain = true});
  ASSERT_TRUE(gpu.CreateContext(1));
  ASSERT_TRUE(gpu.CreateContext(2));
  ASSERT_TRUE(gpu.CreateMappedBlob(1, 1, wire::BlobKind::kRing, wire::kMinRingBytes, 0));
  const std::vector<uint8_t> payload(32 * 1024);
  const uint64_t fenced = gpu.SendSubmit(1, 1, 0);
  ResponseType type = ResponseType::kOkNodata;
  int sent = 0;
  for (; type == ResponseType::kOkNodata && sent < 10000; ++sent) {
    type = gpu.Run(CommandType::kSubmit3d, Submit3d{static_cast<uint32_t>(payload.size()), 0},
                   RequestOptions{.context = 1}, payload)
               .type();
  }
  EXPECT_EQ(type, ResponseType::kErrOutOfMemory);
  EXPECT_LT(sent, 1000);
  EXPECT_EQ(TypeOf(gpu.Poll(fenced)), ResponseType::kErrUnspec);
  EXPECT_EQ(RingStatus(gpu.window().at(0)), Reason(wire::LostReason::kLimit));
  EXPECT_EQ(gpu.Run(CommandType::kCtxDestroy, RequestOptions{.context = 1}).type(), ResponseType::kOkNodata);
  // The worker reads again: everything that was accepted arrives, in order, the end of the context last.
  uint64_t submits = 0;
  bool destroyed = false;
  for (int quiet = 0; quiet < 3;) {
    const auto message = gpu.domain().Receive();
    if (!message.has_value()) {
      gpu.Pump();
      ++quiet;
      continue;
    }
    quiet = 0;
    submits += message->body.type == wire::ToDomain::Submit;
    destroyed |= message->body.type == wire::ToDomain::ContextDestroy;
  }
  EXPECT_EQ(submits, static_cast<uint64_t>(sent));  // with the fenced one, without the refused one
  EXPECT_TRUE(destroyed);
  EXPECT_EQ(TypeOf(gpu.Poll(gpu.SendSubmit(2, std::nullopt))), ResponseType::kOkNodata);
}

TEST(DomainStateTest, IsReportedOnTheLoop) {
  asio::io_context loop;
  auto pair = *CreateSeqPacketPair();
  testing::FakeDomain domain(std::move(pair.second));
  std::vector<DomainState> states;
  GpuFrontOptions options;
  options.loop = &loop;
  options.channel = std::move(pair.first);
  options.on_domain_state = [&](DomainState state, const absl::Status&) { states.push_back(state); };
  const auto device = *GpuFront::Create(std::move(options));
  domain.SayHello();
  loop.poll();
  EXPECT_THAT(states, ::testing::ElementsAre(DomainState::kReady));
  domain.Die();
  loop.restart();
  while (loop.poll() > 0) {
  }
  EXPECT_THAT(states, ::testing::ElementsAre(DomainState::kReady, DomainState::kGone));
}

}  // namespace
}  // namespace sluice::gpu_front
