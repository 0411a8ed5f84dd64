#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every test of the lab under fresh seeds, for as long as there is time.

What runs: the conformance of kin in the lab (test/lab/conformance_*), small programs that must come
out as in production (twin_test, theorem_test) or as by plain search (sound_test, theorem_test), and
the remedies in the book of found bugs (examples/lab), by turns; every other turn of the conformance
is a sweep of faults. So is exhaust_test: each request of the system is refused, at every point. The
first seed comes from the date, so that each night has seeds of its own; --seed repeats one. A test
that fails is left alone from then on; its schedule is in the directory of reports, as a .kinlab
file to be replayed and kept, beside what it printed. The status is 1 when a test has failed.
"""
import argparse
import concurrent.futures
import datetime
import glob
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEEDS = 4096  # of the book in one turn; the conformance has a bound of its own
TWINS = 2000  # programs that are compared with production
THEOREM = 5000  # programs that are compared with plain search and with production
PROGRAMS = 100  # of each kind that DPOR and plain search are compared on
LIMIT_S = 900  # for one turn
STRATEGIES = ["random", "pct:2", "pct:3", "pct:5", "urw"]
SWEEPS = ["", "oom", "", "cancel", "", "deadline", "", "budget"]  # of the conformance


class Test:
    """A program, and how it is asked for a block of seeds."""

    def __init__(self, program, is_book):
        self.program, self.is_book = program, is_book
        self.name = os.path.basename(program)

    def turn(self, seed, reports):
        """(status, output) of one turn; the files of a failure go to reports."""
        command, env = [self.program], dict(os.environ, KIN_LAB_REPORTS=reports)
        if self.is_book:
            first = seed * SEEDS % 2**62 + 1
            command += ["fixed", "-s", STRATEGIES[seed % len(STRATEGIES)], "--report-dir", reports,
                        "--seeds", "%d..%d" % (first, first + SEEDS - 1)]
        else:
            env.update(KIN_SEED=str(seed), KIN_TWIN_COUNT=str(TWINS),
                       KIN_THEOREM_COUNT=str(THEOREM),
                       KIN_LAB_PROGRAMS=str(PROGRAMS), KIN_LAB_SWEEP=SWEEPS[seed % len(SWEEPS)],
                       KIN_EXHAUST="all")
        try:
            done = subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired as late:
            return -1, "%s\nstopped after %d s" % (late.stdout or "", LIMIT_S)
        return done.returncode, done.stdout


def night(tests, seconds, seed, reports, jobs):
    """Gives every test its turns until the time is over; returns (turns, those that failed)."""
    end, turns, failed, left = time.time() + seconds, 0, [], list(tests)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        while left and (turns == 0 or time.time() < end):  # each test has one turn at least
            results = list(pool.map(lambda test: test.turn(seed, reports), left))
            turns += len(results)
            for test, (status, output) in list(zip(left, results)):
                if status == 0:
                    continue
                with open(os.path.join(reports, test.name + ".log"), "w", encoding="utf-8") as file:
                    file.write(output)
                print("FAIL %s seed %d\n%s" % (test.name, seed, output[-4000:]), flush=True)
                left.remove(test)
                failed.append(test.name)
            seed += 1
    return turns, failed


def build(directory, jobs):
    """Builds what is run; returns the tests."""
    subprocess.run(["cmake", "-S", ROOT, "-B", directory, "-DCMAKE_BUILD_TYPE=Release",
                    "-DKIN_TESTS=ON"], stdout=subprocess.DEVNULL, check=True)
    names = sorted(os.path.basename(path)[:-2] for path in glob.glob(
        os.path.join(ROOT, "test", "lab", "conformance_*_test.c"))) + [
            "sound_test", "theorem_test", "twin_test"]
    book = sorted(os.path.basename(path)[:-2]
                  for path in glob.glob(os.path.join(ROOT, "examples", "lab", "*.c")))
    targets = ["test_lab_" + name for name in names] + ["example_lab_" + name for name in book]
    targets.append("test_stress_exhaust_test")
    subprocess.run(["cmake", "--build", directory, "-j", str(jobs), "--target"] + targets,
                   stdout=subprocess.DEVNULL, check=True)
    return ([Test(os.path.join(directory, "test", "lab", name), False) for name in names] +
            [Test(os.path.join(directory, "examples", "lab", name), True) for name in book] +
            [Test(os.path.join(directory, "test", "stress", "exhaust_test"), False)])


def main():
    directory = os.path.abspath(os.path.join(os.environ.get("KIN_BUILD") or
                                             os.path.join(ROOT, "build"), "nightly"))
    jobs = os.cpu_count() or 2
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int,
                        default=int(datetime.date.today().strftime("%Y%m%d")) * 1000000)
    parser.add_argument("--only", default="", help="only tests with this in their name")
    parser.add_argument("--reports", default=os.path.join(directory, "reports"))
    options = parser.parse_args()
    tests = [test for test in build(directory, jobs) if options.only in test.name]
    reports = os.path.abspath(options.reports)
    os.makedirs(reports, exist_ok=True)
    print("%d tests for %d s from seed %d on" % (len(tests), options.seconds, options.seed),
          flush=True)
    turns, failed = night(tests, options.seconds, options.seed, reports, jobs)
    print("%d turns of %d tests, %d failed%s" % (
        turns, len(tests), len(failed), "; reports are in " + reports if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
