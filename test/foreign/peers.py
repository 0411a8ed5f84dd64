# SPDX-License-Identifier: MIT
"""What tests with programs of others have in common: they run these and examples of kin, compare,
and print one line per test as the other tests do."""

import os
import shutil
import subprocess
import sys
import traceback

LIMIT_S = 180  # of any step; none takes more than a few seconds on an idle machine


class Skip(Exception):
    """The test cannot run here; the reason is the argument."""


def need(program):
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not path:
        raise Skip(program + " is not installed")
    return path


def example(name):
    path = os.path.join(os.path.abspath(sys.argv[1]), name)
    if not os.path.exists(path):
        raise Skip("the example %s is not built" % name)
    return path


def expect(actual, expected):
    if actual != expected:
        raise AssertionError("%.200r instead of %.200r" % (actual, expected))


def run(command, given=b"", **options):
    """What a program answers to what it is given."""
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=LIMIT_S, check=False, **options)
    if done.returncode != 0:
        raise AssertionError("%s: status %d: %s" % (command[0], done.returncode, done.stderr))
    return done.stdout


def main(functions):
    """Runs those that are called test_..., or the ones with a text in their name."""
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    failed = 0
    for name, test in list(functions.items()):
        name = name.replace("test_", "", 1) if name.startswith("test_") else ""
        if not name or only not in name:
            continue
        try:
            test()
            print("ok   " + name, flush=True)
        except Skip as reason:
            print("skip %s %s" % (name, reason), flush=True)
        except Exception:  # one that fails must not hide the others
            failed += 1
            print("FAIL %s\n%s" % (name, traceback.format_exc()), flush=True)
    return 1 if failed else 0
