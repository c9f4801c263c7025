// File: virtqueue.h
//
// The driver's side of a split virtqueue (virtio 1.2, 2.7), with indirect descriptors and event indices where
// negotiated.
//
//   Virtqueue queue(64, features);
//   VirtPiece pieces[] = {{request, 24}, {response, 24}};
//   uint16_t head;
//   if (queue.Add(pieces, /*readable=*/1, /*writable=*/1, &head) && queue.Publish()) device.Notify(0);
//   while (queue.PopUsed(&head, &written)) ...;
//
// Memory of pieces stays the caller's and must live until the chain is used. What the device writes is not believed: a
// used element that names no chain in flight is dropped and counted.
#ifndef SLUICE_FIRMWARE_DRIVERS_VIRTQUEUE_H_
#define SLUICE_FIRMWARE_DRIVERS_VIRTQUEUE_H_

#include <stdint.h>

namespace sluice::firmware {

inline constexpr uint64_t kVirtioFeatureIndirect = uint64_t{1} << 28;
inline constexpr uint64_t kVirtioFeatureEventIdx = uint64_t{1} << 29;
inline constexpr uint64_t kVirtioFeatureVersion1 = uint64_t{1} << 32;

struct VirtPiece {
  const void* address;
  uint32_t bytes;
};

class Virtqueue {
 public:
  static constexpr uint16_t kMaxPieces = 8;  // of one chain

  // `size`: a power of two, 1..32768. `features`: as negotiated.
  Virtqueue(uint16_t size, uint64_t features);
  ~Virtqueue();
  Virtqueue(const Virtqueue&) = delete;
  Virtqueue& operator=(const Virtqueue&) = delete;

  uint16_t size() const { return size_; }
  uint64_t descriptor_address() const { return reinterpret_cast<uint64_t>(descriptors_); }
  uint64_t driver_address() const { return reinterpret_cast<uint64_t>(available_); }
  uint64_t device_address() const { return reinterpret_cast<uint64_t>(used_); }

  // Queues a chain: `readable` pieces for the device to read, then `writable` ones to write; together 1..kMaxPieces.
  // False while there is no room. The device sees it after Publish.
  bool Add(const VirtPiece* pieces, uint16_t readable, uint16_t writable, uint16_t* head);
  // Shows the device what was added. True: it wants to be notified.
  bool Publish();
  bool HasUsed() const;
  // The next finished chain: its head and the bytes that the device wrote. False: none.
  bool PopUsed(uint16_t* head, uint32_t* written);
  // Used elements that named no chain.
  uint32_t bogus() const { return bogus_; }

 private:
  struct Descriptor {
    uint64_t address;
    uint32_t length;
    uint16_t flags;
    uint16_t next;
  };
  struct UsedElement {
    uint32_t id;
    uint32_t length;
  };

  volatile uint16_t* UsedEvent() { return available_ + 2 + size_; }  // after flags, idx and the ring
  uint16_t AvailEvent() const;

  const uint16_t size_;
  const bool event_idx_;
  const bool indirect_;
  Descriptor* descriptors_;
  volatile uint16_t* available_;  // flags, idx, ring[size], used_event
  uint8_t* used_;                 // flags, idx, ring[size] of 8 bytes, avail_event
  Descriptor* tables_ = nullptr;  // indirect: kMaxPieces for each descriptor
  uint16_t* chain_length_;        // by head; 0: not in flight
  uint16_t free_head_ = 0;
  uint16_t free_count_;
  uint16_t added_ = 0;      // available index, not yet shown
  uint16_t published_ = 0;  // shown
  uint16_t seen_ = 0;       // used index
  uint32_t bogus_ = 0;
};

}  // namespace sluice::firmware

#endif  // SLUICE_FIRMWARE_DRIVERS_VIRTQUEUE_H_
