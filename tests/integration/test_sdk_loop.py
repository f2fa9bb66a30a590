"""The standard loop in Python, C and Node.js, against one table: tests/sdk/loop_cases.json."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import wire
from real import Case, ending
from node_lab import NODE, WHY_NOT
from wire import Broker, Denied

TIMEOUT = 600  # of this file, for run.py
SDK_TESTS, EXAMPLES = wire.ROOT / "tests" / "sdk", wire.ROOT / "examples"
TABLE = json.loads((SDK_TESTS / "loop_cases.json").read_text(encoding="utf-8"))
CASES = TABLE["cases"]
MUST, MAY = {"name", "driver", "outcome", "asked", "closed"}, {
    "cites", "open", "close", "close_ms", "timeout_ms", "max_steps", "max_tool_calls", "tools",
    "peer", "stderr"}
ACTS = {"emit", "await", "raise", "hang", "decide"}
LONG_MS = 600000  # close takes what it takes, unless the case is about that


def temporary(test):
    folder = tempfile.mkdtemp(prefix="caisson-loop-")
    test.addCleanup(shutil.rmtree, folder)
    return folder


def sized(v):
    """`v` with what stands for something large in its place."""
    if isinstance(v, list):
        return [sized(item) for item in v]
    if not isinstance(v, dict):
        return v
    if "$text" in v:
        return "x" * v["$text"]
    if "$nils" in v:
        return [None] * v["$nils"]
    if "$deep" in v:
        value = []
        for _ in range(v["$deep"] - 1):
            value = [value]
        return value
    return {k: sized(item) for k, item in v.items()}


def part(entry):
    """What a driver does for one decision; in the table a decision may stand for itself."""
    return sized(entry if isinstance(entry, dict) and entry.keys() & ACTS else {"decide": entry})


class Turn:
    """One case against one driver: what is sent, what comes, what the driver said."""

    def __init__(self, test, broker, case):
        self.test, self.broker, self.case, self.results = test, broker, case, []
        self.run, self.operation = broker.start_turn(
            {"open": part(case["open"]) if "open" in case else {},
             "decide": [part(entry) for entry in case["driver"]],
             "close": part(case["close"]) if "close" in case else {},
             "close_ms": case.get("close_ms", LONG_MS)},
            case.get("tools", ["t.a", "t.b"]), max_steps=case.get("max_steps", 16),
            max_tool_calls=case.get("max_tool_calls", 16),
            timeout_ms=case.get("timeout_ms", 2 * LONG_MS))

    def play(self):
        """Serves the frames of the case, and only these; the outcome, None if the link ended."""
        for frame in self.case.get("peer", ()):
            msgid, params = self.broker.expect(frame["on"])
            self.test.assertEqual(params["operation"], self.operation)
            for name, value in sized(frame["has"]).items():
                self.test.assertEqual((name, params.get(name)), (name, value))
                self.test.assertIs(type(params[name]), type(value))
            self.test.assertEqual("idempotencyKey" in params, "idempotencyKey" in frame["has"])
            for act in frame["do"]:
                if not self.act(act, msgid, params):
                    return None
        error, outcome = self.broker.expect_reply(self.run)
        self.test.assertIsNone(error)
        return outcome

    def act(self, act, msgid, params):
        (name, value), *_ = act.items()
        if name == "end":
            return False
        if name.startswith("drain"):
            operation = "another" if name == "drain_other" else self.operation
            self.broker.notify("operation.drain", operation=operation, graceMs=value)
        elif name == "cancel":
            self.broker.notify("operation.cancel", operation=self.operation, cause=value)
        elif name == "taken":
            self.broker.reply(msgid, sequence=value)
        else:
            self.answer(name, value, act.get("details"), msgid, params)
        return True

    def answer(self, name, value, details, msgid, params):
        """Answers a call; what the driver is given follows from it."""
        result = {"tool": params["tool"], "status": "succeeded", "output": value}
        if name != "output":
            error = {"code": value, "message": f"why {value}", "retryable": False}
            result = {"tool": params["tool"], "status": "denied" if name == "refused" else name,
                      "error": {**error, **({} if details is None else {"details": details})}}
        if name == "refused":
            self.broker.send([1, msgid, result["error"], None])
        else:
            self.broker.reply(msgid, callId=params["id"], **result)
        self.results.append({"type": "tool_result", "result": result})


class Loop:
    """What every language has to pass; `argv` starts its driver."""

    argv, env = (), {}

    def broker(self):
        b = Broker([str(word) for word in self.argv], env=self.env)
        self.addCleanup(lambda: b.fileno() != -1 and b.close())
        b.answer_hello()
        return b

    def judge(self, case, outcome):
        """The outcome against the one of the table."""
        wanted = sized(case["outcome"])
        if wanted is not None and "code" in wanted:
            self.assertEqual(outcome["status"], "fail")
            self.assertEqual(outcome["error"]["code"], wanted["code"])
            self.assertEqual(outcome["error"].get("retryable", False),
                             wanted.get("retryable", False))
            self.assertEqual(outcome.keys(), {"status", "error"})
        else:
            self.assertEqual(outcome, wanted)
        if "stderr" in case:
            self.assertNotIn(case["stderr"], json.dumps(outcome))

    def play(self, case):
        b = self.broker()
        turn = Turn(self, b, case)
        outcome = turn.play()
        self.judge(case, outcome)
        after = outcome is not None and outcome.get("error", {}).get("code") != "turn_cancelled"
        if after:  # the next turn knows nothing of this one
            nothing = Turn(self, b, {"driver": [{"type": "complete", "output": "next"}]})
            self.assertEqual(nothing.play(), {"status": "complete", "output": "next"})
        status, out, err = b.close()
        self.assertEqual(status, 0, err)
        if "stderr" in case:
            self.assertIn(case["stderr"].encode(), err)
        said = [line.split(" ") for line in out.decode().splitlines()]
        asked = [wire.unpack(bytes.fromhex(hexed)) for word, hexed in said if word == "ask"]
        self.assertEqual(asked[:case["asked"]], ([{"type": "start"}] + turn.results)[:case["asked"]])
        self.assertEqual(len(asked), case["asked"] + after)
        # One that is left behind says so whenever its thread comes to it.
        self.assertEqual(sorted(status for word, status in said if word == "close"),
                         sorted([case["closed"]] * (case["closed"] is not None)
                                + ["succeeded"] * after))

    def test_the_table(self):
        # TU-15, TU-16, TU-30, TU-31, TU-52, TU-53, TU-57, TU-58, TU-60: the cases say which
        for case in CASES:
            with self.subTest(case=case["name"], cites=case.get("cites")):
                self.play(case)


class LeavesBehind:
    """Of the languages in which what a driver does can be left behind."""

    def test_whatever_a_driver_does_ends_with_its_turn(self):
        waits = {"emit": "begun", "hang": True}
        for case in ({"driver": [waits], "closed": "cancelled", "asked": 1},
                     {"open": waits, "driver": [], "closed": None, "asked": 0, "close_ms": 20}):
            with self.subTest(asked=case["asked"]):
                self.play({**case, "outcome": {"code": "turn_cancelled"},
                           "peer": [{"on": "event.emit", "has": {"type": "begun"},
                                     "do": [{"taken": 1}, {"cancel": "canceled"}]}]})


class Python(Loop, LeavesBehind, unittest.TestCase):
    argv = (sys.executable, SDK_TESTS / "loop_driver.py")
    env = {"PYTHONPATH": str(wire.SDK)}


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Node(Loop, LeavesBehind, unittest.TestCase):
    argv = (NODE, SDK_TESTS / "loop_driver.mjs", wire.SDK)


@unittest.skipUnless(wire.program("program/loop_driver"), "tests/programs/loop_driver.c is not built")
class C(Loop, unittest.TestCase):
    argv = (wire.program("program/loop_driver"),)


class Finds:
    """The example of a driver, in every language; `argv` and `env` start it."""

    FILES = {"docs/a": "one two", "docs/b": "three four", "docs/c": "five"}
    argv, env = (), {}

    def tools(self, denied=(), ask=None):
        def content(a):
            if a["path"] in denied:
                raise Denied("no_matching_grant")
            return {"text": self.FILES[a["path"]]}

        names = [path.split("/")[1] for path in self.FILES]
        entries = [{"name": "sub", "type": "directory"}, *({"name": name, "type": "file"}
                                                           for name in names)]
        return {"files.list": lambda a: {"entries": entries, "complete": True},
                "files.read": content, **({"sharedos.escalate": ask} if ask else {})}

    def find(self, word, tools, **limits):
        b = Broker([str(arg) for arg in self.argv], env=self.env)
        self.addCleanup(lambda: b.fileno() != -1 and b.close())
        b.answer_hello()
        outcome = b.turn({"path": "docs", "word": word}, tools, **limits)
        again = b.turn({"path": "docs", "word": word}, tools, **limits)
        self.assertEqual(outcome, again)
        self.assertEqual(b.close(), (0, b"", b""))
        return outcome

    def test_a_word_is_found_or_not(self):
        for word, found in (("four", "docs/b"), ("five", "docs/c"), ("six", None)):
            with self.subTest(word=word):
                self.assertEqual(self.find(word, self.tools()),
                                 {"status": "complete", "output": {"found": found}})

    def test_the_loop_keeps_to_the_steps_of_the_turn(self):
        self.assertEqual(self.find("two", self.tools(), max_steps=3)["status"], "complete")
        self.assertEqual(self.find("six", self.tools(), max_steps=3)["error"]["code"],
                         "step_limit_exceeded")

    def test_what_is_denied_is_asked_for_where_that_is_offered(self):
        asked = []
        outcome = self.find("five", self.tools(denied=["docs/b"], ask=lambda a: asked.append(a)))
        self.assertEqual(outcome["status"], "escalate")
        self.assertEqual(asked[0]["request"],
                         {"tool": "files.read", "arguments": {"path": "docs/b"}})
        outcome = self.find("five", self.tools(denied=["docs/b"]))
        self.assertEqual((outcome["status"], outcome["error"]["code"]),
                         ("fail", "tool_unavailable"))


class PythonExample(Finds, unittest.TestCase):
    argv = (sys.executable, EXAMPLES / "python" / "find.py")
    env = {"PYTHONPATH": str(wire.SDK)}


class CExample(Finds, unittest.TestCase):
    def setUp(self):
        library = wire.BUILD / "lib" / "libcaisson-runtime.a"
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None or not library.exists():
            self.skipTest("no C compiler, or the runtime library is not built")
        sanitize = ["-fsanitize=address,undefined"] if b"__asan_" in library.read_bytes() else []
        self.argv = (f"{temporary(self)}/find",)
        subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", *sanitize, f"-I{wire.ROOT}", "-o",
                        *self.argv, EXAMPLES / "c" / "find.c", library], check=True)


@unittest.skipIf(WHY_NOT, WHY_NOT)
class NodeExample(Finds, unittest.TestCase):
    def setUp(self):
        folder = temporary(self)
        for place, source in (("app", EXAMPLES / "node" / "find.mjs"),
                              ("sdk", wire.SDK / "caisson.mjs"),
                              ("sdk", wire.SDK / "caisson_loop.mjs")):
            os.makedirs(f"{folder}/{place}", exist_ok=True)
            shutil.copy(source, f"{folder}/{place}")
        self.argv = (NODE, f"{folder}/app/find.mjs")


class Real(Case):
    """In a chamber, through the real broker: what the loop says of a turn is what it comes to."""

    AGENT = """
        import caisson_loop as loop

        class Driver:
            def __init__(self, turn):
                self.turn = turn

            def decide(self, given):
                return getattr(self, self.turn.message)(given)

            def calls(self, given):
                return loop.call("files.stat", {"path": "docs"})

            def drains(self, given):
                self.turn.draining.wait()
                return self.calls(given)

            def raises(self, given):
                raise KeyError("a secret")

            def babbles(self, given):
                return "I think that I should call files.stat"

            def finishes(self, given):
                result = given.get("result")
                return loop.complete(result["status"]) if result else self.calls(given)

        loop.serve(Driver)
        """

    def setUp(self):
        super().setUp()
        self.app, self.root = self.dir / "app", self.dir / "root"
        for folder in (self.app, self.root, self.root / "docs"):
            folder.mkdir()
        (self.app / "agent.py").write_text(textwrap.dedent(self.AGENT))
        for name in ("caisson.py", "caisson_loop.py"):
            shutil.copy(wire.SDK / name, self.app)

    def ending(self, message, limits="turn_timeout: 30s", program="agent.py", allowed="read"):
        file = self.dir / "f.yaml"
        file.write_text(f"""
