// machine_run: runs one guest in this process, without jail or supervisor. For developing guests and devices.
//
//   machine_run [FLAGS] FIRMWARE.elf [CMDLINE]
//   machine_run [FLAGS] --kernel=FILE [--initramfs=FILE] [CMDLINE]
//     --kernel=FILE      a Linux kernel: vmlinuz (bzImage) or vmlinux (ELF with a PVH note)
//     --initramfs=FILE
//     --on-reset=A       when the guest asks for a reset: end (default) or restart
//     --stdin            types standard input on the guest's serial port
//     --timeline         prints each mark (a write of 4 bytes to port 0xe1), in ms since the start
//     --mem-mib=N        guest RAM, default 64
//     --vcpus=N          default 1
//     --no-gpu           no display device
//     --rng              a virtio-rng device
//     --display=WxH      what the display device offers, default 1024x768
//     --domain[=OS]      starts sluice-domain beside this binary and attaches (OS type: default linux); without it, 2D
//     only
//     --ppm=FILE         writes what the display shows at the end (needs a 32-bit format)
//     --timeout=SECONDS  stops the guest after that; default: never
//     --log=LEVEL        debug, info, warn (default), error
//
// Serial output goes to standard output, how it ended to standard error. Exit code: the guest's (0 after a power-off);
// 124 timeout, 125 any other end, 126 the machine could not be built, 2 usage.
#include <fcntl.h>
#include <unistd.h>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "devices/rng/device.h"
#include "flatbuf/control_generated.h"
#include "flatbuf/stats.h"
#include "vmm/base/log.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/status_macros.h"
#include "vmm/boot/elf.h"
#include "vmm/jail/spawn.h"
#include "vmm/machine/clock.h"
#include "vmm/machine/machine.h"

