#!/usr/bin/env python3
"""Runs vkbench on the driver itself and through Sluice in alternation and says how they compare, with the goals beside.

  bench/vulkan/compare.py [--rounds 7] [--cases record,submit] [--build build/release] [--out out/bench] [--quiet-wait SECONDS]

Every round runs every case on both arms, the order of the arms turning from round to round; each run through Sluice has a sluice-domain
of its own. The value of an arm is the median over the rounds (of medians inside a run). Writes OUT/vulkan.md (tables) and
OUT/vulkan.json (everything), and prints the goals. Status 1 when a check of vkbench failed, or the two arms' pictures differ; a missed
goal is only reported.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")
MIB = 1024.0 * 1024.0
# name -> repetitions inside one process
CASES = {"startup": 2, "query": 3, "record": 1, "e2e": 1, "submit": 1, "timeline": 1, "churn": 2, "mapped": 1, "transfer": 1,
         "dispatch": 2, "frame": 1, "poll": 3, "multi": 1}
HIGHER_IS_BETTER = ("GB/s", "frames/s", "kdraws/s", "x of 1 client")
# metric, kind, bound. "slower": Sluice's time by the native one, at most; "speed": Sluice's rate by the native one, at least;
# "value": Sluice's own figure in its unit, at most.
GOALS = [
    ("record/10k/draw", "slower", 0.5), ("record/100k/draw", "slower", 0.3),
    ("record/10k/draw/synced", "slower", 1.6), ("record/100k/draw/synced", "slower", 1.3),
    ("record/10k/bind/synced", "slower", 1.5), ("record/100k/bind/synced", "slower", 1.5),
    ("submit/empty_cb/p50", "slower", 2), ("submit/empty_cb/p99", "slower", 3),
    ("timeline/queue_signal_host_wait/p50", "slower", 2.5),
    ("churn/image/create", "value", 3), ("churn/image_same/create", "value", 1),
    ("churn/memory_64k_mapped/create", "slower", 3),
    ("churn/descriptor_set/update2", "value", 1), ("churn/fence/create", "value", 0.5),
    ("mapped/write", "speed", 0.95), ("mapped/read", "speed", 0.95), ("mapped/host_device_host_4KiB/p50", "slower", 2),
    ("dispatch/1k/e2e", "slower", 1.15), ("transfer/update_buffer_8MiB", "slower", 1.15),
    ("frame/640x480/serial", "speed", 0.95), ("frame/640x480/3_in_flight", "speed", 1.05),
    ("multi/4_clients", "speed", 0.95), ("startup/warm/total", "slower", 2.5),
    ("poll/fence_signaled_by_queue", "value", 60), ("poll/event_set_by_queue", "value", 60),
    ("poll/timeline_counter", "value", 60), ("poll/query_1", "value", 60),
    ("memory/1_client", "value", 20), ("memory/4_clients", "value", 40),
]


def read(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def machine_busy():
    fields = [int(x) for x in read("/proc/stat").split("\n")[0].split()[1:9]]
    return (fields[0] + fields[1] + fields[2] + fields[5] + fields[6]) / TICK


def tree(root):
    """The process and all its descendants that are alive."""
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        for task in os.listdir(f"/proc/{pid}/task") if os.path.isdir(f"/proc/{pid}/task") else []:
            todo += [int(k) for k in read(f"/proc/{pid}/task/{task}/children").split()]
    return found


def cpu_seconds(pids):
    total = 0.0
    for pid in pids:
        stat = read(f"/proc/{pid}/stat")
        if stat:
            fields = stat[stat.rindex(")") + 2:].split()
            total += (int(fields[11]) + int(fields[12])) / TICK
    return total


def resident_bytes(pids):
    """Resident memory of these processes together: what is mapped from a file counts once however many map it."""
    files, own = {}, 0
    for pid in pids:
        name, of_this = "", {}
        for line in read(f"/proc/{pid}/smaps").split("\n"):
            words = line.split()
            if not words:
                continue
            if "-" in words[0] and not words[0].endswith(":"):
                name = words[5] if len(words) > 5 else ""
            elif words[0] == "Rss:":
                rss = int(words[1]) * 1024
                of_this[name] = of_this.get(name, 0) + rss
            elif words[0] == "Anonymous:" and name.startswith("/") and not name.startswith(("/memfd:", "/dev/")):
                private = int(words[1]) * 1024  # relocated or written pages of a library
                of_this[name] -= private
                own += private
        for mapped, rss in of_this.items():
            if mapped.startswith("/") and not mapped.startswith("/dev/"):
                files[mapped] = max(files.get(mapped, 0), rss)  # memfds too: each has a name of its own or is shared
            else:
                own += rss
    return own + sum(files.values())


class Arm:
    """Where a client runs: natively, or through a domain that this object starts and stops."""

    def __init__(self, args, name):
        self.name, self.domain, self.folder = name, None, None
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("VK_", "SLUICE_SOCKET"))}
        self.env["NODEVICE_SELECT"] = "1"
        if name == "native":
            self.env["VK_DRIVER_FILES"] = args.driver
            return
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-bench-")
        socket = pathlib.Path(self.folder.name) / "gpu.sock"
        env = dict(self.env, VK_DRIVER_FILES=args.driver)
        self.log = open(args.out / "vulkan-domain.log", "ab")
        self.domain = subprocess.Popen([str(args.build / "bin/sluice-domain"), f"--listen={socket}", "--memory_mib=2048", "--log_level=2"],
                                       env=env, stdout=self.log, stderr=self.log, start_new_session=True)
        self.env["SLUICE_SOCKET"] = str(socket)
        self.env["VK_DRIVER_FILES"] = str(args.build / "share/vulkan/icd.d/sluice_icd.x86_64.json")
        end = time.monotonic() + 30
        while not socket.exists():
            if self.domain.poll() is not None or time.monotonic() > end:
                sys.exit(f"sluice-domain does not come up; see {args.out}/vulkan-domain.log")
            time.sleep(0.005)

    def pids(self):
        return tree(self.domain.pid) if self.domain else []

    def stop(self):
        if not self.domain:
            return
        self.domain.send_signal(signal.SIGTERM)
        try:
            self.domain.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.domain.pid, signal.SIGKILL)
            self.domain.wait()
        self.log.close()
        self.folder.cleanup()


def wait_quiet(limit):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        busy, start = machine_busy(), time.monotonic()
        time.sleep(0.5)
        if (machine_busy() - busy) / (time.monotonic() - start) < 0.2:
            return


def run_case(args, name, case, round_number):
    wait_quiet(args.quiet_wait)
    arm = Arm(args, name)
    try:
        busy, start = machine_busy(), time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            client = subprocess.Popen([str(args.build / "bin/vkbench"), "--case", case, "--repeat", str(CASES[case])], env=arm.env,
                                      stdout=out, stderr=err, start_new_session=True)
            domain_cpu = 0.0
            while True:
                pid, status, usage = os.wait4(client.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() - start > args.timeout:
                    os.killpg(client.pid, signal.SIGKILL)
                domain_cpu = max(domain_cpu, cpu_seconds(arm.pids()))
                time.sleep(0.05)
            client.returncode = os.waitstatus_to_exitcode(status)
            wall = time.monotonic() - start
            out.seek(0)
            err.seek(0)
            lines, errors = out.read().decode(), err.read().decode()[-500:]
        client_cpu = usage.ru_utime + usage.ru_stime
        record = {"arm": name, "case": case, "round": round_number, "exit": client.returncode, "wall": wall, "client_cpu": client_cpu,
                  "domain_cpu": domain_cpu, "others": max(0.0, (machine_busy() - busy - client_cpu - domain_cpu) / wall), "metrics": [],
                  "stderr": errors}
        for line in lines.splitlines():
            try:
                record["metrics"].append(json.loads(line))
            except ValueError:
                record["stderr"] += line
        return record
    finally:
        arm.stop()


def resident(args, name, clients):
    """Resident bytes of what holds the driver while `clients` clients have all their objects: the clients natively, else the domain."""
    arm = Arm(args, name)
    children = []
    try:
        for _ in range(clients):
            children.append(subprocess.Popen([str(args.build / "bin/vkbench"), "--worker", "0.1"], env=arm.env, stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, text=True))
        for child in children:
            line = child.stdout.readline()
            if not line.startswith("READY"):
                return None
        return resident_bytes(arm.pids() if name == "sluice" else [c.pid for c in children])
    finally:
        for child in children:
            child.stdin.close()
            child.wait()
        arm.stop()


def number(value):
    size = abs(value)
    return f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 1 else f"{value:.3f}"


class Table:
    def __init__(self, runs, residents):
        self.values, self.units, self.checks, self.failures = {}, {}, {}, []
        for run in runs:
            where = f"{run['arm']} {run['case']} round {run['round']}"
            if run["exit"] != 0:
                self.failures.append(f"{where}: exit {run['exit']} {run['stderr'].strip()[-200:]}")
            for metric in run["metrics"]:
                if "error" in metric:
                    self.failures.append(f"{where}: {metric['error']}")
                elif "check" in metric:
                    self.checks.setdefault(metric["case"], {}).setdefault(run["arm"], set()).add(metric["check"])
                else:
                    self.units.setdefault(metric["case"], metric["unit"])
                    self.values.setdefault((metric["case"], run["arm"]), []).append(metric["value"])
        for name, by_arm in self.checks.items():
            if len(set().union(*by_arm.values())) != 1:
                self.failures.append(f"the content hash {name} differs: {by_arm}")
        for clients, (native, sluice) in residents.items():
            name = f"memory/{clients}_client" + ("s" if clients > 1 else "")
            self.units[name] = "MiB"
            if native is None or sluice is None:
                self.failures.append(f"{name}: a client did not start")
                continue
            self.values[(name, "native")] = [native / MIB]
            self.values[(name, "sluice")] = [(sluice - native) / MIB]

    def median(self, name, arm):
        values = self.values.get((name, arm))
        return statistics.median(values) if values else None

    def ratio(self, name):
        """(how many times slower Sluice is, its speed as a part of the native one)"""
        native, sluice = self.median(name, "native"), self.median(name, "sluice")
        if not native or not sluice:
            return None, None
        slower = native / sluice if self.units[name] in HIGHER_IS_BETTER else sluice / native
        return slower, 1.0 / slower

    def row(self, name):
        native, sluice = self.median(name, "native"), self.median(name, "sluice")
        slower, _ = self.ratio(name)
        cells = [name, self.units[name], "-" if native is None else number(native), "failed" if sluice is None else number(sluice),
                 "" if slower is None or name.startswith("memory/") else "x" + number(slower)]
        return "| " + " | ".join(cells) + " |"

    def goals(self):
        """[(metric, goal as text, measured as text, reached or None)]"""
        rows = []
        for name, kind, bound in GOALS:
            if name not in self.units:
                continue
            slower, speed = self.ratio(name)
            value = self.median(name, "sluice")
            unit = self.units[name]
            if kind == "slower":
                measured, text = slower, f"<= x{bound}"
            elif kind == "speed":
                measured, text = speed, f">= x{bound} of native"
            else:
                measured, text = value, f"<= {bound} {unit}"
            if measured is None:
                rows.append((name, text, "failed", False))
                continue
            reached = measured >= bound if kind == "speed" else measured <= bound
            rows.append((name, text, number(measured) if kind == "value" else "x" + number(measured), reached))
        return rows

    def markdown(self, args, runs):
        others = statistics.median([r["others"] for r in runs]) if runs else 0.0
        lines = ["# Vulkan through Sluice, compared with the driver itself", "",
                 f"`./dev bench vulkan --rounds {args.rounds}`: medians of {args.rounds} alternating rounds; other programs kept {others:.2f} cores busy"
                 " meanwhile (median).", "", "## Goals", "", "| metric | native | Sluice | goal | measured | |", "|---|--:|--:|---|--:|---|"]
        for name, goal, measured, reached in self.goals():
            native, sluice = self.median(name, "native"), self.median(name, "sluice")
            cells = [name, "-" if native is None else number(native), "-" if sluice is None else number(sluice)]
            lines.append(f"| {' | '.join(cells)} | {goal} | {measured} | {'reached' if reached else 'MISSED'} |")
        lines += ["", "memory: the native column is the resident memory of the clients with the driver, the Sluice column what the domain side (broker"
                  " and workers) has beyond that.", "", "## All", "", "| metric | unit | native | Sluice | Sluice is slower by |", "|---|---|--:|--:|--:|"]
        lines += [self.row(name) for name in self.units]
        lines += ["", "## CPU seconds", "", "| case | native | client with Sluice | domain | all, by native |", "|---|--:|--:|--:|--:|"]
        for case in CASES:
            def middle(arm, key):
                return statistics.median([r[key] for r in runs if r["case"] == case and r["arm"] == arm] or [0.0])
            native, client, domain = middle("native", "client_cpu"), middle("sluice", "client_cpu"), middle("sluice", "domain_cpu")
            if native:
                lines.append(f"| {case} | {native:.2f} | {client:.2f} | {domain:.2f} | x{(client + domain) / native:.2f} |")
        lines += ["", "## Failures", ""] + ([f"- {f}" for f in self.failures] or ["None: every check of vkbench held, pictures are equal."])
        return "\n".join(lines) + "\n"


def default_driver():
    for name in ("lvp_icd.x86_64.json", "lvp_icd.json"):
        path = f"/usr/share/vulkan/icd.d/{name}"
        if os.path.exists(path):
            return path
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cases", default=",".join(list(CASES) + ["memory"]))
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/bench"))
    parser.add_argument("--driver", default=default_driver(), help="manifest of the driver, for both arms")
    parser.add_argument("--timeout", type=float, default=240, help="seconds for one run")
    parser.add_argument("--quiet-wait", type=float, default=0, help="before each run wait so long at most for an idle machine")
    args = parser.parse_args()
    args.build = args.build.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    cases = [c for c in args.cases.split(",") if c]
    unknown = [c for c in cases if c not in CASES and c != "memory"]
    if unknown or not args.driver:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}, memory" if unknown else "no driver; see --driver")
    runs = []
    for round_number in range(1, args.rounds + 1):
        for case in (c for c in cases if c in CASES):
            for name in ("native", "sluice") if round_number % 2 else ("sluice", "native"):
                record = run_case(args, name, case, round_number)
                runs.append(record)
                print(f"round {round_number} {case:9} {name:6} exit {record['exit']} {record['wall']:6.2f} s, others {record['others']:.2f} cores",
                      flush=True)
    residents = {}
    if "memory" in cases:
        for clients in (1, 4):
            residents[clients] = (resident(args, "native", clients), resident(args, "sluice", clients))
    table = Table(runs, residents)
    (args.out / "vulkan.md").write_text(table.markdown(args, runs), encoding="utf-8")
    report = {"rounds": args.rounds, "goals": [dict(zip(("metric", "goal", "measured", "reached"), g)) for g in table.goals()],
              "medians": {n: {"unit": u, "native": table.median(n, "native"), "sluice": table.median(n, "sluice")} for n, u in table.units.items()},
              "failures": table.failures, "runs": runs}
    (args.out / "vulkan.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    for name, goal, measured, reached in table.goals():
        print(f"{'reached' if reached else 'MISSED ':7}  {name:40} {measured:>10}   {goal}")
    for failure in table.failures:
        print("FAILURE  " + failure)
    print(f"{args.out}/vulkan.md, {args.out}/vulkan.json")
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
