"""Clients that are not ours before a real daemon and its gateway: curl, others' WebSocket libraries,
a reverse proxy, a browser.  What is not installed is skipped.
"""

import base64
import json
import os
import subprocess
import unittest

from network_lab import TOKEN, WAIT
from real import wait_for
from third_party_lab import BASE, Client, LIBRARIES, Lab, output

TIMEOUT = 400  # of this file, for run.py


class Curl(Lab):
    def test_a_session_from_acquire_to_release(self):
        """OP-38"""
        made = self.json("-X", "POST", "-H", "Idempotency-Key: build-7", "-d", '{"leaseMs":600000}',
                         self.url(), status=201)
        again = self.json("-X", "POST", "-H", "Idempotency-Key: build-7", "-d", '{"leaseMs":600000}',
                          self.url())
        self.assertEqual(made["id"], again["id"])
        self.json("-X", "POST", "-H", "Idempotency-Key: build-7", self.url(), status=409)
        one = self.url("/" + made["id"])
        self.assertEqual(self.json(one)["state"], "ready")
        self.assertGreater(self.json("-X", "POST", one + "/heartbeat")["leaseUntil"], 0)
        self.assertEqual([s["id"] for s in self.json(self.url("?limit=5"))["sessions"]], [made["id"]])
        self.assertEqual(self.json(one + "/operations"), {"operations": []})
        self.assertEqual(self.json("-X", "DELETE", one + "?wait=true")["state"], "closed")

    def test_tls_with_a_ca_and_a_clients_certificate(self):
        """OP-19: who came by the certificate is another than who came by the token."""
        ca = ["--cacert", self.dir / "server.pem"]
        for version in ("1.2", "1.3"):
            at = [*ca, f"--tlsv{version}", "--tls-max", version]
            self.assertEqual(self.json("-X", "POST", self.url(scheme="https"), at=at, status=201)
                             ["principal"], "human:alice")
            at += ["--cert", self.certificate, "--key", self.key]
            made = self.json("-X", "POST", self.url(scheme="https"), at=at, status=201, token=None)
            self.assertEqual(made["principal"], "human:carol")
            self.json(self.url("/" + made["id"]), status=404)
        status, head, _ = self.curl(self.url(scheme="https"), at=ca, token=None)
        self.assertEqual(status, 401)
        self.assertIn("www-authenticate: bearer", head)
        untrusted = subprocess.run(["curl", "-sS", self.url(scheme="https")], capture_output=True,
                                   check=False, timeout=WAIT)
        self.assertEqual(untrusted.returncode, 60)  # curl's: nobody vouches for the server

    def test_over_a_unix_socket_and_in_one_connection(self):
        at = ["--unix-socket", self.unix]
        self.json("-X", "POST", f"http://localhost{BASE}", at=at, status=201)
        result = subprocess.run(
            ["curl", "-sS", "-H", f"Authorization: Bearer {TOKEN}", "-w",
             "%{http_code} %{num_connects}\\n", *[word for _ in range(5) for word in ("-o", "/dev/null", self.url())]],
            capture_output=True, text=True, timeout=WAIT, check=True)
        self.assertEqual(result.stdout.split(), ["200", "1"] + ["200", "0"] * 4)

    def test_files_are_downloaded_whole_in_ranges_and_resumed(self):
        """OP-5"""
        id = self.acquire()
        data = os.urandom(700 << 10)
        with self.client() as client, client.sandbox("shell", id).open() as session:
            for part, append in ((data[:1 << 19], False), (data[1 << 19:], True)):
                session.write_file("d", part, append=append)
                list(session.receive())
        content = self.url(f"/{id}/files/content?path=d")
        self.assertEqual(self.curl(content)[2], data)
        for words, part in ((("-r", "0-99"), data[:100]), (("-r", "100-"), data[100:]),
                            (("-r", "-7"), data[-7:])):
            status, head, body = self.curl(*words, content)
            self.assertEqual((status, body), (206, part))
            self.assertIn("content-range: bytes ", head)
        self.assertEqual(self.curl("-r", f"{len(data)}-", content)[0], 416)
        half = self.dir / "half"
        half.write_bytes(data[:1000])
        result = subprocess.run(["curl", "-sSf", "-C", "-", "-o", half, "-H",
                                 f"Authorization: Bearer {TOKEN}", content],
                                capture_output=True, timeout=WAIT, check=False)
        self.assertEqual((result.returncode, half.read_bytes() == data), (0, True), result.stderr)
        self.assertEqual(self.json(self.url(f"/{id}/files"))["entries"],
                         [{"name": "d", "type": "file", "size": len(data)}])
        self.assertEqual(self.json(self.url(f"/{id}/files/stat?path=d"))["size"], len(data))
        self.json("-G", "--data-urlencode", "path=../../etc/passwd", self.url(f"/{id}/files/content"),
                  status=400)

    def test_what_is_refused(self):
        """OP-19"""
        big = self.dir / "big"
        big.write_bytes(b'{"leaseMs":1}'.ljust((1 << 20) + 1))
        rows = [
            (401, [self.url()], None), (401, [self.url()], "another-token"),
            (401, ["-u", "alice:secret", self.url()], None),
            (403, ["-H", "Origin: http://evil.example", self.url()], TOKEN),
            (403, ["-H", "Origin: null", self.url()], TOKEN),
            (200, ["-H", f"Origin: http://{self.plain}", self.url()], TOKEN),
            (404, [f"http://{self.plain}/"], TOKEN),
            (404, [self.url("/s-0000000000000009")], TOKEN),
            (400, [self.url("?limit=0")], TOKEN), (400, [self.url("?color=red")], TOKEN),
            (400, ["-d", "{", self.url()], TOKEN),
            (400, ["-d", '{"leaseMs":1,"leaseMs":2}', self.url()], TOKEN),
            (405, ["-X", "PUT", "-d", "{}", self.url()], TOKEN),
            (413, ["--data-binary", f"@{big}", self.url()], TOKEN),
            (413, ["-H", "Expect: 100-continue", "--data-binary", f"@{big}", self.url()], TOKEN),
            (431, ["-H", "X: " + "x" * 17000, self.url()], TOKEN),
        ]
        for status, words, token in rows:
            with self.subTest(status=status, words=[str(word)[:60] for word in words]):
                found, _, body = self.curl(*words, token=token)
                self.assertEqual(found, status, body)
                if status >= 400:
                    self.assertEqual(set(json.loads(body)["error"]), {"code", "message"})
        self.json("-X", "POST", "-H", "Transfer-Encoding: gzip, chunked", "-d", "{}", self.url(),
                  status=501)
        self.assertEqual(self.curl("-I", self.url())[0], 200)


