#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds and runs the tests of kin; the last line is "N passed, N failed, N skipped".

Every test counts alone. Builds are kept in build/, one directory per variant, and what each test
printed in build/log/. A tool that this machine lacks makes its stage a skip, and KIN_STRICT=1 makes
a skip a failure. KIN_BUILD=directory takes the place of build/; two runs in one directory wait for
each other.
"""
import argparse
import concurrent.futures
import fcntl
import fnmatch
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(os.environ.get("KIN_BUILD") or os.path.join(ROOT, "build"))
LOG = os.path.join(BUILD, "log")
LINE = re.compile(r"^(ok  |FAIL|skip) (\S+?):?(?: (.*))?$", re.M)
SUMMARY = re.compile(r"^\S+: (\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
LIMIT_S = 84 * 60  # of the whole run on a slow machine: what has not run by then has failed
SHOWN = 12000  # characters of a failure's output that go to the terminal

FLOORS_HARD = ["task", "sched", "park", "wait", "scope", "otp", "api", "spec"]
# Programs that use descriptors or files: run once more with threads in place of io_uring.
POLLER_TESTS = re.compile(r"^(wait/(poll|poller|io|net|net_accept|file|copy|reader|writer|query|"
                          r"resolve|select|uring|signal|process)|api/(io|io_fault|io_parts|net|"
                          r"net_soak|file|peers|reader|resolve|select_outside|blocking|signal|"
                          r"process|every_wait)|stress/io_soak)_test$")
HARD_MODES = ["park", "steal", "one", "wrap", "slow", "stack"]
# Skips that are right, with KIN_STRICT too: what an emulator or a sanitizer cannot have.
EXPECTED_SKIPS = [("valgrind", "mem/stack_test stacks_past_the_cap_on_guards_have_canaries"),
                  ("aarch64", "plat/process_test forks_of_others_delay_nobody")] + [
    (stage, "scope/deadlock_test " + test)  # they have a thread of their own beside the program's
    for stage in ("tsan", "aarch64")
    for test in ("tasks_that_nothing_can_wake_are_reported", "who_sleeps_for_ever_wakes_nobody",
                 "a_timer_is_somebody_who_wakes", "threads_of_the_kernel_wake_nobody",
                 "a_thread_of_the_process_is_somebody_who_wakes",
                 "a_task_in_a_system_call_is_somebody_who_wakes",
                 "a_budget_that_nobody_can_give_is_reported")]
EXPECTED_SKIPS += [(stage, "sched/tape_dump_test a_deadlock_leaves_its_record")
                   for stage in ("tsan", "aarch64")]
EXPECTED_SKIPS += [("aarch64", "the program cannot be run from here"),
                   ("aarch64", "there is no objdump that can read this program")]
EXPECTED_SKIPS += [("aarch64", "an emulator gives memory back without taking a mapping apart")]
EXPECTED_SKIPS += [("aarch64", "io_uring is refused here")]  # the emulator has none: any test
EXPECTED_SKIPS += [("asan", "a fault is somebody else's here")]  # the sanitizer reports it
EXPECTED_SKIPS += [(stage, reason) for stage in ("asan", "tsan", "aarch64") for reason in (
    "the sanitizer does not know threads that end on the stack of a task",
    "ThreadSanitizer keeps signals back", "a sanitizer ends a process that has no more mappings",
    "the process has another thread, of a sanitizer or an emulator, that could wake",
    "the registers that the kernel tells are those of an emulator",
    "there is no limit to the number of mappings here")]
EXPECTED_SKIPS += [("valgrind", "valgrind has a limit of its own"),
                   ("valgrind", "the registers that the kernel tells are those of an emulator")]
# Servers are not installed for a test; where they are, it runs.
EXPECTED_SKIPS += [("foreign", "foreign " + test)
                   for test in ("library_hiredis", "library_libpq", "echo_nc_v6")]
EXPECTED_SKIPS += [("foreign", "foreign_dns server_v6")]
EXPECTED_SKIPS += [("foreign", "gdb cannot run a program here")]  # a sandbox may forbid it
FLOORS_VALGRIND = ["base", "mem", "task", "scope", "otp"]
# Left out: memcheck reports the very accesses that the tests of overflows make on purpose. The
# others are long there, and what they use of memory others use, too.
BUT_VALGRIND = ["scope/overflow_test", "base/kin_test_test", "scope/janus_test",
                "scope/budget_test", "scope/run_test"]
FLOORS_SWITCH = ["plat", "mem", "task", "sched", "park", "stress"]  # what a switch can break


running = set()  # process groups that were started and not yet waited for
begin = time.time()


class Failure(Exception):
    """A step that the rest of its stage needs has failed; what it printed is the argument."""


# ---- commands ----


def run(command, timeout=600, env=None, cwd=ROOT):
    """Runs a command to its end or its timeout; returns (status, output). What it started dies
    with it."""
    try:
        process = subprocess.Popen(command, cwd=cwd, env=dict(os.environ, **(env or {})),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace",
                                   start_new_session=True)
    except OSError as error:
        return 127, "%s: %s\n" % (command[0], error)
    running.add(process.pid)
    timeout = max(1, min(timeout, begin + LIMIT_S - time.time()))
    try:
        output, _ = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        kill_group(process.pid)
        output, _ = process.communicate()
        output += "\nstopped after %d s: %s\n" % (timeout, " ".join(command))
        status = -1
    kill_group(process.pid)
    running.discard(process.pid)
    return status, output


def on_interrupt(number, _frame):
    """The user or the system ends the run: nothing that it started stays behind."""
    for group in list(running):
        kill_group(group)
    print("stopped by signal %d" % number, flush=True)
    os._exit(128 + number)


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def must(command, **kwargs):
    """Runs a command that has to succeed; returns its output."""
    status, output = run(command, **kwargs)
    if status != 0:
        raise Failure("%s\nstatus %d\n%s" % (" ".join(command), status, output))
    return output


def have(*tools):
    """The first of the tools that is not here, or None."""
    for tool in tools:
        if shutil.which(tool) is None:
            return tool
    return None


# ---- results ----


class Results:
    """What happened so far, and how it is shown."""

    def __init__(self, strict):
        self.strict = strict
        self.passed, self.failed, self.skipped = 0, [], []
        self.stage = ""

    def ok(self, count=1):
        self.passed += count

    def fail(self, name, output=""):
        self.failed.append("%s: %s" % (self.stage, name))
        if output:
            print("    FAIL  %s" % name)
            shown = output if len(output) <= SHOWN else (
                output[:SHOWN // 2] + "\n... the whole is in build/log/\n" + output[-SHOWN // 2:])
            print("\n".join("      " + line for line in shown.rstrip().splitlines()), flush=True)

    def skip(self, name, reason):
        is_expected = {(self.stage, name), (self.stage, reason)} & set(EXPECTED_SKIPS)
        if self.strict and not is_expected:
            self.fail(name, "skipped, which KIN_STRICT forbids: " + reason)
        else:
            self.skipped.append("%s: %s: %s" % (self.stage, name, reason))
            print("    skip  %s: %s" % (name, reason), flush=True)

    def lines(self, name, status, output):
        """Counts the "ok", "FAIL" and "skip" lines of a program that prints one per test."""
        counts = {"ok  ": 0, "FAIL": 0, "skip": 0}
        for outcome, test, rest in LINE.findall(output):
            counts[outcome] += 1
            if outcome == "ok  ":
                self.ok()
            elif outcome == "FAIL":
                self.fail("%s %s" % (name, test))
            else:
                self.skip("%s %s" % (name, test), rest)
        return counts


def log(stage, name, output):
    path = os.path.join(LOG, stage, name.replace("/", "_") + ".log")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(output)


# ---- the suite: one program per test/<floor>/*_test.c ----


class Context:
    """What every stage is given."""

    def __init__(self, options, results):
        self.only = options.only
        self.jobs = options.jobs
        self.results = results

    def wants(self, name):
        return self.only in name

    def suite(self, floors=None):
        """(floor/program, filters) of the test programs that ONLY chooses, by the name of the
        program or of a test in it."""
        chosen = []
        for path in sorted(glob.glob(os.path.join(ROOT, "test", "*", "*_test.c"))):
            floor = os.path.basename(os.path.dirname(path))
            name = "%s/%s" % (floor, os.path.splitext(os.path.basename(path))[0])
            if floors is not None and floor not in floors:
                continue
            if self.wants(name):
                chosen.append((name, []))
                continue
            with open(path, encoding="utf-8") as file:
                tests = re.findall(r"^\s*KIN_TEST(?:_LIMIT)?\(\s*(\w+)", file.read(), re.M)
            if any(self.wants(test) for test in tests):
                chosen.append((name, [self.only]))
        return chosen


def configure_and_build(ctx, variant, flags, targets, keep_going=False):
    """Builds targets of a variant in build/<variant>; returns (status, output). Stages that use the
    same variant give the same flags, so that what one has built the next one has."""
    directory = os.path.join(BUILD, variant)
    flags = ["-UKIN_CHOSEN", "-DKIN_TESTS=ON", "-DCMAKE_C_FLAGS=-Werror"] + flags
    status, output = run(["cmake", "-S", ROOT, "-B", directory] + flags, timeout=120)
    if status == 0:
        command = ["cmake", "--build", directory, "-j", str(ctx.jobs), "--target"] + targets
        status, output = run(command + (["--", "-k"] if keep_going else []), timeout=900)
    log(variant, "build", output)
    return status, output


def errors_in(output):
    """The lines of a build's output that say what is wrong, each once."""
    lines = [line for line in output.splitlines()
             if re.search(r"error:|warning:|undefined reference|Error:", line)]
    return "\n".join(dict.fromkeys(lines)) or output


