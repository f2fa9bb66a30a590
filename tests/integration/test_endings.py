"""Every cause that the kernel tells of, of commands and turns, wherever it is told (D-2)."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

import wire
from real import CAISSON, IS_ROOT, SANITIZED, WAIT, Case, ending, environment, nothing_left

TIMEOUT = 300  # of this file, for run.py
PROGRAMS = wire.BUILD / "test" / "program"
CGROUP = pathlib.Path("/sys/fs/cgroup")
CONFIG = """
version: 1
profiles:
  - { id: small, base: native, file_size: 1MiB, cpu_time: 1s }
"""
SMALL = ("-c", "CONFIG", "--profile", "small")


def group_bounds(controller):
    """Will a chamber have a group of its own for this, as far as this test can tell?"""
    if (CGROUP / "cgroup.controllers").exists():
        return None  # v2: depends on what is delegated
    file = {"memory": "memory.limit_in_bytes", "pids": "cgroup.procs"}[controller]
    return IS_ROOT and os.access(CGROUP / controller / file, os.W_OK)


def needs_group(controller):
    if not group_bounds(controller):
        raise unittest.SkipTest(f"needs root and the {controller} controller of cgroup v1")


class Endings(Case):
    def setUp(self):
        super().setUp()
        if not (PROGRAMS / "endings_probe").exists():
            self.skipTest("the test programs are not built")
        self.app = self.dir / "app"
        self.app.mkdir(mode=0o755)
        shutil.copy(PROGRAMS / "endings_probe", self.app)
        (self.app / "endings_probe").chmod(0o755)
        self.config = self.dir / "caisson.yaml"
        self.config.write_text(CONFIG)

    def words(self, way, options):
        options = [self.config if o == "CONFIG" else o for o in options]
        return (*options, "--app", self.app, "--", "/app/endings_probe", *way.split())

    def record(self, type="operation.ended"):
        """The one of that type in the only run of this state directory."""
        status, out, err = self.caisson("audit", "-o", "jsonl", "show")
        self.assertEqual(status, 0, err)
        found = [r for r in map(json.loads, out.decode().splitlines()) if r["type"] == type]
        self.assertEqual(len(found), 1, found)
        shutil.rmtree(self.state)
        return found[0]

    def usage_agrees(self, usage, record):
        if usage["source"] == "nobody":  # it ended before its process did
            self.assertNotIn("cpuUs", record)
            return
        self.assertEqual(usage["cpuMs"], record["cpuUs"] // 1000)
        for key in ("peakBytes", "readBytes", "writtenBytes", "processes"):
            self.assertEqual(usage.get(key), record.get(key), key)
        self.assertIn(usage["source"], ("rusage", "cgroup v1", "cgroup v2"))

    def exec(self, way, *options):
        """(status, event type, body, record) of a command, which agree."""
        status, events = self.events("exec", *self.words(way, options))
        body, record = ending(events), self.record()
        self.usage_agrees(body["command"]["usage"], record)
        return status, events[-1]["type"], body, record

    def run_turn(self, way, *options):
        status, events = self.events("run", *self.words(way, options))
        body, record = ending(events), self.record()
        self.assertEqual(events[-1]["type"], "failed")
        self.assertEqual(body["turn"]["status"], "failed")
        if "usage" in body:
            self.usage_agrees(body["usage"], record)
        return status, body, record

    def said(self, command, way, *options):
        """The line that a person reads."""
        _, _, err = self.caisson(command, *self.words(way, options))
        shutil.rmtree(self.state)
        self.assertRegex(err, r"\Acaisson: [^\n]+\n\Z")
        return err

    def check(self, way, cause, detail, status, *options, next=""):
        """One ending, told alike everywhere: for a command, a turn, and a person."""
        with self.subTest(way=way, of="exec"):
            got, type, body, record = self.exec(way, *options)
            self.assertEqual((got, type, body["cause"]), (status, "failed", cause))
            self.assertEqual(body["command"]["cause"], cause)
            self.assertEqual((record["cause"], record.get("detail")), (cause["kind"], detail))
            self.assertEqual(record["source"], "kernel")
            self.assertIn(next, self.said("exec", way, *options))
        with self.subTest(way=way, of="run"):
            got, body, record = self.run_turn(way, *options)
            self.assertEqual((got, body["cause"]), (1, cause))
            self.assertEqual((record["cause"], record.get("detail")), (cause["kind"], detail))
            self.assertEqual(record["source"], "kernel")
            self.assertIn("cpuMs", body["usage"])
            said = self.said("run", way, *options)
            self.assertIn(next, said)
            self.assertTrue(said.startswith(f"caisson: {cause['kind']}: "), said)


class Plain(Endings):
    """A program's status is its own: for a command that is a result, for a turn a death."""

    def test_three_deaths_that_look_alike_have_three_reasons(self):
        told = {}
        memory = ("--memory", "64MiB") if group_bounds("memory") else ()
        for way in ("exit 137", "signal 9") + (("memory",) if memory else ()):
            status, type, body, _ = self.exec(way, *memory)
            self.assertEqual(status, 137)
            cause = body.get("cause") or body["command"]["cause"]
            turn = self.run_turn(way, *memory)[1]["cause"]
            self.assertEqual(turn, cause)
            told[way] = (type, json.dumps(cause))
        self.assertEqual(told["exit 137"], ("completed", '{"kind": "exited", "code": 137}'))
        self.assertEqual(told["signal 9"],
                         ("completed", '{"kind": "signaled", "signal": 9, "core": false}'))
        if not memory:
            self.skipTest("two of three: the third needs a cgroup")
        self.assertEqual(told["memory"], ("failed", '{"kind": "oom"}'))

    def test_exit_code(self):
        status, type, body, record = self.exec("exit 3")
        self.assertEqual((status, type), (3, "completed"))
        self.assertEqual(body["command"]["cause"], {"kind": "exited", "code": 3})
        self.assertEqual((record["cause"], record["detail"]), ("completed", "3"))
        status, body, record = self.run_turn("exit 3")
        self.assertEqual((status, body["cause"]), (1, {"kind": "exited", "code": 3}))
        self.assertEqual((record["cause"], record["detail"]), ("exited", "3"))

    def test_signal_with_its_core_flag(self):
        cause = {"kind": "signaled", "signal": 11, "core": False}
        status, type, body, record = self.exec("signal 11")
        self.assertEqual((status, type), (139, "completed"))
        self.assertEqual((body["command"]["cause"], record["detail"]), (cause, "signal 11"))
        status, body, record = self.run_turn("signal 11")
        self.assertEqual((status, body["cause"], record["detail"]), (1, cause, "11"))

    def test_deadline(self):
        status, _, body, record = self.exec("wait", "--timeout", "300ms")
        self.assertEqual((status, body["cause"]), (124, {"kind": "deadline"}))
        self.assertIs(body["command"]["timedOut"], True)
        self.assertEqual((record["cause"], record["source"]), ("deadline", "broker"))
        status, events = self.events("run", *self.words("wait", ("--timeout", "300ms")))
        self.assertEqual((status, ending(events)["cause"]), (4, {"kind": "deadline"}))
        ended = self.record("worker.ended")  # what the ending at its time could not say
        self.assertEqual((ended["cause"], ended["source"]), ("deadline", "kernel"))
        self.assertIn("peakBytes", ended)
        self.assertIn("--timeout", self.said("exec", "wait", "--timeout", "300ms"))

    def test_protocol_violation(self):
        status, body, record = self.run_turn("garbage")
        self.assertEqual((status, body["cause"]["kind"]), (1, "runtime_protocol_violation"))
        self.assertEqual((record["cause"], record["source"]),
                         ("runtime_protocol_violation", "broker"))
        self.assertIn("PROTOCOL.md", self.said("run", "garbage"))


