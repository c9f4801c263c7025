// File: recorder.h
//
// A command buffer while it is recorded: one column of rows per kind of command, the order, and a pool for payloads.
// Appending a command is two small writes; no lock is taken. The columns go into the ring as one CommandStream when
// vkEndCommandBuffer is called, or in pieces when the recording is long, so that the worker replays the beginning while
// the guest still records. Freestanding.
//
// Owner: its VkCommandBuffer, from vkBeginCommandBuffer to vkEndCommandBuffer; in between its VkCommandPool, which
// keeps the memory. Threads: Vulkan's external synchronisation of both. A command buffer that is not recording refers
// to Recorder::Idle(), which takes no commands.
#ifndef SLUICE_FLATBUF_GUEST_RECORDER_H_
#define SLUICE_FLATBUF_GUEST_RECORDER_H_

#include <stdint.h>
#include <string.h>

#include "flatbuf/guest/buffer.h"
#include "flatbuf/guest/handle.h"
#include "flatbuf/vk/opcodes.h"
#include "flatbuf/vkgen/cast_raw.h"

namespace sluice::guest {

// Where the rows of a kind of command go in CommandStream. Generated; by kind.
struct StreamKind {
  uint16_t field;      // offset of the column in the table's vtable; 0: commands without arguments
  uint16_t row_bytes;  // 0 then
};
extern const StreamKind kStreamColumns[vk::kStreamKinds];

// Structures in one pNext chain; more are skipped (and the worker would refuse them).
inline constexpr int kMaxLinks = 16;

// A place in the pool in the shape of the pointer that it stands for.
template <typename T>
T PlaceAs(uint32_t place) {
  return vk::HandleCast<T>(place);
}

class Recorder {
 public:
  constexpr Recorder() = default;
  // Call FreeMemory first: what command buffers share while they are idle must need no destructor.
  ~Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  static Recorder* New();  // null: out of memory
  // What command buffers refer to that are not recording.
  static Recorder& Idle();

  // Starts a recording into `owner`. `begin`: null pointers where vkBeginCommandBuffer ignores them.
  void Begin(GuestCommandBuffer* owner, const VkCommandBufferBeginInfo& begin);
  // Sends the rest with vkEndCommandBuffer. VK_ERROR_OUT_OF_HOST_MEMORY: something could not be recorded (the worker
  // has forgotten the recording), or the context is lost.
  VkResult End();
  // Forgets what has not been sent, and the owner.
  void Drop();
  void FreeMemory();
  // Whether a piece has been sent: the worker is recording too.
  bool sent() const { return sent_ != 0; }

  // ---- a command without arguments of stream kind `kind` (0 .. kStreamKinds-1)
  bool Order(uint16_t kind) {
    if (order_at_ == order_end_) [[unlikely]] {
      if (!MoreOrder()) return false;
    }
    *order_at_++ = static_cast<uint16_t>(vk::kFirstStreamOpcode + kind);
    return true;
  }
  // ---- a command with arguments: the row to fill; null: it cannot be recorded (not recording, out of memory).
  template <typename T>
  T* Row(uint16_t kind) {
    Column& column = columns_[kind];
    if (static_cast<size_t>(column.end - column.at) < sizeof(T) || order_at_ == order_end_) [[unlikely]] {
      if (!Room(kind)) return nullptr;
    }
    *order_at_++ = static_cast<uint16_t>(vk::kFirstStreamOpcode + kind);
    void* row = column.at;
    column.at += sizeof(T);
    return static_cast<T*>(row);
  }

