// File: resources.h
//
// The resources of a guest: 2D images with host pixels, blobs in guest memory, blobs of the GPU Domain. One table per
// device, with caps on everything that a guest could pile up.
//
//   SLUICE_ASSIGN_OR_RETURN(Resource * image, table.Create2d(7, Format::kB8G8R8A8, 640, 480));
//   Resource* found = table.Find(7);   // null: no such id
//   table.Remove(7);
#ifndef SLUICE_DEVICES_GPU_FRONT_RESOURCES_H_
#define SLUICE_DEVICES_GPU_FRONT_RESOURCES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/gpu-front/backing.h"
#include "devices/gpu-front/protocol.h"
#include "vmm/base/mapping.h"
#include "vmm/base/unique_fd.h"

namespace sluice::gpu_front {

// What one guest may hold. Beyond: VIRTIO_GPU_RESP_ERR_OUT_OF_MEMORY.
struct Limits {
  uint32_t max_resources = 8192;  // of all kinds
  uint32_t max_contexts = 64;
  uint32_t max_image_side = 16384;               // pixels, either way, of a picture
  uint64_t max_image_bytes = 256ull << 20;       // of one picture
  uint64_t max_host_image_bytes = 512ull << 20;  // host memory behind all 2D images
  uint64_t max_backing_pieces = 1u << 20;  // pieces of guest memory over all resources (24 bytes each on the host)
  uint64_t max_blob_bytes = 16ull << 30;   // of one blob
  uint32_t max_doorbells = 128;            // each holds descriptors, here and in the machine
};

enum class ResourceKind {
  k2d,         // RESOURCE_CREATE_2D: pixels in private host memory
  kGuestBlob,  // BLOB_MEM_GUEST: the guest's own pages
  kHostBlob,   // BLOB_MEM_HOST3D: memory or a doorbell of the GPU Domain
};

enum class HostBlobState {
  kPending,   // BlobCreate was sent
  kMemory,    // `memory` is there
  kRing,      // as kMemory, and it begins with a wire::RingHeader
  kDoorbell,  // `doorbell` is there
};

struct Resource {
  uint32_t id = 0;
  ResourceKind kind = ResourceKind::k2d;
  std::optional<std::array<uint8_t, 16>> uuid;  // once RESOURCE_ASSIGN_UUID asked

  // k2d
  uint32_t format = 0, width = 0, height = 0;
  Mapping pixels;  // width * height * 4 bytes, tightly packed

  // k2d and kGuestBlob
  std::optional<Backing> backing;

  // blobs
  uint64_t bytes = 0;  // as the guest asked
  uint32_t blob_flags = 0;

  // kHostBlob
  HostBlobState state = HostBlobState::kPending;
  uint32_t context = 0;                   // which asked for it
  uint64_t blob_id = 0;                   // wire::MakeBlobId
  uint64_t channel = 0;                   // generation of the channel that knows it
  uint64_t mapped_bytes = 0;              // bytes, rounded up to pages: what a map takes in the window
  std::shared_ptr<const Mapping> memory;  // kMemory, kRing
  UniqueFd doorbell;                      // kDoorbell
  uint64_t create_request = 0;            // kPending: the request that waits for it
  std::optional<uint64_t> map_request;    // kPending: a RESOURCE_MAP_BLOB that waits for it
  std::optional<uint64_t> window_offset;  // reserved or mapped there
};

class ResourceTable {
 public:
  explicit ResourceTable(const Limits& limits) : limits_(limits) {}

  Resource* Find(uint32_t id);
  const Resource* Find(uint32_t id) const;

  // Each: ALREADY_EXISTS (or id 0), or RESOURCE_EXHAUSTED for a cap. The resource stays at its address until removed.
  absl::StatusOr<Resource*> Create2d(uint32_t id, Format format, uint32_t width, uint32_t height);
  absl::StatusOr<Resource*> CreateBlob(uint32_t id, ResourceKind kind, uint64_t bytes, uint32_t flags);

  // Backing of a resource, which has none yet. RESOURCE_EXHAUSTED: too many pieces over all.
  absl::Status Attach(Resource* resource, Backing backing);
  void Detach(Resource* resource);

  void Remove(uint32_t id);
  void Clear();

  size_t size() const { return resources_.size(); }
  uint64_t host_image_bytes() const { return host_image_bytes_; }
  uint64_t backing_pieces() const { return backing_pieces_; }

  // Calls visit(Resource&) for each; it must not add or remove any.
  template <typename Visitor>
  void ForEach(Visitor visit) {
    for (auto& [id, resource] : resources_) visit(*resource);
  }

 private:
  absl::Status CheckNew(uint32_t id) const;

  const Limits limits_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Resource>> resources_;
  uint64_t host_image_bytes_ = 0;
  uint64_t backing_pieces_ = 0;
};

}  // namespace sluice::gpu_front

#endif  // SLUICE_DEVICES_GPU_FRONT_RESOURCES_H_
