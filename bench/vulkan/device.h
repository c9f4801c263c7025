// File: device.h
//
// Instance, device and queue of a vkbench case, and the bin that owns what a case creates.
#ifndef SLUICE_BENCH_VULKAN_DEVICE_H_
#define SLUICE_BENCH_VULKAN_DEVICE_H_

#include "bench/vulkan/tools.h"

namespace vkbench {

inline VkInstance makeInstance() {
  VkApplicationInfo app{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  app.pApplicationName = "vkbench";
  app.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo ici{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  ici.pApplicationInfo = &app;
  VkInstance inst;
  VK(vkCreateInstance(&ici, nullptr, &inst));
  return inst;
}

inline VkPhysicalDevice pickDevice(VkInstance inst) {
  uint32_t n = 0;
  VK(vkEnumeratePhysicalDevices(inst, &n, nullptr));
  std::vector<VkPhysicalDevice> pds(n);
  VK(vkEnumeratePhysicalDevices(inst, &n, pds.data()));
  if (pds.empty()) fail("no Vulkan device");
  const char* want = getenv("VKBENCH_DEVICE");
  if (!want || !*want) return pds[0];
  for (auto pd : pds) {
    VkPhysicalDeviceProperties p;
    vkGetPhysicalDeviceProperties(pd, &p);
    if (strstr(p.deviceName, want)) return pd;
  }
  fail("no device whose name contains \"%s\"", want);
}

inline uint32_t pickFamily(VkPhysicalDevice pd) {
  uint32_t n = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(pd, &n, nullptr);
  std::vector<VkQueueFamilyProperties> f(n);
  vkGetPhysicalDeviceQueueFamilyProperties(pd, &n, f.data());
  const VkQueueFlags need = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
  for (uint32_t i = 0; i < n; i++)
    if ((f[i].queueFlags & need) == need) return i;
  fail("no graphics and compute queue");
}

inline VkDevice makeDevice(VkPhysicalDevice pd, uint32_t family, VkPhysicalDeviceFeatures* out = nullptr) {
  VkPhysicalDeviceFeatures have{};
  vkGetPhysicalDeviceFeatures(pd, &have);
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  v12.timelineSemaphore = VK_TRUE;
  VkPhysicalDeviceFeatures2 f2{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v12};
  f2.features.vertexPipelineStoresAndAtomics = have.vertexPipelineStoresAndAtomics;
  float prio = 1;
  VkDeviceQueueCreateInfo qci{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  qci.queueFamilyIndex = family;
  qci.queueCount = 1;
  qci.pQueuePriorities = &prio;
  VkDeviceCreateInfo dci{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &f2};
  dci.queueCreateInfoCount = 1;
  dci.pQueueCreateInfos = &qci;
  VkDevice dev;
  VK(vkCreateDevice(pd, &dci, nullptr, &dev));
  if (out) *out = f2.features;
  return dev;
}

struct Ctx {
  VkInstance inst;
  VkPhysicalDevice pd;
  VkDevice dev;
  uint32_t family;
  VkQueue queue;
  VkCommandPool pool;
  VkFence fence;
  VkPhysicalDeviceProperties props;
  VkPhysicalDeviceMemoryProperties mem;
  VkPhysicalDeviceFeatures features;

  Ctx() {
    inst = makeInstance();
    pd = pickDevice(inst);
    family = pickFamily(pd);
    dev = makeDevice(pd, family, &features);
    vkGetDeviceQueue(dev, family, 0, &queue);
    vkGetPhysicalDeviceProperties(pd, &props);
    vkGetPhysicalDeviceMemoryProperties(pd, &mem);
    VkCommandPoolCreateInfo pci{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    pci.queueFamilyIndex = family;
    VK(vkCreateCommandPool(dev, &pci, nullptr, &pool));
    VkFenceCreateInfo fci{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VK(vkCreateFence(dev, &fci, nullptr, &fence));
  }
  ~Ctx() {
    vkDeviceWaitIdle(dev);
    vkDestroyFence(dev, fence, nullptr);
    vkDestroyCommandPool(dev, pool, nullptr);
    vkDestroyDevice(dev, nullptr);
    vkDestroyInstance(inst, nullptr);
  }
  Ctx(const Ctx&) = delete;

  void submit(VkCommandBuffer cb, VkFence f) {
    VkSubmitInfo si{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    si.commandBufferCount = 1;
    si.pCommandBuffers = &cb;
    VK(vkQueueSubmit(queue, 1, &si, f));
  }
  void submitWait(VkCommandBuffer cb) {
    submit(cb, fence);
    waitReset(fence);
  }
  void waitReset(VkFence f) {
    VK(vkWaitForFences(dev, 1, &f, VK_TRUE, UINT64_MAX));
    VK(vkResetFences(dev, 1, &f));
  }
  // Everything asked of the driver before this has been carried out when it returns.
  void sync() {
    VK(vkQueueSubmit(queue, 0, nullptr, fence));
    waitReset(fence);
  }
  VkCommandBuffer allocCb(VkCommandPool p) {
    VkCommandBufferAllocateInfo ai{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    ai.commandPool = p;
    ai.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    ai.commandBufferCount = 1;
    VkCommandBuffer cb;
    VK(vkAllocateCommandBuffers(dev, &ai, &cb));
    return cb;
  }
  void begin(VkCommandBuffer cb, VkCommandBufferUsageFlags flags = 0) {
    VkCommandBufferBeginInfo bi{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    bi.flags = flags;
    VK(vkBeginCommandBuffer(cb, &bi));
  }
  template <class F>
  void once(F&& f) {
    VkCommandBuffer cb = allocCb(pool);
    begin(cb, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
    f(cb);
    VK(vkEndCommandBuffer(cb));
    submitWait(cb);
    vkFreeCommandBuffers(dev, pool, 1, &cb);
  }
  uint32_t memType(uint32_t bits, VkMemoryPropertyFlags need, VkMemoryPropertyFlags like = 0) const {
    for (auto f : {need | like, need})
      for (uint32_t i = 0; i < mem.memoryTypeCount; i++)
        if ((bits >> i & 1) && (mem.memoryTypes[i].propertyFlags & f) == f) return i;
    fail("no memory type with flags 0x%x", need);
  }
};

inline constexpr VkMemoryPropertyFlags kHost =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

struct Buf {
  VkBuffer b = VK_NULL_HANDLE;
  VkDeviceMemory m = VK_NULL_HANDLE;
  VkDeviceSize size = 0;
  void* p = nullptr;
  template <class T>
  T* as() const {
    return static_cast<T*>(p);
  }
};

struct Img {
  VkImage i = VK_NULL_HANDLE;
  VkDeviceMemory m = VK_NULL_HANDLE;
  VkImageView v = VK_NULL_HANDLE;
};

// Owns what a case creates; destroys it backwards once the device is idle.
class Bin {
 public:
  explicit Bin(Ctx& c) : c(c) {}
  ~Bin() {
    vkDeviceWaitIdle(c.dev);
    for (auto it = undo_.rbegin(); it != undo_.rend(); ++it) (*it)();
  }
  Bin(const Bin&) = delete;
  void defer(std::function<void()> f) { undo_.push_back(std::move(f)); }

  Buf buffer(VkDeviceSize size, VkBufferUsageFlags usage, VkMemoryPropertyFlags flags, VkMemoryPropertyFlags like = 0) {
    Buf r;
    r.size = size;
    VkBufferCreateInfo ci{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    ci.size = size;
    ci.usage = usage;
    VK(vkCreateBuffer(c.dev, &ci, nullptr, &r.b));
    defer([d = c.dev, b = r.b] { vkDestroyBuffer(d, b, nullptr); });
    VkMemoryRequirements mr;
    vkGetBufferMemoryRequirements(c.dev, r.b, &mr);
    r.m = memory(mr, flags, like);
    VK(vkBindBufferMemory(c.dev, r.b, r.m, 0));
    if (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) VK(vkMapMemory(c.dev, r.m, 0, VK_WHOLE_SIZE, 0, &r.p));
    return r;
  }
  Img image(uint32_t w, uint32_t h, VkFormat fmt, VkImageUsageFlags usage, VkImageAspectFlags aspect,
            bool view = true) {
    Img r;
    VkImageCreateInfo ci{VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
    ci.imageType = VK_IMAGE_TYPE_2D;
    ci.format = fmt;
    ci.extent = {w, h, 1};
    ci.mipLevels = ci.arrayLayers = 1;
    ci.samples = VK_SAMPLE_COUNT_1_BIT;
    ci.tiling = VK_IMAGE_TILING_OPTIMAL;
    ci.usage = usage;
    VK(vkCreateImage(c.dev, &ci, nullptr, &r.i));
    defer([d = c.dev, i = r.i] { vkDestroyImage(d, i, nullptr); });
    VkMemoryRequirements mr;
    vkGetImageMemoryRequirements(c.dev, r.i, &mr);
    r.m = memory(mr, 0, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    VK(vkBindImageMemory(c.dev, r.i, r.m, 0));
    if (!view) return r;
    VkImageViewCreateInfo vi{VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO};
    vi.image = r.i;
    vi.viewType = VK_IMAGE_VIEW_TYPE_2D;
    vi.format = fmt;
    vi.subresourceRange = {aspect, 0, 1, 0, 1};
    VK(vkCreateImageView(c.dev, &vi, nullptr, &r.v));
    defer([d = c.dev, v = r.v] { vkDestroyImageView(d, v, nullptr); });
    return r;
  }
  VkCommandPool commandPool() {
    VkCommandPoolCreateInfo ci{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    ci.queueFamilyIndex = c.family;
    VkCommandPool p;
    VK(vkCreateCommandPool(c.dev, &ci, nullptr, &p));
    defer([d = c.dev, p] { vkDestroyCommandPool(d, p, nullptr); });
    return p;
  }
  VkFence fence(VkFenceCreateFlags flags = 0) {
    VkFenceCreateInfo ci{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    ci.flags = flags;
    VkFence f;
    VK(vkCreateFence(c.dev, &ci, nullptr, &f));
    defer([d = c.dev, f] { vkDestroyFence(d, f, nullptr); });
    return f;
  }
  VkSemaphore timeline() {
    VkSemaphoreTypeCreateInfo t{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
    t.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo ci{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &t};
    VkSemaphore s;
    VK(vkCreateSemaphore(c.dev, &ci, nullptr, &s));
    defer([d = c.dev, s] { vkDestroySemaphore(d, s, nullptr); });
    return s;
  }
  VkSampler sampler() {
    VkSamplerCreateInfo ci{VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO};
    ci.magFilter = ci.minFilter = VK_FILTER_LINEAR;
    ci.maxLod = VK_LOD_CLAMP_NONE;
    VkSampler s;
    VK(vkCreateSampler(c.dev, &ci, nullptr, &s));
    defer([d = c.dev, s] { vkDestroySampler(d, s, nullptr); });
    return s;
  }
  VkDescriptorSetLayout setLayout(const std::vector<VkDescriptorSetLayoutBinding>& b) {
    VkDescriptorSetLayoutCreateInfo ci{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
    ci.bindingCount = uint32_t(b.size());
    ci.pBindings = b.data();
    VkDescriptorSetLayout l;
    VK(vkCreateDescriptorSetLayout(c.dev, &ci, nullptr, &l));
    defer([d = c.dev, l] { vkDestroyDescriptorSetLayout(d, l, nullptr); });
    return l;
  }
  VkDescriptorPool descriptorPool(uint32_t sets, std::vector<VkDescriptorPoolSize> sizes,
                                  VkDescriptorPoolCreateFlags flags = 0) {
    VkDescriptorPoolCreateInfo ci{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    ci.flags = flags;
    ci.maxSets = sets;
    ci.poolSizeCount = uint32_t(sizes.size());
    ci.pPoolSizes = sizes.data();
    VkDescriptorPool p;
    VK(vkCreateDescriptorPool(c.dev, &ci, nullptr, &p));
    defer([d = c.dev, p] { vkDestroyDescriptorPool(d, p, nullptr); });
    return p;
  }
  VkDescriptorSet set(VkDescriptorPool pool, VkDescriptorSetLayout l) {
    VkDescriptorSetAllocateInfo ai{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    ai.descriptorPool = pool;
    ai.descriptorSetCount = 1;
    ai.pSetLayouts = &l;
    VkDescriptorSet s;
    VK(vkAllocateDescriptorSets(c.dev, &ai, &s));
    return s;
  }
  VkPipelineLayout pipelineLayout(VkDescriptorSetLayout l, VkShaderStageFlags pushStages, uint32_t pushBytes) {
    VkPushConstantRange r{pushStages, 0, pushBytes};
    VkPipelineLayoutCreateInfo ci{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    ci.setLayoutCount = 1;
    ci.pSetLayouts = &l;
    ci.pushConstantRangeCount = pushBytes ? 1 : 0;
    ci.pPushConstantRanges = &r;
    VkPipelineLayout p;
    VK(vkCreatePipelineLayout(c.dev, &ci, nullptr, &p));
    defer([d = c.dev, p] { vkDestroyPipelineLayout(d, p, nullptr); });
    return p;
  }
  VkShaderModule shader(const uint32_t* code, size_t bytes) {
    VkShaderModuleCreateInfo ci{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    ci.codeSize = bytes;
    ci.pCode = code;
    VkShaderModule m;
    VK(vkCreateShaderModule(c.dev, &ci, nullptr, &m));
    defer([d = c.dev, m] { vkDestroyShaderModule(d, m, nullptr); });
    return m;
  }
  VkPipeline compute(VkPipelineLayout l, VkShaderModule m) {
    VkComputePipelineCreateInfo ci{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    ci.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
    ci.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    ci.stage.module = m;
    ci.stage.pName = "main";
    ci.layout = l;
    VkPipeline p;
    VK(vkCreateComputePipelines(c.dev, VK_NULL_HANDLE, 1, &ci, nullptr, &p));
    defer([d = c.dev, p] { vkDestroyPipeline(d, p, nullptr); });
    return p;
  }
  VkRenderPass renderPass(VkFormat color, VkFormat depth) {
    std::array<VkAttachmentDescription, 2> a{};
    a[0].format = color;
    a[0].samples = VK_SAMPLE_COUNT_1_BIT;
    a[0].loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR;
    a[0].storeOp = VK_ATTACHMENT_STORE_OP_STORE;
    a[0].stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;
    a[0].stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE;
    a[0].finalLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
    a[1] = a[0];
    a[1].format = depth;
    a[1].storeOp = VK_ATTACHMENT_STORE_OP_DONT_CARE;
    a[1].finalLayout = VK_IMAGE_LAYOUT_DEPTH_STENCIL_ATTACHMENT_OPTIMAL;
    VkAttachmentReference cr{0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkAttachmentReference dr{1, VK_IMAGE_LAYOUT_DEPTH_STENCIL_ATTACHMENT_OPTIMAL};
    VkSubpassDescription sp{};
    sp.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS;
    sp.colorAttachmentCount = 1;
    sp.pColorAttachments = &cr;
    sp.pDepthStencilAttachment = depth ? &dr : nullptr;
    std::array<VkSubpassDependency, 2> dep{};
    const auto draw = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT | VK_PIPELINE_STAGE_EARLY_FRAGMENT_TESTS_BIT |
                      VK_PIPELINE_STAGE_LATE_FRAGMENT_TESTS_BIT;
    const auto drawAccess = VK_ACCESS_COLOR_ATTACHMENT_READ_BIT | VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT |
                            VK_ACCESS_DEPTH_STENCIL_ATTACHMENT_READ_BIT | VK_ACCESS_DEPTH_STENCIL_ATTACHMENT_WRITE_BIT;
    dep[0].srcSubpass = VK_SUBPASS_EXTERNAL;
    dep[0].dstSubpass = 0;
    dep[0].srcStageMask = VK_PIPELINE_STAGE_TRANSFER_BIT | draw;
    dep[0].dstStageMask = draw;
    dep[0].srcAccessMask = VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT | VK_ACCESS_DEPTH_STENCIL_ATTACHMENT_WRITE_BIT;
    dep[0].dstAccessMask = drawAccess;
    dep[1].srcSubpass = 0;
    dep[1].dstSubpass = VK_SUBPASS_EXTERNAL;
    dep[1].srcStageMask = draw;
    dep[1].dstStageMask = VK_PIPELINE_STAGE_TRANSFER_BIT;
    dep[1].srcAccessMask = VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT;
    dep[1].dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT;
    VkRenderPassCreateInfo ci{VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO};
    ci.attachmentCount = depth ? 2 : 1;
    ci.pAttachments = a.data();
    ci.subpassCount = 1;
    ci.pSubpasses = &sp;
    ci.dependencyCount = 2;
    ci.pDependencies = dep.data();
    VkRenderPass rp;
    VK(vkCreateRenderPass(c.dev, &ci, nullptr, &rp));
    defer([d = c.dev, rp] { vkDestroyRenderPass(d, rp, nullptr); });
    return rp;
  }
  VkFramebuffer framebuffer(VkRenderPass rp, std::vector<VkImageView> views, uint32_t w, uint32_t h) {
    VkFramebufferCreateInfo ci{VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO};
    ci.renderPass = rp;
    ci.attachmentCount = uint32_t(views.size());
    ci.pAttachments = views.data();
    ci.width = w;
    ci.height = h;
    ci.layers = 1;
    VkFramebuffer f;
    VK(vkCreateFramebuffer(c.dev, &ci, nullptr, &f));
    defer([d = c.dev, f] { vkDestroyFramebuffer(d, f, nullptr); });
    return f;
  }

  Ctx& c;

 private:
  VkDeviceMemory memory(const VkMemoryRequirements& mr, VkMemoryPropertyFlags need, VkMemoryPropertyFlags like) {
    VkMemoryAllocateInfo ai{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    ai.allocationSize = mr.size;
    ai.memoryTypeIndex = c.memType(mr.memoryTypeBits, need, like);
    VkDeviceMemory m;
    VK(vkAllocateMemory(c.dev, &ai, nullptr, &m));
    defer([d = c.dev, m] { vkFreeMemory(d, m, nullptr); });
    return m;
  }
  std::vector<std::function<void()>> undo_;
};

}  // namespace vkbench

#endif  // SLUICE_BENCH_VULKAN_DEVICE_H_
