"""caisson against a scripted caissond: output, exit status, signals, streams (caisson(1))."""

import base64
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import unittest

import wire

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

FAKE = f"""#!/usr/bin/python3
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, {str(HERE)!r})
import cli_fake
cli_fake.main()
"""


def parse_endings():
    """Rows of endings.def: cause -> (run, exec)."""
    text = (ROOT / "common/endings.def").read_text()
    rows = re.findall(r'^ENDING\((\w+), "\w*", "\w*", "\w*", "\w*", \d, (-?\d+), (-?\d+),',
                      text, re.M)
    return {cause: (int(run), int(exec_)) for cause, run, exec_ in rows}


class Cli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        program = wire.program("caisson")
        if program is None:
            raise unittest.SkipTest("caisson is not built")
        cls.dir = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.dir.cleanup)
        os.chmod(cls.dir.name, 0o755)
        cls.caisson = shutil.copy(program, cls.dir.name)
        fake = pathlib.Path(cls.dir.name, "caissond")
        fake.write_text(FAKE)
        fake.chmod(0o755)

    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.log_path = pathlib.Path(tmp.name, "log")

    def environment(self, scenario, **extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith("CAISSON_")}
        env.update(FAKE_SCENARIO=scenario, FAKE_LOG=str(self.log_path),
                   CAISSON_BUILD=str(wire.BUILD), **extra)
        return env

    def start(self, scenario, *words, env=None, **popen):
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        p = subprocess.Popen([self.caisson, *words], env=self.environment(scenario, **(env or {})),
                             **popen)
        self.addCleanup(self.finish, p)
        return p

    def finish(self, p):
        if p.poll() is None:
            p.kill()
            p.wait()
        for f in (p.stdin, p.stdout, p.stderr):
            if f is not None:
                f.close()

    def run_it(self, scenario, *words, env=None, stdin=b"", **popen):
        """(exit status, stdout, stderr)"""
        p = self.start(scenario, *words, env=env, stdin=subprocess.PIPE, **popen)
        out, err = p.communicate(stdin, timeout=wire.TIMEOUT)
        return p.returncode, out, err.decode()

    def run_events(self, events, *words):
        return self.run_it("events", *(words or RUN), env={"FAKE_EVENTS": json.dumps(events)})

    def log(self):
        """What the fake wrote, merged."""
        merged = {"sequence": []}
        if self.log_path.exists():
            for line in self.log_path.read_text().splitlines():
                merged["sequence"].append(json.loads(line))
                merged.update(merged["sequence"][-1])
        return merged


RUN = ("run", "--", "agent")
EXEC = ("exec", "--", "command")


def output(data, stream="stdout"):
    return ["output", {"stream": stream, "data": base64.b64encode(data).decode()}]


