"""The WebSocket of operations, before a scripted broker, with the suite's own client and others'."""

import base64
import json
import queue
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

from gateway_host import SETTLED, SHUTDOWN, certificate, trusting
from gateway_lab import BASE, FOREIGN, Lab, ONE, TOKEN, TRACE, TRACEPARENT
from wire import Closed, TIMEOUT, program

PATH = f"{BASE}/{ONE}/operations:ws"


class Case(unittest.TestCase):
    lease = False

    def setUp(self):
        if program("caisson-gateway") is None:
            self.skipTest("not built")
        self.lab = Lab(lease=self.lease)
        self.lab.__enter__()
        self.addCleanup(self.lab.end, self)

    def running(self):
        """From now on what is submitted runs until the test ends it; a queue of (link, id)."""
        started = queue.Queue()

        def submit(link, msgid, params):
            started.put((link, self.lab.admit(link, msgid, params)))
        self.lab.on["operation.submit"] = submit
        return started

    def error(self, value, code, *words):
        self.assertEqual((value["type"], value.get("code")), ("error", code), value)
        self.assertEqual(set(value), {"type", "error", "code"})
        for word in words:
            self.assertIn(word, value["error"])

    def policy(self, ws, *words):
        code, reason = ws.closed()
        self.assertEqual(code, 1008, reason)
        for word in words:
            self.assertIn(word, reason)


class Upgrade(Case):
    def test_it_is_authenticated_and_authorised_first(self):
        """OP-19: all of it is answered as HTTP, and nothing is submitted."""
        for headers, status in (({"Authorization": "Bearer wrong"}, 401), ({"Authorization": "Basic x"}, 401),
                                ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
                                ({"traceparent": "x"}, 400), ({"Sec_WebSocket_Version": "8"}, 426)):
            with self.lab.socket(**headers) as ws:
                self.assertEqual(ws.response.status, status, headers)
        for path, status in ((PATH.replace(ONE, FOREIGN), 404), (PATH.replace(ONE, "s-nobody"), 404), (PATH + "?x=1", 400),
                             (PATH.replace("default", "x"), 404)):
            with self.lab.socket(path) as ws:
                self.assertEqual(ws.response.status, status, path)
        with self.lab.connect() as plain:
            self.assertEqual(plain.upgrade(PATH).status, 401)
        self.lab.on["session.show"] = self.lab.refusing("permission_denied")
        with self.lab.socket() as ws:
            self.assertEqual((ws.response.status, ws.response.json["error"]["code"]), (403, "permission_denied"))
        self.assertEqual(set(self.lab.methods()), {"session.show"})
        self.lab.dial_fault = 11
        with self.lab.socket() as ws:
            self.assertEqual(ws.response.status, 503)

    def test_an_origin_of_ours_and_none_are_welcome(self):
        """OP-19"""
        for headers in ({}, {"Origin": "http://localhost"}, {"Origin": "HTTP://LOCALHOST"}):
            with self.lab.socket(**headers) as ws:
                self.assertEqual(ws.response.status, 101)
                self.assertNotIn("sec-websocket-protocol", ws.response.headers)

    def test_a_browsers_token_comes_as_a_subprotocol(self):
        """OP-19: where no header can be set; the token is never in the answer."""
        def upgrade(offers):
            client = self.lab.connect()
            self.addCleanup(client.sock.close)
            return client.upgrade(PATH, Origin="http://localhost", Sec_WebSocket_Protocol=offers)
        answer = upgrade(f"caisson, caisson.bearer.{TOKEN}")
        self.assertEqual((answer.status, answer.headers["sec-websocket-protocol"]), (101, "caisson"))
        self.assertNotIn(TOKEN, str(answer.headers))
        answer = upgrade(f"caisson.bearer.{TOKEN}")
        self.assertEqual((answer.status, "sec-websocket-protocol" in answer.headers), (101, False))
        for offers in ("caisson", "caisson.bearer.wrong", "caisson, caisson.bearer.", f"caisson.Bearer.{TOKEN}"):
            self.assertEqual(upgrade(offers).status, 401, offers)
        with self.lab.connect() as client:  # it is no proof of any other request
            self.assertEqual(client.request("GET", BASE, Sec_WebSocket_Protocol=f"caisson.bearer.{TOKEN}").status, 401)

    def test_opening_submits_nothing(self):
        """OP-20"""
        with self.lab.socket() as ws:
            ws.send(type="heartbeat")
            ws.run()
            ws.until("completed")
        self.assertEqual(self.lab.methods(), ["session.show", "operation.submit"])


