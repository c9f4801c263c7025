// File: abort.h
//
// What abort() comes to in the first process of a PID namespace. The kernel drops signals that such a process sends to
// itself unless there is a handler for them (pid_namespaces(7)), SIGABRT too: abort(3) then goes on to an instruction
// that faults, and the process looks as if it had died of a bad pointer.
#ifndef SLUICE_VMM_BASE_ABORT_H_
#define SLUICE_VMM_BASE_ABORT_H_

namespace sluice {

// The exit code that says "aborted" where the signal itself cannot: 128 + SIGABRT, as shells print it.
inline constexpr int kAbortExitCode = 134;

// Call once at the start of a process that may be a namespace's first. There, SIGABRT says "aborted" on standard error
// and ends the process with kAbortExitCode; elsewhere nothing changes, and abort() ends by the signal. Under a seccomp
// policy abort() needs rt_sigprocmask, rt_sigaction, gettid, getpid, tgkill (to itself), write.
void MakeAbortVisible();

}  // namespace sluice

#endif  // SLUICE_VMM_BASE_ABORT_H_
