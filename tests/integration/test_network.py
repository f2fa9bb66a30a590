"""Clients of a real gateway, over connections that break and with processes that die: nothing is
lost, repeated or run twice."""

import contextlib
import os
import random
import signal
import unittest

import network_lab
import real
from network_lab import Cutter, Swarm, memory, mute
from real import wait_for
from wire import SLOWER

from caisson_client import CaissonError, Completed, Gap, NotFound, Output, follow

TIMEOUT = 400  # of this file, for run.py
SOAK = bool(os.environ.get("CAISSON_SOAK"))  # as large as a user might; else as a test run bears
SEED = int(os.environ.get("CAISSON_SEED", "4711"))


class Ways(network_lab.Case):
    def test_the_same_over_loopback_a_unix_socket_and_tls(self):
        """OP-24, OP-12, OP-13: a command from its admission to its end."""
        self.daemon()
        for kind in ("plain", "unix", "tls"):
            with self.subTest(kind=kind), self.client(kind=kind) as client:
                with client.acquire("shell") as sandbox, sandbox.open() as session:
                    operation = session.send(shell="echo out; echo err >&2; exit 3")
                    events = list(session.receive())
                    self.assertIsInstance(events[-1], Completed)
                    self.assertEqual(events[-1].exit_code, 3)
                    self.assertEqual([e.sequence for e in events],
                                     list(range(2, len(events) + 2)))
                    self.assertEqual({e.operation for e in events}, {operation})
                    session.write_file("a", b"\0\xff")
                    list(session.receive())
                    self.assertEqual(sandbox.files.read("a"), b"\0\xff")


