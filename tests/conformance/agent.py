"""The runtime of the conformance rows: it does what its message lists, hostile or not.

Each word of the list is {"do": name, ...}; what became of it is a line on its output, as the
runtime was told it: [status, code or output].
"""

import gc
import json
import os
import re

import caisson

# What an identifier of a grant looks like in the world of the rows.
MARK = re.compile(rb"grant-mark-[0-9a-f]{16}")


def call(turn, word):
    try:
        return ["succeeded", turn.invoke(word["tool"], word["arguments"], word.get("step"))]
    except caisson.ToolDenied as e:
        return ["denied", e.code]
    except caisson.ToolFailed as e:
        return ["failed", e.code]


def forge(turn, word):
    """A call that claims to be of another namespace: no answer can come."""
    turn._link.send([0, 1 << 20, "tool.invoke", [
        {"operation": turn.operation, "id": "forged", "tool": word["tool"],
         "arguments": word["arguments"], **word["claims"]}]])
    turn.cancelled.wait()  # the end comes from outside
    return ["succeeded", None]


def memory():
    """Every writable or readable byte of this process that it may look at."""
    with open("/proc/self/maps", encoding="utf-8") as maps, open("/proc/self/mem", "rb", 0) as mem:
        for line in maps:
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
            if not line.split()[1].startswith("r") or "[v" in line:
                continue
            try:
                mem.seek(begin)
                yield mem.read(end - begin)
            except (OSError, OverflowError, ValueError):
                continue


def walk(turn, word):
    """Looks for an identifier of a grant in all that can be reached."""
    found, looked = set(), 0
    for value in gc.get_objects():
        if type(value) in (dict, list, tuple, str, bytes):
            found.update(MARK.findall(repr(value).encode(errors="replace")))
            looked += 1
    try:
        for block in memory():
            found.update(MARK.findall(block))
            looked += 1
    except OSError:
        pass  # no /proc here: the objects are all that there is
    for name in ("environ", "cmdline", "cgroup", "mountinfo"):
        try:
            with open(f"/proc/self/{name}", "rb") as f:
                found.update(MARK.findall(f.read()))
        except OSError:
            continue
    for folder, _, names in os.walk("/app"):
        for name in names:
            with open(os.path.join(folder, name), "rb") as f:
                found.update(MARK.findall(f.read()))
    members = sorted(k for k in vars(turn.limits)) + sorted(turn.context)
    return ["succeeded", {"found": len(found), "looked": looked, "members": members,
                          "offered": sorted(turn.tools)}]


def gate(turn, word):
    """Waits until the other side of the pipe is opened."""
    with open("/gate/go", encoding="utf-8") as pipe:
        pipe.read()
    return ["succeeded", None]


def run(turn):
    for word in turn.message["do"]:
        does = word["do"]
        if does == "throw":
            raise RuntimeError("of the runtime's own")
        if does == "escalate":
            raise caisson.Escalate("there is nobody else to ask")
        if does == "gate":
            turn.output(b'["gate"]\n')
        told = {"call": call, "forge": forge, "walk": walk, "gate": gate}[does](turn, word)
        if does != "gate":
            turn.output(json.dumps(told).encode() + b"\n")
    return "done"


caisson.serve(run)
