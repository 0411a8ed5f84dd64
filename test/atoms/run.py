#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the harnesses of atom mode, explores them, and sees to it that mutants are caught.

One line for each exploration and each mutant: "ok name" or "FAIL name". The files of kin are the
ones that are shipped, compiled with -fsanitize=thread and linked with libkin-atoms instead of the
sanitizer. A mutant is a copy of one file with one mistake in it: some exploration of its harness
must fail.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import harnesses  # noqa: E402  beside this file

WRAPPED = ["memcpy", "memmove", "memset", "__memcpy_chk", "__memmove_chk", "__memset_chk"]
MUTANT_LIMIT_S = 300


class Broken(Exception):
    """Something does not compile, or a mutant does not apply."""


class Builder:
    """Compiles what a harness is made of; objects are kept by what they were made from."""

    def __init__(self, options):
        self.cc = options.cc
        self.library = os.path.abspath(options.library)
        self.output = os.path.abspath(options.output)
        self.objects = {}
        self.lock = threading.Lock()  # of the objects, which harnesses share

    def call(self, command):
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise Broken(" ".join(command) + "\n" + done.stdout)

    def change(self, file, old, new, folder):
        """A copy of a file, below folder, in which new stands for old."""
        with open(os.path.join(ROOT, file), encoding="utf-8") as source:
            text = source.read()
        if text.count(old) != 1:
            raise Broken("%s has this %d times:\n%s" % (file, text.count(old), old))
        os.makedirs(os.path.join(folder, os.path.dirname(file)), exist_ok=True)
        with open(os.path.join(folder, file), "w", encoding="utf-8") as changed:
            changed.write(text.replace(old, new))

    def flags(self, name, is_watched):
        flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-fno-pie", "-D_GNU_SOURCE",
                 "-DKIN__ATOMS=1", "-I" + HERE, "-Iinclude", "-Isrc"]
        if is_watched:
            flags += ["-fsanitize=thread"] + (["-Wno-tsan"] if "gcc" in self.cc else [])
        if name in harnesses.FORTIFIED and is_watched:
            flags += ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
        if name not in harnesses.ALONE and is_watched:
            flags += ["-include", os.path.join(HERE, "door.h")]
        return flags

    def compile(self, name, source, folder, before=()):
        """One object; before is what stands in front of the include paths."""
        target = os.path.join(folder, source.replace("/", "_") + ".o")
        deps = target[:-2] + ".d"
        is_watched = os.path.basename(source) != "harness.c"
        path = source if os.path.isabs(source) else os.path.join(ROOT, source)
        for prefix in before:
            if os.path.exists(os.path.join(prefix, source)):
                path = os.path.join(prefix, source)
        includes = ["-I" + os.path.join(prefix, "src") for prefix in before]
        self.call([self.cc] + includes + self.flags(name, is_watched) +
                  ["-MMD", "-MF", deps, "-c", path, "-o", target])
        with open(deps, encoding="utf-8") as file:
            return target, file.read()

    def sources(self, name):
        own = ["test/atoms/%s.c" % name, "test/atoms/harness.c"]
        if name not in harnesses.WITHOUT_UNDER:
            own.append("test/atoms/under.c")
        return own + harnesses.HARNESSES[name]

    def base(self, name):
        """(source, object, what it depends on) of everything that a harness is linked from."""
        parts = []
        for source in self.sources(name):
            key = (source, name in harnesses.ALONE)
            with self.lock:
                if key not in self.objects:
                    folder = os.path.join(self.output, "alone" if key[1] else "base")
                    os.makedirs(folder, exist_ok=True)
                    self.objects[key] = self.compile(name, source, folder)
                parts.append((source,) + self.objects[key])
        return parts

    def link(self, objects, program):
        wrap = ["-Wl,--wrap=" + function for function in WRAPPED]
        # What the files under test call beside the paths that are explored is not there.
        self.call([self.cc, "-no-pie"] + objects + [self.library, "-rdynamic", "-o", program,
                  "-Wl,--unresolved-symbols=ignore-all"] + wrap)
        return program

    def program(self, name):
        return self.link([part[1] for part in self.base(name)], os.path.join(self.output, name))

    def mutant(self, name, number, file, old, new):
        """The harness with one file changed."""
        folder = os.path.join(self.output, "mutants", "%s-%d" % (name, number))
        self.change(file, old, new, folder)
        objects = []
        for source, target, depends in self.base(name):
            if file == source or ("/" + file) in depends or (" " + file) in depends:
                target, _ = self.compile(name, source, folder, [folder])
            objects.append(target)
        return self.link(objects, os.path.join(folder, name))


