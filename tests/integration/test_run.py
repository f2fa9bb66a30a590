"""`caisson run` end to end: what a turn is asked and allowed, how it ends, what it leaves."""

import contextlib
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import unittest

import wire
from real import (CAISSON, IS_ROOT, WAIT, Case, below, ending, environment, marked, nothing_left,
                  output_of, proc_text, wait_for)

TIMEOUT = 300  # of this file, for run.py
EXAMPLES = wire.ROOT / "examples"

AGENT = r'''
import json, os, signal, struct, sys, time
mode = sys.argv[1]
if mode == "exits":
    sys.exit(int(sys.argv[2]))
if mode == "kills itself":
    os.kill(os.getpid(), int(sys.argv[2]))
if mode == "writes":
    os.write(3, bytes.fromhex(sys.argv[2]))
    time.sleep(1000)
if mode == "says nothing":
    time.sleep(1000)
if mode == "closes":
    os.close(3)
    time.sleep(1000)
import caisson


def facts():
    return {"uid": os.getuid(), "pid": os.getpid(), "cwd": os.getcwd(),
            "processes": sorted(p for p in os.listdir("/proc") if p.isdigit()),
            "namespaces": {n: os.readlink("/proc/self/ns/" + n)
                           for n in ("user", "pid", "mnt", "net", "ipc", "uts")},
            "tmp": os.listdir("/tmp"), "fds": sorted(map(int, os.listdir("/proc/self/fd")))[:4],
            "env": dict(os.environ)}


def calls(turn):
    """What became of each [tool, arguments, step or None] of the message, by code."""
    told = []
    for tool, arguments, *step in turn.message:
        try:
            turn.invoke(tool, arguments, *step)
            told.append("ok")
        except (caisson.ToolDenied, caisson.ToolFailed) as e:
            told.append(e.code)
    return told


def run(turn):
    if mode == "echo":
        return turn.message
    if mode == "facts":
        return facts()
    if mode == "meets":  # says who it is, and stays until it is cancelled
        open("/tmp/mine", "w").close()
        print(json.dumps(facts()), flush=True)
        time.sleep(1000)
    if mode == "calls":
        return calls(turn)
    if mode == "fails":
        raise caisson.Fail("my_code", "why\x1b[31m")
    if mode == "raises":
        raise ValueError("a secret")
    if mode == "escalates":
        raise caisson.Escalate("ask somebody")
    if mode == "prints":
        print("\x1b[31mout\x1b]0;t\a", flush=True)
        print("err\x1b[2J", file=sys.stderr, flush=True)
        return "\x1b[2J"
    if mode == "ignores":
        for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(s, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", sys.argv[2]])
            os._exit(0)
        print("ready", flush=True)
        while True:
            time.sleep(1000)


caisson.serve(run)
'''


class Run(Case):
    def setUp(self):
        super().setUp()
        self.app, self.root = self.dir / "app", self.dir / "root"
        for folder in (self.app, self.root, self.root / "docs"):
            folder.mkdir()
            folder.chmod(0o755)
        (self.app / "agent.py").write_text(AGENT)
        (self.app / "caisson.py").write_text((wire.SDK / "caisson.py").read_text())
        (self.root / "docs/a.txt").write_text("hello\n")

    def words(self, *words, mode=("echo",), options=()):
        return ("run", *words, *options, "--app", self.app, "--root", self.root, "--", "python3",
                "/app/agent.py", *mode)

    def turn(self, *options, mode=("echo",), **popen):
        """(exit status, output or None, stderr)"""
        status, out, err = self.caisson(*self.words(*options, mode=mode), **popen)
        return status, json.loads(out) if out else None, err

    def turn_events(self, *options, mode=("echo",)):
        words = self.words(*options, mode=mode)
        return self.events(words[0], *words[1:])


