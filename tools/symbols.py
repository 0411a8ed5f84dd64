#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that a shared library shows exactly the functions the public headers declare.

Prints "ok   symbols" or "FAIL symbols" followed by the names that are too many or too few.
"""
import argparse
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import kinheaders  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="for example build/release/libkin.so.0")
    parser.add_argument("--nm", default="nm", help="the nm of the library's machine")
    options = parser.parse_args()

    declared = set()
    for header in kinheaders.load(os.path.join(ROOT, "include", "kin")):
        declared.update(header.exported)
    out = subprocess.run([options.nm, "-D", "--defined-only", options.library], check=True,
                         capture_output=True, text=True, timeout=60).stdout
    shown = {line.split()[-1].split("@")[0] for line in out.splitlines() if line.strip()}
    if declared == shown and declared:
        print("ok   symbols")
        return 0
    print("FAIL symbols")
    for name in sorted(declared - shown):
        print("    | declared with KIN_API and not in the library: " + name)
    for name in sorted(shown - declared):
        print("    | in the library and not declared with KIN_API: " + name)
    return 1


if __name__ == "__main__":
    sys.exit(main())
