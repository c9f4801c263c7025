// File: source.h
//
// Where the driver's instances get their channels: the process's connections to the domain that SLUICE_SOCKET names.
// The first instance connects; later ones add contexts to the same connection, up to what the domain allows, then
// another is made. A connection ends when the library is unloaded, or with its last context once it is dead.
//
// A child of a fork gets none of its parent's: their contexts are lost for it, and it may open its own.
#ifndef SLUICE_ICD_TRANSPORT_SOURCE_H_
#define SLUICE_ICD_TRANSPORT_SOURCE_H_

#include <string>

#include "flatbuf/guest/channel.h"
#include "icd/transport/platform.h"

namespace sluice::icd {

// The process's source. Any thread.
guest::ChannelSource& ProcessChannels();
// The platform below a channel that came from there.
SocketPlatform& PlatformOf(guest::GuestChannel& channel);
// Connections and contexts that this process has, for tests.
size_t OpenConnections();
size_t OpenContexts();

}  // namespace sluice::icd

#endif  // SLUICE_ICD_TRANSPORT_SOURCE_H_
