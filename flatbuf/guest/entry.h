// File: entry.h
//
// What Vulkan entry points share: the channel with its lock held, and the table behind vkGet*ProcAddr. Freestanding.
#ifndef SLUICE_FLATBUF_GUEST_ENTRY_H_
#define SLUICE_FLATBUF_GUEST_ENTRY_H_

#include <stddef.h>
#include <string.h>
#include <vulkan/vulkan_core.h>

#include "flatbuf/guest/channel.h"
#include "flatbuf/guest/handle.h"

namespace sluice::guest {

// The channel of any dispatchable object.
template <HasState T>
GuestChannel& ChannelOf(T handle) {
  return *State(handle)->channel;
}

// Holds the lock of the channel that a dispatchable object (the first argument of every command) belongs to.
class ChannelLock {
 public:
  template <HasState T>
  explicit ChannelLock(T handle) : ChannelLock(ChannelOf(handle)) {}
  explicit ChannelLock(GuestChannel& channel) : channel_(channel) { channel_.Lock(); }
  ~ChannelLock() { channel_.Unlock(); }
  ChannelLock(const ChannelLock&) = delete;
  ChannelLock& operator=(const ChannelLock&) = delete;
  GuestChannel& channel() { return channel_; }

 private:
  GuestChannel& channel_;
};

struct NamedFunction {
  const char* name;
  PFN_vkVoidFunction function;
  uint32_t version;       // of Vulkan that has it in its core (VK_API_VERSION_*); 0: none
  const char* extension;  // that provides it otherwise; null: none
};
// Generated; sorted by name. Promoted names of extensions lead to the core function.
extern const NamedFunction kFunctions[];
extern const size_t kFunctionCount;

}  // namespace sluice::guest

#endif  // SLUICE_FLATBUF_GUEST_ENTRY_H_
