#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts one mistake at a time into kin and sees to it that a test notices.

The mistakes are in *.txt beside this file, for each of them:

    src/wait/chan.c
    - the line as it is
    + the line with the mistake
    ! wait/chan_test name_of_the_test_that_must_fail

or, in place of the last line, "~ why no test can tell the two apart". A line that stands several
times in its file is named with its number among them: "-2 the line as it is".

The sources are never changed: a copy with the mistake is compiled in the build's directory, and the
test program is linked with that object in front of the library. A mistake in a header is in the
source of the same name and in the test's own file, and in nothing else: such a test calls what the
header defines itself.

A mistake is noticed when its test passes without it and fails with it. A test that does not end
with it has failed too, by its bound, and is called so. One line is printed for each: "ok name" when
the mistake was noticed, "FAIL name" when the mutant survived or its line or its test are not there
any more, "skip name" when its test cannot run on this machine. Then the share of all that was
noticed.

    run.py --build build/debug              all of them
    run.py --build build/debug --tenth      a tenth, drawn by a seed that is printed; KIN_MUTANTS=n
                                            in the environment draws the same ones again
    run.py --build build/debug --find LIST  a list in which "? a/program_test" stands for a test
                                            that is not known yet: look for one, print the list
    run.py --build build/debug --draw 20 --floor wait
                                            the same for mistakes that are drawn
