// File: config.h
//
// Reads a configuration file: JSON text -> checked against flatbuf/config.fbs -> FlatBuffers' own parser -> typed
// objects. Everything wrong is collected, each with line, key, value and remedy, before anything is started.
//
//   Document doc;
//   config::TopologyT topology;
//   if (!LoadTopology("lab.json", &doc, &topology)) std::cerr << doc.Report();
#ifndef SLUICE_VMM_TOPOLOGY_CONFIG_H_
#define SLUICE_VMM_TOPOLOGY_CONFIG_H_

#include <string>

#include "absl/strings/string_view.h"
#include "flatbuf/config_generated.h"
#include "vmm/topology/json.h"
#include "vmm/topology/problem.h"

namespace sluice::topology {

// A file as read, and what is wrong with it.
struct Document {
  std::string file;  // as the user named it
  std::string text;
  JsonValue tree;
  Problems problems;

  // All problems, one a line: "FILE:LINE: path: message\n".
  std::string Report() const;
};

// Reads `path`. On failure returns false; document->problems then has at least one entry.
bool LoadTopology(const std::string& path, Document* document, config::TopologyT* topology);
bool LoadMachine(const std::string& path, Document* document, config::MachineT* machine);

// As above for text at hand; document->file is used in messages only.
bool ParseTopology(absl::string_view text, Document* document, config::TopologyT* topology);
bool ParseMachine(absl::string_view text, Document* document, config::MachineT* machine);

// True if the JSON is the file of `sluice vm` rather than of `sluice run`: it has no "frontends", "gpu_domains" or
// "domain_policy".
bool LooksLikeMachine(const JsonValue& tree);

// The JSON Schema (draft 2020-12) of "topology" or "machine", as committed in docs/schema/.
std::string JsonSchemaText(absl::string_view kind);

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_CONFIG_H_