def explore(builder, name, only):
    """Runs a harness, or the explorations whose names contain a text: whether all is well, and
    the lines of the harness, which are the results."""
    try:
        program = builder.program(name)
    except Broken as broken:
        return False, "FAIL %s_builds\n%s" % (name, broken)
    done = subprocess.run([program] + only, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)
    is_well = done.returncode == 0
    if not is_well and not re.search("^FAIL ", done.stdout, re.M):
        return False, done.stdout + "FAIL %s_ends (status %d)" % (name, done.returncode)
    return is_well, done.stdout.rstrip("\n")


def label_of(name, mutant):
    return "mutant_%s_%s" % (name, mutant[0].replace(" ", "_"))


def hunt(builder, name, number, mutant):
    """One mutant: whether it is caught, and a line that says so."""
    _, file, old, new = mutant
    label = label_of(name, mutant)
    start = time.time()
    try:
        program = builder.mutant(name, number, file, old, new)
        done = subprocess.run([program], env=dict(os.environ, KIN_ATOMS_FIRST="1"),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=MUTANT_LIMIT_S, check=False)
    except Broken as broken:
        return False, "FAIL %s\n%s" % (label, broken)
    except subprocess.TimeoutExpired:
        return False, "FAIL %s is not caught in %d s" % (label, MUTANT_LIMIT_S)
    caught = [line for line in done.stdout.splitlines() if line.startswith("FAIL ")]
    if done.returncode == 0 or not caught:
        return False, "FAIL %s is not caught (status %d)\n%s" % (label, done.returncode,
                                                                  done.stdout[-3000:])
    told = [line[10:] for line in done.stdout.splitlines() if line.startswith("     FAIL ")]
    return True, "ok   %s caught in %.1f s by %s" % (
        label, time.time() - start, told[0][:160] if told else caught[0][5:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="only names what there is")
    parser.add_argument("--library", default="libkin-atoms.a")
    parser.add_argument("--output", default="build/atoms", help="where objects and programs go")
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--only", default="", help="only what has this in its name")
    parser.add_argument("--no-mutants", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a part of the large explorations")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2,
                        help="harnesses and mutants at once (the CPUs of this machine)")
    options = parser.parse_args()
    if options.quick:
        os.environ["KIN_ATOMS_QUICK"] = "1"
    builder = None if options.list else Builder(options)
    steps = []  # a function and what it is called with
    for name in harnesses.HARNESSES:
        mutants = [] if options.no_mutants else harnesses.MUTANTS.get(name, [])
        with open(os.path.join(HERE, name + ".c"), encoding="utf-8") as file:
            tests = re.findall(r'(?:name = |TEST\()"([\w+]+)"', file.read())
        if options.list:
            print("\n".join([name] + tests + [label_of(name, mutant) for mutant in mutants]))
            continue
        if options.only in name:
            steps.append((explore, builder, name, []))
        elif any(options.only in test for test in tests):
            steps.append((explore, builder, name, [options.only]))
        for number, mutant in enumerate(mutants):
            if options.only in name or options.only in label_of(name, mutant):
                steps.append((hunt, builder, name, number, mutant))
    are_well = True
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(*step) for step in steps]
        for future in concurrent.futures.as_completed(futures):
            is_well, text = future.result()
            are_well &= is_well
            print(text, flush=True)
    return 0 if are_well else 1


if __name__ == "__main__":
    sys.exit(main())
