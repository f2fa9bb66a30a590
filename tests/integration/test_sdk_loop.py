"""The standard loop in Python, C and Node.js, against one table: tests/sdk/loop_cases.json."""

import json
import pathlib
import re
import sys
import unittest

import wire
from test_sdk_node import NODE, WHY_NOT
from wire import Broker

TIMEOUT = 300  # of this file, for run.py
SDK_TESTS = wire.ROOT / "tests" / "sdk"
TABLE = json.loads((SDK_TESTS / "loop_cases.json").read_text(encoding="utf-8"))
CASES = TABLE["cases"]
MUST, MAY = {"name", "driver", "outcome", "asked", "closed"}, {
    "cites", "open", "close", "close_ms", "timeout_ms", "max_steps", "max_tool_calls", "tools",
    "peer", "stderr"}
ACTS = {"emit", "await", "raise", "hang", "decide"}
LONG_MS = 600000  # close takes what it takes, unless the case is about that


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
            for name, value in frame["has"].items():
                self.test.assertEqual((name, params.get(name)), (name, value))
                self.test.assertIs(type(params[name]), type(value))
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
        if after:
            self.assertEqual([word for word, _ in said[-2:]], ["ask", "close"])
            said = said[:-2]
        asked = [wire.unpack(bytes.fromhex(hexed)) for word, hexed in said if word == "ask"]
        self.assertEqual(asked, ([{"type": "start"}] + turn.results)[:case["asked"]])
        self.assertEqual(len(asked), case["asked"])
        self.assertEqual([status for word, status in said if word == "close"],
                         [case["closed"]] if case["closed"] else [])

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
