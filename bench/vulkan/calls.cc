// What single calls cost: startup, queries, round trips, polling.
#include "bench/vulkan/cases.h"
#include "bench/vulkan/pipeline.h"
#include "bench/vulkan/shaders.h"

namespace vkbench {

void caseStartup(Ctx*, Report& r) {
  static bool cold = true;
  const std::string name = cold ? "startup/cold/" : "startup/warm/";
  cold = false;
  double a = nowNs();
  VkInstance inst = makeInstance();
  double b = nowNs();
  VkPhysicalDevice pd = pickDevice(inst);
  double e = nowNs();
  uint32_t n = 0;
  VK(vkEnumerateDeviceExtensionProperties(pd, nullptr, &n, nullptr));
  std::vector<VkExtensionProperties> ext(n);
  VK(vkEnumerateDeviceExtensionProperties(pd, nullptr, &n, ext.data()));
  uint32_t family = pickFamily(pd);
  double f = nowNs();
  VkDevice dev = makeDevice(pd, family);
  VkQueue q;
  vkGetDeviceQueue(dev, family, 0, &q);
  double g = nowNs();
  VK(vkQueueWaitIdle(q));
  double h = nowNs();
  vkDestroyDevice(dev, nullptr);
  double i = nowNs();
  vkDestroyInstance(inst, nullptr);
  double j = nowNs();
  r.add(name + "instance", (b - a) / 1e6, "ms");
  r.add(name + "enumerate", (e - b) / 1e6, "ms");
  r.add(name + "extensions+families", (f - e) / 1e6, "ms");
  r.add(name + "device", (g - f) / 1e6, "ms");
  r.add(name + "first_idle", (h - g) / 1e6, "ms");
  r.add(name + "total", (h - a) / 1e6, "ms");
  r.add(name + "destroy_device", (i - h) / 1e6, "ms");
  r.add(name + "destroy_instance", (j - i) / 1e6, "ms");
}

void caseQuery(Ctx& c, Report& r) {
  timeEach(r, "query/properties2", 1000, [&] {
    VkPhysicalDeviceVulkan12Properties p12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
    VkPhysicalDeviceVulkan11Properties p11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES, &p12};
    VkPhysicalDeviceProperties2 p{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &p11};
    vkGetPhysicalDeviceProperties2(c.pd, &p);
    if (p.properties.apiVersion < VK_API_VERSION_1_2 || !p11.maxMemoryAllocationSize || !p12.driverID)
      fail("implausible device properties");
  });
  timeEach(r, "query/features2", 1000, [&] {
    VkPhysicalDeviceVulkan12Features f12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features f11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &f12};
    VkPhysicalDeviceFeatures2 f{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &f11};
    vkGetPhysicalDeviceFeatures2(c.pd, &f);
    if (!f12.timelineSemaphore) fail("timelineSemaphore is gone");
  });
  timeEach(r, "query/memory", 1000, [&] {
    VkPhysicalDeviceMemoryProperties2 m{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    vkGetPhysicalDeviceMemoryProperties2(c.pd, &m);
    if (!m.memoryProperties.memoryTypeCount) fail("no memory types");
  });
  timeEach(r, "query/queue_families", 1000, [&] {
    uint32_t n = 0;
    vkGetPhysicalDeviceQueueFamilyProperties2(c.pd, &n, nullptr);
    if (!n) fail("no queue families");
  });
  int formats = 0;
  timeEach(
      r, "query/format_properties", 20,
      [&] {
        formats = 0;
        for (int f = VK_FORMAT_R8_UNORM; f < VK_FORMAT_R8_UNORM + 100; f++) {
          VkFormatProperties2 p{VK_STRUCTURE_TYPE_FORMAT_PROPERTIES_2};
          vkGetPhysicalDeviceFormatProperties2(c.pd, VkFormat(f), &p);
          formats += (p.formatProperties.optimalTilingFeatures & VK_FORMAT_FEATURE_SAMPLED_IMAGE_BIT) != 0;
        }
      },
      "us/100 formats");
  if (formats < 20) fail("only %d of 100 formats can be sampled", formats);
  timeEach(r, "query/image_format", 500, [&] {
    VkPhysicalDeviceImageFormatInfo2 i{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_FORMAT_INFO_2};
    i.format = VK_FORMAT_R8G8B8A8_UNORM;
    i.type = VK_IMAGE_TYPE_2D;
    i.tiling = VK_IMAGE_TILING_OPTIMAL;
    i.usage = VK_IMAGE_USAGE_SAMPLED_BIT;
    VkImageFormatProperties2 p{VK_STRUCTURE_TYPE_IMAGE_FORMAT_PROPERTIES_2};
    VK(vkGetPhysicalDeviceImageFormatProperties2(c.pd, &i, &p));
    if (p.imageFormatProperties.maxExtent.width < 4096) fail("implausible image limits");
  });
  timeEach(r, "query/external_buffer", 500, [&] {
    VkPhysicalDeviceExternalBufferInfo i{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO};
    i.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
    i.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
    VkExternalBufferProperties p{VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
    vkGetPhysicalDeviceExternalBufferProperties(c.pd, &i, &p);
  });
}

void caseSubmit(Ctx& c, Report& r) {
  Bin bin(c);
  VkCommandPool pool = bin.commandPool();
  VkCommandBuffer cb = c.allocCb(pool);
  c.begin(cb);
  VK(vkEndCommandBuffer(cb));
  VkFence f = bin.fence();
  const int n = 2000;
  for (int kind = 0; kind < 3; kind++) {
    static const char* names[] = {"submit/nothing", "submit/empty_cb", "submit/empty_cb_waitidle"};
    std::vector<double> us, sub;
    for (int i = -100; i < n; i++) {
      double t = nowNs();
      VkSubmitInfo si{VK_STRUCTURE_TYPE_SUBMIT_INFO};
      si.commandBufferCount = 1;
      si.pCommandBuffers = &cb;
      VK(vkQueueSubmit(c.queue, kind ? 1 : 0, kind ? &si : nullptr, kind == 2 ? VK_NULL_HANDLE : f));
      double s = nowNs();
      if (kind == 2)
        VK(vkQueueWaitIdle(c.queue));
      else
        VK(vkWaitForFences(c.dev, 1, &f, VK_TRUE, UINT64_MAX));
      double e = nowNs();
      if (kind != 2) {
        if (vkGetFenceStatus(c.dev, f) != VK_SUCCESS) fail("fence is not signaled after the wait");
        VK(vkResetFences(c.dev, 1, &f));
      }
      if (i >= 0) {
        us.push_back((e - t) / 1e3);
        sub.push_back((s - t) / 1e3);
      }
    }
    addPercentiles(r, names[kind], us);
    r.add(std::string(names[kind]) + "/submit_call", median(sub), "us");
  }
}

void caseTimeline(Ctx& c, Report& r) {
  Bin bin(c);
  VkSemaphore sem = bin.timeline();
  uint64_t value = 0;
  auto waitFor = [&](uint64_t v) {
    VkSemaphoreWaitInfo w{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
    w.semaphoreCount = 1;
    w.pSemaphores = &sem;
    w.pValues = &v;
    VK(vkWaitSemaphores(c.dev, &w, UINT64_MAX));
  };
  auto expect = [&](uint64_t v) {
    uint64_t got = 0;
    VK(vkGetSemaphoreCounterValue(c.dev, sem, &got));
    if (got != v) fail("timeline is at %llu, not %llu", (unsigned long long)got, (unsigned long long)v);
  };
  auto submit = [&](uint64_t waitValue, uint64_t signalValue) {
    VkTimelineSemaphoreSubmitInfo t{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkSubmitInfo si{VK_STRUCTURE_TYPE_SUBMIT_INFO, &t};
    if (waitValue) {
      t.waitSemaphoreValueCount = 1;
      t.pWaitSemaphoreValues = &waitValue;
      si.waitSemaphoreCount = 1;
      si.pWaitSemaphores = &sem;
      si.pWaitDstStageMask = &stage;
    }
    t.signalSemaphoreValueCount = 1;
    t.pSignalSemaphoreValues = &signalValue;
    si.signalSemaphoreCount = 1;
    si.pSignalSemaphores = &sem;
    VK(vkQueueSubmit(c.queue, 1, &si, VK_NULL_HANDLE));
  };
  std::vector<double> us;
  for (int i = -100; i < 2000; i++) {
    double t = nowNs();
    submit(0, ++value);
    waitFor(value);
    if (i >= 0) us.push_back((nowNs() - t) / 1e3);
    expect(value);
  }
  addPercentiles(r, "timeline/queue_signal_host_wait", us);
  us.clear();
  // The queue waits for the host's signal and answers with its own.
  for (int i = -100; i < 1000; i++) {
    double t = nowNs();
    submit(value + 1, value + 2);
    VkSemaphoreSignalInfo s{VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO};
    s.semaphore = sem;
    s.value = value + 1;
    VK(vkSignalSemaphore(c.dev, &s));
    value += 2;
    waitFor(value);
    if (i >= 0) us.push_back((nowNs() - t) / 1e3);
    expect(value);
  }
  addPercentiles(r, "timeline/host_signal_queue_answer", us);
  us.clear();
  for (int i = -100; i < 2000; i++) {
    double t = nowNs();
    VkSemaphoreSignalInfo s{VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO};
    s.semaphore = sem;
    s.value = ++value;
    VK(vkSignalSemaphore(c.dev, &s));
    waitFor(value);
    if (i >= 0) us.push_back((nowNs() - t) / 1e3);
    expect(value);
  }
  addPercentiles(r, "timeline/host_signal_host_wait", us);
}

void casePoll(Ctx& c, Report& r) {
  Bin bin(c);
  const int n = 20000;
  VkFence idle = bin.fence(), done = bin.fence(), preset = bin.fence(VK_FENCE_CREATE_SIGNALED_BIT);
  VK(vkQueueSubmit(c.queue, 0, nullptr, done));
  VK(vkWaitForFences(c.dev, 1, &done, VK_TRUE, UINT64_MAX));
  auto poll = [&](const char* name, VkFence f, VkResult want) {
    timeEach(
        r, name, n,
        [&] {
          VkResult got = vkGetFenceStatus(c.dev, f);
          if (got != want) fail("%s: status %d", name, int(got));
        },
        "ns");
  };
  poll("poll/fence_unsignaled", idle, VK_NOT_READY);
  poll("poll/fence_signaled_by_queue", done, VK_SUCCESS);
  poll("poll/fence_created_signaled", preset, VK_SUCCESS);
  timeEach(
      r, "poll/wait_fence_timeout_0", n,
      [&] {
        if (vkWaitForFences(c.dev, 1, &idle, VK_TRUE, 0) != VK_TIMEOUT) fail("a wait with timeout 0 did not time out");
      },
      "ns");

  VkEventCreateInfo eci{VK_STRUCTURE_TYPE_EVENT_CREATE_INFO};
  VkEvent ev;
  VK(vkCreateEvent(c.dev, &eci, nullptr, &ev));
  bin.defer([dev = c.dev, ev] { vkDestroyEvent(dev, ev, nullptr); });
  timeEach(
      r, "poll/event_reset", 2000,
      [&] {
        if (vkGetEventStatus(c.dev, ev) != VK_EVENT_RESET) fail("a new event is set");
      },
      "ns");
  c.once([&](VkCommandBuffer cb) { vkCmdSetEvent(cb, ev, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT); });
  timeEach(
      r, "poll/event_set_by_queue", 2000,
      [&] {
        if (vkGetEventStatus(c.dev, ev) != VK_EVENT_SET) fail("the queue's vkCmdSetEvent is not seen");
      },
      "ns");
  timeEach(
      r, "poll/event_host_set_get_reset", 500,
      [&] {
        VK(vkSetEvent(c.dev, ev));
        if (vkGetEventStatus(c.dev, ev) != VK_EVENT_SET) fail("vkSetEvent is not seen");
        VK(vkResetEvent(c.dev, ev));
      },
      "ns");

  VkSemaphore sem = bin.timeline();
  timeEach(
      r, "poll/timeline_counter", n,
      [&] {
        uint64_t v = 1;
        VK(vkGetSemaphoreCounterValue(c.dev, sem, &v));
        if (v) fail("a new timeline is not at 0");
      },
      "ns");

  VkQueryPoolCreateInfo qci{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
  const uint32_t q = 64;
  qci.queryType = c.props.limits.timestampComputeAndGraphics ? VK_QUERY_TYPE_TIMESTAMP : VK_QUERY_TYPE_OCCLUSION;
  qci.queryCount = q;
  VkQueryPool qp;
  VK(vkCreateQueryPool(c.dev, &qci, nullptr, &qp));
  bin.defer([dev = c.dev, qp] { vkDestroyQueryPool(dev, qp, nullptr); });
  c.once([&](VkCommandBuffer cb) { vkCmdResetQueryPool(cb, qp, 0, q); });
  uint64_t res[q * 2]{};
  timeEach(
      r, "poll/query_unavailable", 5000,
      [&] {
        VkResult got = vkGetQueryPoolResults(c.dev, qp, 0, 1, 8, res, 8, VK_QUERY_RESULT_64_BIT);
        if (got != VK_NOT_READY) fail("a reset query answers %d", int(got));
      },
      "ns");
  if (qci.queryType == VK_QUERY_TYPE_TIMESTAMP) {
    c.once([&](VkCommandBuffer cb) {
      for (uint32_t i = 0; i < q; i++) vkCmdWriteTimestamp(cb, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, qp, i);
    });
    timeEach(
        r, "poll/query_1", 5000, [&] { VK(vkGetQueryPoolResults(c.dev, qp, 0, 1, 8, res, 8, VK_QUERY_RESULT_64_BIT)); },
        "ns");
    timeEach(
        r, "poll/query_64", 1000,
        [&] {
          VK(vkGetQueryPoolResults(c.dev, qp, 0, q, sizeof res, res, 16,
                                   VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT));
        },
        "ns");
    for (uint32_t i = 0; i < q; i++)
      if (!res[i * 2 + 1] || (i && res[i * 2] < res[i * 2 - 2])) fail("timestamp %u is missing or runs backwards", i);
  }
}

}  // namespace vkbench
