"""`caisson ps` and `caisson run --socket`: what a daemon runs, and turns in it."""

import json
import os
import re
import signal
import subprocess
import unittest

import real
from daemon_lab import CAISSON, Case, Daemon, ending, waiting
from real import IS_ROOT, WAIT, wait_for

TIMEOUT = 240  # of this file, for run.py
COLUMNS = ["ROLE", "STATE", "SESSION", "NAME", "PID", "UID", "PROFILE", "NETWORK", "LAYERS",
           "FDS", "PROCS", "CPU", "MEMORY", "SINCE"]


class Processes(Case):
    def ps(self, *words):
        return self.caisson("ps", "--socket", self.socket, *words)

    def all_rows(self):
        result = self.ps("-o", "jsonl")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return [json.loads(line) for line in result.stdout.splitlines()]

    def rows(self):
        """But for what stands by, which comes a moment after a launch."""
        return [row for row in self.all_rows() if row["role"] != "standby"]

    def standing(self):
        return [row for row in self.all_rows() if row["role"] == "standby"]

    def test_one_stands_by_for_the_kind_that_was_used_last(self):
        d = Daemon(self)
        self.assertEqual(self.standing(), [])
        peer = d.client()
        operation = waiting(peer)
        wait_for(lambda: [r["state"] for r in self.standing()] == ["warm"], "one to stand by")
        row, = self.standing()
        self.assertEqual(row["profile"], "-")
        # As root it gets its own with its order, and has none until then.
        self.assertEqual(row.get("uid"), None if IS_ROOT else os.geteuid())
        line, = [line for line in self.ps().stdout.splitlines() if line.startswith("standby")]
        self.assertEqual(re.split(r"  +", line)[5], "-" if IS_ROOT else str(os.geteuid()))
        self.assertFalse({"session", "pid"} & set(row))
        peer.call("operation.stop", operation=operation)
        ending(peer)
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.standing() == [], "it to go with what it was made for")

    def test_none_stands_by_where_none_is_wanted(self):
        self.config = self.configure(more="standby: 0\n")
        d = Daemon(self)
        peer = d.client()
        operation = waiting(peer)
        peer.call("operation.stop", operation=operation)
        ending(peer)
        waiting(peer)
        self.assertEqual(self.standing(), [])

    def test_rows_are_what_the_kernel_knows(self):
        (self.dir / "docs").mkdir()
        if IS_ROOT:
            os.chown(self.dir / "docs", 4242, 4242)
        self.config = self.configure(more=f"""providers:
  - {{ id: files, builtin: files, root: {self.dir / "docs"} }}
grants:
  - {{ id: g, subject: agent:a, issuer: human:operator, namespace: default, capabilities: [
       {{ resource: {{ namespace: workspace, path: ., scope: descendants }}, actions: [read] }}] }}
""")
        d = Daemon(self)
        self.assertEqual([r["role"] for r in self.rows()], ["broker", "ledger"])
        peer = d.client()
        operation = waiting(peer)
        wait_for(lambda: [r["state"] for r in self.rows()] == ["running"] * 4, "all four")
        rows = {r["role"]: r for r in self.rows()}
        self.assertEqual(sorted(rows), ["broker", "ledger", "provider", "worker"])
        for role, row in rows.items():
            with self.subTest(role=role):
                self.assertEqual(os.stat(f"/proc/{row['pid']}").st_uid, row["uid"])
                self.assertEqual(row["uid"] != os.geteuid(), IS_ROOT)
                self.assertIn(row["pid"], real.below(d.process.pid))
                self.assertRegex(row["since"], r"\A20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
                self.assertIn("landlock", row["layers"]["applied"])
                self.assertIsInstance(row["layers"]["absent"], list)
                self.assertGreater(row["usage"]["residentBytes"], 100000)
                self.assertGreaterEqual(row["usage"]["processes"], 1)
                self.assertIn(row["cgroup"], ("v2", "v1", "none"))
        self.assertEqual(rows["worker"]["id"], "a")
        self.assertEqual(rows["worker"]["session"], rows["provider"]["session"])
        self.assertEqual(rows["worker"]["profile"], "interpreter")
        self.assertEqual(rows["provider"]["id"], "files")
        self.assertEqual(rows["worker"]["descriptors"]["handed"],
                         ["null", "stdout", "stderr", "link"])
        self.assertEqual(rows["worker"]["descriptors"]["open"],
                         len(os.listdir(f"/proc/{rows['worker']['pid']}/fd")))
        self.assertIn("agent.py", real.proc_text(rows["worker"]["pid"], "cmdline"))
        self.assertEqual(rows["worker"]["usage"]["processes"], 2)  # with its pid 1
        self.assertIn("seccomp", rows["worker"]["layers"]["applied"])
        peer.call("operation.stop", operation=operation)
        ending(peer)
        wait_for(lambda: len(self.rows()) == 2, "the end of the session")

    def test_a_table_for_people(self):
        d = Daemon(self)
        waiting(d.client())
        lines = [line for line in self.ps().stdout.splitlines()
                 if not line.startswith("standby")]
        self.assertEqual(re.split(r"  +", lines[0]), COLUMNS)
        cells = [re.split(r"  +", line) for line in lines[1:]]
        self.assertEqual([len(c) for c in cells], [len(COLUMNS)] * 3)
        # Aligned: every column of every line begins where its head does.
        for head, values in zip(COLUMNS, zip(*cells)):
            for line, value in zip(lines[1:], values):
                self.assertEqual(line[lines[0].index(head):][:len(value)], value)
        more = self.ps("-v").stdout
        self.assertIn("born with: null, stdout, stderr, link", more)
        self.assertIn("seccomp", more)

    def test_many_sessions_are_many_rows(self):
        d = Daemon(self)
        a, b = d.client(), d.client()
        for peer, runtime in ((a, "a"), (b, "b"), (a, "b")):
            waiting(peer, runtime)
        workers = [r for r in self.rows() if r["role"] == "worker"]
        self.assertEqual([r["id"] for r in workers], ["a", "b", "b"])
        self.assertEqual(len({r["session"] for r in workers}), 3)

    def test_many_ask_at_once_and_one_asks_once(self):
        d = Daemon(self)
        peers = [d.client() for _ in range(20)]
        asked = [p.request("process.list") for p in peers for _ in range(2)]
        self.assertEqual(len(asked), 40)
        for peer in peers:
            answers, rows = [], 0
            while len(answers) < 2:
                m = peer.receive()
                rows += m[0] == 2
                if m[0] == 1:
                    answers.append(m)
            codes = sorted(str(m[2] and m[2]["code"]) for m in answers)
            self.assertIn(codes, (["None", "None"], ["None", "resource_exhausted"]))
            self.assertEqual(rows, 2 * codes.count("None"))

    def test_who_asks_and_leaves_harms_nobody(self):
        d = Daemon(self)
        broker = d.service("broker")
        for _ in range(50):
            peer = d.client()
            peer.request("process.list")
            peer.close()
        self.assertEqual(len(self.rows()), 2)
        self.assertEqual(d.service("broker"), broker)

    def refused(self, text, *words, env=None):
        result = self.caisson(*words, env=env or real.environment())
        self.assertEqual((result.returncode, result.stdout), (125, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn(text, result.stderr)

    def test_without_a_daemon_it_says_where_it_looked(self):
        for command in (("ps",), ("run", "-m", "{}")):
            self.refused(f"no daemon at {self.socket}: start one with caissond -c FILE",
                         *command, "--socket", self.socket)
        self.refused("File name too long", "ps", "--socket", "/" + "x" * 200)
        self.refused("no daemon at /nowhere/s", "ps",
                     env=real.environment(CAISSON_SOCKET="/nowhere/s"))
        if not IS_ROOT:
            env = real.environment(XDG_RUNTIME_DIR=str(self.dir))
            self.refused(f"no daemon at {self.dir}/caisson/default.sock", "ps", env=env)
            del env["XDG_RUNTIME_DIR"]
            self.refused("--socket PATH is needed where XDG_RUNTIME_DIR is not set", "ps",
                         env=env)

    @unittest.skipIf(IS_ROOT, "root may connect to anything")
    def test_a_socket_that_may_not_be_reached(self):
        d = Daemon(self)
        os.chmod(self.socket, 0)
        self.refused("Permission denied: the daemon is another user's", "ps", "--socket",
                     self.socket)
        self.assertEqual(d.end(), 0)


class Turns(Case):
    def run_words(self, *words):
        return ["run", "--socket", self.socket, "--runtime", "a", *words]

    def start(self, *words):
        p = subprocess.Popen([CAISSON, *self.run_words("-o", "jsonl", *words)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, env=real.environment())
        self.addCleanup(self.finish, p)
        return p

    def finish(self, p):
        if p.poll() is None:
            p.kill()
        p.communicate()

    def begun(self, p):
        """The operation's id, once its agent waits."""
        operation = json.loads(p.stdout.readline())["accepted"]["operationID"]
        while json.loads(p.stdout.readline())["type"] != "output":
            pass
        return operation

    def last(self, p):
        """(exit status, terminal event, stderr)"""
        out, err = p.communicate(timeout=WAIT)
        return p.returncode, json.loads(out.splitlines()[-1]), err

    def test_a_turn_in_the_daemon(self):
        Daemon(self)
        result = self.caisson(*self.run_words("-m", '{"say": [1, "two"]}'))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(json.loads(result.stdout), [1, "two"])
        self.assertEqual([r["detail"] for r in self.records()
                          if r["type"] == "operation.accepted"], ["turn"])
        self.assertFalse((self.state / "runs").exists())

    def test_several_at_once(self):
        Daemon(self)
        turns = [self.start("-m", '{"wait": true}') for _ in range(3)]
        self.assertEqual(len({self.begun(p) for p in turns}), 3)
        for p in turns:
            p.send_signal(signal.SIGINT)
        for p in turns:
            status, event, _ = self.last(p)
            self.assertEqual((status, event["failed"]["code"]), (4, "canceled"))

    def test_an_interrupt_cancels(self):  # D-6
        Daemon(self)
        p = self.start("-m", '{"wait": true}')
        self.begun(p)
        p.send_signal(signal.SIGINT)
        status, event, _ = self.last(p)
        self.assertEqual((status, event["failed"]["cause"]["kind"]), (4, "canceled"))

    def test_a_client_that_dies_only_detaches(self):  # D-4
        d = Daemon(self)
        p = self.start("-m", '{"wait": true}')
        operation = self.begun(p)
        p.kill()
        p.wait()
        peer = d.client()
        peer.call("operation.attach", operation=operation)
        peer.call("operation.stop", operation=operation)
        self.assertEqual(ending(peer)["body"]["cause"]["kind"], "canceled")

    def test_a_brokers_death_is_survived_by_asking_the_next_one(self):  # D-11
        d = Daemon(self)
        p = self.start("-m", '{"wait": true}')
        operation = self.begun(p)
        os.kill(d.service("broker"), signal.SIGKILL)
        out, err = p.communicate(timeout=WAIT)
        events = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([e["type"] for e in events], ["gap", "failed"], err)
        self.assertEqual((p.returncode, events[-1]["failed"]["cause"]["kind"]),
                         (125, "host_lost"))
        self.assertEqual([r["operation"] for r in self.records()
                          if r["type"] == "operation.ended"], [operation])

    def test_a_daemon_that_dies_leaves_the_outcome_unknown(self):
        d = Daemon(self)
        p = self.start("-m", '{"wait": true}')
        self.begun(p)
        broker = d.service("broker")
        os.kill(broker, signal.SIGSTOP)  # so that it settles nothing
        d.process.kill()
        d.process.wait()
        os.kill(broker, signal.SIGKILL)
        _, err = p.communicate(timeout=WAIT)
        self.assertEqual(p.returncode, 125)
        self.assertIn("outcome unknown", err)

    def test_the_end_of_the_daemon_ends_the_turn(self):
        d = Daemon(self)
        p = self.start("-m", '{"wait": true}')
        self.begun(p)
        self.assertEqual(d.end(), 0)
        status, event, _ = self.last(p)
        self.assertEqual((status, event["failed"]["cause"]["kind"]), (4, "shutdown"))

    def test_what_is_the_daemons_to_say_is_refused(self):
        for words, text in ((["--app", "."], "--app: is the daemon's to say"),
                            (["-c", "x"], "--config: is the daemon's to say"),
                            (["--state", "x"], "--state: is the daemon's to say"),
                            (["--allow", "read:."], "--allow: is the daemon's to say"),
                            (["--", "x"], "with --socket the COMMAND is the daemon's")):
            result = self.caisson("run", "--socket", self.socket, *words)
            self.assertEqual(result.returncode, 125)
            self.assertIn(text, result.stderr)

    def test_the_daemons_limits_hold_and_can_only_shrink(self):
        Daemon(self)
        result = self.caisson(*self.run_words("--timeout", "1s", "-m", '{"wait": true}'))
        self.assertEqual(result.returncode, 4, result.stderr)
        result = self.caisson("run", "--socket", self.socket, "--runtime", "c", "-m", "{}")
        self.assertEqual(result.returncode, 125)
        self.assertIn("refused: not_found", result.stderr)


if __name__ == "__main__":
    unittest.main()
