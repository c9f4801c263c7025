// Private data: a number per object and slot, kept in the program's process. A slot holds a hash table of its own.
#include "flatbuf/guest/entry.h"

using namespace sluice::guest;

namespace {

// Open addressing, power-of-two sizes, at most half full. Entries are never removed: setting 0 is as good.
size_t Place(const GuestPrivateSlot& slot, uint64_t object) {
  const size_t mask = slot.entries.size() - 1;
  size_t at = (object * 0x9E3779B97F4A7C15ull >> 32) & mask;
  while (slot.entries[at].object != 0 && slot.entries[at].object != object) at = (at + 1) & mask;
  return at;
}

void Grow(GuestPrivateSlot* slot) {
  Buffer<GuestPrivateSlot::Entry> old;
  for (size_t i = 0; i < slot->entries.size(); i++) {
    if (slot->entries[i].object != 0) old.Push(slot->entries[i]);
  }
  const size_t size = slot->entries.empty() ? 16 : slot->entries.size() * 2;
  slot->entries.Clear();
  slot->entries.Resize(size, {});
  for (size_t i = 0; i < old.size(); i++) slot->entries[Place(*slot, old[i].object)] = old[i];
}

}  // namespace

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkCreatePrivateDataSlot(VkDevice, const VkPrivateDataSlotCreateInfo*,
                                                       const VkAllocationCallbacks*, VkPrivateDataSlot* pSlot) {
  *pSlot = FromState<VkPrivateDataSlot>(new GuestPrivateSlot);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyPrivateDataSlot(VkDevice, VkPrivateDataSlot privateDataSlot,
                                                    const VkAllocationCallbacks*) {
  if (privateDataSlot != VK_NULL_HANDLE) delete State(privateDataSlot);
}

VKAPI_ATTR VkResult VKAPI_CALL vkSetPrivateData(VkDevice device, VkObjectType, uint64_t objectHandle,
                                                VkPrivateDataSlot privateDataSlot, uint64_t data) {
  ChannelLock lock(device);
  GuestPrivateSlot* slot = State(privateDataSlot);
  if (slot->used * 2 >= slot->entries.size()) Grow(slot);
  GuestPrivateSlot::Entry& entry = slot->entries[Place(*slot, objectHandle)];
  if (entry.object == 0) slot->used++;
  entry = {objectHandle, data};
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkGetPrivateData(VkDevice device, VkObjectType, uint64_t objectHandle,
                                            VkPrivateDataSlot privateDataSlot, uint64_t* pData) {
  ChannelLock lock(device);
  GuestPrivateSlot* slot = State(privateDataSlot);
  *pData = slot->entries.empty() ? 0 : slot->entries[Place(*slot, objectHandle)].data;
}

}  // extern "C"
