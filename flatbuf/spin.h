// File: spin.h
//
// How long to look before sleeping, learned from how long waits have lasted: twice as long as usual where waits are
// short, next to nothing where they are long and looking would only take the CPU from the work that is waited for. Both
// ends of a ring do it. Freestanding.
#ifndef SLUICE_FLATBUF_SPIN_H_
#define SLUICE_FLATBUF_SPIN_H_

#include <stdint.h>

#include <atomic>

namespace sluice::wire {

inline void CpuPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Any thread; losing an update to a race does no harm.
class AdaptiveSpin {
 public:
  static constexpr uint64_t kMostNs = 200'000;  // waits that usually last longer are slept through
  static constexpr uint64_t kLeastNs = 2'000;   // less than going to sleep and waking costs

  uint64_t Length() const {
    const uint64_t usual = usual_ns_.load(std::memory_order_relaxed);
    if (usual >= kMostNs) return kLeastNs;
    const uint64_t length = 2 * usual + kLeastNs;
    return length < kMostNs ? length : kMostNs;
  }
  // A wait has lasted `ns`.
  void Learn(uint64_t ns) {
    if (ns > 8 * kMostNs) ns = 8 * kMostNs;  // one long wait is forgotten after a few short ones
    const uint64_t usual = usual_ns_.load(std::memory_order_relaxed);
    usual_ns_.store(usual - usual / 4 + ns / 4, std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> usual_ns_{25'000};
};

}  // namespace sluice::wire

#endif  // SLUICE_FLATBUF_SPIN_H_
