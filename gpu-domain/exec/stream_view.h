// File: stream_view.h
//
// A CommandStream message (flatbuf/vk/vulkan.fbs) as replay reads it. The generated verifier looks at every column of
// the table, and there is one per kind of command; this one looks at those that are there. It accepts no message that
// the generated one would refuse, and wants elements aligned besides.
//
//   StreamView stream;
//   if (!ReadStream(payload, &stream)) return m.Bad("CommandStream: malformed");
#ifndef SLUICE_GPU_DOMAIN_EXEC_STREAM_VIEW_H_
#define SLUICE_GPU_DOMAIN_EXEC_STREAM_VIEW_H_

#include <cstdint>

#include "absl/types/span.h"
#include "flatbuf/vk/opcodes.h"

namespace sluice::exec {

// The rows of one kind of command that have not been replayed yet.
struct Column {
  const uint8_t* next = nullptr;
  uint32_t left = 0;
  uint32_t row_bytes = 0;
};

struct StreamView {
  uint64_t command_buffer = 0;
  uint32_t begin_at = 0;
  bool end = false;
  absl::Span<const uint16_t> order;
  absl::Span<const uint64_t> pool;
  uint64_t rows = 0;                 // in all columns
  Column columns[vk::kStreamKinds];  // by kind
};

// `payload`: private memory, 16-byte aligned; the view points into it. False: malformed.
bool ReadStream(absl::Span<const uint8_t> payload, StreamView* stream);

// Generated (flatbuf/vk/exec_stream.cc): columns in the order of the table's fields.
struct StreamColumn {
  uint16_t kind;
  uint16_t row_bytes;
  uint16_t alignment;
};
extern const absl::Span<const StreamColumn> kStreamTable;

}  // namespace sluice::exec

#endif  // SLUICE_GPU_DOMAIN_EXEC_STREAM_VIEW_H_
