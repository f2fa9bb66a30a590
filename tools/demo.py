#!/usr/bin/python3
"""make demo: an untrusted program does useful work, and fails at everything else.

Uses build/bin/caisson alone.  Ends with status 1 if the work failed or if any attempt
was not refused; what could not be shown on this machine is called that.
"""

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("CAISSON_BUILD", ROOT / "build")).resolve()
CAISSON = BUILD / "bin" / "caisson"
PYTHON = "/usr/bin/python3"  # inside and outside: the same program

# Trees of text that Debian installs; the first that holds enough is taken.
SOURCES = ("/usr/share/doc", "/usr/share/perl", "/usr/lib/python3", "/usr/include",
           "/usr/share/common-licenses")
PACKAGES_MAX, FILES_MAX, FILE_MAX, BYTES_MAX = 80, 300, 512 << 10, 24 << 20
GRANTS = ("list:docs", "read:docs", "search:docs", "write:out")
SECONDS = 50  # for each run

TTY = sys.stdout.isatty()
WIDTH = min(shutil.get_terminal_size().columns, 120) if TTY else 120


def colour(code, text):
    return f"\033[{code}m{text}\033[0m" if TTY and "NO_COLOR" not in os.environ else text


def bold(text):
    return colour("1", text)


def dim(text):
    return colour("2", text)


def good(text):
    return colour("32", text)


def bad(text):
    return colour("31;1", text)


def title(text):
    print(f"\n{bold(text)}\n{dim('─' * min(WIDTH, len(text)))}")


def fact(name, text):
    print(f"  {dim(f'{name:<9}')} {text}")


def size(n):
    return f"{n} B" if n < 1024 else f"{n / 1024:.0f} KiB" if n < 1 << 20 else f"{n / (1 << 20):.1f} MiB"


def command(argv):
    """A command line as one would type it, wrapped."""
    lines = textwrap.wrap("$ " + " ".join(argv), WIDTH - 4, subsequent_indent="      ",
                          break_long_words=False, break_on_hyphens=False)
    print("\n" + "\n".join(f"  {line} \\" if i < len(lines) - 1 else f"  {line}"
                           for i, line in enumerate(lines)))


# ---- what there is to work on ------------------------------------------------------------


def usable(path):
    try:
        return (path.is_file() and not path.is_symlink() and 0 < path.stat().st_size <= FILE_MAX
                and os.access(path, os.R_OK))
    except OSError:
        return False


def copy_docs(to):
    """Copies a real tree to `to`; returns (source, packages, files, bytes)."""
    for source in map(pathlib.Path, SOURCES):
        if not source.is_dir():
            continue
        groups = [[p for p in sorted(d.iterdir()) if usable(p)]
                  for d in sorted(source.iterdir()) if d.is_dir() and not d.is_symlink()]
        groups += [[p for p in sorted(source.iterdir()) if usable(p)]]
        groups = sorted((g for g in groups if g), key=lambda g: (-min(len(g), 6), g[0]))
        files = total = packages = 0
        for group in groups[:PACKAGES_MAX]:
            for path in group[:FILES_MAX - files]:
                if total + path.stat().st_size > BYTES_MAX:
                    break
                (to / path.parent.name).mkdir(exist_ok=True)
                shutil.copyfile(path, to / path.parent.name / path.name)
                files, total = files + 1, total + path.stat().st_size
            packages = len(list(to.iterdir()))
        if files >= 10:
            return source, packages, files, total
        shutil.rmtree(to)
        to.mkdir()
    sys.exit("demo: no documentation is installed beneath any of " + ", ".join(SOURCES))


