// File: scene.h
//
// Hand-made messages for a context on any policy: a context with one object of most kinds, under fixed ids, and the
// pieces to say something wrong to it. For tests that need to get past the guest's encoders.
#ifndef SLUICE_GPU_DOMAIN_EXEC_TESTING_SCENE_H_
#define SLUICE_GPU_DOMAIN_EXEC_TESTING_SCENE_H_

#include <cstring>
#include <vector>

#include "flatbuf/vk/opcodes.h"
#include "flatbuf/vk/vulkan_generated.h"
#include "gpu-domain/exec/context.h"

namespace sluice::exec::testing {

// Swallows replies.
class NullSink : public ReplySink {
 public:
  absl::Status Reply(uint16_t, uint64_t, absl::Span<const uint8_t>) override {
    replies++;
    return absl::OkStatus();
  }
  int replies = 0;
};

struct Scene {
  enum Id : uint64_t {
    kInstance = 1,
    kPhysical,
    kDevice,
    kQueue,
    kBuffer,
    kMemory,
    kPool,
    kCommandBuffer,
    kImage,
    kFree = 100
  };

  explicit Scene(Policy* policy, const ContextOptions& options = {}) : context(options, policy) {}

  // Finishes `root` and executes it as a message.
  template <typename T>
  absl::Status Run(vk::Opcode opcode, flatbuffers::Offset<T> root, bool reply = false) {
    b.Finish(root);
    std::vector<uint64_t> words(b.GetSize() / 8 + 2);
    memcpy(words.data(), b.GetBufferPointer(), b.GetSize());
    const size_t size = b.GetSize();
    b.Clear();
    const void* bytes = words.data();
    return Raw(static_cast<uint16_t>(opcode), reply, absl::MakeConstSpan(static_cast<const uint8_t*>(bytes), size));
  }
  absl::Status Raw(uint16_t opcode, bool reply, absl::Span<const uint8_t> payload) {
    const wire::FrameHeader header = {opcode, static_cast<uint16_t>(reply ? wire::kFrameReply : 0),
                                      static_cast<uint32_t>(payload.size()), ++sequence};
    return context.Execute(header, payload, &sink);
  }

  // Instance, physical device, device and queue under the ids above.
  absl::Status Setup() {
    if (auto s = Run(vk::Opcode::kCreateInstance,
                     vk::CreateCmd_vkCreateInstance(b, vk::CreateInstanceCreateInfo(b, {}), kInstance), true);
        !s.ok()) {
      return s;
    }
    const uint64_t ids[] = {kPhysical};
    if (auto s = Run(vk::Opcode::kEnumeratePhysicalDevices,
                     vk::CreateCmd_vkEnumeratePhysicalDevices(b, kInstance, b.CreateVector(ids, 1)), true);
        !s.ok()) {
      return s;
    }
    if (auto s = CreateDevice(kDevice); !s.ok()) return s;
    return Run(vk::Opcode::kGetDeviceQueue, vk::CreateCmd_vkGetDeviceQueue(b, kDevice, 0, 0, kQueue, 1));
  }
  absl::Status CreateDevice(uint64_t id) {
    const float priority = 1;
    const auto queue = vk::CreateDeviceQueueCreateInfo(b, 0, 0, 1, b.CreateVector(&priority, 1));
    const auto queues = b.CreateVector(&queue, 1);
    vk::DeviceCreateInfoBuilder info(b);
    info.add_queue_create_info_count(1);
    info.add_queue_create_infos(queues);
    return Run(vk::Opcode::kCreateDevice, vk::CreateCmd_vkCreateDevice(b, kPhysical, info.Finish(), id), true);
  }
  absl::Status CreateBuffer(uint64_t id, uint64_t size = 256, uint32_t usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT) {
    const auto info = vk::CreateBufferCreateInfo(b, 0, 0, size, usage);
    return Run(vk::Opcode::kCreateBuffer, vk::CreateCmd_vkCreateBuffer(b, kDevice, info, id));
  }
  absl::Status CreatePool() {
    const auto info = vk::CreateCommandPoolCreateInfo(b, VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, 0);
    return Run(vk::Opcode::kCreateCommandPool, vk::CreateCmd_vkCreateCommandPool(b, kDevice, info, kPool));
  }
  absl::Status AllocateCommandBuffers(std::vector<uint64_t> ids, uint32_t count) {
    const auto info = vk::CreateCommandBufferAllocateInfo(b, kPool, 0, count);
    return Run(vk::Opcode::kAllocateCommandBuffers,
               vk::CreateCmd_vkAllocateCommandBuffers(b, kDevice, info, b.CreateVector(ids.data(), ids.size())));
  }
  // A descriptor set `id` without descriptors; takes two more ids from `spare` on.
  absl::Status MakeDescriptorSet(uint64_t spare, uint64_t id) {
    const vk::DescriptorPoolSize size(VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1);
    const auto sizes = b.CreateVectorOfStructs(&size, 1);
    const auto pool = vk::CreateDescriptorPoolCreateInfo(b, 0, 0, 1, 1, sizes);
    if (auto s = Run(vk::Opcode::kCreateDescriptorPool, vk::CreateCmd_vkCreateDescriptorPool(b, kDevice, pool, spare));
        !s.ok()) {
      return s;
    }
    const auto layout = vk::CreateDescriptorSetLayoutCreateInfo(b);
    if (auto s = Run(vk::Opcode::kCreateDescriptorSetLayout,
                     vk::CreateCmd_vkCreateDescriptorSetLayout(b, kDevice, layout, spare + 1));
        !s.ok()) {
      return s;
    }
    const uint64_t layouts[] = {spare + 1}, sets[] = {id};
    const auto allocate = vk::CreateDescriptorSetAllocateInfo(b, 0, spare, 1, b.CreateVector(layouts, 1));
    return Run(vk::Opcode::kAllocateDescriptorSets,
               vk::CreateCmd_vkAllocateDescriptorSets(b, kDevice, allocate, b.CreateVector(sets, 1)), true);
  }
  // A stream into kCommandBuffer with that pool; `fill` adds columns and order to the table.
  template <typename F>
  absl::Status Stream(bool begin, bool end, std::vector<uint64_t> pool, F fill) {
    const uint64_t place = pool.size() + 1;
    if (begin) pool.insert(pool.end(), {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, 0, 0, 0});
    const auto words = b.CreateVector(pool);
    auto add = fill(b);  // makes the vectors; returns what adds them to the table
    vk::CommandStreamBuilder t(b);
    t.add_command_buffer(kCommandBuffer);
    t.add_begin_at(begin ? static_cast<uint32_t>(place) : 0);
    t.add_end(end);
    t.add_pool(words);
    add(t);
    return Run(vk::Opcode::kCommandStream, t.Finish());
  }

  NullSink sink;
  flatbuffers::FlatBufferBuilder b;
  uint64_t sequence = 0;
  Context context;
};

}  // namespace sluice::exec::testing

#endif  // SLUICE_GPU_DOMAIN_EXEC_TESTING_SCENE_H_