"""
import argparse
import atexit
import concurrent.futures
import glob
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FLOORS = ["task", "sched", "park", "wait", "scope", "otp"]
HEALTHY_LIMIT_S = 240  # of a test without a mistake
BOUND_S = 10           # of a test with a mistake, and so many times what it took without one
WANTED_PERCENT = 95
PASSED, FAILED, SKIPPED, ENDLESS, ABSENT = "passed", "failed", "skipped", "endless", "absent"


class Broken(Exception):
    """A mistake cannot be made any more, or does not compile: the list must be mended."""


class Mutant:
    """One mistake: where, what stands there, what shall stand there, and who must notice."""

    def __init__(self, file, old, number, new):
        self.file, self.old, self.number, self.new = file, old, number, new
        self.program = self.test = self.reason = None

    def name(self):
        """How lists and people call it."""
        return "%s: %s" % (self.file[len("src/"):], self.new or "(nothing)")

    def place(self):
        """The lines of the file, and the index of the one with the mistake."""
        try:
            with open(os.path.join(ROOT, self.file), encoding="utf-8") as source:
                lines = source.read().split("\n")
        except OSError as error:
            raise Broken("%s: %s" % (self.file, error.strerror)) from error
        places = [i for i, line in enumerate(lines) if line.strip() == self.old]
        if len(places) < (self.number or 1):
            raise Broken("%s has no such line (any more): %s" % (self.file, self.old))
        if not self.number and len(places) > 1:
            raise Broken("%s has %d such lines, say which: %s" % (
                self.file, len(places), self.old))
        return lines, places[(self.number or 1) - 1]

    def text(self):
        """The file with the mistake."""
        lines, place = self.place()
        indent = lines[place][:len(lines[place]) - len(lines[place].lstrip())]
        lines[place] = indent + self.new
        return "\n".join(lines)

    def diff(self):
        """What a reader of a failure wants to see."""
        return "%s:%d\n- %s\n+ %s" % (self.file, self.place()[1] + 1, self.old, self.new)

    def entry(self):
        """What stands in a list."""
        last = "~ " + self.reason if self.reason else "! %s %s" % (self.program, self.test)
        return "%s\n-%s %s\n+ %s\n%s\n" % (self.file, self.number or "", self.old, self.new, last)


def read_list(path):
    """The mistakes of one list."""
    mutants = []
    with open(path, encoding="utf-8") as file:
        blocks = re.split(r"\n\s*\n", file.read().strip())
    for block in blocks:
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        match = re.fullmatch(r"(\S+)\n-(\d*) (.*)\n\+ ?(.*)\n([!~?]) ?(.*)", "\n".join(lines))
        if not match:
            raise Broken("%s: not a mistake:\n%s" % (path, block))
        mutant = Mutant(match[1], match[3], int(match[2] or 0), match[4])
        if match[5] == "~":
            mutant.reason = match[6]
        elif match[5] == "?":
            mutant.program = match[6] or None
        else:
            mutant.program, mutant.test = match[6].split(" ")
        mutants.append(mutant)
    return mutants


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Workshop:
    """Makes programs with a mistake out of a build that is there."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.scratch = tempfile.mkdtemp(prefix="mutants-", dir=self.build)
        atexit.register(shutil.rmtree, self.scratch, ignore_errors=True)
        self.commands = {}
        with open(os.path.join(self.build, "compile_commands.json"), encoding="utf-8") as file:
            for entry in json.load(file):
                name = os.path.relpath(os.path.realpath(entry["file"]), os.path.realpath(ROOT))
                self.commands.setdefault(name, []).append(entry)

    def program(self, name):
        """The program of these tests, without a mistake."""
        path = os.path.join(self.build, "test", name)
        if not os.path.exists(path):
            raise Broken("there is no %s in %s" % (name, self.build))
        return path

    def call(self, command):
        done = subprocess.run(command, cwd=self.build, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, errors="replace", check=False)
        if done.returncode != 0:
            raise Broken("%s\n%s" % (" ".join(command), done.stdout))

    def compile(self, name, part, source, target, flags=()):
        """Compiles source as the build compiles the file name for one of its targets."""
        found = [entry for entry in self.commands.get(name, []) if part in entry["command"]]
        if not found:
            raise Broken("nothing of %s in %s is made of %s" % (part, self.build, name))
        words = [word for word in shlex.split(found[0]["command"])
                 if word not in ("-Werror", found[0]["file"], "-c")]
        place = words.index("-o")
        words[place:place + 2] = ["-w", "-c", source, "-o", target]
        place = next(i for i, word in enumerate(words) if word.startswith("-I"))
        words[place:place] = flags
        self.call(words)
        return target

    def link_words(self, program):
        target = "test_" + program.replace("/", "_")
        path = os.path.join(self.build, "CMakeFiles", target + ".dir", "link.txt")
        if not os.path.exists(path):
            raise Broken("there is no %s in %s" % (program, self.build))
        with open(path, encoding="utf-8") as file:
            return shlex.split(file.read())

    def make(self, mutant, program, folder):
        """The program with the mistake, in this folder."""
        words = self.link_words(program)
        if mutant.file.endswith(".h"):
            inputs = self.objects_of_header(mutant, program, folder, words)
        else:
            is_lab = any(os.path.basename(word) == "libkin-lab.a" for word in words)
            inputs = [self.object_of_source(mutant, folder, is_lab)]
        made = os.path.join(folder, os.path.basename(program))
        place = words.index("-o")
        words[place:place + 2] = inputs + ["-o", made]
        self.call(words)
        return made

    def object_of_source(self, mutant, folder, is_lab):
        """The object of a source with the mistake, for kin or for its lab; made once."""
        changed = os.path.join(folder, os.path.basename(mutant.file))
        target = changed + (".lab.o" if is_lab else ".o")
        if not os.path.exists(target):
            write(changed, mutant.text())
            self.compile(mutant.file, "kin_lab_" if is_lab else "kin_objects", changed, target)
        return target

    def objects_of_header(self, mutant, program, folder, words):
        """The objects of the source that the header is of, if there is one, and of the test, which
        takes the place of the test's own in words."""
        include = os.path.join(folder, "include")
        os.makedirs(os.path.join(include, os.path.dirname(mutant.file[len("src/"):])),
                    exist_ok=True)
        write(os.path.join(include, mutant.file[len("src/"):]), mutant.text())
        source = "test/%s.c" % program
        place = next(i for i, word in enumerate(words) if word.endswith(source + ".o"))
        words[place] = self.compile(source, "test_" + program.replace("/", "_") + ".dir",
                                    os.path.join(ROOT, source), os.path.join(folder, "test.o"),
                                    ["-I", include])
        body = mutant.file[:-1] + "c"
        if body not in self.commands:
            return []
        return [self.compile(body, "kin_objects", os.path.join(ROOT, body),
                             os.path.join(folder, "body.o"), ["-I", include])]

    def folder(self):
        """A place for the parts of one mutant; gone at the end of a with statement."""
        return tempfile.TemporaryDirectory(dir=self.scratch)


def run_test(program, test, limit):
    """How the one test of this name ended, and what was printed."""
    env = {name: value for name, value in os.environ.items()
           if name not in ("KIN_SEED", "KIN_HARD", "KIN_POLLER")}
    process = subprocess.Popen([program, test], stdin=subprocess.DEVNULL, cwd=ROOT, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                               errors="replace", start_new_session=True)
    try:
        printed, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the test dies with the program
        printed, _ = process.communicate()
        return ENDLESS, printed
    line = re.search(r"^(ok  |FAIL|skip) %s(?: (.*))?$" % re.escape(test), printed, re.M)
    if not line:
        return (ABSENT if process.returncode == 0 else FAILED), printed
    if line[1] == "FAIL" and re.match(r"still running after", line[2] or ""):
        return ENDLESS, printed
    return {"ok  ": PASSED, "FAIL": FAILED, "skip": SKIPPED}[line[1]], printed


