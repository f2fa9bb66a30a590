"""The gateway as its supervisor sees it: born with its sockets, replaced, linked, ended.

A program of the tests stands in for it (tests/programs/fake_gateway.c), in a copy of the build.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import unittest

import daemon_lab
import real
import wire
from daemon_lab import Case, Daemon, ending, waiting
from real import IS_ROOT, WAIT, proc_text, wait_for
from wire import Peer

TIMEOUT = 240  # of this file, for run.py
BUILD = pathlib.Path(os.environ["CAISSON_BUILD"])
FAKE = BUILD / "test/program/fake_gateway"

GATEWAY = """gateway:
  listen:
    - {{ address: "127.0.0.1:0" }}
    - {{ socket: {dir}/g.sock }}
  monitor: "127.0.0.1:0"
{more}"""

# As systemd does: sockets from 3 on, and who they are for.
ACTIVATE = """import os, sys
fds, names = sys.argv[1].split(","), sys.argv[2]
for n, fd in enumerate(fds):
    os.dup2(int(fd), 3 + n)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=names)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Lab(Case):
    def setUp(self):
        super().setUp()
        if not FAKE.exists():
            self.skipTest("the programs of the tests are not built")
        tree = self.dir / "tree"
        (tree / "bin").mkdir(parents=True)
        shutil.copy(BUILD / "bin/caissond", tree / "bin")
        shutil.copytree(BUILD / "libexec", tree / "libexec")
        shutil.copy(FAKE, tree / "libexec/caisson-gateway")
        self.program = tree / "bin/caissond"
        self.config = self.configure()

    def configure(self, grace="20s", more="", gateway=None):
        gateway = GATEWAY if gateway is None else gateway
        return super().configure(grace, gateway.format(dir=self.dir, more=more))

    def daemon(self, *words, **more):
        self.d = Daemon(self, *words, program=self.program, **more)
        return self.d

    def listens(self):
        """Where it says that it listens, in order; TCP as (host, port)."""
        found = re.findall(r"gateway listens on (\S+)", self.d.stderr())
        return [(m[1], int(m[2])) if (m := re.fullmatch(r"\[?([0-9.:a-f]+?)\]?:(\d+)", x)) else x
                for x in found]

    def connect(self, where=0):
        address = self.listens()[where]
        sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.addCleanup(sock.close)
        sock.settimeout(WAIT)
        sock.connect(address)
        return sock

    def send(self, line, where=0):
        sock = self.connect(where)
        sock.sendall(line.encode() + b"\n")
        return sock

    def ask(self, line, where=0):
        return self.hear(self.send(line, where))

    def hear(self, sock):
        with sock, sock.makefile("rb") as f:
            return f.read().decode().split()

    def pid(self):
        return int(self.ask("say x")[1])

    def logged(self, text, count=1):
        return wait_for(lambda: self.d.stderr().count(text) >= count, text)


