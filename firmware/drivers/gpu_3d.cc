// What a GPU Domain's worker is behind: capability set, contexts, blobs in the host-visible window, fenced submits.
#include <string.h>

#include "firmware/drivers/gpu.h"

namespace sluice::firmware {
namespace {

constexpr uint32_t kMaxCapsets = 32;

}  // namespace

bool Gpu::GetCapset(wire::Capset* capset) {
  const uint64_t needed = gpu::kFeatureContextInit | gpu::kFeatureResourceBlob;
  if ((features_ & needed) != needed) return false;
  const uint32_t count = pci_.ReadConfig32(gpu::kConfigCapsets);
  for (uint32_t i = 0; i < count && i < kMaxCapsets; i++) {
    const gpu::CapsetInfoRequest request = {{.type = gpu::kGetCapsetInfo}, i, 0};
    gpu::CapsetInfoResponse info;
    if (Execute(&request, sizeof(request), &info, sizeof(info)) != GpuResult::kOk) return false;
    if (info.id != wire::kCapsetId) continue;
    const gpu::CapsetRequest get = {{.type = gpu::kGetCapset}, wire::kCapsetId, wire::kCapsetVersion};
    struct {
      gpu::Header header;
      wire::Capset capset;
    } response;
    if (Execute(&get, sizeof(get), &response, sizeof(response)) != GpuResult::kOk) return false;
    *capset = response.capset;
    return capset->magic == wire::kCapsetMagic && capset->protocol_version == wire::kProtocolVersion;
  }
  return false;
}

GpuResult Gpu::CreateContext(uint32_t context, const char* name) {
  gpu::CtxCreateRequest request = {};
  request.header.type = gpu::kCtxCreate;
  request.header.ctx_id = context;
  size_t n = strlen(name);
  if (n > sizeof(request.name) - 1) n = sizeof(request.name) - 1;
  request.name_bytes = static_cast<uint32_t>(n);
  request.context_init = wire::kCapsetId;
  memcpy(request.name, name, n);
  return Execute(&request, sizeof(request));
}

GpuResult Gpu::DestroyContext(uint32_t context) {
  const gpu::Header request = {.type = gpu::kCtxDestroy, .ctx_id = context};
  return Execute(&request, sizeof(request));
}

GpuResult Gpu::CreateBlob(uint32_t context, uint32_t resource, uint64_t blob_id, uint64_t bytes) {
  gpu::CreateBlobRequest request = {};
  request.header.type = gpu::kResourceCreateBlob;
  request.header.ctx_id = context;
  request.resource_id = resource;
  request.blob_mem = gpu::kBlobMemHost3d;
  request.blob_flags = gpu::kBlobFlagMappable;
  request.blob_id = blob_id;
  request.size = bytes;
  const GpuResult result = Execute(&request, sizeof(request));
  if (result != GpuResult::kOk) return result;
  return Simple(gpu::kCtxAttachResource, resource, context);
}

GpuResult Gpu::MapBlob(uint32_t resource, uint64_t bytes, void** pointer) {
  uint64_t offset;
  if (!window_.Allocate(bytes, &offset)) return GpuResult::kErrOutOfMemory;
  const gpu::MapBlobRequest request = {{.type = gpu::kResourceMapBlob}, resource, 0, offset};
  const GpuResult result = Execute(&request, sizeof(request));
  if (result != GpuResult::kOk) {
    window_.Free(offset, bytes);
    return result;
  }
  *pointer = reinterpret_cast<void*>(window_region_.address + offset);
  return result;
}

GpuResult Gpu::UnmapBlob(uint32_t resource, void* pointer, uint64_t bytes) {
  const GpuResult result = Simple(gpu::kResourceUnmapBlob, resource);
  // Only a place that is free again may be used again.
  if (result == GpuResult::kOk) window_.Free(reinterpret_cast<uint64_t>(pointer) - window_region_.address, bytes);
  return result;
}

GpuResult Gpu::DetachResource(uint32_t context, uint32_t resource) {
  return Simple(gpu::kCtxDetachResource, resource, context);
}

Ticket Gpu::SubmitFenced(uint32_t context, uint8_t ring_idx, const void* payload, size_t bytes) {
  gpu::SubmitRequest request = {};
  request.header.type = gpu::kSubmit3d;
  request.header.flags = gpu::kFlagFence | gpu::kFlagRingIdx;
  request.header.fence_id = next_fence_++;
  request.header.ctx_id = context;
  request.header.ring_idx = ring_idx;
  request.size = static_cast<uint32_t>(bytes);
  return Start(&request, sizeof(request), payload, bytes);
}

Ticket Gpu::Submit(uint32_t context, const void* payload, size_t bytes) {
  gpu::SubmitRequest request = {};
  request.header.type = gpu::kSubmit3d;
  request.header.ctx_id = context;
  request.size = static_cast<uint32_t>(bytes);
  return Start(&request, sizeof(request), payload, bytes);
}

}  // namespace sluice::firmware
