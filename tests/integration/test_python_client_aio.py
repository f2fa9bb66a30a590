"""The Python client for asyncio, where it is not as the blocking one: tasks, their ends, and
loops that end."""

import asyncio
import contextlib
import gc
import json
import random
import select
import threading
import unittest
import unittest.mock
import warnings

import wire
from python_client_kinds import SANDBOX
from python_client_lab import Gateway, accepted, completed, event, output, server_frame, text

from caisson_client import (Accepted, Completed, ResourceExhausted, TransportError, UsageError,
                            _exchange)
from caisson_client.aio import Client, follow
from caisson_client.aio._connection import Signal


def upgraded(script):
    def run(c):
        c.upgrade()
        script(c)
    return run


def show(c):
    c.request()
    c.answer(200, {**SANDBOX, "leaseMs": 60000}, Connection="close")


class Case(unittest.TestCase):
    """A test is a coroutine in a loop of its own, which ends with nothing in it: no task, no
    transport, no exception that nobody has seen."""

    def serve(self, *scripts):
        gateway = Gateway(*scripts)
        self.addCleanup(gateway.close)
        return gateway

    def run_in_loop(self, making):
        """As a program does that knows no asyncio.run: what is not over when `making` is, is
        found."""
        faults = []
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda loop, context: faults.append(context))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                result = loop.run_until_complete(making)
                self.assertEqual(asyncio.all_tasks(loop), set())
            finally:
                loop.close()
            gc.collect()
        self.assertEqual(faults, [])
        self.assertEqual([str(w.message) for w in warned], [])
        return result

    def session_test(self, test, *scripts):
        """`test(session)` with a gateway of which the first script is, after its upgrade."""
        gateway = self.serve(show, *map(upgraded, scripts))

        async def run():
            async with Client(gateway.url, timeout=wire.TIMEOUT) as client:
                box = await client.sandbox("shell", "s-1")
                async with box.open() as session:
                    await test(session)
        self.run_in_loop(run())


async def cancelled(task):
    """Cancels it; it must end so, and at once."""
    task.cancel()
    await asyncio.wait({task}, timeout=wire.TIMEOUT)
    assert task.cancelled(), task


async def turn():
    """Lets the loop look once at all that it has."""
    done = asyncio.get_running_loop().create_future()
    done.get_loop().call_soon(done.set_result, None)
    await done


async def until(condition, session):
    while not condition():
        await session._connection.changed.wait()


