"""caissond: its configuration, a private run with its real broker and ledger, and their deaths.

The test is the client: it starts `caissond --private` as `caisson` does and holds the
two descriptors of common/child.h.
"""

import array
import contextlib
import os
import pathlib
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import wire
from wire import BUILD, Closed, Peer, TIMEOUT, program, receive_packet, said

CONTROL = struct.Struct("=IIQIiIIIIIIQQQIiIIIIIHHQQQQQ")
BROKER, FAILED = 64, 65
CAISSOND = program("caissond")

# 3 and 4 are taken for good, so that nothing that Popen needs in the child is there.
while os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) <= 4:
    pass


def processes():
    """{pid: (parent, name)} of everything that is not a zombie."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            stat = pathlib.Path("/proc", pid, "stat").read_text(errors="replace")
            name, rest = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2:]
            if rest[0] != "Z":
                found[int(pid)] = int(rest.split()[1]), name
    return found


def below(root):
    """{pid: name} of what descends from `root`."""
    everything, found, more = processes(), {}, {root}
    while more:
        more = {p for p, (parent, _) in everything.items() if parent in more and p not in found}
        found.update({p: everything[p][1] for p in more})
    return found


def wait_for(condition, what, timeout=TIMEOUT):
    """Polls what has no event: /proc.  Returns what `condition` does, once it is true."""
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"never came: {what}")
        select.select([], [], [], 0.01)


class Private:
    """A private caissond; the test is its client."""

    def __init__(self, command, *words, program=CAISSOND, env=None):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life, self.life = os.pipe()
        self.errors = tempfile.TemporaryFile()

        def place():
            os.dup2(theirs.fileno(), 3)
            os.dup2(life, 4)

        self.process = subprocess.Popen(
            [program, "--private", command, *words], preexec_fn=place, pass_fds=(3, 4),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors,
            start_new_session=True, env=env)
        theirs.close()
        os.close(life)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.end()
        if self.process.poll() is None:
            try:
                self.process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.control.close()
        self.errors.close()

    def stderr(self):
        return said(wire.written(self.errors))

    def receive(self, timeout=TIMEOUT):
        """(verb, layer, error, link or None); None at the end."""
        self.control.settimeout(timeout)
        data, ancillary, _, _ = receive_packet(
            self.control.recvmsg, CONTROL.size + 1, socket.CMSG_SPACE(16))
        if not data:
            return None
        values = CONTROL.unpack(data)
        fds = array.array("i")
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(payload)
        return values[0], values[6], values[4], Peer(fds[0]) if fds else None

    def link(self):
        """The next link to the broker, with hello said."""
        got = self.receive()
        assert got and got[0] == BROKER, (got, self.stderr())
        got[3].hello()
        return got[3]

    def end(self):
        if self.life is not None:
            os.close(self.life)
        self.life = None

    def named(self, name):
        return [pid for pid, n in below(self.process.pid).items() if n == name]

    def one(self, name, other_than=()):
        """The one process of that name, once it is there."""
        return wait_for(lambda: [p for p in self.named(name) if p not in other_than], name)[0]


def submit(link):
    """Starts the command; returns its operation once its process runs."""
    return link.call("operation.submit", kind="command")["operation"]


def ending(link):
    """The terminal event of the only operation."""
    while True:
        _, event = link.expect("operation.event")
        if event["type"] in ("completed", "failed"):
            return event


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="caisson-supervisor-")
        self.addCleanup(self.remove)
        self.path = pathlib.Path(self.folder.name)
        self.state = self.path / "state"

    def remove(self):
        # As root the segments of a supervisor that was killed are append-only for good.
        for segment in self.segments() if os.geteuid() == 0 else ():
            subprocess.run(["chattr", "-a", segment], check=False, capture_output=True)
        self.folder.cleanup()

    def caissond(self, *words):
        return subprocess.run([CAISSOND, *words], capture_output=True, text=True,
                              timeout=TIMEOUT, check=False)

    def write(self, name, text):
        (self.path / name).write_text(text, encoding="utf-8")
        return str(self.path / name)

    def exec(self, *command, **more):
        return Private("exec", "--state", str(self.state), "--", *command, **more)

    def gone(self, pids):
        wait_for(lambda: not set(pids) & set(processes()), f"the end of {pids}")

    def kill(self, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def segments(self):
        return sorted(self.state.glob("runs/*/journal/journal.*"))


@unittest.skipUnless(CAISSOND, "caissond is not built")
class Configuration(Case):
    def test_a_mistake_is_named_with_its_place(self):
        path = self.write("bad.yaml", "version: 1\nruntimes:\n  - id: a\n    comand: [x]\n")
        for words in (("--check", path), ("--show", "-c", path)):
            result = self.caissond(*words)
            self.assertEqual((result.returncode, result.stdout), (125, ""))
            self.assertIn(f"{path}:4:5: runtimes[0].comand: unknown key", result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)

    def test_a_directory_that_is_not_there_is_a_mistake(self):
        path = self.write("bad.yaml", "version: 1\n"
                          "providers: [{ id: f, builtin: files, root: no }]\n")
        result = self.caissond("--check", path)
        self.assertEqual(result.returncode, 125)
        self.assertIn("providers[0].root:", result.stderr)

    def test_check_and_show_agree(self):
        path = self.write("good.yaml", "version: 1\n"
                          "providers: [{ id: f, builtin: files, root: . }]\n")
        self.assertEqual(self.caissond("--check", path).returncode, 0)
        shown = self.caissond("--show", "-c", path)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn(f"root: {os.path.realpath(self.path)}\n", shown.stdout)
        again = self.caissond("--show", "-c", self.write("again.yaml", shown.stdout))
        self.assertEqual(again.stdout, shown.stdout)

    def test_every_example_is_valid(self):
        examples = sorted((pathlib.Path(__file__).parents[2] / "examples").glob("**/*.yaml"))
        self.assertTrue(examples)
        for example in examples:
            with self.subTest(example=example.name):
                result = self.caissond("--check", str(example))
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_usage_and_version(self):
        self.assertEqual(self.caissond("--version").returncode, 0)
        self.assertIn("--check", self.caissond("--help").stdout)
        self.assertEqual(self.caissond().returncode, 125)
        self.assertEqual(self.caissond("--no-such").returncode, 125)


@unittest.skipUnless(CAISSOND, "caissond is not built")
class Refusals(Case):
    """What is refused before anything is started: 125, one line, nothing left."""

    def refused(self, text, *words, env=None):
        with Private(*words, env=env) as run:
            self.assertEqual(run.process.wait(TIMEOUT), 125)
            self.assertIn(text, run.stderr())
            self.assertEqual(run.stderr().count("\n"), 1, run.stderr())

    def test_without_a_client(self):
        result = self.caissond("--private", "exec", "--", "/bin/true")
        self.assertEqual(result.returncode, 125)
        self.assertIn("started by caisson", result.stderr)

    def test_a_state_directory_that_cannot_be_used_is_named(self):
        # D-17
        self.refused("--state", "exec", "--state", self.write("file", ""), "--", "/bin/true")
        os.mkdir(self.path / "open", 0o700)
        os.chmod(self.path / "open", 0o777)
        self.refused("others can write there", "exec", "--state", str(self.path / "open"), "--",
                     "/bin/true")

    def test_options_that_contradict_the_file(self):
        path = self.write("c.yaml", "version: 1\nruntimes:\n  - { id: a, command: [x] }\n"
                                    "  - { id: b, command: [x] }\n")
        state = ("--state", str(self.state))
        self.refused("--allow: the grants are those of", "run", "-c", path, "--allow", "read:x")
        self.refused("--root: the providers are those", "run", "-c", path, "--root", "/")
        self.refused("--runtime: is needed", "run", *state, "-c", path)
        self.refused('has no runtime "z"', "run", *state, "-c", path, "--runtime", "z")
        self.refused("--timeout: is over the turn_timeout", "run", *state, "-c", path,
                     "--runtime", "a", "--timeout", "5m")
        self.refused("--timeout: is over 10m", "run", *state, "--timeout", "11m", "--", "x")

    def test_sources_that_are_not_there(self):
        for words in (("--app", "/nonexistent"), ("--ro", "/nonexistent"),
                      ("--rw", "/nonexistent"), ("--env", "CAISSON_NO_SUCH_VARIABLE"), ("--profile", "provider")):
            self.refused(words[0] + ":", "exec", "--state", str(self.state), *words, "--", "x")
        self.assertFalse(self.segments())

    def test_a_build_without_a_launcher_starts_nothing(self):
        # Never weaker: without the program that confines, nothing runs.
        for name in ("caisson-worker", "caisson-broker", "caisson-ledger"):
            with self.subTest(name=name):
                copy = self.path / f"without-{name}"
                for folder in ("bin", "libexec"):
                    shutil.copytree(BUILD / folder, copy / folder)
                (copy / "libexec" / name).unlink()
                with self.exec("/bin/true", program=str(copy / "bin" / "caissond")) as run:
                    self.assertEqual(run.receive()[0], FAILED)
                    self.assertEqual(run.process.wait(TIMEOUT), 125)
                    self.assertTrue(run.stderr())


@unittest.skipUnless(CAISSOND and program("caisson-broker") and program("caisson-ledger"),
                     "broker or ledger is not built")
class Life(Case):
    def test_a_client_that_goes_away_ends_everything(self):
        with self.exec("/bin/sleep", "1000") as run:
            link = run.link()
            submit(link)
            run.one("sleep")
            pids = below(run.process.pid)
            run.end()
            # shutdown is an ending like every other: exactly one, with its cause (D-2)
            self.assertEqual(ending(link)["body"]["cause"]["kind"], "shutdown")
            self.assertEqual(run.process.wait(TIMEOUT), 0)
            self.gone(pids)
            self.assertEqual(run.stderr(), "")

    def test_sigterm_ends_everything_and_the_terminals_signals_do_not(self):
        with self.exec("/bin/sleep", "1000") as run:
            link = run.link()
            for signo in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
                run.process.send_signal(signo)
            submit(link)
            run.one("sleep")
            pids = below(run.process.pid)
            run.process.terminate()
            self.assertEqual(run.process.wait(TIMEOUT), 0)
            self.gone(pids)

    def test_a_client_gone_before_anything_was_asked(self):
        with self.exec("/bin/true") as run:
            run.end()
            self.assertEqual(run.process.wait(TIMEOUT), 0)
            self.assertIsNone(next((p for p in below(run.process.pid)), None))

    def orphaned(self, command_runs):
        """{pid: name} of what there was when its supervisor was killed."""
        with self.exec("/bin/sleep", "1000") as run:
            link = run.link()
            if command_runs:
                submit(link)
                run.one("sleep")
            pids = below(run.process.pid)
            self.addCleanup(self.kill, pids)
            run.process.kill()
            run.process.wait()
        return pids

    def test_a_dead_supervisor_leaves_nothing_running(self):
        pids = self.orphaned(command_runs=False)
        self.assertEqual(set(pids.values()), {"caisson-broker", "caisson-ledger"})
        self.gone(pids)

    def test_what_a_dead_supervisor_made_ends_with_it(self):
        # Workers by parent-death signal, the ledger by end-of-file.
        pids = self.orphaned(command_runs=True)
        self.assertGreaterEqual(len(pids), 4)
        self.gone([p for p, name in pids.items() if name != "caisson-broker"])

    def test_a_broker_settles_what_is_open_without_its_supervisor(self):
        self.gone(self.orphaned(command_runs=True))

    def test_a_dead_broker_is_replaced_and_its_children_end(self):
        with self.exec("/bin/sleep", "1000") as run:
            link = run.link()
            submit(link)
            worker, broker = run.one("sleep"), run.one("caisson-broker")
            ledger = run.one("caisson-ledger")
            os.kill(broker, signal.SIGKILL)
            again = run.link()
            self.assertTrue(link.closed())
            self.gone([worker, broker])
            self.assertNotEqual(run.one("caisson-broker"), broker)
            self.assertEqual(run.named("caisson-ledger"), [ledger])
            # "a local client gets a new link and the recorded ending"
            again.call("operation.attach")
            self.assertEqual(ending(again)["type"], "failed")
            # Nobody appends to a segment that it did not begin.
            self.assertEqual(len([s for s in self.segments() if s.stat().st_size]), 2)
            run.end()
            self.assertEqual(run.process.wait(TIMEOUT), 0)

    def test_a_broker_that_answers_nothing_is_killed_like_one_that_died(self):
        with self.exec("/bin/true") as run:
            run.link()
            broker = run.one("caisson-broker")
            os.kill(broker, signal.SIGSTOP)
            run.link()
            self.gone([broker])
            self.assertIn("it did not answer", run.stderr())

    def test_a_stopped_supervisor_does_not_blame_its_broker(self):
        with self.exec("/bin/true") as run:
            link = run.link()
            broker = run.one("caisson-broker")
            os.kill(run.process.pid, signal.SIGSTOP)
            select.select([], [], [], 6)  # longer than a broker may be silent
            os.kill(run.process.pid, signal.SIGCONT)
            submit(link)
            self.assertEqual(ending(link)["type"], "completed")
            self.assertEqual(run.one("caisson-broker"), broker)

    def test_a_dead_ledger_is_replaced_and_no_effect_stops(self):
        with self.exec("/bin/cat") as run:
            link = run.link()
            broker, ledger = run.one("caisson-broker"), run.one("caisson-ledger")
            os.kill(ledger, signal.SIGKILL)
            submit(link)
            self.assertEqual(ending(link)["type"], "completed")
            run.one("caisson-ledger", other_than=[ledger])
            self.assertEqual(run.named("caisson-broker"), [broker])
            run.end()
            self.assertEqual(run.process.wait(TIMEOUT), 0)

    def test_a_broker_that_keeps_dying_is_given_up(self):
        with self.exec("/bin/true") as run:
            seen = []
            for _ in range(6):
                broker = run.one("caisson-broker", other_than=seen)
                seen.append(broker)
                os.kill(broker, signal.SIGKILL)
            while (got := run.receive()) and got[0] == BROKER:
                got[3].close()
            self.assertEqual(got[0], FAILED)
            self.assertEqual(run.process.wait(TIMEOUT), 125)
            self.assertIn("the broker died 6 times", run.stderr())

    def test_two_runs_share_nothing_but_the_state_directory(self):
        with self.exec("/bin/sleep", "1000") as one, self.exec("/bin/sleep", "1000") as two:
            uids, runs = [], []
            for run in (one, two):
                submit(run.link())
                run.one("sleep")
                pids = below(run.process.pid)
                uids.append({os.stat(f"/proc/{p}").st_uid for p in pids})
                runs.append(set(pids))
            self.assertFalse(runs[0] & runs[1])
            self.assertEqual(len(list(self.state.glob("runs/*"))), 2)
            if os.geteuid() == 0:
                self.assertFalse(uids[0] & uids[1])
                self.assertNotIn(0, uids[0] | uids[1])
                self.assertGreaterEqual(len(uids[0]), 3)  # broker, ledger, worker

    def test_nothing_is_inherited(self):
        ours = {"SECRET": "x", "PATH": "/secret", "HOME": "/secret"}
        with self.exec("/usr/bin/env", env=ours) as run:
            link = run.link()
            submit(link)
            output, last = b"", None
            while last is None or last["type"] not in ("completed", "failed"):
                _, last = link.expect("operation.event")
                output += last.get("data", b"")
            self.assertEqual(sorted(output.decode().split()),
                             ["HOME=/tmp", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin"])


ATTACKS = ("spawn-index spawn-index-max spawn-provider spawn-kind-0 spawn-kind-9 spawn-command "
           "spawn-flags spawn-input spawn-twice kill-cause-0 kill-cause-max kill-index "
           "signal-kill signal-turn more-too-much ready-twice settled-unasked a-verb-of-ours "
           "no-verb client-gone client-taken spawn-generation kill-generation config-unasked "
           "config-unasked-next config-over config-over-unknown").split()
WORKSPACES = ("workspace-0 workspace-twice workspace-drop workspace-drop-twice workspace-shown "
              "workspace-none-shown workspace-found").split()


@unittest.skipUnless(CAISSOND and program("program/hostile_broker") and
                     program("caisson-ledger"),
                     "caissond, the ledger or program/hostile_broker is not built")
class SubvertedBroker(Case):
    """What a broker asks of its supervisor is checked, number by number (tests/programs)."""

    def setUp(self):
        super().setUp()
        for folder in ("bin", "libexec"):
            shutil.copytree(BUILD / folder, self.path / "build" / folder)
        shutil.copy(program("program/hostile_broker"),
                    self.path / "build" / "libexec" / "caisson-broker")

    def run_as(self, name):
        path = self.write(f"{name}.yaml", f"version: 1\nnamespace: {name}\n"
                          "runtimes: [{ id: a, command: [/bin/sleep, '1000'] }]\n")
        return Private("run", "--state", str(self.state), "-c", path,
                       program=str(self.path / "build" / "bin" / "caissond"))

    def test_every_attack_is_noticed_and_ends_it(self):
        for name in ATTACKS + WORKSPACES:  # a private run has no workspace
            with self.subTest(attack=name), self.run_as(name) as run:
                self.assertEqual(run.process.wait(TIMEOUT), 125)
                self.assertIn("asked for what no broker may", run.stderr())

    def test_in_a_daemon_it_can_invent_neither_clients_nor_workspaces(self):
        for name in ["client-gone", "client-taken", *WORKSPACES]:
            path = self.write(f"{name}.yaml", f"version: 1\nnamespace: {name}\n"
                              "runtimes: [{ id: a, command: [/bin/sleep, '1000'] }]\n")
            with self.subTest(attack=name):
                result = subprocess.run(
                    [str(self.path / "build" / "bin" / "caissond"), "-c", path, "-f", "--state",
                     str(self.state), "--socket", str(self.path / "s.sock")],
                    capture_output=True, text=True, timeout=TIMEOUT, check=False)
                self.assertEqual(result.returncode, 125)
                self.assertIn("asked for what no broker may", result.stderr)
                self.assertIn("the broker died", result.stderr)
                left = os.listdir(self.state / "namespaces" / name / "workspaces")
                self.assertLessEqual(set(left), {f"{n:016x}" for n in (5, 6)})

    def test_it_reaches_none_that_waits_and_hands_no_two_to_one_session(self):
        path = self.write("hunt.yaml", "version: 1\nnamespace: hunt\n"
                          "limits: { shutdown_grace: 100ms }\n"
                          "runtimes: [{ id: a, command: [/bin/sleep, '1000'], warm: 2 }]\n")
        with tempfile.TemporaryFile() as errors:
            daemon = subprocess.Popen(
                [str(self.path / "build" / "bin" / "caissond"), "-c", path, "-f", "--state",
                 str(self.state), "--socket", str(self.path / "s.sock")], stderr=errors)

            def stderr():
                return wire.written(errors)

            try:
                wait_for(lambda: "hunted" in stderr(), "the hunt")
                wait_for(lambda: "asked for what no broker may" in stderr(), "the second hand-out")
            finally:
                daemon.terminate()
                self.assertEqual(daemon.wait(TIMEOUT), 0)
            self.assertNotIn("one that waited", stderr())

    def test_a_struct_of_another_size_ends_it(self):
        with self.run_as("half-a-struct") as run:
            self.assertEqual(run.process.wait(TIMEOUT), 125)
            self.assertIn("the control link of the broker broke", run.stderr())

    def test_its_allowed_neighbour_works(self):
        with self.run_as("fine") as run:
            run.receive()[3].close()
            wait_for(lambda: "killed as ordered" in run.stderr(), "the end of a child")
            self.assertIn("fine: three descriptors", run.stderr())
            run.end()
            self.assertEqual(run.process.wait(TIMEOUT), 0)
            self.assertNotIn("wrong", run.stderr())


if __name__ == "__main__":
    unittest.main()
