"""Clients that are not ours before a real daemon and its gateway: curl, others' WebSocket libraries,
a reverse proxy, a browser.  What is not installed is skipped.
"""

import base64
import contextlib
import hashlib
import http.server
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse

import network_lab
import wire
from network_lab import TOKEN, WAIT
from real import wait_for
from wire import program

TIMEOUT = 400  # of this file, for run.py
CLIENTS = wire.ROOT / "tests" / "clients"
BASE = "/v1/namespaces/default/runtimes/shell/sessions"
NODE = shutil.which("node")
OPTIONS = [] if NODE is None else subprocess.run(
    [NODE, "--experimental-websocket", "-p", "typeof WebSocket"], capture_output=True, text=True,
    check=False).stdout.split()


def has_module(name):
    return importlib.util.find_spec(name) is not None


# name: (command, is it there, can it set headers, Debian's package)
LIBRARIES = {
    "websockets": ([sys.executable, CLIENTS / "websockets_client.py"], has_module("websockets"), True,
                   "python3-websockets"),
    "wsproto": ([sys.executable, CLIENTS / "wsproto_client.py"], has_module("wsproto"), True,
                "python3-wsproto"),
    "ws": ([NODE, CLIENTS / "ws_client.mjs"], NODE and os.path.isdir("/usr/share/nodejs/ws"), True,
           "node-ws"),
    "node": ([NODE, "--no-warnings", "--experimental-websocket", CLIENTS / "ws_client.mjs", "built-in"],
             OPTIONS == ["function"], False, "nodejs of version 20.10 or later"),
}


class Lab(network_lab.Case):
    """Alice has a token, carol a certificate; the listener with TLS asks for one."""

    settings = ""  # of the gateway

    def configure(self, grace="20s", more=""):
        path = super().configure(grace, more)
        self.certificate, self.key = self.dir / "carol.pem", self.dir / "carol.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=carol",
                        "-keyout", self.key, "-out", self.certificate],
                       check=True, capture_output=True)
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.certificate.read_text())).hexdigest()
        text = path.read_text()
        for old, new in (("key: server.key }", "key: server.key, clients: true }"),
                         ("\ngateway:\n", f'\n  - {{ id: "human:carol", certificates: ["{digest}"], '
                                          'runtimes: [shell] }\ngateway:\n' + self.settings)):
            self.assertIn(old, text)
            text = text.replace(old, new)
        path.write_text(text)
        return path

    def setUp(self):
        if program("caisson-gateway") is None:
            self.skipTest("caisson-gateway is not built")
        if shutil.which("curl") is None:
            self.skipTest("curl is not installed: apt-get install curl")
        super().setUp()
        self.daemon()

    # -- curl

    def curl(self, *words, token=TOKEN, at=None):
        """(status, headers, body)"""
        head, body = self.dir / "head", self.dir / "body"
        body.write_bytes(b"")
        words = ["curl", "-sS", "-D", head, "-o", body, "-w", "%{http_code}", *words]
        if token is not None:
            words += ["-H", f"Authorization: Bearer {token}"]
        result = subprocess.run([*words, *(at or [])], capture_output=True, text=True,
                                timeout=WAIT, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return int(result.stdout), head.read_text("latin-1").lower(), body.read_bytes()

    def json(self, *words, status=200, **more):
        found, _, body = self.curl(*words, **more)
        self.assertEqual(found, status, body)
        return json.loads(body)

    def url(self, path="", scheme="http"):
        return f"{scheme}://{self.tls if scheme == 'https' else self.plain}{BASE}{path}"

    def acquire(self):
        return self.json("-X", "POST", self.url(), status=201)["id"]


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
        self.json("-X", "POST", "-H", "Transfer-Encoding: chunked", "-d", "{}", self.url(), status=501)
        self.assertEqual(self.curl("-I", self.url())[0], 200)


class Client:
    """A program of tests/clients, started."""

    def __init__(self, case, library, url, subprotocols=(), headers=None, certificate=False):
        words, there, with_headers, package = LIBRARIES[library]
        if not there:
            case.skipTest(f"{library} is not installed: apt-get install {package}")
        if headers is None and with_headers and not certificate:
            headers = {"Authorization": f"Bearer {TOKEN}"}
        elif headers is None and not certificate:
            subprotocols = ["caisson", f"caisson.bearer.{TOKEN}"]
        o = {"url": url, "headers": headers or {}, "subprotocols": list(subprotocols),
             "ca": str(case.dir / "server.pem")}
        if certificate:
            o.update(certificate=str(case.certificate), key=str(case.key))
        self.case, self.errors = case, tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            env={"PATH": os.environ["PATH"], "PYTHONWARNINGS": "ignore", "CLIENT": json.dumps(o),
                 "NODE_EXTRA_CA_CERTS": o["ca"]})
        case.addCleanup(self.cut)
        self.said = queue.Queue()
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        for line in self.process.stdout:
            self.said.put(json.loads(line))
        self.said.put(None)

    def cut(self):
        """Ends it as a crash does."""
        if self.process.stdin.closed:
            return
        self.process.kill()
        self.process.wait()
        self.thread.join(WAIT)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()

    def next(self):
        """What it says next, but for pings."""
        while True:
            said = self.said.get(timeout=WAIT)
            if said is None:
                self.errors.seek(0)
                raise AssertionError(f"it ended: {self.errors.read().decode()}")
            if said != ["ping"]:
                return said

    def expect(self, *wanted):
        said = self.next()
        self.case.assertEqual(said[:len(wanted)], list(wanted))
        return said

    def tell(self, what, value):
        self.process.stdin.write(json.dumps([what, value]).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, **message):
        self.tell("text", json.dumps(message))

    def shell(self, line):
        self.send(type="send", operation={"command": {"shell": line}})

    def receive(self):
        return json.loads(self.expect("text")[1])

    def until(self, *types):
        events = [self.receive()]
        while events[-1]["type"] not in types:
            events.append(self.receive())
        return events


