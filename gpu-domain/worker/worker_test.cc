// The whole worker over its channel, in this process: what a front-end and its guest can see of it.
#include "gpu-domain/worker/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "absl/time/clock.h"
#include "flatbuf/schema_hash.h"
#include "gpu-domain/worker/testing/fake_frontend.h"
#include "gpu-domain/worker/testing/saxpy_job.h"
#include "vmm/base/checked.h"
#include "vmm/base/seqpacket.h"

namespace sluice::worker {
namespace {

using testing::FakeFrontend;
using testing::FrontendBlob;
using testing::GuestPlatform;
using testing::SaxpyJob;

// Vulkan is loaded once for all tests.
const VulkanDriver* Driver() {
  static const absl::StatusOr<std::unique_ptr<VulkanDriver>> driver = VulkanDriver::Create(DriverOptions());
  return driver.ok() ? driver->get() : nullptr;
}

class WorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Driver() == nullptr) GTEST_SKIP() << "no Vulkan driver";
    options_.memory_bytes = 64 << 20;
  }
  void TearDown() override { End(); }

  void Start() {
    auto pair = CreateSeqPacketPair();
    ASSERT_TRUE(pair.ok());
    frontend_ = std::make_unique<FakeFrontend>(std::move(pair->first));
    worker_ = std::make_unique<Worker>(options_, std::move(pair->second), Driver(), &stats_, UniqueFd());
    worker_->SetOnHung([this](absl::string_view) { hung_ = true; });
    thread_ = std::thread([this] { code_ = worker_->Run(); });
  }
  void StartAndGreet() {
    Start();
    ASSERT_TRUE(frontend_->Hello("linux").ok());
  }
  // A context with a ring, whose guest is now the current one.
  std::unique_ptr<GuestPlatform> Guest(uint32_t context) {
    frontend_->CreateContext(context);
    auto platform = GuestPlatform::Create(frontend_.get(), context);
    EXPECT_TRUE(platform.ok()) << platform.status();
    return platform.ok() ? *std::move(platform) : nullptr;
  }
  // Closes the channel; the exit code.
  int End() {
    if (!thread_.joinable()) return code_;
    frontend_->Close();
    thread_.join();
    worker_.reset();
    return code_;
  }

  WorkerOptions options_;
  wire::WorkerStats stats_{};
  std::unique_ptr<FakeFrontend> frontend_;
  std::unique_ptr<Worker> worker_;
  std::thread thread_;
  std::atomic<bool> hung_{false};
  int code_ = -1;
};

TEST_F(WorkerTest, HelloIsAnsweredWithTheCapset) {
  options_.domain = "gpu-a";
  Start();
  const auto capset = frontend_->Hello("linux");
  ASSERT_TRUE(capset.ok()) << capset.status();
  EXPECT_EQ(capset->magic, wire::kCapsetMagic);
  EXPECT_EQ(capset->schema_hash, wire::kSchemaHash);
  EXPECT_EQ(capset->memory_quota_bytes, options_.memory_bytes);
  EXPECT_EQ(capset->max_contexts, options_.max_contexts);
  EXPECT_STREQ(capset->os_type, "linux");
  EXPECT_STREQ(capset->domain_name, "gpu-a");
  EXPECT_STRNE(capset->device_name, "");
  EXPECT_EQ(End(), kExitOk);
}

TEST_F(WorkerTest, AnotherSchemaIsAnsweredAndThenRefused) {
  Start();
  const auto capset = frontend_->Hello("linux", wire::kProtocolVersion, wire::kSchemaHash + 1);
  ASSERT_TRUE(capset.ok());
  EXPECT_EQ(capset->schema_hash, wire::kSchemaHash);
  EXPECT_TRUE(End() == kExitProtocol);
}

TEST_F(WorkerTest, AnotherOsTypeIsRefused) {
  Start();
  (void)frontend_->Hello("windows");
  EXPECT_EQ(End(), kExitProtocol);
}

TEST_F(WorkerTest, AnythingBeforeHelloEndsTheChannel) {
  Start();
  frontend_->CreateContext(1);
  EXPECT_EQ(End(), kExitProtocol);
}

TEST_F(WorkerTest, BytesThatAreNoMessageEndTheChannel) {
  StartAndGreet();
  const std::vector<uint8_t> garbage(100, 0xa5);
  ASSERT_TRUE(frontend_->SendRaw(garbage).ok());
  EXPECT_EQ(End(), kExitProtocol);
}