def build_suite(ctx, variant, flags, chosen):
    """Builds the named test programs and returns those that are there. When something does not
    compile, the others are still built; what is missing then is one failure, with the names."""
    names = [name for name, _ in chosen]
    targets = ["test_" + name.replace("/", "_") for name in names]
    flags = flags + ["-DKIN_CHOSEN=" + ";".join(targets)]
    start = time.time()
    status, output = configure_and_build(ctx, variant, flags, ["kin_chosen"])
    if status != 0:
        shutil.rmtree(os.path.join(BUILD, variant, "test"), ignore_errors=True)
        status, output = configure_and_build(ctx, variant, flags, ["kin_chosen"], keep_going=True)
        missing = [name for name in names if not os.path.exists(program_of(variant, name))]
        ctx.results.fail("the build of %s" % variant,
                         "%s\nnot built: %s" % (errors_in(output), ", ".join(missing)))
    print("    built in %.0f s" % (time.time() - start), flush=True)
    return [(name, filters) for name, filters in chosen
            if os.path.exists(program_of(variant, name))]


def program_of(variant, name):
    return os.path.join(BUILD, variant, "test", name)


def run_program(ctx, variant, name, filters, env, prefix, label):
    """Runs one test program and counts its tests."""
    start = time.time()
    status, output = run(prefix + [program_of(variant, name)] + filters, timeout=900, env=env)
    log(label, name, output)
    return name, status, output, time.time() - start


def run_suite(ctx, variant, chosen, env=None, prefix=None, label=None):
    """Runs test programs and shows a line for each as it ends. Two run at once for each CPU, since
    most of the time a test waits; but one does where something else runs the program, since that
    computes."""
    results = ctx.results
    label = label or variant
    with concurrent.futures.ThreadPoolExecutor(ctx.jobs if prefix else 2 * ctx.jobs) as pool:
        futures = [pool.submit(run_program, ctx, variant, name, filters, env, prefix or [], label)
                   for name, filters in chosen]
        for future in concurrent.futures.as_completed(futures):
            name, status, output, seconds = future.result()
            counts = results.lines(name, status, output)
            end = SUMMARY.search(output)
            bad = counts["FAIL"] > 0
            if not end or (status != 0 and not bad):
                results.fail("%s did not run to its end (status %d)" % (name, status))
                bad = True
            mark = "FAIL" if bad else "ok"
            print("    %-5s %-32s %4d passed%s%s  %.1f s" % (
                mark, name, counts["ok  "],
                ", %d failed" % counts["FAIL"] if counts["FAIL"] else "",
                ", %d skipped" % counts["skip"] if counts["skip"] else "", seconds), flush=True)
            if bad:
                print("\n".join("      " + line for line in output[-SHOWN:].rstrip().splitlines()),
                      flush=True)


