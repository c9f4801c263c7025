// File: control.h
//
// The supervisor's side of a domain: one socket with flatbuf/control.fbs messages, BrokerMessage in, BrokerEvent out.
// The supervisor is trusted with what it asks for; still, a message that does not verify ends the domain with an error
// rather than in a surprise.
//
//   Control control(loop, std::move(socket), DomainSpec{...});
//   loop.run();
//   return control.exit_code();
#ifndef SLUICE_GPU_DOMAIN_BROKER_CONTROL_H_
#define SLUICE_GPU_DOMAIN_BROKER_CONTROL_H_

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <deque>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gpu-domain/broker/broker.h"
#include "gpu-domain/broker/exit_codes.h"
#include "vmm/base/seqpacket.h"
#include "vmm/base/unique_fd.h"

namespace sluice::broker {

// Loop thread only.
class Control {
 public:
  // `defaults`: worker path and jail; name, OS type and GPUs come with DomainStart. Stops the loop when the domain is
  // over.
  Control(asio::io_context& loop, UniqueFd socket, DomainSpec defaults);

  // Ends all workers, then the loop, with this exit code. Also for signals.
  void Stop(int exit_code);
  int exit_code() const { return exit_code_; }

 private:
  void WaitReadable();
  void OnReadable();
  void Handle(Packet packet);
  void OnAttach(Packet& packet);
  void OnWorkerExit(uint32_t id, const jail::ExitStatus& status);
  // Queued when the socket is full: an event is never lost, and the loop never blocks on its supervisor.
  void Send(absl::Span<const uint8_t> bytes);
  void Flush();

  asio::io_context& loop_;
  asio::posix::stream_descriptor socket_;
  Broker broker_;
  bool started_ = false;
  bool stopping_ = false;
  bool flushing_ = false;
  int exit_code_ = kExitOk;
  std::deque<std::vector<uint8_t>> unsent_;
};

}  // namespace sluice::broker

#endif  // SLUICE_GPU_DOMAIN_BROKER_CONTROL_H_
