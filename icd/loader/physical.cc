#include "icd/loader/physical.h"

#include <cstring>
#include <mutex>

#include "flatbuf/guest/manual.h"
#include "flatbuf/vk/extensions.h"
#include "icd/loader/advertise.h"
#include "icd/loader/copy_out.h"
#include "icd/loader/extensions.h"
#include "icd/loader/state.h"

namespace sluice::icd {
namespace {

// A program that asks for more than this starts over.
constexpr size_t kMostImageAnswers = 4096;

std::vector<VkExtensionProperties> FetchExtensions(VkPhysicalDevice device) {
  uint32_t count = 0;
  if (::vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr) < 0) return {};
  std::vector<VkExtensionProperties> all(std::min(count, 1024u));
  count = static_cast<uint32_t>(all.size());
  if (::vkEnumerateDeviceExtensionProperties(device, nullptr, &count, all.data()) < 0) return {};
  all.resize(std::min<size_t>(count, all.size()));
  std::erase_if(all, [](VkExtensionProperties& e) {
    e.extensionName[sizeof(e.extensionName) - 1] = 0;
    const vk::Extension* known = vk::FindExtension(e.extensionName);
    if (known == nullptr || known->instance || known->guest) return true;
    e.specVersion = std::min(e.specVersion, known->revision);
    return false;
  });
  for (const VkExtensionProperties& own : OwnDeviceExtensions()) all.push_back(own);
  return all;
}

// Whether the chain changes the answer to an image format question in no way that ImageKey does not hold.
bool OnlyStencilUsage(const void* next, uint32_t* stencil_usage) {
  *stencil_usage = 0;
  for (const auto* s = static_cast<const VkBaseInStructure*>(next); s != nullptr; s = s->pNext) {
    if (s->sType != VK_STRUCTURE_TYPE_IMAGE_STENCIL_USAGE_CREATE_INFO) return false;
    const void* structure = s;
    *stencil_usage = static_cast<const VkImageStencilUsageCreateInfo*>(structure)->stencilUsage;
  }
  return true;
}

bool AsksForExternalMemory(const void* next) {
  for (const auto* s = static_cast<const VkBaseInStructure*>(next); s != nullptr; s = s->pNext) {
    if (s->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_IMAGE_FORMAT_INFO) continue;
    const void* structure = s;
    if (static_cast<const VkPhysicalDeviceExternalImageFormatInfo*>(structure)->handleType != 0) return true;
  }
  return false;
}

}  // namespace

const PhysicalState::Facts& PhysicalState::facts() {
  if (const Facts* loaded = loaded_.load(std::memory_order_acquire); loaded != nullptr) return *loaded;
  std::lock_guard guard(lock_);
  if (facts_ != nullptr) return *facts_;
  auto facts = std::make_unique<Facts>();
  facts->properties.Make(vk::kOut_PhysicalDeviceProperties2);
  ::vkGetPhysicalDeviceProperties2(device_, facts->properties.root<VkPhysicalDeviceProperties2>());
  CutProperties(&facts->properties);
  facts->features.Make(vk::kOut_PhysicalDeviceFeatures2);
  ::vkGetPhysicalDeviceFeatures2(device_, facts->features.root<VkPhysicalDeviceFeatures2>());
  CutFeatures(&facts->features);
  facts->memory.Make(vk::kOut_PhysicalDeviceMemoryProperties2);
  ::vkGetPhysicalDeviceMemoryProperties2(device_, facts->memory.root<VkPhysicalDeviceMemoryProperties2>());
  uint32_t count = 0;
  ::vkGetPhysicalDeviceQueueFamilyProperties(device_, &count, nullptr);
  std::vector<VkQueueFamilyProperties> queues(std::min(count, 64u));
  count = static_cast<uint32_t>(queues.size());
  if (count != 0) ::vkGetPhysicalDeviceQueueFamilyProperties(device_, &count, queues.data());
  for (const VkQueueFamilyProperties& queue : queues) {
    facts->queues.push_back({VK_STRUCTURE_TYPE_QUEUE_FAMILY_PROPERTIES_2, nullptr, queue});
  }
  facts->extensions = FetchExtensions(device_);
  facts_ = std::move(facts);
  loaded_.store(facts_.get(), std::memory_order_release);
  return *facts_;
}