class World:
    """A directory in which everything happens, and that is gone afterwards."""

    def __init__(self, folder):
        self.folder = folder
        self.app, self.root = folder / "app", folder / "root"
        self.home, self.state = folder / "home", folder / "state"
        self.elsewhere = folder / "elsewhere"
        for d in (self.app, self.root / "docs", self.root / "out", self.root / "private", self.home,
                  self.state, self.elsewhere):
            d.mkdir(parents=True)
        shutil.copy(ROOT / "examples" / "demo" / "indexer.py", self.app)
        shutil.copy(ROOT / "worker" / "sdk" / "caisson.py", self.app)
        self.tokens = [os.urandom(8).hex() for _ in range(2)]
        self.secret, self.private = self.home / "id_ed25519", self.root / "private" / "salaries.txt"
        for path, token in zip((self.secret, self.private), self.tokens):
            path.write_text(f"secret {token}\n", encoding="utf-8")
            path.chmod(0o600)
        self.source, self.packages, self.files, self.bytes = copy_docs(self.root / "docs")

    def argv(self, message):
        argv = [str(CAISSON), "run", "-o", "jsonl", "--state", str(self.state), "--app",
                str(self.app), "--root", str(self.root), "--timeout", f"{SECONDS}s",
                "--max-tool-calls", "2000"]
        for grant in GRANTS:
            argv += ["--allow", grant]
        return argv + ["-m", json.dumps(message), "--", PYTHON, "/app/indexer.py"]

    def shown(self, message):
        """The same, shorter, as it is printed."""
        argv = ["caisson", "run", "--app app", "--root root"]
        argv += [f"--allow {grant}" for grant in GRANTS]
        return argv + [f"-m '{json.dumps(message)}'", "--", "python3 /app/indexer.py"]


class Run:
    """One `caisson run`, followed event by event."""

    def __init__(self, world, message, watch=None):
        self.calls, self.codes, self.text, self.end = {}, {}, "", None
        with tempfile.TemporaryFile() as err:
            p = subprocess.Popen(world.argv(message), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=err, text=True)
            watchdog = Watchdog(p, SECONDS + 10)
            for line in p.stdout:
                self.text += line
                self.event(line)
                if watch is not None:
                    watch(self)
            self.status = p.wait()
            watchdog.cancel()
            err.seek(0)
            self.error = err.read().decode(errors="replace").strip()

    def event(self, line):
        try:
            e = json.loads(line)
        except ValueError:
            return
        body = e.get(e.get("type"), {})
        if e.get("type") == "progress" and body.get("kind") == "tool_call_finished":
            self.calls[body["tool"]] = self.calls.get(body["tool"], 0) + 1
            code = body.get("code") or body.get("error", {}).get("code")
            if body.get("status") != "succeeded" and code:
                self.codes[code] = self.codes.get(code, 0) + 1
        elif e.get("type") in ("completed", "failed"):
            self.end = e

    def output(self):
        """What the turn answered, or None."""
        turn = self.end.get("completed", {}).get("turn", {}) if self.end else {}
        return turn.get("output") if turn.get("status") == "succeeded" else None

    def cause(self):
        """The recorded cause of a failed operation: (kind, detail)."""
        cause = (self.end or {}).get("failed", {}).get("cause", {})
        detail = [str(v) for k, v in cause.items() if k != "kind"]
        return cause.get("kind", ""), " ".join(detail)

    def trouble(self):
        return self.error.splitlines()[-1] if self.error else json.dumps(self.end)


class Watchdog:
    """Ends a client that does not come to its end."""

    def __init__(self, process, seconds):
        import threading
        self.timer = threading.Timer(seconds, process.send_signal, [signal.SIGTERM])
        self.timer.start()

    def cancel(self):
        self.timer.cancel()


# ---- the three acts ----------------------------------------------------------------------


def work(world):
    """The useful half; returns whether it worked."""
    title("1  An untrusted program does useful work, one granted call at a time")
    fact("program", "examples/demo/indexer.py with caisson.py beside it, shown read-only at /app")
    fact("data", f"{world.files} files of {world.packages} packages out of {world.source}, "
                 f"{size(world.bytes)}, copied to root/docs")
    fact("may", ", ".join(g.replace(":", " ") for g in GRANTS) + "; nothing else")
    message = {"source": str(world.source)}
    command(world.shown(message))
    start = time.monotonic()

    def watch(run):
        if TTY:
            print(f"\r  {sum(run.calls.values()):5} calls", end="", flush=True)

    run = Run(world, message, watch)
    seconds = time.monotonic() - start
    out, written = run.output(), world.root / "out" / "index.md"
    if TTY:
        print("\r\033[K", end="")
    if out is None or not written.exists():
        print(f"  {bad('failed')}: exit status {run.status}: {run.trouble()}")
        return False
    print()
    calls = ", ".join(f"{tool} {n}" for tool, n in sorted(run.calls.items()))
    fact("calls", f"{calls}; each decided, recorded, then done; {seconds:.1f} s in all")
    fact("read", f"{out['files']} files, {size(out['bytes'])}, about {out['words']} words")
    fact("licences", f"{out['licences']} kinds, most used {out['topLicence'][0]} "
                     f"({out['topLicence'][1]} packages)")
    fact("fixes", f"{out['cves']} CVE numbers in changelogs, most in {out['topCves'][0]} "
                  f"({out['topCves'][1]})")
    fact("mentions", f"{out['mentions']} cross references between packages")
    fact("findings", f"{out['odd']} odd encodings, {out['same']} copies of the same text")
    kept = keep(written)
    fact("written", f"out/index.md, {size(written.stat().st_size)}"
                    + (f", kept as {kept}" if kept else ""))
    for line in [x for x in written.read_text(encoding="utf-8").splitlines() if x.startswith("*")][:3]:
        print(f"            {dim(line[:WIDTH - 14])}")
    return True


