// Ends badly on purpose: for tests of how a VM process reports that. kind=
//   divide, opcode, page, protection   a processor exception: a report on serial, exit code 128 + vector (0, 6, 14, 13)
//   abort, assert, memory              what the runtime notices: exit code 100, 100, 101
//   triple                             a triple fault: the VM shuts down
//   mmio                               reads an address where nothing is, then exits with 0
//   exit                               exits with code= (default 42)
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "firmware/lib/cpu.h"
#include "firmware/lib/heap.h"
#include "firmware/lib/runtime.h"
#include "firmware/lib/serial.h"

extern "C" uint64_t interrupt_gates[512];  // start.S: the IDT

namespace sluice::firmware {
namespace {

bool Is(const char* kind, const char* name) {
  return strcmp(kind, name) == 0;
}

void TripleFault() {
  // No gate is present any more: the exception cannot be delivered, nor can the double fault.
  memset(interrupt_gates, 0, sizeof(interrupt_gates));
  asm volatile("ud2");
}

}  // namespace

int GuestMain() {
  const char* kind = Option("kind", "opcode");
  Print("fault: %s\n", kind);
  if (Is(kind, "divide")) asm volatile("xor %%edx, %%edx; xor %%ecx, %%ecx; div %%ecx" : : : "rax", "rcx", "rdx");
  if (Is(kind, "opcode")) asm volatile("ud2");
  if (Is(kind, "page")) Mmio<uint32_t>(0x7f00'0000'0000).Read();  // canonical, not mapped
  if (Is(kind, "protection")) asm volatile("cli");
  if (Is(kind, "abort")) abort();
  if (Is(kind, "assert")) __assert_fail("2 + 2 == 5", __FILE__, __LINE__, "GuestMain");
  if (Is(kind, "memory")) {
    for (;;) AllocateAligned(1 << 20, 4096);
  }
  if (Is(kind, "triple")) TripleFault();
  if (Is(kind, "mmio")) {
    Print("read %x\n", Mmio<uint32_t>(0xefff'f000).Read());
    return 0;
  }
  if (Is(kind, "exit")) return static_cast<int>(OptionNumber("code", 42, 0, 255));
  Fail(ExitCode::kBadOption, "kind=%s is not known", kind);
}

}  // namespace sluice::firmware
