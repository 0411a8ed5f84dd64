#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes kin as two files, kin.h and kin.c, so that `cc -O2 app.c kin.c -pthread` is enough.

kin.h is every public header in the order of their includes. kin.c is every source of
CMakeLists.txt with the internal headers put in place once, and the assembly of every machine as
top-level asm; the compiler chooses among them. Names that are static in two files are renamed by
this tool (file stem in front), and macros of a .c end with it.
"""
import argparse
import os
import re
import sys

sys.dont_write_bytecode = True
import kinheaders  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Comments, strings and characters are one token each, so that nothing inside them is touched.
TOKEN = re.compile(r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*'
                       | [A-Za-z_]\w* | \s+ | -> | .""", re.S | re.X)
LOCAL_INCLUDE = re.compile(r'^#\s*include\s+"([^"]+)"')
PUBLIC_INCLUDE = re.compile(r"^#\s*include\s+<kin/[^>]+>")

# Names that libc declares: a static one of the same name cannot share a file with its header.
LIBC = {"accept", "bind", "close", "connect", "dup", "index", "kill", "link", "listen", "open",
        "pause", "pipe", "poll", "raise", "read", "recv", "remove", "rename", "select", "send",
        "shutdown", "signal", "socket", "stat", "sync", "unlink", "wait", "write"}

MACHINES = [("x86_64", "defined(__x86_64__) && defined(__LP64__)"),
            ("aarch64", "defined(__aarch64__)")]

HEAD = """/* SPDX-License-Identifier: MIT */
/*
 * kin %s in one file%s
 * Written by tools/amalgamate.py from the sources; change those, not this.
 */
"""


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def version():
    match = re.search(r"project\(kin VERSION ([\d.]+)", read("CMakeLists.txt"))
    return match.group(1)


def sources():
    """The .c files of KIN_SOURCES, in their order."""
    match = re.search(r"set\(KIN_SOURCES(.*?)\)", read("CMakeLists.txt"), re.S)
    return [path for path in match.group(1).split() if path.endswith(".c")]


# ---- names ----


def without_comments(text):
    """The text with comments and the insides of strings blanked, of the same shape."""
    out = []
    for token in TOKEN.findall(text):
        if token.startswith(("/*", "//")):
            out.append(re.sub(r"[^\n]", " ", token))
        elif token[0] in "\"'":
            out.append(token[0] * 2)
        else:
            out.append(token)
    return "".join(out)


def top_level(text):
    """Declarations at file scope, each as one string; bodies are kept out, but for those of enums,
    whose names belong to the file."""
    text = re.sub(r"^\s*#(?:\\\n|[^\n])*", "", without_comments(text), flags=re.M)
    declarations, current, depth, keep = [], [], 0, False
    for char in text:
        if char == "{":
            if depth == 0:
                keep = re.search(r"\benum\b[^()=]*$", "".join(current)) is not None
            depth += 1
            if depth == 1 or keep:
                current.append(char)
        elif char == "}":
            depth -= 1
            if depth == 0 or keep:
                current.append(char)
            if depth == 0 and re.search(r"\)\s*\{[^{}]*\}$", "".join(current)):
                declarations.append("".join(current))  # a function's body has ended
                current = []
        elif char == ";" and depth == 0:
            declarations.append("".join(current))
            current = []
        elif depth == 0 or keep:
            current.append(char)
    return declarations


def declared_name(text):
    """The name in "int *name(void)", "int name[2] = {}", "int (*name)(void)"."""
    pointer = re.search(r"^[^(]*\(\s*\*+\s*(?:const\s+)?(\w+)", text)
    if pointer:
        return pointer.group(1)
    return re.search(r"(\w+)\s*(?:[(\[,={]|$)", text).group(1)


def names_of(declaration):
    """The names a declaration at file scope gives to this file alone."""
    names = []
    for enum in re.findall(r"\benum\b\s*\w*\s*\{([^}]*)\}", declaration):
        names += re.findall(r"(?:^|,)\s*([A-Za-z_]\w*)", enum)
    names += re.findall(r"\b(?:struct|union|enum)\s+([A-Za-z_]\w*)\s*\{", declaration)
    plain = re.sub(r"\{.*?\}", "{}", declaration, flags=re.S)
    plain = re.sub(r"\b(?:struct|union|enum)\s*\w*\s*\{\}", "int", plain)
    plain = re.sub(r"__attribute__\s*\(\(.*?\)\)|\b_Atomic\s*\([^()]*\)", "", plain, flags=re.S)
    plain = re.sub(r"_Alignas\s*\([^()]*(?:\([^()]*\))?[^()]*\)", "", plain)
    match = re.search(r"\b(?:static|typedef|INLINE)\b(.*)", plain, re.S)
    if match and not re.search(r"\b_Static_assert\b", plain):
        names.append(declared_name(match.group(1)))
    return [name for name in names if not name.startswith(("kin_", "KIN_"))]


def clashes(files):
    """For each file the names that another file gives too, with what to call them instead."""
    owners = {}
    for path, text in files:
        for declaration in top_level(text):
            for name in names_of(declaration):
                owners.setdefault(name, set()).add(path)
    renames = {path: {} for path, _ in files}
    for name, paths in owners.items():
        if len(paths) > 1 or name in LIBC:
            for path in paths:
                stem = os.path.splitext(os.path.basename(path))[0]
                renames[path][name] = "%s_%s" % (stem, name)
    return renames


