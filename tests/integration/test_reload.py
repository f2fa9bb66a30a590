"""SIGHUP: another configuration while turns run, whole or not at all."""

import os
import signal
import subprocess
import unittest

import deaths_lab
import real
from daemon_lab import CAISSOND, ending
from real import IS_ROOT, WAIT, wait_for
from reload_lab import Case, Daemon, Turn, grant
from wire import Closed

TIMEOUT = 300  # of this file, for run.py


class Takes(Case):
    def test_a_turn_goes_on_and_the_next_one_sees_what_is_new(self):  # TU-40, TU-48
        d = Daemon(self)
        old = Turn(self, d)
        self.assertEqual((old.tools, old.read(), old.read("more/a.txt")),
                         (["files.list", "files.read", "files.stat"], True,
                          "no_matching_grant"))
        self.data["grants"] = [grant(), grant("more", actions=("read", "write"))]
        self.data["limits"]["max_steps"] = 3
        line = self.reload(d)
        self.assertIn("limits.max_steps, grants[g-more] (new)", line)
        self.assertEqual((old.read(), old.read("more/a.txt")), (True, "no_matching_grant"))
        new = Turn(self, d)
        self.assertIn("files.write", new.tools)
        self.assertEqual((new.read(), new.read("more/a.txt")), (True, True))
        self.assertEqual(old.call("files.write", "more/a.txt"), ("no", "tool_unavailable"))
        old.end()
        new.end()

    def test_a_grant_that_is_gone_counts_no_more_at_once(self):  # D-7
        self.data["grants"].append(grant("more"))
        self.write()
        d = Daemon(self)
        turn = Turn(self, d)
        self.assertEqual((turn.read(), turn.read("more/a.txt")), (True, True))
        del self.data["grants"][1]
        self.assertIn("grants[g-more] (gone)", self.reload(d))
        self.assertEqual((turn.read(), turn.read("more/a.txt")), (True, "no_matching_grant"))
        turn.end()

    def test_for_the_next_turn_a_running_one_keeps_it(self):  # D-7, TU-41
        self.data["revocation"] = "next-turn"
        self.write()
        d = Daemon(self)
        turn = Turn(self, d)
        self.data["grants"] = [grant("more")]
        self.reload(d)
        self.assertEqual((turn.read(), turn.read("more/a.txt")), (True, "no_matching_grant"))
        turn.end()
        after = Turn(self, d)
        self.assertEqual((after.read(), after.read("more/a.txt")), ("no_matching_grant", True))
        after.end()

    def test_uses_go_by_the_id_through_reloads_and_restarts(self):  # D-10
        self.data["grants"] = [grant(constraints={"maxUses": 3})]
        self.write()
        d = Daemon(self)
        turn = Turn(self, d)
        self.assertEqual([turn.read() for _ in range(2)], [True, True])
        turn.end()
        self.data["grants"] = [grant("more")]
        self.reload(d)
        os.kill(d.service("broker"), signal.SIGKILL)
        wait_for(lambda: d.stderr().count("is served") == 2, "the next broker")
        self.data["grants"] = [grant(constraints={"maxUses": 4})]
        self.reload(d)
        turn = Turn(self, d)
        self.assertEqual([turn.read() for _ in range(3)], [True, True, "grant_exhausted"])
        turn.end()

    def test_providers_and_runtimes_of_a_turn_are_those_that_it_began_with(self):
        d = Daemon(self)
        old = Turn(self, d)
        self.assertTrue(old.read())
        provider = [pid for pid in real.below(d.process.pid)
                    if "/libexec/caisson-files" in (real.proc_text(pid, "cmdline") or "")]
        self.data["providers"] = [{"id": "idle", "command": ["/bin/false"]},
                                  dict(self.data["providers"][0], id="other",
                                       root=str(self.dir / "work" / "more"))]
        self.data["runtimes"].insert(0, dict(self.data["runtimes"][0], id="z"))
        self.data["grants"].append(grant("a.txt", actions=("read",)))
        line = self.reload(d)
        for key in ("runtimes[z] (new)", "providers[files] (gone)", "providers[other] (new)"):
            self.assertIn(key, line)
        for pid in provider:  # started again on demand, by the configuration that is gone
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: old.read() is True, "the provider that it began with")
        new = Turn(self, d)
        self.assertEqual((new.read("a.txt"), new.read(), old.read()),
                         (True, "not_found", True))
        old.end()
        new.end()
        Turn(self, d, "z").end()

    def test_one_for_all_sessions_goes_with_the_last_that_knew_it(self):
        self.data["providers"][0]["scope"] = "shared"
        self.write()
        d = Daemon(self)

        def providers():
            return {pid for pid in real.below(d.process.pid)
                    if "/libexec/caisson-files" in (real.proc_text(pid, "cmdline") or "")}
        old, other = Turn(self, d), Turn(self, d)
        self.assertEqual((old.read(), other.read(), len(providers())), (True, True, 1))
        first = providers()
        self.data["providers"][0]["root"] = str(self.dir / "work" / "more")
        self.data["grants"].append(grant("a.txt"))
        self.reload(d)
        new = Turn(self, d)
        self.assertEqual((new.read("a.txt"), new.read(), old.read(), other.read()),
                         (True, "not_found", True, True))
        self.assertEqual(len(providers() - first), 1)
        for turn in (old, other):
            self.assertLessEqual(first, providers())
            turn.end()
        wait_for(lambda: not first & providers(), "the end of the one before")
        self.assertTrue(new.read("a.txt"))
        new.end()
        self.assertNotIn("has died", d.stderr(), "its end is no accident")

    def test_those_that_wait_are_of_the_new_one(self):
        self.data["runtimes"][0]["warm"] = 1
        self.write()
        d = Daemon(self)

        def agents():
            return {pid for pid in real.below(d.process.pid)
                    if "/app/agent.py" in (real.proc_text(pid, "cmdline") or "")}
        before = wait_for(agents, "one that waits")
        self.data["runtimes"][0]["env"] = ["WHICH=new"]
        self.reload(d)
        after = wait_for(lambda: {p for p in agents() - before if "WHICH=new" in
                                  (real.proc_text(p, "environ") or "WHICH=new")},
                         "another that waits")
        wait_for(lambda: not agents() & before, "the end of the one before")
        # And once more without a change of the file, as what it points to may have changed.
        self.assertIn("nothing else is in it", self.hang_up(d))
        wait_for(lambda: agents() and not agents() & after, "a third one")
        Turn(self, d).end()

    def test_those_that_wait_and_are_as_they_were_wait_on(self):
        first = dict(self.data["runtimes"][0], warm=1)
        other = dict(first, id="b", warm=2, profile="mine",
                     command=["python3", "/app/agent.py", "other"])
        self.data["profiles"] = [{"id": "mine", "base": "interpreter", "pids": 50}]
        self.data["runtimes"] = [first, other]
        self.write()
        d = Daemon(self)

        def agents(word):
            return {pid for pid in real.below(d.process.pid)
                    if (real.proc_text(pid, "cmdline") or "").endswith(f"{word}\0")}

        def waiting(word, n, but=frozenset()):
            """`n` of them that are none of `but`."""
            def look():
                found = agents(word) - but
                return found if len(found) == n else None
            return wait_for(look, f"{n} of {word}")
        mine, others = waiting("agent.py", 1), waiting("other", 2)
        # They stand elsewhere, and what is not their own is another.
        self.data["runtimes"] = [other, dict(first, env=["A=1"])]
        self.data["grants"].append(grant("more", subject="agent:b"))
        self.data["grants"].append(grant("docs", subject="agent:b", id="g-b"))
        self.data["limits"]["max_steps"] = 5
        self.reload(d)
        waiting("agent.py", 1, but=mine)
        self.assertEqual(agents("other"), others)
        # One serves by what is in force now, and is replaced.
        turn = Turn(self, d, "b")
        self.assertTrue(turn.read("more/a.txt"))
        new = waiting("other", 1, but=others)
        turn.end()
        kept = waiting("other", 2)
        self.assertEqual((len(kept & others), kept - others), (1, new))
        # Its profile is no longer the same.
        self.data["profiles"][0]["pids"] = 51
        self.reload(d)
        waiting("other", 2, but=kept)
        wait_for(lambda: not kept & agents("other"), "the end of those before")
        Turn(self, d, "b").end()

    def test_children_that_go_over_are_found_by_the_names_they_had(self):
        d = Daemon(self)
        turn = Turn(self, d)
        self.assertTrue(turn.read())

        def providers():
            return {pid for pid in real.below(d.process.pid)
                    if "/libexec/caisson-files" in (real.proc_text(pid, "cmdline") or "")}
        for n in range(12):  # more than there may be configurations that something needs
            self.data["providers"].insert(0, {"id": f"p{n}", "command": ["/bin/false"]})
            self.data["runtimes"].insert(0, dict(self.data["runtimes"][0], id=f"r{n}"))
            self.reload(d)
            if n % 4 == 1:
                for pid in providers():  # its death is told, and the next asked for
                    os.kill(pid, signal.SIGKILL)
                wait_for(lambda: turn.read() is True, "the next provider")
        self.assertTrue(turn.read())
        self.assertEqual(len(providers()), 1)
        turn.end()
        wait_for(lambda: not providers(), "the end of its session")
        self.assertNotIn("asked for what no broker may", d.stderr())
        Turn(self, d).end()

    def test_the_record_says_which_one_decided(self):  # D-12
        d = Daemon(self)
        self.data["grants"] = [grant(), grant("more")]
        self.reload(d)
        Turn(self, d).end()
        del self.data["grants"][1]
        self.reload(d)
        self.assertEqual(d.end(), 0)
        records = self.records()
        found = [r for r in records
                 if r["type"] in ("broker.started", "configuration.reloaded")]
        self.assertEqual([r["type"] for r in found],
                         ["broker.started"] + 2 * ["configuration.reloaded"])
        digests = [r["digest"] for r in found]
        self.assertNotEqual(digests[0], digests[1])
        self.assertEqual(digests[0], digests[2])  # the same file is the same configuration
        self.assertLess(records.index(found[1]), [r["type"] for r in records].index(
            "operation.accepted"))
        self.verified()
        # In the next daemon, too.
        d = Daemon(self)
        self.assertEqual(d.end(), 0)
        self.assertEqual([r["digest"] for r in self.records()
                          if r["type"] == "broker.started"], 2 * digests[:1])

    def test_in_the_background_a_relative_path_is_still_the_same_file(self):
        self.write()
        log = self.dir / "log"
        with log.open("wb") as f:
            done = subprocess.run(
                [CAISSOND, "-c", "c.yaml", "--state", "state", "--socket", "d.sock"],
                stdin=subprocess.DEVNULL, stdout=f, stderr=f, timeout=WAIT, check=False,
                env=real.environment(), cwd=self.dir)
        self.assertEqual(done.returncode, 0, log.read_text())
        pid = int(self.socket.with_suffix(".pid").read_text())
        try:
            self.data["purpose"] = "else"
            self.write()
            os.kill(pid, signal.SIGHUP)
            wait_for(lambda: "in force from now on: purpose" in log.read_text(), "the line")
        finally:
            os.kill(pid, signal.SIGTERM)
            wait_for(lambda: pid not in real.parents(), "its end")

    def test_who_started_it_is_told(self):
        heard, env = self.notifier()
        d = Daemon(self, env=env)
        self.assertIn("READY=1", heard.recv(4096).decode())
        for write, status in ((lambda: self.data["limits"].update(max_steps=2), "serving"),
                              (lambda: self.data.update(version=7), "nothing")):
            write()
            self.write()
            self.hang_up(d)
            words = dict(w.split("=", 1) for w in heard.recv(4096).decode().splitlines())
            self.assertEqual(words["RELOADING"], "1")
            self.assertRegex(words["MONOTONIC_USEC"], r"^[1-9][0-9]+$")
            words = dict(w.split("=", 1) for w in heard.recv(4096).decode().splitlines())
            self.assertEqual(words["READY"], "1")
            self.assertIn(status, words["STATUS"])


