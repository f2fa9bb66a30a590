"""The HTTP API of the gateway, before a scripted broker."""

import hashlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import unittest

from gateway_host import certificate, trusting
from gateway_lab import AUTH, BASE, FOREIGN, Lab, ONE, TOKEN, TRACE, TRACEPARENT, decoded, numbers, session
from wire import TIMEOUT, program

EAGAIN = 11


@unittest.skipUnless(program("caisson-gateway"), "not built")
class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab()
        cls.lab.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.lab.end(cls())

    def setUp(self):
        self.lab.__dict__["on"] = {name: getattr(self.lab, name.replace(".", "_")) for name in self.lab.on}
        self.lab.asked.clear()

    def refused(self, response, status, code, *words):
        self.assertEqual((response.status, response.json["error"]["code"]), (status, code), response)
        for word in words:
            self.assertIn(word, response.json["error"]["message"])
        self.assertEqual(set(response.json), {"error"})

    # -- sessions

    def test_a_session_is_acquired_with_what_the_client_asks_for(self):
        """D-10: its key goes with it, and so does its trace."""
        response = self.lab.call("POST", BASE, b'{"leaseMs":60000,"timeoutMs":5,"queue":3}',
                                 Idempotency_Key="k-1.x_Y", traceparent=TRACEPARENT)
        self.assertEqual(response.status, 201)
        self.assertEqual(response.json, session())
        self.assertEqual(self.lab.last("session.acquire"), {
            "runtime": "shell", "leaseMs": 60000, "timeoutMs": 5, "queue": 3, "trace": TRACE,
            "idempotencyKey": "k-1.x_Y"})
        self.assertEqual(response.headers["cache-control"], "no-store")
        self.assertEqual(response.headers["x-content-type-options"], "nosniff")
        for body in (b"{}", None):
            self.assertEqual(self.lab.call("POST", BASE, body).status, 201)
            self.assertEqual(self.lab.last("session.acquire"), {"runtime": "shell"})

    def test_one_that_exists_is_answered_with_200(self):
        self.lab.on["session.acquire"] = self.lab.replying(session=session(), existing=True)
        self.assertEqual(self.lab.call("POST", BASE, Idempotency_Key="k").status, 200)

    def test_zero_is_the_brokers_to_refuse(self):
        """OP-8"""
        self.lab.on["session.acquire"] = self.lab.refusing("invalid_argument", "queue: is 0")
        self.refused(self.lab.call("POST", BASE, b'{"queue":0}'), 400, "invalid_argument", "queue: is 0")
        self.assertEqual(self.lab.last("session.acquire")["queue"], 0)

    def test_a_body_is_read_strictly(self):
        """OP-10: one value, of the members that are known, or nothing is asked."""
        for body, words in (
                (b'{"lease":1}', 'unknown member "lease"'), (b'{"queue":1,"queue":2}', "duplicate object key"),
                (b'{}{}', "only one value"), (b'[]', "an object is expected"), (b'{"queue":-1}', "queue: is no integer"),
                (b'{"queue":4294967296}', "queue: is no integer"), (b'{"queue":1.5}', "queue: is no integer"),
                (b'{"queue":"1"}', "queue: is no integer"), (b'{"queue":null}', "queue: is no integer"),
                (b'{"queue":01}', "line 1"), (b'{"queue":1', "ends too early"), (b"\xff", "line 1, column 1"),
                (b'{"\xff":1}', "not UTF-8"), (b'{"a":"\\ud800"}', "half of a surrogate"), (b'{"queue":1}\0', "only one"),
                (b'\xef\xbb\xbf{}', "line 1"), (b'[' * 9 + b']' * 9, "nested more than 8"),
                (b'{"a":' + b'"x"' * 20000 + b'}', "line 1"), (b'{"a":"' + b'x' * 20000 + b'"}', "bytes when packed")):
            self.refused(self.lab.call("POST", BASE, body), 400, "invalid_argument", words)
        self.assertEqual(self.lab.methods(), [])

    def test_before_anybody_knows_from_whom_a_body_is_kept_small(self):
        """However large a message of a WebSocket may be: said with the head, before a byte of it has come."""
        for head in (b"Content-Length: 131073\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n20001\r\n"):
            with self.lab.connect() as client:
                client.send(f"POST {BASE} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\n".encode() + head)
                answer = client.response()
                self.assertEqual((answer.status, answer.headers["connection"]), (413, "close"))
        self.assertEqual(self.lab.call("POST", BASE, b'{"queue":1}' + b" " * 131061).status, 201)
        self.assertEqual(self.lab.methods(), ["session.acquire"])

    def test_keys_and_traces_have_their_form(self):
        """OP-38"""
        for key in ("", "a b", "k" * 129, "ä", "a/b"):
            response = self.lab.call("POST", BASE, Idempotency_Key=key)
            self.assertEqual(response.status, 400, key)
        self.assertEqual(self.lab.call("POST", BASE, Idempotency_Key="k" * 128).status, 201)
        bad = ("x", f"00-{'0' * 32}-00f067aa0ba902b7-01", f"00-{TRACE}-{'0' * 16}-01", TRACEPARENT.upper(),
               TRACEPARENT + "-x", f"ff-{TRACE}-00f067aa0ba902b7-01", TRACEPARENT[:-1])
        for value in bad:
            self.refused(self.lab.call("POST", BASE, traceparent=value), 400, "invalid_argument", "traceparent")
        self.assertEqual(self.lab.call("POST", BASE, traceparent=f"cc-{TRACE}-00f067aa0ba902b7-01-later").status, 201)

    def test_sessions_are_listed_by_pages(self):
        self.lab.on["session.list"] = self.lab.replying(sessions=[session()], next=2**64 - 1)
        response = self.lab.call("GET", f"{BASE}?limit=1&cursor=5")
        self.assertEqual(response.json, {"sessions": [session()], "next": str(2**64 - 1)})
        self.assertEqual(self.lab.last("session.list"), {"cursor": 5, "limit": 1, "runtime": "shell"})
        self.lab.on["session.list"] = self.lab.replying(sessions=[], next=0)
        self.assertEqual(self.lab.call("GET", BASE).json, {"sessions": []})
        self.assertEqual(self.lab.last("session.list"), {"cursor": 0, "limit": 100, "runtime": "shell"})
        for query in ("limit=0", "limit=1001", "limit=-1", "limit=", "limit=01", "limit=1&limit=2", "cursor=x",
                      "cursor=18446744073709551616", "Limit=1", "x=1"):
            self.refused(self.lab.call("GET", f"{BASE}?{query}"), 400, "invalid_argument")

    def test_one_is_shown_released_and_kept_alive(self):
        """OP-28, OP-32"""
        self.assertEqual(self.lab.call("GET", f"{BASE}/{ONE}").json, session())
        released = self.lab.call("DELETE", f"{BASE}/{ONE}")
        self.assertEqual((released.status, released.json["state"]), (202, "closing"))
        self.assertEqual(self.lab.last("session.release"), {"session": ONE})
        released = self.lab.call("DELETE", f"{BASE}/{ONE}?mode=immediate&wait=true")
        self.assertEqual((released.status, released.json["state"]), (200, "closed"))
        self.assertEqual(self.lab.last("session.release"), {"session": ONE, "mode": "immediate", "wait": True})
        self.assertEqual(self.lab.call("POST", f"{BASE}/{ONE}/heartbeat").json, {})
        self.lab.on["session.heartbeat"] = self.lab.replying(leaseUntil=77)
        self.assertEqual(self.lab.call("POST", f"{BASE}/{ONE}/heartbeat", b"{}").json, {"leaseUntil": 77})
        for path in (f"{BASE}/{ONE}?mode=now", f"{BASE}/{ONE}?wait=1", f"{BASE}/{ONE}?mode="):
            self.refused(self.lab.call("DELETE", path), 400, "invalid_argument")
        self.refused(self.lab.call("POST", f"{BASE}/{ONE}/heartbeat", b'{"a":1}'), 400, "invalid_argument")

    def test_what_is_another_runtimes_or_nobodys_is_not_found(self):
        for path in (f"{BASE}/{FOREIGN}", f"{BASE}/{FOREIGN}/files", f"{BASE}/s-nothing", f"{BASE}/{'s' * 65}",
                     f"{BASE}/{FOREIGN}/operations", BASE.replace("default", "other"), f"{BASE}/", "/v1", "/",
                     f"{BASE}/{ONE}/nothing", f"{BASE}//files", BASE.replace("shell", "x" * 257)):
            self.refused(self.lab.call("GET", path), 404, "not_found")
        self.assertEqual(set(self.lab.methods()), {"session.show"})
        self.assertEqual(self.lab.call("GET", f"{BASE}/{ONE}/operations/o-9").status, 404)
        self.lab.operations["o-f"] = FOREIGN
        self.refused(self.lab.call("GET", f"{BASE}/{ONE}/operations/o-f"), 404, "not_found")

    def test_a_method_that_a_path_has_not_is_405(self):
        for method, path, allow in (("PUT", BASE, "POST, GET, HEAD"), ("POST", f"{BASE}/{ONE}", "GET, HEAD, DELETE"),
                                    ("GET", f"{BASE}/{ONE}/heartbeat", "POST"), ("OPTIONS", BASE, "POST, GET, HEAD")):
            response = self.lab.call(method, path)
            self.assertEqual((response.status, response.headers["allow"]), (405, allow))
            self.assertNotIn("access-control-allow-origin", response.headers)
        head = self.lab.call("HEAD", f"{BASE}/{ONE}")
        self.assertEqual((head.status, head.body), (200, b""))
        self.assertEqual(head.headers["content-length"], str(len(json.dumps(session(), separators=(",", ":")))))
        self.refused(self.lab.call("GET", BASE, b"{}"), 400, "invalid_argument", "no body")

    def test_operations_are_listed_and_shown(self):
        self.assertEqual(self.lab.call("GET", f"{BASE}/{ONE}/operations?limit=3&cursor=2").json,
                         {"operations": [{"operationID": "o-1"}], "next": "7"})
        self.assertEqual(self.lab.last("operation.list"), {"session": ONE, "cursor": 2, "limit": 3})
        self.lab.operations["o-7"] = ONE
        self.assertEqual(self.lab.call("GET", f"{BASE}/{ONE}/operations/o-7").json["operationID"], "o-7")

    # -- files

    def test_files_are_listed_and_described(self):
        """OP-5: the page's members pass through, and a limit of 0 is refused."""
        response = self.lab.call("GET", f"{BASE}/{ONE}/files?path=a%20b&limit=1000&cursor=x%2By")
        self.assertEqual(response.json, {"entries": [{"name": "a", "type": "file", "size": 3}], "next": "a-cursor"})
        self.assertEqual(self.lab.last("file.list"), {"session": ONE, "path": "a b", "limit": 1000, "cursor": "x+y"})
        self.lab.call("GET", f"{BASE}/{ONE}/files")
        self.assertEqual(self.lab.last("file.list"), {"session": ONE, "limit": 100})
        self.assertEqual(self.lab.call("GET", f"{BASE}/{ONE}/files/stat?path=x").json["name"], "x")
        for path in ("files?limit=0", "files?limit=1001", "files?path=", "files?cursor=", "files/stat", "files/content",
                     f"files/stat?path={'x' * 4097}", f"files?cursor={'x' * 1025}"):
            self.refused(self.lab.call("GET", f"{BASE}/{ONE}/{path}"), 400, "invalid_argument")

    def content(self, size, **headers):
        return self.lab.call("GET", f"{BASE}/{ONE}/files/content?path={size}", **headers)

    def test_a_files_content_comes_whole(self):
        for size in (0, 1, 5000, (1 << 18) + 1, 1 << 20):
            response = self.content(size)
            self.assertEqual(response.status, 200)
            self.assertEqual(hashlib.sha256(response.body).digest(), hashlib.sha256(numbers(size)).digest())
            self.assertEqual(response.headers["content-type"], "application/octet-stream")
            self.assertEqual(response.headers["x-content-type-options"], "nosniff")
        self.refused(decoded(self.content((1 << 20) + 1)), 413, "resource_exhausted", "Range")

    def test_a_part_of_it_by_a_range(self):
        size = 3 << 20
        whole = numbers(size)
        for value, start, end in (("bytes=0-0", 0, 1), ("bytes=5-9", 5, 10), ("bytes=-7", size - 7, size),
                                  (f"bytes={size - 1}-", size - 1, size), ("bytes=100-", 100, 100 + (1 << 20)),
                                  (f"bytes=10-{size * 2}", 10, 10 + (1 << 20)), (f"bytes=-{size * 2}", 0, 1 << 20)):
            response = self.content(size, Range=value)
            self.assertEqual(response.status, 206, value)
            self.assertEqual(response.headers["content-range"], f"bytes {start}-{end - 1}/{size}", value)
            self.assertEqual(response.body, whole[start:end], value)
        for value in (f"bytes={size}-", "bytes=-0", f"bytes={2**64 - 2}-"):
            response = self.content(size, Range=value)
            self.assertEqual((response.status, response.headers["content-range"]), (416, f"bytes */{size}"), value)
        self.assertEqual(self.content(0, Range="bytes=0-").status, 416)
        for value in ("bytes=0-1,3-4", "lines=1-2", "bytes=2-1", "bytes=a-b", "bytes=-", f"bytes={2**64}-"):
            self.assertEqual((self.content(9, Range=value).status, self.content(9).body), (200, numbers(9)), value)

    def test_a_file_that_changes_meanwhile_is_not_mixed(self):
        sizes = [600000, 500000]
        self.lab.on["file.read"] = lambda link, msgid, params: link.reply(msgid, content=b"x" * 100000,
                                                                        size=sizes.pop(0))
        self.refused(self.content(1), 409, "failed_precondition", "changed")
        self.lab.on["file.read"] = self.lab.replying(content=b"", size=10)
        self.refused(self.content(1), 409, "failed_precondition", "changed")

    # -- who it is

    def test_without_a_proof_nothing_is_dialed(self):
        """OP-19, D-14"""
        before = self.lab.links.qsize()
        for header in ({}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer "}, {"Authorization": "Bearer a b"},
                       {"Authorization": "Bearer ä"}, {"Authorization": "Bearer " + "x" * 4097}, {"Authorization": TOKEN}):
            with self.lab.connect() as client:
                response = decoded(client.request("GET", BASE, **header))
                self.refused(response, 401, "unauthenticated")
                self.assertEqual(response.headers["www-authenticate"].split()[0], "Bearer")
        self.assertEqual(self.lab.links.qsize(), before)

    def test_a_wrong_proof_is_401_and_asks_nothing_more(self):
        """OP-19"""
        with self.lab.connect() as client:
            self.refused(self.lab.call("GET", BASE, client=client, Authorization="Bearer wrong"), 401, "unauthenticated")
            self.assertEqual(self.lab.methods(), [])
            self.assertEqual(self.lab.call("GET", BASE, client=client).status, 200)

    def test_a_connection_has_one_link_for_each_proof(self):
        """OP-1, D-14: what one has shown is not what the next request has."""
        while self.lab.links.qsize() > 0:  # of tests before
            self.lab.links.get()
            self.assertTrue(self.lab.ended.acquire(timeout=TIMEOUT))
        self.lab.on["principal.prove"] = self.lab.replying(principal="human:any", operator=False)
        with self.lab.connect() as client:
            for token, links in (("a", 1), ("a", 1), ("b", 2), ("a", 3)):
                self.assertEqual(self.lab.call("GET", BASE, client=client, Authorization=f"Bearer {token}").status, 200)
                self.assertEqual(self.lab.links.qsize(), links)
        tokens = [params["token"] for method, params in self.lab.asked if method == "principal.prove"]
        self.assertEqual(tokens, ["a", "b", "a"])
        for _ in range(3):  # each of them ends with the connection at the latest
            self.lab.links.get()
            self.assertTrue(self.lab.ended.acquire(timeout=TIMEOUT))

    def test_a_denied_client_gets_403_and_nothing_further_is_asked(self):
        self.lab.on["session.show"] = self.lab.refusing("permission_denied", "not yours")
        self.refused(self.lab.call("GET", f"{BASE}/{ONE}/files"), 403, "permission_denied", "not yours")
        self.assertEqual(self.lab.methods(), ["session.show"])

    def test_a_page_of_another_origin_is_refused(self):
        """OP-19: for every method, whatever it shows."""
        before = self.lab.links.qsize()
        for origin in ("http://evil.example", "https://localhost", "null", "http://localhost:1", "http://localhost/"):
            for method in ("GET", "POST", "DELETE", "OPTIONS"):
                self.refused(self.lab.call(method, BASE, Origin=origin), 403, "permission_denied", "origin")
        self.assertEqual(self.lab.links.qsize(), before)
        self.assertEqual(self.lab.call("GET", BASE, Origin="http://localhost").status, 200)

    # -- the broker's words, and its absence

    def test_codes_become_statuses(self):
        """D-13"""
        for code, status in (("invalid_argument", 400), ("unauthenticated", 401), ("permission_denied", 403),
                             ("not_found", 404), ("already_exists", 409), ("failed_precondition", 409),
                             ("resource_exhausted", 429), ("deadline_exceeded", 504), ("unavailable", 503),
                             ("audit_unavailable", 503), ("replay_expired", 409), ("internal", 500), ("something_new", 500)):
            self.lab.on["session.list"] = self.lab.refusing(code, f'it is "{code}"\x1b')
            response = self.lab.call("GET", BASE)
            self.refused(response, status, code, f'it is "{code}"')
            self.assertEqual("retry-after" in response.headers, status in (429, 503))
            self.assertNotIn(b"\x1b", response.body)

    def test_no_broker_is_503(self):
        self.lab.dial_fault = EAGAIN
        self.addCleanup(setattr, self.lab, "dial_fault", None)
        response = self.lab.call("GET", BASE)
        self.refused(response, 503, "unavailable")
        self.assertIn("retry-after", response.headers)

    def test_a_broker_that_dies_before_its_answer_leaves_it_unknown(self):
        """OP-27: nothing is tried again."""
        def die(link, msgid, params):
            link.sock.shutdown(socket.SHUT_RDWR)
        self.lab.on["session.acquire"] = die
        with self.lab.connect() as client:
            self.refused(self.lab.call("POST", BASE, client=client), 503, "unavailable", "not known")
            self.assertEqual(self.lab.methods(), ["session.acquire"])
            self.assertEqual(self.lab.call("GET", BASE, client=client).status, 200)

    def test_a_broker_that_breaks_the_protocol_is_given_up(self):
        self.lab.on["session.list"] = lambda link, msgid, params: link.send_raw(b"\0\0\0\1\xc1")
        self.refused(self.lab.call("GET", BASE), 503, "unavailable")

    def test_one_slow_answer_holds_nobody_up(self):
        held = []
        self.lab.on["session.list"] = lambda link, msgid, params: held.append((link, msgid))
        with self.lab.connect() as slow:
            slow.send(f"GET {BASE} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            self.assertEqual(self.lab.call("GET", f"{BASE}/{ONE}").status, 200)
            while not held:
                self.assertEqual(self.lab.call("GET", f"{BASE}/{ONE}").status, 200)
            held[0][0].reply(held[0][1], sessions=[], next=0)
            self.assertEqual(slow.response().status, 200)


@unittest.skipUnless(program("caisson-gateway"), "not built")
class Bounds(unittest.TestCase):
    def test_one_request_too_many_is_429(self):
        """Of a gateway for one request at once; health is exempt."""
        with Lab(requests=1) as lab:
            held = []
            lab.on["session.list"] = lambda link, msgid, params: held.append((link, msgid))
            with lab.connect() as first:
                first.send(f"GET {BASE} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
                while not held:
                    lab.ping()
                response = lab.call("GET", BASE)
                self.assertEqual((response.status, response.json["error"]["code"]), (429, "resource_exhausted"))
                self.assertIn("retry-after", response.headers)
                with lab.connect(1) as monitor:
                    self.assertEqual(monitor.get("/healthz").status, 200)
                held[0][0].reply(held[0][1], sessions=[], next=0)
                self.assertEqual(first.response().status, 200)


@unittest.skipUnless(program("caisson-gateway"), "not built")
@unittest.skipUnless(shutil.which("openssl"), "openssl(1) makes the certificates")
class Tls(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = directory.name
        pem, key = certificate(self.dir, "server")
        self.mine, _ = certificate(self.dir, "client")
        self.der = ssl.PEM_cert_to_DER_cert(self.mine.decode())
        self.listener = {"kind": "public", "certificate": pem, "key": key, "askCertificate": True}

    def paths(self, name):
        return [os.path.join(self.dir, f"{name}.{end}") for end in ("pem", "key")]

    def test_a_client_certificate_is_a_proof(self):
        """D-14: the digest of its DER goes to the broker, which knows whose it is."""
        with Lab([self.listener], certificates=[hashlib.sha256(self.der).digest()]) as lab:
            with lab.connect(0, trusting(client=self.paths("client"))) as client:
                self.assertEqual(decoded(client.request("GET", BASE)).json["sessions"][0]["id"], ONE)
                # A token that is shown counts, not what stands behind it.
                self.assertEqual(client.request("GET", BASE, Authorization="Bearer wrong").status, 401)
            self.assertEqual(lab.asked[0], ("principal.prove", {"certificate": hashlib.sha256(self.der).digest()}))
            certificate(self.dir, "stranger")
            with lab.connect(0, trusting(client=self.paths("stranger"))) as client:
                self.assertEqual(client.request("GET", BASE).status, 401)
            with lab.connect(0, trusting()) as client:
                self.assertEqual(client.request("GET", BASE).status, 401)
                self.assertEqual(client.request("GET", BASE, **AUTH).status, 200)
                self.assertEqual(client.request("GET", BASE, Origin="http://localhost", **AUTH).status, 403)
                self.assertEqual(client.request("GET", BASE, Origin="https://localhost", **AUTH).status, 200)

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_curl_over_tls_and_over_a_socket(self):
        with Lab([self.listener, {"kind": "public", "unix": True}]) as lab:
            where = ["--cacert", self.paths("server")[0], f"https://localhost:{lab.addresses[0][1]}{BASE}"]
            local = ["--unix-socket", lab.addresses[1], f"http://localhost{BASE}"]
            for words in (where, local):
                words = ["curl", "-sS", "--max-time", str(int(TIMEOUT)), "-H", f"Authorization: Bearer {TOKEN}", *words]
                listed = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
                self.assertEqual(json.loads(listed)["sessions"][0]["id"], ONE)
                words[-1] += f"/{ONE}/files/content?path=700000"
                file = subprocess.run([*words, "-r", "1000-600000"], stdout=subprocess.PIPE, check=True).stdout
                self.assertEqual(file, numbers(700000)[1000:600001])


if __name__ == "__main__":
    unittest.main()
