// sluice-domain and sluice-worker as they are installed, driven as a supervisor and a front-end's VM process drive
// them. The workers run in their jail.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "flatbuf/control_generated.h"
#include "gpu-domain/broker/exit_codes.h"
#include "gpu-domain/trace/dump.h"
#include "gpu-domain/worker/options.h"
#include "gpu-domain/worker/shared_raw.h"
#include "gpu-domain/worker/testing/fake_frontend.h"
#include "gpu-domain/worker/testing/saxpy_job.h"
#include "tests/scenes/triangle_scene.h"
#include "vmm/base/checked.h"
#include "vmm/base/mapping.h"
#include "vmm/base/seqpacket.h"
#include "vmm/jail/spawn.h"

namespace sluice::broker {
namespace {

using worker::testing::FakeFrontend;
using worker::testing::GuestPlatform;
using worker::testing::kPatience;
using worker::testing::SaxpyJob;

std::string Binary(const std::string& name) {
  return absl::StrCat(SLUICE_BIN_DIR, "/", name);
}

// What a supervisor holds of one attached front-end.
struct Attachment {
  std::unique_ptr<FakeFrontend> frontend;
  UniqueFd stats_fd;
  Mapping stats_page;
  wire::WorkerStats* stats = nullptr;
};

class DomainTest : public ::testing::Test {
 protected:
  void StartDomain(const std::string& os = "linux") {
    auto pair = CreateSeqPacketPair();
    ASSERT_TRUE(pair.ok());
    control_ = std::move(pair->first);
    jail::SpawnOptions options;
    options.program = Binary("sluice-domain");
    options.arguments = {"--control_fd=3", "--log_level=2"};
    options.environment = jail::InheritedEnvironment();
    options.fds = {{pair->second.get(), kControlFd}};
    auto child = jail::Spawn(options);
    ASSERT_TRUE(child.ok()) << child.status();
    domain_ = *std::move(child);
    os_ = os;
  }

  void SendStart() {
    flatbuffers::FlatBufferBuilder fbb;
    const auto body = wire::CreateDomainStartDirect(fbb, "gpu-a", os_.c_str(), nullptr, 2);
    Send(fbb, wire::ToBroker::DomainStart, body.Union());
    const auto ready = Next<wire::DomainReadyT>();
    ASSERT_TRUE(ready.has_value());
    EXPECT_EQ(ready->pid, static_cast<uint32_t>(domain_.pid()));
  }

  void Send(flatbuffers::FlatBufferBuilder& fbb, wire::ToBroker type, flatbuffers::Offset<void> body,
            absl::Span<const int> fds = {}) {
    fbb.Finish(wire::CreateBrokerMessage(fbb, type, body));
    ASSERT_TRUE(SendPacket(control_.get(), absl::MakeConstSpan(fbb.GetBufferPointer(), fbb.GetSize()), fds).ok());
  }
  void SendDetach(uint32_t id) {
    flatbuffers::FlatBufferBuilder fbb;
    Send(fbb, wire::ToBroker::DetachFrontend, wire::CreateDetachFrontend(fbb, id).Union());
  }
  void SendStop() {
    flatbuffers::FlatBufferBuilder fbb;
    Send(fbb, wire::ToBroker::DomainStop, wire::CreateDomainStop(fbb).Union());
  }

  // The next event, which is expected to be a T; nullopt when the domain closed the socket or sent something else.
  template <typename T>
  std::optional<T> Next() {
    pollfd poll_fd{control_.get(), POLLIN, 0};
    if (poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) <= 0) return std::nullopt;
    auto packet = ReceivePacket(control_.get());
    if (!packet.ok() || !packet->has_value()) return std::nullopt;
    flatbuffers::Verifier verifier((*packet)->bytes.data(), (*packet)->bytes.size());
    if (!verifier.VerifyBuffer<wire::BrokerEvent>(nullptr)) return std::nullopt;
    std::unique_ptr<wire::BrokerEventT> event(
        flatbuffers::GetRoot<wire::BrokerEvent>((*packet)->bytes.data())->UnPack());
    if (event->body.type != wire::FromBrokerUnionTraits<T>::enum_value) {
      ADD_FAILURE() << "event " << static_cast<int>(event->body.type);
      return std::nullopt;
    }
    return *static_cast<T*>(event->body.value);
  }

