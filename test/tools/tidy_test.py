#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of tools/tidy.py: small trees with and without a mistake, for every rule.

Goal: each rule finds what it is for and nothing else. Method: a tree of a few files in a temporary
directory, checked with one rule; the findings are compared as (file, line). Prints one line per
test as the other tests do; an argument selects those whose name contains it.
"""

import importlib.util
import os
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPEC = importlib.util.spec_from_file_location("tidy", os.path.join(ROOT, "tools/tidy.py"))
tidy = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tidy)

LICENCE = "/* SPDX-License-Identifier: MIT */\n"
HEAD = "tag\tlevel\tfloor\twhen\twhat it asks\n"


def places(rule, files):
    """What the rule finds in a tree of these files, as a list of (path, line)."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        return [(path, line) for path, line, _, _ in tidy.findings(root, [rule])[0]]


def expect(actual, expected):
    if actual != expected:
        raise AssertionError(f"found {actual}, expected {expected}")


# ---- floor ----

def a_floor_may_look_down_and_at_itself():
    expect(places("floor", {
        "src/park/park.c": '#include "park/park.h"\n#include "base/list.h"\n'
                           '#include <kin/task.h>\n',
        "src/plat/linux/vm.c": '#include "base/bits.h"\n#include <sys/mman.h>\n'}), [])


def a_floor_may_not_look_up():
    expect(places("floor", {"src/mem/stack.c": '#include <stddef.h>\n#include "task/task.h"\n'}),
           [("src/mem/stack.c", 2)])


def an_include_names_its_floor():
    expect(places("floor", {"src/mem/stack.c": '#include "stack.h"\n'}), [("src/mem/stack.c", 1)])


def sources_live_on_floors():
    expect(places("floor", {"src/extra/x.c": "", "src/y.c": ""}), [("src/extra/x.c", 1),
                                                                   ("src/y.c", 1)])


def public_headers_tools_and_examples_see_public_headers_only():
    expect(places("floor", {
        "include/kin/a.h": '#include <kin/b.h>\n#include "base/list.h"\n',
        "tools/kin-top.c": '#include <kin/kin.h>\n#include "task/task.h"\n',
        "examples/x.c": '#include "base/list.h"\n'}),
        [("examples/x.c", 1), ("include/kin/a.h", 2), ("tools/kin-top.c", 2)])


# ---- atomic ----

def a_partner_is_named_on_the_line_or_right_above():
    expect(places("atomic", {"src/base/x.c": """
void f(void)
{
    kin__store_release(&a, 1); /* pairs with the load in g */
    /* relaxed: only the owner
     * writes it */
    kin__load_relaxed(&a);
    /* alone: not shared yet */
    kin__store_relaxed(&a, 1);
    kin__store_relaxed(&b, 1);
    if (x &&
        kin__cas_acquire(&a, &e, 1)) /* pairs with f */
        g();
    kin__fence_seq(); /* fence: a before b; its mirror is in g */
}
"""}), [])


def a_missing_partner_is_found():
    expect(places("atomic", {"src/base/x.c": """
void f(void)
{
    kin__store_release(&a, 1);
    /* this comment says nothing about it */
    kin__load_relaxed(&a);
    /* pairs with g */

    kin__load_acquire(&a);
    x = 1; /* relaxed: this is about another line */
    kin__fence_light();
}
"""}), [("src/base/x.c", 4), ("src/base/x.c", 6), ("src/base/x.c", 9),
              ("src/base/x.c", 11)])


def accesses_in_comments_and_strings_do_not_count():
    expect(places("atomic", {
        "src/base/x.c": '/* kin__load_relaxed(&a) */\nchar *s = "atomic_load";\n'}), [])


def raw_atomics_stay_behind_the_door():
    expect(places("atomic", {
        "src/base/atomic.h": "#include <stdatomic.h>\n#define L(p) atomic_load(p)\n",
        "src/mem/x.h": "_Atomic(struct t *) head;\n_Atomic int n;\n",
        "src/mem/x.c": "#include <stdatomic.h>\nint f(void) { return __atomic_load_n(&n, 0); }\n"}),
        [("src/mem/x.c", 1), ("src/mem/x.c", 2), ("src/mem/x.h", 2)])


# ---- tag and cited ----

