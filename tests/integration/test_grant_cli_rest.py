"""`caisson grant` at rest: its lock, its record, and deaths in its middle (D-7, D-16, D-17)."""

import contextlib
import fcntl
import os
import pathlib
import signal
import subprocess
import threading
import unittest

import real
import wire
from daemon_lab import Daemon
from grant_cli_lab import Grants, READ
from real import IS_ROOT, WAIT, wait_for
from wire import said

TIMEOUT = 300  # of this file, for run.py
STOPS = wire.BUILD / "stops"


class Lock(Grants):
    """Whose the namespace is: nobody's, a daemon's, somebody's who does not answer."""

    @contextlib.contextmanager
    def held(self, text=""):
        lock = self.lock()
        with open(lock, "w") as f:
            lock.chmod(0o600)
            f.write(text)
            f.flush()
            fcntl.flock(f, fcntl.LOCK_EX)
            yield

    def test_a_lock_whose_holder_does_not_answer_is_an_error_that_says_so(self):
        with self.held(f"{os.getpid()}\n"):
            for words in (["list"], ["revoke", "g-list"]):
                self.refused(f"--socket {self.socket}: nobody answers there: No such file or "
                             f"directory; --state {self.state}: the namespace default is held by "
                             f"caissond, pid {os.getpid()}", *words)

    def test_who_holds_it_for_a_moment_is_waited_for(self):
        with self.held():
            p = self.start("list")
            supervisor = self.caissond_of(p)
            wait_for(lambda: (real.proc_text(supervisor, "stat") or "x) R").rpartition(")")[2]
                     .split()[0] == "S", "that one to wait")
        status, out, err = self.told(p)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("g-list", out)

    def test_a_daemon_that_starts_waits_for_it(self):
        started = []
        with self.held():
            thread = threading.Thread(target=lambda: started.append(Daemon(self)))
            thread.start()
            wait_for(self.is_awaited, "a daemon that waits")
        thread.join(WAIT)
        self.assertEqual(started[0].end(), 0)

    def is_awaited(self):
        inode = f":{self.lock().stat().st_ino} "
        return any("-> FLOCK" in line and inode in line
                   for line in pathlib.Path("/proc/locks").read_text().splitlines())

    def test_another_daemon_at_the_socket_is_not_asked(self):
        d = Daemon(self)
        self.state = self.dir / "other"
        with self.held(f"{os.getpid()}\n"):
            self.refused(f"--socket {self.socket}: is served by pid {d.process.pid}, which is "
                         "another daemon; ", "list")

    def test_many_at_once_follow_one_another(self):
        running = [self.start("issue", "--id", f"g-{i}", "--subject", "agent:a", "--capability",
                              READ) for i in range(6)]
        for p in running:
            self.assertEqual(self.told(p)[::2], (0, ""))
        self.assertEqual(set(self.states()), {"g-list", "run", "run-2"} |
                         {f"g-{i}" for i in range(6)})
        self.assertTrue(self.is_free())

    def test_nothing_is_served_or_started(self):
        out = self.dir / "out"
        out.mkdir(mode=0o777)
        out.chmod(0o777)
        self.config.write_text(self.config.read_text().replace(
            "runtimes:\n", "runtimes:\n  - { id: w, command: [/bin/sh, -c, 'date >/out/ran'], "
            f"warm: 1, mounts: [{{ source: {out}, target: /out, writable: true }}] }}\n"))
        self.assertIn("g-list", self.states())
        self.assertEqual(list(out.iterdir()), [])
        self.assertFalse(self.socket.exists())
        types = [r["type"] for r in self.records()]
        self.assertEqual(set(types), {"segment.opened", "broker.started"})
        self.assertLess(sum(s.stat().st_blocks for s in self.segments()) * 512, 1 << 18)
        self.verified()

    def test_a_client_that_is_killed_frees_it(self):
        full = self.full_pipe()[1]
        for _ in range(3):
            p = self.start("list", stdout=full)
            supervisor = self.caissond_of(p)
            p.kill()
            p.communicate(timeout=WAIT)
            wait_for(lambda: real.proc_text(supervisor, "stat") is None, "its end")
            self.assertTrue(self.is_free())
        self.assertIn("g-list", self.states())

    def test_without_a_place_for_a_socket_it_works_at_rest(self):
        if IS_ROOT:
            self.skipTest("root has /run/caisson")
        env = real.environment()
        env.pop("XDG_RUNTIME_DIR", None)
        words = ["grant", "-c", self.config, "--state", self.state, "list"]
        self.assertEqual(self.caisson(*words, env=env).returncode, 0)
        with self.held():
            result = self.caisson(*words, env=env)
            self.assertEqual(result.returncode, 125)
            self.assertIn("--socket PATH: is needed where XDG_RUNTIME_DIR is not set",
                          result.stderr)

    def test_a_mistake_in_the_file_is_one_line(self):
        self.config.write_text("version: 1\nnonsense: 1\n")
        self.refused(f"{self.config}:2:1: ", "list")
        self.config = self.dir / "nowhere.yaml"
        self.refused("nowhere.yaml: cannot open", "list")