class Health:
    """How each test does without a mistake, asked once."""

    def __init__(self, workshop):
        self.workshop, self.known, self.guard = workshop, {}, threading.Lock()

    def of(self, program, test):
        """The outcome and the seconds that it took."""
        with self.guard:
            lock = self.known.setdefault((program, test), [threading.Lock(), None])
        with lock[0]:
            if lock[1] is None:
                start = time.time()
                outcome, _ = run_test(self.workshop.program(program), test, HEALTHY_LIMIT_S)
                lock[1] = (outcome, time.time() - start)
            return lock[1]


def bound_of(seconds):
    """How long a test may take with a mistake that has taken so long without."""
    return BOUND_S + BOUND_S * seconds


def judge(workshop, health, mutant):
    """What to say of a mutant: ("ok  ", "FAIL" or "skip", the reason)."""
    try:
        diff = mutant.diff()
        healthy, seconds = health.of(mutant.program, mutant.test)
        if healthy == SKIPPED:
            return "skip", "%s %s is skipped here" % (mutant.program, mutant.test)
        if healthy == ABSENT:
            raise Broken("%s has no test %s" % (mutant.program, mutant.test))
        if healthy != PASSED:
            raise Broken("%s %s fails without the mistake" % (mutant.program, mutant.test))
        with workshop.folder() as folder:
            outcome, _ = run_test(workshop.make(mutant, mutant.program, folder), mutant.test,
                                  bound_of(seconds))
    except Broken as error:
        return "FAIL", str(error)
    if outcome == ENDLESS:
        return "ok  ", "killed by its bound: %s does not end" % mutant.test
    if outcome == FAILED:
        return "ok  ", ""
    return "FAIL", "mutant survived: %s\n%s %s passes" % (diff, mutant.program, mutant.test)


def check(options, mutants):
    """Runs each mistake's test; the line of each is printed as soon as it is known."""
    workshop = Workshop(options.build)
    health = Health(workshop)
    judged = [mutant for mutant in mutants if not mutant.reason]
    counts = {"ok  ": 0, "FAIL": 0, "skip": 0}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(judge, workshop, health, mutant): mutant for mutant in judged}
        for future in concurrent.futures.as_completed(futures):
            mutant, (verdict, reason) = futures[future], future.result()
            counts[verdict] += 1
            # a name without spaces, for those who count lines
            print("%s mutant_%s %s" % (verdict, os.path.basename(mutant.file),
                                       reason if verdict == "skip" else mutant.new))
            if reason and verdict != "skip":
                print("     " + reason.replace("\n", "\n     "))
            sys.stdout.flush()
    alike = [mutant for mutant in mutants if mutant.reason]
    for mutant in alike:
        print("# survives: %s\n#     %s" % (mutant.diff().replace("\n", "\n#     "), mutant.reason))
    asked = len(mutants) - counts["skip"]
    share = 100.0 * counts["ok  "] / asked if asked else 0.0
    print("# %d mutants: %d killed (%.1f %%), %d named as survivors, %d not killed, %d skipped" % (
        len(mutants), counts["ok  "], share, len(alike), counts["FAIL"], counts["skip"]))
    if not options.tenth and not options.only and share < WANTED_PERCENT:
        print("FAIL mutants_killed_share %.1f %% is less than %d %%" % (share, WANTED_PERCENT))
        return 1
    return 1 if counts["FAIL"] or not mutants else 0


# ---- looking for tests ----

RELATIONS = [(" < ", " <= "), (" > ", " >= "), (" == ", " != "), (" != ", " == "), (" <= ", " < "),
             (" >= ", " > "), (" && ", " || "), (" || ", " && "), (" + 1", ""), (" - 1", ""),
             ("true", "false"), ("false", "true"), ("NULL", "(void *)1")]


def mistakes_of(line):
    """Ways to get this line wrong, each a line."""
    if re.match(r"(KIN__(ASSERT|CHECK|AUDIT)|kin__lab_|/?\*|#|case |static |struct )", line):
        return
    condition = re.fullmatch(r"(if|while) \((.*)\)( \{)?", line)
    if condition and line.count("(") == line.count(")"):
        yield "%s (!(%s))%s" % (condition[1], condition[2], condition[3] or "")
    is_call = re.fullmatch(r"[a-z]\w*(->|\.|\w)*\(.*\);", line)
    if is_call or re.fullmatch(r"[a-z*]\S* [-+|&]?= [^;]*;", line):
        yield ";"
    if re.fullmatch(r"return [^;]+;", line) and line != "return 0;":
        yield "return 0;"
    for old, new in RELATIONS:
        if line.count(old) == 1:
            yield line.replace(old, new)


