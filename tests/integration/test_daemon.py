"""caissond as a daemon: its lock, socket and signals, and what a restart continues."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import unittest

import daemon_lab
import real
from daemon_lab import CAISSOND, Case, Daemon, connect, ending, submit, waiting
from real import IS_ROOT, WAIT, wait_for
from wire import caisson, said

TIMEOUT = 240  # of this file, for run.py


def gone(pids):
    wait_for(lambda: not set(pids) & set(real.parents()), f"the end of {pids}")


class Start(Case):
    def refused(self, text, *words, **more):
        result = self.caissond(*words, **more)
        err = said(result.stderr)
        self.assertEqual((result.returncode, result.stdout), (125, ""), err)
        self.assertEqual([line for line in err.splitlines() if ": info: " not in line],
                         err.splitlines()[-1:])
        self.assertIn(text, err)

    def words(self, state="state", sock="d.sock"):
        return ["-c", self.config, "-f", "--state", self.dir / state,
                "--socket", self.dir / sock]

    def test_a_second_daemon_is_told_who_holds_the_directory(self):  # D-16
        d = Daemon(self)
        for words in (["-f"], []):
            self.refused(f"the namespace default is held by caissond, pid {d.process.pid}: stop",
                         *self.words(sock="other.sock"), *words)
        self.assertEqual(submit(d.client(), {"say": 1})[:3], "op-")
        self.assertFalse((self.dir / "other.sock").exists())

    def test_a_second_daemon_is_told_who_has_the_socket(self):
        d = Daemon(self)
        self.refused(f"is served by caissond, pid {d.process.pid}: stop",
                     *self.words(state="other"))
        d.client()

    def test_two_daemons_share_nothing(self):  # D-16
        a = Daemon(self)
        path, self.state, self.socket = self.socket, self.dir / "state2", self.dir / "e.sock"
        b = Daemon(self)
        operation = waiting(a.client())
        error, _ = (peer := b.client()).expect_reply(
            peer.request("operation.attach", operation=operation))
        self.assertEqual(error["code"], "not_found")
        self.assertEqual(b.end(), 0)
        self.assertEqual(connect(path).hello()["protocol"], caisson.PROTOCOL)

    def test_modes_say_who_may_come_near(self):
        os.umask(os.umask(0o022))
        self.socket = self.dir / "made" / "d.sock"
        d = Daemon(self)
        self.assertEqual(stat.S_IMODE(self.socket.stat().st_mode), 0o666)
        self.assertEqual(stat.S_IMODE(self.socket.parent.stat().st_mode),
                         0o755 if IS_ROOT else 0o700)
        pid = self.socket.with_suffix(".pid")
        self.assertEqual(stat.S_IMODE(pid.stat().st_mode), 0o600)
        self.assertEqual(pid.read_text(), f"{d.process.pid}\n")
        self.assertEqual(stat.S_IMODE((self.state / "namespaces/default").stat().st_mode), 0o700)
        self.assertEqual(d.end(), 0)
        self.assertEqual(list(self.socket.parent.iterdir()), [])

    def test_a_stale_socket_is_taken_over_and_anything_else_is_not(self):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(self.socket))
        Daemon(self).end()
        self.socket.write_text("mine")
        self.refused("something that is no socket is there", *self.words())
        self.assertEqual(self.socket.read_text(), "mine")
        self.socket.unlink()
        self.socket.symlink_to(self.dir / "elsewhere")
        self.refused("something that is no socket is there", *self.words())

    def test_a_directory_where_others_could_replace_the_socket_is_refused(self):
        (self.dir / "open").mkdir()
        (self.dir / "open").chmod(0o777)
        self.refused("others could replace it", *self.words(sock="open/d.sock"))

    def test_a_path_that_is_too_long_is_refused(self):
        self.refused("bytes long, expected 107 at most", *self.words(sock="x" * 107))

    def test_a_namespace_that_cannot_be_a_name_is_refused(self):
        for name in ("../x", "a/b", ".x", "a b", "x" * 65):
            self.config = self.configure(more=f"namespace: '{name}'\n")
            self.refused("namespace: is a daemon's directory and socket", *self.words())

    def test_the_file_names_namespace_and_socket(self):
        self.config = self.configure(more="namespace: docs\nsocket: file.sock\n")
        readable, writable = os.pipe()
        p = subprocess.Popen([CAISSOND, "-c", self.config, "-f", "--state", self.state,
                              "-n", str(writable)], pass_fds=[writable],
                             stderr=subprocess.DEVNULL, env=real.environment())
        os.close(writable)
        with open(readable, "rb") as f:
            self.assertEqual(f.read(), b"\n")
        connect(self.dir / "file.sock").hello()
        p.terminate()
        self.assertEqual(p.wait(WAIT), 0)
        self.assertTrue((self.state / "namespaces/docs/journal").is_dir())

    def test_usage(self):
        env = real.environment()
        self.refused("needs -c FILE", env=env)
        self.refused("--ready-fd: 77 is no open descriptor", *self.words(), "-n", "77", env=env)
        env.pop("XDG_RUNTIME_DIR", None)
        if not IS_ROOT:
            self.refused("--socket PATH: is needed", "-c", self.config, "--state", self.state,
                         env=env)

    def test_into_the_background_once_it_serves(self):
        log = self.dir / "log"
        with log.open("wb") as f:
            result = subprocess.run([CAISSOND, "-c", "c.yaml", "--state", "state",
                                     "--socket", "d.sock"], stdin=subprocess.DEVNULL,
                                    stdout=f, stderr=f, timeout=WAIT, check=False,
                                    env=real.environment(), cwd=self.dir)
        self.assertEqual(result.returncode, 0, log.read_text())
        pid = int(self.socket.with_suffix(".pid").read_text())
        self.addCleanup(self.kill, pid)
        self.assertEqual(os.getsid(pid), pid)
        self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), "/")
        names = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1)}
        self.assertEqual(names, {os.devnull})
        peer = connect(self.socket)
        peer.hello()
        submit(peer, {"say": "hello"})
        self.assertEqual(ending(peer)["body"]["turn"]["output"], "hello")
        os.kill(pid, signal.SIGTERM)
        gone([pid])
        self.assertFalse(self.socket.exists())

    def kill(self, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def test_sd_notify_says_ready_and_stopping(self):
        for name in (str(self.dir / "n.sock"), f"\0caisson-test-{os.getpid()}"):
            with self.subTest(name=name), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
                s.bind(name)
                s.settimeout(WAIT)
                d = Daemon(self, env={"NOTIFY_SOCKET": name.replace("\0", "@"),
                                      "WATCHDOG_USEC": "100000"})
                said_first = s.recv(4096).decode().splitlines()
                self.assertEqual(said_first[:2], ["READY=1", f"MAINPID={d.process.pid}"])
                self.assertEqual(s.recv(4096), b"WATCHDOG=1")
                self.assertEqual(d.end(), 0)
                while (word := s.recv(4096)) == b"WATCHDOG=1":
                    pass
                self.assertEqual(word, b"STOPPING=1\nSTATUS=ending what is open")


class Log(Case):
    def objects(self, d):
        return [json.loads(line) for line in d.stderr().splitlines()]

    def test_lines_are_objects_of_all_processes(self):
        for how in ({"words": ["--log", "json"]}, {"env": {"CAISSON_LOG": "json"}}):
            with self.subTest(how):
                d = Daemon(self, *how.get("words", ()), env=how.get("env"))
                broker = d.service("broker")
                os.kill(broker, signal.SIGKILL)
                wait_for(lambda: sum("is served at" in o["msg"] for o in self.objects(d)) == 2,
                         "the next broker")
                # A broker's own line: a client that breaks the protocol.
                peer = d.client()
                peer.sock.sendall(bytes(4) + b"x")
                line = wait_for(lambda: [o for o in self.objects(d) if "broke the protocol" in o["msg"]],
                                "its line")[0]
                self.assertEqual((line["process"], line["level"]), ("caisson-broker", "warning"))
                gone = next(o for o in self.objects(d) if o.get("ids"))
                self.assertEqual((gone["ids"], gone["process"], gone["pid"], gone["msg"]),
                                 ({"service": "broker"}, "caissond", d.process.pid,
                                  "the broker is gone: signal 9"))
                for o in self.objects(d):
                    self.assertRegex(o["ts"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
                self.assertEqual(d.end(), 0)

    def test_text_is_what_there_is_without_and_for_private_runs(self):
        d = Daemon(self, "--log", "text", env={"CAISSON_LOG": "json"})
        self.assertIn("caissond: info: the namespace default is served", d.stderr())
        d.end()
        result = self.caisson("exec", "--state", self.state, "--", "/nowhere",
                              env=real.environment(CAISSON_LOG="json"))
        self.assertNotIn("{", result.stderr)


class PidFile(Case):
    def test_it_holds_the_pid_as_long_as_the_daemon_lives(self):
        path = self.dir / "some.pid"
        d = Daemon(self, "--pid-file", path)
        self.assertEqual(path.read_text(), f"{d.process.pid}\n")
        self.state, self.socket = self.dir / "state2", self.dir / "e.sock"
        second = Daemon(self, "--pid-file", path, ready=False)
        self.assertEqual(second.process.wait(WAIT), 125)
        self.assertIn(f"is held by caissond, pid {d.process.pid}", second.stderr())
        self.assertEqual(d.end(), 0)
        self.assertFalse(path.exists())

    def test_what_is_not_its_own_is_left_alone(self):
        path = self.dir / "some.pid"
        path.symlink_to(self.dir / "target")
        d = Daemon(self, "--pid-file", path, ready=False)
        self.assertEqual(d.process.wait(WAIT), 125)
        self.assertFalse((self.dir / "target").exists())
        self.assertTrue(path.is_symlink())


class Signals(Case):
    def test_the_end_settles_what_runs(self):  # D-2
        d = Daemon(self)
        peer = d.client()
        waiting(peer)
        below = real.below(d.process.pid)
        self.assertGreater(len(below), 3)
        self.assertEqual(d.end(), 0)
        event = ending(peer)
        self.assertEqual((event["type"], event["body"]["cause"]["kind"]), ("failed", "shutdown"))
        gone(below)
        self.assertEqual([r["cause"] for r in self.records() if r["type"] == "operation.ended"],
                         ["shutdown"])

    def test_interrupt_in_the_foreground_is_the_same(self):
        self.assertEqual(Daemon(self).end(signal.SIGINT), 0)

    def test_a_second_signal_kills_everything_at_once(self):
        (self.dir / "app" / "agent.py").write_text(
            daemon_lab.AGENT.replace("signal.pause()", "while True: signal.pause()").replace(
                "def run", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\n\ndef run"))
        path = self.config
        path.write_text(path.read_text().replace("kill_grace: 100ms", "kill_grace: 600s")
                        .replace("shutdown_grace: 20s", "shutdown_grace: 600s"))
        d = Daemon(self)
        peer = d.client()
        waiting(peer)
        below = real.below(d.process.pid)
        d.process.send_signal(signal.SIGTERM)
        self.assertEqual(ending(peer)["body"]["cause"]["kind"], "shutdown")
        with self.assertRaises((ConnectionRefusedError, FileNotFoundError)):
            connect(self.socket)
        self.assertIsNone(d.process.poll())
        self.assertEqual(d.end(), -signal.SIGTERM)
        gone(below)
        self.assertFalse(self.socket.exists())

    def test_the_grace_is_the_configurations(self):
        self.config.write_text(self.config.read_text().replace("kill_grace: 100ms",
                                                               "kill_grace: 600s"))
        self.config.write_text(self.config.read_text().replace("grace: 20s", "grace: 50ms"))
        (self.dir / "app" / "agent.py").write_text(
            daemon_lab.AGENT.replace("signal.pause()", "while True: signal.pause()"))
        d = Daemon(self)
        waiting(d.client())
        self.assertEqual(d.end(), 0)
        self.assertIn("the broker did not end in time", d.stderr())


class Restart(Case):
    def turn(self, d, say):
        peer = d.client()
        operation = submit(peer, {"say": say})
        self.assertEqual(ending(peer)["body"]["turn"]["output"], say)
        return operation

    def test_one_chain_goes_through_all_daemons(self):  # D-11, D-16
        operations = []
        for i in range(3):
            d = Daemon(self)
            operations.append(self.turn(d, i))
            self.assertEqual(d.end(), 0)
            self.assertIn('"valid":true', self.verified().replace(" ", ""))
        numbers = [int(s.name[-8:]) for s in self.segments()]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        records = self.records()
        self.assertEqual([r["count"] for r in records], list(range(1, len(records) + 1)))
        self.assertEqual([r["operation"] for r in records if r["type"] == "operation.ended"],
                         operations)
        # What was taken over is known: its ending is told to whoever asks late.
        peer = Daemon(self).client()
        self.assertEqual(peer.call("operation.attach", operation=operations[0])["operation"],
                         operations[0])
        self.assertEqual([ending(peer)["type"]], ["completed"])

    def test_uses_stay_spent(self):  # D-10: a tool that no grant is left for is in no catalogue
        (self.dir / "docs").mkdir()
        (self.dir / "docs" / "a").write_text("a")
        (self.dir / "app" / "agent.py").write_text(
            "import caisson\n\n\ndef run(turn):\n    try:\n"
            "        return turn.invoke('files.read', {'path': 'a'})['text']\n"
            "    except caisson.ToolDenied as e:\n        return e.code\n\n\n"
            "caisson.serve(run)\n")
        self.config = self.configure(more=f"""providers:
  - {{ id: files, builtin: files, root: {self.dir / "docs"} }}