def known_tags_are_fine_wherever_they_stand():
    expect(places("tag", {
        "spec/index.tsv": HEAD + "F2\tMUST\ttask\tcore\tx\nSCHED:7.1.1\tMUST\tsched\t-\tx\n"
                          "SUP-PLAN-RESTART\tMUST\totp\t-\tx\n",
        "src/task/x.c": '/* upholds [F2] [SCHED:7.1.1]; see [SUP-PLAN-RESTART] */\n'
                        'void f(void)\n{\n    KIN__CHECK(g(a, b) && h[0], "F2");\n'
                        '    KIN__ASSERT(x,\n                "house");\n'
                        '    KIN__AUDIT(y, "F2: a queue holds runnable tasks");\n}\n',
        "test/task/x_test.c": 'KIN_TEST(it_holds, "F2 SCHED:7.1.1")\n{\n}\n'
                              'KIN_TEST(other, "G072")\n'}), [])


def unknown_tags_are_found():
    expect(places("tag", {
        "spec/index.tsv": HEAD + "F2\tMUST\ttask\tcore\tx\n",
        "src/task/x.c": '/* a\n * b [F9]\n */\nint f(void)\n{\n    KIN__ASSERT(a, "F3");\n}\n',
        "test/task/x_test.c": 'KIN_TEST(it_holds, "F2 W:9.9")\n'}),
        [("src/task/x.c", 2), ("src/task/x.c", 6), ("test/task/x_test.c", 1)])


def brackets_that_are_no_tags_are_left_alone():
    expect(places("tag", {
        "spec/index.tsv": HEAD,
        "src/task/x.c": "/* slot[N1] and [top, split) and [0] and a [x] and array [N] */\n"
                        "int a[N2];\n"}), [])


def the_list_itself_is_checked():
    expect(places("tag", {"spec/index.tsv": HEAD + "F1\tMUST\ttask\tcore\tx\n"
                          "F1\tMUST\ttask\tcore\tx\nF2\tPERHAPS\ttask\tcore\tx\n"
                          "F3\tMUST\tattic\tcore\tx\nF4\tMUST\n"
                          "F5\tMUST\ttask\tsoon\tx\nF6\tMUST\ttask\tcore\t \n"}),
           [("spec/index.tsv", n) for n in range(3, 9)])


def a_missing_list_is_found():
    expect(places("tag", {"src/task/x.c": ""}), [("spec/index.tsv", 1)])


def due_clauses_need_a_source_and_a_test():
    index = HEAD + ("F1\tMUST\ttask\tcore\tboth\nF2\tMUST\ttask\tcore\tsource only\n"
                    "F3\tMUST\ttask\tcore\ttest only\nF4\tSHOULD\ttask\tcore\tnot a must\n"
                    "F5\tMUST\twait\tsrc/wait/chan.c\tnot yet\n"
                    "N1\tMUST\twait\tsrc/wait/timer.c\tdue\nN2\tMUST\t-\t-\tnever\n")
    expect(places("cited", {
        "spec/index.tsv": index, "src/wait/timer.c": "",
        "src/task/x.c": "/* [F1] [F2] */\n", "test/task/x_test.c": 'KIN_TEST(a, "F1 F3")\n'}),
        [("spec/index.tsv", 3), ("spec/index.tsv", 4), ("spec/index.tsv", 7)])


# ---- twin ----

def a_source_has_a_twin_or_an_exception():
    expect(places("twin", {
        "src/base/text.c": "", "test/base/text_test.c": "", "src/plat/linux/vm.c": "",
        "test/plat/vm_test.c": "", "src/plat/switch_generic.c": "", "src/base/list.h": ""}), [])


def a_missing_twin_and_an_idle_exception_are_found():
    expect(places("twin", {
        "src/base/text.c": "", "src/plat/switch_generic.c": "",
        "test/plat/switch_generic_test.c": ""}),
        [("src/base/text.c", 1), ("src/plat/switch_generic.c", 1)])


# ---- owner ----

def plat_may_touch_the_system():
    expect(places("owner", {"src/plat/linux/x.c": "static __thread int a;\nvoid f(void)\n{\n"
                            "    p = mmap(0, 1, 2, 3, 4, 5);\n    if (errno)\n"
                            "        free(p);\n}\n"}), [])


def others_may_not():
    lines = ["_Thread_local int a;", "int b = errno;", "x = malloc(3);", "free(x);",
             "pthread_mutex_t m;", "clock_gettime(0, &t);", "madvise(p, 1, 2);", "syscall(1);"]
    expect(places("owner", {"src/mem/x.c": "\n".join(lines)}),
           [("src/mem/x.c", n) for n in range(1, len(lines) + 1)])


