// The memory half of WorkerPolicy: quota, memory in blobs, memory that is freed while the GPU may still use it.
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "flatbuf/vk/exec_dispatch.h"
#include "gpu-domain/worker/policy.h"
#include "vmm/base/checked.h"

namespace sluice::worker {
namespace {

// Memory in a blob is no dedicated allocation: its size is rounded up to whole pages, and a dedicated one's must be
// exactly what the resource needs (VUID-VkMemoryDedicatedAllocateInfo-buffer-01435). The chain is the executor's copy.
void DropDedication(VkMemoryAllocateInfo* info) {
  auto* before = static_cast<VkBaseOutStructure*>(static_cast<void*>(info));
  while (before->pNext != nullptr) {
    if (before->pNext->sType == VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO) {
      before->pNext = before->pNext->pNext;
    } else {
      before = before->pNext;
    }
  }
}

}  // namespace

VkResult WorkerPolicy::vkAllocateMemory(exec::Call& call, VkDevice device, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks* allocator, VkDeviceMemory* memory,
                                        uint32_t resource_id, uint64_t resource_offset) {
  const Device* state = FindDevice(device);
  if (state == nullptr) return VK_ERROR_DEVICE_LOST;
  Memory record;
  if (resource_id == 0) {
    // It may wait for memory that was freed while the GPU used it: somebody else has to see the GPU's progress.
    HandOverQueues();
    std::optional<MemoryCharge> charge = host_->TakeMemory(info->allocationSize);
    if (!charge.has_value()) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    record.charge = *std::move(charge);
    const VkResult result = DriverPolicy::vkAllocateMemory(call, device, info, allocator, memory, 0, 0);
    if (result == VK_SUCCESS) memories_[*memory] = std::move(record);
    return result;
  }
  record.blob = host_->FindMemory(resource_id);
  const uint64_t blob_bytes = record.blob != nullptr ? record.blob->size() : 0;
  const uint64_t alignment = driver_->memory_alignment();
  const std::optional<uint64_t> size = CheckedAlignUp(info->allocationSize, state->physical->import_alignment);
  if (!size.has_value() || resource_offset % alignment != 0 || resource_offset > blob_bytes ||
      *size > blob_bytes - resource_offset) {
    call.lost = absl::InvalidArgumentError(absl::StrCat("vkAllocateMemory: resource ", resource_id, " has no ",
                                                        info->allocationSize, " bytes at ", resource_offset));
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  VkMemoryAllocateInfo whole = *info;
  whole.allocationSize = *size;
  DropDedication(&whole);
  VkResult result = VK_ERROR_INVALID_EXTERNAL_HANDLE;
  if (state->physical->import_types == 0) {
    result = AllocateCopied(call, device, whole, record.blob, resource_offset, memory);
  } else if (info->memoryTypeIndex < 32 && (state->physical->import_types & (uint32_t{1} << info->memoryTypeIndex))) {
    result = Import(call, device, whole, record.blob->mapping().data() + resource_offset, memory);
  }
  if (result == VK_SUCCESS) memories_[*memory] = std::move(record);
  return result;
}

VkResult WorkerPolicy::Import(exec::Call& call, VkDevice device, VkMemoryAllocateInfo info, uint8_t* pointer,
                              VkDeviceMemory* memory) {
  VkImportMemoryHostPointerInfoEXT import{};
  import.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT;
  import.pNext = info.pNext;
  import.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  import.pHostPointer = pointer;
  info.pNext = &import;
  return DriverPolicy::vkAllocateMemory(call, device, &info, nullptr, memory, 0, 0);
}

VkResult WorkerPolicy::AllocateCopied(exec::Call& call, VkDevice device, const VkMemoryAllocateInfo& info,
                                      std::shared_ptr<Blob> blob, uint64_t offset, VkDeviceMemory* memory) {
  // The GPU may be at work in other memory of this range's predecessor: nothing of that is of interest any more.
  const VkResult result = DriverPolicy::vkAllocateMemory(call, device, &info, nullptr, memory, 0, 0);
  if (result != VK_SUCCESS) return result;
  void* mapped = nullptr;
  if (call.device_vk->MapMemory(device, *memory, 0, VK_WHOLE_SIZE, 0, &mapped) != VK_SUCCESS) {
    DriverPolicy::vkFreeMemory(call, device, *memory, nullptr);
    *memory = VK_NULL_HANDLE;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  copies_.Add(*memory, std::move(blob), offset, static_cast<uint8_t*>(mapped), info.allocationSize);
  return VK_SUCCESS;
}

void WorkerPolicy::vkFreeMemory(exec::Call& call, VkDevice device, VkDeviceMemory memory,
                                const VkAllocationCallbacks* allocator) {
  copies_.Remove(memory);
  DriverPolicy::vkFreeMemory(call, device, memory, allocator);
  const auto it = memories_.find(memory);
  if (it == memories_.end()) return;
  // A correct program frees what the GPU has finished with. For others: the blob must not go while the GPU writes to
  // it, and nobody waits for that here.
  Unfinished unfinished;
  if (const Device* state = FindDevice(device); state != nullptr) {
    for (const VkQueue queue : state->queues) {
      const std::shared_ptr<QueueProgress>& progress = queues_[queue]->progress();
      const uint64_t submitted = progress->submitted.load(std::memory_order_acquire);
      if (progress->completed.load(std::memory_order_acquire) < submitted) unfinished.emplace_back(progress, submitted);
    }
  }
  host_->DropLater(std::move(it->second.blob), std::move(unfinished));
  memories_.erase(it);
}

}  // namespace sluice::worker
