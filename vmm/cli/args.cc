#include "vmm/cli/args.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice::cli {
namespace {

std::string Usage(const ArgSpec& spec) {
  return absl::StrCat("sluice ", spec.verb, spec.positional.empty() ? "" : " ", spec.positional,
                      spec.options.empty() ? "" : " [options]");
}

std::string Declared(const ArgSpec& spec) {
  std::vector<std::string> names;
  for (const OptionSpec& option : spec.options) names.push_back("--" + option.name);
  names.push_back("--help");
  return absl::StrJoin(names, ", ");
}

}  // namespace

absl::StatusOr<Args> ParseArgs(const ArgSpec& spec, const std::vector<std::string>& arguments) {
  Args args;
  for (const OptionSpec& option : spec.options)
    args.values[option.name] = option.value.empty() ? "false" : option.fallback;
  if (std::find(arguments.begin(), arguments.end(), "--help") != arguments.end()) {
    args.help = true;
    return args;
  }
  bool only_positional = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (only_positional || !absl::StartsWith(argument, "-") || argument == "-") {
      args.positional.push_back(argument);
      continue;
    }
    if (argument == "--") {
      only_positional = true;
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name =
        absl::StartsWith(argument, "--") ? argument.substr(2, equals == std::string::npos ? equals : equals - 2) : "";
    const auto option =
        std::find_if(spec.options.begin(), spec.options.end(), [&](const OptionSpec& o) { return o.name == name; });
    if (option == spec.options.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(argument, ": unknown option of `sluice ", spec.verb, "`; there are: ", Declared(spec)));
    }
    if (option->value.empty()) {
      if (equals != std::string::npos) return absl::InvalidArgumentError(absl::StrCat("--", name, " takes no value"));
      args.values[name] = "true";
    } else if (equals != std::string::npos) {
      args.values[name] = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      args.values[name] = arguments[++i];
    } else {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value: --", name, " ", option->value));
    }
    if (!option->value.empty() && args.values[name].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " needs a value that is not empty: --", name, " ", option->value));
    }
  }
  if (args.positional.size() < spec.min_positional || args.positional.size() > spec.max_positional) {
    return absl::InvalidArgumentError(absl::StrCat("usage: ", Usage(spec)));
  }
  return args;
}

std::string HelpText(const ArgSpec& spec) {
  std::string text = absl::StrCat("usage: ", Usage(spec), "\n\n", spec.help, "\n");
  if (!spec.options.empty()) absl::StrAppend(&text, "\noptions:\n");
  for (const OptionSpec& option : spec.options) {
    std::string left = absl::StrCat("  --", option.name, option.value.empty() ? "" : " ", option.value);
    left.resize(std::max<size_t>(left.size() + 2, 24), ' ');
    absl::StrAppend(&text, left, option.help,
                    option.fallback.empty() ? "" : absl::StrCat(" (default ", option.fallback, ")"), "\n");
  }
  return text;
}

}  // namespace sluice::cli