class Operations(Case):
    def test_two_sends_on_one_connection(self):
        """OP-21, OP-24: two requests upstream, two ids; the id comes with accepted."""
        with self.lab.socket() as ws:
            ids = []
            for _ in range(2):
                ws.run("echo", "hi")
                first, second, last = ws.until("completed")
                self.assertEqual((first["sequence"], first["type"]), (1, "accepted"))
                ids.append(first["accepted"]["operationID"])
                self.assertEqual(second, {"sequence": 2, "type": "output", "output": {
                    "stream": "stdout", "data": base64.b64encode(b"hi\n").decode()}})
                self.assertEqual(last, {"sequence": 3, "type": "completed",
                                        "completed": {"command": {"exitCode": 0}}})
            self.assertEqual(ids, ["o-1", "o-2"])
        self.assertEqual(self.lab.methods().count("operation.submit"), 2)
        self.assertEqual(self.lab.links.qsize(), 1)

    def test_every_operation_is_carried_whole(self):
        """OP-10, OP-11"""
        text, data = "ä€", bytes(range(256))
        encoded = base64.b64encode(data).decode()
        rows = [
            ({"command": {"argv": ["a", "b c"], "directory": "d", "env": {"K": text}, "stdin": encoded, "timeoutMs": 5}},
             {"kind": "command", "argv": ["a", "b c"], "directory": "d", "env": {"K": text}, "content": data, "timeoutMs": 5}),
            ({"command": {"shell": "echo $A"}}, {"kind": "command", "shell": "echo $A"}),
            ({"turn": {"message": {"a": [1, 2.5, None, -7, 2**64 - 1]}, "maxSteps": 2, "maxToolCalls": 0, "timeoutMs": 9,
                       "tools": ["t"], "namespaces": [], "purpose": "p", "state": [], "metadata": {"m": 1}}},
             {"kind": "turn", "message": {"a": [1, 2.5, None, -7, 2**64 - 1]}, "maxSteps": 2, "maxToolCalls": 0,
              "timeoutMs": 9, "tools": ["t"], "namespaces": [], "purpose": "p", "state": [], "metadata": {"m": 1}}),
            ({"writeFile": {"path": "a", "data": encoded, "append": True}},
             {"kind": "writeFile", "path": "a", "content": data, "append": True}),
            ({"createDirectory": {"path": "a", "recursive": False}}, {"kind": "createDirectory", "path": "a", "recursive": False}),
            ({"deleteFile": {"path": "a", "recursive": True}}, {"kind": "deleteFile", "path": "a", "recursive": True}),
            ({"renameFile": {"from": "a", "to": "b"}}, {"kind": "renameFile", "path": "a", "to": "b"}),
        ]
        with self.lab.socket() as ws:
            for operation, params in rows:
                ws.send(type="send", operation=operation)
                ws.until("completed")
                self.assertEqual(self.lab.last("operation.submit"), {**params, "session": ONE})

    def test_a_key_and_a_trace_go_along(self):
        """OP-38: the frame's trace, or that of the upgrade."""
        other = TRACEPARENT.replace(TRACE, TRACE[::-1])
        with self.lab.socket(traceparent=other) as ws:
            ws.run(idempotencyKey="k-1", traceparent=TRACEPARENT)
            ws.until("completed")
            submitted = self.lab.last("operation.submit")
            self.assertEqual((submitted["idempotencyKey"], submitted["trace"]), ("k-1", TRACE))
            ws.run()
            ws.until("completed")
            self.assertEqual(self.lab.last("operation.submit")["trace"], TRACE[::-1])

    def test_a_second_send_closes_the_connection(self):
        """OP-21"""
        started = self.running()
        with self.lab.socket() as ws:
            ws.run()
            ws.until("accepted")
            ws.run()
            self.policy(ws, "one at a time")
        self.assertTrue(self.lab.ended.acquire(timeout=TIMEOUT))
        self.assertEqual(started.qsize(), 1)
        self.assertNotIn("operation.stop", self.lab.methods())  # OP-26

    def test_even_before_the_first_was_admitted(self):
        """OP-21"""
        self.lab.on["operation.submit"] = lambda link, msgid, params: None
        for second in ({"type": "send", "operation": {"command": {"shell": "x"}}},
                       {"type": "resume", "operationID": "o-1", "after": 0}, {"type": "cancel", "operationID": "o-1"}):
            with self.lab.socket() as ws:
                ws.run()
                ws.send(**second)
                self.policy(ws)

    def test_a_cancel_of_another_id_closes_the_connection(self):
        """OP-22, D-6"""
        self.running()
        for id in ("o-99", "o", "x" * 64):
            with self.lab.socket() as ws:
                ws.run()
                ws.until("accepted")
                ws.send(type="cancel", operationID=id)
                self.policy(ws, "another operation")
        with self.lab.socket() as ws:  # nothing is active, nothing was
            ws.send(type="cancel", operationID="o-1")
            self.policy(ws, "another operation")
        self.assertNotIn("operation.stop", self.lab.methods())

    def test_a_cancel_is_acknowledged_and_the_operation_ends(self):
        """D-6: with one failed event; twice is once, and one that comes late is no offence."""
        self.running()
        with self.lab.socket() as ws:
            ws.run()
            operation = ws.until("accepted")[-1]["accepted"]["operationID"]
            ws.send(type="cancel", operationID=operation)
            values = ws.until("failed")
            self.assertIn({"type": "cancel", "operationID": operation}, values)
            self.assertEqual(values[-1]["failed"]["code"], "canceled")
            ws.send(type="cancel", operationID=operation)
            self.error(ws.receive(), "failed_precondition", "over")
            ws.run()
            ws.until("accepted")
        self.assertEqual(self.lab.last("operation.stop"), {"operation": operation})

    def test_an_error_keeps_the_connection(self):
        """OP-6, OP-23, OP-24"""
        submit = self.lab.on["operation.submit"]
        with self.lab.socket() as ws:
            for code in ("resource_exhausted", "failed_precondition", "already_exists", "invalid_argument"):
                self.lab.on["operation.submit"] = self.lab.refusing(code, "the queue is full")
                ws.run()
                self.error(ws.receive(), code, "the queue is full")
            self.lab.on["operation.submit"] = submit
            ws.run()
            self.assertEqual(ws.until("completed")[-1]["sequence"], 3)

    def test_a_disconnect_detaches(self):
        """OP-26, D-4: whether it is said or not, nothing is stopped."""
        started = self.running()
        for farewell in (lambda ws: ws.raw.send_frame(8, b"\x03\xe8"), lambda ws: None):
            with self.lab.socket() as ws:
                ws.run()
                ws.until("accepted")
                farewell(ws)
            self.assertTrue(self.lab.ended.acquire(timeout=TIMEOUT))
        self.assertEqual(started.qsize(), 2)
        self.assertNotIn("operation.stop", self.lab.methods())

    def test_events_of_others_never_arrive(self):
        """OP-1"""
        started = self.running()
        with self.lab.socket() as ws:
            ws.run()
            ws.until("accepted")
            link, operation = started.get(timeout=TIMEOUT)
            self.lab.event(link, "o-other", 7, "output", stream="stdout", data=b"x")
            self.lab.event(link, operation, 2, "progress", body={"kind": "status", "data": "\x1b[2J"})
            self.assertEqual(ws.receive(), {"sequence": 2, "type": "progress",
                                            "progress": {"kind": "status", "data": "\x1b[2J"}})


