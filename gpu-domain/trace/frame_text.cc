#include "gpu-domain/trace/frame_text.h"

#include <flatbuffers/idl.h>
#include <flatbuffers/reflection.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "flatbuf/vk/opcodes.h"
#include "flatbuf/vk/vulkan_generated.h"
#include "gpu-domain/trace/json.h"

namespace sluice::trace {
namespace {

constexpr flatbuffers::uoffset_t kMaxDepth = 16;
constexpr char kNamespace[] = "sluice.vk.";

flatbuffers::uoffset_t MaxTables(size_t bytes) {
  return static_cast<flatbuffers::uoffset_t>(16 + bytes / 8);
}

flatbuffers::IDLOptions Options() {
  flatbuffers::IDLOptions options;
  options.strict_json = true;
  options.indent_step = -1;  // one line
  options.output_default_scalars_in_json = true;
  return options;
}

}  // namespace

struct FrameText::State {
  flatbuffers::Parser parser{Options()};
  std::vector<uint8_t> schema_bytes;
  const reflection::Schema* schema = nullptr;
};

FrameText::FrameText(std::unique_ptr<State> state) : state_(std::move(state)) {}
FrameText::~FrameText() = default;

absl::StatusOr<std::unique_ptr<FrameText>> FrameText::Create() {
  auto state = std::make_unique<State>();
  if (!state->parser.Parse(vk::kSchemaText)) {
    return absl::InternalError(absl::StrCat("embedded schema: ", state->parser.error_));
  }
  state->parser.Serialize();
  const uint8_t* bytes = state->parser.builder_.GetBufferPointer();
  state->schema_bytes.assign(bytes, bytes + state->parser.builder_.GetSize());
  flatbuffers::Verifier verifier(state->schema_bytes.data(), state->schema_bytes.size());
  if (!reflection::VerifySchemaBuffer(verifier))
    return absl::InternalError("embedded schema: its reflection is broken");
  state->schema = reflection::GetSchema(state->schema_bytes.data());
  return std::unique_ptr<FrameText>(new FrameText(std::move(state)));
}

std::string FrameText::Name(uint16_t opcode) {
  if (opcode == wire::kOpcodeError) return "error";
  const char* name = vk::OpcodeName(opcode);
  return name != nullptr ? std::string(name) : absl::StrCat("opcode ", opcode);
}

std::optional<std::string> FrameText::Body(const wire::FrameHeader& header, absl::Span<const uint8_t> payload) {
  // A request may carry kFrameReply too (an answer is wanted); the caller says with `flags` which of the two it is.
  const char* table = vk::RootTable(header.opcode, (header.flags & wire::kFrameReply) != 0);
  if (table == nullptr || payload.size() < 8) return std::nullopt;
  const std::string name = absl::StrCat(kNamespace, table);
  const reflection::Object* root = state_->schema->objects()->LookupByKey(name.c_str());
  if (root == nullptr) return std::nullopt;
  // FlatBuffers wants its buffers aligned, as rings keep them.
  std::vector<uint64_t> aligned((payload.size() + 7) / 8);
  std::memcpy(aligned.data(), payload.data(), payload.size());
  const auto* bytes = static_cast<const uint8_t*>(static_cast<const void*>(aligned.data()));
  if (!flatbuffers::Verify(*state_->schema, *root, bytes, payload.size(), kMaxDepth, MaxTables(payload.size()))) {
    return std::nullopt;
  }
  std::string text;
  if (!state_->parser.SetRootType(name.c_str()) || !flatbuffers::GenerateText(state_->parser, bytes, &text)) {
    return std::nullopt;
  }
  return JsonFinite(text);
}

std::vector<std::string> FrameText::StreamCommands(absl::Span<const uint8_t> payload, size_t limit) {
  std::vector<std::string> names;
  flatbuffers::Verifier verifier(payload.data(), payload.size(), kMaxDepth, MaxTables(payload.size()));
  if (payload.size() < 8 || !verifier.VerifyBuffer<vk::CommandStream>(nullptr)) return names;
  const auto* order = flatbuffers::GetRoot<vk::CommandStream>(payload.data())->order();
  if (order == nullptr) return names;
  for (const uint16_t opcode : *order) {
    if (names.size() >= limit) break;
    names.push_back(Name(opcode));
  }
  return names;
}

}  // namespace sluice::trace
