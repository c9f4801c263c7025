#include "firmware/drivers/gpu.h"

#include <string.h>

#include "firmware/lib/clock.h"
#include "firmware/lib/cpu.h"
#include "firmware/lib/heap.h"
#include "firmware/lib/interrupts.h"

namespace sluice::firmware {
namespace {

constexpr uint16_t kVirtioVendor = 0x1af4, kVirtioGpuDevice = 0x1040 + 16;
constexpr uint16_t kControlQueue = 0;
constexpr uint64_t kPollNs = 4'000;

// Of the one device there is; kept when it is opened again.
uint8_t control_vector, config_vector;

}  // namespace

const char* GpuResultName(GpuResult result) {
  switch (result) {
    case GpuResult::kOk:
      return "ok";
    case GpuResult::kErrUnspec:
      return "unspecified error";
    case GpuResult::kErrOutOfMemory:
      return "out of memory";
    case GpuResult::kErrInvalidScanoutId:
      return "invalid scanout id";
    case GpuResult::kErrInvalidResourceId:
      return "invalid resource id";
    case GpuResult::kErrInvalidContextId:
      return "invalid context id";
    case GpuResult::kErrInvalidParameter:
      return "invalid parameter";
    case GpuResult::kDead:
      return "device dead";
    case GpuResult::kTooBig:
      return "request too big";
    case GpuResult::kGarbage:
      return "response without sense";
  }
  return "unknown response";
}

bool Gpu::Open(const GpuOptions& options) {
  PciFunction function;
  if (!FindPciFunction(kVirtioVendor, kVirtioGpuDevice, &function) || !pci_.Open(function, options.reset_timeout_ns))
    return false;
  timeout_ns_ = options.timeout_ns;
  features_ = pci_.Negotiate(options.features);
  if (features_ == 0) return false;
  uint16_t size = pci_.MaxQueueSize(kControlQueue);
  if (size > options.queue_size) size = options.queue_size;
  if (size < 4) return false;
  control_ = new Virtqueue(size, features_);
  slots_ = new Slot[kMaxInFlight];
  if (control_vector == 0) {
    control_vector = AllocateVector();
    config_vector = AllocateVector();
  }
  interrupt_count_ = InterruptCount(control_vector);
  config_count_ = InterruptCount(config_vector);
  config_seen_ = *config_count_;
  pci_.RouteConfig(config_vector);
  if (!pci_.SetUpQueue(kControlQueue, *control_, control_vector)) return false;
  pci_.DriverOk();
  window_region_ = pci_.FindSharedRegion(gpu::kSharedMemoryHostVisible);
  window_.Reset(window_region_.bytes);
  return true;
}

Gpu::~Gpu() {
  // Buffers may be given back only if the device has let go of them.
  if (control_ != nullptr && pci_.Reset()) {
    for (uint32_t i = 0; i < kMaxInFlight; i++) ::operator delete(slots_[i].payload);
    delete control_;
    delete[] slots_;
  }
}

// Takes what the device has finished, and looks whether it has given up.
void Gpu::Poll() {
  uint16_t head;
  uint32_t written;
  while (control_->PopUsed(&head, &written)) {
    for (uint32_t i = 0; i < kMaxInFlight; i++) {
      Slot& slot = slots_[i];
      if (slot.state != SlotState::kSent || slot.head != head) continue;
      slot.response_bytes = written < kMaxResponseBytes ? written : static_cast<uint32_t>(kMaxResponseBytes);
      slot.state = SlotState::kFinished;
      if (slot.abandoned) Release(&slot);
      break;
    }
  }
  if (*config_count_ != config_seen_) {
    config_seen_ = *config_count_;
    if ((pci_.status() & kVirtioNeedsReset) != 0) dead_ = true;
  }
}

Gpu::Slot* Gpu::Find(Ticket ticket) {
  if (ticket == 0) return nullptr;
  Slot& slot = slots_[(ticket & 0xffff) % kMaxInFlight];
  return slot.state != SlotState::kFree && slot.generation == ticket >> 16 ? &slot : nullptr;
}

void Gpu::Release(Slot* slot) {
  ::operator delete(slot->payload);
  slot->payload = nullptr;
  slot->state = SlotState::kFree;
  slot->abandoned = false;
}

Gpu::Slot* Gpu::FreeSlot() {
  const uint64_t deadline = NowNs() + timeout_ns_;
  while (!dead_) {
    const uint64_t seen = *interrupt_count_;
    Poll();
    for (uint32_t i = 0; i < kMaxInFlight; i++) {
      if (slots_[i].state == SlotState::kFree) return &slots_[i];
    }
    SleepUntilChangedOr(interrupt_count_, seen, deadline);
    if (NowNs() >= deadline) dead_ = true;
  }
  return nullptr;
}

Ticket Gpu::Start(const void* request, size_t request_bytes, const void* payload, size_t payload_bytes) {
  if (request_bytes > kMaxRequestBytes || payload_bytes > kMaxPayloadBytes || control_ == nullptr) return 0;
  Slot* slot = FreeSlot();
  if (slot == nullptr) return 0;
  memcpy(slot->request, request, request_bytes);
  memset(slot->response, 0, sizeof(gpu::Header));
  VirtPiece pieces[3] = {{slot->request, static_cast<uint32_t>(request_bytes)}};
  uint16_t count = 1;
  if (payload_bytes != 0) {
    slot->payload = AllocateAligned(payload_bytes, 16);
    memcpy(slot->payload, payload, payload_bytes);
    pieces[count++] = {slot->payload, static_cast<uint32_t>(payload_bytes)};
  }
  pieces[count] = {slot->response, static_cast<uint32_t>(kMaxResponseBytes)};
  // Without indirect descriptors a chain takes three, and the queue may be full before the slots are.
  const uint64_t deadline = NowNs() + timeout_ns_;
  while (!control_->Add(pieces, count, 1, &slot->head)) {
    const uint64_t seen = *interrupt_count_;
    Poll();
    if (!control_->HasUsed()) SleepUntilChangedOr(interrupt_count_, seen, deadline);
    if (NowNs() >= deadline) dead_ = true;
    if (dead_) {
      Release(slot);
      return 0;
    }
  }
  slot->state = SlotState::kSent;
  slot->generation = static_cast<uint16_t>(slot->generation == UINT16_MAX ? 1 : slot->generation + 1);
  commands_++;
  if (control_->Publish()) pci_.Notify(kControlQueue);
  return uint32_t{slot->generation} << 16 | static_cast<uint32_t>(slot - slots_);
}

bool Gpu::Finished(Ticket ticket) {
  Slot* slot = Find(ticket);
  if (slot == nullptr) return false;
  if (slot->state != SlotState::kFinished) Poll();
  return slot->state == SlotState::kFinished;
}

bool Gpu::Wait(Ticket ticket, uint64_t deadline_ns) {
  Slot* slot = Find(ticket);
  if (slot == nullptr) return false;
  const uint64_t poll_until = NowNs() + kPollNs;
  for (;;) {
    const uint64_t seen = *interrupt_count_;
    Poll();
    if (slot->state == SlotState::kFinished) return true;
    if (dead_) return false;
    const uint64_t now = NowNs();
    if (now >= deadline_ns) return false;
    if (now < poll_until) {
      Pause();
    } else {
      SleepUntilChangedOr(interrupt_count_, seen, deadline_ns);
    }
  }
}

GpuResult Gpu::Take(Ticket ticket, void* response, size_t bytes) {
  if (response != nullptr) memset(response, 0, bytes);
  Slot* slot = Find(ticket);
  if (slot == nullptr) return GpuResult::kDead;
  if (slot->state != SlotState::kFinished) {
    slot->abandoned = true;
    return GpuResult::kDead;
  }
  GpuResult result = GpuResult::kGarbage;
  if (slot->response_bytes >= sizeof(gpu::Header)) {
    gpu::Header header;
    memcpy(&header, slot->response, sizeof(header));
    if ((header.type & ~0xffu) == 0x1100) {
      result = GpuResult::kOk;
    } else if (header.type >= gpu::kErrUnspec && header.type <= gpu::kErrInvalidParameter) {
      result = static_cast<GpuResult>(header.type);
    }
    if (response != nullptr)
      memcpy(response, slot->response, bytes < slot->response_bytes ? bytes : slot->response_bytes);
  }
  Release(slot);
  return result;
}

GpuResult Gpu::Execute(const void* request, size_t request_bytes, void* response, size_t response_bytes,
                       const void* payload, size_t payload_bytes) {
  if (request_bytes > kMaxRequestBytes || payload_bytes > kMaxPayloadBytes) return GpuResult::kTooBig;
  const Ticket ticket = Start(request, request_bytes, payload, payload_bytes);
  if (ticket != 0 && !Wait(ticket, NowNs() + timeout_ns_)) dead_ = true;
  return Take(ticket, response, response_bytes);
}

GpuResult Gpu::Simple(uint32_t type, uint32_t resource, uint32_t context) {
  gpu::ResourceRequest request = {};
  request.header.type = type;
  request.header.ctx_id = context;
  request.resource_id = resource;
  return Execute(&request, sizeof(request));
}

}  // namespace sluice::firmware
