"""`caisson session`, `send`, `receive`, `cancel` and `logs` against a scripted broker, at a local
socket: what they ask, what they print, and how they end."""

import base64
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from wire import Closed, Peer, TIMEOUT, program, said

SESSION = {"id": "s-0123456789abcdef", "runtime": "shell", "kind": "command", "state": "ready",
           "principal": "human:operator", "acquiredAt": 1, "timeoutMs": 300000, "queueLimit": 32,
           "queued": 0, "operations": 0, "workspace": True}
ID = SESSION["id"]


class Daemon:
    """A local socket; each connection greeted, then handed to `script(peer)` on a thread."""

    def __init__(self, script):
        self.directory = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.directory.name, "d.sock")
        self.script, self.faults = script, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.threads = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.serve, args=[Peer(sock)], daemon=True)
            self.threads.append(thread)
            thread.start()

    def serve(self, peer):
        with peer:
            try:
                peer.answer_hello()
                self.script(peer)
            except Closed:
                pass
            except Exception as e:  # shown by close()
                self.faults.append(e)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(TIMEOUT)
        self.directory.cleanup()
        if self.faults:
            raise self.faults[0]


def event(peer, operation, sequence, kind, **body):
    """One event; of output `data` is bytes."""
    if kind == "output":
        peer.notify("operation.event", operation=operation, sequence=sequence, type=kind, **body)
    else:
        peer.notify("operation.event", operation=operation, sequence=sequence, type=kind, body=body)


def command_end(code):
    return {"command": {"exitCode": code, "cause": {"kind": "exited", "code": code}, "timedOut": False,
                        "usage": {}}}


