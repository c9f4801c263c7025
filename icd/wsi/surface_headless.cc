// Surfaces without a window: frames are dropped, at the pace of a 60 Hz display.
#include "icd/wsi/surface.h"

namespace sluice::wsi {
namespace {

class HeadlessSurface : public Surface {
 public:
  VkResult Extent(VkExtent2D* extent) override {
    *extent = {kAnyExtent, kAnyExtent};
    return VK_SUCCESS;
  }
  VkCompositeAlphaFlagsKHR Alpha() override {
    return VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR | VK_COMPOSITE_ALPHA_PRE_MULTIPLIED_BIT_KHR |
           VK_COMPOSITE_ALPHA_INHERIT_BIT_KHR;
  }
  VkResult NewPresenter(const PresenterOptions& options, std::unique_ptr<Presenter>* presenter) override;

  std::function<void(const HeadlessFrame&)> sink;
};

class HeadlessPresenter : public Presenter {
 public:
  HeadlessPresenter(const PresenterOptions& options, std::function<void(const HeadlessFrame&)> sink)
      : options_(options), sink_(std::move(sink)) {}

  int64_t NextTurn(int64_t last, bool relaxed) override { return clock_.Turn(last, MonotonicNow(), relaxed); }
  VkResult Show(const Frame& frame, const std::function<void()>& released) override {
    if (sink_) sink_({frame.pixels, options_.extent.width, options_.extent.height, options_.format});
    released();
    return VK_SUCCESS;
  }

 private:
  const PresenterOptions options_;
  const std::function<void(const HeadlessFrame&)> sink_;
  VblankClock clock_{MonotonicNow()};
};

VkResult HeadlessSurface::NewPresenter(const PresenterOptions& options, std::unique_ptr<Presenter>* presenter) {
  *presenter = std::make_unique<HeadlessPresenter>(options, sink);
  return VK_SUCCESS;
}

}  // namespace

VkResult CreateHeadlessSurface(const VkHeadlessSurfaceCreateInfoEXT& /*info*/, VkSurfaceKHR* surface) {
  *surface = SurfaceHandle(new HeadlessSurface);
  return VK_SUCCESS;
}

void SetHeadlessSink(VkSurfaceKHR surface, std::function<void(const HeadlessFrame&)> sink) {
  static_cast<HeadlessSurface*>(SurfaceOf(surface))->sink = std::move(sink);
}

}  // namespace sluice::wsi
