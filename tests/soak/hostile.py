#!/usr/bin/env python3
"""Runs the `hostile` guest with many seeds beside well-behaved front-ends and checks that nobody else notices.

  hostile.py --sluice build/release/bin/sluice --seeds 1000 [--batch 8] [--out out/hostile]

Each batch is one `sluice run`: BATCH hostile front-ends on both domains, and one `triangle` per domain. After it: the supervisor exited by itself
with 0 or 1 and wrote its report; both triangles ended well, with the same picture as the first batch; no process is left.
Exit status 0 only if all of that held for every batch.
"""
import argparse
import collections
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time


def topology(seeds):
    frontends = [
        {"name": "good-linux", "os": "linux", "mem_mib": 64, "firmware": "triangle", "cmdline": "frames=4",
         "gpu": {"memory_mib": 64}},
        {"name": "good-bare", "os": "bare", "mem_mib": 64, "firmware": "triangle", "cmdline": "frames=4",
         "gpu": {"memory_mib": 64}},
    ]
    for seed in seeds:
        frontends.append({"name": f"hostile-{seed}", "os": "linux" if seed % 2 else "bare", "mem_mib": 64, "firmware": "hostile",
                          "cmdline": f"seed={seed}", "gpu": {"memory_mib": 64}})
    return {"gpu_domains": [{"name": "gpu-linux", "os": "linux"}, {"name": "gpu-bare", "os": "bare"}], "frontends": frontends}


def processes(directory):
    """Processes whose program lies in `directory`: ours, whatever else runs on the machine."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.dirname(os.readlink(f"/proc/{pid}/exe")) == directory:
                found.append(int(pid))
        except OSError:
            continue
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sluice", default="build/release/bin/sluice")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--out", default="out/hostile")
    args = parser.parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    directory = os.path.dirname(os.path.realpath(args.sluice))
    before = set(processes(directory))
    reference, failures, causes = None, [], collections.Counter()
    started = time.monotonic()
    last = args.first + args.seeds
    for first in range(args.first, last, args.batch):
        seeds = range(first, min(first + args.batch, last))
        path = out / "topology.json"
        path.write_text(json.dumps(topology(seeds), indent=1), encoding="utf-8")
        (out / "report.json").unlink(missing_ok=True)
        where = f"seeds {seeds[0]}-{seeds[-1]}"
        with open(out / "log.txt", "wb") as log:
            try:
                run = subprocess.run([args.sluice, "run", str(path), "--out", str(out)], stdout=log, stderr=log, timeout=300)
            except subprocess.TimeoutExpired:
                failures.append(f"{where}: the run did not end within 300 s")
                break
        if run.returncode not in (0, 1):
            failures.append(f"{where}: sluice run ended with {run.returncode}")
            continue
        report = json.loads((out / "report.json").read_text(encoding="utf-8"))
        for frontend in report["frontends"]:
            if frontend["name"].startswith("hostile"):
                causes[frontend["exit"]["cause"].split(":")[0][:70]] += 1
                continue
            digest = hashlib.sha256((out / f"{frontend['name']}.png").read_bytes()).hexdigest()
            reference = reference or digest
            if frontend["exit"]["code"] != 0 or digest != reference:
                failures.append(f"{where}: {frontend['name']} was disturbed: {frontend['exit']}")
        left = set(processes(directory)) - before
        if left:
            failures.append(f"{where}: processes left behind: {sorted(left)}")
    print(f"{args.seeds} seeds in {time.monotonic() - started:.0f} s; how the hostile guests ended:")
    for cause, count in causes.most_common():
        print(f"  {count:5}  {cause}")
    for failure in failures[:20]:
        print("FAIL", failure)
    print(f"{'FAILED' if failures else 'undisturbed'}: {len(failures)} findings")
    return 1 if failures or not causes else 0


sys.exit(main())
