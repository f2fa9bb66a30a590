"""The clients in Python, blocking and for asyncio, as one: a test that is written for the first runs
with the second too, in a loop on a thread of its own.
"""

import asyncio
import collections.abc
import inspect
import threading
import unittest

import wire
from python_client_lab import Gateway

import caisson_client as api
from caisson_client import aio

SANDBOX = {"id": "s-1", "runtime": "shell", "state": "ready"}
BASE = "/v1/namespaces/default/runtimes/shell/sessions"


class Blocking:
    """What tests need besides what the client has."""

    connect = staticmethod(api.Client)
    follow = staticmethod(api.follow)

    def wait_for_end(self, session):
        """Until nothing of its connection is left."""
        session._thread.join(wire.TIMEOUT)
        self.assertFalse(session._thread.is_alive())

    def exchange_of(self, session):
        return session._exchange


class _Ran:
    """Something of the asyncio client's, used as if it were the blocking one's."""

    def __init__(self, thing, run):
        self._thing, self._run = thing, run

    def __getattr__(self, name):
        return self._shown(getattr(self._thing, name))

    def _shown(self, value):
        if inspect.ismethod(value):
            return lambda *words, **options: self._called(value, words, options)
        if isinstance(value, (aio.Client, aio.Sandbox, aio.Session, aio.Files)):
            return _Ran(value, self._run)
        if isinstance(value, collections.abc.AsyncIterator):
            return self._iterated(value)
        return value

    def _called(self, function, words, options):
        async def call():
            result = function(*words, **options)
            return await result if inspect.isawaitable(result) else result
        return self._shown(self._run(call()))

    def _iterated(self, items):
        async def following():
            return await items.__anext__()
        try:
            while True:
                try:
                    item = self._run(following())
                except StopAsyncIteration:
                    return
                yield self._shown(item)
        finally:
            if hasattr(items, "aclose"):
                self._run(items.aclose())

    def __enter__(self):
        self._run(self._thing.__aenter__())
        return self

    def __exit__(self, *exc):
        return self._run(self._thing.__aexit__(*exc))


class Asyncio:
    """Before a class of tests for the blocking client: makes them tests of the other."""

    def setUp(self):
        self._faults = []  # what the loop was told of
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda loop, context: self._faults.append(context))
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.addCleanup(self._end)
        super().setUp()

    def _end(self):
        async def left():
            return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        tasks = self._run(left())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.assertEqual((tasks, self._faults), ([], []))

    def _run(self, making):
        return asyncio.run_coroutine_threadsafe(making, self._loop).result(2 * wire.TIMEOUT)

    def connect(self, *words, **options):
        return _Ran(aio.Client(*words, **options), self._run)

    def follow(self, box, *words, **options):
        return box._iterated(aio.follow(box._thing, *words, **options))

    def wait_for_end(self, session):
        self._run(session._thing._connection.closed())

    def exchange_of(self, session):
        return session._thing._exchange


class Lab(Blocking, unittest.TestCase):
    def serve(self, *scripts, **options):
        gateway = Gateway(*scripts, **options)
        self.addCleanup(gateway.close)
        return gateway

    def client(self, *scripts, **options):
        """A client of a gateway that follows these scripts."""
        self.gateway = self.serve(*scripts)
        client = self.connect(self.gateway.url, timeout=wire.TIMEOUT, **options)
        self.addCleanup(client.close)
        return client

    def sandbox(self, *scripts, info=None, **options):
        """A sandbox, and these scripts for the connections that follow."""
        def show(c):
            c.request()
            c.answer(200, {**SANDBOX, **(info or {})})
            c.hang_up()

        client = self.client(show, *scripts, **options)
        found = client.sandbox("shell", "s-1")
        client.close()  # the next request is the next script's
        return found

    def session(self, *scripts, **options):
        """A session of which the first script is, after its upgrade."""
        def upgraded(script):
            def run(c):
                c.upgrade()
                script(c)
            return run

        s = self.sandbox(*map(upgraded, scripts), **options).open()
        self.addCleanup(s.close)
        return s
