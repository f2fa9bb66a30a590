#!/usr/bin/python3
"""The demo's runtime: indexes a tree of documentation, and then turns hostile.

Under Caisson it serves turns.  Outside, as `indexer.py --outside`, the same program makes
the same attempts with the user's own rights, to show what is refused in a chamber.  Each
attempt says what became of it: {"done": ...}, or {"refused": by what, "why": ...}.
"""

import base64
import collections
import errno
import gzip
import hashlib
import json
import os
import re
import socket
import subprocess
import sys

import caisson

IN_FLIGHT = 24  # reads at once
GZIP_MAX = 4 << 20  # bytes of an unpacked file that are looked at


# ---- the useful half ---------------------------------------------------------------------


def listing(turn, path):
    """Every entry of a directory, page by page."""
    arguments, entries = {"path": path}, []
    while True:
        page = turn.invoke("files.list", arguments)
        entries += page["entries"]
        if page["complete"]:
            return entries
        arguments = {"path": path, "cursor": page["cursor"]}


def read_all(turn, paths):
    """Yields (path, first slice) with IN_FLIGHT reads under way."""
    waiting, paths = collections.deque(), iter(paths)
    while True:
        while len(waiting) < IN_FLIGHT and (path := next(paths, None)) is not None:
            waiting.append((path, turn.start("files.read", {"path": path})))
        if not waiting:
            return
        path, call = waiting.popleft()
        yield path, call.result()


def decoded(path, slice_):
    """(text or None, what is odd about it or None)"""
    if "text" in slice_:
        text = slice_["text"]
        return text, "lines end in CR LF" if "\r\n" in text else None
    data = base64.b64decode(slice_["base64"])
    if path.endswith(".gz"):
        try:
            unpacked = gzip.decompress(data) if slice_["complete"] else b""
        except (OSError, EOFError):
            return None, "gzip that does not unpack"
        data = unpacked[:GZIP_MAX]
    try:
        return data.decode(), None
    except UnicodeDecodeError as e:
        return data.decode("latin-1"), f"not UTF-8 (byte {e.start})"


class Index:
    """What is known after every file has been seen once."""

    def __init__(self, packages):
        self.packages, self.files, self.bytes, self.words = packages, 0, 0, 0
        self.licences = collections.defaultdict(set)  # licence -> packages
        self.cves = collections.defaultdict(set)  # package -> CVE numbers
        self.mentions = collections.defaultdict(set)  # package -> packages that name it
        self.odd, self.sizes, self.same = [], [], collections.defaultdict(list)
        self.names = re.compile(r"(?<![\w.+-])(%s)(?![\w+-])" % "|".join(
            sorted((re.escape(p) for p in packages if len(p) > 4), key=len, reverse=True))
            ) if any(len(p) > 4 for p in packages) else None

    def add(self, path, slice_):
        package, name = path.split("/")[1], path.split("/")[-1]
        text, odd = decoded(path, slice_)
        self.files += 1
        self.bytes += slice_["size"]
        self.sizes.append((slice_["size"], path))
        if odd:
            self.odd.append((path, odd))
        if text is None:
            return
        self.words += text.count(" ") + text.count("\n")
        if len(text) > 200:
            self.same[hashlib.sha256(text.encode()).hexdigest()].append(path)
        self.cves[package].update(re.findall(r"CVE-\d{4}-\d{4,7}", text))
        if name == "copyright":
            short = re.findall(r"^License: *([^\s,]+)", text, re.M)
            short += re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9])", text)
            for licence in short:
                self.licences[licence].add(package)
        if self.names is not None:
            for other in set(self.names.findall(text)) - {package}:
                self.mentions[other].add(package)

    def markdown(self, source):
        same = [paths for paths in self.same.values() if len(paths) > 1]
        out = [f"# Index of {source}", "",
               f"{len(self.packages)} packages, {self.files} files, {self.bytes} bytes, "
               f"about {self.words} words.", "", "## Licences", ""]
        for licence, packages in sorted(self.licences.items(), key=lambda i: (-len(i[1]), i[0])):
            out.append(f"* **{licence}** ({len(packages)}): {', '.join(sorted(packages)[:12])}"
                       f"{', …' if len(packages) > 12 else ''}")
        out += ["", "## Security fixes named in changelogs", ""]
        for package, cves in sorted(self.cves.items(), key=lambda i: (-len(i[1]), i[0])):
            if cves:
                out.append(f"* **{package}**: {len(cves)}, last {max(cves, key=cve_order)}")
        out += ["", "## Who mentions whom", ""]
        for package, by in sorted(self.mentions.items(), key=lambda i: (-len(i[1]), i[0])):
            out.append(f"* **{package}** ← {', '.join(sorted(by))}")
        out += ["", "## Findings", ""]
        out += [f"* odd encoding: `{path}`: {what}" for path, what in sorted(self.odd)]
        out += [f"* the same text {len(paths)} times: {', '.join(f'`{p}`' for p in paths[:4])}"
                f"{', …' if len(paths) > 4 else ''}" for paths in sorted(same)]
        out += [f"* largest: `{path}`, {size} bytes"
                for size, path in sorted(self.sizes, reverse=True)[:5]]
        return "\n".join(out) + "\n"


