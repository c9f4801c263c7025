// Connections by path, and through a broker that a jailed process asks.
#include "devices/vsock/connector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "vmm/base/seqpacket.h"

namespace sluice::vsock {
namespace {

class ConnectorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("sluice-vsock-" + std::to_string(getpid()));
    std::filesystem::create_directory(directory_);
    path_ = directory_ / "vm.vsock";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void MakeBroker() {
    auto pair = CreateSeqPacketPair();
    ASSERT_TRUE(pair.ok());
    auto connector = CreateBrokeredConnector(&loop_, std::move(pair->first));
    auto broker = ConnectBroker::Create(&loop_, std::move(pair->second), path_);
    ASSERT_TRUE(connector.ok() && broker.ok());
    connector_ = *std::move(connector);
    broker_ = *std::move(broker);
  }
  absl::StatusOr<UniqueFd> Connect(uint32_t port) {
    std::optional<absl::StatusOr<UniqueFd>> result;
    connector_->Connect(port, [&](absl::StatusOr<UniqueFd> fd) { result = std::move(fd); });
    EXPECT_FALSE(result.has_value());  // never from inside
    loop_.restart();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!result.has_value() && std::chrono::steady_clock::now() < deadline) {
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds(10));
    }
    return result.has_value() ? *std::move(result) : absl::DeadlineExceededError("no answer");
  }

  asio::io_context loop_;
  std::filesystem::path directory_;
  std::string path_;
  std::unique_ptr<HostConnector> connector_;
  std::unique_ptr<ConnectBroker> broker_;
};

TEST_F(ConnectorTest, APortIsASocketBesideThePath) {
  connector_ = std::make_unique<UnixConnector>(&loop_, path_);
  EXPECT_EQ(Connect(80).status().code(), absl::StatusCode::kNotFound);
  const auto service = ListenVsock(path_ + "_80");
  ASSERT_TRUE(service.ok()) << service.status();
  const auto connected = Connect(80);
  ASSERT_TRUE(connected.ok()) << connected.status();
  const UniqueFd accepted(accept4(service->get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_EQ(send(connected->get(), "x", 1, 0), 1);
  char byte = 0;
  EXPECT_EQ(read(accepted.get(), &byte, 1), 1);
}

TEST_F(ConnectorTest, AConnectorThatIsGoneAnswersNobody) {
  bool answered = false;
  connector_ = std::make_unique<UnixConnector>(&loop_, path_);
  connector_->Connect(1, [&](absl::StatusOr<UniqueFd>) { answered = true; });
  connector_.reset();
  loop_.poll();
  EXPECT_FALSE(answered);
}

TEST_F(ConnectorTest, ABrokerConnectsForAProcessWithoutAFileSystem) {
  MakeBroker();
  EXPECT_EQ(Connect(80).status().code(), absl::StatusCode::kNotFound);
  const auto service = ListenVsock(path_ + "_80");
  ASSERT_TRUE(service.ok());
  const auto connected = Connect(80);
  ASSERT_TRUE(connected.ok()) << connected.status();
  const UniqueFd accepted(accept4(service->get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(accepted.valid());
  EXPECT_TRUE(broker_->open());
}

TEST_F(ConnectorTest, RequestsFailWhenTheBrokerIsGone) {
  MakeBroker();
  std::optional<absl::Status> waiting;
  connector_->Connect(1, [&](absl::StatusOr<UniqueFd> fd) { waiting = fd.status(); });
  broker_.reset();
  EXPECT_EQ(Connect(2).status().code(), absl::StatusCode::kUnavailable);
  for (int i = 0; i < 1000 && !waiting.has_value(); ++i) {
    loop_.restart();
    loop_.run_one_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(waiting.has_value());
  EXPECT_FALSE(waiting->ok());
}

TEST_F(ConnectorTest, RequestsAreLimited) {
  MakeBroker();
  int refused = 0;
  int asked = 0;
  for (size_t i = 0; i < kMaxRequests + 3; ++i) {
    connector_->Connect(1, [&](absl::StatusOr<UniqueFd> fd) {
      ++asked;
      if (absl::IsResourceExhausted(fd.status())) ++refused;
    });
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (asked < static_cast<int>(kMaxRequests) + 3 && std::chrono::steady_clock::now() < deadline) {
    loop_.restart();
    loop_.run_one_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(asked, static_cast<int>(kMaxRequests) + 3);
  EXPECT_EQ(refused, 3);
}

TEST_F(ConnectorTest, ABrokerHangsUpOnAProcessThatBreaksTheProtocol) {
  for (const size_t bytes : {size_t{1}, size_t{15}, size_t{17}, size_t{4096}}) {
    auto pair = CreateSeqPacketPair();
    ASSERT_TRUE(pair.ok());
    auto broker = ConnectBroker::Create(&loop_, std::move(pair->second), path_);
    ASSERT_TRUE(broker.ok());
    ASSERT_TRUE(SendPacket(pair->first.get(), std::vector<uint8_t>(bytes), {}).ok());
    loop_.restart();
    loop_.poll();
    EXPECT_FALSE((*broker)->open()) << bytes;
  }
  auto pair = CreateSeqPacketPair();
  auto broker = ConnectBroker::Create(&loop_, std::move(pair->second), path_);
  ASSERT_TRUE(SendPacket(pair->first.get(), std::vector<uint8_t>(16), {0}).ok());
  loop_.restart();
  loop_.poll();
  EXPECT_FALSE((*broker)->open());
}

TEST_F(ConnectorTest, OnlyThisUserMayConnectAndLeftOversAreReplaced) {
  {
    const auto first = ListenVsock(path_);
    ASSERT_TRUE(first.ok()) << first.status();
    struct stat facts {};
    ASSERT_EQ(stat(path_.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600u);
    EXPECT_EQ(ListenVsock(path_).status().code(), absl::StatusCode::kAlreadyExists);
  }
  EXPECT_TRUE(ListenVsock(path_).ok());
  const std::string directory = directory_;
  EXPECT_EQ(ListenVsock(directory).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ListenVsock(std::string(120, 'x')).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ListenVsock("").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice::vsock
