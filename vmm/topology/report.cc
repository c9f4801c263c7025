#include "vmm/topology/report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "vmm/base/status_macros.h"
#include "vmm/topology/json.h"
#include "vmm/topology/output_file.h"

namespace sluice::topology {
namespace {

// Members of one JSON object, in order.
class ObjectWriter {
 public:
  explicit ObjectWriter(std::string indent) : indent_(std::move(indent)) {}

  ObjectWriter& Text(absl::string_view key, absl::string_view value) { return Raw(key, QuoteJson(value)); }
  ObjectWriter& Number(absl::string_view key, uint64_t value) { return Raw(key, absl::StrCat(value)); }
  ObjectWriter& Millis(absl::string_view key, double value) { return Raw(key, absl::StrFormat("%.3f", value)); }
  ObjectWriter& Flag(absl::string_view key, bool value) { return Raw(key, value ? "true" : "false"); }
  ObjectWriter& Raw(absl::string_view key, std::string value) {
    members_.push_back(absl::StrCat(QuoteJson(key), ": ", value));
    return *this;
  }
  std::string Str() const {
    return absl::StrCat("{\n", indent_, "  ", absl::StrJoin(members_, absl::StrCat(",\n", indent_, "  ")), "\n",
                        indent_, "}");
  }

 private:
  std::string indent_;
  std::vector<std::string> members_;
};

std::string JsonOf(const DomainReport& domain) {
  std::vector<std::string> names;
  for (const std::string& name : domain.frontends) names.push_back(QuoteJson(name));
  return ObjectWriter("    ")
      .Text("name", domain.name)
      .Text("os", domain.os)
      .Text("isolation", domain.isolation)
      .Number("max_frontends", domain.max_frontends)
      .Raw("frontends", absl::StrCat("[", absl::StrJoin(names, ", "), "]"))
      .Text("state", domain.state)
      .Str();
}

std::string JsonOf(const FrontendReport& frontend) {
  const std::string exit =
      absl::StrCat("{\"code\": ", frontend.exit_code, ", \"cause\": ", QuoteJson(frontend.exit_cause), "}");
  return ObjectWriter("    ")
      .Text("name", frontend.name)
      .Text("os", frontend.os)
      .Text("domain", frontend.domain)
      .Number("commands", frontend.commands)
      .Number("frames", frontend.frames)
      .Number("bytes", frontend.bytes)
      .Number("fences", frontend.fences)
      .Number("submits", frontend.submits)
      .Number("contexts", frontend.contexts)
      .Number("contexts_lost", frontend.contexts_lost)
      .Millis("gpu_ms", static_cast<double>(frontend.gpu_ns) / 1e6)
      .Number("pictures_shown", frontend.pictures_shown)
      .Number("gpu_commands", frontend.gpu_commands)
      .Number("gpu_errors", frontend.gpu_errors)
      .Number("vm_exits", frontend.vm_exits)
      .Millis("first_instruction_ms", frontend.first_instruction_ms)
      .Millis("time_ms", frontend.time_ms)
      .Flag("ok", frontend.ok)
      .Raw("exit", exit)
      .Text("picture", frontend.picture)
      .Text("serial_log", frontend.serial_log)
      .Text("capture", frontend.capture)
      .Str();
}

template <typename T>
std::string JsonList(const std::vector<T>& items) {
  std::vector<std::string> parts;
  for (const T& item : items) parts.push_back(absl::StrCat("\n    ", JsonOf(item)));
  return absl::StrCat("[", absl::StrJoin(parts, ","), parts.empty() ? "]" : "\n  ]");
}

// Rows of cells as text; column widths from the longest cell. The first row is the heading.
std::string Table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right) {
  std::vector<size_t> widths(right.size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - row[i].size(), ' ');
      absl::StrAppend(&line, i == 0 ? "" : "  ", right[i] ? pad : "", row[i], right[i] ? "" : pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

std::string Millis(double ms) {
  return absl::StrFormat("%.0f ms", ms);
}

}  // namespace

std::string ReportJson(const Report& report) {
  return ObjectWriter("")
             .Text("topology", report.topology)
             .Text("version", report.version)
             .Text("selection", report.selection)
             .Millis("time_ms", report.time_ms)
             .Flag("ok", report.ok)
             .Text("interrupted", report.interrupted)
             .Raw("domains", JsonList(report.domains))
             .Raw("frontends", JsonList(report.frontends))
             .Str() +
         "\n";
}

std::string ReportTable(const Report& report) {
  std::vector<std::vector<std::string>> domains = {{"GPU DOMAIN", "OS", "ISOLATION", "FRONT-ENDS", "STATE"}};
  for (const DomainReport& d : report.domains) {
    domains.push_back(
        {d.name, d.os, d.isolation, d.frontends.empty() ? "-" : absl::StrJoin(d.frontends, " "), d.state});
  }
  std::vector<std::vector<std::string>> rows = {
      {"FRONT-END", "OS", "DOMAIN", "COMMANDS", "FRAMES", "BYTES", "FENCES", "PICTURES", "TIME", "PICTURE", "EXIT"}};
  for (const FrontendReport& f : report.frontends) {
    rows.push_back({f.name, f.os, f.domain.empty() ? "-" : f.domain, absl::StrCat(f.commands), absl::StrCat(f.frames),
                    absl::StrCat(f.bytes), absl::StrCat(f.fences), absl::StrCat(f.pictures_shown), Millis(f.time_ms),
                    f.picture.empty() ? "-" : f.picture, f.ok ? "ok" : absl::StrCat(f.exit_code, ": ", f.exit_cause)});
  }
  const std::string first = report.domains.empty() ? "" : Table(domains, {false, false, false, false, false}) + "\n";
  return absl::StrCat(first, Table(rows, {false, false, false, true, true, true, true, true, true, false, false}));
}

absl::Status WriteFile(const std::string& path, absl::string_view text) {
  SLUICE_ASSIGN_OR_RETURN(PartialFile file, PartialFile::Create(path));
  SLUICE_RETURN_IF_ERROR(WriteAll(file.fd(), text, path));
  return file.Commit();
}

}  // namespace sluice::topology
