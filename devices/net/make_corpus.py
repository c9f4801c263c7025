#!/usr/bin/env python3
"""Writes the seed corpus of net_fuzz: small inputs that reach the interesting states. The grammar is in net_fuzz.cc.

Usage: devices/net/make_corpus.py   (rewrites corpus/seed-* beside this file; files that a fuzzer found have other names)
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent / "corpus"


def write(name, *parts):
    HERE.mkdir(exist_ok=True)
    (HERE / ("seed-" + name)).write_bytes(b"".join(parts))


def setup(features=0, kind=0):
    return bytes([features, kind])


def post(*sizes):
    return bytes([0, len(sizes) - 1]) + b"".join(struct.pack("<H", s - 1) for s in sizes)


def transmit(size, flags=0, gso=0, hdr_len=0, gso_size=0, start=0, offset=0):
    return bytes([1, flags, gso]) + struct.pack("<HHHHH", hdr_len, gso_size, start, offset, size) + b"\x05"


def control(cls, command, data):
    return bytes([3, cls, command, len(data)]) + data


def peer(size, flags=0, gso=0):
    return bytes([4, flags, gso]) + struct.pack("<H", size) + b"\x07"


def poke(queue, index, address, size, flags, nxt):
    return bytes([9, queue, index]) + struct.pack("<II", address, size) + bytes([flags, nxt])


READ, RESET, CLOSE = bytes([6]), bytes([7]), bytes([11])
HEADERS, JUMBO, MERGE = 1, 2, 4

write("plain", setup(), post(1526), peer(60), transmit(100), READ)
write("merge", setup(0, JUMBO | MERGE), post(500), post(500), post(500), peer(1400), peer(60), post(100, 60))
write("no-merge", setup(4), post(100), peer(200), peer(60))
write("offloads", setup(0, HEADERS), transmit(4000, 1, 1, 66, 1448, 34, 16), transmit(4000, 1, 0x84, 0, 9, 54, 16), READ)
write("bad-offloads", setup(0, HEADERS), transmit(200, 1, 1, 66, 0, 34, 16), transmit(200, 1, 0, 0, 0, 65535, 65535),
      transmit(60, 0, 3, 0, 100), READ)
write("receive-offloads", setup(8, HEADERS), post(4999, 4999, 4999), peer(9000, 1, 1), peer(60, 1), peer(60))
write("control", setup(0, HEADERS), control(5, 0, struct.pack("<Q", 2)), control(1, 1, bytes(6)), control(0, 0, b"\x01"),
      control(9, 9, b""))
write("reset", setup(0, MERGE | JUMBO), post(40), peer(600), RESET, post(800), peer(60), transmit(60), READ)
write("raw", setup(), bytes([2, 3, 1, 2, 3, 4]), bytes([5, 2, 9, 9]), poke(0, 3, 0x100000, 0xffffffff, 2, 0),
      poke(1, 2, 0x100000, 64, 1, 2), poke(2, 0, 0x100000, 64, 0, 0), RESET, post(1526), peer(80))
write("link", setup(), post(1526), bytes([8, 0]), peer(60), transmit(60), bytes([8, 1]), peer(60), CLOSE, transmit(60))
write("full", setup(), b"".join(transmit(1400) for _ in range(40)), READ, transmit(90), READ)
