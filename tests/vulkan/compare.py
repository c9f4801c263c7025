#!/usr/bin/env python3
"""Runs cases of the Vulkan conformance suite on the driver itself and through Sluice, and compares what they saw.

  compare.py [--build DIR] native CASE...     the cases on the driver itself, with the Khronos validation layer: proves the suite
  compare.py [--build DIR] sluice CASE...     natively and through Sluice; the two dumps must be equal line by line, except the
                                              lines that cuts.txt names
  compare.py [--build DIR] above [CASE...]    through Sluice, with the validation layer in the program
  compare.py [--build DIR] below [CASE...]    through Sluice, with the validation layer in the worker

A CASE is GROUP.CASE or GROUP. The driver is lavapipe unless SLUICE_TEST_DRIVER names another manifest. Status: 0 equal and right,
1 not, 77 the driver itself lacks what the case is about.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
START_SECONDS = 60
CASE_SECONDS = 280


def driver_manifest():
    chosen = os.environ.get("SLUICE_TEST_DRIVER")
    if chosen:
        return chosen
    for name in ("lvp_icd.x86_64.json", "lvp_icd.json"):
        path = pathlib.Path("/usr/share/vulkan/icd.d") / name
        if path.exists():
            return str(path)
    sys.exit("no lavapipe (package mesa-vulkan-drivers), and SLUICE_TEST_DRIVER names no other driver")


def environment(build, socket=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("VK_", "SLUICE_SOCKET"))}
    # Nothing may come out of a cache that another run filled.
    env.update(MESA_SHADER_CACHE_DISABLE="true", NODEVICE_SELECT="1")
    if socket is None:
        env["VK_DRIVER_FILES"] = driver_manifest()
    else:
        env["VK_DRIVER_FILES"] = str(build / "share/vulkan/icd.d/sluice_icd.x86_64.json")
        env["SLUICE_SOCKET"] = str(socket)
    return env


class Domain:
    """A sluice-domain of our own, listening on a socket in `folder`."""

    def __init__(self, build, folder, arguments=()):
        self.socket = folder / "gpu.sock"
        self.log_path = folder / "domain.log"
        self.log = open(self.log_path, "wb")
        env = {k: v for k, v in os.environ.items() if not k.startswith("VK_")}
        env["VK_DRIVER_FILES"] = driver_manifest()
        self.process = subprocess.Popen([str(build / "bin/sluice-domain"), f"--listen={self.socket}", "--memory_mib=2048", *arguments],
                                        env=env, stdout=self.log, stderr=self.log, start_new_session=True)
        end = time.monotonic() + START_SECONDS
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                sys.exit(f"sluice-domain does not come up:\n{self.text()}")
            time.sleep(0.01)

    def text(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.log.close()


def run_cases(build, env, out, cases, validate=False, seconds=CASE_SECONDS):
    command = [str(build / "tests/vulkan_cases"), "--out", str(out)] + (["--validate"] if validate else []) + list(cases)
    try:
        done = subprocess.run(command, env=env, timeout=seconds, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        code, text = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        code, text = "timeout", error.stdout or b""
    return code, text.decode("utf-8", "replace")


def parse(path):
    """{"group.case key": value}, in order; a key that comes twice gets a number."""
    lines, section = {}, ""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        key, _, value = line.partition(" = ")
        name, number = f"{section} {key}", 2
        while name in lines:
            name, number = f"{section} {key} #{number}", number + 1
        lines[name] = value
    return lines


def load_cuts():
    """Differences that are meant: a regular expression for "group.case key" on each line, and after two blanks why."""
    cuts = []
    for line in (HERE / "cuts.txt").read_text(encoding="utf-8").splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            cuts.append(re.compile(re.split(r"\s{2,}", line)[0]))
    return cuts


def differences(native, sluice):
    cuts = load_cuts()
    found = []
    for name in list(native) + [n for n in sluice if n not in native]:
        a, b = native.get(name, "(absent)"), sluice.get(name, "(absent)")
        if a != b and not any(cut.fullmatch(name) for cut in cuts):
            found.append(f"{name}\n    native: {a}\n    sluice: {b}")
    return found


def native(build, cases, folder):
    code, text = run_cases(build, environment(build), folder / "native", cases, validate=True)
    print(text, end="")
    return code if code in (0, SKIPPED) else 1


def sluice(build, cases, folder):
    code, text = run_cases(build, environment(build), folder / "native", cases)
    if code != 0:
        print(f"natively:\n{text}(status {code})")
        return SKIPPED if code == SKIPPED else 1
    domain = Domain(build, folder)
    try:
        code, text = run_cases(build, environment(build, domain.socket), folder / "sluice", cases)
    finally:
        domain.stop()
    bad = []
    if code != 0:
        bad.append(f"through Sluice: status {code}\n{text}")
    if code == SKIPPED:
        bad.append("the driver has what the case is about, Sluice does not offer it")
    if (folder / "sluice").exists():
        bad += differences(parse(folder / "native"), parse(folder / "sluice"))
    if domain.process.returncode != 0:
        bad.append(f"sluice-domain ended with {domain.process.returncode}")
    for line in bad[:40]:
        print(line)
    if bad:
        print(f"{len(bad)} differences; the domain's log:\n{domain.text()[-4000:]}")
    return 1 if bad else 0


def validated(build, cases, folder, above):
    """All in one process: the layer is slow to load. Nothing may be said by the layer, neither above nor below."""
    domain = Domain(build, folder, () if above else ("--validate",))
    try:
        code, text = run_cases(build, environment(build, domain.socket), folder / "sluice", cases, validate=above, seconds=1500)
    finally:
        domain.stop()
    log = domain.text()
    said = [line for line in log.splitlines() if "validation:" in line.lower()]
    failed = [line for line in text.splitlines() if re.search(r"FAILED|fatal|validation|skipped", line)]
    for line in failed[:60] + said[:60]:
        print(line)
    if code != 0 or said:
        print(f"status {code}; {len(said)} messages of the validation layer in the worker\n{text[-2000:]}\n{log[-2000:]}")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--keep", type=pathlib.Path, help="keep dumps and logs in this folder")
    parser.add_argument("mode", choices=["native", "sluice", "above", "below"])
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    # Ended from outside: the domain goes too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    build = args.build.resolve()
    folder = args.keep or pathlib.Path(tempfile.mkdtemp(prefix="sluice-vulkan-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if args.mode == "native":
            return native(build, args.cases, folder)
        if args.mode == "sluice":
            return sluice(build, args.cases, folder)
        return validated(build, args.cases, folder, args.mode == "above")
    finally:
        if args.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
