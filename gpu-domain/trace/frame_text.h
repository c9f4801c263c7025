// File: frame_text.h
//
// One frame of a ring as JSON: its command's name and its fields, by reflection over the schema that the generator
// embeds (flatbuf/vk/opcodes.h, kSchemaText). Frames are verified against the schema first; what does not verify is
// shown as bytes.
//
//   SLUICE_ASSIGN_OR_RETURN(auto text, FrameText::Create());
//   std::string json = text->Body(header, payload);   // {"device": 4294967297, ...}
#ifndef SLUICE_GPU_DOMAIN_TRACE_FRAME_TEXT_H_
#define SLUICE_GPU_DOMAIN_TRACE_FRAME_TEXT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "flatbuf/wire.h"

namespace sluice::trace {

// One thread.
class FrameText {
 public:
  // INTERNAL: the embedded schema does not parse, which is a fault of this build.
  static absl::StatusOr<std::unique_ptr<FrameText>> Create();
  ~FrameText();
  FrameText(const FrameText&) = delete;
  FrameText& operator=(const FrameText&) = delete;

  // "vkCreateBuffer", "CommandStream", "error"; "opcode 77" for what is none.
  static std::string Name(uint16_t opcode);
  // The fields as one JSON object on one line; nullopt: no such command, or the bytes are not one.
  std::optional<std::string> Body(const wire::FrameHeader& header, absl::Span<const uint8_t> payload);
  // For a CommandStream that Body() accepts: the names of its commands, in order, at most `limit` of them.
  static std::vector<std::string> StreamCommands(absl::Span<const uint8_t> payload, size_t limit);

 private:
  struct State;
  explicit FrameText(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sluice::trace

#endif  // SLUICE_GPU_DOMAIN_TRACE_FRAME_TEXT_H_
