"""The initial file system: busybox and a few modules of one kernel. recipes/initramfs.toml says which."""
import os
import subprocess

import cpio
import kernel as kernels
from apt import ImageError


def busybox_of(debs):
    """(program, [applet]) from the suite's own package. It is asked what names it answers to."""
    for deb in debs:
        data = None
        with deb.files() as tar:
            for member in tar:
                if member.isfile() and member.name.endswith("bin/busybox"):
                    data = tar.extractfile(member).read()
        if data is not None:
            return data, _applets(data)
    raise ImageError("there is no busybox in " + " ".join(deb.name for deb in debs))


def _applets(program):
    fd = os.memfd_create("busybox", 0)
    try:
        os.write(fd, program)
        os.fchmod(fd, 0o755)
        done = subprocess.run(["busybox", "--list"], executable=f"/proc/self/fd/{fd}", pass_fds=[fd], check=True,
                              stdout=subprocess.PIPE, text=True)
    finally:
        os.close(fd)
    return sorted(name for name in done.stdout.split() if name != "busybox")


def build(apt, recipe, kernel, guest, out, time):
    """Writes out/initramfs.cpio and out/modules.txt; returns (packages used, absent modules)."""
    debs = apt.download(recipe["packages"])
    busybox, applets = busybox_of(debs)
    lists = {"always": recipe["always"]}
    lists.update({f"device-{number}": names for number, names in recipe["device"].items()})
    lists.update({f"filesystem-{name}": names for name, names in recipe["filesystem"].items()})
    files, absent, listing = {}, [], []
    with open(out / "initramfs.cpio", "wb") as file:
        archive = cpio.Writer(file, time)
        for directory in ("bin", "dev", "proc", "sys", "run", "tmp", "lib", "modules"):
            archive.directory(directory)
        archive.character("dev/console", 5, 1)
        archive.add("bin/busybox", busybox, 0o755)
        for name in applets:
            archive.link(f"bin/{name}", "busybox")
        archive.add("init", (guest / "initramfs-init.sh").read_bytes(), 0o755)
        archive.add("lib/guest.sh", (guest / "guest.sh").read_bytes())
        archive.add("lib/udhcpc.sh", (guest / "udhcpc.sh").read_bytes(), 0o755)
        for name, modules in lists.items():
            order, missing = kernels.module_order(kernel, modules)
            absent += missing
            names = [kernels.module_name(path) for path in order]
            if names:
                archive.add(f"modules/{name}", "".join(line + "\n" for line in names).encode())
            files.update(zip(names, order))
            listing.append(f"{name}: {' '.join(names) or 'none needed'}\n")
        for name, path in sorted(files.items()):
            archive.add(f"modules/{name}", kernels.module_data(path))
        archive.close()
    (out / "modules.txt").write_text("".join(listing), encoding="utf-8")
    return debs, sorted(set(absent))
