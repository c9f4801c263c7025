// What the Vulkan loader and programs see of the driver: symbols, negotiation, entry points by name, extensions,
// messages.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <vulkan/vk_icd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "icd/testing/domain.h"
#include "icd/testing/program.h"

namespace sluice::icd::testing {
namespace {

std::string Output(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) text.append(buffer, n);
  pclose(pipe);
  return text;
}

TEST(Library, ExportsTheLoadersThreeFunctionsAndNothingElse) {
  const std::string text = Output("nm -D --defined-only --format=posix " + DriverPath());
  std::set<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) names.insert(line.substr(0, line.find(' ')));
  EXPECT_EQ(names, (std::set<std::string>{"vk_icdGetInstanceProcAddr", "vk_icdGetPhysicalDeviceProcAddr",
                                          "vk_icdNegotiateLoaderICDInterfaceVersion"}));
}

TEST(Library, NeedsOnlyTheSystemsLibraries) {
  std::istringstream lines(Output("readelf -d " + DriverPath()));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("(NEEDED)") == std::string::npos) continue;
    const std::string name = line.substr(line.find('[') + 1, line.find(']') - line.find('[') - 1);
    const bool system = name.starts_with("libc.so") || name.starts_with("libm.so") ||
                        name.starts_with("libstdc++.so") || name.starts_with("libgcc_s.so") ||
                        name.starts_with("ld-linux") || name.starts_with("libasan") || name.starts_with("libubsan") ||
                        name.starts_with("libtsan");
    EXPECT_TRUE(system) << name;
  }
}

// The library as the loader opens it.
class Loaded : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(domain_.Start());
    domain_.UseHere();
    library_ = dlopen(DriverPath().c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    get_ = reinterpret_cast<PFN_vk_icdGetInstanceProcAddr>(dlsym(library_, "vk_icdGetInstanceProcAddr"));
    physical_ =
        reinterpret_cast<PFN_vk_icdGetPhysicalDeviceProcAddr>(dlsym(library_, "vk_icdGetPhysicalDeviceProcAddr"));
    negotiate_ = reinterpret_cast<PFN_vk_icdNegotiateLoaderICDInterfaceVersion>(
        dlsym(library_, "vk_icdNegotiateLoaderICDInterfaceVersion"));
    ASSERT_TRUE(get_ != nullptr && physical_ != nullptr && negotiate_ != nullptr);
  }
  void TearDown() override {
    if (library_ != nullptr) dlclose(library_);
  }
  template <typename F>
  F Get(VkInstance instance, const char* name) {
    return reinterpret_cast<F>(get_(instance, name));
  }
  VkInstance Create(uint32_t version, const std::vector<const char*>& extensions) {
    VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    application.apiVersion = version;
    VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    info.pApplicationInfo = &application;
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    VkInstance instance = VK_NULL_HANDLE;
    result_ = Get<PFN_vkCreateInstance>(VK_NULL_HANDLE, "vkCreateInstance")(&info, nullptr, &instance);
    return result_ == VK_SUCCESS ? instance : VK_NULL_HANDLE;
  }
  void Destroy(VkInstance instance) { Get<PFN_vkDestroyInstance>(instance, "vkDestroyInstance")(instance, nullptr); }

  Domain domain_;
  void* library_ = nullptr;
  PFN_vk_icdGetInstanceProcAddr get_ = nullptr;
  PFN_vk_icdGetPhysicalDeviceProcAddr physical_ = nullptr;
  PFN_vk_icdNegotiateLoaderICDInterfaceVersion negotiate_ = nullptr;
  VkResult result_ = VK_SUCCESS;
};

