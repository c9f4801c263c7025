#include "vmm/topology/schema.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "vmm/topology/config_schema.h"  // generated: kConfigSchema, the text of flatbuf/config.fbs

namespace sluice::topology {
namespace {

using flatbuffers::FieldDef;
using flatbuffers::StructDef;
using Kind = JsonValue::Kind;

constexpr char kNamespace[] = "sluice.config.";
// Bytes of a string in a list, unless item_max says otherwise.
constexpr uint64_t kLongestItem = 255;
// At the root of a file, for editors; not looked at.
constexpr char kSchemaKey[] = "$schema";
constexpr char kNamePattern[] = "^[a-z][a-z0-9-]*$";

flatbuffers::IDLOptions Options() {
  flatbuffers::IDLOptions options;
  options.strict_json = true;
  options.skip_unexpected_fields_in_json = true;  // Check has refused all but "$schema"
  return options;
}

// The attribute's text, or nullptr.
const std::string* Attribute(const FieldDef& field, const char* name) {
  const auto* value = field.attributes.Lookup(name);
  return value == nullptr ? nullptr : &value->constant;
}

uint64_t NumberAttribute(const FieldDef& field, const char* name, uint64_t otherwise) {
  const std::string* text = Attribute(field, name);
  uint64_t value = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(*text, &value)) return otherwise;
  return value;
}

bool IsListType(const flatbuffers::Type& type) {
  return type.base_type == flatbuffers::BASE_TYPE_VECTOR;
}
bool IsTextType(const flatbuffers::Type& type) {
  return type.base_type == flatbuffers::BASE_TYPE_STRING;
}
bool IsFlagType(const flatbuffers::Type& type) {
  return type.base_type == flatbuffers::BASE_TYPE_BOOL;
}

Kind KindOf(const flatbuffers::Type& type) {
  if (IsTable(type)) return Kind::kObject;
  if (IsListType(type)) return Kind::kArray;
  if (IsTextType(type)) return Kind::kString;
  return IsFlagType(type) ? Kind::kBool : Kind::kNumber;
}

// Every number in config.fbs is a uint.
constexpr uint64_t kLargestNumber = std::numeric_limits<uint32_t>::max();

bool IsName(absl::string_view text) {
  return !text.empty() && text.front() >= 'a' && text.front() <= 'z' &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

// A value as it is quoted in a message: short.
std::string Shown(const JsonValue& value) {
  if (value.kind == Kind::kString) {
    std::string text = QuoteJson(absl::string_view(value.text).substr(0, 60));
    text.front() = text.back() = '\'';
    return text;
  }
  if (value.kind == Kind::kNumber || value.kind == Kind::kBool) return value.text.substr(0, 40);
  return std::string(JsonKindName(value.kind));
}

class Checker {
 public:
  explicit Checker(Problems* problems) : problems_(problems) {}

  void Table(const StructDef& table, const JsonValue& value, const std::string& path) {
    for (const JsonMember& member : value.members) {
      const std::string where = path.empty() ? member.key : absl::StrCat(path, ".", member.key);
      const FieldDef* field = table.fields.Lookup(member.key);
      if (path.empty() && member.key == kSchemaKey) {
        if (member.value.kind != Kind::kString) Add(where, absl::StrCat(Shown(member.value), ": must be a string"));
        continue;
      }
      if (field == nullptr) {
        std::vector<std::string> known;
        for (const FieldDef* f : table.fields.vec) known.push_back(f->name);
        Add(where, absl::StrCat("unknown key; the keys here are: ", absl::StrJoin(known, ", ")));
        continue;
      }
      Value(*field, field->value.type, member.value, where);
    }
    for (const FieldDef* field : table.fields.vec) {
      if (!field->IsRequired() || value.Find(field->name) != nullptr) continue;
      Add(path, absl::StrCat(path.empty() ? "" : "the ", "key \"", field->name, "\" is missing; add it",
                             field->doc_comment.empty() ? "" : ":", absl::StrJoin(field->doc_comment, "")));
    }
  }

 private:
  void Add(const std::string& path, std::string message) {
    problems_->push_back({ProblemKind::kConfig, path, std::move(message)});
  }

  void Value(const FieldDef& field, const flatbuffers::Type& type, const JsonValue& value, const std::string& path) {
    if (value.kind != KindOf(type)) {
      Add(path, absl::StrCat(Shown(value), ": must be ", JsonKindName(KindOf(type))));
      return;
    }
    if (IsTable(type)) {
      Table(*type.struct_def, value, path);
    } else if (IsListType(type)) {
      Bounds(field, value.items.size(), "item", path, absl::StrCat(value.items.size(), " items"));
      for (size_t i = 0; i < value.items.size(); ++i) {
        Value(field, type.VectorType(), value.items[i], absl::StrCat(path, "[", i, "]"));
      }
    } else if (IsTextType(type)) {
      Text(field, value, path, /*item=*/IsListType(field.value.type));
    } else if (!IsFlagType(type)) {
      Number(field, value, path);
    }
  }

  // `what`: the noun for one unit, or empty for plain numbers.
  void Bounds(const FieldDef& field, uint64_t number, absl::string_view what, const std::string& path,
              const std::string& shown) {
    const uint64_t min = NumberAttribute(field, "min", 0);
    const uint64_t max = NumberAttribute(field, "max", kLargestNumber);
    if (number >= min && number <= max) return;
    Add(path, absl::StrCat(shown, ": must be ", min, " to ", max, what.empty() ? "" : absl::StrCat(" ", what, "s")));
  }

  void Text(const FieldDef& field, const JsonValue& value, const std::string& path, bool item) {
    if (item) {  // the bounds of the field are those of the list
      const uint64_t max = NumberAttribute(field, "item_max", kLongestItem);
      if (value.text.empty() || value.text.size() > max)
        Add(path, absl::StrCat(Shown(value), ": must be 1 to ", max, " bytes"));
    } else {
      Bounds(field, value.text.size(), "byte", path, Shown(value));
    }
    if (const std::string* choices = Attribute(field, "one_of")) {
      const std::vector<std::string> allowed = absl::StrSplit(*choices, '|');
      if (std::find(allowed.begin(), allowed.end(), value.text) == allowed.end()) {
        Add(path, absl::StrCat(Shown(value), ": must be one of: ", absl::StrJoin(allowed, ", ")));
      }
    }
    if (Attribute(field, "pattern") != nullptr && !IsName(value.text)) {
      Add(path, absl::StrCat(Shown(value), ": must be lower-case letters, digits and '-', the first a letter"));
    }
  }

  void Number(const FieldDef& field, const JsonValue& value, const std::string& path) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(value.text, &number)) {
      Add(path, absl::StrCat(Shown(value), ": must be a whole number, ", NumberAttribute(field, "min", 0), " to ",
                             NumberAttribute(field, "max", kLargestNumber)));
      return;
    }
    Bounds(field, number, "", path, Shown(value));
  }

