#include "vmm/topology/json.h"

#include <cstdint>
#include <cstdlib>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice::topology {
namespace {

// Bytes of the UTF-8 sequence at the start of `s`, or 0 if it is not valid (RFC 3629: no overlong forms, no
// surrogates).
size_t Utf8Length(absl::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  if (s.empty()) return 0;
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  size_t length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  if (s.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xbf)) return 0;
  }
  return length;
}

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out->push_back(static_cast<char>(0xc0 | (code >> 6)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else if (code < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | (code >> 12)));
    out->push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xf0 | (code >> 18)));
    out->push_back(static_cast<char>(0x80 | ((code >> 12) & 0x3f)));
    out->push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  }
}

class Reader {
 public:
  explicit Reader(absl::string_view text) : text_(text) {}

  bool Document(JsonValue* value) {
    if (text_.size() > kMaxJsonBytes) return Fail(absl::StrCat("longer than ", kMaxJsonBytes, " bytes"));
    if (!Value(value, 0)) return false;
    SkipSpace();
    return at_ == text_.size() || Fail("something follows the end of the value");
  }

  const JsonError& error() const { return error_; }

 private:
  JsonPosition Position() const { return {line_, static_cast<int>(at_ - line_start_) + 1}; }

  bool Fail(std::string message) {
    error_ = {Position(), std::move(message)};
    return false;
  }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Accept(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void SkipSpace() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c != ' ' && c != '\t' && c != '\r' && c != '\n') return;
      ++at_;
      if (c == '\n') {
        ++line_;
        line_start_ = at_;
      }
    }
  }

  // "found '}'": what stands here, for messages.
  std::string Found() const {
    if (at_ >= text_.size()) return "found the end of the file";
    const uint8_t c = static_cast<uint8_t>(text_[at_]);
    return c >= 0x20 && c < 0x7f ? absl::StrFormat("found '%c'", c) : absl::StrFormat("found byte 0x%02x", c);
  }

  bool Value(JsonValue* value, int depth) {
    SkipSpace();
    value->position = Position();
    if (depth > kMaxJsonDepth) return Fail(absl::StrCat("nested deeper than ", kMaxJsonDepth, " levels"));
    switch (Peek()) {
      case '{':
        return Object(value, depth);
      case '[':
        return Array(value, depth);
      case '"':
        value->kind = JsonValue::Kind::kString;
        return String(&value->text);
      case 't':
        return Word("true", JsonValue::Kind::kBool, value);
      case 'f':
        return Word("false", JsonValue::Kind::kBool, value);
      case 'n':
        return Word("null", JsonValue::Kind::kNull, value);
      default:
        return Number(value);
    }
  }

  bool Word(absl::string_view word, JsonValue::Kind kind, JsonValue* value) {
    if (text_.substr(at_, word.size()) != word) return Fail(absl::StrCat("expected a value, ", Found()));
    at_ += word.size();
    value->kind = kind;
    value->text = std::string(word);
    return true;
  }

  size_t Digits() {
    const size_t start = at_;
    while (Peek() >= '0' && Peek() <= '9') ++at_;
    return at_ - start;
  }

  bool Number(JsonValue* value) {
    const size_t start = at_;
    const auto bad = [&] {
      at_ = start;
      return Fail(absl::StrCat("expected a value, ", Found()));
    };
    Accept('-');
    if (!Accept('0') && Digits() == 0) return bad();
    if (Accept('.') && Digits() == 0) return bad();
    if (Accept('e') || Accept('E')) {
      if (!Accept('+')) Accept('-');
      if (Digits() == 0) return bad();
    }
    value->kind = JsonValue::Kind::kNumber;
    value->text = std::string(text_.substr(start, at_ - start));
    return true;
  }

  std::optional<uint32_t> Hex4() {
    if (text_.size() - at_ < 4) return std::nullopt;
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = text_[at_ + i];
      code <<= 4;
      if (c >= '0' && c <= '9') {
        code |= c - '0';
      } else if (c >= 'a' && c <= 'f') {
        code |= c - 'a' + 10;
      } else if (c >= 'A' && c <= 'F') {
        code |= c - 'A' + 10;
      } else {
        return std::nullopt;
      }
    }
    at_ += 4;
    return code;
  }

  bool Escape(std::string* out) {
    switch (const char c = Peek(); c) {
      case '"':
      case '\\':
      case '/':
        out->push_back(c);
        break;
      case 'b':
        out->push_back('\b');
        break;
      case 'f':
        out->push_back('\f');
        break;
      case 'n':
        out->push_back('\n');
        break;
      case 'r':
        out->push_back('\r');
        break;
      case 't':
        out->push_back('\t');
        break;
      case 'u': {
        ++at_;
        auto code = Hex4();
        if (!code.has_value()) return Fail("\\u needs 4 hexadecimal digits");
        if (*code >= 0xd800 && *code <= 0xdbff && Accept('\\') && Accept('u')) {
          const auto low = Hex4();
          if (!low.has_value() || *low < 0xdc00 || *low > 0xdfff) return Fail("half a surrogate pair");
          code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
        }
        if (*code >= 0xd800 && *code <= 0xdfff) return Fail("half a surrogate pair");
        // A NUL would end the string early for whoever hands it to the operating system.
        if (*code == 0) return Fail("\\u0000 is not allowed");
        AppendUtf8(*code, out);
        return true;
      }
      default:
        return Fail("unknown escape in a string");
    }
    ++at_;
    return true;
  }

  bool String(std::string* out) {
    if (!Accept('"')) return Fail(absl::StrCat("expected a string in double quotes, ", Found()));
    while (!Accept('"')) {
      if (at_ >= text_.size() || Peek() == '\n') return Fail("the string is not closed");
      if (static_cast<uint8_t>(Peek()) < 0x20) return Fail("control character in a string");
      if (Accept('\\')) {
        if (!Escape(out)) return false;
        continue;
      }
      const size_t length = Utf8Length(text_.substr(at_));
      if (length == 0) return Fail("invalid UTF-8");
      out->append(text_.data() + at_, length);
      at_ += length;
    }
    return true;
  }

  bool Array(JsonValue* value, int depth) {
    Accept('[');
    value->kind = JsonValue::Kind::kArray;
    SkipSpace();
    if (Accept(']')) return true;
    do {
      if (!Value(&value->items.emplace_back(), depth + 1)) return false;
      SkipSpace();
    } while (Accept(','));
    return Accept(']') || Fail(absl::StrCat("expected ',' or ']', ", Found()));
  }

  bool Object(JsonValue* value, int depth) {
    Accept('{');
    value->kind = JsonValue::Kind::kObject;
    SkipSpace();
    if (Accept('}')) return true;
    do {
      SkipSpace();
      JsonMember member;
      member.position = Position();
      if (!String(&member.key)) return false;
      if (value->Find(member.key) != nullptr) {
        error_ = {member.position, absl::StrCat("the key ", QuoteJson(member.key), " is there twice")};
        return false;
      }
      SkipSpace();
      if (!Accept(':')) return Fail(absl::StrCat("expected ':', ", Found()));
      if (!Value(&member.value, depth + 1)) return false;
      value->members.push_back(std::move(member));
      SkipSpace();
    } while (Accept(','));
    return Accept('}') || Fail(absl::StrCat("expected ',' or '}', ", Found()));
  }

  const absl::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  size_t line_start_ = 0;
  JsonError error_;
};

}  // namespace

