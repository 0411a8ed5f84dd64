#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that the lab leaves no instruction in production.

Goal: what src/base/lab.h puts into the files of the runtime comes to nothing without KIN__LAB.
Method: each file is compiled to assembly twice, as it is, and with a lab.h in which every hook is
empty and every number is another one; the two must be equal to the letter. A hook that has found
another way in shows by its name, kin__lab_. Small trees with such mistakes show that they are
found. Prints one line per test as the other tests do; an argument selects those whose name contains
it.
"""

import concurrent.futures
import difflib
import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = ["-std=gnu11", "-O2", "-fPIC", "-D_GNU_SOURCE", "-S", "-o", "-"]
HEADER = "src/base/lab.h"
SHOWN = 12  # lines of a difference


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def empty_header(text):
    """A lab.h that has the same names and does nothing. A hook that is asked something answers no:
    those whose production says so by a constant."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S).replace("\\\n", " ")
    lines = re.findall(r"^#include .*$", text, re.M)
    hooks = {}
    for number, (name, params, body) in enumerate(
            re.findall(r"^#define (KIN__LAB_\w+)(\([^)]*\))?[ \t]*(.*)$", text, re.M)):
        # of two definitions, the lab's and production's, the second counts
        hooks[name] = params + " " + (
            str(0x5a00 + number) + "u" if not params else
            "false" if body.strip() == "false" else "((void)0)")
    return "\n".join(lines + ["#define " + name + what for name, what in hooks.items()]) + "\n"


def assembly(root, source, before):
    """What the compiler makes of a file; before: where it looks for headers first."""
    command = ["gcc"] + FLAGS + ["-I" + path for path in before + ["include", "src"]] + [source]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    return done.stdout if done.returncode == 0 else "error: " + done.stderr


def mistake(root, source, empty):
    """What the lab leaves in this file; None: nothing."""
    here, there = assembly(root, source, []), assembly(root, source, [empty])
    for text in (here, there):
        if text.startswith("error: "):
            return text
    names = sorted(set(re.findall(r"\bkin__lab_\w+", here)))
    if names:
        return "it knows " + ", ".join(names)
    if here == there:
        return None
    lines = difflib.unified_diff(there.splitlines(), here.splitlines(), "without the lab",
                                 "as it is", n=1, lineterm="")
    return "\n".join(list(lines)[:SHOWN])


def mistakes(root, sources):
    """(file, what is left in it) for each file in which something is."""
    with tempfile.TemporaryDirectory() as empty:
        os.mkdir(os.path.join(empty, "base"))
        with open(os.path.join(empty, "base", "lab.h"), "w", encoding="utf-8") as file:
            file.write(empty_header(read(os.path.join(root, HEADER))))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            found = pool.map(lambda source: mistake(root, source, empty), sources)
            return [(source, what) for source, what in zip(sources, found) if what]


# ---- small trees with and without a mistake ----

LAB_H = """
#include <stdbool.h>
#define KIN__LAB_ADD 2u
#ifdef KIN__LAB
#define KIN__LAB_POINT() kin__lab_point()
#define KIN__LAB_INSIDE() kin__lab_is_inside()
#else
#define KIN__LAB_POINT() ((void)0) /* nothing */
#define KIN__LAB_INSIDE() false
#endif
"""
SOURCE = """
#include "base/lab.h"
extern int points;
static inline int quiet(int x, unsigned mode) { (void)mode; return x; }
int loud(int x, unsigned mode);
int step(int x);
int step(int x)
{
    KIN__LAB_POINT();
    if (KIN__LAB_INSIDE())
        return 1;
    return quiet(x, KIN__LAB_ADD);
}
"""


def in_small_tree(header, source):
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "src", "base"))
        os.makedirs(os.path.join(root, "src", "task"))
        for name, text in ((HEADER, header), ("src/task/step.c", source)):
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        return [what for _, what in mistakes(root, ["src/task/step.c"])]


def test_hooks_that_come_to_nothing_are_none():
    return not in_small_tree(LAB_H, SOURCE)


def test_a_hook_with_code_is_found():
    return in_small_tree(LAB_H.replace("POINT() ((void)0)", "POINT() (points++)"), SOURCE)


def test_a_hook_that_asks_is_found():
    return in_small_tree(LAB_H.replace("INSIDE() false", "INSIDE() (points > 0)"), SOURCE)


def test_a_number_that_is_handed_on_is_found():
    return in_small_tree(LAB_H, SOURCE.replace("quiet(x,", "loud(x,"))


def test_a_hook_by_its_name_is_found():
    return in_small_tree(LAB_H, SOURCE.replace("    KIN__LAB_POINT();", "    extern void "
                                               "kin__lab_point(void);\n    kin__lab_point();"))


# ---- the runtime ----


def test_the_runtime_is_the_same_without_the_lab():
    sources = sorted(os.path.relpath(path, ROOT) for path in glob.glob(
        os.path.join(ROOT, "src", "**", "*.c"), recursive=True))
    sources = [source for source in sources if not source.startswith("src/lab/")]
    found = mistakes(ROOT, sources)
    for source, what in found:
        print("%s: %s" % (source, what))
    return not found and len(sources) > 50


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    failed = 0
    for name, test in sorted(globals().items()):
        if not name.startswith("test_") or wanted not in name:
            continue
        is_ok = bool(test())
        failed += not is_ok
        print("%s %s" % ("ok  " if is_ok else "FAIL", name[len("test_"):]), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
