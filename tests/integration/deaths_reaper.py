"""Runs one command and answers for everything that it starts.

    deaths_reaper.py REPORT SECONDS COMMAND...

As a subreaper it inherits whatever the command's processes leave behind.  When the command
has ended, everything else must end by itself within SECONDS: the report, a JSON object,
holds the command's `status` (negative: a signal) and the command lines of what was `left`,
which is killed.  SIGTERM ends it all.
"""

import ctypes
import json
import os
import pathlib
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
COMMAND_SECONDS = 60


def children(root):
    """{pid: command line} of what lives below `root`, zombies excepted."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = pathlib.Path("/proc", pid, "stat").read_text(errors="replace")
            words = pathlib.Path("/proc", pid, "cmdline").read_text(errors="replace")
        except OSError:
            continue
        state, parent = stat.rpartition(")")[2].split()[:2]
        name = words.replace("\0", " ").strip() or stat[:stat.rindex(")") + 1]
        parents[int(pid)] = int(parent), state, name
    found, more = {}, {root}
    while more:
        more = {p for p, (parent, _, _) in parents.items() if parent in more and p not in found}
        found.update({p: parents[p][2] for p in more})
    return {p: name for p, name in found.items() if parents[p][1] != "Z"}


def main(report, seconds, *command):
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signals = {signal.SIGCHLD, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        os.execv(command[0], command)
    status, left, deadline = None, {}, time.monotonic() + COMMAND_SECONDS
    while True:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
                if ended[0] == pid:
                    status, deadline = ended[1], time.monotonic() + float(seconds)
        except ChildProcessError:
            break
        remaining = deadline - time.monotonic()
        got = signal.sigtimedwait(signals, max(remaining, 0)) if remaining > 0 else None
        if remaining <= 0 or got is not None and got.si_signo == signal.SIGTERM:
            below = children(os.getpid())
            left.update(below)
            for p in below:
                try:
                    os.kill(p, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            deadline = time.monotonic() + 5
    pathlib.Path(report).write_text(json.dumps(
        {"status": os.waitstatus_to_exitcode(status), "left": sorted(left.values())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