class Resume(Case):
    def test_it_goes_on_behind_what_was_seen(self):
        """OP-27: a gap is named."""
        self.lab.operations["o-5"] = ONE
        with self.lab.socket() as ws:
            ws.send(type="resume", operationID="o-5", after=4)
            self.assertEqual(ws.until("completed"), [
                {"sequence": 9, "type": "gap", "gap": {"from": 5, "to": 9}},
                {"sequence": 10, "type": "completed", "completed": {}}])
            self.assertEqual(self.lab.last("operation.attach"), {"operation": "o-5", "after": 4})
            ws.run()
            ws.until("completed")

    def test_what_is_another_sessions_is_not_found(self):
        """OP-42"""
        self.lab.operations["o-6"] = FOREIGN
        with self.lab.socket() as ws:
            for id in ("o-6", "o-7"):
                ws.send(type="resume", operationID=id, after=0)
                self.error(ws.receive(), "not_found")
            self.assertNotIn("operation.attach", self.lab.methods())
            self.lab.operations["o-5"] = ONE
            self.lab.on["operation.attach"] = self.lab.refusing("invalid_argument", "after")
            ws.send(type="resume", operationID="o-5", after=2**64 - 1)
            self.error(ws.receive(), "invalid_argument")
            ws.run()
            ws.until("completed")

    def test_a_resumed_operation_can_be_cancelled(self):
        """OP-22"""
        self.lab.operations["o-5"] = ONE
        self.lab.on["operation.attach"] = lambda link, msgid, params: link.reply(msgid, operation="o-5")
        with self.lab.socket() as ws:
            ws.send(type="resume", operationID="o-5", after=1)
            ws.send(type="cancel", operationID="o-5")
            self.assertEqual(ws.until("failed")[-1]["failed"]["code"], "canceled")
            ws.send(type="resume", operationID="o-5", after=1)
            ws.run()
            self.policy(ws, "one at a time")


