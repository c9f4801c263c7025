#include "devices/gpu-front/testing/gpu_driver.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "vmm/base/checked.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"

namespace sluice::gpu_front::testing {
namespace {

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "GpuDriver: %s\n", value.status().ToString().c_str());
    std::abort();
  }
  return *std::move(value);
}

}  // namespace

GpuDriver::GpuDriver(const Options& options)
    : options_(options), window_(options.window_bytes), ram_(OrDie(memory::GuestMemory::CreateSimple(kRamBytes))) {
  GpuFrontOptions o;
  o.loop = &loop_;
  o.window = options.window_bytes > 0 ? &window_ : nullptr;
  o.identity = {.frontend = "test", .os = "linux"};
  o.scanouts = options.scanouts;
  o.width = 640;
  o.height = 480;
  o.limits = options.limits;
  o.stats = &stats_;
  o.domain_timeout = options.domain_timeout;
  if (options.domain) {
    auto pair = OrDie(CreateSeqPacketPair());
    o.channel = std::move(pair.first);
    domain_ = std::make_unique<FakeDomain>(std::move(pair.second));
  }
  device_ = OrDie(GpuFront::Create(std::move(o)));
  if (options.domain && options.hello) {
    domain_->ReceiveA<wire::HelloT>();
    domain_->SayHello();
  }
  Start();
}

GpuDriver::~GpuDriver() {
  device_->Reset();
}

void GpuDriver::Start() {
  queues_.clear();
  queues_.push_back(OrDie(virtio::testing::FakeDriver::Create(ram_, {.size = 256,
                                                                     .rings = memory::GuestAddress(0x10000),
                                                                     .buffers = memory::GuestAddress(0x100000),
                                                                     .buffer_bytes = 24 << 20})));
  queues_.push_back(OrDie(virtio::testing::FakeDriver::Create(ram_, {.size = 16,
                                                                     .rings = memory::GuestAddress(0x20000),
                                                                     .buffers = memory::GuestAddress(0x1a00000),
                                                                     .buffer_bytes = 1 << 20})));
  virtio::Activation activation;
  activation.memory = ram_;
  activation.features = options_.features | virtio::kFeatureVersion1;
  for (auto& queue : queues_) activation.queues.push_back(OrDie(virtio::Queue::Create(ram_, queue.layout())));
  activation.interrupt = this;
  if (!device_->Activate(std::move(activation)).ok()) std::abort();
  Pump();
}

void GpuDriver::Reset() {
  device_->Reset();
  needs_reset_ = false;
  tickets_.clear();
  Start();
}

absl::Status GpuDriver::ConnectDomain() {
  auto pair = OrDie(CreateSeqPacketPair());
  domain_ = std::make_unique<FakeDomain>(std::move(pair.second));
  return device_->ConnectDomain(std::move(pair.first));
}

std::vector<uint8_t> GpuDriver::Header(CommandType type, const RequestOptions& options) {
  CtrlHdr header{};
  header.type = static_cast<uint32_t>(type);
  header.ctx_id = options.context;
  if (options.fence.has_value()) {
    header.flags |= kFlagFence;
    header.fence_id = *options.fence;
  }
  if (options.ring.has_value()) {
    header.flags |= kFlagInfoRingIdx;
    header.ring_idx = *options.ring;
  }
  std::vector<uint8_t> bytes;
  Append(&bytes, header);
  return bytes;
}

uint64_t GpuDriver::SendUnnotified(absl::Span<const uint8_t> bytes, const RequestOptions& options) {
  auto builder = queues_[options.queue].Chain();
  if (!bytes.empty()) builder.Readable(bytes);
  if (options.writable > 0) builder.Writable(options.writable);
  const absl::StatusOr<uint16_t> head = builder.Submit();
  if (!head.ok()) return 0;
  const uint64_t ticket = next_ticket_++;
  tickets_[{options.queue, *head}] = ticket;
  return ticket;
}

uint64_t GpuDriver::SendBytes(absl::Span<const uint8_t> bytes, const RequestOptions& options) {
  const uint64_t ticket = SendUnnotified(bytes, options);
  device_->QueueNotified(options.queue);
  return ticket;
}

void GpuDriver::Pump() {
  do {
    loop_.restart();
  } while (loop_.poll() > 0);
  Collect();
}