  Problems* const problems_;
};

std::string TypeSchema(const FieldDef& field, const flatbuffers::Type& type) {
  if (IsTable(type)) return absl::StrCat("\"$ref\": \"#/$defs/", type.struct_def->name, "\"");
  const bool item = IsListType(field.value.type);
  if (IsListType(type)) {
    std::string text = absl::StrCat("\"type\": \"array\", \"items\": {", TypeSchema(field, type.VectorType()), "}");
    if (Attribute(field, "min") != nullptr) absl::StrAppend(&text, ", \"minItems\": ", *Attribute(field, "min"));
    if (Attribute(field, "max") != nullptr) absl::StrAppend(&text, ", \"maxItems\": ", *Attribute(field, "max"));
    return text;
  }
  if (IsTextType(type)) {
    std::string text = "\"type\": \"string\"";
    if (const std::string* choices = Attribute(field, "one_of")) {
      absl::StrAppend(&text, ", \"enum\": [\"", absl::StrJoin(absl::StrSplit(*choices, '|'), "\", \""), "\"]");
    }
    if (Attribute(field, "pattern") != nullptr) absl::StrAppend(&text, ", \"pattern\": \"", kNamePattern, "\"");
    if (item) {
      absl::StrAppend(&text, ", \"minLength\": 1, \"maxLength\": ", NumberAttribute(field, "item_max", kLongestItem));
      return text;
    }
    if (Attribute(field, "min") != nullptr) absl::StrAppend(&text, ", \"minLength\": ", *Attribute(field, "min"));
    if (Attribute(field, "max") != nullptr) absl::StrAppend(&text, ", \"maxLength\": ", *Attribute(field, "max"));
    return text;
  }
  if (IsFlagType(type)) {
    return absl::StrCat("\"type\": \"boolean\", \"default\": ", field.value.constant == "0" ? "false" : "true");
  }
  return absl::StrCat("\"type\": \"integer\", \"minimum\": ", NumberAttribute(field, "min", 0),
                      ", \"maximum\": ", NumberAttribute(field, "max", kLargestNumber),
                      ", \"default\": ", field.value.constant);
}