def variant_stage(variant, flags, tools=(), floors=None, env=None, prefix=None, but=()):
    """A stage that builds a variant and runs the suite in it, but for what these patterns name."""

    def stage(ctx):
        chosen = [choice for choice in ctx.suite(floors)
                  if not any(fnmatch.fnmatch(choice[0], pattern) for pattern in but)]
        if not chosen:
            return
        missing = have(*tools)
        if missing:
            ctx.results.skip(variant, "%s is not installed" % missing)
            return
        chosen = build_suite(ctx, variant, flags, chosen)
        run_suite(ctx, variant, chosen, env, prefix)

    return stage


def debug_flags():
    return ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_COMPILER=gcc"]


def release_flags(compiler):
    return ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_COMPILER=" + compiler]


# ---- stages on top of the debug build ----


def stage_valgrind(ctx):
    chosen = [choice for choice in ctx.suite(FLOORS_VALGRIND) if choice[0] not in BUT_VALGRIND]
    if not chosen:
        return
    if have("valgrind"):
        ctx.results.skip("valgrind", "valgrind is not installed")
        return
    chosen = build_suite(ctx, "debug", debug_flags(), chosen)
    run_suite(ctx, "debug", chosen, {"KIN_TEST_SCALE": "20"},
              ["valgrind", "-q", "--error-exitcode=77", "--leak-check=full",
               "--errors-for-leak-kinds=definite", "--fair-sched=yes",
               "--suppressions=" + os.path.join(ROOT, "test/valgrind.supp")], "valgrind")


def stage_hard(ctx):
    chosen = ctx.suite(FLOORS_HARD)
    if not chosen:
        return
    chosen = build_suite(ctx, "debug", debug_flags(), chosen)
    for mode in HARD_MODES:
        print("  KIN_HARD=%s" % mode, flush=True)
        ctx.results.stage = "hard " + mode
        run_suite(ctx, "debug", chosen, {"KIN_HARD": mode, "KIN_TEST_SCALE": "2"}, None,
                  "hard-" + mode)


def stage_poller(ctx):
    """The tests of descriptors and files with the poller that is not chosen by default."""
    chosen = [choice for choice in ctx.suite() if POLLER_TESTS.match(choice[0])]
    if not chosen:
        return
    built = build_suite(ctx, "debug", debug_flags(), chosen)
    print("  KIN_POLLER=epoll", flush=True)
    ctx.results.stage = "poller epoll"
    run_suite(ctx, "debug", built, {"KIN_POLLER": "epoll"}, None, "poller-epoll")


def stage_mutants(ctx):
    """Mistakes put into kin, each of which a test must notice: a tenth of them, drawn anew each
    time; KIN_MUTANTS=n repeats a draw, KIN_MUTANTS=all takes them all."""
    which = os.environ.setdefault("KIN_MUTANTS", str(time.time_ns() % 1000000))
    command = [sys.executable, "test/mutants/run.py", "--build", os.path.join(BUILD, "debug"),
               "--jobs", str(ctx.jobs), "--only", "" if ctx.only == "mutants" else ctx.only]
    command += [] if which == "all" else ["--tenth"]
    names = must(command + ["--list"]).split()
    if not names:
        return
    build_suite(ctx, "debug", debug_flags(), [(name, []) for name in names])
    output = script(ctx, "mutants", command, timeout=3600)
    print("\n".join("    " + line for line in output.splitlines() if line.startswith("# ")))


# Ways in which distributions and users compile, and the floors of the suite that run in each. What
# may be uninitialised is a guess of the compiler, which other flags make wrong.
HARDENED = ("-D_FORTIFY_SOURCE=3 -fcf-protection=full -fstack-clash-protection "
            "-fstack-protector-strong")
FORTIFIED = ["lab/interpose_test", "lab/conformance_task_join_test", "lab/file_test"]
FLAG_SETS = [
    ("hardened", "-O2 " + HARDENED,
     ["plat", "mem", "task", "sched", "park", "wait", "scope", "api", "lab"]),
    ("small", "-Os", ["plat", "mem", "task", "sched", "park", "scope"]),
    ("lto", "-O3 -flto=auto", ["plat", "task", "sched", "park"])]


def stage_flags(ctx):
    """Release builds by other flags than ours; a hardened program keeps its mark for IBT."""
    for variant, flags, floors in FLAG_SETS:
        chosen = [choice for choice in ctx.suite(floors)
                  if not choice[0].startswith("lab/") or choice[0] in FORTIFIED]
        if not chosen:
            continue
        print("  " + flags, flush=True)
        ctx.results.stage = "flags " + variant
        chosen = build_suite(ctx, variant, [
            "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_COMPILER=gcc", "-DCMAKE_C_FLAGS_RELEASE=",
            "-DCMAKE_C_FLAGS=-Werror -Wno-error=maybe-uninitialized " + flags], chosen)
        run_suite(ctx, variant, chosen)
    if os.uname().machine == "x86_64" and os.path.exists(os.path.join(BUILD, "hardened")):
        item(ctx, "flags_a_hardened_program_tracks_branches", lambda: tracks_branches(
            os.path.join(BUILD, "hardened")))


