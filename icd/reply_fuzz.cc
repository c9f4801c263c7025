// Replies of a worker that lies: a program's calls through the runtime and the driver's caches, against a ring whose
// answers come from the fuzzer.
//
// Input: for each reply that the program waits for, 4 bytes (size of the payload in the low 24 bits; bit 24: another
// sequence number, bit 25: another opcode, bit 26: more to come) and the payload. When the input ends, so does the
// worker.
//
// To make a seed from a real domain: SLUICE_RECORD=FILE SLUICE_SOCKET=... icd_reply_fuzz DIRECTORY
#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "flatbuf/guest/entry.h"
#include "flatbuf/schema_hash.h"
#include "icd/loader/physical.h"
#include "icd/transport/source.h"

namespace sluice::icd {
namespace {

constexpr uint64_t kBytes = 1 << 20;
constexpr uint32_t kSizeMask = 0xffffff;
constexpr uint32_t kOtherSequence = 1 << 24, kOtherOpcode = 1 << 25, kMore = 1 << 26;

class Liar final : public guest::Platform {
 public:
  Liar(const uint8_t* data, size_t size) : data_(data), left_(size), memory_(kBytes / sizeof(Line)) {
    header_ = new (memory_.data()) wire::RingHeader{};
    header_->magic = wire::kCapsetMagic;
    header_->protocol_version = wire::kProtocolVersion;
    header_->schema_hash = wire::kSchemaHash;
    const wire::RingLayout layout{kBytes};
    auto* base = reinterpret_cast<uint8_t*>(memory_.data());
    most_ = layout.max_frame_payload(layout.reply_bytes());
    commands_ = wire::RingConsumer(base + layout.command_offset(), layout.command_bytes(), &header_->command_head,
                                   &header_->command_tail);
    replies_ = wire::RingProducer(base + layout.reply_offset(), layout.reply_bytes(), &header_->reply_head,
                                  &header_->reply_tail);
    channel_.Init(memory_.data(), kBytes, this);
  }
  ~Liar() { guest::SetChannel(nullptr); }
  guest::GuestChannel& channel() { return channel_; }

  void RingDoorbell() override {}
  void WaitForPosition(uint64_t) override { Serve(); }
  void WaitTimeline(uint32_t, uint64_t, uint64_t) override { End(); }
  void SleepOn(std::atomic<uint32_t>*, uint32_t, const guest::Awaited&) override { End(); }
  void Yield() override { Serve(); }
  uint64_t NowNs() override { return now_ += 1000; }
  bool AllocateSharedMemory(uint64_t size, guest::SharedMemory* out) override {
    if (size > 1 << 20) return false;
    shared_.push_back(std::make_unique<uint64_t[]>(size / 8 + 1));
    *out = {static_cast<uint32_t>(shared_.size()), shared_.back().get(), size};
    return true;
  }
  void FreeSharedMemory(const guest::SharedMemory&) override {}

 private:
  struct alignas(64) Line {
    uint64_t words[8];
  };
  void End() { header_->status = static_cast<uint32_t>(wire::LostReason::kWorkerGone); }

