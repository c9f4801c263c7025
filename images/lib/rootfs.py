"""A root image: Debian packages merged into one tree, plus our own files, packed as squashfs.

Packages are unpacked, not installed: no script of theirs runs, nothing needs root, and what comes out depends on
nothing but what goes in. So there is no package database inside; /usr/share/sluice/packages has the list.
"""
import copy
import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

import artifacts
import kernel as kernels
from apt import ImageError, run
from initramfs import busybox_of

MERGED = ("bin", "sbin", "lib", "lib64", "lib32", "libx32")
PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
GROUP = "root:x:0:\ntty:x:5:\nvideo:x:44:\nrender:x:105:\nnogroup:x:65534:\n"


class Tree:
    """Paths (no leading slash, merged /usr) to tar members with their bytes. Everything belongs to root."""

    def __init__(self, time):
        self.time = time
        self.members = {}
        for name in ("usr", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "dev", "proc", "sys", "run", "tmp", "root", "mnt",
                     "etc", "var", "var/tmp", "usr/share", "usr/share/sluice", "usr/lib/sluice"):
            self.directory(name, 0o1777 if name in ("tmp", "var/tmp") else 0o755)
        for name in ("bin", "sbin", "lib", "lib64"):
            self.link(name, f"usr/{name}")

    def _add(self, path, kind, mode, data=b"", target=""):
        parent = os.path.dirname(path)
        if parent and parent not in self.members:
            self.directory(parent)
        member = tarfile.TarInfo(path)
        member.type, member.mode, member.linkname, member.size = kind, mode, target, len(data)
        member.mtime = self.time
        self.members[path] = (member, data)

    def directory(self, path, mode=0o755):
        self._add(path, tarfile.DIRTYPE, mode)

    def file(self, path, data, mode=0o644):
        self._add(path, tarfile.REGTYPE, mode, data)

    def link(self, path, target):
        self._add(path, tarfile.SYMTYPE, 0o777, target=target)

    def package(self, deb, drop, keep_doc):
        """Adds a package's files, without those that the recipe drops."""
        def place(name):
            name = os.path.normpath("/" + name).strip("/")
            return f"usr/{name}" if name.split("/", 1)[0] in MERGED else name

        with deb.files() as tar:
            for member in tar:
                path = place(member.name)
                if not path or any(f"{path}/".startswith(prefix) or path.startswith(prefix) for prefix in drop):
                    continue
                if path.startswith("usr/share/doc/") and not member.isdir() and os.path.basename(path) != keep_doc:
                    continue
                old = self.members.get(path)
                if member.isdir():
                    if old is None:
                        self.directory(path, member.mode)
                elif member.issym():
                    self.link(path, member.linkname)
                elif member.isfile() or member.islnk():
                    data = tar.extractfile(member).read() if member.isfile() else self.members[place(member.linkname)][1]
                    if old is not None and old[1] != data:
                        raise ImageError(f"{deb.name}: /{path} is another package's too")
                    self.file(path, data, member.mode & 0o777)
                else:
                    raise ImageError(f"{deb.name}: /{path} is neither file, link nor directory")

    def finish(self):
        """Directories of documentation that lost all their files go."""
        full = {os.path.dirname(path) for path, (member, _) in self.members.items() if not member.isdir()}
        for path in [p for p, (m, _) in self.members.items() if m.isdir() and p.startswith("usr/share/doc/")]:
            if not any(other == path or other.startswith(path + "/") for other in full):
                del self.members[path]

    def write(self, file):
        """As a tar stream, in the order of paths. Hard links of packages, which share their bytes here, stay that."""
        first = {}
        with tarfile.open(fileobj=file, mode="w|", format=tarfile.GNU_FORMAT) as tar:
            for path, (member, data) in sorted(self.members.items()):
                if data and first.setdefault(id(data), path) != path:
                    member = copy.copy(member)
                    member.type, member.linkname, member.size = tarfile.LNKTYPE, first[id(data)], 0
                    data = b""
                tar.addfile(member, io.BytesIO(data) if data else None)

    def listing(self):
        kinds = {tarfile.DIRTYPE: "d", tarfile.SYMTYPE: "l", tarfile.REGTYPE: "-"}
        for path, (member, _) in sorted(self.members.items()):
            target = f" -> {member.linkname}" if member.issym() else ""
            yield f"{kinds[member.type]}{member.mode:04o} {member.size:>10} /{path}{target}\n"