def tracks_branches(directory):
    """Every object says that it is fit for IBT: a linker marks a program only if all of them do."""
    must(["cmake", "--build", directory, "--target", "kin_static"], timeout=300)
    notes = must(["readelf", "-nW", os.path.join(directory, "libkin.a")])
    unfit = [part.split("\n")[0] for part in notes.split("File: ")[1:] if "IBT" not in part]
    if unfit or "IBT" not in notes:
        raise Failure("these are not marked for branch tracking: " + ", ".join(unfit))


# ---- scripts that print a line per test ----


def script(ctx, label, command, timeout=600):
    """Runs a script that prints "ok name", "FAIL name" or "skip name reason" lines; returns what it
    has printed."""
    status, output = run(command, timeout=timeout)
    log(label, "output", output)
    counts = ctx.results.lines(label, status, output)
    total = sum(counts.values())
    if counts["FAIL"] == 0 and (status != 0 or total == 0):
        ctx.results.fail("%s: status %d, %d results" % (label, status, total), output or "silence")
    elif counts["FAIL"]:
        print("\n".join("      " + line for line in output[-SHOWN:].rstrip().splitlines()))
    print("    %s: %d ok, %d failed, %d skipped" % (
        label, counts["ok  "], counts["FAIL"], counts["skip"]), flush=True)
    return output


def stage_model(ctx):
    names = [os.path.basename(path) for path in glob.glob(os.path.join(ROOT, "test/model/*.pml"))]
    if not any(ctx.wants(name) for name in names + ["model"]):
        return
    if have("spin"):
        ctx.results.skip("model", "spin is not installed")
        return
    only = [ctx.only] if ctx.only and ctx.only != "model" else []
    script(ctx, "model", ["test/model/run.sh"] + only, timeout=1800)


def stage_atoms(ctx):
    """kin's lock-free code as it is shipped, and mutants of it, under every interleaving."""
    names = must([sys.executable, "test/atoms/run.py", "--list"]).split()
    if ctx.only != "atoms" and not any(ctx.wants(name) for name in names):
        return
    for compiler, options in (("gcc", []), ("clang", ["--no-mutants", "--quick"])):
        if have(compiler):
            ctx.results.skip("atoms by " + compiler, "%s is not installed" % compiler)
            continue
        status, output = configure_and_build(ctx, compiler, release_flags(compiler), ["kin_atoms"])
        if status != 0:
            ctx.results.fail("the build of atom mode by " + compiler, errors_in(output))
            continue
        directory = os.path.join(BUILD, compiler)
        script(ctx, "atoms-" + compiler, [
            sys.executable, "test/atoms/run.py", "--cc", compiler,
            "--library", os.path.join(directory, "libkin-atoms.a"),
            "--output", os.path.join(directory, "atoms"), "--jobs", str(ctx.jobs),
            "--only", "" if ctx.only == "atoms" else ctx.only] + options, timeout=1800)


def stage_tidy(ctx):
    if ctx.wants("tidy"):
        script(ctx, "tidy", [sys.executable, "tools/tidy.py"])
        script(ctx, "tidy_test", [sys.executable, "test/tools/tidy_test.py"])
        script(ctx, "tables", [sys.executable, "test/tools/tables_test.py"])
    if ctx.wants("nightly"):
        script(ctx, "nightly", [sys.executable, "test/tools/nightly_test.py"])


def stage_headers(ctx):
    if not ctx.only or ctx.only in "compile_fail":
        script(ctx, "compile_fail", ["test/api/compile_fail_test.sh", ctx.only])
    if ctx.only and not any(ctx.only in "header_" + os.path.basename(path)
                            for path in glob.glob(os.path.join(ROOT, "include/kin/*.h"))):
        return
    script(ctx, "headers", ["test/api/headers_test.sh", ctx.only])


# ---- items: steps of a stage that count as one test each ----


def item(ctx, name, step):
    """Runs step(); it counts as one test that passes when no Failure comes out."""
    if not ctx.wants(name):
        return
    start = time.time()
    try:
        step()
    except Failure as failure:
        ctx.results.fail(name, str(failure))
        return
    ctx.results.ok()
    print("    ok    %-40s %.1f s" % (name, time.time() - start), flush=True)


def expect_app(output):
    """What the consumers' program prints when all is well."""
    if "KIN_OK, sum 328350" not in output:
        raise Failure("the program printed: " + output)


def version_of_project():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"project\(kin VERSION ([\d.]+)", file.read()).group(1)


def stage_install(ctx):
    if not any(ctx.wants("install_" + part) for part in (
            "files", "pkgconfig", "find_package", "add_subdirectory", "symbols")):
        return
    missing = have("pkg-config", "g++")
    if missing:
        ctx.results.skip("install", "%s is not installed" % missing)
        return
    scratch = os.path.join(BUILD, "install")
    staged, moved = os.path.join(scratch, "stage"), os.path.join(scratch, "moved")
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
    install = must(["make", "--no-print-directory", "install", "PREFIX=/opt/kin",
                    "DESTDIR=" + staged, "JOBS=%d" % ctx.jobs], timeout=900)
    log("install", "make", install)
    os.rename(os.path.join(staged, "opt", "kin"), moved)

    def files():
        wanted = ["lib/libkin.a", "lib/libkin.so", "lib/libkin.so.0", "include/kin/kin.h",
                  "lib/pkgconfig/kin.pc", "lib/cmake/kin/kin-config.cmake",
                  "share/man/man3/kin_spawn.3", "share/man/man7/kin.7", "bin/kin",
                  "lib/libkin-lab.a", "lib/pkgconfig/kin-lab.pc", "share/man/man1/kin-lab.1",
                  "lib/libkin-atoms.a", "lib/pkgconfig/kin-atoms.pc", "share/kin/kin-gdb.py"]
        absent = [name for name in wanted if not os.path.exists(os.path.join(moved, name))]
        left = [name for name in os.listdir(os.path.join(staged, "opt"))]
        if absent or left:
            raise Failure("absent: %s; outside the prefix: %s" % (absent, left))

    item(ctx, "install_files", files)
    install_pkgconfig(ctx, scratch, moved)
    install_cmake(ctx, scratch, moved)
    install_lab(ctx, scratch, moved)

    def silent_about_the_build():
        places = [place.encode() for place in {ROOT, BUILD}]
        telling = [path for path in glob.glob(os.path.join(moved, "**"), recursive=True)
                   if os.path.isfile(path) and not os.path.islink(path)
                   and any(place in open(path, "rb").read() for place in places)]
        if telling:
            raise Failure("these name the directory that kin was built in: " + ", ".join(telling))

    def symbols():
        must([sys.executable, "tools/symbols.py", os.path.join(moved, "lib/libkin.so.0")])

    item(ctx, "install_names_no_directory_of_the_build", silent_about_the_build)
    item(ctx, "install_symbols_equal_the_headers", symbols)


