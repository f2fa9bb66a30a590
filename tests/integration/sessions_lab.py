"""Sessions of the real broker under a scripted supervisor, with commands and files played here."""

import queue
import socket
import threading
import unittest

from broker_host import EXITED, Host
from wire import TIMEOUT

SHELL = {"id": "shell", "version": "1", "kind": "command", "builtin": True}
PLAIN = {"id": "test", "version": "1", "kind": "turn"}
WORKS = {"id": "test", "version": "1", "kind": "turn", "workspace": True}


class Commands:
    """The built-in command runtime, whose commands run until the test says how they end."""

    def __init__(self):
        self.started = queue.Queue()  # in this order
        self.lock = threading.Lock()
        self.running = self.most = 0

    def __call__(self, child):
        try:
            child.peer.hello("command")
            msgid, child.params = child.peer.expect("command.run")
        except AssertionError:
            return  # ended before it began
        child.msgid, child.done = msgid, threading.Event()
        child.status, child.on_signal = 0, lambda signo: child.done.set()
        if child.params.get("argv") == ["missing"]:
            child.peer.refuse(msgid, "not_found", "there is no such program")
            child.peer.receive()
        child.peer.sock.shutdown(socket.SHUT_RDWR)  # it became the command
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.started.put(child)
        while not child.done.is_set() and not child.killed.is_set():
            child.done.wait(0.02)
        with self.lock:
            self.running -= 1
        child.exit = {"x_kind": EXITED, "x_status": child.status}

    def next(self):
        return self.started.get(timeout=TIMEOUT)

    @staticmethod
    def end(child, status=0):
        child.status = status
        child.done.set()


class Sessions(unittest.TestCase):
    def host(self, worker=None, runtimes=(SHELL,), sessions=8, **more):
        host = Host(worker=worker, runtimes=list(runtimes), sessions=sessions, **more)
        self.addCleanup(self.close, host)
        return host

    def close(self, host):
        status, log = host.close()
        self.assertIn(status, (0, -9), log)
        self.assertNotIn("Sanitizer", log)
        self.assertNotIn("runtime error", log)

    def acquire(self, client, **params):
        return client.call("session.acquire", **params)["session"]["id"]

    def submit(self, client, session, **params):
        params = params or {"argv": ["true"]}
        return client.submit(**{"kind": "command", "session": session, **params})

    def refused(self, client, method, **params):
        error, _ = client.expect_reply(client.request(method, **params))
        self.assertIsNotNone(error, "it was not refused")
        return error["code"]

    def show(self, client, session):
        return client.call("session.show", session=session)["session"]

    def records(self, host, type):
        host.round()
        return [r for r in host.records() if r["type"] == type]
