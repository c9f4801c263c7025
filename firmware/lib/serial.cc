#include "firmware/lib/serial.h"

#include <stdint.h>

#include "firmware/lib/cpu.h"

namespace sluice::firmware {
namespace {

constexpr uint16_t kSerialData = 0x3f8;

struct Spec {
  bool left = false;
  bool zero = false;
  bool plus = false;
  unsigned width = 0;
  int precision = -1;
  unsigned bytes = 4;  // of an integer argument
};

class Output {
 public:
  Output(char* buffer, size_t size) : buffer_(buffer), size_(size) {}
  void Put(char c) {
    if (length_ + 1 < size_) buffer_[length_++] = c;
  }
  void Fill(char c, size_t n) {
    while (n-- > 0) Put(c);
  }
  // `sign`: 0 or a character that goes before the padding zeros.
  void Field(const Spec& spec, char sign, const char* text, size_t length) {
    const size_t total = length + (sign != 0 ? 1 : 0);
    const size_t pad = spec.width > total ? spec.width - total : 0;
    if (!spec.left && !spec.zero) Fill(' ', pad);
    if (sign != 0) Put(sign);
    if (!spec.left && spec.zero) Fill('0', pad);
    for (size_t i = 0; i < length; i++) Put(text[i]);
    if (spec.left) Fill(' ', pad);
  }
  size_t Finish() {
    buffer_[length_] = 0;
    return length_;
  }

 private:
  char* buffer_;
  size_t size_;
  size_t length_ = 0;
};

// Digits of `value` in `base`, at least one; returns their number. `text` holds 20.
size_t Digits(uint64_t value, unsigned base, bool upper, char* text) {
  const char* digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  char reversed[20];
  size_t n = 0;
  do {
    reversed[n++] = digits[value % base];
    value /= base;
  } while (value != 0);
  for (size_t i = 0; i < n; i++) text[i] = reversed[n - 1 - i];
  return n;
}

void PutDouble(Output& out, const Spec& spec, double value) {
  char text[48];
  size_t n = 0;
  char sign = spec.plus ? '+' : 0;
  if (value < 0) {
    sign = '-';
    value = -value;
  }
  if (!(value < 9e18)) {
    out.Field(spec, sign, value != value ? "nan" : "inf", 3);
    return;
  }
  const int decimals = spec.precision < 0 ? 6 : spec.precision > 9 ? 9 : spec.precision;
  uint64_t scale = 1;
  for (int i = 0; i < decimals; i++) scale *= 10;
  uint64_t whole = static_cast<uint64_t>(value);
  uint64_t part = static_cast<uint64_t>((value - static_cast<double>(whole)) * static_cast<double>(scale) + 0.5);
  if (part >= scale) {
    whole++;
    part -= scale;
  }
  n = Digits(whole, 10, false, text);
  if (decimals > 0) {
    text[n++] = '.';
    char digits[20];
    const size_t count = Digits(part, 10, false, digits);
    for (size_t i = count; i < static_cast<size_t>(decimals); i++) text[n++] = '0';
    for (size_t i = 0; i < count; i++) text[n++] = digits[i];
  }
  out.Field(spec, sign, text, n);
}

}  // namespace

size_t FormatV(char* buffer, size_t size, const char* format, va_list arguments) {
  Output out(buffer, size);
  for (const char* p = format; *p != 0; p++) {
    if (*p != '%') {
      out.Put(*p);
      continue;
    }
    Spec spec;
    p++;
    for (; *p == '-' || *p == '0' || *p == '+'; p++) {
      if (*p == '-') spec.left = true;
      if (*p == '0') spec.zero = true;
      if (*p == '+') spec.plus = true;
    }
    if (*p == '*') {
      spec.width = va_arg(arguments, unsigned);
      p++;
    }
    for (; *p >= '0' && *p <= '9'; p++) spec.width = spec.width * 10 + static_cast<unsigned>(*p - '0');
    if (*p == '.') {
      p++;
      spec.precision = 0;
      if (*p == '*') {
        spec.precision = va_arg(arguments, int);
        p++;
      }
      for (; *p >= '0' && *p <= '9'; p++) spec.precision = spec.precision * 10 + (*p - '0');
    }
    for (; *p == 'l' || *p == 'z' || *p == 'h'; p++) {
      if (*p != 'h') spec.bytes = 8;
    }
    char text[24];
    switch (*p) {
      case 'd':
      case 'i': {
        const int64_t value = spec.bytes == 8 ? va_arg(arguments, int64_t) : va_arg(arguments, int);
        const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
        out.Field(spec, value < 0 ? '-' : spec.plus ? '+' : '\0', text, Digits(magnitude, 10, false, text));
        break;
      }
      case 'u':
      case 'x':
      case 'X': {
        const uint64_t value = spec.bytes == 8 ? va_arg(arguments, uint64_t) : va_arg(arguments, unsigned);
        out.Field(spec, 0, text, Digits(value, *p == 'u' ? 10 : 16, *p == 'X', text));
        break;
      }
      case 'p': {
        text[0] = '0';
        text[1] = 'x';
        const size_t n = Digits(reinterpret_cast<uint64_t>(va_arg(arguments, void*)), 16, false, text + 2);
        out.Field(spec, 0, text, n + 2);
        break;
      }
      case 'c':
        text[0] = static_cast<char>(va_arg(arguments, int));
        out.Field(spec, 0, text, 1);
        break;
      case 's': {
        const char* s = va_arg(arguments, const char*);
        if (s == nullptr) s = "(null)";
        size_t n = 0;
        while (s[n] != 0 && (spec.precision < 0 || n < static_cast<size_t>(spec.precision))) n++;
        out.Field(spec, 0, s, n);
        break;
      }
      case 'f':
        PutDouble(out, spec, va_arg(arguments, double));
        break;
      case '%':
        out.Put('%');
        break;
      default:  // unknown or cut off: show what is there
        out.Put('%');
        if (*p == 0) return out.Finish();
        out.Put(*p);
    }
  }
  return out.Finish();
}

size_t Format(char* buffer, size_t size, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const size_t n = FormatV(buffer, size, format, arguments);
  va_end(arguments);
  return n;
}

void PrintV(const char* format, va_list arguments) {
  char line[512];
  const size_t n = FormatV(line, sizeof(line), format, arguments);
  for (size_t i = 0; i < n; i++) Out8(kSerialData, static_cast<uint8_t>(line[i]));
}

void Print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PrintV(format, arguments);
  va_end(arguments);
}

}  // namespace sluice::firmware
