#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes man pages from the public headers.

One page of section 3 per function and macro, one of section 7 per header (kin-nursery.7 for
<kin/nursery.h>), and kin.7, which leads to all of them.
"""
import argparse
import os
import re
import sys

sys.dont_write_bytecode = True
import kinheaders  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ENTRY = re.compile(r"^  (\w+)  +(\S.*)$")
# kin.7 begins with what a program begins with, and ends with what few need.
FIRST = ["run.h", "nursery.h", "task.h", "time.h", "chan.h", "select.h", "sync.h", "io.h", "net.h"]
LAST = ["lab.h", "atoms.h", "janus.h"]
TITLES = [("From", "CALLED FROM"), ("Parks", "PARKS"), ("Cancel", "CANCELLATION"),
          ("Needs", "CAPABILITY"), ("Budget", "BUDGET")]


def version():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"project\(kin VERSION ([\d.]+)", file.read()).group(1)


def escape(text):
    """Text as roff shows it unchanged."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def prose(text):
    """A sentence in which names of kin are bold and @parameters italic."""
    text = escape(text)
    text = re.sub(r"@(\w+)", r"\\fI\1\\fP", text)
    text = re.sub(r"\b(KIN_\w+|kin_\w+)(\(\))?", r"\\fB\1\\fP\2", text)
    return re.sub(r"^\\f", r"\\&\\f", text)


def paragraphs(lines):
    """Prose of a comment: blank lines divide it, indented lines are shown as they are. Lines that
    begin with two blanks, a word and more blanks are a list of such words."""
    out, block, drawn, said = [], [], False, None

    def flush():
        nonlocal block
        if not block:
            return
        out.append(".PP")
        if drawn:
            out.extend([".RS 4", ".EX"] + [escape(line) for line in block] + [".EE", ".RE"])
        else:
            out.append(prose(" ".join(line.strip() for line in block)))
        block = []

    for line in lines:
        entry = ENTRY.match(line)
        if entry:
            flush()
            said = entry.group(2)
            out += [".TP", ".B " + escape(entry.group(1)), prose(said)]
            continue
        if said and line.startswith("       "):
            said += " " + line.strip()
            out[-1] = prose(said)
            continue
        said = None
        indented = line.startswith("    ")
        if line.strip() and indented != drawn:
            flush()
            drawn = indented
        if line.strip():
            block.append(line)
        elif drawn:
            block.append("")  # may be inside a picture; the last ones are dropped
            if not any(block):
                block = []
        else:
            flush()
    while block and not block[-1].strip():
        block.pop()
    flush()
    return trim_pictures(out)


def trim_pictures(lines):
    """Takes blank lines out of the end of pictures."""
    out = []
    for line in lines:
        if line == ".EE":
            while out and out[-1] == "":
                out.pop()
        out.append(line)
    return out


def synopsis(function):
    """The prototype with one line per parameter where it is long."""
    text = function.prototype + ";"
    lines = [text]
    if len(text) > 72:
        head, rest = text.split("(", 1)
        lines = [head + "("] + ["    " + part.strip() + ("" if part.endswith(";") else ",")
                                for part in rest.split(",")]
    return [".nf", ".B #include <kin/%s>" % function.header, ".PP"] + [
        "\\fB%s\\fP" % escape(line) for line in lines] + [".fi"]


def page(name, section, title, parts):
    """A whole page: parts are (heading, lines)."""
    out = ['.\\" Written by tools/man.py from the headers of kin.',
           '.TH "%s" "%s" "" "kin %s" "kin"' % (name, section, version()),
           ".SH NAME", "%s \\- %s" % (escape(name), escape(title.rstrip(".")))]
    for heading, lines in parts:
        if lines:
            out.append(".SH " + heading)
            out += drop_first_break(lines)
    return "\n".join(out) + "\n"


def drop_first_break(lines):
    """A section begins with its text: a .PP right after .SH says nothing."""
    return lines[1:] if lines and lines[0] == ".PP" else lines