def install_pkgconfig(ctx, scratch, moved):
    """Programs compiled with what pkg-config says about an installed tree that was moved."""
    env = {"PKG_CONFIG_PATH": os.path.join(moved, "lib/pkgconfig")}
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]

    def flags(*options):
        return must(["pkg-config"] + list(options) + ["kin"], env=env).split()

    def compiled(name, compiler, source, libs, run_env=None):
        program = os.path.join(scratch, name)
        must(compiler + warnings + ["-O2", "test/consumer/" + source, "-o", program]
             + flags("--cflags") + libs)
        output = must([program], timeout=60, env=run_env)
        expect_app(output)
        if "kin %s:" % version_of_project() not in output:
            raise Failure("another version: " + output)

    def version():
        if flags("--modversion") != [version_of_project()]:
            raise Failure("kin.pc and CMakeLists.txt name different versions")

    shared = {"LD_LIBRARY_PATH": os.path.join(moved, "lib")}
    archive = [os.path.join(moved, "lib/libkin.a"), "-pthread"]
    item(ctx, "install_pkgconfig_version", version)
    item(ctx, "install_pkgconfig_c11_shared", lambda: compiled(
        "c_shared", ["gcc", "-std=c11"], "app.c", flags("--libs"), shared))
    item(ctx, "install_pkgconfig_cpp17_shared", lambda: compiled(
        "cpp_shared", ["g++", "-std=c++17"], "app.cpp", flags("--libs"), shared))
    item(ctx, "install_pkgconfig_c11_archive", lambda: compiled(
        "c_archive", ["gcc", "-std=c11"], "app.c", archive))
    item(ctx, "install_pkgconfig_cpp17_archive", lambda: compiled(
        "cpp_archive", ["g++", "-std=c++17"], "app.cpp", archive))
    item(ctx, "install_pkgconfig_c11_all_static", lambda: compiled(
        "c_static", ["gcc", "-std=c11", "-static"], "app.c", flags("--static", "--libs")))


def install_cmake(ctx, scratch, moved):
    """Projects that use kin through CMake, installed or embedded."""

    def project(kind, programs, *definitions):
        directory = os.path.join(scratch, kind + "-".join(definitions).replace("/", "_")[-40:])
        must(["cmake", "-S", "test/consumer/" + kind, "-B", directory,
              "-DCMAKE_PREFIX_PATH=" + moved] + list(definitions), timeout=120)
        must(["cmake", "--build", directory, "-j", str(ctx.jobs)], timeout=600)
        for program in programs:
            expect_app(must([os.path.join(directory, program)], timeout=60))

    item(ctx, "install_find_package_c11_and_cpp17", lambda: project(
        "find_package", ["app_c", "app_cpp", "app_static", "app_shared"]))
    item(ctx, "install_find_package_shared", lambda: project(
        "find_package", ["app_c", "app_cpp"], "-DBUILD_SHARED_LIBS=ON"))
    item(ctx, "install_add_subdirectory_c11_and_cpp17", lambda: project(
        "add_subdirectory", ["app_c", "app_cpp"]))
    item(ctx, "install_add_subdirectory_shared", lambda: project(
        "add_subdirectory", ["app_c", "app_cpp"], "-DBUILD_SHARED_LIBS=ON"))


def install_lab(ctx, scratch, moved):
    """Tests of users with the lab as it is installed: by pkg-config and by CMake."""
    env = {"PKG_CONFIG_PATH": os.path.join(moved, "lib/pkgconfig")}

    def compiled(name, compiler, source, *options):
        program = os.path.join(scratch, name)
        words = must(["pkg-config", "--cflags", "--libs", "kin-lab"], env=env).split()
        must(compiler + ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2"] + list(options) +
             ["test/consumer/" + source, "-o", program] + words)
        return program

    def passes(program):
        # Two seconds, the default, are enough for 420,000 runs on a fast machine only.
        output = must([program, "-t", "8m"], timeout=600, cwd=scratch)
        if "1 passed (1 completely)" not in output:
            raise Failure("the program printed: " + output)

    def finds():
        program = compiled("bank_waits", ["gcc", "-std=c11"], "bank.c", "-DPATIENCE=KIN_NEVER")
        command = [program]
        for _ in range(2):
            status, output = run(command, timeout=60, cwd=scratch)
            if status != 1 or "bank_balances: deadlock" not in output:
                raise Failure("status %d, expected 1\n%s" % (status, output))
            command = [program, "--replay"] + re.findall(r"--replay (\S+\.kinlab)", output)

    def found_by_cmake():
        directory = os.path.join(scratch, "find_package_lab")
        must(["cmake", "-S", "test/consumer/find_package", "-B", directory,
              "-DCMAKE_PREFIX_PATH=" + moved], timeout=120)
        must(["cmake", "--build", directory, "--target", "bank"], timeout=600)
        passes(os.path.join(directory, "bank"))

    def told_apart():
        kin = os.path.join(moved, "bin/kin")
        must([kin, "lab", compiled("bank", ["gcc", "-std=c11"], "bank.c")], timeout=60, cwd=scratch)
        status, output = run([kin, "lab", shutil.which("true")], timeout=60, cwd=scratch)
        if status != 2 or "its main is not KIN_LAB_MAIN()" not in output:
            raise Failure("status %d, expected 2\n%s" % (status, output))

    item(ctx, "install_kin_lab_tells_programs_apart", told_apart)
    item(ctx, "install_pkgconfig_lab_c11", lambda: passes(
        compiled("bank", ["gcc", "-std=c11"], "bank.c")))
    item(ctx, "install_pkgconfig_lab_cpp17", lambda: must(
        [compiled("lab_cpp", ["g++", "-std=c++17"], "lab.cpp")], timeout=60))
    item(ctx, "install_pkgconfig_lab_finds_and_replays", finds)
    item(ctx, "install_find_package_lab", found_by_cmake)