def build(apt, recipe, options, guest, kernel, out, time):
    """Writes out/root.squashfs, files.txt. `options`: gl, packages, add, programs {source: target}, libraries {name: path}.
    Returns (packages, facts for the manifest)."""
    packages = recipe["packages"] + (recipe.get("gl", []) if options["gl"] else []) + options["packages"]
    debs = apt.closure(packages, recipe["without"])
    tree = Tree(time)
    for deb in debs:
        tree.package(deb, recipe["drop"], recipe["keep_doc"])
    busybox = [deb for deb in debs if deb.name == "busybox-static"]
    for name in busybox_of(busybox)[1]:
        if f"usr/bin/{name}" not in tree.members and f"usr/sbin/{name}" not in tree.members:
            tree.link(f"usr/bin/{name}", "busybox")
    for path in [path for path in tree.members if path.startswith("usr/bin/") and path.endswith(".x86_64-linux-gnu")]:
        tree.link(path.removesuffix(".x86_64-linux-gnu"), os.path.basename(path))
    facts = {}
    if recipe.get("modules"):
        facts["modules"], facts["absent_modules"] = _modules(tree, kernel, recipe["modules"])
    _guest(tree, guest, recipe, options)
    facts["sluice"] = _programs(tree, recipe, options)
    for source, target in options["add"]:
        tree.file(target.strip("/"), pathlib.Path(source).read_bytes(), 0o755 if os.access(source, os.X_OK) else 0o644)
    tree.file("usr/share/sluice/packages", "".join(f"{deb.name} {deb.version}\n" for deb in debs).encode())
    tree.finish()
    (out / "files.txt").write_text("".join(tree.listing()), encoding="utf-8")
    _squashfs(tree, out / "root.squashfs", time)
    return debs, facts


def _modules(tree, kernel, names):
    """Modules and what they need, where modprobe looks for them, with depmod's index."""
    version = (kernel / "version").read_text(encoding="utf-8").strip()
    order, absent = kernels.module_order(kernel, names)
    with tempfile.TemporaryDirectory() as stage:
        base = pathlib.Path(stage) / "lib/modules" / version
        base.mkdir(parents=True)
        for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
            shutil.copy(kernel / "lib/modules" / version / name, base / name)
        for path in order:
            (base / kernels.module_name(path)).write_bytes(kernels.module_data(path))
        run(["/sbin/depmod", "-b", stage, version])
        for path in sorted(base.iterdir()):
            tree.file(f"usr/lib/modules/{version}/{path.name}", path.read_bytes())
    return [kernels.module_name(path) for path in order], absent


def _guest(tree, guest, recipe, options):
    """Our own part: busybox init, its table, the scripts."""
    lines = ["::sysinit:/usr/lib/sluice/boot", "::respawn:/usr/lib/sluice/console"]
    for name in recipe.get("services", []):
        tree.file(f"usr/lib/sluice/service-{name}", (guest / f"service-{name}.sh").read_bytes(), 0o755)
        lines.insert(1, f"::respawn:/usr/lib/sluice/service-{name}")
        tree.file(f"usr/lib/sluice/selftest-{name}", (guest / f"selftest-{name}.sh").read_bytes(), 0o755)
    lines += ["::ctrlaltdel:/usr/bin/reboot", "::shutdown:/usr/bin/sync"]
    tree.link("usr/sbin/init", "../bin/busybox")
    tree.file("etc/inittab", ("\n".join(lines) + "\n").encode())
    tree.file("usr/lib/sluice/boot", (guest / "boot.sh").read_bytes(), 0o755)
    tree.file("usr/lib/sluice/console", (guest / "console.sh").read_bytes(), 0o755)
    tree.file("usr/lib/sluice/udhcpc.sh", (guest / "udhcpc.sh").read_bytes(), 0o755)
    tree.file("usr/lib/sluice/guest.sh", (guest / "guest.sh").read_bytes())
    tree.file("etc/profile", (guest / "profile").read_bytes())
    tree.file("etc/passwd", PASSWD.encode())
    tree.file("etc/group", GROUP.encode())
    tree.file("etc/hostname", f"{options['kind']}\n".encode())
    tree.file("etc/hosts", b"127.0.0.1 localhost\n::1 localhost\n")
    tree.file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
    tree.link("etc/resolv.conf", "/run/resolv.conf")
    tree.link("etc/mtab", "/proc/self/mounts")


def _programs(tree, recipe, options):
    """Sluice's programs and those of their libraries that no package of the image has."""
    used = []
    own = {os.path.basename(path) for path in tree.members}
    for source, target in options["programs"].items():
        tree.file(target, source.read_bytes(), 0o755)
        used.append({"path": f"/{target}", "sha256": options["digests"][str(source)]})
    for name, source in sorted(options["libraries"].items()):
        if name in own:
            continue
        tree.file(f"usr/lib/x86_64-linux-gnu/{name}", source.read_bytes())
        used.append({"path": f"/usr/lib/x86_64-linux-gnu/{name}", "sha256": options["digests"][str(source)],
                     "from": artifacts.package_of(source)})
    if options["programs"]:
        for path, library in recipe.get("icd", {}).items():
            tree.file(path, (options["icd_json"].replace("@LIBRARY@", library)).encode())
    return used


def _squashfs(tree, path, time):
    command = ["sqfstar", "-quiet", "-no-progress", "-comp", "lz4", "-Xhc", "-b", "128K", "-mkfs-time", str(time),
               "-no-xattrs", "-all-time", str(time), "-root-mode", "755", "-all-root", "-processors", str(os.cpu_count() or 1), str(path)]
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    try:
        packer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)
    except FileNotFoundError as error:
        raise ImageError("sqfstar is not installed; see packages-images.txt") from error
    tree.write(packer.stdin)
    packer.stdin.close()
    if packer.wait() != 0:
        raise ImageError("sqfstar failed; is there room on the disk?")
