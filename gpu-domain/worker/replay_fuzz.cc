// Threat model: a guest controls every frame of its ring, and they reach a real driver. The executor and the worker's
// policy must stay sound whatever the driver answers, and must give back everything.
//
// Grammar: an input is a list of messages, each {uint16 opcode, uint16 flags, uint32 size, size bytes of FlatBuffer},
// as in gpu-domain/exec/exec_fuzz.cc. Each input runs twice:
//  1. in this process on the driver that only looks (exec/testing/fake_driver.h): it reads all that it is given and
//  aborts on a dead
//     handle. This gives the fuzzer its coverage, and shows that what reaches a driver is sound.
//  2. in a child process on the real driver (lavapipe), under the worker's own policy (quota, imported memory, queue
//  threads).
//
// Whose fault is a crash of the child? Valid handles and well-formed structures do not make a program valid: a guest
// can hand a driver broken SPIR-V or out-of-range descriptors, and lavapipe does not survive all of it; that ends the
// guest's own worker. A crash counts as the driver's when the faulting instruction is in no module (code that it
// generated) or a frame of the crashing thread's stack is in a driver library: the driver never calls us back. Those
// are counted, the child is started anew. Everything else (a sanitizer report, a signal in our code, memory or objects
// left) aborts: a finding.
#include <dlfcn.h>
#include <execinfo.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "flatbuf/vk/exec_dispatch.h"
#include "gpu-domain/exec/context.h"
#include "gpu-domain/exec/testing/fake_driver.h"
#include "gpu-domain/exec/testing/scene.h"
#include "gpu-domain/worker/blob.h"
#include "gpu-domain/worker/driver.h"
#include "gpu-domain/worker/fence_tracker.h"
#include "gpu-domain/worker/leaving_blobs.h"
#include "gpu-domain/worker/policy.h"
#include "gpu-domain/worker/quota.h"
#include "vmm/base/mapping.h"

#if defined(SLUICE_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

namespace sluice::worker {
namespace {

constexpr size_t kMaxInput = 1 << 20;
constexpr unsigned kAlarmSeconds = 20;  // for one input in the child
constexpr int kParentPatienceMs = 60'000;
// Exit codes of the child.
constexpr int kDriverFault = 90;
constexpr int kDriverHang = 91;
constexpr int kNoDriver = 92;

exec::ContextOptions Limits() {
  exec::ContextOptions options;
  options.max_arena_bytes = 8 << 20;
  options.max_objects = 10'000;
  return options;
}

// Feeds the messages of one input to a context until one is refused.
void Feed(exec::testing::Scene& scene, const uint8_t* data, size_t size) {
  const bool own = size >= 2 && data[0] == static_cast<uint8_t>(vk::Opcode::kCreateInstance) && data[1] == 0;
  if (!own && !scene.Setup().ok()) return;
  while (size >= 8) {
    uint16_t opcode = 0;
    uint16_t flags = 0;
    uint32_t length = 0;
    std::memcpy(&opcode, data, 2);
    std::memcpy(&flags, data + 2, 2);
    std::memcpy(&length, data + 4, 4);
    data += 8;
    size -= 8;
    length = static_cast<uint32_t>(std::min<size_t>(length, size));
    std::vector<uint64_t> words(length / 8 + 2);
    if (length > 0) std::memcpy(words.data(), data, length);
    data += length;
    size -= length;
    const auto* bytes = static_cast<const uint8_t*>(static_cast<const void*>(words.data()));
    if (!scene.Raw(opcode, (flags & wire::kFrameReply) != 0, absl::MakeConstSpan(bytes, length)).ok()) return;
  }
}

// ---- the child

bool IsDriver(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
  return std::strstr(info.dli_fname, "libvulkan") != nullptr || std::strstr(info.dli_fname, "libLLVM") != nullptr;
}

// True if a frame of this thread's stack is in a driver.
bool StackInDriver() {
  void* frames[128];
  const int n = backtrace(frames, 128);
  for (int i = 0; i < n; ++i) {
    if (IsDriver(frames[i])) return true;
  }
  return false;
}

void OnFault(int number, siginfo_t*, void* context) {
  const auto* machine = static_cast<const ucontext_t*>(context);
  void* pc = nullptr;
  std::memcpy(&pc, &machine->uc_mcontext.gregs[REG_RIP], sizeof(pc));
  Dl_info info{};
  const bool generated = number != SIGALRM && dladdr(pc, &info) == 0;
  if (generated || StackInDriver()) _exit(number == SIGALRM ? kDriverHang : kDriverFault);
  signal(number, SIG_DFL);
  raise(number);
}

#if defined(SLUICE_ASAN)
// A sanitizer is about to end the process: in an interceptor (memcpy) that a driver called with its own bad pointers?
void OnSanitizerDeath() {
  if (StackInDriver()) _exit(kDriverFault);
}
#endif

class Host final : public PolicyHost, public QueueListener {
 public:
  explicit Host(MemoryQuota* quota) : quota_(quota) {}
  std::shared_ptr<Blob> FindMemory(uint32_t resource) override {
    std::shared_ptr<Blob>& blob = blobs_[resource % 8];
    if (blob == nullptr) {
      std::optional<MemoryCharge> charge = quota_->Take(256 << 10);
      if (!charge.has_value()) return nullptr;
      absl::StatusOr<CreatedBlob> made = Blob::CreateMapped({1, resource}, 256 << 10, *std::move(charge));
      if (made.ok()) blob = made->blob;
    }
    return blob;
  }
  std::optional<MemoryCharge> TakeMemory(uint64_t bytes) override { return quota_->Take(bytes); }
  void DropLater(std::shared_ptr<Blob> blob, Unfinished unfinished) override {
    leaving_.Add(std::move(blob), std::move(unfinished));
  }
  void DropAll() override { leaving_.SweepAll(); }
  void OnHung(absl::string_view) override { _exit(kDriverHang); }
  void OnQueueProgress(const QueueProgress*) override { leaving_.Sweep(); }
  void OnQueueLost(absl::string_view) override {}

