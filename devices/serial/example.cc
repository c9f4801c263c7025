// A guest's "hello" through a UART, and one line typed back.
#include <cstdio>
#include <string>

#include "devices/serial/serial.h"

int main() {
  using namespace sluice::serial;
  std::string console;
  Serial serial({.output = [&console](absl::Span<const uint8_t> bytes) { console.append(bytes.begin(), bytes.end()); },
                 .interrupt = [](bool level) { std::printf("IRQ %u: %s\n", kSerialIrq, level ? "high" : "low"); }});

  // What a guest does: wait for LSR.THRE, write THR.
  for (const char c : std::string("hello\n")) {
    while ((serial.Read(kLsr) & kLsrThrEmpty) == 0) {
    }
    serial.Write(kThr, static_cast<uint8_t>(c));
  }
  std::printf("console: %s", console.c_str());

  // A user types; the guest has asked for interrupts and reads until LSR.DR falls.
  serial.Write(kIer, kIerReceived);
  serial.PushInput("ls\n");
  std::string line;
  while ((serial.Read(kLsr) & kLsrDataReady) != 0) line.push_back(static_cast<char>(serial.Read(kRbr)));
  std::printf("guest read: %s", line.c_str());
  return console == "hello\n" && line == "ls\n" ? 0 : 1;
}
