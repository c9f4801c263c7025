#!/usr/bin/env python3
"""Fails on an include that points against the layering of docs/architecture.md (an include may point to the left only)."""
import pathlib
import re
import sys

# directory -> directories it may include from, besides itself. Longest prefix wins.
BASE = {"vmm/base"}
HYPERVISOR = BASE | {"vmm/memory", "vmm/kvm", "vmm/boot", "vmm/pci", "vmm/virtio"}
MACHINE = HYPERVISOR | {"vmm/jail", "flatbuf", "devices"}
ALLOWED = {
    "vmm/base": set(),
    "vmm/jail": BASE,
    "vmm/memory": BASE,
    "vmm/kvm": BASE | {"vmm/memory"},
    "vmm/boot": BASE | {"vmm/memory", "vmm/kvm"},
    "vmm/pci": BASE | {"vmm/memory"},
    "vmm/hostcheck": BASE | {"vmm/memory", "vmm/kvm"},
    "vmm/virtio": BASE | {"vmm/memory", "vmm/pci"},
    "flatbuf": BASE,
    "flatbuf/guest": {"vmm/base", "flatbuf"},
    "devices": BASE | {"vmm/memory", "vmm/pci", "vmm/virtio", "flatbuf"},
    "devices/net/user": BASE | {"vmm/jail", "devices/net"},  # a process of its own
    "gpu-domain": BASE | {"vmm/jail", "flatbuf"},
    "icd": BASE | {"flatbuf"},
    "firmware": BASE | {"flatbuf", "vmm/boot/start_info.h", "tests/scenes"},
    "vmm/machine": MACHINE,
    "vmm/topology": MACHINE | {"vmm/machine", "vmm/hostcheck", "gpu-domain/worker/options.h"},  # a worker's exit codes
    "vmm/cli": MACHINE | {"vmm/machine", "vmm/topology", "vmm/hostcheck", "gpu-domain/trace"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
ROOTS = ("vmm/", "flatbuf/", "devices/", "gpu-domain/", "icd/", "firmware/", "tests/", "bench/")


def owner(path):
    best = ""
    for directory in ALLOWED:
        if (path == directory or path.startswith(directory + "/")) and len(directory) > len(best):
            best = directory
    return best


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    bad = 0
    for path in sorted(root.rglob("*")):
        if path.suffix not in (".h", ".cc", ".c"):
            continue
        name = path.relative_to(root).as_posix()
        own = owner(name)
        if not own or name.startswith(("build/", "out/")):
            continue
        is_test = re.search(r"(_test|_fuzz|_bench|_benchmark)\.cc$|/testing/|/example", name) is not None
        for include in INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace")):
            if not include.startswith(ROOTS):
                if "/" not in include and (path.parent / include).exists():
                    print(f"{name}: #include \"{include}\": write the path from the repository root")
                    bad += 1
                continue
            target = owner(include)
            allowed = ALLOWED[own]
            if target == own or any(include == a or include.startswith(a + "/") for a in allowed):
                continue
            if is_test and include.startswith(("tests/", "flatbuf/", "vmm/virtio/testing/", "vmm/memory/", "vmm/kvm/")):
                continue
            if own.startswith("flatbuf") and include.startswith("flatbuf/"):
                continue
            print(f"{name}: includes {include}, which lies to the right of {own} (docs/architecture.md, Layers)")
            bad += 1
    print(f"layering: {bad} violations" if bad else "layering: clean")
    return 1 if bad else 0


sys.exit(main())
