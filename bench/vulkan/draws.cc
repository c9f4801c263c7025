// Recording draws, executing them, and several clients at once.
#include "bench/vulkan/draws.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/vulkan/cases.h"

namespace vkbench {

void caseRecord(Ctx& c, Report& r) {
  DrawRig rig(c);
  for (auto [n, label, iters] : {std::tuple{10000u, "10k", 10}, std::tuple{100000u, "100k", 3}})
    for (Mode m : {Mode::Draw, Mode::Push, Mode::Bind}) {
      std::string name = std::string("record/") + label + "/" + modeName(m);
      std::vector<double> rec, synced, reset;
      for (int it = 0; it <= iters; it++) {
        double a = nowNs();
        rig.reset();
        double t = nowNs();
        rig.record(m, n);
        double u = nowNs();
        c.sync();
        double v = nowNs();
        if (it == 0) continue;  // the first one grows the driver's storage
        reset.push_back((t - a) / 1e3);
        rec.push_back((u - t) / n);
        synced.push_back((v - t) / n);
      }
      r.add(name, median(rec), "ns/draw");
      r.add(name + "/synced", median(synced), "ns/draw");
      r.add(name + "/reset", median(reset), "us");
      rig.clearResult();
      c.submitWait(rig.cb);
      rig.verify(m, n);
    }
}

void caseE2e(Ctx& c, Report& r) {
  DrawRig rig(c);
  const uint32_t n = 10000;
  for (Mode m : {Mode::Draw, Mode::Push, Mode::Bind, Mode::Discard}) {
    std::string name = std::string("e2e/10k/") + modeName(m);
    if (!rig.has(m)) continue;
    std::vector<double> v;
    e2eOnce(rig, m, n);
    double cpu = cpuNs();
    const int iters = 15;
    for (int i = 0; i < iters; i++) {
      rig.clearResult();
      v.push_back(e2eOnce(rig, m, n) / n);
      if (i == 0 || i == iters - 1) rig.verify(m, n);
    }
    cpu = cpuNs() - cpu;
    r.add(name, median(v), "ns/draw");
    r.add(name + "/client_cpu", cpu / iters / n, "ns/draw");
  }
}

// Child side: set up, say so, wait for a line, work for the given time, say how much was done.
int workerMain(double seconds) {
  try {
    Ctx c;
    DrawRig rig(c);
    const Mode mode = rig.has(Mode::Discard) ? Mode::Discard : Mode::Draw;  // least work for the device
    e2eOnce(rig, mode, 10000);
    printf("READY\n");
    fflush(stdout);
    if (getchar() == EOF) return 1;
    double t = nowNs(), end = t + seconds * 1e9;
    uint64_t draws = 0;
    while (nowNs() < end) {
      rig.clearResult();
      e2eOnce(rig, mode, 10000);
      draws += 10000;
    }
    double took = (nowNs() - t) / 1e9;
    rig.verify(mode, 10000);
    printf("DONE %llu %.6f\n", (unsigned long long)draws, took);
    return 0;
  } catch (const std::exception& e) {
    printf("ERROR %s\n", e.what());
    return 1;
  }
}

struct Child {
  pid_t pid;
  FILE *in, *out;
};

Child spawnWorker(double seconds) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) fail("pipe: %s", strerror(errno));
  pid_t pid = fork();
  if (pid < 0) fail("fork: %s", strerror(errno));
  if (pid == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    std::string s = std::to_string(seconds);
    execl("/proc/self/exe", "vkbench", "--worker", s.c_str(), nullptr);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  return {pid, fdopen(to[1], "w"), fdopen(from[0], "r")};
}

void caseMulti(Ctx*, Report& r) {
  double base = 0;
  for (int clients : {1, 2, 4}) {
    std::string name = "multi/" + std::to_string(clients) + (clients == 1 ? "_client" : "_clients");
    std::vector<Child> ch;
    for (int i = 0; i < clients; i++) ch.push_back(spawnWorker(2.0));
    std::string err;
    char line[600];
    for (auto& k : ch)
      if (!fgets(line, sizeof line, k.out) || strncmp(line, "READY", 5))
        err = std::string("a client did not start: ") + (strncmp(line, "ERROR", 5) ? "no answer" : line);
    for (auto& k : ch) {
      if (err.empty()) fputs("go\n", k.in);
      fclose(k.in);
    }
    double rate = 0, slow = 1e300, fast = 0;
    for (auto& k : ch) {
      unsigned long long draws = 0;
      double s = 0;
      if (err.empty()) {
        if (!fgets(line, sizeof line, k.out) || sscanf(line, "DONE %llu %lf", &draws, &s) != 2)
          err = std::string("a client failed: ") + line;
        else {
          rate += double(draws) / s;
          slow = std::min(slow, double(draws) / s);
          fast = std::max(fast, double(draws) / s);
        }
      }
      fclose(k.out);
      int st = 0;
      waitpid(k.pid, &st, 0);
      if (err.empty() && st) err = "a client exited with status " + std::to_string(st);
    }
    if (!err.empty()) fail("%s: %s", name.c_str(), err.c_str());
    if (clients == 1) base = rate;
    r.add(name, rate / 1e3, "kdraws/s");
    if (clients > 1) {
      r.add(name + "/scaling", rate / base, "x of 1 client");
      r.add(name + "/unfairness", fast / slow, "fastest/slowest");
    }
  }
}

}  // namespace vkbench
