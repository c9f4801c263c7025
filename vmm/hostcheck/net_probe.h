// File: net_probe.h
//
// May this process connect a VM to a network of the host? That goes through a tap interface, which it may make
// (CAP_NET_ADMIN) or which somebody made for its user (kernel: Documentation/networking/tuntap.rst).
#ifndef SLUICE_VMM_HOSTCHECK_NET_PROBE_H_
#define SLUICE_VMM_HOSTCHECK_NET_PROBE_H_

#include <sys/types.h>

#include "vmm/hostcheck/finding.h"
#include "vmm/hostcheck/host_files.h"

namespace sluice::hostcheck {

// For a process of user `uid`. Subject "tap".
Finding ProbeTap(const HostFiles& host, uid_t uid);

}  // namespace sluice::hostcheck

#endif  // SLUICE_VMM_HOSTCHECK_NET_PROBE_H_
