// Buffers and images: made without an answer; what memory they need is asked once per set of creation parameters.
#include "flatbuf/guest/entry.h"
#include "flatbuf/guest/manual.h"
#include "flatbuf/guest/out_chain.h"
#include "flatbuf/guest/requirements.h"
#include "flatbuf/vk/guest_send.h"

using namespace sluice::guest;

namespace {

// With each buffer and image, IdAllocator::note: {entry of the cache, size of a buffer whose key leaves that out}.

// The promise that makes sizes alike came with Vulkan 1.3, for all devices.
bool SizesAlike(GuestChannel& channel, VkDevice device) {
  GuestPhysicalDevice* physical = State(device)->physical;
  return LoadProperties(channel, FromState<VkPhysicalDevice>(physical)) &&
         physical->properties.apiVersion >= VK_API_VERSION_1_3;
}

// What the cache knows, or null: the driver has to be asked.
Requirements* Known(GuestChannel& channel, uint64_t id) {
  return channel.requirements().Get(static_cast<uint32_t>(channel.ids().note(id).a));
}

// `size`: of a buffer whose kind's sizes are alike; 0: all else.
void Learn(Requirements* known, const VkMemoryRequirements& answer, uint64_t size) {
  if (known == nullptr) return;
  if (size != 0) {
    known->LearnSize(answer, size);
  } else {
    known->Learn(answer);
  }
}

bool Recall(const Requirements* known, uint64_t size, VkMemoryRequirements* out) {
  if (known == nullptr || !known->known) return false;
  if (size != 0) return known->ForSize(size, out);
  *out = known->memory;
  return true;
}

// A question that the cache may answer: nothing but memory and dedication is asked for.
bool AsksDedication(const VkMemoryRequirements2& out) {
  for (auto* s = static_cast<const VkBaseOutStructure*>(out.pNext); s != nullptr; s = s->pNext) {
    if (s->sType != VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS) return false;
  }
  return true;
}

void AnswerDedication(const Requirements& known, VkMemoryRequirements2* out) {
  for (auto* s = static_cast<VkBaseOutStructure*>(out->pNext); s != nullptr; s = s->pNext) {
    void* any = s;
    auto* dedicated = static_cast<VkMemoryDedicatedRequirements*>(any);
    dedicated->prefersDedicatedAllocation = known.prefers_dedicated;
    dedicated->requiresDedicatedAllocation = known.requires_dedicated;
  }
}

// Answers from the cache, or asks by `call(out)` (which returns the generated reply, or null) and remembers.
template <typename Call>
void Ask2(Requirements* known, uint64_t size, VkMemoryRequirements2* out, Call call) {
  if (known == nullptr || !AsksDedication(*out)) {
    const auto* reply = call(out);
    if (reply == nullptr || reply->memory_requirements() == nullptr) return;
    ReadOutChain(reply->memory_requirements(), sluice::vk::kOut_MemoryRequirements2, out);
    return;
  }
  if (!known->dedication_known || !Recall(known, size, &out->memoryRequirements)) {
    VkMemoryDedicatedRequirements dedicated = {};
    dedicated.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS;
    VkMemoryRequirements2 whole = {};
    whole.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2;
    whole.pNext = &dedicated;
    const auto* reply = call(&whole);
    if (reply == nullptr || reply->memory_requirements() == nullptr) return;
    ReadOutChain(reply->memory_requirements(), sluice::vk::kOut_MemoryRequirements2, &whole);
    Learn(known, whole.memoryRequirements, size);
    known->prefers_dedicated = dedicated.prefersDedicatedAllocation != VK_FALSE;
    known->requires_dedicated = dedicated.requiresDedicatedAllocation != VK_FALSE;
    known->dedication_known = true;
    out->memoryRequirements = whole.memoryRequirements;
  }
  AnswerDedication(*known, out);
}

}  // namespace

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkCreateBuffer(VkDevice device, const VkBufferCreateInfo* pCreateInfo,
                                              const VkAllocationCallbacks*, VkBuffer* pBuffer) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  const uint64_t id = channel.ids().New();
  if (id == 0) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (!Send_vkCreateBuffer(channel, device, pCreateInfo, id)) return VK_ERROR_DEVICE_LOST;
  ResourceKey key;
  IdNote& note = channel.ids().note(id);
  const bool alike = SizesAlike(channel, device);
  note = {0, alike ? pCreateInfo->size : 0};
  if (KeyOf(ToId(device), *pCreateInfo, alike, &key)) note.a = channel.requirements().Find(key);
  *pBuffer = FromId<VkBuffer>(id);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkGetBufferMemoryRequirements(VkDevice device, VkBuffer buffer,
                                                         VkMemoryRequirements* pMemoryRequirements) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  const uint64_t id = ToId(buffer), size = channel.ids().note(id).b;
  Requirements* known = Known(channel, id);
  if (Recall(known, size, pMemoryRequirements)) return;
  *pMemoryRequirements = {};
  const auto* reply = Call_vkGetBufferMemoryRequirements(channel, device, buffer);
  if (reply == nullptr || reply->memory_requirements() == nullptr) return;
  *pMemoryRequirements = sluice::vk::CopyAs<VkMemoryRequirements>(reply->memory_requirements());
  Learn(known, *pMemoryRequirements, size);
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateImage(VkDevice device, const VkImageCreateInfo* pCreateInfo,
                                             const VkAllocationCallbacks*, VkImage* pImage) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  const uint64_t id = channel.ids().New();
  if (id == 0) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (!Send_vkCreateImage(channel, device, pCreateInfo, id)) return VK_ERROR_DEVICE_LOST;
  ResourceKey key;
  IdNote& note = channel.ids().note(id);
  note = {0, 0};
  if (KeyOf(ToId(device), *pCreateInfo, &key)) note.a = channel.requirements().Find(key);
  *pImage = FromId<VkImage>(id);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkGetImageMemoryRequirements(VkDevice device, VkImage image,
                                                        VkMemoryRequirements* pMemoryRequirements) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  Requirements* known = Known(channel, ToId(image));
  if (Recall(known, 0, pMemoryRequirements)) return;
  *pMemoryRequirements = {};
  const auto* reply = Call_vkGetImageMemoryRequirements(channel, device, image);
  if (reply == nullptr || reply->memory_requirements() == nullptr) return;
  *pMemoryRequirements = sluice::vk::CopyAs<VkMemoryRequirements>(reply->memory_requirements());
  Learn(known, *pMemoryRequirements, 0);
}

