"""When two calls are the same one: for a grant of one exact call, and for a key (TU-34, TU-70).

A call is its value.  Members in another order are the same value; nothing else is.
"""

import unicodedata
import unittest

from broker_host import DONE, Host, grant, ok, runtime, serve, tool
from wire import frame, pack, unpack

TOOLS = [tool("files.do", "write", action="do")]
ALL = grant("all", [], ["do"])
NFC = unicodedata.normalize("NFC", "Zu\u0308rich")
CALL = {"path": "a", "n": 1, "z": 0.0, "t": NFC, "b": b"x", "l": [1, 2], "no": None, "yes": True,
        "m": {"p": {"q": 1, "r": [{"s": 1, "t": 2}]}, "o": ""}}


def turned(value):
    """The same value, and each of its maps the other way round."""
    if isinstance(value, dict):
        return {k: turned(v) for k, v in reversed(list(value.items()))}
    return [turned(v) for v in value] if isinstance(value, list) else value


OTHERS = [{**CALL, **change} for change in (
    {"n": 1.0}, {"n": 2}, {"n": "1"}, {"z": -0.0}, {"z": 0}, {"z": 5e-324},
    {"t": unicodedata.normalize("NFD", NFC)}, {"t": NFC + "\0"}, {"t": NFC.lower()}, {"b": "x"},
    {"b": b""}, {"l": [2, 1]}, {"l": [1, 2, 2]}, {"l": {"0": 1, "1": 2}}, {"no": False},
    {"yes": 1}, {"m": {**CALL["m"], "o": None}}, {"m": {**CALL["m"], "O": ""}}, {"": None},
    {"m": turned({**CALL["m"], "p": {"q": 1, "r": [{"s": 2, "t": 1}]}})})] + [
    {k: v for k, v in CALL.items() if k != "no"}]


class Case(unittest.TestCase):
    def made(self, calls, at_once=False, key=None, given=None):
        """The codes of these calls in one turn, "" for a success, and how many were made."""
        effects = []

        def work(child, params):
            more = {} if key is None else {"idempotencyKey": key}
            asked = [{"operation": child.operation, "id": str(n), "tool": "files.do",
                      "arguments": arguments, **more} for n, arguments in enumerate(calls)]
            if at_once:  # in one piece: the broker has read all before one can be answered
                child.peer.send_raw(b"".join(
                    frame([0, 100 + n, "tool.invoke", [call]]) for n, call in enumerate(asked)))
                codes = [child.peer.receive()[3] for _ in asked]
            else:
                codes = [child.peer.call("tool.invoke", **call) for call in asked]
            self.codes = [c.get("error", {}).get("code", "") for c in codes]
            return DONE
        with Host(worker=runtime(work), provider=serve(lambda p: effects.append(p) or ok(1)),
                  tools=TOOLS, grants=[] if given else [ALL], maxToolCalls=100) as host:
            client = host.client()
            if given:
                client.call("grant.issue", subject="agent:test", tool="files.do",
                            arguments=given)
            self.assertEqual(client.turn()[0]["status"], "succeeded")
        return self.codes, len(effects)


class Exact(Case):
    def test_one_changed_value_is_another_call(self):  # TU-34
        codes, effects = self.made([*OTHERS, turned(CALL)], given=CALL)
        self.assertEqual(codes, ["no_matching_grant"] * len(OTHERS) + [""])
        self.assertEqual(effects, 1)

    def test_of_two_at_once_one_is_made(self):  # TU-43
        codes, effects = self.made([CALL, turned(CALL), CALL], at_once=True, given=turned(CALL))
        self.assertEqual(sorted(codes), ["", "grant_exhausted", "grant_exhausted"])
        self.assertEqual(effects, 1)


class Keyed(Case):
    def test_one_changed_value_is_a_conflict(self):  # TU-70
        codes, effects = self.made([CALL, *OTHERS, turned(CALL)], key="k")
        self.assertEqual(codes, ["", *["replay_conflict"] * len(OTHERS), ""])
        self.assertEqual(effects, 1)

    def test_of_two_at_once_one_is_made(self):  # TU-70
        codes, effects = self.made([CALL, turned(CALL), OTHERS[0]], at_once=True, key="k")
        self.assertEqual(sorted(codes), ["", "replay_conflict", "replay_pending"])
        self.assertEqual(effects, 1)


class NoValue(Case):
    def test_what_could_be_read_in_two_ways_is_no_call(self):  # D-5
        """Two members of one name, a number in a longer form, a shorter float, no number."""
        def map_of(*pairs):
            return bytes([0x80 + len(pairs)]) + b"".join(pack(k) + v for k, v in pairs)
        a, one = pack("a"), pack(1)
        for name, arguments in {
                "twice": map_of(("path", a), ("path", pack("b"))),
                "twice within": map_of(("path", a), ("m", map_of(("x", one), ("x", one)))),
                "long": map_of(("path", a), ("n", b"\xcd\x00\x01")),
                "signed": map_of(("path", a), ("n", b"\xd0\x01")),
                "long text": map_of(("path", b"\xd9\x01a")),
                "float32": map_of(("path", a), ("n", b"\xca" + bytes(4))),
                "NaN": map_of(("path", a), ("n", b"\xcb\x7f\xf8" + bytes(6))),
                "infinity": map_of(("path", a), ("n", b"\xcb\x7f\xf0" + bytes(6))),
                "surrogate": map_of(("path", a), ("t", b"\xa3\xed\xa0\x80")),
                "extension": map_of(("path", a), ("t", b"\xd4\x01\x00")),
                "a key that is a number": b"\x82" + pack("path") + a + one + one}.items():
            def work(child, params, arguments=arguments):
                good = pack([0, 7, "tool.invoke", [{"operation": child.operation, "id": "1",
                                                    "tool": "files.do", "arguments": {}}]])
                assert unpack(good)[0] == 0 and good.endswith(b"\x80")
                bad = good[:-1] + arguments
                child.peer.send_raw(len(bad).to_bytes(4, "big") + bad)
                child.peer.receive()
            with self.subTest(name), Host(worker=runtime(work), provider=serve(lambda p: ok()),
                                          tools=TOOLS, grants=[ALL]) as host:
                event = host.client().turn()[1]
                self.assertEqual(event["body"]["cause"]["kind"], "runtime_protocol_violation")
                self.assertNotIn("authorization.checked",
                                 [r["type"] for r in host.records() if "tool" in r])


if __name__ == "__main__":
    unittest.main()
