"""The runtime of the death tests: does what the turn's message says, its own end included.

With `calls` it makes so many calls of count.add at once, for each name in `rounds`, and
returns what became of them.  With `way` it leaves in one of the ways below.
"""

import ctypes
import os
import signal
import socket
import sys

import caisson
import wire


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def calls(turn):
    told = []
    for name in turn.message.get("rounds", ["a"]):
        started = [turn.start("count.add", {"name": f"{name}{i}"})
                   for i in range(turn.message.get("calls", 2))]
        for call in started:
            try:
                told.append(call.result()["call"])
            except caisson.Refused as e:
                told.append([e.code, e.retryable])
    return told


# ---- ways to go: each on a bare link, `run` is the message operation.run ------------------


class Bare(wire.Peer):
    def begin(self):
        self.hello()
        self.msgid, self.turn = self.expect("operation.run")

    def ask(self, n=1):
        for i in range(n):
            self.request("tool.invoke", operation=self.turn["operation"], id=f"c{i}",
                         tool="count.add", arguments={"name": f"a{i}"})

    def done(self, output="done"):
        self.reply(self.msgid, status="complete", output=output)


def keyed(link):
    """One call under the message's key, and its reply as the output; or an ask for one."""
    link.begin()
    message = link.turn["message"]
    if "ask" in message:
        link.request("tool.invoke", operation=link.turn["operation"], id="k",
                     tool="sharedos.escalate",
                     arguments={"reason": "why", "request": message["ask"]})
        link.done()
        link.closed(600)
        return
    msgid = link.request("tool.invoke", operation=link.turn["operation"], id="k",
                         tool="count.add", arguments={"name": message.get("name", "a")},
                         idempotencyKey=message["key"])
    link.done(link.expect_reply(msgid)[1])
    link.closed(600)


def exit_before_hello(link):
    sys.exit(7)


def kill_before_hello(link):
    die()


def exit_after_hello(link):
    link.hello()
    sys.exit(7)


def kill_with_calls(link):
    """Once the provider says that it has both."""
    link.begin()
    link.ask(2)
    with open("/effects/at", encoding="utf-8") as at:
        while at.read(1):
            pass
    die()


def outcome_then_kill(link):
    link.begin()
    link.done()
    die()


def outcome_then_exit(link):
    link.begin()
    link.done()
    sys.exit(9)


def outcome_with_calls(link):
    """In one piece: the calls' decisions are on their way to the disk when it ends."""
    link.begin()
    link.send_raw(b"".join(
        [wire.frame([0, 100 + i, "tool.invoke", [{
            "operation": link.turn["operation"], "id": f"c{i}", "tool": "count.add",
            "arguments": {"name": f"a{i}"}}]]) for i in range(5)] +
        [wire.frame([1, link.msgid, None, {"status": "complete", "output": "done"}])]))
    while link.receive():  # until the end
        pass


def half_an_outcome(link):
    link.begin()
    whole = wire.frame([1, link.msgid, None, {"status": "complete", "output": "x" * 100}])
    link.send_raw(whole[:-1])
    die()


def close_and_live(link):
    link.begin()
    link.close()
    signal.pause()


def leave_children(link):
    """Descendants with setsid and a double fork, which hold every descriptor."""
    link.begin()
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.pause()
            os._exit(0)
    link.done()
    sys.exit(0)


def never_read(link):
    """Asks and asks, and reads no answer."""
    link.begin()
    many = b"".join(wire.frame([0, 100 + i, "event.emit", [{
        "operation": link.turn["operation"], "type": "x", "data": None}]]) for i in range(2000))
    while True:
        link.send_raw(many)


def flood_output(link):
    link.begin()
    while True:
        os.write(1, b"x" * 65536)


def flood_refusals(link):
    link.begin()
    while True:
        link.request("tool.invoke", operation=link.turn["operation"], id="c",
                     tool="no.such", arguments={})
        link.receive()


def forbidden_call(link):
    link.begin()
    ctypes.CDLL(None).swapoff(0)  # ptrace is what LeakSanitizer does


def junk(link):
    link.begin()
    link.send_raw(b"\0\0\0\1\xc1")
    signal.pause()


def run(turn):
    return calls(turn)


def main():
    way = sys.argv[1]
    if way == "calls":
        caisson.serve(run)
        return
    link = Bare(socket.socket(fileno=int(os.environ["CAISSON_LINK_FD"])))
    globals()[way](link)


if __name__ == "__main__":
    main()