void GpuDriver::Collect() {
  for (uint16_t q = 0; q < queues_.size(); ++q) {
    while (auto done = queues_[q].Collect()) {
      const auto ticket = tickets_.extract({q, done->head});
      if (ticket.empty()) continue;
      Reply reply;
      reply.written = done->written;
      if (done->data.size() >= sizeof(CtrlHdr)) {
        std::memcpy(&reply.header, done->data.data(), sizeof(CtrlHdr));
        reply.body.assign(done->data.begin() + sizeof(CtrlHdr), done->data.end());
      }
      completed_.push_back(ticket.mapped());
      replies_[ticket.mapped()] = std::move(reply);
    }
  }
}

std::optional<Reply> GpuDriver::Poll(uint64_t ticket) {
  Pump();
  auto node = replies_.extract(ticket);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

std::optional<Reply> GpuDriver::Wait(uint64_t ticket) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  do {
    if (auto reply = Poll(ticket)) return reply;
    loop_.restart();
    loop_.run_one_until(deadline);
  } while (std::chrono::steady_clock::now() < deadline);
  return Poll(ticket);
}

bool GpuDriver::Create2d(uint32_t id, uint32_t width, uint32_t height, Format format) {
  return Run(CommandType::kResourceCreate2d, ResourceCreate2d{id, static_cast<uint32_t>(format), width, height})
             .type() == ResponseType::kOkNodata;
}

bool GpuDriver::Attach(uint32_t id, const std::vector<MemEntry>& entries) {
  std::vector<uint8_t> extra;
  for (const MemEntry& entry : entries) Append(&extra, entry);
  return Run(CommandType::kResourceAttachBacking, ResourceAttachBacking{id, static_cast<uint32_t>(entries.size())},
             RequestOptions(), extra)
             .type() == ResponseType::kOkNodata;
}

bool GpuDriver::CreateContext(uint32_t id) {
  CtxCreate body{};
  body.nlen = 4;
  body.context_init = wire::kCapsetId;
  std::memcpy(body.debug_name, "test", 4);
  return Run(CommandType::kCtxCreate, body, RequestOptions{.context = id}).type() == ResponseType::kOkNodata;
}

uint64_t GpuDriver::SendCreateBlob(uint32_t context, uint32_t id, wire::BlobKind kind, uint64_t bytes,
                                   std::optional<uint64_t> fence) {
  ResourceCreateBlob body{};
  body.resource_id = id;
  body.blob_mem = static_cast<uint32_t>(BlobMem::kHost3d);
  body.blob_flags = kBlobFlagMappable;
  body.blob_id = wire::MakeBlobId(kind, 0);
  body.size = bytes;
  return Send(CommandType::kResourceCreateBlob, body, RequestOptions{.context = context, .fence = fence});
}

bool GpuDriver::CreateMappedBlob(uint32_t context, uint32_t id, wire::BlobKind kind, uint64_t bytes, uint64_t offset) {
  const uint64_t create = SendCreateBlob(context, id, kind, bytes);
  const uint64_t map = Send(CommandType::kResourceMapBlob, ResourceMapBlob{id, 0, offset});
  Pump();
  const uint64_t rounded = *CheckedAlignUp(bytes, kPageSize);
  const UniqueFd fd =
      kind == wire::BlobKind::kDoorbell ? OrDie(CreateEventFd(true)) : OrDie(CreateMemFd("blob", rounded));
  const auto backing = kind == wire::BlobKind::kRing       ? wire::BlobBacking::Ring
                       : kind == wire::BlobKind::kDoorbell ? wire::BlobBacking::Doorbell
                                                           : wire::BlobBacking::Memory;
  const int fds[] = {fd.get()};
  if (!domain_->SayBlobCreated(id, backing, rounded, fds)) return false;
  const Reply created = Poll(create).value_or(Reply());
  const Reply mapped = Poll(map).value_or(Reply());
  return created.type() == ResponseType::kOkNodata && mapped.type() == ResponseType::kOkMapInfo;
}

uint64_t GpuDriver::SendSubmit(uint32_t context, std::optional<uint64_t> fence, std::optional<uint8_t> ring) {
  const wire::SubmitCommand kick = {wire::kSubmitKick, 0, 0};
  std::vector<uint8_t> payload;
  Append(&payload, kick);
  return Send(CommandType::kSubmit3d, Submit3d{static_cast<uint32_t>(payload.size()), 0},
              RequestOptions{.context = context, .fence = fence, .ring = ring}, payload);
}

}  // namespace sluice::gpu_front::testing
