"""Sluice's own programs for an image, and those libraries of this machine that they need and the image lacks."""
import pathlib
import re
import subprocess

from apt import ImageError, run, sha256

# Always an image's own: they belong to its C library and its Vulkan loader.
OWN = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+|vulkan))\.so")


def find(build, wanted):
    """{source: target} of a recipe's [artifacts] that the build directory has; ImageError names those it lacks."""
    build = pathlib.Path(build).resolve()
    missing = [name for name in wanted if not (build / name).is_file()]
    if missing:
        raise ImageError(f"{build} has no {', '.join(missing)}; build first (./dev build release apps sluice_icd), or say "
                         "--artifacts none where the image should have nothing of Sluice")
    return {build / name: target for name, target in wanted.items()}


def libraries(programs):
    """{name: path} of the shared libraries that these programs load here, without those of OWN."""
    found = {}
    for program in programs:
        for line in run(["ldd", str(program)]).splitlines():
            if "not found" in line:
                raise ImageError(f"{program}: {line.strip()}")
            match = re.match(r"\s*(\S+) => (/\S+) ", line)
            if match and not OWN.match(match.group(1)):
                found[match.group(1)] = pathlib.Path(match.group(2)).resolve()
    return found


def package_of(path):
    """"name version" of the Debian package that a file of this machine is from; None for others."""
    for name in (str(path), str(path).removeprefix("/usr")):
        done = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            package = done.stdout.split(": ")[0]
            return run(["dpkg-query", "-W", "-f=${Package} ${Version}", package]).strip()
    return None


def digests(paths):
    return {str(path): sha256(path) for path in sorted(paths)}
