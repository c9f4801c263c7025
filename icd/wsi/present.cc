// The device-level entry points.
#include <span>
#include <vector>

#include "icd/wsi/query.h"
#include "icd/wsi/swapchain.h"

namespace sluice::wsi {
namespace {

Swapchain* Of(VkSwapchainKHR swapchain) {
  return static_cast<Swapchain*>(static_cast<void*>(swapchain));
}

const VkPresentRegionsKHR* RegionsOf(const VkPresentInfoKHR& info) {
  for (auto* next = static_cast<const VkBaseInStructure*>(info.pNext); next != nullptr; next = next->pNext) {
    const void* chained = next;
    if (next->sType == VK_STRUCTURE_TYPE_PRESENT_REGIONS_KHR) return static_cast<const VkPresentRegionsKHR*>(chained);
  }
  return nullptr;
}

// How bad a result of one swapchain is among those of all.
int Severity(VkResult result) {
  switch (result) {
    case VK_SUCCESS:
      return 0;
    case VK_SUBOPTIMAL_KHR:
      return 1;
    case VK_ERROR_OUT_OF_DATE_KHR:
      return 2;
    case VK_ERROR_SURFACE_LOST_KHR:
      return 4;
    case VK_ERROR_DEVICE_LOST:
      return 5;
    default:
      return 3;
  }
}

}  // namespace

std::function<VkResult(VkSemaphore, VkFence)> SignalThroughQueue(const DeviceFunctions& vk, VkQueue queue) {
  return [submit = vk.QueueSubmit, queue](VkSemaphore semaphore, VkFence fence) {
    VkSubmitInfo info = {VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.signalSemaphoreCount = semaphore != VK_NULL_HANDLE ? 1 : 0;
    info.pSignalSemaphores = &semaphore;
    return submit(queue, 1, &info, fence);
  };
}

VkResult CreateSwapchain(Device& device, const VkSwapchainCreateInfoKHR& info, VkSwapchainKHR* swapchain) {
  Swapchain* created = nullptr;
  *swapchain = VK_NULL_HANDLE;
  if (const VkResult r = Swapchain::Create(device, info, &created); r != VK_SUCCESS) return r;
  *swapchain = static_cast<VkSwapchainKHR>(static_cast<void*>(created));
  return VK_SUCCESS;
}

void DestroySwapchain(VkSwapchainKHR swapchain) {
  delete Of(swapchain);
}

VkResult GetSwapchainImages(VkSwapchainKHR handle, uint32_t* count, VkImage* images) {
  Swapchain* swapchain = Of(handle);
  std::vector<VkImage> all;
  for (uint32_t i = 0; i < swapchain->size(); i++) all.push_back(swapchain->image(i).image());
  return FillArray<VkImage>(all, count, images, [](VkImage from, VkImage& to) { to = from; });
}

VkResult AcquireNextImage2(const VkAcquireNextImageInfoKHR& info, uint32_t* index) {
  return Of(info.swapchain)->Acquire(info.timeout, info.semaphore, info.fence, index);
}

VkResult QueuePresent(Device& device, VkQueue queue, uint32_t family, const VkPresentInfoKHR& info) {
  // The first copy that is submitted waits for all semaphores; the others come later in submission order.
  std::span<const VkSemaphore> waits(info.pWaitSemaphores, info.waitSemaphoreCount);
  const VkPresentRegionsKHR* regions = RegionsOf(info);
  VkResult worst = VK_SUCCESS;
  for (uint32_t i = 0; i < info.swapchainCount; i++) {
    Swapchain* swapchain = Of(info.pSwapchains[i]);
    const uint32_t index = info.pImageIndices[i];
    VkResult result = swapchain->Admit(index);
    if (result >= 0) {
      const VkResult submitted = swapchain->SubmitCopy(queue, family, index, waits);
      if (submitted == VK_SUCCESS) {
        waits = {};
        std::vector<VkRect2D> damage;
        if (regions != nullptr && regions->pRegions != nullptr && i < regions->swapchainCount) {
          damage = swapchain->Damage(regions->pRegions[i]);
        }
        swapchain->Enqueue(index, std::move(damage));
      } else {
        result = submitted;
      }
    }
    if (info.pResults != nullptr) info.pResults[i] = result;
    if (Severity(result) > Severity(worst)) worst = result;
  }
  // Also presents that fail wait for their semaphores.
  if (!waits.empty()) {
    const VkResult result = SubmitWaits(device, queue, waits);
    if (Severity(result) > Severity(worst)) worst = result;
  }
  return worst;
}

void CompleteAlias(VkSwapchainKHR swapchain, VkImageCreateInfo* info) {
  info->flags |= ImageFlags(Of(swapchain)->flags());
  info->usage |= VK_IMAGE_USAGE_TRANSFER_SRC_BIT;  // as in SwapchainImage::InitImage
}

VkDeviceMemory ImageMemory(VkSwapchainKHR handle, uint32_t index) {
  Swapchain* swapchain = Of(handle);
  return index < swapchain->size() ? swapchain->image(index).memory() : VK_NULL_HANDLE;
}

}  // namespace sluice::wsi