def stage_dist(ctx):
    if ctx.wants("without_lab"):
        script(ctx, "without_lab", [sys.executable, "test/tools/without_lab_test.py"])
    parts = ("sources", "gcc", "clang", "aarch64", "generic", "cpp")
    if not any(ctx.wants("dist_" + part) for part in parts):
        return

    def sources():
        with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
            listed = set(re.findall(r"\bsrc/(?!lab/)[\w/]+\.c\b", file.read()))
        there = {os.path.relpath(path, ROOT)
                 for path in glob.glob(os.path.join(ROOT, "src", "**", "*.c"), recursive=True)
                 if "/lab/" not in path}  # the lab takes whatever is there
        if listed != there:
            raise Failure("CMakeLists.txt lists, but there is no: %s\nnot listed there: %s" % (
                sorted(listed - there), sorted(there - listed)))

    item(ctx, "dist_sources_are_all_listed", sources)
    dist = os.path.join(BUILD, "dist")
    must([sys.executable, "tools/amalgamate.py", "--output", dist])

    def compiled(name, compiler, flags, prefix=()):
        program = os.path.join(dist, name)
        must(compiler + ["-O2", "-Wall", "-Wextra", "-Werror", "-DKIN_SINGLE_FILE", "-I" + dist,
                         "test/consumer/app.c", os.path.join(dist, "kin.c"), "-o", program,
                         "-pthread"] + flags, timeout=300)
        expect_app(must(list(prefix) + [program], timeout=120))

    def cplusplus():
        kin = os.path.join(dist, "kin.o")
        program = os.path.join(dist, "app_cpp")
        must(["gcc", "-O2", "-c", os.path.join(dist, "kin.c"), "-o", kin], timeout=300)
        must(["g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-DKIN_SINGLE_FILE",
              "-I" + dist, "test/consumer/app.cpp", kin, "-o", program, "-pthread"], timeout=300)
        expect_app(must([program], timeout=60))

    item(ctx, "dist_gcc", lambda: compiled("app_gcc", ["gcc"], []))
    item(ctx, "dist_generic", lambda: compiled("app_generic", ["gcc"], ["-DKIN_SWITCH_GENERIC=1"]))
    for tool, name, step in (
            ("clang", "dist_clang", lambda: compiled("app_clang", ["clang"], [])),
            ("g++", "dist_cpp", cplusplus),
            ("aarch64-linux-gnu-gcc", "dist_aarch64", lambda: compiled(
                "app_aarch64", ["aarch64-linux-gnu-gcc"], [], QEMU))):
        if have(tool):
            ctx.results.skip(name, "%s is not installed" % tool)
        else:
            item(ctx, name, step)


QEMU = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]


# Examples with libraries of others, and what pkg-config calls these.
FOREIGN = {"curl": "libcurl", "hiredis": "hiredis", "libpq": "libpq"}


def has_library(package):
    return not have("pkg-config") and run(["pkg-config", "--exists", package])[0] == 0


def foreign_examples(ctx):
    """Those that can be built and are wanted; the others are skipped."""
    names = []
    for name, package in FOREIGN.items():
        if not ctx.wants("example_foreign_" + name):
            continue
        if has_library(package):
            names.append("foreign_" + name)
        else:
            ctx.results.skip("example_foreign_" + name, "%s is not installed" % package)
    return names


# They do nothing without a client: test/foreign has some.
EXAMPLES_SERVING = ["server"]


def check_book(kin, program):
    """A page of the book of found bugs: its bug is found, its remedy holds completely."""
    must([kin, "lab", program, "fixed", "--dpor"], timeout=180)
    status, output = run([program, "bug", "--no-files"], timeout=180)
    if status != 1 or "<-- here" not in output:
        raise Failure("%s bug\nstatus %d, expected 1\n%s" % (program, status, output))


def stage_examples(ctx):
    sources = sorted(glob.glob(os.path.join(ROOT, "examples", "*.c")))
    names = [os.path.splitext(os.path.basename(path))[0] for path in sources]
    names = [name for name in names if ctx.wants("example_" + name)] + foreign_examples(ctx)
    book = [os.path.splitext(os.path.basename(path))[0]
            for path in sorted(glob.glob(os.path.join(ROOT, "examples", "lab", "*.c")))]
    book = [name for name in book if ctx.wants("example_lab_" + name)]
    demo = ["kin_program"] if ctx.wants("example_kin_demo") or book else []
    variants = [("release", "gcc", release_flags("gcc")),
                ("asan", "asan", ASAN_FLAGS if not have("clang") else None)]
    for label, variant, flags in variants:
        if not names + demo:
            return
        if flags is None:
            ctx.results.skip("examples under clang's address sanitizer", "clang is not installed")
            continue
        status, output = configure_and_build(
            ctx, variant, flags,
            ["example_" + name for name in names] + ["example_lab_" + name for name in book] + demo)
        if status != 0:
            ctx.results.fail("the build of the examples, %s" % label, errors_in(output))
            continue
        for name in [name for name in names if name not in EXAMPLES_SERVING]:
            program = os.path.join(BUILD, variant, "examples",
                                   re.sub("^foreign_(?!fd$)", "foreign/", name))
            item(ctx, "example_%s_%s" % (name, label),
                 lambda program=program: must([program], timeout=180))
        program = os.path.join(BUILD, variant, "kin")
        for name in book:
            page = os.path.join(BUILD, variant, "examples", "lab", name)
            item(ctx, "example_lab_%s_%s" % (name, label),
                 lambda kin=program, page=page: check_book(kin, page))
        item(ctx, "example_kin_demo_" + label, lambda program=program: must(
            [program, "demo", "--quick", "--no-million"], timeout=180))
        if label == "release" and ctx.wants("doc"):
            library = os.path.join(BUILD, variant, "libkin.a")
            lab = os.path.join(BUILD, variant, "libkin-lab.a")
            script(ctx, "doc", [sys.executable, "doc/check.py", "--library", library] +
                   (["--lab", lab] if os.path.exists(lab) else []))


