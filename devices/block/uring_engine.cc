#include <liburing.h>

#include <algorithm>
#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <climits>
#include <deque>
#include <utility>
#include <vector>

#include "devices/block/engine.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"
#include "vmm/base/unique_fd.h"

namespace sluice::block {
namespace {

// A transfer of more than this, or of several pieces, is never made on the loop's thread.
constexpr size_t kInlineBytes = 16 << 10;

// Reads, writes and flushes go through the ring, all of them for the one registered file. What has no operation there,
// or not on every host (zeroes, discards), runs on one thread beside it.
class UringEngine final : public IoEngine, private IoSink {
 public:
  explicit UringEngine(const EngineOptions& options)
      : options_(options), event_(*options.loop), self_(std::make_shared<UringEngine*>(this)) {}

  absl::Status Start() {
    io_uring_params params = {};
    // Disabled until it is restricted.
    params.flags = IORING_SETUP_R_DISABLED;
    unsigned entries = 1;
    while (entries < options_.max_in_flight) entries *= 2;
    if (const int error = io_uring_queue_init_params(entries, &ring_, &params); error < 0) {
      return ErrnoToStatus(-error, "io_uring_setup");
    }
    has_ring_ = true;
    const int fd = options_.disk->fd();
    if (const int error = io_uring_register_files(&ring_, &fd, 1); error < 0) {
      return ErrnoToStatus(-error, "IORING_REGISTER_FILES");
    }
    SLUICE_ASSIGN_OR_RETURN(UniqueFd event, CreateEventFd(/*nonblocking=*/true));
    if (const int error = io_uring_register_eventfd(&ring_, event.get()); error < 0) {
      return ErrnoToStatus(-error, "IORING_REGISTER_EVENTFD");
    }
    SLUICE_RETURN_IF_ERROR(Restrict());
    asio::error_code error;
    event_.assign(event.get(), error);
    if (error) return absl::InternalError(error.message());
    event.Release();
    slots_.resize(options_.max_in_flight);
    for (size_t i = slots_.size(); i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));

    EngineOptions helper = options_;
    helper.threads = 1;
    helper.sink = this;
    SLUICE_ASSIGN_OR_RETURN(helper_, CreateThreadEngine(helper));
    Arm();
    return absl::OkStatus();
  }

  ~UringEngine() override {
    if (helper_ != nullptr) Quiesce();
    helper_.reset();
    asio::error_code ignored;
    event_.close(ignored);
    if (has_ring_) io_uring_queue_exit(&ring_);
  }

  absl::string_view name() const override { return "io_uring"; }

  void Submit(IoRequest request) override {
    if (request.kind == IoKind::kDiscard || request.kind == IoKind::kWriteZeroes ||
        (request.durable && !dsync_works_)) {
      return helper_->Submit(std::move(request));
    }
    if (free_.empty()) return backlog_.push_back(std::move(request));
    const uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot.request = std::move(request);
    slot.left = absl::MakeSpan(slot.request.pieces);
    slot.at = slot.request.offset;
    Prepare(index);
  }

  void Kick() override {
    while (io_uring_sq_ready(&ring_) > 0) {
      const int submitted = io_uring_submit(&ring_);
      if (submitted > 0 || submitted == -EINTR) continue;
      // The kernel lacks memory for the moment (EAGAIN), or wants completions to be taken first (EBUSY).
      SLUICE_LOG_GUEST(warn, "disk: io_uring_enter: {}", ErrnoToStatus(-submitted, "submit").ToString());
      asio::post(*options_.loop, [weak = std::weak_ptr<UringEngine*>(self_)] {
        if (const auto self = weak.lock()) (*self)->Reap();
      });
      return;
    }
  }

  void Quiesce() override {
    backlog_.clear();
    helper_->Quiesce();
    while (free_.size() < slots_.size()) {
      if (io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
      io_uring_cqe* cqe = nullptr;
      if (io_uring_wait_cqe(&ring_, &cqe) != 0) continue;  // EINTR
      Free(static_cast<uint32_t>(io_uring_cqe_get_data64(cqe)));
      io_uring_cqe_seen(&ring_, cqe);
    }
  }

 private:
  struct Slot {
    IoRequest request;
    absl::Span<iovec> left;  // of request.pieces
    uint64_t at = 0;         // where `left` goes
  };

  // From here on the ring can do nothing but what this file asks of it, whoever holds its descriptor. By number: Debian
  // 12's shared liburing does not export the functions for these two.
  absl::Status Restrict() {
    std::array<io_uring_restriction, 5> rules = {};
    rules[0].opcode = rules[1].opcode = rules[2].opcode = IORING_RESTRICTION_SQE_OP;
    rules[0].sqe_op = IORING_OP_READV;
    rules[1].sqe_op = IORING_OP_WRITEV;
    rules[2].sqe_op = IORING_OP_FSYNC;
    rules[3].opcode = IORING_RESTRICTION_SQE_FLAGS_REQUIRED;
    rules[3].sqe_flags = IOSQE_FIXED_FILE;
    rules[4].opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
    rules[4].sqe_flags = IOSQE_FIXED_FILE | IOSQE_ASYNC;
    if (const int error = io_uring_register(ring_.ring_fd, IORING_REGISTER_RESTRICTIONS, rules.data(), rules.size());
        error < 0) {
      return ErrnoToStatus(-error, "IORING_REGISTER_RESTRICTIONS");
    }
    if (const int error = io_uring_register(ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0); error < 0) {
      return ErrnoToStatus(-error, "IORING_REGISTER_ENABLE_RINGS");
    }
    return absl::OkStatus();
  }

  void Arm() {
    event_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [weak = std::weak_ptr<UringEngine*>(self_)](const asio::error_code& error) {
                        const auto self = weak.lock();
                        if (error || self == nullptr) return;
                        DrainEventFd((*self)->event_.native_handle());
                        (*self)->Arm();
                        (*self)->Reap();
                      });
  }

