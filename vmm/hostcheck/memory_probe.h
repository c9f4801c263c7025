// File: memory_probe.h
//
// Pages larger than 4 KiB for guests' memory: reserved ones (hugetlb) and transparent ones, which for memory that is
// shared, as guests' is, have a switch of their own (kernel: Documentation/admin-guide/mm/{hugetlbpage,transhuge}.rst).
#ifndef SLUICE_VMM_HOSTCHECK_MEMORY_PROBE_H_
#define SLUICE_VMM_HOSTCHECK_MEMORY_PROBE_H_

#include "vmm/hostcheck/finding.h"
#include "vmm/hostcheck/host_files.h"

namespace sluice::hostcheck {

// Subject "huge pages".
Finding ProbeHugePages(const HostFiles& host);

}  // namespace sluice::hostcheck

#endif  // SLUICE_VMM_HOSTCHECK_MEMORY_PROBE_H_
