#!/usr/bin/python3
"""Runs the conformance matrix and writes its table into a page.

    tests/conformance/table.py [PAGE]      (make conformance)
    tests/conformance/table.py --attempts  every attempt, with what was expected and what came

The page has two marks, between which the table stands.  The end is 1 if a row fails or is void.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import wire  # noqa: E402

wire.keep_low_descriptors()

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import lab  # noqa: E402
import rows  # noqa: E402

BEGIN, END = "<!-- conformance: begin -->", "<!-- conformance: end -->"
GRADES = (lab.PASS, lab.FAIL, lab.VOID, lab.NOT_EXERCISED, lab.NOT_IMPLEMENTED, lab.NOT_APPLICABLE)


def counts(attempts):
    """`2 attacks, 1 probe, 1 control`"""
    found = []
    for role in (lab.ATTACK, lab.PROBE, lab.CONTROL):
        n = sum(a.role == role for a in attempts)
        found += [f"{n} {role}{'s' if n != 1 else ''}"] if n else []
    return ", ".join(found)


def lines_of(results):
    """The table: aligned, so that it reads as text too."""
    cells = [("row", "condition", "revocation", "grade", "attempts, or why not")]
    cells += [(row.name, row.condition, mode if row.modes else "", grade,
               why or counts(attempts)) for row, mode, grade, why, attempts in results]
    width = [max(len(c[i]) for c in cells) for i in range(4)]
    rows_ = ["| " + " | ".join(c.ljust(w) for c, w in zip(line, width)) + f" | {line[4]} |"
             for line in cells]
    return [rows_[0], "|" + "|".join("-" * (w + 2) for w in width) + "|---|", *rows_[1:]]


def summary(results):
    n = {grade: sum(r[2] == grade for r in results) for grade in GRADES}
    return ", ".join(f"{count} {grade}" for grade, count in n.items() if count)


def page_of(results):
    return [summary(results) + ".", "", *lines_of(results), "", ""]


def tell(results):
    for row, mode, grade, _, attempts in results:
        print(f"{row.key(mode)}: {grade}")
        for a in attempts:
            print(f"    {a.role:8}{a.what}: {a.got}" +
                  ("" if a.got == a.expected else f", not {a.expected}"))


def main(page=None):
    if wire.program("caissond") is None:
        sys.exit("caissond is not built")
    results = lab.run(rows.ROWS, rows.WORLD)
    if page == "--attempts":
        tell(results)
        page = None
    lines = page_of(results)
    print("\n".join(lines))
    bad = [r for r in results if r[2] in (lab.FAIL, lab.VOID)]
    if bad:
        sys.exit(1)
    if page is not None:
        text = pathlib.Path(page).read_text(encoding="utf-8")
        new, n = re.subn(f"(?s)({re.escape(BEGIN)}\n).*({re.escape(END)})",
                         lambda m: m[1] + "\n" + "\n".join(lines) + m[2], text)
        if n != 1:
            sys.exit(f"{page}: the marks are missing")
        pathlib.Path(page).write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