def output(events):
    return b"".join(base64.b64decode(e["output"]["data"]) for e in events if e["type"] == "output")


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


NGINX = """daemon off;
worker_processes 1;
error_log stderr notice;
pid {dir}/nginx.pid;
events {{ worker_connections 64; }}
http {{
  access_log {dir}/access.log;
  client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;
  uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
  proxy_http_version 1.1;
  proxy_set_header Host $http_host;
  proxy_set_header Upgrade $http_upgrade;
  proxy_set_header Connection $forward;
  map $http_upgrade $forward {{ default upgrade; "" ""; }}
  server {{
    listen 127.0.0.1:{plain} reuseport;
    root {pages};
    location /v1/ {{ proxy_pass http://unix:{unix}:; proxy_read_timeout 2s; proxy_send_timeout 2s; }}
    location /report {{ proxy_pass http://127.0.0.1:{report}; }}
  }}
  server {{
    listen 127.0.0.1:{elsewhere} reuseport;
    root {pages};
    location /report {{ proxy_pass http://127.0.0.1:{report}; }}
  }}
  server {{
    listen 127.0.0.1:{secure} ssl reuseport;
    ssl_certificate {dir}/server.pem;
    ssl_certificate_key {dir}/server.key;
    location /v1/ {{
      proxy_pass https://{tls};
      proxy_ssl_trusted_certificate {dir}/server.pem;
      proxy_ssl_verify on;
      proxy_ssl_name localhost;
    }}
  }}
}}
"""


