#include "icd/wsi/testing/vulkan_rig.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace sluice::wsi::testing {
namespace {

#define RIG_CHECK(call)                                                                        \
  do {                                                                                         \
    if (const VkResult rig_result = (call); rig_result != VK_SUCCESS) {                        \
      fprintf(stderr, "%s:%d: %s: VkResult %d\n", __FILE__, __LINE__, #call, int{rig_result}); \
      abort();                                                                                 \
    }                                                                                          \
  } while (false)

VkBool32 VKAPI_PTR OnMessage(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                             const VkDebugUtilsMessengerCallbackDataEXT* data, void* complaints) {
  fprintf(stderr, "validation: %s\n", data->pMessage);
  static_cast<std::atomic<uint32_t>*>(complaints)->fetch_add(1);
  return VK_FALSE;
}

bool HasLayer(const char* name) {
  uint32_t count = 0;
  vkEnumerateInstanceLayerProperties(&count, nullptr);
  std::vector<VkLayerProperties> layers(count);
  vkEnumerateInstanceLayerProperties(&count, layers.data());
  for (const VkLayerProperties& layer : layers) {
    if (strcmp(layer.layerName, name) == 0) return true;
  }
  return false;
}

VkImageMemoryBarrier Barrier(VkImage image, VkImageLayout from, VkImageLayout to) {
  VkImageMemoryBarrier barrier = {VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
  barrier.oldLayout = from;
  barrier.newLayout = to;
  barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.image = image;
  barrier.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
  return barrier;
}

}  // namespace

uint32_t PatternPixel(uint32_t frame, uint32_t x, uint32_t y) {
  const uint32_t red = (frame * 37 + x) & 0xff, green = (frame * 91 + y) & 0xff, blue = (x ^ y) & 0xff;
  return ((x * 3 + y) % 255) << 24 | red << 16 | green << 8 | blue;
}

std::unique_ptr<VulkanRig> VulkanRig::Create(std::string* why) {
  std::unique_ptr<VulkanRig> rig(new VulkanRig);
  return rig->Init(why) ? std::move(rig) : nullptr;
}

bool VulkanRig::Init(std::string* why) {
  if (!InitInstance(why) || !InitDevice(why)) return false;
  VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = family_;
  RIG_CHECK(vkCreateCommandPool(device_, &pool, nullptr, &pool_));
  VkCommandBufferAllocateInfo allocate = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  allocate.commandPool = pool_;
  allocate.commandBufferCount = 1;
  RIG_CHECK(vkAllocateCommandBuffers(device_, &allocate, &commands_));
  const VkFenceCreateInfo fence = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  RIG_CHECK(vkCreateFence(device_, &fence, nullptr, &fence_));

  DeviceDescription description;
  description.handle = device_;
  description.physical = physical();
  if (!LoadDeviceFunctions(device_, vkGetDeviceProcAddr, &description.vk)) {
    *why = "the driver lacks a function of Vulkan 1.0";
    return false;
  }
  description.memory = memory_;
  description.signal_now = [this, signal = SignalThroughQueue(description.vk, queue_)](VkSemaphore s, VkFence f) {
    MutexLock lock(&queue_mu_);
    return signal(s, f);
  };
  wsi_ = std::make_unique<Device>(std::move(description));
  return true;
}

bool VulkanRig::InitInstance(std::string* why) {
  constexpr char kValidation[] = "VK_LAYER_KHRONOS_validation";
  const char* layers[] = {kValidation};
  const char* extensions[] = {VK_KHR_SURFACE_EXTENSION_NAME, VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
  VkApplicationInfo application = {VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.apiVersion = VK_API_VERSION_1_1;
  VkDebugUtilsMessengerCreateInfoEXT messages = {VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  messages.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT;
  messages.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messages.pfnUserCallback = OnMessage;
  messages.pUserData = &complaints_;
  VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;
  info.enabledExtensionCount = 1;
  info.ppEnabledExtensionNames = extensions;
#if defined(SLUICE_TSAN)
  constexpr bool kUsable = false;  // the layer is not built for it
#else
  constexpr bool kUsable = true;
#endif
  validated_ = kUsable && HasLayer(kValidation);
  if (validated_) {
    info.pNext = &messages;
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = layers;
    info.enabledExtensionCount = std::size(extensions);
  }
  if (const VkResult r = vkCreateInstance(&info, nullptr, &instance_); r != VK_SUCCESS) {
    *why = "vkCreateInstance: VkResult " + std::to_string(r);
    return false;
  }
  if (validated_) {
    const auto create = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
        vkGetInstanceProcAddr(instance_, "vkCreateDebugUtilsMessengerEXT"));
    RIG_CHECK(create(instance_, &messages, nullptr, &messenger_));
  }
  if (!LoadInstanceFunctions(instance_, vkGetInstanceProcAddr, &instance_functions_)) {
    *why = "the loader lacks a function of Vulkan 1.0";
    return false;
  }
  return true;
}

bool VulkanRig::InitDevice(std::string* why) {
  uint32_t count = 0;
  vkEnumeratePhysicalDevices(instance_, &count, nullptr);
  std::vector<VkPhysicalDevice> devices(count);
  vkEnumeratePhysicalDevices(instance_, &count, devices.data());
  for (const VkPhysicalDevice device : devices) {
    VkPhysicalDeviceProperties properties = {};
    vkGetPhysicalDeviceProperties(device, &properties);
    if (physical_ == VK_NULL_HANDLE || properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) physical_ = device;
  }
  if (physical_ == VK_NULL_HANDLE) {
    *why = "no Vulkan device (package mesa-vulkan-drivers)";
    return false;
  }
  vkGetPhysicalDeviceMemoryProperties(physical_, &memory_);
  const float priority = 1;
  VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = family_;  // 0: with graphics on every driver
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  // Only so that VK_IMAGE_LAYOUT_PRESENT_SRC_KHR is a layout; the driver's own swapchains are not used.
  const char* extensions[] = {VK_KHR_SWAPCHAIN_EXTENSION_NAME, VK_KHR_IMAGE_FORMAT_LIST_EXTENSION_NAME};
  VkDeviceCreateInfo info = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = std::size(extensions);
  info.ppEnabledExtensionNames = extensions;
  if (const VkResult r = vkCreateDevice(physical_, &info, nullptr, &device_); r != VK_SUCCESS) {
    *why = "vkCreateDevice: VkResult " + std::to_string(r);
    return false;
  }
  vkGetDeviceQueue(device_, family_, 0, &queue_);
  return true;
}

VulkanRig::~VulkanRig() {
  while (!made_.empty()) DestroySwapchain(made_.begin()->first);
  wsi_.reset();
  if (device_ != VK_NULL_HANDLE) {
    vkDestroyBuffer(device_, staging_, nullptr);
    vkFreeMemory(device_, staging_memory_, nullptr);
    vkDestroyFence(device_, fence_, nullptr);
    vkDestroyCommandPool(device_, pool_, nullptr);
    vkDestroyDevice(device_, nullptr);
  }
  if (messenger_ != VK_NULL_HANDLE) {
    reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
        vkGetInstanceProcAddr(instance_, "vkDestroyDebugUtilsMessengerEXT"))(instance_, messenger_, nullptr);
  }
  vkDestroyInstance(instance_, nullptr);
}

VkSemaphore VulkanRig::NewSemaphore() {
  const VkSemaphoreCreateInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
  VkSemaphore semaphore = VK_NULL_HANDLE;
  RIG_CHECK(vkCreateSemaphore(device_, &info, nullptr, &semaphore));
  return semaphore;
}

VkResult VulkanRig::TryMakeSwapchain(const SwapchainRequest& request, VkSwapchainKHR* swapchain) {
  VkSwapchainCreateInfoKHR info = {VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR};
  info.pNext = request.next;
  info.flags = request.flags;
  info.surface = request.surface;
  info.minImageCount = request.images;
  info.imageFormat = request.format;
  info.imageColorSpace = VK_COLOR_SPACE_SRGB_NONLINEAR_KHR;
  info.imageExtent = request.extent;
  info.imageArrayLayers = 1;
  info.imageUsage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT;
  info.preTransform = VK_SURFACE_TRANSFORM_IDENTITY_BIT_KHR;
  info.compositeAlpha = request.alpha;
  info.presentMode = request.mode;
  info.oldSwapchain = request.old;
  if (const VkResult r = CreateSwapchain(*wsi_, info, swapchain); r != VK_SUCCESS) return r;
  Made made;
  made.extent = request.extent;
  made.format = request.format;
  uint32_t count = 0;
  RIG_CHECK(GetSwapchainImages(*swapchain, &count, nullptr));
  made.images.resize(count);
  RIG_CHECK(GetSwapchainImages(*swapchain, &count, made.images.data()));
  made.acquired = NewSemaphore();
  made.rendered = NewSemaphore();
  made_[*swapchain] = made;
  return VK_SUCCESS;
}

VkSwapchainKHR VulkanRig::MakeSwapchain(const SwapchainRequest& request) {
  VkSwapchainKHR swapchain = VK_NULL_HANDLE;
  RIG_CHECK(TryMakeSwapchain(request, &swapchain));
  return swapchain;
}

void VulkanRig::DestroySwapchain(VkSwapchainKHR swapchain) {
  const Made made = made_[swapchain];
  vkQueueWaitIdle(queue_);
  wsi::DestroySwapchain(swapchain);
  vkDestroySemaphore(device_, made.acquired, nullptr);
  vkDestroySemaphore(device_, made.rendered, nullptr);
  made_.erase(swapchain);
}

VkResult VulkanRig::Acquire(VkSwapchainKHR swapchain, uint64_t timeout_ns, uint32_t* index) {
  Made& made = made_[swapchain];
  VkAcquireNextImageInfoKHR info = {VK_STRUCTURE_TYPE_ACQUIRE_NEXT_IMAGE_INFO_KHR};
  info.swapchain = swapchain;
  info.timeout = timeout_ns;
  // One semaphore per swapchain: images that are acquired while it is signaled take a fence.
  info.semaphore = made.acquired_signaled ? VK_NULL_HANDLE : made.acquired;
  info.fence = made.acquired_signaled ? fence_ : VK_NULL_HANDLE;
  info.deviceMask = 1;
  const VkResult result = AcquireNextImage2(info, index);
  if (result < 0 || result == VK_NOT_READY || result == VK_TIMEOUT) return result;
  if (info.fence != VK_NULL_HANDLE) {
    RIG_CHECK(vkWaitForFences(device_, 1, &fence_, VK_TRUE, UINT64_MAX));
    RIG_CHECK(vkResetFences(device_, 1, &fence_));
  }
  made.acquired_signaled = true;
  return result;
}

void VulkanRig::NeedStaging(VkDeviceSize bytes) {
  if (bytes <= staging_bytes_) return;
  vkDestroyBuffer(device_, staging_, nullptr);
  vkFreeMemory(device_, staging_memory_, nullptr);
  VkBufferCreateInfo buffer = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  buffer.size = staging_bytes_ = bytes;
  buffer.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
  RIG_CHECK(vkCreateBuffer(device_, &buffer, nullptr, &staging_));
  VkMemoryRequirements needs = {};
  vkGetBufferMemoryRequirements(device_, staging_, &needs);
  constexpr VkMemoryPropertyFlags kFlags = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  VkMemoryAllocateInfo allocate = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  allocate.allocationSize = needs.size;
  while ((needs.memoryTypeBits >> allocate.memoryTypeIndex & 1) == 0 ||
         (memory_.memoryTypes[allocate.memoryTypeIndex].propertyFlags & kFlags) != kFlags) {
    allocate.memoryTypeIndex++;
  }
  RIG_CHECK(vkAllocateMemory(device_, &allocate, nullptr, &staging_memory_));
  RIG_CHECK(vkBindBufferMemory(device_, staging_, staging_memory_, 0));
  void* mapped = nullptr;
  RIG_CHECK(vkMapMemory(device_, staging_memory_, 0, VK_WHOLE_SIZE, 0, &mapped));
  staging_pixels_ = static_cast<uint8_t*>(mapped);
}

void VulkanRig::FillImage(VkImage image, VkExtent2D extent, VkFormat format, uint32_t frame, VkSemaphore wait,
                          VkSemaphore signal) {
  NeedStaging(VkDeviceSize{extent.width} * extent.height * 4);
  const bool bgra = format == VK_FORMAT_B8G8R8A8_UNORM || format == VK_FORMAT_B8G8R8A8_SRGB;
  for (uint32_t y = 0; y < extent.height; y++) {
    for (uint32_t x = 0; x < extent.width; x++) {
      uint32_t pixel = PatternPixel(frame, x, y);
      if (!bgra) pixel = (pixel & 0xff00ff00) | (pixel & 0xff) << 16 | (pixel >> 16 & 0xff);
      memcpy(staging_pixels_ + (size_t{y} * extent.width + x) * 4, &pixel, 4);
    }
  }
  const VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  RIG_CHECK(vkBeginCommandBuffer(commands_, &begin));
  VkImageMemoryBarrier barrier = Barrier(image, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL);
  barrier.dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, nullptr, 0,
                       nullptr, 1, &barrier);
  VkBufferImageCopy copy = {};
  copy.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
  copy.imageExtent = {extent.width, extent.height, 1};
  vkCmdCopyBufferToImage(commands_, staging_, image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &copy);
  barrier = Barrier(image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_PRESENT_SRC_KHR);
  barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0, 0, nullptr,
                       0, nullptr, 1, &barrier);
  RIG_CHECK(vkEndCommandBuffer(commands_));
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_TRANSFER_BIT;
  VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.waitSemaphoreCount = wait != VK_NULL_HANDLE ? 1 : 0;
  submit.pWaitSemaphores = &wait;
  submit.pWaitDstStageMask = &stage;
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands_;
  submit.signalSemaphoreCount = signal != VK_NULL_HANDLE ? 1 : 0;
  submit.pSignalSemaphores = &signal;
  {
    MutexLock lock(&queue_mu_);
    RIG_CHECK(vkQueueSubmit(queue_, 1, &submit, fence_));
  }
  RIG_CHECK(vkWaitForFences(device_, 1, &fence_, VK_TRUE, UINT64_MAX));
  RIG_CHECK(vkResetFences(device_, 1, &fence_));
}

void VulkanRig::Render(VkSwapchainKHR swapchain, uint32_t index, uint32_t frame) {
  Made& made = made_[swapchain];
  FillImage(made.images[index], made.extent, made.format, frame,
            made.acquired_signaled ? made.acquired : VK_NULL_HANDLE, made.rendered);
  made.acquired_signaled = false;
}

VkResult VulkanRig::Present(const std::vector<VkSwapchainKHR>& swapchains, const std::vector<uint32_t>& indices,
                            std::vector<VkResult>* results, const void* next) {
  std::vector<VkSemaphore> waits;
  for (const VkSwapchainKHR swapchain : swapchains) waits.push_back(made_[swapchain].rendered);
  VkPresentInfoKHR info = {VK_STRUCTURE_TYPE_PRESENT_INFO_KHR};
  info.pNext = next;
  info.waitSemaphoreCount = static_cast<uint32_t>(waits.size());
  info.pWaitSemaphores = waits.data();
  info.swapchainCount = static_cast<uint32_t>(swapchains.size());
  info.pSwapchains = swapchains.data();
  info.pImageIndices = indices.data();
  if (results != nullptr) {
    results->assign(swapchains.size(), VK_ERROR_UNKNOWN);
    info.pResults = results->data();
  }
  MutexLock lock(&queue_mu_);
  return QueuePresent(*wsi_, queue_, family_, info);
}

VkResult VulkanRig::PresentFrame(VkSwapchainKHR swapchain, uint32_t frame) {
  uint32_t index = 0;
  const VkResult acquired = Acquire(swapchain, UINT64_MAX, &index);
  if (acquired < 0) return acquired;
  Render(swapchain, index, frame);
  const VkResult presented = Present({swapchain}, {index});
  return presented != VK_SUCCESS ? presented : acquired;
}

}  // namespace sluice::wsi::testing
