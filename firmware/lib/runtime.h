// File: runtime.h
//
// How a guest begins and ends. A guest is one program with one function:
//
//   int sluice::firmware::GuestMain() {
//     Print("hello from %s\n", Option("name", "a guest"));
//     return 0;
//   }
//
// start.S and runtime.cc call it at CPL3 with heap, serial port, clock and interrupts ready; what it returns is the
// VM's exit code. Nothing here is thread-safe: a guest has one vCPU and no threads.
#ifndef SLUICE_FIRMWARE_LIB_RUNTIME_H_
#define SLUICE_FIRMWARE_LIB_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

namespace sluice::firmware {

// Written to port 0xf4, and so the exit code of the VM.
enum class ExitCode : uint8_t {
  kOk = 0,
  kCheckFailed = 1,  // the guest did its work and found the result wrong
  kBadOption = 2,    // a command-line value that it cannot use
  kNoDevice = 3,     // a device that it needs is not there, or refuses to start
  kDeviceLost = 4,   // the device or the GPU behind it failed while in use
  kAbort = 100,      // abort(), a failed assert, a pure virtual call
  kOutOfMemory = 101,
  kException = 128,  // plus the vector, 0..31: a processor exception; the serial port has the registers
};

// The guest's program.
int GuestMain();

// Ends the VM. `code` 0..255.
[[noreturn]] void Exit(int code);
// Prints "NAME: message" of the reason and ends the VM with its code.
[[noreturn]] void Fail(ExitCode code, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Command line: words "key=value" or "key", separated by blanks; of equal keys the last counts.
// The value of `key` as it stands; `fallback` if the key is absent. "key" alone has the value "1".
const char* Option(const char* key, const char* fallback);
// The same as a number (decimal, or hexadecimal with 0x). A value that is none, or not within [low, high], fails the
// guest with kBadOption.
uint64_t OptionNumber(const char* key, uint64_t fallback, uint64_t low = 0, uint64_t high = UINT64_MAX);

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_LIB_RUNTIME_H_