class Message(Run):
    def test_every_json_value_comes_back(self):
        for value in ({}, [], "ü\0\u202e😀", 2**63 - 1, -2**63, 1.5, True, None,
                      {"a": [1, {"b": []}]}):
            status, got, err = self.turn("-m", json.dumps(value))
            self.assertEqual((status, got, err), (0, value, ""))
        self.assertEqual(self.turn()[1], {})

    def test_from_a_file_and_from_standard_input(self):
        value, file = ["x" * 250000], self.dir / "message.json"
        file.write_text(json.dumps(value))
        self.assertEqual(self.turn("-m", f"@{file}")[:2], (0, value))
        self.assertEqual(self.turn("-m", "@-", stdin=b" [1]\n")[:2], (0, [1]))

    def test_a_mistake_has_its_position(self):
        for text, said in (("[1,", "--message: line 1, column"), ('{"a":\n tru}', "line 2, column"),
                           ("", "--message: is empty"), ("@nothing", "nothing: No such file"),
                           ("@/", "Is a directory"), ("@/dev/zero", "is more than"),
                           ("01", "line 1"), (str(2**64), "too big integer"),
                           ('"\\ud800"', "line 1")):
            words = self.words("-m", text)
            self.refused(said, *words)


class Endings(Run):
    def test_the_runtimes_own(self):
        for mode, status, said in (
                ("fails", 1, r"the turn ended failed: my_code: why\\x1b\[31m"),
                ("escalates", 1, r"the turn ended failed: tool_unavailable: .*no grant.*")):
            got, out, err = self.turn(mode=(mode,))
            self.assertEqual((got, out), (status, None), err)
            self.assertRegex(err, rf"\Acaisson: {said}\n\Z")
        got, out, err = self.turn(mode=("raises",))
        self.assertEqual((got, out), (1, None))
        self.assertIn("caisson: the turn ended failed: runtime_failed", err)

    def test_a_runtime_that_ends_before_its_outcome(self):
        for mode, kind, detail in ((("exits", "0"), "exited", {"code": 0}),
                                   (("exits", "3"), "exited", {"code": 3}),
                                   (("kills itself", "11"), "signaled", {"signal": 11})):
            status, _, err = self.turn(mode=mode)
            self.assertEqual(status, 1)
            self.assertRegex(err, rf"\Acaisson: {kind}: [^\n]+{list(detail.values())[0]}\n\Z")
            status, events = self.turn_events(mode=mode)
            cause = ending(events)["cause"]
            self.assertEqual((status, events[-1]["type"], cause["kind"]), (1, "failed", kind))
            self.assertLessEqual(detail.items(), cause.items())
            self.assertEqual(ending(events)["turn"]["status"], "failed")

    def test_what_it_printed_before_its_outcome_is_not_lost(self):
        for _ in range(5):
            _, events = self.turn_events(mode=("prints",))
            self.assertEqual(output_of(events), b"\x1b[31mout\x1b]0;t\a\n")
            self.assertEqual(output_of(events, "stderr"), b"err\x1b[2J\n")

    def test_a_malformed_frame_is_named_by_its_rule(self):
        for data, rule in (("ffffffff", "frame length"), ("00000003616263", ""),
                           ("0000000193", ""), ("00000001c1", "")):
            status, events = self.turn_events(mode=("writes", data))
            cause = ending(events)["cause"]
            self.assertEqual((status, cause["kind"]), (1, "runtime_protocol_violation"))
            self.assertTrue(cause["rule"])
            self.assertIn(rule, cause["rule"])
            _, _, err = self.turn(mode=("writes", data))
            self.assertRegex(err, rf"\Acaisson: runtime_protocol_violation: [^\n]+"
                             rf"{re.escape(cause['rule'])}; a fault of the runtime: [^\n]+\n\Z")

    def test_a_link_that_is_closed_while_it_lives_on(self):
        status, events = self.turn_events(mode=("closes",))
        self.assertEqual((status, ending(events)["cause"]["kind"]),
                         (1, "runtime_protocol_violation"))

    def test_a_program_that_is_not_there(self):
        self.refused("nosuch: cannot be executed: No such file", "run", "--", "nosuch")
        for _ in range(5):  # its provider, killed as it starts or has just begun, is no news
            self.refused("nosuch: cannot be executed: No such file", "run", "--allow", "read:.",
                         "--", "nosuch")

    def test_past_its_deadline_its_whole_tree_is_killed(self):  # D-9
        mark = f"88{os.getpid()}"
        for mode in (("ignores", mark), ("says nothing",)):
            status, out, err = self.caisson(*self.words("--timeout", "1s", mode=mode))
            self.assertEqual((status, out in (b"", b"ready\n"), err),
                             (4, True, "caisson: deadline: the time was up; "
                                       "give it more time (--timeout)\n"))
        self.assertEqual([p for p in marked(mark) if p != os.getpid()], [])

    def waiting(self):
        p = self.start(*self.words(mode=("ignores", "1000")))
        self.assertEqual(p.stdout.readline(), b"ready\n")
        return p

    def test_an_interrupt_cancels_and_what_ignores_it_is_killed(self):  # D-6, D-9
        p = self.waiting()
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=WAIT)
        self.assertEqual(p.returncode, 4)
        self.assertRegex(wire.said(err), rb"\Acaisson: canceled: [^\n]+\n\Z")

    def test_a_second_interrupt_kills_at_once(self):
        (self.dir / "f.yaml").write_text(
            "version: 1\nlimits: { kill_grace: 60s }\nruntimes:\n"
            f"  - {{ id: a, command: [python3, /app/agent.py, ignores, \"1000\"], "
            f"app: {self.app} }}\n")
        p = self.start("run", "-c", self.dir / "f.yaml")
        self.assertEqual(p.stdout.readline(), b"ready\n", p.stderr)
        p.send_signal(signal.SIGINT)
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=WAIT)  # which is less than the kill grace
        self.assertEqual(p.returncode, 4)

    def test_ctrl_c_at_a_terminal_and_nothing_there_is_obeyed(self):
        pid, terminal = pty.fork()
        if pid == 0:
            words = [str(w) for w in self.words(mode=("prints",))]
            os.execve(CAISSON, ["caisson", "run", "--state", str(self.state), *words[1:]],
                      environment())
        self.addCleanup(os.close, terminal)
        seen = b""
        with contextlib.suppress(OSError):  # EIO: the last one there has left
            while select.select([terminal], [], [], WAIT)[0]:
                seen += os.read(terminal, 4096)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertNotIn(b"\x1b", seen)
        self.assertNotIn(b"\a", seen)
        for said in (rb"\x1b[31mout", rb"err\x1b[2J", rb'"\u001b[2J"'):
            self.assertIn(said, seen)


