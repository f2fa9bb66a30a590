"""Sessions over the network: a real daemon, its gateway and its workers, over real sockets."""

import base64
import hashlib
import os
import re
import shutil
import signal
import socket
import ssl
import unittest

import daemon_lab
from daemon_lab import Daemon
from gateway_host import Raw, certificate, trusting
from gateway_lab import BASE, Socket, TRACE, TRACEPARENT, decoded
from real import wait_for
from wire import Closed, TIMEOUT, program

ALICE, BOB = "token-of-alice", "token-of-bob"

CONFIG = """version: 1
limits: {{ kill_grace: 200ms, shutdown_grace: 5s }}
sessions: {{ max: 8, queue: 1, operation_timeout: 60s }}
runtimes:
  - {{ id: shell, builtin: command, profile: interpreter }}
  - {{ id: other, builtin: command, profile: interpreter }}
principals:
  - {{ id: "human:carol", certificates: [{carol}], runtimes: ["*"] }}
  - {{ id: "human:alice", tokens: [{alice}], runtimes: ["*"] }}
  - {{ id: "human:bob", tokens: [{bob}], runtimes: [other] }}
gateway:
  listen:
    - {{ address: "127.0.0.1:0" }}
    - {{ socket: {dir}/g.sock }}
{tls}"""


class Case(daemon_lab.Case):
    carol = "0" * 64

    def configure(self, grace="20s", more=""):
        path, tls = self.dir / "c.yaml", self.make_tls()
        path.write_text(CONFIG.format(
            dir=self.dir, carol=self.carol, tls=tls, alice=hashlib.sha256(ALICE.encode()).hexdigest(),
            bob=hashlib.sha256(BOB.encode()).hexdigest()) + more)
        return path

    def make_tls(self):
        return ""

    def setUp(self):
        if program("caisson-gateway") is None:
            self.skipTest("not built")
        super().setUp()
        self.daemon = Daemon(self)

    def connect(self, where=0, tls=None):
        found = re.findall(r"gateway listens on (\S+)", self.daemon.stderr())[where]
        local = "/" in found
        sock = socket.socket(socket.AF_UNIX if local else socket.AF_INET)
        self.addCleanup(sock.close)
        sock.settimeout(TIMEOUT)
        sock.connect(found if local else ("127.0.0.1", int(found.rpartition(":")[2])))
        return Raw(sock if tls is None else tls.wrap_socket(sock, server_hostname="localhost"))

    def call(self, method, path, body=None, token=ALICE, client=None, **headers):
        return decoded((client or self.connect()).request(
            method, path, body, **{"Authorization": f"Bearer {token}", **headers}))

    def acquire(self, body=b"{}", **headers):
        response = self.call("POST", BASE, body, **headers)
        self.assertEqual(response.status, 201, response)
        return response.json["id"]

    def open(self, session, where=0, tls=None, token=ALICE):
        ws = Socket(self.connect(where, tls), f"{BASE}/{session}/operations:ws", Authorization=f"Bearer {token}")
        self.assertEqual(ws.response.status, 101, ws.response)
        return ws

    @staticmethod
    def shell(ws, line, **members):
        ws.send(type="send", operation={"command": {"shell": line}}, **members)

    @staticmethod
    def output(events):
        return b"".join(base64.b64decode(e["output"]["data"]) for e in events if e["type"] == "output")