VKAPI_ATTR void VKAPI_CALL vkGetBufferMemoryRequirements2(VkDevice device, const VkBufferMemoryRequirementsInfo2* pInfo,
                                                          VkMemoryRequirements2* pMemoryRequirements) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  const uint64_t id = ToId(pInfo->buffer);
  Ask2(pInfo->pNext == nullptr ? Known(channel, id) : nullptr, channel.ids().note(id).b, pMemoryRequirements,
       [&](VkMemoryRequirements2* out) { return Call_vkGetBufferMemoryRequirements2(channel, device, pInfo, out); });
}

VKAPI_ATTR void VKAPI_CALL vkGetImageMemoryRequirements2(VkDevice device, const VkImageMemoryRequirementsInfo2* pInfo,
                                                         VkMemoryRequirements2* pMemoryRequirements) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  Ask2(pInfo->pNext == nullptr ? Known(channel, ToId(pInfo->image)) : nullptr, 0, pMemoryRequirements,
       [&](VkMemoryRequirements2* out) { return Call_vkGetImageMemoryRequirements2(channel, device, pInfo, out); });
}

VKAPI_ATTR void VKAPI_CALL vkGetDeviceBufferMemoryRequirements(VkDevice device,
                                                               const VkDeviceBufferMemoryRequirements* pInfo,
                                                               VkMemoryRequirements2* pMemoryRequirements) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  ResourceKey key;
  const bool alike = SizesAlike(channel, device);
  Requirements* known = nullptr;
  if (KeyOf(ToId(device), *pInfo->pCreateInfo, alike, &key)) {
    known = channel.requirements().Get(channel.requirements().Find(key));
  }
  Ask2(known, alike ? pInfo->pCreateInfo->size : 0, pMemoryRequirements, [&](VkMemoryRequirements2* out) {
    return Call_vkGetDeviceBufferMemoryRequirements(channel, device, pInfo, out);
  });
}

VKAPI_ATTR void VKAPI_CALL vkGetDeviceImageMemoryRequirements(VkDevice device,
                                                              const VkDeviceImageMemoryRequirements* pInfo,
                                                              VkMemoryRequirements2* pMemoryRequirements) {
  ChannelLock lock(device);
  GuestChannel& channel = lock.channel();
  ResourceKey key;
  Requirements* known = nullptr;
  // Of a disjoint image each plane has an answer of its own.
  if ((pInfo->pCreateInfo->flags & VK_IMAGE_CREATE_DISJOINT_BIT) == 0 &&
      KeyOf(ToId(device), *pInfo->pCreateInfo, &key)) {
    known = channel.requirements().Get(channel.requirements().Find(key));
  }
  Ask2(known, 0, pMemoryRequirements, [&](VkMemoryRequirements2* out) {
    return Call_vkGetDeviceImageMemoryRequirements(channel, device, pInfo, out);
  });
}

}  // extern "C"
