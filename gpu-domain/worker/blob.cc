#include "gpu-domain/worker/blob.h"

#include "absl/strings/str_cat.h"
#include "gpu-domain/worker/shared_raw.h"
#include "vmm/base/status_macros.h"

namespace sluice::worker {

absl::StatusOr<CreatedBlob> Blob::CreateMapped(const BlobId& id, uint64_t size, MemoryCharge charge) {
  CreatedBlob made;
  SLUICE_ASSIGN_OR_RETURN(made.fd, CreateMemFd(absl::StrCat("sluice-blob-", id.resource), size));
  SLUICE_ASSIGN_OR_RETURN(Mapping mapping, Mapping::MapShared(made.fd.get(), 0, size, Mapping::kReadWrite));
  made.blob = std::make_shared<Blob>(id, std::move(mapping), std::move(charge));
  return made;
}

CreatedBlob Blob::CreateDoorbell(const BlobId& id, UniqueFd fd) {
  return CreatedBlob{std::make_shared<Blob>(id, Mapping(), MemoryCharge()), std::move(fd)};
}

PublishedUse::PublishedUse(MemoryQuota* quota, std::shared_ptr<Blob> ring) : quota_(quota), ring_(std::move(ring)) {
  quota_->Publish(&RingView(ring_->mapping()).header().memory_used);
}

PublishedUse::~PublishedUse() {
  quota_->Unpublish(&RingView(ring_->mapping()).header().memory_used);
}

std::optional<BlobId> ParseBlobId(uint32_t context, uint32_t resource, uint64_t blob_id) {
  const auto kind = static_cast<wire::BlobKind>(wire::BlobIdKind(blob_id));
  if (kind != wire::BlobKind::kRing && kind != wire::BlobKind::kDoorbell && kind != wire::BlobKind::kMemory) {
    return std::nullopt;
  }
  return BlobId{context, resource, kind, wire::BlobIdIndex(blob_id)};
}

}  // namespace sluice::worker
