#include "firmware/lib/runtime.h"

#include <stdarg.h>
#include <string.h>

#include "firmware/lib/clock.h"
#include "firmware/lib/cpu.h"
#include "firmware/lib/heap.h"
#include "firmware/lib/serial.h"
#include "vmm/boot/start_info.h"

extern "C" {
extern const sluice::boot::HvmStartInfo* start_info;  // start.S
extern char image_end[];                              // link.ld
extern void (*init_array_start[])();
extern void (*init_array_end[])();
}

namespace sluice::firmware {
namespace {

constexpr uint16_t kExitPort = 0xf4;

// The command line, blanks replaced by NULs: a sequence of words.
char words[boot::kMaxCmdlineBytes + 1];
size_t words_bytes = 0;

void TakeCommandLine(const char* text) {
  while (words_bytes < boot::kMaxCmdlineBytes && text[words_bytes] != 0) {
    const char c = text[words_bytes];
    words[words_bytes++] = c == ' ' || c == '\t' || c == '\n' ? '\0' : c;
  }
  words[words_bytes] = 0;
}

// The RAM behind the image: the end of the memory map's RAM entry that holds it.
void SetUpHeap() {
  const uint64_t begin = reinterpret_cast<uint64_t>(image_end);
  const auto* map = reinterpret_cast<const boot::HvmMemmapEntry*>(start_info->memmap_paddr);
  uint64_t end = begin;
  for (uint32_t i = 0; i < start_info->memmap_entries; i++) {
    if (map[i].type != boot::kMemmapRam) continue;
    if (map[i].addr <= begin && map[i].addr + map[i].size > begin) end = map[i].addr + map[i].size;
  }
  HeapInit(begin, end);
}

bool ParseNumber(const char* text, uint64_t* value) {
  const bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  const uint64_t base = hex ? 16 : 10;
  const char* p = hex ? text + 2 : text;
  if (*p == 0) return false;
  uint64_t result = 0;
  for (; *p != 0; p++) {
    uint64_t digit;
    if (*p >= '0' && *p <= '9') {
      digit = static_cast<uint64_t>(*p - '0');
    } else if (hex && (*p | 0x20) >= 'a' && (*p | 0x20) <= 'f') {
      digit = static_cast<uint64_t>((*p | 0x20) - 'a' + 10);
    } else {
      return false;
    }
    if (__builtin_mul_overflow(result, base, &result) || __builtin_add_overflow(result, digit, &result)) return false;
  }
  *value = result;
  return true;
}

const char* ReasonName(ExitCode code) {
  switch (code) {
    case ExitCode::kOk:
      return "OK";
    case ExitCode::kCheckFailed:
      return "CHECK FAILED";
    case ExitCode::kBadOption:
      return "BAD OPTION";
    case ExitCode::kNoDevice:
      return "NO DEVICE";
    case ExitCode::kDeviceLost:
      return "DEVICE LOST";
    case ExitCode::kAbort:
      return "ABORT";
    case ExitCode::kOutOfMemory:
      return "OUT OF MEMORY";
    case ExitCode::kException:
      return "EXCEPTION";
  }
  return "FAIL";
}

}  // namespace

void Exit(int code) {
  for (;;) Out8(kExitPort, static_cast<uint8_t>(code));
}

void Fail(ExitCode code, const char* format, ...) {
  Print("%s: ", ReasonName(code));
  va_list arguments;
  va_start(arguments, format);
  PrintV(format, arguments);
  va_end(arguments);
  Print("\n");
  Exit(static_cast<int>(code));
}

const char* Option(const char* key, const char* fallback) {
  const size_t key_length = strlen(key);
  const char* value = fallback;
  for (size_t at = 0; at < words_bytes; at += strlen(words + at) + 1) {
    const char* word = words + at;
    if (strncmp(word, key, key_length) != 0) continue;
    if (word[key_length] == '=') value = word + key_length + 1;
    if (word[key_length] == 0) value = "1";
  }
  return value;
}

uint64_t OptionNumber(const char* key, uint64_t fallback, uint64_t low, uint64_t high) {
  const char* text = Option(key, nullptr);
  if (text == nullptr) return fallback;
  uint64_t value = 0;
  if (!ParseNumber(text, &value) || value < low || value > high) {
    Fail(ExitCode::kBadOption, "%s=%s: give a number from %llu to %llu", key, text,
         static_cast<unsigned long long>(low), static_cast<unsigned long long>(high));
  }
  return value;
}

}  // namespace sluice::firmware

// start.S calls this at CPL3.
extern "C" [[noreturn]] void StartGuest() {
  using namespace sluice::firmware;
  if (start_info->magic != sluice::boot::kStartInfoMagic) Fail(ExitCode::kAbort, "no start information");
  TakeCommandLine(reinterpret_cast<const char*>(start_info->cmdline_paddr));
  SetUpHeap();
  ClockInit();
  for (auto constructor = init_array_start; constructor != init_array_end; constructor++) (*constructor)();
  Exit(GuestMain());
}
