// File: request.h
//
// What a driver asks of a disk, decoded and checked: either something for the engine to do, or an answer at once.
//
//   std::variant<Answer, IoRequest> decoded = Decode(chain, ram, rules);
//   if (const auto* answer = std::get_if<Answer>(&decoded)) return Complete(chain, *answer);
//   engine->Submit(std::get<IoRequest>(std::move(decoded)));
#ifndef SLUICE_DEVICES_BLOCK_REQUEST_H_
#define SLUICE_DEVICES_BLOCK_REQUEST_H_

#include <cstdint>
#include <string>
#include <variant>

#include "devices/block/engine.h"
#include "devices/block/protocol.h"
#include "vmm/memory/guest_memory.h"
#include "vmm/virtio/descriptor_chain.h"

namespace sluice::block {

// What is allowed on a disk.
struct RequestRules {
  uint64_t sectors = 0;          // capacity
  bool read_only = false;        // writes of any kind are IOERR
  bool discard = false;          // DISCARD was negotiated; else UNSUPP
  bool write_zeroes = false;     // WRITE_ZEROES was negotiated; else UNSUPP
  bool durable = false;          // writes are on the medium before they are acknowledged
  uint32_t segments = 0;         // pieces that data may consist of
  uint32_t segment_bytes = 0;    // size of each
  uint32_t ranges = 0;           // ranges of one DISCARD or WRITE_ZEROES
  uint32_t discard_sectors = 0;  // of one range
  uint32_t zeroes_sectors = 0;   // of one range
  std::string serial;            // GET_ID
};

// An answer that needs no disk: the data, then the status.
struct Answer {
  uint8_t status = kStatusOk;
  std::string data;
};

// Reads the request's header, and the ranges if it has some, once each. Section 5.2.6: what is too short, unaligned,
// outside the disk or above a limit is IOERR; what is unknown or was not negotiated, UNSUPP. Precondition: the chain
// has a writable byte, for the status. The result's id is 0.
std::variant<Answer, IoRequest> Decode(const virtio::DescriptorChain& chain, const memory::GuestMemory& memory,
                                       const RequestRules& rules);

// Bytes that a request moves, as far as rates go: those of a discard do not count.
uint64_t BytesMoved(const IoRequest& request);

}  // namespace sluice::block

#endif  // SLUICE_DEVICES_BLOCK_REQUEST_H_