TEST_F(Loaded, TheInterfaceIsNegotiated) {
  uint32_t version = 1;
  EXPECT_EQ(negotiate_(&version), VK_ERROR_INCOMPATIBLE_DRIVER);
  for (const uint32_t offered : {2u, 5u, 7u, 100u}) {
    version = offered;
    EXPECT_EQ(negotiate_(&version), VK_SUCCESS);
    EXPECT_EQ(version, std::min(offered, 7u));
  }
  version = 4;
  EXPECT_EQ(negotiate_(&version), VK_SUCCESS);
  EXPECT_EQ(Create(VK_API_VERSION_1_1, {}), VK_NULL_HANDLE);
  EXPECT_EQ(result_, VK_ERROR_INCOMPATIBLE_DRIVER) << "a loader of that age knows Vulkan 1.0 only";
  version = 7;
  EXPECT_EQ(negotiate_(&version), VK_SUCCESS);
}

TEST_F(Loaded, WithoutAnInstanceThereAreGlobalCommandsOnly) {
  for (const char* name : {"vkCreateInstance", "vkEnumerateInstanceVersion", "vkEnumerateInstanceExtensionProperties",
                           "vkEnumerateInstanceLayerProperties", "vkGetInstanceProcAddr",
                           "vk_icdNegotiateLoaderICDInterfaceVersion", "vk_icdGetPhysicalDeviceProcAddr"}) {
    EXPECT_NE(get_(VK_NULL_HANDLE, name), nullptr) << name;
  }
  for (const char* name : {"vkDestroyInstance", "vkCreateDevice", "vkCmdDraw", "vkGetDeviceProcAddr", "nonsense", ""}) {
    EXPECT_EQ(get_(VK_NULL_HANDLE, name), nullptr) << name;
  }
  uint32_t version = 0;
  EXPECT_EQ(Get<PFN_vkEnumerateInstanceVersion>(VK_NULL_HANDLE, "vkEnumerateInstanceVersion")(&version), VK_SUCCESS);
  EXPECT_EQ(VK_API_VERSION_MINOR(version), 3u);
}

TEST_F(Loaded, AnInstanceGivesWhatItsVersionAndExtensionsBring) {
  VkInstance old = Create(VK_API_VERSION_1_0, {});
  ASSERT_NE(old, VK_NULL_HANDLE);
  EXPECT_NE(get_(old, "vkCmdDraw"), nullptr);
  EXPECT_EQ(get_(old, "vkGetPhysicalDeviceProperties2"), nullptr);
  EXPECT_EQ(get_(old, "vkGetPhysicalDeviceProperties2KHR"), nullptr);
  EXPECT_EQ(get_(old, "vkCreateDebugUtilsMessengerEXT"), nullptr);
  EXPECT_NE(get_(old, "vkCreateSwapchainKHR"), nullptr) << "a device may have the extension";
  EXPECT_EQ(get_(old, "vkCreateRayTracingPipelinesKHR"), nullptr);
  Destroy(old);

  VkInstance extended = Create(VK_API_VERSION_1_0, {"VK_KHR_get_physical_device_properties2", "VK_EXT_debug_utils"});
  ASSERT_NE(extended, VK_NULL_HANDLE);
  EXPECT_NE(get_(extended, "vkGetPhysicalDeviceProperties2KHR"), nullptr);
  EXPECT_EQ(get_(extended, "vkGetPhysicalDeviceProperties2"), nullptr);
  EXPECT_NE(get_(extended, "vkCreateDebugUtilsMessengerEXT"), nullptr);
  EXPECT_NE(physical_(extended, "vkGetPhysicalDeviceProperties2KHR"), nullptr);
  EXPECT_EQ(physical_(extended, "vkCreateDebugUtilsMessengerEXT"), nullptr) << "it is the instance's";
  EXPECT_EQ(physical_(extended, "vkCmdDraw"), nullptr);
  EXPECT_EQ(physical_(extended, "nonsense"), nullptr);
  Destroy(extended);

  VkInstance recent = Create(VK_API_VERSION_1_3, {});
  ASSERT_NE(recent, VK_NULL_HANDLE);
  for (const char* name : {"vkGetPhysicalDeviceProperties2", "vkCmdBeginRendering", "vkQueueSubmit2",
                           "vkWaitSemaphores", "vkCreatePrivateDataSlot", "vkGetDeviceQueue2"}) {
    EXPECT_NE(get_(recent, name), nullptr) << name;
  }
  Destroy(recent);
}

