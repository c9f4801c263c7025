// File: exit_codes.h
//
// Exit codes and descriptor numbers of sluice-domain, for the supervisor that starts it:
//
//   sluice-domain --control_fd=3            speaks flatbuf/control.fbs: BrokerMessage in, BrokerEvent out
//   sluice-domain --listen=/run/x.sock      serves everyone who connects, one worker per connection
#ifndef SLUICE_GPU_DOMAIN_BROKER_EXIT_CODES_H_
#define SLUICE_GPU_DOMAIN_BROKER_EXIT_CODES_H_

namespace sluice::broker {

// Where the supervisor puts the control socket by convention (--control_fd says so).
inline constexpr int kControlFd = 3;

enum ExitCode : int {
  kExitOk = 0,        // DomainStop, SIGTERM or SIGINT; all workers are gone
  kExitUsage = 2,     // bad flags
  kExitProtocol = 3,  // the supervisor broke the control protocol
  kExitOrphaned = 4,  // the supervisor is gone; all workers are gone too
  kExitHost = 5,      // the host refused something that a broker cannot do without (sockets, processes)
};

}  // namespace sluice::broker

#endif  // SLUICE_GPU_DOMAIN_BROKER_EXIT_CODES_H_