class Birth(Lab):
    def test_it_has_its_sockets_its_configuration_and_nothing_else(self):
        self.daemon()
        said = self.ask("say hello")
        self.assertEqual(said[0], "hello")
        # 0, 1, 2, control, three sockets, and the connection; the configuration is read
        self.assertEqual(said[3:6], ["3", "7", "8"])
        inside = proc_text(self.gateway(), "status")
        uid = int(re.search(r"^Uid:\s+(\d+)", inside, re.M)[1])
        self.assertEqual(uid == os.geteuid(), not IS_ROOT)
        self.assertEqual(re.search(r"^CapPrm:\s+(\w+)", inside, re.M)[1], "0" * 16)
        for name in ("net", "pid", "mnt", "ipc") if IS_ROOT else ():
            self.assertNotEqual(real.namespace(self.gateway(), name),
                                real.namespace("self", name))

    def gateway(self):
        return self.d.service("gateway")

    def test_each_socket_is_served(self):
        self.daemon()
        self.assertEqual(self.listens()[1], str(self.dir / "g.sock"))
        for where in range(3):
            self.assertEqual(self.ask("say hello", where)[0], "hello")
        self.assertEqual((self.dir / "g.sock").stat().st_mode & 0o777, 0o600)

    def test_ps_shows_it(self):
        d = self.daemon()
        result = self.caisson("ps", "--socket", self.socket, "-o", "jsonl")
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        row = next(r for r in rows if r["role"] == "gateway")
        self.assertEqual((row["state"], row["profile"], row["network"]),
                         ("running", "gateway", "own"))
        self.assertEqual(row["descriptors"]["handed"], ["null", "null", "log", "control", "listening", "config"])
        self.assertEqual(row["pid"], d.service("gateway"))

    def test_at_the_end_it_is_told_how_long_the_broker_has(self):
        self.daemon()
        self.d.end()
        self.assertIn("shutdown within 20000 ms", self.d.stderr())  # limits.shutdown_grace

    def test_an_address_that_is_taken_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            port = taken.getsockname()[1]
            self.config = self.configure(
                gateway=f'gateway: {{{{ listen: [ {{{{ address: "127.0.0.1:{port}" }}}} ] }}}}\n')
            d = self.daemon(ready=False)
            self.assertFalse(d.ready)
            self.assertEqual(d.process.wait(WAIT), 125)
            self.assertIn(f"gateway.listen[0]: 127.0.0.1:{port}: cannot listen there: "
                          "Address already in use (name another port", d.stderr())

    def test_a_configuration_that_it_does_not_take_starts_nothing(self):
        self.config = self.configure(more="namespace: unwanted\n")
        d = self.daemon(ready=False)
        self.assertFalse(d.ready)
        self.assertEqual(d.process.wait(WAIT), 125)
        self.assertIn("the gateway does not take it", d.stderr())

    def test_without_a_program_the_rest_is_served(self):
        (self.dir / "tree/libexec/caisson-gateway").unlink()
        d = self.daemon()
        self.assertIn("cannot start the gateway", d.stderr())
        d.client()
        self.assertEqual(d.end(), 0)

    def test_without_a_gateway_there_is_none(self):
        self.config = self.configure(gateway="")
        d = self.daemon()
        self.assertEqual(self.listens(), [])
        self.assertEqual([p for p in real.below(d.process.pid)
                          if "gateway" in (proc_text(p, "cmdline") or "")], [])


