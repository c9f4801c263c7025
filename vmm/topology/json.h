// File: json.h
//
// A strict JSON reader (RFC 8259) that remembers where each value stands, so that an error about a value can name its
// line. FlatBuffers' parser makes the typed configuration; this one makes the messages, and admits only what is JSON.
//
//   SLUICE_ASSIGN_OR_RETURN(JsonValue root, ParseJson(text));
//   int line = LocateJson(root, "frontends[1].os").line;
//
// Refused: duplicate keys, more than 16 levels, more than 1 MiB, invalid UTF-8, anything after the value.
#ifndef SLUICE_VMM_TOPOLOGY_JSON_H_
#define SLUICE_VMM_TOPOLOGY_JSON_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace sluice::topology {

inline constexpr size_t kMaxJsonBytes = 1 << 20;
inline constexpr int kMaxJsonDepth = 16;

struct JsonPosition {
  int line = 1;    // from 1
  int column = 1;  // from 1, in bytes
};

struct JsonValue;
struct JsonMember;

struct JsonValue {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  JsonPosition position;
  std::string text;                 // string: decoded; number, true, false: as written
  std::vector<JsonValue> items;     // array
  std::vector<JsonMember> members;  // object, in the order of the file

  // The member's value, or nullptr.
  const JsonValue* Find(absl::string_view key) const;
};

struct JsonMember {
  std::string key;
  JsonPosition position;  // of the key
  JsonValue value;
};

struct JsonError {
  JsonPosition position;
  std::string message;
};

// Parses `text` into `*value`. On failure returns false and fills `*error`.
bool ParseJson(absl::string_view text, JsonValue* value, JsonError* error);

// "an object", "a string", ...: for messages.
absl::string_view JsonKindName(JsonValue::Kind kind);

// Where `path` ("a.b[2].c") stands: the key of a member, the value of an item. If the path leads to nothing, the
// deepest part of it that exists.
JsonPosition LocateJson(const JsonValue& root, absl::string_view path);

// `text` fit for a terminal: control characters as \u001b and the like, bytes that are not UTF-8 as U+FFFD.
std::string Escaped(absl::string_view text);

// `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string QuoteJson(absl::string_view text);

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_JSON_H_
