// The smallest guest: says hello and ends. Options: name=TEXT, code=N (exit code, 0..255).
#include "firmware/lib/clock.h"
#include "firmware/lib/runtime.h"
#include "firmware/lib/serial.h"

int sluice::firmware::GuestMain() {
  Print("hello from %s, at %llu kHz\n", Option("name", "a guest"), static_cast<unsigned long long>(TscKhz()));
  return static_cast<int>(OptionNumber("code", 0, 0, 255));
}
