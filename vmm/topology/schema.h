// File: schema.h
//
// The schema of configuration files (flatbuf/config.fbs, embedded at build time), and what is done with it: check a
// JSON tree against it, and print it as a JSON Schema. FlatBuffers' parser holds the schema; its reading of attributes
// (bounds, allowed strings) is ours. Internal to this library.
#ifndef SLUICE_VMM_TOPOLOGY_SCHEMA_H_
#define SLUICE_VMM_TOPOLOGY_SCHEMA_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "flatbuffers/idl.h"
#include "vmm/topology/json.h"
#include "vmm/topology/problem.h"

namespace sluice::topology {

class ConfigSchema {
 public:
  // `root`: "Topology" or "Machine".
  explicit ConfigSchema(const std::string& root);

  // Adds to `problems` each key that is not in the schema, each value of the wrong type or out of bounds, and each
  // required key that is missing. True if there was none.
  bool Check(const JsonValue& tree, Problems* problems) const;

  // FlatBuffers' own parser turns the text into a buffer, valid until the next call. nullptr and `*error` if it
  // refuses.
  const uint8_t* Build(const std::string& json, std::string* error);

  // The schema as JSON Schema, draft 2020-12.
  std::string JsonSchema(absl::string_view id) const;

 private:
  flatbuffers::Parser parser_;
};

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_SCHEMA_H_
