// File: handle.h
//
// What a Vulkan handle is in the guest, in one place. Most are the wire id itself. Those that the runtime keeps state
// for are pointers to the structures below: all dispatchable ones (a Vulkan loader writes into their first word), and
// memory, pools and fences. ToId gives the wire id of either kind. Freestanding.
#ifndef SLUICE_FLATBUF_GUEST_HANDLE_H_
#define SLUICE_FLATBUF_GUEST_HANDLE_H_

#include <stdint.h>
#include <vulkan/vulkan_core.h>

#include "flatbuf/guest/buffer.h"
#include "flatbuf/guest/platform.h"
#include "flatbuf/vkgen/cast_raw.h"

namespace sluice::guest {

class GuestChannel;
class Recorder;
struct GuestCommandPool;
struct GuestInstance;
struct GuestDevice;

// First in every dispatchable object: the Vulkan loader keeps its dispatch table there.
struct Dispatchable {
  uint64_t loader_word = 0x01CDC0DE;  // ICD_LOADER_MAGIC of vk_icd.h
  uint64_t id = 0;
  GuestChannel* channel = nullptr;  // its instance's
};

struct GuestPhysicalDevice : Dispatchable {
  GuestInstance* instance = nullptr;
  void* above = nullptr;  // of the driver around this runtime, if any; so below
  bool have_properties = false, have_features = false, have_memory = false, have_queues = false;
  VkPhysicalDeviceProperties properties;
  VkPhysicalDeviceFeatures features;
  VkPhysicalDeviceMemoryProperties memory;
  Buffer<VkQueueFamilyProperties> queues;
};
struct GuestInstance : Dispatchable {
  void* above = nullptr;
  bool enumerated = false;
  Buffer<GuestPhysicalDevice*> physical_devices;
};
struct GuestQueue : Dispatchable {
  GuestDevice* device = nullptr;
  uint32_t family = 0, index = 0;
  uint8_t timeline = 0;   // virtio-gpu ring_idx
  uint64_t position = 0;  // ring position after the last vkQueueSubmit
};
struct GuestDevice : Dispatchable {
  void* above = nullptr;
  GuestPhysicalDevice* physical = nullptr;
  Buffer<GuestQueue*> queues;
};
struct GuestCommandBuffer : Dispatchable {
  GuestCommandPool* pool = nullptr;
  VkCommandBufferLevel level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  uint32_t index = 0;            // in pool->buffers
  Recorder* recorder = nullptr;  // its own while it records, else Recorder::Idle()
  void* feedback = nullptr;      // of record_hooks.cc
};

struct GuestCommandPool {
  uint64_t id = 0;
  Buffer<GuestCommandBuffer*> buffers;
  Recorder* free_recorders = nullptr;  // as many as recorded at once, of the pool's buffers
};
// Descriptors by type: how many a layout needs, how many a pool has left.
inline constexpr size_t kDescriptorTypes = VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT + 1;
struct DescriptorCounts {
  uint64_t of[kDescriptorTypes] = {};
};
struct GuestSetLayout {
  uint64_t id = 0;
  DescriptorCounts needs;      // without the binding of variable count
  int32_t variable_type = -1;  // VkDescriptorType of that binding; -1: none
  bool countable = true;       // false: descriptors of types that are not counted
};
struct GuestDescriptorPool {
  uint64_t id = 0;
  Buffer<uint64_t> sets;
  uint64_t max_sets = 0;
  DescriptorCounts size;  // when empty
  DescriptorCounts left;
  uint64_t sets_left = 0;
  // False once sets were freed or the driver was asked: then only the driver knows whether there is room.
  bool counted = true;
};
struct GuestMemory {
  uint64_t id = 0;
  uint64_t size = 0;
  SharedMemory shared;  // resource_id 0: not host-visible
};
// Fences never cross the wire: a feedback slot and the value that it reaches.
struct GuestFence {
  uint32_t slot = 0;
  uint64_t last = 0;      // last value promised for the slot
  uint64_t expected = 0;  // signaled when the slot holds at least this
  bool pending = false;   // submitted: `expected` counts. Else `signaled` says
  bool signaled = false;
  GuestQueue* queue = nullptr;
  uint64_t position = 0;
};

// These never cross either.
struct GuestUpdateTemplate {
  Buffer<VkDescriptorUpdateTemplateEntry> entries;
  VkPipelineBindPoint bind_point = VK_PIPELINE_BIND_POINT_GRAPHICS;  // push descriptors only
  uint32_t set = 0;                                                  // push descriptors only
};

// The structure behind a handle that is a pointer.
template <typename T>
struct StateOf;
#define SLUICE_GUEST_STATE(handle, state) \
  template <>                             \
  struct StateOf<handle> {                \
    using type = state;                   \
  }
SLUICE_GUEST_STATE(VkInstance, GuestInstance);
SLUICE_GUEST_STATE(VkPhysicalDevice, GuestPhysicalDevice);
SLUICE_GUEST_STATE(VkDevice, GuestDevice);
SLUICE_GUEST_STATE(VkQueue, GuestQueue);
SLUICE_GUEST_STATE(VkCommandBuffer, GuestCommandBuffer);
SLUICE_GUEST_STATE(VkCommandPool, GuestCommandPool);
SLUICE_GUEST_STATE(VkDescriptorPool, GuestDescriptorPool);
SLUICE_GUEST_STATE(VkDescriptorSetLayout, GuestSetLayout);
SLUICE_GUEST_STATE(VkDeviceMemory, GuestMemory);
SLUICE_GUEST_STATE(VkFence, GuestFence);
SLUICE_GUEST_STATE(VkDescriptorUpdateTemplate, GuestUpdateTemplate);
#undef SLUICE_GUEST_STATE

template <typename T>
concept HasState = requires {
  typename StateOf<T>::type;
};

// Handle <-> structure, for the types above.
template <HasState T>
typename StateOf<T>::type* State(T handle) {
  return static_cast<typename StateOf<T>::type*>(static_cast<void*>(handle));
}
template <HasState T>
T FromState(typename StateOf<T>::type* state) {
  return static_cast<T>(static_cast<void*>(state));
}

// Wire id of any handle; 0 for VK_NULL_HANDLE.
template <typename T>
uint64_t ToId(T handle) {
  if constexpr (HasState<T>) {
    return handle == VK_NULL_HANDLE ? 0 : State(handle)->id;
  } else {
    return vk::HandleValue(handle);
  }
}
// The handle of an id, for types that have no structure.
template <typename T>
T FromId(uint64_t id) {
  static_assert(!HasState<T>);
  return vk::HandleCast<T>(id);
}
// The id in the shape of the handle, for structures that travel in place.
template <typename T>
T IdAsHandle(T handle) {
  return vk::HandleCast<T>(ToId(handle));
}

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_HANDLE_H_
