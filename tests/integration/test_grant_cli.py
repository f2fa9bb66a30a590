"""`caisson grant`: authority by the operator, of a daemon and at rest (D-7, D-17, D-18)."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

import real
import wire
from daemon_lab import CAISSON, Case, Daemon, ending, submit
from real import IS_ROOT, WAIT, wait_for
from wire import Closed, Peer, said

TIMEOUT = 300  # of this file, for run.py
AGENT = """import caisson


def run(turn):
    told = []
    for path in turn.message["paths"]:
        try:
            turn.invoke("files.read", {"path": path})
            told.append("")
        except caisson.Refused as e:
            told.append(e.code)
    return told


caisson.serve(run)
"""
STOPS = wire.BUILD / "stops"
READ = "read:workspace:docs/**"
MORE = """providers:
  - {{ id: files, builtin: files, root: {root} }}
grants:
  - {{ id: g-list, subject: agent:a, issuer: human:operator, namespace: default, capabilities: [
       {{ resource: {{ namespace: workspace, path: docs, scope: descendants }}, actions: [list] }}] }}
"""


class Grants(Case):
    def setUp(self):
        super().setUp()
        self.docs = self.dir / "root" / "docs"
        self.docs.mkdir(parents=True)
        (self.docs / "a.txt").write_text("text of a")
        self.config = self.configure(more=MORE.format(root=self.dir / "root"))
        (self.dir / "app" / "agent.py").write_text(AGENT)
        if IS_ROOT:  # what a provider may read, it may as the owner of its root
            for path in (self.docs.parent, *self.docs.parent.rglob("*")):
                os.chown(path, 4242, 4242)

    def at_rest(self, *words):
        return ["grant", "-c", self.config, "--state", self.state, "--socket", self.socket, *words]

    def grant(self, *words, status=0, served=False):
        """(stdout, stderr) of one command: of the daemon, or wherever the namespace is."""
        line = ["grant", "--socket", self.socket, *words] if served else self.at_rest(*words)
        result = self.caisson(*line)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout, said(result.stderr)

    def objects(self, *words, status=0, served=False):
        out, err = self.grant("-o", "jsonl", *words, status=status, served=served)
        self.assertEqual(err, "")
        return [json.loads(line) for line in out.splitlines()]

    def refused(self, text, *words, served=False):
        out, err = self.grant(*words, status=125, served=served)
        self.assertEqual((out, err.count("\n")), ("", 1), err)
        self.assertIn(text, err)

    def states(self, **more):
        return {g["id"]: g["state"] for g in self.objects("list", **more)}

    def reads(self, daemon, *paths):
        """Codes of a turn that reads these, "" for what it may."""
        with daemon.client() as peer:
            submit(peer, {"paths": paths})
            return ending(peer)["body"]["turn"]["output"]

    def lock(self):
        path = self.state / "namespaces" / "default"
        path.mkdir(parents=True, exist_ok=True)
        for p in (path, path.parent, self.state):
            p.chmod(0o700)
        return path / "lock"

    def is_free(self):
        if not self.lock().exists():
            return True
        with open(self.lock(), "rb") as f:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def start(self, *words, stdout=subprocess.PIPE):
        p = subprocess.Popen([CAISSON, *self.at_rest(*words)], stdin=subprocess.DEVNULL,
                             stdout=stdout, stderr=subprocess.PIPE, text=True,
                             env=real.environment())
        self.addCleanup(self.finish, p)
        return p

    def full_pipe(self):
        """Its ends.  A client that prints there cannot end before somebody reads."""
        ends = os.pipe()
        for fd in ends:
            self.addCleanup(os.close, fd)
        os.set_blocking(ends[1], False)
        with contextlib.suppress(BlockingIOError):
            while os.write(ends[1], bytes(4096)):
                pass
        os.set_blocking(ends[1], True)
        return ends

    def caissond_of(self, p):
        """The pid of the daemon that a client at rest has started."""
        return wait_for(lambda: [pid for pid in real.below(p.pid) if "--private" in
                                 (real.proc_text(pid, "cmdline") or "")], "its caissond")[0]

    def told(self, p):
        """(exit status, stdout, stderr) of what was started, once it has ended."""
        out, err = p.communicate(timeout=WAIT)
        return p.returncode, out, said(err)

    def finish(self, p):
        if p.poll() is None:
            p.kill()
        p.communicate()


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


class Words(Grants):
    """Every mistake is one line, before anything is started."""

    def test_mistakes_name_the_word_and_its_value(self):
        give = ["issue", "--subject", "agent:a"]
        for words, text in (
                ([], "grant: needs list, issue, derive, revoke or why"),
                (["take"], "grant: \"take\" is no verb"),
                (["revoke"], "grant revoke: a word is missing, expected revoke ID"),
                (["list", "--subject", "me"], "--subject: \"me\" is no address"),
                ([*give, "--capability", "read"], "--capability: \"read\" is not ACTION"),
                ([*give, "--allow", "eat:docs"], "--allow: \"eat:docs\" does not begin with"),
                ([*give, "--expires", "soon"], "--expires: \"soon\" is neither a time"),
                ([*give, "--max-uses", "0"], "--max-uses: must be more than 0"),
                (["issue", "--from", str(self.dir / "x")], f"--from: {self.dir / 'x'}: No such"),
                (["why", "agent:a", "t", "{"], "ARGUMENTS: line 1"),
                (["list", "--root", "."], "--root: not an option of grant")):
            with self.subTest(words=words):
                self.refused(text, *words)
        self.assertFalse(self.state.exists())

    def test_without_a_daemon_it_says_where_it_looked(self):
        self.refused(f"grant list: no daemon at {self.socket}: start one with caissond -c FILE",
                     "list", served=True)

    def test_text_of_others_is_escaped(self):
        self.refused("grant: \"\\x1b[31m\" is no verb", "\x1b[31m")


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


class OfADaemon(Grants):
    def setUp(self):
        super().setUp()
        self.daemon = Daemon(self)

    def test_issue_derive_why_revoke(self):  # TU-38, TU-46
        out, err = self.grant("issue", "--id", "root", "--subject", "human:operator", "--capability",
                              "read,list:workspace:docs/**", "--delegation-depth", "1",
                              "--expires", "1h", served=True)
        self.assertEqual(err, "")
        self.assertRegex(out, r"\Aissued root at 20\S+Z; .*\nID +SUBJECT +ISSUER +STATE ")
        self.assertIn("read,list:workspace:docs/**", out)
        (child,) = self.objects("derive", "root", "--subject", "agent:a", "--allow", "read:docs",
                                served=True)
        self.assertEqual((child["grant"]["parent"], child["grant"]["issuer"]),
                         ("root", "human:operator"))
        why = ["why", "agent:a", "files.read", '{"path": "docs/a.txt"}']
        out, _ = self.grant(*why, served=True)
        self.assertEqual(out, "yes: it needs read:workspace:docs/a.txt, which the grant "
                              f"{child['id']} allows\n")
        self.assertEqual(self.reads(self.daemon, "docs/a.txt"), [""])
        out, _ = self.grant("revoke", "root", served=True)
        self.assertRegex(out, r"\Arevoked root at 20\S+Z\n\Z")
        (no,) = self.objects(*why, served=True, status=3)
        self.assertEqual((no["allowed"], no["closest"]), (False, child["id"]))
        out, _ = self.grant(*why, served=True, status=3)
        self.assertIn(f"  closest is the grant {child['id']}\n  what is missing: ", out)
        self.assertNotEqual(self.reads(self.daemon, "docs/a.txt"), [""])

    def test_why_is_no_where_the_call_could_not_happen(self):
        why = ["why", "agent:a", "files.list"]
        self.assertEqual(self.grant(*why, '{"path": "docs"}', served=True)[0],
                         "yes: it needs list:workspace:docs, which the grant g-list allows\n")
        for words, text in ((["why", "agent:a", "files.list", '{"path": "x"}'],
                             "no, no_matching_grant: it needs list:workspace:x\n"),
                            (["why", "agent:a", "nothing", "{}"], "no, tool_unavailable\n"),
                            ([*why, '{"paths": 1}'], "no, invalid_tool_arguments"),
                            (["why", "human:x", "files.list", '{"path": "docs"}'], "no, ")):
            with self.subTest(words=words):
                out, _ = self.grant(*words, served=True, status=3)
                self.assertTrue(out.startswith(text), out)

    def test_purposes_and_windows_are_said(self):
        self.objects("issue", "--id", "g", "--subject", "agent:a", "--capability", READ,
                     "--purpose", "night run", "--not-before", "2020-01-01T00:00:00Z", served=True)
        why = ["why", "agent:a", "files.read", '{"path": "docs/a.txt"}']
        self.grant(*why, served=True, status=3)
        self.grant(*why, "--purpose", "night run", served=True)
        out, _ = self.grant("list", "-v", "--subject", "agent:a", served=True)
        self.assertIn("begins 2020-01-01T00:00:00Z; for: night run\n", out)

    def test_a_grant_is_read_from_a_file_or_standard_input(self):
        grant = {"id": "g-file", "subject": "agent:a", "capabilities": [
            {"resource": {"namespace": "workspace", "path": "docs", "scope": "descendants"},
             "actions": ["read"]}], "constraints": {"maxUses": 1}}
        path = self.dir / "grant.json"
        path.write_text(json.dumps(grant))
        self.grant("issue", "--from", path, served=True)
        result = subprocess.run(
            [CAISSON, "grant", "issue", "--socket", self.socket, "--from", "-"],
            input=json.dumps({**grant, "id": "g-input"}), capture_output=True, text=True,
            timeout=WAIT, env=real.environment(), check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertLessEqual({"g-file", "g-input"}, set(self.states(served=True)))
        path.write_text(json.dumps({**grant, "subjct": "agent:a"}))
        self.refused(f"--from: {path}: has a member \"subjct\"", "issue", "--from", path,
                     served=True)

    def test_what_the_broker_refuses_is_one_line_with_its_code(self):
        self.objects("issue", "--id", "g", "--subject", "agent:a", "--capability", READ,
                     served=True)
        give = ["--subject", "agent:b", "--capability", READ]
        for words, text in ((["revoke", "nothing"], "grant revoke: refused: not_found: "),
                            (["derive", "nothing", *give], "grant derive: refused: not_found: "),
                            (["derive", "g", *give], "refused: parent_not_delegable: "),
                            (["issue", "--id", "g", *give], "refused: already_exists: id: "),
                            (["issue", *give, "--expires", "2020-01-01T00:00:00Z"],
                             "refused: invalid_argument: expiresAt: ")):
            with self.subTest(words=words):
                self.refused(text, *words, served=True)

    def test_a_list_of_many_pages(self):
        with self.daemon.client() as peer:
            for i in range(0, 1100, 100):
                asked = [peer.request("grant.issue", id=f"g-{j}", subject="agent:b", capabilities=[
                    {"namespace": "n", "path": [str(j)], "scope": "exact", "actions": ["a"]}])
                    for j in range(i, i + 100)]
                for msgid in asked:
                    self.assertIsNone(peer.expect_reply(msgid)[0])
        found = self.objects("list", "--subject", "agent:b", served=True)
        self.assertEqual([g["id"] for g in found if g["id"].startswith("g-")],
                         [f"g-{i}" for i in range(1100)])
        lines = self.grant("list", served=True)[0].splitlines()
        self.assertEqual(len(lines), 1 + 1103)
        column = lines[0].index("SUBJECT")
        self.assertEqual({line[column - 1] + line[column:].split(":")[0] for line in lines[1:]},
                         {" agent"})

    def test_none_is_said_on_standard_error(self):
        out, err = self.grant("list", "--subject", "agent:nobody", served=True)
        self.assertEqual((out, err), ("", "caisson: grant list: there are none\n"))
        self.assertEqual(self.grant("list", "-q", "--subject", "agent:nobody", served=True),
                         ("", ""))

    @unittest.skipUnless(IS_ROOT, "needs root, to be somebody else")
    def test_a_stranger_is_refused_everything(self):  # D-18
        for words in (["list"], ["revoke", "g-list"],
                      ["issue", "--subject", "agent:a", "--capability", READ],
                      ["derive", "g-list", "--subject", "agent:a", "--capability", READ],
                      ["why", "agent:a", "files.list", '{"path": "docs"}']):
            result = subprocess.run(
                ["setpriv", "--reuid", "4242", "--regid", "4242", "--clear-groups", CAISSON,
                 "grant", *words, "--socket", self.socket], capture_output=True, text=True,
                stdin=subprocess.DEVNULL, timeout=WAIT, check=False, env=real.environment())
            if result.returncode in (126, 127) or ": Permission denied" in result.stderr:
                self.skipTest("the build is not to be read by another user")
            self.assertEqual((result.returncode, result.stdout), (125, ""))
            self.assertIn(f"grant {words[0]}: refused: permission_denied: ", result.stderr)
        self.assertEqual(self.states(served=True)["g-list"], "active")

    def test_the_record_tells_who_gave_what_and_can_be_asked(self):
        self.objects("issue", "--id", "g-1", "--subject", "agent:b", "--capability", READ,
                     "--max-uses", "3", "--expires", "2100-01-01T00:00:00Z", served=True)
        self.objects("revoke", "g-1", served=True)
        out = self.query("--grant", "g-1")
        lines = out.splitlines()
        self.assertEqual(len(lines), 3, out)
        self.assertRegex(lines[1], "grant.issued +agent:b may read:workspace:docs/\\*\\*  grant "
                         "g-1  issued by human:operator  until 2100-01-01 00:00:00  "
                         f"uses at most 3  by uid {os.geteuid()}")
        self.assertRegex(lines[2], f"grant.revoked .*  grant g-1  by uid {os.geteuid()}")
        self.assertEqual([r["type"] for r in self.found("--principal", "agent:b")],
                         ["grant.issued", "grant.revoked"])
        at = self.found("--grant", "g-1")[0]["at"]
        text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at // 1000))
        later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at // 1000 + 3600))
        self.assertEqual(len(self.found("--grant", "g-1", "--since", text)), 2)
        self.assertEqual(self.found("--grant", "g-1", "--until", text), [])
        self.assertEqual(self.found("--grant", "g-1", "--since", later), [])

    def query(self, *words):
        result = self.caisson("audit", "--state", self.state, "query", *words)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def found(self, *words):
        return [json.loads(line) for line in self.query("-o", "jsonl", *words).splitlines()]


SLOW = """import os
import pathlib
import select

