// The user-mode network: its filter, its arguments, a small guest on it, and its jailed process.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "devices/net/user/net_user.h"
#include "devices/net/user/testing/guest.h"
#include "devices/net/user/user_network.h"

namespace sluice::net {
namespace {

using testing::Frame;
using testing::Get16;
using testing::Get32;
using testing::Guest;
using ::testing::HasSubstr;
using testing::IsArp;
using testing::IsIp;
using testing::kDnsIp;
using testing::kGatewayIp;
using testing::kGuestIp;
using testing::TcpFrame;
using testing::UdpFrame;

constexpr uint32_t kLoopback = 0x7f000001;
constexpr Endpoint kResolver{0x0808'0404, 53};

// --- The filter ---

TEST(UserFilterTest, QueriesGoToTheRealNameServerAndItsAnswersComeFromTheVirtualOne) {
  FrameFilter filter(kDnsIp, kResolver, false);
  Frame query = UdpFrame(kDnsIp, 4000, 53, "who is it?");
  ASSERT_TRUE(filter.FromGuest(absl::MakeSpan(query)));
  EXPECT_EQ(query, UdpFrame(kResolver.address, 4000, 53, "who is it?"));

  Frame answer = UdpFrame(kGuestIp, 53, 4000, "it is me", kResolver.address);
  filter.ToGuest(absl::MakeSpan(answer));
  EXPECT_EQ(answer, UdpFrame(kGuestIp, 53, 4000, "it is me", kDnsIp));
}

TEST(UserFilterTest, TheRealServersPortMayBeAnother) {
  FrameFilter filter(kDnsIp, Endpoint{kLoopback, 5353}, false);
  Frame query = TcpFrame(kDnsIp, 4000, 53, testing::kTcpSyn, 7, 0);
  ASSERT_TRUE(filter.FromGuest(absl::MakeSpan(query)));
  EXPECT_EQ(query, TcpFrame(kLoopback, 4000, 5353, testing::kTcpSyn, 7, 0));
}

TEST(UserFilterTest, AnswersThatTheVirtualServerWasNotAskedForStayAsTheyAre) {
  FrameFilter filter(kDnsIp, kResolver, false);
  Frame query = UdpFrame(kDnsIp, 4000, 53, "q");
  ASSERT_TRUE(filter.FromGuest(absl::MakeSpan(query)));
  for (const Frame& same :
       {UdpFrame(kGuestIp, 53, 4001, "a", kResolver.address), UdpFrame(kGuestIp, 54, 4000, "a", kResolver.address),
        UdpFrame(kGuestIp, 53, 4000, "a", 0x01010101)}) {
    Frame frame = same;
    filter.ToGuest(absl::MakeSpan(frame));
    EXPECT_EQ(frame, same);
  }
}

TEST(UserFilterTest, AUdpFrameWithoutChecksumKeepsNone) {
  FrameFilter filter(kDnsIp, kResolver, false);
  Frame query = UdpFrame(kDnsIp, 4000, 53, "q");
  testing::Put16(&query, 40, 0);
  ASSERT_TRUE(filter.FromGuest(absl::MakeSpan(query)));
  EXPECT_EQ(Get16(query, 40), 0u);
  EXPECT_EQ(Get32(query, 30), kResolver.address);
}

TEST(UserFilterTest, TheHostsLoopbackAndMetadataServicesAreOutOfReach) {
  FrameFilter strict(kDnsIp, std::nullopt, false);
  FrameFilter lax(kDnsIp, std::nullopt, true);
  for (const uint32_t address : {kLoopback, 0x7fffffffu, 0u, 0x00ffffffu}) {
    Frame frame = TcpFrame(address, 1, 80, testing::kTcpSyn, 1, 0);
    EXPECT_FALSE(strict.FromGuest(absl::MakeSpan(frame)));
    EXPECT_FALSE(lax.FromGuest(absl::MakeSpan(frame)));
  }
  Frame metadata = TcpFrame(0xa9fea9fe, 1, 80, testing::kTcpSyn, 1, 0);
  EXPECT_FALSE(strict.FromGuest(absl::MakeSpan(metadata)));
  EXPECT_TRUE(lax.FromGuest(absl::MakeSpan(metadata)));
  // Without a server, queries go nowhere; other traffic to its address is left alone.
  Frame query = UdpFrame(kDnsIp, 4000, 53, "q");
  EXPECT_FALSE(strict.FromGuest(absl::MakeSpan(query)));
  Frame other = UdpFrame(kDnsIp, 4000, 54, "q");
  EXPECT_TRUE(strict.FromGuest(absl::MakeSpan(other)));
  Frame broadcast = UdpFrame(0xffffffff, 68, 67, "q");
  EXPECT_TRUE(strict.FromGuest(absl::MakeSpan(broadcast)));
}

TEST(UserFilterTest, EveryTruncationOfAFrameIsTaken) {
  FrameFilter filter(kDnsIp, kResolver, false);
  for (const Frame& whole : {UdpFrame(kDnsIp, 4000, 53, "query"), TcpFrame(kDnsIp, 1, 53, 2, 1, 0)}) {
    for (size_t size = 0; size <= whole.size(); ++size) {
      for (const uint8_t first : {0x45, 0x4f, 0x40, 0x65}) {
        Frame frame(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        if (size > 14) frame[14] = first;
        filter.FromGuest(absl::MakeSpan(frame));
        filter.ToGuest(absl::MakeSpan(frame));
        EXPECT_EQ(frame.size(), size);
      }
    }
  }
}

// --- Configuration ---

TEST(UserArgumentsTest, AConfigurationComesThroughACommandLine) {
  UserNetworkConfig config;
  EXPECT_EQ(*DecodeNetUserArguments({}), config);
  config.network = 0xc0a80700;
  config.name_server = Endpoint{0x01020304, 5353};
  config.host_loopback = config.link_local = config.isolated = true;
  config.mtu = 9000;
  config.hostname = "web-0";
  config.forwards = {{false, {kLoopback, 8080}, 80}, {true, {0, 53}, 5353}};
  const std::vector<std::string> arguments = EncodeNetUserArguments(config);
  EXPECT_EQ(*DecodeNetUserArguments({arguments.begin(), arguments.end()}), config);
}

TEST(UserArgumentsTest, BadArgumentsAreNamed) {
  for (const char* bad : {"--network=10.0.2", "--network=", "--mtu=0", "--mtu=65536", "--isolated=yes", "--forward=tcp",
                          "--name-server=1.2.3.4", "--name-server=1.2.3.4:x", "--unknown=1", "mtu=1500", "--mtu"}) {
    EXPECT_THAT(DecodeNetUserArguments({bad}).status().message(), HasSubstr(bad)) << bad;
  }
}

TEST(UserArgumentsTest, ForwardsAreParsedStrictly) {
  EXPECT_EQ(*ParseForward("tcp:127.0.0.1:8080:80"), (Forward{false, {kLoopback, 8080}, 80}));
  EXPECT_EQ(*ParseForward("udp::1:65535"), (Forward{true, {0, 1}, 65535}));
  EXPECT_EQ(FormatForward(*ParseForward("udp::1:65535")), "udp:0.0.0.0:1:65535");
  for (const char* bad : {"", "tcp:127.0.0.1:8080", "sctp:127.0.0.1:1:1", "tcp:host:1:1", "tcp:127.0.0.1:0:80",
                          "tcp:127.0.0.1:80:65536", "tcp:127.0.0.1:+1:80", "tcp:127.0.0.1:80:80:80"}) {
    EXPECT_FALSE(ParseForward(bad).ok()) << bad;
  }
}

TEST(UserConfigTest, OptionsOutOfRangeAreRefused) {
  const auto create = [](auto change) {
    UserNetworkConfig config;
    change(config);
    return UserNetwork::Create(config, std::move(CreateFrameSocketPair()->first)).status().code();
  };
  EXPECT_EQ(create([](UserNetworkConfig&) {}), absl::StatusCode::kOk);
  EXPECT_EQ(create([](UserNetworkConfig& c) { c.network = 0x0a000201; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create([](UserNetworkConfig& c) { c.network = 0x7f000000; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create([](UserNetworkConfig& c) { c.network = 0xe0000000; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create([](UserNetworkConfig& c) { c.mtu = 100; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create([](UserNetworkConfig& c) { c.hostname = "a b"; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create([](UserNetworkConfig& c) { c.forwards.resize(1); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(UserNetwork::Create({}, UniqueFd()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(UserConfigTest, TheNameServerIsReadFromAFile) {
  const auto path = std::filesystem::temp_directory_path() / ("sluice-resolv-" + std::to_string(getpid()));
  std::ofstream(path) << "# nameserver 9.9.9.9\nsearch x\nnameserver ::1\nnameserver 8.8.4.4\nnameserver 1.1.1.1\n";
  EXPECT_EQ(FirstNameServer(path), kResolver);
  std::ofstream(path) << "search x\n";
  EXPECT_EQ(FirstNameServer(path), std::nullopt);
  std::filesystem::remove(path);
  EXPECT_EQ(FirstNameServer(path), std::nullopt);
}

// --- A guest on it ---

// A socket on 127.0.0.1, and its port.
std::pair<UniqueFd, uint16_t> Local(int type) {
  UniqueFd fd(socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(kLoopback);
  socklen_t length = sizeof(address);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      (type == SOCK_STREAM && listen(fd.get(), 4) != 0) ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return {};
  }
  return {std::move(fd), ntohs(address.sin_port)};
}

bool Readable(int fd, int timeout_ms = 10000) {
  pollfd readable{fd, POLLIN, 0};
  return poll(&readable, 1, timeout_ms) == 1;
}

class UserNetworkTest : public ::testing::Test {
 protected:
  void Start(const UserNetworkConfig& config) {
    auto pair = CreateFrameSocketPair();
    ASSERT_TRUE(pair.ok());
    wire_ = std::move(pair->first);
    auto network = UserNetwork::Create(config, std::move(pair->second));
    ASSERT_TRUE(network.ok()) << network.status();
    network_ = *std::move(network);
    thread_ = std::thread([this] { ended_ = network_->Run(-1); });
    guest_ = std::make_unique<Guest>(wire_.get());
  }
  void TearDown() override {
    wire_.Reset();
    if (thread_.joinable()) thread_.join();
    EXPECT_TRUE(ended_.ok()) << ended_;
  }
  // libslirp sends to an address that it has heard of only.
  void Announce() {
    guest_->Send(testing::ArpRequest(kGatewayIp));
    ASSERT_FALSE(guest_->Wait([](const Frame& f) { return IsArp(f, 2); }).empty());
  }
  // Opens a TCP connection; the next sequence numbers of guest and peer. nullopt: refused or unanswered.
  std::optional<std::pair<uint32_t, uint32_t>> OpenTcp(uint32_t to, uint16_t port, uint32_t from_port,
                                                       std::chrono::milliseconds patience) {
    guest_->Send(TcpFrame(to, from_port, port, testing::kTcpSyn, 1000, 0));
    const Frame answer = guest_->Wait([&](const Frame& f) { return IsIp(f, 6, to, port); }, patience);
    if (answer.empty() || answer[47] != (testing::kTcpSyn | testing::kTcpAck)) return std::nullopt;
    EXPECT_EQ(testing::TransportSum(answer), 0xffffu);
    const uint32_t theirs = Get32(answer, 38) + 1;
    guest_->Send(TcpFrame(to, from_port, port, testing::kTcpAck, 1001, theirs));
    return std::pair<uint32_t, uint32_t>(1001, theirs);
  }

  UniqueFd wire_;
  std::unique_ptr<UserNetwork> network_;
  std::unique_ptr<Guest> guest_;
  std::thread thread_;
  absl::Status ended_;
};

TEST_F(UserNetworkTest, AnswersForGatewayAndNameServer) {
  Start({});
  for (const uint32_t address : {kGatewayIp, kDnsIp}) {
    guest_->Send(testing::ArpRequest(address));
    const Frame answer = guest_->Wait([](const Frame& f) { return IsArp(f, 2); });
    ASSERT_FALSE(answer.empty());
    EXPECT_EQ(Get32(answer, 28), address);
  }
}

TEST_F(UserNetworkTest, GivesTheGuestItsAddress) {
  UserNetworkConfig config;
  config.hostname = "web-0";
  Start(config);
  std::string discover(240, '\0');
  discover[0] = 1;
  discover[1] = 1;
  discover[2] = 6;
  discover.replace(28, 6, std::string("\x52\x54\0\x12\x34\x56", 6));
  discover.replace(236, 4, "\x63\x82\x53\x63");
  discover += std::string("\x35\x01\x01\xff", 4);  // DHCPDISCOVER
  guest_->Send(UdpFrame(0xffffffff, 68, 67, discover, 0));
  const Frame offer = guest_->Wait([](const Frame& f) { return IsIp(f, 17, kGatewayIp, 67); });
  ASSERT_GT(offer.size(), 282u);
  EXPECT_EQ(Get32(offer, 42 + 16), kGuestIp);
  const std::string options(offer.begin() + 282, offer.end());
  EXPECT_THAT(options, HasSubstr(std::string("\x03\x04\x0a\0\x02\x02", 6)));  // router
  EXPECT_THAT(options, HasSubstr(std::string("\x06\x04\x0a\0\x02\x03", 6)));  // name server
  EXPECT_THAT(options, HasSubstr("web-0"));
}

TEST_F(UserNetworkTest, TheGuestReachesTheHostsLoopbackWherePermitted) {
  const auto [listener, port] = Local(SOCK_STREAM);
  ASSERT_NE(port, 0);
  UserNetworkConfig config;
  config.host_loopback = true;
  Start(config);
  Announce();
  const auto open = OpenTcp(kGatewayIp, port, 4000, std::chrono::seconds(10));
  ASSERT_TRUE(open.has_value());
  ASSERT_TRUE(Readable(listener.get()));
  const UniqueFd served(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  guest_->Send(TcpFrame(kGatewayIp, 4000, port, testing::kTcpAck | testing::kTcpPush, open->first, open->second, "hi"));
  char text[8] = {};
  ASSERT_TRUE(Readable(served.get()));
  EXPECT_EQ(read(served.get(), text, sizeof(text)), 2);
  EXPECT_STREQ(text, "hi");
  ASSERT_EQ(write(served.get(), "yes", 3), 3);
  const Frame answer = guest_->Wait([&](const Frame& f) { return IsIp(f, 6, kGatewayIp, port) && f.size() == 57; });
  ASSERT_FALSE(answer.empty());
  EXPECT_EQ(std::string(answer.begin() + 54, answer.end()), "yes");
}

TEST_F(UserNetworkTest, TheHostsLoopbackIsOutOfReachOtherwise) {
  const auto [listener, port] = Local(SOCK_STREAM);
  Start({});
  Announce();
  EXPECT_FALSE(OpenTcp(kGatewayIp, port, 4000, std::chrono::seconds(1)).has_value());
  EXPECT_FALSE(OpenTcp(kLoopback, port, 4001, std::chrono::milliseconds(300)).has_value());
  EXPECT_FALSE(Readable(listener.get(), 0));
}

TEST_F(UserNetworkTest, UdpGoesThereAndBack) {
  const auto [server, port] = Local(SOCK_DGRAM);
  UserNetworkConfig config;
  config.host_loopback = true;
  Start(config);
  Announce();
  guest_->Send(UdpFrame(kGatewayIp, 4000, port, "question"));
  ASSERT_TRUE(Readable(server.get()));
  char text[16] = {};
  sockaddr_in from{};
  socklen_t length = sizeof(from);
  EXPECT_EQ(recvfrom(server.get(), text, sizeof(text), 0, reinterpret_cast<sockaddr*>(&from), &length), 8);
  EXPECT_STREQ(text, "question");
  ASSERT_EQ(sendto(server.get(), "answer", 6, 0, reinterpret_cast<sockaddr*>(&from), length), 6);
  const Frame answer = guest_->Wait([port = port](const Frame& f) { return IsIp(f, 17, kGatewayIp, port); });
  ASSERT_EQ(answer.size(), 48u);
  EXPECT_EQ(std::string(answer.begin() + 42, answer.end()), "answer");
}

TEST_F(UserNetworkTest, QueriesReachTheNameServer) {
  const auto [server, port] = Local(SOCK_DGRAM);
  UserNetworkConfig config;
  config.name_server = Endpoint{kLoopback, port};
  Start(config);
  Announce();
  guest_->Send(UdpFrame(kDnsIp, 4000, 53, "who?"));
  ASSERT_TRUE(Readable(server.get()));
  char text[16] = {};
  sockaddr_in from{};
  socklen_t length = sizeof(from);
  EXPECT_EQ(recvfrom(server.get(), text, sizeof(text), 0, reinterpret_cast<sockaddr*>(&from), &length), 4);
  ASSERT_EQ(sendto(server.get(), "me", 2, 0, reinterpret_cast<sockaddr*>(&from), length), 2);
  const Frame answer = guest_->Wait([](const Frame& f) { return IsIp(f, 17, kDnsIp, 53); });
  ASSERT_EQ(answer.size(), 44u);
  EXPECT_EQ(std::string(answer.begin() + 42, answer.end()), "me");
  EXPECT_EQ(testing::TransportSum(answer), 0xffffu);
}

TEST_F(UserNetworkTest, AForwardLetsTheHostIn) {
  auto [free, port] = Local(SOCK_STREAM);
  free.Reset();
  UserNetworkConfig config;
  config.forwards = {{false, {kLoopback, port}, 80}};
  Start(config);
  Announce();
  const UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(kLoopback);
  address.sin_port = htons(port);
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const Frame asked = guest_->Wait([](const Frame& f) {
    return f.size() >= 54 && Get16(f, 12) == 0x0800 && f[23] == 6 && Get32(f, 30) == kGuestIp && Get16(f, 36) == 80;
  });
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked[47], testing::kTcpSyn);
}

TEST_F(UserNetworkTest, APortThatIsTakenIsNamed) {
  const auto [listener, port] = Local(SOCK_STREAM);
  UserNetworkConfig config;
  config.forwards = {{false, {kLoopback, port}, 80}};
  const auto network = UserNetwork::Create(config, std::move(CreateFrameSocketPair()->first));
  EXPECT_EQ(network.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(network.status().message(), HasSubstr(std::to_string(port)));
}

TEST_F(UserNetworkTest, AStopIsHeard) {
  const UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  auto pair = CreateFrameSocketPair();
  auto network = UserNetwork::Create({}, std::move(pair->second));
  ASSERT_TRUE(network.ok());
  std::thread thread([&] { EXPECT_TRUE((*network)->Run(stop.get()).ok()); });
  SignalEventFd(stop.get());
  thread.join();
}

// --- The process ---

std::string ChildProgram() {
  return jail::SiblingBinary("net_user_testing_child");
}

TEST(NetUserProcessTest, ServesAGuestFromItsJailAndEndsWithIt) {
  const auto [listener, port] = Local(SOCK_STREAM);
  auto [free, forwarded] = Local(SOCK_STREAM);
  free.Reset();
  const auto [server, dns_port] = Local(SOCK_DGRAM);
  auto pair = CreateFrameSocketPair();
  UserNetworkConfig config;
  config.host_loopback = true;
  config.name_server = Endpoint{kLoopback, dns_port};
  config.forwards = {{false, {kLoopback, forwarded}, 80}};
  auto child = StartNetUser(ChildProgram(), config, pair->second.get());
  ASSERT_TRUE(child.ok()) << child.status();
  pair->second.Reset();
  EXPECT_FALSE(child->namespaces().net);

  Guest guest(pair->first.get());
  guest.Send(testing::ArpRequest(kGatewayIp));
  ASSERT_FALSE(guest.Wait([](const Frame& f) { return IsArp(f, 2); }).empty());
  guest.Send(TcpFrame(kGatewayIp, 4000, port, testing::kTcpSyn, 1000, 0));
  const Frame answer = guest.Wait([port = port](const Frame& f) { return IsIp(f, 6, kGatewayIp, port); });
  ASSERT_FALSE(answer.empty());
  const uint32_t theirs = Get32(answer, 38) + 1;
  guest.Send(TcpFrame(kGatewayIp, 4000, port, testing::kTcpAck | testing::kTcpPush, 1001, theirs, "hello"));
  ASSERT_TRUE(Readable(listener.get()));
  const UniqueFd served(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(Readable(served.get()));
  char text[16] = {};
  EXPECT_EQ(read(served.get(), text, sizeof(text)), 5);
  guest.Send(TcpFrame(kGatewayIp, 4000, port, testing::kTcpAck | testing::kTcpFin, 1006, theirs));
  ASSERT_TRUE(Readable(served.get()));
  EXPECT_EQ(read(served.get(), text, sizeof(text)), 0);

  guest.Send(UdpFrame(kDnsIp, 4000, 53, "who?"));
  EXPECT_TRUE(Readable(server.get()));
  // Ping and nonsense.
  guest.Send(testing::IpFrame(1, kGatewayIp, Frame{8, 0, 0, 0, 0, 1, 0, 1}, 2));
  guest.Send(testing::IpFrame(1, 0x08080808, Frame{8, 0, 0, 0, 0, 1, 0, 1}, 2));
  guest.Send(Frame(14, 0xff));
  guest.Send(Frame(60, 0x45));
  const UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(kLoopback);
  address.sin_port = htons(forwarded);
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const Frame knock = guest.Wait(
      [](const Frame& f) { return f.size() >= 54 && Get16(f, 12) == 0x0800 && f[23] == 6 && Get16(f, 36) == 80; });
  EXPECT_FALSE(knock.empty());

  pair->first.Reset();
  const auto ended = child->Wait(absl::Seconds(10));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_TRUE(ended->clean()) << ended->ToString();
}

TEST(NetUserProcessTest, BadStartsHaveTheirOwnExitCodes) {
  const auto [listener, port] = Local(SOCK_STREAM);
  auto pair = CreateFrameSocketPair();
  UserNetworkConfig taken;
  taken.forwards = {{false, {kLoopback, port}, 80}};
  auto child = StartNetUser(ChildProgram(), taken, pair->second.get());
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->Wait(absl::Seconds(10))->code, kNetUserHost);

  jail::SpawnOptions options;
  options.program = ChildProgram();
  options.arguments = {kNetUserVerb, "--mtu=x"};
  auto usage = jail::Spawn(options);
  ASSERT_TRUE(usage.ok());
  EXPECT_EQ(usage->Wait(absl::Seconds(10))->code, kNetUserUsage);
  options.arguments = {kNetUserVerb};
  auto no_socket = jail::Spawn(options);
  ASSERT_TRUE(no_socket.ok());
  EXPECT_EQ(no_socket->Wait(absl::Seconds(10))->code, kNetUserUsage);
}

}  // namespace
}  // namespace sluice::net
