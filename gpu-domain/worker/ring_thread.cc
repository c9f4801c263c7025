#include "gpu-domain/worker/ring_thread.h"

#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/time/clock.h"
#include "vmm/base/status_macros.h"

namespace sluice::worker {
namespace {

constexpr uint32_t kDoorbellEvent = 0;
constexpr uint32_t kStopEvent = 1;
// Looks at the ring before the queues are looked at and the CPU is offered to others: some microseconds.
constexpr int kQuickLooks = 100;

absl::Status AddEvent(int epoll, int fd, uint32_t events, uint32_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = id;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return ErrnoToStatus(errno, "epoll_ctl");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RingThread>> RingThread::Start(const RingThreadOptions& options,
                                                              std::shared_ptr<Blob> blob, int doorbell,
                                                              RingHandler* handler) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return ErrnoToStatus(errno, "epoll_create1");
  SLUICE_ASSIGN_OR_RETURN(UniqueFd stop_event, CreateEventFd(/*nonblocking=*/true));
  // Edge-triggered: each signal wakes once and the counter is never read, so a wake costs one system call, and the
  // peer, which holds the same eventfd, cannot make a read block.
  SLUICE_RETURN_IF_ERROR(AddEvent(epoll.get(), doorbell, EPOLLIN | EPOLLET, kDoorbellEvent));
  SLUICE_RETURN_IF_ERROR(AddEvent(epoll.get(), stop_event.get(), EPOLLIN, kStopEvent));
  std::unique_ptr<RingThread> ring(
      new RingThread(options, std::move(blob), handler, std::move(epoll), std::move(stop_event)));
  SLUICE_ASSIGN_OR_RETURN(ring->thread_, StartThread([raw = ring.get()] { raw->Run(); }));
  return ring;
}

RingThread::RingThread(const RingThreadOptions& options, std::shared_ptr<Blob> blob, RingHandler* handler,
                       UniqueFd epoll, UniqueFd stop_event)
    : options_(options),
      blob_(std::move(blob)),
      handler_(handler),
      view_(blob_->mapping()),
      epoll_(std::move(epoll)),
      stop_event_(std::move(stop_event)),
      reader_(view_.Commands(), options.staging),
      replies_(view_.Replies(), view_.max_reply_payload(), options.reply_timeout, &stop_, &view_) {}

RingThread::~RingThread() {
  Stop();
}

void RingThread::RequestStop() {
  stop_.store(true, std::memory_order_release);
  SignalEventFd(stop_event_.get());
}

void RingThread::Stop() {
  RequestStop();
  if (thread_.joinable()) thread_.Join();
}

void RingThread::Run() {
  uint64_t frames = 0;
  uint64_t position = 0;
  while (!stop_.load(std::memory_order_acquire)) {
    Message message;
    const RingReader::Result result = reader_.Next(&message);
    // Empty, and nothing was taken: sleep. Else the first frames of a long message were, and a producer that waits for
    // room may have a fence on their position.
    if (result == RingReader::Result::kEmpty && reader_.position() == position) {
      WaitForWork();
      continue;
    }
    absl::Status status = reader_.error();
    if (result == RingReader::Result::kMessage) {
      status = handler_->OnMessage(*this, message);
      if (status.ok()) reader_.Finish();  // a refused message is never "executed"
    }
    options_.stats->frames.fetch_add(reader_.frames() - frames, std::memory_order_relaxed);
    options_.stats->bytes_in.fetch_add(reader_.position() - position, std::memory_order_relaxed);
    frames = reader_.frames();
    position = reader_.position();
    if (!status.ok()) {
      handler_->OnSleep(*this);
      handler_->OnError(*this, status);
      return;
    }
    handler_->OnProgress(*this, position);
    view_.WakeProgress();
  }
  handler_->OnSleep(*this);
}

void RingThread::WaitForWork() {
  const auto now = [] { return static_cast<uint64_t>(absl::GetCurrentTimeNanos()); };
  const uint64_t start = now();
  const uint64_t end = start + std::min<uint64_t>(spin_.Length(), absl::ToInt64Nanoseconds(options_.spin));
  for (;;) {
    for (int i = 0; i < kQuickLooks; ++i) {
      if (stop_.load(std::memory_order_relaxed)) return;
      if (reader_.Available()) return spin_.Learn(now() - start);
      wire::CpuPause();
    }
    handler_->OnIdle(*this);
    if (now() >= end) break;
    // Whoever produces the work that is waited for may want this CPU.
    sched_yield();
  }
  handler_->OnSleep(*this);
  Sleep();
  spin_.Learn(now() - start);
}

void RingThread::Sleep() {
  std::atomic<uint32_t>& sleeping = view_.header().consumer_sleeping;
  sleeping.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!reader_.Available() && !stop_.load(std::memory_order_relaxed)) {
    epoll_event events[2];
    const int n = epoll_wait(epoll_.get(), events, 2, -1);
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u32 == kDoorbellEvent) options_.stats->doorbells.fetch_add(1, std::memory_order_relaxed);
    }
  }
  sleeping.store(0, std::memory_order_seq_cst);
}

}  // namespace sluice::worker
