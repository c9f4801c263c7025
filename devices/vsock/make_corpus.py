#!/usr/bin/env python3
"""Writes the seed corpus of vsock_fuzz: small inputs that reach the interesting states. The grammar is in vsock_fuzz.cc.

Usage: devices/vsock/make_corpus.py   (rewrites corpus/seed-* beside this file; files that a fuzzer found have other names)
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent / "corpus"
REQUEST, RESPONSE, RESET_OP, SHUTDOWN, DATA, UPDATE, ASK = 1, 2, 3, 4, 5, 6, 7


def write(name, *parts):
    HERE.mkdir(exist_ok=True)
    (HERE / ("seed-" + name)).write_bytes(b"".join(parts))


def packet(op, guest, host, size=0, flags=0, credit=60000, passed=0):
    return bytes([0, op, guest, host]) + struct.pack("<H", size) + bytes([flags]) + struct.pack("<HH", credit, passed)


def receive(count, size=4960):
    return bytes([2, count]) + struct.pack("<H", size)


def read(count=15):
    return bytes([3, count])


def host_write(which, size):
    return bytes([5, which]) + struct.pack("<H", size)


CONNECT, CONNECT_DATA, PARTIAL = bytes([4, 0]), bytes([4, 1]), bytes([4, 2])
ANSWER, RESET, TRANSPORT_RESET = bytes([13]), bytes([9]), bytes([10])

write("guest-connects", receive(7), packet(REQUEST, 1, 0), read(1), packet(DATA, 1, 0, 100), host_write(0, 50), read())
write("host-connects", receive(7), CONNECT_DATA, read(1), ANSWER, read(), packet(DATA, 2, 4, 10), bytes([6, 0]))
write("credit", receive(7), packet(REQUEST, 1, 0, credit=10), read(1), host_write(0, 50), read(),
      packet(UPDATE, 1, 0, credit=10, passed=10), read(), packet(UPDATE, 1, 0, credit=0, passed=60000))
write("overrun", receive(7), packet(REQUEST, 1, 0), b"".join(packet(DATA, 1, 0, 4999) for _ in range(60)), read())
write("shutdown", receive(7), packet(REQUEST, 1, 0), packet(DATA, 1, 0, 9), packet(SHUTDOWN, 1, 0, 0, 2), host_write(0, 9),
      packet(SHUTDOWN, 1, 0, 0, 1), read())
write("host-half-close", receive(7), packet(REQUEST, 1, 1), host_write(0, 5), bytes([7, 0, 1]), read(), bytes([7, 0, 0]),
      packet(DATA, 1, 1, 5), read())
write("hold", receive(7), bytes([8, 1]), packet(REQUEST, 1, 0), packet(RESET_OP, 1, 0), packet(REQUEST, 1, 0),
      bytes([8, 0]), read())
write("limit", receive(7), b"".join(packet(REQUEST, p, h) for p in range(4) for h in range(2)), PARTIAL, CONNECT, read())
write("resets", b"".join(packet(DATA, 3, 3) for _ in range(80)), receive(7), read(), receive(7), read())
write("raw", receive(7), bytes([1]) + bytes(range(44)) + b"\1\5", bytes([1]) + b"\xff" * 44 + b"\1\0", read())
write("reset", receive(7), packet(REQUEST, 1, 0), RESET, receive(7), packet(REQUEST, 1, 0), TRANSPORT_RESET,
      bytes([12, 3]), packet(REQUEST, 1, 1), read())
write("short", receive(3, 4), packet(DATA, 1, 1), RESET, bytes([11, 0, 1]) + struct.pack("<II", 0x100000, 20) + b"\2\0",
      packet(DATA, 1, 1), bytes([11, 1, 1]) + struct.pack("<II", 0x100000, 0xffffffff) + b"\0\0")
