#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds kin's benchmarks and their peers, runs them side by side, prints and keeps the figures.

Every participant is a program called as `PROGRAM CASE WORKERS N ROUNDS` that prints lines of
`name value unit`. A case is run in rounds: in each round every participant runs once, in an order
that rotates, so that a disturbance of the machine falls on all of them alike. The first round warms
the machine up and is dropped, except where one run takes seconds.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
LIMIT_S = 150  # one run of one program
CRATES = "/usr/share/cargo/registry"


# ---- what is measured ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Metric:
    name: str  # as the programs print it
    label: str
    unit: str
    target: float = None  # at most; None: context
    against: tuple = ()  # peers, and at most how many times their figure
    own: bool = False  # not everybody's: whoever does not print it is left out


@dataclasses.dataclass(frozen=True)
class Case:
    key: str
    title: str
    program: str  # the CASE argument
    workers: int
    n: int
    rounds: int
    peers: tuple
    metrics: tuple
    variants: tuple = (("kin", ()),)  # label and further arguments of kin's own runs
    cost: str = "light"  # light, medium, heavy: decides how often it is repeated
    load: str = ""  # the program is a server: the mode of peers/load, which starts it
    is_lab: bool = False  # it is one of the lab's


def cost(unit, target=None, label="each"):
    return (Metric("time", label, unit, target),)


PARKED = (
    Metric("memory", "memory each", "B", 4500),
    Metric("create", "create all", "s", 2.0),
    Metric("wake", "wake and finish all", "s", 0.4),
)
SLEEPERS = (
    Metric("cpu", "CPU in all", "s", 2.9),
    Metric("late_p50", "lateness p50", "ms"),
    Metric("late_p99", "lateness p99", "ms", 100),
)
QUEUED = (
    Metric("memory", "memory each", "B", 200),
    Metric("create", "spawn all", "s"),
    Metric("run", "run all", "s"),
)
STEAL = (
    Metric("steal_min", "latency min", "us"),
    Metric("steal_p50", "latency p50", "us"),
    Metric("steal_p99", "latency p99", "us", 10),
    Metric("stolen", "samples that were stolen", "%"),
    Metric("asked_p50", "the thief asks first, p50", "us"),
    Metric("asked_p99", "the thief asks first, p99", "us"),
)
HALVES = (
    Metric("lone", "one by a child, one by its parent : both alone", "x", 0.526),
    Metric("both", "by two children : both alone", "x", 0.526),
)
BUFFERED2 = cost("ns", 60) + (
    Metric("crossed", "items that changed the worker", "%", own=True),
)
CLOSE = (
    Metric("awake", "the last one awake", "ms", 20),
    Metric("close", "the call itself", "ms"),
    Metric("over", "all over", "ms"),
)
DEFER = cost("ns", 10) + (Metric("scoped", "a scope for each", "ns"),)
CANCEL = cost("ns", 1000) + (
    Metric("p99", "p99", "ns"),
    Metric("joined", "until it is joined", "ns"),
)
CANCEL_TREE = (
    Metric("awake", "the last leaf awake", "s", 1.0),
    Metric("joined", "joined", "s", 2.0),
    Metric("create", "create all", "s"),
)
HOG = (
    Metric("ratio_p50", "latency p50 beside it : without it", "x", 2),
    Metric("ratio_p99", "latency p99 beside it : without it", "x", 2),
    Metric("alone_p50", "latency p50 without it", "us"),
    Metric("beside_p50", "latency p50 beside it", "us"),
)
ECHO = (
    Metric("time", "each", "ns",
           against=(("epoll", 1 / 0.97), ("tokio", 1), ("libuv", 1), ("go", 1))),
    Metric("cpu", "CPU of the server each", "ns"),
    Metric("rate", "messages", "k/s"),
    Metric("p50", "latency p50", "us"),
    Metric("p99", "latency p99", "us", against=(("epoll", 1.1),)),
    Metric("least", "messages of the connection with the fewest : the mean", "x"),
)
IDLE = (
    Metric("memory", "memory each", "B", 8192),
    Metric("kernel", "small objects of the kernel each", "B"),
    Metric("connections", "connections that were opened", "n"),
    Metric("servers", "servers that had them", "n"),
)
FILE = (
    Metric("time", "each", "ms", against=(("plain", 1 / 0.95),)),
    Metric("cpu", "CPU", "ms"),
)
LAB = (
    Metric("random", "an execution, random", "us", 3.33),
    Metric("dpor", "an execution, DPOR", "us", 6.67),
    Metric("steps", "steps of an execution", "n"),
)
SHRINK = (
    Metric("found", "found and shrunk", "ms", 1000),
    Metric("steps", "steps of the execution", "n"),
)
SHARED = (
    Metric("time", "each", "ns"),
    Metric("cpu", "CPU each", "ns"),
)
CALL = SHARED + (
    Metric("crossed", "calls that changed the worker", "%", own=True),
)
ALIVE = (
    Metric("memory", "memory each", "B"),
    Metric("start", "start each", "ns"),
    Metric("stop", "stop each", "ns"),
)
MONITOR = cost("ns") + (Metric("revoked", "monitor, and take it back", "ns", own=True),)
ETS = (Metric("ets", "Erlang's ets with texts", "ns", own=True),)
RESTART = (
    Metric("time", "each", "us"),
    Metric("p50", "p50", "us"),
    Metric("p99", "p99", "us"),
)
CHILDREN = (
    Metric("start", "start each", "us"),
    Metric("memory", "memory each", "B"),
    Metric("stop", "stop all, each", "us"),
)
ALL = ("go", "boost", "erlang", "tokio")
SERVERS = ("epoll", "tokio", "libuv", "go")
POOLS = ("go", "tbb", "tokio")
CHANNELS = ("go", "boost", "tokio")
ACTORS = ("go", "erlang", "tokio")
M = 1_000_000