def stage_foreign(ctx):
    if not ctx.wants("foreign"):
        return
    libraries = [name for name, package in FOREIGN.items() if has_library(package)]
    status, output = configure_and_build(
        ctx, "gcc", release_flags("gcc"),
        ["example_" + name for name in ("cancel", "echo", "proxy", "resolve", "server")] +
        ["example_foreign_" + name for name in libraries])
    if status != 0:
        ctx.results.fail("the build of the examples", errors_in(output))
        return
    examples = os.path.join(BUILD, "gcc", "examples")
    for label, name in (("foreign", "foreign"), ("foreign_dns", "dns"), ("foreign_gdb", "gdb")):
        script(ctx, label, [sys.executable, "test/foreign/%s_test.py" % name, examples],
               timeout=1200)


FUZZ_ROUNDS = {"lab": ["-runs=10000", "-seed=1"]}  # whole runs of tasks; it must find something


def stage_fuzz(ctx):
    """Programs of libFuzzer's, each for a fixed number of rounds, or for KIN_FUZZ_S seconds. What
    they have learnt stays in build/fuzz, and so does what breaks one."""
    names = [os.path.basename(path)[:-len("_fuzz.c")]
             for path in sorted(glob.glob(os.path.join(ROOT, "test", "fuzz", "*_fuzz.c")))]
    names = [name for name in names if ctx.wants("fuzz_" + name)]
    if not names:
        return
    if have("clang"):
        ctx.results.skip("fuzz", "clang is not installed")
        return
    status, output = configure_and_build(ctx, "asan", ASAN_FLAGS,
                                         ["fuzz_" + name for name in names])
    if status != 0:
        ctx.results.fail("the build of the programs for fuzzing", errors_in(output))
        return
    seconds = int(os.environ.get("KIN_FUZZ_S") or 0)
    for name in names:
        kept = os.path.join(BUILD, "fuzz", name)
        os.makedirs(kept, exist_ok=True)
        command = [os.path.join(BUILD, "asan", "fuzz_" + name), "-timeout=20", "-max_len=700",
                   "-dict=test/fuzz/%s.dict" % name, "-artifact_prefix=%s/fuzz/" % BUILD]
        command += ["-max_total_time=%d" % seconds, kept] if seconds else \
            FUZZ_ROUNDS.get(name, ["-runs=300000"])
        item(ctx, "fuzz_" + name, lambda name=name, command=command: log(
            "fuzz", name, must(command, timeout=seconds + 600)))


def stage_man(ctx):
    if not any(ctx.wants("man_" + part) for part in ("pages", "lint", "examples")):
        return
    import kinheaders  # beside this file
    pages = os.path.join(BUILD, "man")
    functions = []
    for header in kinheaders.load(os.path.join(ROOT, "include", "kin")):
        functions += header.functions
        exported = [name for name in header.exported if not name.endswith("_")]
        lacking = set(exported) - {function.name for function in header.functions}
        if lacking:
            ctx.results.fail("man_pages", "no comment for: " + ", ".join(sorted(lacking)))

    def generated():
        shutil.rmtree(pages, ignore_errors=True)
        must([sys.executable, "tools/man.py", "--output", pages])
        for function in functions:
            if not os.path.exists(os.path.join(pages, "man3", function.name + ".3")):
                raise Failure("no page for " + function.name)
            for field in ("From", "Returns"):
                if field not in function.fields:
                    raise Failure("%s: the comment has no %s line" % (function.name, field))
            if not function.examples:
                raise Failure("%s: the comment has no example" % function.name)
            if function.faults:
                raise Failure("%s: %s" % (function.name, "\n".join(function.faults)))

    def linted():
        paths = sorted(glob.glob(os.path.join(pages, "man*", "*")))
        # The pages carry no date, so that the same headers give the same pages.
        said = [line for line in run(["mandoc", "-T", "lint", "-W", "warning"] + paths)[1]
                .splitlines() if "missing date" not in line]
        if said:
            raise Failure("\n".join(said))

    def compiles(function, number, code):
        path = os.path.join(pages, "example_%s_%d.c" % (function.name, number))
        with open(path, "w", encoding="utf-8") as file:
            file.write("#include <kin/kin.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
                       "#include <string.h>\n" + code)
        must(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function",
              "-Wno-unused-parameter",  # a callback has what it has
              "-fsyntax-only", "-Iinclude", path])

    item(ctx, "man_pages", generated)
    if have("mandoc"):
        ctx.results.skip("man_lint", "mandoc is not installed")
    else:
        item(ctx, "man_lint", linted)
    for function in functions:
        for number, code in enumerate(function.examples):
            item(ctx, "man_examples_%s_%d" % (function.name, number),
                 lambda f=function, n=number, c=code: compiles(f, n, c))


# ---- the list ----

ASAN_FLAGS = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_COMPILER=clang",
              "-DKIN_SANITIZE=address,undefined"]
ASAN_ENV = {"KIN_TEST_SCALE": "2", "UBSAN_OPTIONS": "print_stacktrace=1",
            "ASAN_OPTIONS": "detect_leaks=1"}
TSAN_FLAGS = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_COMPILER=clang", "-DKIN_SANITIZE=thread"]
TSAN_ENV = {"KIN_TEST_SCALE": "3", "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:"
                                                        "report_thread_leaks=0"}
CROSS_FLAGS = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_SYSTEM_NAME=Linux",
               "-DCMAKE_SYSTEM_PROCESSOR=aarch64", "-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc"]