class Usage(Cli):
    def one_line(self, *words):
        p = subprocess.run([self.caisson, *words], capture_output=True, text=True,
                           env=self.environment("none"), timeout=wire.TIMEOUT)
        self.assertEqual((p.returncode, p.stdout), (125, ""), words)
        self.assertRegex(p.stderr, r"\Acaisson: [^\n]*\n\Z")
        return p.stderr

    def test_every_usage_error_is_125_and_one_line(self):
        for words, said in (
                (("run", "--timeout", "10 parsecs", "--", "x"),
                 '--timeout: "10 parsecs" is not a duration (250ms, 10s, 5m)'),
                (("run",), "run: needs -- COMMAND or -c FILE"),
                (("exec",), "exec: needs -- COMMAND"),
                (("exec", "ls"), "ls: a COMMAND stands after --"),
                (("exec", "--allow", "read:.", "--", "x"), "--allow: not an option of exec"),
                (("run", "--memory", "12", "--", "x"), '--memory: "12" is not a size'),
                (("run", "-m", "{", "--", "x"), "--message: line 1, column 1"),
                (("run", "-m", '{"a":1,"a":2}', "--", "x"), "--message: line 1, column "),
                (("run", "-m", "{}{}", "--", "x"), "--message: line 1, column "),
                (("run", "-m", "[" * 40 + "]" * 40, "--", "x"), "nested more than"),
                (("run", "-m", "9" * 30, "--", "x"), "--message: line 1, column "),
                (("run", "-m", "[" + ",".join(["1.5"] * 30000) + "]", "--", "x"),
                 "more than 262144 bytes"),
                (("frobnicate\x1b[2J",), "no command frobnicate\\x1b[2J"),
                (("caissond", "--show"), "no command caissond"),
                (("audit",), "audit: needs show, verify or query"),
                (("audit", "query", "show"), "audit query: show: one word too many"),
                (("audit", "query", "--principal", "worker"),
                 'audit: --principal: "worker" is no address, expected human:ID, agent:ID'),
                (("audit", "query", "--principal", "agent:"), '"agent:" has no id'),
                (("audit", "-c", "f", "show"), "--config: not an option of audit"),
                (("config",), "config: needs check FILE or show"),
                (("config", "check"), "config: needs check FILE or show"),
                (("config", "show", "x"), "config: needs check FILE or show"),
                (("help", "x"), "help: no command x"),
                (("sesion", "list"), "no command sesion; did you mean session?"),
                (("help", "grnat"), "help: no command grnat; did you mean grant?"),
                (("--versoin",), "no command --versoin; did you mean --version?"),
                (("-q", "ps"), "no command -q; options stand behind the COMMAND"),
                (("run", "--timout=3s", "--", "x"), "no such option; did you mean --timeout?"),
                (("exec", "--alow", "read:.", "--", "x"), "--alow: no such option\n"),
                (("session", "lst"), '"lst" is no verb: did you mean list? needs acquire, list, '),
                (("session",), "session: needs acquire, list, show, release, operations, files "
                               "or get\n"),
                (("audit", "shwo"), '"shwo" is no verb: did you mean show? needs show, verify or'),
                (("grant", "reovke"), "did you mean revoke? needs list, issue, derive, revoke or"),
                (("config", "chek", "f"), "did you mean check? needs check FILE or show [-c")):
            with self.subTest(words=[w[:80] for w in words]):
                self.assertIn(said, self.one_line(*words))

    def test_help_and_version(self):
        for words, said in ((["help"], "usage: caisson COMMAND"), (["--help"], "exec"),
                            (["help", "run"], "--allow ACTION:PATH"),
                            (["run", "--help"], "usage: caisson run"),
                            (["version"], "caisson 0."), (["--version"], "caisson 0."),
                            (["exec", "--version"], "caisson 0.")):
            p = subprocess.run([self.caisson, *words], capture_output=True, text=True)
            self.assertEqual((p.returncode, p.stderr), (0, ""), words)
            self.assertIn(said, p.stdout)
        p = subprocess.run([self.caisson], capture_output=True, text=True)
        self.assertEqual((p.returncode, p.stdout), (125, ""))
        self.assertIn("usage: caisson COMMAND", p.stderr)

    def test_config_is_read_by_caissond_alone(self):
        for words, argv in ((["check", "a.yaml"], ["--check", "a.yaml"]), (["show"], ["--show"]),
                            (["show", "-c", "f"], ["--show", "--config", "f"])):
            status, out, err = self.run_it("none", "config", *words)
            self.assertEqual((status, json.loads(out), err), (0, argv, ""))

    def test_without_caissond_beside_it(self):
        with tempfile.TemporaryDirectory() as d:
            alone = shutil.copy(self.caisson, d)
            p = subprocess.run([alone, *EXEC], capture_output=True, text=True,
                               stdin=subprocess.DEVNULL)
            self.assertEqual((p.returncode, p.stdout), (125, ""))
            self.assertEqual(p.stderr, "caisson: cannot start caissond: No such file or directory\n")


