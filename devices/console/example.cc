// A guest with a terminal and a named port, and a program on the host at each, without a VM.
#include <cstdio>

#include "devices/console/testing/console_driver.h"

int main() {
  sluice::console::testing::ConsoleDriver guest({.ports = 2});
  guest.Start();
  for (const auto& message : guest.Messages()) {
    std::printf("to the driver: port %u, event %u, value %u %s\n", message.header.id, message.header.event,
                message.header.value, message.header.event == sluice::console::kPortName ? message.tail.c_str() : "");
  }
  guest.Send(0, "sluice login: ");
  guest.HostWrite(1, "how are you?");
  const std::string screen = guest.HostRead(0);
  const std::string asked = guest.Received(1);
  std::printf("on the terminal: %s\nat port 1: %s\n", screen.c_str(), asked.c_str());
  return screen == "sluice login: " && asked == "how are you?" ? 0 : 1;
}
