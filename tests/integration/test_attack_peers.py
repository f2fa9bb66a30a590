"""Hostile workers and providers at a real broker: malformed, early, late, and too much."""

import os
import pathlib
import re
import threading
import unittest

import wire
from broker_host import Host, grant, invoke, ok, runtime, serve, tool


def rss(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) << 10


# ---- the broker --------------------------------------------------------------------------

READ = tool("files.read")
APPEND = tool("files.append", "write", action="append")
LARGE = tool("large.value", properties={"path": {"type": "string"}, "value": {"type": "string"}})
DOCS = grant("docs", ["docs"], ["read"])
ALL = grant("all", [], ["read", "append"])
DONE = {"status": "complete", "output": "done"}


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


def raw(*parts):
    """A worker that sends these bytes after its hello and the request of its turn."""

    def work(child):
        child.peer.hello("worker")
        child.peer.expect("operation.run")
        for part in parts:
            child.peer.send_raw(part)
        child.peer.closed()

    return work


def at_once(*parts):
    def work(child):
        for part in parts:
            child.peer.send_raw(part)
        child.peer.closed()

    return work


def length(n):
    return n.to_bytes(4, "big")


def framed(value):
    return length(len(value)) + value


def message(method, **params):
    """A frame with the operation's name left to guess: it is checked after the form."""
    return wire.frame([0, 7, method, [{"operation": "op", **params}]])


HELLO = wire.frame([0, 1, "hello", [{"protocol": wire.caisson.PROTOCOL}]])
FAULTS = {
    "an empty frame": raw(length(0)),
    "a frame of 4 GiB": raw(b"\xff\xff\xff\xff"),
    "a frame over the most": raw(length((1 << 20) + 1)),
    "the byte c1": raw(framed(b"\xc1")),
    "an extension": raw(framed(b"\xd4\x00\x00")),
    "an array of 2^32 elements": raw(framed(b"\xdd\xff\xff\xff\xff")),
    "a text of 2^32 bytes": raw(framed(b"\xdb\xff\xff\xff\xff")),
    "a float of 32 bits": raw(framed(b"\x94\x00\x01\xca\0\0\0\0\x91\x80")),
    "an integer that is too long": raw(framed(b"\x94\xcc\x00\x01\xa5hello\x91\x80")),
    "bytes left over": raw(framed(wire.pack([0, 1, "x", [{}]]) + b"\0")),
    "33 levels": raw(framed(b"\x91" * 33 + b"\xc0")),
    "65537 values": raw(framed(b"\xdc\xff\xff" + b"\xc0" * 65535 + b"\xc0")),
    "a key given twice": raw(framed(b"\x93\x02\xa1x\x91\x82\xa1a\x01\xa1a\x01")),
    "a key that is a number": raw(framed(b"\x93\x02\xa1x\x91\x81\x01\x01")),
    "a surrogate": raw(framed(b"\x93\x02\xa3\xed\xa0\x80\x91\x80")),
    "a method of nobody": raw(wire.frame([0, 1, "broker.own", [{}]])),
    "a method of a client": raw(wire.frame([0, 1, "operation.submit", [{"kind": "turn"}]])),
    "a method of a broker": raw(wire.frame([0, 1, "tool.call", [{}]])),
    "a method of a supervisor": raw(wire.frame([2, "config.grant", [{}]])),
    "hello twice": raw(HELLO),
    "a call before hello": at_once(message("tool.invoke", id="1", tool="t", arguments={})),
    "another version": at_once(wire.frame([0, 1, "hello", [{"protocol": wire.caisson.PROTOCOL + 1}]])),
    "an answer to nothing": raw(wire.frame([1, 99, None, {"status": "complete"}])),
    "error and result": raw(wire.frame([1, 1, {"code": "x", "message": ""}, {}])),
    "a field of its own": raw(message("tool.invoke", id="1", tool="t", arguments={},
                                      approved=True)),
    "a field left out": raw(message("tool.invoke", id="1", tool="t")),
    "a name with a NUL": raw(message("tool.invoke", id="1", tool="files.read\0", arguments={})),
    "a step below zero": raw(message("tool.invoke", id="1", tool="t", arguments={}, step=-1)),
    "arguments of 257 KiB": raw(message("tool.invoke", id="1", tool="t",
                                        arguments={"a": b"x" * (257 << 10)})),
    "an id over 32 bits": raw(wire.frame([0, 1 << 32, "hello", [{"protocol": wire.caisson.PROTOCOL}]])),
    "a status of its own": raw(wire.frame([1, 1, None, {"status": "approved"}])),
    "25 levels in an event": raw(message("event.emit", type="t", data=nested(25))),
    "32769 values in an event": raw(message("event.emit", type="t", data=[0] * 32768)),
    "25 levels in an outcome": raw(wire.frame([1, 1, None, {
        "status": "complete", "output": nested(25)}])),
    "details that no frame would hold": raw(wire.frame([1, 1, None, {
        "status": "fail", "error": {"code": "x", "message": "", "details": b"x" * 70000}}])),
}