class Leases(Case):
    lease = True

    def test_one_renewal_at_open_and_one_for_each_heartbeat(self):
        """OP-28"""
        with self.lab.socket() as ws:
            for _ in range(3):
                ws.send(type="heartbeat")
            ws.run()
            ws.until("completed")
            self.assertEqual(self.lab.methods(), ["session.show", *["session.heartbeat"] * 4, "operation.submit"])
            self.assertEqual(self.lab.last("session.heartbeat"), {"session": ONE})

    def test_a_heartbeat_is_legal_while_an_operation_runs(self):
        """OP-22, OP-23: one that fails is an error, and nothing more."""
        started = self.running()
        with self.lab.socket() as ws:
            ws.run()
            ws.until("accepted")
            self.lab.on["session.heartbeat"] = self.lab.refusing("not_found", "released")
            ws.send(type="heartbeat")
            self.error(ws.receive(), "not_found", "released")
            link, operation = started.get(timeout=TIMEOUT)
            self.lab.event(link, operation, 2, "completed", body={})
            self.assertEqual(ws.receive()["type"], "completed")

    def test_a_flood_of_them_waits_for_the_broker(self):
        """OP-17: at most 16 are asked at once."""
        held = []
        self.lab.on["session.heartbeat"] = lambda link, msgid, params: held.append((link, msgid))
        with self.lab.socket() as ws:
            for _ in range(100):
                ws.send(type="heartbeat")
            ws.run()
            while len(held) < 16:
                self.lab.ping()
            self.lab.ping()
            self.assertEqual((len(held), self.lab.methods().count("operation.submit")), (16, 0))
            answered = 0
            while self.lab.methods().count("operation.submit") == 0:
                while answered < len(held):
                    held[answered][0].reply(held[answered][1])
                    answered += 1
            self.assertEqual(len(held), 101)
            ws.until("completed")