void PhysicalState::Format(VkFormat format, VkFormatProperties2* out) {
  std::lock_guard guard(lock_);
  const auto [it, fresh] = formats_.try_emplace(static_cast<uint32_t>(format));
  if (fresh) {
    it->second.Make(vk::kOut_FormatProperties2);
    ::vkGetPhysicalDeviceFormatProperties2(device_, format, it->second.root<VkFormatProperties2>());
  }
  it->second.CopyTo(out);
}

VkResult PhysicalState::ImageFormat(const VkPhysicalDeviceImageFormatInfo2& info, VkImageFormatProperties2* out) {
  if (AsksForExternalMemory(info.pNext)) return VK_ERROR_FORMAT_NOT_SUPPORTED;
  uint32_t stencil_usage = 0;
  if (!OnlyStencilUsage(info.pNext, &stencil_usage)) {
    return ::vkGetPhysicalDeviceImageFormatProperties2(device_, &info, out);
  }
  const ImageKey key = {static_cast<uint32_t>(info.format),
                        static_cast<uint32_t>(info.type),
                        static_cast<uint32_t>(info.tiling),
                        info.usage,
                        info.flags,
                        stencil_usage};
  std::lock_guard guard(lock_);
  auto it = images_.find(key);
  if (it == images_.end()) {
    if (images_.size() >= kMostImageAnswers) images_.clear();
    ImageAnswer answer;
    answer.blocks.Make(vk::kOut_ImageFormatProperties2);
    answer.result =
        ::vkGetPhysicalDeviceImageFormatProperties2(device_, &info, answer.blocks.root<VkImageFormatProperties2>());
    it = images_.emplace(key, std::move(answer)).first;
  }
  it->second.blocks.CopyTo(out);
  return it->second.result;
}

void AttachPhysical(VkInstance instance) {
  InstanceState* state = StateOf(instance);
  std::lock_guard guard(state->lock);
  const auto& devices = guest::State(instance)->physical_devices;
  for (size_t i = 0; i < devices.size(); i++) {
    if (devices[i]->above == nullptr)
      devices[i]->above = new PhysicalState(guest::FromState<VkPhysicalDevice>(devices[i]));
  }
}

void DetachPhysical(VkInstance instance) {
  const auto& devices = guest::State(instance)->physical_devices;
  for (size_t i = 0; i < devices.size(); i++) {
    delete static_cast<PhysicalState*>(devices[i]->above);
    devices[i]->above = nullptr;
  }
}

PhysicalState& PhysicalOf(VkPhysicalDevice device) {
  return *static_cast<PhysicalState*>(guest::State(device)->above);
}

