// File: args.h
//
// Command-line arguments of one verb: positional ones, and options "--name VALUE", "--name=VALUE" or "--name". The
// options are declared with their help, so that what is accepted and what --help prints is one list.
//
//   ArgSpec spec{"run", "TOPOLOGY", "Runs a topology.", {{"out", "DIR", "", "where pictures go"}, {"quiet", "", "", "no
//   progress"}}}; SLUICE_ASSIGN_OR_RETURN(Args args, ParseArgs(spec, argc, argv)); args.positional[0];
//   args.Text("out"); args.Flag("quiet");
#ifndef SLUICE_VMM_CLI_ARGS_H_
#define SLUICE_VMM_CLI_ARGS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice::cli {

struct OptionSpec {
  std::string name;
  std::string value;     // name of the value in --help; "": the option is a flag
  std::string fallback;  // when it is not given
  std::string help;
};

struct ArgSpec {
  std::string verb;
  std::string positional;  // as shown in the usage line: "TOPOLOGY", "[FILE]", "dump FILE"
  std::string help;        // paragraphs
  std::vector<OptionSpec> options;
  size_t min_positional = 0;
  size_t max_positional = 0;
};

struct Args {
  std::vector<std::string> positional;
  std::map<std::string, std::string> values;  // every declared option
  bool help = false;                          // --help was given; nothing else was checked

  const std::string& Text(const std::string& name) const { return values.at(name); }
  bool Flag(const std::string& name) const { return values.at(name) == "true"; }
};

// `arguments` after the verb. INVALID_ARGUMENT says which argument and what is possible.
absl::StatusOr<Args> ParseArgs(const ArgSpec& spec, const std::vector<std::string>& arguments);

// What `sluice VERB --help` prints.
std::string HelpText(const ArgSpec& spec);

}  // namespace sluice::cli

#endif  // SLUICE_VMM_CLI_ARGS_H_
