"""The real gateway before a scripted broker: sessions and operations, as a test wants them.

Lab is a gateway_host.Host whose every link is served by the methods of `on`: functions of (link,
msgid, params), which reply, refuse, or leave it to the test.  What the broker was asked is kept
in `asked`, and each link in `links`.  Socket is a small WebSocket client for JSON.
"""

import functools
import json
import queue
import threading

from gateway_host import Host
from wire import Closed, TIMEOUT

TOKEN = "secret-token"
BASE = "/v1/namespaces/default/runtimes/shell/sessions"
ONE = "s-0000000000000001"
FOREIGN = "s-0000000000000002"  # of another runtime
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
AUTH = {"Authorization": f"Bearer {TOKEN}"}


def session(id=ONE, runtime="shell", **members):
    return {"id": id, "runtime": runtime, "kind": "command", "state": "ready", "principal": "human:alice",
            "acquiredAt": 1, "timeoutMs": 300000, "queueLimit": 32, "queued": 0, "operations": 0,
            "workspace": True, **members}


class Lab(Host):
    def __init__(self, listeners=None, lease=False, certificates=(), **limits):
        self.asked, self.links, self.lock = [], queue.Queue(), threading.Lock()
        self.ended = threading.Semaphore(0)  # a release for each link that the gateway closed
        self.certificates = certificates
        self.sessions = {ONE: session(ONE, **({"leaseMs": 60000, "leaseUntil": 99} if lease else {})),
                         FOREIGN: session(FOREIGN, "other")}
        self.operations = {}  # id -> its session
        self.on = {name: getattr(self, name.replace(".", "_")) for name in (
            "principal.prove", "session.acquire", "session.show", "session.list", "session.release",
            "session.heartbeat", "operation.submit", "operation.stop", "operation.show",
            "operation.attach", "operation.list", "file.list", "file.stat", "file.read")}
        super().__init__(listeners, broker=self.serve, **limits)

    def serve(self, link):
        link.answer_hello()
        self.links.put(link)
        while True:
            try:
                message = link.receive(timeout=10 * TIMEOUT)
            except Closed:
                self.ended.release()
                return
            method, params = message[-2], message[-1][0]
            with self.lock:
                self.asked.append((method, params))
            self.on[method](link, message[1], params)

    def end(self, case):
        """Ends the gateway, in which nothing may have gone wrong, a sanitizer's finding included."""
        status = self.stop()
        case.assertIn(status, (0, 1), self.log())

    def methods(self):
        """What was asked, but for the proofs."""
        with self.lock:
            return [method for method, _ in self.asked if method != "principal.prove"]

    def last(self, method):
        with self.lock:
            return [params for name, params in self.asked if name == method][-1]

    def refusing(self, code, message="no"):
        return lambda link, msgid, params: link.refuse(msgid, code, message)

    def replying(self, **result):
        return lambda link, msgid, params: link.reply(msgid, **result)

    # -- what the broker answers unless a test says otherwise

    def principal_prove(self, link, msgid, params):
        if params.get("token") == TOKEN or params.get("certificate") in self.certificates:
            link.reply(msgid, principal="human:alice", operator=False)
        else:
            link.refuse(msgid, "unauthenticated", "nobody is known by this")

    def session_acquire(self, link, msgid, params):
        link.reply(msgid, session=self.sessions[ONE])

    def session_show(self, link, msgid, params):
        if params["session"] in self.sessions:
            link.reply(msgid, session=self.sessions[params["session"]])
        else:
            link.refuse(msgid, "not_found", "there is no such session")

    def session_list(self, link, msgid, params):
        link.reply(msgid, sessions=list(self.sessions.values()), next=0)

    def session_release(self, link, msgid, params):
        link.reply(msgid, session={**self.sessions[ONE], "state": "closed" if params.get("wait") else "closing"})

    def session_heartbeat(self, link, msgid, params):
        link.reply(msgid, **({"leaseUntil": 1234} if "leaseMs" in self.sessions[ONE] else {}))

    def operation_submit(self, link, msgid, params):
        """One whole command that prints what it is."""
        operation = self.admit(link, msgid, params)
        self.event(link, operation, 2, "output", stream="stdout", data=b"hi\n")
        self.event(link, operation, 3, "completed", body={"command": {"exitCode": 0}})

    def admit(self, link, msgid, params):
        operation = f"o-{len(self.operations) + 1}"
        self.operations[operation] = params.get("session")
        link.reply(msgid, operation=operation)
        self.event(link, operation, 1, "accepted", body={"operationID": operation})
        return operation

    @staticmethod
    def event(link, operation, sequence, type, **members):
        link.notify("operation.event", operation=operation, sequence=sequence, type=type, **members)

    def operation_stop(self, link, msgid, params):
        link.reply(msgid)
        self.event(link, params["operation"], 2, "failed", body={"code": "canceled", "message": "canceled"})

    def operation_show(self, link, msgid, params):
        if params["operation"] in self.operations:
            link.reply(msgid, operation={"operationID": params["operation"], "state": "running",
                                         "session": self.operations[params["operation"]]})
        else:
            link.refuse(msgid, "not_found", "there is no such operation")

    def operation_attach(self, link, msgid, params):
        link.reply(msgid, operation=params["operation"])
        self.event(link, params["operation"], 9, "gap", body={"from": params["after"] + 1, "to": 9})
        self.event(link, params["operation"], 10, "completed", body={})

    def operation_list(self, link, msgid, params):
        link.reply(msgid, operations=[{"operationID": "o-1"}], next=7)

    def file_list(self, link, msgid, params):
        link.reply(msgid, entries=[{"name": "a", "type": "file", "size": 3}], next="a-cursor")

    def file_stat(self, link, msgid, params):
        link.reply(msgid, entry={"name": params["path"], "type": "file", "size": 3, "modifiedAt": 5})

    def file_read(self, link, msgid, params):
        """The file `path` is so many bytes long; a reply holds 256 KiB."""
        content = numbers(int(params["path"]))
        start = params.get("offset", 0)
        part = content[start:start + min(params.get("length", 1 << 20), 1 << 18)]
        link.reply(msgid, content=part, size=len(content))

    # -- clients

    def call(self, method, path, body=None, client=None, **headers):
        """One request on a connection of its own; the response, with `json` where it is JSON."""
        if client is not None:
            return decoded(client.request(method, path, body, **{**AUTH, **headers}))
        with self.connect() as client:
            return decoded(client.request(method, path, body, **{**AUTH, **headers}))

    def socket(self, path=f"{BASE}/{ONE}/operations:ws", listener=0, tls=None, **headers):
        return Socket(self.connect(listener, tls), path, **headers)


