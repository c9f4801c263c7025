// File: fences.h
//
// In which order fenced requests complete. A fenced request belongs to one timeline: that of its (context, ring) when
// it carries VIRTIO_GPU_FLAG_INFO_RING_IDX, else the device's global one. Drivers take the completion of a fence as the
// completion of all older ones of its timeline; so inside one timeline requests complete in the order in which they
// came, and different timelines do not wait for each other.
//
//   timelines.Add(TimelineKey::Ring(ctx, 1), {.request = id, .ready = false, .context = ctx, .ring = 1, .from_domain =
//   true}, &done); timelines.Signal(ctx, 1, id, &done);    // the worker says so: this one and all older ones of the
//   ring for (uint64_t request : done) Answer(request);
//
// Request numbers are the device's own, strictly rising: the guest's fence ids, which it may repeat, play no role here.
// Pure bookkeeping; one thread. Holds an entry per outstanding request, which the virtqueue's size bounds.
#ifndef SLUICE_DEVICES_GPU_FRONT_FENCES_H_
#define SLUICE_DEVICES_GPU_FRONT_FENCES_H_

#include <cstdint>
#include <deque>
#include <tuple>
#include <vector>

#include "absl/container/btree_map.h"

namespace sluice::gpu_front {

struct TimelineKey {
  bool global = true;
  uint32_t context = 0;
  uint8_t ring = 0;

  static TimelineKey Global() { return {}; }
  static TimelineKey Ring(uint32_t context, uint8_t ring) { return {false, context, ring}; }
  friend bool operator<(const TimelineKey& a, const TimelineKey& b) {
    return std::tie(a.global, a.context, a.ring) < std::tie(b.global, b.context, b.ring);
  }
};

struct TimelineEntry {
  uint64_t request = 0;
  bool ready = false;        // may complete as soon as everything older has
  bool from_domain = false;  // waits for the worker's FenceSignaled(context, ring, request)
  uint32_t context = 0;      // to which the worker knows it, with from_domain
  uint8_t ring = 0;
};

// Every method appends to *done the requests that complete now, in that order.
class FenceTimelines {
 public:
  // `entry.request` is larger than any before.
  void Add(const TimelineKey& key, const TimelineEntry& entry, std::vector<uint64_t>* done);
  // Something other than the worker finished `request` of that timeline.
  void MarkReady(const TimelineKey& key, uint64_t request, std::vector<uint64_t>* done);
  // The worker signaled `request` on (context, ring): it and all older ones that wait for the same (context, ring) are
  // ready, on the ring's own timeline and on the global one. False if none waited (a stale or invented number): nothing
  // happened.
  bool Signal(uint32_t context, uint8_t ring, uint64_t request, std::vector<uint64_t>* done);
  // All that wait for the worker in `context` are ready, and listed in *affected (before any completes).
  void ReleaseContext(uint32_t context, std::vector<uint64_t>* affected, std::vector<uint64_t>* done);
  // Forgets everything, completing nothing (device reset).
  void Clear() { timelines_.clear(); }

  // Outstanding entries over all timelines.
  size_t outstanding() const;

 private:
  using Timeline = std::deque<TimelineEntry>;
  using Map = absl::btree_map<TimelineKey, Timeline>;
  // Pops the ready front of a timeline.
  static void Retire(Timeline* timeline, std::vector<uint64_t>* done);

  Map timelines_;  // none is empty
};

}  // namespace sluice::gpu_front

#endif  // SLUICE_DEVICES_GPU_FRONT_FENCES_H_
