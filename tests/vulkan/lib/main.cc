// The cases of the Vulkan conformance suite: runs those asked for on the driver that the Vulkan loader finds.
//   vulkan_cases --list
//   vulkan_cases [--validate] [--out FILE] GROUP.CASE ...   (or GROUP, or nothing for all)
// Status: 0 all right, 1 something failed, 2 usage, 77 the driver lacks what the case needs (only with a single case).
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/vulkan/lib/test.h"

namespace sluice::vktest {
namespace {

int RunOne(const Case& c, bool validate, const std::string& out) {
  const std::string name = std::string(c.group) + "." + c.name;
  Test test(name, validate);
  c.run(test);
  test.Finish();
  FILE* file = out.empty() ? stdout : fopen(out.c_str(), "a");
  if (file == nullptr) {
    fprintf(stderr, "%s: %s\n", out.c_str(), strerror(errno));
    return 2;
  }
  fprintf(file, "[%s]\n%s", name.c_str(), test.dump().c_str());
  fflush(file);
  if (file != stdout) fclose(file);
  return test.failed() ? 1 : 0;
}

// Several cases: each in a process of its own, so that one that is skipped or crashes does not end the others.
int InChild(const Case& c, bool validate, const std::string& out) {
  fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) Fatal("fork: %s", strerror(errno));
  if (child == 0) exit(RunOne(c, validate, out));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int Main(int argc, char** argv) {
  bool validate = false;
  std::string out;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; i++) {
    const std::string argument = argv[i];
    if (argument == "--list") {
      for (const Case& c : Cases()) printf("%s.%s\n", c.group, c.name);
      return 0;
    }
    if (argument == "--validate") {
      validate = true;
    } else if (argument == "--out" && i + 1 < argc) {
      out = argv[++i];
    } else if (argument.rfind("--", 0) == 0) {
      fprintf(stderr, "usage: vulkan_cases --list | [--validate] [--out FILE] [GROUP[.CASE]] ...\n");
      return 2;
    } else {
      wanted.push_back(argument);
    }
  }
  std::vector<const Case*> chosen;
  for (const Case& c : Cases()) {
    const std::string name = std::string(c.group) + "." + c.name;
    bool here = wanted.empty();
    for (const std::string& w : wanted) here = here || w == name || w == c.group;
    if (here) chosen.push_back(&c);
  }
  if (chosen.empty()) {
    fprintf(stderr, "no such case (--list shows them)\n");
    return 2;
  }
  if (!out.empty() && truncate(out.c_str(), 0) != 0 && errno != ENOENT) {
    fprintf(stderr, "%s: %s\n", out.c_str(), strerror(errno));
    return 2;
  }
  if (chosen.size() == 1) return RunOne(*chosen[0], validate, out);
  int failed = 0, skipped = 0;
  for (const Case* c : chosen) {
    fprintf(stderr, "%s.%s\n", c->group, c->name);
    const int code = InChild(*c, validate, out);
    if (code == kExitSkipped) {
      skipped++;
    } else if (code != 0) {
      failed++;
      fprintf(stderr, "%s.%s: FAILED (%d)\n", c->group, c->name, code);
    }
  }
  fprintf(stderr, "%zu cases, %d failed, %d skipped\n", chosen.size(), failed, skipped);
  return failed != 0 ? 1 : 0;
}

}  // namespace
}  // namespace sluice::vktest

int main(int argc, char** argv) {
  return sluice::vktest::Main(argc, argv);
}
