// Attacks on the control queue: commands from well formed to malformed, ids that exist and that do not, numbers that
// wrap.
#include <string.h>

#include "firmware/drivers/gpu_protocol.h"
#include "firmware/guests/hostile/attack.h"
#include "firmware/lib/clock.h"
#include "flatbuf/wire.h"

namespace sluice::firmware {
namespace {

constexpr uint64_t kPatienceNs = 2'000'000;
constexpr uint64_t kMegabyte = 1 << 20;

// Ids are few, so that commands meet each other's objects.
uint32_t Id(Attack* attack) {
  return attack->OneIn(10) ? attack->Odd32() : static_cast<uint32_t>(attack->Below(6));
}

uint32_t Side(Attack* attack) {
  return attack->OneIn(4) ? attack->Odd32() : static_cast<uint32_t>(attack->Below(300));
}

gpu::Rect OddRect(Attack* attack) {
  return {Side(attack), Side(attack), Side(attack), Side(attack)};
}

uint32_t OddType(Attack* attack) {
  switch (attack->Below(8)) {
    case 0:
      return attack->Odd32();
    case 1:
      return 0x0300 + static_cast<uint32_t>(attack->Below(4));
    case 2:
    case 3:
    case 4:
      return 0x0100 + static_cast<uint32_t>(attack->Below(15));
    default:
      return 0x0200 + static_cast<uint32_t>(attack->Below(11));
  }
}

uint64_t OddBlobId(Attack* attack) {
  if (attack->OneIn(5)) return attack->Odd64();
  return wire::MakeBlobId(static_cast<wire::BlobKind>(attack->Below(5)),
                          attack->OneIn(4) ? attack->Odd64() : attack->Below(9));
}

// Fills a request of `type` with fields that make some sense. Returns its size.
size_t Build(Attack* attack, uint32_t type, uint8_t* request) {
  gpu::Header header = {};
  header.type = type;
  header.flags = attack->OneIn(8) ? attack->Odd32() : static_cast<uint32_t>(attack->Below(4));
  header.fence_id = attack->Odd64();
  header.ctx_id = Id(attack);
  header.ring_idx = static_cast<uint8_t>(attack->OneIn(4) ? attack->Odd64() : attack->Below(3));
  const auto put = [&](const auto& value) {
    memcpy(request, &value, sizeof(value));
    return sizeof(value);
  };
  const uint64_t size = attack->OneIn(5) ? attack->Odd64() : (1 + attack->Below(64)) * 4096;
  switch (type) {
    case gpu::kResourceCreate2d:
      return put(gpu::Create2dRequest{header, Id(attack), attack->OneIn(3) ? attack->Odd32() : gpu::kFormatR8G8B8A8,
                                      Side(attack), Side(attack)});
    case gpu::kSetScanout:
      return put(gpu::ScanoutRequest{header, OddRect(attack), Id(attack), Id(attack)});
    case gpu::kResourceFlush:
      return put(gpu::FlushRequest{header, OddRect(attack), Id(attack), 0});
    case gpu::kTransferToHost2d:
      return put(gpu::Transfer2dRequest{header, OddRect(attack), attack->Odd64(), Id(attack), 0});
    case gpu::kResourceAttachBacking:
      return put(gpu::AttachBackingRequest{
          header, Id(attack), attack->OneIn(3) ? attack->Odd32() : 1, {attack->OddAddress(), attack->Odd32(), 0}});
    case gpu::kGetCapset:
      return put(gpu::CapsetRequest{header, attack->OneIn(3) ? attack->Odd32() : wire::kCapsetId, attack->Odd32()});
    case gpu::kResourceCreateBlob: {
      gpu::CreateBlobRequest blob = {header,
                                     Id(attack),
                                     static_cast<uint32_t>(attack->Below(5)),
                                     static_cast<uint32_t>(attack->Below(9)),
                                     attack->OneIn(3) ? attack->Odd32() : 0,
                                     OddBlobId(attack),
                                     size};
      if (blob.blob_mem == gpu::kBlobMemGuest) {
        blob.entries = 1;
        const gpu::MemoryEntry entry = {attack->OddAddress(), attack->Odd32(), 0};
        memcpy(request + sizeof(blob), &entry, sizeof(entry));
        put(blob);
        return sizeof(blob) + sizeof(entry);
      }
      return put(blob);
    }
    case gpu::kSetScanoutBlob: {
      gpu::ScanoutBlobRequest blob = {};
      blob.header = header;
      blob.rect = OddRect(attack);
      blob.scanout_id = Id(attack);
      blob.resource_id = Id(attack);
      blob.width = Side(attack);
      blob.height = Side(attack);
      blob.format = gpu::kFormatR8G8B8A8;
      blob.strides[0] = attack->Odd32();
      blob.offsets[0] = attack->Odd32();
      return put(blob);
    }
    case gpu::kCtxCreate: {
      gpu::CtxCreateRequest create = {
          header, attack->OneIn(3) ? attack->Odd32() : 4, attack->OneIn(4) ? attack->Odd32() : wire::kCapsetId, {}};
      attack->random().Fill(create.name, sizeof(create.name));
      return put(create);
    }
    case gpu::kSubmit3d: {
      const wire::SubmitCommand kick = {attack->OneIn(4) ? attack->Odd32() : wire::kSubmitKick,
                                        attack->OneIn(4) ? attack->Odd32() : 0, attack->Odd64()};
      const gpu::SubmitRequest submit = {header, attack->OneIn(4) ? attack->Odd32() : uint32_t{sizeof(kick)}, 0};
      put(submit);
      memcpy(request + sizeof(submit), &kick, sizeof(kick));
      return sizeof(submit) + sizeof(kick);
    }
    case gpu::kResourceMapBlob:
      return put(
          gpu::MapBlobRequest{header, Id(attack), 0, attack->OneIn(3) ? attack->Odd64() : attack->Below(64) * 4096});
    case gpu::kUpdateCursor:
    case gpu::kMoveCursor:
      return put(gpu::CursorRequest{header, Id(attack), Side(attack), Side(attack), 0, Id(attack), Side(attack),
                                    Side(attack), 0});
    default: {
      // An id, and words.
      uint32_t words[24];
      for (uint32_t& word : words) word = attack->OneIn(2) ? Id(attack) : attack->Odd32();
      memcpy(request, &header, sizeof(header));
      memcpy(request + sizeof(header), words, sizeof(words));
      return sizeof(header) + (attack->OneIn(2) ? 8 : attack->Below(sizeof(words) + 1));
    }
  }
}

}  // namespace

void AttackCommands(Attack* attack) {
  KeepPciFunction keep;
  Gpu* gpu = OpenForAttack(attack);
  if (gpu == nullptr) return;
  // Something to hit.
  gpu->Create2d(1, gpu::kFormatR8G8B8A8, 64, 64);
  gpu->AttachBacking(1, attack->scratch(), 64 * 64 * 4);
  gpu->CreateContext(1, "hostile");

  uint8_t request[Gpu::kMaxRequestBytes];
  uint64_t n = 30 + attack->Below(150);
  while (attack->Go(&n) && !gpu->dead()) {
    memset(request, 0, sizeof(request));
    size_t bytes = Build(attack, OddType(attack), request);
    if (attack->OneIn(4)) attack->Mutate(request, bytes);
    if (attack->OneIn(12)) bytes = attack->Below(sizeof(request) + 1);
    if (bytes == 0) continue;
    const Ticket ticket = gpu->Start(request, bytes);
    // Most are waited for, some are left to overtake each other.
    if (!attack->OneIn(4)) gpu->Wait(ticket, NowNs() + kPatienceNs);
    gpu->Take(ticket);
  }
  delete gpu;
}

void AttackMemory(Attack* attack) {
  KeepPciFunction keep;
  Gpu* gpu = OpenForAttack(attack);
  if (gpu == nullptr) return;
  uint64_t n = 20 + attack->Below(60);
  uint32_t id = 1;
  while (attack->Go(&n) && !gpu->dead()) {
    switch (attack->Below(5)) {
      case 0:
        gpu->CreateContext(1 + static_cast<uint32_t>(attack->Below(64)), "hostile");
        break;
      case 1:
        gpu->CreateBlob(1 + static_cast<uint32_t>(attack->Below(8)), id++, OddBlobId(attack),
                        (1 + attack->Below(32)) * kMegabyte);
        break;
      case 2:
        gpu->Create2d(id++, gpu::kFormatR8G8B8A8, 1u << attack->Below(15), 1u << attack->Below(15));
        break;
      case 3: {
        const gpu::MapBlobRequest map = {{.type = gpu::kResourceMapBlob},
                                         1 + static_cast<uint32_t>(attack->Below(id)),
                                         0,
                                         attack->Below(512) * kMegabyte + (attack->OneIn(4) ? attack->Below(4096) : 0)};
        gpu->Execute(&map, sizeof(map));
        break;
      }
      default:
        gpu->Unref(1 + static_cast<uint32_t>(attack->Below(id)));
    }
  }
  delete gpu;
}

}  // namespace sluice::firmware
