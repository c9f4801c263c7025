// File: futex.h
//
// Sleeping on a word of memory that several processes share (futex(2), not private). For words in shared mappings;
// within a process vmm/base/mutex.h is what you want.
//
//   FutexWait(&header->completion.count, seen, absl::Milliseconds(50));
//   header->completion.count.fetch_add(1);
//   FutexWakeAll(&header->completion.count);
#ifndef SLUICE_VMM_BASE_FUTEX_H_
#define SLUICE_VMM_BASE_FUTEX_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace sluice {

// Sleeps while *word == seen, until a wake, a signal or `timeout` (absl::InfiniteDuration(): none). False: it timed
// out. May return early: look again.
bool FutexWait(const std::atomic<uint32_t>* word, uint32_t seen, absl::Duration timeout);

// Wakes all that sleep on the word, in any process. Nothing happens if nobody does.
void FutexWakeAll(const std::atomic<uint32_t>* word);

}  // namespace sluice

#endif  // SLUICE_VMM_BASE_FUTEX_H_
