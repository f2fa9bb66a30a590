"""The local socket of a daemon, attacked: who may ask, and what those who may not can do.

Each attack is followed by a neighbour that is served as before, by the same broker.
"""

import array
import contextlib
import os
import resource
import signal
import socket
import subprocess
import unittest

import real
from daemon_lab import CAISSON, CAISSOND, Case, Daemon, ending, submit
from real import IS_ROOT, WAIT, wait_for
from wire import Closed, Peer, caisson, frame

TIMEOUT = 240  # of this file, for run.py
NOBODY, SOMEBODY, OTHER = 65534, 4242, 4243
PROTOCOL = caisson.PROTOCOL
TOTAL, OTHERS, EACH = 2048, 1024, 128  # supervisor/listen.h


def setUpModule():
    """As many descriptors as there are places, and some."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < 2 * TOTAL:
        raise unittest.SkipTest(f"needs {2 * TOTAL} descriptors, and has {hard}")


def connect_as(uid, path, count=1):
    """Connections whose credentials, which the kernel keeps from connect(2), are `uid`'s."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            for _ in range(count):
                s = socket.socket(socket.AF_UNIX)
                s.connect(str(path))
                theirs.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                         array.array("i", [s.fileno()]))])
                s.close()
        finally:
            os._exit(0)
    theirs.close()
    peers = []
    with ours:
        ours.settimeout(WAIT)
        while len(peers) < count:
            data, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
            if not data:
                break
            for _, _, payload in ancillary:
                peers.append(Peer(array.array("i", payload)[0]))
    os.waitpid(child, 0)
    assert len(peers) == count, len(peers)
    return peers


class Local(Case):
    def served(self, d, broker=None):
        """A neighbour is served, by the broker that was there."""
        with d.client() as peer:
            submit(peer, {"say": "served"})
            self.assertEqual(ending(peer)["body"]["turn"]["output"], "served")
        if broker is not None:
            self.assertEqual(d.service("broker"), broker)

    def refused_everything(self, peer):
        peer.hello()
        for method, params in (("process.list", {}),
                               ("operation.submit", {"kind": "turn", "runtime": "a",
                                                     "message": {"say": 1}}),
                               ("operation.attach", {}),
                               ("operation.stop", {"operation": "op-1"}),
                               ("operation.signal", {"operation": "op-1", "signo": 15})):
            error, result = peer.expect_reply(peer.request(method, **params))
            self.assertIsNone(result)
            self.assertEqual(error["code"], "permission_denied", method)
            self.assertIn("is not the operator of this daemon", error["message"])
        for method, params in (("input.write", {"operation": "op-1", "data": b"x"}),
                               ("input.close", {"operation": "op-1"}),
                               ("output.close", {"operation": "op-1", "stream": "stdout"})):
            peer.notify(method, **params)
        error, _ = peer.expect_reply(peer.request("process.list"))  # the link lives
        self.assertEqual(error["code"], "permission_denied")

    def allowed(self, peer):
        peer.hello()
        submit(peer, {"say": 1})
        self.assertEqual(ending(peer)["body"]["turn"]["output"], 1)

    def as_uid(self, uid):
        """A daemon of that uid's."""
        probe = subprocess.run(["setpriv", "--reuid", str(uid), "--regid", str(uid),
                                "--clear-groups", "test", "-x", CAISSOND], check=False)
        if probe.returncode != 0:
            self.skipTest(f"the build cannot be read by uid {uid}")
        for path in (self.dir, *self.dir.rglob("*")):
            os.chown(path, uid, uid)
        return Daemon(self, runner=["setpriv", "--reuid", str(uid), "--regid", str(uid),
                                    "--clear-groups"])


