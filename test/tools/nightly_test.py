#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of tools/nightly.py: what it asks of programs, and what it does when one fails.

Goal: every test gets fresh seeds while there is time, a failure leaves its files and stops nobody
else. Method: programs of a few lines of shell in a temporary directory, which write down how they
were called. Prints one line per test as the other tests do.
"""

import contextlib
import importlib.util
import io
import os
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPEC = importlib.util.spec_from_file_location("nightly", os.path.join(ROOT, "tools/nightly.py"))
nightly = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(nightly)


class Night:
    """A directory with programs, and what came of a night with them."""

    def __init__(self, scripts, seconds, seed=100, is_book=False):
        with tempfile.TemporaryDirectory() as directory:
            tests = []
            for name, script in scripts.items():
                path = os.path.join(directory, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write("#!/bin/sh\n" + script)
                os.chmod(path, 0o755)
                tests.append(nightly.Test(path, is_book))
            with contextlib.redirect_stdout(io.StringIO()) as told:
                self.turns, self.failed = nightly.night(tests, seconds, seed, directory, 2)
            self.told = told.getvalue()
            self.files = {}
            for name in os.listdir(directory):
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    self.files[name] = file.read()


def expect(actual, expected):
    if actual != expected:
        raise AssertionError("found %r, expected %r" % (actual, expected))


def test_each_has_one_turn_when_there_is_no_time():
    night = Night({"a": "exit 0", "b": "exit 0"}, 0)
    expect((night.turns, night.failed), (2, []))


def test_every_turn_has_another_seed():
    script = 'echo $KIN_SEED >> $KIN_LAB_REPORTS/seeds; [ $KIN_SEED -lt 103 ]'
    night = Night({"a": script}, 60)
    expect(night.files["seeds"].split(), ["100", "101", "102", "103"])
    expect((night.turns, night.failed), (4, ["a"]))


def test_a_failure_leaves_its_files_and_stops_nobody_else():
    night = Night({
        "bad": 'echo why; echo kinlab 1 > $KIN_LAB_REPORTS/bad.kinlab; exit 1',
        "good": '[ $KIN_SEED -lt 102 ]'}, 60)
    expect(night.failed, ["bad", "good"])
    expect(night.turns, 4)
    expect(night.files["bad.log"], "why\n")
    expect(night.files["bad.kinlab"], "kinlab 1\n")
    expect("FAIL bad seed 100\nwhy" in night.told, True)


def test_the_book_is_asked_for_a_block_of_seeds():
    night = Night({"page": 'echo "$@" > $KIN_LAB_REPORTS/words'}, 0, seed=7, is_book=True)
    words = night.files["words"].split()
    expect(words[:2] + words[-2:], ["fixed", "-s", "--seeds", "28673..32768"])


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    failed = 0
    for name, test in sorted(globals().items()):
        if not name.startswith("test_") or wanted not in name:
            continue
        try:
            test()
            print("ok   " + name[len("test_"):])
        except AssertionError as error:
            failed += 1
            print("FAIL %s: %s" % (name[len("test_"):], error))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
