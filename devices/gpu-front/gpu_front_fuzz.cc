// Fuzzes the gpu-front device from both of its untrusted sides at once: a guest that sends requests, and a worker that
// answers as it likes.
//
// Threat model: a guest controls every byte of its requests, their order, and when it resets the device; a worker
// controls every byte and descriptor that it sends. Neither may crash the VM process, make it hold more than the limits
// allow, break the window's contract (window.h), or leave a request without an answer once the worker is gone.
//
// Grammar of an input: a sequence of steps, each one byte of kind and what the kind takes (missing bytes read as 0).
//   0  request        type index, flags, context, ring, fence id, room for the answer; then the command's body, ids
//   folded to
//                     0..7 and most sizes to something reachable; then a count byte and that many entry or payload
//                     units
//   1  raw request    queue, size byte, bytes
//   2  raw packet     size byte, bytes, descriptor kind
//   3  blob answer    for the oldest BlobCreate heard: truth, or a lie (one byte picks)
//   4  fence answer   for a Submit heard, the byte says which; or an invented number
//   5  context lost   context, reason
//   6  reset   7  worker dies; a new one connects   8  snapshot   9  hello   10  listen to the device
#include <fcntl.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "devices/gpu-front/testing/gpu_driver.h"
#include "vmm/base/checked.h"

