// The wire, both ways, on the driver of this machine: plain Vulkan code through the guest's encoders, a ring, the
// executor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu-domain/exec/testing/guest_program.h"
#include "gpu-domain/exec/testing/harness.h"

namespace sluice::exec {
namespace {

using testing::DrawTriangle;
using testing::GuestBuffer;
using testing::GuestDevice;
using testing::Harness;
using testing::RunCompute;

class ExecTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Harness::HaveDriver()) GTEST_SKIP() << "no Vulkan driver";
  }
};

TEST_F(ExecTest, ComputeResultsArriveInTheGuestsMemory) {
  Harness h;
  GuestDevice d;
  ASSERT_TRUE(d.ok) << h.status();
  const std::vector<uint32_t> out = RunCompute(d, 1000, 256);
  for (uint32_t i = 0; i < out.size(); i++) ASSERT_EQ(out[i], 1000 + 3 * i) << h.status();
  d.Destroy();
  h.Pump();
  EXPECT_EQ(h.status(), absl::OkStatus());
  EXPECT_EQ(h.context().objects(), 0u);
  EXPECT_EQ(h.channel().ids().live(), 0u);
  EXPECT_EQ(h.policy().memories, 0);
  EXPECT_EQ(h.policy().devices, 0);
}

TEST_F(ExecTest, ATriangleIsDrawn) {
  Harness h;
  GuestDevice d;
  ASSERT_TRUE(d.ok) << h.status();
  const std::vector<uint32_t> pixels = DrawTriangle(d);
  EXPECT_EQ(h.status(), absl::OkStatus());
  EXPECT_EQ(pixels[0], 0xff330000u) << "the clear color, in a corner";
  const uint32_t middle = pixels[40 * 64 + 32];
  EXPECT_GT(middle & 0xff, 20u);
  EXPECT_GT(middle >> 8 & 0xff, 20u);
  EXPECT_GT(middle >> 16 & 0xff, 20u);
  d.Destroy();
  h.Pump();
  EXPECT_EQ(h.context().objects(), 0u);
  EXPECT_EQ(h.channel().ids().live(), 0u);
}

}  // namespace
}  // namespace sluice::exec
