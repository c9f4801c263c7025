// File: json.h
//
// What printing hostile bytes as JSON needs.
#ifndef SLUICE_GPU_DOMAIN_TRACE_JSON_H_
#define SLUICE_GPU_DOMAIN_TRACE_JSON_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice::trace {

// `text` as a JSON string with quotes. Bytes that are not printable ASCII become \u00XX: the output is always valid,
// whatever the encoding of the input.
std::string JsonString(absl::string_view text);

// At most `limit` bytes as a JSON string of lower-case hex digits, with "..." at the end when there were more.
std::string JsonHex(absl::Span<const uint8_t> bytes, size_t limit);

// `json`, which is valid but for numbers that JSON does not have (nan, inf, with a sign or without), with null in their
// place. Strings stay as they are.
std::string JsonFinite(absl::string_view json);

}  // namespace sluice::trace

#endif  // SLUICE_GPU_DOMAIN_TRACE_JSON_H_