  // Attaches a front-end; the answer.
  std::optional<wire::AttachedT> Attach(uint32_t id, Attachment* attachment, const std::string& os = "linux",
                                        const UniqueFd* capture = nullptr) {
    auto channel = CreateSeqPacketPair();
    auto stats_fd = CreateMemFd("stats", kPageSize);
    if (!channel.ok() || !stats_fd.ok()) return std::nullopt;
    attachment->frontend = std::make_unique<FakeFrontend>(std::move(channel->first));
    attachment->stats_page = *Mapping::MapShared(stats_fd->get(), 0, kPageSize, Mapping::kReadWrite);
    attachment->stats = worker::StatsIn(attachment->stats_page);
    flatbuffers::FlatBufferBuilder fbb;
    const auto body = wire::CreateAttachFrontendDirect(fbb, id, absl::StrCat("fe-", id).c_str(), os.c_str(), 64 << 20,
                                                       4, 1, capture != nullptr);
    std::vector<int> fds = {channel->second.get(), stats_fd->get()};
    if (capture != nullptr) fds.push_back(capture->get());
    Send(fbb, wire::ToBroker::AttachFrontend, body.Union(), fds);
    return Next<wire::AttachedT>();
  }

  // Greets, computes and checks in a context of its own.
  static void Compute(FakeFrontend& frontend, uint32_t context) {
    frontend.CreateContext(context);
    auto guest = GuestPlatform::Create(&frontend, context);
    ASSERT_TRUE(guest.ok()) << guest.status();
    VkResult error = VK_SUCCESS;
    auto job = SaxpyJob::Create(10'000, &error);
    ASSERT_NE(job, nullptr) << error;
    ASSERT_EQ(job->Run(3), VK_SUCCESS);
    EXPECT_TRUE(job->Right(3));
    job.reset();
    guest->reset();
    frontend.DestroyContext(context);
  }

  std::optional<jail::ExitStatus> DomainExit() {
    auto status = domain_.Wait(kPatience);
    if (!status.ok()) return std::nullopt;
    return *status;
  }

  std::string os_;
  UniqueFd control_;
  jail::ChildProcess domain_;
};

TEST_F(DomainTest, AFrontEndComputesInAJailedWorkerAndNothingIsLeft) {
  StartDomain();
  SendStart();
  Attachment a;
  const auto attached = Attach(7, &a);
  ASSERT_TRUE(attached.has_value());
  EXPECT_EQ(attached->id, 7u);
  EXPECT_EQ(attached->error, "");
  EXPECT_GT(attached->pid, 1u);
  const auto capset = a.frontend->Hello("linux");
  ASSERT_TRUE(capset.ok()) << capset.status();
  EXPECT_STREQ(capset->domain_name, "gpu-a");
  EXPECT_EQ(capset->memory_quota_bytes, uint64_t{64} << 20);
  Compute(*a.frontend, 1);
  Compute(*a.frontend, 2);
  EXPECT_EQ(a.stats->submits, 2u);
  a.frontend->Close();
  const auto exited = Next<wire::WorkerExitedT>();
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->id, 7u);
  EXPECT_EQ(exited->exit_code, worker::kExitOk);
  EXPECT_EQ(exited->signal, 0);
  EXPECT_EQ(a.stats->contexts_total, 2u);
  EXPECT_EQ(a.stats->contexts, 0u);
  EXPECT_EQ(a.stats->objects, 0u);
  EXPECT_EQ(a.stats->memory_bytes, 0u);
}

// What the same commands draw without Sluice, on the same driver: tests/scenes/scene_native.cc.
std::vector<uint8_t> DrawnNatively(uint32_t frame, uint32_t size) {
  std::vector<uint8_t> pixels(size_t{4} * size * size);
  FILE* pipe = popen(absl::StrCat(Binary("scene_native"), " triangle ", frame, " ", size).c_str(), "r");
  if (pipe == nullptr) return {};
  const size_t got = fread(pixels.data(), 1, pixels.size(), pipe);
  return pclose(pipe) == 0 && got == pixels.size() ? pixels : std::vector<uint8_t>();
}

TEST_F(DomainTest, TheTriangleIsByteForByteWhatTheDriverDrawsNatively) {
  constexpr uint32_t kSize = 128;
  StartDomain();
  SendStart();
  Attachment a;
  ASSERT_TRUE(Attach(1, &a).has_value());
  ASSERT_TRUE(a.frontend->Hello("linux").ok());
  a.frontend->CreateContext(1);
  auto guest = GuestPlatform::Create(a.frontend.get(), 1);
  ASSERT_TRUE(guest.ok()) << guest.status();
  {
    scenes::SceneDevice device;
    scenes::TriangleScene scene;
    ASSERT_TRUE(device.Open({}).ok());
    ASSERT_TRUE(scene.Create(&device, kSize).ok());
    for (const uint32_t frame : {0u, 1u, 17u, 42u}) {
      ASSERT_TRUE(scene.Render(frame).ok());
      const std::vector<uint8_t> drawn(scene.pixels(), scene.pixels() + scene.bytes());
      EXPECT_STREQ(scenes::CheckTriangle(drawn.data(), kSize), nullptr);
      EXPECT_TRUE(drawn == DrawnNatively(frame, kSize)) << "frame " << frame;
    }
  }
  guest->reset();
  a.frontend->Close();
  const auto exited = Next<wire::WorkerExitedT>();
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->exit_code, worker::kExitOk);
  EXPECT_EQ(exited->signal, 0);
  EXPECT_EQ(a.stats->objects, 0u);
}

