#include "devices/gpu-front/resources.h"

#include <utility>

#include "vmm/base/status_macros.h"

namespace sluice::gpu_front {

Resource* ResourceTable::Find(uint32_t id) {
  const auto it = resources_.find(id);
  return it == resources_.end() ? nullptr : it->second.get();
}

const Resource* ResourceTable::Find(uint32_t id) const {
  const auto it = resources_.find(id);
  return it == resources_.end() ? nullptr : it->second.get();
}

absl::Status ResourceTable::CheckNew(uint32_t id) const {
  if (id == 0 || resources_.contains(id)) return absl::AlreadyExistsError("resource id is 0 or taken");
  if (resources_.size() >= limits_.max_resources) return absl::ResourceExhaustedError("too many resources");
  return absl::OkStatus();
}

absl::StatusOr<Resource*> ResourceTable::Create2d(uint32_t id, Format format, uint32_t width, uint32_t height) {
  SLUICE_RETURN_IF_ERROR(CheckNew(id));
  if (width > limits_.max_image_side || height > limits_.max_image_side) {
    return absl::ResourceExhaustedError("image side over the limit");
  }
  // Sides are capped (a configuration cap of at most 2^20 or so), so this does not wrap.
  const uint64_t bytes = uint64_t{width} * height * kBytesPerPixel;
  if (bytes > limits_.max_image_bytes || bytes > limits_.max_host_image_bytes - host_image_bytes_) {
    return absl::ResourceExhaustedError("image bytes over the limit");
  }
  absl::StatusOr<Mapping> pixels = Mapping::MapAnonymous(bytes);
  if (!pixels.ok()) return absl::ResourceExhaustedError(pixels.status().message());
  auto resource = std::make_unique<Resource>();
  resource->id = id;
  resource->kind = ResourceKind::k2d;
  resource->format = static_cast<uint32_t>(format);
  resource->width = width;
  resource->height = height;
  resource->pixels = *std::move(pixels);
  resource->bytes = bytes;
  host_image_bytes_ += bytes;
  return resources_.emplace(id, std::move(resource)).first->second.get();
}

absl::StatusOr<Resource*> ResourceTable::CreateBlob(uint32_t id, ResourceKind kind, uint64_t bytes, uint32_t flags) {
  SLUICE_RETURN_IF_ERROR(CheckNew(id));
  if (bytes > limits_.max_blob_bytes) return absl::ResourceExhaustedError("blob over the limit");
  auto resource = std::make_unique<Resource>();
  resource->id = id;
  resource->kind = kind;
  resource->bytes = bytes;
  resource->blob_flags = flags;
  return resources_.emplace(id, std::move(resource)).first->second.get();
}

absl::Status ResourceTable::Attach(Resource* resource, Backing backing) {
  if (backing.pieces() > limits_.max_backing_pieces - backing_pieces_) {
    return absl::ResourceExhaustedError("too many pieces of backing");
  }
  backing_pieces_ += backing.pieces();
  resource->backing = std::move(backing);
  return absl::OkStatus();
}

void ResourceTable::Detach(Resource* resource) {
  if (!resource->backing.has_value()) return;
  backing_pieces_ -= resource->backing->pieces();
  resource->backing.reset();
}

void ResourceTable::Remove(uint32_t id) {
  const auto it = resources_.find(id);
  if (it == resources_.end()) return;
  Detach(it->second.get());
  if (it->second->kind == ResourceKind::k2d) host_image_bytes_ -= it->second->bytes;
  resources_.erase(it);
}

void ResourceTable::Clear() {
  resources_.clear();
  host_image_bytes_ = 0;
  backing_pieces_ = 0;
}

}  // namespace sluice::gpu_front
