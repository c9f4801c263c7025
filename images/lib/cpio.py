"""A newc archive (Documentation/driver-api/early-userspace/buffer-format.rst in the kernel) as an initial file system:
everything belongs to root and has one time, so that equal content is an equal archive.

As a program: cpio.py DIRECTORY > OUT packs a directory.
"""
import os
import pathlib
import stat
import sys


class Writer:
    """Adds entries in the order of the calls. Parents are made when they are missing."""

    def __init__(self, file, time):
        self.file = file
        self.time = time
        self.inode = 0
        self.directories = {""}

    def _entry(self, path, mode, data, device=(0, 0)):
        self.inode += 1
        name = path.encode() + b"\0"
        fields = (self.inode, mode, 0, 0, 2 if stat.S_ISDIR(mode) else 1, self.time, len(data), 0, 0, *device, len(name), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        self._padded(header + name)
        self._padded(data)

    def _padded(self, data):
        self.file.write(data + b"\0" * (-len(data) % 4))

    def directory(self, path, mode=0o755):
        path = path.strip("/")
        if path in self.directories:
            return
        parent = os.path.dirname(path)
        self.directory(parent)
        self.directories.add(path)
        self._entry(path, stat.S_IFDIR | mode, b"")

    def add(self, path, data, mode=0o644):
        self.directory(os.path.dirname(path))
        self._entry(path.strip("/"), stat.S_IFREG | mode, data)

    def link(self, path, target):
        self.directory(os.path.dirname(path))
        self._entry(path.strip("/"), stat.S_IFLNK | 0o777, target.encode())

    def character(self, path, major, minor, mode=0o600):
        self.directory(os.path.dirname(path))
        self._entry(path.strip("/"), stat.S_IFCHR | mode, b"", (major, minor))

    def close(self):
        self.inode = -1  # the end has number 0
        self._entry("TRAILER!!!", 0, b"")


def pack(directory, file, time=0):
    """A directory as it is, in the order of names."""
    writer = Writer(file, time)
    for path in sorted(pathlib.Path(directory).rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_symlink():
            writer.link(name, os.readlink(path))
        elif path.is_dir():
            writer.directory(name)
        elif path.is_file():
            writer.add(name, path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    writer.close()


if __name__ == "__main__":
    pack(sys.argv[1], sys.stdout.buffer)