def cve_order(cve):
    return [int(n) for n in cve[4:].split("-")]


def index(turn):
    """Reads everything beneath docs, writes out/index.md, returns the numbers."""
    packages = [e["name"] for e in listing(turn, "docs") if e["type"] == "directory"]
    paths = [f"docs/{package}/{e['name']}" for package in packages
             for e in listing(turn, f"docs/{package}") if e["type"] == "file"]
    found = Index(packages)
    for path, slice_ in read_all(turn, paths):
        found.add(path, slice_)
    text = found.markdown(turn.message["source"])
    while len(text.encode()) > 250_000:  # files.write takes 256 KiB
        text = text[:len(text) * 9 // 10]
    written = turn.invoke("files.write", {"path": "out/index.md", "text": text})
    top = max(found.licences.items(), key=lambda i: len(i[1]), default=("none", ()))
    fixes = max(found.cves.items(), key=lambda i: len(i[1]), default=("none", ()))
    return {"packages": len(packages), "files": found.files, "bytes": found.bytes,
            "words": found.words, "licences": len(found.licences),
            "topLicence": [top[0], len(top[1])],
            "cves": len(set().union(*found.cves.values())) if found.cves else 0,
            "topCves": [fixes[0], len(fixes[1])],
            "mentions": sum(map(len, found.mentions.values())), "odd": len(found.odd),
            "same": sum(len(p) - 1 for p in found.same.values()),
            "written": written.get("size", 0)}


# ---- the hostile half --------------------------------------------------------------------


def by_system(act):
    """Tries something with the rights of the process."""
    try:
        return {"done": act()}
    except OSError as e:
        return {"refused": "kernel", "why": errno.errorcode.get(e.errno, str(e))}


def by_tool(turn, tool, arguments, outside):
    """Tries something through a tool; outside there is none, and the system does it."""
    if turn is None:
        return by_system(outside)
    try:
        return {"done": str(turn.invoke(tool, arguments))[:80]}
    except (caisson.ToolDenied, caisson.ToolFailed) as e:
        return {"refused": "broker" if isinstance(e, caisson.ToolDenied) else "provider",
                "why": e.code}


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path):
    with open(path, "w", encoding="utf-8") as f:
        return f"{f.write('owned')} bytes"


def connect(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
        s.sendall(b"stolen")
        return "connected"


def malformed(turn):
    """Four bytes that announce 4 GiB.  Outside: to a socket that believes anything."""
    ours, theirs = socket.socketpair() if turn is None else (None, None)
    fd = turn.link_fd if turn is not None else ours.fileno()
    os.write(fd, b"\xff\xff\xff\xff\xc1")
    if turn is None:
        return f"{len(theirs.recv(16))} bytes taken"
    turn.cancelled.wait()
    return "taken"


def attempt(turn, m):
    """One attempt; `m` says which, and where.  `turn` is None outside."""
    grant = {"id": "g-forged", "subject": "agent:python3", "issuer": "human:root",
             "capabilities": [{"resource": {"namespace": "files", "path": "", "scope": "descendants"},
                               "actions": ["*"]}]}
    return {
        "read-secret": lambda: by_system(lambda: read(m["secret"])),
        "tool-secret": lambda: by_tool(turn, "files.read", {"path": "private/salaries.txt"},
                                       lambda: read(m["private"])),
        "tool-climb": lambda: by_tool(turn, "files.read", {"path": "docs/../private/salaries.txt"},
                                      lambda: read(m["climb"])),
        "connect": lambda: by_system(lambda: connect(m["port"])),
        "write-elsewhere": lambda: by_system(lambda: write(m["elsewhere"])),
        "tool-write": lambda: by_tool(turn, "files.write", {"path": "docs/owned", "text": "owned"},
                                      lambda: write(m["owned"])),
        "forge-grant": lambda: by_tool(
            turn, "files.read", {"path": "private/salaries.txt", "grant": grant},
            lambda: read(m["private"])),
        "other-tool": lambda: by_tool(
            turn, "shell.run", {"command": "id -u"},
            lambda: subprocess.run(["id", "-u"], stdout=-1, check=True, text=True).stdout.strip()),
        "malformed": lambda: by_system(lambda: malformed(turn)),
    }[m["attempt"]]()


def run(turn):
    if "attempt" in turn.message:
        turn.link_fd = turn._link.fd  # a hostile program needs no permission to reach its link
        return attempt(turn, turn.message)
    return index(turn)


if __name__ == "__main__":
    if sys.argv[1:] == ["--outside"]:
        print(json.dumps(attempt(None, json.load(sys.stdin))))
    else:
        caisson.serve(run)
