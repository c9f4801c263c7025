// Messages of a domain that lies: the socket's other end answers each request with what the fuzzer says.
//
// Input: for each message that the driver sends, one answer: a kind, a byte of descriptor kind, 2 bytes of length,
// bytes.
//   kind 0: the bytes as they are; 1: HelloReply, the bytes over a good capability set; 2: BlobCreated of the resource
//   in question, the bytes over (status, backing, size); 3: FenceSignaled (context, timeline, fence); 4: ContextLost
//   with the bytes as text; others: nothing
// When the input ends, the domain hangs up.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "flatbuf/channel_generated.h"
#include "flatbuf/ring.h"
#include "flatbuf/schema_hash.h"
#include "icd/transport/platform.h"

namespace sluice::icd {
namespace {

class LyingDomain {
 public:
  LyingDomain(int socket, const uint8_t* data, size_t size) : socket_(socket), data_(data), left_(size) {}
  ~LyingDomain() { close(socket_); }

  void Run() {
    std::vector<uint8_t> bytes(kMaxMessage);
    for (;;) {
      const ssize_t n = recv(socket_, bytes.data(), bytes.size(), 0);
      if (n <= 0 || left_ < 4) break;
      Look(bytes.data(), static_cast<size_t>(n));
      Answer();
    }
    shutdown(socket_, SHUT_RDWR);
  }

 private:
  void Look(const uint8_t* bytes, size_t size) {
    flatbuffers::Verifier verifier(bytes, size);
    if (!verifier.VerifyBuffer<wire::DomainMessage>(nullptr)) return;
    const auto* message = flatbuffers::GetRoot<wire::DomainMessage>(bytes);
    if (const auto* blob = message->body_as_BlobCreate(); blob != nullptr) {
      resource_ = blob->resource();
      kind_ = wire::BlobIdKind(blob->blob_id());
      size_ = blob->size();
    }
  }

  int MakeFd(uint8_t kind) const {
    switch (kind % 5) {
      case 0:
        if (kind_ == static_cast<uint8_t>(wire::BlobKind::kDoorbell)) return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        [[fallthrough]];
      case 1:
      case 2: {
        const int fd = memfd_create("lie", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (ftruncate(fd, static_cast<off_t>(std::min<uint64_t>(size_, 8 << 20))) != 0) return fd;
        wire::RingHeader header{};
        header.magic = wire::kCapsetMagic;
        header.protocol_version = wire::kProtocolVersion;
        header.schema_hash = wire::kSchemaHash;
        header.reply_head = left_;  // anything
        const ssize_t ignored = pwrite(fd, static_cast<const void*>(&header), sizeof(header), 0);
        (void)ignored;
        if (kind % 5 != 2) fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
        return fd;
      }
      case 3:
        return eventfd(0, EFD_CLOEXEC);
      default:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    }
  }

  template <typename T>
  void Finish(flatbuffers::FlatBufferBuilder& fbb, flatbuffers::Offset<T> body) {
    fbb.Finish(wire::CreateFrontendMessage(fbb, wire::ToFrontendTraits<T>::enum_value, body.Union()));
  }

  void Answer() {
    const uint8_t kind = data_[0], fd_kind = data_[1];
    size_t size = static_cast<size_t>(data_[2] | data_[3] << 8);
    data_ += 4;
    left_ -= 4;
    size = std::min(size, left_);
    const uint8_t* bytes = data_;
    data_ += size;
    left_ -= size;
    flatbuffers::FlatBufferBuilder fbb;
    uint64_t numbers[3] = {};
    memcpy(numbers, bytes, std::min(size, sizeof(numbers)));
    switch (kind) {
      case 0:
        return Send(bytes, size, fd_kind);
      case 1: {
        wire::Capset capset{};
        capset.magic = wire::kCapsetMagic;
        capset.protocol_version = wire::kProtocolVersion;
        capset.schema_hash = wire::kSchemaHash;
        capset.max_contexts = 16;
        capset.min_ring_bytes = wire::kMinRingBytes;
        capset.max_ring_bytes = wire::kMinRingBytes;
        uint8_t raw[sizeof(capset)];
        memcpy(raw, &capset, sizeof(raw));
        for (size_t i = 0; i < std::min(size, sizeof(raw)); i++) raw[i] ^= bytes[i];
        Finish(fbb, wire::CreateHelloReply(fbb, 1, wire::kSchemaHash, fbb.CreateVector(raw, sizeof(raw))));
        break;
      }
      case 2: {
        auto backing = wire::BlobBacking::Memory;
        if (kind_ == static_cast<uint8_t>(wire::BlobKind::kRing)) backing = wire::BlobBacking::Ring;
        if (kind_ == static_cast<uint8_t>(wire::BlobKind::kDoorbell)) backing = wire::BlobBacking::Doorbell;
        Finish(fbb, wire::CreateBlobCreated(fbb, resource_ ^ static_cast<uint32_t>(numbers[2]),
                                            static_cast<wire::BlobStatus>(numbers[0] & 0xff),
                                            static_cast<wire::BlobBacking>(static_cast<uint8_t>(backing) ^
                                                                           static_cast<uint8_t>(numbers[0] >> 8)),
                                            size_ ^ numbers[1]));
        break;
      }
      case 3:
        Finish(fbb, wire::CreateFenceSignaled(fbb, static_cast<uint32_t>(numbers[0]), static_cast<uint8_t>(numbers[1]),
                                              numbers[2]));
        break;
      case 4:
        Finish(fbb, wire::CreateContextLost(fbb, 1, 1,
                                            fbb.CreateString(std::string(reinterpret_cast<const char*>(bytes), size))));
        break;
      default:
        return;
    }
    Send(fbb.GetBufferPointer(), fbb.GetSize(), fd_kind);
  }

  void Send(const void* bytes, size_t size, uint8_t fd_kind) {
    iovec part{const_cast<void*>(bytes), size};
    alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    int fds[3];
    const size_t count = std::min<size_t>(fd_kind >> 6, 3);
    for (size_t i = 0; i < count; i++) fds[i] = MakeFd(fd_kind & 0x3f);
    if (count != 0) {
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(count * sizeof(int));
      cmsghdr* c = CMSG_FIRSTHDR(&header);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(count * sizeof(int));
      memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    }
    sendmsg(socket_, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (size_t i = 0; i < count; i++) close(fds[i]);
  }

  const int socket_;
  const uint8_t* data_;
  size_t left_;
  uint32_t resource_ = 0;
  uint8_t kind_ = 0;
  uint64_t size_ = 0;
};

void Use(int socket) {
  std::string why;
  std::shared_ptr<Connection> connection = Connection::Greet(Fd(socket), &why);
  if (connection == nullptr) return;
  std::unique_ptr<SocketPlatform> platform = SocketPlatform::Open(connection, &why);
  if (platform == nullptr) return;
  guest::SharedMemory memory;
  if (platform->AllocateSharedMemory(8192, &memory)) {
    memset(memory.pointer, 1, 8192);
    platform->FreeSharedMemory(memory);
  }
  platform->RingDoorbell();
  platform->WaitForPosition(16);
  platform->LookAtPeer();
  platform->LostMessage();
}

}  // namespace
}  // namespace sluice::icd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return 0;
  sluice::icd::LyingDomain domain(sockets[1], data, size);
  std::thread thread([&] { domain.Run(); });
  sluice::icd::Use(sockets[0]);
  thread.join();
  return 0;
}
