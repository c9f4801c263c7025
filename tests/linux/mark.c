/* mark VALUE...: writes each value (4 bytes) to the marker port of a Sluice machine, for its boot timeline. Root only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/io.h>

enum { kMarkerPort = 0xe1 };

int main(int argc, char** argv) {
  if (ioperm(kMarkerPort, 4, 1) != 0) {
    perror("ioperm");
    return 1;
  }
  for (int i = 1; i < argc; ++i) outl((unsigned)strtoul(argv[i], NULL, 0), kMarkerPort);
  return 0;
}