version: 1
authority: human:operator
limits: {{ {limits} }}
runtimes: [{{ id: a, command: [python3, /app/{program}], app: {self.app} }}]
providers: [{{ id: files, builtin: files, root: {self.root} }}]
grants:
  - id: stat
    subject: agent:a
    issuer: human:operator
    namespace: default
    capabilities:
      - {{ resource: {{ namespace: workspace, path: docs, scope: descendants }}, actions: [{allowed}] }}
      - {{ resource: {{ namespace: sharedos, path: escalation, scope: exact }}, actions: [request] }}
""")
        _, events = self.events("run", "-c", file, "-m", json.dumps(message))
        return ending(events)

    def test_how_a_turn_ends(self):
        for message, status, code in (("finishes", "succeeded", None),
                                      ("calls", "failed", "step_limit_exceeded"),
                                      ("raises", "failed", "driver_failed"),
                                      ("babbles", "failed", "invalid_driver_decision")):
            with self.subTest(message=message):
                turn = self.ending(message)["turn"]
                self.assertEqual((turn["status"], turn.get("error", {}).get("code")), (status, code))
                self.assertNotIn("a secret", json.dumps(turn))

    def test_the_example_asks_for_the_call_that_was_denied(self):  # TU-58
        shutil.copy(EXAMPLES / "python" / "find.py", self.app)
        (self.root / "docs" / "a").write_text("one")
        message = {"path": "docs", "word": "one"}
        turn = self.ending(message, program="find.py", allowed="list")["turn"]
        self.assertEqual((turn["status"], turn["escalation"]["code"]),
                         ("escalated", "escalation_requested"))
        request = turn["escalation"]["request"]
        self.assertEqual((request["tool"], request["path"]), ("files.read", ["docs", "a"]))
        turn = self.ending(message, program="find.py", allowed="list, read")["turn"]
        self.assertEqual((turn["status"], turn["output"]), ("succeeded", {"found": "docs/a"}))

    def test_a_loop_that_drains_does_not_wait_for_the_deadline(self):  # TU-53
        end = self.ending("drains", "turn_timeout: 600s, drain_grace: 600s")
        self.assertEqual(end["cause"]["kind"], "drained")
        self.assertEqual((end["turn"]["status"], end["turn"]["error"]["code"]),
                         ("cancelled", "turn_cancelled"))


class Table(unittest.TestCase):
    def test_a_close_may_take_a_second_in_every_language(self):
        for name in ("py", "mjs", "h"):
            text = (wire.SDK / f"caisson_loop.{name}").read_text(encoding="utf-8")
            self.assertEqual(re.findall(r"CLOSE_MS\b[ =]+(\d+)", text), ["1000"])

    def test_every_case_is_well_formed_and_has_a_name_of_its_own(self):
        source = pathlib.Path(__file__).read_text(encoding="utf-8")
        cited = set(re.findall(r"TU-\d+", source))
        names = [case["name"] for case in CASES]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreaterEqual(len(names), 40)
        for case in CASES:
            with self.subTest(case=case["name"]):
                self.assertLessEqual(MUST, case.keys())
                self.assertLessEqual(case.keys(), MUST | MAY)
                for frame in case.get("peer", ()):
                    self.assertEqual(frame.keys(), {"on", "has", "do"})
                if "cites" in case:
                    self.assertIn(case["cites"], cited)


if __name__ == "__main__":
    unittest.main()