def function_page(function, neighbours):
    described = paragraphs(function.body)
    if not described:
        described = [prose(function.summary[0].upper() + function.summary[1:])]
    for name, text in function.params:
        described += [".TP", ".I " + escape(name), prose(text)]
    parts = [("SYNOPSIS", synopsis(function)), ("DESCRIPTION", described)]
    for field, title in TITLES:
        if field in function.fields:
            parts.append((title, [prose(function.fields[field])]))
    parts.append(("RETURN VALUE", [prose(function.fields.get("Returns", "nothing"))]))
    for code in function.examples:
        parts.append(("EXAMPLES", listing(code.splitlines())))
    if "Spec" in function.fields:
        parts.append(("SPECIFICATION", [escape(function.fields["Spec"])]))
    room = "kin-" + function.header[:-2]
    also = ["%s (3)" % escape(other.name) for other in neighbours if other is not function]
    also += ["%s (7)" % escape(room), "kin (7)"]
    parts.append(("SEE ALSO", see_also(also)))
    return page(function.name, "3", function.summary, parts)


def see_also(names):
    return [".BR %s%s" % (name, "" if last else " ,")
            for name, last in ((name, name is names[-1]) for name in names)]


def table(functions):
    out = []
    for function in functions:
        out += [".TP", ".BR %s (3)" % escape(function.name), prose(function.summary)]
    return out


def listing(lines):
    """Code as it is."""
    return [".EX"] + [escape(line) for line in lines] + [".EE"] if lines else []


def room_page(header):
    title = header.head[0].strip()
    title = title.split(": ", 1)[1] if ": " in title else title
    parts = [("SYNOPSIS", [".B #include <kin/%s>" % header.name]),
             ("DESCRIPTION", paragraphs(header.head)),
             ("FUNCTIONS", table(header.functions)),
             ("TYPES AND CONSTANTS", listing(header.declarations)),
             ("SEE ALSO", [".BR kin (7)"])]
    return page("kin-" + header.name[:-2], "7", title, parts)


def macro_page(header, name, words):
    room = "kin-" + header.name[:-2]
    return page(name, "3", "a macro of <kin/%s>" % header.name, [
        ("SYNOPSIS", [".B #include <kin/%s>" % header.name]), ("DESCRIPTION", [prose(words)]),
        ("SEE ALSO", see_also([escape(room) + " (7)", "kin (7)"]))])


def overview(headers):
    used = [".EX", "cc app.c $(pkg\\-config \\-\\-cflags \\-\\-libs kin)", ".EE"]
    described = paragraphs([
        "A program hands a function to kin_run, which runs it as the first task. A task opens a "
        "nursery, spawns children into it and joins it; no child outlives its nursery. Tasks are "
        "cheap: each has a stack of its own that takes memory as it is used, and a worker thread "
        "runs many of them.",
        "",
        "A call that fails returns a negative number: -errno as the system gave it, or a "
        "condition of the runtime below -4095, which kin_status_text explains."])
    rooms = []
    headers = sorted(headers, key=lambda header: (
        header.name in LAST, (FIRST + [header.name]).index(header.name), header.name))
    for header in headers:
        if header.functions:
            rooms += [".SS <kin/%s>" % header.name] + table(header.functions)
    also = ["kin\\-lab (1)"]
    also += ["kin\\-%s (7)" % header.name[:-2] for header in headers if header.functions]
    return page("kin", "7", "structured concurrency for C", [
        ("SYNOPSIS", [".B #include <kin/kin.h>", ".PP"] + used), ("DESCRIPTION", described),
        ("FUNCTIONS", rooms), ("SEE ALSO", see_also(also))])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="build/man", help="directory for man3/ and man7/")
    options = parser.parse_args()
    headers = kinheaders.load(os.path.join(ROOT, "include", "kin"))
    pages = {"man7/kin.7": overview(headers)}
    for header in headers:
        if header.functions:
            pages["man7/kin-%s.7" % header.name[:-2]] = room_page(header)
        for function in header.functions:
            pages["man3/%s.3" % function.name] = function_page(function, header.functions)
        for name, words in kinheaders.macros_of(header).items():
            pages["man3/%s.3" % name] = macro_page(header, name, words)
    for name, text in pages.items():
        path = os.path.join(options.output, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    print("%d man pages in %s" % (len(pages), options.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