class Private(Cli):
    def test_caissond_gets_a_session_and_nothing_but_its_descriptors(self):
        r, w = os.pipe()
        os.set_inheritable(w, True)
        words = ("run", "--timeout", "5s", "-m", '{"a":[1,-2,1.5,null,true,"\\u0000"]}', "--", "agent")
        status, out, err = self.run_it("facts", *words, pass_fds=[w])
        os.close(r)
        os.close(w)
        self.assertEqual((status, out, err), (0, b"null\n", ""))
        log = self.log()
        self.assertEqual(log["argv"], ["--private", *words])
        self.assertEqual(log["sid"], log["pid"])
        self.assertEqual(log["life"], "closed")
        self.assertEqual(log["fds"]["0"], "/dev/null")
        self.assertEqual(log["fds"]["1"], "/dev/null")
        self.assertTrue({int(fd) for fd in log["fds"]} <= {0, 1, 2, 3, 4}, log["fds"])
        self.assertEqual(log["submit"], {"kind": "turn", "timeoutMs": 5000,
                                         "message": {"a": [1, -2, 1.5, None, True, "\0"]}})
        # Python itself ignores SIGPIPE; nothing else is inherited as ignored.
        self.assertEqual(log["ignored"], ["SIGPIPE"])

    def test_the_client_is_confined_before_it_reads_a_runtimes_text(self):
        p = self.start("never_answers", *RUN)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        status = pathlib.Path(f"/proc/{p.pid}/status").read_text()
        self.assertIn("NoNewPrivs:\t1\n", status)
        if not wire.SANITIZED:
            self.assertIn("Seccomp:\t2\n", status)

    def test_what_a_turn_and_a_command_submit(self):
        turn = [["completed", {"turn": {"status": "succeeded"}}]]
        self.run_events(turn, "run", "-c", "f", "--runtime", "r", "--max-steps", "3",
                        "--max-tool-calls", "4")
        self.assertEqual(self.log()["submit"], {"kind": "turn", "runtime": "r", "message": {},
                                                "maxSteps": 3, "maxToolCalls": 4})
        self.run_events([["completed", {"command": {"exitCode": 0}}]], "exec", "--timeout", "1m",
                        "--", "x")
        self.assertEqual(self.log()["submit"], {"kind": "command", "timeoutMs": 60000,
                                                "input": True})

    def test_what_a_turn_is_narrowed_to(self):
        self.run_events([["completed", {"turn": {"status": "succeeded"}}]], "run", "--tools",
                        "a.b,c", "--namespaces", "files", "--purpose", "p q", "--trace", "t-9",
                        "--", "x")
        self.assertEqual(self.log()["submit"], {
            "kind": "turn", "message": {}, "tools": ["a.b", "c"], "namespaces": ["files"],
            "purpose": "p q", "trace": "t-9"})

    def test_standard_streams_may_be_closed(self):
        script = f'exec "{self.caisson}" run -- agent 0<&- 1>&- 2>&-'
        env = self.environment("events", FAKE_EVENTS=json.dumps(
            [output(b"lost"), ["completed", {"turn": {"status": "succeeded"}}]]))
        self.assertEqual(subprocess.run(["sh", "-c", script], env=env).returncode, 0)

    def test_a_caissond_that_dies_before_a_link_is_125(self):
        for scenario, said in (("dies_early", "caissond: error: no namespaces here\n"),
                               ("killed_early", "caisson: caissond was killed by signal 9\n"),
                               ("fails", "caissond: error: landlock is missing\n")):
            for words in (RUN, EXEC):
                with self.subTest(scenario=scenario, words=words):
                    self.assertEqual(self.run_it(scenario, *words), (125, b"", said))

    def test_a_caissond_that_dies_later_is_125_and_says_that_nobody_knows(self):
        status, out, err = self.run_it("killed_later", *RUN)
        self.assertEqual((status, out), (125, b""))
        self.assertIn("outcome unknown", err)

    def test_a_broker_that_outlives_caissond_is_read_to_its_end(self):
        status, out, err = self.run_it("settles_after_death", *RUN)
        self.assertEqual((status, out), (4, b""))
        self.assertEqual(err, "caisson: shutdown: Caisson was told to end\n")

    def test_a_refusal_is_125_and_harmless(self):
        self.assertEqual(self.run_it("refuses", *RUN), (
            125, b"", "caisson: refused: invalid_argument: no such \\x1b[31mruntime\n"))

    def test_after_a_brokers_death_the_next_one_tells_the_ending(self):  # D-10, D-11
        status, out, err = self.run_it("broker_dies", "run", "-v", "-o", "jsonl", "--", "x")
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([(e["sequence"], e["type"]) for e in lines],
                         [(1, "accepted"), (2, "progress"), (1001, "gap"), (1002, "failed")])
        self.assertEqual(status, parse_endings()["outcome_unknown"][0])
        self.assertEqual(self.log()["attach"], {"operation": "op-1", "after": 2})
        self.assertEqual(len([e for e in self.log()["sequence"] if "submit" in e]), 1)
        self.assertEqual(err, "caisson: the broker died; asking the next one how the operation ended\n")

    def test_a_broker_that_knows_nothing_of_it_is_125(self):
        status, _, err = self.run_it("broker_dies_twice", *RUN)
        self.assertEqual(status, 125)
        self.assertIn("no such operation", err)

    def test_a_broker_that_breaks_the_protocol_is_125(self):
        for scenario in ("speaks_nonsense", "goes_back"):
            status, out, err = self.run_it(scenario, *RUN)
            self.assertEqual((status, out), (125, b""))
            self.assertIn("the broker broke the protocol: ", err)


