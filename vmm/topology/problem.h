// File: problem.h
//
// What is wrong with a configuration, said so that it can be put right: where (a path into the JSON), what, and the
// remedy.
//
//   Problem p{ProblemKind::kNoDomain, "frontends[1].os", "'windows': no GPU Domain of this OS type; there are: linux
//   (gpu-a)"}; FormatProblem("lab.json", &tree, p)  // "lab.json:12: frontends[1].os: 'windows': no GPU Domain of this
//   OS type; ..."
#ifndef SLUICE_VMM_TOPOLOGY_PROBLEM_H_
#define SLUICE_VMM_TOPOLOGY_PROBLEM_H_

#include <string>
#include <vector>

namespace sluice::topology {

// Decides the exit code of the program; see vmm/cli/exit_code.h.
enum class ProblemKind {
  kConfig,       // the file says something that cannot be meant
  kNoDomain,     // sound, but no domain of the OS type, no room, or more domains than front-ends
  kMissingFile,  // a file that it names, or the file itself, is not there
};

struct Problem {
  ProblemKind kind = ProblemKind::kConfig;
  std::string path;     // "frontends[1].os"; empty: the whole file
  std::string message;  // "'value': what is wrong; what to do"
};
using Problems = std::vector<Problem>;

}  // namespace sluice::topology

#endif  // SLUICE_VMM_TOPOLOGY_PROBLEM_H_