def names_that_only_look_alike_are_fine():
    expect(places("owner", {"src/mem/x.c": "#include <errno.h>\nkin__heap_free(p);\n"
                            "list->free = 0;\nreturn -ENOMEM; /* errno of malloc( */\n"
                            "kin__frame_free(c, f);\n"}), [])


def a_task_asks_for_errno():
    lines = ["#include <errno.h>", "int why = kin_errno();", "errno = 77;", "int b = -errno;",
             "while (errno == EINTR)"]
    expect(places("owner", {"test/api/x.c": "\n".join(lines), "examples/x.c": "a = errno;\n",
                            "test/plat/x.c": "a = errno;\n"}),
           [("examples/x.c", 1), ("test/api/x.c", 4), ("test/api/x.c", 5)])


# ---- form ----

def a_well_formed_file_is_fine():
    body = "int f(void)\n{\n" + "    x();\n" * 60 + "}\n"
    long_body = "/* long: one loop, read top to bottom */\nint g(void)\n{\n"
    long_body += "    x();\n" * 90 + "}\n"
    expect(places("form", {"src/base/x.c": LICENCE + body + "\n" + long_body,
                           "README.md": "x" * 300 + "\n", "Makefile": "a:\n\tb\n"}), [])


def what_breaks_the_form_is_found():
    word = "TO" + "DO"
    text = f"int a;\nint b;\t\nint c; \n/* {word} */\n" + "x" * 101
    expect(places("form", {"src/base/x.c": text}),
           [("src/base/x.c", 1), ("src/base/x.c", 2), ("src/base/x.c", 2), ("src/base/x.c", 3),
            ("src/base/x.c", 4), ("src/base/x.c", 5)])


def long_functions_and_files_are_found():
    long_function = LICENCE + "\nint f(int a,\n      int b)\n{\n" + "    x();\n" * 70 + "}\n"
    expect(places("form", {"src/base/x.c": long_function,
                           "src/base/y.c": LICENCE + "int a;\n" * 1001}),
           [("src/base/x.c", 3), ("src/base/y.c", 1000)])


# ---- api ----

def a_documented_function_is_fine():
    expect(places("api", {"include/kin/x.h": """
#define KIN_API __attribute__((visibility("default")))
/**
 * kin_x - do it.
 *
 * From:    task
 * Returns: 0
 */
KIN_API KIN_MUST_USE int kin_x(int a,
                               int b);
KIN_API void kin_x_leave_(int *a);
"""}), [])


def an_undocumented_function_is_found():
    expect(places("api", {"include/kin/x.h": "/* plain */\nKIN_API int kin_a(void);\n/**\n"
                          " * From: task\n */\nKIN_API int kin_b(void);\n"
                          "/** Returns: 0, From: task */\n\n"
                          "KIN_API int kin_c(void);\n"}),
           [("include/kin/x.h", 2), ("include/kin/x.h", 6), ("include/kin/x.h", 9)])


# ---- sentence ----

def each_source_has_its_row():
    expect(places("sentence", {
        "src/base/list.h": "", "src/plat/linux/vm.c": "", "src/base/text.c": "",
        "ARCHITECTURE.md": "| base/list.h | a list |\n| `src/plat/linux/vm.c` | pages |\n"
                           "text: base/text.c\n| base/text.cc | no |\n"}),
        [("src/base/text.c", 1)])


# ---- private ----

def relative_and_system_paths_are_fine():
    expect(places("private", {"a.sh": "#!/usr/bin/env python3\ncat /proc/self/maps $HOME/y\n",
                              "b.md": "src/work/x and ../root/y\n"}), [])


def private_paths_and_hosts_are_found():
    path, host = "/ho" + "me/somebody/x", "deb." + "debian.org"
    expect(places("private", {"a.md": f"see {path}\nfrom {host}\n", "Makefile": f"A = {path}\n"}),
           [("Makefile", 1), ("a.md", 1), ("a.md", 2)])


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    tests = [(name, body) for name, body in globals().items()
             if callable(body) and getattr(body, "__module__", "") == "__main__"
             and name not in ("places", "expect", "main")]
    failed = passed = 0
    for name, body in tests:
        if wanted not in name:
            continue
        try:
            body()
        except Exception:                            # a test may fail in any way
            failed += 1
            print(f"FAIL {name}")
            traceback.print_exc(limit=2, file=sys.stdout)
        else:
            passed += 1
            print(f"ok   {name}")
    print(f"tidy_test: {passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