@contextlib.contextmanager
def ports(n):
    """Nobody else gets them meanwhile; who listens with SO_REUSEPORT, as the same user, does."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(n):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.bind(("127.0.0.1", 0))
            found.append(sock.getsockname()[1])
        yield found


class Proxy(Lab):
    """nginx before the gateway, as its manual has it for a WebSocket, with less patience."""

    settings = "  ping_interval: 500ms\n"

    def setUp(self):
        nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if nginx is None:
            self.skipTest("nginx is not installed: apt-get install nginx-light")
        super().setUp()
        self.reports = queue.Queue()
        reports = self.reports

        class Report(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Report)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with ports(3) as found:
            self.start_nginx(nginx, server.server_port, *found)

    def start_nginx(self, nginx, report, plain, elsewhere, secure):
        self.proxied, self.secured = f"127.0.0.1:{plain}", f"127.0.0.1:{secure}"
        self.elsewhere = f"127.0.0.1:{elsewhere}"
        (self.dir / "nginx.conf").write_text(NGINX.format(
            dir=self.dir, pages=CLIENTS, unix=self.unix, report=report, tls=self.tls,
            plain=plain, elsewhere=elsewhere, secure=secure))
        with open(self.dir / "nginx.err", "wb") as errors:
            process = subprocess.Popen([nginx, "-p", self.dir, "-c", self.dir / "nginx.conf"],
                                       stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        self.addCleanup(process.wait, WAIT)
        self.addCleanup(process.terminate)
        if os.geteuid() == 0:
            # Its workers are another user, to whom the socket is not open otherwise.
            os.chmod(self.unix, 0o666)

        def answers():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", plain), WAIT):
                return True
            self.assertIsNone(process.poll(), (self.dir / "nginx.err").read_text())
            return False
        wait_for(answers, "nginx")

    def socket_url(self, scheme, address):
        self.sandbox = self.acquire()
        return f"{scheme}://{address}{BASE}/{self.sandbox}/operations:ws"

    def access(self):
        """(method, status) of each request that the proxy carried."""
        text = (self.dir / "access.log").read_text()
        return re.findall(r'"(\S+) \S+ \S+" (\d+)', text)


class Proxied(Proxy):
    def test_requests_and_operations_pass(self):
        for scheme, address, library in (("ws", self.proxied, "websockets"),
                                         ("wss", self.secured, "websockets"), ("ws", self.proxied, "ws"),
                                         ("wss", self.secured, "ws")):
            with self.subTest(scheme=scheme, library=library):
                web = scheme.replace("ws", "http")
                ca = ["--cacert", self.dir / "server.pem"]
                self.json(f"{web}://{address}{BASE}", at=ca)
                self.json("-H", f"Origin: {web}://{address}", f"{web}://{address}{BASE}", at=ca)
                self.json("-H", f"Origin: {web}://{self.elsewhere}", f"{web}://{address}{BASE}", at=ca,
                          status=403)
                client = Client(self, library, self.socket_url(scheme, address))
                client.expect("open")
                client.shell("echo hi")
                self.assertEqual(output(client.until("completed", "failed")), b"hi\n")
                client.tell("close", 1000)
                client.expect("close", 1000)

    def test_pings_keep_what_is_silent(self):
        """For longer than the proxy waits for a byte."""
        client = Client(self, "wsproto", self.socket_url("ws", self.proxied))
        client.expect("open")
        for _ in range(6):  # 3 s, of which it waits 2
            self.assertEqual(client.said.get(timeout=WAIT), ["ping"])
        client.shell("echo hi")
        self.assertEqual(output(client.until("completed", "failed")), b"hi\n")


class Browser(Proxy):
    def browse(self, page, **o):
        """What the page reports."""
        command = [self.browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   "--disable-dev-shm-usage", "--disable-background-networking",
                   f"--user-data-dir={self.dir}/profile", "--remote-debugging-pipe",
                   f"http://{page}/page.html#{urllib.parse.quote(json.dumps(o))}"]
        commands, answers = os.pipe(), os.pipe()

        def be_child():  # its debugging pipe: 3 and 4, whose end is its own
            os.dup2(commands[0], 53)
            os.dup2(answers[1], 54)
            os.dup2(53, 3)
            os.dup2(54, 4)
        with open(self.dir / "browser.err", "wb") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, close_fds=False,
                start_new_session=True, preexec_fn=be_child,
                env={"PATH": os.environ["PATH"], "HOME": str(self.dir)})
        try:
            return self.reports.get(timeout=3 * WAIT)
        except queue.Empty:
            self.fail((self.dir / "browser.err").read_text()[-2000:])
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for fd in (*commands, *answers):
                os.close(fd)

    def setUp(self):
        names = ("chromium", "chromium-browser", "google-chrome")
        self.browser = next(filter(None, map(shutil.which, names)), None)
        if self.browser is None:
            self.skipTest("no browser is installed: apt-get install chromium")
        super().setUp()

    def options(self):
        url = self.socket_url("ws", self.proxied)
        return {"url": url, "http": f"http://{self.proxied}{BASE}/{self.sandbox}", "token": TOKEN,
                "shell": "echo browser", "subprotocols": ["caisson", f"caisson.bearer.{TOKEN}"]}

    def test_a_page_of_the_same_origin_runs_a_command(self):
        """OP-19, OP-24"""
        asked, opened, *events, closed = self.browse(self.proxied, **self.options())
        self.assertEqual(asked[:2], ["http", 200])
        self.assertEqual(asked[2]["id"], self.sandbox)
        self.assertEqual((opened, closed), (["open", "caisson"], ["close", 1000]))
        events = [event for _, event in events]
        self.assertEqual(output(events), b"browser\n")
        self.assertEqual(events[-1]["completed"]["command"]["exitCode"], 0)

    def test_a_page_of_another_origin_does_nothing(self):
        """OP-19: though it has the token."""
        self.assertEqual(self.browse(self.elsewhere, **self.options()),
                         [["http", "TypeError"], ["close", 1006]])
        self.assertEqual(self.json(self.url(f"/{self.sandbox}/operations")), {"operations": []})
        self.assertIn(("GET", "403"), self.access())  # the WebSocket's, whose preflight there is none
        self.assertNotIn(("GET", "101"), self.access())


if __name__ == "__main__":
    unittest.main()