namespace sluice::gpu_front {
namespace {

using testing::Append;
using testing::GpuDriver;
using testing::RequestOptions;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  uint8_t Byte() { return empty() ? 0 : data_[at_++]; }
  std::vector<uint8_t> Bytes(size_t count) {
    std::vector<uint8_t> bytes(count);
    for (uint8_t& b : bytes) b = Byte();
    return bytes;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

// Where a command's body has a resource id, -1: nowhere; and how long it is.
struct Shape {
  CommandType type;
  size_t bytes;
  int resource_at;
};
constexpr Shape kShapes[] = {
    {CommandType::kGetDisplayInfo, 0, -1},
    {CommandType::kResourceCreate2d, 16, 0},
    {CommandType::kResourceUnref, 8, 0},
    {CommandType::kSetScanout, 24, 20},
    {CommandType::kResourceFlush, 24, 16},
    {CommandType::kTransferToHost2d, 32, 24},
    {CommandType::kResourceAttachBacking, 8, 0},
    {CommandType::kResourceDetachBacking, 8, 0},
    {CommandType::kGetCapsetInfo, 8, -1},
    {CommandType::kGetCapset, 8, -1},
    {CommandType::kGetEdid, 8, -1},
    {CommandType::kResourceAssignUuid, 8, 0},
    {CommandType::kResourceCreateBlob, 32, 0},
    {CommandType::kSetScanoutBlob, 72, 20},
    {CommandType::kCtxCreate, 72, -1},
    {CommandType::kCtxDestroy, 0, -1},
    {CommandType::kCtxAttachResource, 8, 0},
    {CommandType::kCtxDetachResource, 8, 0},
    {CommandType::kResourceCreate3d, 48, 0},
    {CommandType::kTransferToHost3d, 48, 32},
    {CommandType::kTransferFromHost3d, 48, 32},
    {CommandType::kSubmit3d, 8, -1},
    {CommandType::kResourceMapBlob, 16, 0},
    {CommandType::kResourceUnmapBlob, 8, 0},
    {CommandType::kUpdateCursor, 32, 16},
    {CommandType::kMoveCursor, 32, 16},
};

template <typename T>
void Poke(std::vector<uint8_t>* body, size_t at, T value) {
  std::memcpy(body->data() + at, &value, sizeof(T));
}

class Session {
 public:
  Session() : gpu_({.domain = true, .hello = false, .window_bytes = 1 << 20, .limits = FuzzLimits()}) {}

  void Run(Input& in) {
    for (int steps = 0; !in.empty() && steps < 400; ++steps) {
      Step(in);
      Check(gpu_.window().violation().empty(), gpu_.window().violation().c_str());
    }
    gpu_.domain().Die();
    gpu_.Pump();
    Check(gpu_.unanswered() == 0, "a request was not answered");
  }

 private:
  static Limits FuzzLimits() {
    return {.max_resources = 6,
            .max_contexts = 4,
            .max_image_bytes = 1 << 20,
            .max_host_image_bytes = 2 << 20,
            .max_backing_pieces = 64,
            .max_blob_bytes = 1 << 20,
            .max_doorbells = 2};
  }
  static void Check(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "gpu_front_fuzz: %s\n", what);
    std::abort();
  }

  void Step(Input& in) {
    switch (in.Byte() % 11) {
      case 0:
        return Request(in);
      case 1: {
        const uint16_t queue = in.Byte() % kQueueCount;
        gpu_.SendBytes(in.Bytes(in.Byte()), {.queue = queue});
        return;
      }
      case 2: {
        const std::vector<uint8_t> bytes = in.Bytes(in.Byte());
        SayWithFd(bytes, in.Byte());
        break;
      }
      case 3:
        BlobAnswer(in);
        break;
      case 4:
        FenceAnswer(in);
        break;
      case 5:
        gpu_.domain().SayContextLost(in.Byte() % 6, static_cast<wire::LostReason>(in.Byte()));
        break;
      case 6:
        gpu_.Reset();
        break;
      case 7:
        gpu_.domain().Die();
        gpu_.Pump();
        Check(gpu_.unanswered() == 0, "a request was not answered when the worker died");
        Check(gpu_.ConnectDomain().ok(), "no new worker is taken");
        blobs_.clear();
        submits_.clear();
        break;
      case 8:
        Snapshot(in.Byte());
        break;
      case 9:
        gpu_.domain().SayHello();
        break;
      default:
        Listen();
        break;
    }
    gpu_.Pump();
  }

  void Request(Input& in) {
    const Shape& shape = kShapes[in.Byte() % std::size(kShapes)];
    const uint8_t flags = in.Byte();
    RequestOptions options;
    options.context = in.Byte() % 6;
    const uint8_t ring = in.Byte(), fence = in.Byte(), room = in.Byte();
    if (flags & 1) options.fence = fence;
    if (flags & 2) options.ring = ring % 66;
    if (flags & 4) options.writable = room;
    if (shape.type == CommandType::kUpdateCursor || shape.type == CommandType::kMoveCursor)
      options.queue = kCursorQueue;
    std::vector<uint8_t> body = in.Bytes(shape.bytes);
    if (shape.resource_at >= 0) Poke<uint32_t>(&body, shape.resource_at, body[shape.resource_at] % 8);
    std::vector<uint8_t> extra;
    switch (shape.type) {
      case CommandType::kResourceAttachBacking: {
        const uint32_t entries = AppendEntries(in, &extra);
        if ((flags & 8) == 0) Poke<uint32_t>(&body, 4, entries);
        break;
      }
      case CommandType::kResourceCreateBlob: {
        Poke<uint32_t>(&body, 4, body[4] % 5);
        const uint32_t entries = AppendEntries(in, &extra);
        if ((flags & 8) == 0) Poke<uint32_t>(&body, 12, entries);
        if ((flags & 16) == 0) {
          Poke<uint32_t>(&body, 8, body[8] % 8);
          Poke<uint64_t>(&body, 16, wire::MakeBlobId(static_cast<wire::BlobKind>(body[16] % 4), body[17]));
          Poke<uint64_t>(&body, 24, uint64_t{body[24]} * 1000);
        }
        break;
      }
      case CommandType::kSubmit3d: {
        extra = in.Bytes(in.Byte());
        if ((flags & 8) == 0) Poke<uint32_t>(&body, 0, static_cast<uint32_t>(extra.size()));
        break;
      }
      case CommandType::kCtxCreate:
        if ((flags & 8) == 0) Poke<uint32_t>(&body, 4, (body[4] & 1) ? wire::kCapsetId : 0);
        if ((flags & 16) == 0) Poke<uint32_t>(&body, 0, body[0] % 66);
        break;
      case CommandType::kResourceMapBlob:
        if ((flags & 8) == 0) Poke<uint64_t>(&body, 8, uint64_t{body[8]} * kPageSize);
        break;
      case CommandType::kResourceCreate2d:
        if ((flags & 8) == 0) {
          Poke<uint32_t>(&body, 4, 1 + body[4] % 4);
          Poke<uint32_t>(&body, 8, body[8]);
          Poke<uint32_t>(&body, 12, body[12]);
        }
        break;
      default:
        break;
    }
    std::vector<uint8_t> bytes = GpuDriver::Header(shape.type, options);
    bytes.insert(bytes.end(), body.begin(), body.end());
    bytes.insert(bytes.end(), extra.begin(), extra.end());
    gpu_.SendBytes(bytes, options);
    gpu_.Pump();
  }

  static uint32_t AppendEntries(Input& in, std::vector<uint8_t>* extra) {
    const uint32_t entries = in.Byte() % 8;
    for (uint32_t i = 0; i < entries; ++i) {
      // Mostly RAM; its end and beyond now and then.
      const uint64_t page = in.Byte();
      const uint64_t address = page == 255 ? ~uint64_t{0} - in.Byte() : GpuDriver::kRamBytes - page * kPageSize;
      Append(extra, MemEntry{address, uint32_t{in.Byte()} * 64, 0});
    }
    return entries;
  }

  void SayWithFd(absl::Span<const uint8_t> bytes, uint8_t kind) {
    if (bytes.empty()) return;
    const UniqueFd fd = MakeFd(kind, kPageSize);
    if (fd.valid()) {
      const int fds[] = {fd.get()};
      gpu_.domain().SayBytes(bytes, fds);
    } else {
      gpu_.domain().SayBytes(bytes);
    }
  }

  static UniqueFd MakeFd(uint8_t kind, uint64_t bytes) {
    switch (kind % 4) {
      case 1:
        return CreateMemFd("fuzz", bytes).value_or(UniqueFd());
      case 2:
        return CreateEventFd(true).value_or(UniqueFd());
      case 3:
        return UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC));
      default:
        return UniqueFd();
    }
  }