class Operator(Local):  # D-14, D-18
    def test_the_owner_is_the_operator(self):
        self.allowed(Daemon(self).connect())

    @unittest.skipUnless(IS_ROOT, "needs root, to be somebody else")
    def test_with_roots_daemon_nobody_else_is(self):
        d = Daemon(self)
        for uid in (SOMEBODY, NOBODY):
            self.refused_everything(connect_as(uid, self.socket)[0])
            for words in (["ps"], ["run", "--runtime", "a"]):
                result = subprocess.run(
                    ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups",
                     CAISSON, *words, "--socket", self.socket], capture_output=True, text=True,
                    stdin=subprocess.DEVNULL, timeout=WAIT, check=False,
                    env=real.environment())
                if result.returncode in (126, 127) or "Permission denied" in result.stderr:
                    continue  # the build is not to be read
                self.assertEqual((result.returncode, result.stdout), (125, ""))
                self.assertIn("refused: permission_denied: uid", result.stderr)
        self.served(d)

    @unittest.skipUnless(IS_ROOT, "needs root, to be somebody else")
    def test_with_a_users_daemon_the_user_and_root_are(self):
        d = self.as_uid(SOMEBODY)
        self.allowed(connect_as(SOMEBODY, self.socket)[0])
        self.allowed(d.connect())
        for uid in (OTHER, NOBODY):
            self.refused_everything(connect_as(uid, self.socket)[0])

    @unittest.skipUnless(IS_ROOT, "needs root, to be somebody else")
    def test_nobodys_daemon_refuses_every_other_uid(self):
        d = self.as_uid(NOBODY)
        self.allowed(connect_as(NOBODY, self.socket)[0])
        self.refused_everything(d.connect())  # root
        self.refused_everything(connect_as(SOMEBODY, self.socket)[0])

    @unittest.skipUnless(IS_ROOT, "needs root, to be somebody else")
    def test_who_somebody_is_was_settled_when_they_connected(self):
        Daemon(self)
        peer = connect_as(SOMEBODY, self.socket)[0]
        self.refused_everything(peer)  # although it is root now that speaks

    def test_no_message_says_who_speaks(self):
        d = Daemon(self)
        for field in ("uid", "sender", "principal"):
            with d.connect() as peer:
                peer.request("hello", protocol=PROTOCOL, **{field: 0})
                self.assertTrue(peer.closed())
            with d.client() as peer:
                peer.request("process.list", **{field: 0})
                self.assertTrue(peer.closed())
        self.served(d)


@unittest.skipUnless(IS_ROOT, "needs root, to be somebody else")
class Principals(Local):  # D-14, D-18
    """Uids that the configuration names."""

    MORE = ("principals:\n"
            f"  - {{ id: human:some, uids: [{SOMEBODY}], runtimes: [a], sessions: 2 }}\n"
            f"  - {{ id: human:other, uids: [{OTHER}], runtimes: ['*'] }}\n")

    def configure(self, grace="20s", more=None):
        return super().configure(grace, self.MORE if more is None else more)

    def connect_as(self, uid):
        peer = connect_as(uid, self.socket)[0]
        peer.hello()
        return peer

    def refused(self, peer, code, method, **params):
        error, _ = peer.expect_reply(peer.request(method, **params))
        self.assertEqual((error or {}).get("code"), code, method)
        return error["message"]

    def test_each_has_its_own_sessions_through_deaths_and_reloads(self):
        d = Daemon(self)
        some, other = self.connect_as(SOMEBODY), self.connect_as(OTHER)
        session = some.call("session.acquire", runtime="a")["session"]["id"]
        self.refused(some, "permission_denied", "session.acquire", runtime="b")
        self.assertIn("human:some is not the operator of this daemon, who is uid 0",
                      self.refused(some, "permission_denied", "process.list"))
        self.refused(some, "permission_denied", "operation.submit", kind="turn", runtime="a",
                     message={"say": 1})
        some.call("operation.submit", kind="turn", session=session, message={"say": 7})
        self.assertEqual(ending(some)["body"]["turn"]["output"], 7)
        self.refused(other, "not_found", "session.show", session=session)
        self.refused_everything(connect_as(NOBODY, self.socket)[0])
        os.kill(d.service("broker"), signal.SIGKILL)
        self.assertTrue(some.closed())
        some, other = self.connect_as(SOMEBODY), self.connect_as(OTHER)
        shown = some.call("session.show", session=session)["session"]
        self.assertEqual((shown["state"], shown["principal"]), ("ready", "human:some"))
        self.refused(other, "not_found", "session.show", session=session)
        some.call("operation.submit", kind="turn", session=session, message={"say": 8})
        self.assertEqual(ending(some)["body"]["turn"]["output"], 8)
        # Its last record is its own to release; without its row it is the operator's.
        self.configure(more=self.MORE[:self.MORE.index("  - { id: human:other")].replace(
            str(SOMEBODY), str(SOMEBODY + 10)))
        d.process.send_signal(signal.SIGHUP)
        self.assertTrue(some.closed())
        self.assertTrue(other.closed())
        self.refused_everything(connect_as(SOMEBODY, self.socket)[0])
        with d.client() as operator:
            operator.call("session.release", session=session, wait=True)
        self.served(d)
        d.end()
        self.assertEqual({(r["type"], r["principal"]) for r in self.records()
                          # That a worker went is told whenever it is known, and one that
                          # takes long to go is killed.
                          if r.get("session") == session and "principal" in r and
                          r["type"] not in ("worker.ended", "kill.ordered")},
                         {(type, "human:some") for type in (
                             "session.acquired", "operation.accepted", "session.released")})


