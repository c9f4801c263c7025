// sluice-domain --listen as it is installed: programs connect, compute, and go.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gpu-domain/broker/unix_socket_raw.h"
#include "gpu-domain/worker/testing/fake_frontend.h"
#include "gpu-domain/worker/testing/saxpy_job.h"
#include "vmm/jail/spawn.h"

namespace sluice::broker {
namespace {

using worker::testing::FakeFrontend;
using worker::testing::GuestPlatform;
using worker::testing::kPatience;
using worker::testing::SaxpyJob;

class ListenTest : public ::testing::Test {
 protected:
  void TearDown() override { unlink(path_.c_str()); }

  void Start(std::vector<std::string> more = {}) {
    jail::SpawnOptions options;
    options.program = absl::StrCat(SLUICE_BIN_DIR, "/sluice-domain");
    options.arguments = {absl::StrCat("--listen=", path_), "--log_level=3", "--os=linux"};
    options.arguments.insert(options.arguments.end(), more.begin(), more.end());
    options.environment = jail::InheritedEnvironment();
    auto child = jail::Spawn(options);
    ASSERT_TRUE(child.ok()) << child.status();
    domain_ = *std::move(child);
  }
  // Null: nobody listens.
  std::unique_ptr<FakeFrontend> Connect() {
    const absl::Time deadline = absl::Now() + kPatience;
    for (;;) {
      absl::StatusOr<UniqueFd> socket = ConnectUnix(path_);
      if (socket.ok()) return std::make_unique<FakeFrontend>(*std::move(socket));
      if (absl::Now() > deadline) return nullptr;
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  // Instance, device, work, result.
  static void Compute(FakeFrontend& frontend, uint32_t context, bool clean_up) {
    ASSERT_TRUE(frontend.Hello("linux").ok());
    frontend.CreateContext(context);
    auto guest = GuestPlatform::Create(&frontend, context);
    ASSERT_TRUE(guest.ok()) << guest.status();
    VkResult error = VK_SUCCESS;
    auto job = SaxpyJob::Create(1000, &error);
    ASSERT_NE(job, nullptr) << error;
    ASSERT_EQ(job->Run(2), VK_SUCCESS);
    EXPECT_TRUE(job->Right(2));
    if (!clean_up) frontend.Close();  // the program dies: what is destroyed now is its own half
    job.reset();
  }
  // Children of the domain now.
  size_t Workers() {
    std::ifstream file(absl::StrCat("/proc/", domain_.pid(), "/task/", domain_.pid(), "/children"));
    size_t count = 0;
    for (std::string pid; file >> pid;) count++;
    return count;
  }
  bool WaitForWorkers(size_t wanted) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (Workers() != wanted && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(5));
    return Workers() == wanted;
  }
  void StopInOrder() {
    ASSERT_TRUE(domain_.Signal(SIGTERM).ok());
    const auto status = domain_.Wait(kPatience);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_TRUE(status->clean()) << status->ToString();
    EXPECT_NE(access(path_.c_str(), F_OK), 0) << "the socket is removed";
  }

  const std::string path_ = absl::StrCat(::testing::TempDir(), "/sluice-listen-", getpid());
  jail::ChildProcess domain_;
};

TEST_F(ListenTest, EachConnectionGetsAWorkerAndAllEndWithTheDomain) {
  Start();
  auto a = Connect(), b = Connect();
  ASSERT_NE(b, nullptr);
  ASSERT_TRUE(a->Hello("linux").ok());
  ASSERT_TRUE(b->Hello("linux").ok());
  StopInOrder();
  EXPECT_TRUE(a->WaitClosed());
  EXPECT_TRUE(b->WaitClosed());
}

TEST_F(ListenTest, OneWorkerIsReadyBeforeAnybodyConnectsAndAfterwardsAgain) {
  Start({"--spare_worker=true"});
  ASSERT_TRUE(WaitForWorkers(1));
  auto a = Connect();
  ASSERT_NE(a, nullptr);
  Compute(*a, 1, true);
  EXPECT_TRUE(WaitForWorkers(2)) << "the connection's and a new spare one";
  a->Close();
  EXPECT_TRUE(WaitForWorkers(1));
  StopInOrder();
}

TEST_F(ListenTest, WithoutASpareWorkerNothingRunsForNobody) {
  Start();
  auto a = Connect();
  ASSERT_NE(a, nullptr);
  Compute(*a, 1, true);
  EXPECT_EQ(Workers(), 1u);
  a->Close();
  EXPECT_TRUE(WaitForWorkers(0));
  StopInOrder();
}

TEST_F(ListenTest, SeveralProgramsComputeAtOnceAndLeaveNothingHoweverTheyGo) {
  Start({"--spare_worker=true"});
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<FakeFrontend>> programs;
    for (int i = 0; i < 4; ++i) programs.push_back(Connect());
    for (size_t i = 0; i < programs.size(); ++i) {
      ASSERT_NE(programs[i], nullptr);
      Compute(*programs[i], 1, i % 2 == 0);
    }
  }
  EXPECT_TRUE(WaitForWorkers(1)) << "but the spare one";
  StopInOrder();
}

TEST_F(ListenTest, MoreConnectionsThanAllowedAreClosedAtOnce) {
  Start({"--max_frontends=2"});
  auto a = Connect(), b = Connect();
  ASSERT_TRUE(a->Hello("linux").ok());
  ASSERT_TRUE(b->Hello("linux").ok());
  auto c = Connect();
  ASSERT_NE(c, nullptr);
  EXPECT_TRUE(c->WaitClosed());
}

TEST_F(ListenTest, TheQuotaIsTheOneOfTheCommandLine) {
  Start({"--memory_mib=64"});
  auto a = Connect();
  ASSERT_NE(a, nullptr);
  const auto capset = a->Hello("linux");
  ASSERT_TRUE(capset.ok());
  EXPECT_EQ(capset->memory_quota_bytes, uint64_t{64} << 20);
}

TEST_F(ListenTest, AGpuThatDoesNotExistEndsTheConnectionNotTheDomain) {
  Start({"--gpus=no-such-gpu"});
  for (int i = 0; i < 2; ++i) {
    auto a = Connect();
    ASSERT_NE(a, nullptr);
    EXPECT_TRUE(a->WaitClosed());
  }
  StopInOrder();
}

TEST_F(ListenTest, TheSocketIsForItsOwnerAlone) {
  Start();
  ASSERT_NE(Connect(), nullptr);
  struct stat info {};
  ASSERT_EQ(lstat(path_.c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(ListenTest, ASocketThatIsLeftOverIsReplaced) {
  Start();
  ASSERT_NE(Connect(), nullptr);
  domain_.Kill();
  ASSERT_TRUE(domain_.Wait(kPatience).ok());
  ASSERT_EQ(access(path_.c_str(), F_OK), 0);
  Start();
  auto a = Connect();
  ASSERT_NE(a, nullptr);
  EXPECT_TRUE(a->Hello("linux").ok());
}

TEST_F(ListenTest, ASocketInUseAndAFileStayAsTheyAre) {
  Start();
  auto a = Connect();
  ASSERT_NE(a, nullptr);
  jail::ChildProcess first = std::move(domain_);
  Start();
  const auto second = domain_.Wait(kPatience);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(second->clean());
  Compute(*a, 1, true);
  first.Kill();
  ASSERT_TRUE(first.Wait(kPatience).ok());
  unlink(path_.c_str());
  std::ofstream(path_) << "somebody's";
  Start();
  const auto third = domain_.Wait(kPatience);
  ASSERT_TRUE(third.ok());
  EXPECT_FALSE(third->clean());
  std::ifstream file(path_);
  std::string text;
  file >> text;
  EXPECT_EQ(text, "somebody's");
}

}  // namespace
}  // namespace sluice::broker
