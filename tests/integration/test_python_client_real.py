"""The Python clients and a whole daemon: gateway, broker, chambers."""

import asyncio
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import unittest

import daemon_lab
import wire
from daemon_lab import Daemon
from python_client_kinds import Asyncio, Blocking
from python_client_lab import PACKAGE
from real import wait_for

import caisson_client as api
from caisson_client import Gap, Output, aio

TIMEOUT = 300  # of this file, for run.py
EXAMPLES = wire.ROOT / "examples" / "client"
ALICE, BOB = "alice-token", "bob-token"
CONFIG = """version: 1
limits: {{ kill_grace: 200ms, shutdown_grace: 5s }}
sessions: {{ max: 8, queue: 1, operation_timeout: 60s }}
retention: {{ mode: memory, operation: 256KiB, total: 4MiB, time: 15m }}
principals:
  - {{ id: "human:alice", tokens: [{alice}], runtimes: [shell] }}
  - {{ id: "human:bob", tokens: [{bob}], runtimes: ["*"], sessions: 1 }}
gateway:
  listen:
    - {{ address: "127.0.0.1:0" }}
    - {{ socket: {dir}/g.sock }}
{tls}runtimes:
  - {{ id: shell, builtin: command, profile: interpreter }}
  - {{ id: other, builtin: command, profile: interpreter }}
"""
TLS = """    - {{ address: "127.0.0.1:0", tls: {{ certificate: {dir}/server.pem, key: {dir}/server.key }} }}
"""


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


