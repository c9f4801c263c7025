#!/usr/bin/env python3
"""Writes the seeds of corpus/kernel: small kernels of both kinds, whole and broken in one place each."""
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "kernel")
CODE = b"\xf4\xeb\xfd"


def bzimage(**changes):
    image = bytearray(2 * 512) + b"\xcc" * 0x200 + CODE
    fields = {"setup_sects": (0x1F1, "B", 1), "boot_flag": (0x1FE, "H", 0xAA55), "jump": (0x200, "H", 0x6AEB),
              "magic": (0x202, "I", 0x53726448), "version": (0x206, "H", 0x20F), "loadflags": (0x211, "B", 1),
              "initrd_addr_max": (0x22C, "I", 0x7FFFFFFF), "alignment": (0x230, "I", 0x200000), "relocatable": (0x234, "B", 1),
              "xloadflags": (0x236, "H", 1), "cmdline_size": (0x238, "I", 2047), "pref_address": (0x258, "Q", 0x200000),
              "init_size": (0x260, "I", 0x100000)}
    for name, (offset, kind, value) in fields.items():
        struct.pack_into("<" + kind, image, offset, changes.get(name, value))
    return bytes(image)


def note(owner, kind, description):
    pad = lambda b: b + b"\0" * (-len(b) % 4)
    return struct.pack("<III", len(owner), len(description), kind) + pad(owner) + pad(description)


def pvh(address=0x200000, entry=0x200000, notes=None, cut=0):
    notes = notes or note(b"GNU\0", 3, b"12345") + note(b"Xen\0", 18, struct.pack("<Q", entry))
    header = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, address, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    code_at, notes_at = 0x200, 0x210
    load = struct.pack("<IIQQQQQQ", 1, 7, code_at, address, address, len(CODE), 0x1000, 1)
    noted = struct.pack("<IIQQQQQQ", 4, 4, notes_at, 0, 0, len(notes), len(notes), 4)
    image = (header + load + noted).ljust(code_at, b"\0") + CODE
    image = image.ljust(notes_at, b"\0") + notes
    return image[:len(image) - cut]


SEEDS = {
    "bzimage": bzimage(),
    "bzimage_high": bzimage(pref_address=0x10000000),
    "bzimage_fixed_high": bzimage(pref_address=0x10000000, relocatable=0),
    "bzimage_low": bzimage(pref_address=0x1000),
    "bzimage_wraps": bzimage(pref_address=0xFFFFFFFFFFFFF000),
    "bzimage_huge": bzimage(init_size=0xFFFFFFFF),
    "bzimage_header_end": bzimage(jump=0xFFEB),
    "bzimage_initrd_low": bzimage(initrd_addr_max=0x2FFFFF),
    "bzimage_sectors": bzimage(setup_sects=255),
    "bzimage_32": bzimage(xloadflags=0),
    "pvh": pvh(),
    "pvh_entry_outside": pvh(entry=0x100),
    "pvh_over_boot_data": pvh(address=0x1000, entry=0x1000),
    "pvh_over_acpi": pvh(address=0xFF000, entry=0xFF000),
    "pvh_high": pvh(address=0x100000000, entry=0x100000000),
    "pvh_cut": pvh(cut=4),
    "pvh_note_size": pvh(notes=struct.pack("<III", 0xFFFFFFFF, 8, 18) + b"Xen\0"),
    "pvh_note_description": pvh(notes=struct.pack("<III", 4, 0xFFFFFFFF, 18) + b"Xen\0"),
    "pvh_32_bit_entry": pvh(notes=note(b"Xen\0", 18, struct.pack("<I", 0x200000))),
}

os.makedirs(HERE, exist_ok=True)
for name, seed in SEEDS.items():
    with open(os.path.join(HERE, name), "wb") as file:
        file.write(seed)
