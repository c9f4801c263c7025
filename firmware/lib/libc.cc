// What compiled C++ calls without being asked: memory and string functions of the C library, and the hooks of the C++
// ABI. Compiled with -fno-builtin, or the compiler would make memcpy's loop a call of memcpy.
#include <stddef.h>
#include <stdint.h>

#include "firmware/lib/runtime.h"

using sluice::firmware::ExitCode;
using sluice::firmware::Fail;

extern "C" {

void* memcpy(void* to, const void* from, size_t n) {
  void* d = to;
  asm volatile("rep movsb" : "+D"(d), "+S"(from), "+c"(n) : : "memory");
  return to;
}

void* memset(void* to, int value, size_t n) {
  void* d = to;
  asm volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(value) : "memory");
  return to;
}

void* memmove(void* to, const void* from, size_t n) {
  auto* d = static_cast<uint8_t*>(to);
  const auto* s = static_cast<const uint8_t*>(from);
  if (d <= s || d >= s + n) return memcpy(to, from, n);
  // Overlapping, to a higher address: backwards, by eights.
  while (n >= 8) {
    n -= 8;
    uint64_t word;
    __builtin_memcpy(&word, s + n, 8);
    __builtin_memcpy(d + n, &word, 8);
  }
  while (n-- > 0) d[n] = s[n];
  return to;
}

int memcmp(const void* a, const void* b, size_t n) {
  const auto* x = static_cast<const uint8_t*>(a);
  const auto* y = static_cast<const uint8_t*>(b);
  for (; n > 0; n--, x++, y++) {
    if (*x != *y) return *x - *y;
  }
  return 0;
}

void* memchr(const void* s, int c, size_t n) {
  const auto* p = static_cast<const uint8_t*>(s);
  for (; n > 0; n--, p++) {
    if (*p == static_cast<uint8_t>(c)) return const_cast<uint8_t*>(p);
  }
  return nullptr;
}

size_t strlen(const char* s) {
  size_t n = 0;
  while (s[n] != 0) n++;
  return n;
}

int strcmp(const char* a, const char* b) {
  for (; *a != 0 && *a == *b; a++, b++) {
  }
  return static_cast<uint8_t>(*a) - static_cast<uint8_t>(*b);
}

int strncmp(const char* a, const char* b, size_t n) {
  for (; n > 0 && *a != 0 && *a == *b; n--, a++, b++) {
  }
  return n == 0 ? 0 : static_cast<uint8_t>(*a) - static_cast<uint8_t>(*b);
}

char* strncpy(char* to, const char* from, size_t n) {
  size_t i = 0;
  for (; i < n && from[i] != 0; i++) to[i] = from[i];
  for (; i < n; i++) to[i] = 0;
  return to;
}

void* malloc(size_t n) {
  return ::operator new(n);
}
void free(void* p) {
  ::operator delete(p);
}

[[noreturn]] void abort() {
  Fail(ExitCode::kAbort, "called from %p", __builtin_return_address(0));
}
[[noreturn]] void __assert_fail(const char* expression, const char* file, unsigned line, const char* function) {
  Fail(ExitCode::kAbort, "%s:%u: %s: assertion '%s' failed", file, line, function, expression);
}
[[noreturn]] void __cxa_pure_virtual() {
  Fail(ExitCode::kAbort, "pure virtual call");
}
[[noreturn]] void __stack_chk_fail() {
  Fail(ExitCode::kAbort, "stack overwritten");
}

// Destructors of static objects never run: a guest ends by Exit.
int __cxa_atexit(void (*)(void*), void*, void*) {
  return 0;
}
void* __dso_handle = nullptr;
}

// libstdc++'s containers call these where they would throw.
namespace std {
[[noreturn]] void __throw_length_error(const char* what) {
  Fail(ExitCode::kAbort, "length_error: %s", what);
}
[[noreturn]] void __throw_logic_error(const char* what) {
  Fail(ExitCode::kAbort, "logic_error: %s", what);
}
[[noreturn]] void __throw_out_of_range_fmt(const char* what, ...) {
  Fail(ExitCode::kAbort, "out_of_range: %s", what);
}
[[noreturn]] void __throw_bad_alloc() {
  Fail(ExitCode::kOutOfMemory, "bad_alloc");
}
[[noreturn]] void __throw_bad_array_new_length() {
  Fail(ExitCode::kOutOfMemory, "bad_array_new_length");
}
[[noreturn]] void __throw_bad_function_call() {
  Fail(ExitCode::kAbort, "bad_function_call");
}
}  // namespace std