class Sessions(Case):
    def test_a_session_from_its_beginning_to_its_end(self):
        """OP-12, OP-13, OP-24, OP-28: a client that has nothing but HTTP and a WebSocket."""
        id = self.acquire(b'{"leaseMs":60000}', traceparent=TRACEPARENT)
        ws = self.open(id)
        self.shell(ws, "cat; pwd; echo err >&2; exit 3")
        events = ws.until("completed", "failed")
        self.assertEqual([e["sequence"] for e in events], list(range(1, len(events) + 1)))
        self.assertEqual(events[0]["type"], "accepted")
        self.assertEqual(events[-1]["completed"]["command"]["exitCode"], 3)
        self.assertIn(b"/workspace\n", self.output(events))
        operation = events[0]["accepted"]["operationID"]
        shown = self.call("GET", f"{BASE}/{id}/operations/{operation}").json
        self.assertEqual((shown["operationID"], shown["session"], shown["sequence"]), (operation, id, len(events)))
        self.assertEqual([o["operationID"] for o in self.call("GET", f"{BASE}/{id}/operations").json["operations"]],
                         [operation])
        self.assertGreater(self.call("POST", f"{BASE}/{id}/heartbeat").json["leaseUntil"], 0)
        released = self.call("DELETE", f"{BASE}/{id}?wait=true")
        self.assertEqual((released.status, released.json["state"]), (200, "closed"))
        self.shell(ws, "true")
        error = ws.receive()
        self.assertEqual((error["type"], error["code"]), ("error", "failed_precondition"))  # OP-6
        traces = {r.get("trace") for r in self.records() if r.get("operation") == operation}
        self.assertIn(TRACE, traces)

    def test_files_by_operations_and_by_http(self):
        """OP-5"""
        id, data = self.acquire(), os.urandom(300000)
        ws = self.open(id)
        for operation in ({"createDirectory": {"path": "d/e", "recursive": True}},
                          {"writeFile": {"path": "d/e/f", "data": base64.b64encode(data).decode()}},
                          {"renameFile": {"from": "d/e/f", "to": "d/g"}}):
            ws.send(type="send", operation=operation)
            self.assertEqual(ws.until("completed", "failed")[-1]["type"], "completed")
        self.assertEqual([e["name"] for e in self.call("GET", f"{BASE}/{id}/files?path=d").json["entries"]], ["e", "g"])
        self.assertEqual(self.call("GET", f"{BASE}/{id}/files/stat?path=d/g").json["size"], len(data))
        self.assertEqual(self.call("GET", f"{BASE}/{id}/files/content?path=d/g").body, data)
        part = self.call("GET", f"{BASE}/{id}/files/content?path=d/g", Range="bytes=100000-100099")
        self.assertEqual((part.status, part.body), (206, data[100000:100100]))
        self.assertEqual(self.call("GET", f"{BASE}/{id}/files/content?path=d/nothing").status, 404)
        self.assertIn(self.call("GET", f"{BASE}/{id}/files/content?path=../x").status, (400, 403, 404))

    def test_what_is_anothers_is_not_found(self):
        """OP-19, D-14"""
        id = self.acquire()
        self.assertEqual(self.call("GET", f"{BASE}/{id}", token="nobody").status, 401)
        self.assertEqual(self.call("GET", f"{BASE}/{id}", token=BOB).status, 404)
        self.assertEqual(self.call("POST", BASE, token=BOB).status, 403)
        self.assertEqual(self.call("GET", BASE, token=BOB).json["sessions"], [])
        theirs = self.call("POST", BASE.replace("shell", "other"), token=BOB)
        self.assertEqual(theirs.status, 201)
        self.assertEqual(self.call("GET", f"{BASE}/{theirs.json['id']}").status, 404)

    def test_the_same_key_is_the_same_session(self):
        """D-10"""
        first = self.call("POST", BASE, Idempotency_Key="one")
        again = self.call("POST", BASE, Idempotency_Key="one")
        self.assertEqual((first.status, again.status, again.json["id"]), (201, 200, first.json["id"]))
        self.assertEqual(self.call("POST", BASE, b'{"queue":1}', Idempotency_Key="one").status, 409)