class Limits(Endings):
    def test_out_of_memory(self):
        needs_group("memory")
        self.check("memory", {"kind": "oom"}, None, 137, "--memory", "64MiB", next="--memory")

    def test_memory_without_a_group_is_the_programs_own_affair(self):
        if group_bounds("memory") is not False:
            self.skipTest("there may be a group")
        if SANITIZED:
            self.skipTest("a sanitizer's own memory is over any limit")
        status, type, body, _ = self.exec("memory", "--memory", "64MiB")
        self.assertEqual((status, type), (12, "completed"))
        self.assertEqual(body["command"]["usage"]["source"], "rusage")

    def test_file_size(self):
        self.check("file", {"kind": "limit", "name": "file_size"}, "file_size",
                   128 + signal.SIGXFSZ, *SMALL, next="file_size")

    def test_processor_time(self):
        self.check("cpu", {"kind": "limit", "name": "cpu_time"}, "cpu_time",
                   128 + signal.SIGXCPU, *SMALL, next="cpu_time")

    def test_processor_time_of_who_ignores_the_signal(self):
        self.check("cpu-deaf", {"kind": "limit", "name": "cpu_time"}, "cpu_time",
                   128 + signal.SIGKILL, *SMALL, next="cpu_time")

    def test_a_signal_is_not_a_limit(self):
        for signo in (signal.SIGXCPU, signal.SIGKILL):
            status, type, body, _ = self.exec(f"signal {int(signo)}", *SMALL)
            self.assertEqual((status, type), (128 + signo, "completed"))
            self.assertEqual(body["command"]["cause"]["kind"], "signaled")

    def test_processes(self):
        needs_group("pids")
        self.check("forks", {"kind": "limit", "name": "pids"}, "pids", 7, "--pids", "4",
                   next="--pids")
        _, _, body, _ = self.exec("forks", "--pids", "4")
        self.assertEqual(body["command"]["usage"]["processes"], 5)  # and pid 1

    def test_processes_without_a_group_leave_no_evidence(self):
        if group_bounds("pids") is not False:
            self.skipTest("there may be a group")
        status, type, body, _ = self.exec("forks", "--pids", "4")
        self.assertEqual((status, type), (7, "completed"))
        self.assertEqual(body["command"]["cause"], {"kind": "exited", "code": 7})

    def test_nothing_is_left(self):
        if not IS_ROOT:
            self.skipTest("needs root")
        self.caisson("exec", "--memory", "64MiB", "--pids", "8", *self.words("forks", ()))
        nothing_left()


