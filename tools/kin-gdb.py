# SPDX-License-Identifier: MIT
"""Tasks in gdb: source tools/kin-gdb.py in a session with a process or a core file.

    kin tasks       every task: id, name, what it waits for, where it was spawned
    kin bt ID       where a task that waits stands; x86-64

It reads memory and changes nothing; kin must have its debugging information. A core must be one of
the kernel's: gdb's own leaves out stacks, because it gives up on the guards between them.
"""
import gdb
from gdb.unwinder import Unwinder, register_unwinder

CHUNK = 4096  # frames in an entry of the directory: src/mem/frame.c
NAMED = 1  # KIN__TASK_NAMED: src/task/task.h
SAVED = ["r15", "r14", "r13", "r12", "rbx", "rbp", "rip"]  # from sp + 8 on: switch_x86_64.S


def tasks():
    """Every task that is not over."""
    pool = gdb.parse_and_eval("'src/mem/frame.c'::pools[0]")
    kind = gdb.lookup_type("struct kin__task")
    for index in range(1, int(pool["next"])):
        chunk = int(pool["directory"][index // CHUNK])
        task = gdb.Value(chunk + index % CHUNK * kind.sizeof).cast(kind.pointer())
        if int(task["scope"]) and not int(task["over"]):
            yield task


def id_of(task):
    return int(task["frame"]["name"])


def number_of(name):
    """A task as reports call it: the number of its frame, and how often that has been used. A core
    has nobody who could count: there it is the number alone."""
    try:
        uses = int(gdb.parse_and_eval("(unsigned long)kin__frame_life(%dul)" % name))
    except gdb.error:
        uses = 1
    return "task %d" % (name & ((1 << 26) - 1)) + (".%d" % uses if uses > 1 else "")


def describe(task):
    name = task["name"].string() if int(task["flags"]) & NAMED else "no name"
    waiting = task["waiting"]
    doing = ("waits for " + waiting.string() if int(waiting) else
             "has not begun" if not int(task["stack"]) else "runs, or can")
    site = gdb.find_pc_line(int(task["site"]) - 1)
    where = "%s:%d" % (site.symtab.filename, site.line) if site.symtab else hex(int(task["site"]))
    return "%s (%s): %s, spawned at %s" % (number_of(id_of(task)), name, doing, where)


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class Elsewhere(Unwinder):
    """While it has a task, the caller of the newest frame is where that task stands."""

    def __init__(self):
        super().__init__("kin")
        self.task, self.top = None, 0

    def __call__(self, frame):
        sp = frame.read_register("rsp")
        if self.task is None or int(sp) != self.top:
            return None
        word = gdb.lookup_type("unsigned long")
        saved = self.task["ctx"]["sp"].cast(word.pointer())
        found = frame.create_unwind_info(FrameId(sp, frame.read_register("rip")))
        for number, register in enumerate(SAVED):
            found.add_saved_register(register, saved[number + 1])
        found.add_saved_register("rsp", gdb.Value(int(saved) + 64).cast(word))
        return found


ELSEWHERE = Elsewhere()
register_unwinder(None, ELSEWHERE, replace=True)


def backtrace(task):
    ELSEWHERE.top = int(gdb.newest_frame().read_register("rsp"))
    ELSEWHERE.task = task
    gdb.invalidate_cached_frames()
    try:
        frame, number = gdb.newest_frame().older(), 0
        while frame is not None:
            line = frame.find_sal()
            where = " at %s:%d" % (line.symtab.filename, line.line) if line.symtab else ""
            print("#%-3d %s%s" % (number, frame.name() or hex(frame.pc()), where))
            frame, number = frame.older(), number + 1
    finally:
        ELSEWHERE.task = None
        gdb.invalidate_cached_frames()


class Kin(gdb.Command):
    __doc__ = __doc__

    def __init__(self):
        super().__init__("kin", gdb.COMMAND_STACK)

    def invoke(self, argument, _from_tty):
        words = gdb.string_to_argv(argument)
        if words == ["tasks"]:
            for task in tasks():
                print(describe(task))
        elif len(words) == 2 and words[0] == "bt":
            found = [task for task in tasks()
                     if words[1] in (str(id_of(task)), number_of(id_of(task))[5:])]
            if not found:
                raise gdb.GdbError("there is no such task: kin tasks lists all")
            if not int(found[0]["waiting"]):
                raise gdb.GdbError("it does not wait: thread apply all bt shows who runs")
            if "x86-64" not in gdb.selected_frame().architecture().name():
                raise gdb.GdbError("only on x86-64")
            print(describe(found[0]))
            if int(found[0]["stack"]):
                backtrace(found[0])
            else:
                print("it rests: it has no stack meanwhile")
        else:
            raise gdb.GdbError("kin tasks, or kin bt ID")


Kin()
