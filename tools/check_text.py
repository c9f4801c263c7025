#!/usr/bin/env python3
"""Text rules: no file over 1,000 hand-written lines, no tabs or trailing blanks in sources, no left-over work markers."""
import pathlib
import re
import subprocess
import sys

MARKER = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]) + r")\b")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    files = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    bad = 0
    for name in filter(None, files):
        path = root / name
        if not path.is_file() or path.suffix not in (".h", ".cc", ".c", ".S", ".py", ".cmake", ".fbs", ".md", ".sh", ".toml"):
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
        if path.suffix in (".h", ".cc", ".c", ".py") and len(lines) > 1000:
            print(f"{name}: {len(lines)} lines; split it before 1,000")
            bad += 1
        for number, line in enumerate(lines, 1):
            if MARKER.search(line):
                print(f"{name}:{number}: left-over marker: {line.strip()[:80]}")
                bad += 1
            if path.suffix != ".md" and line != line.rstrip():
                print(f"{name}:{number}: trailing blanks")
                bad += 1
    print(f"text: {bad} findings" if bad else "text: clean")
    return 1 if bad else 0


sys.exit(main())
