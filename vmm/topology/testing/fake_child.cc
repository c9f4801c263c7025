// File: fake_child.cc
//
// Stands in for sluice-domain and for a VM process, so that the supervisor is tested without KVM and Vulkan. What it
// does wrong is chosen by the name that it is given: see Domain() and Machine().
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "flatbuf/control_generated.h"
#include "vmm/base/mapping.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/unique_fd.h"

namespace sluice {
namespace {

// As sluice-domain (--control_fd=3) and vmm/machine/vm_process.cc number them.
constexpr int kControlFd = 3;
constexpr int kSerialFd = 8;

[[noreturn]] void WaitForEver() {
  while (true) pause();
}

template <typename Message, typename BodyT>
void Say(BodyT body, std::vector<int> fds = {}) {
  typename Message::NativeTableType message;
  message.body.Set(std::move(body));
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Message::Pack(builder, &message));
  static_cast<void>(SendPacket(kControlFd, absl::MakeConstSpan(builder.GetBufferPointer(), builder.GetSize()), fds));
}

void SayGarbage() {
  const uint8_t garbage[] = {0xff, 0xff, 0xff, 0x7f, 1, 2, 3, 4, 5, 6, 7, 8};
  static_cast<void>(SendPacket(kControlFd, garbage, {}));
}

int Domain() {
  std::string name;
  std::map<uint32_t, UniqueFd> channels;
  while (true) {
    std::vector<pollfd> polls = {{kControlFd, POLLIN, 0}};
    std::vector<uint32_t> ids;
    for (const auto& [id, channel] : channels) {
      polls.push_back({channel.get(), POLLIN, 0});
      ids.push_back(id);
    }
    if (poll(polls.data(), polls.size(), -1) < 0) return 1;
    if (name == "freezes" && polls.size() > 1) WaitForEver();
    for (size_t i = 1; i < polls.size(); ++i) {
      if (polls[i].revents == 0 || name == "worker-hangs") continue;
      channels.erase(ids[i - 1]);  // the machine is gone, and its worker goes too
      wire::WorkerExitedT exited;
      exited.id = ids[i - 1];
      Say<wire::BrokerEvent>(exited);
    }
    if (polls[0].revents == 0) continue;
    auto packet = ReceivePacket(kControlFd);
    if (!packet.ok() || !packet->has_value()) return 4;
    const auto* message = flatbuffers::GetRoot<wire::BrokerMessage>((*packet)->bytes.data());
    if (const auto* start = message->body_as_DomainStart()) {
      name = start->name()->str();
      if (name == "dies") return 5;
      if (name == "never-ready") WaitForEver();
      if (name == "garbage") SayGarbage();
      Say<wire::BrokerEvent>(wire::DomainReadyT());
    } else if (const auto* attach = message->body_as_AttachFrontend()) {
      if (name == "dies-on-attach") return 7;
      if (name == "never-attaches") continue;
      wire::AttachedT attached;
      attached.id = name == "wrong-id" ? 4000000000u : attach->id();
      attached.pid = static_cast<uint32_t>(getpid());
      if (name == "refuses") attached.error = "no Vulkan here";
      Say<wire::BrokerEvent>(attached);
      if (name == "worker-dies" || name == "wrong-id") {
        wire::WorkerExitedT exited;
        exited.id = attach->id();
        exited.signal = SIGKILL;
        Say<wire::BrokerEvent>(exited);
        continue;
      }
      channels[attach->id()] = std::move((*packet)->fds[0]);
      if (name == "dies-later") {
        usleep(200 * 1000);
        raise(SIGKILL);
      }
    } else if (const auto* detach = message->body_as_DetachFrontend()) {
      channels.erase(detach->id());
      wire::WorkerExitedT exited;
      exited.id = detach->id();
      exited.signal = SIGKILL;
      Say<wire::BrokerEvent>(exited);
    } else if (message->body_as_DomainStop() != nullptr) {
      if (name == "never-stops") WaitForEver();
      return 0;
    }
  }
}

void SayExit(int code, const std::string& cause) {
  wire::VmExitedT exited;
  exited.code = code;
  exited.cause = cause;
  Say<wire::VmEvent>(exited);
}

void SayScanout(uint32_t width, uint32_t height) {
  auto fd = CreateMemFd("scanout", 4096);
  if (!fd.ok()) return;
  if (auto map = Mapping::MapShared(fd->get(), 0, 4096, Mapping::kReadWrite); map.ok())
    std::memset(map->data(), 0x40, 4096);
  wire::VmScanoutT scanout;
  scanout.width = width;
  scanout.height = height;
  scanout.stride = width * 4;
  scanout.format = 2;
  Say<wire::VmEvent>(scanout, {fd->get()});
}

// Blocks until the supervisor says stop or is gone.
void WaitForStop() {
  static_cast<void>(ReceivePacket(kControlFd));
}

int Machine(absl::string_view name) {
  if (absl::StartsWith(name, "crash")) {
    __builtin_trap();  // not a raise(): in a PID namespace of its own the process is init, which ignores signals
  } else if (absl::StartsWith(name, "mute")) {
    return 0;
  } else if (absl::StartsWith(name, "garbage")) {
    SayGarbage();
    WaitForEver();
  } else if (absl::StartsWith(name, "chatter")) {
    for (int i = 0; i < 200000; ++i) Say<wire::VmEvent>(wire::VmRunningT());
    WaitForEver();
  } else if (absl::StartsWith(name, "hang")) {
    WaitForEver();
  }
  wire::VmRunningT running;
  running.first_instruction_ns = 5000000;
  Say<wire::VmEvent>(running);
  if (absl::StartsWith(name, "wait")) {
    WaitForStop();
    SayExit(-1, "stopped");
  } else if (absl::StartsWith(name, "code")) {
    SayExit(3, "guest exit 3");
  } else if (absl::StartsWith(name, "flood")) {
    const std::string line(65536, 'x');
    for (int i = 0; i < 160; ++i) static_cast<void>(!write(kSerialFd, line.data(), line.size()));
    SayExit(0, "guest exit 0");
  } else if (absl::StartsWith(name, "huge-picture")) {
    SayScanout(9000, 9000);
    SayExit(0, "guest exit 0");
  } else if (absl::StartsWith(name, "after-the-end")) {
    SayExit(0, "guest exit 0");
    SayExit(0, "guest exit 0");
    WaitForEver();
  } else {
    if (absl::StartsWith(name, "slow")) usleep(1000 * 1000);
    static_cast<void>(!write(kSerialFd, "hello\n", 6));
    SayScanout(1, 1);
    SayScanout(4, 4);
    SayExit(0, "guest exit 0");
  }
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  absl::string_view name;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--name=")) name = argument;
  }
  return argc > 1 && std::strcmp(argv[1], "vm-process") == 0 ? sluice::Machine(name) : sluice::Domain();
}