class Squatter(Local):
    """Somebody else takes the place of a daemon that does not run, where everybody may."""

    def listen_as(self, uid):
        ours, theirs = socket.socketpair()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                s = socket.socket(socket.AF_UNIX)
                s.bind(str(self.socket))
                os.chmod(self.socket, 0o666)
                s.listen()
                theirs.sendall(b"+")
                while True:
                    connection, _ = s.accept()
                    theirs.sendall(b"<" + connection.recv(1000) + b">")
            os._exit(0)
        theirs.close()
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.kill, child, signal.SIGKILL)
        self.addCleanup(ours.close)
        ours.settimeout(WAIT)
        self.assertEqual(ours.recv(1), b"+")
        return ours

    def said(self, ours):
        heard = b""
        while not heard.endswith(b">"):
            heard += ours.recv(1000)
        return heard

    @unittest.skipUnless(IS_ROOT, "needs root, to be somebody else")
    def test_nothing_is_said_to_them(self):
        self.dir.chmod(0o1777)
        heard = self.listen_as(SOMEBODY)
        for uid in (0, OTHER):
            for words in (["ps"], ["run", "--runtime", "a", "-m", '"secret"']):
                with self.subTest(uid=uid, words=words):
                    result = subprocess.run(
                        ["setpriv", "--reuid", str(uid), "--regid", str(uid),
                         "--clear-groups", CAISSON, *words, "--socket", self.socket],
                        capture_output=True, text=True, stdin=subprocess.DEVNULL,
                        timeout=WAIT, check=False, env=real.environment())
                    if result.returncode in (126, 127):
                        self.skipTest(f"the build cannot be read by uid {uid}")
                    self.assertEqual((result.returncode, result.stdout), (125, ""))
                    self.assertEqual(self.said(heard), b"<>")
                    self.assertIn("whoever listens there is neither you nor root",
                                  result.stderr)

    @unittest.skipUnless(IS_ROOT, "needs root, to be somebody else")
    def test_root_trusts_the_owner_of_the_directory(self):
        self.as_uid(SOMEBODY)
        result = self.caisson("ps", "--socket", self.socket)
        self.assertEqual(result.returncode, 0, result.stderr)