 private:
  MemoryQuota* const quota_;
  std::map<uint32_t, std::shared_ptr<Blob>> blobs_;
  LeavingBlobs leaving_;
};

// The worker's policy, except that each submission is waited for: a guest waits with its own eyes (feedback slots), so
// its waits are not among its messages, and without them every recorded program would destroy what the GPU still uses.
class ReplayPolicy final : public WorkerPolicy {
 public:
  using WorkerPolicy::WorkerPolicy;
  VkResult vkQueueSubmit(exec::Call& call, VkQueue queue, uint32_t count, const VkSubmitInfo* submits, uint32_t slot,
                         uint64_t batch) override {
    const VkResult result = WorkerPolicy::vkQueueSubmit(call, queue, count, submits, slot, batch);
    return result == VK_SUCCESS ? call.device_vk->QueueWaitIdle(queue) : result;
  }
  VkResult vkQueueSubmit2(exec::Call& call, VkQueue queue, uint32_t count, const VkSubmitInfo2* submits, uint32_t slot,
                          uint64_t batch) override {
    const VkResult result = WorkerPolicy::vkQueueSubmit2(call, queue, count, submits, slot, batch);
    return result == VK_SUCCESS ? call.device_vk->QueueWaitIdle(queue) : result;
  }
};

void ExecuteInChild(const VulkanDriver& driver, const uint8_t* data, size_t size) {
  wire::WorkerStats stats{};
  MemoryQuota quota(64 << 20, &stats.memory_bytes, &stats.memory_refusals);
  {
    Host host(&quota);
    FenceTracker fences([](uint8_t, uint64_t) {});
    WorkerPolicyOptions options;
    options.gpu_timeout = absl::Seconds(5);
    options.memory_bytes = quota.limit();
    options.stats = &stats;
    ReplayPolicy policy(options, &driver, &fences, &host, &host);
    absl::StatusOr<CreatedBlob> ring =
        Blob::CreateMapped({1, 1, wire::BlobKind::kRing, 0}, wire::kMinRingBytes, MemoryCharge());
    if (ring.ok()) policy.SetRing(ring->blob);
    exec::testing::Scene scene(&policy, Limits());
    Feed(scene, data, size);
  }
  if (quota.used() != 0) abort();  // an allocation outlived its context
}

[[noreturn]] void ChildMain(int requests, int answers, const uint8_t* shared) {
  struct sigaction action {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) sigaction(number, &action, nullptr);
#if defined(SLUICE_ASAN)
  __sanitizer_set_death_callback(OnSanitizerDeath);
#endif
  void* warm[4];
  (void)backtrace(warm, 4);  // loads the unwinder now, not in a signal handler
  setenv("MESA_SHADER_CACHE_DISABLE", "true", 1);
  const absl::StatusOr<std::unique_ptr<VulkanDriver>> driver = VulkanDriver::Create(DriverOptions());
  if (!driver.ok()) _exit(kNoDriver);
  for (;;) {
    uint32_t size = 0;
    if (read(requests, &size, sizeof(size)) != sizeof(size)) _exit(0);
    alarm(kAlarmSeconds);
    ExecuteInChild(**driver, shared, size);
    alarm(0);
    const char done = 1;
    if (write(answers, &done, 1) != 1) _exit(0);
  }
}

// ---- the parent

class RealDriver {
 public:
  static RealDriver& Get() {
    static auto* const instance = new RealDriver();
    return *instance;
  }