class Refuses(Case):
    def test_a_bad_file_changes_nothing_and_says_where(self):
        d = Daemon(self)
        turn = Turn(self, d)
        good = self.config.read_text()

        def edit(**changes):
            return lambda: (self.data.update(changes), self.write())

        tool = {"name": "t", "provider": "files", "namespace": "n", "effect": "read",
                "input": {"type": "object", "properties": {"path": {"type": "string"}}},
                "requires": {"action": "read",
                             "resource": {"namespace": "workspace", "path": "{path}"}}}
        bad = [
            (lambda: self.write("version: 1\nlimits: {\n"), ":3:1: "),
            (lambda: self.write("version: 1\nlimits: { turn_timeout: 5 }\n"),
             ":2:25: limits.turn_timeout: "),
            (edit(colour="red"), "colour: unknown key"),
            (edit(grants=[grant(), grant()]), "grants[1].id: "),
            (edit(tools=[dict(tool, provider="nobody")]), "tools[0].provider: "),
            (edit(tools=[dict(tool, input={"type": "object", "minimum": "x"})]), "tools[0]"),
            (edit(profiles=[{"id": "p", "base": "nowhere"}]), "profiles[0].base: "),
            (edit(profiles=[{"id": "p", "base": "native", "syscalls": [
                {"name": "ptrace", "action": "allow"}]}]), "profiles[0].syscalls[0]"),
            (edit(providers=[{"id": "files", "builtin": "files", "root": "/no/such"}]),
             "providers[0].root: /no/such: No such file"),
            (edit(namespace="other"), "namespace: "),
            (edit(authority="human:other", owner="human:operator"), "authority: "),
            (edit(owner="human:other"), "owner: "),
            (lambda: self.config.unlink(), ": cannot open: No such file"),
            (lambda: self.config.mkdir(), ": is no regular file"),
        ]
        for i, (write, text) in enumerate(bad):
            with self.subTest(text=text):
                self.data = self.start_with()
                if self.config.is_dir():
                    self.config.rmdir()
                write()
                line = self.refused(d, text, str(self.config))
                if i < len(bad) - 2:
                    self.assertRegex(line, r"c\.yaml:[0-9]+:[0-9]+: ")
                self.assertTrue(turn.read())
        self.config.rmdir()
        self.config.write_text(good)
        if not IS_ROOT:
            self.config.chmod(0)
            self.refused(d, "cannot open: Permission denied")
            self.config.chmod(0o600)
        turn.end()
        Turn(self, d).end()
        self.assertNotIn("configuration.reloaded", {r["type"] for r in self.records()})

    def test_one_that_is_asked_for_as_another_is_refused_comes_next(self):
        self.data["providers"].append({"id": "idle", "command": ["/bin/false"]})
        self.write()
        d = Daemon(self)
        broker = d.service("broker")
        os.kill(broker, signal.SIGSTOP)
        self.data["tools"] = [{
            "name": "t", "provider": "idle", "namespace": "n", "effect": "read",
            "input": {"type": "object", "minimum": "x"},  # which only a broker reads
            "requires": {"action": "read", "resource": {"namespace": "n", "path": "p"}}}]
        self.write()

        def asked():
            d.process.send_signal(signal.SIGHUP)
            return "as soon as a broker can take it" in d.stderr()
        wait_for(asked, "one that waits behind the one that the broker has")
        del self.data["tools"]
        self.data["grants"].append(grant("more"))
        self.write()
        os.kill(broker, signal.SIGCONT)
        wait_for(lambda: "in force from now on: grants[g-more] (new)" in d.stderr() or
                 d.stderr().count("nothing has changed") > 1, "both answers")
        self.assertIn("tools[0]", d.stderr())
        self.assertEqual(d.stderr().count("nothing has changed"), 1, d.stderr())
        turn = Turn(self, d)
        self.assertTrue(turn.read("more/a.txt"))
        turn.end()
        self.assertEqual(d.end(), 0)

    def test_what_needs_a_restart_is_named_and_the_rest_applies(self):
        d = Daemon(self)
        self.data.update(socket="elsewhere.sock", durability="relaxed",
                         revocation="next-turn", purpose="tests")
        self.assertIn("in force from now on: purpose", self.reload(d))
        wait_for(lambda: "needs a restart: socket, durability, revocation;" in d.stderr(),
                 "the line")
        self.assertFalse((self.dir / "elsewhere.sock").exists())
        turn = Turn(self, d)
        self.assertEqual(turn.read(), "no_matching_grant"
                         if "purposes" in self.data["grants"][0] else True)
        self.data["grants"] = []  # immediate, as it began
        self.reload(d)
        self.assertEqual(turn.read(), "no_matching_grant")
        turn.end()
        # Without anything else it is only named.
        self.data["durability"] = "full"
        self.write()
        self.assertIn("nothing else", self.hang_up(d))

    def test_sessions_live_by_a_bounded_number_of_configurations(self):
        d = Daemon(self)
        turns = []
        for i in range(8):
            turns.append(Turn(self, d))
            self.data["limits"]["max_steps"] = i + 2
            if i < 7:
                self.reload(d)
        self.write()
        self.refused(d, "as many configurations as there may be")
        turns.pop(0).end()
        wait_for(lambda: "in force" in self.hang_up(d), "room for one more")
        for turn in turns:
            self.assertTrue(turn.read())
            turn.end()


