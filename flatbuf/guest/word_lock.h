// File: word_lock.h
//
// A lock in one word, for what is held for some nanoseconds and needs no sleeping. Freestanding.
//
//   WordLock guard(&state->lock, platform);
#ifndef SLUICE_FLATBUF_GUEST_WORD_LOCK_H_
#define SLUICE_FLATBUF_GUEST_WORD_LOCK_H_

#include <stdint.h>

#include <atomic>

#include "flatbuf/guest/platform.h"
#include "flatbuf/spin.h"

namespace sluice::guest {

// Not recursive.
class WordLock {
 public:
  WordLock(std::atomic<uint32_t>* word, Platform& platform) : word_(word) {
    for (uint32_t spins = 0; word->exchange(1, std::memory_order_acquire) != 0; spins++) {
      wire::CpuPause();
      if (spins > 64) platform.Yield();
    }
  }
  ~WordLock() { word_->store(0, std::memory_order_release); }
  WordLock(const WordLock&) = delete;
  WordLock& operator=(const WordLock&) = delete;

 private:
  std::atomic<uint32_t>* const word_;
};

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_WORD_LOCK_H_
