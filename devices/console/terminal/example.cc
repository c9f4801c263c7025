// A guest's terminal shared by a server: what was shown before a client came is shown to it, and what it types arrives.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "devices/console/terminal/server.h"
#include "devices/console/terminal/wire.h"
#include "vmm/base/seqpacket.h"

int main() {
  namespace console = sluice::console;
  int fds[2];
  auto pair = sluice::CreateSeqPacketPair();
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0 || !pair.ok()) return 1;
  const sluice::UniqueFd guest(fds[0]);

  asio::io_context loop;
  console::ConsoleServerOptions options;
  options.loop = &loop;
  options.console.Reset(fds[1]);
  auto server = console::ConsoleServer::Create(std::move(options));
  if (!server.ok() || write(guest.get(), "login: ", 7) != 7) return 1;
  loop.poll();

  if (!(*server)->AddClient(std::move(pair->first)).ok()) return 1;
  const auto shown = sluice::ReceivePacket(pair->second.get(), /*nonblocking=*/true);
  if (!shown.ok() || !shown->has_value()) return 1;
  std::printf("the client sees: %.*s\n", static_cast<int>((*shown)->bytes.size() - 1),
              std::string((*shown)->bytes.begin() + 1, (*shown)->bytes.end()).c_str());

  const std::vector<uint8_t> typed = {'r', 'o', 'o', 't', '\n'};
  if (!console::SendConsolePacket(pair->second.get(), console::PacketKind::kData, typed).ok()) return 1;
  loop.restart();
  loop.poll();
  char text[16] = {};
  if (read(guest.get(), text, sizeof(text) - 1) != 5) return 1;
  std::printf("the guest reads: %s", text);
  return 0;
}