@functools.lru_cache(maxsize=8)
def numbers(n):
    return b"".join(i.to_bytes(4, "big") for i in range(n // 4 + 1))[:n]


def decoded(response):
    response.json = json.loads(response.body) if response.headers.get("content-type") == "application/json" \
        and response.body else None
    return response


class Socket:
    """A client of the WebSocket; what it receives are JSON values."""

    def __init__(self, raw, path, **headers):
        self.raw = raw
        self.response = decoded(raw.upgrade(path, **{**AUTH, **headers}))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.raw.sock.close()

    def send(self, **frame):
        self.raw.send_text(json.dumps(frame))

    def run(self, *argv, **members):
        self.send(type="send", operation={"command": {"argv": list(argv) or ["true"]}}, **members)

    def receive(self):
        """The next value; Closed with (code, reason) at the close frame."""
        while True:
            opcode, payload = self.raw.frame()
            if opcode == 8:
                raise Closed(int.from_bytes(payload[:2], "big"), payload[2:].decode())
            if opcode == 1:
                return json.loads(payload)

    def until(self, *types):
        """Values up to one of these types."""
        values = [self.receive()]
        while values[-1]["type"] not in types:
            values.append(self.receive())
        return values

    def closed(self):
        """(code, reason), whatever comes before."""
        try:
            while True:
                self.receive()
        except Closed as end:
            return end.args
