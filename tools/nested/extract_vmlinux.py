#!/usr/bin/env python3
"""extract_vmlinux.py VMLINUZ OUT: the ELF kernel inside a bzImage.

The boot protocol (Documentation/arch/x86/boot.rst) says where the compressed payload lies: setup_sects at 0x1f1,
payload_offset at 0x248 and payload_length at 0x24c, counted from the end of the real-mode part. The last 4 bytes of
the payload are its uncompressed size, not part of the stream.
"""
import struct
import subprocess
import sys

TOOLS = {b"\xfd7zXZ\x00": ["xz", "-dc"], b"\x1f\x8b": ["gzip", "-dc"], b"\x28\xb5\x2f\xfd": ["zstd", "-dcq"],
         b"\x02\x21\x4c\x18": ["lz4", "-dc"]}


def main():
    with open(sys.argv[1], "rb") as file:
        image = file.read()
    if image[0x202:0x206] != b"HdrS":
        sys.exit(f"{sys.argv[1]}: not a bzImage")
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = ((image[0x1F1] or 4) + 1) * 512 + offset
    payload = image[start:start + length]
    for magic, command in TOOLS.items():
        if not payload.startswith(magic):
            continue
        elf = subprocess.run(command, input=payload, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
        if elf[:4] != b"\x7fELF":
            sys.exit(f"{sys.argv[1]}: {command[0]} did not give an ELF file")
        with open(sys.argv[2], "wb") as file:
            file.write(elf)
        return
    sys.exit(f"{sys.argv[1]}: compressed in an unknown way ({payload[:6].hex()})")


main()