  // One entry of the submission queue; there is one for each slot.
  void Prepare(uint32_t index) {
    const Slot& slot = slots_[index];
    const auto count = static_cast<unsigned>(std::min<size_t>(slot.left.size(), IOV_MAX));
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    switch (slot.request.kind) {
      case IoKind::kRead:
        io_uring_prep_readv(sqe, 0, slot.left.data(), count, slot.at);
        break;
      case IoKind::kWrite:
        io_uring_prep_writev2(sqe, 0, slot.left.data(), count, slot.at, slot.request.durable ? RWF_DSYNC : 0);
        break;
      default:
        io_uring_prep_fsync(sqe, 0, IORING_FSYNC_DATASYNC);
        break;
    }
    // Otherwise what is in the host's cache is copied within io_uring_enter(2), on the loop's thread.
    const bool large = slot.left.size() > 1 || (slot.left.size() == 1 && slot.left[0].iov_len > kInlineBytes);
    io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE | (large ? IOSQE_ASYNC : 0));
    io_uring_sqe_set_data64(sqe, index);
  }

  void Free(uint32_t index) {
    slots_[index].request = IoRequest();
    free_.push_back(index);
  }

  void Reap() {
    std::vector<IoResult> results;
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
      const auto index = static_cast<uint32_t>(io_uring_cqe_get_data64(cqe));
      const int moved = cqe->res;
      io_uring_cqe_seen(&ring_, cqe);
      Finish(index, moved, &results);
    }
    while (!backlog_.empty() && !free_.empty()) {
      IoRequest request = std::move(backlog_.front());
      backlog_.pop_front();
      Submit(std::move(request));
    }
    Kick();
    if (!results.empty()) options_.sink->IoDone(results);
  }

  void Finish(uint32_t index, int moved, std::vector<IoResult>* results) {
    Slot& slot = slots_[index];
    if (moved == -EINTR || moved == -EAGAIN) return Prepare(index);
    if (moved == -EOPNOTSUPP && slot.request.durable) {
      // RWF_DSYNC: this file system has none. The thread knows what to do instead.
      dsync_works_ = false;
      IoRequest rest = std::move(slot.request);
      rest.pieces.erase(rest.pieces.begin(),
                        rest.pieces.begin() + static_cast<std::ptrdiff_t>(rest.pieces.size() - slot.left.size()));
      rest.offset = slot.at;
      Free(index);
      return helper_->Submit(std::move(rest));
    }
    const bool moves = slot.request.kind != IoKind::kFlush;
    bool ok = moved >= 0;
    if (!ok) {
      SLUICE_LOG_GUEST(warn, "disk: {}", ErrnoToStatus(-moved, moves ? "read or write" : "fdatasync").ToString());
    } else if (moves && moved == 0) {
      SLUICE_LOG_GUEST(warn, "disk: the file ends at {}", slot.at);
      ok = false;
    } else if (moves) {
      slot.left = Advance(slot.left, static_cast<size_t>(moved));
      slot.at += static_cast<uint64_t>(moved);
      if (!slot.left.empty()) return Prepare(index);
    }
    results->push_back({slot.request.id, ok});
    Free(index);
  }

  void IoDone(absl::Span<const IoResult> results) override { options_.sink->IoDone(results); }

  const EngineOptions options_;
  io_uring ring_ = {};
  bool has_ring_ = false;
  bool dsync_works_ = true;
  asio::posix::stream_descriptor event_;  // readable: there are completions
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::deque<IoRequest> backlog_;  // without a slot
  std::unique_ptr<IoEngine> helper_;
  const std::shared_ptr<UringEngine*> self_;  // what waits on the loop holds it weakly
};

}  // namespace

absl::StatusOr<std::unique_ptr<IoEngine>> CreateUringEngine(const EngineOptions& options) {
  if (options.disk->fd() < 0) return absl::UnimplementedError("disk: io_uring wants a file descriptor");
  auto engine = std::make_unique<UringEngine>(options);
  SLUICE_RETURN_IF_ERROR(Annotate(engine->Start(), "disk"));
  return engine;
}

}  // namespace sluice::block