  void Listen() {
    while (auto message = gpu_.domain().Receive()) {
      if (const auto* blob = message->body.AsBlobCreate()) blobs_.push_back(*blob);
      if (const auto* submit = message->body.AsSubmit()) submits_.push_back(*submit);
    }
    while (blobs_.size() > 64) blobs_.pop_front();
    while (submits_.size() > 64) submits_.pop_front();
  }

  void BlobAnswer(Input& in) {
    Listen();
    const uint8_t how = in.Byte();
    if (blobs_.empty()) {
      const UniqueFd fd = MakeFd(how, kPageSize);
      const int fds[] = {fd.get()};
      gpu_.domain().SayBlobCreated(how % 8, wire::BlobBacking::Memory, kPageSize,
                                   fd.valid() ? absl::MakeConstSpan(fds) : absl::Span<const int>());
      return;
    }
    const wire::BlobCreateT blob = blobs_.front();
    blobs_.pop_front();
    if (how % 8 == 0) {
      gpu_.domain().SayBlobFailed(blob.resource, static_cast<wire::BlobStatus>(how >> 3));
      return;
    }
    const bool truth = how % 8 < 6;
    const auto kind = static_cast<wire::BlobKind>(wire::BlobIdKind(blob.blob_id));
    uint64_t bytes = CheckedAlignUp(blob.size, kPageSize).value_or(kPageSize);
    if (bytes == 0 || bytes > (1 << 20)) bytes = kPageSize;
    auto backing = kind == wire::BlobKind::kRing       ? wire::BlobBacking::Ring
                   : kind == wire::BlobKind::kDoorbell ? wire::BlobBacking::Doorbell
                                                       : wire::BlobBacking::Memory;
    UniqueFd fd = MakeFd(backing == wire::BlobBacking::Doorbell ? 2 : 1, bytes);
    if (!truth) {
      backing = static_cast<wire::BlobBacking>(in.Byte() % 5);
      fd = MakeFd(in.Byte(), kPageSize);
      bytes += uint64_t{in.Byte()} * 512;
    }
    const int fds[] = {fd.get()};
    gpu_.domain().SayBlobCreated(blob.resource, backing, bytes,
                                 fd.valid() ? absl::MakeConstSpan(fds) : absl::Span<const int>());
  }

  void FenceAnswer(Input& in) {
    Listen();
    const uint8_t which = in.Byte();
    if (submits_.empty() || which == 255) {
      gpu_.domain().SayFenceSignaled(in.Byte() % 6, in.Byte(), in.Byte());
      return;
    }
    const wire::SubmitT& submit = submits_[which % submits_.size()];
    gpu_.domain().SayFenceSignaled(submit.context, submit.ring_idx, submit.fence_id);
  }

  void Snapshot(uint8_t scanout) {
    const absl::StatusOr<ScanoutImage> image = gpu_.device().SnapshotScanout(scanout % 2);
    if (!image.ok() || image->width == 0) return;
    Check(image->memfd.valid() && image->stride == image->width * kBytesPerPixel, "a picture without pixels");
  }

  GpuDriver gpu_;
  std::deque<wire::BlobCreateT> blobs_;
  std::deque<wire::SubmitT> submits_;
};

}  // namespace
}  // namespace sluice::gpu_front

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::gpu_front::Session session;
  sluice::gpu_front::Input in(data, size);
  session.Run(in);
  return 0;
}