TEST_F(DomainTest, AKilledWorkerIsReportedAndItsFrontEndSeesIt) {
  StartDomain();
  SendStart();
  Attachment a;
  Attachment b;
  const auto first = Attach(1, &a);
  const auto second = Attach(2, &b);
  ASSERT_TRUE(first.has_value() && second.has_value());
  ASSERT_TRUE(a.frontend->Hello("linux").ok());
  ASSERT_EQ(kill(static_cast<pid_t>(first->pid), SIGKILL), 0);
  const auto exited = Next<wire::WorkerExitedT>();
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->id, 1u);
  EXPECT_EQ(exited->signal, SIGKILL);
  EXPECT_TRUE(a.frontend->WaitClosed());
  // The other one does not notice.
  ASSERT_TRUE(b.frontend->Hello("linux").ok());
  Compute(*b.frontend, 1);
}

TEST_F(DomainTest, TheSameFrontEndCanBeAttachedAgain) {
  StartDomain();
  SendStart();
  for (int i = 0; i < 3; ++i) {
    Attachment a;
    const auto attached = Attach(1, &a);
    ASSERT_TRUE(attached.has_value());
    ASSERT_EQ(attached->error, "");
    ASSERT_TRUE(a.frontend->Hello("linux").ok());
    a.frontend->Close();
    ASSERT_TRUE(Next<wire::WorkerExitedT>().has_value());
  }
}

TEST_F(DomainTest, DetachEndsTheWorkerInOrder) {
  StartDomain();
  SendStart();
  Attachment a;
  ASSERT_TRUE(Attach(1, &a).has_value());
  ASSERT_TRUE(a.frontend->Hello("linux").ok());
  a.frontend->CreateContext(1);
  auto guest = GuestPlatform::Create(a.frontend.get(), 1);
  ASSERT_TRUE(guest.ok());
  EXPECT_GT(a.stats->memory_bytes, 0u);
  SendDetach(1);
  const auto exited = Next<wire::WorkerExitedT>();
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->exit_code, worker::kExitOk);
  EXPECT_EQ(exited->signal, 0);
  EXPECT_TRUE(a.frontend->WaitClosed());
  EXPECT_EQ(a.stats->memory_bytes, 0u);
}

TEST_F(DomainTest, AnotherOsTypeIsNotServed) {
  StartDomain("bare");
  SendStart();
  Attachment a;
  const auto attached = Attach(1, &a, "linux");
  ASSERT_TRUE(attached.has_value());
  EXPECT_EQ(attached->pid, 0u);
  EXPECT_NE(attached->error.find("\"linux\""), std::string::npos) << attached->error;
  EXPECT_NE(attached->error.find("\"bare\""), std::string::npos) << attached->error;
  EXPECT_TRUE(a.frontend->WaitClosed());
}

TEST_F(DomainTest, AttachBeforeStartAndAttachTwiceAreErrors) {
  StartDomain();
  Attachment early;
  const auto attached = Attach(1, &early);
  ASSERT_TRUE(attached.has_value());
  EXPECT_NE(attached->error, "");
  SendStart();
  Attachment a;
  Attachment b;
  ASSERT_EQ(Attach(1, &a)->error, "");
  const auto again = Attach(1, &b);
  ASSERT_TRUE(again.has_value());
  EXPECT_NE(again->error.find("attached"), std::string::npos) << again->error;
}

TEST_F(DomainTest, AWorkerWithoutVulkanDeviceSaysSoWithItsExitCode) {
  StartDomain();
  flatbuffers::FlatBufferBuilder fbb;
  const std::vector<flatbuffers::Offset<flatbuffers::String>> gpus = {fbb.CreateString("no such gpu")};
  const auto body = wire::CreateDomainStartDirect(fbb, "gpu-a", "linux", &gpus, 3);
  Send(fbb, wire::ToBroker::DomainStart, body.Union());
  ASSERT_TRUE(Next<wire::DomainReadyT>().has_value());
  Attachment a;
  ASSERT_TRUE(Attach(1, &a).has_value());
  const auto exited = Next<wire::WorkerExitedT>();
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->exit_code, worker::kExitNoVulkan);
}

TEST_F(DomainTest, DomainStopEndsAllWorkersAndThenTheDomain) {
  StartDomain();
  SendStart();
  Attachment a;
  Attachment b;
  ASSERT_TRUE(Attach(1, &a).has_value());
  ASSERT_TRUE(Attach(2, &b).has_value());
  SendStop();
  EXPECT_TRUE(Next<wire::WorkerExitedT>().has_value());
  EXPECT_TRUE(Next<wire::WorkerExitedT>().has_value());
  const auto exit = DomainExit();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, kExitOk) << exit->ToString();
  EXPECT_TRUE(a.frontend->WaitClosed());
  EXPECT_TRUE(b.frontend->WaitClosed());
}