class Sessions(unittest.TestCase):
    def start(self, script):
        daemon = Daemon(script)
        self.addCleanup(daemon.close)
        return daemon

    def caisson(self, daemon, *words, input=b"", env=None):
        done = subprocess.run([program("caisson"), words[0], "--socket", daemon.path, *words[1:]],
                              input=input, capture_output=True, timeout=TIMEOUT,
                              env={"PATH": "/usr/bin", **(env or {})})
        return done.returncode, done.stdout, said(done.stderr).decode()

    def test_acquire_prints_what_the_other_commands_take(self):
        asked = {}

        def script(peer):
            msgid, params = peer.expect("session.acquire")
            asked.update(params)
            peer.reply(msgid, session=SESSION)

        code, out, err = self.caisson(self.start(script), "session", "acquire", "shell", "--lease",
                                      "10s", "--queue", "4", "--idempotency-key", "k1")
        self.assertEqual((code, out, err), (0, f"shell/{ID}\n".encode(), ""))
        self.assertEqual(asked, {"runtime": "shell", "leaseMs": 10000, "queue": 4,
                                 "idempotencyKey": "k1"})

    def test_a_refusal_is_one_line_with_its_code(self):
        def script(peer):
            msgid, _ = peer.expect("session.acquire")
            peer.refuse(msgid, "resource_exhausted", "too many \x1b[31msessions")

        code, out, err = self.caisson(self.start(script), "session", "acquire", "shell")
        self.assertEqual((code, out), (125, b""))
        self.assertEqual(err, "caisson: session: resource_exhausted: too many \\x1b[31msessions\n")

    def test_lists_go_on_over_pages(self):
        """OP-5: reads by pages."""
        def script(peer):
            for cursor, following in ((0, 7), (7, 0)):
                msgid, params = peer.expect("session.list")
                assert params["cursor"] == cursor, params
                peer.reply(msgid, sessions=[{**SESSION, "id": f"s-{cursor}"}], next=following)

        code, out, _ = self.caisson(self.start(script), "session", "list", "-o", "jsonl")
        self.assertEqual([json.loads(line)["id"] for line in out.splitlines()], ["s-0", "s-7"])
        code, out, _ = self.caisson(self.start(script), "session", "list")
        self.assertEqual(code, 0)
        self.assertEqual(out.split()[0], b"SESSION")
        self.assertIn(b"shell/s-7", out)

    def test_release_says_how(self):
        """OP-32."""
        asked = {}

        def script(peer):
            msgid, params = peer.expect("session.release")
            asked.update(params)
            peer.reply(msgid, session=SESSION)

        self.assertEqual(self.caisson(self.start(script), "session", "release", ID, "--immediate",
                                      "--wait")[0], 0)
        self.assertEqual(asked, {"session": ID, "mode": "immediate", "wait": True})

    def with_session(self, script):
        """Two connections: one is asked what the session is, the other carries it."""
        def both(peer):
            message = peer.receive()
            method, params, msgid = message[-2], message[-1][0], message[1]
            while method in ("session.show", "operation.show"):
                if method == "session.show":
                    peer.reply(msgid, session=self.session)
                else:
                    peer.reply(msgid, operation={"operationID": params["operation"], "session": ID,
                                                 "kind": "command", "state": "running",
                                                 "sequence": 5, "retainedFrom": 1, "acceptedAt": 1})
                message = peer.receive()
                method, params, msgid = message[-2], message[-1][0], message[1]
            script(peer, method, params, msgid)

        self.session = SESSION
        return self.start(both)

    def test_a_command_passes_through(self):
        """OP-24: the id comes with accepted; the status is the command's own."""
        asked = {}

        def script(peer, method, params, msgid):
            assert method == "operation.submit", method
            asked.update(params)
            peer.reply(msgid, operation="op-1")
            event(peer, "op-1", 1, "accepted", operationID="op-1")
            event(peer, "op-1", 2, "output", stream="stdout", data=b"out\n")
            event(peer, "op-1", 3, "output", stream="stderr", data=b"err\n")
            event(peer, "op-1", 4, "completed", **command_end(3))

        daemon = self.with_session(script)
        done = self.caisson(daemon, "send", ID, "--env", "A=1", "--directory", "src", "--stdin",
                            "--", "make", "-k", input=b"in")
        self.assertEqual(done, (3, b"out\n", "err\n"))
        self.assertEqual(asked, {"kind": "command", "session": ID, "argv": ["make", "-k"],
                                 "env": {"A": "1"}, "directory": "src", "content": b"in"})

    def test_jsonl_is_what_run_writes(self):
        def script(peer, method, params, msgid):
            peer.reply(msgid, operation="op-1")
            event(peer, "op-1", 1, "accepted", operationID="op-1")
            event(peer, "op-1", 2, "output", stream="stdout", data=b"\xff")
            event(peer, "op-1", 3, "completed", **command_end(0))

        code, out, _ = self.caisson(self.with_session(script), "send", ID, "-o", "jsonl", "--shell", "x")
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(code, 0)
        self.assertEqual([line["sequence"] for line in lines], [1, 2, 3])
        self.assertEqual(lines[0]["accepted"], {"operationID": "op-1"})
        self.assertEqual(base64.b64decode(lines[1]["output"]["data"]), b"\xff")

    def test_a_turn_has_its_message(self):
        asked = {}

        def script(peer, method, params, msgid):
            asked.update(params)
            peer.reply(msgid, operation="op-1")
            event(peer, "op-1", 1, "accepted", operationID="op-1")
            event(peer, "op-1", 2, "completed",
                  turn={"status": "succeeded", "output": {"n": 1}, "metadata": {}})

        code, out, err = self.caisson(self.with_session(script), "send", ID, "-m", '{"a": [1, 2]}',
                                      "--max-steps", "3")
        self.assertEqual((code, json.loads(out), err), (0, {"n": 1}, ""))
        self.assertEqual(asked["message"], {"a": [1, 2]})
        self.assertEqual((asked["kind"], asked["maxSteps"]), ("turn", 3))

    def test_files_are_operations(self):
        asked = []

        def script(peer, method, params, msgid):
            asked.append(params)
            peer.reply(msgid, operation="op-1")
            event(peer, "op-1", 1, "accepted", operationID="op-1")
            event(peer, "op-1", 2, "completed")

        for words in (["--write", "a/b", "--append"], ["--mkdir", "a", "--recursive"],
                      ["--delete", "a", "--recursive"], ["--rename", "a", "--to", "b"]):
            done = self.caisson(self.with_session(script), "send", ID, *words, input=b"\0\xff")
            self.assertEqual(done, (0, b"", ""))
        self.assertEqual([p["kind"] for p in asked],
                         ["writeFile", "createDirectory", "deleteFile", "renameFile"])
        self.assertEqual(asked[0]["content"], b"\0\xff")
        self.assertEqual((asked[0]["append"], asked[3]["path"], asked[3]["to"]), (True, "a", "b"))

    def test_exactly_one_thing_is_sent(self):
        """OP-10, OP-11: met before anything is connected."""
        daemon = self.with_session(None)
        for words in ([], ["--shell", "x", "--", "y"], ["-m", "{}", "--mkdir", "a"]):
            code, _, err = self.caisson(daemon, "send", ID, *words)
            self.assertEqual(code, 125)
            self.assertIn("needs one of", err)
        self.assertEqual(daemon.threads, [])

    def test_a_refused_operation_is_no_event(self):
        """OP-23."""
        def script(peer, method, params, msgid):
            peer.refuse(msgid, "failed_precondition", "the session is closing")

        code, out, err = self.caisson(self.with_session(script), "send", ID, "--shell", "x",
                                      "-o", "jsonl")
        self.assertEqual((code, out), (125, b""))
        self.assertEqual(err, "caisson: send: failed_precondition: the session is closing\n")

    def test_detach_prints_the_id_and_leaves(self):
        """OP-26: closing detaches, and stops nothing."""
        seen = []

        def script(peer, method, params, msgid):
            peer.reply(msgid, operation="op-1")
            event(peer, "op-1", 1, "accepted", operationID="op-1")
            try:
                while True:
                    seen.append(peer.receive())
            except Closed:
                pass

        self.assertEqual(self.caisson(self.with_session(script), "send", ID, "-d", "--shell", "x"),
                         (0, b"op-1\n", ""))
        self.assertEqual(seen, [])

    def test_receive_goes_on_where_it_is_told(self):
        """OP-39."""
        asked = {}

        def script(peer, method, params, msgid):
            assert method == "operation.attach", method
            asked.update(params)
            peer.reply(msgid, operation="op-1")
            event(peer, "op-1", 9, "gap", **{"from": 5, "to": 9})
            event(peer, "op-1", 10, "output", stream="stdout", data=b"rest")
            event(peer, "op-1", 11, "completed", **command_end(0))

        code, out, err = self.caisson(self.with_session(script), "receive", ID, "op-1", "--from", "5")
        self.assertEqual((code, out), (0, b"rest"))
        self.assertIn("5", err)  # what is lost is named, also where nobody watches a terminal
        self.assertEqual(asked, {"operation": "op-1", "after": 4})

    def test_a_lost_connection_says_how_to_go_on(self):
        """OP-27: nothing is sent again."""
        def script(peer, method, params, msgid):
            peer.reply(msgid, operation="op-1")
            event(peer, "op-1", 1, "accepted", operationID="op-1")
            event(peer, "op-1", 2, "output", stream="stdout", data=b"some")

        daemon = self.with_session(script)
        code, out, err = self.caisson(daemon, "send", ID, "--shell", "x")
        self.assertEqual((code, out), (125, b"some"))
        self.assertIn("receive SESSION op-1 --from 3", err)
        self.assertEqual(len(daemon.threads), 2)

    def test_what_renews_the_lease_has_begun_before_the_process_locks_itself_in(self):
        """OP-29: on one processor a new thread waits for its turn, and libc ends the process if
        the filter refuses what a thread begins with."""
        def script(peer, method, params, msgid):
            peer.reply(msgid, operation="op-1")
            event(peer, "op-1", 1, "accepted", operationID="op-1")
            event(peer, "op-1", 2, "completed", **command_end(0))

        daemon = self.with_session(script)
        self.session = {**SESSION, "leaseMs": 60000}
        before = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, before)
        os.sched_setaffinity(0, {min(before)})
        for _ in range(8):
            self.assertEqual(self.caisson(daemon, "send", ID, "--", "true"), (0, b"", ""))

    def test_cancel_ends_it_on_its_own_connection(self):
        """D-6."""
        def script(peer, method, params, msgid):
            assert (method, params) == ("operation.attach", {"operation": "op-1", "after": 5})
            peer.reply(msgid, operation="op-1")
            msgid, params = peer.expect("operation.stop")
            assert params["operation"] == "op-1"
            peer.reply(msgid)
            event(peer, "op-1", 6, "failed", code="canceled", message="the client asked for it",
                  cause={"kind": "canceled"}, command={"cause": {"kind": "canceled"}, "timedOut": False,
                                                       "usage": {}})

        code, _, err = self.caisson(self.with_session(script), "cancel", ID, "op-1")
        self.assertEqual(code, 137)
        self.assertIn("canceled", err)

    def test_ctrl_c_cancels_and_waits_for_the_end(self):
        accepted = threading.Event()

        def script(peer, method, params, msgid):
            peer.reply(msgid, operation="op-1")
            event(peer, "op-1", 1, "accepted", operationID="op-1")
            event(peer, "op-1", 2, "output", stream="stdout", data=b"x")
            accepted.set()
            msgid, _ = peer.expect("operation.stop")
            peer.reply(msgid)
            event(peer, "op-1", 3, "failed", code="canceled", message="", cause={"kind": "canceled"})

        daemon = self.with_session(script)
        p = subprocess.Popen([program("caisson"), "send", "--socket", daemon.path, ID, "--shell", "x"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.stderr.close)
        self.assertEqual(p.stdout.read(1), b"x")
        accepted.wait(TIMEOUT)
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(TIMEOUT), 4)

    def test_the_lease_is_renewed_while_a_command_waits(self):
        """OP-29: a third of the lease."""
        beats = []

        def script(peer, method, params, msgid):
            peer.reply(msgid, operation="op-1")
            event(peer, "op-1", 1, "accepted", operationID="op-1")
            while len(beats) < 3:
                msgid, params = peer.expect("session.heartbeat")
                beats.append(params)
                peer.reply(msgid, leaseUntil=1)
            event(peer, "op-1", 2, "completed", **command_end(0))

        daemon = self.with_session(script)
        self.session = {**SESSION, "leaseMs": 300, "leaseUntil": 5}
        self.assertEqual(self.caisson(daemon, "send", ID, "--shell", "x")[0], 0)
        self.assertEqual(beats, [{"session": ID}] * 3)

    def test_top_shows_what_was_used_between_two_looks(self):
        cpu = iter([1_000_000, 1_500_000, 1_500_000])

        def script(peer):
            while True:
                msgid, _ = peer.expect("process.list")
                peer.notify("process.row", role="worker", state="running", session=1, id="a\x1b",
                            pid=7, uid=1000, profile="native", network="own", handed=["link"],
                            processes=2, cpuUs=next(cpu), residentBytes=3 << 20, since=5)
                peer.reply(msgid, count=1)

        daemon = self.start(script)
        code, out, err = self.caisson(daemon, "top", "--interval", "1ms", "--samples", "2")
        rows = [json.loads(line) for line in out.splitlines()]  # nobody watches a terminal
        self.assertEqual((code, err), (0, ""))
        self.assertEqual([row["usage"]["cpuUs"] for row in rows], [1_000_000, 1_500_000])
        cpu = iter([1_000_000, 1_500_000])
        code, out, _ = self.caisson(daemon, "top", "--interval", "1ms", "--samples", "2", "-o", "human")
        heads = [line for line in out.decode().splitlines() if line.startswith("worker")]
        self.assertEqual(code, 0)
        self.assertRegex(heads[0], r"^worker +a\\x1b +1 +7 +2 +0\.0% +3\.0MiB$")
        self.assertNotRegex(heads[1], r" 0\.0% ")

    def test_a_program_with_an_event_loop_is_told_everything_before_the_end(self):
        """OP-21, OP-24, OP-27: of a refusal, of each event, and then of the lost connection."""
        def script(peer, method, params, msgid):
            peer.refuse(msgid, "resource_exhausted", "full")
            msgid, _ = peer.expect("operation.submit")
            peer.reply(msgid, operation="op-1")
            event(peer, "op-1", 1, "accepted", operationID="op-1")
            event(peer, "op-1", 2, "output", stream="stdout", data=b"last")

        daemon = self.with_session(script)
        self.session = {**SESSION, "leaseMs": 60000, "leaseUntil": 5}
        done = subprocess.run([program("program/client_watch"), daemon.path, ID], capture_output=True,
                              text=True, timeout=TIMEOUT)
        self.assertEqual(done.stdout.splitlines(), [
            "refused resource_exhausted", "second usage", "event 1", "event 2", "lost transport"])
        self.assertEqual((done.returncode, said(done.stderr)), (0, ""))

    def test_what_answers_like_no_broker_is_refused(self):
        def script(peer, method, params, msgid):
            peer.send_raw(b"\0\0\0\x01\xc1")

        code, _, err = self.caisson(self.with_session(script), "send", ID, "--shell", "x")
        self.assertEqual(code, 125)
        self.assertIn("protocol", err)


if __name__ == "__main__":
    unittest.main()