def first_run(world):
    """The id of the only run so far; None if it cannot be told."""
    lines = subprocess.run([str(CAISSON), "audit", "--state", str(world.state), "show"],
                           capture_output=True, text=True, timeout=SECONDS,
                           check=False).stdout.splitlines()
    return lines[0].strip() if lines and " " not in lines[0].strip() else None


def keep(path):
    """Copies the index to where it outlives the demo; None if that cannot be."""
    try:
        to = BUILD / "demo" / "index.md"
        to.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, to)
        return to.relative_to(ROOT) if to.is_relative_to(ROOT) else to
    except OSError:
        return None


ATTEMPTS = (
    ("read-secret", "read the user's key"),
    ("tool-secret", "read private/ by tool"),
    ("tool-climb", "climb out with docs/../"),
    ("forge-grant", "bring a forged grant"),
    ("tool-write", "write to docs/ by tool"),
    ("write-elsewhere", "write elsewhere"),
    ("connect", "connect to 127.0.0.1"),
    ("other-tool", "use a tool not given"),
    ("malformed", "send a malformed frame"),
)

# (what refused, code) -> what it means.
LAYERS = {
    ("kernel", "ENOENT"): "mount namespace: it does not exist in there",
    ("kernel", "EROFS"): "mount namespace: read-only",
    ("kernel", "EACCES"): "Landlock, or file mode",
    ("connect", "EACCES"): "seccomp: no sockets; behind it an empty network",
    ("connect", "EPERM"): "seccomp: no sockets; behind it an empty network",
    ("connect", "ENETUNREACH"): "network namespace: nothing is reachable",
    ("connect", "ECONNREFUSED"): "network namespace: a loopback of its own",
    ("broker", "no_matching_grant"): "authority: no grant covers it",
    ("broker", "tool_unavailable"): "catalogue: not offered to this turn",
    ("broker", "invalid_tool_arguments"): "schema: not an argument of this tool",
    ("broker", "invalid_request"): "requirement: that is no path",
    ("cause", "runtime_protocol_violation"): "the link ended, the worker is killed",
}


def refusal(name, run):
    """What refused it inside: (who, code, meaning), or None if nothing did."""
    out = run.output()
    if isinstance(out, dict) and "refused" in out:
        who, code = out["refused"], out["why"]
        if ("broker", code) in LAYERS:
            who = "broker"  # a failed status, but decided before any provider was asked
        meaning = LAYERS.get((name, code)) or LAYERS.get((who, code), "")
        return who, code, meaning
    kind, detail = run.cause()
    if kind == "seccomp":
        return "kernel", kind, f"seccomp: killed at {detail}"
    return ("broker", kind, LAYERS["cause", kind]) if ("cause", kind) in LAYERS else None


def row(attempt, outside, by, code, meaning, paint=str):
    """One line of the table, or two on a narrow terminal."""
    line = f"  {attempt:<24} {outside:<9} {paint(f'{by:<10}')} {code:<26} "
    print(f"{line}{meaning}".rstrip() if WIDTH >= 118 else f"{line}\n{'':<36} {dim(meaning)}")