class Authority(Run):
    READ = ["files.read", {"path": "docs/a.txt"}]

    def told(self, *options, calls=None):
        status, out, err = self.turn(*options, "-m", json.dumps(calls or [self.READ]),
                                     mode=("calls",))
        self.assertEqual(status, 0, err)
        return out

    def test_what_is_granted_and_nothing_else(self):
        self.assertEqual(self.told(), ["tool_unavailable"])
        for given in ("read:docs", "read:docs/a.txt", "read:.", "read:docs/", "read:./docs"):
            self.assertEqual(self.told("--allow", given), ["ok"], given)
        self.assertEqual(self.told("--allow", "read:other"), ["no_matching_grant"])
        self.assertEqual(self.told("--allow", "read:doc"), ["no_matching_grant"])
        self.assertEqual(self.told("--allow", "list:docs"), ["tool_unavailable"])

    def test_what_the_broker_has_against_a_tool_is_told_with_its_line(self):
        text = """version: 1
runtimes: [{ id: a, command: [/bin/true] }]
providers: [{ id: p, command: [/bin/true] }]
tools:
  - { name: t, provider: p, namespace: n, effect: read, input: { type: object },
      requires: { action: read, resource: { namespace: w, path: a } } }
  - { name: u, provider: p, namespace: n, effect: read, input: { type: object },
      output: { type: strin },
      requires: { action: read, resource: { namespace: w, path: a } } }
"""
        file = self.dir / "c.yaml"
        file.write_text(text)
        status, out, err = self.caisson("run", "-c", str(file))
        self.assertEqual((status, out), (125, b""))
        # Once each: another broker could not begin, either.
        self.assertEqual(err.splitlines(), [
            "caisson-broker: error: configuration: config.tool 2 (u): output: /type: is not a "
            "type of draft-07",
            f"caissond: error: {file}:7:5: tools[1]: refused by the broker, whose line above "
            "says why"])

    def test_what_is_granted_can_be_narrowed(self):  # TU-13
        both = [self.READ, ["files.list", {"path": "docs"}]]
        allow = ("--allow", "read:docs", "--allow", "list:docs")
        for narrow, said in (((), ["ok", "ok"]),
                             (("--tools", "files.list,files.write"), ["tool_unavailable", "ok"]),
                             (("--namespaces", "files,mail"), ["ok", "ok"]),
                             (("--namespaces", "mail"), ["tool_unavailable"] * 2)):
            self.assertEqual(self.told(*allow, *narrow, calls=both), said, narrow)
        self.refused("refused: invalid_argument: tools: is no list of at most 512 names",
                     *self.words("--tools", "files.list,files.list"))

    def test_a_trace_and_a_purpose_of_the_callers(self):  # TU-11
        self.told("--trace", "ticket-4711", "--purpose", "on-call", "--allow", "read:docs")
        self.told()
        status, out, err = self.caisson("audit", "-o", "jsonl", "query", "--trace", "ticket-4711")
        self.assertEqual(status, 0, err)
        records = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([r["type"] for r in records].count("turn.ended"), 1)
        self.assertEqual({r["purpose"] for r in records}, {"on-call"})

    def test_a_grammar_error(self):
        for given, said in (("read", "is not ACTION:PATH"), ("read:", "has no path"),
                            ("remove:docs", "does not begin with"), (":docs", "does not begin"),
                            ("read:/etc", "absolute"), ("read:../x", "leads out of"),
                            ("read:a/../../b", "leads out of")):
            self.refused(said, *self.words("--allow", given))

    def test_budgets(self):
        call = self.READ
        self.assertEqual(self.told("--allow", "read:docs", "--max-tool-calls", "2",
                                   calls=[call] * 4),
                         ["ok"] * 2 + ["tool_call_limit_exceeded"] * 2)
        self.assertEqual(self.told("--allow", "read:docs", "--max-steps", "2",
                                   "--max-tool-calls", "9",
                                   calls=[[*call, 0], [*call, 1], [*call, 1], [*call, 2]]),
                         ["ok"] * 3 + ["step_limit_exceeded"])

    def test_every_event_of_a_call(self):
        status, events = self.turn_events("--allow", "read:docs", "-m", json.dumps(
            [self.READ, ["files.read", {"path": "x"}]]), mode=("calls",))
        self.assertEqual(status, 0)
        calls = [(e["progress"]["kind"], e["progress"].get("status"), e["progress"].get("code"))
                 for e in events if e["type"] == "progress" and "callId" in e["progress"]]
        self.assertEqual(calls, [
            ("tool_call_started", None, None), ("tool_call_finished", "succeeded", None),
            ("tool_call_started", None, None),
            ("tool_call_finished", "denied", "no_matching_grant")])
        self.assertEqual(ending(events)["turn"]["output"], ["ok", "no_matching_grant"])

    def test_a_file_belongs_to_the_owner_of_the_root(self):
        if IS_ROOT:
            for path in (self.root, self.root / "docs", self.root / "docs/a.txt"):
                os.chown(path, 12345, 12346)
        self.assertEqual(self.told("--allow", "write:docs", calls=[
            ["files.write", {"path": "docs/new", "text": "x"}],
            ["files.write", {"path": "docs/a.txt", "text": "y"}]]), ["ok", "ok"])
        for name, text in (("new", "x"), ("a.txt", "y")):
            file = self.root / "docs" / name
            st, root = file.stat(), self.root.stat()
            self.assertEqual((st.st_uid, st.st_gid), (root.st_uid, root.st_gid))
            self.assertEqual(file.read_text(), text)

    def test_names_are_changed_where_that_was_allowed(self):
        if IS_ROOT:
            for path in (self.root, self.root / "docs", self.root / "docs/a.txt"):
                os.chown(path, 12345, 12346)
        calls = [["files.mkdir", {"path": "docs/new"}],
                 ["files.rename", {"path": "docs", "from": "a.txt", "to": "b.txt"}],
                 ["files.grep", {"path": "docs", "text": "a"}],
                 ["files.delete", {"path": "docs/b.txt"}]]
        self.assertEqual(self.told("--allow", "write:docs", "--allow", "read:docs",
                                   "--allow", "search:docs", calls=calls),
                         ["tool_unavailable"] * 4)
        allowed = [word for action in ("mkdir", "rename", "grep", "delete")
                   for word in ("--allow", f"{action}:docs")]
        self.assertEqual(self.told(*allowed, calls=[[c[0], {**c[1], "path": "other"}]
                                                    for c in calls]),
                         ["no_matching_grant"] * 4)
        self.assertEqual(self.told(*allowed, calls=calls), ["ok"] * 4)
        self.assertEqual(os.listdir(self.root / "docs"), ["new"])
        st, root = (self.root / "docs/new").stat(), self.root.stat()
        self.assertEqual((st.st_uid, st.st_gid), (root.st_uid, root.st_gid))


