#include "icd/transport/log.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sluice::icd {

bool LogEnabled() {
  const char* value = getenv("SLUICE_LOG");
  return value != nullptr && value[0] != 0 && strcmp(value, "0") != 0;
}

void Log(const char* format, ...) {
  if (!LogEnabled()) return;
  char line[512] = "sluice: ";
  const size_t prefix = strlen(line);
  va_list arguments;
  va_start(arguments, format);
  const int n = vsnprintf(line + prefix, sizeof(line) - prefix - 1, format, arguments);
  va_end(arguments);
  if (n < 0) return;
  size_t size = strlen(line);
  for (size_t i = 0; i < size; i++) {
    if (static_cast<unsigned char>(line[i]) < 0x20 || line[i] == 0x7f) line[i] = '?';
  }
  line[size++] = '\n';
  // One write, so that lines of threads do not mix. Nobody to tell when it fails.
  const ssize_t ignored = write(STDERR_FILENO, line, size);
  (void)ignored;
}

}  // namespace sluice::icd
