"""A caissond without chambers: what test_cli.py puts beside the real `caisson`.

The scenario is named by FAKE_SCENARIO; what arrives is written to FAKE_LOG, one JSON
object a line.  Nothing here decides anything: it plays the other side of the control
link and of the broker's link.
"""

import base64
import json
import os
import signal
import socket
import struct
import sys

import wire

CONTROL = struct.Struct("=IIQIiIIIIIIQQQIiIIIIIHHQQQQQ")
CONTROL_BROKER, CONTROL_FAILED = 64, 65
WINDOW = 1 << 20
LIFE_FD = 4


def log(**what):
    with open(os.environ["FAKE_LOG"], "a") as f:
        f.write(json.dumps(what) + "\n")


control = None


def send_control(verb, fds=(), layer=0, error=0):
    data = CONTROL.pack(verb, 0, 0, 0, error, 0, layer, *[0] * 21)
    socket.send_fds(control, [data], list(fds))


def wait_for_end():
    """Until the client wants us gone; as a private caissond does."""
    while os.read(LIFE_FD, 1):
        pass
    log(life="closed")


class Client(wire.Peer):
    """The broker's end of a client's link."""

    def __init__(self):
        ours, theirs = socket.socketpair()
        super().__init__(ours)
        with theirs:
            send_control(CONTROL_BROKER, [theirs.fileno()])
        self.sequence, self.operation = 0, "op-1"
        self.answer_hello()

    def admit(self):
        msgid, params = self.expect("operation.submit")
        log(submit=params)
        self.event("accepted", operationID=self.operation)
        self.reply(msgid, operation=self.operation)

    def event(self, kind, /, **body):
        self.sequence += 1
        self.notify("operation.event", operation=self.operation, sequence=self.sequence,
                    type=kind, body=body)

    def output(self, data, stream="stdout"):
        self.sequence += 1
        self.notify("operation.event", operation=self.operation, sequence=self.sequence,
                    type="output", stream=stream, data=data)

    def request_of(self, method):
        """The next request of that name, answered; input is thrown away."""
        while True:
            m = self.receive()
            if m[-2] == method:
                log(method=method, params=m[-1][0])
                if m[0] == 0:
                    self.reply(m[1])
                return m[-1][0]
            assert m[-2] in ("input.write", "input.close"), m

    def command(self, **facts):
        facts.setdefault("timedOut", False)
        self.event("completed", command={"cause": {"kind": "exited"}, **facts})


def events():
    """Sends the events of FAKE_EVENTS: [[type, body], ...]."""
    c = Client()
    c.admit()
    for kind, body in json.loads(os.environ["FAKE_EVENTS"]):
        if kind == "output":
            c.output(base64.b64decode(body["data"]), body["stream"])
        else:
            c.event(kind, **body)
    wait_for_end()


def dies_early():
    print("caissond: error: no namespaces here", file=sys.stderr, flush=True)
    sys.exit(125)


def killed_early():
    os.kill(os.getpid(), signal.SIGKILL)


def killed_later():
    c = Client()
    c.admit()
    os.kill(os.getpid(), signal.SIGKILL)


def fails():
    print("caissond: error: landlock is missing", file=sys.stderr, flush=True)
    send_control(CONTROL_FAILED, layer=14)
    wait_for_end()


def settles_after_death():
    """The broker outlives caissond for a moment, and still tells the ending."""
    c = Client()
    c.admit()
    if os.fork() > 0:
        os._exit(1)
    control.close()
    os.close(LIFE_FD)
    c.event("failed", code="unavailable", message="", cause={"kind": "shutdown"})


def refuses():
    c = Client()
    msgid, _ = c.expect("operation.submit")
    c.refuse(msgid, "invalid_argument", "no such \x1b[31mruntime")
    wait_for_end()


def broker_dies():
    """After its death a second broker tells the recorded ending."""
    c = Client()
    c.admit()
    c.event("progress", kind="status", status="working")
    c.close()
    c = Client()
    msgid, params = c.expect("operation.attach")
    log(attach=params)
    c.reply(msgid, operation="op-1")
    c.sequence = 1000
    c.event("gap", **{"from": 3, "to": 1000})
    c.event("failed", code="unavailable", message="", cause={"kind": "outcome_unknown"})
    wait_for_end()


def broker_dies_twice():
    c = Client()
    c.admit()
    c.close()
    c = Client()
    msgid, _ = c.expect("operation.attach")
    c.refuse(msgid, "not_found", "no such operation")
    wait_for_end()