class Deaths(Lab):
    def descriptors(self):
        """How many, without the mounts that launches keep, which change as the machine's do."""
        found = []
        for fd in pathlib.Path(f"/proc/{self.d.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(os.readlink(fd))
        return sum(not name.startswith("mnt:") for name in found)

    def test_killed_again_and_again_it_loses_nobody_and_touches_nothing(self):
        d = self.daemon()
        peer = d.client()
        waiting(peer)
        self.pid()
        before = self.descriptors()
        seen = {d.service("gateway")}
        for _ in range(5):
            os.kill(d.service("gateway"), signal.SIGKILL)
            meanwhile = [self.send(f"say {n}", n % 3) for n in range(6)]
            for n, sock in enumerate(meanwhile):
                self.assertEqual(self.hear(sock)[0], str(n))
            self.assertEqual(self.pid(), 1)  # of its chamber
            seen.add(d.service("gateway"))
        self.assertGreaterEqual(len(seen), 6)
        wait_for(lambda: self.descriptors() == before, "its descriptors")
        self.assertEqual(len(re.findall("the gateway is gone", d.stderr())), 5)
        self.assertNotIn("the broker is gone", d.stderr())
        # What ran all the while runs still, and ends as it would have.
        self.assertEqual(d.end(), 0)
        self.assertEqual(ending(peer)["type"], "failed")

    def test_one_that_keeps_dying_starts_slowly_and_the_daemon_goes_on(self):
        d = self.daemon()
        for _ in range(6):
            self.hear(self.send("exit 3"))
        self.logged("the gateway died 6 times in 10 s: it starts again in 30 s")
        waits = self.send("say later")
        d.client()
        self.assertEqual(d.end(), 0)
        with self.assertRaises(OSError):
            waits.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
            if not waits.recv(1):
                raise OSError("closed")

    def test_one_that_does_not_answer_is_killed(self):
        d = self.daemon()
        first = d.service("gateway")
        self.assertEqual(self.ask("mute"), ["done"])
        self.logged("the gateway is gone: signal 9, it did not answer")
        self.assertEqual(self.ask("say back")[0], "back")
        self.assertNotEqual(d.service("gateway"), first)

    def test_what_no_gateway_may_say_kills_it_alone(self):
        d = self.daemon()
        peer = d.client()
        waiting(peer)
        # READY again, SETTLED unasked, a broker's order, nobody's
        for n, verb in enumerate((32, 38, 34, 999)):
            self.hear(self.send(f"order {verb}"))
            self.logged(f"the gateway asked for what no gateway may (verb {verb}): killed")
            self.logged("the gateway is gone", n + 1)
            self.assertEqual(self.ask("say back")[0], "back")
        d.client()
        self.assertEqual(d.end(), 0)


class Dial(Lab):
    def link(self):
        return Peer(self.send("dial"))

    def dials(self):
        link = self.link()
        try:
            return link.hello()
        except wire.Closed:  # "error 11": not now
            return None

    def test_a_link_carries_the_brokers_protocol_and_nobodys_rights(self):
        self.daemon()
        link = self.link()
        self.assertEqual(link.hello()["protocol"], wire.caisson.PROTOCOL)
        error, _ = link.expect_reply(link.request("process.list"))
        self.assertEqual(error["code"], "unauthenticated")

    def test_links_come_again_behind_a_broker(self):
        d = self.daemon()
        link = self.link()
        link.hello()
        os.kill(d.service("broker"), signal.SIGKILL)
        with self.assertRaises((wire.Closed, OSError)):
            link.receive()
        wait_for(lambda: d.stderr().count("is served at") == 2, "the next broker")
        link = self.link()
        link.hello()
        self.assertNotIn("the gateway is gone", d.stderr())

    def test_local_clients_are_counted_apart(self):
        d = self.daemon()
        for _ in range(3):
            self.link().hello()
        for _ in range(3):
            d.client().close()
        d.client()
        self.assertNotIn("asked for what no broker may", d.stderr())

    def test_what_a_broker_does_not_take_is_bounded(self):
        d = self.daemon()
        broker = d.service("broker")
        os.kill(broker, signal.SIGSTOP)
        try:
            links, others = map(int, self.ask("dials 3000"))
        finally:
            os.kill(broker, signal.SIGCONT)
        self.assertEqual(links + others, 3000)
        self.assertGreater(links, 0)
        self.assertGreater(others, 1000)
        wait_for(self.dials, "a broker that has taken them")
        self.assertNotIn("is gone", d.stderr())


class Reload(Lab):
    def setUp(self):
        super().setUp()
        (self.dir / "cert.pem").write_text("certificate\n")
        (self.dir / "key.pem").write_text("key\n")
        (self.dir / "key.pem").chmod(0o600)
        self.config = self.configure()

    def configure(self, grace="20s", connections=100, port=0):
        return super().configure(gateway=f"""gateway:
  listen:
    - {{{{ address: "127.0.0.1:{port}", tls: {{{{ certificate: cert.pem, key: key.pem }}}} }}}}
  connections: {connections}
""")

    def bytes(self):
        return int(self.ask("say x")[6])

    def hang_up(self, text, count=1):
        self.d.process.send_signal(signal.SIGHUP)
        self.logged(text, count)

    TAKEN = "the gateway goes by its limits and certificates, read again"

    def test_certificates_and_limits_follow_at_hangup(self):
        self.daemon()
        before = self.bytes()
        (self.dir / "cert.pem").write_text("certificate, longer\n")
        self.hang_up(self.TAKEN)
        self.assertEqual(self.bytes(), before + 8)
        self.configure(connections=100_000 // 2)
        self.hang_up(self.TAKEN, 2)
        self.assertEqual(self.bytes(), before + 10)  # a number of three bytes instead of one
        self.assertIn("in force from now on: gateway.connections", self.d.stderr())
        # ... and its next one begins with that.
        os.kill(self.d.service("gateway"), signal.SIGKILL)
        self.assertEqual(self.bytes(), before + 10)

    def test_what_it_does_not_take_changes_nothing(self):
        self.daemon()
        before = self.bytes()
        self.assertEqual(self.ask("refuse"), ["done"])
        (self.dir / "cert.pem").write_text("certificate, longer\n")
        self.hang_up("the gateway does not take it (Invalid argument)")
        self.assertEqual(self.bytes(), before)
        os.kill(self.d.service("gateway"), signal.SIGKILL)
        self.assertEqual(self.bytes(), before)

    def test_a_file_that_cannot_be_read_refuses_the_whole(self):
        d = self.daemon()
        (self.dir / "key.pem").unlink()
        self.configure(connections=7)
        self.hang_up("nothing has changed")
        self.assertIn("gateway.listen[0].tls.key", d.stderr())
        self.assertNotIn("in force from now on", d.stderr())

    def test_another_address_needs_a_restart_and_says_so(self):
        self.daemon()
        self.configure(port=1, connections=7)
        self.hang_up(self.TAKEN)
        self.assertIn("needs a restart: gateway.listen", self.d.stderr())
        self.assertIn("in force from now on: gateway.connections", self.d.stderr())
        self.bytes()


class Activation(Lab):
    """Sockets that systemd opened."""

    def sockets(self):
        public, local = socket.socket(), socket.socket(socket.AF_UNIX)
        public.bind(("127.0.0.1", 0))
        local.bind(str(self.socket))
        for sock in (public, local):
            self.addCleanup(sock.close)
            sock.listen(5)
        return public, local

    def activated(self, names, *socks, **more):
        fds = [s.fileno() for s in socks]
        return self.daemon(runner=["/usr/bin/python3", "-c", ACTIVATE, ",".join(map(str, fds)), names],
                           fds=fds, **more)

    def test_they_are_served_and_stay(self):
        public, local = self.sockets()
        port = public.getsockname()[1]
        self.config = self.configure(
            gateway=f'gateway: {{{{ listen: [ {{{{ address: "127.0.0.1:{port}" }}}} ] }}}}\n')
        first = socket.create_connection(("127.0.0.1", port), WAIT)
        first.sendall(b"say early\n")
        d = self.activated("public:local", public, local)
        self.assertEqual(self.hear(first)[0], "early")
        self.assertEqual(self.listens(), [("127.0.0.1", port)])
        d.client()
        # Whoever connects is told the daemon's pid, as `caisson grant -c` asks for.
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.socket))
            pid = struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        self.assertEqual(pid, d.process.pid)
        self.assertEqual(d.end(), 0)
        self.assertTrue(self.socket.exists())
        socket.create_connection(("127.0.0.1", port), WAIT).close()

    def refused(self, text, names, *socks):
        d = self.activated(names, *socks, ready=False)
        self.assertFalse(d.ready)
        self.assertEqual(d.process.wait(WAIT), 125)
        self.assertIn(text, d.stderr())

    def test_what_is_not_in_the_configuration_is_refused(self):
        public, _ = self.sockets()
        public.close()
        with socket.socket() as other:
            other.bind(("127.0.0.2", 0))
            other.listen(1)
            self.refused("no socket of this configuration has its address", "public", other)
            self.refused("expected FileDescriptorName=public, monitor or local", "http", other)
            self.refused("is no UNIX socket", "local", other)
        with socket.socket() as idle:
            idle.bind(("127.0.0.1", 0))
            self.refused("is no listening stream socket", "public", idle)


class Real(Lab):
    """The program itself in the place of the one that stands in for it."""

    def setUp(self):
        super().setUp()
        if not (BUILD / "libexec/caisson-gateway").exists():
            self.skipTest("caisson-gateway is not built")
        shutil.copy(BUILD / "libexec/caisson-gateway", self.dir / "tree/libexec")

    def get(self, where):
        sock = self.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r", where)
        return self.hear(sock)[:1]

    def test_killed_again_and_again_it_answers_all_who_came_meanwhile(self):
        d = self.daemon()
        for _ in range(4):
            os.kill(d.service("gateway"), signal.SIGKILL)
            for where in range(3):
                self.assertEqual(self.get(where), ["HTTP/1.1"])
        self.assertEqual(d.end(), 0)
        self.assertNotIn("in time: killed", d.stderr())


if __name__ == "__main__":
    unittest.main()
