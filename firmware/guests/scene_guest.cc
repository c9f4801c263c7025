#include "firmware/guests/scene_guest.h"

#include "firmware/lib/runtime.h"
#include "firmware/lib/serial.h"

namespace sluice::firmware {

SceneGuest::SceneGuest(const char* name) : vulkan_(&gpu_) {
  if (!gpu_.Open()) Fail(ExitCode::kNoDevice, "no virtio-gpu device");
  if (!vulkan_.Open({.name = name})) {
    // Without a GPU Domain, or with one that is gone.
    Fail(gpu_.dead() ? ExitCode::kDeviceLost : ExitCode::kNoDevice, "%s", vulkan_.error());
  }
  Require(device_.Open({}));
  Print("%s: %s, domain %s (%s)\n", name, device_.properties().deviceName, vulkan_.capset().domain_name,
        vulkan_.capset().os_type);
}

void SceneGuest::Require(const scenes::SceneStatus& status) {
  if (status.ok()) return;
  const bool lost = vulkan_.channel().lost() || gpu_.dead() || status.result == VK_ERROR_DEVICE_LOST;
  const uint32_t reason = vulkan_.ring_header()->status.load(std::memory_order_acquire);
  Fail(lost ? ExitCode::kDeviceLost : ExitCode::kCheckFailed, "%s: VkResult %d, context status %u", status.what,
       static_cast<int>(status.result), reason);
}

void SceneGuest::Require(GpuResult result, const char* what) {
  if (result == GpuResult::kOk) return;
  Fail(result == GpuResult::kDead ? ExitCode::kDeviceLost : ExitCode::kCheckFailed, "%s: %s", what,
       GpuResultName(result));
}

}  // namespace sluice::firmware
