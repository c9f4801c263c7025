// Commands that the device carries out alone: 2D resources, backing, scanouts, cursor, display information.
#include <sys/random.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/gpu-front/control.h"
#include "devices/gpu-front/edid.h"
#include "vmm/base/checked.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::gpu_front {
namespace {

template <typename T>
std::vector<uint8_t> BytesOf(const T& value) {
  std::vector<uint8_t> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// Bytes from the first byte of a picture's first row to the last byte of its last; nullopt on wrap.
std::optional<uint64_t> PictureSpan(uint32_t width, uint32_t height, uint32_t stride) {
  const auto rows = CheckedMul<uint64_t>(height - 1, stride);
  if (!rows.has_value()) return std::nullopt;
  return CheckedAdd<uint64_t>(*rows, uint64_t{width} * kBytesPerPixel);
}

}  // namespace

Control::Outcome Control::On(const Malformed& c) {
  SLUICE_LOG_GUEST(warn, "virtio-gpu: refused: {} (type {:#x})", c.why, current_.header.type);
  return Error(c.response);
}

Control::Outcome Control::On(const GetDisplayInfoCmd&) {
  RespDisplayInfo info{};
  for (uint32_t i = 0; i < scanouts_.count(); ++i) {
    info.pmodes[i].r = {0, 0, width_, height_};
    info.pmodes[i].enabled = 1;
  }
  return Response{ResponseType::kOkDisplayInfo, BytesOf(info)};
}

Control::Outcome Control::On(const GetEdid& c) {
  if (!Negotiated(kFeatureEdid)) return Error(ResponseType::kErrUnspec);
  if (c.scanout >= scanouts_.count()) return Error(ResponseType::kErrInvalidScanoutId);
  RespEdid edid{};
  const auto block = MakeEdid(width_, height_);
  edid.size = block.size();
  std::memcpy(edid.edid, block.data(), block.size());
  return Response{ResponseType::kOkEdid, BytesOf(edid)};
}

Control::Outcome Control::On(const ResourceCreate2d& c) {
  if (!IsKnownFormat(c.format) || c.width == 0 || c.height == 0) {
    // The id is looked at first: a driver bug there is the more telling one.
    if (c.resource_id == 0 || resources_.Find(c.resource_id) != nullptr)
      return Error(ResponseType::kErrInvalidResourceId);
    return Error(ResponseType::kErrInvalidParameter);
  }
  return Error(
      ToResponse(resources_.Create2d(c.resource_id, static_cast<Format>(c.format), c.width, c.height).status()));
}

Control::Outcome Control::On(const ResourceUnrefCmd& c) {
  Resource* resource = resources_.Find(c.resource_id);
  if (resource == nullptr) return Error(ResponseType::kErrInvalidResourceId);
  if (resource->kind == ResourceKind::kHostBlob && resource->state == HostBlobState::kPending) {
    AbandonBlob(c.resource_id, ResponseType::kErrInvalidResourceId);
  } else {
    RemoveResource(c.resource_id);
  }
  return Response{};
}

Control::Outcome Control::On(const AttachBackingCmd& c) {
  Resource* resource = resources_.Find(c.resource_id);
  if (resource == nullptr) return Error(ResponseType::kErrInvalidResourceId);
  if (resource->kind == ResourceKind::kHostBlob || c.entries.empty()) return Error(ResponseType::kErrInvalidParameter);
  if (resource->backing.has_value()) return Error(ResponseType::kErrUnspec);
  absl::StatusOr<Backing> backing = Backing::Create(ram_, c.entries);
  if (!backing.ok()) return Error(ToResponse(backing.status()));
  if (resource->kind == ResourceKind::kGuestBlob && backing->size() < resource->bytes) {
    return Error(ResponseType::kErrInvalidParameter);
  }
  return Error(ToResponse(resources_.Attach(resource, *std::move(backing))));
}

Control::Outcome Control::On(const DetachBackingCmd& c) {
  Resource* resource = resources_.Find(c.resource_id);
  if (resource == nullptr) return Error(ResponseType::kErrInvalidResourceId);
  if (!resource->backing.has_value()) return Error(ResponseType::kErrUnspec);
  resources_.Detach(resource);
  return Response{};
}

Control::Outcome Control::On(const TransferToHost2d& c) {
  Resource* resource = resources_.Find(c.resource_id);
  if (resource == nullptr) return Error(ResponseType::kErrInvalidResourceId);
  if (resource->kind != ResourceKind::k2d || !RectFits(c.r, resource->width, resource->height)) {
    return Error(ResponseType::kErrInvalidParameter);
  }
  if (!resource->backing.has_value()) return Error(ResponseType::kErrUnspec);
  const uint32_t stride = resource->width * kBytesPerPixel;
  const auto span = PictureSpan(c.r.width, c.r.height, stride);
  if (!span.has_value() || !RangeFits(c.offset, *span, resource->backing->size())) {
    return Error(ResponseType::kErrInvalidParameter);
  }
  uint8_t* to = resource->pixels.data() + (uint64_t{c.r.y} * resource->width + c.r.x) * kBytesPerPixel;
  // Whole rows lie one after the other on both sides: one copy.
  if (c.r.width == resource->width) {
    return Error(ToResponse(resource->backing->CopyOut(ram_, c.offset, {to, static_cast<size_t>(*span)})));
  }
  for (uint32_t row = 0; row < c.r.height; ++row) {
    const absl::Status copied =
        resource->backing->CopyOut(ram_, c.offset + uint64_t{row} * stride, {to, size_t{c.r.width} * kBytesPerPixel});
    if (!copied.ok()) return Error(ToResponse(copied));
    to += stride;
  }
  return Response{};
}

Control::Outcome Control::DisableScanout(uint32_t scanout_id) {
  if (scanout_id == 0) KeepPicture();
  scanouts_.Disable(scanout_id);
  return Response{};
}

Control::Outcome Control::On(const SetScanout& c) {
  if (c.scanout_id >= scanouts_.count()) return Error(ResponseType::kErrInvalidScanoutId);
  if (c.resource_id == 0) return DisableScanout(c.scanout_id);
  const Resource* resource = resources_.Find(c.resource_id);
  if (resource == nullptr) return Error(ResponseType::kErrInvalidResourceId);
  if (resource->kind != ResourceKind::k2d || !RectFits(c.r, resource->width, resource->height)) {
    return Error(ResponseType::kErrInvalidParameter);
  }
  scanouts_.Bind(c.scanout_id, {.resource_id = resource->id,
                                .rect = c.r,
                                .width = resource->width,
                                .height = resource->height,
                                .format = resource->format,
                                .stride = resource->width * kBytesPerPixel,
                                .offset = 0});
  return Response{};
}

Control::Outcome Control::On(const SetScanoutBlob& c) {
  if (!Negotiated(kFeatureResourceBlob)) return Error(ResponseType::kErrUnspec);
  if (c.scanout_id >= scanouts_.count()) return Error(ResponseType::kErrInvalidScanoutId);
  if (c.resource_id == 0) return DisableScanout(c.scanout_id);
  const Resource* resource = resources_.Find(c.resource_id);
  if (resource == nullptr) return Error(ResponseType::kErrInvalidResourceId);
  if (resource->kind == ResourceKind::k2d || !IsKnownFormat(c.format) || !RectFits(c.r, c.width, c.height)) {
    return Error(ResponseType::kErrInvalidParameter);
  }
  const Limits& limits = options_.limits;
  if (c.width > limits.max_image_side || c.height > limits.max_image_side ||
      uint64_t{c.width} * c.height * kBytesPerPixel > limits.max_image_bytes) {
    return Error(ResponseType::kErrOutOfMemory);
  }
  const auto span = PictureSpan(c.width, c.height, c.strides[0]);
  if (uint64_t{c.strides[0]} < uint64_t{c.width} * kBytesPerPixel || !span.has_value() ||
      !RangeFits(c.offsets[0], *span, resource->bytes)) {
    return Error(ResponseType::kErrInvalidParameter);
  }
  scanouts_.Bind(c.scanout_id, {.resource_id = resource->id,
                                .rect = c.r,
                                .width = c.width,
                                .height = c.height,
                                .format = c.format,
                                .stride = c.strides[0],
                                .offset = c.offsets[0]});
  return Response{};
}

Control::Outcome Control::On(const ResourceFlush& c) {
  const Resource* resource = resources_.Find(c.resource_id);
  if (resource == nullptr) return Error(ResponseType::kErrInvalidResourceId);
  if (resource->kind == ResourceKind::k2d) {
    if (!RectFits(c.r, resource->width, resource->height)) return Error(ResponseType::kErrInvalidParameter);
  } else {
    // A blob has a size in pixels only where a scanout shows it.
    for (uint32_t i = 0; i < scanouts_.count(); ++i) {
      const auto& binding = scanouts_.binding(i);
      if (binding.has_value() && binding->resource_id == c.resource_id &&
          !RectFits(c.r, binding->width, binding->height)) {
        return Error(ResponseType::kErrInvalidParameter);
      }
    }
  }
  const uint32_t shown = scanouts_.Flush(c.resource_id, c.r);
  if (shown > 0 && options_.stats != nullptr) options_.stats->frames.fetch_add(1, std::memory_order_relaxed);
  return Response{};
}

Control::Outcome Control::On(const AssignUuidCmd& c) {
  if (!Negotiated(kFeatureResourceUuid)) return Error(ResponseType::kErrUnspec);
  Resource* resource = resources_.Find(c.resource_id);
  if (resource == nullptr) return Error(ResponseType::kErrInvalidResourceId);
  if (!resource->uuid.has_value()) {
    std::array<uint8_t, 16> uuid;
    if (getrandom(uuid.data(), uuid.size(), 0) != static_cast<ssize_t>(uuid.size())) {
      return Error(ResponseType::kErrUnspec);
    }
    uuid[6] = (uuid[6] & 0x0f) | 0x40;  // RFC 4122, version 4
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    resource->uuid = uuid;
  }
  RespResourceUuid body;
  std::memcpy(body.uuid, resource->uuid->data(), sizeof(body.uuid));
  return Response{ResponseType::kOkResourceUuid, BytesOf(body)};
}

Control::Outcome Control::On(const UpdateCursorCmd& c) {
  if (c.body.pos.scanout_id >= scanouts_.count()) return Error(ResponseType::kErrInvalidScanoutId);
  if (c.body.resource_id != 0) {
    const Resource* resource = resources_.Find(c.body.resource_id);
    if (resource == nullptr) return Error(ResponseType::kErrInvalidResourceId);
    // A blob's picture has no dimensions of its own; then it must hold that many pixels.
    const bool fits = resource->kind == ResourceKind::k2d
                          ? resource->width == kCursorSize && resource->height == kCursorSize
                          : resource->bytes >= uint64_t{kCursorSize} * kCursorSize * kBytesPerPixel;
    if (!fits || c.body.hot_x >= kCursorSize || c.body.hot_y >= kCursorSize) {
      return Error(ResponseType::kErrInvalidParameter);
    }
  }
  scanouts_.cursor() = {.scanout_id = c.body.pos.scanout_id,
                        .x = c.body.pos.x,
                        .y = c.body.pos.y,
                        .hot_x = c.body.hot_x,
                        .hot_y = c.body.hot_y,
                        .resource_id = c.body.resource_id};
  return Response{};
}

Control::Outcome Control::On(const MoveCursorCmd& c) {
  if (c.pos.scanout_id >= scanouts_.count()) return Error(ResponseType::kErrInvalidScanoutId);
  CursorState& cursor = scanouts_.cursor();
  cursor.scanout_id = c.pos.scanout_id;
  cursor.x = c.pos.x;
  cursor.y = c.pos.y;
  return Response{};
}

void Control::KeepPicture() {
  if (scanouts_.frames(0) == 0) return;  // nothing was ever flushed: there is no picture
  absl::StatusOr<ScanoutImage> image = Snapshot(0);
  if (image.ok() && image->width > 0) kept_picture_ = *std::move(image);
}

absl::StatusOr<ScanoutImage> Control::LastPicture() const {
  absl::StatusOr<ScanoutImage> now = Snapshot(0);
  if (!now.ok() || now->width > 0 || kept_picture_.width == 0) return now;
  ScanoutImage image;
  image.width = kept_picture_.width;
  image.height = kept_picture_.height;
  image.stride = kept_picture_.stride;
  image.format = kept_picture_.format;
  image.frames = kept_picture_.frames;
  SLUICE_ASSIGN_OR_RETURN(image.memfd, kept_picture_.memfd.Duplicate());
  return image;
}

absl::StatusOr<ScanoutImage> Control::Snapshot(uint32_t scanout) const {
  if (scanout >= scanouts_.count()) return absl::InvalidArgumentError(absl::StrCat("there is no scanout ", scanout));
  ScanoutImage image;
  image.frames = scanouts_.frames(scanout);
  const auto& binding = scanouts_.binding(scanout);
  if (!binding.has_value()) return image;
  const Resource* resource = resources_.Find(binding->resource_id);
  if (resource == nullptr) return image;
  // Where rows come from: host pixels, a domain's memory, or the guest's own pages.
  absl::Span<const uint8_t> host;
  if (resource->kind == ResourceKind::k2d) {
    host = {resource->pixels.data(), static_cast<size_t>(resource->bytes)};
  } else if (resource->kind == ResourceKind::kHostBlob) {
    if (resource->memory == nullptr) return image;
    host = {resource->memory->data(), static_cast<size_t>(resource->memory->size())};
  } else if (!resource->backing.has_value()) {
    return image;
  }
  const Rect& rect = binding->rect;
  const uint64_t row_bytes = uint64_t{rect.width} * kBytesPerPixel;
  const uint64_t total = row_bytes * rect.height;
  SLUICE_ASSIGN_OR_RETURN(image.memfd, CreateMemFd("scanout", total));
  SLUICE_ASSIGN_OR_RETURN(const Mapping to, Mapping::MapShared(image.memfd.get(), 0, total, Mapping::kReadWrite));
  for (uint32_t row = 0; row < rect.height; ++row) {
    const uint64_t from =
        binding->offset + uint64_t{rect.y + row} * binding->stride + uint64_t{rect.x} * kBytesPerPixel;
    const absl::Span<uint8_t> out(to.data() + row * row_bytes, row_bytes);
    if (resource->kind == ResourceKind::kGuestBlob) {
      SLUICE_RETURN_IF_ERROR(resource->backing->CopyOut(ram_, from, out));
    } else {
      if (!RangeFits(from, row_bytes, host.size())) return absl::InternalError("scanout outside its resource");
      std::memcpy(out.data(), host.data() + from, row_bytes);
    }
  }
  image.width = rect.width;
  image.height = rect.height;
  image.stride = static_cast<uint32_t>(row_bytes);
  image.format = binding->format;
  return image;
}

}  // namespace sluice::gpu_front
