#include "gpu-domain/trace/json.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice::trace {

std::string JsonString(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04x", byte);
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

std::string JsonHex(absl::Span<const uint8_t> bytes, size_t limit) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const uint8_t byte : bytes.subspan(0, std::min(limit, bytes.size()))) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  if (bytes.size() > limit) out += "...";
  out += '"';
  return out;
}

std::string JsonFinite(absl::string_view json) {
  std::string out;
  out.reserve(json.size());
  bool in_string = false;
  for (size_t i = 0; i < json.size();) {
    if (in_string) {
      const size_t bytes = json[i] == '\\' && i + 1 < json.size() ? 2 : 1;
      in_string = json[i] != '"';
      absl::StrAppend(&out, json.substr(i, bytes));
      i += bytes;
      continue;
    }
    size_t bytes = 0;
    for (const absl::string_view word : {"nan", "-nan", "infinity", "-infinity", "inf", "-inf"}) {
      if (absl::StartsWith(json.substr(i), word)) {
        bytes = word.size();
        break;
      }
    }
    if (bytes > 0) {
      out += "null";
      i += bytes;
      continue;
    }
    in_string = json[i] == '"';
    out += json[i++];
  }
  return out;
}

}  // namespace sluice::trace
