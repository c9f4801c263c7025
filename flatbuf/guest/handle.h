// File: handle.h
//
// What a Vulkan handle is in the guest, in one place. Most are the wire id itself. Those that the runtime keeps state
// for are pointers to the structures below: all dispatchable ones (a Vulkan loader writes into their first word), and
// memory, pools and fences. ToId gives the wire id of either kind. Freestanding.
#ifndef SLUICE_FLATBUF_GUEST_HANDLE_H_
#define SLUICE_FLATBUF_GUEST_HANDLE_H_

#include <stdint.h>
#include <vulkan/vulkan_core.h>

#include <atomic>

#include "flatbuf/guest/buffer.h"
#include "flatbuf/guest/memory_pool.h"
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
  uint64_t heap_usage[VK_MAX_MEMORY_HEAPS] = {};  // bytes that the program has allocated
};
struct GuestInstance : Dispatchable {
  void* above = nullptr;
  bool enumerated = false;
  Buffer<GuestPhysicalDevice*> physical_devices;
};
struct GuestQueue : Dispatchable {
  GuestDevice* device = nullptr;
  uint32_t family = 0, index = 0;
  VkDeviceQueueCreateFlags flags = 0;
  uint8_t timeline = 0;  // virtio-gpu ring_idx
  // The worker publishes the number of batches that are complete in this feedback slot. Numbers go on where the slot's
  // last owner stopped: `base` is the first owner's last.
  uint32_t slot = 0;
  uint64_t base = 0;
  std::atomic<uint64_t> submitted{0};  // number of the last batch. Written under the channel's lock
  std::atomic<uint64_t> position{0};   // ring position after the last submission
};
struct GuestFeedback;
struct GuestDevice : Dispatchable {
  void* above = nullptr;
  GuestPhysicalDevice* physical = nullptr;
  Buffer<GuestQueue*> queues;
  std::atomic<uint32_t> feedback_lock{0};  // of making `feedback`
  GuestFeedback* feedback = nullptr;       // of feedback.cc
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
  uint64_t size = 0;   // as the program asked
  uint32_t type = 0;   // index of the memory type
  SharedRange shared;  // resource_id 0: not host-visible
};
// Fences never cross the wire: signaled when a queue has completed a number of batches.
struct GuestFence {
  GuestQueue* queue = nullptr;  // null: not submitted, `signaled` says
  uint64_t batch = 0;           // signaled when the queue has completed this one
  uint64_t position = 0;        // ring position after the submission
  bool signaled = false;
};
// A semaphore. The counter of a timeline semaphore is known here too: what the host has signaled, and what batches
// signal when queues complete them.
struct GuestSemaphore {
  struct Signal {
    GuestQueue* queue;
    uint64_t batch;
    uint64_t value;
  };
  uint64_t id = 0;
  bool timeline = false;
  std::atomic<uint32_t> lock{0};     // of `pending`
  std::atomic<uint32_t> waiting{0};  // pending.size()
  std::atomic<uint64_t> value{0};    // at least this
  Buffer<Signal> pending;            // submitted, not known to be complete
};

// Memory that the GPU writes and the guest reads (feedback.h).
struct FeedbackCell {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;  // of cells that have a buffer of their own
  uint64_t offset = 0;
  uint8_t* pointer = nullptr;
  uint64_t bytes = 0;
};
struct GuestEvent {
  uint64_t id = 0;
  FeedbackCell cell;
  // 1: set. Null: only the device looks at the event.
  uint32_t* word() const { return static_cast<uint32_t*>(static_cast<void*>(cell.pointer)); }
};
struct GuestQueryPool {
  uint64_t id = 0;
  uint32_t count = 0;
  uint32_t values_per_query = 0;
  FeedbackCell cell;  // `count` words, padded to 8 bytes: 1: available; then the values

  static uint64_t Bytes(uint64_t count, uint64_t values) { return (count * 4 + 7) / 8 * 8 + count * values * 8; }
  // From the beginning of the cell.
  uint64_t ValueOffset(uint32_t query) const { return Bytes(count, 0) + uint64_t{query} * values_per_query * 8; }
  uint32_t* available(uint32_t query) const { return static_cast<uint32_t*>(static_cast<void*>(cell.pointer)) + query; }
  uint64_t* value(uint32_t query, uint32_t index) const {
    return static_cast<uint64_t*>(static_cast<void*>(cell.pointer + ValueOffset(query))) + index;
  }
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
SLUICE_GUEST_STATE(VkSemaphore, GuestSemaphore);
SLUICE_GUEST_STATE(VkEvent, GuestEvent);
SLUICE_GUEST_STATE(VkQueryPool, GuestQueryPool);
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