  void Execute(const uint8_t* data, size_t size) {
    if (!available_) return;
    if (child_ < 0) Start();
    std::memcpy(shared_.data(), data, size);
    const auto length = static_cast<uint32_t>(size);
    if (write(requests_, &length, sizeof(length)) != sizeof(length)) return Ended();
    pollfd answer{answers_, POLLIN, 0};
    int ready = 0;
    do {
      ready = poll(&answer, 1, kParentPatienceMs);
    } while (ready < 0 && errno == EINTR);
    char done = 0;
    if (ready == 0) kill(child_, SIGKILL);  // its alarm did not get through: counts as a hang below
    if (ready <= 0 || read(answers_, &done, 1) != 1) Ended();
  }

  void Report() const {
    std::fprintf(stderr, "replay_fuzz: %llu driver faults, %llu driver hangs%s\n", faults_, hangs_,
                 available_ ? "" : "; no Vulkan driver here, so only the looking driver ran");
  }

 private:
  RealDriver() {
    absl::StatusOr<UniqueFd> fd = CreateMemFd("replay-input", kMaxInput);
    absl::StatusOr<Mapping> mapping = absl::InternalError("");
    if (fd.ok()) mapping = Mapping::MapShared(fd->get(), 0, kMaxInput, Mapping::kReadWrite);
    if (!mapping.ok()) abort();
    shared_ = *std::move(mapping);
    signal(SIGPIPE, SIG_IGN);
    atexit([] { Get().Report(); });
    Start();
  }

  void Start() {
    int to_child[2];
    int from_child[2];
    if (pipe(to_child) != 0 || pipe(from_child) != 0) abort();
    child_ = fork();
    if (child_ < 0) abort();
    if (child_ == 0) {
      close(to_child[1]);
      close(from_child[0]);
      ChildMain(to_child[0], from_child[1], shared_.data());
    }
    close(to_child[0]);
    close(from_child[1]);
    requests_ = to_child[1];
    answers_ = from_child[0];
  }

  void Ended() {
    close(requests_);
    close(answers_);
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNoDriver) {
      available_ = false;
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == kDriverFault) {
      faults_++;
    } else if ((WIFEXITED(status) && WEXITSTATUS(status) == kDriverHang) ||
               (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) {
      hangs_++;
    } else {
      std::fprintf(stderr, "replay_fuzz: the child ended in our code, wait status %#x\n", status);
      abort();
    }
  }

  Mapping shared_;
  pid_t child_ = -1;
  int requests_ = -1;
  int answers_ = -1;
  bool available_ = true;
  unsigned long long faults_ = 0;
  unsigned long long hangs_ = 0;
};

}  // namespace
}  // namespace sluice::worker

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  sluice::worker::RealDriver::Get();  // the child is forked while there are no threads
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  if (size > worker::kMaxInput) return 0;
  exec::testing::FakeReset();
  {
    exec::testing::FakePolicy policy;
    exec::testing::Scene scene(&policy, worker::Limits());
    worker::Feed(scene, data, size);
  }
  if (exec::testing::FakeLive() != 0) abort();
  worker::RealDriver::Get().Execute(data, size);
  return 0;
}
