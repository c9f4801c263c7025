#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/scenes/compute_scene.h"
#include "tests/scenes/native.h"
#include "tests/scenes/triangle_scene.h"

namespace sluice::scenes {
namespace {

TEST(Turn, IsTheUnitCircleInSixtySteps) {
  for (uint32_t frame = 0; frame < 2 * kTriangleTurnFrames; frame++) {
    const Turn turn = TurnOfFrame(frame);
    const double angle = 2 * M_PI * frame / kTriangleTurnFrames;
    EXPECT_NEAR(turn.cosine, std::cos(angle), 1e-7) << frame;
    EXPECT_NEAR(turn.sine, std::sin(angle), 1e-7) << frame;
  }
}

TEST(Turn, QuarterTurnsAreExact) {
  EXPECT_EQ(TurnOfFrame(0).cosine, 1.0f);
  EXPECT_EQ(TurnOfFrame(0).sine, 0.0f);
  EXPECT_EQ(TurnOfFrame(15).cosine, 0.0f);
  EXPECT_EQ(TurnOfFrame(15).sine, 1.0f);
  EXPECT_EQ(TurnOfFrame(45).sine, -1.0f);
}

class NativeScene : public testing::Test {
 protected:
  void SetUp() override {
    SceneDevice device;
    if (!device.Open({}).ok()) GTEST_SKIP() << "no Vulkan device on this machine";
  }
};

TEST_F(NativeScene, EveryFrameIsATriangleAndNoTwoAreAlike) {
  auto triangle = NativeTriangle::Create(64);
  ASSERT_TRUE(triangle.ok()) << triangle.status();
  std::set<std::vector<uint8_t>> seen;
  for (uint32_t frame = 0; frame < kTriangleTurnFrames; frame++) {
    auto picture = (*triangle)->Frame(frame);
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_STREQ(CheckTriangle(picture->data(), 64), nullptr) << "frame " << frame;
    seen.insert(*std::move(picture));
  }
  EXPECT_EQ(seen.size(), kTriangleTurnFrames);
}

TEST_F(NativeScene, TheSameFrameDrawnTwiceIsTheSameBytes) {
  auto first = RenderTriangleFrame(7);
  auto second = RenderTriangleFrame(7 + kTriangleTurnFrames);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*first, *second);
}

TEST_F(NativeScene, SaxpyIsExact) {
  auto picture = RenderComputePicture(1 << 16, 64);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_EQ(picture->size(), 4u * 64 * 64);
}

TEST(CheckTriangleTest, SeesWhatIsWrong) {
  std::vector<uint8_t> rgba(4 * 64 * 64, 0);
  EXPECT_STREQ(CheckTriangle(rgba.data(), 64), "a corner does not have the colour of the ground");
  for (size_t i = 0; i < rgba.size(); i += 4) {
    rgba[i] = 16, rgba[i + 1] = 32, rgba[i + 2] = 48, rgba[i + 3] = 255;
  }
  EXPECT_STREQ(CheckTriangle(rgba.data(), 64), "the centre is not the mean of the corners' colours");
  uint8_t* centre = &rgba[4 * (32 * 64 + 32)];
  centre[0] = centre[1] = centre[2] = 85;
  EXPECT_STREQ(CheckTriangle(rgba.data(), 64), "the triangle covers the wrong number of pixels");
  rgba[4 * 100 + 3] = 254;
  EXPECT_STREQ(CheckTriangle(rgba.data(), 64), "a pixel is not opaque");
}

}  // namespace
}  // namespace sluice::scenes
