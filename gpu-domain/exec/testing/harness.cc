#include "gpu-domain/exec/testing/harness.h"

#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/string_view.h"
#include "flatbuf/schema_hash.h"
#include "flatbuf/vk/exec_dispatch.h"
#include "gpu-domain/exec/arena.h"

namespace sluice::exec::testing {

VkResult HarnessPolicy::vkCreateDevice(Call& call, VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                       const VkAllocationCallbacks* allocator, VkDevice* device) {
  VkDeviceCreateInfo extended = *info;
  const char** names = call.arena.New<const char*>(info->enabledExtensionCount + 1);
  if (names == nullptr) return VK_ERROR_OUT_OF_HOST_MEMORY;
  for (uint32_t i = 0; i < info->enabledExtensionCount; i++) names[i] = info->ppEnabledExtensionNames[i];
  names[extended.enabledExtensionCount++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
  extended.ppEnabledExtensionNames = names;
  const VkResult result = DriverPolicy::vkCreateDevice(call, physical, &extended, allocator, device);
  devices += result >= 0;
  return result;
}

void HarnessPolicy::vkDestroyDevice(Call& call, VkDevice device, const VkAllocationCallbacks* allocator) {
  devices--;
  DriverPolicy::vkDestroyDevice(call, device, allocator);
}

VkResult HarnessPolicy::vkQueueSubmit(Call& call, VkQueue queue, uint32_t count, const VkSubmitInfo* submits,
                                      uint32_t slot, uint64_t batch) {
  if (slot != kNoSlot && slot >= slot_count) {
    call.lost = absl::InvalidArgumentError("feedback slot");
    return VK_ERROR_DEVICE_LOST;
  }
  if (next_submit != VK_SUCCESS) return next_submit;
  const VkResult result = DriverPolicy::vkQueueSubmit(call, queue, count, submits, kNoSlot, 0);
  if (result < 0) return result;
  if (slot != kNoSlot) {
    call.device_vk->QueueWaitIdle(queue);
    slots[slot] = batch;
  }
  return result;
}

VkResult HarnessPolicy::vkQueueSubmit2(Call& call, VkQueue queue, uint32_t count, const VkSubmitInfo2* submits,
                                       uint32_t slot, uint64_t batch) {
  const VkResult result = DriverPolicy::vkQueueSubmit2(call, queue, count, submits, kNoSlot, 0);
  return result < 0 ? result : vkQueueSubmit(call, queue, 0, nullptr, slot, batch);
}

VkResult HarnessPolicy::vkAllocateMemory(Call& call, VkDevice device, const VkMemoryAllocateInfo* info,
                                         const VkAllocationCallbacks* allocator, VkDeviceMemory* memory,
                                         uint32_t resource_id, uint64_t resource_offset) {
  VkMemoryAllocateInfo extended = *info;
  VkImportMemoryHostPointerInfoEXT import = {};
  if (info->allocationSize > memory_limit) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  if (resource_id != 0) {
    const auto blob = blobs.find(resource_id);
    if (blob == blobs.end() || resource_offset > blob->second.size() ||
        info->allocationSize > blob->second.size() - resource_offset) {
      return VK_ERROR_INVALID_EXTERNAL_HANDLE;
    }
    import.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT;
    import.pNext = extended.pNext;
    import.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    import.pHostPointer = blob->second.data() + resource_offset;
    extended.pNext = &import;
  }
  const VkResult result = DriverPolicy::vkAllocateMemory(call, device, &extended, allocator, memory, 0, 0);
  memories += result >= 0;
  return result;
}

void HarnessPolicy::vkFreeMemory(Call& call, VkDevice device, VkDeviceMemory memory,
                                 const VkAllocationCallbacks* allocator) {
  memories--;
  DriverPolicy::vkFreeMemory(call, device, memory, allocator);
}

VkResult HarnessPolicy::vkCreateBuffer(Call& call, VkDevice device, const VkBufferCreateInfo* info,
                                       const VkAllocationCallbacks* allocator, VkBuffer* buffer) {
  buffers_made++;
  if (next_buffer != VK_SUCCESS) return std::exchange(next_buffer, VK_SUCCESS);
  return DriverPolicy::vkCreateBuffer(call, device, info, allocator, buffer);
}

VkResult HarnessPolicy::vkCreateImage(Call& call, VkDevice device, const VkImageCreateInfo* info,
                                      const VkAllocationCallbacks* allocator, VkImage* image) {
  images_made++;
  // A fuzzer's image of 2^40 texels would only show that the machine has less memory.
  if (uint64_t{info->extent.width} * info->extent.height > (1 << 24) || info->extent.depth > 256 ||
      info->arrayLayers > 256) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  return DriverPolicy::vkCreateImage(call, device, info, allocator, image);
}

Harness::Harness(const ContextOptions& options, uint64_t ring_bytes) {
  ring_ = *Mapping::MapAnonymous(ring_bytes);
  wire::RingLayout layout{ring_bytes};
  header_ = new (ring_.data()) wire::RingHeader{};
  header_->magic = wire::kCapsetMagic;
  header_->protocol_version = wire::kProtocolVersion;
  header_->schema_hash = wire::kSchemaHash;
  header_->consumer_sleeping = 1;
  consumer_ = wire::RingConsumer(ring_.data() + layout.command_offset(), layout.command_bytes(), &header_->command_head,
                                 &header_->command_tail);
  reply_producer_ = wire::RingProducer(ring_.data() + layout.reply_offset(), layout.reply_bytes(), &header_->reply_head,
                                       &header_->reply_tail);
  void* slots = ring_.data() + layout.feedback_offset();
  policy_.slots = static_cast<volatile uint64_t*>(slots);
  policy_.slot_count = layout.feedback_slots();
  context_ = std::make_unique<Context>(options, &policy_);
  const bool ready = channel_.Init(ring_.data(), ring_bytes, this);
  guest::SetChannel(ready ? &channel_ : nullptr);
}

Harness::~Harness() {
  context_.reset();
  guest::SetChannel(nullptr);
}

bool Harness::HaveDriver() {
  const auto get = LoadVulkan();
  return get != nullptr;
}

void Harness::RingDoorbell() {
  doorbells++;
  header_->consumer_sleeping = 1;  // it always is
  Pump();
}

void Harness::Pump() {
  if (!status_.ok() || context_ == nullptr) return;
  status_ = Consume();
  if (!status_.ok()) header_->status = static_cast<uint32_t>(LostReasonOf(status_));
}

absl::Status Harness::Consume() {
  for (;;) {
    wire::FrameHeader header;
    const uint8_t* payload = nullptr;
    switch (consumer_.Peek(&header, &payload)) {
      case wire::RingConsumer::Result::kEmpty:
        return absl::OkStatus();
      case wire::RingConsumer::Result::kBroken:
        return absl::InvalidArgumentError("ring");
      case wire::RingConsumer::Result::kFrame:
        break;
    }
    if (message_bytes_ + header.size > wire::kMaxMessageBytes) return absl::InvalidArgumentError("message too long");
    message_.resize((message_bytes_ + header.size + 15) / 8);
    void* bytes = message_.data();
    auto* at = static_cast<uint8_t*>(bytes);
    wire::CopyFromShared(at + message_bytes_, payload, header.size);
    message_bytes_ += header.size;
    if ((header.flags & wire::kFrameMore) == 0) {
      const size_t size = message_bytes_;
      message_bytes_ = 0;
      if (keep) messages.push_back({header.opcode, header.flags, std::vector<uint8_t>(at, at + size)});
      if (absl::Status s = context_->Execute(header, absl::MakeConstSpan(at, size), this); !s.ok()) return s;
    }
    consumer_.Pop();
  }
}

absl::Status Harness::ExecuteRaw(uint16_t opcode, uint16_t flags, absl::Span<const uint8_t> payload) {
  std::vector<uint64_t> words(payload.size() / 8 + 2);
  void* bytes = words.data();
  memcpy(bytes, payload.data(), payload.size());
  const wire::FrameHeader header = {opcode, flags, static_cast<uint32_t>(payload.size()), 1};
  return context_->Execute(header, absl::MakeConstSpan(static_cast<const uint8_t*>(bytes), payload.size()), this);
}

absl::Status Harness::Reply(uint16_t opcode, uint64_t sequence, absl::Span<const uint8_t> payload) {
  const uint64_t most = wire::RingLayout{ring_.size()}.max_frame_payload(ring_.size() / 4);
  do {
    const uint64_t part = std::min<uint64_t>(payload.size(), most);
    uint8_t* frame = reply_producer_.Reserve(part);
    if (frame == nullptr) return absl::UnavailableError("reply ring full");
    const uint16_t more = part < payload.size() ? wire::kFrameMore : 0;
    const wire::FrameHeader header = {opcode, static_cast<uint16_t>(wire::kFrameReply | more),
                                      static_cast<uint32_t>(part), sequence};
    memcpy(frame, &header, sizeof(header));
    memcpy(frame + sizeof(header), payload.data(), part);
    reply_producer_.Commit(part);
    payload.remove_prefix(part);
  } while (!payload.empty());
  return absl::OkStatus();
}

bool Harness::AllocateSharedMemory(uint64_t size, guest::SharedMemory* out) {
  auto blob = Mapping::MapAnonymous(size);
  if (!blob.ok()) return false;
  out->resource_id = next_resource_++;
  out->pointer = blob->data();
  out->size = size;
  policy_.blobs.emplace(out->resource_id, *std::move(blob));
  return true;
}

void Harness::FreeSharedMemory(const guest::SharedMemory& memory) {
  Pump();  // the worker drops its import first
  policy_.blobs.erase(memory.resource_id);
}

}  // namespace sluice::exec::testing
