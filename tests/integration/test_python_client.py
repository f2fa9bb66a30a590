"""The Python clients' requests, of a scripted gateway, over real sockets."""

import os
import pathlib
import shutil
import ssl
import subprocess
import tempfile
import threading
import unittest

import wire
from python_client_kinds import BASE, SANDBOX, Asyncio, Lab
from python_client_lab import accepted, completed, output

import caisson_client as api


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

        with self.client(script, token="secret", namespace="a b") as client:
            with client.acquire("she ll", lease=1.5, timeout=2, queue=3, idempotency_key="k-1",
                                traceparent="00-1-2-01") as box:
                self.assertEqual((box.id, box.lease), ("s-1", 1.5))
        path = "/v1/namespaces/a%20b/runtimes/she%20ll/sessions"
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

    def test_a_name_stays_one_part_of_a_path(self):
        def script(c):
            self.assertEqual(c.request().path, BASE + "/a%25..%26b%3Dc%20d")
            c.answer(200, SANDBOX)

        client = self.client(script)
        client.sandbox("shell", "a%..&b=c d")
        for name in ("", ".", "..", "a/../b", "a\\b", "a?b", "a#b", "a\r\n", "\x7f", "\ud800", 5,
                     None):
            with self.subTest(name):
                for ask in (lambda n=name: client.sandbox("shell", n),
                            lambda n=name: client.sandbox(n, "s-1"),
                            lambda n=name: client.acquire(n)):
                    with self.assertRaises(api.UsageError):
                        ask()
        with self.assertRaises(api.UsageError):
            client.acquire("shell", idempotency_key=5)

    def test_only_a_gateway_of_this_machine_goes_without_tls(self):
        for url in ("http://example.com", "http://10.0.0.1:80", "ftp://localhost", "localhost",
                    "https://", "https://h/path", "https://u:p@h", "https://h?x", "https://h:99999",
                    "http+unix://relative", "http://127.0.0.1.evil.example"):
            with self.subTest(url), self.assertRaises(api.UsageError):
                self.connect(url)
        for url in ("http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "https://h",
                    "http+unix:///run/x", "http+unix://%2Frun%2Fx", "/run/x"):
            self.connect(url)
        with self.assertRaises(api.UsageError):
            self.connect("http://localhost", cafile="x")
        with self.assertRaises(api.UsageError):
            self.connect("https://h", token="a\r\nX: y")

    def test_a_socket_of_this_machine(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)

        def script(c):
            self.assertEqual(c.request().headers["host"], "localhost")
            c.answer(200, SANDBOX)

        self.serve(script, path=pathlib.Path(folder) / "s ock")
        for url in (f"http+unix://{folder}/s%20ock", f"{folder}/s ock"):
            with self.connect(url) as client:
                self.assertEqual(client.acquire("shell").id, "s-1")
        with self.assertRaises(api.TransportError):
            self.connect(f"{folder}/none").acquire("shell")

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
        with self.connect(gateway.url, cafile=str(folder / "server.pem"),
                        certificate=pair) as client, \
                client.acquire("shell").open() as session:
            session.send(shell="yes")
            self.assertEqual(sum(len(e.data) for e in session.receive()
                                 if isinstance(e, api.Output)), 38 * 60000)
        for options in ({}, {"cafile": pair[0]}):
            with self.assertRaises(api.TransportError):
                self.connect(gateway.url, certificate=pair, **options).acquire("shell")


class RequestsOfAsyncio(Asyncio, Requests):
    pass


if __name__ == "__main__":
    unittest.main()
