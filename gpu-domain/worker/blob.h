// File: blob.h
//
// A HOST3D resource of a front-end: memory (or a doorbell) that guest and worker share. Shared ownership: the resource
// table holds one reference, a ring thread or a VkDeviceMemory that imports it others, so that memory stays as long as
// the driver may touch it. The quota is given back with the last one.
//
//   SLUICE_ASSIGN_OR_RETURN(CreatedBlob made, Blob::CreateMemory(context, resource, blob_id, size, std::move(charge)));
//   send made.fd to the front-end; keep made.blob
#ifndef SLUICE_GPU_DOMAIN_WORKER_BLOB_H_
#define SLUICE_GPU_DOMAIN_WORKER_BLOB_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "flatbuf/wire.h"
#include "gpu-domain/worker/quota.h"
#include "vmm/base/mapping.h"
#include "vmm/base/unique_fd.h"

namespace sluice::worker {

struct BlobId {
  uint32_t context = 0;
  uint32_t resource = 0;
  wire::BlobKind kind = wire::BlobKind::kMemory;
  uint64_t index = 0;
};

class Blob;
struct CreatedBlob {
  std::shared_ptr<Blob> blob;
  UniqueFd fd;  // for the peer; the worker itself needs the mapping only
};

class Blob {
 public:
  // A ring or memory blob: a sealed memfd of `size` bytes (a multiple of 4 KiB), zero-filled and mapped. Keeps
  // `charge`.
  static absl::StatusOr<CreatedBlob> CreateMapped(const BlobId& id, uint64_t size, MemoryCharge charge);
  // A doorbell: no memory of its own. `fd`: a duplicate of the ring's eventfd for the peer.
  static CreatedBlob CreateDoorbell(const BlobId& id, UniqueFd fd);

  const BlobId& id() const { return id_; }
  // Invalid for doorbells.
  const Mapping& mapping() const { return mapping_; }
  uint64_t size() const { return mapping_.size(); }

  // Use the factories.
  Blob(const BlobId& id, Mapping mapping, MemoryCharge charge)
      : id_(id), charge_(std::move(charge)), mapping_(std::move(mapping)) {}

 private:
  const BlobId id_;
  MemoryCharge charge_;  // before mapping_: given back after the memory is unmapped
  Mapping mapping_;
};

// While it lives, the ring blob's header says how much of the quota is used.
class PublishedUse {
 public:
  PublishedUse(MemoryQuota* quota, std::shared_ptr<Blob> ring);
  ~PublishedUse();
  PublishedUse(const PublishedUse&) = delete;
  PublishedUse& operator=(const PublishedUse&) = delete;

 private:
  MemoryQuota* const quota_;
  const std::shared_ptr<Blob> ring_;
};

// The kind and index in a guest's blob_id, or nullopt for a kind that does not exist.
std::optional<BlobId> ParseBlobId(uint32_t context, uint32_t resource, uint64_t blob_id);

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_BLOB_H_
