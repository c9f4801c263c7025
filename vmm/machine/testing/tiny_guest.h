// File: tiny_guest.h
//
// Guests of a few bytes for tests of the machine itself: machine code wrapped into the smallest ELF64 that boots. They
// run at CPL0 in 64-bit mode, as the machine starts them, and use only instructions that KVM's emulator knows.
//
//   options.firmware = TinyElf(TinyCode().Out8(0x3f8, 'A').Exit(3).bytes());
#ifndef SLUICE_VMM_MACHINE_TESTING_TINY_GUEST_H_
#define SLUICE_VMM_MACHINE_TESTING_TINY_GUEST_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "vmm/boot/start_info.h"
#include "vmm/machine/address_map.h"

namespace sluice::machine::testing {

// Appends instructions.
class TinyCode {
 public:
  TinyCode& Raw(std::initializer_list<int> bytes) {
    for (int b : bytes) code_.push_back(static_cast<uint8_t>(b));
    return *this;
  }
  TinyCode& Out8(uint16_t port, uint8_t value) {
    MovDx(port);
    return Raw({0xb0, value, 0xee});  // mov $value, %al; out %al, (%dx)
  }
  TinyCode& Out32(uint16_t port, uint32_t value) {
    MovDx(port);
    MovEax(value);
    return Raw({0xef});  // out %eax, (%dx)
  }
  // The value read is left in eax.
  TinyCode& In32(uint16_t port) {
    MovDx(port);
    return Raw({0xed});
  }
  TinyCode& Print(const std::string& text) {
    for (char c : text) Out8(kSerialPort, static_cast<uint8_t>(c));
    return *this;
  }
  TinyCode& Mark() { return Out32(kMarkerPort, 1); }
  TinyCode& Exit(uint8_t code) {
    Out8(kDebugExitPort, code);
    return Spin();
  }
  // Exits with 0 if eax == value, else with 1.
  TinyCode& ExitIfEax(uint32_t value) {
    Raw({0x3d});  // cmp $value, %eax
    Imm32(value);
    Raw({0x0f, 0x95, 0xc0});  // setne %al
    MovDx(kDebugExitPort);
    Raw({0xee});
    return Spin();
  }
  TinyCode& MovRax(uint64_t value) {
    Raw({0x48, 0xb8});
    for (int i = 0; i < 8; ++i) code_.push_back(static_cast<uint8_t>(value >> (8 * i)));
    return *this;
  }
  TinyCode& MovEax(uint32_t value) {
    Raw({0xb8});
    return Imm32(value);
  }
  TinyCode& LoadEaxFromRax() { return Raw({0x8b, 0x00}); }  // mov (%rax), %eax
  TinyCode& StoreToRax(uint32_t value) {
    Raw({0xc7, 0x00});
    return Imm32(value);
  }  // movl $value, (%rax)
  TinyCode& Spin() { return Raw({0xeb, 0xfe}); }
  TinyCode& HaltForEver() { return Raw({0xfa, 0xf4, 0xeb, 0xfd}); }  // cli; 1: hlt; jmp 1b
  // Loads an empty IDT and faults: the exception and the double fault cannot be delivered.
  TinyCode& TripleFault() {
    // sub $16, %rsp would need a stack: the IDTR image is at a fixed free place in low memory instead.
    MovRax(0x500);
    StoreToRax(0);
    MovRax(0x504);
    StoreToRax(0);
    MovRax(0x508);
    StoreToRax(0);
    MovRax(0x500);
    Raw({0x0f, 0x01, 0x18});   // lidt (%rax)
    return Raw({0x0f, 0x0b});  // ud2
  }
  const std::vector<uint8_t>& bytes() const { return code_; }

 private:
  void MovDx(uint16_t port) { Raw({0x66, 0xba, port & 0xff, port >> 8}); }
  TinyCode& Imm32(uint32_t value) {
    for (int i = 0; i < 4; ++i) code_.push_back(static_cast<uint8_t>(value >> (8 * i)));
    return *this;
  }
  std::vector<uint8_t> code_;
};

// Marks; then `first`, if this is the first boot, else an exit with 0. What it remembers is in RAM at 7 MiB.
inline TinyCode ExitsOnSecondBoot(const TinyCode& first) {
  constexpr uint64_t kNote = 0x700000;
  const TinyCode exit = TinyCode().Exit(0);
  TinyCode code;
  code.Mark().MovRax(kNote).LoadEaxFromRax();
  code.Raw({0x3d, 0x34, 0x12, 0, 0});                       // cmp $0x1234, %eax
  code.Raw({0x75, static_cast<int>(exit.bytes().size())});  // jne over the exit
  for (const uint8_t b : exit.bytes()) code.Raw({b});
  code.MovRax(kNote).StoreToRax(0x1234);
  for (const uint8_t b : first.bytes()) code.Raw({b});
  return code;
}

// An ELF64 executable with one segment at boot::kFirmwareStart, entered at its first byte.
inline std::vector<uint8_t> TinyElf(const std::vector<uint8_t>& code) {
  std::vector<uint8_t> file(0x78, 0);
  auto put = [&file](size_t at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file[at + static_cast<size_t>(i)] = static_cast<uint8_t>(value >> (8 * i));
  };
  put(0, 0x464c457f, 4);
  put(4, 2, 1);    // ELFCLASS64
  put(5, 1, 1);    // little-endian
  put(6, 1, 1);    // EV_CURRENT
  put(16, 2, 2);   // ET_EXEC
  put(18, 62, 2);  // EM_X86_64
  put(20, 1, 4);
  put(24, boot::kFirmwareStart, 8);  // entry
  put(32, 64, 8);                    // program headers
  put(52, 64, 2);
  put(54, 56, 2);
  put(56, 1, 2);
  put(64, 1, 4);  // PT_LOAD
  put(68, 7, 4);
  put(72, 0x78, 8);
  put(80, boot::kFirmwareStart, 8);
  put(88, boot::kFirmwareStart, 8);
  put(96, code.size(), 8);
  put(104, code.size(), 8);
  put(112, 0, 8);
  file.insert(file.end(), code.begin(), code.end());
  return file;
}

}  // namespace sluice::machine::testing

#endif  // SLUICE_VMM_MACHINE_TESTING_TINY_GUEST_H_
