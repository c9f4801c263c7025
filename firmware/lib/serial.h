// File: serial.h
//
// Text to the first serial port (16550 at 0x3f8), and the formatting behind it.
//
//   Print("frame %u: %s, hash %016llx\n", frame, ok ? "good" : "bad", hash);
//
// Each character is a VM exit (tens of microseconds): print results, not progress.
#ifndef SLUICE_FIRMWARE_LIB_SERIAL_H_
#define SLUICE_FIRMWARE_LIB_SERIAL_H_

#include <stdarg.h>
#include <stddef.h>

namespace sluice::firmware {

// As printf with d i u x X c s p f %; flags - 0 +, width, precision, h hh l ll z. %f has at most 9 decimals and 19
// digits before the point.
void Print(const char* format, ...) __attribute__((format(printf, 1, 2)));
void PrintV(const char* format, va_list arguments);

// Formats into `buffer`, always NUL-terminated (size > 0), cut to fit. Returns the length without the NUL.
size_t Format(char* buffer, size_t size, const char* format, ...) __attribute__((format(printf, 3, 4)));
size_t FormatV(char* buffer, size_t size, const char* format, va_list arguments);

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_LIB_SERIAL_H_