class Run(Cli):
    def test_exit_status_follows_the_turn(self):
        for turn, want in (("succeeded", 0), ("failed", 1), ("denied", 3), ("escalated", 5)):
            status, out, err = self.run_events([["completed", {"turn": {
                "status": turn, "error": {"code": "some_code", "message": "why\x1b"}}}]])
            self.assertEqual((status, out), (want, b""), turn)
            self.assertEqual(err, "" if want == 0 else
                             f"caisson: the turn ended {turn}: some_code: why\\x1b\n")

    def test_exit_status_of_every_cause(self):
        for cause, (want, _) in parse_endings().items():
            if want < 0:
                continue
            status, out, err = self.run_events([["failed", {
                "code": "internal", "message": "", "cause": {"kind": cause, "code": 9}}]])
            self.assertEqual((status, out), (want, b""), cause)
            self.assertRegex(err, rf"\Acaisson: {cause} \(code 9\): .+\n\Z"
                             if cause != "start_failed" else r"\A\Z")  # caissond has said it

    def test_jsonl_is_exactly_the_documented_lines(self):
        status, out, err = self.run_events([
            output(b"\x00\xff\n"), output(b"", "stderr"),
            ["progress", {"kind": "tool_call_started", "tool": "files.read", "callId": "c-1"}],
            ["progress", {"kind": "tool_call_finished", "tool": "files.read", "callId": "c-1",
                          "status": "denied", "code": "no_matching_grant"}],
            ["completed", {"turn": {"status": "succeeded", "output": {
                "n": 18446744073709551615, "m": -9223372036854775808, "r": 0.1, "e": 1.0,
                "s": "ü\x1b\u0085\u202e\"\\\n😀", "l": [], "o": {}}}}]],
            "run", "-o", "jsonl", "--", "x")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out.decode(), (
            '{"sequence":1,"type":"accepted","accepted":{"operationID":"op-1"}}\n'
            '{"sequence":2,"type":"output","output":{"stream":"stdout","data":"AP8K"}}\n'
            '{"sequence":3,"type":"output","output":{"stream":"stderr","data":""}}\n'
            '{"sequence":4,"type":"progress","progress":{"kind":"tool_call_started",'
            '"tool":"files.read","callId":"c-1"}}\n'
            '{"sequence":5,"type":"progress","progress":{"kind":"tool_call_finished",'
            '"tool":"files.read","callId":"c-1","status":"denied","code":"no_matching_grant"}}\n'
            '{"sequence":6,"type":"completed","completed":{"turn":{"status":"succeeded","output":'
            '{"n":18446744073709551615,"m":-9223372036854775808,"r":0.1,"e":1.0,'
            '"s":"ü\\u001b\\u0085\\u202e\\"\\\\\\n😀","l":[],"o":{}}}}}\n'))

    EVENTS = [
        ["progress", {"kind": "tool_call_started", "tool": "files.read", "callId": "c-1"}],
        ["progress", {"kind": "tool_call_finished", "tool": "files.read", "callId": "c-1",
                      "status": "denied", "code": "no_matching_grant"}],
        output(b"plain \x1b[31m"),
        ["completed", {"turn": {"status": "succeeded", "output": {"a": [1, {}], "b": "\x1b"}}}]]

    def test_for_people_in_a_pipe(self):
        status, out, err = self.run_events(self.EVENTS)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out.decode(), 'plain \x1b[31m{\n  "a": [\n    1,\n    {}\n  ],\n'
                                       '  "b": "\\u001b"\n}\n')
        _, _, err = self.run_events(self.EVENTS, "run", "-v", "--", "x")
        self.assertEqual(err, "files.read  c-1  ...\n"
                              "files.read  c-1  denied  no_matching_grant\n")

    def test_for_people_at_a_terminal_nothing_is_obeyed(self):
        master, slave = pty.openpty()
        p = self.start("events", *RUN, stdout=slave, stderr=slave, stdin=slave,
                       env={"FAKE_EVENTS": json.dumps(self.EVENTS)})
        os.close(slave)
        text = b""
        try:
            while select.select([master], [], [], wire.TIMEOUT)[0]:
                text += os.read(master, 4096)
        except OSError:  # the other side is closed
            pass
        os.close(master)
        self.assertEqual(p.wait(wire.TIMEOUT), 0)
        self.assertNotIn(b"\x1b", text)
        self.assertIn(b"files.read  denied  no_matching_grant\r\n", text)
        self.assertIn(b"plain \\x1b[31m\r\n{\r\n", text)

    def test_an_ending_that_is_not_recorded_says_so(self):  # D-11
        status, _, err = self.run_events([["failed", {
            "code": "unavailable", "message": "disk full", "recorded": False,
            "cause": {"kind": "audit_unavailable"}}]])
        self.assertEqual(status, 1)
        self.assertEqual(err, "caisson: audit_unavailable: disk full; "
                              "see the log, and the disk of the state directory "
                              "(this ending is not in the record)\n")

    def test_the_first_interrupt_cancels(self):  # D-6
        for signo in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            p = self.start("cancels", *RUN)
            self.assertEqual(p.stdout.readline(), b"ready\n")
            p.send_signal(signo)
            out, err = p.communicate(timeout=wire.TIMEOUT)
            self.assertEqual((p.returncode, out), (4, b""))
            self.assertEqual(err, b"caisson: canceled: the client asked for it\n")
            self.assertEqual(self.log()["params"], {"operation": "op-1"})

    def test_the_second_kills(self):
        p = self.start("cancels", *RUN, env={"FAKE_STUBBORN": "1"})
        self.assertEqual(p.stdout.readline(), b"ready\n")
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.stdout.readline(), b"again\n")
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=wire.TIMEOUT)
        self.assertEqual(p.returncode, 4)
        self.assertEqual(self.log()["params"], {"operation": "op-1", "kill": True})

    def test_the_third_ends_the_client_and_with_it_caissond(self):
        p = self.start("never_answers", *RUN)
        for line in (b"ready\n", b"again\n", b"again\n"):
            self.assertEqual(p.stdout.readline(), line)
            p.send_signal(signal.SIGINT)
        # The end of the error stream is caissond's end, too: it holds the last copy.
        p.communicate(timeout=wire.TIMEOUT)
        self.assertEqual(p.returncode, -signal.SIGINT)
        self.assertEqual(self.log()["life"], "closed")

    def wait_for_log(self, key):
        """Only for a scenario without output: the log is all there is to see."""
        while key not in self.log():
            select.select([], [], [], 0.01)

    def test_an_interrupt_before_there_is_a_link(self):
        for words, want in ((RUN, 4), (EXEC, 130)):
            self.log_path.unlink(missing_ok=True)
            p = self.start("waits", *words)
            self.wait_for_log("ready")
            p.send_signal(signal.SIGINT)
            p.communicate(timeout=wire.TIMEOUT)
            self.assertEqual(p.returncode, want)
            self.assertEqual(self.log()["life"], "closed")

    def test_nobody_who_reads_the_events_cancels(self):
        p = self.start("cancels", "run", "-o", "jsonl", "--", "x")
        p.stdout.close()
        p.stdout = None
        p.communicate(timeout=wire.TIMEOUT)
        self.assertEqual(p.returncode, 4)


