"""A real daemon and its gateway, for clients that are not ours."""

import base64
import contextlib
import hashlib
import importlib.util
import json
import os
import queue
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading

import network_lab
import wire
from network_lab import TOKEN, WAIT
from wire import program

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
                raise AssertionError(f"it ended: {wire.written(self.errors)}")
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
