// Never ends by itself: for tests that stop a VM from outside. mode=busy (default) burns the vCPU, mode=sleep halts it.
#include <string.h>

#include "firmware/lib/cpu.h"
#include "firmware/lib/interrupts.h"
#include "firmware/lib/runtime.h"
#include "firmware/lib/serial.h"

int sluice::firmware::GuestMain() {
  const char* mode = Option("mode", "busy");
  const bool sleep = strcmp(mode, "sleep") == 0;
  if (!sleep && strcmp(mode, "busy") != 0) Fail(ExitCode::kBadOption, "mode=%s: give busy or sleep", mode);
  Print("spinning\n");
  for (;;) {
    if (sleep) {
      SleepUntilChanged(InterruptCount(kTimerVector), *InterruptCount(kTimerVector));
    } else {
      Pause();
    }
  }
}