import wire


def wait(params):
    pathlib.Path("/effects/at").touch()
    while not pathlib.Path("/effects/go").exists():
        select.select([], [], [], 0.01)
    return {}


wire.serve_provider({"slow.wait": wait})
"""
SLOW_CONFIG = """  - {{ id: slow, command: [python3, /app/a/b/slow.py], app: {app}, profile: interpreter,
      mounts: [{{ source: {effects}, target: /effects, writable: true }}] }}
tools:
  - {{ name: slow.wait, provider: slow, namespace: slow, effect: write, input: {{ type: object }},
       requires: {{ action: wait, resource: {{ namespace: slow, path: x }} }} }}
grants:
"""


class Dispatched(Grants):
    def test_a_call_that_had_begun_is_named_and_goes_on(self):  # D-7
        app, effects = self.dir / "slow" / "a" / "b", self.dir / "effects"
        app.mkdir(parents=True)
        effects.mkdir()
        effects.chmod(0o777)
        (app / "slow.py").write_text(SLOW)
        for source in (pathlib.Path(wire.__file__), wire.SDK / "caisson.py"):
            shutil.copy(source, app)
        agent = self.dir / "app" / "agent.py"
        agent.write_text(agent.read_text().replace('"files.read", {"path": path}', '"slow.wait", {}'))
        self.config.write_text(self.config.read_text().replace("grants:\n", SLOW_CONFIG.format(
            app=self.dir / "slow", effects=effects)))
        d = Daemon(self)
        self.objects("issue", "--id", "g-slow", "--subject", "agent:a", "--capability",
                     "wait:slow:x", served=True)
        with d.client() as peer:
            operation = submit(peer, {"paths": ["", ""]})
            wait_for((effects / "at").exists, "the call")
            (revoked,) = self.objects("revoke", "g-slow", served=True)
            ((call,), already) = (revoked["dispatched"], revoked["already"])
            self.assertEqual((already, call["operation"], call["tool"]),
                             (False, operation, "slow.wait"))
            out, _ = self.grant("revoke", "g-slow", served=True)
            self.assertRegex(out, r"\Awas revoked already: g-slow, at 20\S+Z\ncalls that had begun, "
                             rf"and go on:\n  slow.wait  operation {operation}  call "
                             rf"{call['call']}\n\Z")
            (effects / "go").touch()
            self.assertEqual(ending(peer)["body"]["turn"]["output"], ["", "no_matching_grant"])
        self.assertEqual([r["outcome"] for r in self.records() if r["type"] == "tool.invoked"
                          and r["call"] == call["call"]], ["succeeded"])


class Hostile(Grants):
    """A broker that lies: what it says is shown, never obeyed, and an end is not a success."""

    def served_by(self, serve):
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(self.socket))
        listener.listen()

        def run():
            conn, _ = listener.accept()
            with Peer(conn) as peer:
                peer.answer_hello()
                serve(peer)
                with contextlib.suppress(Closed, OSError):
                    peer.receive()
        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)

    def test_escape_sequences_are_shown(self):
        def serve(peer):
            msgid, _ = peer.expect("grant.list")
            peer.reply(msgid, next=0, grants=[
                {"id": "\x1b[2J", "subject": "agent:\u202ea", "state": "a\nb", "capabilities": [
                    {"actions": ["\x07"], "namespace": "n", "scope": "exact", "path": ["\t"]}]},
                {"capabilities": [1, {}], "id": 7}])
        self.served_by(serve)
        out, _ = self.grant("list", "-v", served=True)
        self.assertFalse(set(out) & set("\x1b\u202e\x07\t"))
        self.assertEqual(out.count("\n"), 5)
        self.assertIn("\\x1b[2J", out)

    def test_an_end_before_the_answer_says_what_may_have_happened(self):
        for words, text in ((["issue", "--subject", "agent:a", "--capability", READ],
                             "its broker died, and may have issued it: see caisson grant list"),
                            (["revoke", "g"], "its broker died; ask again")):
            self.served_by(lambda peer: (peer.receive(), peer.close()))
            self.refused(text, *words, served=True)
            self.socket.unlink()

    def test_nonsense_is_a_fault(self):
        self.served_by(lambda peer: peer.send_raw(b"\0\0\0\1\xc1"))
        self.refused("grant list: the broker broke the protocol: ", "list", served=True)


if __name__ == "__main__":
    unittest.main()
