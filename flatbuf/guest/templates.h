// File: templates.h
//
// Descriptor update templates never cross the wire: the guest keeps their entries and expands an update into the
// writes that it stands for. Freestanding.
//
//   TemplateWrites writes;
//   writes.Expand(*State(descriptorUpdateTemplate), set, pData);
//   vkUpdateDescriptorSets(device, writes.count(), writes.data(), 0, nullptr);
#ifndef SLUICE_FLATBUF_GUEST_TEMPLATES_H_
#define SLUICE_FLATBUF_GUEST_TEMPLATES_H_

#include <vulkan/vulkan_core.h>

#include "flatbuf/guest/buffer.h"
#include "flatbuf/guest/handle.h"

namespace sluice::guest {

// The writes of one update. Reusable: memory is kept.
class TemplateWrites {
 public:
  // `data` as the template's entries describe it. The result refers to `data` for inline uniform blocks only.
  void Expand(const GuestUpdateTemplate& from, VkDescriptorSet set, const void* data);

  const VkWriteDescriptorSet* data() const { return writes_.data(); }
  uint32_t count() const { return static_cast<uint32_t>(writes_.size()); }

 private:
  Buffer<VkWriteDescriptorSet> writes_;
  Buffer<VkDescriptorImageInfo> images_;
  Buffer<VkDescriptorBufferInfo> buffers_;
  Buffer<VkBufferView> views_;
  Buffer<VkWriteDescriptorSetInlineUniformBlock> blocks_;
};

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_TEMPLATES_H_
