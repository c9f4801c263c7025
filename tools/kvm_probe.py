#!/usr/bin/env python3
"""Is there a KVM here that makes virtual machines? Exit 0 and nothing printed if so; else 1 and one line with the reason.

The device node alone proves nothing: it may be without permission, without a module behind it, or without a
processor that can; so a VM is created, and closed at once.
"""
import fcntl
import os
import sys

KVM_GET_API_VERSION = 0xAE00
KVM_CREATE_VM = 0xAE01


def reason(path):
    try:
        device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return f"there is no {path}" if error.errno == 2 else f"{path} cannot be opened: {error.strerror}"
    try:
        version = fcntl.ioctl(device, KVM_GET_API_VERSION, 0)
        if version != 12:
            return f"{path} speaks version {version} of the interface, not 12"
        os.close(fcntl.ioctl(device, KVM_CREATE_VM, 0))
    except OSError as error:
        return f"{path} makes no virtual machine: {error.strerror}"
    finally:
        os.close(device)
    return ""


if __name__ == "__main__":
    why = reason(sys.argv[1] if len(sys.argv) > 1 else "/dev/kvm")
    if why:
        print(why)
    sys.exit(1 if why else 0)