def hostile(world):
    """Every attempt, outside and inside; returns (refused, not refused, not shown)."""
    title("2  The same program turns hostile: outside as the same user, then in its chamber")
    row("attempt", "outside", "refused by", "code", "what that is", bold)
    refused = not_refused = 0
    notes = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        facts = {"secret": str(world.secret), "private": str(world.private),
                 "climb": str(world.root / "docs" / ".." / "private" / "salaries.txt"),
                 "elsewhere": str(world.elsewhere / "owned"),
                 "owned": str(world.root / "docs" / "owned"),
                 "port": listener.getsockname()[1]}
        for name, text in ATTEMPTS:
            message = {"attempt": name, **facts}
            outside = try_outside(world, message)
            clean(world, listener)
            run = Run(world, message)
            harm = clean(world, listener) or any(token in run.text for token in world.tokens)
            found = None if harm else refusal(name, run)
            shown = "succeeds" if "done" in outside else "fails"
            if found is None:
                not_refused += 1
                row(text, shown, "NOBODY", "NOT REFUSED", run.trouble()[:WIDTH - 40], bad)
                continue
            row(text, shown, *found, good)
            if "done" in outside:
                refused += 1
            else:
                notes.append(f"{text}: fails outside too ({outside['why']})")
    for note in notes:
        print(f"  could not be shown here: {note}")
    return refused, not_refused, len(notes)


def try_outside(world, message):
    p = subprocess.run([PYTHON, "-B", str(world.app / "indexer.py"), "--outside"],
                       input=json.dumps(message), capture_output=True, text=True, timeout=30,
                       check=False)
    try:
        out = json.loads(p.stdout)
    except ValueError:
        return {"refused": "outside", "why": p.stderr[-200:]}
    return out


def clean(world, listener):
    """Undoes what an attempt did to the world; True if there was anything."""
    harm = False
    for path in (world.elsewhere / "owned", world.root / "docs" / "owned"):
        if path.exists():
            path.unlink()
            harm = True
    while select.select([listener], [], [], 0)[0]:
        listener.accept()[0].close()
        harm = True
    return harm


def audit(world, *words):
    """Prints the command; returns its lines and whether it succeeded."""
    command(["caisson", "audit", *words])
    p = subprocess.run([str(CAISSON), "audit", "--state", str(world.state), *words],
                       capture_output=True, text=True, timeout=SECONDS, check=False)
    return (p.stdout + p.stderr).splitlines(), p.returncode == 0


def excerpt(lines, first, last):
    """The first and the last of many lines."""
    room = WIDTH - 2 if TTY else None  # a pipe gets the whole line
    for line in lines[:first]:
        print(f"  {line[:room]}")
    if len(lines) > first + last:
        print(dim(f"  … {len(lines) - first - last} more lines …"))
    for line in lines[max(first, len(lines) - last):]:
        print(f"  {line[:room]}")


def record(world, run_id):
    """The audit trail and its chain; returns whether it verifies and keeps no secret."""
    title("3  The record of all of it")
    everything, shown = audit(world, "show", *(["--run", run_id] if run_id else []))
    excerpt(everything, 10, 5)
    denied, queried = audit(world, "query", "--outcome", "denied")
    excerpt(denied, 16, 0)
    lines, verified = audit(world, "verify")
    excerpt(lines, 2, 1)
    leaked = any(token in line for token in world.tokens for line in everything + denied)
    if leaked:
        print(f"  {bad('a secret stands in the record')}")
    return shown and queried and verified and not leaked


def main():
    if not CAISSON.exists():
        sys.exit(f"demo: {CAISSON} is not built; run make")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="caisson-demo-") as folder:
        os.chmod(folder, 0o755)
        world = World(pathlib.Path(folder))
        if not work(world):
            return 1
        run_id = first_run(world)
        refused, not_refused, unseen = hostile(world)
        verified = record(world, run_id)
    seconds = time.monotonic() - start
    title("Result")
    parts = [good("useful work done"), good(f"{refused} attempts refused")]
    if unseen:
        parts.append(f"{unseen} could not be shown here")
    if not_refused:
        parts.append(bad(f"{not_refused} NOT REFUSED"))
    parts.append(good("the record verifies") if verified else bad("the record does NOT verify"))
    print(f"  {', '.join(parts)}; {seconds:.0f} s\n")
    return 1 if not_refused or not verified else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