class AtRest(Grants):
    """What is given without a daemon is the daemon's, and the other way round."""

    def test_issued_at_rest_used_revoked_and_seen_at_rest(self):  # D-7, D-17
        self.assertEqual(self.states(), {"g-list": "active", "run": "active", "run-2": "active"})
        (issued,) = self.objects("issue", "--id", "g-read", "--subject", "agent:a",
                                 "--capability", READ)
        self.assertEqual((issued["id"], issued["grant"]["state"]), ("g-read", "active"))
        d = Daemon(self)
        self.assertEqual(self.reads(d, "docs/a.txt"), [""])
        (revoked,) = self.objects("revoke", "g-read", served=True)
        self.assertEqual((revoked["already"], revoked["dispatched"]), (False, []))
        self.assertNotEqual(self.reads(d, "docs/a.txt"), [""])
        self.assertEqual(d.end(), 0)
        self.assertEqual(self.states()["g-read"], "revoked")
        (again,) = self.objects("revoke", "g-read")
        self.assertEqual((again["already"], again["at"]), (True, revoked["at"]))
        self.refused("refused: already_exists: id: ", "issue", "--id", "g-read", "--subject",
                     "agent:a", "--capability", READ)
        d = Daemon(self)
        self.assertNotEqual(self.reads(d, "docs/a.txt"), [""])
        self.assertEqual(d.end(), 0)
        self.verified()

    def test_a_grant_of_the_configuration_is_revoked_for_good(self):
        self.objects("revoke", "g-list")
        d = Daemon(self)
        self.assertEqual(self.states()["g-list"], "revoked")
        self.assertEqual(d.end(), 0)
        self.assertEqual(self.states()["g-list"], "revoked")

    def test_uses_are_counted_across_all_of_them(self):
        self.objects("issue", "--id", "twice", "--subject", "agent:a", "--capability", READ,
                     "--max-uses", "2")
        d = Daemon(self)
        self.assertEqual(self.reads(d, *["docs/a.txt"] * 3), ["", "", "grant_exhausted"])
        self.assertEqual(d.end(), 0)
        (g,) = [g for g in self.objects("list") if g["id"] == "twice"]
        self.assertEqual((g["spent"], g["maxUses"], g["state"]), (2, 2, "exhausted"))
        self.assertIn("2 of 2", self.grant("list")[0])

    def test_while_a_daemon_holds_it_that_one_is_asked(self):
        d = Daemon(self)
        broker = d.service("broker")
        self.objects("issue", "--id", "g-read", "--subject", "agent:a", "--capability", READ)
        self.assertEqual(self.states(served=True), self.states())
        self.assertEqual(self.reads(d, "docs/a.txt"), [""])
        self.assertEqual(d.service("broker"), broker)
        self.assertEqual(d.end(), 0)
        self.assertIn("g-read", self.states())

    def test_a_daemon_that_comes_meanwhile_is_told_who_holds_it(self):
        drain, full = self.full_pipe()
        p = self.start("list", stdout=full)
        supervisor = self.caissond_of(p)
        wait_for(lambda: len(real.below(p.pid)) > 2, "its broker")
        d = Daemon(self, ready=False)
        self.assertEqual(d.process.wait(WAIT), 125)
        self.assertIn(f"is held by caissond, pid {supervisor}", d.stderr())
        self.assertTrue(os.read(drain, 1 << 20))
        self.assertEqual(self.told(p)[::2], (0, ""))
        self.assertEqual(Daemon(self).end(), 0)

    def test_a_death_in_the_middle_leaves_all_of_it_or_nothing(self):  # D-16
        stages = {
            "caissond": lambda p: real.below(p.pid),
            "ledger": lambda p: real.marked("/libexec/caisson-ledger"),
            "segment": lambda p: len(list(self.segments())) > before,
            "all": lambda p: len(real.below(p.pid)) >= 5,
        }
        asked = []
        for stage, reached in stages.items():
            for victim in ("client", "caissond"):
                name, before = f"g-{stage}-{victim}", len(self.segments())
                asked.append(name)
                p = self.start("issue", "--id", name, "--subject", "agent:a", "--capability",
                               READ, "--max-uses", "7", "--purpose", "run")
                with self.subTest(stage=stage, victim=victim):
                    wait_for(lambda: reached(p) or p.poll() is not None, stage)
                    tree = real.below(p.pid)
                    supervisor = [pid for pid in tree if "--private" in
                                  (real.proc_text(pid, "cmdline") or "")]
                    for pid in [p.pid] if victim == "client" else supervisor:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    _, _, err = self.told(p)
                    if victim == "caissond" and p.returncode != 0:
                        self.assertEqual(p.returncode, 125)
                        self.assertRegex(err, "grant issue: caissond was killed by signal 9|"
                                         "its broker died, and may have issued it|is ending; ask again")
                        self.assertEqual(err.count("\n"), 1)
                    wait_for(lambda: not [pid for pid in tree if real.proc_text(pid, "stat")
                                          and pid in real.parents()], "their end")
                    self.assertTrue(self.is_free())
        found = {g["id"]: g for g in self.objects("list")}
        self.assertIn("g-list", found)
        for name in set(asked) & set(found):
            with self.subTest(name=name):
                self.assertEqual((found[name]["maxUses"], found[name]["purposes"],
                                  found[name]["capabilities"][0]["path"],
                                  found[name]["state"]), (7, ["run"], ["docs"], "active"))
        self.verified()


