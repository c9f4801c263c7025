#include "vmm/topology/config.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "vmm/base/unique_fd.h"
#include "vmm/topology/output_file.h"
#include "vmm/topology/schema.h"

namespace sluice::topology {
namespace {

bool ReadText(const std::string& path, Document* document) {
  document->file = path;
  const absl::StatusOr<UniqueFd> fd = OpenInput(path);
  if (absl::IsFailedPrecondition(fd.status())) {
    document->problems.push_back(
        {ProblemKind::kMissingFile, "", std::string(absl::StripPrefix(fd.status().message(), path + ": "))});
    return false;
  }
  // One byte more than is allowed: enough to be refused as too long.
  std::string buffer(kMaxJsonBytes + 1, '\0');
  size_t have = 0;
  ssize_t n = fd.ok() ? 1 : -1;
  while (fd.ok() && n > 0 && have < buffer.size()) {
    n = read(fd->get(), buffer.data() + have, buffer.size() - have);
    if (n < 0 && errno == EINTR)
      n = 1;
    else if (n > 0)
      have += static_cast<size_t>(n);
  }
  if (n < 0) {
    document->problems.push_back({ProblemKind::kMissingFile, "", "cannot be read; check the path and its permissions"});
    return false;
  }
  buffer.resize(have);
  document->text = std::move(buffer);
  return true;
}

template <typename Table, typename Object>
bool Parse(absl::string_view text, const char* root, Document* document, Object* object) {
  document->text = std::string(text);
  JsonError error;
  if (!ParseJson(text, &document->tree, &error)) {
    // The tree is incomplete: the position goes into the message.
    document->tree = JsonValue();
    document->tree.position = error.position;
    document->problems.push_back(
        {ProblemKind::kConfig, "", absl::StrCat("column ", error.position.column, ": not JSON: ", error.message)});
    return false;
  }
  ConfigSchema schema(root);
  if (!schema.Check(document->tree, &document->problems)) return false;
  std::string refusal;
  const uint8_t* buffer = schema.Build(document->text, &refusal);
  if (buffer == nullptr) {
    document->problems.push_back({ProblemKind::kConfig, "", refusal});
    return false;
  }
  flatbuffers::GetRoot<Table>(buffer)->UnPackTo(object);
  return true;
}

}  // namespace

std::string Document::Report() const {
  std::string out;
  for (const Problem& problem : problems) {
    // A file that could not be read has no lines.
    const bool has_line = !text.empty() || problem.kind != ProblemKind::kMissingFile;
    absl::StrAppend(&out, Escaped(file), ":");
    if (has_line) absl::StrAppend(&out, LocateJson(tree, problem.path).line, ":");
    absl::StrAppend(&out, " ", Escaped(problem.path), problem.path.empty() ? "" : ": ", Escaped(problem.message), "\n");
  }
  return out;
}

bool ParseTopology(absl::string_view text, Document* document, config::TopologyT* topology) {
  return Parse<config::Topology>(text, "Topology", document, topology);
}
bool ParseMachine(absl::string_view text, Document* document, config::MachineT* machine) {
  return Parse<config::Machine>(text, "Machine", document, machine);
}

bool LoadTopology(const std::string& path, Document* document, config::TopologyT* topology) {
  return ReadText(path, document) && ParseTopology(std::string(document->text), document, topology);
}
bool LoadMachine(const std::string& path, Document* document, config::MachineT* machine) {
  return ReadText(path, document) && ParseMachine(std::string(document->text), document, machine);
}

bool LooksLikeMachine(const JsonValue& tree) {
  return tree.kind == JsonValue::Kind::kObject && tree.Find("frontends") == nullptr &&
         tree.Find("gpu_domains") == nullptr && tree.Find("domain_policy") == nullptr &&
         tree.Find("firmware") != nullptr;
}

std::string JsonSchemaText(absl::string_view kind) {
  const std::string root = kind == "machine" ? "Machine" : "Topology";
  return ConfigSchema(root).JsonSchema(absl::StrCat("urn:sluice:", kind, ".schema.json"));
}

}  // namespace sluice::topology