namespace sluice::machine {
namespace {

struct RunFlags {
  std::string firmware;
  std::string kernel;
  std::string initramfs;
  bool type_stdin = false;
  bool timeline = false;
  MachineOptions machine;
  std::string domain_os;  // empty: no domain
  std::string ppm;
  uint64_t timeout_s = 0;
  LogLevel log_level = LogLevel::kWarn;
};

absl::StatusOr<std::unique_ptr<virtio::Device>> MakeRng(const DeviceContext& context) {
  return rng::RngDevice::Create({.loop = &context.loop});
}

absl::StatusOr<RunFlags> ParseFlags(int argc, char** argv) {
  RunFlags flags;
  flags.machine.gpu.emplace();
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    const size_t equals = argument.find('=');
    const absl::string_view value = equals == absl::string_view::npos ? "" : argument.substr(equals + 1);
    bool good = true;
    if (!absl::StartsWith(argument, "--")) {
      words.emplace_back(argument);
    } else if (absl::StartsWith(argument, "--mem-mib=")) {
      good = absl::SimpleAtoi(value, &flags.machine.mem_mib);
    } else if (absl::StartsWith(argument, "--vcpus=")) {
      good = absl::SimpleAtoi(value, &flags.machine.vcpus);
    } else if (absl::StartsWith(argument, "--kernel=")) {
      flags.kernel = std::string(value);
    } else if (absl::StartsWith(argument, "--initramfs=")) {
      flags.initramfs = std::string(value);
    } else if (argument == "--on-reset=end") {
      flags.machine.on_reset = ResetAction::kEnd;
    } else if (argument == "--on-reset=restart") {
      flags.machine.on_reset = ResetAction::kRestart;
    } else if (argument == "--stdin") {
      flags.type_stdin = true;
    } else if (argument == "--timeline") {
      flags.timeline = true;
    } else if (argument == "--rng") {
      flags.machine.devices.push_back({.name = "rng", .create = MakeRng});
    } else if (argument == "--no-gpu") {
      flags.machine.gpu.reset();
    } else if (absl::StartsWith(argument, "--display=") && flags.machine.gpu.has_value()) {
      const std::vector<std::string> sides = absl::StrSplit(value, 'x');
      good = sides.size() == 2 && absl::SimpleAtoi(sides[0], &flags.machine.gpu->width) &&
             absl::SimpleAtoi(sides[1], &flags.machine.gpu->height);
    } else if (argument == "--domain") {
      flags.domain_os = "linux";
    } else if (absl::StartsWith(argument, "--domain=")) {
      flags.domain_os = std::string(value);
    } else if (absl::StartsWith(argument, "--ppm=")) {
      flags.ppm = std::string(value);
    } else if (absl::StartsWith(argument, "--timeout=")) {
      good = absl::SimpleAtoi(value, &flags.timeout_s);
    } else if (argument == "--log=debug") {
      flags.log_level = LogLevel::kDebug;
    } else if (argument == "--log=info") {
      flags.log_level = LogLevel::kInfo;
    } else if (argument == "--log=error") {
      flags.log_level = LogLevel::kError;
    } else {
      good = argument == "--log=warn";
    }
    if (!good) return absl::InvalidArgumentError(absl::StrCat("bad argument '", argument, "'"));
  }
  if (flags.kernel.empty()) {
    if (words.empty()) return absl::InvalidArgumentError("give FIRMWARE.elf or --kernel=FILE");
    if (!flags.initramfs.empty()) return absl::InvalidArgumentError("--initramfs goes with --kernel");
    flags.firmware = words[0];
    words.erase(words.begin());
  }
  if (words.size() > 1) return absl::InvalidArgumentError("give at most one CMDLINE");
  if (words.size() == 1) flags.machine.cmdline = words[0];
  return flags;
}

// A sluice-domain with one front-end attached; ends with this object.
class Domain {
 public:
  // Starts it; `*channel` becomes the front-end's end of the service channel.
  absl::Status Start(const std::string& os, UniqueFd* channel) {
    SLUICE_ASSIGN_OR_RETURN(auto control, CreateSeqPacketPair());
    control_ = std::move(control.first);
    jail::SpawnOptions options;
    options.program = jail::SiblingBinary("sluice-domain");
    options.arguments = {"--control_fd=3"};
    options.environment = jail::InheritedEnvironment({"VK_ICD_FILENAMES", "VK_DRIVER_FILES", "HOME", "XDG_DATA_DIRS"});
    options.fds = {{control.second.get(), 3}};
    SLUICE_ASSIGN_OR_RETURN(child_, jail::Spawn(options));
    control.second.Reset();  // so that its end is seen

    wire::DomainStartT start;
    start.name = "machine-run";
    start.os = os;
    SLUICE_RETURN_IF_ERROR(Send(wire::ToBroker::DomainStart, std::move(start), {}));
    SLUICE_ASSIGN_OR_RETURN(auto sockets, CreateSeqPacketPair());
    SLUICE_ASSIGN_OR_RETURN(const UniqueFd stats, CreateMemFd("worker-stats", sizeof(wire::WorkerStats)));
    wire::AttachFrontendT attach;
    attach.id = 1;
    attach.name = "machine-run";
    attach.os = os;
    attach.memory_bytes = uint64_t{1} << 30;
    attach.max_contexts = 16;
    attach.share = 1;
    SLUICE_RETURN_IF_ERROR(Send(wire::ToBroker::AttachFrontend, std::move(attach), {sockets.first.get(), stats.get()}));
    for (;;) {
      SLUICE_ASSIGN_OR_RETURN(auto packet, ReceivePacket(control_.get()));
      if (!packet.has_value()) return absl::UnavailableError("sluice-domain ended");
      flatbuffers::Verifier verifier(packet->bytes.data(), packet->bytes.size());
      if (!verifier.VerifyBuffer<wire::BrokerEvent>(nullptr)) return absl::InternalError("sluice-domain: bad event");
      const auto* attached = flatbuffers::GetRoot<wire::BrokerEvent>(packet->bytes.data())->body_as_Attached();
      if (attached == nullptr) continue;
      if (attached->error() != nullptr && attached->error()->size() > 0)
        return absl::InternalError(attached->error()->str());
      break;
    }
    *channel = std::move(sockets.second);
    return absl::OkStatus();
  }

