// Events. What the host sets and resets it sees at once; what queues do, commands beside theirs tell (record_hooks.cc).
#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/feedback.h"
#include "flatbuf/vk/guest_send.h"

using namespace sluice::guest;

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkCreateEvent(VkDevice device, const VkEventCreateInfo* pCreateInfo,
                                             const VkAllocationCallbacks*, VkEvent* pEvent) {
  FeedbackCell cell;
  const bool device_only = (pCreateInfo->flags & VK_EVENT_CREATE_DEVICE_ONLY_BIT) != 0;
  if (!device_only && !NewCell(device, sizeof(uint32_t), &cell)) {
    return ChannelOf(device).lost() ? VK_ERROR_DEVICE_LOST : VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  VkResult result = VK_ERROR_DEVICE_LOST;
  {
    ChannelLock lock(device);
    const uint64_t id = lock.channel().ids().New();
    if (id == 0) {
      result = VK_ERROR_OUT_OF_HOST_MEMORY;
    } else if (Send_vkCreateEvent(lock.channel(), device, pCreateInfo, id)) {
      auto* state = new GuestEvent;
      state->id = id;
      state->cell = cell;
      *pEvent = FromState<VkEvent>(state);
      return VK_SUCCESS;
    }
  }
  FreeCell(device, cell);
  return result;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyEvent(VkDevice device, VkEvent event, const VkAllocationCallbacks*) {
  if (event == VK_NULL_HANDLE) return;
  {
    ChannelLock lock(device);
    Send_vkDestroyEvent(lock.channel(), device, event);
    lock.channel().ids().Free(State(event)->id);
  }
  FreeCell(device, State(event)->cell);
  delete State(event);
}

VKAPI_ATTR VkResult VKAPI_CALL vkGetEventStatus(VkDevice device, VkEvent event) {
  if (ChannelOf(device).lost()) return VK_ERROR_DEVICE_LOST;
  const uint32_t* word = State(event)->word();
  return word != nullptr && LoadWord(word) != 0 ? VK_EVENT_SET : VK_EVENT_RESET;
}

// The cell first: once the worker knows, a queue may go on and reset the event.
VKAPI_ATTR VkResult VKAPI_CALL vkSetEvent(VkDevice device, VkEvent event) {
  ChannelLock lock(device);
  if (uint32_t* word = State(event)->word(); word != nullptr) StoreWord(word, 1);
  return Send_vkSetEvent(lock.channel(), device, event) ? VK_SUCCESS : VK_ERROR_DEVICE_LOST;
}

VKAPI_ATTR VkResult VKAPI_CALL vkResetEvent(VkDevice device, VkEvent event) {
  ChannelLock lock(device);
  if (uint32_t* word = State(event)->word(); word != nullptr) StoreWord(word, 0);
  return Send_vkResetEvent(lock.channel(), device, event) ? VK_SUCCESS : VK_ERROR_DEVICE_LOST;
}

}  // extern "C"