const JsonValue* JsonValue::Find(absl::string_view key) const {
  for (const JsonMember& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

bool ParseJson(absl::string_view text, JsonValue* value, JsonError* error) {
  *value = JsonValue();
  Reader reader(text);
  if (reader.Document(value)) return true;
  *error = reader.error();
  return false;
}

absl::string_view JsonKindName(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBool:
      return "true or false";
    case JsonValue::Kind::kNumber:
      return "a number";
    case JsonValue::Kind::kString:
      return "a string";
    case JsonValue::Kind::kArray:
      return "a list";
    case JsonValue::Kind::kObject:
      return "an object";
  }
  return "a value";
}

JsonPosition LocateJson(const JsonValue& root, absl::string_view path) {
  const JsonValue* at = &root;
  JsonPosition position = root.position;
  while (!path.empty()) {
    if (path.front() == '.') path.remove_prefix(1);
    if (!path.empty() && path.front() == '[') {
      const size_t close = path.find(']');
      uint64_t index = 0;
      if (close == absl::string_view::npos || !absl::SimpleAtoi(path.substr(1, close - 1), &index)) break;
      if (index >= at->items.size()) break;
      at = &at->items[index];
      position = at->position;
      path.remove_prefix(close + 1);
      continue;
    }
    const absl::string_view key = path.substr(0, path.find_first_of(".["));
    const JsonMember* found = nullptr;
    for (const JsonMember& member : at->members) {
      if (member.key == key) found = &member;
    }
    if (found == nullptr) break;
    at = &found->value;
    position = found->position;
    path.remove_prefix(key.size());
  }
  return position;
}

std::string Escaped(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const uint8_t c = static_cast<uint8_t>(text.front());
    const uint8_t second = length == 2 ? static_cast<uint8_t>(text[1]) : 0xff;
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (c < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04x", c);
    } else if (c == 0xc2 && second < 0xa0) {  // C1: some terminals obey these too
      absl::StrAppendFormat(&out, "\\u%04x", second);
    } else {
      out.append(text.data(), length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string QuoteJson(absl::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const uint8_t c = static_cast<uint8_t>(text.front());
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04x", c);
    } else {
      out.append(text.data(), length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out.push_back('"');
  return out;
}

}  // namespace sluice::topology
