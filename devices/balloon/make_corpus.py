#!/usr/bin/env python3
"""Writes the seed corpus of balloon_fuzz. Usage: devices/balloon/make_corpus.py   (rewrites corpus/seed-* beside this file)

The grammar is in Step() of balloon_fuzz.cc. Files that a fuzzer found are kept under other names.
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent / "corpus"
INFLATE, DEFLATE, STATS, HINT, REPORT = range(5)
ASK = bytes([8, 0])


def write(name, *parts):
    HERE.mkdir(exist_ok=True)
    (HERE / ("seed-" + name)).write_bytes(b"".join(parts))


def pages(queue, *pfns, odd=False):
    out = bytes([16 + 4 if odd else 0, queue, len(pfns)])
    for pfn in pfns:
        out += bytes([pfn]) if pfn < 255 else bytes([255]) + struct.pack("<I", pfn)
    return out + (b"abc" if odd else b"")


def report(queue, *pieces):
    return bytes([1, queue, 4 - len(pieces)]) + b"".join(struct.pack("<HI", at // 16, size - 1) for at, size in pieces)


def stats(*items):
    body = b"".join(struct.pack("<HQ", tag, value) for tag, value in items)
    return bytes([2, STATS, len(body)]) + body


def desc(queue, index, address, size, flags, nxt):
    return bytes([3, queue, index]) + struct.pack("<IIHH", address, size, flags, nxt)


def publish(queue, head):
    return bytes([4, queue, head])


def config(offset, value):
    return bytes([5, 0, offset, 3]) + struct.pack("<I", value) + bytes([15])


def reset(features):
    return bytes([6, 0, features])


def target(size):
    return bytes([7, 0]) + struct.pack("<Q", size)


def turn(queue=0):
    return bytes([9, 0, queue])


write("inflate", pages(INFLATE, 1, 2, 3, 9), pages(DEFLATE, 1, 2), turn())
write("not-ram", pages(INFLATE, 2**32 - 1, 2**31, 4096, 2047), turn())
write("same-page", pages(INFLATE, *[7] * 200), pages(INFLATE), turn())
write("rings-away", pages(INFLATE, 256, 272, 288, 16, 17), turn(), pages(INFLATE, 1), turn())
write("odd-size", pages(INFLATE, 1, odd=True), turn())
write("report", report(REPORT, (4096, 8192), (0, 100)), turn(REPORT), report(HINT, (16384, 4096)), turn(HINT))
write("report-edges", report(REPORT, (0, 2 << 20), (1040000, 1 << 20)), turn(REPORT), reset(0x3F), report(REPORT, (1, 2)))
write("poison", config(12, 0xAAAAAAAA), report(REPORT, (4096, 8192)), config(12, 0), report(REPORT, (4096, 8192)), turn(REPORT))
write("stats", stats((4, 1000), (5, 2000)), ASK, turn(STATS), stats((0, 1), (99, 2)), ASK, ASK, turn(STATS))
write("stats-unasked", *[stats((4, i)) for i in range(12)], turn(STATS))
write("targets", target(64 << 20), config(4, 100), target(2**64 - 1), target(0), turn())
write("no-features", reset(0), pages(INFLATE, 1), report(REPORT, (0, 4096)), stats((1, 1)), ASK, turn())
write("reporting-only", reset(32), report(2, (4096, 4096)), turn(2))
write("raw", desc(INFLATE, 0, 0x400000, 4096, 0, 0), publish(INFLATE, 0), publish(INFLATE, 0), turn())
write("huge", desc(INFLATE, 0, 0x10000, 0x700000, 0, 0), publish(INFLATE, 0), turn())
write("loop", desc(INFLATE, 0, 0x400000, 16, 1, 0), publish(INFLATE, 0), turn(), reset(0x3F), pages(INFLATE, 1), turn())
write("many", *[pages(INFLATE, i) for i in range(100)], turn(), turn())
