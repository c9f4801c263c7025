// File: dump.h
//
// `sluice trace dump FILE`: a capture file (capture.h) as JSON, one object with one line per record, so that it reads
// in a terminal and feeds jq alike. Commands are printed with their names and fields, decoded by the schemas' own
// reflection; nothing is executed and Vulkan is not linked.
//
//   absl::Status status = trace::DumpTrace("out/web-0.capture", std::cout);
#ifndef SLUICE_GPU_DOMAIN_TRACE_DUMP_H_
#define SLUICE_GPU_DOMAIN_TRACE_DUMP_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"

namespace sluice::trace {

// Prints `path` to `out`:
//   {"version": 1, "schema_hash": "0x...", "frontend": "web-0", "records": [
//   {"time_us": 0, "context": 1, "kind": "request", "ring": 0, "sequence": 1, "command": "vkCreateInstance", "bytes":
//   120, "body": {...}},
//   ...
//   ], "truncated": false}
// The file is not trusted: frames are verified before they are decoded, one that does not verify is printed with
// "invalid": true. Errors: as CaptureReader::Open; FAILED_PRECONDITION when the file was captured with another schema.
// A record that cannot be read ends the list; the object then has "error": "..." instead of "truncated", and the same
// is returned. Numbers that JSON does not have (NaN, infinity) are printed as null. Other errors print nothing, or
// leave what was printed incomplete because the output cannot be written. No error names the file.
absl::Status DumpTrace(const std::string& path, std::ostream& out);

}  // namespace sluice::trace

#endif  // SLUICE_GPU_DOMAIN_TRACE_DUMP_H_
