#!/usr/bin/env python3
"""The parts of images/ that need neither network nor packages: archives, merged trees, the command line's protocol."""
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

IMAGES = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(IMAGES / "lib"))
sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
import apt  # noqa: E402
import cpio  # noqa: E402
import kernel  # noqa: E402
import rootfs  # noqa: E402


def entries(archive):
    """[(name, mode, data)] of a newc archive, by the format's description."""
    at, found = 0, []
    while True:
        assert archive[at:at + 6] == b"070701", archive[at:at + 6]
        fields = [int(archive[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
        name = archive[at + 110:at + 110 + fields[11] - 1].decode()
        at += 110 + fields[11]
        at += -at % 4
        data = archive[at:at + fields[6]]
        at += fields[6]
        at += -at % 4
        if name == "TRAILER!!!":
            return found
        found.append((name, fields[1], data, fields[5]))


class CpioTest(unittest.TestCase):
    def test_parents_come_before_what_is_in_them_and_everything_has_one_time(self):
        file = io.BytesIO()
        writer = cpio.Writer(file, 1234)
        writer.add("lib/deep/er.sh", b"hello", 0o755)
        writer.link("bin/sh", "busybox")
        writer.character("dev/console", 5, 1)
        writer.close()
        found = entries(file.getvalue())
        self.assertEqual([name for name, *_ in found], ["lib", "lib/deep", "lib/deep/er.sh", "bin", "bin/sh", "dev", "dev/console"])
        self.assertEqual(found[2][1:3], (0o100755, b"hello"))
        self.assertEqual(found[4][1:3], (0o120777, b"busybox"))
        self.assertEqual({entry[3] for entry in found}, {1234})

    def test_equal_directories_are_equal_archives_whenever_they_were_made(self):
        def archive(names):
            with tempfile.TemporaryDirectory() as directory:
                for name in names:
                    (pathlib.Path(directory) / name).write_text(name, encoding="utf-8")
                    os.utime(pathlib.Path(directory) / name, (len(names), time.time()))
                file = io.BytesIO()
                cpio.pack(directory, file)
                return file.getvalue()
        self.assertEqual(archive(["b", "a"]), archive(["a", "b"]))


class FakePackage:
    """A package of these tar members: (name, type, data or target)."""

    def __init__(self, name, members):
        self.name = name
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as tar:
            for path, kind, content in members:
                member = tarfile.TarInfo(path)
                member.type, member.mtime = kind, 99
                if kind == tarfile.REGTYPE:
                    member.size, member.mode = len(content), 0o755
                    tar.addfile(member, io.BytesIO(content))
                else:
                    member.linkname = content
                    tar.addfile(member)
        self.data = file.getvalue()

    def files(self):
        return tarfile.open(fileobj=io.BytesIO(self.data), mode="r|")


FILE, LINK, HARD, DIRECTORY = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE


class TreeTest(unittest.TestCase):
    def tree(self, *packages, drop=()):
        tree = rootfs.Tree(77)
        for package in packages:
            tree.package(package, drop, "copyright")
        tree.finish()
        return tree

    def test_old_and_new_places_of_files_are_one(self):
        tree = self.tree(FakePackage("a", [("./lib/x.so", FILE, b"x")]), FakePackage("b", [("./usr/lib/y.so", FILE, b"y")]))
        self.assertIn("usr/lib/x.so", tree.members)
        self.assertIn("usr/lib/y.so", tree.members)
        self.assertEqual(tree.members["lib"][0].linkname, "usr/lib")

    def test_the_same_file_from_two_packages_is_an_error_unless_it_is_the_same(self):
        one, same, other = (FakePackage(name, [("./etc/f", FILE, data)]) for name, data in (("a", b"1"), ("b", b"1"), ("c", b"2")))
        self.tree(one, same)
        with self.assertRaisesRegex(apt.ImageError, "c: /etc/f is another package's too"):
            self.tree(one, other)

    def test_of_documentation_only_copyright_stays_and_dropped_parts_go(self):
        tree = self.tree(FakePackage("a", [("./usr/share/doc/a/copyright", FILE, b"c"), ("./usr/share/doc/a/NEWS.gz", FILE, b"n"),
                                           ("./usr/share/doc/b/", DIRECTORY, ""), ("./usr/share/man/man1/a.1", FILE, b"m")]),
                         drop=["usr/share/man/"])
        self.assertIn("usr/share/doc/a/copyright", tree.members)
        for gone in ("usr/share/doc/a/NEWS.gz", "usr/share/doc/b", "usr/share/man/man1/a.1"):
            self.assertNotIn(gone, tree.members)

    def test_hard_links_stay_links_and_everything_belongs_to_root(self):
        tree = self.tree(FakePackage("a", [("./usr/lib/b", FILE, b"data"), ("./usr/lib/a", HARD, "./usr/lib/b")]))
        file = io.BytesIO()
        tree.write(file)
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            members = {member.name: member for member in tar}
        self.assertTrue(members["usr/lib/a"].isfile())
        self.assertEqual((members["usr/lib/b"].type, members["usr/lib/b"].linkname), (HARD, "usr/lib/a"))
        self.assertEqual({(member.uid, member.gid, member.mtime) for member in members.values()}, {(0, 0, 77)})

    def test_a_device_in_a_package_is_refused(self):
        with self.assertRaisesRegex(apt.ImageError, "neither file, link nor directory"):
            self.tree(FakePackage("a", [("./dev/mem", tarfile.CHRTYPE, "")]))

    @unittest.skipIf(shutil.which("sqfstar") is None, "sqfstar is not installed")
    def test_equal_trees_are_equal_squashfs_images(self):
        with tempfile.TemporaryDirectory() as directory:
            images = []
            for name in ("1", "2"):
                tree = self.tree(FakePackage("a", [("./usr/lib/b", FILE, b"data" * 50000), ("./usr/bin/l", LINK, "b")]))
                path = pathlib.Path(directory) / name
                rootfs._squashfs(tree, path, 1704067200)  # pylint: disable=protected-access
                images.append(path.read_bytes())
                time.sleep(1.1)  # what takes the time of day would differ
            self.assertEqual(*images)


class GuestTest(unittest.TestCase):
    """guest.sh under the host's POSIX shell, with a command line of its own."""

    def argument(self, cmdline, *arguments):
        script = f'cat() {{ printf "%s\\n" "$LINE"; }}\n. {IMAGES}/guest/guest.sh\nargument "$@"'
        return subprocess.run(["sh", "-c", script, "sh", *arguments], env={"LINE": cmdline, "PATH": os.environ["PATH"]},
                              check=True, stdout=subprocess.PIPE, text=True).stdout.rstrip("\n")

    def test_values_words_and_defaults_of_the_command_line(self):
        line = 'console=ttyS0 quiet root=/dev/vda sluice.run="echo a; ls -l" rw sluice.net=off "sluice.name=two words" end'
        for name, value in (("root", "/dev/vda"), ("sluice.run", "echo a; ls -l"), ("rw", "1"), ("sluice.net", "off"),
                            ("sluice.name", "two words"), ("end", "1"), ("console", "ttyS0")):
            self.assertEqual(self.argument(line, name), value)
        self.assertEqual(self.argument(line, "sluice.overlay", "tmpfs"), "tmpfs")
        self.assertEqual(self.argument(line, "oot"), "", "a name is a whole word")

    def test_nothing_of_the_command_line_is_expanded(self):
        self.assertEqual(self.argument("sluice.run=\"echo $(id) `id` $HOME * \\\\\"", "sluice.run"), "echo $(id) `id` $HOME * \\\\")

    def test_every_script_is_one_that_a_posix_shell_can_read(self):
        for path in sorted((IMAGES / "guest").iterdir()):
            done = subprocess.run(["sh", "-n", str(path)], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), path.name)


class KernelTest(unittest.TestCase):
    def test_a_module_has_one_name_however_it_is_compressed(self):
        for name in ("virtio-gpu.ko", "virtio-gpu.ko.xz", "virtio-gpu.ko.zst"):
            self.assertEqual(kernel.module_name(pathlib.Path("a/b") / name), "virtio-gpu.ko")


if __name__ == "__main__":
    unittest.main()