VKAPI_ATTR VkResult VKAPI_CALL EnumeratePhysicalDevices(VkInstance instance, uint32_t* count,
                                                        VkPhysicalDevice* devices) {
  const VkResult result = ::vkEnumeratePhysicalDevices(instance, count, devices);
  if (result >= 0) AttachPhysical(instance);
  return result;
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceProperties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* out) {
  PhysicalOf(device).facts().properties.CopyTo(out);
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceProperties(VkPhysicalDevice device, VkPhysicalDeviceProperties* out) {
  VkPhysicalDeviceProperties2 all{};
  GetPhysicalDeviceProperties2(device, &all);
  *out = all.properties;
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceFeatures2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* out) {
  PhysicalOf(device).facts().features.CopyTo(out);
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceFeatures(VkPhysicalDevice device, VkPhysicalDeviceFeatures* out) {
  VkPhysicalDeviceFeatures2 all{};
  GetPhysicalDeviceFeatures2(device, &all);
  *out = all.features;
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceMemoryProperties2(VkPhysicalDevice device,
                                                              VkPhysicalDeviceMemoryProperties2* out) {
  PhysicalOf(device).facts().memory.CopyTo(out);
  for (auto* s = static_cast<VkBaseOutStructure*>(out->pNext); s != nullptr; s = s->pNext) {
    if (s->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) continue;
    void* any = s;
    guest::FillMemoryBudget(device, static_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT*>(any));
  }
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceMemoryProperties(VkPhysicalDevice device,
                                                             VkPhysicalDeviceMemoryProperties* out) {
  VkPhysicalDeviceMemoryProperties2 all{};
  GetPhysicalDeviceMemoryProperties2(device, &all);
  *out = all.memoryProperties;
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceQueueFamilyProperties2(VkPhysicalDevice device, uint32_t* count,
                                                                   VkQueueFamilyProperties2* out) {
  const auto& queues = PhysicalOf(device).facts().queues;
  const auto have = static_cast<uint32_t>(queues.size());
  *count = out == nullptr ? have : std::min(*count, have);
  for (uint32_t i = 0; out != nullptr && i < *count; i++)
    out[i].queueFamilyProperties = queues[i].queueFamilyProperties;
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice device, uint32_t* count,
                                                                  VkQueueFamilyProperties* out) {
  const auto& queues = PhysicalOf(device).facts().queues;
  const auto have = static_cast<uint32_t>(queues.size());
  *count = out == nullptr ? have : std::min(*count, have);
  for (uint32_t i = 0; out != nullptr && i < *count; i++) out[i] = queues[i].queueFamilyProperties;
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceFormatProperties2(VkPhysicalDevice device, VkFormat format,
                                                              VkFormatProperties2* out) {
  PhysicalOf(device).Format(format, out);
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceFormatProperties(VkPhysicalDevice device, VkFormat format,
                                                             VkFormatProperties* out) {
  VkFormatProperties2 all{};
  PhysicalOf(device).Format(format, &all);
  *out = all.formatProperties;
}

VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceImageFormatProperties2(VkPhysicalDevice device,
                                                                       const VkPhysicalDeviceImageFormatInfo2* info,
                                                                       VkImageFormatProperties2* out) {
  for (auto* s = static_cast<VkBaseOutStructure*>(out->pNext); s != nullptr; s = s->pNext) {
    if (s->sType != VK_STRUCTURE_TYPE_EXTERNAL_IMAGE_FORMAT_PROPERTIES) continue;
    void* structure = s;
    static_cast<VkExternalImageFormatProperties*>(structure)->externalMemoryProperties = {};
  }
  return PhysicalOf(device).ImageFormat(*info, out);
}

VKAPI_ATTR VkResult VKAPI_CALL GetPhysicalDeviceImageFormatProperties(VkPhysicalDevice device, VkFormat format,
                                                                      VkImageType type, VkImageTiling tiling,
                                                                      VkImageUsageFlags usage, VkImageCreateFlags flags,
                                                                      VkImageFormatProperties* out) {
  VkPhysicalDeviceImageFormatInfo2 info{};
  info.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_FORMAT_INFO_2;
  info.format = format;
  info.type = type;
  info.tiling = tiling;
  info.usage = usage;
  info.flags = flags;
  VkImageFormatProperties2 all{};
  const VkResult result = PhysicalOf(device).ImageFormat(info, &all);
  *out = all.imageFormatProperties;
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL EnumerateDeviceExtensionProperties(VkPhysicalDevice device, const char* layer,
                                                                  uint32_t* count, VkExtensionProperties* properties) {
  if (layer != nullptr) return VK_ERROR_LAYER_NOT_PRESENT;
  return CopyOut(PhysicalOf(device).facts().extensions, count, properties);
}

}  // namespace sluice::icd
