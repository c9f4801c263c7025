// File: requirements.h
//
// What the driver says about the memory of a buffer or image depends on its creation parameters alone (Vulkan 1.0,
// "Resource Memory Association"), so a question is asked once per set of parameters. Freestanding.
//
//   ResourceKey key;
//   if (KeyOf(device_id, create_info, &key)) note.entry = cache.Find(key);
//   ...
//   if (Requirements* known = cache.Get(note.entry); known != nullptr && known->known) ...
#ifndef SLUICE_FLATBUF_GUEST_REQUIREMENTS_H_
#define SLUICE_FLATBUF_GUEST_REQUIREMENTS_H_

#include <stdint.h>
#include <vulkan/vulkan_core.h>

#include "flatbuf/guest/buffer.h"

namespace sluice::guest {

// All parameters that count, in a fixed shape.
struct ResourceKey {
  uint64_t words[11] = {};
};

// False: parameters that no key holds (chains that are not understood, many formats or queue families). `device`: wire
// id. A buffer's key leaves out its size where `sizes_alike`: see Requirements::grains.
bool KeyOf(uint64_t device, const VkImageCreateInfo& info, ResourceKey* key);
bool KeyOf(uint64_t device, const VkBufferCreateInfo& info, bool sizes_alike, ResourceKey* key);

struct Requirements {
  VkMemoryRequirements memory = {};
  bool prefers_dedicated = false, requires_dedicated = false;
  bool known = false;             // the driver was asked
  bool dedication_known = false;  // and about dedicated allocations
  // Of a buffer whose key leaves out the size: to which powers of two (bit n: 2^n) the driver may round sizes up, as
  // far as its answers tell. By the promise of Vulkan 1.3 (VK_KHR_maintenance4) a buffer needs no more than its size
  // rounded up to its alignment. None: it does something else.
  uint64_t grains = 0;

  // Of an image, or a buffer whose key holds its size: the driver's answer.
  void Learn(const VkMemoryRequirements& answer);
  // Of a buffer of `size` bytes whose key leaves that out.
  void LearnSize(const VkMemoryRequirements& answer, uint64_t size);
  // What LearnSize tells about another size; false: it may be one thing or another, ask.
  bool ForSize(uint64_t size, VkMemoryRequirements* out) const;
};

// Bounded: when full, it starts over.
class RequirementCache {
 public:
  static constexpr size_t kMaxEntries = 4096;

  // The entry of `key`, made when there is none. Never 0.
  uint32_t Find(const ResourceKey& key);
  // Null for 0 and for entries from before the cache started over. Valid until the next Find.
  Requirements* Get(uint32_t entry);
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    ResourceKey key;
    uint64_t hash;
    Requirements requirements;
  };
  void Rehash(size_t slots);

  Buffer<Entry> entries_;
  Buffer<uint32_t> slots_;  // index + 1 into entries_, 0: free; open addressing
  uint32_t epoch_ = 1;      // in the upper bits of what Find returns
};

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_REQUIREMENTS_H_
