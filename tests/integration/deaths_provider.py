"""The counting provider of the death tests: one line in /effects/log is one effect.

Its first argument says where it dies, each time its own name is met:

    before    it has the call, and has done nothing
    effect    the effect is done, the reply is not written
    reply     half of the reply is written
    hold      it says in the pipe /effects/at that it has the call, and waits for the pipe
              /effects/go
    never     it lives
    token     it lives, and takes a byte out of the pipe /effects/go before each effect
"""

import os
import signal
import socket
import sys

import wire


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def main(way, at):
    """Dies (or holds) at the call number `at` of this process."""
    link = wire.Peer(socket.socket(fileno=int(os.environ["CAISSON_LINK_FD"])))
    link.hello("count")
    n = 0
    while True:
        try:
            m = link.receive(timeout=600)
        except wire.Closed:
            return
        if m[0] == 2:
            continue
        msgid, params = m[1], m[3][0]
        n += 1
        now = way if n == int(at) and first(params["call"]) else "never"
        if now == "before":
            die()
        if now == "hold":
            with open("/effects/at", "w", encoding="utf-8") as pipe:
                pipe.write("x")
            with open("/effects/go", encoding="utf-8") as pipe:
                pipe.read()
        if way == "token":
            with open("/effects/go", "rb", buffering=0) as pipe:
                pipe.read(1)
        log = os.open("/effects/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.write(log, f"{params['call']}\n".encode())
        os.close(log)
        if now == "effect":
            die()
        reply = wire.frame([1, msgid, None, {
            "callId": params["call"], "status": "succeeded", "output": {"call": params["call"]}}])
        if now == "reply":
            link.send_raw(reply[:-1])
            die()
        link.send_raw(reply)


def first(call):
    """True once in all processes of a run: the next provider lives."""
    try:
        os.close(os.open("/effects/first", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except FileExistsError:
        return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
