#!/usr/bin/env python3
"""The tests that a host without KVM skipped, run where there is one.

  kvm_tests.py list BUILD LOG PLAN on the host: writes to PLAN (JSON) those tests of the build tree BUILD whose output has
                                   "needs KVM: " in LOG, a copy of ctest's Testing/Temporary/LastTest.log; prints how many
  kvm_tests.py run PLAN RESULTS    in the nested machine: runs each in a process of its own, as ctest does, prints ctest's
                                   kind of lines, appends a JSON line per finished test to RESULTS. What RESULTS has
                                   already is not run again: a machine that died is gone on with
  kvm_tests.py count PLAN RESULTS  on the host: prints "PASSED FAILED SKIPPED SECOND"; a test without a result has failed.
                                   SECOND of the passed needed a second run

A test that fails runs once more, like in ./dev test: the machine is slow, and a deadline may pass by no fault of the code.
"""
import json
import os
import re
import subprocess
import sys
import time

NEEDS_KVM = "needs KVM: "
# Whole topologies take minutes each there. `./dev demo` runs one; the rest runs with --nested-full.
WHOLE_TOPOLOGIES = ("RunTest.", "All/InterruptTest.")
# The machine is tens of times slower than a host, and ctest's limits are already generous.
PATIENCE = 2


def skipped_for_kvm(path):
    """Names of the tests that were skipped because they need KVM, by ctest's log of what each test printed."""
    with open(path, encoding="utf-8", errors="replace") as file:
        log = file.read()
    names = set()
    for entry in re.split(r"(?m)^\d+/\d+ Testing: ", log)[1:]:
        if NEEDS_KVM in entry and not re.search(r"(?m)^Test Failed\.", entry):
            names.add(entry.split("\n", 1)[0].strip())
    return names


def make_plan(build, log, plan):
    wanted = skipped_for_kvm(log)
    if os.environ.get("SLUICE_NESTED_FULL") != "1":
        wanted = {name for name in wanted if not name.startswith(WHOLE_TOPOLOGIES)}
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    tests = []
    for test in json.loads(shown.stdout)["tests"]:
        if test["name"] not in wanted:
            continue
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        tests.append({"name": test["name"], "command": test["command"], "directory": properties["WORKING_DIRECTORY"],
                      "timeout": float(properties.get("TIMEOUT", 120)) * PATIENCE})
    with open(plan, "w", encoding="utf-8") as file:
        json.dump(tests, file, indent=1)
    missing = wanted - {t["name"] for t in tests}
    if missing:
        sys.exit(f"kvm_tests: ctest does not know {', '.join(sorted(missing))}")
    print(len(tests))


def run_one(test):
    """'Passed', 'Skipped' or 'Failed', and the output."""
    try:
        done = subprocess.run(test["command"], cwd=test["directory"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=test["timeout"], check=False)
    except subprocess.TimeoutExpired as error:
        return "Failed", (error.stdout or b"").decode(errors="replace") + f"\nout of time after {test['timeout']:.0f} s\n"
    output = done.stdout.decode(errors="replace")
    if done.returncode == 77 or (done.returncode == 0 and "[  SKIPPED ]" in output):
        return "Skipped", output
    if done.returncode == 0:
        return "Passed", output
    return "Failed", output + f"\nexit status {done.returncode}\n"


def read_results(path):
    results = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):  # the last line of a machine that died may be torn
                    result = json.loads(line)
                    results[result["name"]] = result
    return results


def run_plan(plan, results_path):
    with open(plan, encoding="utf-8") as file:
        tests = json.load(file)
    done = read_results(results_path)
    for number, test in enumerate(tests, 1):
        if test["name"] in done:
            continue
        begin = time.monotonic()
        verdict, output = run_one(test)
        second = False
        if verdict == "Failed":
            print(f"{output}\n{test['name']} failed; once more", flush=True)
            verdict, output = run_one(test)
            second = verdict == "Passed"
        took = time.monotonic() - begin
        label = verdict if verdict == "Passed" else f"***{verdict}"
        print(f"{number:4d}/{len(tests)} Test (nested) {test['name']} {label} {took:.1f} sec"
              f"{' NEEDED A SECOND RUN' if second else ''}", flush=True)
        if verdict == "Failed":
            print(output, flush=True)
        if verdict == "Skipped":
            print("\n".join(line for line in output.splitlines() if "kipped" in line.lower() or "_test.cc" in line or
                            not line.startswith(("[", "Note", "Running"))), flush=True)
        with open(results_path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"name": test["name"], "verdict": verdict, "second": second, "seconds": took}) + "\n")


def count(plan, results_path):
    with open(plan, encoding="utf-8") as file:
        names = [test["name"] for test in json.load(file)]
    results = read_results(results_path)
    verdicts = [results[name]["verdict"] if name in results else "Failed" for name in names]
    print(verdicts.count("Passed"), verdicts.count("Failed"), verdicts.count("Skipped"),
          sum(1 for name in names if results.get(name, {}).get("second")))


def main():
    verbs = {"list": make_plan, "run": run_plan, "count": count}
    if len(sys.argv) < 2 or sys.argv[1] not in verbs or len(sys.argv) != (5 if sys.argv[1] == "list" else 4):
        sys.exit(__doc__)
    verbs[sys.argv[1]](*sys.argv[2:])


main()
