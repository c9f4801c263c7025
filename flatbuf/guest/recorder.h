// File: recorder.h
//
// A command buffer while it is recorded: one column of rows per kind of command, the order, and a pool for payloads.
// Appending a command is two small writes. Sent as one CommandStream by vkEndCommandBuffer, or in pieces when long.
// Freestanding.
//
// Owner: its VkCommandBuffer; Vulkan's external synchronisation applies.
#ifndef SLUICE_FLATBUF_GUEST_RECORDER_H_
#define SLUICE_FLATBUF_GUEST_RECORDER_H_

#include <stdint.h>
#include <string.h>

#include "flatbuf/guest/buffer.h"
#include "flatbuf/guest/handle.h"
#include "flatbuf/vk/opcodes.h"

namespace sluice::guest {

class Recorder {
 public:
  // A piece is sent when it holds this many commands, or pool words.
  static constexpr size_t kMaxCommands = 16384;
  static constexpr size_t kMaxPoolWords = 64 * 1024;

  // One command of stream kind `kind` (0 .. kStreamKinds-1) ...
  void Order(uint16_t kind) { order_.Push(static_cast<uint16_t>(vk::kFirstStreamOpcode + kind)); }
  // ... and its arguments.
  template <typename T>
  void Row(uint16_t kind, const T& row) {
    memcpy(columns_[kind].Extend(sizeof(T)), &row, sizeof(T));
  }
  // Payloads; all return the index of the first 8-byte word, 0 when there is nothing to store.
  uint32_t PoolBytes(const void* bytes, size_t size) {
    if (size == 0 || bytes == nullptr) return 0;
    const size_t at = pool_.size();
    uint64_t* words = pool_.Extend((size + 7) / 8);
    words[(size - 1) / 8] = 0;  // no stray bytes behind the payload
    memcpy(words, bytes, size);
    return static_cast<uint32_t>(at);
  }
  template <typename T>
  uint32_t PoolHandles(const T* handles, size_t count) {
    const size_t at = pool_.size();
    uint64_t* words = pool_.Extend(count);
    for (size_t i = 0; i < count; i++) words[i] = ToId(handles[i]);
    return static_cast<uint32_t>(at);
  }
  template <typename T, typename F>
  uint32_t PoolEach(const T* items, size_t count, F to_wire) {
    static_assert(sizeof(T) % 8 == 0 || alignof(T) < 8);
    const size_t at = pool_.size();
    for (size_t i = 0; i < count; i++) {
      const T wire = to_wire(items[i]);
      static_assert(sizeof(T) % 8 == 0);
      memcpy(pool_.Extend(sizeof(T) / 8), &wire, sizeof(T));
    }
    return static_cast<uint32_t>(at);
  }

  bool Long() const { return order_.size() >= kMaxCommands || pool_.size() >= kMaxPoolWords; }
  size_t bytes() const { return order_.size() * 16 + pool_.size() * 8; }
  // Forgets the commands, keeps the memory.
  void Clear() {
    order_.Clear();
    pool_.Clear();
    for (auto& column : columns_) column.Clear();
  }

  const Buffer<uint16_t>& order() const { return order_; }
  const Buffer<uint64_t>& pool() const { return pool_; }
  const Buffer<uint8_t>& column(uint16_t kind) const { return columns_[kind]; }

  // What vkBeginCommandBuffer said, until it is sent.
  bool begin_pending = false;
  bool recording = false;
  VkCommandBufferBeginInfo begin{};
  VkCommandBufferInheritanceInfo inheritance{};

 private:
  Buffer<uint16_t> order_;
  Buffer<uint64_t> pool_;
  Buffer<uint8_t> columns_[vk::kStreamKinds];
};

inline Recorder& RecorderOf(VkCommandBuffer command_buffer) {
  return *State(command_buffer)->recorder;
}

// Sends what has been recorded so far; `end`: with vkEndCommandBuffer. False: the context is lost.
bool FlushRecorder(VkCommandBuffer command_buffer, bool end);
inline void FlushIfLong(VkCommandBuffer command_buffer) {
  if (RecorderOf(command_buffer).Long()) FlushRecorder(command_buffer, false);
}

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_RECORDER_H_