def rename(text, names):
    """The text with names replaced, but not those of members nor in comments and strings."""
    if not names:
        return text
    out, before, bodies, is_tagged = [], "", [], False
    for token in TOKEN.findall(text):
        is_member = before in (".", "->")
        if bodies and bodies[-1]:  # in a struct: types and sizes are names, the rest are members
            is_member = before not in ("struct", "union", "enum", "[")
        if token == "{":
            bodies.append(is_tagged)
        elif token == "}" and bodies:
            bodies.pop()
        if token in names and not is_member:
            token = names[token]
        out.append(token)
        if token.isspace() or token.startswith(("/*", "//")):
            continue
        if token in ("struct", "union"):
            is_tagged = True
        elif not re.match(r"\w+$", token):
            is_tagged = False
        before = token
    return "".join(out)


# ---- files ----


def assembly(path):
    """A .S as strings of a top-level asm, without what is for an assembler alone."""
    out = ["__asm__("]
    text = re.sub(r"/\*.*?\*/", lambda found: "\n" * found.group(0).count("\n"), read(path),
                  flags=re.S)
    text = re.sub(r"^#ifdef __ASSEMBLER__$.*?^#endif$", "", text, flags=re.S | re.M)
    for line in text.splitlines():
        if line.startswith("#"):
            continue  # the guard around the whole, which kin.c has itself
        if line.strip():
            out.append('    "%s\\n"' % line.rstrip().replace("\\", "\\\\").replace('"', '\\"'))
    out.append(");")
    return "\n".join(out) + "\n"


def inline(path, text, seen, macros):
    """The text with its own headers put in place, each once in all of kin.c."""
    out = []
    depth = -1 if path.endswith(".h") else 0  # the guard of a header counts for nothing
    for line in text.splitlines():
        if re.match(r"^#\s*if", line):
            depth += 1
        elif re.match(r"^#\s*endif", line):
            depth -= 1
        match = LOCAL_INCLUDE.match(line)
        if PUBLIC_INCLUDE.match(line) or line.startswith("/* SPDX"):
            continue
        if re.match(r"^#\s*define\s+_GNU_SOURCE", line):
            continue  # kin.c has begun with it
        if match:
            if depth > 0:
                sys.exit("%s: %s: an include of kin's own must not stand under a condition"
                         % (path, line))
            name = "src/" + match.group(1)
            if name not in seen:
                seen.add(name)
                out.append("/* ---- %s ---- */" % name)
                out.append(inline(name, read(name), seen, None).rstrip("\n"))
            continue
        define = re.match(r"^#\s*define\s+(\w+)", line)
        if define and macros is not None and define.group(1) not in macros:
            macros.append(define.group(1))
        out.append(line)
    return "\n".join(out) + "\n"


def make_source(verbose):
    out = [HEAD % (version(), ": compile it with your program and link with -pthread.")]
    out.append("#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n#include \"kin.h\"\n\n")
    out.append("/* What a header offers inline and nobody uses counts as unused in one file. */\n"
               "#ifdef __clang__\n"
               "#pragma clang diagnostic ignored \"-Wunused-function\"\n"
               "#endif\n\n")
    paths = sources()
    generic = "src/plat/switch_generic.c"
    if os.path.exists(os.path.join(ROOT, generic)):
        paths.append(generic)
    files = [(path, read(path)) for path in paths]
    renames = clashes(files)
    seen = set()
    known = [(name, guard) for name, guard in MACHINES
             if os.path.exists(os.path.join(ROOT, "src/plat/switch_%s.S" % name))]
    any_machine = " || ".join("(%s)" % guard for _, guard in known)
    out.append("/* The portable switch is used where no assembly is. */\n")
    out.append("#if !defined(KIN_SWITCH_GENERIC) && !(%s)\n" % any_machine)
    out.append("#define KIN_SWITCH_GENERIC 1\n#endif\n\n")
    for path, text in files:
        macros = []
        text = inline(path, rename(text, renames[path]), seen, macros)
        out.append("/* ==== %s ==== */\n" % path)
        if path == generic:
            text = "#ifdef KIN_SWITCH_GENERIC\n%s#endif\n" % text
        out.append(text)
        out += ["#undef %s\n" % name for name in macros]
        out.append("\n")
        if verbose and renames[path]:
            print("%s: renamed %s" % (path, ", ".join(sorted(renames[path]))))
    for name, guard in known:
        path = "src/plat/switch_%s.S" % name
        out.append("/* ==== %s ==== */\n" % path)
        out.append("#if %s && !defined(KIN_SWITCH_GENERIC)\n%s#endif\n\n" % (guard, assembly(path)))
    return "".join(out)


def make_header():
    out = [HEAD % (version(), ": every public header.")]
    for header in kinheaders.load(os.path.join(ROOT, "include", "kin")):
        if header.name in ("kin.h", "lab.h", "atoms.h"):
            continue
        lines = [line for line in header.text.splitlines()
                 if not PUBLIC_INCLUDE.match(line) and not line.startswith("/* SPDX")]
        out.append("/* ==== kin/%s ==== */\n%s\n" % (header.name, "\n".join(lines)))
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="dist", help="directory to write into (dist)")
    parser.add_argument("--verbose", action="store_true", help="say which names were renamed")
    options = parser.parse_args()
    os.makedirs(options.output, exist_ok=True)
    for name, text in (("kin.h", make_header()), ("kin.c", make_source(options.verbose))):
        with open(os.path.join(options.output, name), "w", encoding="utf-8") as file:
            file.write(text)
        print("%s/%s: %d lines" % (options.output, name, text.count("\n")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
