// File: cpu.h
//
// The instructions that C++ has no words for: port and memory-mapped I/O, time stamp, pause.
//
//   Out8(kSerialPort, 'x');
//   uint32_t magic = Mmio<uint32_t>(bar + 4).Read();
#ifndef SLUICE_FIRMWARE_LIB_CPU_H_
#define SLUICE_FIRMWARE_LIB_CPU_H_

#include <stdint.h>

namespace sluice::firmware {

inline void Out8(uint16_t port, uint8_t value) {
  asm volatile("outb %0, %1" : : "a"(value), "Nd"(port) : "memory");
}
inline void Out16(uint16_t port, uint16_t value) {
  asm volatile("outw %0, %1" : : "a"(value), "Nd"(port) : "memory");
}
inline void Out32(uint16_t port, uint32_t value) {
  asm volatile("outl %0, %1" : : "a"(value), "Nd"(port) : "memory");
}
inline uint8_t In8(uint16_t port) {
  uint8_t value;
  asm volatile("inb %1, %0" : "=a"(value) : "Nd"(port) : "memory");
  return value;
}
inline uint16_t In16(uint16_t port) {
  uint16_t value;
  asm volatile("inw %1, %0" : "=a"(value) : "Nd"(port) : "memory");
  return value;
}
inline uint32_t In32(uint16_t port) {
  uint32_t value;
  asm volatile("inl %1, %0" : "=a"(value) : "Nd"(port) : "memory");
  return value;
}

// A device register of type T at a guest-physical address (= virtual: the map is the identity). One access per call, of
// that width and in program order, by a plain mov: the only kind that a hypervisor's instruction decoder must know.
template <typename T>
class Mmio {
 public:
  explicit Mmio(uint64_t address) : address_(address) {}
  T Read() const {
    T value;
    asm volatile("mov %1, %0" : "=r"(value) : "m"(*Pointer()) : "memory");
    return value;
  }
  void Write(T value) const { asm volatile("mov %1, %0" : "=m"(*Pointer()) : "r"(value) : "memory"); }

 private:
  volatile T* Pointer() const { return reinterpret_cast<volatile T*>(address_); }
  uint64_t address_;
};

// Time stamp counter; not serialising. clock.h makes time of it.
inline uint64_t ReadTsc() {
  uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return (uint64_t{high} << 32) | low;
}

inline void Pause() {
  asm volatile("pause" : : : "memory");
}

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_LIB_CPU_H_
