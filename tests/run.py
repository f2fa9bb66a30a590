#!/usr/bin/python3
"""Runs tests/integration/test_*.py, each file in a process of its own.

    tests/run.py [FILTER]      only files whose name contains FILTER

A file gets TIMEOUT seconds, or what a line `TIMEOUT = N` in it says; more under
sanitizers.  At most two run at once.  Above each stands a watcher that adopts whatever
the file's tests leave behind, as pid 1 would; what is still there a little later is
killed and is a failure.
The last line is `N passed, N failed, N skipped`.
"""

import concurrent.futures
import contextlib
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "integration"))
from wire import SLOWER  # noqa: E402

TIMEOUT = 300  # seconds
AT_ONCE = 2
LINGER = 15  # seconds in which what a test started may still be on its way out
PR_SET_CHILD_SUBREAPER = 36


class Result(unittest.TestResult):
    """Counts, and keeps what went wrong as text."""

    def __init__(self):
        super().__init__()
        self.passed, self.trouble, self.skips = 0, [], []
        self._clean = True

    def startTest(self, test):
        super().startTest(test)
        self._clean = True

    def addSuccess(self, test):
        self.passed += self._clean

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self._clean = False
            self.addFailure(subtest, error)

    def addFailure(self, test, error):
        self.trouble.append((test.id(), self._exc_info_to_string(error, test)))

    addError = addFailure

    def addSkip(self, test, reason):
        self._clean = False
        self.skips.append((test.id(), reason))

    def addUnexpectedSuccess(self, test):
        self.trouble.append((test.id(), "unexpected success\n"))


# ---- in a process of its own: one file, and the watcher above it ------------------------


def run_tests(path, report):
    result = Result()
    unittest.defaultTestLoader.loadTestsFromName(path.stem).run(result)
    sys.stdout.flush()
    report.write_text(json.dumps([result.passed, result.trouble, result.skips]))


def watch(path, report, limit):
    """Forks the file's process, reaps, and ends when nothing is left below it."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        run_tests(path, report)
        sys.exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the tests end, then this
    deadline, status, left = time.monotonic() + limit, None, []
    while True:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
                if ended[0] == pid:
                    status, deadline = ended[1], time.monotonic() + LINGER
        except ChildProcessError:
            break
        if time.monotonic() >= deadline:
            below = descendants(os.getpid())
            left += [command for p, command in below if p != pid]
            for p, _ in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(p, signal.SIGKILL)
            deadline = time.monotonic() + LINGER
        signal.sigtimedwait({signal.SIGCHLD}, max(deadline - time.monotonic(), 0))
    passed, trouble, skips = json.loads(report.read_text()) if report.exists() else (0, [], [])
    if os.waitstatus_to_exitcode(status) == -signal.SIGKILL and not report.exists():
        trouble.append((path.stem, f"no result after {limit} s\n"))
    elif not report.exists():
        trouble.append((path.stem, f"no result, exit status {os.waitstatus_to_exitcode(status)}\n"))
    else:
        trouble += [(path.stem, f"left running: {command}\n") for command in left]
    report.write_text(json.dumps([passed, trouble, skips]))


def descendants(root):
    """(pid, command line) of every process below `root`, zombies excepted."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = pathlib.Path("/proc", pid, "stat").read_text(errors="replace")
            command = pathlib.Path("/proc", pid, "cmdline").read_text(errors="replace")
        except OSError:
            continue
        state, parent = stat.rpartition(")")[2].split()[:2]
        parents[int(pid)] = int(parent), state, command.replace("\0", " ").strip()
    below, found = {root}, []
    while True:
        new = [p for p, (parent, _, _) in parents.items() if parent in below and p not in below]
        if not new:
            return found
        below.update(new)
        found += [(p, parents[p][2] or f"[{p}]") for p in new if parents[p][1] != "Z"]


# ---- the runner --------------------------------------------------------------------------


def run_file(path):
    """Returns (passed, trouble, skips, output, seconds)."""
    found = re.search(r"^TIMEOUT = (\d+)", path.read_text(encoding="utf-8"), re.M)
    limit, start = int(found.group(1)) if found else TIMEOUT, time.monotonic()
    limit *= SLOWER
    with tempfile.TemporaryDirectory(prefix="caisson-test-") as folder:
        report, log = pathlib.Path(folder, "report"), pathlib.Path(folder, "output")
        with open(log, "wb") as out:
            subprocess.run([sys.executable, "-B", __file__, "--watch", path, report, str(limit)],
                           stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False)
        output = log.read_text(errors="replace")
        try:
            passed, trouble, skips = json.loads(report.read_text())
        except (OSError, ValueError) as e:
            passed, trouble, skips = 0, [(path.stem, f"the watcher died: {e}\n")], []
    return passed, trouble, skips, output, time.monotonic() - start


def main(pattern=""):
    files = sorted(p for p in (HERE / "integration").glob("test_*.py") if pattern in p.stem)
    total, failures, reasons = 0, 0, {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = {pool.submit(run_file, path): path.stem for path in files}
        for job in concurrent.futures.as_completed(jobs):
            passed, trouble, skips, output, seconds = job.result()
            total, failures = total + passed, failures + len(trouble)
            print(f"{'FAIL' if trouble else 'ok':4}  {jobs[job]:30} {passed:4} passed "
                  f"{len(trouble):3} failed {len(skips):3} skipped {seconds:7.1f} s")
            if trouble and output:
                print(output.rstrip("\n"))
            for name, text in trouble:
                print(f"---- {name}\n{text}", end="")
            for name, reason in skips:
                reasons.setdefault(reason, []).append(name)
            sys.stdout.flush()
    for reason, names in sorted(reasons.items()):
        print(f"skipped {len(names)}: {reason}")
        for name in names:
            print(f"    {name}")
    print(f"{total} passed, {failures} failed, {sum(map(len, reasons.values()))} skipped")
    return 1 if failures or not files else 0


if __name__ == "__main__":
    # What nohup or a shell's & ignores would be ignored by the programs under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if sys.argv[1:2] == ["--watch"]:
        watch(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.exit(main(*sys.argv[1:2]))