class Exec(Cli):
    def exec_events(self, *events, words=EXEC):
        return self.run_events(list(events), *words)

    def test_exit_status_of_the_command_passes(self):
        for code in (0, 1, 3, 77, 125, 126, 127, 255):
            self.assertEqual(self.exec_events(["completed", {"command": {
                "exitCode": code, "cause": {"kind": "exited", "code": code}}}]), (code, b"", ""))
        for signo in (1, 9, 13, 15, 31):
            self.assertEqual(self.exec_events(["completed", {"command": {
                "signal": signo, "cause": {"kind": "signaled", "signo": signo}}}]),
                (128 + signo, b"", ""))

    def test_exit_status_of_every_cause(self):
        for cause, (_, want) in parse_endings().items():
            if want < 0 or cause == "start_failed":
                continue
            status, out, err = self.exec_events(["failed", {
                "code": "internal", "message": "why", "cause": {"kind": cause}}])
            self.assertEqual((status, out), (want, b""), cause)
            self.assertRegex(err, rf"\Acaisson: {cause}: why(; [^\n]+)?\n\Z")

    def test_exit_status_from_the_kernels_facts(self):
        for cause, command, want in (
                ({"kind": "exited", "code": 3}, {}, 3),
                ({"kind": "signaled", "signo": 11}, {}, 139),
                ({"kind": "seccomp", "syscall": "ptrace"}, {"signal": 31}, 159),
                ({"kind": "seccomp", "syscall": "ptrace"}, {}, 159),
                ({"kind": "oom"}, {}, 137),
                ({"kind": "oom"}, {"exitCode": 9}, 9),
                ({"kind": "deadline"}, {"timedOut": True, "signal": 9}, 124)):
            status, _, _ = self.exec_events(["failed", {
                "code": "internal", "message": "", "cause": cause, "command": command}])
            self.assertEqual(status, want, cause)

    def test_a_program_that_cannot_be_started(self):
        for layer, errno, want, said in (
                ("exec", 2, 127, "No such file or directory: it, or the interpreter that it "
                                 "names, is not in the chamber"),
                ("exec", 13, 126, "Permission denied: mode, or a directory that can be written"),
                ("exec", 8, 126, "Exec format error"), ("landlock", 2, 125, None)):
            status, out, err = self.exec_events(["failed", {
                "code": "failed_precondition", "message": "no",
                "cause": {"kind": "start_failed", "layer": layer, "errno": errno}}])
            self.assertEqual((status, out), (want, b""))
            # Of every other layer caissond itself says why.
            self.assertEqual(err.splitlines(), [
                f"caisson: command: cannot be executed: {said}"] if layer == "exec" else [])

    def test_bytes_pass_as_they_are(self):
        every = bytes(range(256))
        done = ["completed", {"command": {"exitCode": 0}}]
        p = self.start("events", *EXEC, env={"FAKE_EVENTS": json.dumps(
            [output(every), output(every[::-1], "stderr"), done])})
        self.assertEqual(p.communicate(timeout=wire.TIMEOUT), (every, every[::-1]))
        status, out, _ = self.exec_events(output(every[:3]), done,
                                          words=("exec", "-o", "jsonl", "--", "x"))
        self.assertEqual(json.loads(out.splitlines()[1])["output"],
                         {"stream": "stdout", "data": "AAEC"})

    def test_a_filter_is_faithful_from_files_and_pipes(self):
        data = os.urandom(5 << 20 | 77)
        status, out, err = self.run_it("cat", *EXEC, stdin=data)
        self.assertEqual((status, out == data, err), (0, True, ""))
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
            source.write(data)
            source.seek(0)
            p = self.start("cat", *EXEC, stdin=source, stdout=target)
            self.assertEqual(p.wait(wire.TIMEOUT), 0)
            target.seek(0)
            self.assertEqual(target.read() == data, True)

    def test_empty_input_ends_at_once(self):
        self.assertEqual(self.run_it("cat", *EXEC), (0, b"", ""))

    def test_input_stops_at_the_window(self):
        with open("/dev/zero", "rb") as zero:
            p = self.start("holds_credit", *EXEC, stdin=zero)
            self.assertEqual(p.communicate(timeout=wire.TIMEOUT), (b"full\n", b""))
        self.assertEqual(p.returncode, 7)
        self.assertEqual((self.log()["window"], self.log()["more"]), (1 << 20, 10))

    def test_a_reader_that_waits_costs_no_memory(self):
        size = 64 << 20
        p = self.start("floods", *EXEC, env={"FAKE_BYTES": str(size)})
        os.set_blocking(p.stdout.fileno(), True)
        got, peak = 0, 0
        while True:
            data = p.stdout.read1(1 << 16)
            if not data:
                break
            got += len(data)
            status = pathlib.Path(f"/proc/{p.pid}/status").read_text()
            peak = max([peak, *map(int, re.findall(r"VmRSS:\s+(\d+)", status))])
        self.assertEqual((got, p.wait(wire.TIMEOUT)), (size, 0))
        limit = 200 << 10 if wire.SANITIZED else 24 << 10
        self.assertLess(peak, limit)  # KiB

    def test_the_flags_of_shared_streams_stay(self):
        r, w = os.pipe()
        p = self.start("floods", *EXEC, stdout=w, env={"FAKE_BYTES": "1000000"})
        os.read(r, 1)
        self.assertTrue(os.get_blocking(w))
        os.close(w)
        while os.read(r, 1 << 16):
            pass
        os.close(r)
        self.assertEqual(p.wait(wire.TIMEOUT), 0)

    def test_a_socket_is_a_stream_as_well(self):
        import socket
        ours, theirs = socket.socketpair()
        with ours:
            p = self.start("floods", *EXEC, stdout=theirs, env={"FAKE_BYTES": "3000000"})
            theirs.close()
            got = 0
            while data := ours.recv(1 << 16):
                got += len(data)
        self.assertEqual((got, p.wait(wire.TIMEOUT)), (3000000, 0))

    def test_a_closed_output_reaches_the_command(self):
        p = self.start("writes_until_closed", *EXEC)
        self.assertEqual(p.stdout.readline(), b"first\n")
        p.stdout.close()
        p.stdout = None
        _, err = p.communicate(timeout=wire.TIMEOUT)
        self.assertEqual((p.returncode, err), (141, b""))
        self.assertEqual(self.log()["close"], "stdout")

    def test_a_full_disk_is_said_and_is_not_a_success(self):
        with open("/dev/full", "wb") as full:
            p = self.start("floods", *EXEC, stdout=full, env={"FAKE_BYTES": "10"})
            _, err = p.communicate(timeout=wire.TIMEOUT)
        self.assertEqual(p.returncode, 125)
        self.assertEqual(err, b"caisson: cannot write standard output: No space left on device\n")

    def test_signals_reach_the_command(self):
        p = self.start("signals", *EXEC, stdin=subprocess.PIPE)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        for signo in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGQUIT,
                      signal.SIGINT, signal.SIGTERM):
            p.send_signal(signo)
            self.assertEqual(p.stdout.readline(), b"%d\n" % signo)
        _, err = p.communicate(timeout=wire.TIMEOUT)
        self.assertEqual((p.returncode, err), (143, b""))

    def test_a_second_interrupt_kills_it(self):
        p = self.start("signals", *EXEC, stdin=subprocess.PIPE)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.stdout.readline(), b"2\n")
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=wire.TIMEOUT)
        self.assertEqual(p.returncode, 128 + signal.SIGKILL)
        self.assertEqual(self.log()["params"], {"operation": "op-1", "kill": True})

    def test_an_interrupt_reaches_it_while_the_terminal_is_stopped(self):
        """Output that goes nowhere must not hold up Ctrl-C."""
        r, w = os.pipe()
        p = self.start("signals_behind_output", *EXEC, stdout=w)
        os.close(w)
        os.read(r, 1)
        p.send_signal(signal.SIGINT)
        while "params" not in self.log():
            select.select([], [], [], 0.01)
        while os.read(r, 1 << 16):
            pass
        os.close(r)
        p.communicate(timeout=wire.TIMEOUT)
        self.assertEqual(p.returncode, 130)

    def test_what_was_ignored_stays_ignored(self):
        script = f'trap "" HUP; exec "{self.caisson}" exec -- x'
        p = subprocess.Popen(["sh", "-c", script], env=self.environment("signals"),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        self.addCleanup(self.finish, p)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        p.send_signal(signal.SIGHUP)
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.communicate(timeout=wire.TIMEOUT)[0], b"15\n")


if __name__ == "__main__":
    unittest.main()