class Frames(Case):
    def test_what_is_not_of_their_form_closes_the_connection(self):
        """OP-10: with 1008, and says which member; nothing is asked."""
        def send(**operation):
            return json.dumps({"type": "send", "operation": operation})
        rows = [
            ("", "line 1"), ("x", "line 1"), ("[]", "an object"), ("{}", "type"), ('{"type":1}', "type"),
            ('{"type":"stop"}', "none of send"), ('{"type":"heartbeat","x":1}', 'unknown member "x"'),
            ('{"type":"heartbeat"}{"type":"heartbeat"}', "only one value"), ('{"type":"heartbeat","type":"send"}', "duplicate"),
            ('{"type":"heartbeat"} x', "only one value"), ('{"type":"cancel"}', "operationID: is missing"),
            ('{"type":"cancel","operationID":""}', "operationID: is empty"),
            ('{"type":"cancel","operationID":"%s"}' % ("x" * 65), "operationID: has more than 64"),
            ('{"type":"resume","operationID":"o"}', "after: is missing"),
            ('{"type":"resume","operationID":"o","after":-1}', "after: is no integer"),
            ('{"type":"resume","operationID":"o","after":18446744073709551616}', "too big integer"),
            ('{"type":"send"}', "operation: is missing"), (send(), "exactly one"), ('{"type":"send","operation":[]}', "operation: is no object"),
            (send(command={"shell": "x"}, deleteFile={"path": "x"}), "exactly one"), (send(exec={}), 'unknown member "exec"'),
            (send(command={}), "exactly one of argv"), (send(command={"argv": ["a"], "shell": "b"}), "exactly one of argv"),
            (send(command={"argv": []}), "argv: is empty"), (send(command={"argv": [1]}), "argv: holds"),
            (send(command={"argv": ["a\0"]}), "argv: holds a string with a NUL"), (send(command={"shell": ""}), "shell: is empty"),
            (send(command={"shell": "x", "env": {"a": 1}}), "env: holds"), (send(command={"shell": "x", "timeoutMs": 0}), "timeoutMs"),
            (send(command={"shell": "x", "timeoutMs": 1 << 32}), "timeoutMs"), (send(command={"shell": "x", "timeoutMs": 1.5}), "timeoutMs"),
            (send(command={"shell": "x", "stdin": "a"}), "stdin: is no base64"), (send(command={"shell": "x", "stdin": "YR=="}), "stdin"),
            (send(writeFile={"path": "a"}), "data: is missing"), (send(writeFile={"data": ""}), "path: is missing"),
            (send(writeFile={"path": "a", "data": "_-=="}), "data: is no base64"), (send(writeFile={"path": "", "data": ""}), "path: is empty"),
            (send(renameFile={"from": "a"}), "to: is missing"), (send(createDirectory={"path": "a", "recursive": 1}), "recursive"),
            (send(turn={}), "message: is missing"), (send(turn={"message": 1, "tools": "x"}), "tools: is no array"),
            (send(turn={"message": 1, "metadata": []}), "metadata: is no object"),
            ('{"type":"send","operation":{"turn":{"message":%s}}}' % ("[" * 25 + "]" * 25), "nested more than 24"),
            ('{"type":"send","operation":{"turn":{"message":%s}}}' % ("[" * 2000 + "]" * 2000), "nested more than 32"),
            (send(turn={"message": [0] * 40000}), "more than 32768 values"), (send(turn={"message": "x" * 300000}), "message: has more than"),
            ('{"type":"send","idempotencyKey":"a b","operation":{"command":{"shell":"x"}}}', "idempotencyKey"),
            ('{"type":"send","traceparent":"00","operation":{"command":{"shell":"x"}}}', "traceparent"),
            ('{"type":"send","operation":{"command":{"shell":"\\ud800"}}}', "surrogate"),
        ]
        for text, word in rows:
            with self.subTest(text=text[:80]), self.lab.socket() as ws:
                ws.raw.send_text(text)
                self.policy(ws, word)
        self.assertEqual(set(self.lab.methods()), {"session.show"})

    def test_what_is_no_text_or_too_much_of_it(self):
        for opcode, payload, code in ((2, b"{}", 1008), (1, b'"\xff"', 1007), (1, b" " * ((1 << 20) + 1), 1009)):
            with self.lab.socket() as ws:
                ws.raw.send_frame(opcode, payload)
                self.assertEqual(ws.closed()[0], code)

    def test_a_large_file_fits(self):
        data = bytes(700000)
        with self.lab.socket() as ws:
            ws.send(type="send", operation={"writeFile": {"path": "a", "data": base64.b64encode(data).decode()}})
            ws.until("completed")
        self.assertEqual(self.lab.last("operation.submit")["content"], data)


