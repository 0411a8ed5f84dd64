#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/kin-gdb.py in a gdb that runs an example.

    gdb_test.py EXAMPLES [TEXT]     EXAMPLES: where they are built; TEXT: only names with it

Goal: tasks are listed with their names and what they wait for, and one that waits has the stack of
its own functions. Method: the example cancel is stopped when it cancels: by then most leaves sleep.
"""

import os
import platform
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from peers import LIMIT_S, Skip, example, expect, main, need

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/kin-gdb.py")


def gdb(*commands):
    first = ["set debuginfod enabled off", "source " + SCRIPT, "break kin_nursery_cancel", "run"]
    words = [word for command in first + list(commands) for word in ("-ex", command)]
    done = subprocess.run([need("gdb"), "-q", "-nx", "-batch"] + words + [example("cancel")],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False)
    if "hit Breakpoint" not in done.stdout:
        raise Skip("gdb cannot run a program here")
    return done.stdout


def test_tasks():
    out = gdb("kin tasks")
    expect(len(re.findall(r"^task [\d.]+ \(no name\): ", out, re.M)), 12)
    expect(len(re.findall(r"^task [\d.]+ \(main\): runs, or can, spawned at ", out, re.M)), 1)


def test_backtrace():
    if platform.machine() != "x86_64":
        raise Skip("kin bt knows the registers of x86-64 only")
    out = gdb("python kin_sleeper = [t for t in tasks() if 'for sleep' in describe(t)][0]",
              "python gdb.execute('kin bt %d' % id_of(kin_sleeper))", "bt 1", "kin bt 0")
    expect(re.findall(r"^#\d+ +(kin_sleep|sleeping_leaf)\b", out, re.M),
           ["kin_sleep", "sleeping_leaf"])
    expect("#0  kin_nursery_cancel" in out, True)  # the thread is where it was
    expect("there is no such task" in out, True)


if __name__ == "__main__":
    sys.exit(main(globals()))