class Cancellation(Case):
    def test_a_receive_that_is_cancelled_loses_no_event(self):
        go = threading.Semaphore(0)
        total = 60

        def script(c):
            c.json()
            c.say(accepted())
            for i in range(2, total):
                go.acquire(timeout=wire.TIMEOUT)
                c.say(output(i, b"%d" % i))
            c.say(completed(total))
            c.hang_up()

        async def test(session):
            dice = random.Random(5)
            await session.send(shell="true")
            taken = []

            async def receive():
                async for e in session.receive():
                    taken.append(e.sequence)

            while not taken or taken[-1] != total:
                task = asyncio.ensure_future(receive())
                for _ in range(dice.randrange(6)):
                    go.release()
                    await turn()
                task.cancel()
                await asyncio.wait({task})
            self.assertEqual(taken, list(range(2, total + 1)))

        self.session_test(test, script)

    def test_a_send_that_is_cancelled_goes_on_and_is_received(self):
        came, go = threading.Event(), threading.Event()

        def script(c):
            c.json()
            came.set()
            go.wait(wire.TIMEOUT)
            c.say(accepted("op-1"), completed(2))
            self.assertEqual(c.json()["operation"], {"command": {"shell": "next"}})
            c.say(accepted("op-2"), completed(2))
            c.hang_up()

        async def test(session):
            task = asyncio.create_task(session.send(shell="true"))
            await asyncio.get_running_loop().run_in_executor(None, came.wait, wire.TIMEOUT)
            await cancelled(task)
            self.assertIsNone(session.operation)
            with self.assertRaises(UsageError):  # OP-21: it is under way
                await session.send(shell="next")
            go.set()
            kinds = [type(e) async for e in session.receive()]
            self.assertEqual(kinds, [Accepted, Completed])
            self.assertEqual((session.operation, session.sequence), ("op-1", 2))
            self.assertEqual(await session.send(shell="next"), "op-2")
            self.assertEqual([type(e) async for e in session.receive()], [Completed])

        self.session_test(test, script)

    def test_a_send_that_is_cancelled_may_have_been_refused(self):
        came, go = threading.Event(), threading.Event()

        def script(c):
            c.json()
            came.set()
            go.wait(wire.TIMEOUT)
            c.say({"type": "error", "code": "resource_exhausted", "error": "full"})
            c.json()
            c.say(accepted("op-2"), completed(2))
            c.hang_up()

        async def test(session):
            task = asyncio.create_task(session.send(shell="true"))
            await asyncio.get_running_loop().run_in_executor(None, came.wait, wire.TIMEOUT)
            await cancelled(task)
            go.set()
            with self.assertRaises(ResourceExhausted):
                await session.receive().__anext__()
            self.assertEqual(await session.send(shell="true"), "op-2")

        self.session_test(test, script)

    def test_a_task_that_is_cancelled_may_cancel_its_operation(self):
        def script(c):
            c.json()
            c.say(accepted("op-1"), output(2, b"begun"))
            self.assertEqual(c.json(), {"type": "cancel", "operationID": "op-1"})
            c.say({"type": "cancel", "operationID": "op-1"},
                  event(3, "failed", code="canceled", message="it was"))
            c.hang_up()

        async def test(session):
            begun, ends = asyncio.Event(), []

            async def work():
                await session.send(shell="sleep 1000")
                try:
                    async for _ in session.receive():
                        begun.set()
                except asyncio.CancelledError:
                    await session.cancel(session.operation)
                    ends.extend([e.code async for e in session.receive()])
                    raise

            task = asyncio.create_task(work())
            await begun.wait()
            await cancelled(task)
            self.assertEqual(ends, ["canceled"])

        self.session_test(test, script)

    def test_at_any_moment_it_leaves_nothing(self):
        """A whole life, cancelled at each of the moments at which it waits."""
        def requests(c):
            while True:
                method = c.request().method
                c.answer(*((201, {**SANDBOX, "leaseMs": 60000}) if method == "POST"
                           else (202, SANDBOX)))

        def either(c):
            request = c.request()
            if "upgrade" not in request.headers:
                c.answer(201, {**SANDBOX, "leaseMs": 60000})
                requests(c)
            c._data = replayed(request) + c._data
            c.upgrade()
            c.json()
            c.say(accepted(), output(2, b"x"), completed(3))
            c.hang_up()

        def replayed(request):
            head = f"GET {request.path} HTTP/1.1\r\n"
            return (head + "".join(f"{n}: {v}\r\n" for n, v in request.headers.items()) +
                    "\r\n").encode()

        gateway = self.serve(either)

        async def life(client):
            async with client.acquire("shell", lease=60) as box, box.open() as session:
                await session.send(shell="true")
                async for _ in session.receive():
                    pass
                await box.files.list().__anext__()

        async def run(moment):
            """Whether there was such a moment."""
            moments, whole = 0, Signal.wait

            async def wait(self, deadline=None):
                nonlocal moments
                moments += 1
                if moments == moment:
                    asyncio.get_running_loop().call_soon(task.cancel)
                await whole(self, deadline)

            async with Client(gateway.url, timeout=wire.TIMEOUT) as client:
                task = asyncio.create_task(life(client))
                with unittest.mock.patch.object(Signal, "wait", wait):
                    await asyncio.wait({task})
                if not task.cancelled():
                    self.assertIsNotNone(task.exception())
            return moments >= moment

        for moment in range(1, 100):
            if not self.run_in_loop(run(moment)):
                break
        self.assertGreater(moment, 6)

    def test_connecting_to_who_does_not_answer(self):
        taken = threading.Event()

        def script(c):
            taken.set()
            while c.sock.recv(4096):
                pass

        gateway = self.serve(script)

        async def run():
            loop = asyncio.get_running_loop()
            # A TLS handshake that gets nowhere.
            async with Client(gateway.url.replace("http", "https"), timeout=0.05) as client:
                with self.assertRaises(TransportError):
                    await client.acquire("shell")
            async with Client(gateway.url.replace("http", "https")) as client:
                taken.clear()
                task = asyncio.create_task(client.acquire("shell"))
                await loop.run_in_executor(None, taken.wait, wire.TIMEOUT)
                await cancelled(task)
            async with Client(gateway.url, timeout=0.05) as client:
                with self.assertRaises(TransportError):
                    await client.acquire("shell")

        self.run_in_loop(run())


