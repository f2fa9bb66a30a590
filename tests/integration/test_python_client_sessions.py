"""The Python clients' sessions, with a scripted gateway, over real sockets."""

import base64
import json
import os
import random
import socket
import threading
import unittest

import wire
from python_client_kinds import BASE, Asyncio, Lab
from python_client_lab import accepted, completed, event, output, server_frame, text

import caisson_client as api
from caisson_client import _websocket
from caisson_client import _exchange


class Sessions(Lab):
    def test_send_gives_the_id_and_receive_what_follows(self):
        """OP-24."""
        def script(c):
            self.assertEqual(c.json(), {"type": "send", "operation": {
                "command": {"argv": ["echo", "é"], "directory": "d", "env": {"A": "b"},
                            "stdin": base64.b64encode(b"in").decode(), "timeoutMs": 1500}},
                "idempotencyKey": "k", "traceparent": "t"})
            c.say(accepted("op-7"), output(2, b"out\xff"), output(3, b"err", "stderr"),
                  event(4, "progress", kind="status"), completed(5, 3))
            self.assertEqual(c.json(), {"type": "send", "operation": {
                "turn": {"message": {"do": 1}, "maxSteps": 2, "tools": ["a"]}}})
            c.say(accepted("op-8"), event(2, "failed", code="canceled", message="why"))
            c.hang_up()

        s = self.session(script)
        self.assertEqual(s.send(command=["echo", "é"], directory="d", env={"A": "b"}, stdin="in",
                                timeout=1.5, idempotency_key="k", traceparent="t"), "op-7")
        events = list(s.receive())
        self.assertEqual([(e.type, e.sequence, e.operation) for e in events],
                         [("output", 2, "op-7"), ("output", 3, "op-7"), ("progress", 4, "op-7"),
                          ("completed", 5, "op-7")])
        self.assertEqual((events[0].stream, events[0].data), ("stdout", b"out\xff"))
        self.assertEqual((events[1].stream, events[1].data), ("stderr", b"err"))
        self.assertEqual((events[3].exit_code, events[3].signal), (3, None))
        self.assertEqual(s.sequence, 5)
        self.assertEqual(s.send(turn={"do": 1}, max_steps=2, tools=["a"]), "op-8")
        [end] = s.receive()
        self.assertEqual((end.code, end.message, end.terminal), ("canceled", "why", True))

    def test_file_operations_are_sent_as_such(self):
        wanted = [{"writeFile": {"path": "f", "data": "/wA=", "append": True}},
                  {"writeFile": {"path": "f", "data": ""}},
                  {"createDirectory": {"path": "d", "recursive": True}},
                  {"deleteFile": {"path": "d"}}, {"renameFile": {"from": "a", "to": "b"}}]

        def script(c):
            for operation in wanted:
                self.assertEqual(c.json(), {"type": "send", "operation": operation})
                c.say(accepted(), event(2, "completed", writeFile={"size": 2}))
            c.hang_up()

        s = self.session(script)
        for ask in (lambda: s.write_file("f", b"\xff\0", append=True), lambda: s.write_file("f", ""),
                    lambda: s.create_directory("d", recursive=True), lambda: s.delete_file("d"),
                    lambda: s.rename_file("a", "b")):
            ask()
            self.assertEqual([e.type for e in s.receive()], ["completed"])

    def test_what_cannot_be_meant_is_not_sent(self):
        def script(c):
            self.assertIn("send", c.json()["type"])
            c.say(accepted())
            self.assertEqual(c.hang_up(), 1000)

        s = self.session(script)
        for wrong in ({}, {"command": ["a"], "shell": "a"}, {"command": "a b"},
                      {"turn": 1, "directory": "d"}, {"shell": "a", "max_steps": 1},
                      {"turn": {1, 2}}, {"turn": float("nan")}):
            with self.subTest(wrong), self.assertRaises(api.UsageError):
                s.send(**wrong)
        with self.assertRaises(api.UsageError):
            next(s.receive())
        operation = s.send(shell="true")
        with self.assertRaises(api.UsageError):  # OP-21
            s.send(shell="true")
        with self.assertRaises(api.UsageError):
            s.resume(operation, 1)

    def test_only_what_is_under_way_is_cancelled(self):
        """OP-25."""
        def script(c):
            c.json()
            c.say(accepted("op-1"))
            self.assertEqual(c.json(), {"type": "cancel", "operationID": "op-1"})
            c.say({"type": "cancel", "operationID": "op-1"},
                  event(2, "failed", code="canceled", message="it was canceled"))
            c.hang_up()

        s = self.session(script)
        with self.assertRaises(api.UsageError):
            s.cancel("op-1")
        s.send(shell="sleep 1000")
        with self.assertRaises(api.UsageError):
            s.cancel("op-2")
        s.cancel("op-1")
        self.assertEqual([e.code for e in s.receive()], ["canceled"])
        with self.assertRaises(api.UsageError):
            s.cancel("op-1")

    def test_a_cancellation_that_came_too_late_is_not_the_next_ones_error(self):
        def script(c):
            c.json()
            c.say(accepted("op-1"))
            self.assertEqual(c.json()["type"], "cancel")
            c.say(completed(2))
            c.say({"type": "error", "code": "failed_precondition", "error": "not under way"})
            self.assertEqual(c.json()["type"], "send")
            c.say(accepted("op-2"), completed(2))
            c.hang_up()

        s = self.session(script)
        s.cancel(s.send(shell="true"))
        self.assertEqual([e.type for e in s.receive()], ["completed"])
        self.assertEqual(s.send(shell="true"), "op-2")
        self.assertEqual([e.type for e in s.receive()], ["completed"])

    def test_an_error_leaves_the_session_open(self):
        """OP-23."""
        def script(c):
            c.json()
            c.say({"type": "error", "code": "resource_exhausted", "error": "the queue is full"})
            c.json()
            c.say(accepted(), completed(2))
            c.hang_up()

        s = self.session(script)
        with self.assertRaises(api.ResourceExhausted) as caught:
            s.send(shell="true")
        self.assertIsNone(caught.exception.status)
        s.send(shell="true")
        self.assertEqual([e.type for e in s.receive()], ["completed"])

    def test_closing_detaches_and_is_done_once(self):
        """OP-26."""
        codes = []

        def script(c):
            c.json()
            c.say(accepted())
            codes.append(c.hang_up())

        s = self.session(script)
        s.send(shell="sleep 1000")
        s.close()
        s.close()
        self.gateway.threads[1].join()
        self.assertEqual(codes, [1000])
        for ask in (lambda: s.send(shell="true"), lambda: next(s.receive()),
                    lambda: s.cancel("op-1")):
            with self.assertRaises(api.TransportError):
                ask()
        self.wait_for_end(s)

    def test_the_lease_is_renewed_by_itself(self):
        """OP-29."""
        beats = threading.Semaphore(0)

        def script(c):
            while True:
                opcode, payload = c.frame()
                if opcode == 1 and json.loads(payload) == {"type": "heartbeat"}:
                    beats.release()

        s = self.session(script, info={"leaseMs": 300})
        for _ in range(3):
            self.assertTrue(beats.acquire(timeout=wire.TIMEOUT))
        s.close()
        for lease, beat in ((0.01, 0.1), (3, 1), (60, 20), (3600, 30)):
            self.assertEqual(_exchange.heartbeat_of(lease), beat)
        self.assertIsNone(_exchange.heartbeat_of(None))

    def test_a_ping_is_answered_though_nobody_receives(self):
        answered = threading.Event()

        def script(c):
            c.send(server_frame(9, b"are you there"))
            self.assertEqual(c.frame(), (10, b"are you there"))
            answered.set()
            c.json()
            c.say(accepted())
            c.send(server_frame(9) + server_frame(10, b"unasked"))
            self.assertEqual(c.frame(), (10, b""))
            c.say(completed(2))
            c.hang_up()

        s = self.session(script)
        self.assertTrue(answered.wait(wire.TIMEOUT))
        s.send(shell="true")
        self.assertEqual([e.type for e in s.receive()], ["completed"])

    def test_frames_come_in_whatever_pieces(self):
        stream = text(accepted())
        said = json.dumps(output(2, "é".encode() * 1000)).encode()
        for i in range(0, len(said), 100):
            stream += server_frame(1 if i == 0 else 0, said[i:i + 100], i + 100 >= len(said))
            stream += server_frame(9, b"p")
        stream += text(completed(3))

        def script(c):
            c.json()
            for i in range(0, len(stream), 7):
                c.send(stream[i:i + 7])
            c.hang_up()

        s = self.session(script)
        s.send(shell="true")
        first, last = s.receive()
        self.assertEqual((first.data, last.type), ("é".encode() * 1000, "completed"))

    def test_what_is_no_answer_ends_the_session(self):
        ok = text(accepted())
        for name, said in (
                ("no event", ok + text({"type": "new", "sequence": 2, "new": {}})),
                ("a member too many", ok + text({**output(2, b""), "x": 1})),
                ("out of order", ok + text(output(3, b""))), ("again", ok + ok),
                ("zero", text(event(0, "accepted", operationID="x"))),
                ("true", text(event(True, "accepted", operationID="x"))),
                ("not accepted", text(output(1, b""))), ("other first", text(output(2, b""))),
                ("no id", text(event(1, "accepted"))),
                ("no base64", ok + text(event(2, "output", stream="stdout", data="*"))),
                ("no stream", ok + text(event(2, "output", stream="stdin", data=""))),
                ("no code", ok + text(event(2, "failed", message=""))),
                ("gap backwards", ok + text(event(5, "gap", **{"from": 3, "to": 2}))),
                ("gap elsewhere", ok + text(event(5, "gap", **{"from": 3, "to": 5}))),
                ("body", ok + text({"sequence": 2, "type": "progress", "progress": []})),
                ("array", text([1])), ("two values", server_frame(1, b"{}{}")),
                ("key twice", server_frame(1, b'{"type":"error","type":"error","error":""}')),
                ("binary", server_frame(2, b"{}")), ("utf-8", server_frame(1, b'"\xff"')),
                ("masked", b"\x81\x81\0\0\0\0{"), ("reserved", b"\xc1\x00"),
                ("opcode", b"\x83\x00"), ("long ping", b"\x89\x7e\x00\x7e"),
                ("half a ping", b"\x09\x00"), ("no begin", b"\x80\x00"),
                ("two begins", b"\x01\x00\x81\x00"), ("length", b"\x81\x7e\x00\x01{"),
                ("too long", b"\x81\x7f" + b"\xff" * 8), ("close", b"\x88\x01\x00"),
                ("close code", b"\x88\x02\x03\xed"), ("deep", server_frame(1, b"[" * 100000)),
                ("error", text({"type": "error"})), ("unasked", text({"type": "cancel"}))):
            with self.subTest(name):
                def script(c, said=said):
                    c.json()
                    c.send(said)
                    c.hang_up()
                s = self.session(script)
                with self.assertRaises(api.ProtocolError):
                    s.send(shell="true")
                    list(s.receive())
                with self.assertRaises(api.ProtocolError):
                    s.send(shell="true")

    def test_an_event_after_the_end_ends_the_session(self):
        def script(c):
            c.json()
            c.say(accepted(), completed(2), output(3, b""))
            c.hang_up()

        s = self.session(script)
        s.send(shell="true")
        self.assertEqual([e.type for e in s.receive()], ["completed"])
        self.wait_for_end(s)
        with self.assertRaises(api.ProtocolError):
            s.send(shell="true")

    def test_a_lost_connection_says_where_to_resume(self):
        """OP-27."""
        def script(c):
            c.json()
            c.say(accepted("op-9"), output(2, b"a"), output(3, b"b"))

        for first in (script, lambda c: (script(c), c.send(server_frame(8, b"\x03\xf0reason")))):
            s = self.session(first)
            s.send(shell="true")
            taken = []
            with self.assertRaises(api.TransportError) as caught:
                for e in s.receive():
                    taken.append(e.data)
            self.assertEqual(taken, [b"a", b"b"])
            self.assertEqual((caught.exception.operation, caught.exception.sequence), ("op-9", 3))
            self.assertEqual(self.gateway.connections, 2)  # the sandbox's, and this one
        self.assertIn("1008 reason", str(caught.exception))

    def test_a_send_that_is_not_answered_is_unknown(self):
        def script(c):
            c.json()

        s = self.session(script)
        with self.assertRaises(api.TransportError) as caught:
            s.send(shell="true")
        self.assertEqual((caught.exception.operation, caught.exception.sequence), (None, 0))
        s.close()

    def test_resume_goes_on_behind_a_sequence(self):
        def script(c):
            self.assertEqual(c.json(), {"type": "resume", "operationID": "op-1", "after": 4})
            c.say(event(9, "gap", **{"from": 5, "to": 9}), output(10, b"x"), completed(11))
            self.assertEqual(c.json(), {"type": "resume", "operationID": "op-1", "after": 0})
            c.say(accepted("op-1"), completed(2))
            c.json()
            c.say({"type": "error", "code": "replay_expired", "error": "gone"})
            c.json()
            c.say(accepted("op-2"))
            c.hang_up()

        s = self.session(script)
        s.resume("op-1", 4)
        gap, x, end = s.receive()
        self.assertEqual((gap.first, gap.last, x.data, end.sequence), (5, 9, b"x", 11))
        s.resume("op-1")
        self.assertEqual([e.type for e in s.receive()], ["accepted", "completed"])
        s.resume("op-0", 7)
        with self.assertRaises(api.ReplayExpired):
            list(s.receive())
        s.resume("op-1")
        with self.assertRaises(api.ProtocolError):
            list(s.receive())

    def test_a_wait_can_be_given_up_and_taken_up(self):
        go = threading.Event()

        def script(c):
            c.json()
            c.say(accepted())
            go.wait(wire.TIMEOUT)
            c.say(completed(2))
            c.hang_up()

        s = self.session(script)
        s.send(shell="true")
        with self.assertRaises(TimeoutError):
            next(s.receive(timeout=0.01))
        go.set()
        self.assertEqual([e.type for e in s.receive()], ["completed"])

    def test_what_nobody_takes_is_left_with_the_gateway(self):
        total = 300
        data = os.urandom(48 << 10)
        blocked = threading.Event()

        def script(c):
            c.json()
            c.say(accepted())
            c.sock.settimeout(1)
            at, all_said = 0, b"".join(text(output(i + 2, data)) for i in range(total))
            all_said += text(completed(total + 2))
            while at < len(all_said):
                try:
                    at += c.sock.send(all_said[at:at + 65536])
                except socket.timeout:  # TimeoutError since 3.10
                    blocked.set()
                    c.sock.settimeout(wire.TIMEOUT)
            c.hang_up()

        s = self.session(script, info={"leaseMs": 300})
        s.send(shell="yes")
        self.assertTrue(blocked.wait(wire.TIMEOUT))
        self.assertLess(self.exchange_of(s).queued, _exchange.QUEUE_MAX + (1 << 20))
        events = list(s.receive())
        self.assertEqual([e.sequence for e in events], list(range(2, total + 3)))
        self.assertTrue(all(e.data == data for e in events[:-1]))

    def test_an_upgrade_that_is_refused_is_a_typed_error(self):
        def refuse(status, code):
            def script(c):
                self.assertEqual(c.request().path, BASE + "/s-1/operations:ws")
                c.refuse(status, code)
            return script

        for status, code, kind in ((401, "unauthenticated", api.Unauthenticated),
                                   (403, "permission_denied", api.PermissionDenied),
                                   (429, "resource_exhausted", api.ResourceExhausted)):
            with self.assertRaises(kind):
                self.sandbox(refuse(status, code)).open()
        for said in (b"", b"HTTP/1.1 101 X\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n", b"x" * 70000,
                     b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Accept: AAAA\r\n\r\n",
                     b"HTTP/1.1 400 X\r\nContent-Length: x\r\n\r\n"):
            def script(c, said=said):
                c.request()
                c.send(said)
            with self.subTest(said[:40]), self.assertRaises(api.TransportError):
                self.sandbox(script).open()

    def test_an_upgrade_to_what_was_not_offered_is_none(self):
        def agreeing(*more):
            def script(c):
                key = c.request().headers["sec-websocket-key"]
                c.send("\r\n".join(["HTTP/1.1 101 X", "Upgrade: websocket", "Connection: Upgrade",
                                    "Sec-WebSocket-Accept: " + _websocket.accept_of(key), *more,
                                    "", ""]).encode())
                c.hang_up()
            return script

        self.sandbox(agreeing("X: y")).open()
        for more in ("Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Extensions: permessage-deflate",
                     "Sec-WebSocket-Accept: again", "Upgrade: websocket"):
            with self.subTest(more), self.assertRaises(api.ProtocolError):
                self.sandbox(agreeing(more)).open()

    def test_follow_hands_out_each_event_once_however_often_it_is_cut(self):
        """OP-27."""
        dice = random.Random(39)
        events = [accepted("op-1")]
        events += [output(i, os.urandom(dice.randrange(2000))) for i in range(2, 200)]
        events += [completed(200)]
        cuts = []

        def script(c):
            c.upgrade()
            asked = c.json()
            self.assertEqual((asked["type"], asked["operationID"]), ("resume", "op-1"))
            said = b"".join(map(text, events[asked["after"]:]))
            cut = dice.randrange(20000)
            cuts.append(cut)
            c.send(said[:cut])

        box = self.sandbox(script)
        taken = list(self.follow(box, "op-1", attempts=1000, pause=0))
        self.assertEqual([e.sequence for e in taken], list(range(1, 201)))
        self.assertEqual([e.body for e in taken], [e[e["type"]] for e in events])
        self.assertGreater(len(cuts), 5)

    def test_follow_gives_up_and_says_why(self):
        def lost(c):
            c.upgrade()

        def gone(c):
            c.upgrade()
            c.json()
            c.say({"type": "error", "code": "not_found", "error": "no such operation"})
            c.hang_up()

        box = self.sandbox(lost)
        with self.assertRaises(api.TransportError):
            list(self.follow(box, "op-1", attempts=3, pause=0))
        self.assertEqual(self.gateway.connections, 4)
        with self.assertRaises(api.NotFound):
            list(self.follow(self.sandbox(gone), "op-1"))
        self.assertEqual(self.gateway.connections, 2)


class SessionsOfAsyncio(Asyncio, Sessions):
    pass


if __name__ == "__main__":
    unittest.main()
