#!/usr/bin/env python3
"""Runs unmodified programs natively and through Sluice and compares what they show.

  programs.py [--build DIR] [--above] [--below] NAME...      NAME: see --list
  programs.py --list

--above: the Khronos validation layer in the program; it may say nothing that it does not say natively too.
--below: the layer in the worker; it may say nothing at all that it does not say about the program itself.
Status: 0 all right, 1 not, 77 a program is not installed, or fails natively too (which is said).
"""
import argparse
import json
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
sys.path.insert(0, str(HERE.parent / "vulkan"))
import compare  # noqa: E402  (the domain, the environments)

SKIPPED = 77
MESSAGE = re.compile(r"(VUID-[\w-]+|UNASSIGNED-[\w-]+)")
# What the layer itself calls a likely bug of its own.
IGNORED = {"UNASSIGNED-VkSemaphore-state-timeout"}


class Skip(Exception):
    pass


class Difference(Exception):
    pass


class Side:
    """One of the two ways to run a program: its environment, and the ids of what the validation layer said."""

    def __init__(self, args, name, env):
        self.args, self.name, self.env, self.said = args, name, dict(env), set()
        self.folder = args.folder / name
        self.folder.mkdir(exist_ok=True)
        self.env["HOME"] = self.env["XDG_RUNTIME_DIR"] = str(self.folder)
        if args.above:
            self.env["VK_INSTANCE_LAYERS"] = "VK_LAYER_KHRONOS_validation"

    def run(self, command, seconds=300, env=None, good=(0,)):
        """stdout and stderr of a program that must end by itself with a status in `good`."""
        try:
            done = subprocess.run(command, env={**self.env, **(env or {})}, cwd=self.folder, timeout=seconds, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        except subprocess.TimeoutExpired:
            raise Difference(f"{self.name}: {' '.join(command)} did not end in {seconds} s") from None
        out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        self.said |= set(MESSAGE.findall(out + err)) - IGNORED
        if done.returncode not in good:
            raise Difference(f"{self.name}: {' '.join(command)} ended with {done.returncode}\n{(out + err)[-1500:]}")
        return out, err


class Screen:
    """An X server of our own; `grab` says what it shows."""

    def __init__(self, args):
        self.args = args
        read_fd, write_fd = os.pipe()
        self.server = subprocess.Popen(["Xvfb", "-displayfd", str(write_fd), "-screen", "0", "640x480x24", "-nolisten", "tcp"],
                                       pass_fds=[write_fd], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(write_fd)
        with os.fdopen(read_fd) as pipe:
            self.display = ":" + pipe.readline().strip()

    def grab(self):
        done = subprocess.run([str(self.args.build / "tests/screen_grab"), self.display], stdout=subprocess.PIPE, timeout=60, check=True)
        return done.stdout

    def watch(self, side, command, env, seconds):
        """The different pictures that appear while a program runs that has to be ended; also what it printed."""
        log = side.folder / "program.log"
        with open(log, "wb") as out:
            program = subprocess.Popen(["stdbuf", "-oL", *command], env={**side.env, **env, "DISPLAY": self.display}, cwd=side.folder,
                                       stdout=out, stderr=out)
            pictures, end = [], time.monotonic() + seconds
            while time.monotonic() < end and program.poll() is None:
                picture = self.grab()
                if len(set(picture[i:i + 4] for i in range(0, len(picture), 4))) > 1 and picture not in pictures:
                    pictures.append(picture)
                time.sleep(0.05)
            early = program.poll()
            if early is None:
                program.terminate()
                try:
                    program.wait(30)
                except subprocess.TimeoutExpired:
                    program.kill()
                    program.wait()
        text = log.read_text(encoding="utf-8", errors="replace")
        side.said |= set(MESSAGE.findall(text)) - IGNORED
        if early is not None:
            raise Difference(f"{side.name}: {' '.join(command)} ended by itself with {early}\n{text[-1500:]}")
        return pictures, text

    def stop(self):
        self.server.terminate()
        self.server.wait(20)


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed (packages-programs.txt)")


def both(native, sluice, run):
    """The result of `run` on each side. A failure natively is a reason to skip, and is said."""
    try:
        expected = run(native)
    except Difference as error:
        raise Skip(f"fails natively too: {error}") from None
    return expected, run(sluice)


def expect_equal(what, expected, got):
    if expected != got:
        raise Difference(f"{what} differs\n  native: {str(expected)[:1500]}\n  sluice: {str(got)[:1500]}")


def vulkaninfo_summary(native, sluice):
    need("vulkaninfo")

    def run(side):
        out, _ = side.run(["vulkaninfo", "--summary"])
        return dict(re.findall(r"^\s*(\w+)\s+= (.*)$", out, re.M))
    expected, got = both(native, sluice, run)
    for key in ("vendorID", "deviceID", "deviceType", "driverID"):
        expect_equal(key, expected.get(key), got.get(key))
    expect_equal("the Vulkan version", expected["apiVersion"].split(".")[:2], got["apiVersion"].split(".")[:2])
    if expected["deviceName"] not in got["deviceName"]:
        raise Difference(f"the device {expected['deviceName']} is called {got['deviceName']}")


def vulkaninfo_json(native, sluice):
    need("vulkaninfo")

    def run(side):
        side.run(["vulkaninfo", "--json", "--output", "info.json"])
        return json.loads((side.folder / "info.json").read_text(encoding="utf-8"))
    expected, got = both(native, sluice, run)
    cuts = [line.split()[0] for line in (HERE / "cuts.txt").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]

    def walk(path, a, b):
        if any(re.fullmatch(cut, path) for cut in cuts):
            return []
        if isinstance(a, dict) and isinstance(b, dict):
            return [d for key in {**a, **b} for d in walk(f"{path}/{key}", a.get(key), b.get(key))]
        return [] if a == b else [f"{path}: native {str(a)[:100]}, sluice {str(b)[:100]}"]
    found = walk("", expected, got)
    if found:
        raise Difference("\n".join(found[:60]))


def vulkaninfo_text(native, sluice):
    need("vulkaninfo")

    def run(side):
        out, _ = side.run(["vulkaninfo", "--show-formats"])
        return len(out.splitlines())
    expected, got = both(native, sluice, run)
    if got < expected * 0.8:
        raise Difference(f"vulkaninfo prints {got} lines, natively {expected}")


FILTERS = {
    "upload": "hwupload,hwdownload",
    "scale": "hwupload,scale_vulkan=w=64:h=48,hwdownload",
    "avgblur": "hwupload,avgblur_vulkan=sizeX=5,hwdownload",
    "gblur": "hwupload,gblur_vulkan,hwdownload",
    "chromaber": "hwupload,chromaber_vulkan=dist_x=2:dist_y=1,hwdownload",
    "hflip": "hwupload,hflip_vulkan,hwdownload",
    "flip": "hwupload,flip_vulkan,hwdownload",
    "transpose": "hwupload,transpose_vulkan=dir=clock,hwdownload",
    "chain": "hwupload,scale_vulkan=w=96:h=64,hflip_vulkan,avgblur_vulkan,hwdownload",
}


def ffmpeg_filters(native, sluice):
    """Frames of every Vulkan filter, by their MD5."""
    need("ffmpeg")
    told = []
    for name, chain in FILTERS.items():
        command = ["ffmpeg", "-v", "error", "-init_hw_device", "vulkan=v:0", "-filter_hw_device", "v", "-f", "lavfi", "-i",
                   "testsrc2=size=128x96:rate=5:duration=1", "-vf", f"format=yuv420p,{chain},format=yuv420p", "-f", "framemd5", "-"]
        try:
            expected, got = both(native, sluice, lambda side: [line for line in side.run(command)[0].splitlines() if line and line[0] != "#"])
        except Skip as reason:
            told.append(f"{name} {reason}")
            continue
        if len(expected) != 5:
            raise Difference(f"{name}: {len(expected)} frames natively, not 5")
        expect_equal(f"filter {name}", expected, got)
    for line in told:
        print(line)
    if len(told) == len(FILTERS):
        raise Skip("no filter works natively")


def ffmpeg_overlay(native, sluice):
    need("ffmpeg")
    command = ["ffmpeg", "-v", "error", "-init_hw_device", "vulkan=v:0", "-filter_hw_device", "v", "-f", "lavfi", "-i",
               "testsrc2=size=128x96:rate=5:duration=1", "-f", "lavfi", "-i", "testsrc=size=32x32:rate=5:duration=1", "-filter_complex",
               "[0]format=yuv420p,hwupload[a];[1]format=yuv420p,hwupload[b];[a][b]overlay_vulkan=x=20:y=10,hwdownload,format=yuv420p", "-f",
               "framemd5", "-"]
    def run(side):
        return [line for line in side.run(command)[0].splitlines() if line and line[0] != "#"]
    try:
        runs = [run(native) for _ in range(4)]
    except Difference as error:
        raise Skip(f"fails natively too: {error}") from None
    # Some of these frames differ from run to run natively (the filter does not wait for both of its inputs): those say nothing.
    stable = [i for i in range(len(runs[0])) if len({r[i] for r in runs}) == 1]
    print(f"{len(stable)} of {len(runs[0])} frames are the same in 4 native runs")
    if not stable:
        raise Skip("no frame is the same in 4 native runs")
    got = run(sluice)
    expect_equal("overlay", [runs[0][i] for i in stable], [got[i] for i in stable])


ZINK = {"LIBGL_ALWAYS_SOFTWARE": "1", "MESA_LOADER_DRIVER_OVERRIDE": "zink"}


def zink_glxinfo(native, sluice):
    need("Xvfb", "glxinfo")
    screen = Screen(native.args)
    try:
        def run(side):
            out, _ = side.run(["glxinfo"], env={**ZINK, "DISPLAY": screen.display})
            found = dict(re.findall(r"^(OpenGL [\w ]+(?:renderer|version|shading language version) string): (.*)$", out, re.M))
            found.update(re.findall(r"^(OpenGL (?:renderer|vendor|version) string): (.*)$", out, re.M))
            return found
        expected, got = both(native, sluice, run)
    finally:
        screen.stop()
    if "zink" not in expected.get("OpenGL renderer string", ""):
        raise Skip(f"zink is not what runs natively: {expected}")
    for key in ("OpenGL renderer string",):
        if "zink" not in got.get(key, ""):
            raise Difference(f"{key} is {got.get(key)}")
        expected[key] = got[key]  # names Sluice beside the device
    expect_equal("glxinfo", expected, got)


def zink_animation(native, sluice, command, seconds):
    need("Xvfb", command[0])
    screen = Screen(native.args)
    try:
        def run(side):
            pictures, text = screen.watch(side, command, ZINK, seconds)
            return len(pictures), text
        expected, got = both(native, sluice, run)
    finally:
        screen.stop()
    if expected[0] < 2:
        raise Skip(f"{command[0]} shows no moving picture natively ({expected[0]} pictures)\n{expected[1][-800:]}")
    if got[0] < 2:
        raise Difference(f"{command[0]} shows {got[0]} pictures, natively {expected[0]}\n{got[1][-1500:]}")
    print(f"{command[0]}: {got[0]} different pictures seen, natively {expected[0]}")


def zink_glxgears(native, sluice):
    zink_animation(native, sluice, ["glxgears"], 12)


def zink_es2gears(native, sluice):
    zink_animation(native, sluice, ["es2gears_x11"], 12)


def vkd3d_triangle(native, sluice):
    """The triangle stands still: the last picture is the same."""
    need("Xvfb", "vkd3d-triangle")
    screen = Screen(native.args)
    try:
        def run(side):
            pictures, text = screen.watch(side, ["vkd3d-triangle"], {}, 10)
            if not pictures:
                raise Difference(f"{side.name}: no picture\n{text[-1500:]}")
            return pictures[-1]
        expected, got = both(native, sluice, run)
    finally:
        screen.stop()
    if expected != got:
        raise Difference("vkd3d-triangle's picture differs from the native one")


def vkd3d_gears(native, sluice):
    need("Xvfb", "vkd3d-gears")
    screen = Screen(native.args)
    try:
        expected, got = both(native, sluice, lambda side: len(screen.watch(side, ["vkd3d-gears"], {}, 10)[0]))
    finally:
        screen.stop()
    if expected < 2:
        raise Skip(f"vkd3d-gears shows {expected} pictures natively")
    if got < 2:
        raise Difference(f"vkd3d-gears shows {got} pictures, natively {expected}")


def vkbench(native, sluice):
    """All cases, with vkbench's own checks; the content hashes are equal."""
    def run(side):
        out, _ = side.run([str(side.args.build / "bin/vkbench"), "--repeat", "1"], seconds=900)
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        errors = [line for line in lines if "error" in line]
        if errors:
            raise Difference(f"{side.name}: {errors}")
        return {line["case"]: line["check"] for line in lines if "check" in line}, sorted({line["case"] for line in lines})
    expected, got = both(native, sluice, run)
    expect_equal("vkbench's content hashes", expected[0], got[0])
    expect_equal("the list of vkbench's cases", expected[1], got[1])


PROGRAMS = {f.__name__: f for f in (vulkaninfo_summary, vulkaninfo_json, vulkaninfo_text, ffmpeg_filters, ffmpeg_overlay, zink_glxinfo,
                                    zink_glxgears, zink_es2gears, vkd3d_triangle, vkd3d_gears, vkbench)}


def run_program(args, name):
    args.folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-program-"))
    domain = compare.Domain(args.build, args.folder, ("--validate",) if args.below else ())
    native = Side(args, "native", compare.environment(args.build))
    sluice = Side(args, "sluice", compare.environment(args.build, domain.socket))
    try:
        PROGRAMS[name](native, sluice)
        result = 0
    except Skip as reason:
        print(f"{name}: skipped: {reason}")
        result = SKIPPED
    except Difference as error:
        print(f"{name}: {error}")
        result = 1
    finally:
        domain.stop()
        log = domain.text()
        shutil.rmtree(args.folder, ignore_errors=True)
    new = sluice.said - native.said
    if new:
        print(f"{name}: the validation layer in the program says what it does not say natively: {', '.join(sorted(new))}")
        result = 1
    below = {m for line in log.splitlines() if "validation" in line.lower() for m in MESSAGE.findall(line)} - IGNORED - native.said
    if below:
        print(f"{name}: the validation layer in the worker says: {', '.join(sorted(below))}")
        result = 1
    if domain.process.returncode != 0:
        print(f"{name}: sluice-domain ended with {domain.process.returncode}")
        result = 1
    if result == 1:
        print(f"the domain's log:\n{log[-3000:]}")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--above", action="store_true")
    parser.add_argument("--below", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.list:
        print("\n".join(PROGRAMS))
        return 0
    args.build = args.build.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ended from outside: the domain goes too
    results = []
    for name in args.names or PROGRAMS:
        start = time.monotonic()
        results.append(run_program(args, name))
        print(f"{name}: {({0: 'ok', SKIPPED: 'skipped'}).get(results[-1], 'FAILED')} ({time.monotonic() - start:.1f} s)", flush=True)
    return 1 if 1 in results else results[0] if len(set(results)) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