CROSS_TOOLS = ("aarch64-linux-gnu-gcc", "qemu-aarch64")
# The emulator makes a fork of each start of a process. Memory of glib's slices has a lock that the
# child of such a fork may find held for ever; malloc's locks are free in a child.
CROSS_ENV = {"KIN_TEST_SCALE": "4", "KIN_EMULATED": "1", "G_SLICE": "always-malloc"}
# What an emulator needs too long for: two seconds here are half a minute there. What is left of the
# lab has all of its parts; what these explore with them is the same on any machine.
LAB_LONG = ["lab/conformance_*"] + ["lab/%s_test" % name for name in (
    "book", "chrome", "crash", "engine", "fault", "file", "history", "main", "net", "oracle",
    "picture", "replay", "s9", "silence", "sound", "stop", "story", "world")]

STAGES = [
    ("debug", "gcc, debug build with assertions", variant_stage("debug", debug_flags())),
    ("release", "gcc, release build", variant_stage("gcc", release_flags("gcc"))),
    ("clang", "clang, release build", variant_stage(
        "clang", release_flags("clang"), ["clang"], None, None, None,
        ("lab/*",))),  # clang's lab is that of asan
    ("asan", "clang, address and undefined behaviour sanitizers", variant_stage(
        "asan", ASAN_FLAGS, ["clang"], None, ASAN_ENV, None,
        ("lab/conformance_*",))),  # their bodies run here outside of the lab
    ("tsan", "clang, thread sanitizer", variant_stage(
        "tsan", TSAN_FLAGS, ["clang"], None, TSAN_ENV, None,
        ("lab/*", "atoms/*", "api/atoms_test"))),  # they have one thread
    ("valgrind", "memcheck over a part of the debug build", stage_valgrind),
    ("hard", "the debug build under each hard mode", stage_hard),
    ("poller", "descriptors and files with each poller", stage_poller),
    ("mutants", "mistakes that a test must notice", stage_mutants),
    ("aarch64", "cross build, run by qemu", variant_stage(
        "aarch64", CROSS_FLAGS, CROSS_TOOLS, None, CROSS_ENV, QEMU, LAB_LONG)),
    ("generic", "the portable switch", variant_stage(
        "generic", debug_flags() + ["-DKIN_SWITCH=generic"], (), FLOORS_SWITCH)),
    ("flags", "gcc, release builds by other flags", stage_flags),
    ("model", "models of the protocols", stage_model),
    ("atoms", "lock-free code under every interleaving", stage_atoms),
    ("tidy", "the rules of the house", stage_tidy),
    ("headers", "each public header alone, as C11, C17 and C++17", stage_headers),
    ("install", "install, move, and use by pkg-config and CMake", stage_install),
    ("dist", "the amalgamation", stage_dist),
    ("examples", "examples and the showcase, built and run", stage_examples),
    ("foreign", "programs and libraries of others on the loopback", stage_foreign),
    ("fuzz", "what comes from outside, by libFuzzer", stage_fuzz),
    ("man", "man pages and the examples in the headers", stage_man),
]


# Run when nobody names a stage. Builds by other flags are long, and have little new to say.
USUAL = [name for name, _, _ in STAGES if name != "flags"]


def lock_build():
    """Keeps a second run out of the build directory until this one is over."""
    file = open(os.path.join(BUILD, "lock"), "w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another run uses %s; waiting for its end" % BUILD, flush=True)
        fcntl.flock(file, fcntl.LOCK_EX)
    return file


def parse_options():
    names = ", ".join(name for name, _, _ in STAGES)
    parser = argparse.ArgumentParser(description=__doc__, epilog="Stages: " + names,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", default="", help="only these stages, separated by commas")
    parser.add_argument("--only", default=os.environ.get("ONLY", ""), metavar="TEXT",
                        help="only tests whose program or name contains TEXT")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 2, 8),
                        help="compilers at once (the CPUs of this machine), and half of the "
                             "test programs at once")
    options = parser.parse_args()
    options.stages = [name for name in options.stage.split(",") if name]
    unknown = set(options.stages) - {name for name, _, _ in STAGES}
    if unknown:
        parser.error("no such stage: %s; there are %s" % (", ".join(sorted(unknown)), names))
    return options


def main():
    options = parse_options()
    results = Results(os.environ.get("KIN_STRICT", "") not in ("", "0"))
    ctx = Context(options, results)
    os.environ.pop("KIN_HARD", None)
    os.environ.pop("KIN_POLLER", None)
    os.makedirs(LOG, exist_ok=True)
    lock = lock_build()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_interrupt)
    chosen = [stage for stage in STAGES if stage[0] in (options.stages or USUAL)]
    for number, (name, title, stage) in enumerate(chosen, 1):
        print("[%d/%d] %s: %s" % (number, len(chosen), name, title), flush=True)
        results.stage = name
        start = time.time()
        if start > begin + LIMIT_S:
            results.fail(name, "the %d minutes for the whole run are over" % (LIMIT_S // 60))
            continue
        try:
            stage(ctx)
        except Failure as failure:
            results.fail(name, str(failure))
        except Exception:  # a mistake in this file must not hide the other stages
            results.fail(name, traceback.format_exc())
        print("    %.0f s, %.0f s in all" % (time.time() - start, time.time() - begin), flush=True)

    for title, names in (("failed", results.failed), ("skipped", results.skipped)):
        if names:
            print("\n%s:" % title)
            print("\n".join("    " + name for name in names))
    if results.passed + len(results.failed) + len(results.skipped) == 0:
        results.failed.append("nothing")
        print("nothing was run: no test matches '%s'" % options.only)
    summary = "%d passed, %d failed, %d skipped" % (
        results.passed, len(results.failed), len(results.skipped))
    with open(os.path.join(LOG, "summary"), "w", encoding="utf-8") as file:
        file.write(summary + "\n")
    lock.close()
    print("\n" + summary, flush=True)
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
