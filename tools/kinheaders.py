# SPDX-License-Identifier: MIT
"""Reads the public headers: their functions, what the comments say about them, their order.

The headers are the authority; man pages, the symbol check, the amalgamation and the compiled
examples all come through here. A documented function looks like this:

    /**
     * kin_chan_send - hand one item over, waiting for room until @deadline.
     * @chan:     borrowed.
     *
     * Prose.
     *
     * Example:
     *     code
     *
     * From:    task
     * Returns: 0, KIN_CLOSED
     */
    KIN_API KIN_MUST_USE int kin_chan_send(struct kin_chan *chan, ...);
"""
import os
import re

FIELDS = ["From", "Parks", "Cancel", "Needs", "Budget", "Returns", "Spec"]
ATTRIBUTES = ["KIN_API", "KIN_LAB_API", "KIN_ATOMS_API", "KIN_MUST_USE", "KIN_NORETURN",
              "KIN_PURE", "static", "inline"]

BLOCK = re.compile(r"/\*\*\n(.*?)\*/\n(.*?)(?:;|\n\{)", re.S)
EXPORTED = re.compile(r"^KIN_API\b[^;{]*?\b((?:kin|janus)_\w+)\s*\(", re.M)
INCLUDE = re.compile(r"^#include <kin/(\w+\.h)>$", re.M)
FIELD = re.compile(r"^(%s):\s*(.*)$" % "|".join(FIELDS))


class Function:
    """One documented function: everything its comment says, and its prototype."""

    def __init__(self, header, comment, declaration):
        self.header = header
        self.prototype = clean_prototype(declaration)
        self.summary = ""
        self.params = []  # (name, text)
        self.body = []  # lines of prose; indented ones are preformatted
        self.examples = []  # code
        self.fields = {}
        lines = [re.sub(r"^ \* ?", "", line) for line in comment.rstrip(" ").splitlines()]
        self._parse(lines)
        self.faults = list(faults_in(lines, self))

    def _parse(self, lines):
        """Goes through the parts in the order they have: name, parameters, prose, fields."""
        first = lines[0].split(" - ", 1)
        self.name = first[0].strip()
        self.summary = first[1].strip() if len(first) == 2 else ""
        part, example, field = "summary", None, None
        for line in lines[1:]:
            text = line.strip()
            match = FIELD.match(line)
            if match:
                part, field = "field", match.group(1)
                self.fields[field] = match.group(2).strip()
            elif re.match(r"^@\w+:", line) and part in ("summary", "params"):
                part = "params"
                name, rest = line[1:].split(":", 1)
                self.params.append([name, rest.strip()])
            elif line.startswith("Example:"):
                part, example = "example", []
                self.examples.append(example)
            elif part == "example" and (not text or line.startswith("    ")):
                example.append(line[4:])
            elif part == "summary" and text:
                self.summary += " " + text
            elif part == "params" and text and line.startswith(" "):
                self.params[-1][1] += " " + text
            elif part == "field" and text:
                self.fields[field] += " " + text
            elif part == "field":
                part = "body"
            else:
                part = "body"
                self.body.append(line.rstrip())
        self.examples = ["\n".join(code).strip("\n") + "\n" for code in self.examples]


def faults_in(lines, function):
    """What a page would show in the wrong place: sentences about it, none if all is well."""
    is_field = False
    for line in lines:
        if re.search(r"\S.*(?:\b(?:%s)|\s@\w+):\s" % "|".join(FIELDS), line):
            yield "a part begins in the middle of a line: " + line
        if FIELD.match(line):
            is_field = True
        elif is_field and line.strip() and not line.startswith(" " * 9):
            yield "a line goes on below its part without being indented: " + line
    written = list(function.fields)
    if written != [field for field in FIELDS if field in written]:
        yield "the order of its parts is " + ", ".join(written)
    named, taken = [name for name, _ in function.params], parameters_of(function.prototype)
    if named != taken:
        yield "it describes (%s) and takes (%s)" % (", ".join(named), ", ".join(taken))


