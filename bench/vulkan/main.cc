// vkbench: what the Vulkan API costs an application, one driver at a time. Plain Vulkan 1.2 through the loader, no
// window system. Every case checks what it can (pixels, buffer contents, status codes); a failed check is printed and
// the exit status is 1.
#include "bench/vulkan/cases.h"
#include "bench/vulkan/device.h"

namespace vkbench {

struct Group {
  const char *name, *what;
  std::function<void(Ctx&, Report&)> run;
  std::function<void(Ctx*, Report&)> bare;  // runs without the shared device
};

int benchMain(int argc, char** argv) {
  const std::vector<Group> groups = {
      {"startup", "instance and device creation, cold and warm", nullptr, caseStartup},
      {"query", "physical device queries", caseQuery, nullptr},
      {"record", "recording 10k and 100k draws", caseRecord, nullptr},
      {"e2e", "record, submit and wait for 10k tiny draws", caseE2e, nullptr},
      {"submit", "empty submission and fence wait", caseSubmit, nullptr},
      {"timeline", "timeline semaphore round trips", caseTimeline, nullptr},
      {"churn", "creating and destroying objects", caseChurn, nullptr},
      {"mapped", "mapped memory bandwidth and visibility", caseMapped, nullptr},
      {"transfer", "copies, fills and inline updates", caseTransfer, nullptr},
      {"dispatch", "1k small dispatches with barriers", caseDispatch, nullptr},
      {"frame", "300 textured cubes per frame with readback", caseFrame, nullptr},
      {"poll", "status polling", casePoll, nullptr},
      {"multi", "1, 2 and 4 client processes drawing at once", nullptr, caseMulti},
  };
  std::vector<std::string> only;
  int repeat = 1;
  for (int i = 1; i < argc; i++) {
    std::string a = argv[i];
    if (a == "--list") {
      for (auto& g : groups) printf("%-10s %s\n", g.name, g.what);
      return 0;
    }
    if (a == "--case" && i + 1 < argc) {
      only.push_back(argv[++i]);
    } else if (a == "--repeat" && i + 1 < argc) {
      repeat = std::max(1, atoi(argv[++i]));
    } else if (a == "--worker" && i + 1 < argc) {
      return workerMain(atof(argv[++i]));
    } else {
      fprintf(stderr, "usage: vkbench [--list] [--case NAME]... [--repeat N]\n");
      return 2;
    }
  }
  for (auto& o : only)
    if (std::none_of(groups.begin(), groups.end(), [&](auto& g) { return o == g.name; })) {
      fprintf(stderr, "vkbench: no case \"%s\" (see --list)\n", o.c_str());
      return 2;
    }

  Report report;
  std::unique_ptr<Ctx> ctx;
  for (auto& g : groups) {
    if (!only.empty() && std::find(only.begin(), only.end(), g.name) == only.end()) continue;
    try {
      if (g.run && !ctx) ctx = std::make_unique<Ctx>();
      // Cold startup happens once a process, so one more round to have N warm ones.
      int n = repeat + (std::string(g.name) == "startup");
      for (int k = 0; k < n; k++) {
        if (g.run)
          g.run(*ctx, report);
        else
          g.bare(ctx.get(), report);
      }
    } catch (const std::exception& e) {
      report.error(g.name, e.what());
    }
    report.flush();
  }
  return report.failed() ? 1 : 0;
}

}  // namespace vkbench

int main(int argc, char** argv) {
  return vkbench::benchMain(argc, argv);
}
