#!/usr/bin/env python3
"""Measures the whole system on this machine and prints one table; figures are medians over the runs, with minimum and maximum.

  bench/system.py [--sluice build/release/bin/sluice] [--runs 7] [--out out/bench]

- `bench` guest (CPL3) through a process domain on the Vulkan driver at hand: every `BENCH name value unit` line of its serial log.
- VM start: exec of the VM process to the guest's first instruction (`first_instruction_ms` of report.json), `hello` guest without a GPU and with one.
- Resident memory of a VM process without guest RAM and blobs: Rss of its mappings that are not memfds, from /proc/PID/smaps.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

DOMAINS = [{"name": "gpu", "os": "bare"}]


def write(path, frontends, domains):
    topology = {"frontends": frontends}
    if domains:
        topology["gpu_domains"] = domains
    path.write_text(json.dumps(topology, indent=1), encoding="utf-8")


def run(args, topology, out):
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "log.txt", "wb") as log:
        code = subprocess.run([args.sluice, "run", str(topology), "--out", str(out)], stdout=log, stderr=log, timeout=600).returncode
    if code != 0:
        sys.exit(f"sluice run {topology} ended with {code}; see {out}/log.txt")
    return json.loads((out / "report.json").read_text(encoding="utf-8"))


def resident_kib(pid):
    """(all private and file pages but memfds, memfd pages), KiB."""
    own = shared = 0
    memfd = False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").split("\n"):
        if re.match(r"^[0-9a-f]+-[0-9a-f]+ ", line):
            memfd = "memfd:" in line or "/dev/zero" in line
        elif line.startswith("Rss:"):
            kib = int(line.split()[1])
            if memfd:
                shared += kib
            else:
                own += kib
    return own, shared


def vm_processes():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"vm-process" in words:
            found.append(int(pid))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sluice", default="build/release/bin/sluice")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--out", default="out/bench")
    args = parser.parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    figures = collections.OrderedDict()

    def note(name, value, unit):
        figures.setdefault((name, unit), []).append(value)

    gpu = {"memory_mib": 256}
    write(out / "bench.json", [{"name": "bench", "os": "bare", "firmware": "bench", "mem_mib": 128, "gpu": gpu}], DOMAINS)
    write(out / "hello.json", [{"name": "hello", "os": "bare", "firmware": "hello"}], [])
    write(out / "hello-gpu.json", [{"name": "hello", "os": "bare", "firmware": "hello", "gpu": gpu}], DOMAINS)
    write(out / "spin.json", [{"name": "spin", "os": "bare", "firmware": "spin", "gpu": gpu}], DOMAINS)
    for _ in range(args.runs):
        run(args, out / "bench.json", out / "bench")
        for line in (out / "bench" / "bench.serial.log").read_text(encoding="utf-8", errors="replace").split("\n"):
            match = re.match(r"^BENCH (\S+) ([0-9.]+) (\S+)", line)
            if match:
                note(match[1], float(match[2]), match[3])
        for name in ("hello", "hello-gpu"):
            report = run(args, out / f"{name}.json", out / name)
            note(f"vm_start/{name}", report["frontends"][0]["first_instruction_ms"], "ms")
        with open(out / "spin.txt", "wb") as log:
            supervisor = subprocess.Popen([args.sluice, "run", str(out / "spin.json"), "--out", str(out / "spin")],
                                          stdout=log, stderr=log)
            time.sleep(1.5)
            for pid in vm_processes():
                own, shared = resident_kib(pid)
                note("vm_process/resident_without_guest_memory", own / 1024, "MiB")
                note("vm_process/memfds", shared / 1024, "MiB")
            supervisor.send_signal(signal.SIGINT)
            supervisor.wait(timeout=60)
    print(f"| figure | unit | median | min | max | n |\n|---|---|---|---|---|---|")
    rows = []
    for (name, unit), values in figures.items():
        row = {"name": name, "unit": unit, "median": statistics.median(values), "min": min(values), "max": max(values),
               "n": len(values)}
        rows.append(row)
        print(f"| {name} | {unit} | {row['median']:.4g} | {row['min']:.4g} | {row['max']:.4g} | {row['n']} |")
    (out / "system.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if any(name.startswith("vm_start") for name, _ in figures) else 1


sys.exit(main())