class Loops(Case):
    def test_sessions_are_served_at_once(self):
        """OP-21 is of one session: here are 50, which end in no order."""
        def script(c):
            number = int(c.json()["operation"]["command"]["shell"])
            c.say(accepted(f"op-{number}"))
            for i in range(number):
                c.say(output(2 + i, b"%d" % number))
            c.say(completed(2 + number, number))
            c.hang_up()

        gateway = self.serve(show, upgraded(script))

        async def one(box, number):
            async with box.open() as session:
                await session.send(shell=str(number))
                events = [e async for e in session.receive()]
                return events[-1].exit_code, len(events)

        async def run():
            async with Client(gateway.url, timeout=wire.TIMEOUT) as client:
                box = await client.sandbox("shell", "s-1")
                return await asyncio.gather(*(one(box, n) for n in range(50)))

        self.assertEqual(self.run_in_loop(run()), [(n, n + 1) for n in range(50)])

    def test_two_tasks_may_share_the_events(self):
        def script(c):
            c.json()
            c.say(accepted(), *(output(i, b"") for i in range(2, 100)), completed(100))
            c.hang_up()

        async def test(session):
            await session.send(shell="true")
            taken = []

            async def some():
                with contextlib.suppress(UsageError):  # the other has the last
                    async for e in session.receive():
                        taken.append(e.sequence)
                        await turn()
            await asyncio.gather(some(), some())
            self.assertEqual(sorted(taken), list(range(2, 101)))

        self.session_test(test, script)

    def test_the_lease_is_renewed_while_tasks_wait(self):
        """OP-29."""
        def script(c):
            c.json()
            for _ in range(3):
                opcode, payload = c.frame()
                self.assertEqual((opcode, json.loads(payload)), (1, {"type": "heartbeat"}))
            c.say(accepted(), completed(2))
            c.hang_up()

        gateway = self.serve(lambda c: (c.request(), c.answer(200, {**SANDBOX, "leaseMs": 300})),
                             upgraded(script))

        async def run():
            async with Client(gateway.url, timeout=wire.TIMEOUT) as client:
                box = await client.sandbox("shell", "s-1")
                async with box.open() as session:
                    await session.send(shell="true")
                    self.assertEqual([type(e) async for e in session.receive()], [Completed])
        self.run_in_loop(run())

    def test_a_gateway_that_takes_nothing_loses_the_session(self):
        """OP-29: neither heartbeats nor answers to its pings pile up."""
        def script(c):
            c.sock.setblocking(False)
            poll = select.poll()
            poll.register(c.sock, select.POLLOUT | select.POLLRDHUP)
            pings = server_frame(9, b"p" * 125) * 1000
            while not any(got & ~select.POLLOUT for _, got in poll.poll(1000 * wire.TIMEOUT)):
                try:
                    c.sock.send(pings)  # of whose answers it reads none
                except BlockingIOError:
                    pass
                except OSError:
                    return

        def quick(c):
            c.request()
            c.answer(200, {**SANDBOX, "leaseMs": 900}, Connection="close")

        gateway = self.serve(quick, upgraded(script))

        async def run():
            async with Client(gateway.url, timeout=wire.TIMEOUT) as client:
                box = await client.sandbox("shell", "s-1")
                async with box.open() as session:
                    await until(lambda: session._exchange.over, session)
                    with self.assertRaises(TransportError) as caught:
                        await session.send(shell="true")
                    self.assertIn("takes nothing", str(caught.exception))
        self.run_in_loop(run())

    def test_what_nobody_takes_is_left_with_the_gateway(self):
        total, data = 300, bytes(48 << 10)

        def script(c):
            c.json()
            c.say(accepted())
            for i in range(total):
                c.send(text(output(i + 2, data)))
            c.say(completed(total + 2))
            c.hang_up()

        async def test(session):
            await session.send(shell="yes")
            await until(lambda: session._exchange.full, session)
            await turn()
            self.assertLess(session._exchange.queued, _exchange.QUEUE_MAX + (1 << 20))
            taken = [e.sequence async for e in session.receive()]
            self.assertEqual(taken, list(range(2, total + 3)))

        self.session_test(test, script)

    def test_an_iteration_that_is_left_leaves_nothing(self):
        def requests(c):
            while True:
                r = c.request()
                c.answer(200, {"sessions": [SANDBOX] * 2, "next": "more"}
                         if r.path.endswith("/sessions") else SANDBOX)

        def script(c):
            c.json()
            c.say(accepted("op-1"), output(2, b""))
            c.hang_up()

        gateway = self.serve(requests, upgraded(script))

        async def run():
            async with Client(gateway.url, timeout=wire.TIMEOUT) as client:
                async for box in client.sandboxes("shell"):
                    break
                events = follow(box, "op-1")
                self.assertEqual((await events.__anext__()).sequence, 1)
                await events.aclose()
                async with box.open() as session:
                    await session.resume("op-1")
                    async for _ in session.receive():
                        break
        self.run_in_loop(run())

    def test_asyncio_run_ends_what_a_program_leaves(self):
        def script(c):
            c.json()
            c.say(accepted("op-1"))
            c.hang_up()

        gateway = self.serve(show, upgraded(script))

        async def run():
            asyncio.get_running_loop().set_exception_handler(
                lambda loop, context: self.fail(str(context)))
            async with Client(gateway.url, timeout=wire.TIMEOUT) as client:
                box = await client.sandbox("shell", "s-1")
                waiting = asyncio.create_task(wait(box))
                self.assertEqual((await follow(box, "op-1").__anext__()).sequence, 1)
                self.assertFalse(waiting.done())

        async def wait(box):
            async with box.open() as session:
                await session.send(shell="true")
                async for _ in session.receive():
                    pass

        asyncio.run(run())

    def test_each_loop_has_its_connections(self):
        gateway = self.serve(lambda c: [(c.request(), c.answer(200, SANDBOX)) for _ in range(2)])
        client = Client(gateway.url, timeout=wire.TIMEOUT)

        async def ask():
            for _ in range(2):
                await client.acquire("shell")
            await client.close()

        self.run_in_loop(ask())
        self.run_in_loop(ask())
        self.assertEqual(gateway.connections, 2)


if __name__ == "__main__":
    unittest.main()
