// A program on the host that talks to one in a guest and back, without a VM.
#include <cstdio>

#include "devices/vsock/testing/vsock_driver.h"

int main() {
  namespace vsock = sluice::vsock;
  vsock::testing::VsockDriver guest;
  guest.PostReceive(8);

  const sluice::UniqueFd host = guest.HostConnects("CONNECT 52\n");
  const auto request = guest.NextPacket();
  std::printf("to the guest: operation %u to port %u\n", unsigned{request.op()}, unsigned{request.header.dst_port});
  guest.Answer(request, vsock::kOpResponse);
  std::printf("to the host: %s", guest.HostRead(host).c_str());

  guest.HostWrite(host, "ping");
  const auto data = guest.NextPacket();
  guest.Answer(request, vsock::kOpData, "pong");
  const std::string answer = guest.HostRead(host);
  std::printf("to the guest: %s\nto the host: %s\n", data.payload.c_str(), answer.c_str());
  return data.payload == "ping" && answer == "pong" ? 0 : 1;
}