std::string DescriptionOf(const flatbuffers::Definition& definition) {
  if (definition.doc_comment.empty()) return "";
  const std::string text = absl::StrJoin(definition.doc_comment, "");
  return absl::StrCat("\"description\": ", QuoteJson(absl::StripPrefix(text, " ")), ", ");
}

std::string TableSchema(const StructDef& table, absl::string_view indent, bool root) {
  std::vector<std::string> properties;
  if (root) properties.push_back(absl::StrCat(indent, "  ", QuoteJson(kSchemaKey), ": {\"type\": \"string\"}"));
  std::vector<std::string> required;
  for (const FieldDef* field : table.fields.vec) {
    properties.push_back(absl::StrCat(indent, "  ", QuoteJson(field->name), ": {", DescriptionOf(*field),
                                      TypeSchema(*field, field->value.type), "}"));
    if (field->IsRequired()) required.push_back(QuoteJson(field->name));
  }
  return absl::StrCat(DescriptionOf(table), "\"type\": \"object\", \"additionalProperties\": false,\n", indent,
                      "\"required\": [", absl::StrJoin(required, ", "), "],\n", indent, "\"properties\": {\n",
                      absl::StrJoin(properties, ",\n"), "\n", indent, "}");
}

void CollectTables(const StructDef& table, std::vector<const StructDef*>* found) {
  for (const FieldDef* field : table.fields.vec) {
    const flatbuffers::Type type = IsListType(field->value.type) ? field->value.type.VectorType() : field->value.type;
    if (!IsTable(type) || std::find(found->begin(), found->end(), type.struct_def) != found->end()) continue;
    found->push_back(type.struct_def);
    CollectTables(*type.struct_def, found);
  }
}

}  // namespace

ConfigSchema::ConfigSchema(const std::string& root) : parser_(Options()) {
  // The text is a constant of this program; a schema test parses it, so failure here cannot depend on input.
  static_cast<void>(parser_.Parse(kConfigSchema));
  static_cast<void>(parser_.SetRootType((kNamespace + root).c_str()));
}

bool ConfigSchema::Check(const JsonValue& tree, Problems* problems) const {
  const size_t before = problems->size();
  if (tree.kind != Kind::kObject) {
    problems->push_back(
        {ProblemKind::kConfig, "", absl::StrCat("must be an object {...}, is ", JsonKindName(tree.kind))});
    return false;
  }
  Checker(problems).Table(*parser_.root_struct_def_, tree, "");
  return problems->size() == before;
}

const uint8_t* ConfigSchema::Build(const std::string& json, std::string* error) {
  if (!parser_.ParseJson(json.c_str())) {
    *error = parser_.error_;
    return nullptr;
  }
  return parser_.builder_.GetBufferPointer();
}

std::string ConfigSchema::JsonSchema(absl::string_view id) const {
  const StructDef& root = *parser_.root_struct_def_;
  std::vector<const StructDef*> tables;
  CollectTables(root, &tables);
  std::vector<std::string> definitions;
  for (const StructDef* table : tables) {
    definitions.push_back(absl::StrCat("    ", QuoteJson(table->name), ": {\n      ",
                                       TableSchema(*table, "      ", /*root=*/false), "\n    }"));
  }
  return absl::StrCat(
      "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \"$id\": ", QuoteJson(id),
      ",\n  \"$comment\": \"Generated from flatbuf/config.fbs by `sluice check --schema`. Do not edit.\",\n  ",
      TableSchema(root, "  ", /*root=*/true), ",\n  \"$defs\": {\n", absl::StrJoin(definitions, ",\n"), "\n  }\n}\n");
}

}  // namespace sluice::topology