 private:
  template <typename Table>
  absl::Status Send(wire::ToBroker type, Table table, std::vector<int> fds) {
    wire::BrokerMessageT message;
    message.body.type = type;
    message.body.value = new Table(std::move(table));  // owned by the union
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(wire::BrokerMessage::Pack(builder, &message));
    return SendPacket(control_.get(), {builder.GetBufferPointer(), builder.GetSize()}, fds);
  }
  UniqueFd control_;
  jail::ChildProcess child_;
};

// What the guest boots, into the options.
absl::Status OpenImages(RunFlags& flags) {
  const auto open_file = [](const std::string& path) -> absl::StatusOr<UniqueFd> {
    UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return ErrnoToStatus(errno, path);
    return fd;
  };
  if (flags.kernel.empty()) {
    SLUICE_ASSIGN_OR_RETURN(const UniqueFd firmware, open_file(flags.firmware));
    auto image = boot::ReadImage(firmware.get());
    if (!image.ok()) return Annotate(image.status(), flags.firmware);
    flags.machine.firmware = *std::move(image);
    return absl::OkStatus();
  }
  flags.machine.kernel.emplace();
  SLUICE_ASSIGN_OR_RETURN(flags.machine.kernel->image, open_file(flags.kernel));
  if (!flags.initramfs.empty()) {
    SLUICE_ASSIGN_OR_RETURN(flags.machine.kernel->initramfs, open_file(flags.initramfs));
  }
  return absl::OkStatus();
}

// Types what arrives on standard input, as fast as the guest takes it.
class Typist {
 public:
  Typist(asio::io_context& loop, Machine* machine) : input_(loop), timer_(loop), machine_(machine) {
    const int fd = dup(STDIN_FILENO);
    asio::error_code error;
    if (fd >= 0) input_.assign(fd, error);
    if (fd >= 0 && !error) Read();
  }