@unittest.skipUnless(wire.program("caisson-gateway"), "caisson-gateway is not built")
class Real(Blocking, daemon_lab.Case):
    def configure(self, grace="20s", more=""):
        path = self.dir / "c.yaml"
        tls = ""
        if shutil.which("openssl"):
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=server",
                 "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.dir / "server.key",
                 "-out", self.dir / "server.pem"], check=True, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, timeout=wire.TIMEOUT)
            tls = TLS.format(dir=self.dir)
        path.write_text(CONFIG.format(dir=self.dir, alice=digest(ALICE), bob=digest(BOB), tls=tls))
        return path

    def setUp(self):
        super().setUp()
        self.daemon = Daemon(self)

        def listens():
            found = re.findall(r"gateway listens on (127\S+)", self.daemon.stderr())
            return found if len(found) == (2 if (self.dir / "server.pem").exists() else 1) else None

        self.addresses = wait_for(listens, "the gateway's listeners")
        self.url = "http://" + self.addresses[0]

    def client(self, token=ALICE, url=None, **options):
        c = self.connect(url or self.url, token=token, timeout=wire.TIMEOUT, **options)
        self.addCleanup(c.close)
        return c

    def finish(self, session):
        """(what it wrote, its terminal event)"""
        written = b""
        for e in session.receive():
            if isinstance(e, Output):
                written += e.data
        return written, e

    def test_a_whole_life_over_each_kind_of_listener(self):
        urls = [(self.url, {}), (f"http+unix://{self.dir}/g.sock", {})]
        if len(self.addresses) > 1:
            urls.append(("https://" + self.addresses[1],
                         {"cafile": str(self.dir / "server.pem")}))
        for url, options in urls:
            with self.subTest(url), self.client(url=url, **options) as client, \
                    client.acquire("shell", lease=30) as box, box.open() as s:
                s.create_directory("d/e", recursive=True)
                self.assertEqual(self.finish(s)[1].type, "completed")
                s.write_file("d/e/f", b"3\n1\n")
                self.assertEqual(self.finish(s)[1].result["size"], 4)
                s.write_file("d/e/f", "2\n", append=True)
                self.assertEqual(self.finish(s)[1].type, "completed")
                s.send(command=["sort", "-"], directory="d/e", stdin=b"b\na\n")
                self.assertEqual(self.finish(s)[0], b"a\nb\n")
                s.send(shell='sort f; echo "$A" >&2; exit 3', directory="d/e", env={"A": "x"})
                written, end = self.finish(s)
                self.assertEqual((sorted(written.split()), end.exit_code),
                                 ([b"1", b"2", b"3", b"x"], 3))
                s.rename_file("d/e/f", "g")
                self.finish(s)
                self.assertEqual([(e.name, e.type) for e in box.files.list(page=1)],
                                 [("d", "directory"), ("g", "file")])
                self.assertEqual(box.files.read("g"), b"3\n1\n2\n")
                self.assertEqual(box.files.read("g", 2, 1), b"1")
                self.assertEqual(box.files.stat("g").size, 6)
                with self.assertRaises(api.NotFound):
                    box.files.read("d/e/f")
                s.delete_file("d", recursive=True)
                self.assertEqual(self.finish(s)[1].type, "completed")
                self.assertEqual(client.sandbox("shell", box.id).info["operations"], 7)

    def test_operations_are_listed_and_described(self):
        box = self.client().acquire("shell")
        with box.open() as s:
            for _ in range(3):
                s.send(shell="true")
                self.finish(s)
            last = s.send(shell="exit 1")
            self.finish(s)
        listed = list(box.operations(page=3))
        self.assertEqual([o["state"] for o in listed], ["succeeded"] * 4)
        self.assertEqual(box.operation(last)["kind"], "command")
        with self.assertRaises(api.NotFound):
            box.operation("o-none")

    def test_a_refusal_is_typed(self):
        with self.assertRaises(api.Unauthenticated):
            self.client("nobody").acquire("shell")
        with self.assertRaises(api.PermissionDenied):
            self.client().acquire("other")
        with self.assertRaises(api.NotFound):
            self.client(namespace="none").acquire("shell")
        bob, alice = self.client(BOB), self.client()
        box = bob.acquire("shell", idempotency_key="once")
        self.assertEqual(bob.acquire("shell", idempotency_key="once").id, box.id)
        with self.assertRaises(api.AlreadyExists):
            bob.acquire("shell", queue=1, idempotency_key="once")
        with self.assertRaises(api.ResourceExhausted):
            bob.acquire("shell")
        with self.assertRaises(api.NotFound):
            alice.sandbox("shell", box.id)
        with self.assertRaises(api.InvalidArgument):
            alice.acquire("shell", timeout=0)
        self.assertEqual([b.id for b in bob.sandboxes("shell")], [box.id])
        self.assertEqual(list(alice.sandboxes("shell")), [])
        with box.open() as s:
            with self.assertRaises(api.InvalidArgument):
                s.write_file("../x", b"")
            s.send(command=["no-such-program"])
            self.assertEqual(self.finish(s)[1].code, "not_found")
        box.release(immediate=True, wait=True)
        with self.assertRaises((api.FailedPrecondition, api.NotFound)), box.open() as s:
            s.send(shell="true")

    def test_the_same_key_finds_the_same_operation(self):
        box = self.client().acquire("shell")
        with box.open() as s:
            first = s.send(shell="echo $$ >>once; echo out", idempotency_key="k")
            self.assertEqual(self.finish(s)[0], b"out\n")
            self.assertEqual(s.send(shell="echo $$ >>once; echo out", idempotency_key="k"), first)
            self.assertEqual(self.finish(s)[0], b"out\n")
            with self.assertRaises(api.AlreadyExists):
                s.send(shell="other", idempotency_key="k")
        self.assertEqual(len(box.files.read("once").splitlines()), 1)

    def test_cancel_ends_it_and_the_next_goes_on(self):
        with self.client().acquire("shell").open() as s:
            operation = s.send(shell="echo ready; sleep 1000")
            for e in s.receive():
                if isinstance(e, Output):
                    s.cancel(operation)
            self.assertEqual((e.type, e.code), ("failed", "canceled"))
            s.send(shell="echo next", timeout=30)
            self.assertEqual(self.finish(s)[0], b"next\n")
            s.send(shell="echo begun; sleep 1000", timeout=3)
            written, end = self.finish(s)
            self.assertEqual((written, end.code), (b"begun\n", "deadline_exceeded"))

    def test_what_a_client_leaves_goes_on_and_is_taken_up(self):
        box = self.client().acquire("shell")
        with box.open() as s:
            operation = s.send(shell="echo one; while ! [ -e go ]; do sleep 0.05; done; echo two")
            first = next(s.receive())
        self.assertEqual(first.data, b"one\n")
        self.assertEqual(box.operation(operation)["state"], "running")
        # Behind it in the queue, and one more than that is too many.
        with box.open() as s:
            waiting = s.send(shell="echo waited")
            with box.open() as other, self.assertRaises(api.ResourceExhausted):
                other.send(shell="true")
            taken = []

            def follow():
                taken.extend(self.follow(box, operation, first.sequence))

            thread = threading.Thread(target=follow)
            thread.start()
            with open(self.workspace() / "go", "w"):
                pass
            thread.join(wire.TIMEOUT)
            self.assertFalse(thread.is_alive())
            self.assertEqual([e.data for e in taken if isinstance(e, Output)], [b"two\n"])
            self.assertEqual([e.sequence for e in taken], [3, 4])
            self.assertEqual(self.finish(s)[0], b"waited\n")
        with box.open() as s:
            s.resume(waiting, 0)
            self.assertEqual([e.type for e in s.receive()], ["accepted", "output", "completed"])
            s.resume(waiting, 99)
            with self.assertRaises(api.InvalidArgument):
                list(s.receive())
            s.resume("o-none")
            with self.assertRaises(api.NotFound):
                list(s.receive())

    def workspace(self):
        [found] = self.state.glob("namespaces/default/workspaces/*")
        return found

    def test_output_that_is_not_kept_is_named(self):
        box = self.client().acquire("shell")
        with box.open() as s:
            operation = s.send(shell="head -c 2000000 /dev/zero")
            self.finish(s)
        with box.open() as s:
            s.resume(operation, 0)
            events = list(s.receive())
        gaps = [e for e in events if isinstance(e, Gap)]
        self.assertEqual(len(gaps), 1)
        at = 0
        for e in events:
            self.assertEqual(e.first if isinstance(e, Gap) else e.sequence, at + 1)
            at = e.sequence
        self.assertEqual(events[-1].type, "completed")

    def test_much_output_comes_whole_to_who_reads(self):
        with self.client().acquire("shell").open() as s:
            s.send(shell="head -c 100000 /dev/zero | tr '\\0' x; seq 20000")
            written, end = self.finish(s)
        self.assertEqual(written, b"x" * 100000 + b"".join(b"%d\n" % i for i in range(1, 20001)))
        self.assertEqual(end.exit_code, 0)

    def test_a_lease_lasts_while_its_session_is_open(self):
        client = self.client()
        box = client.acquire("shell", lease=2)
        with box.open() as s:
            s.send(shell="sleep 5; echo there")
            self.assertEqual(self.finish(s)[0], b"there\n")
        wait_for(lambda: client.sandbox("shell", box.id).info["state"] == "closed", "its end")
        self.assertEqual(client.sandbox("shell", box.id).info["cause"], "lease")

    def test_a_gateway_that_is_killed_loses_no_event(self):
        box = self.client().acquire("shell")
        with box.open() as s:
            operation = s.send(shell="seq 3; while ! [ -e go ]; do sleep 0.05; done; seq 4 2000")
            first = next(s.receive())
            os.kill(self.daemon.service("gateway"), signal.SIGKILL)
            with self.assertRaises(api.TransportError) as caught:
                list(s.receive())
        self.assertEqual((caught.exception.operation, caught.exception.sequence),
                         (operation, first.sequence))
        with open(self.workspace() / "go", "w"):
            pass
        events = list(self.follow(box, operation, first.sequence, attempts=100))
        self.assertEqual([e.sequence for e in events],
                         list(range(first.sequence + 1, events[-1].sequence + 1)))
        written = first.data + b"".join(e.data for e in events if isinstance(e, Output))
        self.assertEqual(written, b"".join(b"%d\n" % i for i in range(1, 2001)))
        self.assertEqual(events[-1].exit_code, 0)

    def example(self, name, *words):
        """(status, stdout, stderr)"""
        done = subprocess.run(
            [sys.executable, "-B", str(EXAMPLES / name), self.url, *words], text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(PACKAGE), "CAISSON_TOKEN": ALICE},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=wire.TIMEOUT)
        return done.returncode, done.stdout, done.stderr

    def test_the_example_runs(self):
        self.assertEqual(self.example("run.py", "seq 3; echo no >&2; exit 4"),
                         (4, "1\n2\n3\n", "no\n"))


