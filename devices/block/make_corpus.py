#!/usr/bin/env python3
"""Writes the seed corpus of block_fuzz: small inputs that reach the interesting states.

Usage: devices/block/make_corpus.py   (rewrites corpus/seed-* beside this file)
The grammar is in Step() of block_fuzz.cc. Files that a fuzzer found are kept under other names.
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent / "corpus"
IN, OUT, FLUSH, ID, DISCARD, ZEROES = range(6)
READ_ONLY, THROUGH, THREE, TINY, ONE, SLOW = 1, 2, 4, 8, 16, 32
PUMP = bytes([9])


def write(name, *parts):
    HERE.mkdir(exist_ok=True)
    (HERE / ("seed-" + name)).write_bytes(b"".join(parts))


def request(kind, sector, readable=(), writable=(), queue=0, flags=0, wide=None):
    out = bytes([0, flags | (2 if wide is not None else 0), kind, sector])
    if wide is not None:
        out += struct.pack("<Q", wide)
    out += bytes([len(readable)]) + b"".join(bytes([size, 7]) for size in readable)
    return out + bytes([len(writable)]) + bytes(writable) + bytes([queue])


def ranges(discard, *items):
    return bytes([1, 1 if discard else 0, len(items)]) + b"".join(bytes(i) for i in items)


def desc(index, address, size, flags, nxt, queue=0):
    return bytes([2, queue]) + struct.pack("<IIHH", address, size, flags, nxt) + bytes([index])


def publish(head, queue=0):
    return bytes([3, queue, head])


def reset(features, notify=0):
    return bytes([6, notify]) + struct.pack("<H", features) + bytes([features >> 8])


def hold(on):
    return bytes([7, on])


def main():
    io = request(OUT, 1, [4]) + request(IN, 1, [], [4]) + request(FLUSH, 0) + request(ID, 0, [], [21])
    write("requests", bytes([0]), io, PUMP)
    write("indirect", bytes([0]), request(OUT, 0, [2, 4], flags=4), request(IN, 0, [], [2, 1, 4], flags=4), PUMP)
    write("outside", bytes([0]), request(IN, 63, [], [4]), request(IN, 64, [], [2]), request(IN, 0, [], [2], wide=2**64 - 1),
          request(OUT, 0, [2], wide=2**55), PUMP)
    write("odd", bytes([0]), request(IN, 0, [], [1, 3]), request(OUT, 0, [5]), request(OUT, 0), request(IN, 0), PUMP)
    write("unknown", bytes([0]), request(99, 0, [], [2], flags=1), request(255, 0, [2], [2], flags=1))
    write("ranges", bytes([0]), ranges(True, (0, 8, 0), (9, 0, 0)), ranges(False, (0, 8, 1), (60, 4, 0)), ranges(True),
          ranges(False, (255, 2, 0)), ranges(True, (0, 1, 1)), ranges(False, *[(0, 1, 0)] * 17), PUMP)
    write("read-only", bytes([READ_ONLY]), io, ranges(True, (0, 1, 0)), PUMP)
    write("write-through", bytes([THROUGH]), io, ranges(False, (0, 1, 0)), PUMP)
    write("cache-mode", bytes([0]), bytes([5, 32, 0, 0, 3]), PUMP, io, bytes([5, 32, 0, 1, 3]), bytes([5, 32, 0, 0, 3]), PUMP)
    write("three-queues", bytes([THREE | ONE]), *[request(OUT, q, [2], queue=q) for q in (0, 1, 2) * 5], PUMP)
    write("held", bytes([ONE]), hold(1), io, request(IN, 0, [], [2]), PUMP, hold(0), PUMP)
    write("reset-while-busy", bytes([0]), hold(1), io, reset(0x7fff, 1), io, PUMP)
    write("few-features", bytes([0]), reset(0), io, ranges(True, (0, 1, 0)), PUMP)
    write("errors", bytes([0]), bytes([8]), request(IN, 0, [], [2]), bytes([8]), request(FLUSH, 0), PUMP)
    write("slow", bytes([SLOW]), *[request(IN, i, [], [2]) for i in range(12)], PUMP)
    write("tiny-queue", bytes([TINY]), request(IN, 0, [], [2, 2, 2], flags=4), request(IN, 0, [], [2]), PUMP)
    write("raw", bytes([0]), desc(0, 0x3000000, 16, 1, 1), desc(1, 0x3000100, 0xffffffff, 2, 0), publish(0))
    write("raw-chain", bytes([0]), desc(0, 0x3000000, 16, 1, 1), desc(1, 0x3000100, 513, 2, 0), publish(0), publish(0), PUMP)
    write("rings-as-buffers", bytes([0]), desc(0, 0x3000000, 16, 1, 1), desc(1, 0x10000, 4097, 2, 0), publish(0), PUMP,
          publish(1), PUMP)
    write("loop", bytes([0]), desc(0, 0x3000000, 16, 1, 0), publish(0), PUMP, reset(0x7fff), io)


main()
