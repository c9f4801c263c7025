#include "vmm/hostcheck/memory_probe.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace sluice::hostcheck {
namespace {

// "2 MiB" for "hugepages-2048kB"; empty for other names.
std::string PageSize(absl::string_view name) {
  uint64_t kib = 0;
  if (!absl::ConsumePrefix(&name, "hugepages-") || !absl::ConsumeSuffix(&name, "kB") || !absl::SimpleAtoi(name, &kib))
    return "";
  if (kib >= 1 << 20) return absl::StrCat(kib >> 20, " GiB");
  return kib >= 1 << 10 ? absl::StrCat(kib >> 10, " MiB") : absl::StrCat(kib, " KiB");
}

// The chosen word of "always within_size [advise] never".
std::string Chosen(const std::string& path) {
  const std::string text = HostFiles::Read(path).value_or("");
  const size_t begin = text.find('['), end = text.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return text.substr(begin + 1, end - begin - 1);
}

}  // namespace

Finding ProbeHugePages(const HostFiles& host) {
  uint64_t reserved = 0;
  std::vector<std::string> parts;
  const std::string directory = host.sys + "/kernel/mm/hugepages";
  for (const std::string& name : HostFiles::List(directory)) {
    const std::string size = PageSize(name);
    if (size.empty()) continue;
    const uint64_t pages = HostFiles::ReadNumber(absl::StrCat(directory, "/", name, "/nr_hugepages")).value_or(0);
    const uint64_t free = HostFiles::ReadNumber(absl::StrCat(directory, "/", name, "/free_hugepages")).value_or(0);
    reserved += pages;
    parts.push_back(absl::StrCat(free, " of ", pages, " of ", size, " free"));
  }
  const std::string reserved_text = parts.empty() ? "none possible" : absl::StrJoin(parts, ", ");
  const std::string shared = Chosen(host.sys + "/kernel/mm/transparent_hugepage/shmem_enabled");
  const bool transparent = shared == "always" || shared == "within_size" || shared == "advise" || shared == "force";
  const std::string found = absl::StrCat("reserved: ", reserved_text,
                                         "; transparent ones for shared memory: ", shared.empty() ? "unknown" : shared);
  if (transparent || reserved != 0) return Ok("huge pages", found, "guests' memory can have them");
  return Note("huge pages", found, "guests' memory is made of 4 KiB pages, which costs large guests some speed",
              "As root: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled, or reserve some: sysctl "
              "vm.nr_hugepages=512");
}

}  // namespace sluice::hostcheck
