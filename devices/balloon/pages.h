// File: pages.h
//
// Gives pages of guest RAM back to the host. They read as zeros afterwards, and come back by themselves when the guest
// touches them.
//
//   std::vector<uint32_t> pfns = ...;                       // a guest's: any number, any order
//   Released released = ReleasePages(ram, std::move(pfns)); // those that are no RAM are counted and left alone
//   ReleaseRange(ram, GuestAddress(a), bytes);              // the whole pages inside
#ifndef SLUICE_DEVICES_BALLOON_PAGES_H_
#define SLUICE_DEVICES_BALLOON_PAGES_H_

#include <cstdint>
#include <vector>

#include "vmm/memory/guest_memory.h"

namespace sluice::balloon {

struct Released {
  uint64_t pages = 0;    // given back (which they may have been before)
  uint64_t refused = 0;  // named, but no RAM, or the host refused
};

// `pfns` are numbers of 4096-byte pages. Costs a system call for each run of neighbours.
Released ReleasePages(const memory::GuestMemory& ram, std::vector<uint32_t> pfns);

// The pages that lie wholly in [address, address + bytes). If not all of it is RAM, nothing happens and all are
// refused.
Released ReleaseRange(const memory::GuestMemory& ram, memory::GuestAddress address, uint64_t bytes);

}  // namespace sluice::balloon

#endif  // SLUICE_DEVICES_BALLOON_PAGES_H_