class Talk:
    """The same for each library; `library` is set by its class below."""

    library = None

    def test_it(self):
        """OP-19, OP-20, OP-21, OP-23, OP-24, OP-26, OP-30, OP-39"""
        for name in dir(self):
            if name.startswith("check_"):
                with self.subTest(name):
                    self.sandbox = self.acquire()
                    getattr(self, name)()
                    self.json("-X", "DELETE", self.url(f"/{self.sandbox}?mode=immediate&wait=true"))

    def open(self, scheme="ws", **more):
        client = Client(self, self.library, self.address(scheme), **more)
        client.expect("open")
        return client

    def address(self, scheme="ws"):
        return self.url(f"/{self.sandbox}/operations:ws", "https" if scheme == "wss" else "http") \
            .replace("http", "ws", 1)

    def check_commands_their_events_and_an_error_between_them(self):
        client = self.open()
        self.assertEqual(self.json(self.url(f"/{self.sandbox}/operations")), {"operations": []})
        client.shell("printf 'κόσμε'; echo err >&2; exit 3")
        events = client.until("completed", "failed")
        self.assertEqual([e["sequence"] for e in events], list(range(1, len(events) + 1)))
        self.assertEqual(events[0]["type"], "accepted")
        self.assertEqual(events[-1]["completed"]["command"]["exitCode"], 3)
        self.assertEqual(sorted(output(events)), sorted("κόσμεerr\n".encode()))
        client.send(type="resume", operationID="o-none", after=0)
        self.assertEqual(client.receive()["code"], "not_found")
        client.shell("head -c 300000 /dev/zero")
        self.assertEqual(output(client.until("completed", "failed")), bytes(300000))
        data = base64.b64encode(bytes(range(256)) * 2048).decode()
        client.send(type="send", operation={"writeFile": {"path": "f", "data": data}})
        client.until("completed")
        self.assertEqual(self.curl(self.url(f"/{self.sandbox}/files/content?path=f"))[2],
                         bytes(range(256)) * 2048)
        client.tell("close", 1000)
        client.expect("close", 1000)

    def check_cancel(self):
        client = self.open()
        client.shell("echo up; exec sleep 1000")
        operation = client.until("output")[0]["accepted"]["operationID"]
        client.send(type="cancel", operationID=operation)
        events = client.until("failed", "completed")
        self.assertIn({"type": "cancel", "operationID": operation}, events)
        self.assertEqual(events[-1]["failed"]["code"], "canceled")

    def check_resume_after_a_cut(self):
        client = self.open()
        client.shell("echo one; while [ ! -e go ]; do sleep 0.1; done; echo two")
        first = client.until("output")
        operation = first[0]["accepted"]["operationID"]
        client.cut()
        # The command goes on, and ends for nobody.
        host = self.workspace()
        (host / "go").touch()
        one = self.url(f"/{self.sandbox}/operations/{operation}")
        wait_for(lambda: self.json(one)["state"] == "succeeded", "the command's end")
        client = self.open()
        client.send(type="resume", operationID=operation, after=first[-1]["sequence"])
        rest = client.until("completed", "failed")
        self.assertEqual([e["sequence"] for e in first + rest],
                         list(range(1, len(first + rest) + 1)))
        self.assertEqual(output(first + rest), b"one\ntwo\n")

    def workspace(self):
        """Where the session's files are, seen from outside."""
        place, = self.state.glob(f"namespaces/*/workspaces/{self.sandbox[2:]}")
        return place

    def check_a_second_send_ends_the_connection(self):
        client = self.open()
        client.shell("exec sleep 1000")
        client.until("accepted")
        client.shell("true")
        said = client.next()
        while said[0] == "text":
            said = client.next()
        self.assertEqual(said[:2], ["close", 1008])
        self.assertIn("one at a time", said[2])

    def check_messages_that_are_none_of_ours(self):
        for what, value, code in (("binary", "00ff", 1008), ("text", "", 1008), ("text", "hello", 1008),
                                  ("text", '{"type":"send"}', 1008),
                                  ("text", " " * ((1 << 20) + 1), 1009)):
            with self.subTest(what=what, length=len(value)):
                client = self.open()
                client.tell(what, value)
                client.expect("close", code)

    def check_who_may_not_come_is_refused(self):
        status = (lambda n: [n]) if LIBRARIES[self.library][2] else (lambda n: [None])
        url, bearer = self.address(), {"Authorization": f"Bearer {TOKEN}"}
        Client(self, self.library, url, headers={}).expect("refused", *status(401))
        Client(self, self.library, url, headers={}, subprotocols=["caisson", "caisson.bearer.nobody"]) \
            .expect("refused", *status(401))
        if LIBRARIES[self.library][2]:
            Client(self, self.library, url, headers={**bearer, "Origin": "http://evil.example"}) \
                .expect("refused", 403)
            Client(self, self.library, url, headers={**bearer, "Origin": f"http://{self.plain}"}) \
                .expect("open")

    def check_the_token_as_a_subprotocol(self):
        client = Client(self, self.library, self.address(), headers={},
                        subprotocols=["caisson", f"caisson.bearer.{TOKEN}"])
        client.expect("open", "caisson")
        client.shell("echo hi")
        self.assertEqual(output(client.until("completed", "failed")), b"hi\n")

    def check_tls(self):
        client = self.open("wss")
        client.shell("echo hi")
        self.assertEqual(output(client.until("completed", "failed")), b"hi\n")


class Certificate:
    def check_a_certificate_instead_of_a_token(self):
        at = ["--cacert", self.dir / "server.pem", "--cert", self.certificate, "--key", self.key]
        alices, self.sandbox = self.sandbox, self.json("-X", "POST", self.url(scheme="https"), at=at,
                                                       token=None, status=201)["id"]
        client = self.open("wss", certificate=True)
        self.sandbox = alices
        client.shell("echo carol")
        self.assertEqual(output(client.until("completed", "failed")), b"carol\n")


class Websockets(Talk, Certificate, Lab):
    library = "websockets"


class Wsproto(Talk, Certificate, Lab):
    library = "wsproto"


class NodeWs(Talk, Certificate, Lab):
    library = "ws"


class NodeBuiltIn(Talk, Lab):
    library = "node"


if __name__ == "__main__":
    unittest.main()
