#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the tables of public calls against the public headers.

Goal: nobody adds a public call without saying what it is to the lab (test/lab/points.def), and what
it costs and needs (test/api/calls.def); the headers tell people the same as the second table.
Method: the names of the headers and those of each table are the same, each once; a table with one
name more, and one with one name less, are found out; so is a row that contradicts its header, or
has no reason. Prints one line per test as the other tests do.
"""

import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import kinheaders  # noqa: E402

POINTS, CALLS = "test/lab/points.def", "test/api/calls.def"
POINT = re.compile(r"^(?:POINT|CALL|OWN|OUTSIDE)\((\w+)\)$", re.M)
ROW = re.compile(r"^CALL\((\w+), (\w+), ([\w |]+), ([\w |]+), (\w+), (\w+)\)$", re.M)
REASON = re.compile(r"^ \*(?: how)? +(\w+) +\w", re.M)
# what a header calls each part of a cost
WORDS = {"OPS": r"\b1 op\b(?!, if)", "TURN": r"\ba step of the turn",
         "OPS_IF_ANY": r"\b1 op, if there is one left",
         "MEMORY": r"\bmemory\b", "SPAWNS": r"\bspawn",
         "CHANNEL_OPS": r"\bchannel operation", "SYSCALLS": r"\bsys(?:tem )?call"}
NAMES = r"struct kin_(?:task_ref|addr|monitor_ref|link_ref) \w"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def headers():
    """The public names, and the documented functions by name."""
    names, functions = set(), {}
    for path in glob.glob(os.path.join(ROOT, "include/kin/*.h")):
        header = kinheaders.Header(path)
        names.update(header.exported)
        functions.update({function.name: function for function in header.functions})
    return names, functions


def mistakes(listed, names):
    for name in sorted(names - set(listed)):
        yield f"{name} is public and has no line"
    for name in sorted(set(listed) - names):
        yield f"{name} is not public any more"
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield f"{name} is there more than once"


def said(function, functions, field="Budget"):
    """What a header says that a call costs or returns, "as kin_x" followed to its end."""
    text = function.fields.get(field, "")
    match = re.match(r"as (kin_\w+)", text)
    return said(functions[match.group(1)], functions, field) if match else text


def contradictions(rows, functions):
    """Rows that say something else than the header does."""
    for name, _, cost, caps, handle, how in rows:
        function = functions.get(name)
        costs, needs = cost.split(" | "), caps.split(" | ")
        if costs == ["NOTHING"] and needs == ["NO_CAP"] and how == "driven":
            yield f"{name} costs nothing and needs nothing, for no reason"
        if not function:
            continue
        takes_name = bool(re.search(NAMES, function.prototype.split("(", 1)[1]))
        if takes_name != (handle == "NAME"):
            yield f"{name}: handle is {handle}, and the prototype: {function.prototype}"
        budget = said(function, functions)
        for part, words in WORDS.items():
            if (part in costs) != bool(re.search(words, budget)):
                yield f"{name}: {cost}, and the header says: {budget or 'nothing'}"
        # a call that answers with a pointer has no status for it
        if "MEMORY" in costs and not re.search(r"KIN_BUDGET|NULL when",
                                               said(function, functions, "Returns")):
            yield f"{name}: {cost}, and the header does not say that it returns KIN_BUDGET"
        stated = set(re.findall(r"KIN_CAP_(\w+)", function.fields.get("Needs", "") + " " + budget))
        if re.search(r"what the descriptor", function.fields.get("Needs", "")):
            stated |= {"FILE", "NET"}
        missing = set(needs) - stated - {"NO_CAP", "OF_FD"}
        if missing:
            yield f"{name} needs {', '.join(sorted(missing))}, and the header does not say so"


def tables(points, rows, names, functions):
    for line in mistakes(points, names):
        yield f"{POINTS}: {line}"
    for line in mistakes([row[0] for row in rows], names):
        yield f"{CALLS}: {line}"
    reasons = set(REASON.findall(read(CALLS))) | {"driven"}
    for row in rows:
        if row[5] not in reasons:
            yield f"{CALLS}: {row[0]}: no reason is called {row[5]}"
    for line in contradictions(rows, functions):
        yield f"{CALLS}: {line}"


def main():
    names, functions = headers()
    points, rows = POINT.findall(read(POINTS)), ROW.findall(read(CALLS))
    found = list(tables(points, rows, names, functions))
    for line in found:
        print(line)

    def finds(some_points, some_rows, words):
        return any(words in line for line in tables(some_points, some_rows, names, functions))

    send = next(row for row in rows if row[0] == "kin_chan_send")
    others = [row for row in rows if row != send]
    results = {
        "every_public_call_is_in_both_tables": not found and len(names) > 200,
        "a_call_without_a_line_is_found":
            finds([name for name in points if name != "kin_chan_len"], rows, "kin_chan_len is")
            and finds(points, others, "kin_chan_send is public"),
        "a_line_without_a_call_is_found":
            finds(points + ["kin_gone"], rows, "kin_gone is not")
            and finds(points, rows + [("kin_gone",) + send[1:]], "kin_gone is not"),
        "a_row_that_contradicts_its_header_is_found":
            finds(points, others + [send[:2] + ("OPS",) + send[3:]], "kin_chan_send: OPS")
            and finds(points, [("kin_event_set",) + row[1:2] + ("MEMORY",) + row[3:]
                               if row[0] == "kin_event_set" else row for row in rows],
                      "kin_event_set: MEMORY, and the header does not say that it returns"),
        "a_row_without_a_reason_is_found":
            finds(points, others + [send[:5] + ("because",)], "no reason is called because"),
    }
    for name, is_well in results.items():
        print(f"{'ok  ' if is_well else 'FAIL'} {name}")
    failed = sum(not is_well for is_well in results.values())
    print(f"tables_test: {len(results) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