TEST_F(WorkerTest, AGuestComputesAndItsFencesComeTrue) {
  StartAndGreet();
  auto guest = Guest(1);
  ASSERT_NE(guest, nullptr);
  VkResult error = VK_SUCCESS;
  auto job = SaxpyJob::Create(100'000, &error);
  ASSERT_NE(job, nullptr) << error;
  for (int i = 1; i <= 3; ++i) {
    const auto a = static_cast<float>(i);
    ASSERT_EQ(job->Run(a), VK_SUCCESS);
    EXPECT_TRUE(job->Right(a));
  }
  EXPECT_EQ(stats_.submits, 3u);
  EXPECT_GT(stats_.objects, 5u);
  EXPECT_GT(stats_.frames, 10u);
  EXPECT_GT(stats_.bytes_in, 1000u);
  EXPECT_GT(stats_.bytes_out, 0u);
  EXPECT_GE(stats_.memory_bytes, 2 * 100'000 * sizeof(float));
  job.reset();
  guest.reset();
  EXPECT_EQ(End(), kExitOk);
  EXPECT_FALSE(hung_);
  EXPECT_EQ(stats_.objects, 0u);
  EXPECT_EQ(stats_.memory_bytes, 0u);
  EXPECT_EQ(stats_.contexts, 0u);
}

TEST_F(WorkerTest, NothingIsLeftAfterAHundredContexts) {
  StartAndGreet();
  uint32_t destroyed = frontend_->next_resource();
  for (uint32_t i = 1; i <= 100; ++i) {
    auto guest = Guest(i);
    ASSERT_NE(guest, nullptr) << i;
    VkResult error = VK_SUCCESS;
    auto job = SaxpyJob::Create(1000, &error);
    ASSERT_NE(job, nullptr) << error;
    ASSERT_EQ(job->Run(2), VK_SUCCESS);
    ASSERT_TRUE(job->Right(2));
    // Half of the guests clean up; the others are killed, with all their objects alive.
    if (i % 2 == 0) job.reset();
    frontend_->DestroyContext(i);
    const absl::Time deadline = absl::Now() + testing::kPatience;
    while (guest->header().status.load() == 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
    ASSERT_EQ(guest->header().status.load(), static_cast<uint32_t>(wire::LostReason::kDestroyed));
    job.reset();
    guest.reset();
    for (; destroyed < frontend_->next_resource(); ++destroyed) frontend_->DestroyBlob(destroyed);
  }
  EXPECT_EQ(End(), kExitOk);
  EXPECT_EQ(stats_.contexts_total, 100u);
  EXPECT_EQ(stats_.contexts, 0u);
  EXPECT_EQ(stats_.objects, 0u);
  EXPECT_EQ(stats_.memory_bytes, 0u);
  EXPECT_EQ(stats_.contexts_lost, 0u);
}

TEST_F(WorkerTest, AFenceWaitsForTheRingPosition) {
  StartAndGreet();
  auto guest = Guest(1);
  ASSERT_NE(guest, nullptr);
  const uint64_t at_once = frontend_->Fence(1, 0, 0, 0);
  EXPECT_TRUE(frontend_->WaitFence(1, at_once).ok());
  const uint64_t far = frontend_->Fence(1, 0, 1 << 20, 0);
  VkInstance instance = VK_NULL_HANDLE;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  ASSERT_EQ(vkCreateInstance(&info, nullptr, &instance), VK_SUCCESS);
  const uint64_t now = frontend_->Fence(1, 0, guest->channel().position(), 0);
  EXPECT_TRUE(frontend_->WaitFence(1, now).ok());
  EXPECT_FALSE(frontend_->Signaled(1, far));
  // Destroying the context lets go of everybody who waits.
  frontend_->DestroyContext(1);
  EXPECT_TRUE(frontend_->WaitFence(1, far).ok());
  vkDestroyInstance(instance, nullptr);  // the guest's own half
}

// A producer whose ring is full in the middle of a long message waits for the frames that it has sent.
TEST_F(WorkerTest, AFenceInTheMiddleOfALongMessageComesTrueWhenItsFramesAreTaken) {
  StartAndGreet();
  auto guest = Guest(1);
  ASSERT_NE(guest, nullptr);
  const wire::RingLayout layout = {guest->ring().size()};
  wire::RingProducer commands(guest->ring().data() + layout.command_offset(), layout.command_bytes(),
                              &guest->header().command_head, &guest->header().command_tail);
  const wire::FrameHeader header = {wire::kFirstGeneratedOpcode, wire::kFrameMore, 64, 1};
  uint8_t* frame = commands.Reserve(header.size);
  ASSERT_NE(frame, nullptr);
  std::memcpy(frame, &header, sizeof(header));
  commands.Commit(header.size);
  EXPECT_TRUE(frontend_->WaitFence(1, frontend_->Fence(1, 0, commands.position(), 0)).ok());
}

TEST_F(WorkerTest, AFenceForAContextThatDoesNotExistComesTrue) {
  StartAndGreet();
  EXPECT_TRUE(frontend_->WaitFence(77, frontend_->Fence(77, 0, 4096, 3)).ok());
}

TEST_F(WorkerTest, ABadFrameLosesItsContextAndNoOther) {
  StartAndGreet();
  auto good = Guest(1);
  ASSERT_NE(good, nullptr);
  VkResult error = VK_SUCCESS;
  auto job = SaxpyJob::Create(1000, &error);
  ASSERT_NE(job, nullptr);
  {
    auto bad = Guest(2);
    ASSERT_NE(bad, nullptr);
    const uint8_t payload[16] = {1, 2, 3};
    ASSERT_TRUE(bad->channel().Send(9999, payload, sizeof(payload), true));
    const uint64_t fence = frontend_->Fence(2, 0, bad->channel().position(), 0);
    const auto reason = frontend_->WaitLost(2);
    ASSERT_TRUE(reason.ok()) << reason.status();
    EXPECT_EQ(*reason, wire::LostReason::kBadFrame);
    EXPECT_TRUE(frontend_->WaitFence(2, fence).ok());
    EXPECT_TRUE(bad->channel().lost());
    EXPECT_EQ(bad->header().status, static_cast<uint32_t>(wire::LostReason::kBadFrame));
    VkInstance instance = VK_NULL_HANDLE;
    VkInstanceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    EXPECT_LT(vkCreateInstance(&info, nullptr, &instance), VK_SUCCESS);
  }
  guest::SetChannel(&good->channel());
  EXPECT_EQ(job->Run(5), VK_SUCCESS);
  EXPECT_TRUE(job->Right(5));
  EXPECT_EQ(stats_.contexts_lost, 1u);
  job.reset();
}

TEST_F(WorkerTest, ASubmitWithAWrongPayloadLosesTheContextAndStillSignals) {
  StartAndGreet();
  auto guest = Guest(1);
  const uint8_t payload[3] = {};
  frontend_->Submit(1, payload, 500, 0);
  EXPECT_TRUE(frontend_->WaitFence(1, 500).ok());
  const auto reason = frontend_->WaitLost(1);
  ASSERT_TRUE(reason.ok());
  EXPECT_EQ(*reason, wire::LostReason::kBadFrame);
}

TEST_F(WorkerTest, TheQuotaIsExact) {
  options_.memory_bytes = 4 << 20;
  StartAndGreet();
  frontend_->CreateContext(1);
  const uint64_t memory = wire::MakeBlobId(wire::BlobKind::kMemory, 1);
  auto first = frontend_->CreateBlob(1, 1, memory, (4 << 20) - kPageSize);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->status, wire::BlobStatus::Ok);
  auto second = frontend_->CreateBlob(1, 2, memory, 1);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->status, wire::BlobStatus::Ok);
  EXPECT_EQ(second->size, kPageSize);
  EXPECT_EQ(stats_.memory_bytes, options_.memory_bytes);
  auto third = frontend_->CreateBlob(1, 3, memory, 1);
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(third->status, wire::BlobStatus::OutOfMemory);
  EXPECT_FALSE(third->fd.valid());
  EXPECT_EQ(stats_.memory_refusals, 1u);
  frontend_->DestroyBlob(2);
  auto fourth = frontend_->CreateBlob(1, 4, memory, kPageSize);
  ASSERT_TRUE(fourth.ok());
  EXPECT_EQ(fourth->status, wire::BlobStatus::Ok);
}

TEST_F(WorkerTest, BlobsThatMakeNoSenseAreRefused) {
  StartAndGreet();
  frontend_->CreateContext(1);
  struct Case {
    uint32_t context;
    uint64_t blob_id;
    uint64_t size;
    wire::BlobStatus status;
  };
  const uint64_t ring = wire::MakeBlobId(wire::BlobKind::kRing, 0);
  const uint64_t memory = wire::MakeBlobId(wire::BlobKind::kMemory, 0);
  const Case cases[] = {
      {2, memory, 4096, wire::BlobStatus::NoContext},
      {1, 0, 4096, wire::BlobStatus::BadRequest},
      {1, ~uint64_t{0}, 4096, wire::BlobStatus::BadRequest},
      {1, memory, 0, wire::BlobStatus::BadRequest},
      {1, memory, ~uint64_t{0}, wire::BlobStatus::BadRequest},
      {1, memory, uint64_t{1} << 62, wire::BlobStatus::OutOfMemory},
      {1, ring, 4096, wire::BlobStatus::BadRequest},
      {1, ring, 100'000, wire::BlobStatus::BadRequest},
      {1, ring, uint64_t{1} << 32, wire::BlobStatus::BadRequest},
      {1, wire::MakeBlobId(wire::BlobKind::kRing, wire::kMaxRings), 65536, wire::BlobStatus::BadRequest},
      {1, wire::MakeBlobId(wire::BlobKind::kDoorbell, wire::kMaxRings), 4096, wire::BlobStatus::BadRequest},
  };
  uint32_t resource = 1;
  for (const Case& c : cases) {
    auto blob = frontend_->CreateBlob(c.context, resource++, c.blob_id, c.size);
    ASSERT_TRUE(blob.ok()) << blob.status();
    EXPECT_EQ(blob->status, c.status) << c.blob_id << " " << c.size;
  }
  EXPECT_EQ(stats_.memory_bytes, 0u);
}

TEST_F(WorkerTest, ARingNumberIsFreeAgainWhenItsBlobIsGone) {
  StartAndGreet();
  frontend_->CreateContext(1);
  const uint64_t ring = wire::MakeBlobId(wire::BlobKind::kRing, 3);
  for (uint32_t i = 1; i < 20; ++i) {
    auto blob = frontend_->CreateBlob(1, i, ring, wire::kMinRingBytes);
    ASSERT_TRUE(blob.ok());
    ASSERT_EQ(blob->status, wire::BlobStatus::Ok);
    auto twice = frontend_->CreateBlob(1, 1000 + i, ring, wire::kMinRingBytes);
    ASSERT_TRUE(twice.ok());
    EXPECT_EQ(twice->status, wire::BlobStatus::BadRequest);
    frontend_->DestroyBlob(i);
  }
}

TEST_F(WorkerTest, TooManyContextsAreRefused) {
  options_.max_contexts = 2;
  StartAndGreet();
  for (uint32_t i = 1; i <= 3; ++i) frontend_->CreateContext(i);
  const auto reason = frontend_->WaitLost(3);
  ASSERT_TRUE(reason.ok());
  EXPECT_EQ(*reason, wire::LostReason::kLimit);
  EXPECT_FALSE(frontend_->Lost(1).has_value());
}

TEST_F(WorkerTest, AGuestThatDoesNotReadItsRepliesLosesTheContext) {
  options_.reply_timeout = absl::Milliseconds(200);
  StartAndGreet();
  auto guest = Guest(1);
  ASSERT_NE(guest, nullptr);
  VkResult error = VK_SUCCESS;
  auto job = SaxpyJob::Create(64, &error);
  ASSERT_NE(job, nullptr);
  // The guest's tail never moves again: a reply ring that claims to be full.
  guest->header().reply_tail.store(guest->header().reply_head.load() - guest->ring().size() / 4);
  VkFormatProperties properties;
  vkGetPhysicalDeviceFormatProperties(job->physical(), VK_FORMAT_R8_UNORM, &properties);  // is answered
  EXPECT_EQ(vkDeviceWaitIdle(job->device()), VK_ERROR_DEVICE_LOST);
  const auto reason = frontend_->WaitLost(1);
  ASSERT_TRUE(reason.ok()) << reason.status();
  EXPECT_EQ(*reason, wire::LostReason::kLimit);
  job.reset();
}

TEST_F(WorkerTest, AnIdleRingSleepsAndTheDoorbellWakesIt) {
  StartAndGreet();
  auto guest = Guest(1);
  ASSERT_NE(guest, nullptr);
  VkResult error = VK_SUCCESS;
  auto job = SaxpyJob::Create(64, &error);
  ASSERT_NE(job, nullptr);
  const absl::Time deadline = absl::Now() + testing::kPatience;
  while (guest->header().consumer_sleeping.load() == 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  ASSERT_EQ(guest->header().consumer_sleeping.load(), 1u);
  const uint64_t before = guest->doorbells();
  EXPECT_EQ(job->Run(3), VK_SUCCESS);
  EXPECT_GT(guest->doorbells(), before);
  EXPECT_GT(stats_.doorbells, 0u);
}

}  // namespace
}  // namespace sluice::worker