class Attacked(unittest.TestCase):
    def turn(self, worker, provider=None, limit_mib=24, **config):
        """Runs a turn of the hostile peers and then one of honest ones, in one broker."""
        config.setdefault("tools", [READ, APPEND, LARGE])
        config.setdefault("grants", [ALL])
        current = [worker, provider or serve(lambda p: ok("text"))]
        with Host(worker=lambda c: current[0](c), provider=lambda c: current[1](c),
                  **config) as self.host:
            client = self.host.client()
            before = rss(self.host.process.pid)
            turn, event = client.turn()
            self.grown = rss(self.host.process.pid) - before
            if not wire.SANITIZED:  # which keeps what is freed
                self.assertLess(self.grown, limit_mib << 20)
            self.client = client
            self.records = self.host.records()
            current[:] = [runtime(lambda child, params: {
                "status": "complete", "output": invoke(child, "files.read", path="docs/a")}),
                serve(lambda p: ok("text"))]
            self.assertEqual(client.turn()[0]["output"].get("output"), "text")
        return turn, event


class Workers(Attacked):
    def test_every_fault_ends_its_turn_and_nothing_else(self):
        for name, worker in FAULTS.items():
            with self.subTest(name):
                _, event = self.turn(worker)
                self.assertEqual(event["type"], "failed")
                self.assertEqual(event["body"]["cause"]["kind"], "runtime_protocol_violation")

    def test_no_path_leads_out_of_a_grant(self):
        paths = ["", "/", "..", "../docs", "docs/..", "docs/../secret", "docs/../../secret",
                 "/docs/a", "docs//a", "docs/./a", "./docs", "docs/a/", "DOCS/a", "docs2", "doc",
                 "docs\0/a", "docs/\0", "*", "docs*", "\uff0e\uff0e/docs", "docs\\..\\secret",
                 "%2e%2e/secret", "do\u200bcs/a", "docs\u2215a", " docs/a", "d\u043ecs/a",
                 "docs/" + "a" * 257, "/".join(["docs"] + ["a"] * 64), "x" * 200000,
                 "docs/\u202e", "docs/a\nb"]
        seen = []

        def work(child, params):
            return {"status": "complete", "output": [
                invoke(child, "files.read", id=str(i), path=path)["status"]
                for i, path in enumerate(paths)]}
        turn, _ = self.turn(runtime(work), serve(lambda p: seen.append(p["path"]) or ok("text")),
                            grants=[DOCS])
        for path, status in zip(paths, turn["output"]):
            if status == "succeeded":  # beneath docs by its segments, whatever it looks like
                self.assertTrue(path.startswith("docs/"), path)
        for path in seen:
            self.assertEqual(path[0], "docs")
            self.assertFalse({"", ".", ".."} & set(path))

    def test_no_argument_gets_past_its_schema(self):
        bad = [{}, {"path": 1}, {"path": None}, {"path": ["docs", "a"]}, {"path": {"$ref": "#"}},
               {"path": b"docs/a"}, {"path": True}]

        def work(child, params):
            return {"status": "complete", "output": [
                invoke(child, "files.read", id=str(i), **a)["status"]
                for i, a in enumerate(bad)]}
        turn, _ = self.turn(runtime(work))
        self.assertNotIn("succeeded", turn["output"])

    def test_ids_are_its_own_and_open_once(self):
        def work(child, params):
            first = child.peer.request("tool.invoke", operation=child.operation, id="same",
                                       tool="files.read", arguments={"path": "slow"})
            second = invoke(child, "files.read", id="same", path="docs/a")
            other = child.peer.request("tool.invoke", operation="op-of-another", id="x",
                                       tool="files.read", arguments={"path": "docs/a"})
            error, _ = child.peer.expect_reply(other)
            release.set()
            error2, result = child.peer.expect_reply(first)
            return {"status": "complete", "output": [second["error"]["code"], error["code"],
                                                     result["status"]]}
        release = threading.Event()

        def provide(p):
            if p["path"] == ["slow"]:
                release.wait(wire.TIMEOUT)
            return ok("text")
        turn, _ = self.turn(runtime(work), serve(provide))
        self.assertEqual(turn["output"], ["invalid_request", "host_closed", "succeeded"])

    def test_refusals_are_counted_and_the_record_stays_small(self):
        def work(child, params):
            for i in range(3000):
                child.peer.request("tool.invoke", operation=child.operation, id=str(i),
                                   tool="no.such.tool", arguments={})
            child.peer.closed()
        _, event = self.turn(runtime(work))
        self.assertEqual(event["body"]["cause"]["kind"], "limit")
        self.assertLess(len(self.records), 1100)

    def test_a_worker_that_only_writes_is_cut_off(self):
        def work(child, params):
            while True:
                child.peer.send_raw(message("tool.invoke", id="1", tool="t", arguments={}) * 1000)
        _, event = self.turn(runtime(work))
        self.assertEqual(event["body"]["cause"]["kind"], "limit")

    def test_calls_wait_in_the_workers_own_socket(self):
        def work(child, params):
            def flood():
                try:
                    for i in range(2000):
                        child.peer.request(
                            "tool.invoke", operation=child.operation, id=str(i),
                            tool="files.read", arguments={"path": "docs/" + "a/" * 30 + "a"})
                except (wire.Closed, OSError):
                    pass
            threading.Thread(target=flood, daemon=True).start()
            asked.wait(wire.TIMEOUT)
            return None
        asked = threading.Event()

        def silent(child):
            child.peer.hello("provider")
            for _ in range(100):
                child.peer.receive()
            asked.set()
            child.peer.closed()
        _, event = self.turn(runtime(work), silent, timeoutMs=1500, maxToolCalls=10000)
        self.assertEqual(event["body"]["cause"]["kind"], "deadline")

    def test_annotations_are_few_and_small(self):
        def work(child, params):
            codes = set()
            for i in range(3000):
                error, _ = child.peer.expect_reply(child.peer.request(
                    "turn.annotate", operation=child.operation, key=str(i), value=i))
                codes.add(error and error["code"])
            error, _ = child.peer.expect_reply(child.peer.request(
                "turn.annotate", operation=child.operation, key="1", value=[0] * 9000))
            codes.add(error["code"])
            for key in ("runtime", "__proto__"):
                error, _ = child.peer.expect_reply(child.peer.request(
                    "turn.annotate", operation=child.operation, key=key, value={"id": "forged"}))
                codes.add(error["code"])
            return {**DONE, "metadata": {"runtime": {"id": "forged"}, "1000": 1}}
        turn, _ = self.turn(runtime(work))
        self.assertLessEqual(len(turn["metadata"]), 258)
        self.assertEqual(turn["metadata"]["runtime"]["id"], "test")

    def test_what_passes_at_the_broker_passes_at_the_client(self):
        deep, wide = nested(24), [0] * 32767

        def work(child, params):
            for data in (deep, wide):
                child.peer.expect_reply(child.peer.request(
                    "event.emit", operation=child.operation, type="t", data=data))
            child.peer.expect_reply(child.peer.request(
                "turn.annotate", operation=child.operation, key="deep", value=deep))
            for i in range(2):
                child.peer.expect_reply(child.peer.request(
                    "turn.annotate", operation=child.operation, key=str(i), value=[0] * 4000))
            self.assertEqual(invoke(child, "files.read", path="docs/a")["output"], deep)
            return {"status": "complete", "output": wide,
                    "metadata": {"deep": nested(23), "wide": [0] * 16000}}
        turn, event = self.turn(runtime(work), serve(lambda p: ok(deep)))
        self.assertEqual((event["type"], turn["output"]), ("completed", wide))

    def test_a_client_that_pauses_loses_nothing(self):
        def work(child, params):
            for _ in range(300):
                child.peer.notify("output.write", operation=child.operation, stream="stdout",
                                  data=b"x" * 65536)
            return DONE
        with Host(worker=runtime(work)) as host:
            client = host.client()
            client.submit()
            # The worker gets no further than queue and sockets: its thread stands.
            child = host.children[0] if host.children else None
            while child is None or not child.peer._msgid:
                child = host.children[0] if host.children else None
            self.assertFalse(child.over.wait(1))
            self.assertLess(rss(host.process.pid), 24 << 20)
            event = client.finish()
            self.assertEqual(event["type"], "completed")
            self.assertEqual(sum(len(e["data"]) for e in client.events if e["type"] == "output"),
                             300 * 65536)

    def test_a_command_that_ended_waits_for_its_reader(self):
        data = b"x" * 65536 * 40

        def command(child):
            at = 0
            while at < len(data):
                at += os.write(child.stdout, data[at:at + 4096])
        with Host(command=command) as host:
            client = host.client()
            client.submit("command")
            while not host.children:
                pass
            # Whether it has ended or still writes: nobody reads for longer than a broker
            # waits for the other half of an end.
            host.children[0].over.wait(2.5)
            event = client.finish()
            self.assertEqual(event["type"], "completed")
            self.assertEqual(sum(len(e["data"]) for e in client.events if e["type"] == "output"),
                             len(data))