def speaks_nonsense():
    c = Client()
    c.admit()
    c.send_raw(b"\0\0\0\1\xc1")
    wait_for_end()


def goes_back():
    c = Client()
    c.admit()
    c.sequence = 0
    c.event("progress", kind="status")
    wait_for_end()


def cancels():
    c = Client()
    c.admit()
    c.output(b"ready\n")
    while not c.request_of("operation.stop").get("kill"):
        if os.environ.get("FAKE_STUBBORN") is None:
            break
        c.output(b"again\n")
    c.event("failed", code="canceled", message="", cause={"kind": "canceled"},
            turn={"status": "cancelled"})
    wait_for_end()


def never_answers():
    """Takes every signal, and does nothing."""
    c = Client()
    c.admit()
    c.output(b"ready\n")
    for _ in range(2):
        c.request_of("operation.stop")
        c.output(b"again\n")
    wait_for_end()


def signals():
    """A command that gets signals, and dies of the last."""
    c = Client()
    c.admit()
    c.output(b"ready\n")
    while True:
        m = c.receive()
        if m[-2].startswith("input."):
            continue
        c.reply(m[1])
        log(method=m[-2], params=m[-1][0])
        if m[-2] == "operation.stop":
            c.event("failed", code="canceled", message="", cause={"kind": "canceled"})
            break
        c.output(b"%d\n" % m[-1][0]["signo"])
        if m[-1][0]["signo"] == signal.SIGTERM:
            c.command(signal=int(signal.SIGTERM))
            break
    wait_for_end()


def signals_behind_output():
    """More output than a pipe and our queue hold, and a command that waits for SIGINT."""
    c = Client()
    c.admit()
    for _ in range(10):
        c.output(b"x" * 60000)
    c.request_of("operation.signal")
    c.command(signal=int(signal.SIGINT))
    wait_for_end()


def waits():
    """No link at all."""
    log(ready=True)
    wait_for_end()


def cat():
    """Input comes back as output; credit is given as it is used."""
    c = Client()
    c.admit()
    ahead = 0
    while True:
        m = c.receive()
        if m[1] == "input.close":
            break
        data = m[2][0]["data"]
        ahead += len(data)
        assert len(data) <= 64 << 10 and ahead <= WINDOW, (len(data), ahead)
        c.output(data)
        c.notify("input.credit", operation=c.operation, bytes=len(data))
        ahead -= len(data)
    c.command(exitCode=0)
    wait_for_end()


def holds_credit():
    """Gives no credit: the client must stop at the window, to the byte."""
    c = Client()
    c.admit()
    got = 0
    while got < WINDOW:
        got += len(c.receive()[2][0]["data"])
    log(window=got)
    c.output(b"full\n")
    c.notify("input.credit", operation=c.operation, bytes=10)
    more = c.receive()[2][0]["data"]
    log(more=len(more))
    c.notify("input.credit", operation=c.operation, bytes=0)
    c.command(exitCode=7)
    wait_for_end()


def floods():
    """FAKE_BYTES of output, as fast as it is taken."""
    c = Client()
    c.admit()
    block, left = bytes(range(256)) * 256, int(os.environ["FAKE_BYTES"])
    while left > 0:
        c.output(block[:left])
        left -= len(block)
    c.command(exitCode=0)
    wait_for_end()


def writes_until_closed():
    """A command that dies of SIGPIPE when told that nobody reads."""
    c = Client()
    c.admit()
    c.sock.setblocking(True)
    c.output(b"first\n")
    while True:
        c.output(b"x" * 60000)
        try:
            m = c.receive(timeout=0.001)
        except TimeoutError:
            continue
        if m[1] == "output.close":
            log(close=m[2][0]["stream"])
            break
    c.command(signal=int(signal.SIGPIPE))
    wait_for_end()


def facts():
    """What the client handed down."""
    fds = {int(n): os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
           if os.path.exists(f"/proc/self/fd/{n}")}
    c = Client()
    log(argv=sys.argv[1:], sid=os.getsid(0), pid=os.getpid(), fds=fds,
        ignored=[s.name for s in (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP)
                 if signal.getsignal(s) is signal.SIG_IGN])
    c.admit()
    c.event("completed", turn={"status": "succeeded", "output": None})
    wait_for_end()


def main():
    global control
    if "--private" not in sys.argv:
        print(json.dumps(sys.argv[1:]))
        return
    control = socket.socket(fileno=3)
    control.setblocking(True)
    globals()[os.environ["FAKE_SCENARIO"]]()
