#!/usr/bin/env python3
"""Writes the seed corpora of virtqueue_fuzz and pci_fuzz: small inputs that reach the interesting states.

Usage: vmm/virtio/make_corpus.py   (rewrites corpus/virtqueue/seed-* and corpus/pci/seed-* beside this file)
The grammars are in the switch statements of the two fuzz targets. Files that a fuzzer found are kept under other names.
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent / "corpus"


def write(kind, name, *parts):
    path = HERE / kind / ("seed-" + name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(parts))


# virtqueue_fuzz: operations 0..9.
NEXT, WRITE, INDIRECT = 1, 2, 4


def head(exponent, flags):
    return bytes([exponent, flags])


def raw(address, data):
    return bytes([0]) + struct.pack("<H", address) + bytes([len(data)]) + data


def desc(index, address, size, flags, nxt=0, table=0):
    return bytes([1, table, index]) + struct.pack("<II", address, size) + bytes([flags, nxt])


def publish(index):
    return bytes([2, index])


POP = bytes([3])


def complete(index, written):
    return bytes([4, index]) + struct.pack("<I", written)


def read(index, offset, size):
    return bytes([5, index]) + struct.pack("<IH", offset, size)


def fill(index, offset, size, value):
    return bytes([6, index, offset]) + struct.pack("<H", size) + bytes([value])


def drain(budget):
    return bytes([7, budget])


EVENTS = bytes([8])
RESET = bytes([9])


def virtqueue():
    request = desc(0, 0x9000, 64, NEXT, 1) + desc(1, 0xA000, 24, WRITE)
    write("virtqueue", "request", head(4, 2), request, publish(0), POP, read(0, 0, 64), fill(0, 0, 24, 7),
          complete(0, 24), EVENTS)
    write("virtqueue", "event-idx", head(4, 3), request, publish(0), drain(8), EVENTS, publish(0), drain(8), EVENTS)
    write("virtqueue", "out-of-order", head(4, 2), request, desc(2, 0x9000, 8, WRITE), publish(0), publish(2), POP, POP,
          complete(1, 8), complete(0, 24))
    write("virtqueue", "indirect", head(2, 2), desc(0, 0x8000, 48, INDIRECT), desc(0, 0x9000, 16, NEXT, 1, table=1),
          desc(1, 0x9100, 16, NEXT, 2, table=1), desc(2, 0x9200, 16, WRITE, table=1), publish(0), POP, read(0, 8, 16),
          complete(0, 16))
    write("virtqueue", "indirect-longer-than-queue", head(0, 2), desc(0, 0x8000, 16 * 200, INDIRECT),
          *[desc(i, 0x9000, 1, NEXT, i + 1, table=1) for i in range(199)], desc(199, 0x9000, 1, 0, table=1), publish(0),
          POP, read(0, 0, 200), complete(0, 0))
    write("virtqueue", "indirect-loop", head(2, 2), desc(0, 0x8000, 32, INDIRECT), desc(0, 0x9000, 16, NEXT, 1, table=1),
          desc(1, 0x9000, 16, NEXT, 0, table=1), publish(0), POP)
    write("virtqueue", "nested", head(2, 2), desc(0, 0x8000, 16, INDIRECT), desc(0, 0x8000, 16, INDIRECT, table=1),
          publish(0), POP)
    write("virtqueue", "loop", head(2, 2), desc(0, 0x9000, 1, NEXT, 1), desc(1, 0x9000, 1, NEXT, 0), publish(0), POP)
    write("virtqueue", "outside", head(2, 2), desc(0, 0xFFFFFFFF, 0xFFFF, 0), publish(0), POP)
    write("virtqueue", "index-jumps", head(2, 2), raw(0x3002, b"\xff\xff"), POP, drain(3))
    write("virtqueue", "reset-with-chains", head(4, 2), request, publish(0), POP, RESET, publish(0), POP, complete(0, 1),
          complete(0, 1))
    write("virtqueue", "same-head-twice", head(1, 2), request, publish(0), publish(0), POP, POP, publish(0), POP)
    write("virtqueue", "full-size", head(8, 3), *[desc(i, 0x9000 + i, 1, WRITE) for i in range(256)],
          *[publish(i) for i in range(256)], drain(255), drain(255), EVENTS)


# pci_fuzz: operations 0..11, each followed by a width byte (log2).
def op(number, width, *operands):
    return bytes([number, width]) + b"".join(operands)


def u16(v):
    return struct.pack("<H", v)


def u32(v):
    return struct.pack("<I", v)


def u64(v):
    return struct.pack("<Q", v)


def config(offset, width, value):
    return op(1, width, u32(0x8000 + offset), value.to_bytes(1 << width, "little"))


def common(offset, width, value):
    return op(4, width, bytes([offset]), u64(value))


def pci():
    run = op(11, 0)
    write("pci", "start", op(10, 0, b"\0", b"12345678"), run)
    write("pci", "hold-reset-release", op(10 + 48, 0, b"\1", b"12345678"), common(0x14, 0, 0), run,
          op(10, 0, b"\0", b"12345678"), op(11 + 48, 0))
    write("pci", "sizing", *[config(0x10 + 4 * i, 2, 0xFFFFFFFF) for i in range(6)], config(4, 1, 0),
          *[config(0x10 + 4 * i, 2, 0xE1000000 + i * 0x10000) for i in range(6)], config(4, 1, 7))
    write("pci", "cf8", op(2, 2, b"\0", u32(0x80000800)), op(3, 2, b"\4"), op(2, 2, b"\4", u32(0xFFFFFFFF)),
          op(2, 1, b"\1", u16(0)), op(3, 2, b"\5"))
    write("pci", "msix", config(0x40 + 0x80, 2, 0xFFFFFFFF), op(7, 2, u16(0xC), u64(0), u16(0x800)),
          op(7, 3, u16(0x8), u64(0), u16(0)), op(10, 0, b"\0", b"12345678"))
    write("pci", "queue-outside-ram", common(0x14, 0, 3), common(8, 2, 1), common(0xC, 2, 1), common(0x14, 0, 11),
          common(0x20, 3, 0x4000000000), common(0x1C, 1, 1), common(0x14, 0, 15), run)
    write("pci", "access-capability", *[config(0x40 + 4 * i, 2, 0x04030201) for i in range(48)],
          *[op(0, 2, u32(0x8000 + 0x40 + 4 * i)) for i in range(48)])
    write("pci", "everywhere", *[op(5, i % 4, u16(i * 0x111), u64(0x0101010101010101 * i)) for i in range(64)], run)


virtqueue()
pci()
