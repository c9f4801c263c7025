#include "gpu-domain/exec/testing/fake_driver.h"

#include "gpu-domain/exec/testing/fake_support.h"

namespace sluice::exec::testing {

uint64_t FakeLive() {
  uint64_t live = 0;
  for (const auto& [handle, type] : Live()) {
    live += type != ObjectType::kDescriptorSet && type != ObjectType::kQueue && type != ObjectType::kPhysicalDevice;
  }
  return live;
}

uint64_t FakeCalls() {
  return Calls();
}

void FakeReset() {
  Live().clear();
}

}  // namespace sluice::exec::testing