  // ---- a command with payloads: Start(), payloads, Row(), Finish()
  bool Start() {
    if (order_at_ == order_end_) [[unlikely]]
      return MoreOrder();
    return true;
  }
  void Finish() {
    if (pool_size_ >= kMaxPoolWords || tail_bytes_ != 0) [[unlikely]]
      Flush(false);
  }
  // Payloads; all return a place: the index of the first 8-byte word plus 1; 0 when there is nothing to store.
  uint32_t PoolBytes(const void* bytes, uint64_t size) {
    if (size == 0 || bytes == nullptr) return 0;
    const uint64_t words = (size + 7) / 8;
    uint64_t* to = Extend(words);
    if (to == nullptr) return 0;
    to[words - 1] = 0;  // no stray bytes behind the payload
    memcpy(to, bytes, size);
    return static_cast<uint32_t>(pool_size_ - words + 1);
  }
  // The last payload of a command: when it is large, it goes from the program's memory into the ring without a stop in
  // the pool.
  uint32_t PoolTail(const void* bytes, uint64_t size) {
    if (size < kTailBytes || bytes == nullptr) return PoolBytes(bytes, size);
    return Tail(bytes, size);
  }
  template <typename T>
  uint32_t PoolHandles(const T* handles, uint64_t count) {
    if (count == 0 || handles == nullptr) return 0;
    uint64_t* to = Extend(count);
    if (to == nullptr) return 0;
    for (uint64_t i = 0; i < count; i++) to[i] = ToId(handles[i]);
    return static_cast<uint32_t>(pool_size_ - count + 1);
  }
  // `to_wire` may itself add payloads.
  template <typename T, typename F>
  uint32_t PoolImages(const T* items, uint64_t count, F to_wire) {
    static_assert(sizeof(T) % 8 == 0);
    if (count == 0 || items == nullptr) return 0;
    if (Extend(count * (sizeof(T) / 8)) == nullptr) return 0;
    const uint64_t first = pool_size_ - count * (sizeof(T) / 8);
    for (uint64_t i = 0; i < count; i++) {
      const T wire = to_wire(items[i]);
      memcpy(pool_ + first + i * (sizeof(T) / 8), &wire, sizeof(T));
    }
    return static_cast<uint32_t>(first + 1);
  }
  // Elements `stride` bytes apart, packed.
  template <typename T>
  uint32_t PoolStrided(const T* items, uint64_t count, uint64_t stride) {
    if (stride == sizeof(T) || items == nullptr || count == 0) return PoolBytes(items, count * sizeof(T));
    const uint64_t words = (count * sizeof(T) + 7) / 8;
    uint64_t* to = Extend(words);
    if (to == nullptr) return 0;
    to[words - 1] = 0;
    const void* from = items;
    void* packed = to;
    for (uint64_t i = 0; i < count; i++) {
      memcpy(static_cast<uint8_t*>(packed) + i * sizeof(T), static_cast<const uint8_t*>(from) + i * stride, sizeof(T));
    }
    return static_cast<uint32_t>(pool_size_ - words + 1);
  }
  // Writes the pNext of the structure at `place`.
  void SetNext(uint32_t place, uint32_t next) { pool_[place] = next; }

  // Commands sent since the last call.
  uint64_t TakeSent() {
    const uint64_t commands = sent_commands_;
    sent_commands_ = 0;
    return commands;
  }
  // Memory held, in bytes.
  size_t capacity() const { return capacity_; }
  Recorder* next_free = nullptr;  // the pool's list of recorders without an owner

 private:
  // A piece is sent when it holds this many commands (the first pieces of a recording: fewer, so that the worker starts
  // soon), or pool words.
  static constexpr size_t kFirstCommands = 512;
  static constexpr size_t kMaxCommands = 4096;
  static constexpr size_t kMaxPoolWords = 8 * 1024;
  static constexpr size_t kTailBytes = 4096;

  struct Column {
    uint8_t* at = nullptr;
    uint8_t* end = nullptr;  // of the room; begin while the column is not in use, so that the first row is noticed
    uint8_t* begin = nullptr;
    size_t capacity = 0;
  };

  bool MoreOrder();
  bool Room(uint16_t kind);
  bool Flush(bool end);
  // Makes the message of what is recorded and forgets it.
  bool Send(bool end);
  void Clear();
  uint32_t Tail(const void* bytes, uint64_t size);
  uint64_t* Extend(uint64_t words) {
    if (words > pool_capacity_ - pool_size_) [[unlikely]] {
      if (!MorePool(words)) return nullptr;
    }
    uint64_t* first = pool_ + pool_size_;
    pool_size_ += words;
    return first;
  }
  bool MorePool(uint64_t words);
  bool Failed();
  // Grows *memory, which holds `used` bytes, to `capacity`. False: out of memory, and the recording has failed.
  bool Grow(void** memory, size_t used, size_t old_capacity, size_t capacity);

  uint16_t* order_at_ = nullptr;
  uint16_t* order_end_ = nullptr;
  uint64_t* pool_ = nullptr;
  size_t pool_size_ = 0;
  size_t pool_capacity_ = 0;
  const void* tail_ = nullptr;  // behind the pool's own words, while one command is being recorded
  size_t tail_bytes_ = 0;
  GuestCommandBuffer* owner_ = nullptr;
  bool failed_ = false;
  uint32_t sent_ = 0;      // pieces
  uint32_t begin_at_ = 0;  // place of what vkBeginCommandBuffer said, until it is sent
  uint16_t* order_ = nullptr;
  size_t order_capacity_ = 0;  // elements
  size_t capacity_ = 0;
  uint64_t sent_commands_ = 0;
  uint16_t used_count_ = 0;
  uint16_t used_[vk::kStreamKinds] = {};  // kinds with rows
  Column columns_[vk::kStreamKinds];
};

inline Recorder* RecorderOf(VkCommandBuffer command_buffer) {
  return State(command_buffer)->recorder;
}

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_RECORDER_H_
