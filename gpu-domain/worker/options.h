// File: options.h
//
// What a worker is told when it starts: descriptors at fixed numbers, everything else as command-line flags (main.cc
// maps them 1:1). Made by the broker (gpu-domain/broker/launch.h); tests make them too.
#ifndef SLUICE_GPU_DOMAIN_WORKER_OPTIONS_H_
#define SLUICE_GPU_DOMAIN_WORKER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace sluice::worker {

// Descriptor numbers in a worker process.
inline constexpr int kChannelFd = 3;  // SOCK_SEQPACKET, domain side of flatbuf/channel.fbs; with --spare: where one
                                      // packet brings it, its bytes the front-end's name
inline constexpr int kStatsFd = 4;    // memfd of at least one page: wire::WorkerStats; may be absent
inline constexpr int kCaptureFd = 5;  // capture file, open for writing; only with --capture

// Exit codes of sluice-worker.
enum ExitCode : int {
  kExitOk = 0,        // the front-end closed the channel
  kExitUsage = 2,     // bad flags or descriptors
  kExitProtocol = 3,  // the front-end speaks another protocol version or schema, or broke the channel's rules
  kExitNoVulkan = 4,  // no Vulkan driver, or no device that matches --gpus
  kExitHung = 5,      // a driver call or GPU work did not end; its memory cannot be given back any other way
  kExitJail = 6,      // the jail could not be entered
};

struct WorkerOptions {
  std::string name = "frontend";  // of the front-end: in log lines and the capture
  std::string domain;             // of the GPU Domain: Capset::domain_name
  std::string os = "linux";       // OS type: Capset::os_type; a Hello with another one is refused
  // Device memory and blobs of all contexts together, bytes.
  uint64_t memory_bytes = uint64_t{256} << 20;
  uint32_t max_contexts = 16;
  uint32_t max_blobs = 8192;       // mappings are a limited resource of a process
  uint32_t max_objects = 200'000;  // Vulkan objects per context
  // Device name must contain one of these, ignoring case ("llvmpipe"); empty: any device.
  std::vector<std::string> gpus;
  // GPU work that takes longer is a hang: the context is lost.
  absl::Duration gpu_timeout = absl::Seconds(30);
  // A guest that does not read its replies for so long loses the context.
  absl::Duration reply_timeout = absl::Seconds(10);
  // How long an idle ring thread looks at its ring, at most, before it sleeps and wants a doorbell.
  absl::Duration spin = absl::Microseconds(200);
};

}  // namespace sluice::worker

#endif  // SLUICE_GPU_DOMAIN_WORKER_OPTIONS_H_
