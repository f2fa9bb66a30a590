"""The Python clients and a gateway that says anything."""

import itertools
import random
import tracemalloc
import unittest

from python_client_kinds import Asyncio, Lab
from python_client_lab import accepted, completed, output, server_frame, text

import caisson_client as api
from caisson_client import _exchange, _http1, _json, _websocket
from caisson_client.events import event_of


def changed(dice, data):
    """Some bytes changed, lost or added."""
    data = bytearray(data)
    for _ in range(dice.randrange(6)):
        at = dice.randrange(len(data) + 1)
        kind = dice.randrange(3)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << dice.randrange(8)
        elif kind == 1:
            data[at:at + dice.randrange(8)] = b""
        else:
            data[at:at] = dice.randbytes(dice.randrange(8))
    return bytes(data)


def mutated(dice):
    """What a gateway could say, with some bytes changed, lost or added."""
    pieces = [text(accepted()), text(output(2, b"abc")), server_frame(9, b"ping"),
              server_frame(1, b'{"sequence":3,', False), server_frame(0, b'"type":"x"}'),
              text({"type": "error", "code": "internal", "error": "x"}), text(completed(3)),
              server_frame(8, b"\x03\xe8bye"), text({"type": "cancel", "operationID": "op-1"}),
              server_frame(1, b"x" * 70000)]
    return changed(dice, b"".join(dice.choices(pieces, k=dice.randrange(1, 8))))


def events_of(kind):
    """Events without end, of one size."""
    bodies = {
        "small": ("output", {"stream": "stdout", "data": "eA=="}),
        "large": ("output", {"stream": "stdout", "data": "eHh4" * 20000}),
        "wide": ("progress", {"text": "x" * 10000 + "\U0001f600"}),
        "lists": ("progress", {"x": [[]] * 1000}),
        "maps": ("progress", {"x": [{"a": 1000 + i} for i in range(1000)]}),
    }
    name, body = bodies[kind]
    for sequence in itertools.count(2):
        yield {"sequence": sequence, "type": name, name: body}


class Parts(unittest.TestCase):
    def test_what_waits_is_bounded_by_what_it_takes_here(self):
        for kind in ("small", "large", "wide", "lists", "maps"):
            with self.subTest(kind):
                exchange = _exchange.Exchange()
                exchange.send("shell", {})
                exchange.on_message(_websocket.TEXT, _json.dumps(accepted()).encode())
                tracemalloc.start()
                try:
                    for event in events_of(kind):
                        exchange.on_message(_websocket.TEXT, _json.dumps(event).encode())
                        if exchange.full:
                            break
                    held = tracemalloc.get_traced_memory()[0]
                finally:
                    tracemalloc.stop()
                self.assertLess(held, _exchange.QUEUE_MAX * 5 // 4)
                while exchange.take().sequence < event["sequence"]:
                    pass
                self.assertEqual(exchange.queued, 0)

    def parse(self, pieces):
        parser, messages = _websocket.Parser(1 << 20), []
        try:
            for piece in pieces:
                messages += parser.feed(piece)
                self.assertLessEqual(len(parser._data) + len(parser._parts), (1 << 20) + 70000 * 9)
        except api.ProtocolError:
            return messages, True
        return messages, False

    def test_frames(self):
        dice = random.Random(6455)
        whole = 0
        for i in range(4000):
            data = dice.randbytes(dice.randrange(40)) if i % 4 == 0 else mutated(dice)
            step = dice.choice((1, 3, 50, 1000)) if len(data) < 5000 else 5000
            by_parts = self.parse([data[k:k + step] for k in range(0, len(data), step)])
            at_once, broken = self.parse([data])
            self.assertEqual(by_parts[1], broken)
            # What was whole before the fault is lost at once, and only that.
            self.assertEqual(by_parts[0][:len(at_once)], at_once)
            if not broken:
                self.assertEqual(by_parts[0], at_once)
                whole += 1
        self.assertGreater(whole, 100)

    def test_events(self):
        dice = random.Random(12)
        values = [None, True, -1, 0, 1, 1 << 64, 1.5, "", "x", "AAAA", "é", [], {}, [1], {"a": 1}]
        for kind in ("accepted", "output", "progress", "completed", "failed", "gap", "new"):
            for _ in range(500):
                body = {name: dice.choice(values)
                        for name in ("operationID", "stream", "data", "code", "message", "from", "to")
                        if dice.random() < 0.5}
                message = {"sequence": dice.choice(values + [5, 5, 5]), "type": kind,
                           kind: body if dice.random() < 0.9 else dice.choice(values)}
                if dice.random() < 0.1:
                    message[dice.choice(("type", "x", "sequence"))] = dice.choice(values)
                try:
                    found = event_of("op", message)
                except api.ProtocolError:
                    continue
                self.assertIsInstance(found, api.Event)

    def answer_of(self, pieces):
        """(the answer, whether it was none)"""
        parser = _http1.Parser()
        for piece in pieces:
            try:
                answer = parser.feed(piece)
            except api.ProtocolError:
                return None, True
            self.assertLessEqual(len(parser.rest) + len(parser._body), _http1.BODY_MAX + 70000)
            if answer is not None:
                return answer, False
        return None, False

    def test_answers(self):
        """The same answer in whatever pieces it comes."""
        dice = random.Random(9112)
        heads = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                 b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nA: b\r\n\r\n",
                 b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 None\r\nA: b\r\na: c\r\n\r\n",
                 b"HTTP/1.1 429 X\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n"]
        whole = faults = 0
        for i in range(4000):
            data = dice.choice(heads)
            data = changed(dice, data) if i % 4 else data
            step = dice.choice((1, 2, 7, 50))
            by_parts = self.answer_of([data[k:k + step] for k in range(0, len(data), step)])
            at_once = self.answer_of([data])
            self.assertEqual(by_parts, at_once)
            whole += at_once[0] is not None
            faults += at_once[1]
        self.assertGreater(whole, 1000)
        self.assertGreater(faults, 500)

    def test_answers_that_could_be_two(self):
        begin = b"HTTP/1.1 200 OK\r\n"
        for said in (b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
                     b"Content-Length: 1, 1\r\n\r\nx", b"Content-Length: +1\r\n\r\nx",
                     b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
                     b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                     b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", b"Transfer-Encoding: chunked\r\n\r\n\r\n",
                     b"Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n",
                     b"Transfer-Encoding: chunked\r\n\r\nffffffff\r\n",
                     b"Content-Length : 1\r\n\r\nx", b"A: b\r\n Content-Length: 1\r\n\r\nx",
                     b"A: b\nContent-Length: 1\r\n\r\nx", b": b\r\n\r\n"):
            with self.subTest(said):
                self.assertEqual(self.answer_of([begin + said]), (None, True))


class Sessions(Lab):
    """Whatever a gateway says, the client ends with an error of its own."""

    def test_sessions(self):
        dice = random.Random(21)
        said = [mutated(dice) for _ in range(100)]

        def script(c):
            c.upgrade()
            c.json()
            c.send(said.pop())

        box = self.sandbox(script)
        ends = {"ended": 0, "lost": 0}
        while said:
            with box.open() as s:
                try:
                    s.send(shell="true")
                    for e in s.receive():
                        self.assertIsInstance(e, api.Event)
                    ends["ended"] += 1
                except (api.TransportError, api.ApiError):
                    ends["lost"] += 1
            self.wait_for_end(s)
        self.assertGreater(ends["lost"], 20)


class SessionsOfAsyncio(Asyncio, Sessions):
    pass


if __name__ == "__main__":
    unittest.main()