def draw(options, dice):
    """Random mistakes in a floor."""
    found = []
    for path in sorted(glob.glob(os.path.join(ROOT, "src", options.floor, "*.c"))):
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file.read().split("\n")]
        for line in sorted(set(lines)):
            if lines.count(line) == 1 and options.only in os.path.basename(path):
                found += [Mutant(os.path.relpath(path, ROOT), line, 0, new)
                          for new in mistakes_of(line)]
    return dice.sample(found, min(options.draw, len(found)))


def candidates(workshop, mutant, reach):
    """Programs that could notice, the likeliest first."""
    floor, stem = mutant.file.split("/")[1], os.path.basename(mutant.file)[:-2]
    names = []
    for path in glob.glob(os.path.join(ROOT, "test", "*", "*_test.c")):
        name = "/".join(path.split(os.sep)[-2:])[:-2]
        if os.path.exists(os.path.join(workshop.build, "test", name)):
            names.append(name)
    first = [name for name in names if name == "%s/%s_test" % (floor, stem)]
    first = [mutant.program] if mutant.program else first
    near = sorted(name for name in names if stem in name)
    same = sorted(name for name in names if name.startswith((floor + "/", "spec/")))
    api = sorted(name for name in names if name.startswith(("api/", "stress/")))
    has_lab = any("kin_lab_" in entry["command"]
                  for entry in workshop.commands.get(mutant.file, []))
    far = {"near": [], "floor": same, "far": same + api}[reach]
    return [name for name in dict.fromkeys(first + near + far)
            if has_lab or not name.startswith("lab/")]


def tests_of(program):
    """The names of a program's tests."""
    listed = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    return [line.split("\t")[0] for line in listed.stdout.splitlines()]


def search(workshop, health, mutant, reach):
    """The entry of a list, or what is known of a mistake that nobody noticed."""
    if mutant.test or mutant.reason:
        return mutant.entry()
    try:
        names = candidates(workshop, mutant, reach)
        with workshop.folder() as folder:
            for name in names:
                program = workshop.make(mutant, name, folder)
                for test in tests_of(program):
                    healthy, seconds = health.of(name, test)
                    if healthy == PASSED and run_test(program, test, bound_of(seconds))[0] in (
                            FAILED, ENDLESS):
                        mutant.program, mutant.test = name, test
                        return mutant.entry()
    except Broken as error:
        return "# cannot be made: %s\n%s" % (mutant.entry(),
                                             "\n# ".join([""] + str(error).splitlines()[-6:]))
    mutant.reason = "NOBODY NOTICES of " + " ".join(names)
    return mutant.entry()


def find(options, mutants):
    """Looks for the first test that notices each of them."""
    workshop = Workshop(options.build)
    health = Health(workshop)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for entry in pool.map(lambda mutant: search(workshop, health, mutant, options.reach),
                              mutants):
            print(entry, flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="a debug build with the tests")
    parser.add_argument("--tenth", action="store_true", help="a random tenth of the lists")
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    parser.add_argument("--find", default="", metavar="LIST", help="look for tests for a list")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="draw so many new ones")
    parser.add_argument("--floor", default="wait", choices=FLOORS, help="where to draw")
    parser.add_argument("--reach", default="floor", choices=["near", "floor", "far"],
                        help="look for a test in programs that have the file's name, in those of "
                        "its floor too, or in those of api and stress too")
    parser.add_argument("--list", action="store_true", help="names of the programs that are needed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    given = os.environ.get("KIN_MUTANTS", "")
    seed = int(given) if given.isdigit() else time.time_ns() % 1000000
    if options.draw:
        print("# seed %d" % seed)
        return find(options, draw(options, random.Random(seed)))
    if options.find:
        return find(options, read_list(options.find))
    mutants = []
    for path in sorted(glob.glob(os.path.join(HERE, "*.txt"))):
        mutants += [mutant for mutant in read_list(path) if options.only in mutant.name()]
    if options.tenth:
        mutants = [mutant for mutant in mutants if not mutant.reason]
        mutants = random.Random(seed).sample(mutants, (len(mutants) + 9) // 10)
    if options.list:
        print("\n".join(sorted({mutant.program for mutant in mutants if mutant.program})))
        return 0
    if options.tenth:
        print("# a tenth of the mutants: KIN_MUTANTS=%d draws the same ones again" % seed)
    return check(options, mutants)


if __name__ == "__main__":
    sys.exit(main())