class Seccomp(Endings):
    def test_a_forbidden_call_is_named(self):
        self.check("syscall", {"kind": "seccomp", "syscall": "keyctl"}, "keyctl",
                   128 + signal.SIGSYS, next="--profile")

    def test_a_thread_that_makes_one_takes_the_whole_program_along(self):
        self.check("thread", {"kind": "seccomp", "syscall": "keyctl"}, "keyctl",
                   128 + signal.SIGSYS)

    def test_under_another_listener_it_ends_too_and_has_no_name(self):
        outer = PROGRAMS / "under_listener"
        for command, want in (("exec", 128 + signal.SIGSYS), ("run", 1)):
            for way in ("syscall", "thread"):
                with self.subTest(command=command, way=way):
                    done = subprocess.run(
                        [outer, CAISSON, command, "--state", self.state, "-o", "jsonl",
                         *self.words(way, ())], env=environment(), stdin=subprocess.DEVNULL,
                        capture_output=True, timeout=WAIT)
                    self.assertEqual(done.returncode, want, done.stderr)
                    body = json.loads(done.stdout.splitlines()[-1])["failed"]
                    self.assertEqual(body["cause"], {"kind": "seccomp"})
                    record = self.record()
                    self.assertEqual((record["cause"], "detail" in record), ("seccomp", False))
        done = subprocess.run([outer, CAISSON, "exec", "--state", self.state,
                               *self.words("exit 5", ())], env=environment(),
                              stdin=subprocess.DEVNULL, timeout=WAIT)
        self.assertEqual(done.returncode, 5)  # the allowed neighbour


class Usage(Endings):
    def test_processor_time_and_memory(self):
        _, _, body, _ = self.exec("cpu", *SMALL)
        self.assertGreaterEqual(body["command"]["usage"]["cpuMs"], 500)
        if group_bounds("memory"):
            _, _, body, _ = self.exec("memory", "--memory", "64MiB")
            usage = body["command"]["usage"]
            self.assertEqual(usage["source"], "cgroup v1")
            self.assertTrue(63 << 20 <= usage["peakBytes"] <= 64 << 20, usage)

    def test_who_is_killed_is_counted_too(self):
        # The launch and whoever else wants the processor take from that time, too.
        for timeout in ("1s", "5s", "20s"):
            self.events("run", *self.words("cpu", ("--timeout", timeout)))
            ended = self.record("worker.ended")
            self.assertEqual(ended["cause"], "deadline")
            if ended["cpuUs"] > 200000:
                break
        self.assertGreater(ended["cpuUs"], 200000)
        self.assertGreater(ended["peakBytes"], 100000)
        status, events = self.events("exec", *self.words("thread", ()))
        self.assertEqual(status, 128 + signal.SIGSYS)
        self.assertGreater(ending(events)["command"]["usage"]["peakBytes"], 100000)

    def test_what_is_written_to_a_disk(self):
        out = self.dir / "out"
        out.mkdir()
        out.chmod(0o777)
        kind = subprocess.run(["stat", "-f", "-c", "%T", out], capture_output=True, text=True)
        if kind.stdout.strip() in ("tmpfs", "overlayfs"):
            self.skipTest("no disk is written to here")
        status, _, body, _ = self.exec("write /out/file 4194304", "--rw", f"{out}:/out")
        if status == 98 and IS_ROOT:
            self.skipTest("this file system cannot map ids")
        self.assertEqual(status, 0)
        self.assertTrue(4 << 20 <= body["command"]["usage"]["writtenBytes"] < 64 << 20, body)


if __name__ == "__main__":
    unittest.main()