def answers(*members, then=None):
    """A provider that answers its first call with these replies."""

    def work(child):
        peer = child.peer
        peer.hello("provider")
        msgid, params = peer.expect("tool.call")
        for m in members:
            peer.reply(msgid, **{"callId": params["call"], **m})
        peer.closed()

    return work


class Providers(Attacked):
    def code(self, provider, **config):
        def work(child, params):
            result = invoke(child, "files.append", path="docs/a")
            return {"status": "complete", "output": result}
        turn, _ = self.turn(runtime(work), provider, **config)
        return turn["output"].get("error", {}).get("code", turn["output"]["status"])

    def test_an_answer_that_is_none_is_invalid(self):
        for name, reply in {
                "another call": {"callId": "c-other", "status": "succeeded", "output": 1},
                "denied": {"status": "denied", "error": {"code": "x", "message": ""}},
                "success and error": {"status": "succeeded", "output": 1,
                                      "error": {"code": "x", "message": ""}},
                "success without output": {"status": "succeeded"},
                "failure without error": {"status": "failed"},
                "769 KiB": {"status": "succeeded", "output": b"x" * (769 << 10)},
                "25 levels": {"status": "succeeded", "output": nested(25)},
                "32769 values": {"status": "succeeded", "output": [0] * 32768}}.items():
            with self.subTest(name):
                self.assertEqual(self.code(answers(reply)), "invalid_tool_result")

    def test_a_second_answer_ends_the_provider_and_not_the_turn(self):
        self.assertEqual(self.code(answers(ok(1), ok(2))), "succeeded")

    def test_a_fault_interrupts_its_calls(self):
        for name, bytes_ in {
                "no frame": length(0), "rubbish": framed(b"\xc1"),
                "a worker's method": message("tool.invoke", id="1", tool="t", arguments={}),
                "details that no answer would hold": wire.frame([1, 1, None, {
                    "callId": "c", "status": "failed", "error": {
                        "code": "x", "message": "", "details": b"x" * 1000000}}]),
                "a code with a NUL": wire.frame([1, 1, None, {
                    "callId": "c", "status": "failed",
                    "error": {"code": "x\0", "message": ""}}])}.items():
            with self.subTest(name):
                def work(child):
                    child.peer.hello("provider")
                    child.peer.expect("tool.call")
                    child.peer.send_raw(bytes_)
                    child.peer.closed()
                self.assertEqual(self.code(work), "interrupted")

    def test_an_answer_before_the_question_is_a_fault(self):
        def work(child):
            child.peer.hello("provider")
            child.peer.reply(9999, callId="c", status="succeeded", output=1)
            child.peer.closed()
        self.assertIn(self.code(work), ("tool_execution_failed", "interrupted"))

    def test_one_that_dies_each_time_is_started_few_times(self):
        starts = []

        def work(child):
            starts.append(1)
            child.peer.hello("provider")

        def calls(child, params):
            return {"status": "complete", "output": [
                invoke(child, "files.read", id=str(i), path="docs/a")["status"]
                for i in range(20)]}
        turn, _ = self.turn(runtime(calls), work)
        self.assertEqual(set(turn["output"]), {"failed"})
        self.assertLessEqual(len(starts), 4 + 1)

    def test_its_standard_error_is_a_bounded_log(self):
        def work(child):
            child.peer.hello("provider")
            for _ in range(200):
                os.write(child.stderr, b"\x1b[2Jflood\n" * 5000)
            serve(lambda p: ok(1))(FakeHello(child))
        self.assertEqual(self.code(work), "succeeded")
        self.assertLess(len(self.host.log_text()) if not self.host.log.closed else 0, 1 << 20)

    def test_one_that_never_reads_costs_a_bounded_amount(self):
        def silent(child):
            child.peer.hello("provider")
            child.killed.wait(wire.TIMEOUT)

        def calls(child, params):
            def flood():
                try:
                    for i in range(200):
                        child.peer.request("tool.invoke", operation=child.operation, id=str(i),
                                           tool="large.value",
                                           arguments={"path": "docs/a", "value": "x" * 250000})
                except (wire.Closed, OSError):
                    pass
            threading.Thread(target=flood, daemon=True).start()
            return None
        _, event = self.turn(runtime(calls), silent, limit_mib=48, timeoutMs=1500,
                             maxToolCalls=1000)
        self.assertEqual(event["type"], "failed")


class FakeHello:
    """A child whose hello was said."""

    def __init__(self, child):
        self.peer = type("Said", (), {"hello": lambda *_: None, "receive": child.peer.receive,
                                      "reply": child.peer.reply})()


if __name__ == "__main__":
    unittest.main()