  void Serve() {
    wire::FrameHeader request;
    const uint8_t* payload = nullptr;
    bool any = false;
    while (commands_.Peek(&request, &payload) == wire::RingConsumer::Result::kFrame) {
      any = true;
      commands_.Pop();
      if ((request.flags & wire::kFrameReply) != 0 && (request.flags & wire::kFrameMore) == 0) Reply(request);
    }
    if (!any && ++idle_ > 10'000) End();
  }

  void Reply(const wire::FrameHeader& request) {
    uint32_t word = 0;
    if (left_ < sizeof(word)) return End();
    memcpy(&word, data_, sizeof(word));
    data_ += sizeof(word);
    left_ -= sizeof(word);
    size_t size = word & kSizeMask;
    if (size > left_) size = left_;
    wire::FrameHeader header = request;
    header.sequence += (word & kOtherSequence) != 0 ? 1 : 0;
    header.opcode = static_cast<uint16_t>(header.opcode + ((word & kOtherOpcode) != 0 ? 1 : 0));
    do {
      const size_t part = size < most_ ? size : static_cast<size_t>(most_);
      uint8_t* frame = replies_.Reserve(part);
      if (frame == nullptr) return End();
      header.size = static_cast<uint32_t>(part);
      header.flags = wire::kFrameReply;
      if (part < size || (word & kMore) != 0) header.flags |= wire::kFrameMore;
      memcpy(frame, &header, sizeof(header));
      memcpy(frame + sizeof(header), data_, part);
      replies_.Commit(part);
      data_ += part;
      left_ -= part;
      size -= part;
    } while (size != 0);
  }

  const uint8_t* data_;
  size_t left_;
  std::vector<Line> memory_;
  wire::RingHeader* header_ = nullptr;
  uint64_t most_ = 0;
  wire::RingConsumer commands_;
  wire::RingProducer replies_;
  guest::GuestChannel channel_;
  std::vector<std::unique_ptr<uint64_t[]>> shared_;
  uint64_t now_ = 0;
  int idle_ = 0;
};

void UseDevice(VkPhysicalDevice physical, VkDevice device) {
  VkQueue queue = VK_NULL_HANDLE;
  vkGetDeviceQueue(device, 0, 0, &queue);
  VkBufferCreateInfo buffer_info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  buffer_info.size = 4096;
  buffer_info.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VkBuffer buffer = VK_NULL_HANDLE;
  if (vkCreateBuffer(device, &buffer_info, nullptr, &buffer) == VK_SUCCESS) {
    VkMemoryRequirements needs{};
    vkGetBufferMemoryRequirements(device, buffer, &needs);
    VkMemoryDedicatedRequirements dedicated{VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS};
    VkMemoryRequirements2 needs2{VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2, &dedicated, {}};
    VkBufferMemoryRequirementsInfo2 question{VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2, nullptr, buffer};
    vkGetBufferMemoryRequirements2(device, &question, &needs2);
    VkPhysicalDeviceMemoryProperties types{};
    vkGetPhysicalDeviceMemoryProperties(physical, &types);
    for (uint32_t i = 0; i < 2; i++) {
      VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
      allocate.allocationSize = 4096;
      allocate.memoryTypeIndex = i;
      VkDeviceMemory memory = VK_NULL_HANDLE;
      if (vkAllocateMemory(device, &allocate, nullptr, &memory) != VK_SUCCESS) continue;
      void* pointer = nullptr;
      if (vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &pointer) == VK_SUCCESS) memset(pointer, 1, 4096);
      vkFreeMemory(device, memory, nullptr);
    }
    vkDestroyBuffer(device, buffer, nullptr);
  }
  VkImageCreateInfo image_info{VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
  image_info.imageType = VK_IMAGE_TYPE_2D;
  image_info.format = VK_FORMAT_R8G8B8A8_UNORM;
  image_info.extent = {16, 16, 1};
  image_info.mipLevels = image_info.arrayLayers = 1;
  image_info.samples = VK_SAMPLE_COUNT_1_BIT;
  image_info.tiling = VK_IMAGE_TILING_LINEAR;
  image_info.usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT;
  VkImage image = VK_NULL_HANDLE;
  if (vkCreateImage(device, &image_info, nullptr, &image) == VK_SUCCESS) {
    VkMemoryRequirements needs{};
    vkGetImageMemoryRequirements(device, image, &needs);
    const VkImageSubresource part{VK_IMAGE_ASPECT_COLOR_BIT, 0, 0};
    VkSubresourceLayout layout{};
    vkGetImageSubresourceLayout(device, image, &part, &layout);
    vkDestroyImage(device, image, nullptr);
  }
  VkPipelineCacheCreateInfo cache_info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  VkPipelineCache cache = VK_NULL_HANDLE;
  if (vkCreatePipelineCache(device, &cache_info, nullptr, &cache) == VK_SUCCESS) {
    size_t size = 0;
    vkGetPipelineCacheData(device, cache, &size, nullptr);
    size = 8;
    uint8_t data[8];
    vkGetPipelineCacheData(device, cache, &size, data);
    vkDestroyPipelineCache(device, cache, nullptr);
  }
  VkQueryPoolCreateInfo query_info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
  query_info.queryType = VK_QUERY_TYPE_OCCLUSION;
  query_info.queryCount = 4;
  VkQueryPool queries = VK_NULL_HANDLE;
  if (vkCreateQueryPool(device, &query_info, nullptr, &queries) == VK_SUCCESS) {
    uint64_t results[4] = {};
    vkGetQueryPoolResults(device, queries, 0, 4, sizeof(results), results, 8, VK_QUERY_RESULT_64_BIT);
    vkDestroyQueryPool(device, queries, nullptr);
  }
  VkDescriptorSetLayoutCreateInfo layout_info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  VkDescriptorSetVariableDescriptorCountLayoutSupport variable{
      VK_STRUCTURE_TYPE_DESCRIPTOR_SET_VARIABLE_DESCRIPTOR_COUNT_LAYOUT_SUPPORT};
  VkDescriptorSetLayoutSupport support{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_SUPPORT, &variable, VK_FALSE};
  vkGetDescriptorSetLayoutSupport(device, &layout_info, &support);
  VkFenceCreateInfo fence_info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence fence = VK_NULL_HANDLE;
  if (vkCreateFence(device, &fence_info, nullptr, &fence) == VK_SUCCESS) {
    vkQueueSubmit(queue, 0, nullptr, fence);
    vkGetFenceStatus(device, fence);
    vkDestroyFence(device, fence, nullptr);
  }
  vkDeviceWaitIdle(device);
}

void RunProgram() {
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.apiVersion = VK_API_VERSION_1_3;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;
  VkInstance instance = VK_NULL_HANDLE;
  if (vkCreateInstance(&info, nullptr, &instance) != VK_SUCCESS) return;
  VkPhysicalDevice devices[4] = {};
  uint32_t count = 0;
  vkEnumeratePhysicalDevices(instance, &count, nullptr);
  count = 4;
  if (vkEnumeratePhysicalDevices(instance, &count, devices) >= 0 && count > 0) {
    {
      PhysicalState state(devices[0]);
      state.facts();
      VkFormatProperties3 format3{VK_STRUCTURE_TYPE_FORMAT_PROPERTIES_3};
      VkFormatProperties2 format{VK_STRUCTURE_TYPE_FORMAT_PROPERTIES_2, &format3, {}};
      state.Format(VK_FORMAT_R8G8B8A8_UNORM, &format);
      VkPhysicalDeviceImageFormatInfo2 question{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_FORMAT_INFO_2};
      question.format = VK_FORMAT_R8G8B8A8_UNORM;
      question.type = VK_IMAGE_TYPE_2D;
      question.usage = VK_IMAGE_USAGE_SAMPLED_BIT;
      VkImageFormatProperties2 answer{VK_STRUCTURE_TYPE_IMAGE_FORMAT_PROPERTIES_2};
      state.ImageFormat(question, &answer);
    }
    const float priority = 1;
    VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkDeviceCreateInfo device_info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    device_info.queueCreateInfoCount = 1;
    device_info.pQueueCreateInfos = &queue;
    VkDevice device = VK_NULL_HANDLE;
    if (vkCreateDevice(devices[0], &device_info, nullptr, &device) == VK_SUCCESS) {
      UseDevice(devices[0], device);
      vkDestroyDevice(device, nullptr);
    }
  }
  vkDestroyInstance(instance, nullptr);
}

// Keeps the context of a real domain, so that its ring can be read when the program has ended.
class Recording final : public guest::ChannelSource {
 public:
  guest::GuestChannel* Open() override { return channel_ = ProcessChannels().Open(); }
  void Close(guest::GuestChannel*) override {}
  guest::GuestChannel* channel() { return channel_; }

