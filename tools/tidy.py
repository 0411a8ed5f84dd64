#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keeps the house: what a compiler cannot see and a reader would have to look for.

Each finding is one line, `file:line: rule: message`; then one line for each rule says whether it
holds. The status is 1 when there is a finding. The rules:

  floor     a floor includes only itself and floors below it; public headers, tools and examples
            include public headers only
  atomic    every atomic access and every fence names its partner in a comment on its line or right
            above; raw atomics appear only in src/base/atomic.h
  tag       every clause tag in comments, assertions and tests is in spec/index.tsv
  cited     every MUST clause that is due is cited by a source file and by a test
  twin      every src/<floor>/<name>.c has a test/<floor>/<name>_test.c, or an exception below
  owner     thread-locals, errno, the heap, threads, clocks, mappings and system calls only in plat
  form      licence line, line, function and file length, tabs, trailing blanks, forbidden words
  api       every KIN_API function has a comment block with From: and Returns:
  sentence  every source file has its sentence, a table row, in ARCHITECTURE.md
  private   no path of one machine and no name of a package host anywhere in the tree
"""

import argparse
import os
import re
import sys

# ---- what the rules know -------------------------------------------------------------------------

FLOORS = ["base", "plat", "mem", "task", "sched", "park", "wait", "scope", "otp", "view", "lab"]

# A comment names a partner when it contains one of these.
PARTNER_WORDS = ("pairs with", "pairs as", "pair with", "relaxed:", "alone:", "fence:")

ATOMIC_DOOR = "src/base/atomic.h"

LINE_MAX = 100
FUNCTION_MAX = 70
FILE_MAX = 1000
LONG_WAIVER = "long:"

# Source files without a test twin of their own, and why.
TWIN_EXCEPTIONS = {
    "src/plat/switch_generic.c": "context_test.c runs it in the build that uses it",
}

# Takes the place of functions of the C library, in the lab.
OUTSIDE = ("src/lab/interpose.c",)

# What only plat may touch.
OWNED_BY_PLAT = [
    ("a thread-local variable", re.compile(r"\b(_Thread_local|__thread|thread_local)\b")),
    ("errno", re.compile(r"\berrno\b(?!\.h)")),
    ("the heap", re.compile(r"\b(malloc|calloc|realloc|reallocarray|aligned_alloc|posix_memalign|"
                            r"strdup|free)\s*\(")),
    ("a thread", re.compile(r"\bpthread_\w+")),
    ("a clock", re.compile(r"\b(clock_gettime|clock_nanosleep|nanosleep|gettimeofday)\s*\(")),
    ("a mapping", re.compile(r"\b(mmap|munmap|mprotect|madvise|process_madvise|mremap)\s*\(")),
    ("a system call", re.compile(r"\bsyscall\s*\(")),
]

# Split, so that this file does not find itself.
FORBIDDEN_WORDS = re.compile(r"\b(%s)\b" % "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]))

PACKAGE_HOSTS = ["pypi." + "org", "files.python" + "hosted.org", "crates" + ".io",
                 "registry.npm" + "js.org", "deb." + "debian.org", "proxy.golang" + ".org",
                 "archive.ubuntu" + ".com", "security." + "debian.org"]
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:%s)/[\w.-]+" % "|".join(
    ["ho" + "me", "ro" + "ot", "wo" + "rk", "Us" + "ers", "mn" + "t"]))

ATOMIC_ACCESS = re.compile(
    r"\bkin__(?:load|store|xchg|cas|add|sub|or|and)_(?:relaxed|acquire|release|acq_rel|seq)\b"
    r"|\bkin__fence_\w+\b|\bkin__membarrier\s*\(")
RAW_ATOMIC = re.compile(r"\b(atomic_\w+|memory_order_\w+|__atomic_\w+|__sync_\w+)\b|<stdatomic\.h>"
                        r"|\b_Atomic\b(?!\s*\()")

TAG = re.compile(r"(?<![\w\])])\[([A-Z0-9][A-Za-z0-9]*(?:[-:.][A-Za-z0-9]+)*)\]")
TAG_SHAPE = re.compile(r"(?=.*[A-Z:])..")
CASE = re.compile(r"[A-Z]\d{3}$")     # a case that a peer's own tests check: spec/README.md
ASSERTION = re.compile(r"\bKIN__(?:CHECK|ASSERT|AUDIT)\s*\(")
TEST_TAGS = re.compile(r'\bKIN_TEST(?:_LIMIT)?\s*\(\s*\w+\s*,\s*"([^"]*)"')

C_FILES = (".c", ".h")
TEXT_FILES = (".c", ".h", ".S", ".py", ".sh", ".md", ".pml", ".tsv", ".txt", ".cmake", ".cpp",
              ".hpp", ".in", ".json", ".map", ".yml", ".mk", ".go", ".rs", ".erl", ".toml")
SKIPPED_DIRS = {".git", "build", "dist", "__pycache__", "target", "node_modules"}
LEVELS = {"MUST", "SHOULD", "MAY", "RULE"}


# ---- reading -------------------------------------------------------------------------------------

class Comment:
    """One comment, or several that stand directly below each other on lines of their own."""

    def __init__(self, first, last, text, is_alone):
        self.first, self.last, self.text, self.is_alone = first, last, text, is_alone


class CFile:
    """A C file cut into code and comments; strings keep their quotes and lose their content."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.split("\n")
        self.comments = []
        self.strings = []      # (line, content)
        self._cut()
        self._merge()

    def _cut(self):
        text, out, i, line = self.text, [], 0, 1
        n = len(text)
        while i < n:
            two = text[i:i + 2]
            if two == "/*" or two == "//":
                end = text.find("*/", i + 2) if two == "/*" else text.find("\n", i)
                end = n if end < 0 else (end + 2 if two == "/*" else end)
                body = text[i:end]
                first = line
                line += body.count("\n")
                before = text[text.rfind("\n", 0, i) + 1:i]
                self.comments.append(Comment(first, line, body, not before.strip()))
                out.append(re.sub(r"[^\n]", " ", body))
                i = end
            elif text[i] in "\"'":
                quote, j = text[i], i + 1
                while j < n and text[j] != quote and text[j] != "\n":
                    j += 2 if text[j] == "\\" else 1
                content = text[i + 1:j]
                if quote == '"':
                    self.strings.append((line, content))
                out.append(quote + " " * len(content) + (quote if j < n else ""))
                i = j + 1
            else:
                if text[i] == "\n":
                    line += 1
                out.append(text[i])
                i += 1
        self.code = "".join(out)
        self.code_lines = self.code.split("\n")

    def _merge(self):
        merged = []
        for comment in self.comments:
            last = merged[-1] if merged else None
            if last and last.is_alone and comment.is_alone and comment.first == last.last + 1:
                last.last, last.text = comment.last, last.text + "\n" + comment.text
            else:
                merged.append(comment)
        self.comments = merged

    def comments_on(self, line):
        return [c for c in self.comments if c.first <= line <= c.last]

    def string_in(self, line, column):
        """The content of the string literal that begins at this place."""
        raw = self.lines[line - 1]
        match = re.match(r'"((?:[^"\\]|\\.)*)"', raw[column:])
        return match.group(1) if match else None


