#include "gpu-domain/broker/control.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "flatbuf/control_generated.h"
#include "vmm/base/log.h"

namespace sluice::broker {
namespace {

std::string Text(const flatbuffers::String* text) {
  return text != nullptr ? text->str() : std::string();
}

template <typename T>
absl::Span<const uint8_t> Finish(flatbuffers::FlatBufferBuilder& fbb, flatbuffers::Offset<T> body) {
  fbb.Finish(wire::CreateBrokerEvent(fbb, wire::FromBrokerTraits<T>::enum_value, body.Union()));
  return absl::MakeConstSpan(fbb.GetBufferPointer(), fbb.GetSize());
}

}  // namespace

Control::Control(asio::io_context& loop, UniqueFd socket, DomainSpec defaults)
    : loop_(loop),
      socket_(loop, socket.Release()),
      broker_(loop, std::move(defaults),
              [this](uint32_t id, const jail::ExitStatus& status) { OnWorkerExit(id, status); }) {
  WaitReadable();
}

void Control::Stop(int exit_code) {
  if (stopping_) return;
  stopping_ = true;
  exit_code_ = exit_code;
  broker_.StopAll([this] {
    Flush();
    loop_.stop();
  });
}

void Control::WaitReadable() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (!error) OnReadable();
  });
}

void Control::OnReadable() {
  for (;;) {
    absl::StatusOr<std::optional<Packet>> packet = ReceivePacket(socket_.native_handle(), /*nonblocking=*/true);
    if (!packet.ok()) {
      if (absl::IsResourceExhausted(packet.status())) break;
      SLUICE_LOG(error, "control socket: {}", std::string(packet.status().message()));
      return Stop(kExitProtocol);
    }
    if (!packet->has_value()) {
      SLUICE_LOG(info, "the supervisor is gone: the domain ends");
      return Stop(kExitOrphaned);
    }
    Handle(**std::move(packet));
  }
  WaitReadable();
}

void Control::Handle(Packet packet) {
  flatbuffers::Verifier verifier(packet.bytes.data(), packet.bytes.size(), /*max_depth=*/8, /*max_tables=*/64);
  if (!verifier.VerifyBuffer<wire::BrokerMessage>(nullptr)) {
    SLUICE_LOG(error, "control socket: a packet that is no BrokerMessage");
    return Stop(kExitProtocol);
  }
  const auto* message = flatbuffers::GetRoot<wire::BrokerMessage>(packet.bytes.data());
  switch (message->body_type()) {
    case wire::ToBroker::DomainStart: {
      const wire::DomainStart& start = *message->body_as_DomainStart();
      DomainSpec domain = broker_.domain();
      domain.name = Text(start.name());
      domain.os = Text(start.os());
      domain.log_level = start.log_level();
      domain.gpus.clear();
      if (start.gpus() != nullptr) {
        for (const flatbuffers::String* gpu : *start.gpus()) domain.gpus.push_back(gpu->str());
      }
      broker_.SetDomain(std::move(domain));
      started_ = true;
      flatbuffers::FlatBufferBuilder fbb;
      Send(Finish(fbb, wire::CreateDomainReady(fbb, static_cast<uint32_t>(getpid()))));
      return;
    }
    case wire::ToBroker::AttachFrontend:
      return OnAttach(packet);
    case wire::ToBroker::DetachFrontend:
      return broker_.Detach(message->body_as_DetachFrontend()->id());
    case wire::ToBroker::DomainStop:
      return Stop(kExitOk);
    case wire::ToBroker::NONE:
      break;
  }
  SLUICE_LOG(error, "control socket: a message of an unknown type");
  Stop(kExitProtocol);
}

void Control::OnAttach(Packet& packet) {
  const wire::AttachFrontend& attach =
      *flatbuffers::GetRoot<wire::BrokerMessage>(packet.bytes.data())->body_as_AttachFrontend();
  WorkerSpec spec;
  spec.name = Text(attach.name());
  spec.os = Text(attach.os());
  spec.memory_bytes = attach.memory_bytes();
  spec.max_contexts = attach.max_contexts();
  spec.require_hardware = attach.require_hardware();
  absl::StatusOr<pid_t> pid = absl::InvalidArgumentError(
      "AttachFrontend needs the channel's descriptor, and two more "
      "for statistics and capture");
  const size_t wanted = attach.capture() ? 3 : 2;
  if (!started_) {
    pid = absl::FailedPreconditionError("AttachFrontend before DomainStart");
  } else if (packet.fds.size() == wanted) {
    WorkerFds fds;
    fds.channel = std::move(packet.fds[0]);
    fds.stats = std::move(packet.fds[1]);
    if (attach.capture()) fds.capture = std::move(packet.fds[2]);
    pid = broker_.Attach(attach.id(), spec, std::move(fds));
  }
  flatbuffers::FlatBufferBuilder fbb;
  const auto error = fbb.CreateString(pid.ok() ? std::string() : std::string(pid.status().message()));
  Send(Finish(fbb, wire::CreateAttached(fbb, attach.id(), pid.ok() ? static_cast<uint32_t>(*pid) : 0, error)));
}

void Control::OnWorkerExit(uint32_t id, const jail::ExitStatus& status) {
  flatbuffers::FlatBufferBuilder fbb;
  Send(Finish(fbb, wire::CreateWorkerExited(fbb, id, status.code, status.signal)));
}

void Control::Send(absl::Span<const uint8_t> bytes) {
  unsent_.emplace_back(bytes.begin(), bytes.end());
  Flush();
}

void Control::Flush() {
  while (!unsent_.empty()) {
    const absl::Status status = SendPacket(socket_.native_handle(), unsent_.front(), {}, /*nonblocking=*/true);
    if (absl::IsResourceExhausted(status)) {
      if (flushing_) return;
      flushing_ = true;
      socket_.async_wait(asio::posix::stream_descriptor::wait_write, [this](const asio::error_code& error) {
        flushing_ = false;
        if (!error) Flush();
      });
      return;
    }
    if (!status.ok()) {
      unsent_.clear();  // nobody is there; the read side ends the domain
      return;
    }
    unsent_.pop_front();
  }
}

}  // namespace sluice::broker
