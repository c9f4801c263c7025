// File: platform.h
//
// What the guest runtime needs from whoever drives the virtio-gpu device: the firmware's driver, or the ICD over DRM
// ioctls. Freestanding.
//
//   class FirmwarePlatform final : public sluice::guest::Platform { ... };
//   GuestChannel channel;
//   channel.Init(ring_blob, ring_bytes, &platform);
//   sluice::guest::SetChannel(&channel);
//   vkCreateInstance(...);
//
// Besides this the runtime expects from its environment: memcpy, memmove, memset, memcmp, strlen, operator new/delete
// (may not fail), and __cxa_pure_virtual.
#ifndef SLUICE_FLATBUF_GUEST_PLATFORM_H_
#define SLUICE_FLATBUF_GUEST_PLATFORM_H_

#include <stdint.h>

#include <atomic>

namespace sluice::guest {

// What a thread that is about to sleep waits for, as far as the runtime knows.
struct Awaited {
  uint32_t timeline = 0;               // ring_idx: 0: the ring itself, else the queue bound to it
  uint64_t position = 0;               // ring position: executed (timeline 0), or the work submitted up to it complete
  uint64_t timeout_ns = ~uint64_t{0};  // sleep no longer than about this
  bool several = false;                // other things may come about first
};

// Memory that guest and worker share: a kMemory blob mapped in the host-visible window.
struct SharedMemory {
  uint32_t resource_id = 0;  // virtio-gpu resource; never 0 when valid
  void* pointer = nullptr;   // where the guest sees it
  uint64_t size = 0;         // bytes, at least what was asked for
};

class Platform {
 public:
  // Wakes the consumer of the command ring (a write to the doorbell page). Called only when it said that it sleeps.
  virtual void RingDoorbell() = 0;
  // Sleeps until the worker has executed the ring up to `position` (a fenced SUBMIT_3D with SubmitCommand{kSubmitKick,
  // ring, position} on ring_idx 0), or the context is lost. May return early; the caller looks again.
  virtual void WaitForPosition(uint64_t position) = 0;
  // The same on ring_idx `timeline` (1..63): until the work submitted up to `position` to the queue bound to it is
  // complete. At most about `timeout_ns`. May return early. Called without the lock.
  virtual void WaitTimeline(uint32_t timeline, uint64_t position, uint64_t timeout_ns) = 0;
  // Sleeps while `word` (RingHeader::progress.count or completion.count) is `seen`, until somebody wakes the word, or
  // the context is lost (a platform that only hears of that by other means looks at least every 50 ms). May return
  // early; the caller looks again. Sleepers are counted by the caller. Several threads at once; without the lock for
  // completion. Platforms that share no kernel with the worker sleep for a fence on `awaited` instead: the default.
  virtual void SleepOn(std::atomic<uint32_t>* word, uint32_t seen, const Awaited& awaited) {
    constexpr uint64_t kSliceNs = 1'000'000;  // between looks at the other things
    if (awaited.timeline == 0) {
      WaitForPosition(awaited.position);
    } else {
      WaitTimeline(awaited.timeline, awaited.position,
                   awaited.several && awaited.timeout_ns > kSliceNs ? kSliceNs : awaited.timeout_ns);
    }
    (void)word;
    (void)seen;
  }
  // Wakes this program's own threads that sleep on `word` (which has just changed). A platform whose threads do not
  // sleep on the word leaves it empty.
  virtual void WakeSleepers(std::atomic<uint32_t>* word) { (void)word; }
  // A kMemory blob of at least `size` bytes, zero-filled and mapped. False when there is none.
  virtual bool AllocateSharedMemory(uint64_t size, SharedMemory* out) = 0;
  // The worker may still be using the bytes: it holds its own mapping until it has executed the matching vkFreeMemory.
  virtual void FreeSharedMemory(const SharedMemory& memory) = 0;
  // Looks whether the other side still lives, and marks the ring's status if not. Rarely called while the program
  // polls. With or without the lock. A platform that hears of it by other means leaves it empty.
  virtual void LookAtPeer() {}
  // A pause while polling shared memory.
  virtual void Yield() = 0;
  // Monotonic time. A platform without a clock returns 0: timeouts other than 0 are then infinite.
  virtual uint64_t NowNs() { return 0; }
  // Mutual exclusion between threads that call Vulkan. Not recursive. A single-threaded guest leaves them empty.
  virtual void Lock() {}
  virtual void Unlock() {}

 protected:
  ~Platform() = default;
};

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_PLATFORM_H_
