// worker_record DIR: writes the seeds of frame_fuzz and replay_fuzz. The latter are what a worker captured of real
// guest programs; the former are made by hand.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gpu-domain/trace/capture.h"
#include "gpu-domain/worker/testing/fake_frontend.h"
#include "gpu-domain/worker/testing/saxpy_job.h"
#include "gpu-domain/worker/worker.h"
#include "tests/scenes/triangle_scene.h"
#include "vmm/base/seqpacket.h"

namespace sluice::worker::testing {
namespace {

void WriteFile(const std::filesystem::path& path, const std::vector<uint8_t>& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  for (const uint8_t byte : bytes) out.put(static_cast<char>(byte));
}

template <typename T>
void Put(std::vector<uint8_t>& to, T value) {
  const size_t at = to.size();
  to.resize(at + sizeof(T));
  std::memcpy(to.data() + at, &value, sizeof(T));
}

// Runs `program` as a guest of a capturing worker; its requests as a replay_fuzz input.
std::vector<uint8_t> Record(const VulkanDriver& driver, const std::function<bool()>& program) {
  const UniqueFd file(memfd_create("capture", 0));
  auto pair = CreateSeqPacketPair();
  wire::WorkerStats stats{};
  absl::StatusOr<UniqueFd> capture = file.Duplicate();
  if (!pair.ok() || !capture.ok()) return {};
  Worker worker(WorkerOptions{}, std::move(pair->second), &driver, &stats, *std::move(capture));
  std::thread thread([&] { worker.Run(); });
  FakeFrontend frontend(std::move(pair->first));
  bool ok = frontend.Hello("linux").ok();
  frontend.CreateContext(1);
  {
    auto guest = GuestPlatform::Create(&frontend, 1);
    ok = ok && guest.ok() && program();
  }
  frontend.Close();
  thread.join();
  std::vector<uint8_t> input;
  lseek(file.get(), 0, SEEK_SET);
  absl::StatusOr<UniqueFd> again = file.Duplicate();
  auto reader = trace::CaptureReader::FromFd(*std::move(again));
  if (!ok || !reader.ok()) return {};
  for (;;) {
    auto entry = reader->Next();
    if (!entry.ok() || !entry->has_value()) return input;
    if ((*entry)->record.kind != static_cast<uint32_t>(trace::CaptureKind::kRequest)) continue;
    wire::FrameHeader header{};
    std::memcpy(&header, (*entry)->payload.data(), sizeof(header));
    Put(input, header.opcode);
    Put(input, header.flags);
    Put(input, header.size);
    input.insert(input.end(), (*entry)->payload.begin() + sizeof(header), (*entry)->payload.end());
  }
}

// Steps of frame_fuzz's grammar.
void Honest(std::vector<uint8_t>& to, uint8_t opcode, uint16_t size) {
  Put<uint8_t>(to, 3);
  Put(to, opcode);
  Put(to, size);
}
void WriteAt(std::vector<uint8_t>& to, uint32_t offset, const wire::FrameHeader& header) {
  Put<uint8_t>(to, 0);
  Put(to, offset);
  Put<uint16_t>(to, sizeof(header));
  Put(to, header);
}
void Head(std::vector<uint8_t>& to, uint64_t head) {
  Put<uint8_t>(to, 1);
  Put(to, head);
}

void WriteFrameSeeds(const std::filesystem::path& dir) {
  std::vector<uint8_t> honest;
  for (uint16_t i = 0; i < 40; ++i) Honest(honest, static_cast<uint8_t>(i), static_cast<uint16_t>(i * 97));
  WriteFile(dir / "honest", honest);
  std::vector<uint8_t> joined;  // three frames of one message, then a whole one
  WriteAt(joined, 0, {20, wire::kFrameMore, 16, 1});
  WriteAt(joined, 32, {20, wire::kFrameMore, 0, 1});
  WriteAt(joined, 48, {20, 0, 5, 1});
  WriteAt(joined, 80, {21, wire::kFrameReply, 0, 2});
  Head(joined, 32);
  Head(joined, 96);
  WriteFile(dir / "joined", joined);
  std::vector<uint8_t> pad;  // a pad to the end, then another one: refused
  WriteAt(pad, 0, {wire::kOpcodePad, 0, 32768 - 16, 0});
  Head(pad, 32768);
  Head(pad, 65536);
  WriteFile(dir / "pads", pad);
  std::vector<uint8_t> liar;
  Head(liar, ~uint64_t{0});
  Head(liar, 8);
  WriteFile(dir / "liar", liar);
  std::vector<uint8_t> long_size;
  WriteAt(long_size, 0, {20, 0, 0xffff'fff0u, 1});
  Head(long_size, 4096);
  WriteFile(dir / "long", long_size);
  std::vector<uint8_t> replies;
  for (const uint64_t tail : {uint64_t{0}, uint64_t{4999}, ~uint64_t{0}, uint64_t{1} << 40, uint64_t{16}}) {
    Put<uint8_t>(replies, 2);
    Put(replies, tail);
  }
  WriteFile(dir / "replies", replies);
}

bool Saxpy() {
  VkResult error = VK_SUCCESS;
  const auto job = SaxpyJob::Create(256, &error);
  return job != nullptr && job->Run(2) == VK_SUCCESS && job->Right(2);
}

bool Triangle() {
  scenes::SceneDevice device;
  scenes::TriangleScene scene;
  const bool ok = device.Open({}).ok() && scene.Create(&device, 32).ok() && scene.Render(7).ok();
  scene.Destroy();
  return ok;
}

int Main(const std::filesystem::path& dir) {
  const auto driver = VulkanDriver::Create(DriverOptions());
  if (!driver.ok()) {
    std::fprintf(stderr, "%s\n", driver.status().ToString().c_str());
    return 1;
  }
  WriteFrameSeeds(dir / "frame");
  const std::vector<uint8_t> saxpy = Record(**driver, Saxpy);
  const std::vector<uint8_t> triangle = Record(**driver, Triangle);
  if (saxpy.empty() || triangle.empty()) return 1;
  WriteFile(dir / "replay" / "saxpy", saxpy);
  WriteFile(dir / "replay" / "triangle", triangle);
  return 0;
}

}  // namespace
}  // namespace sluice::worker::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: worker_record DIR\n");
    return 2;
  }
  return sluice::worker::testing::Main(argv[1]);
}