class Configuration(Run):
    def test_every_example_is_valid_and_the_first_runs(self):
        for file in sorted(EXAMPLES.glob("**/*.yaml")):
            p = subprocess.run([CAISSON, "config", "check", file], capture_output=True, text=True,
                               env=environment(), timeout=WAIT)
            self.assertEqual((p.returncode, p.stderr), (0, ""), file)
        status, out, err = self.caisson("run", "-c", EXAMPLES / "files.yaml", "-m",
                                        '{"path": "docs"}')
        self.assertEqual(status, 0, err)
        self.assertGreater(json.loads(out)["words"]["PROTOCOL.md"], 1000)

    def test_examples_without_one(self):
        status, out, err = self.caisson(
            "run", "--app", EXAMPLES / "python", "--root", self.root, "--allow", "read:docs",
            "-m", '"docs/a.txt"', "--", "python3", "/app/raw.py")
        self.assertEqual(status, 0, err)

    def test_mistakes_are_125_and_one_line(self):
        file = self.dir / "f.yaml"
        one = "version: 1\nruntimes:\n  - { id: a, command: [x] }\n"
        for text, words, said in (
                (one, ["--runtime", "b"], "no runtime \"b\""),
                (one + "  - { id: b, command: [x] }\n", [], "--runtime: is needed"),
                ("version: 1\n", [], "no runtime"), ("version: 2\n", [], "version"),
                (one + "nonsense: 1\n", [], "f.yaml:4:1"),
                ("version: 1\nruntimes: [{ id: a, command: [] }]\n", [], "f.yaml:2:"),
                ("version: 1\nruntimes: [{ id: a, command: [x], app: nowhere }]\n", [], "nowhere"),
                ("{", [], "f.yaml:"), ("", [], "f.yaml"), ("a: &x 1\nb: *x\n", [], "f.yaml:"),
                (one, ["--timeout", "1h"], "--timeout"),
                (one, ["--allow", "read:."], "--allow"), (one, ["--root", "."], "--root")):
            file.write_text(text)
            self.refused(said, "run", "-c", file, *words)
        self.refused("nowhere.yaml", "run", "-c", "nowhere.yaml")
        self.refused("needs -c FILE", "run", "--runtime", "a")
        self.refused("needs -- COMMAND", "run")
        self.refused("--root: nowhere", "run", "--root", "nowhere", "--", "true")
        for word in ("0", "-1", "1001", "x"):
            self.refused("--max-steps", "run", "--max-steps", word, "--", "true")

    def test_a_state_directory_that_cannot_be_used(self):
        (self.dir / "file").write_text("")
        for state in ("/proc/nowhere", self.dir / "file"):
            self.state = state
            self.refused("--state", "run", "--", "true")
        self.state = self.dir / "shared"
        self.state.mkdir()
        self.state.chmod(0o777)
        self.refused("--state", "run", "--", "true")

    def test_its_modes(self):
        self.assertEqual(self.turn()[0], 0)
        for path in (self.state, self.state / "runs", *self.state.glob("runs/*")):
            self.assertEqual(path.stat().st_mode & 0o777, 0o700, path)
        for path in self.state.glob("**/*"):
            self.assertEqual(path.stat().st_mode & 0o007, 0, path)