class Operations(Case):
    def test_a_cancel_ends_what_runs(self):
        """D-6, OP-30"""
        ws = self.open(self.acquire())
        self.shell(ws, "echo begun; sleep 1000")
        operation = ws.until("output")[0]["accepted"]["operationID"]
        ws.send(type="cancel", operationID=operation)
        values = ws.until("failed")
        self.assertIn({"type": "cancel", "operationID": operation}, values)
        self.assertEqual(values[-1]["failed"]["code"], "canceled")
        self.shell(ws, "echo next")
        self.assertEqual(self.output(ws.until("completed")), b"next\n")

    def test_a_full_queue_refuses_and_the_connection_stays(self):
        """OP-6, OP-9, OP-23: one runs, one waits, the third is refused."""
        id = self.acquire()
        one, two, three = (self.open(id) for _ in range(3))
        self.shell(one, "echo begun; sleep 1000")
        one.until("output")
        self.shell(two, "echo two")
        two.until("accepted")
        self.shell(three, "echo three")
        self.assertEqual(three.receive()["code"], "resource_exhausted")
        one.send(type="cancel", operationID=self.call("GET", f"{BASE}/{id}").json["running"])
        one.until("failed")
        self.assertEqual(self.output(two.until("completed")), b"two\n")
        self.shell(three, "echo three")
        self.assertEqual(self.output(three.until("completed")), b"three\n")

    def test_who_goes_away_finds_all_of_it_again(self):
        """OP-26, OP-27, OP-40: by resume, each event once and in order."""
        id = self.acquire()
        ws = self.open(id)
        self.shell(ws, "echo 1; sleep 2; seq 2 2000")
        seen = ws.until("output")
        operation = seen[0]["accepted"]["operationID"]
        ws.raw.sock.close()
        self.assertEqual(self.call("GET", f"{BASE}/{id}/operations/{operation}").json["state"], "running")
        ws = self.open(id)
        ws.send(type="resume", operationID=operation, after=seen[-1]["sequence"])
        seen += ws.until("completed", "failed")
        self.assertEqual([e["sequence"] for e in seen], list(range(1, len(seen) + 1)))
        self.assertEqual(self.output(seen), b"".join(b"%d\n" % i for i in range(1, 2001)))
        for after in (0, 1):  # it is over, and still there
            ws.send(type="resume", operationID=operation, after=after)
            self.assertEqual(ws.until("completed"), seen[after:])
        ws.send(type="resume", operationID=operation, after=len(seen) + 1)
        self.assertEqual(ws.receive()["code"], "invalid_argument")  # OP-42

    def test_the_gateways_death_costs_a_connection_and_no_event(self):
        """OP-1, OP-27"""
        id = self.acquire()
        ws = self.open(id)
        self.shell(ws, "echo a; sleep 2; seq 1 500")
        seen = ws.until("output")
        os.kill(self.daemon.service("gateway"), signal.SIGKILL)
        with self.assertRaises((Closed, OSError)):
            while True:
                seen.append(ws.receive())
        ws = self.open(id)
        ws.send(type="resume", operationID=seen[0]["accepted"]["operationID"], after=seen[-1]["sequence"])
        seen += ws.until("completed", "failed")
        self.assertEqual([e["sequence"] for e in seen], list(range(1, len(seen) + 1)))
        self.assertEqual(self.output(seen), b"a\n" + b"".join(b"%d\n" % i for i in range(1, 501)))

    def test_the_brokers_death_is_said_and_the_ending_is_known_after(self):
        """OP-27"""
        id = self.acquire()
        ws = self.open(id)
        self.shell(ws, "echo a; sleep 1000")
        operation = ws.until("output")[0]["accepted"]["operationID"]
        os.kill(self.daemon.service("broker"), signal.SIGKILL)
        values = []
        with self.assertRaises(Closed) as end:
            while True:
                values.append(ws.receive())
        self.assertEqual((values[-1]["code"], end.exception.args[0]), ("unavailable", 1012))
        wait_for(lambda: self.call("GET", f"{BASE}/{id}").status == 200, "the next broker")
        shown = self.call("GET", f"{BASE}/{id}/operations/{operation}")
        self.assertIn(shown.status, (200, 404, 409))
        if shown.status == 200:
            self.assertNotIn(shown.json["state"], ("queued", "running", "succeeded"))


class Pace(Case):
    def configure(self):
        return super().configure(more="retention: { operation: 4KiB }\n")

    def test_a_slow_client_gets_all_of_it_and_slows_no_other(self):
        """OP-17, OP-40: its socket's fullness reaches the command, whatever is retained."""
        slow = self.open(self.acquire())
        slow.raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        other = self.open(self.acquire())
        self.shell(slow, "seq 1 800000")
        seen = []
        while not seen or seen[-1]["type"] not in ("completed", "failed"):
            seen.append(slow.receive())
            if len(seen) % 16 == 0:  # a bite, and then all of somebody else's
                self.shell(other, "seq 1 40000")
                events = other.until("completed", "failed")
                self.assertEqual(self.output(events), b"".join(b"%d\n" % i for i in range(1, 40001)))
        self.assertEqual([e["sequence"] for e in seen], list(range(1, len(seen) + 1)))
        self.assertEqual([e for e in seen if e["type"] == "gap"], [])
        self.assertEqual(self.output(seen), b"".join(b"%d\n" % i for i in range(1, 800001)))


@unittest.skipUnless(shutil.which("openssl"), "openssl(1) makes the certificates")
class Tls(Case):
    def make_tls(self):
        certificate(self.dir, "server")
        pem, _ = certificate(self.dir, "client")
        self.carol = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode())).hexdigest()
        return f"""    - {{ address: "127.0.0.1:0",
        tls: {{ certificate: {self.dir}/server.pem, key: {self.dir}/server.key, clients: true }} }}
"""

    def test_tls_and_a_local_socket_carry_the_same(self):
        id = self.acquire()
        for where, tls in ((1, None), (2, trusting((self.dir / "server.pem").read_bytes()))):
            ws = self.open(id, where, tls)
            self.shell(ws, "echo hi")
            self.assertEqual(self.output(ws.until("completed")), b"hi\n")

    def test_a_certificate_is_a_principal(self):
        """D-14"""
        mine = trusting(client=[self.dir / "client.pem", self.dir / "client.key"])
        with self.connect(2, mine) as client:
            session = decoded(client.request("POST", BASE, b"{}")).json
            self.assertEqual(session["principal"], "human:carol")
        with self.connect(2, trusting()) as client:
            self.assertEqual(client.request("POST", BASE, b"{}").status, 401)


if __name__ == "__main__":
    unittest.main()
