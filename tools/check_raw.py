#!/usr/bin/env python3
"""Unsafe host work lives in *_raw.* files: ioctl(, mmap(, reinterpret_cast elsewhere fail; each raw file states SAFETY:."""
import pathlib
import re
import sys

PATTERN = re.compile(r"(?<![\w:.>])(?:::)?(ioctl|mmap)\s*\(|reinterpret_cast\s*<")
# Places that are unsafe by nature and say so: bare-metal guests, and fuzz/test drivers that make bytes of text.
EXEMPT = re.compile(r"^(firmware/|cmake/)|(_test|_fuzz|_bench|_benchmark)\.cc$|/testing/")
COMMENT = re.compile(r"//.*$|/\*.*?\*/", re.M | re.S)
STRING = re.compile(r'"(?:\\.|[^"\\])*"')


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    bad = 0
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix not in (".h", ".cc", ".c") or name.startswith(("build/", "out/", ".")) or EXEMPT.search(name):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        code = STRING.sub('""', COMMENT.sub(lambda m: "\n" * m.group(0).count("\n"), text))
        raw = re.search(r"_raw\.(h|cc|c)$", name) is not None
        for match in PATTERN.finditer(code):
            if not raw:
                line = code.count("\n", 0, match.start()) + 1
                print(f"{name}:{line}: {match.group(0).strip()} outside a *_raw file")
                bad += 1
        if raw and PATTERN.search(code) and "SAFETY:" not in text:
            print(f"{name}: raw file without a SAFETY: line")
            bad += 1
    print(f"unsafe code: {bad} violations" if bad else "unsafe code: in its places")
    return 1 if bad else 0


sys.exit(main())