class Apart(Run):
    def test_two_runs_share_nothing_but_the_state_directory(self):
        runs = [self.start(*self.words("--allow", "read:docs", mode=("meets",)))
                for _ in range(2)]
        inside = [json.loads(p.stdout.readline()) for p in runs]
        trees = [below(p.pid) for p in runs]
        self.assertFalse(trees[0] & trees[1])
        for told in inside:
            self.assertEqual((told["processes"], told["pid"], told["tmp"]), (["2"], 2, ["mine"]))
            self.assertEqual(told["fds"][:4], [0, 1, 2, 3])
        for name in inside[0]["namespaces"]:
            here = os.readlink(f"/proc/self/ns/{name}")
            seen = {told["namespaces"][name] for told in inside}
            self.assertEqual((len(seen), here in seen), (2, False), name)
        if IS_ROOT:
            uids = [{self.uid(pid) for pid in tree} - {0, None} for tree in trees]
            self.assertFalse(uids[0] & uids[1])
            self.assertGreaterEqual(min(map(len, uids)), 4)  # broker, ledger, worker, provider
        self.assertEqual(self.writable(trees[0]) & self.writable(trees[1]), set())
        for p in runs:
            p.send_signal(signal.SIGINT)
            p.communicate(timeout=WAIT)
            self.assertEqual(p.returncode, 4)

    def uid(self, pid):
        found = re.search(r"^Uid:\t(\d+)", proc_text(pid, "status") or "", re.M)
        return int(found[1]) if found else None

    def writable(self, pids):
        """(device, inode) of every file that one of them holds, devices excepted."""
        found = set()
        for pid in pids:
            with contextlib.suppress(OSError):
                for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                    flags = proc_text(pid, f"fdinfo/{fd.name}") or ""
                    target = os.readlink(fd)
                    if target.startswith("/") and not target.startswith("/dev/") and \
                            re.search(r"^flags:\t\d*[12]$", flags, re.M):
                        st = fd.stat()
                        found.add((st.st_dev, st.st_ino))
        return found

    def test_nothing_is_left_after_thirty(self):
        for i in range(10):
            self.assertEqual(self.turn("--allow", "read:docs")[0], 0)
            self.assertEqual(self.turn(mode=("exits", "1"))[0], 1)
            p = self.start(*self.words("--allow", "read:docs", mode=("ignores", "1000")))
            self.assertEqual(p.stdout.readline(), b"ready\n")
            p.kill()
            p.wait()
        wait_for(lambda: [q for q in marked(str(self.dir)) if q != os.getpid()] == [],
                 "no process")
        nothing_left()


if __name__ == "__main__":
    unittest.main()