@unittest.skipUnless((STOPS / "bin" / "caisson").exists(), "needs the build with stops")
class Stopped(Grants):
    """A process of ours dies at a named point of an order at rest (common/stop.h)."""

    def stopped(self, point, *words):
        """(exit status, stderr) of a command whose broker or caissond dies at `point`."""
        result = subprocess.run([STOPS / "bin" / "caisson", *self.at_rest(*words)],
                                capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                timeout=WAIT, check=False,
                                env=real.environment(CAISSON_STOP=point))
        wait_for(self.is_free, "the lock")
        return result.returncode, said(result.stderr)

    def test_a_grant_is_on_record_or_was_never_given(self):  # D-16
        for point, known in (("supervisor.after_broker", False),
                             ("supervisor.before_client", False),
                             ("supervisor.after_client", None),
                             ("broker.issue_recorded", None),
                             ("broker.issue_durable", True)):
            name = f"g-{point}"
            with self.subTest(point=point):
                status, err = self.stopped(point, "issue", "--id", name, "--subject", "agent:a",
                                           "--capability", READ, "--max-uses", "7")
                if point == "supervisor.after_client":  # its broker may still be quicker
                    self.assertIn(status, (0, 125))
                    known = status == 0 or None
                else:
                    self.assertEqual(status, 125, err)
                if known and status:
                    self.assertIn("its broker died, and may have issued it", err)
                found = [g for g in self.objects("list") if g["id"] == name]
                if known is not None:
                    self.assertEqual(len(found), known)
                self.assertEqual([g["maxUses"] for g in found], [7] * len(found))
        self.verified()

    def test_a_revocation_that_was_not_answered_is_asked_for_again(self):  # D-7
        for point, known in (("broker.revoke_recorded", None), ("broker.revoke_durable", True)):
            name = f"g-{point}"
            self.objects("issue", "--id", name, "--subject", "agent:a", "--capability", READ)
            with self.subTest(point=point):
                status, err = self.stopped(point, "revoke", name)
                self.assertEqual(status, 125)
                self.assertIn("its broker died; ask again", err)
                (again,) = self.objects("revoke", name)
                if known:
                    self.assertTrue(again["already"])
                self.assertEqual(self.states()[name], "revoked")
        self.verified()


if __name__ == "__main__":
    unittest.main()
