// File: fake_domain.h
//
// The other two neighbours of a gpu-front device, for tests, fuzzers and examples: a worker on the far end of a service
// channel that says what the test tells it to, truth or not, and a host-visible window without a VM.
//
//   SLUICE_ASSIGN_OR_RETURN(auto pair, CreateSeqPacketPair());
//   FakeDomain domain(std::move(pair.second));
//   domain.SayHello();
//   std::optional<wire::DomainMessageT> asked = domain.Receive();
//   domain.SayBlobCreated(7, wire::BlobBacking::Memory, 8192, {CreateMemFd("blob", 8192)->get()});
#ifndef SLUICE_DEVICES_GPU_FRONT_TESTING_FAKE_DOMAIN_H_
#define SLUICE_DEVICES_GPU_FRONT_TESTING_FAKE_DOMAIN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "devices/gpu-front/window.h"
#include "flatbuf/channel_generated.h"
#include "flatbuf/wire.h"
#include "vmm/base/unique_fd.h"

namespace sluice::gpu_front::testing {

// A capability set that a device accepts.
wire::Capset MakeCapset();

class FakeDomain {
 public:
  explicit FakeDomain(UniqueFd socket) : socket_(std::move(socket)) {}

  // The next message from the device, unpacked; nullopt: none is there now (or it does not verify).
  std::optional<wire::DomainMessageT> Receive();
  // The next message of type T, dropping others; null when none comes any more.
  template <typename T>
  std::unique_ptr<T> ReceiveA();

  // True if the packet was taken by the socket. `fds` stay the caller's.
  bool Say(const wire::FrontendMessageT& message, absl::Span<const int> fds = {});
  bool SayBytes(absl::Span<const uint8_t> bytes, absl::Span<const int> fds = {});
  bool SayHello();
  bool SayHello(uint32_t protocol_version, uint64_t schema_hash, absl::Span<const uint8_t> capset);
  bool SayBlobCreated(uint32_t resource, wire::BlobBacking backing, uint64_t size, absl::Span<const int> fds);
  bool SayBlobFailed(uint32_t resource, wire::BlobStatus status);
  bool SayFenceSignaled(uint32_t context, uint8_t ring_idx, uint64_t fence_id);
  bool SayContextLost(uint32_t context, wire::LostReason reason);
  // The worker dies.
  void Die() { socket_.Reset(); }

 private:
  UniqueFd socket_;
};

// Remembers what is shown where. Optionally refuses.
class FakeWindow : public HostVisibleWindow {
 public:
  explicit FakeWindow(uint64_t size) : size_(size) {}
  uint64_t size() const override { return size_; }
  absl::Status Map(uint64_t offset, std::shared_ptr<const Mapping> mapping) override;
  absl::Status MapDoorbell(uint64_t offset, int event_fd) override;
  void Unmap(uint64_t offset) override;

  // The memory shown at `offset`; null: none.
  const Mapping* at(uint64_t offset) const;
  // The doorbell at `offset`, or -1.
  int doorbell(uint64_t offset) const;
  size_t mapped() const { return mappings_.size() + doorbells_.size(); }
  // A call that broke the contract of window.h, if there was one.
  const std::string& violation() const { return violation_; }
  void RefuseWith(absl::Status status) { refusal_ = std::move(status); }

 private:
  void Check(uint64_t offset, uint64_t bytes);

  uint64_t size_;
  std::map<uint64_t, std::shared_ptr<const Mapping>> mappings_;
  std::map<uint64_t, int> doorbells_;
  std::string violation_;
  absl::Status refusal_;
};

template <typename T>
std::unique_ptr<T> FakeDomain::ReceiveA() {
  while (auto message = Receive()) {
    if (message->body.type == wire::ToDomainUnionTraits<T>::enum_value) {
      return std::make_unique<T>(std::move(*static_cast<T*>(message->body.value)));
    }
  }
  return nullptr;
}

}  // namespace sluice::gpu_front::testing

#endif  // SLUICE_DEVICES_GPU_FRONT_TESTING_FAKE_DOMAIN_H_
