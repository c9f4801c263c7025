// File: blocks.h
//
// Output structures kept as bytes, by sType: what a physical device said once, handed out as often as a program asks.
//
//   Blocks blocks;
//   blocks.Make(vk::kOut_PhysicalDeviceProperties2);
//   ::vkGetPhysicalDeviceProperties2(device, blocks.root<VkPhysicalDeviceProperties2>());   // fills them all
//   blocks.CopyTo(program_structure);                                                      // and its chain
#ifndef SLUICE_ICD_LOADER_BLOCKS_H_
#define SLUICE_ICD_LOADER_BLOCKS_H_

#include <vulkan/vulkan_core.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "flatbuf/vk/out_structs.h"

namespace sluice::icd {

class Blocks {
 public:
  // One zeroed structure of each type, chained behind the first.
  template <size_t N>
  void Make(const vk::OutStruct (&structures)[N]) {
    Make(structures, N);
  }
  template <typename T>
  T* root() {
    return static_cast<T*>(At(0));
  }
  // The structure of that type; null: there is none.
  template <typename T>
  T* Find(VkStructureType type) {
    return static_cast<T*>(FindBytes(type));
  }
  size_t SizeOf(VkStructureType type) const;
  const void* Bytes(VkStructureType type) const;

  // Copies the first structure into `out`, and into what is chained to it what is here. Others are left alone. sType
  // and pNext stay.
  void CopyTo(void* out) const;

 private:
  struct Block {
    VkStructureType type;
    uint32_t size;
    std::unique_ptr<uint64_t[]> words;
  };
  void Make(const vk::OutStruct* structures, size_t count);
  void* At(size_t index) { return blocks_[index].words.get(); }
  void* FindBytes(VkStructureType type);

  std::vector<Block> blocks_;
};

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_BLOCKS_H_