grants:
  - id: g
    subject: agent:a
    issuer: human:operator
    namespace: default
    capabilities: [{{ resource: {{ namespace: workspace, path: ., scope: descendants }},
                      actions: [read] }}]
    constraints: {{ maxUses: 1 }}
""")
        for expected in ("a", "tool_unavailable"):
            d = Daemon(self)
            peer = d.client()
            submit(peer, {})
            self.assertEqual(ending(peer)["body"]["turn"]["output"], expected)
            self.assertEqual(d.end(), 0)

    def test_a_kill_leaves_nothing_and_the_next_one_goes_on(self):  # D-2
        d = Daemon(self)
        done = self.turn(d, "before")
        peer = d.client()
        operation = waiting(peer)
        below = real.below(d.process.pid)
        d.process.kill()
        d.process.wait()
        # Stale socket and pid file are there, and broker and ledger may be for a while.
        self.assertTrue(self.socket.exists())
        e = Daemon(self)
        gone(below)
        late = e.client()
        late.call("operation.attach", operation=operation)
        event = ending(late)
        self.assertEqual((event["type"], event["body"]["cause"]["kind"]), ("failed", "host_lost"))
        self.turn(e, "after")
        self.assertEqual(e.end(), 0)
        self.assertIn('"valid":true', self.verified().replace(" ", ""))
        ended = [r["operation"] for r in self.records() if r["type"] == "operation.ended"]
        self.assertEqual(ended[:2], [done, operation])
        self.assertEqual(len(ended), 3)
        real.nothing_left()

    def test_every_operation_ends_once_whatever_ends_the_daemons(self):  # D-2, D-16
        begun = set()
        for i in range(6):
            d = Daemon(self)
            peer = d.client()
            begun |= {waiting(peer) for _ in range(i % 3)}
            # One more is somewhere on its way.
            peer.request("operation.submit", kind="turn", runtime="a", message={"say": 1})
            if i % 2:
                d.process.kill()
                d.process.wait()
            else:
                self.assertEqual(d.end(), 0)
            peer.close()
        self.assertEqual(Daemon(self).end(), 0)
        self.assertIn('"valid":true', self.verified().replace(" ", ""))
        records = self.records()
        accepted = [r["operation"] for r in records if r["type"] == "operation.accepted"]
        ended = [r["operation"] for r in records if r["type"] == "operation.ended"]
        self.assertEqual(sorted(accepted), sorted(ended))
        self.assertLessEqual(begun, set(accepted))

    def test_a_broker_that_dies_is_replaced_and_clients_come_back(self):  # D-4, D-11
        d = Daemon(self)
        peer = d.client()
        operation = waiting(peer)
        broker = d.service("broker")
        os.kill(broker, signal.SIGKILL)
        self.assertTrue(peer.closed())
        late = d.client()  # waits in the backlog until the next one serves
        late.call("operation.attach", operation=operation)
        self.assertEqual(ending(late)["body"]["cause"]["kind"], "host_lost")
        self.turn(d, "again")

    def test_a_client_that_goes_away_detaches(self):  # D-4
        d = Daemon(self)
        peer = d.client()
        operation = waiting(peer)
        peer.close()
        late = d.client()
        late.call("operation.attach", operation=operation)
        late.call("operation.stop", operation=operation)
        self.assertEqual(ending(late)["body"]["cause"]["kind"], "canceled")


class Clients(Case):
    def test_each_submit_is_a_session_of_its_own(self):  # D-1
        d = Daemon(self)
        a, b = d.client(), d.client()
        first, second, third = waiting(a), waiting(b, "b"), waiting(a, "b")
        self.assertEqual(len({first, second, third}), 3)
        error, _ = b.expect_reply(b.request("operation.attach"))
        self.assertEqual((error["code"], error["message"]),
                         ("invalid_argument", "there are several operations: name one"))
        b.call("operation.stop", operation=second)
        self.assertEqual(ending(b)["operation"], second)
        error, _ = b.expect_reply(b.request("operation.stop", operation=first))
        self.assertEqual(error["code"], "not_found")  # another client's
        for operation in (first, third):
            a.call("operation.stop", operation=operation)
            self.assertEqual(ending(a)["operation"], operation)


if __name__ == "__main__":
    unittest.main()
