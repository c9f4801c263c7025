#!/usr/bin/env python3
"""Writes the seed corpus of rng_fuzz. Usage: devices/rng/make_corpus.py   (rewrites corpus/seed-* beside this file)

The grammar is in Run() of rng_fuzz.cc. Files that a fuzzer found are kept under other names.
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent / "corpus"
TURN, RESET = bytes([6]), bytes([5])


def write(name, *parts):
    HERE.mkdir(exist_ok=True)
    (HERE / ("seed-" + name)).write_bytes(b"".join(parts))


def ask(*sizes, readable=False, indirect=False):
    out = bytes([0, len(sizes) - 1, readable])
    if readable:
        out += bytes(3)
    return out + b"".join(struct.pack("<H", size) for size in sizes) + bytes([indirect])


def desc(index, address, size, flags, nxt):
    return bytes([1, index]) + struct.pack("<IIHH", address, size, flags, nxt)


def publish(head):
    return bytes([2, head])


write("requests", ask(32), ask(1, 2, 3, indirect=True), TURN, ask(5999), TURN)
write("nothing-to-write", ask(0, readable=True), ask(0), TURN)
write("many", *[ask(16)] * 80, TURN, TURN)
write("no-numbers", bytes([4, 0]), ask(32), ask(8), TURN, bytes([4, 1]), TURN, RESET, ask(8), TURN)
write("raw", desc(0, 0x200000, 4096, 2, 0), publish(0), TURN, publish(0), publish(0), TURN)
write("ring-as-buffer", desc(0, 0x10000, 8192, 2, 0), publish(0), TURN, publish(3), TURN)
write("outside", desc(0, 0xfffffff0, 64, 2, 0), publish(0), bytes([3, 0]), RESET, ask(8), TURN)
write("loop", desc(0, 0x200000, 16, 3, 0), publish(0), RESET, ask(1))
write("no-descriptor", publish(200), bytes([3, 1]), RESET, ask(2), TURN)
