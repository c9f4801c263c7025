#include "tests/scenes/native.h"

#include "absl/strings/str_cat.h"
#include "tests/scenes/compute_scene.h"
#include "vmm/base/status_macros.h"

namespace sluice::scenes {
namespace {

absl::Status ToStatus(const SceneStatus& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat(status.what, ": VkResult ", static_cast<int>(status.result));
  if (status.result == VK_ERROR_INITIALIZATION_FAILED || status.result == VK_ERROR_INCOMPATIBLE_DRIVER) {
    return absl::NotFoundError(message);
  }
  return absl::InternalError(message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NativeTriangle>> NativeTriangle::Create(uint32_t size, const std::string& device_name) {
  std::unique_ptr<NativeTriangle> triangle(new NativeTriangle);
  SLUICE_RETURN_IF_ERROR(
      ToStatus(triangle->device_.Open({.device_name = device_name.empty() ? nullptr : device_name.c_str()})));
  SLUICE_RETURN_IF_ERROR(ToStatus(triangle->scene_.Create(&triangle->device_, size)));
  return triangle;
}

absl::StatusOr<std::vector<uint8_t>> NativeTriangle::Frame(uint32_t frame) {
  SLUICE_RETURN_IF_ERROR(ToStatus(scene_.Render(frame)));
  return std::vector<uint8_t>(scene_.pixels(), scene_.pixels() + scene_.bytes());
}

absl::StatusOr<std::vector<uint8_t>> RenderTriangleFrame(uint32_t frame, uint32_t size) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<NativeTriangle> triangle, NativeTriangle::Create(size));
  return triangle->Frame(frame);
}

absl::StatusOr<std::vector<uint8_t>> RenderComputePicture(uint32_t count, uint32_t size) {
  SceneDevice device;
  SLUICE_RETURN_IF_ERROR(ToStatus(device.Open({})));
  ComputeScene scene;
  SLUICE_RETURN_IF_ERROR(ToStatus(scene.Create(&device, count)));
  SLUICE_RETURN_IF_ERROR(ToStatus(scene.Run()));
  const uint32_t wrong = scene.FirstWrong();
  if (wrong != count) {
    return absl::InternalError(
        absl::StrCat("result ", wrong, " is ", scene.result(wrong), ", not ", ComputeScene::Expected(wrong)));
  }
  std::vector<uint8_t> rgba(size_t{4} * size * size);
  scene.Paint(rgba.data(), size);
  return rgba;
}

}  // namespace sluice::scenes
