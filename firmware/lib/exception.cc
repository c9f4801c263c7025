// Runs at CPL0 after a processor exception, where every instruction may be interpreted: compiled with general registers
// only, calls nothing outside this file, prints one report and ends the VM.
#include <stdint.h>

#include "firmware/lib/cpu.h"
#include "firmware/lib/runtime.h"

namespace {

using sluice::firmware::ExitCode;
using sluice::firmware::Out8;

constexpr uint16_t kSerialData = 0x3f8;
constexpr uint16_t kExitPort = 0xf4;

struct ExceptionFrame {  // as start.S pushes it
  uint64_t cr2;
  uint64_t r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax;
  uint64_t vector, error, rip, cs, rflags, rsp, ss;
};

void Text(const char* text) {
  for (; *text != 0; text++) Out8(kSerialData, static_cast<uint8_t>(*text));
}

void Hex(const char* name, uint64_t value) {
  Text(name);
  bool started = false;
  for (int shift = 60; shift >= 0; shift -= 4) {
    const unsigned digit = (value >> shift) & 15;
    if (digit == 0 && !started && shift != 0) continue;
    started = true;
    Out8(kSerialData, static_cast<uint8_t>(digit < 10 ? '0' + digit : 'a' + digit - 10));
  }
}

}  // namespace

extern "C" [[noreturn]] void ReportException(const ExceptionFrame* f) {
  Text("\nEXCEPTION");
  Hex(" vector ", f->vector);
  Hex(" error ", f->error);
  Hex(" rip ", f->rip);
  Hex(" cs ", f->cs);
  Hex(" rflags ", f->rflags);
  Hex(" rsp ", f->rsp);
  Hex(" cr2 ", f->cr2);
  Hex("\n rax ", f->rax);
  Hex(" rbx ", f->rbx);
  Hex(" rcx ", f->rcx);
  Hex(" rdx ", f->rdx);
  Hex(" rsi ", f->rsi);
  Hex(" rdi ", f->rdi);
  Hex(" rbp ", f->rbp);
  Hex(" r8 ", f->r8);
  Hex(" r9 ", f->r9);
  Hex(" r10 ", f->r10);
  Hex(" r11 ", f->r11);
  Hex(" r12 ", f->r12);
  Hex(" r13 ", f->r13);
  Hex(" r14 ", f->r14);
  Hex(" r15 ", f->r15);
  Text("\n");
  for (;;) Out8(kExitPort, static_cast<uint8_t>(static_cast<unsigned>(ExitCode::kException) + (f->vector & 31)));
}