class Tree:
    """The files of a project, read once."""

    def __init__(self, root):
        self.root = root
        self.paths = []
        for folder, dirs, files in os.walk(root):
            dirs[:] = sorted(d for d in dirs if d not in SKIPPED_DIRS and not d.startswith("build"))
            for name in sorted(files):
                self.paths.append(os.path.relpath(os.path.join(folder, name), root))
        self.cache = {}

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def has(self, path):
        return os.path.exists(os.path.join(self.root, path))

    def under(self, *folders, ends=C_FILES):
        for path in self.paths:
            if path.endswith(ends) and any(path.startswith(f + "/") for f in folders):
                yield path

    def c(self, path):
        if path not in self.cache:
            self.cache[path] = CFile(path, self.read(path))
        return self.cache[path]


def floor_of(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "src" else None


# ---- the rules: each yields (path, line, message) ------------------------------------------------

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def rule_floor(tree):
    for path in tree.under("src", "include", "tools", "examples", ends=C_FILES + (".S",)):
        floor = floor_of(path)
        if path.startswith("src/") and floor not in FLOORS:
            yield path, 1, "src/ holds floors only: " + " ".join(FLOORS)
            continue
        for number, line in enumerate(tree.read(path).split("\n"), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            kind, name = match.groups()
            target = name.split("/")[0] if "/" in name else None
            if path.startswith("src/"):
                if kind == '"' and target not in FLOORS:
                    yield path, number, f'"{name}" is not written as "floor/file.h"'
                elif kind == '"' and FLOORS.index(target) > FLOORS.index(floor):
                    yield path, number, f"{floor} looks up at {target}: {name}"
            elif path.startswith("include/"):
                if kind == '"' or target in FLOORS:
                    yield path, number, f"a public header includes {name}, which is not public"
            elif target in FLOORS:
                yield path, number, f"{path.split('/')[0]} includes {name}, which is not public"


def names_partner(comment):
    text = re.sub(r"\s*\n\s*\*?\s*", " ", comment.text).lower()
    return any(word in text for word in PARTNER_WORDS)


def is_covered(file, line):
    """A partner is named on the line, in its statement, or right above the run of accesses."""
    codes = file.code_lines

    def named(number):
        return any(names_partner(c) for c in file.comments_on(number))

    if named(line):
        return True
    number = line                                    # down: the rest of the statement
    while number <= len(codes) and not re.search(r"[;{}]", codes[number - 1]):
        number += 1
        if number <= len(codes) and named(number):
            return True
    number = line - 1                                # up: the statement, the run, then the comment
    while number > 0:
        code = codes[number - 1].strip()
        ended = re.search(r"[;{}:]$", code) is not None
        if ended and not ATOMIC_ACCESS.search(code):
            return False                             # another statement, with its own comment
        if named(number):
            return True
        if not code:
            return False
        number -= 1
    return False


def rule_atomic(tree):
    for path in tree.under("src", "include"):
        if path == ATOMIC_DOOR:
            continue
        file = tree.c(path)
        for number, code in enumerate(file.code_lines, 1):
            raw = RAW_ATOMIC.search(code)
            if raw:
                yield path, number, f"raw atomic {raw.group(0).strip()}: only {ATOMIC_DOOR} may"
            access = ATOMIC_ACCESS.search(code)
            if not access or is_declaration(code, access):
                continue
            if not is_covered(file, number):
                yield path, number, f"{access.group(0).strip('( ')} names no partner"


def is_declaration(code, match):
    """A prototype or definition of such a function, not a use."""
    before = code[:match.start()]
    return re.match(r"^\s*(?:static |inline |extern )*(?:void|bool|int|uint\d+_t)\s+\**$",
                    before) is not None


def read_index(tree):
    """tag -> (line, level, floor, when); and the findings about the list itself."""
    path, clauses, wrong = "spec/index.tsv", {}, []
    if not tree.has(path):
        return {}, [(path, 1, "is missing")]
    for number, line in enumerate(tree.read(path).split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != 5:
            wrong.append((path, number, "needs five columns: tag, level, floor, when, text"))
            continue
        tag, level, floor, when, text = cells
        if tag == "tag":
            continue
        if tag in clauses:
            wrong.append((path, number, f"{tag} is listed twice"))
        if level not in LEVELS:
            wrong.append((path, number, f"level {level} is none of {' '.join(sorted(LEVELS))}"))
        if floor not in FLOORS and floor != "-":
            wrong.append((path, number, f"{floor} is no floor"))
        if when not in ("core", "-") and not when.startswith("src/"):
            wrong.append((path, number, "when is core, - or the source file that brings it"))
        if not text.strip():
            wrong.append((path, number, f"{tag} says nothing"))
        clauses[tag] = (number, level, floor, when)
    return clauses, wrong


def tags_of(tree, path):
    """(line, tag) for every citation in a C file."""
    file = tree.c(path)
    for comment in file.comments:
        for match in TAG.finditer(comment.text):
            if TAG_SHAPE.match(match.group(1)):
                yield comment.first + comment.text[:match.start()].count("\n"), match.group(1)
    for start in ASSERTION.finditer(file.code):
        place = last_argument(file.code, start.end() - 1)
        if place is None:
            continue
        line = file.code.count("\n", 0, place) + 1
        column = place - (file.code.rfind("\n", 0, place) + 1)
        clause = file.string_in(line, column)
        if clause is not None:
            for tag in clause.split(": ")[0].split():    # "F2: what it means here" is fine too
                yield line, tag
    for match in TEST_TAGS.finditer(file.text):
        line = file.text.count("\n", 0, match.start(1)) + 1
        if not any(c.first <= line <= c.last for c in file.comments):
            for tag in match.group(1).split():
                yield line, tag


def last_argument(code, open_paren):
    """Where the second top-level argument of the call begins; None when it has one only."""
    depth, place = 0, None
    for i in range(open_paren, len(code)):
        if code[i] in "([{":
            depth += 1
        elif code[i] in ")]}":
            depth -= 1
            if depth == 0:
                return place
        elif code[i] == "," and depth == 1:
            place = i + 1
            while place < len(code) and code[place] in " \n\\":
                place += 1
    return None


def rule_tag(tree):
    clauses, wrong = read_index(tree)
    yield from wrong
    for path in tree.under("src", "include", "test", "tools", "examples"):
        for line, tag in tags_of(tree, path):
            if tag not in clauses and tag != "house" and not CASE.match(tag):
                yield path, line, f"[{tag}] is not in spec/index.tsv"


def is_due(tree, when):
    return when == "core" or (when.startswith("src/") and tree.has(when))


def rule_cited(tree):
    clauses, _ = read_index(tree)
    in_code, in_tests = set(), set()
    for path in tree.under("src", "include"):
        in_code.update(tag for _, tag in tags_of(tree, path))
    for path in tree.under("test"):
        in_tests.update(tag for _, tag in tags_of(tree, path))
    for tag, (number, level, _, when) in clauses.items():
        if level != "MUST" or not is_due(tree, when):
            continue
        missing = [what for what, where in (("source file", in_code), ("test", in_tests))
                   if tag not in where]
        if missing:
            yield "spec/index.tsv", number, f"{tag} is cited by no {' and no '.join(missing)}"


def rule_twin(tree):
    for path in tree.under("src", ends=(".c",)):
        if path in TWIN_EXCEPTIONS:
            continue
        twin = twin_of(path)
        if not tree.has(twin):
            yield path, 1, f"has no {twin}"
    for path in TWIN_EXCEPTIONS:
        if tree.has("src") and tree.has(path) and twin_exists(tree, path):
            yield path, 1, "has a twin: take it off the exceptions in tools/tidy.py"


def twin_of(path):
    """Parts of a floor in a folder of their own, as src/lab/atoms, have their tests in one."""
    return f"test/{os.path.basename(os.path.dirname(path)) if is_part(path) else floor_of(path)}/" \
           f"{os.path.basename(path)[:-2]}_test.c"


def is_part(path):
    return path.startswith("src/lab/atoms/")


def twin_exists(tree, path):
    return tree.has(twin_of(path))


def rule_owner(tree):
    for path in tree.under("src"):
        if floor_of(path) == "plat" or path in OUTSIDE:
            continue
        for number, code in enumerate(tree.c(path).code_lines, 1):
            if INCLUDE.match(code):
                continue
            for what, pattern in OWNED_BY_PLAT:
                match = pattern.search(code)
                if match:
                    yield path, number, f"{match.group(0).strip(' (')}: {what} belongs to plat"
    yield from errno_of_tasks(tree)


# Where errno is read by what is no task, or set for others to read.
WITHOUT_TASKS = ("test/plat/", "test/kin_test.c", "tools/kin/lab.c", "bench/peers/")


def errno_of_tasks(tree):
    """Programs with tasks read errno by kin_errno(): a compiler looks up once where errno is."""
    pattern = re.compile(r"(?<![\w<])errno\b(?!\.h)(?!\s*=[^=])")
    for top in ("test", "examples", "bench", "tools"):
        for path in tree.under(top):
            if path.startswith(WITHOUT_TASKS):
                continue
            for number, code in enumerate(tree.c(path).code_lines, 1):
                if pattern.search(code):
                    yield path, number, "errno: a task may have changed its thread; kin_errno()"


def functions_of(file):
    """(name, first, last) of every function whose brace stands on a line of its own."""
    lines, i = file.code_lines, 0
    while i < len(lines):
        if lines[i] == "{":
            first = i
            while first > 0 and lines[first - 1].strip() and \
                    not re.search(r"[;}]\s*$", lines[first - 1]) and \
                    not lines[first - 1].startswith("#"):
                first -= 1
            last = i
            while last < len(lines) and lines[last] != "}":
                last += 1
            head = " ".join(lines[first:i])
            name = re.search(r"(\w+)\s*\(", head)
            yield (name.group(1) if name else "?"), first + 1, last + 1
            i = last
        i += 1


def form_of_text(path, text):
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_MAX and not path.endswith((".md", ".tsv", ".json")):
            yield path, number, f"{len(line)} columns, {LINE_MAX} are allowed"
        if "\t" in line and not path.endswith((".tsv", ".mk", "Makefile", ".go")):
            yield path, number, "has a tab"
        if line != line.rstrip():
            yield path, number, "has trailing blanks"
        if FORBIDDEN_WORDS.search(line):
            yield path, number, "has a word that stands for unfinished work"


def rule_form(tree):
    for path in tree.paths:
        if path.endswith(TEXT_FILES) or os.path.basename(path) in ("Makefile", "CMakeLists.txt"):
            yield from form_of_text(path, tree.read(path))
    for path in tree.paths:
        if not path.endswith(C_FILES + (".S", ".cpp")):
            continue
        text = tree.read(path)
        if not re.match(r"(/\*|//) SPDX-License-Identifier: \S+", text):
            yield path, 1, "does not begin with its licence line"
        count = text.count("\n")
        if count > FILE_MAX:
            yield path, FILE_MAX, f"has {count} lines, {FILE_MAX} are allowed"
        if path.endswith(C_FILES):
            yield from form_of_functions(tree.c(path))


def form_of_functions(file):
    for name, first, last in functions_of(file):
        size = last - first + 1
        waived = any(c.last == first - 1 and LONG_WAIVER in c.text for c in file.comments)
        if size > FUNCTION_MAX and not waived:
            yield file.path, first, f"{name} has {size} lines, {FUNCTION_MAX} are allowed"


API = re.compile(r"^\s*(?:KIN_\w+\s+)*KIN_API\b")


def rule_api(tree):
    for path in tree.under("include", ends=(".h",)):
        file = tree.c(path)
        for number, code in enumerate(file.code_lines, 1):
            if not API.match(code) or code.lstrip().startswith("#"):
                continue
            statement = " ".join(file.code_lines[number - 1:number + 6]).split(";")[0]
            if not re.search(r"\bkin_\w+\s*\(", statement):
                continue                             # a variable
            name = re.search(r"\b(kin_\w+)\s*\(", statement).group(1)
            if name.endswith("_"):
                continue                             # what a public macro expands to
            above = [c for c in file.comments if c.last == number - 1 and c.is_alone]
            if not above or "/**" not in above[0].text:
                yield path, number, f"{name} has no /** block right above"
                continue
            for word in ("From:", "Returns:"):
                if word not in above[0].text:
                    yield path, number, f"the block of {name} has no {word}"


def rule_sentence(tree):
    page = "ARCHITECTURE.md"
    if not tree.has(page):
        yield page, 1, "is missing"
        return
    rows = [line for line in tree.read(page).split("\n") if line.lstrip().startswith("|")]
    for path in tree.under("src", ends=C_FILES + (".S",)):
        short = path[len("src/"):]
        name = re.compile(r"(?<![\w/])(?:src/)?%s(?!\w)" % re.escape(short))
        if not any(name.search(row) for row in rows):
            yield path, 1, f"has no row in {page}"


def rule_private(tree):
    for path in tree.paths:
        if not (path.endswith(TEXT_FILES) or "." not in os.path.basename(path)):
            continue
        try:
            text = tree.read(path)
        except OSError:
            continue
        if "\0" in text:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            match = MACHINE_PATH.search(line)
            if match and not line.startswith("#!"):
                yield path, number, f"{match.group(0)} is a path of one machine"
            for host in PACKAGE_HOSTS:
                if host in line:
                    yield path, number, f"{host} is a package host"


RULES = [("floor", rule_floor), ("atomic", rule_atomic), ("tag", rule_tag), ("cited", rule_cited),
         ("twin", rule_twin), ("owner", rule_owner), ("form", rule_form), ("api", rule_api),
         ("sentence", rule_sentence), ("private", rule_private)]


# ---- the program ---------------------------------------------------------------------------------

def findings(root, names=None):
    """All findings of a tree as (path, line, rule, message), sorted; and how many files it has."""
    tree = Tree(root)
    found = set()
    for name, rule in RULES:
        if names is None or name in names:
            found.update((path, line, name, message) for path, line, message in rule(tree))
    return sorted(found), len(tree.paths)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--root", default=here, help="the tree to check (default: this project)")
    parser.add_argument("--rule", action="append", choices=[name for name, _ in RULES],
                        help="only this rule; may be given several times")
    arguments = parser.parse_args()
    found, count = findings(arguments.root, arguments.rule)
    for path, line, rule, message in found:
        print(f"{path}:{line}: {rule}: {message}")
    for name in arguments.rule or [name for name, _ in RULES]:
        number = sum(1 for finding in found if finding[2] == name)
        print(f"FAIL tidy_{name} ({number} findings)" if number else f"ok   tidy_{name}")
    print(f"tidy: {count} files, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
