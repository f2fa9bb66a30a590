"""The Python client against a scripted gateway, over real sockets."""

import base64
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
import zipfile

import wire
from python_client_lab import (PACKAGE, Gateway, accepted, completed, event, output,
                               server_frame, text)

import caisson_client as api
from caisson_client import _websocket, session as session_module
from caisson_client.events import event_of

SANDBOX = {"id": "s-1", "runtime": "shell", "state": "ready"}
EXAMPLE = wire.ROOT / "examples" / "client" / "run.py"
BASE = "/v1/namespaces/default/runtimes/shell/sessions"


class Lab(unittest.TestCase):
    def serve(self, *scripts, **options):
        gateway = Gateway(*scripts, **options)
        self.addCleanup(gateway.close)
        return gateway

    def client(self, *scripts, **options):
        """A client of a gateway that follows these scripts."""
        self.gateway = self.serve(*scripts)
        client = api.Client(self.gateway.url, timeout=wire.TIMEOUT, **options)
        self.addCleanup(client.close)
        return client

    def sandbox(self, *scripts, info=None, **options):
        """A sandbox, and these scripts for the connections that follow."""
        def show(c):
            c.request()
            c.answer(200, {**SANDBOX, **(info or {})})
            c.hang_up()

        client = self.client(show, *scripts, **options)
        found = client.sandbox("shell", "s-1")
        client.close()  # the next request is the next script's
        return found

    def session(self, *scripts, **options):
        """A session of which the first script is, after its upgrade."""
        def upgraded(script):
            def run(c):
                c.upgrade()
                script(c)
            return run

        s = self.sandbox(*map(upgraded, scripts), **options).open()
        self.addCleanup(s.close)
        return s


