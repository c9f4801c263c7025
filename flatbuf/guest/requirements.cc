#include "flatbuf/guest/requirements.h"

#include <string.h>

namespace sluice::guest {
namespace {

constexpr uint32_t kIndexBits = 12;
static_assert(RequirementCache::kMaxEntries == size_t{1} << kIndexBits);
constexpr uint32_t kEpochs = 1u << (32 - kIndexBits);
constexpr size_t kFewestSlots = 64;

uint64_t Pair(uint64_t low, uint64_t high) {
  return (low & 0xffffffff) | high << 32;
}

// `grain`: a power of two.
uint64_t RoundUp(uint64_t size, uint64_t grain) {
  return (size + grain - 1) & ~(grain - 1);
}

uint64_t Hash(const ResourceKey& key) {
  uint64_t hash = 0;
  for (const uint64_t word : key.words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

// Up to four families, as bytes.
bool FamiliesOf(VkSharingMode mode, uint32_t count, const uint32_t* families, uint64_t* word) {
  *word = 0;
  if (mode != VK_SHARING_MODE_CONCURRENT) return true;
  if (count > 4) return false;
  for (uint32_t i = 0; i < count; i++) {
    if (families[i] > 254) return false;
    *word |= uint64_t{families[i] + 1} << 8 * i;
  }
  return true;
}

}  // namespace

bool KeyOf(uint64_t device, const VkImageCreateInfo& info, ResourceKey* key) {
  uint64_t* w = key->words;
  uint64_t families = 0;
  if (!FamiliesOf(info.sharingMode, info.queueFamilyIndexCount, info.pQueueFamilyIndices, &families)) return false;
  uint64_t stencil_usage = 0, formats = 0;
  w[9] = w[10] = 0;
  for (auto* s = static_cast<const VkBaseInStructure*>(info.pNext); s != nullptr; s = s->pNext) {
    const void* any = s;
    if (s->sType == VK_STRUCTURE_TYPE_IMAGE_STENCIL_USAGE_CREATE_INFO) {
      stencil_usage = uint64_t{static_cast<const VkImageStencilUsageCreateInfo*>(any)->stencilUsage} + 1;
    } else if (s->sType == VK_STRUCTURE_TYPE_IMAGE_FORMAT_LIST_CREATE_INFO) {
      const auto* list = static_cast<const VkImageFormatListCreateInfo*>(any);
      if (list->viewFormatCount > 4) return false;
      formats = list->viewFormatCount + 1;
      for (uint32_t i = 0; i < list->viewFormatCount; i++) {
        w[9 + i / 2] |= uint64_t{static_cast<uint32_t>(list->pViewFormats[i])} << 32 * (i % 2);
      }
    } else {
      return false;
    }
  }
  if (stencil_usage >> 32 != 0) return false;
  w[0] = device;
  w[1] = Pair(info.flags, uint64_t{1} | formats << 8 | uint64_t{info.sharingMode & 0xffu} << 16);
  w[2] = Pair(static_cast<uint32_t>(info.imageType), static_cast<uint32_t>(info.format));
  w[3] = Pair(info.extent.width, info.extent.height);
  w[4] = Pair(info.extent.depth, info.mipLevels);
  w[5] = Pair(info.arrayLayers, static_cast<uint32_t>(info.samples));
  w[6] = Pair(static_cast<uint32_t>(info.tiling), info.usage);
  w[7] = Pair(static_cast<uint32_t>(info.initialLayout), stencil_usage);
  w[8] = families;
  return true;
}

bool KeyOf(uint64_t device, const VkBufferCreateInfo& info, bool sizes_alike, ResourceKey* key) {
  uint64_t* w = key->words;
  uint64_t families = 0;
  if (info.pNext != nullptr) return false;
  if (!FamiliesOf(info.sharingMode, info.queueFamilyIndexCount, info.pQueueFamilyIndices, &families)) return false;
  w[0] = device;
  w[1] = Pair(info.flags, uint64_t{2} | uint64_t{sizes_alike} << 8 | uint64_t{info.sharingMode & 0xffu} << 16);
  w[2] = sizes_alike ? 0 : info.size;
  w[3] = info.usage;
  w[8] = families;
  return true;
}

void Requirements::Learn(const VkMemoryRequirements& answer) {
  memory = answer;
  known = true;
}

void Requirements::LearnSize(const VkMemoryRequirements& answer, uint64_t size) {
  if (!known || answer.alignment != memory.alignment || answer.memoryTypeBits != memory.memoryTypeBits) {
    grains = answer.alignment == 0 ? 0 : answer.alignment | (answer.alignment - 1);
  }
  for (uint64_t rest = grains; rest != 0; rest &= rest - 1) {
    const uint64_t grain = rest & -rest;
    if (RoundUp(size, grain) != answer.size) grains &= ~grain;
  }
  Learn(answer);
}

bool Requirements::ForSize(uint64_t size, VkMemoryRequirements* out) const {
  if (!known || grains == 0) return false;
  const uint64_t least = RoundUp(size, grains & -grains);
  for (uint64_t rest = grains; rest != 0; rest &= rest - 1) {
    if (RoundUp(size, rest & -rest) != least) return false;
  }
  *out = memory;
  out->size = least;
  return true;
}

void RequirementCache::Rehash(size_t slots) {
  slots_.Clear();
  slots_.Resize(slots, 0);
  for (size_t i = 0; i < entries_.size(); i++) {
    size_t slot = entries_[i].hash & (slots - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (slots - 1);
    slots_[slot] = static_cast<uint32_t>(i + 1);
  }
}

uint32_t RequirementCache::Find(const ResourceKey& key) {
  if (slots_.empty()) Rehash(kFewestSlots);
  const uint64_t hash = Hash(key);
  size_t slot = hash & (slots_.size() - 1);
  for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
    const Entry& entry = entries_[slots_[slot] - 1];
    if (entry.hash == hash && memcmp(entry.key.words, key.words, sizeof(key.words)) == 0) {
      return epoch_ << kIndexBits | (slots_[slot] - 1);
    }
  }
  if (entries_.size() == kMaxEntries) {
    entries_.Clear();
    epoch_ = epoch_ + 1 < kEpochs ? epoch_ + 1 : 1;
    Rehash(kFewestSlots);
    slot = hash & (slots_.size() - 1);
  }
  entries_.Push(Entry{key, hash, Requirements()});
  slots_[slot] = static_cast<uint32_t>(entries_.size());
  const uint32_t index = static_cast<uint32_t>(entries_.size() - 1);
  if (entries_.size() * 2 > slots_.size()) Rehash(slots_.size() * 2);
  return epoch_ << kIndexBits | index;
}

Requirements* RequirementCache::Get(uint32_t entry) {
  const uint32_t index = entry & (kMaxEntries - 1);
  if (entry >> kIndexBits != epoch_ || index >= entries_.size()) return nullptr;
  return &entries_[index].requirements;
}

}  // namespace sluice::guest