 private:
  void Read() {
    input_.async_read_some(asio::buffer(buffer_), [this](const asio::error_code& error, size_t bytes) {
      if (error) return;
      pending_.assign(buffer_, bytes);
      Type();
    });
  }
  void Type() {
    pending_.erase(0, machine_->SerialInput(pending_));
    if (pending_.empty()) return Read();
    timer_.expires_after(std::chrono::milliseconds(20));
    timer_.async_wait([this](const asio::error_code& error) {
      if (!error) Type();
    });
  }
  asio::posix::stream_descriptor input_;
  asio::steady_timer timer_;
  Machine* const machine_;
  char buffer_[512];
  std::string pending_;
};

absl::Status WritePpm(const gpu_front::ScanoutImage& image, const std::string& path) {
  if (image.width == 0) return absl::NotFoundError("nothing is shown");
  SLUICE_ASSIGN_OR_RETURN(
      const Mapping pixels,
      Mapping::MapShared(image.memfd.get(), 0, uint64_t{image.stride} * image.height, Mapping::kRead));
  const bool blue_first = image.format == 1 || image.format == 2;
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return ErrnoToStatus(errno, path);
  std::fprintf(file, "P6\n%u %u\n255\n", image.width, image.height);
  for (uint32_t y = 0; y < image.height; ++y) {
    for (uint32_t x = 0; x < image.width; ++x) {
      const uint8_t* p = pixels.data() + uint64_t{y} * image.stride + uint64_t{x} * 4;
      const uint8_t rgb[3] = {p[blue_first ? 2 : 0], p[1], p[blue_first ? 0 : 2]};
      std::fwrite(rgb, 1, 3, file);
    }
  }
  std::fclose(file);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  auto flags = ParseFlags(argc, argv);
  if (!flags.ok()) {
    std::fprintf(stderr,
                 "machine_run: %s\nusage: machine_run [--mem-mib=N] [--vcpus=N] [--no-gpu] [--rng] [--display=WxH] "
                 "[--domain[=OS]] [--ppm=FILE] [--timeout=SECONDS] [--on-reset=end|restart] [--stdin] [--timeline] "
                 "[--log=LEVEL] FIRMWARE.elf | "
                 "--kernel=FILE [--initramfs=FILE] [CMDLINE]\n",
                 std::string(flags.status().message()).c_str());
    return 2;
  }
  InitLogging("machine_run", flags->log_level);
  auto fail = [](const absl::Status& status) {
    std::fprintf(stderr, "machine_run: %s\n", status.ToString().c_str());
    return 126;
  };

  const bool timeline = flags->timeline;
  if (const absl::Status opened = OpenImages(*flags); !opened.ok()) return fail(opened);
  flags->machine.kvm.Reset(open("/dev/kvm", O_RDWR | O_CLOEXEC));
  if (!flags->machine.kvm) return fail(ErrnoToStatus(errno, "/dev/kvm"));
  Domain domain;
  if (!flags->domain_os.empty() && flags->machine.gpu.has_value()) {
    flags->machine.gpu->os = flags->domain_os;
    if (const absl::Status status = domain.Start(flags->domain_os, &flags->machine.gpu->channel); !status.ok())
      return fail(status);
  }
  flags->machine.serial = [](absl::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };

  asio::io_context loop(1);
  const uint64_t start = MonotonicNanos();
  auto machine = Machine::Create(loop, std::move(flags->machine));
  if (!machine.ok()) return fail(machine.status());
  MachineEnd end;
  bool timed_out = false;
  (*machine)->OnFirstMark(
      [](uint64_t ns) { SLUICE_LOG(info, "first guest instruction after {:.2f} ms", static_cast<double>(ns) / 1e6); });
  const auto stamp = [timeline](const std::string& what, uint64_t ns) {
    if (timeline) std::fprintf(stderr, "machine_run: %10.2f ms %s\n", static_cast<double>(ns) / 1e6, what.c_str());
  };
  (*machine)->OnMark([&](const Mark& mark) { stamp(absl::StrCat("mark ", mark.value), mark.nanoseconds); });
  (*machine)->OnRestart([&](uint64_t count) { stamp(absl::StrCat("restart ", count), MonotonicNanos() - start); });
  stamp("built", MonotonicNanos() - start);
  const absl::Status started = (*machine)->Start([&](const MachineEnd& e) {
    end = e;
    loop.stop();
  });
  if (!started.ok()) return fail(started);
  std::optional<Typist> typist;
  if (flags->type_stdin) typist.emplace(loop, machine->get());
  asio::steady_timer timer(loop);
  if (flags->timeout_s > 0) {
    timer.expires_after(std::chrono::seconds(flags->timeout_s));
    timer.async_wait([&](const asio::error_code& error) {
      if (error) return;
      timed_out = true;
      (*machine)->Stop();
    });
  }
  loop.run();
  stamp("end", MonotonicNanos() - start);
  std::fprintf(stderr, "machine_run: %s\n", end.ToString().c_str());
  if (!flags->ppm.empty()) {
    auto picture = (*machine)->SnapshotScanout();
    const absl::Status written = picture.ok() ? WritePpm(*picture, flags->ppm) : picture.status();
    if (!written.ok()) std::fprintf(stderr, "machine_run: picture: %s\n", written.ToString().c_str());
  }
  if (timed_out) return 124;
  if (end.cause == EndCause::kPowerOff) return 0;
  return end.cause == EndCause::kGuestExit ? end.code : 125;
}

}  // namespace
}  // namespace sluice::machine

int main(int argc, char** argv) {
  return sluice::machine::Main(argc, argv);
}