class Requests(Lab):
    def test_what_is_asked_for_and_what_comes_of_it(self):
        seen = []

        def script(c):
            r = c.request()
            seen.append((r.method, r.path, r.json(), r.headers))
            c.answer(201, {**SANDBOX, "leaseMs": 1500})
            r = c.request()
            seen.append((r.method, r.path, r.query, r.body))
            c.answer(202, {**SANDBOX, "state": "closing"})

        with self.client(script, token="secret", namespace="a/b") as client:
            with client.acquire("she ll", lease=1.5, timeout=2, queue=3, idempotency_key="k-1",
                                traceparent="00-1-2-01") as box:
                self.assertEqual((box.id, box.lease), ("s-1", 1.5))
        path = "/v1/namespaces/a%2Fb/runtimes/she%20ll/sessions"
        method, asked, body, headers = seen[0]
        self.assertEqual((method, asked), ("POST", path))
        self.assertEqual(body, {"leaseMs": 1500, "timeoutMs": 2000, "queue": 3})
        self.assertEqual((headers["authorization"], headers["idempotency-key"],
                          headers["traceparent"]), ("Bearer secret", "k-1", "00-1-2-01"))
        self.assertEqual(headers["host"], self.gateway.url.partition("//")[2])
        self.assertEqual(seen[1], ("DELETE", path + "/s-1", {"mode": "drain"}, b""))
        self.assertEqual(self.gateway.connections, 1)

    def test_each_code_is_a_class(self):
        codes = {"invalid_argument": api.InvalidArgument, "unauthenticated": api.Unauthenticated,
                 "permission_denied": api.PermissionDenied, "not_found": api.NotFound,
                 "already_exists": api.AlreadyExists, "replay_expired": api.ReplayExpired,
                 "failed_precondition": api.FailedPrecondition, "canceled": api.Cancelled,
                 "resource_exhausted": api.ResourceExhausted, "internal": api.Internal,
                 "deadline_exceeded": api.DeadlineExceeded, "unavailable": api.Unavailable,
                 "audit_unavailable": api.AuditUnavailable, "new_code": api.ApiError}

        def script(c):
            for code in codes:
                c.request()
                c.refuse(499, code, "why", Retry_After="7")
            for status in (401, 404, 409, 413, 429, 500, 502, 503, 504, 302, 418):
                c.request()
                c.answer(status, raw=b"<html>")

        client = self.client(script)
        for code, kind in codes.items():
            with self.assertRaises(kind) as caught:
                client.acquire("shell")
            self.assertIs(type(caught.exception), kind)
            self.assertEqual((caught.exception.code, caught.exception.message,
                              caught.exception.status, caught.exception.retry_after),
                             (code, "why", 499, 7.0))
        for kind in (api.Unauthenticated, api.NotFound, api.FailedPrecondition,
                     api.ResourceExhausted, api.ResourceExhausted, api.Internal, api.Unavailable,
                     api.Unavailable, api.DeadlineExceeded, api.ApiError, api.ApiError):
            with self.assertRaises(kind) as caught:
                client.acquire("shell")
            self.assertIs(type(caught.exception), kind)
        self.assertEqual(self.gateway.connections, 1)

    def test_an_answer_that_is_none_is_an_error_and_nothing_is_asked_twice(self):
        sent = b"HTTP/1.1 200 X\r\nContent-Length: "
        answers = [b"", b"garbage\r\n\r\n", sent + b"99\r\n\r\n{}", sent + b"-1\r\n\r\n{}",
                   b"HTTP/1.1 200 X\r\n\r\n{}", sent + b"2\r\n\r\n[]", sent + b"2\r\n\r\n{}",
                   sent + b"11\r\n\r\n{\"id\":\"\xff\xfe\"}", sent + b"3\r\n\r\nNaN",
                   sent + b"21\r\n\r\n{\"id\":\"a\",\"id\":\"bcd\"}",
                   sent + b"26\r\n\r\n{\"id\":\"a\",\"leaseMs\":\"soon\"}",
                   sent + b"10000\r\n\r\n" + b"[" * 10000,
                   b"HTTP/1.1 200 X\r\n" + b"A: b\r\n" * 1000 + b"\r\n"]
        for said in answers:
            with self.subTest(said[:60]):
                def script(c, said=said):
                    c.request()
                    c.send(said)
                client = self.client(script)
                with self.assertRaises(api.TransportError):
                    client.acquire("shell")
                self.assertEqual(self.gateway.connections, 1)

    def test_an_answer_that_never_ends_is_given_up(self):
        def script(c):
            c.request()
            c.send(b"HTTP/1.1 200 X\r\nContent-Length: 99999999999\r\n\r\n")
            while True:
                c.send(b"x" * 65536)

        with self.assertRaises(api.ProtocolError):
            self.client(script).acquire("shell")

    def test_a_connection_that_was_closed_meanwhile_is_opened_again(self):
        gone = threading.Event()

        def first(c):
            c.request()
            c.answer(200, SANDBOX)
            c.sock.shutdown(2)
            gone.set()

        def second(c):
            c.request()
            c.answer(200, SANDBOX)

        client = self.client(first, second)
        client.acquire("shell")
        gone.wait(wire.TIMEOUT)
        client.acquire("shell")
        self.assertEqual(self.gateway.connections, 2)

    def test_listings_go_on_from_page_to_page(self):
        def script(c):
            for name in ("sessions", "operations", "entries"):
                for cursor, after in (({}, {"next": "c/1"}), ({"cursor": "c/1"}, {})):
                    r = c.request()
                    self.assertEqual(r.query, {"limit": "2", **cursor})
                    item = {"id": "s-1", "name": "f", "type": "file", "size": 1}
                    c.answer(200, {name: [item, item], **after})
            c.request()
            c.answer(200, {"entries": [{"name": "f"}]})

        client = self.client(script)
        boxes = list(client.sandboxes("shell", page=2))
        self.assertEqual([b.id for b in boxes], ["s-1"] * 4)
        self.assertEqual(len(list(boxes[0].operations(page=2))), 4)
        self.assertEqual(list(boxes[0].files.list(page=2)), [api.Entry("f", "file", 1)] * 4)
        with self.assertRaises(api.ProtocolError):
            list(boxes[0].files.list())

    def test_files_are_read_by_parts(self):
        data = os.urandom((2 << 20) + 5)

        def script(c):
            while True:
                r = c.request()
                self.assertEqual((r.path, r.query), (BASE + "/s-1/files/content",
                                                     {"path": "a b/é&"}))
                first, last = map(int, r.headers["range"][6:].split("-"))
                part = data[first:last + 1]
                if part:
                    c.answer(206, raw=part)
                else:
                    c.refuse(416, "invalid_argument")

        files = self.sandbox(script).files
        self.assertEqual(files.read("a b/é&"), data)
        self.assertEqual(files.read("a b/é&", 3, 10), data[3:13])
        self.assertEqual(files.read("a b/é&", len(data) - 2, 10), data[-2:])
        self.assertEqual(files.read("a b/é&", len(data) + 2), b"")
        self.assertEqual(files.read("a b/é&", length=0), b"")

    def test_files_are_described(self):
        def script(c):
            r = c.request()
            self.assertEqual((r.path, r.query), (BASE + "/s-1/files/stat", {"path": "d/f"}))
            c.answer(200, {"name": "f", "type": "file", "size": 3, "modifiedAt": 9})
            c.request()
            c.refuse(404, "not_found")
            c.request()
            c.answer(200, raw=b"too much")

        files = self.sandbox(script).files
        self.assertEqual(files.stat("d/f"), api.Entry("f", "file", 3, 9))
        with self.assertRaises(api.NotFound):
            files.read("none")
        with self.assertRaises(api.ProtocolError):
            files.read("f", length=2)

    def test_release_is_asked_for_as_it_was_meant(self):
        def script(c):
            for query in ({"mode": "immediate", "wait": "true"}, {"mode": "drain"}):
                self.assertEqual(c.request().query, query)
                c.answer(200, {**SANDBOX, "state": "closed"})
            for _ in range(2):
                c.request()
                c.refuse(404, "not_found")
            c.request()
            c.refuse(503, "unavailable")
            c.request()
            c.refuse(503, "unavailable")

        box = self.sandbox(script)
        self.assertEqual(box.release(immediate=True, wait=True)["state"], "closed")
        box.release()
        with self.assertRaises(api.NotFound):
            box.release()
        with box:
            pass  # was released long ago
        with self.assertRaises(api.Unavailable), box:
            pass
        with self.assertRaises(KeyError), box:
            raise KeyError  # and not what came of the release

    def test_only_a_gateway_of_this_machine_goes_without_tls(self):
        for url in ("http://example.com", "http://10.0.0.1:80", "ftp://localhost", "localhost",
                    "https://", "https://h/path", "https://u:p@h", "https://h?x", "https://h:99999",
                    "http+unix://relative", "http://127.0.0.1.evil.example"):
            with self.subTest(url), self.assertRaises(api.UsageError):
                api.Client(url)
        for url in ("http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "https://h",
                    "http+unix:///run/x", "http+unix://%2Frun%2Fx", "/run/x"):
            api.Client(url)
        with self.assertRaises(api.UsageError):
            api.Client("http://localhost", cafile="x")
        with self.assertRaises(api.UsageError):
            api.Client("https://h", token="a\r\nX: y")

    def test_a_socket_of_this_machine(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)

        def script(c):
            self.assertEqual(c.request().headers["host"], "localhost")
            c.answer(200, SANDBOX)

        self.serve(script, path=pathlib.Path(folder) / "s ock")
        for url in (f"http+unix://{folder}/s%20ock", f"{folder}/s ock"):
            with api.Client(url) as client:
                self.assertEqual(client.acquire("shell").id, "s-1")
        with self.assertRaises(api.TransportError):
            api.Client(f"{folder}/none").acquire("shell")

    @unittest.skipUnless(shutil.which("openssl"), "needs openssl to make certificates")
    def test_tls_knows_the_gateway_and_is_known_to_it(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        for name in ("server", "client"):
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                 "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / f"{name}.key",
                 "-out", folder / f"{name}.pem"], check=True, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, timeout=wire.TIMEOUT)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(folder / "server.pem", folder / "server.key")
        server.verify_mode = ssl.CERT_REQUIRED
        server.load_verify_locations(folder / "client.pem")
        pair = (str(folder / "client.pem"), str(folder / "client.key"))

        def script(c):
            if c.request().method == "POST":
                self.assertIn("client", str(c.sock.getpeercert()["subject"]))
                c.answer(200, SANDBOX)
                c.hang_up()

        def talk(c):
            c.upgrade()
            c.json()
            c.say(accepted(), *[output(i, b"x" * 60000) for i in range(2, 40)], completed(40))
            c.hang_up()

        gateway = self.serve(script, talk, script, tls=server)
        with api.Client(gateway.url, cafile=str(folder / "server.pem"),
                        certificate=pair) as client, \
                client.acquire("shell").open() as session:
            session.send(shell="yes")
            self.assertEqual(sum(len(e.data) for e in session.receive()
                                 if isinstance(e, api.Output)), 38 * 60000)
        for options in ({}, {"cafile": pair[0]}):
            with self.assertRaises(api.TransportError):
                api.Client(gateway.url, certificate=pair, **options).acquire("shell")


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
        self.assertFalse(s._thread.is_alive())

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
            self.assertEqual(session_module.heartbeat_of(lease), beat)
        self.assertIsNone(session_module.heartbeat_of(None))

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
        s._thread.join()
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
        self.assertLess(s._queued, session_module.QUEUE_MAX + (1 << 20))
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
        taken = list(api.follow(box, "op-1", attempts=1000, pause=0))
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
            list(api.follow(box, "op-1", attempts=3, pause=0))
        self.assertEqual(self.gateway.connections, 4)
        with self.assertRaises(api.NotFound):
            list(api.follow(self.sandbox(gone), "op-1"))
        self.assertEqual(self.gateway.connections, 2)