class Deaths(Case):
    def test_a_broker_that_dies_afterwards_begins_with_the_new_one(self):
        d = Daemon(self)
        self.data["grants"] = [grant("more")]
        self.reload(d)
        os.kill(d.service("broker"), signal.SIGKILL)
        wait_for(lambda: d.stderr().count("is served") == 2, "the next broker")
        turn = Turn(self, d)
        self.assertEqual((turn.read(), turn.read("more/a.txt")), ("no_matching_grant", True))
        turn.end()
        self.assertEqual(d.end(), 0)
        started = [r for r in self.records() if r["type"] == "broker.started"]
        reloaded = [r for r in self.records() if r["type"] == "configuration.reloaded"]
        self.assertEqual([r["digest"] for r in reloaded], [started[1]["digest"]])

    def test_a_broker_that_dies_as_it_is_asked_leaves_the_old_one_or_the_new_one(self):
        d = Daemon(self)
        for i in range(4):
            broker = d.service("broker")
            os.kill(broker, signal.SIGSTOP)
            self.data["limits"]["max_steps"] = i + 2
            self.write()
            seen = d.stderr().count("nothing has changed")
            served = d.stderr().count("is served")
            d.process.send_signal(signal.SIGHUP)
            # It is in the broker's socket once the supervisor has nothing left to do.
            wait_for(lambda: not pending(d.process.pid), "the signal")
            os.kill(broker, signal.SIGKILL)
            wait_for(lambda: d.stderr().count("nothing has changed") > seen, "the line")
            wait_for(lambda: d.stderr().count("is served") > served, "the next broker")
            Turn(self, d).end()
        self.reload(d)
        Turn(self, d).end()

    def test_one_that_is_asked_for_as_there_is_no_broker_comes_with_the_next(self):
        d = Daemon(self)
        broker = d.service("broker")
        os.kill(broker, signal.SIGSTOP)
        os.kill(d.process.pid, signal.SIGSTOP)
        os.kill(broker, signal.SIGKILL)
        self.data["grants"] = [grant("more")]
        self.write()
        os.kill(d.process.pid, signal.SIGHUP)
        os.kill(d.process.pid, signal.SIGCONT)
        wait_for(lambda: "in force from now on" in d.stderr() or
                 "nothing has changed" in d.stderr(), "the reload")
        if "nothing has changed" in d.stderr():  # it was in the old one's socket
            self.reload(d)
        turn = Turn(self, d)
        self.assertTrue(turn.read("more/a.txt"))
        turn.end()

    def test_at_the_start_and_at_the_end(self):
        self.write()
        for _ in range(5):
            d = Daemon(self, ready=False)
            for _ in range(3):
                d.process.send_signal(signal.SIGHUP)
            turn = Turn(self, d)
            d.process.send_signal(signal.SIGTERM)
            for _ in range(3):
                d.process.send_signal(signal.SIGHUP)
            self.assertEqual(d.process.wait(WAIT), 0)
            self.assertEqual(ending(turn.peer)["body"]["cause"]["kind"], "shutdown")

    def test_from_its_first_instant_on_a_hang_up_ends_nothing(self):
        for _ in range(5):
            d = Daemon(self, preexec_fn=hang_up_soon)
            wait_for(lambda: "nothing else is in it" in d.stderr(), "that it was heard")
            self.assertEqual(d.end(), 0)


