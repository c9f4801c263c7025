#include "flatbuf/guest/templates.h"

#include <string.h>

#include "flatbuf/guest/entry.h"
#include "flatbuf/vkgen/semantics.h"

namespace sluice::guest {
namespace {

// `count` elements, `stride` bytes apart, one after another.
template <typename T>
void Gather(Buffer<T>* into, const uint8_t* from, uint32_t count, size_t stride) {
  T* to = into->Extend(count);
  for (uint32_t i = 0; i < count; i++) memcpy(static_cast<void*>(to + i), from + i * stride, sizeof(T));
}

}  // namespace

void TemplateWrites::Expand(const GuestUpdateTemplate& from, VkDescriptorSet set, const void* data) {
  writes_.Clear();
  images_.Clear();
  buffers_.Clear();
  views_.Clear();
  blocks_.Clear();
  const auto* bytes = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < from.entries.size(); i++) {
    const VkDescriptorUpdateTemplateEntry& e = from.entries[i];
    if (e.descriptorCount == 0) continue;
    VkWriteDescriptorSet write{};
    write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    write.dstSet = set;
    write.dstBinding = e.dstBinding;
    write.dstArrayElement = e.dstArrayElement;
    write.descriptorCount = e.descriptorCount;
    write.descriptorType = e.descriptorType;
    const uint8_t* at = bytes + e.offset;
    if (vk::UsesImageInfo(e.descriptorType)) {
      Gather(&images_, at, e.descriptorCount, e.stride);
    } else if (vk::UsesBufferInfo(e.descriptorType)) {
      Gather(&buffers_, at, e.descriptorCount, e.stride);
    } else if (vk::UsesTexelBuffer(e.descriptorType)) {
      Gather(&views_, at, e.descriptorCount, e.stride);
    } else if (e.descriptorType == VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK) {
      VkWriteDescriptorSetInlineUniformBlock block{};
      block.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET_INLINE_UNIFORM_BLOCK;
      block.dataSize = e.descriptorCount;
      block.pData = at;
      blocks_.Push(block);
    }
    writes_.Push(write);
  }
  // The arrays have stopped moving.
  size_t images = 0, buffers = 0, views = 0, blocks = 0;
  for (size_t i = 0; i < writes_.size(); i++) {
    VkWriteDescriptorSet& write = writes_[i];
    if (vk::UsesImageInfo(write.descriptorType)) {
      write.pImageInfo = images_.data() + images;
      images += write.descriptorCount;
    } else if (vk::UsesBufferInfo(write.descriptorType)) {
      write.pBufferInfo = buffers_.data() + buffers;
      buffers += write.descriptorCount;
    } else if (vk::UsesTexelBuffer(write.descriptorType)) {
      write.pTexelBufferView = views_.data() + views;
      views += write.descriptorCount;
    } else if (write.descriptorType == VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK) {
      write.pNext = blocks_.data() + blocks++;
    }
  }
}

}  // namespace sluice::guest

using namespace sluice::guest;

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkCreateDescriptorUpdateTemplate(VkDevice,
                                                                const VkDescriptorUpdateTemplateCreateInfo* pCreateInfo,
                                                                const VkAllocationCallbacks*,
                                                                VkDescriptorUpdateTemplate* pDescriptorUpdateTemplate) {
  auto* state = new GuestUpdateTemplate;
  const bool push = pCreateInfo->templateType == VK_DESCRIPTOR_UPDATE_TEMPLATE_TYPE_PUSH_DESCRIPTORS_KHR;
  if (push) {
    state->bind_point = pCreateInfo->pipelineBindPoint;
    state->set = pCreateInfo->set;
  }
  for (uint32_t i = 0; i < pCreateInfo->descriptorUpdateEntryCount; i++) {
    state->entries.Push(pCreateInfo->pDescriptorUpdateEntries[i]);
  }
  *pDescriptorUpdateTemplate = FromState<VkDescriptorUpdateTemplate>(state);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyDescriptorUpdateTemplate(VkDevice,
                                                             VkDescriptorUpdateTemplate descriptorUpdateTemplate,
                                                             const VkAllocationCallbacks*) {
  if (descriptorUpdateTemplate != VK_NULL_HANDLE) delete State(descriptorUpdateTemplate);
}

VKAPI_ATTR void VKAPI_CALL vkCmdPushDescriptorSetWithTemplateKHR(VkCommandBuffer commandBuffer,
                                                                 VkDescriptorUpdateTemplate descriptorUpdateTemplate,
                                                                 VkPipelineLayout layout, uint32_t set,
                                                                 const void* pData) {
  TemplateWrites writes;
  writes.Expand(*State(descriptorUpdateTemplate), VK_NULL_HANDLE, pData);
  if (writes.count() == 0) return;
  vkCmdPushDescriptorSetKHR(commandBuffer, State(descriptorUpdateTemplate)->bind_point, layout, set, writes.count(),
                            writes.data());
}

VKAPI_ATTR void VKAPI_CALL vkUpdateDescriptorSetWithTemplate(VkDevice device, VkDescriptorSet descriptorSet,
                                                             VkDescriptorUpdateTemplate descriptorUpdateTemplate,
                                                             const void* pData) {
  TemplateWrites writes;
  writes.Expand(*State(descriptorUpdateTemplate), descriptorSet, pData);
  if (writes.count() != 0) vkUpdateDescriptorSets(device, writes.count(), writes.data(), 0, nullptr);
}

}  // extern "C"