TEST_F(Loaded, AllCoreCommandsExist) {
  VkInstance instance = Create(VK_API_VERSION_1_3, {});
  ASSERT_NE(instance, VK_NULL_HANDLE);
  const std::string header = Output("grep -oE 'VKAPI_CALL vk[A-Za-z0-9]+[(]' /usr/include/vulkan/vulkan_core.h");
  std::istringstream lines(header);
  int core = 0;
  for (std::string line; std::getline(lines, line);) {
    std::string name = line.substr(line.find("vk"));
    name.pop_back();
    // Commands of extensions end in capitals.
    if (name.size() < 3 || (isupper(name[name.size() - 1]) != 0 && isupper(name[name.size() - 2]) != 0)) continue;
    EXPECT_NE(get_(instance, name.c_str()), nullptr) << name;
    core++;
  }
  EXPECT_GT(core, 200);
  Destroy(instance);
}

TEST_F(Loaded, ADeviceGivesDeviceCommandsOfItsVersionAndExtensions) {
  VkInstance instance = Create(VK_API_VERSION_1_1, {"VK_EXT_debug_utils", "VK_KHR_surface"});
  ASSERT_NE(instance, VK_NULL_HANDLE);
  uint32_t count = 1;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  Get<PFN_vkEnumeratePhysicalDevices>(instance, "vkEnumeratePhysicalDevices")(instance, &count, &physical);
  ASSERT_EQ(count, 1u);
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  const char* extensions[] = {"VK_KHR_swapchain"};
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = 1;
  info.ppEnabledExtensionNames = extensions;
  VkDevice device = VK_NULL_HANDLE;
  ASSERT_EQ(Get<PFN_vkCreateDevice>(instance, "vkCreateDevice")(physical, &info, nullptr, &device), VK_SUCCESS);
  const auto get = Get<PFN_vkGetDeviceProcAddr>(instance, "vkGetDeviceProcAddr");
  for (const char* name : {"vkCmdDraw", "vkQueueSubmit", "vkGetDeviceQueue2", "vkCreateSwapchainKHR",
                           "vkQueuePresentKHR", "vkSetDebugUtilsObjectNameEXT", "vkGetDeviceProcAddr"}) {
    EXPECT_NE(get(device, name), nullptr) << name;
  }
  for (const char* name : {"vkCreateInstance", "vkDestroyInstance", "vkEnumeratePhysicalDevices", "vkCreateDevice",
                           "vkQueueSubmit2", "vkQueueSubmit2KHR", "vkCmdPushDescriptorSetKHR", "nonsense"}) {
    EXPECT_EQ(get(device, name), nullptr) << name;
  }
  Get<PFN_vkDestroyDevice>(instance, "vkDestroyDevice")(device, nullptr);

  const char* unknown[] = {"VK_KHR_ray_query"};
  info.ppEnabledExtensionNames = unknown;
  EXPECT_EQ(Get<PFN_vkCreateDevice>(instance, "vkCreateDevice")(physical, &info, nullptr, &device),
            VK_ERROR_EXTENSION_NOT_PRESENT);
  info.enabledExtensionCount = 0;
  VkPhysicalDeviceFeatures features{};
  features.sparseBinding = VK_TRUE;
  info.pEnabledFeatures = &features;
  EXPECT_EQ(Get<PFN_vkCreateDevice>(instance, "vkCreateDevice")(physical, &info, nullptr, &device),
            VK_ERROR_FEATURE_NOT_PRESENT);
  info.pEnabledFeatures = nullptr;
  VkPhysicalDeviceProtectedMemoryFeatures protection{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROTECTED_MEMORY_FEATURES};
  protection.protectedMemory = VK_TRUE;
  info.pNext = &protection;
  EXPECT_EQ(Get<PFN_vkCreateDevice>(instance, "vkCreateDevice")(physical, &info, nullptr, &device),
            VK_ERROR_FEATURE_NOT_PRESENT);
  Destroy(instance);
}