def hang_up_soon():
    """To itself, as it becomes caissond: blocked until that can hear it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    os.kill(os.getpid(), signal.SIGHUP)


def pending(pid):
    """Signals that nobody has taken yet."""
    text = real.proc_text(pid, "status")
    masks = [int(line.split()[1], 16) for line in text.splitlines()
             if line.startswith(("SigPnd", "ShdPnd"))]
    return sum(masks) & 1 << signal.SIGHUP - 1


@unittest.skipUnless((deaths_lab.STOPS / "bin" / "caissond").exists(),
                     "the build with stops is not there")
class Stops(Case):
    def daemon(self, point):
        return Daemon(self, program=deaths_lab.STOPS / "bin" / "caissond",
                      env={"CAISSON_STOP": point})

    def digests(self):
        return [(r["type"], r["digest"]) for r in self.records()
                if r["type"] in ("broker.started", "configuration.reloaded")]

    def test_the_broker_dies_at_every_point(self):  # D-2
        for point in ("received", "applied", "durable", "told"):
            with self.subTest(point=point):
                self.data = self.start_with()
                self.data["providers"][0]["scope"] = "shared"
                self.write()
                d = self.daemon(f"broker.reload_{point}")
                turn = Turn(self, d)
                self.assertTrue(turn.read())
                self.data["grants"] = [grant("more")]
                self.write()
                line = self.hang_up(d)
                wait_for(lambda: d.stderr().count("is served") == 2, "the next broker")
                self.assertIn(f"stopped at broker.reload_{point}", d.stderr())
                with self.assertRaises(Closed):
                    turn.peer.receive()
                taken = "in force" in line
                if point != "told":  # what it was told before it died may be lost with it
                    self.assertFalse(taken, line)
                after = Turn(self, d)
                self.assertEqual(after.read("more/a.txt"), True if taken else
                                 "no_matching_grant")
                after.end()
                if not taken:
                    self.reload(d)
                    after = Turn(self, d)
                    self.assertEqual((after.read(), after.read("more/a.txt")),
                                     ("no_matching_grant", True))
                    after.end()
                self.assertEqual(d.end(), 0)
                found = self.digests()
                # The last word is the one that was in force, whoever had it last.
                self.assertEqual(found[-1][1], [f for f in found
                                                if f[0] == "configuration.reloaded"][-1][1])
                self.verified()

    def test_the_supervisor_dies_at_every_point(self):
        for point in ("reload_read", "before_config", "after_config"):
            with self.subTest(point=point):
                self.data = self.start_with()
                self.write()
                d = self.daemon(f"supervisor.{point}")
                Turn(self, d)
                below = real.below(d.process.pid)
                self.data["grants"] = [grant("more")]
                self.write()
                d.process.send_signal(signal.SIGHUP)
                self.assertEqual(d.process.wait(WAIT), -9)
                wait_for(lambda: not below & set(real.parents()), "the end of all of it")
                d = Daemon(self)
                turn = Turn(self, d)
                self.assertEqual((turn.read(), turn.read("more/a.txt")),
                                 ("no_matching_grant", True))
                turn.end()
                self.assertEqual(d.end(), 0)
                self.verified()


class Many(Case):
    def test_fifty_in_a_row_leave_nothing(self):
        self.data["runtimes"][0].update(warm=1, profile="own")
        self.data["profiles"] = [{"id": "own", "base": "interpreter", "open_files": 100}]
        self.write()
        d = Daemon(self)
        holds = []
        for i in range(50):
            turn = Turn(self, d)
            self.assertTrue(turn.read())
            self.data["grants"] = [grant(), grant("more", constraints={"maxUses": i + 1})]
            self.data["limits"]["max_steps"] = 16 + i % 2
            self.data["profiles"][0]["open_files"] = 101 + i
            self.reload(d)
            self.assertTrue(turn.read())
            turn.end()
            if i in (9, 49):
                holds.append(self.quiet(d))
        self.assertEqual(holds[0][:2], holds[1][:2])
        if not real.SANITIZED:  # 40 configurations of some 100 KiB would show
            for before, after in zip(holds[0][2:], holds[1][2:]):
                self.assertLess(after - before, 2048)
        self.assertEqual(d.end(), 0)
        self.assertEqual(len([r for r in self.records()
                              if r["type"] == "configuration.reloaded"]), 50)
        self.verified()

    def quiet(self, d):
        """(descriptors, processes, KiB of supervisor and broker) once every session is over."""
        def look():
            below = real.below(d.process.pid)
            # Ledger, broker, the launcher and the agent that wait, and who stands by: two as well.
            return below if len(below) == 6 else None
        below = wait_for(look, "the end of every session")
        ours = [d.process.pid, d.service("broker")]
        fds = tuple(len(os.listdir(f"/proc/{pid}/fd")) for pid in ours) if self.may_look() else ()
        return (fds, len(below), *(resident(pid) for pid in ours))

    def may_look(self):
        return os.access(f"/proc/{os.getpid()}/fd", os.R_OK) and IS_ROOT


def resident(pid):
    text = real.proc_text(pid, "status")
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS"))


if __name__ == "__main__":
    unittest.main()