 private:
  guest::GuestChannel* channel_ = nullptr;
};

void Record(const char* path) {
  Recording recording;
  guest::SetChannelSource(&recording);
  RunProgram();
  FILE* file = fopen(path, "wb");
  if (file == nullptr || recording.channel() == nullptr) abort();
  const auto ring = PlatformOf(*recording.channel()).ring();
  const wire::RingLayout layout{ring.second};
  auto* header = static_cast<wire::RingHeader*>(ring.first);
  std::atomic<uint64_t> tail{0};
  wire::RingConsumer replies(static_cast<uint8_t*>(ring.first) + layout.reply_offset(), layout.reply_bytes(),
                             &header->reply_head, &tail);
  wire::FrameHeader frame;
  const uint8_t* payload = nullptr;
  while (replies.Peek(&frame, &payload) == wire::RingConsumer::Result::kFrame) {
    const uint32_t word = frame.size;
    fwrite(&word, sizeof(word), 1, file);
    fwrite(payload, frame.size, 1, file);
    replies.Pop();
  }
  fclose(file);
}

}  // namespace
}  // namespace sluice::icd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (const char* path = getenv("SLUICE_RECORD"); path != nullptr) {
    sluice::icd::Record(path);
    unsetenv("SLUICE_RECORD");
    return 0;
  }
  sluice::icd::Liar liar(data, size);
  sluice::guest::SetChannel(&liar.channel());
  sluice::icd::RunProgram();
  return 0;
}