class Told : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(domain_.Start());
    domain_.UseHere();
  }
  static VKAPI_ATTR VkBool32 VKAPI_CALL Hear(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                             const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
    static_cast<Told*>(user)->heard_.push_back(data->pMessage);
    return VK_FALSE;
  }
  VkDebugUtilsMessengerCreateInfoEXT Info() {
    VkDebugUtilsMessengerCreateInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
    info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT;
    info.pfnUserCallback = Hear;
    info.pUserData = this;
    return info;
  }
  Domain domain_;
  std::vector<std::string> heard_;
};

TEST_F(Told, AMessengerHearsAMessageOnceAndALostDeviceWithItsReason) {
  ProgramOptions options;
  options.instance_extensions = {"VK_EXT_debug_utils"};
  Program program;
  ASSERT_EQ(program.Open(options), VK_SUCCESS);
  const auto create = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
      vkGetInstanceProcAddr(program.instance(), "vkCreateDebugUtilsMessengerEXT"));
  const auto destroy = reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
      vkGetInstanceProcAddr(program.instance(), "vkDestroyDebugUtilsMessengerEXT"));
  const auto submit = reinterpret_cast<PFN_vkSubmitDebugUtilsMessageEXT>(
      vkGetInstanceProcAddr(program.instance(), "vkSubmitDebugUtilsMessageEXT"));
  ASSERT_TRUE(create != nullptr && destroy != nullptr && submit != nullptr);
  VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;
  const VkDebugUtilsMessengerCreateInfoEXT info = Info();
  ASSERT_EQ(create(program.instance(), &info, nullptr, &messenger), VK_SUCCESS);
  VkDebugUtilsMessengerCallbackDataEXT data{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CALLBACK_DATA_EXT};
  data.pMessage = "hello";
  submit(program.instance(), VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT, VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT,
         &data);
  EXPECT_EQ(heard_, std::vector<std::string>{"hello"});
  heard_.clear();
  domain_.Kill();
  while (program.Fill(1) != VK_ERROR_DEVICE_LOST) {
  }
  ASSERT_EQ(heard_.size(), 1u);
  EXPECT_NE(heard_[0].find("gone"), std::string::npos) << heard_[0];
  EXPECT_EQ(program.Fill(1), VK_ERROR_DEVICE_LOST);
  EXPECT_EQ(heard_.size(), 1u) << "told once";
  destroy(program.instance(), messenger, nullptr);
}

TEST_F(Told, AMessengerInTheChainHearsWhyThereIsNoInstance) {
  setenv("SLUICE_SOCKET", "/nonexistent/socket", 1);
  const VkDebugUtilsMessengerCreateInfoEXT info = Info();
  ProgramOptions options;
  options.instance_extensions = {"VK_EXT_debug_utils"};
  options.instance_next = &info;
  Program program;
  EXPECT_NE(program.Open(options), VK_SUCCESS);
  EXPECT_TRUE(std::any_of(heard_.begin(), heard_.end(),
                          [](const std::string& text) { return text.find("SLUICE_SOCKET") != std::string::npos; }));
}