def parameters_of(prototype):
    """The names of what a function takes."""
    inside = prototype.split("(", 1)[-1].rsplit(")", 1)[0]
    inside = re.sub(r"\(\*(\w+)\)\([^()]*\)", r"\1", inside)  # pointers to functions
    return [re.findall(r"\w+", re.sub(r"\[.*?\]", "", part))[-1] for part in inside.split(",")
            if part.strip() not in ("", "void", "...")]


class Header:
    """One public header: its text, what it is in prose, its functions."""

    def __init__(self, path):
        self.name = os.path.basename(path)
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        head = re.search(r"^/\*\n(.*?)\*/", self.text, re.S | re.M)
        self.head = [re.sub(r"^ \* ?", "", line) for line in head.group(1).splitlines()]
        self.head = [line for line in self.head if line.strip() != "*/"]
        self.functions = [Function(self.name, comment, declaration)
                          for comment, declaration in BLOCK.findall(self.text)]
        self.declarations = declarations_of(self.text)
        self.exported = EXPORTED.findall(self.text)
        self.includes = INCLUDE.findall(self.text)


def clean_prototype(declaration):
    """A declaration without attributes, on one line."""
    text = re.sub(r"\bKIN_PRINTF\(.*?\)", "", " ".join(declaration.split()))
    words = [word for word in text.split(" ") if word not in ATTRIBUTES]
    return " ".join(words).strip()


def declarations_of(text):
    """The types and constants of a header, without its functions, what only its macros use, and
    how longer macros do it."""
    text = re.split(r"^#define KIN_\w+_H$\n", text, 1, re.M)[-1]  # after the guard
    text = re.sub(r"/\*\*\n.*?\*/\n[^;{]*(?:;|\{.*?\n\})", "", text, flags=re.S)
    own = r"(?:/\*(?:(?!\*/).)*\*/\n)?"  # the comment right above
    text = re.sub(own + r"KIN_\w*API\b[^;]*;\n", "", text, flags=re.S)  # used by macros only
    text = re.sub(own + r"static inline [^;{]*\bkin_\w+_\([^{]*\{.*?\n\}\n", "", text, flags=re.S)
    text = re.sub(r"^[\w* ]+\bkin_\w+_\([^;]*;\n", "", text, flags=re.M)
    text = re.sub(own + r"#define KIN_\w*API [^\n]*\n", "", text, flags=re.S)
    text = re.sub(r"^#define \w+_(?:\(.*\)|\b)(?:.*\\\n)*.*\n", "", text, flags=re.M)
    text = re.sub(r"^(#define \w+(?:\([^)]*\))?)[ ]*\\\n(?:.*\\\n)*.*\n", r"\1 ...\n", text,
                  flags=re.M)
    text = re.sub(r"^/\* ---- .* ---- \*/$\n", "", text, flags=re.M)
    text = re.sub(r"^(?:#include.*|KIN_(?:BEGIN|END)_DECLS)$\n|#endif\s*\Z", "", text, flags=re.M)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n").splitlines()


def macros_of(header):
    """What the comment right above says, for each macro with arguments that has one."""
    found = re.findall(r"/\*((?:(?!\*/)[\s\S])*)\*/\n(?:#if.*\n)?#define (KIN_\w+)\(",
                       "\n".join(header.declarations))
    return {name: " ".join(words.replace("\n *", " ").split()) for words, name in found}


def load(directory):
    """All public headers, each after those it includes; kin.h last."""
    headers = {}
    for name in sorted(os.listdir(directory)):
        if name.endswith(".h"):
            headers[name] = Header(os.path.join(directory, name))
    ordered = []

    def add(name):
        if headers[name] in ordered:
            return
        for other in headers[name].includes:
            add(other)
        ordered.append(headers[name])

    for name in headers:
        if name != "kin.h":
            add(name)
    if "kin.h" in headers:
        add("kin.h")
    return ordered