class Flow(Case):
    def test_the_broker_is_read_no_more_while_a_client_is_slow(self):
        """OP-17, OP-40: what waits for one client has a bound, and the others notice nothing."""
        started, chunk = self.running(), bytes(48 << 10)
        with self.lab.socket() as ws, self.lab.socket() as other:
            ws.run()
            link, operation = started.get(timeout=TIMEOUT)
            link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
            sent = threading.Semaphore(0)

            def flood():
                for i in range(2, 502):
                    self.lab.event(link, operation, i, "output", stream="stdout", data=chunk)
                    sent.release()
                self.lab.event(link, operation, 502, "completed", body={})
            thread = threading.Thread(target=flood)
            thread.start()
            # It stands still long before all is sent, and another client is served meanwhile.
            n = 0
            while sent.acquire(timeout=0.5):
                n += 1
            self.assertLess(n, 400)
            other.run()
            other.until("accepted")
            values = ws.until("completed")
            self.assertEqual([v["sequence"] for v in values], list(range(1, 503)))
            thread.join(TIMEOUT)
            self.assertFalse(thread.is_alive())

    def test_a_brokers_death_is_said_and_the_client_resumes(self):
        """OP-27: an error unavailable, then 1012; what became of it the next broker says."""
        started = self.running()
        with self.lab.socket() as ws:
            ws.run()
            ws.until("accepted")
            link, operation = started.get(timeout=TIMEOUT)
            link.sock.shutdown(socket.SHUT_RDWR)
            self.error(ws.receive(), "unavailable")
            with self.assertRaises(Closed) as end:
                ws.receive()
            self.assertEqual(end.exception.args[0], 1012)
        with self.lab.socket() as ws:
            ws.send(type="resume", operationID=operation, after=1)
            self.assertEqual(ws.until("completed")[0]["type"], "gap")

    def test_an_idle_connection_is_told_too(self):
        with self.lab.socket() as ws:
            self.lab.links.get(timeout=TIMEOUT).sock.shutdown(socket.SHUT_RDWR)
            self.assertEqual(ws.closed()[0], 1012)

    def test_a_gateway_that_ends_lets_an_operation_finish(self):
        """OP-26: what is over is closed, so that its client connects to the next one."""
        started = self.running()
        with self.lab.socket() as busy, self.lab.socket() as idle:
            busy.run()
            busy.until("accepted")
            link, operation = started.get(timeout=TIMEOUT)
            self.lab.tell(verb=9)
            self.assertEqual(idle.closed()[0], 1012)
            self.lab.event(link, operation, 2, "completed", body={})
            self.assertEqual(busy.until("completed")[-1]["sequence"], 2)
            self.assertEqual(busy.closed()[0], 1012)


NODE = r"""
const [url, token] = process.argv.slice(1);
const ws = new WebSocket(url, ["caisson", "caisson.bearer." + token]);
const seen = [];
ws.onopen = () => ws.send(JSON.stringify({type: "send", operation: {command: {shell: "x"}}}));
ws.onmessage = m => { seen.push(JSON.parse(m.data).type); if (seen.at(-1) == "completed") ws.close(1000); };
ws.onclose = e => { console.log(JSON.stringify([ws.protocol, e.code, seen])); };
ws.onerror = e => { console.log("error"); process.exit(1); };
"""

PYTHON = r"""
import asyncio, json, sys, websockets
async def main(url, token):
    name = "additional_headers" if websockets.__version__ >= "14" else "extra_headers"
    async with websockets.connect(url, **{name: {"Authorization": "Bearer " + token}}) as ws:
        await ws.send(json.dumps({"type": "send", "operation": {"command": {"shell": "x"}}}))
        seen = []
        async for text in ws:
            seen.append(json.loads(text)["type"])
            if seen[-1] == "completed":
                break
        print(json.dumps(seen))
asyncio.run(main(*sys.argv[1:]))
"""