TEST_F(DomainTest, WithoutItsSupervisorTheDomainEnds) {
  StartDomain();
  SendStart();
  Attachment a;
  ASSERT_TRUE(Attach(1, &a).has_value());
  ASSERT_TRUE(a.frontend->Hello("linux").ok());
  control_.Reset();
  const auto exit = DomainExit();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, kExitOrphaned) << exit->ToString();
  EXPECT_TRUE(a.frontend->WaitClosed());
}

TEST_F(DomainTest, AKilledDomainTakesItsWorkersWithIt) {
  StartDomain();
  SendStart();
  Attachment a;
  ASSERT_TRUE(Attach(1, &a).has_value());
  ASSERT_TRUE(a.frontend->Hello("linux").ok());
  domain_.Kill();
  EXPECT_TRUE(a.frontend->WaitClosed());
}

TEST_F(DomainTest, BytesThatAreNoMessageEndTheDomain) {
  StartDomain();
  const std::vector<uint8_t> garbage(64, 0xee);
  ASSERT_TRUE(SendPacket(control_.get(), garbage, {}).ok());
  const auto exit = DomainExit();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, kExitProtocol) << exit->ToString();
}

TEST_F(DomainTest, ACaptureHoldsTheCommandsByName) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/sluice-capture-", getpid());
  const UniqueFd capture(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  ASSERT_TRUE(capture.valid());
  StartDomain();
  SendStart();
  Attachment a;
  ASSERT_TRUE(Attach(1, &a, "linux", &capture).has_value());
  ASSERT_TRUE(a.frontend->Hello("linux").ok());
  Compute(*a.frontend, 1);
  a.frontend->Close();
  ASSERT_TRUE(Next<wire::WorkerExitedT>().has_value());
  std::ostringstream out;
  const absl::Status status = trace::DumpTrace(path, out);
  unlink(path.c_str());
  ASSERT_TRUE(status.ok()) << status;
  for (const char* part : {"\"frontend\": \"fe-1\"", "context-create", "\"blob\": \"ring\"", "vkCreateInstance",
                           "vkQueueSubmit", "\"kind\": \"reply\"", "vkCmdDispatch", "\"truncated\": false"}) {
    EXPECT_NE(out.str().find(part), std::string::npos) << part;
  }
}

// A worker alone, with a short patience for GPU work.
TEST(HangTest, GpuWorkThatDoesNotEndCostsTheContextAndThenTheWorkerButNobodyWaitsForEver) {
  auto channel = CreateSeqPacketPair();
  ASSERT_TRUE(channel.ok());
  jail::SpawnOptions options;
  options.program = Binary("sluice-worker");
  options.arguments = {"--gpu_timeout=1s", "--log_level=3"};
  options.environment = jail::InheritedEnvironment();
  options.fds = {{channel->second.get(), worker::kChannelFd}};
  options.namespaces = jail::Namespaces::All();
  auto child = jail::Spawn(options);
  ASSERT_TRUE(child.ok()) << child.status();
  channel->second.Reset();
  FakeFrontend frontend(std::move(channel->first));
  ASSERT_TRUE(frontend.Hello("linux").ok());
  frontend.CreateContext(1);
  auto guest = GuestPlatform::Create(&frontend, 1);
  ASSERT_TRUE(guest.ok());
  VkResult error = VK_SUCCESS;
  auto job = SaxpyJob::Create(64, &error);
  ASSERT_NE(job, nullptr) << error;
  // The GPU waits for an event that nobody sets.
  VkEventCreateInfo event_info{};
  event_info.sType = VK_STRUCTURE_TYPE_EVENT_CREATE_INFO;
  VkEvent event = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreateEvent(job->device(), &event_info, nullptr, &event), VK_SUCCESS);
  ASSERT_EQ(job->SubmitWait(event), VK_SUCCESS);
  const uint64_t fence = frontend.Fence(1, 0, (*guest)->channel().position(), 1);
  const auto reason = frontend.WaitLost(1);
  ASSERT_TRUE(reason.ok()) << reason.status();
  EXPECT_EQ(*reason, wire::LostReason::kDeviceLost);
  EXPECT_TRUE(frontend.WaitFence(1, fence).ok());
  // Its memory cannot be freed while the GPU may write to it: giving up the context takes the process with it.
  frontend.DestroyContext(1);
  const auto status = child->Wait(kPatience);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->code, worker::kExitHung) << status->ToString();
  job.reset();
}

}  // namespace
}  // namespace sluice::broker
