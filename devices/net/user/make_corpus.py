#!/usr/bin/env python3
"""Writes the seed corpus of filter_fuzz. The grammar is in filter_fuzz.cc.

Usage: devices/net/user/make_corpus.py   (rewrites corpus/seed-* beside this file; files that a fuzzer found have other names)
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent / "corpus"
HERE.mkdir(exist_ok=True)


def write(name, *parts):
    (HERE / ("seed-" + name)).write_bytes(b"".join(parts))


def udp(direction, port, *pokes, size=None):
    out = bytes([direction | (16 if size is not None else 0)]) + struct.pack("<H", port) + bytes([len(pokes)])
    return out + b"".join(bytes(p) for p in pokes) + (bytes([size]) if size is not None else b"")


def tcp(direction, port, *pokes):
    return bytes([direction | 4]) + struct.pack("<HI", port, 77) + bytes([len(pokes)]) + b"".join(bytes(p) for p in pokes)


write("query", b"\0", udp(0, 4000), udp(3, 53))
write("loopback-server", b"\3", udp(0, 4000), tcp(0, 4001))
write("no-server", b"\4", udp(0, 4000), tcp(0, 1))
write("loopback", b"\0", udp(0, 1, (30, 127)), udp(0, 1, (30, 0)), udp(0, 1, (30, 169), (31, 254)))
write("no-checksum", b"\0", udp(0, 1, (40, 0), (41, 0)))
write("options", b"\0", udp(0, 1, (14, 0x4f)), udp(0, 1, (14, 0x46)), udp(0, 1, (14, 0x40)))
write("fragment", b"\0", udp(0, 1, (21, 1)), udp(0, 1, (20, 0x20)))
write("short", b"\0", udp(0, 1, size=40), udp(0, 1, size=41), udp(1, 1, size=20), udp(0, 1, size=0))