class Others(Case):
    """Clients that somebody else wrote."""

    def url(self):
        return "ws://localhost:%d%s" % (self.lab.addresses[0][1], PATH)

    def test_nodes_own(self):
        node = shutil.which("node")
        options = [] if node is None else [o for o in ([], ["--experimental-websocket"]) if subprocess.run(
            [node, *o, "-e", "process.exit(typeof WebSocket == 'function' ? 0 : 1)"], stderr=subprocess.DEVNULL).returncode == 0]
        if not options:
            self.skipTest("no node with a WebSocket of its own")
        ended = subprocess.run([node, *options[0], "-e", NODE, self.url(), TOKEN], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, timeout=TIMEOUT)
        self.assertEqual(json.loads(ended.stdout), ["caisson", 1000, ["accepted", "output", "completed"]])

    def test_python3_websockets(self):
        if subprocess.run(["/usr/bin/python3", "-c", "import websockets"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("python3-websockets is not installed")
        ended = subprocess.run(["/usr/bin/python3", "-c", PYTHON, self.url(), TOKEN], stdout=subprocess.PIPE, timeout=TIMEOUT)
        self.assertEqual(json.loads(ended.stdout), ["accepted", "output", "completed"])


class Transports(unittest.TestCase):
    @unittest.skipUnless(program("caisson-gateway") and shutil.which("openssl"), "not built, or no openssl(1)")
    def test_tls_and_a_local_socket_carry_the_same(self):
        with tempfile.TemporaryDirectory() as directory:
            pem, key = certificate(directory, "server")
            with Lab([{"kind": "public", "certificate": pem, "key": key}, {"kind": "public", "unix": True}]) as lab:
                for listener, tls, origin in ((0, trusting(pem), "https://localhost"), (1, None, "http://localhost")):
                    with lab.socket(listener=listener, tls=tls, Origin=origin) as ws:
                        self.assertEqual(ws.response.status, 101)
                        ws.run()
                        self.assertEqual([v["sequence"] for v in ws.until("completed")], [1, 2, 3])


class Leaving(Case):
    OLD_BOUND = 6  # seconds: longer than any fixed time that clients get to part

    def test_what_the_broker_still_settles_is_waited_for(self):
        started = self.running()
        with self.lab.socket() as ws, self.lab.socket() as idle:
            ws.run("sleep", "60")
            link, operation = started.get(timeout=TIMEOUT)
            self.lab.tell(verb=SHUTDOWN, count=600000)
            self.assertEqual(idle.closed()[0], 1012)
            with self.assertRaises(queue.Empty):
                self.lab.messages.get(timeout=self.OLD_BOUND)
            self.lab.event(link, operation, 2, "failed", body={"code": "canceled", "message": "the end"})
            self.assertEqual(ws.until("event", "failed")[-1]["type"], "failed")
            self.assertEqual(ws.closed()[0], 1012)
            ws.raw.send_frame(8, b"\x03\xf4")
        self.lab.expect(SETTLED)

    def test_clients_that_do_not_part_are_not_waited_for_once_the_broker_is_gone(self):
        started = self.running()
        with self.lab.socket() as ws:
            ws.run("sleep", "60")
            link, _ = started.get(timeout=TIMEOUT)
            self.lab.tell(verb=SHUTDOWN, count=1 << 62)
            self.lab.ping()
            link.sock.shutdown(socket.SHUT_RDWR)
            self.lab.expect(SETTLED)

    def test_a_broker_that_does_not_settle_has_its_time_and_no_more(self):
        started = self.running()
        with self.lab.socket() as ws:
            ws.run("sleep", "60")
            started.get(timeout=TIMEOUT)
            self.lab.tell(verb=SHUTDOWN, count=1)
            self.lab.expect(SETTLED)


if __name__ == "__main__":
    unittest.main()