class Example(Lab):
    def test_the_example_takes_up_what_was_lost(self):
        events = [accepted("op-1"), output(2, b"one\n"), output(3, b"err\n", "stderr"),
                  output(4, b"two\n"), completed(5, 7)]

        def requests(c):
            self.assertEqual(c.request().headers["authorization"], "Bearer secret")
            c.answer(201, {**SANDBOX, "leaseMs": 60000})
            self.assertEqual(c.request().method, "DELETE")
            c.answer(202, SANDBOX)

        def cut(c):
            c.upgrade()
            self.assertEqual(c.json()["operation"], {"command": {"shell": "a line"}})
            c.say(*events[:3])

        def whole(c):
            c.upgrade()
            c.say(*events[c.json()["after"]:])
            c.hang_up()

        gateway = self.serve(requests, cut, whole)
        done = subprocess.run(
            [sys.executable, "-B", str(EXAMPLE), gateway.url, "a line"],
            env={**os.environ, "PYTHONPATH": str(PACKAGE), "CAISSON_TOKEN": "secret"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=wire.TIMEOUT)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (7, b"one\ntwo\n", b"err\n"))


class Package(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.dir)

    def build(self, kind):
        subprocess.run(
            [sys.executable, "-B", "-c", "import sys; sys.path.insert(0, sys.argv[1]); import _build; "
             f"_build.build_{kind}(sys.argv[2])", str(PACKAGE), str(self.dir)],
            check=True, timeout=wire.TIMEOUT, stdin=subprocess.DEVNULL)
        [path] = self.dir.iterdir()
        return path

    def sources(self):
        return {f"caisson_client/{p.name}": p.read_bytes()
                for p in (PACKAGE / "caisson_client").iterdir() if p.is_file()}

    def test_a_wheel_holds_the_package_and_says_so(self):
        with zipfile.ZipFile(self.build("wheel")) as z:
            content = {name: z.read(name) for name in z.namelist()}
        info = "caisson_client-0.1.0.dist-info/"
        record = content.pop(info + "RECORD").decode().split()
        said = {line.split(",")[0]: line.split(",")[1:] for line in record}
        for name, data in content.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            self.assertEqual(said.pop(name), [f"sha256={digest}", str(len(data))])
        self.assertEqual(said, {info + "RECORD": ["", ""]})
        self.assertEqual({n: d for n, d in content.items() if not n.startswith(info)},
                         self.sources())
        project = (PACKAGE / "pyproject.toml").read_text()
        for name, value in (("name", "Name"), ("version", "Version"), ("requires-python",
                                                                       "Requires-Python")):
            stated = re.search(rf'^{name} = "(.*)"$', project, re.M)[1]
            self.assertIn(f"{value}: {stated}\n", content[info + "METADATA"].decode())

    def test_a_source_archive_holds_all_that_builds_it(self):
        with tarfile.open(self.build("sdist")) as t:
            content = {m.name.partition("/")[2]: t.extractfile(m).read() for m in t.getmembers()}
        for name in ("pyproject.toml", "README.md", "_build.py"):
            self.assertEqual(content.pop(name), (PACKAGE / name).read_bytes())
        self.assertTrue(content.pop("PKG-INFO"))
        self.assertEqual(content, self.sources())

    @unittest.skipUnless(importlib.util.find_spec("pip"), "needs pip")
    def test_pip_installs_it_and_fetches_nothing(self):
        source = self.dir / "source"
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-cache-dir",
             "--disable-pip-version-check", "--target", str(self.dir / "there"), str(source)],
            check=True, timeout=4 * wire.TIMEOUT, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        done = subprocess.run(
            [sys.executable, "-I", "-c", "import sys; sys.path.insert(0, sys.argv[1]); "
             "import caisson_client; print(caisson_client.__file__)", str(self.dir / "there")],
            check=True, timeout=wire.TIMEOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True)
        self.assertEqual(done.stdout.strip(), f"{self.dir}/there/caisson_client/__init__.py")


class Fuzz(Lab):
    """Whatever a gateway says, the client ends with an error of its own."""

    def mutated(self, dice):
        """What a gateway could say, with some bytes changed, lost or added."""
        pieces = [text(accepted()), text(output(2, b"abc")), server_frame(9, b"ping"),
                  server_frame(1, b'{"sequence":3,', False), server_frame(0, b'"type":"x"}'),
                  text({"type": "error", "code": "internal", "error": "x"}), text(completed(3)),
                  server_frame(8, b"\x03\xe8bye"), text({"type": "cancel", "operationID": "op-1"}),
                  server_frame(1, b"x" * 70000)]
        data = bytearray(b"".join(dice.choices(pieces, k=dice.randrange(1, 8))))
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
            data = dice.randbytes(dice.randrange(40)) if i % 4 == 0 else self.mutated(dice)
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

    def test_sessions(self):
        dice = random.Random(21)
        said = [self.mutated(dice) for _ in range(100)]

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
            self.assertFalse(s._thread.is_alive())
        self.assertGreater(ends["lost"], 20)


if __name__ == "__main__":
    unittest.main()
