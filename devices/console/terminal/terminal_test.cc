// The console server, and the client over a pseudo-terminal.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "devices/console/terminal/client.h"
#include "devices/console/terminal/server.h"
#include "devices/console/terminal/wire.h"
#include "vmm/base/seqpacket.h"

namespace sluice::console {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool Wait(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// A server whose guest is the test. The loop runs when the test says so.
class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override { Make({}); }

  void Make(ConsoleServerOptions options) {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    guest_.Reset(fds[0]);
    options.loop = &loop_;
    options.console.Reset(fds[1]);
    options.on_resize = [this](uint16_t cols, uint16_t rows) { sizes_.emplace_back(cols, rows); };
    options.on_closed = [this] { closed_ = true; };
    auto server = ConsoleServer::Create(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void Pump() {
    loop_.restart();
    for (int i = 0; i < 10000 && loop_.poll_one() > 0; ++i) {
    }
  }
  // A new client's socket.
  UniqueFd Join() {
    auto pair = CreateSeqPacketPair();
    EXPECT_TRUE(pair.ok() && server_->AddClient(std::move(pair->first)).ok());
    Pump();
    return std::move(pair->second);
  }
  void Show(absl::string_view text) {
    ASSERT_EQ(send(guest_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    Pump();
  }
  std::string Typed() {
    Pump();
    std::string text(1 << 20, '\0');
    const ssize_t size = read(guest_.get(), text.data(), text.size());
    text.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return text;
  }
  static absl::Status Type(const UniqueFd& client, absl::string_view text) {
    return SendConsolePacket(client.get(), PacketKind::kData, std::vector<uint8_t>(text.begin(), text.end()));
  }
  // Data packets that came, joined; `*end` gets the reason if one came.
  std::string Seen(const UniqueFd& client, std::string* end = nullptr) {
    std::string text;
    while (true) {
      Pump();
      auto packet = ReceivePacket(client.get(), true);
      if (!packet.ok() || !packet->has_value() || (*packet)->bytes.empty()) return text;
      const auto& bytes = (*packet)->bytes;
      std::string* const to = bytes[0] == static_cast<uint8_t>(PacketKind::kEnded) ? end : &text;
      if (to != nullptr) to->append(bytes.begin() + 1, bytes.end());
    }
  }

  asio::io_context loop_;
  UniqueFd guest_;
  std::unique_ptr<ConsoleServer> server_;
  std::vector<std::pair<uint16_t, uint16_t>> sizes_;
  bool closed_ = false;
};

TEST_F(ServerTest, ClientsShareTheTerminal) {
  const UniqueFd one = Join();
  const UniqueFd two = Join();
  Show("login: ");
  EXPECT_EQ(Seen(one), "login: ");
  EXPECT_EQ(Seen(two), "login: ");
  ASSERT_TRUE(Type(one, "ro").ok());
  Pump();
  ASSERT_TRUE(Type(two, "ot\n").ok());
  EXPECT_EQ(Typed(), "root\n");
}

TEST_F(ServerTest, ALateClientSeesWhatIsRemembered) {
  Make({.history_bytes = 100});
  Show(std::string(5000, 'a'));
  Show(std::string(60, 'b'));
  EXPECT_EQ(server_->History(), std::string(40, 'a') + std::string(60, 'b'));
  const UniqueFd late = Join();
  EXPECT_EQ(Seen(late), std::string(40, 'a') + std::string(60, 'b'));
}

TEST_F(ServerTest, TheGuestNeverWaitsForAClientAndASlowOneIsDropped) {
  Make({.client_bytes = 100000});
  const UniqueFd slow = Join();
  for (int i = 0; i < 200; ++i) Show(std::string(8000, 'x'));
  EXPECT_EQ(server_->clients(), 0u);
  const UniqueFd next = Join();
  EXPECT_EQ(Seen(next).size(), 64u << 10);
}

TEST_F(ServerTest, AClientThatReadsLateMissesNothingWithinItsBound) {
  const UniqueFd client = Join();
  std::string all;
  for (int i = 0; i < 30; ++i) {
    const std::string piece(8000, static_cast<char>('a' + i % 26));
    Show(piece);
    all += piece;
  }
  EXPECT_TRUE(Seen(client) == all);
}

TEST_F(ServerTest, TypingWaitsWhileTheGuestTakesNone) {
  const UniqueFd client = Join();
  size_t sent = 0;
  while (Type(client, std::string(10000, 't')).ok()) {
    sent += 10000;
    Pump();
    ASSERT_LT(sent, 50u << 20);
  }
  // The guest still shows things.
  Show("busy");
  EXPECT_EQ(Seen(client), "busy");
  size_t typed = 0;
  for (std::string text = Typed(); !text.empty(); text = Typed()) typed += text.size();
  EXPECT_EQ(typed, sent);
}

TEST_F(ServerTest, SizesAreToldAndRuleBreakersDropped) {
  const UniqueFd client = Join();
  const std::vector<uint8_t> size = {120, 0, 44, 1};
  ASSERT_TRUE(SendConsolePacket(client.get(), PacketKind::kResize, size).ok());
  ASSERT_TRUE(SendConsolePacket(client.get(), static_cast<PacketKind>(99), size).ok());
  Pump();
  EXPECT_THAT(sizes_, ElementsAre(std::pair<uint16_t, uint16_t>(120, 300)));
  EXPECT_EQ(server_->clients(), 1u);
  ASSERT_TRUE(SendConsolePacket(client.get(), PacketKind::kResize, {}).ok());
  Pump();
  EXPECT_EQ(server_->clients(), 0u);
  const UniqueFd long_winded = Join();
  ASSERT_TRUE(Type(long_winded, std::string(kMaxDataBytes + 1, 'x')).ok());
  Pump();
  EXPECT_EQ(server_->clients(), 0u);
  EXPECT_EQ(Typed(), "");
}

TEST_F(ServerTest, ClientsAreToldOfTheEnd) {
  const UniqueFd client = Join();
  Show("bye\n");
  guest_.Reset();
  Pump();
  EXPECT_TRUE(closed_);
  std::string why;
  EXPECT_EQ(Seen(client, &why), "bye\n");
  EXPECT_THAT(why, HasSubstr("ended"));
  EXPECT_EQ(server_->clients(), 0u);
  // What it showed last can still be read.
  const UniqueFd late = Join();
  EXPECT_EQ(Seen(late, &why), "bye\n");
}

TEST_F(ServerTest, ThereIsALimitOfClients) {
  Make({.max_clients = 1});
  const UniqueFd client = Join();
  auto pair = CreateSeqPacketPair();
  EXPECT_EQ(server_->AddClient(std::move(pair->first)).code(), absl::StatusCode::kResourceExhausted);
}

class SocketTest : public ServerTest {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("sluice-console-" + std::to_string(getpid()));
    std::filesystem::create_directory(directory_);
    path_ = directory_ / "vm.console";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::filesystem::path directory_;
  std::string path_;
};

TEST_F(SocketTest, ClientsConnectByPathAndOnlyThisUserMay) {
  EXPECT_EQ(ConnectConsole(path_).status().code(), absl::StatusCode::kNotFound);
  ConsoleServerOptions options;
  auto listener = ListenConsole(path_);
  ASSERT_TRUE(listener.ok()) << listener.status();
  struct stat facts {};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_EQ(ListenConsole(path_).status().code(), absl::StatusCode::kAlreadyExists);
  options.listener = *std::move(listener);
  options.max_clients = 1;
  Make(std::move(options));
  Pump();  // whoever looked whether somebody listens is gone again
  auto client = ConnectConsole(path_);
  ASSERT_TRUE(client.ok()) << client.status();
  Show("hello");
  EXPECT_EQ(Seen(*client), "hello");
  auto refused = ConnectConsole(path_);
  ASSERT_TRUE(refused.ok());
  std::string why;
  EXPECT_EQ(Seen(*refused, &why), "");
  EXPECT_THAT(why, HasSubstr("1 clients"));
}

TEST_F(SocketTest, LeftOversAreReplacedAndOtherFilesAreNot) {
  { ASSERT_TRUE(ListenConsole(path_).ok()); }  // its file stays behind
  EXPECT_TRUE(ListenConsole(path_).ok());
  const std::string file = directory_ / "file";
  UniqueFd made(open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_EQ(ListenConsole(file).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ListenConsole(std::string(200, 'x')).status().code(), absl::StatusCode::kInvalidArgument);
}

// The client in a thread, on a pseudo-terminal whose other side is the test's; the server's part is played by the test.
class ClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    keyboard_.Reset(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    ASSERT_EQ(grantpt(keyboard_.get()), 0);
    ASSERT_EQ(unlockpt(keyboard_.get()), 0);
    terminal_.Reset(open(ptsname(keyboard_.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(terminal_.valid());
    SetSize(100, 30);
    ASSERT_EQ(tcgetattr(terminal_.get(), &before_), 0);
    auto pair = CreateSeqPacketPair();
    ASSERT_TRUE(pair.ok());
    server_ = std::move(pair->first);
    client_ = std::move(pair->second);
    options_ = {.socket = client_.get(), .input = terminal_.get(), .output = terminal_.get()};
  }
  void TearDown() override { EndClient(); }
  // Before what it reads and writes is closed.
  void EndClient() {
    server_.Reset();
    if (thread_.joinable()) thread_.join();
  }
  void Start() {
    thread_ = std::thread([this] {
      end_ = RunConsole(options_);
      ended_ = true;
    });
  }
  void SetSize(uint16_t cols, uint16_t rows) {
    winsize size{};
    size.ws_col = cols;
    size.ws_row = rows;
    ASSERT_EQ(ioctl(terminal_.get(), TIOCSWINSZ, &size), 0);
  }
  // The next packet of the client's, its kind first; empty: none in 10 s.
  std::vector<uint8_t> NextPacket() {
    std::vector<uint8_t> bytes;
    Wait([&] {
      auto packet = ReceivePacket(server_.get(), true);
      if (packet.ok() && packet->has_value()) bytes = (*packet)->bytes;
      return !bytes.empty();
    });
    return bytes;
  }
  bool TerminalAsBefore() const {
    termios now{};
    tcgetattr(terminal_.get(), &now);
    return now.c_lflag == before_.c_lflag && now.c_iflag == before_.c_iflag && now.c_oflag == before_.c_oflag;
  }

  UniqueFd keyboard_;
  UniqueFd terminal_;
  UniqueFd server_;
  UniqueFd client_;
  termios before_{};
  ConsoleClientOptions options_;
  std::thread thread_;
  absl::StatusOr<ConsoleEnd> end_ = ConsoleEnd{};
  std::atomic<bool> ended_ = false;
};

TEST_F(ClientTest, ShowsTypesAndLeavesWithTheTerminalAsItWas) {
  Start();
  EXPECT_THAT(NextPacket(), ElementsAre(1, 100, 0, 30, 0));
  EXPECT_FALSE(TerminalAsBefore());
  const std::string shown = "line\r\n";
  ASSERT_TRUE(
      SendConsolePacket(server_.get(), PacketKind::kData, std::vector<uint8_t>(shown.begin(), shown.end())).ok());
  std::string screen;
  ASSERT_TRUE(Wait([&] {
    char bytes[64];
    const ssize_t size = read(keyboard_.get(), bytes, sizeof(bytes));
    if (size > 0) screen.append(bytes, static_cast<size_t>(size));
    return screen.size() >= shown.size();
  }));
  EXPECT_EQ(screen, shown);
  // Ctrl-C is the guest's.
  ASSERT_EQ(write(keyboard_.get(), "\x03", 1), 1);
  EXPECT_THAT(NextPacket(), ElementsAre(0, 3));
  ASSERT_EQ(write(keyboard_.get(), "a\x1d", 2), 2);
  EXPECT_THAT(NextPacket(), ElementsAre(0, 'a'));
  ASSERT_TRUE(Wait([&] { return ended_.load(); }));
  EXPECT_EQ(end_->why, ConsoleEnd::kDetached);
  EXPECT_TRUE(TerminalAsBefore());
}

TEST_F(ClientTest, TellsANewSize) {
  Start();
  NextPacket();
  SetSize(90, 20);
  pthread_kill(thread_.native_handle(), SIGWINCH);
  EXPECT_THAT(NextPacket(), ElementsAre(1, 90, 0, 20, 0));
}

TEST_F(ClientTest, ASignalRestoresTheTerminal) {
  Start();
  NextPacket();
  pthread_kill(thread_.native_handle(), SIGTERM);
  ASSERT_TRUE(Wait([&] { return ended_.load(); }));
  EXPECT_EQ(end_->why, ConsoleEnd::kInterrupted);
  EXPECT_TRUE(TerminalAsBefore());
}

TEST_F(ClientTest, TellsWhyTheConsoleEnded) {
  Start();
  NextPacket();
  const std::string why = "the guest has ended\x1b[2J";
  ASSERT_TRUE(SendConsolePacket(server_.get(), PacketKind::kEnded, std::vector<uint8_t>(why.begin(), why.end())).ok());
  ASSERT_TRUE(Wait([&] { return ended_.load(); }));
  EXPECT_EQ(end_->why, ConsoleEnd::kEnded);
  EXPECT_EQ(end_->message, "the guest has ended?[2J");
  EXPECT_TRUE(TerminalAsBefore());
}

TEST_F(ClientTest, AServerThatIsGoneEndsIt) {
  Start();
  NextPacket();
  server_.Reset();
  ASSERT_TRUE(Wait([&] { return ended_.load(); }));
  EXPECT_EQ(end_->why, ConsoleEnd::kEnded);
}

TEST_F(ClientTest, APipeIsPassedOnAndItsEndIsNotTheConsolesEnd) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  UniqueFd from(fds[0]);
  UniqueFd to(fds[1]);
  options_.input = from.get();
  options_.escape.reset();
  Start();
  NextPacket();
  ASSERT_EQ(write(to.get(), "ls\x1d\n", 4), 4);
  EXPECT_THAT(NextPacket(), ElementsAre(0, 'l', 's', 0x1d, '\n'));
  to.Reset();
  ASSERT_TRUE(SendConsolePacket(server_.get(), PacketKind::kData, std::vector<uint8_t>{'x'}).ok());
  char shown = 0;
  ASSERT_TRUE(Wait([&] { return read(keyboard_.get(), &shown, 1) == 1; }));
  EXPECT_EQ(shown, 'x');
  EXPECT_FALSE(ended_);
  EndClient();
}

}  // namespace
}  // namespace sluice::console
