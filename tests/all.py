#!/usr/bin/python3
"""Runs everything that `make test` built, and closes with one line.

    tests/all.py [FILTER]      only what has FILTER in its name

First what is most basic: unit programs, then the corpora of the fuzz targets, then the
tests against the real processes (tests/run.py).  At most two run at once.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["CAISSON_BUILD"])
sys.path.insert(0, str(HERE / "integration"))
from wire import SLOWER  # noqa: E402

AT_ONCE = 2
UNIT_TIMEOUT = 300 * SLOWER  # seconds
# Check's own, of one test: 4 s are too few on a busy machine.
os.environ.setdefault("CK_DEFAULT_TIMEOUT", "30")
os.environ.setdefault("CK_TIMEOUT_MULTIPLIER", str(SLOWER))
CHECK_LINE = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", re.M)
PLAIN_LINE = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)
SKIP_LINE = re.compile(r"^skip: .*$", re.M)


def run(argv, timeout):
    """(exit status, output, seconds); a program that takes too long has failed."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            status = process.wait()
        out.seek(0)
        return status, out.read().decode("utf-8", "replace"), time.monotonic() - started


def program(argv, pattern, ended, totals):
    """Tells how a unit or replay program ended; adds its counts."""
    status, output, seconds = ended
    lines = pattern.findall(output)
    numbers = [int(n or 0) for n in lines[-1]] if lines else [0, 1, 0]
    skips = SKIP_LINE.findall(output)
    if skips and not lines and status == 0:
        numbers = [0, 0, 0]  # all of it
    if pattern is CHECK_LINE:
        numbers = [numbers[0] - numbers[1] - numbers[2], numbers[1] + numbers[2], 0]
    bad = status != 0 or numbers[1] > 0
    if bad and numbers[1] == 0:
        numbers[1] = 1
    for i, n in enumerate(numbers):
        totals[i] += n
    totals[2] += len(skips)
    name = pathlib.Path(argv[0]).name
    print(f"{'FAIL' if bad else 'ok':4} {name:28} {numbers[0]:5} checks"
          f" {seconds:6.1f} s", flush=True)
    if bad:
        print(output)
    for skip in sorted(set(skips)):
        print(f"     {skip}")


def integration(totals):
    """The tests of run.py, which also says that nothing has such a name."""
    process = subprocess.Popen([sys.executable, str(HERE / "run.py"), *sys.argv[1:2]],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    last = None
    for line in process.stdout:
        if PLAIN_LINE.match(line):
            last = PLAIN_LINE.match(line)
        else:
            print(line, end="", flush=True)
    failed = process.wait() != 0
    if last is not None:
        for i, n in enumerate(last.groups()):
            totals[i] += int(n or 0)
    if failed and (last is None or last.group(2) == "0"):
        totals[1] += 1


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    totals = [0, 0, 0]
    programs = [([str(BUILD / "test" / source.stem)], CHECK_LINE)
                for source in sorted(HERE.glob("unit/test_*.c")) if wanted in source.stem]
    for source in sorted(HERE.glob("fuzz/fuzz_*.c")):
        name = source.stem[len("fuzz_"):]
        if wanted in source.stem:
            programs.append(([str(BUILD / "test" / f"replay_{name}"),
                              str(HERE / "fuzz/corpus" / name)], PLAIN_LINE))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        ends = pool.map(lambda p: run(p[0], UNIT_TIMEOUT), programs)
        try:
            for (argv, pattern), ended in zip(programs, ends):
                program(argv, pattern, ended, totals)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if any(wanted in path.stem for path in HERE.glob("integration/test_*.py")) or not programs:
        integration(totals)
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
