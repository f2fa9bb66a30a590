"""caisson-ledger on its descriptors, and `caisson audit` over directories (D-10, D-16)."""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import unittest

import wire

# struct control of common/control.h
CONTROL = struct.Struct("=IIQIiIIIIIIQQQIiIIIIIHHQQQQQ")
CLIENT, PING, SHUTDOWN, PONG = 3, 8, 9, 33
FROM_BROKER = 4

CAISSON = wire.program("caisson")
LEDGER = wire.program("caisson-ledger")


class Journal:
    """Writes what a broker writes, by the description in common/journal.h alone."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        (self.directory / "journal").mkdir(parents=True)
        (self.directory / "index").mkdir()
        self.chain, self.count, self.segment, self.length = bytes(32), 0, 0, 0
        self.begin()

    def path(self, segment=None):
        return self.directory / "journal" / f"journal.{segment or self.segment:08}"

    def append(self, type_, **fields):
        record = {"id": f"r-{self.count}", "type": type_, "at": 1_700_000_000_000 + self.count,
                  **fields}
        packed = wire.pack(record)
        self.chain = hashlib.sha256(self.chain + packed).digest()
        entry = struct.pack(">I", 32 + len(packed)) + self.chain + packed
        with open(self.path(), "ab") as f:
            f.write(entry)
        self.count += 1
        self.length += len(entry)

    def begin(self):
        previous = self.length
        self.segment += 1
        self.length = 0
        self.append("segment.opened", segment=self.segment, previousCount=self.count,
                    previousHash=self.chain, previousLength=previous)

    def story(self):
        """One turn that ended, over two segments."""
        op = {"operation": "op-1", "trace": "t-1"}
        self.append("operation.accepted", detail="turn", **op)
        self.append("authorization.checked", outcome="allowed", call="c-1", tool="files.read",
                    action="read", resource="workspace", path=["docs", "a.txt"], grant="g-1",
                    uses=1, actor="agent:a", **op)
        self.append("tool.invoked", outcome="succeeded", call="c-1", tool="files.read", **op)
        self.begin()
        self.append("authorization.checked", outcome="denied", call="c-2", tool="files.write",
                    reason="no_matching_grant", cause="capability", actor="agent:a", **op)
        self.append("operation.ended", outcome="succeeded", cause="completed",
                    status="succeeded", **op)
        return self


class Ledger:
    """A live ledger, as the supervisor starts it."""

    def __init__(self, directory):
        directory = pathlib.Path(directory)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control = ours
        self.control.settimeout(wire.TIMEOUT)
        fds = [theirs.detach(), os.open(directory / "journal", os.O_RDONLY | os.O_DIRECTORY),
               os.open(directory / "index", os.O_RDONLY | os.O_DIRECTORY)]
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20) for fd in fds]
        actions = [(os.POSIX_SPAWN_DUP2, fd, 3 + i) for i, fd in enumerate(high)]
        self.pid = os.posix_spawn(LEDGER, ["caisson-ledger"], {}, file_actions=actions)
        for fd in fds + high:
            os.close(fd)

    def tell(self, verb, flags=0, fds=()):
        message = CONTROL.pack(verb, 0, 0, 0, 0, 0, 0, flags, 0, 0, 0, 0, *[0] * 16)
        socket.send_fds(self.control, [message], list(fds))

    def hear(self):
        return CONTROL.unpack(wire.receive_packet(self.control.recv, CONTROL.size))[0]

    def link(self, flags=0):
        ours, theirs = socket.socketpair()
        self.tell(CLIENT, flags, [theirs.fileno()])
        theirs.close()
        return wire.Peer(ours)

    def wait(self):
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        return os.waitstatus_to_exitcode(status)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def close(self):
        self.control.close()
        if self.pid:
            self.kill()


class Case(unittest.TestCase):
    def setUp(self):
        if not LEDGER or not CAISSON:
            self.skipTest("caisson or caisson-ledger is not built")
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="caisson-audit-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def journal(self, name="run-1"):
        return Journal(self.dir / "runs" / name)

    def ledger(self, journal):
        ledger = Ledger(journal.directory)
        self.addCleanup(ledger.close)
        return ledger

    def settle(self, journal):
        """A ledger has seen it all, and ended."""
        ledger = self.ledger(journal)
        ledger.tell(SHUTDOWN)
        self.assertEqual(ledger.wait(), 0)

    def audit(self, *words, status=0, env=()):
        done = subprocess.run([CAISSON, "audit", "--state", str(self.dir), *words],
                              capture_output=True, timeout=wire.TIMEOUT,
                              env={**os.environ, **dict(env)})
        self.assertEqual(done.returncode, status, done.stderr.decode() + done.stdout.decode())
        return done.stdout.decode(), done.stderr.decode()


class Live(Case):
    """The ledger of a namespace."""

    def test_the_heartbeat_is_answered(self):
        ledger = self.ledger(self.journal().story())
        for _ in range(3):
            ledger.tell(PING)
            self.assertEqual(ledger.hear(), PONG)

    def test_a_starting_broker_gets_its_state(self):
        journal = self.journal().story()
        journal.append("operation.accepted", operation="op-2", detail="command", trace="t-2")
        journal.append("block.opened", operation="op-2", sequence=500)
        journal.append("authorization.checked", operation="op-2", outcome="allowed", call="c-9",
                       grant="g-1", uses=1)
        with self.ledger(journal).link(FROM_BROKER) as broker:
            state = broker.call("state.load", cursor=0)
        self.assertEqual(state["count"], journal.count)
        self.assertEqual(state["hash"], journal.chain)
        self.assertEqual((state["segment"], state["length"]), (2, journal.length))
        self.assertEqual(state["uses"], [{"grant": "g-1", "spent": 2}])
        self.assertEqual([o for o in state["operations"] if "cause" not in o],
                         [{"operation": "op-2", "kind": "command", "trace": "t-2",
                           "sequence": 500, "calls": ["c-9"]}])
        self.assertEqual(state["next"], 0)

    def test_a_starting_broker_gets_the_sessions_that_are_open(self):
        journal = self.journal()
        fields = {"principal": "human:a", "runtime": "shell", "timeoutMs": 1000, "queue": 8}
        for session in ("s-2", "s-1", "s-3"):
            journal.append("session.acquired", session=session, **fields)
        keyed = {"key": b"k" * 32, "fingerprint": b"f" * 32}
        for operation, session in (("op-1", "s-1"), ("op-2", "s-2"), ("op-3", "s-3")):
            journal.append("operation.accepted", operation=operation, session=session,
                           principal="human:a", detail="command", sequence=9, **keyed)
        journal.append("operation.started", operation="op-1", session="s-1")
        journal.append("session.released", session="s-3", cause="released")
        with self.ledger(journal).link(FROM_BROKER) as broker:
            state = broker.call("state.load", cursor=0)
        self.assertEqual([(r["session"], r["type"], r["principal"], r["queue"])
                          for r in state["sessions"]],
                         [("s-2", "session.acquired", "human:a", 8),
                          ("s-1", "session.acquired", "human:a", 8)])
        self.assertEqual(state["admissions"],
                         [{"session": "s-1", "operation": "op-1", **keyed},
                          {"session": "s-2", "operation": "op-2", **keyed}])
        self.assertEqual([(o["operation"], o["session"], o["principal"], o.get("started"))
                          for o in state["operations"]],
                         [("op-1", "s-1", "human:a", 1), ("op-2", "s-2", "human:a", None),
                          ("op-3", "s-3", "human:a", None)])

    def test_what_is_asked_after_an_append_knows_it(self):
        journal = self.journal()
        with self.ledger(journal).link() as client:
            client.hello()
            for i in range(20):
                journal.append("tool.refused", reason="tool_unavailable")
                if i % 7 == 6:
                    journal.begin()
                read = client.call("audit.read", cursor=0, limit=1000)
                self.assertEqual(len(read["records"]), journal.count)

    def test_pages_give_everything_once(self):
        journal = self.journal()
        for i in range(50):
            journal.append("tool.refused", call=f"c-{i}")
        with self.ledger(journal).link() as client:
            client.hello()
            counts, cursor = [], 0
            while True:
                read = client.call("audit.read", cursor=cursor, limit=7)
                counts += [r["count"] for r in read["records"]]
                cursor = read["next"]
                if cursor == 0:
                    break
        self.assertEqual(counts, list(range(1, journal.count + 1)))

    def test_shutdown_leaves_index_and_head(self):
        journal = self.journal().story()
        self.settle(journal)
        head = (journal.directory / "index" / "head").read_text()
        self.assertEqual(head, f"caisson-head 1 {journal.count} {journal.chain.hex()} "
                               f"{journal.segment} {journal.length}\n")
        self.assertEqual(os.stat(journal.directory / "index" / "index.sqlite").st_mode & 0o77, 0)

    def test_without_a_supervisor_it_catches_up_and_ends(self):
        journal = self.journal().story()
        ledger = self.ledger(journal)
        ledger.control.close()
        self.assertEqual(ledger.wait(), 0)
        self.assertIn(journal.chain.hex(), (journal.directory / "index" / "head").read_text())

    def test_it_may_die_at_any_time(self):
        journal = self.journal().story()
        for i in range(5):
            ledger = self.ledger(journal)
            with ledger.link(FROM_BROKER) as broker:
                self.assertEqual(broker.call("state.load", cursor=0)["count"], journal.count)
                ledger.kill()
            journal.append("tool.refused", reason="tool_unavailable")
        self.settle(journal)
        self.audit("verify")

    def test_a_fault_ends_one_link_only(self):
        ledger = self.ledger(self.journal().story())
        with ledger.link() as good, ledger.link() as bad, ledger.link() as early:
            good.hello()
            bad.hello()
            bad.send_raw(b"\0\0\0\x02\xc1\xc1")
            self.assertTrue(bad.closed())
            early.request("audit.read", cursor=0, limit=1)  # before hello
            self.assertTrue(early.closed())
            good.call("audit.read", cursor=0, limit=1)
        with ledger.link() as client:
            client.hello()
            client.request("state.load", cursor=0)  # a broker's word
            self.assertTrue(client.closed())

    def test_a_cut_record_gives_no_state(self):
        journal = self.journal().story()
        self.settle(journal)
        os.truncate(journal.path(), journal.length - 1)
        with self.ledger(journal).link(FROM_BROKER) as broker:
            error, _ = broker.expect_reply(broker.request("state.load", cursor=0))
        self.assertEqual(error["code"], "failed_precondition")
        self.assertIn("cut off", error["message"])

    def test_it_is_confined(self):
        ledger = self.ledger(self.journal().story())
        ledger.tell(PING)
        ledger.hear()
        status = pathlib.Path(f"/proc/{ledger.pid}/status").read_text()
        self.assertIn("NoNewPrivs:\t1", status)
        self.assertIn("Seccomp:\t2", status)
        names = []
        for fd in pathlib.Path(f"/proc/{ledger.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # a file that it was done with
                names.append(os.readlink(fd))
        self.assertEqual(sum(name.startswith("socket:") for name in names), 1, names)


class Audit(Case):
    """`caisson audit`."""

    def test_show_is_aligned_and_plain_in_a_pipe(self):
        self.journal().story()
        out, _ = self.audit("show")
        lines = out.splitlines()
        self.assertEqual(lines[0], "run-1")
        self.assertEqual(len(lines), 1 + 7)
        self.assertNotIn("\033", out)
        self.assertIn("2023-11-14 22:13:20.002  authorization.checked  allowed", lines[3])
        self.assertIn("files.read  read workspace:docs/a.txt  grant g-1 (1)", lines[3])
        self.assertIn("denied       files.write  no_matching_grant: capability", lines[6])
        self.assertEqual({line.index("  ", 3) for line in lines[1:]}, {25})

    def test_jsonl_is_one_object_a_line(self):
        journal = self.journal().story()
        out, _ = self.audit("show", "-o", "jsonl")
        records = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([r["count"] for r in records], list(range(1, journal.count + 1)))
        self.assertEqual({r["run"] for r in records}, {"run-1"})
        self.assertEqual(records[2]["path"], ["docs", "a.txt"])
        self.assertEqual([r["segment"] for r in records], [1, 1, 1, 1, 2, 2, 2])

    GRANTED = {"subject": "agent:b", "issuer": "human:o\033", "grant": "g-2", "by": 7,
               "capabilities": [{"namespace": "workspace", "path": ["docs"],
                                 "scope": "descendants", "actions": ["read", "list"]},
                                {"namespace": "db", "path": [], "scope": "exact",
                                 "actions": ["*"], "owner": "human:x"}]}

    def test_grants_that_came_and_went_are_lines_like_any_other(self):
        journal = self.journal()
        journal.append("grant.issued", notBefore=1_700_000_000_000, expiresAt=1_700_000_060_000,
                       maxUses=3, delegationDepth=2, purposes=["run", "a\nb"], parent="g-1",
                       **self.GRANTED)
        journal.append("grant.issued", **{**self.GRANTED, "grant": "g-3"})
        journal.append("grant.revoked", grant="g-2", subject="agent:b", by=0)
        journal.append("escalation.requested", outcome="escalated", escalation="e-1",
                       reason="escalation_requested")
        lines = [re.split("  +", line.strip()) for line in self.audit("show")[0].splitlines()[2:]]
        self.assertEqual([line[1:] for line in lines], [
            ["grant.issued", "agent:b may read,list:workspace:docs/**, *:db:.@human:x",
             "grant g-2", "derived from g-1", "issued by human:o\\x1b",
             "from 2023-11-14 22:13:20", "until 2023-11-14 22:14:20", "uses at most 3", "2 deep",
             "for run, a\\x0ab", "by uid 7"],
            ["grant.issued", "agent:b may read,list:workspace:docs/**, *:db:.@human:x",
             "grant g-3", "issued by human:o\\x1b", "by uid 7"],
            ["grant.revoked", "agent:b", "grant g-2", "by uid 0"],
            ["escalation.requested", "escalated", "escalation e-1", "escalation_requested"]])

    SESSION = {"session": "s-00000000000000aa", "principal": "human:al\033"}

    def test_sessions_are_lines_like_any_other(self):
        journal = self.journal()
        journal.append("session.acquired", runtime="shell", leaseMs=30000, timeoutMs=1000,
                       queue=8, **self.SESSION)
        journal.append("operation.accepted", operation="op-1", detail="command", runtime="shell",
                       **self.SESSION)
        journal.append("grant.issued", **{**self.GRANTED, "principal": "human:admin"})
        journal.append("session.released", cause="released", detail="lease", **self.SESSION)
        lines = [re.split("  +", line.strip()) for line in self.audit("show")[0].splitlines()[2:]]
        session = "session s-00000000000000aa"
        self.assertEqual([line[1:] for line in (lines[0], lines[1], lines[3])], [
            ["session.acquired", session, "for human:al\\x1b", "runtime shell",
             "lease 30000 ms", "each at most 1000 ms", "queue of 8"],
            ["operation.accepted", session, "for human:al\\x1b", "command"],
            ["session.released", session, "for human:al\\x1b", "released", "lease"]])
        self.assertEqual(lines[2][-1], "for human:admin")
        for words, want in ((["--session", "s-00000000000000aa"], 3), (["--session", "s-0"], 0),
                            (["--session", "shell/s-00000000000000aa"], 3),  # as it is listed
                            (["--principal", "human:admin"], 1),
                            (["--session", "s-00000000000000aa", "--operation", "op-1"], 1)):
            out, _ = self.audit("query", *words, "-o", "jsonl")
            self.assertEqual(len(out.splitlines()), want, words)

    def test_query_filters(self):
        journal = self.journal().story()
        journal.append("grant.issued", **self.GRANTED)
        journal.append("grant.revoked", grant="g-2", subject="agent:b", by=0)
        self.assertEqual(journal.count, 9)
        for words, want in ((["--trace", "t-1"], 5), (["--grant", "g-2"], 2),
                            (["--principal", "agent:b"], 2), (["--principal", "human:o"], 0),
                            (["--since", "2023-11-14T22:13:20Z"], 9),
                            (["--since", "2023-11-14T22:13:21Z"], 0),
                            (["--until", "2023-11-14T22:13:20Z"], 0),
                            (["--until", "2023-11-14T22:13:21Z"], 9),
                            (["--outcome", "allowed", "--tool", "files.read"], 1),
                            (["--outcome", "denied"], 1), (["--call", "c-1"], 2),
                            (["--tool", "files.write"], 1), (["--trace", "t-2"], 0),
                            (["--grant", "g-1"], 1), (["--principal", "agent:a"], 2),
                            (["--operation", "op-1"], 5)):
            with self.subTest(words=words):
                out, _ = self.audit("query", *words, "-o", "jsonl")
                self.assertEqual(len(out.splitlines()), want)
                text, _ = self.audit("query", *words)
                self.assertEqual(len(text.splitlines()), want and 1 + want)

    def test_untrusted_text_cannot_reach_the_terminal(self):
        journal = self.journal()
        journal.append("tool.refused", callId="\033]0;owned\007", tool="a\033[2Jb\nc",
                       detail="\u202egnp.exe")
        for words in ([], ["-o", "jsonl"]):
            out, _ = self.audit("show", *words)
            self.assertFalse(set(out) & {"\033", "\007", "\u202e"})
            self.assertEqual(len(out.splitlines()), 2 if words else 3)

    def test_several_records_come_in_order_and_one_can_be_named(self):
        for name in ("run-b", "run-a", "run-c"):
            self.journal(name).story()
        Journal(self.dir / "namespaces" / "prod").story()
        out, _ = self.audit("verify")
        self.assertEqual([line.split(":")[0] for line in out.splitlines()],
                         ["prod", "run-a", "run-b", "run-c"])
        out, _ = self.audit("verify", "--run", "run-b")
        self.assertTrue(out.startswith("run-b: ") and out.count("\n") == 1)

    def test_verify_says_what_holds(self):
        journal = self.journal().story()
        out, _ = self.audit("verify")
        self.assertIn("7 records, 2 segments, chain ok, head ", out)
        self.assertIn("there is no head yet", out)
        self.settle(journal)
        out, err = self.audit("verify")
        self.assertEqual(out, "run-1: 7 records, 2 segments, chain ok, index ok, head ok, "
                              f"head {journal.chain.hex()}\n")
        self.assertEqual(err, "")
        _, err = self.audit("verify", "-v")
        self.assertIn("can cut all three", err)
        out, _ = self.audit("verify", "-o", "jsonl")
        self.assertEqual(json.loads(out), {"run": "run-1", "valid": True, "count": 7,
                                           "segments": 2, "torn": 0,
                                           "head": journal.chain.hex()})

    def test_verify_compares_with_an_expected_head(self):
        journal = self.journal().story()
        self.settle(journal)
        right = journal.chain.hex()
        self.audit("verify", "--run", "run-1", "--expect", right)
        out, _ = self.audit("verify", "--run", "run-1", "--expect", right[:-1] + (
            "0" if right[-1] != "0" else "1"), status=1)
        self.assertIn("does not end in the expected value", out)
        self.audit("verify", "--run", "run-1", "--expect", "abc", status=125)
        self.audit("verify", "--expect", right, status=125)

    def test_verify_names_damage(self):
        journal = self.journal().story()
        self.settle(journal)
        data = bytearray(journal.path(1).read_bytes())
        data[200] ^= 1
        journal.path(1).write_bytes(data)
        out, _ = self.audit("verify", status=1)
        self.assertRegex(out, r"^run-1: \d records? stand, 1 segment, NOT VALID: "
                              r"segment 1, offset \d+: .*restore")
        for verb in ("show", "query"):
            out, err = self.audit(verb, "-o", "jsonl", status=1)
            self.assertLess(len(out.splitlines()), 7)
            self.assertRegex(err, r"(?m)^caisson-ledger: error: the record is damaged: "
                                  r"segment 1, offset \d+: .*restore")

    def test_what_stands_of_a_damaged_record_is_shown_and_so_are_its_neighbours(self):
        journal, whole = self.journal().story(), self.journal("run-2").story()
        data = bytearray(journal.path(1).read_bytes())
        data[-10] ^= 1  # in the last record of a segment that another one follows
        journal.path(1).write_bytes(data)
        for _ in range(2):  # without an index, then with one
            out, _ = self.audit("show", "-o", "jsonl", status=1)
            runs = [json.loads(line)["run"] for line in out.splitlines()]
            self.assertEqual((runs.count("run-1"), runs.count("run-2")), (3, 7))
            self.audit("show", "--run", "run-2")
            self.settle(journal)
            self.settle(whole)

    def test_a_reader_who_left_is_no_reason_to_read_the_other_records(self):
        self.journal("a").story()
        damaged = self.journal("b").story().path(1)
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
        self.audit("show", status=1)
        for verb in ("show", "query", "verify"):
            r, w = os.pipe()
            os.close(r)
            with os.fdopen(w, "wb") as out:
                done = subprocess.run([CAISSON, "audit", verb, "--state", self.dir], stdout=out,
                                      stderr=subprocess.PIPE, check=False, timeout=wire.TIMEOUT)
            self.assertEqual((done.returncode, done.stderr), (0, b""), verb)

    def test_a_full_disk_is_said_once(self):
        for name in "ab":
            self.journal(name).story()
        with open("/dev/full", "wb") as out:
            done = subprocess.run([CAISSON, "audit", "show", "--state", self.dir], stdout=out,
                                  stderr=subprocess.PIPE, check=False, timeout=wire.TIMEOUT)
        self.assertEqual((done.returncode, done.stderr),
                         (125, b"caisson: audit: cannot write: No space left on device\n"))

    def test_all_three_cut_is_only_seen_from_outside(self):
        journal = self.journal().story()
        self.settle(journal)
        whole = journal.chain.hex()
        data = journal.path().read_bytes()
        last = data.rfind(b"\x00\x00\x00", 0, len(data) - 40)
        journal.path().write_bytes(data[:last])
        self.audit("verify", status=1)
        for path in (journal.directory / "index").iterdir():
            path.unlink()
        self.settle(journal)
        self.audit("verify")
        self.audit("verify", "--run", "run-1", "--expect", whole, status=1)

    def test_a_torn_tail_is_outside_the_record(self):
        journal = self.journal().story()
        with open(journal.path(), "ab") as f:
            f.write(b"\0\0\1")
        out, _ = self.audit("verify")
        self.assertIn("3 bytes of torn tails outside the record", out)

    def test_it_writes_nothing(self):
        journal = self.journal().story()
        self.settle(journal)
        def look():
            return {str(p): (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else None)
                    for p in self.dir.rglob("*")}
        before = look()
        for verb in ("show", "verify", "query"):
            self.audit(verb)
        self.assertEqual(look(), before)

    def test_it_works_beside_a_live_ledger(self):
        journal = self.journal().story()
        ledger = self.ledger(journal)
        with ledger.link() as client:
            client.hello()
            client.call("audit.read", cursor=0, limit=1)
            out, _ = self.audit("verify")
            self.assertIn("chain ok", out)
            self.assertIn("7 records", out)

    def test_a_record_that_grows_is_never_called_damaged(self):
        journal = self.journal().story()
        ledger = self.ledger(journal)
        stop, segments = threading.Event(), threading.Semaphore(0)

        def write():
            while segments.acquire() and not stop.is_set():
                for _ in range(25):
                    journal.append("tool.refused", reason="tool_unavailable")
                journal.begin()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            with ledger.link() as client:
                client.hello()
                for _ in range(8):
                    # While it is read; but a reader slower than this writer never ends.
                    segments.release(40)
                    self.audit("verify")
                    segments.release(40)
                    verdict = client.call("audit.verify")
                    self.assertTrue(verdict["valid"], verdict)
        finally:
            stop.set()
            segments.release()
            writer.join()
        ledger.tell(SHUTDOWN)
        self.assertEqual(ledger.wait(), 0)
        out, _ = self.audit("verify")
        self.assertIn(f"{journal.count} records", out)

    def test_an_unusable_state_directory_names_the_option(self):
        done = subprocess.run([CAISSON, "audit", "show", "--state", str(self.dir / "none")],
                              capture_output=True, timeout=wire.TIMEOUT)
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"--state", done.stderr)
        self.assertEqual(done.stderr.count(b"\n"), 1)
        self.audit("verify", "--run", "nobody", status=125)
        self.audit("verify", "--run", "../runs", status=125)
        self.audit("frobnicate", status=125)

    def test_no_records_is_no_mistake(self):
        out, err = self.audit("show")
        self.assertEqual(out, "")
        self.assertIn("no records", err)
        self.assertEqual(self.audit("show", "-q"), ("", ""))

    def test_files_that_are_no_records_are_passed_over(self):
        self.journal().story()
        (self.dir / "runs" / "notes.txt").write_text("x")
        (self.dir / "runs" / "empty").mkdir()
        (self.dir / "runs" / "link").symlink_to("/etc")
        out, _ = self.audit("verify")
        self.assertEqual(out.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
