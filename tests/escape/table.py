#!/usr/bin/python3
"""Runs the escape suite from every side and writes its table into a page.

    tests/escape/table.py PAGE      (make escape-table; as root it knows the most)

The page has two marks, between which the table stands.  What Caisson's column says is of
table.tsv, and refused here if a chamber did otherwise; bubblewrap's and the control's are measured.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import wire  # noqa: E402

wire.keep_low_descriptors()

import escape_lab as lab  # noqa: E402


def chambers(techniques):
    """Runs all in each profile; anything that is not as expected is said and the end."""
    wrong = []
    for profile in lab.PROFILES:
        wanted = [t for t in techniques if t.expects(profile) != {"-"}]
        with lab.World() as world:
            outcomes = lab.attack(world, profile, wanted)
            wrong += [f"{profile}: {trace}" for trace in world.traces()]
        wrong += [f"{profile}: {t.name}: {outcomes[t.name]} instead of {t.expected}"
                  for t in wanted if outcomes[t.name] not in t.expects(profile)]
    if wrong:
        sys.exit("\n".join(wrong))


def main(page):
    techniques = lab.techniques()
    with lab.World() as world:
        control = lab.controls(world, techniques)
    chambers(techniques)
    # Who runs agents in it is no root.
    who = {"user": lab.NOBODY, "group": lab.NOBODY, "extra_groups": []} if lab.ROOT else {}
    if shutil.which("bwrap") is None:
        sys.exit("bubblewrap is not installed: apt-get install bubblewrap")
    bwrap = json.loads(subprocess.run([sys.executable, __file__, "--bubblewrap"],
                                      stdout=subprocess.PIPE, check=True, **who).stdout)
    version = subprocess.run(["bwrap", "--version"], stdout=subprocess.PIPE, check=True)
    counted = [t for t in techniques if control[t.name] == "ESCAPED"]
    through = [t for t in counted if bwrap[t.name] == "ESCAPED"]
    lines = [
        f"{len(techniques)} techniques; without a chamber {len(counted)} of them succeed on the "
        f"machine of this table,", "as root. Of those, in Caisson:",
        ", ".join(f"{p} 0" for p in lab.PROFILES) + f"; in {version.stdout.decode().strip()}: "
        f"{len(through)}.", ""]
    for kind in dict.fromkeys(t.kind for t in techniques):
        lines += [f"| {kind} | layer | Caisson | bubblewrap | control |", "|---|---|---|---|---|"]
        for t in techniques:
            if t.kind == kind:
                lines.append(" | ".join([*lab.cells(t), lab.cell(bwrap[t.name]),
                                         lab.cell(control[t.name])]) + " |")
        lines.append("")
    text = pathlib.Path(page).read_text(encoding="utf-8")
    new, n = re.subn(f"(?s)({re.escape(lab.BEGIN)}\n).*({re.escape(lab.END)})",
                     lambda m: m[1] + "\n" + "\n".join(lines) + m[2], text)
    if n != 1:
        sys.exit(f"{page}: the marks are missing")
    pathlib.Path(page).write_text(new, encoding="utf-8")
    print("\n".join(lines))


def bubblewrap():
    with lab.World() as world:
        print(json.dumps(lab.run(lab.bubblewrap, world, lab.techniques())))


if __name__ == "__main__":
    if sys.argv[1:] == ["--bubblewrap"]:
        bubblewrap()
    else:
        main(*sys.argv[1:])