class Cuts(network_lab.Case):
    retained = "32MiB"

    def test_output_over_a_connection_that_is_cut_again_and_again(self):
        """OP-39, OP-26: equal bytes, no repeat, and no hole without a gap that names it."""
        size, cuts = (10 << 20, 200) if SOAK else (3 << 20, 60)
        self.daemon()
        chance = random.Random(SEED)
        # A connection lives for a part of what is to come, base64 and frames counted in.
        cutter = Cutter(self.plain,
                        lambda n: (None, chance.randrange(1, 2 * (size * 3 // 2) // cuts)))
        self.addCleanup(cutter.close)
        direct = self.client()
        sandbox = direct.acquire("shell")
        with sandbox.open() as session:
            operation = session.send(command=["python3", "-c", f"""
import random, sys
r = random.Random(1)
for _ in range({size} // 4096):
    sys.stdout.buffer.write(r.randbytes(4096))
"""])
        # A sandbox is the same thing through the cutter.
        through = self.client(cutter.address)
        cut = through.sandbox("shell", sandbox.id)
        got, last = [], 1
        for event in follow(cut, operation, last, attempts=1000, pause=0.001):
            self.assertNotIsInstance(event, Gap)
            self.assertEqual(event.sequence, last + 1)
            last = event.sequence
            if isinstance(event, Output):
                got.append(event.data)
        self.assertIsInstance(event, Completed)
        wanted = random.Random(1)
        self.assertEqual(b"".join(got), b"".join(wanted.randbytes(4096)
                                                 for _ in range(size // 4096)))
        self.assertGreater(cutter.cuts, cuts // 4)
        sandbox.release(immediate=True)

    def test_a_reply_lost_at_each_byte_of_an_admission_is_one_operation(self):
        """OP-38, D-10: sent again under its key, it is attached to."""
        self.daemon()
        direct = self.client()
        sandbox = direct.acquire("shell")
        # From the upgrade's answer to the accepted event: as many bytes as a first pass takes.
        limit = [None]
        cutter = Cutter(self.plain, lambda _: (None, limit[0]))
        self.addCleanup(cutter.close)
        through = self.client(cutter.address)
        cut = through.sandbox("shell", sandbox.id)
        step = 1 if SOAK else 7
        sent = 0
        for limit[0] in range(1, 700, step):
            key = f"k-{limit[0]}"
            with contextlib.suppress(CaissonError):
                with cut.open() as session:
                    session.send(shell=f"echo x >>ran-{key}", idempotency_key=key)
            with sandbox.open() as session:
                operation = session.send(shell=f"echo x >>ran-{key}", idempotency_key=key)
                for event in session.receive():
                    pass
                self.assertIsInstance(event, Completed, event)
            self.assertEqual(sandbox.files.read(f"ran-{key}"), b"x\n")
            sent += 1
        listed = [o for o in sandbox.operations()]
        self.assertEqual(len(listed), sent)
        sandbox.release(immediate=True)


class Slow(network_lab.Case):
    retained = "256KiB"

    def test_clients_that_never_read_hold_nothing_back_and_cost_nothing(self):
        """OP-17, OP-40: the operation goes on, memory stays flat, and who reads gets it all."""
        # As many at each operation as may follow one, beside the one that reads.
        clients, size = (105, 1 << 30) if SOAK else (30, 64 << 20)
        each, command = 15, f"head -c {(size // 2)} /dev/zero"
        self.daemon()
        client = self.client()
        sandboxes = [client.acquire("shell") for _ in range(clients // each)]
        with contextlib.ExitStack() as stack:
            operations = []
            for sandbox in sandboxes:
                session = stack.enter_context(sandbox.open())
                operations.append(session.send(shell=command))
                if sandbox is not sandboxes[0]:
                    session.close()
                for _ in range(each):
                    stack.enter_context(mute(self.plain, sandbox.id, operations[-1]))
                if sandbox is sandboxes[0]:
                    reader = session
            pids = {name: self.service(name) for name in ("broker", "gateway", "ledger")}
            before = {name: memory(pid) for name, pid in pids.items()}
            last, read, lost = 1, 0, 0
            for event in reader.receive():
                if isinstance(event, Gap):
                    lost += event.last - event.first + 1
                    self.assertEqual(event.first, last + 1)
                    last = event.last
                    continue
                self.assertEqual(event.sequence, last + 1)
                last = event.sequence
                read += len(event.data) if isinstance(event, Output) else 0
            self.assertIsInstance(event, Completed)
            if lost == 0:  # it kept up
                self.assertEqual(read, size // 2)
            for sandbox, operation in zip(sandboxes[1:], operations[1:]):
                wait_for(lambda sandbox=sandbox, operation=operation:
                         sandbox.operation(operation)["state"] == "succeeded",
                         "its end")
            for name, pid in pids.items():
                # What 100 sockets and logs may hold, and nothing that grows with the output.
                self.assertLess(memory(pid) - before[name], (48 << 20) * SLOWER, name)


class Many(network_lab.Case):
    sessions, total = 1100, "256MiB"
    number = 1000 if SOAK else 60

    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)

    def kill(self, name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.service(name), signal.SIGKILL)

    def kill_workers(self):
        commands = [pid for pid in real.below(self.d.process.pid)
                    if (real.proc_text(pid, "cmdline") or "").startswith("/bin/sh")]
        for pid in self.chance.sample(commands, min(3, len(commands))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def assert_ended(self, line, ran):
        self.assertEqual(line.endings, 1)
        self.assertLessEqual(ran, 1)
        if line.ending["type"] == "completed":
            self.assertEqual(ran, 1)
            return
        failed = line.ending["failed"]
        if failed["cause"]["kind"] == "host_lost":
            self.assertEqual(ran, 0)  # it is retryable, as it has provably not run
        elif failed["cause"]["kind"] != "signaled":
            # It had begun, as far as anybody knows, and nobody saw its end.
            self.assertEqual((failed["code"], failed["cause"]["kind"]),
                             ("unavailable", "outcome_unknown"))

    def ran(self, swarm, name="ran"):
        """How often each command has run, by what it left in its workspace."""
        times = []
        for sandbox in swarm.sandboxes:
            try:
                times.append(sandbox.files.read(name).count(b"x"))
            except NotFound:
                times.append(0)
        return times

    def test_many_sessions_with_live_output(self):
        """OP-5, OP-13, OP-17: no event is lost, comes twice or out of order; also beside a client
        that never reads, one that floods, and one that goes away after each event."""
        self.daemon()
        swarm = Swarm(self, self.plain, self.number)
        swarm.send("echo x >>ran; i=0; while [ $i -lt 50 ]; do echo line $i; i=$((i+1)); done", "k")
        swarm.lines[0].restless = True
        odd = []

        def between(swarm):
            if not odd and swarm.lines[1].operation is not None:
                for line in swarm.lines[1:3]:
                    odd.append(mute(self.plain, line.sandbox, line.operation or
                                    swarm.lines[1].operation))
                    self.addCleanup(odd[-1].close)
            for sock in odd[1:]:  # it asks again and again, and hears no answer
                sock.setblocking(False)
                with contextlib.suppress(OSError):
                    sock.send(network_lab.HEARTBEAT * 1000)

        swarm.run(between)
        self.assertGreaterEqual(swarm.lines[0].connections, 3)  # an event each
        wanted = b"".join(b"line %d\n" % i for i in range(50))
        for line in swarm.lines:
            self.assertEqual((line.output, line.endings, line.gaps), (wanted, 1, []))
            self.assertEqual(line.ending["completed"]["command"]["exitCode"], 0)
        self.assertEqual(self.ran(swarm), [1] * self.number)

    def test_whatever_is_killed_each_operation_ends_once(self):
        """OP-41, OP-27, D-2, D-10: what is not known is called that, and nothing runs twice."""
        self.daemon()
        swarm = Swarm(self, self.plain, self.number)
        for turn, names in enumerate(("gateway worker ledger gateway broker", "broker",
                                      "worker gateway ledger broker", "ledger gateway worker")):
            swarm.send(f"echo x >>ran-{turn}; i=0; while [ $i -lt 60 ]; do echo line $i;"
                       " i=$((i+1)); sleep 0.1; done; echo done", f"k-{turn}")
            kills = names.split()

            def between(swarm, kills=kills):
                if kills and sum(line.last > 1 for line in swarm.lines) > self.number // 8:
                    name = kills.pop(0)
                    (self.kill_workers if name == "worker" else lambda: self.kill(name))()

            swarm.run(between)
            self.assertEqual(kills, [])
            for line, ran in zip(swarm.lines, self.ran(swarm, f"ran-{turn}")):
                self.assert_ended(line, ran)
        self.verified()


if __name__ == "__main__":
    unittest.main()
