#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles and runs every program in README.md and doc/*.md.

    python3 doc/check.py --library build/release/libkin.a [--lab build/release/libkin-lab.a]
                         [--compiler cc] [FLAG...]

A program is a fenced block of C with a main(); it passes when it compiles without a warning and
ends with status 0. One with KIN_LAB_MAIN() is linked with the lab, if that is given, and may also
end with 1: it found the bug that it shows. The program of README.md must also be what
examples/fanout.c is from its first include on, and what doc/server.md shows must be in its
examples. Links between pages must lead somewhere. One line per program, "ok name" or "FAIL name";
the status is 1 when one failed.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BLOCK = re.compile(r"^```c\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
QUOTED = {"doc/server.md": ["examples/server.c", "examples/lab/cut_off.c"]}
WARNINGS = "-std=gnu11 -Wall -Wextra -Wshadow -Wconversion -Wpedantic -Werror".split()


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def programs(path):
    """(name, text) of each program in a page."""
    blocks = [text for text in BLOCK.findall(read(path))
              if re.search(r"^(int main|KIN_LAB_MAIN)\(", text, re.M)]
    stem = os.path.splitext(os.path.basename(path))[0].lower()
    return [("doc_%s_%d" % (stem, number), text) for number, text in enumerate(blocks, 1)]


def check_page(path):
    """What a page links to or quotes and is not there, or an empty string."""
    text = read(path)
    dead = ["no such file: " + link for link in LINK.findall(text)
            if not os.path.exists(os.path.join(ROOT, os.path.dirname(path), link))]
    if path == "README.md":
        dead += ["not in the list of examples: " + name
                 for name in sorted(glob.glob("examples/*.c", root_dir=ROOT)) if name not in text]
    sources = [read(source) for source in QUOTED.get(path, [])]
    dead += ["in none of its examples:\n" + block for block in BLOCK.findall(text)
             if sources and not any(block in source for source in sources)]
    return "\n".join(dead)


def try_program(text, options, flags, scratch):
    """What went wrong, or an empty string."""
    source, program = os.path.join(scratch, "app.c"), os.path.join(scratch, "app")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    compile_it = [options.compiler] + WARNINGS + flags + ["-I", os.path.join(ROOT, "include")]
    is_lab = "KIN_LAB_MAIN(" in text
    compile_it += [source, options.lab if is_lab else options.library, "-pthread", "-o", program]
    run_it = [program, "--no-files"] if is_lab else [program]
    for command in (compile_it, run_it):
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60,
                              check=False)
        if done.returncode not in ((0, 1) if is_lab and command is run_it else (0,)):
            return "status %d\n%s%s" % (done.returncode, done.stdout, done.stderr)
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--lab")
    parser.add_argument("--compiler", default="cc")
    options, flags = parser.parse_known_args()
    failed = 0
    for path in sorted(glob.glob("*.md", root_dir=ROOT) + glob.glob("doc/*.md", root_dir=ROOT)):
        wrong = check_page(path)
        failed += wrong != ""
        print("%s %s\n%s" % ("FAIL" if wrong else "ok  ", path, wrong), end="", flush=True)
        for name, text in programs(path):
            if "KIN_LAB_MAIN(" in text and not options.lab:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                wrong = try_program(text, options, flags, scratch)
            if path == "README.md" and not wrong:
                example = read("examples/fanout.c")
                if text != example[example.index("#include"):]:
                    wrong = "README.md and examples/fanout.c differ\n"
            failed += wrong != ""
            print("%s %s\n%s" % ("FAIL" if wrong else "ok  ", name, wrong), end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
