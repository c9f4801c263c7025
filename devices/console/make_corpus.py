#!/usr/bin/env python3
"""Writes the seed corpus of console_fuzz: small inputs that reach the interesting states. The grammar is in console_fuzz.cc.

Usage: devices/console/make_corpus.py   (rewrites corpus/seed-* beside this file; files that a fuzzer found have other names)
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent / "corpus"


def write(name, *parts):
    HERE.mkdir(exist_ok=True)
    (HERE / ("seed-" + name)).write_bytes(b"".join(parts))


def control(port, event, value=1):
    return bytes([0, port, event, value])


def buffers(count, size=255):
    return bytes([2, count, size])


def output(port, size):
    return bytes([3, port]) + struct.pack("<H", size - 1)


def poke(queue, index, address, size, flags, nxt):
    return bytes([11, queue, index]) + struct.pack("<II", address, size) + bytes([flags, nxt])


READY = buffers(7) + buffers(7) + control(0, 0) + b"".join(control(p, 3) + control(p, 6) for p in range(3))
RESET = bytes([10])

write("start", b"\0", READY)
write("output", b"\0", READY, output(0, 100), output(1, 8000), bytes([6, 1]))
write("plain", b"\1", output(0, 50), bytes([4, 0, 60]), bytes([5, 0, 20]))
write("discard", b"\2", READY, b"".join(output(1, 8999) for _ in range(30)), bytes([6, 1]))
write("hold", b"\4", READY, b"".join(output(2, 8999) for _ in range(30)), bytes([7, 2]), bytes([8, 2]), output(2, 10))
write("input", b"\0", READY, bytes([4, 1, 9]), bytes([5, 1, 200]), bytes([4, 1, 255]), control(1, 6, 0), bytes([5, 1, 9]))
write("reset", b"\0", READY, output(1, 600), RESET, READY, output(1, 600))
write("size", b"\0", READY, bytes([9, 80, 0, 25, 0]), bytes([9, 255, 255, 255, 255]), bytes([12, 7]) + struct.pack("<Q", 2**64 - 1))
write("short", b"\0", buffers(3, 4), control(0, 0), control(3, 6), bytes([1, 2, 9, 9, 9]))
write("poke", b"\0", READY, poke(0, 3, 0x400000, 0xffffffff, 2, 0), poke(1, 1, 0x400000, 64, 1, 1),
      poke(3, 31, 0x400000, 8, 0, 0), RESET, READY)