class Hostile(Local):
    def setUp(self):
        super().setUp()
        self.d = Daemon(self)
        self.broker = self.d.service("broker")

    def test_garbage_ends_its_own_connection(self):
        hello = frame([0, 1, "hello", [{"protocol": PROTOCOL}]])
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\0", b"\xff" * 64, b"\0\0\0\1\xc1",
                     b"\0\0\0\5" + b"\xdf\xff\xff\xff\xff",  # a map of 2^32 - 1
                     b"\0\x10\0\1",  # one byte over FRAME_MAX
                     frame([0, 1, "hello", [{"protocol": PROTOCOL + 1}]]),
                     frame([0, 1, "hello", []]), frame([1, 1, None, {}]),
                     frame([0, 1, "operation.submit", [{"kind": "turn"}]]),  # before hello
                     hello + hello):
            with self.subTest(data=data[:16]), self.d.connect() as peer:
                peer.send_raw(data)
                self.assertTrue(peer.closed())
        self.served(self.d, self.broker)

    def test_rows_of_others_are_faults(self):
        """What a worker, provider, ledger or supervisor says is no client's to say."""
        rows = [("tool.invoke", dict(operation="o", id="i", tool="t", arguments={})),
                ("operation.run", {}), ("state.load", dict(cursor=0)),
                ("audit.read", dict(cursor=0, limit=1)), ("no.such", {})]
        notes = [("process.row", {}), ("operation.event", {}), ("config.end", {}),
                 ("record", {}), ("operation.cancel", dict(operation="o", cause="c"))]
        for method, params in rows:
            with self.subTest(method=method), self.d.client() as peer:
                peer.request(method, **params)
                self.assertTrue(peer.closed())
        for method, params in notes:
            with self.subTest(method=method), self.d.client() as peer:
                peer.notify(method, **params)
                self.assertTrue(peer.closed())
        with self.d.client() as peer:
            peer.reply(7, count=1)
            self.assertTrue(peer.closed())
        self.served(self.d, self.broker)

    def test_who_says_nothing_is_dropped(self):
        silent, half = self.d.connect(), self.d.connect()
        half.send_raw(b"\0\0\0\x40\x94")
        patient = self.d.client()  # has said hello, and may take its time
        self.assertTrue(silent.closed())
        self.assertTrue(half.closed())
        self.assertEqual(patient.call("operation.submit", kind="turn", runtime="a",
                                      message={"say": 1})["operation"][:3], "op-")
        self.served(self.d, self.broker)

    def test_half_a_frame_after_hello_holds_up_nobody(self):
        held = [self.d.client() for _ in range(20)]
        for peer in held:
            peer.send_raw((1 << 19).to_bytes(4, "big") + b"\x94" + b"\0" * 1000)
        self.served(self.d, self.broker)
        for peer in held:
            peer.close()
        self.served(self.d, self.broker)

    def test_descriptors_that_are_sent_arrive_nowhere(self):
        before = self.open_files()
        with self.d.connect() as peer, open(os.devnull, "rb") as null:
            peer.sock.sendmsg([frame([0, 1, "hello", [{"protocol": PROTOCOL}]])],
                              [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                array.array("i", [null.fileno()] * 10))])
            self.assertEqual(peer.receive()[:2], [1, 1])
            names = [self.link_of(self.broker, fd) for fd in self.fds(self.broker)]
            self.assertNotIn(os.devnull, names[3:])
        wait_for(lambda: self.open_files() <= before, "the descriptors' end")
        self.served(self.d, self.broker)

    def fds(self, pid):
        return sorted(os.listdir(f"/proc/{pid}/fd"), key=int)

    def link_of(self, pid, fd):
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/{pid}/fd/{fd}")
        return ""

    def open_files(self):
        return len(self.fds(self.d.process.pid)), len(self.fds(self.broker))

    def test_a_flood_of_connections_is_bounded(self):
        before = self.open_files()
        peers = [self.d.client() for _ in range(TOTAL)]
        for _ in range(44):
            with self.d.connect() as peer, self.assertRaises(Closed):
                peer.hello()
        self.assertLess(len(self.fds(self.d.process.pid)), before[0] + 20)  # none is kept
        for peer in peers:
            peer.close()
        wait_for(lambda: self.open_files() <= before, "the connections' end")
        self.served(self.d, self.broker)
        self.assertEqual(self.d.stderr().count("is refused: there are"), 1)

    def test_thousands_of_connects_leave_nothing(self):
        before = self.open_files()
        for i in range(3000):
            with contextlib.suppress(Closed, ConnectionResetError):
                peer = self.d.connect()
                if i % 3 == 0:
                    peer.send_raw(b"\0\0")
                peer.close()
        # As long as the broker has not seen their ends, there may be no place.
        wait_for(lambda: self.open_files() <= before, "the connections' end")
        self.served(self.d, self.broker)

    def test_who_never_reads_is_cut_off(self):
        peer = self.d.client()
        with contextlib.suppress(Closed, TimeoutError):
            for i in range(200000):
                peer.send_raw(frame([0, 100 + i, "operation.stop", [{"operation": "op-x"}]]) * 50)
        self.served(self.d, self.broker)
        self.assertIn("does not read and is cut off", self.d.stderr())

    @unittest.skipUnless(IS_ROOT, "needs root, to be somebody else")
    def test_a_stranger_cannot_shut_the_operator_out(self):
        mine = connect_as(SOMEBODY, self.socket, EACH + 8)
        greeted = 0
        for peer in mine:
            with contextlib.suppress(Closed):
                peer.hello()
                greeted += 1
        self.assertEqual(greeted, EACH)
        for i in range(OTHERS // EACH + 2):
            mine += connect_as(OTHER + i, self.socket, EACH)
        self.served(self.d, self.broker)  # with all of them there
        more = [self.d.client() for _ in range(TOTAL - OTHERS - 1)]
        self.assertEqual(len(more), TOTAL - OTHERS - 1)
        before = self.open_files()
        for peer in mine + more:
            peer.close()
        wait_for(lambda: self.open_files()[1] < before[1] - TOTAL // 2, "the connections' end")
        self.served(self.d, self.broker)

    def test_a_broker_that_is_stopped_is_replaced_and_who_waits_is_served(self):
        """Clients that connect to one that hangs are not lost with it."""
        known = self.d.client()
        os.kill(self.broker, signal.SIGSTOP)
        peers = [self.d.connect() for _ in range(5)]
        for peer in peers:
            peer.send_raw(frame([0, 1, "hello", [{"protocol": PROTOCOL}]]))
        for peer in peers:
            self.assertEqual(peer.receive()[:3], [1, 1, None])
        self.assertTrue(known.closed())  # that one was
        self.served(self.d)
        self.assertNotEqual(self.d.service("broker"), self.broker)


if __name__ == "__main__":
    unittest.main()
