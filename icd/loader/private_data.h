// File: private_data.h
//
// Private data (Vulkan 1.3, VK_EXT_private_data): 64 bits of the program's own for any object, kept in the driver.
#ifndef SLUICE_ICD_LOADER_PRIVATE_DATA_H_
#define SLUICE_ICD_LOADER_PRIVATE_DATA_H_

#include <vulkan/vulkan_core.h>

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "icd/transport/futex.h"

namespace sluice::icd {

// A VkPrivateDataSlot is a pointer to one. Any thread, as the specification allows.
class PrivateDataSlot {
 public:
  void Set(uint64_t object, uint64_t data);
  uint64_t Get(uint64_t object);

 private:
  FutexLock lock_;
  std::unordered_map<uint64_t, uint64_t> data_;
};

// All slots of a device.
class PrivateDataSlots {
 public:
  void Add(PrivateDataSlot* slot);
  void Remove(PrivateDataSlot* slot);
  // An object without an id is destroyed: a later one at the same address starts empty.
  void Forget(uint64_t handle);

 private:
  std::atomic<bool> any_{false};
  FutexLock lock_;
  std::vector<PrivateDataSlot*> slots_;
};

// What identifies an object for as long as it lives, and no other later: the wire id where there is one, since a
// program's handles may be addresses that come back. Ids of different types do not collide.
uint64_t PrivateKey(VkObjectType type, uint64_t handle);

VKAPI_ATTR VkResult VKAPI_CALL CreatePrivateDataSlot(VkDevice device, const VkPrivateDataSlotCreateInfo* info,
                                                     const VkAllocationCallbacks*, VkPrivateDataSlot* slot);
VKAPI_ATTR void VKAPI_CALL DestroyPrivateDataSlot(VkDevice device, VkPrivateDataSlot slot,
                                                  const VkAllocationCallbacks*);
VKAPI_ATTR VkResult VKAPI_CALL SetPrivateData(VkDevice, VkObjectType type, uint64_t handle, VkPrivateDataSlot slot,
                                              uint64_t data);
VKAPI_ATTR void VKAPI_CALL GetPrivateData(VkDevice, VkObjectType type, uint64_t handle, VkPrivateDataSlot slot,
                                          uint64_t* data);
// Fences have no id.
VKAPI_ATTR void VKAPI_CALL DestroyFence(VkDevice device, VkFence fence, const VkAllocationCallbacks*);

}  // namespace sluice::icd

#endif  // SLUICE_ICD_LOADER_PRIVATE_DATA_H_