TEST(PrivateData, BelongsToTheObjectAndNotToItsAddress) {
  Domain domain;
  ASSERT_TRUE(domain.Start());
  domain.UseHere();
  ProgramOptions options;
  options.api_version = VK_API_VERSION_1_3;
  Program program;
  ASSERT_EQ(program.Open(options), VK_SUCCESS);
  const VkDevice device = program.device();
  VkPrivateDataSlotCreateInfo info{VK_STRUCTURE_TYPE_PRIVATE_DATA_SLOT_CREATE_INFO};
  VkPrivateDataSlot a = VK_NULL_HANDLE, b = VK_NULL_HANDLE;
  ASSERT_EQ(vkCreatePrivateDataSlot(device, &info, nullptr, &a), VK_SUCCESS);
  ASSERT_EQ(vkCreatePrivateDataSlot(device, &info, nullptr, &b), VK_SUCCESS);
  for (int i = 0; i < 100; i++) {
    VkFenceCreateInfo fence_info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence fence = VK_NULL_HANDLE;
    ASSERT_EQ(vkCreateFence(device, &fence_info, nullptr, &fence), VK_SUCCESS);
    const auto handle = reinterpret_cast<uint64_t>(fence);
    uint64_t data = 1;
    vkGetPrivateData(device, VK_OBJECT_TYPE_FENCE, handle, a, &data);
    EXPECT_EQ(data, 0u);
    EXPECT_EQ(vkSetPrivateData(device, VK_OBJECT_TYPE_FENCE, handle, a, 7), VK_SUCCESS);
    vkGetPrivateData(device, VK_OBJECT_TYPE_FENCE, handle, a, &data);
    EXPECT_EQ(data, 7u);
    vkGetPrivateData(device, VK_OBJECT_TYPE_FENCE, handle, b, &data);
    EXPECT_EQ(data, 0u);
    vkDestroyFence(device, fence, nullptr);
  }
  EXPECT_EQ(vkSetPrivateData(device, VK_OBJECT_TYPE_DEVICE, reinterpret_cast<uint64_t>(device), a, 9), VK_SUCCESS);
  uint64_t data = 0;
  vkGetPrivateData(device, VK_OBJECT_TYPE_DEVICE, reinterpret_cast<uint64_t>(device), a, &data);
  EXPECT_EQ(data, 9u);
  vkDestroyPrivateDataSlot(device, a, nullptr);
  vkDestroyPrivateDataSlot(device, b, nullptr);
}

// Two physical devices in one domain: the same software driver twice.
TEST(SeveralDevices, AllAreSeenAndWorkAndADomainMayChooseAmongThem) {
  Domain domain;
  std::string manifest;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/share/vulkan/icd.d")) {
    if (entry.path().filename().string().find("lvp") != std::string::npos) manifest = entry.path();
  }
  if (manifest.empty()) GTEST_SKIP() << "no lavapipe here";
  // A copy of the library: the same one twice would be one device.
  const std::string library = "/usr/lib/x86_64-linux-gnu/libvulkan_lvp.so";
  if (!std::filesystem::exists(library)) GTEST_SKIP() << "no " << library;
  const std::string second = domain.directory() + "/lvp2.json";
  std::filesystem::copy_file(library, domain.directory() + "/libvulkan_lvp2.so");
  chmod(domain.directory().c_str(), 0755);  // workers are nobody
  std::ofstream(second) << R"({"file_format_version": "1.0.0", "ICD": {"library_path": ")" << domain.directory()
                        << R"(/libvulkan_lvp2.so", "api_version": "1.3.230"}})";
  domain.environment = {{"VK_DRIVER_FILES", manifest + ":" + second}};
  ASSERT_TRUE(domain.Start());
  domain.UseHere();
  Program program;
  ASSERT_EQ(program.OpenInstance(), VK_SUCCESS);
  ASSERT_EQ(program.physical_devices().size(), 2u);
  for (uint32_t i = 0; i < 2; i++) {
    ProgramOptions options;
    options.physical_device = i;
    Program user;
    ASSERT_EQ(user.Open(options), VK_SUCCESS);
    EXPECT_EQ(user.Fill(0x1000 + i), VK_SUCCESS);
    VkPhysicalDeviceProperties properties{};
    vkGetPhysicalDeviceProperties(user.physical(), &properties);
    EXPECT_EQ(std::string(properties.deviceName).find("Sluice ("), 0u) << properties.deviceName;
  }
  program.Close();

  Domain none;
  none.arguments = {"--gpus=no-such-gpu"};
  ASSERT_TRUE(none.Start());
  none.UseHere();
  EXPECT_EQ(program.OpenInstance(), VK_ERROR_INCOMPATIBLE_DRIVER) << "no GPU is selected, so nobody serves";
}

}  // namespace
}  // namespace sluice::icd::testing
