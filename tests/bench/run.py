#!/usr/bin/python3
"""Runs the benchmarks and prints one table of figures, floors, ratios and verdicts.

    tests/bench/run.py [TARGET...]     all targets, or only these (T1, T9, ...)

Every program prints lines of: target, unit, figure, floor, ratio, lowest and highest
ratio of its passes, what it is.  All are medians over passes that alternate product and
floor.  Bounds are those of docs/PERFORMANCE.md.  The exit status says whether everything
ran, not how fast it was: a busy machine is no failure.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["CAISSON_BUILD"])
LIBRARIES = "libevent_core msgpack libseccomp libbsd-overlay libcrypto".split()
TIMEOUT = 300  # seconds for one program, on a busy machine

# target: (excellent, poor, larger is better); poor None: no such bound
BOUNDS = {
    "T1": (1.15, 1.5, False),
    "T2": (1.5, 2, False),
    "T3": (1.2, 1.4, False),
    "T4": (1.25, 2, False),
    "T5": (0.65, 0.2, True),
    "T5w": (5, 1, True),
    "T9": (0.5, 1, False),
    "T10": (0.3, 0.5, False),
    "T11": (0.6, 1, False),
    "T13": (1.3, 1.2, True),
    "T14": (0.2, 1, False),
    "T15": (1.1, 40, False),
    "T16": (1.5, 70, False),
    "T17": (0.5, None, False),
    "T18": (0.6, 0.4, True),
    "T18f": (0.9, 0.4, True),
    "T19": (0.3, 0.04, True),
    "T19j": (0.1, 0.04, True),
    "T20": (10, 140, False),
    "T20m": (10, 140, False),
    "T21": (1, 3, False),
    "T21s": (1, 3, False),
    "T22": (2, 20, False),
    "T22f": (3, 400, False),
    "T22c": (1.05, None, False),
    "T23": (1.15, 1.4, False),
    "T24": (1.15, 1.5, False),
    "T25": (12, 1, True),
    "T26": (1, None, True),
    "T26c": (1.05, None, False),
    "T27": (2.2, 12, False),
}

PROGRAMS = {
    "bench_authority": "T22 T22k T22d T22f".split(),
    "bench_call": "T1 T2 T1c T22c T3 T4 T5 T5w T23 T24 T25".split(),
    "bench_gateway": "T18f T18 T19 T19j T20 T20m".split(),
    "bench_json": "T27 T27j T27r".split(),
    "bench_ledger": "T26 T26s T26c".split(),
    "bench_pool": ["T11"],
    "bench_rest": "TLS T21 T21s".split(),
    "bench_spawn": "T9 T9e T10 T10e T9c T10c T9b T13 T14 T15 T15p T16 T16c T17".split(),
}

NOT_RUN = {
    "T6": "it needs the MCP TypeScript SDK, which no package of Debian brings",
}


def targets(directory):
    """The programs that chambers are measured with."""
    source = str(HERE / "target.c")
    static, dynamic = directory / "target", directory / "dynamic"
    compiler = os.environ.get("CC", "cc")
    libs = subprocess.run(["pkg-config", "--libs", *LIBRARIES], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.split()
    subprocess.run([compiler, "-O2", "-static", "-nostdlib", "-ffreestanding",
                    "-fno-stack-protector", "-o", static, source], check=True)
    subprocess.run([compiler, "-O2", "-DBENCH_DYNAMIC", "-o", dynamic, source,
                    "-Wl,--no-as-needed", *libs], check=True)
    return [str(static), str(dynamic)]


def certificate(directory):
    """server.pem and server.key, of the gateway and of the floor."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-out", "server.pem", "-keyout", "server.key"],
                   cwd=directory, check=True, stderr=subprocess.DEVNULL)


def verdict(target, ratio):
    if target not in BOUNDS:
        return "", ""
    excellent, poor, larger = BOUNDS[target]
    sign = "≥" if larger else "≤"
    bounds = f"{sign} {excellent:g}" + ("" if poor is None else f" / {poor:g}")
    better = ratio >= excellent if larger else ratio <= excellent
    worse = poor is not None and (ratio <= poor if larger else ratio >= poor)
    return bounds, "excellent" if better else "poor" if worse else "between"


def show(line):
    target, unit, figure, floor, ratio, low, high, what = line.split("\t")
    bounds, word = verdict(target, float(ratio))
    print(f"{target:5} {float(figure):10.1f} {float(floor):10.1f} {unit:8} {float(ratio):7.3f} "
          f"{float(low):7.3f}-{float(high):<8.3f} {bounds:13} {word:10} {what}", flush=True)


def run(argv, directory):
    """Runs one program; its lines are shown as they come.  True if it ended well."""
    process = subprocess.Popen(["timeout", str(TIMEOUT), *argv], cwd=directory, text=True,
                               stdout=subprocess.PIPE)
    for line in process.stdout:
        show(line.rstrip("\n"))
    return process.wait() == 0


def missing(program):
    if program not in ("bench_spawn", "bench_pool"):
        return None
    if os.geteuid() != 0:
        return "needs root: chambers and bwrap are both measured as root"
    return None if shutil.which("bwrap") else "bwrap is not installed"


def main():
    wanted = sys.argv[1:]
    load = os.getloadavg()[0]
    print(f"load {load:.2f} on {os.cpu_count()} CPUs"
          + (": the figures are of a busy machine" if load > 0.7 else ""))
    print(f"{'':5} {'figure':>10} {'floor':>10} {'unit':8} {'ratio':>7} {'of passes':16} "
          f"{'good / poor':13} verdict")
    ok = True
    # Beneath the build: journals are to lie on a real file system.
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD) as name:
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        certificate(directory)
        extra = dict.fromkeys(("bench_spawn", "bench_pool"), targets(directory))
        for program, names in PROGRAMS.items():
            chosen = [n for n in names if n in wanted]
            if wanted and not chosen:
                continue
            why = missing(program)
            if why:
                print(f"{' '.join(chosen or names)}: not run: {why}")
                continue
            argv = [str(BUILD / "bench" / program), *extra.get(program, []), *chosen]
            ok = run(argv, directory) and ok
    for target, why in NOT_RUN.items():
        if not wanted or target in wanted:
            print(f"{target}: not run: {why}")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