@unittest.skipUnless(wire.program("caisson-gateway"), "caisson-gateway is not built")
class RealOfAsyncio(Asyncio, Real):
    def test_the_example_runs(self):
        status, out, err = self.example("run_many.py", "seq 2", "echo b; exit 3", "kill -9 $$")
        self.assertEqual((status, sorted(out.splitlines()), err), (3, ["1: 1", "1: 2", "2: b"], ""))

    def test_the_example_ends_what_is_late(self):
        """Where the gateway is, too."""
        self.assertEqual(self.example("run_many.py", "--timeout", "0.5", "sleep 1000"),
                         (124, "", "1: not done in time\n"))
        self.assertLessEqual(self.states(), {"closed", "closing"})

    def test_the_example_ends_all_at_an_interrupt(self):
        with subprocess.Popen(
                [sys.executable, "-B", str(EXAMPLES / "run_many.py"), self.url,
                 "echo begun; sleep 1000", "echo begun; sleep 1000"], text=True,
                env={**os.environ, "PYTHONPATH": str(PACKAGE), "CAISSON_TOKEN": ALICE},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as many:
            watchdog = threading.Timer(wire.TIMEOUT, many.kill)
            watchdog.start()
            begun = sorted(many.stdout.readline() for _ in range(2))
            many.send_signal(signal.SIGINT)
            out, err = many.communicate()
            watchdog.cancel()
        self.assertEqual((begun, out, err, many.returncode), (["1: begun\n", "2: begun\n"], "", "", 130))
        self.assertLessEqual(self.states(), {"closed", "closing"})

    def states(self):
        return {box.info["state"] for box in self.client().sandboxes("shell")}

    def test_many_sandboxes_in_one_loop(self):
        """As somebody writes it who gives each piece of work a time."""
        async def one(client, number):
            async with client.acquire("shell", lease=30) as box, box.open() as session:
                await session.send(shell=f"echo {number}; [ {number} = 3 ] && sleep 1000; exit {number}")
                return [e async for e in session.receive()][-1].exit_code

        async def all_of_them():
            async with aio.Client(self.url, token=ALICE, timeout=wire.TIMEOUT) as client:
                work = [asyncio.wait_for(one(client, n), None if n != 3 else 3) for n in range(6)]
                return await asyncio.gather(*work, return_exceptions=True)

        results = self._run(all_of_them())
        self.assertIsInstance(results.pop(3), asyncio.TimeoutError)
        self.assertEqual(results, [0, 1, 2, 4, 5])


if __name__ == "__main__":
    unittest.main()