CASES = (
    Case("switch", "bare switch", "switch", 1, 20 * M, 0, ("boost",), cost("ns", 4)),
    Case("yield2", "yield, 2 tasks", "yield", 1, 2, M, ALL, cost("ns", 10)),
    Case("yield1000", "yield, 1000 tasks", "yield", 1, 1000, 2000, ALL, cost("ns", 15)),
    Case("spawn1", "spawn+run+join, one at a time", "spawn1", 1, 300_000, 0, ALL, cost("ns", 45)),
    Case("batch10k", "spawn+run+join, batches of 10k", "batch", 1, 10_000, 30, ALL,
         cost("ns", 30)),
    Case("batch100k", "spawn+run+join, batches of 100k", "batch", 1, 100_000, 3, ALL,
         cost("ns", 30)),
    Case("batch1m", "spawn+run+join, batches of 1M", "batch", 1, M, 1, ("go", "erlang", "tokio"),
         cost("ns", 30), cost="medium"),
    Case("parkwake", "park+wake, same worker", "parkwake", 1, 500_000, 0, ALL, cost("ns", 30)),
    Case("fib1", "fork-join fib(27), 1 worker, per spawn", "fib", 1, 27, 3, POOLS,
         cost("ns", 40)),
    Case("fib2", "fork-join fib(27), 2 workers, per spawn", "fib", 2, 27, 3, POOLS,
         cost("ns", 25)),
    Case("skynet1", "skynet 1M by joins, 1 worker", "skynet", 1, M, 2, POOLS, cost("ms", 60)),
    Case("skynet2", "skynet 1M by joins, 2 workers", "skynet", 2, M, 2, POOLS, cost("ms", 60)),
    Case("parked", "1M parked tasks", "parked", 1, M, 0, ("go", "erlang", "tokio"), PARKED,
         (("kin", ()), ("kin 64K", ("64",))), "heavy"),
    Case("queued", "10M queued tasks", "queued", 1, 10 * M, 0, ("tokio",), QUEUED, cost="heavy"),
    Case("halves", "two halves of 1 ms each, 2 workers", "halves", 2, 300, 0, (), HALVES),
    Case("steal", "steal while the thief searches, 2 workers", "steal", 2, 10_000, 0, (), STEAL),
    Case("sleepers", "1M sleeping tasks, deadlines within 10 s", "sleepers", 1, M, 10_000,
         ("go", "erlang", "tokio"), SLEEPERS, cost="sleep"),
    Case("pingpong", "channel without a buffer, ping-pong", "pingpong", 1, 300_000, 0, CHANNELS,
         cost("ns", 42)),
    Case("chan1", "channel of 128, 1 sender, 1 receiver", "chan", 1, 2 * M, 1, CHANNELS,
         cost("ns", 25)),
    Case("chan4", "channel of 128, 4 senders, 4 receivers", "chan", 1, 2 * M, 4, ("go", "boost"),
         cost("ns", 30)),
    Case("chan2w", "channel of 128, 1:1, 2 workers", "chan", 2, 2 * M, 1, ("go", "tokio"),
         BUFFERED2),
    Case("crossbuf", "channel of 128, 1:1, forced across 2 workers", "crossbuf", 2, M, 0, CHANNELS,
         cost("ns")),
    Case("crossping", "channel without a buffer, forced across 2 workers", "crossping", 2, 20_000,
         0, CHANNELS, cost("ns", 1000)),
    Case("ring", "ring of 1000 channels, per hop", "ring", 1, 1000, 500, CHANNELS, cost("ns", 70)),
    Case("select2", "select over 2 channels", "select", 1, 300_000, 2, ("go", "tokio"),
         cost("ns", 65)),
    Case("select8", "select over 8 channels", "select", 1, 300_000, 8, ("go", "tokio"),
         cost("ns", 105)),
    Case("mutex1", "mutex, nobody else", "mutex", 1, 5 * M, 1, CHANNELS, cost("ns", 12)),
    Case("mutex1000", "mutex, 1000 tasks", "mutex", 1, 5 * M, 1000, CHANNELS, cost("ns", 20)),
    Case("mutexheld", "mutex, 1000 tasks, held over a yield", "mutexheld", 1, 500_000, 1000,
         CHANNELS, cost("ns")),
    Case("chansky1", "skynet 1M by channels, 1 worker", "chansky", 1, M, 1, ("go", "tokio"),
         cost("ms", 300), cost="medium"),
    Case("chansky2", "skynet 1M by channels, 2 workers", "chansky", 2, M, 1, ("go", "tokio"),
         cost("ms", 300), cost="medium"),
    Case("close", "close with 60 000 parked receivers", "close", 1, 60_000, 3, CHANNELS, CLOSE),
    Case("nursery0", "open+join of an empty nursery", "nursery0", 1, M, 0, ("go", "tokio"),
         cost("ns", 40)),
    Case("checkpoint", "checkpoint", "checkpoint", 1, 50 * M, 0, ("go",), cost("ns", 2)),
    Case("defer", "defer, 16 to a scope", "defer", 1, 5 * M, 0, ("go",), DEFER),
    Case("cancel", "cancel of a parked task to its return", "cancel", 1, 50_000, 0,
         ("go", "tokio"), CANCEL),
    Case("canceltree", "cancel of a tree with 1M parked leaves", "canceltree", 1, M, 0,
         ("go", "tokio"), CANCEL_TREE, cost="heavy"),
    Case("hog", "10 tasks beside a hog", "hog", 1, 100, 10, ("go", "tokio"), HOG),
    Case("echo_64", "TCP echo of 64 B, 64 connections", "echo", 1, 64, 2000, SERVERS, ECHO,
         load="echo"),
    Case("echo_1000", "TCP echo of 64 B, 1000 connections", "echo", 1, 1000, 2000, SERVERS, ECHO,
         load="echo"),
    Case("idle100k", "100k idle TCP connections", "echo", 1, 100_000, 0, SERVERS, IDLE,
         cost="sleep", load="idle"),
    Case("file1g", "reading a file of 1 GiB in memory", "file", 1, 1024, 4, ("plain",), FILE),
    Case("server_call", "server, call and reply", "call", 1, 300_000, 1, ACTORS, cost("ns")),
    Case("server_call2w", "server, call and reply, 2 workers", "call", 2, 300_000, 1, ACTORS, CALL,
         cost="medium"),
    Case("server_many", "server, 1000 clients", "call", 1, M // 2, 1000, ACTORS, cost("ns")),
    Case("server_many2w", "server, 1000 clients, 2 workers", "call", 2, M // 2, 1000, ACTORS, CALL,
         cost="medium"),
    Case("server_pairs", "1000 servers, a client each", "callpairs", 1, M // 2, 1000, ACTORS,
         cost("ns")),
    Case("server_pairs2w", "1000 servers, a client each, 2 workers", "callpairs", 2, M // 2, 1000,
         ACTORS, CALL, cost="medium"),
    Case("server_cast", "server, casts of one sender", "cast", 1, 2 * M, 1, ACTORS, cost("ns")),
    Case("server_cast8", "server, casts of 8 senders", "cast", 1, 2 * M, 8, ACTORS, cost("ns")),
    Case("server_cast8_2w", "server, casts of 8 senders, 2 workers", "cast", 2, 2 * M, 8, ACTORS,
         SHARED, cost="medium"),
    Case("server_start", "server, start and stop", "serverstart", 1, 100_000, 0, ACTORS,
         cost("ns")),
    Case("server_alive", "100k servers at once", "serveralive", 1, 100_000, 0, ACTORS, ALIVE,
         cost="medium"),
    Case("monitor", "a task, its end and the word of it", "monitor", 1, 200_000, 0, ACTORS,
         MONITOR),
    Case("watched", "1000 tasks wait for the end of one, per task", "watched", 1, 1000, 100, ACTORS,
         cost("ns")),
    Case("whereis", "looking up one of 10 000 names", "whereis", 1, 3 * M, 10_000, ACTORS,
         cost("ns") + ETS),
    Case("whereis2w", "looking up one of 10 000 names, 2 workers", "whereis", 2, 3 * M, 10_000,
         ACTORS, SHARED + ETS, cost="medium"),
    Case("sup_restart", "a child fails until it is back", "restart", 1, 20_000, 0, ("erlang",),
         RESTART),
    Case("sup_storm", "100 children fail at once, each", "restartall", 1, 100, 50, ("erlang",),
         cost("us")),
    Case("sup_children", "a supervisor of 100k children", "children", 1, 100_000, 0, ("erlang",),
         CHILDREN, cost="medium"),
    Case("lab_words", "the lab, three tasks at shared words", "words", 1, 300_000, 0, (), LAB,
         is_lab=True),
    Case("lab_streams", "the lab, four tasks, a channel, a mutex", "streams", 1, 200_000, 0, (),
         LAB, is_lab=True),
    Case("lab_shrink", "the lab, a failure after 1000 steps", "shrink", 1, 1, 0, (), SHRINK,
         is_lab=True),
)

# How many measured rounds, and how many dropped before them: (full, quick).
REPEATS = {
    "light": ((7, 1), (3, 1)),
    "medium": ((5, 1), (2, 0)),
    "heavy": ((5, 0), (2, 0)),
    "sleep": ((3, 0), (1, 0)),
}


# ---- building -----------------------------------------------------------------------------------


class Missing(Exception):
    """A participant cannot take part; the text says why."""


def run(command, **options):
    """Runs a build command; its output is shown only when it fails."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise Missing("`%s` failed:\n%s" % (" ".join(map(str, command)), done.stdout[-2000:]))
    return done.stdout


def need(tool, package):
    if not shutil.which(tool):
        raise Missing("%s is not installed (package %s)" % (tool, package))
    return tool


def need_file(path, package):
    if not pathlib.Path(path).exists():
        raise Missing("%s is not there (package %s)" % (path, package))


def package_version(name):
    query = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True, check=False)
    return query.stdout.strip() or "version unknown"


@dataclasses.dataclass
class Built:
    command: list  # what the arguments of a case are appended to
    version: str
    recipe: list  # the build commands, for the report
    load: pathlib.Path = None  # kin's: the load of servers
    lab: pathlib.Path = None  # kin's: the program of the lab's cases


def build_kin(out):
    cc = os.environ.get("CC") or "gcc"
    need(cc.split()[0], "gcc")
    need("cmake", "cmake")
    if not any((ROOT / "src/scope").glob("*.c")):
        raise Missing("the engine is not in this tree (src/scope is empty)")
    tree = out / "tree"
    configure = ["cmake", "-S", ROOT, "-B", tree, "-DCMAKE_BUILD_TYPE=Release", "-DKIN_TESTS=OFF",
                 "-DKIN_PROGRAMS=OFF", "-DKIN_SHARED=OFF"]
    make = ["cmake", "--build", tree, "--target", "kin_static", "kin_lab", "-j2"]
    program = out / "bench"
    compile_ = cc.split() + ["-std=gnu11", "-O2", "-g", "-D_GNU_SOURCE", "-Wall", "-Wextra",
                             "-I", ROOT / "include", "-I", ROOT / "src", "-I", HERE,
                             *sorted(HERE.glob("*.c")), tree / "libkin.a", "-lpthread",
                             "-o", program]
    load = out / "load"
    compile_load = compile_plain(cc, "load/load.c", load)
    lab = out / "lab"
    compile_lab = cc.split() + ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra",
                                "-I", ROOT / "include", HERE / "lab/lab_bench.c",
                                tree / "libkin-lab.a", "-lpthread", "-o", lab]
    for command in (configure, make, compile_, compile_load, compile_lab):
        run(command)
    version = run(cc.split() + ["--version"]).splitlines()[0]
    return Built([program], "this tree (%s), %s" % (revision(), version),
                 [configure, make, compile_, compile_load, compile_lab], load, lab)


def compile_plain(cc, source, program, *libraries):
    return cc.split() + ["-std=gnu11", "-O2", "-Wall", "-Wextra", HERE / "peers" / source,
                         *libraries, "-o", program]


def revision():
    git = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return git.stdout.strip() or "no revision"


def build_go(out):
    go = need("go", "golang-go")
    command = [go, "build", "-o", out / "bench", *sorted((HERE / "peers/go").glob("*.go"))]
    run(command, env=dict(os.environ, GO111MODULE="off", GOCACHE=str(out / "cache"),
                          GOFLAGS="", GOTOOLCHAIN="local"))
    return Built([out / "bench"], run([go, "version"]).strip(), [command])


def build_epoll(out):
    cc = os.environ.get("CC") or "gcc"
    command = compile_plain(need(cc.split()[0], "gcc") and cc, "epoll/bench.c", out / "bench")
    run(command)
    return Built([out / "bench"], "a loop around epoll, written by hand", [command])


def build_plain(out):
    cc = os.environ.get("CC") or "gcc"
    command = compile_plain(need(cc.split()[0], "gcc") and cc, "plain/bench.c", out / "bench")
    run(command)
    return Built([out / "bench"], "system calls and nothing else", [command])


def build_libuv(out):
    cc = os.environ.get("CC") or "gcc"
    need_file("/usr/include/uv.h", "libuv1-dev")
    command = compile_plain(cc, "libuv/bench.c", out / "bench", "-luv")
    run(command)
    return Built([out / "bench"], "libuv " + package_version("libuv1-dev"), [command])


def build_boost(out):
    cxx = need("g++", "g++")
    need_file("/usr/include/boost/fiber/all.hpp", "libboost-fiber-dev")
    command = [cxx, "-std=c++17", "-O2", "-o", out / "bench", HERE / "peers/boost/bench.cpp",
               "-lboost_fiber", "-lboost_context", "-lpthread"]
    run(command)
    return Built([out / "bench"], "Boost " + package_version("libboost-fiber-dev"), [command])


def build_tbb(out):
    cxx = need("g++", "g++")
    need_file("/usr/include/tbb/task_group.h", "libtbb-dev")
    command = [cxx, "-std=c++17", "-O2", "-o", out / "bench", HERE / "peers/tbb/bench.cpp",
               "-ltbb", "-lpthread"]
    run(command)
    return Built([out / "bench"], "TBB " + package_version("libtbb-dev"), [command])


def build_erlang(out):
    need("erl", "erlang-base")
    command = [need("erlc", "erlang-base"), "-o", out,
               *sorted((HERE / "peers/erlang").glob("*.erl"))]
    run(command)
    start = ["erl", "+S", "{workers}:{workers}", "+sbwt", "none", "+P", "2000000", "-noshell",
             "-pa", out, "-run", "bench", "main"]
    return Built(start, "Erlang/OTP, erlang-base " + package_version("erlang-base"), [command])


def build_tokio(out):
    cargo = need("cargo", "cargo")
    need_file(CRATES, "librust-tokio-dev")
    for name in ("Cargo.toml", "bench.rs", "server.rs"):
        shutil.copy(HERE / "peers/tokio" / name, out / name)
    (out / "Cargo.lock").unlink(missing_ok=True)
    (out / ".cargo").mkdir(exist_ok=True)
    (out / ".cargo/config.toml").write_text(
        '[source.crates-io]\nreplace-with = "system"\n[source.system]\ndirectory = "%s"\n' % CRATES)
    command = [cargo, "build", "--release", "--offline", "-j2"]
    run(command, cwd=out, env=dict(os.environ, CARGO_TARGET_DIR=str(out / "target")))
    lock = (out / "Cargo.lock").read_text()
    found = re.search(r'name = "tokio"\nversion = "([^"]+)"', lock)
    rustc = run(["rustc", "--version"]).strip()
    return Built([out / "target/release/bench"],
                 "tokio %s, %s" % (found.group(1) if found else "?", rustc), [command])


BUILDERS = {"kin": build_kin, "go": build_go, "boost": build_boost, "tbb": build_tbb,
            "erlang": build_erlang, "tokio": build_tokio, "epoll": build_epoll,
            "libuv": build_libuv, "plain": build_plain}


def build_all(names, directory):
    """Builds everybody; returns those that can run and, by name, why the others cannot."""
    built, missing = {}, {}
    for name in names:
        out = directory / name
        out.mkdir(parents=True, exist_ok=True)
        progress("building %s" % name)
        try:
            built[name] = BUILDERS[name](out)
        except Missing as reason:
            missing[name] = str(reason)
            progress("%s is left out: %s" % (name, missing[name].splitlines()[0]))
    return built, missing


# ---- measuring ----------------------------------------------------------------------------------


def progress(text):
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def command_of(case, built, name, extra):
    start = [str(part).format(workers=case.workers) for part in built[name].command]
    if case.is_lab:
        start = [str(built[name].lab)]
    numbers = [case.workers, case.n, case.rounds, *extra]
    command = start + [case.program] + [str(number) for number in numbers]
    if case.load:
        command = [str(built["kin"].load), case.load, str(case.n), str(case.rounds)] + command
    return command


def measure(command):
    """One run of one program: its figures by name, or a text that says why there are none."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return "took longer than %d s" % LIMIT_S
    figures = {}
    for line in done.stdout.splitlines():
        fields = line.split()
        if len(fields) == 3:
            figures[fields[0]] = (float(fields[1]), fields[2])
    if done.returncode != 0:
        tail = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        if done.returncode < 0:
            return "died of %s: %s" % (signal.Signals(-done.returncode).name, tail)
        return "ended with status %d: %s" % (done.returncode, tail)
    return figures or "printed no figure"


@dataclasses.dataclass
class Series:
    """Everything one participant did in one case."""
    command: list
    samples: dict = dataclasses.field(default_factory=dict)  # metric name -> values
    failures: list = dataclasses.field(default_factory=list)

    def add(self, figures, metrics):
        if isinstance(figures, str):
            self.failures.append(figures)
            return
        for metric in metrics:
            if metric.name not in figures:
                if metric.own:
                    continue
                self.failures.append("did not print " + metric.name)
                continue
            value, unit = figures[metric.name]
            if unit != metric.unit:
                self.failures.append("printed %s in %s" % (metric.name, unit))
                continue
            self.samples.setdefault(metric.name, []).append(value)

    def median(self, name):
        values = self.samples.get(name)
        return statistics.median(values) if values else None


def run_case(case, built, quick, rounds_wanted):
    """Returns the series of every participant, by label, in the order of the tables."""
    plan = [(label, "kin", extra) for label, extra in case.variants if "kin" in built]
    plan += [(peer, peer, ()) for peer in case.peers if peer in built and
             ("kin" in built or not case.load)]
    series = {label: Series(command_of(case, built, name, extra)) for label, name, extra in plan}
    rounds, dropped = REPEATS[case.cost][1 if quick else 0]
    if rounds_wanted:
        rounds = rounds_wanted
    labels = list(series)
    for index in range(-dropped, rounds):
        turn = index % len(labels) if labels else 0
        seen = []
        for label in labels[turn:] + labels[:turn]:
            if series[label].failures:
                continue  # it failed once: the reason is reported, and time is not spent again
            figures = measure(series[label].command)
            if index >= 0 or isinstance(figures, str):
                series[label].add(figures, case.metrics)
            first = case.metrics[0].name
            shown = figures if isinstance(figures, str) else "%.4g" % figures.get(first, (-1,))[0]
            seen.append("%s %s" % (label, shown))
        if index >= 0:
            progress("%-10s %d/%d  %s" % (case.key, index + 1, rounds, "  ".join(seen)))
        else:
            progress("%-10s warm-up" % case.key)
    return series


# ---- reporting ----------------------------------------------------------------------------------


def number(value):
    """Three significant digits, without an exponent."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return "%.0f" % value
    return "%.3g" % value


def spread(values):
    return "%s..%s" % (number(min(values)), number(max(values)))


def ratio(kin, peer):
    """kin : peer, so that 1 : 5 says that the peer takes five times as much."""
    if not kin or not peer:
        return ""
    return "1 : %s" % number(peer / kin)


def goals(metric, series):
    """What the figure should be at most, and in words."""
    if metric.target is not None:
        yield metric.target, "%s %s" % (number(metric.target), metric.unit)
    for peer, times in metric.against:
        other = series[peer].median(metric.name) if peer in series else None
        factor = "" if times == 1 else "%.3g x " % times
        yield (other * times if other else None), "%s%s" % (factor, peer)


def target_rows(results):
    """title, at most, median, spread, reached"""
    rows = []
    for case, series in results:
        for metric, limit, words in [(metric, limit, words) for metric in case.metrics
                                     for limit, words in goals(metric, series)]:
            for label, _ in case.variants:
                mine = series.get(label)
                value = mine.median(metric.name) if mine else None
                title = case.title if metric.name == "time" else "%s: %s" % (case.title,
                                                                            metric.label)
                if label != "kin":
                    title += " (%s)" % label
                if value is None or limit is None:
                    why = "FAILED" if mine and mine.failures else "not measured"
                    rows.append((title, words, "-", "-", why))
                    continue
                reached = "yes" if value <= limit else "NO, x%.2f" % (value / limit)
                rows.append((title, words, number(value), spread(mine.samples[metric.name]),
                             reached))
    return rows


def comparison_rows(results):
    """title, participant, median, spread, kin : participant"""
    for case, series in results:
        for metric in case.metrics:
            title = "%s: %s, %s" % (case.title, metric.label, metric.unit)
            if metric.name == "time":
                title = "%s, %s" % (case.title, metric.unit)
            kin = series["kin"].median(metric.name) if "kin" in series else None
            for label, one in series.items():
                values = one.samples.get(metric.name)
                if metric.own and not values:
                    continue
                if not values:
                    yield title, label, "-", "failed", ""
                else:
                    against = "" if label == "kin" else ratio(kin, one.median(metric.name))
                    yield title, label, number(one.median(metric.name)), spread(values), against


def failure_lines(results):
    return ["%s of %s: %s" % (label, case.key, "; ".join(one.failures))
            for case, series in results for label, one in series.items() if one.failures]


def print_table(header, rows):
    """Columns as wide as their longest entry; an entry equal to the one above is left out."""
    rows = [tuple(map(str, row)) for row in rows]
    if not rows:
        return
    widths = [max(len(row[i]) for row in [header] + rows) for i in range(len(header))]
    above = ""
    for row in [header] + rows:
        cells = list(row)
        if cells[0] == above:
            cells[0] = ""
        above = row[0]
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip())
    print()


def markdown_table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    above = None
    for row in rows:
        cells = [str(cell) for cell in row]
        first = cells[0]
        if first == above:
            cells[0] = ""
        above = first
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def read_field(path, key, separator=":"):
    """The value of the first line of a system file that begins with key."""
    try:
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith(key):
                return line.partition(separator)[2].strip(' \t"')
    except OSError:
        pass
    return "unknown"


def machine():
    system = read_field("/etc/os-release", "PRETTY_NAME", "=")
    virtual = "yes" if "hypervisor" in read_field("/proc/cpuinfo", "flags") else "no"
    return [
        "CPU: %s, %d online, virtual machine: %s" % (read_field("/proc/cpuinfo", "model name"),
                                                     os.cpu_count(), virtual),
        "Memory: %s" % read_field("/proc/meminfo", "MemTotal"),
        "System: %s, kernel %s, %s" % (system, platform.release(), " ".join(platform.libc_ver())),
    ]


def short(command):
    """A command as a reader would type it: paths relative to the repository."""
    words = []
    for word in map(str, command):
        is_inside = (word + "/").startswith(str(ROOT) + "/")
        words.append(os.path.relpath(word, ROOT) if is_inside else word)
    return " ".join(words)


def report(results, built, missing, facts):
    """The text of RESULTS.md."""
    parts = ["# Figures\n",
             "Written by `%s` on %s; do not edit. How to read it: README.md." %
             (facts["command"], facts["date"]),
             "\n## Machine\n"]
    parts += ["- " + line for line in machine()]
    parts.append("- Load average before %s, after %s; the run took %d s" %
                 (facts["load_before"], facts["load_after"], facts["seconds"]))
    parts.append("\n## Targets\n")
    parts.append(markdown_table(
        ("figure", "to reach", "median", "spread", "reached"),
        [(title, "<= " + words, *rest) for title, words, *rest in target_rows(results)]))
    parts.append("\n## kin and its peers\n")
    parts.append("Medians, min..max of all rounds, and kin : peer (1 : 5 says that the peer takes "
                 "five times as much).\n")
    parts.append(markdown_table(("figure", "who", "median", "spread", "kin : peer"),
                                comparison_rows(results)))
    failed = failure_lines(results)
    if failed:
        parts.append("\n## Failures\n")
        parts += ["- " + line for line in failed]
    parts.append("\n## Notes\n")
    notes = HERE / "NOTES.md"
    text = notes.read_text() if notes.exists() else ""
    text = re.sub(r"^# .*\n", "", text).strip()
    parts.append(re.sub(r"^##", "###", text, flags=re.M) or "None.")
    parts.append("\n## Versions\n")
    parts += ["- %s: %s" % (name, one.version) for name, one in built.items()]
    parts += ["- %s: left out, %s" % (name, reason.splitlines()[0])
              for name, reason in missing.items()]
    parts.append("\n## Commands\n\n```")
    for one in built.values():
        parts += [short(command) for command in one.recipe]
    for case, series in results:
        parts += [short(one.command) for one in series.values()]
    parts.append("```")
    return "\n".join(parts) + "\n"


def keep_raw(path, results):
    raw = {case.key: {label: {"samples": one.samples, "failures": one.failures}
                      for label, one in series.items()} for case, series in results}
    path.write_text(json.dumps(raw, indent=1) + "\n")


# ---- the whole ----------------------------------------------------------------------------------


def arguments():
    parser = argparse.ArgumentParser(
        description="Build and run kin's benchmarks and their peers, print ratios, "
                    "write bench/RESULTS.md.",
        epilog="cases: " + " ".join(case.key for case in CASES))
    parser.add_argument("--quick", action="store_true",
                        help="fewer rounds, under ten minutes; RESULTS.md says so")
    parser.add_argument("--only", metavar="TEXT", default="",
                        help="cases whose name contains one of these, separated by commas")
    parser.add_argument("--peers", metavar="NAMES", default=None,
                        help="only these peers, separated by commas; none for kin alone")
    parser.add_argument("--rounds", type=int, default=0, help="measured rounds of every case")
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build/bench",
                        help="where programs are built")
    parser.add_argument("--output", type=pathlib.Path, default=None,
                        help="where the report goes; default bench/RESULTS.md, or the build "
                             "directory when --only, --peers or --rounds narrow the run")
    return parser.parse_args()


def selected(options):
    words = [word for word in options.only.split(",") if word]
    cases = [case for case in CASES if not words or any(word in case.key for word in words)]
    if not cases:
        sys.exit("no case contains %s; see --help" % options.only)
    wanted = {"kin"} | {peer for case in cases for peer in case.peers}
    if options.peers is not None:
        named = {name for name in options.peers.split(",") if name and name != "none"}
        unknown = named - set(BUILDERS)
        if unknown:
            sys.exit("no such peer: %s" % ", ".join(sorted(unknown)))
        wanted &= named | {"kin"}
    return cases, [name for name in BUILDERS if name in wanted]


def main():
    options = arguments()
    cases, names = selected(options)
    directory = options.build_dir.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    narrowed = options.only or options.peers is not None or options.rounds
    output = options.output or (directory if narrowed else HERE) / "RESULTS.md"
    load = lambda: "%.2f" % os.getloadavg()[0]
    facts = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
             "command": " ".join(["bench/run.py"] + sys.argv[1:]), "load_before": load()}
    if os.getloadavg()[0] > 0.5:
        progress("the machine is not idle (load average %s): cross-core figures will suffer" %
                 facts["load_before"])
    built, missing = build_all(names, directory)
    start = time.monotonic()
    results = [(case, run_case(case, built, options.quick, options.rounds)) for case in cases]
    facts["seconds"] = time.monotonic() - start
    facts["load_after"] = load()
    print()
    print_table(("figure", "who", "median", "min..max", "kin : peer"),
                list(comparison_rows(results)))
    print_table(("target", "at most", "median", "min..max", "reached"),
                target_rows(results))
    for name, reason in missing.items():
        print("%s was left out: %s" % (name, reason))
    output.write_text(report(results, built, missing, facts))
    keep_raw(directory / "results.json", results)
    print("written: %s" % short([output]))
    failed = failure_lines(results)
    for line in failed:
        print("failed: " + line)
    return 1 if failed or "kin" in missing else 0


if __name__ == "__main__":
    sys.exit(main())
