"""A Debian kernel, unpacked and not installed.

    vmlinux            the uncompressed ELF kernel, with the PVH entry note: what `sluice` boots
    bzImage, config    as packaged
    lib/modules/       its modules, with depmod's index
    modules.txt        their paths, one a line
    version            e.g. 6.1.0-57-amd64
"""
import pathlib
import shutil
import subprocess
import sys

from apt import ImageError, run

EXTRACT = pathlib.Path(__file__).resolve().parents[2] / "tools/nested/extract_vmlinux.py"
FLAVOURS = ("amd64", "cloud-amd64")


def package_of(apt, flavour):
    """The package with the kernel itself, behind Debian's name for "the current one"."""
    found = [name for name in apt.depends(f"linux-image-{flavour}") if name.startswith("linux-image-")]
    if not found:
        raise ImageError(f"{apt.suite} has no linux-image-{flavour}; --update fetches the package lists again")
    return found[0]


def build(apt, flavour, out):
    """Fills the directory `out`; returns the packages used."""
    debs = apt.download([package_of(apt, flavour)])
    with debs[0].files() as tar:
        for member in tar:
            path = member.name.removeprefix("./").removeprefix("usr/")
            if path.startswith("boot/vmlinuz-"):
                target = out / "bzImage"
                (out / "version").write_text(path.removeprefix("boot/vmlinuz-") + "\n", encoding="utf-8")
            elif path.startswith("boot/config-"):
                target = out / "config"
            elif path.startswith("lib/modules/"):
                target = out / path
            else:
                continue
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.isfile():
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(target, "wb") as file:
                    shutil.copyfileobj(tar.extractfile(member), file)
    if not (out / "version").exists():
        raise ImageError(f"{debs[0].path} has no kernel in it")
    version = (out / "version").read_text(encoding="utf-8").strip()
    run(["/sbin/depmod", "-b", str(out), version])
    subprocess.run([sys.executable, str(EXTRACT), str(out / "bzImage"), str(out / "vmlinux")], check=True)
    modules = sorted(path.relative_to(out).as_posix() for path in (out / "lib/modules").rglob("*.ko*"))
    (out / "modules.txt").write_text("".join(name + "\n" for name in modules), encoding="utf-8")
    return debs


def module_order(kernel, names):
    """([path], [absent name]): files to insert one after the other so that every module of `names` is loaded with what
    it needs; modules that are built into the kernel need no file."""
    version = (kernel / "version").read_text(encoding="utf-8").strip()
    builtin = {pathlib.PurePath(line).stem.replace("-", "_") for line in
               (kernel / "lib/modules" / version / "modules.builtin").read_text(encoding="utf-8").split()}
    order, absent = [], []
    for name in names:
        try:
            lines = run(["/sbin/modprobe", "-d", str(kernel), "-S", version, "--show-depends", name])
        except ImageError:
            if name.replace("-", "_") not in builtin:
                absent.append(name)
            continue
        for line in lines.splitlines():
            verb, _, path = line.strip().partition(" ")
            if verb == "insmod" and (path := pathlib.Path(path.strip())) not in order:
                order.append(path)
    return order, absent


def module_data(path):
    """A module's bytes, uncompressed: not every program that inserts modules can decompress them."""
    if path.suffix == ".xz":
        return subprocess.run(["xz", "-dc", str(path)], stdout=subprocess.PIPE, check=True).stdout
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", str(path)], stdout=subprocess.PIPE, check=True).stdout
    return path.read_bytes()


def module_name(path):
    """The module's file name without what tells of its compression: "virtio_blk.ko"."""
    return path.name.removesuffix(".xz").removesuffix(".zst")
