"""`caisson learn`: loud, never 0, hard denials still on; its proposal runs the program, and no more."""

import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import unittest

import wire
from real import CAISSON, SANITIZED, WAIT, Case, below, environment, proc_text, wait_for

TIMEOUT = 300  # of this file, for run.py
BANNER = b"*** NOT A SANDBOX ***"
SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(wire.BUILD, "test", "program")
SHELL = ("/bin/sh", "-c", "echo hello; ls /usr | sort | head -1; cd /tmp; mkdir d; echo x > d/f; "
         "mv d/f d/g; cat d/g; rm -r d; kill -0 $$; sleep 0; (exit 3) || true")
PYTHON = ("python3", "-c", """
import os, select, signal, socket, subprocess, tempfile, threading, time
with tempfile.TemporaryDirectory() as d:
    open(d + '/a', 'w').write('x')
    os.rename(d + '/a', d + '/b')
    print(os.listdir(d))
t = [threading.Thread(target=time.sleep, args=(.005,)) for _ in range(4)]
[x.start() for x in t], [x.join() for x in t]
heard = []
signal.signal(signal.SIGALRM, lambda *a: heard.append(1))
signal.setitimer(signal.ITIMER_REAL, .001)
while not heard:
    select.select([], [], [], .01)  # of the calls that are asked about, one that is tried again after a signal
print(subprocess.run(['/bin/sh', '-c', 'echo below'], stdout=subprocess.PIPE).stdout)
a, b = socket.socketpair()
a.send(b'1'), print(b.recv(1))
""")


def rows(text, action):
    return set(re.findall(r"^      - \{ name: (\w+), action: %s \}$" % action, text, re.M))


class Learn(Case):
    def setUp(self):
        super().setUp()
        self.count = 0

    def learn(self, *words, file=True, **popen):
        """(proposal, stdout, stderr); exit status and banners are looked at."""
        self.count += 1
        path = self.dir / f"proposal-{self.count}.yaml"
        p = self.start("learn", *(("-o", path) if file else ()), *words, **popen)
        out, err = p.communicate(b"", timeout=4 * WAIT)
        err = wire.said(err)
        self.assertEqual(p.returncode, 1, err)
        lines = err.splitlines()
        self.assertTrue(lines[0].startswith(BANNER) and lines[-1].startswith(BANNER), err)
        self.path = path
        text = path.read_text() if file else out.decode()
        return text, out, b"\n".join(lines[1:-1])

    def program(self, name, *options):
        if not (PROGRAMS / "learn_calls").exists():
            self.skipTest("learn_calls is not built")
        app = self.dir / "app"
        if not app.exists():
            app.mkdir(mode=0o755)
            shutil.copy(PROGRAMS / "learn_calls", app)
        return (*options, "--app", app, "--", "./learn_calls", name)

    def under(self, path, *words):
        return self.caisson("exec", "-c", path, "--profile", "learned", *words)


class Proposals(Learn):
    def check(self, words, want):
        text, out, _ = self.learn(*words)
        self.assertEqual(out, want)
        status, out, err = self.under(self.path, *words)
        self.assertEqual((status, out), (0, want), err)
        return text

    def test_a_shell_runs_under_its_proposal(self):
        text = self.check(("--", *SHELL), b"hello\nbin\nx\n")
        self.assertLessEqual({"symlink", "socketpair", "timer_create", "recvmsg"}
                             - rows(text, "end"), {"socketpair"})
        self.assertFalse({"kill", "read", "mmap"} & rows(text, "end"))

    def test_python_runs_under_its_proposal(self):
        text = self.check(("--", *PYTHON), b"['b']\nb'below\\n'\nb'1'\n")
        self.assertFalse({"rename", "setitimer", "sendto", "recvfrom"} & rows(text, "end"))
        self.assertIn("link", rows(text, "end"))

    @unittest.skipUnless(shutil.which("node"), "no node here")
    @unittest.skipIf(SANITIZED, "the supervisor would wait for its own checks")
    def test_node_runs_under_its_proposal(self):
        words = ("--profile", "jit", "--", "node", "-e", "console.log(6 * 7)")
        text, out, _ = self.learn(*words)
        self.assertEqual(out, b"42\n")
        self.assertIn("    base: jit\n", text)
        status, out, err = self.under(self.path, "--", *words[3:])
        self.assertEqual((status, out), (0, b"42\n"), err)

    def test_a_call_on_no_list_is_proposed_and_ends_without_its_row(self):
        words = self.program("extra")
        text = self.check(words, b"sched_rr_get_interval ok\nreadahead EINVAL\n")
        self.assertEqual(rows(text, "allow"), {"sched_rr_get_interval", "readahead"})
        status, _, err = self.caisson("exec", *words)
        self.assertEqual(status, 159)
        self.assertIn("forbids: sched_rr_get_interval", err)
        less = self.dir / "less.yaml"
        less.write_text(text.replace("      - { name: readahead, action: allow }\n", ""))
        status, out, err = self.under(less, *words)
        self.assertEqual(status, 159)
        self.assertIn("forbids: readahead", err)

    def test_every_row_that_is_taken_for_used_is_needed(self):
        """Of calls that the base has, too."""
        words = ("--", "/bin/sh", "-c", "umask 022; cd /tmp; echo > f; mv f g; rm g; echo done")
        text = self.check(words, b"done\n")
        used = {"umask", "chdir", "unlinkat"}
        self.assertFalse(used & rows(text, "end"))
        for name in used:
            less = self.dir / f"without-{name}.yaml"
            less.write_text(f"{text}      - {{ name: {name}, action: end }}\n")
            status, _, err = self.under(less, *words)
            self.assertIn(f"forbids: {name};", err)
            # Below the shell it is a child that made it: the whole chamber ends.
            self.assertEqual(status, 159)

    def test_what_a_second_run_does_is_added(self):
        first, _, _ = self.learn("--", "/bin/sh", "-c", "echo one")
        one = self.path
        second, _, _ = self.learn("--onto", one, "--", "/bin/sh", "-c", "cd /tmp; umask 0; echo two")
        two = self.path
        self.assertEqual(rows(first, "end") - rows(second, "end"), {"chdir", "umask"})
        self.assertEqual(rows(second, "end") - rows(first, "end"), set())
        for script in ("echo one", "cd /tmp; umask 0; echo two"):
            self.assertEqual(self.under(two, "--", "/bin/sh", "-c", script)[0], 0)
        self.assertEqual(self.under(one, "--", "/bin/sh", "-c", "umask 0; echo two")[0], 159)

    def test_an_errno_of_the_base_stays_one(self):
        words = self.program("probes")
        text = self.check(words, b"memfd_create ENOSYS\nopenat2 ENOSYS\n")
        self.assertEqual(rows(text, "allow"), set())
        self.assertIn("\n#   { name: memfd_create, action: allow }    # got ENOSYS\n", text)
        self.assertNotIn("openat2", text)

    def test_an_argument_beyond_the_base_is_somebodys_decision(self):
        words = self.program("beyond")
        text, out, _ = self.learn(*words)
        self.assertEqual(out, b"fcntl ok\n")
        self.assertIn("\n# DECIDE: ", text)
        self.assertIn("\n#   fcntl\n", text)
        self.assertEqual(rows(text, "allow"), set())
        self.assertEqual(self.under(self.path, *words)[0], 159)
        decided = self.dir / "decided.yaml"
        decided.write_text(text + "      - { name: fcntl, action: base }\n"
                           "      - { name: fcntl, action: allow, when: "
                           "[{ argument: 1, equals: 16 }] }\n")
        self.assertEqual(self.under(decided, *words)[:2], (0, b"fcntl ok\n"))
        text, out, _ = self.learn("--onto", decided, *words)
        self.assertEqual(out, b"fcntl ok\n")
        self.assertNotIn("DECIDE", text)
        self.assertEqual(self.under(self.path, *words)[:2], (0, b"fcntl ok\n"))

    def test_mdwe_is_pointed_at_where_a_program_died_under_it(self):
        text, _, _ = self.learn("--", "/bin/sh", "-c", "kill -5 $$")
        self.assertIn("try --profile jit", text)
        text, _, _ = self.learn("--profile", "jit", "--", "/bin/sh", "-c", "kill -5 $$")
        self.assertNotIn("try --profile jit", text)


class Denials(Learn):
    def test_what_no_profile_allows_ends_it_by_name(self):
        for name, call in (("forbidden", "unshare"), ("forbidden-below", "unshare"),
                           ("namespaces", "clone"), ("ambiguous", "prctl"),
                           ("foreign", "getpid"), ("x32", str(0x40000000 | 110)),
                           ("nameless", "999")):
            with self.subTest(name):
                text, out, err = self.learn(*self.program(name))
                self.assertEqual(out, b"")
                self.assertIn(f"profile forbids: {call};", err.decode())
                self.assertIn("# CUT SHORT: it called ", text)
                self.assertEqual(rows(text, "allow"), set())
                status, _, err = self.under(self.path, *self.program(name))
                self.assertEqual(status, 159)
                self.assertIn(f"profile forbids: {call};", err)

    def test_every_other_layer_is_on(self):
        script = ("id -u; cat /etc/shadow || echo no shadow; grep -h CapEff /proc/self/status; "
                  "grep -h NoNewPrivs /proc/self/status; echo > /usr/x || echo read-only; "
                  "cp /bin/true /tmp/t; /tmp/t || echo no dropped programs; ls /home || echo none")
        text, out, _ = self.learn("--", "/bin/sh", "-c", script)
        self.assertEqual(out.decode(), "1000\nno shadow\nCapEff:\t0000000000000000\n"
                         "NoNewPrivs:\t1\nread-only\nno dropped programs\nnone\n")

    def test_continuing_a_call_is_learns_alone(self):
        """Nothing but `caisson learn` gets to the one place that lets a call go on."""
        def holders(word, *but):
            return sorted(str(p.relative_to(SOURCE)) for folder in
                          ("common", "supervisor", "worker", "broker", "ledger", "client")
                          for p in (SOURCE / folder).rglob("*.[ch]")
                          if word in p.read_text() and p.name not in but)

        if not (SOURCE / "supervisor" / "learn.c").exists():
            self.skipTest("not in the source tree")
        self.assertEqual(holders("NOTIF_FLAG_CONTINUE"), ["supervisor/learn.c"])
        self.assertEqual(holders("NOTIF_SEND"), ["supervisor/listener.c"])
        self.assertEqual(holders("NOTIF_ADDFD"), [])
        self.assertEqual(holders("learn_answer(", "learn.h", "learn.c"), ["supervisor/listener.c"])
        self.assertEqual(holders("learn_create(", "learn.h", "learn.c"), ["supervisor/learn_run.c"])
        self.assertEqual(holders("learn_run_begin(", "learn_run.h", "learn_run.c"),
                         ["supervisor/private.c"])
        private = (SOURCE / "supervisor" / "private.c").read_text()
        self.assertIn("bool learns = command == COMMAND_learn", private)
        self.assertIn("if (r == 0 && learns)\n\t\tr = learn_run_begin(", private)
        for word in ("run", "exec"):
            self.refused("--onto: not an option of", word, "--onto", "/x", "--", "true")

    def test_under_another_listener_nothing_runs(self):
        """Where somebody else is asked about the calls, none could be learned, or denied by name."""
        path, words = self.dir / "p.yaml", ("--", "/bin/sh", "-c", "echo ran")
        done = subprocess.run(
            [PROGRAMS / "under_listener", CAISSON, "learn", "--state",
             self.state, "-o", path, *words], env=environment(), stdin=subprocess.DEVNULL,
            capture_output=True, timeout=WAIT)
        self.assertEqual((done.returncode, done.stdout), (125, b""), done.stderr)
        self.assertIn(b"listener: a supervisor further up listens already", done.stderr)
        self.assertIn(b"nothing was proposed", done.stderr)
        self.assertFalse(path.exists())
        self.assertEqual(self.learn(*words)[1], b"ran\n")  # the allowed neighbour

    def test_exec_beside_it_refuses_as_ever(self):
        p = self.start("learn", "-o", self.dir / "p.yaml", *self.program("waits"))
        self.assertEqual(p.stdout.readline(), b"waiting ok\n")
        self.assertEqual(self.caisson("exec", *self.program("extra"))[0], 159)
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(WAIT), 1)


class Behaviour(Learn):
    def test_threads_forks_and_signals_come_through(self):
        for name in ("threads", "forks", "disturbed"):
            with self.subTest(name):
                _, out, _ = self.learn(*self.program(name))
                self.assertEqual(out.decode(), f"{name} ok\n")
                self.assertEqual(self.under(self.path, *self.program(name))[0], 0)

    def test_many_calls_cost_no_memory(self):
        script = "for i in 1 2 3; do read x; ./learn_calls many; done; read x"
        options = self.program("many")
        words = (*options[:options.index("--")], "--", "/bin/sh", "-c", script)
        p = self.start("learn", "-o", self.dir / "p.yaml", *words)
        peaks = []
        for _ in range(3):
            p.stdin.write(b"\n")
            p.stdin.flush()
            self.assertEqual(p.stdout.readline(), b"many ok\n")
            peaks.append(self.peak_of_supervisor(p.pid))
        p.communicate(b"\n", timeout=WAIT)
        self.assertEqual(p.returncode, 1)
        if not SANITIZED:
            self.assertLess(peaks[2] - peaks[0], 256, peaks)  # KiB

    def peak_of_supervisor(self, root):
        for pid in below(root):
            status = proc_text(pid, "status") or ""
            if "\nName:\tcaissond\n" in "\n" + status:
                return int(re.search(r"^VmHWM:\s+(\d+)", status, re.M)[1])
        raise AssertionError("no caissond")

    def test_without_a_file_standard_output_is_the_proposals(self):
        text, out, err = self.learn("--", "/bin/sh", "-c", "echo mine; echo its >&2; exit 7",
                                    file=False)
        self.assertTrue(out.startswith(b"# Proposed by `caisson learn`"))
        self.assertEqual(sorted(err.splitlines()), [b"its", b"mine"])
        self.assertIn("# It exited with status 7", text)
        (self.dir / "p.yaml").write_bytes(out)
        self.assertEqual(self.under(self.dir / "p.yaml", "--", "/bin/sh", "-c", "exit 7")[0], 7)

    def test_nothing_is_ever_overwritten(self):
        there = self.dir / "there"
        there.write_text("mine")
        link = self.dir / "link"
        link.symlink_to(self.dir / "elsewhere")
        for path in (there, link):
            status, out, err = self.caisson("learn", "-o", path, "--", "/bin/sh", "-c", "echo ran")
            self.assertEqual((status, out), (125, b""))
            self.assertIn("nothing is ever overwritten", err)
        self.assertEqual(there.read_text(), "mine")
        self.assertFalse((self.dir / "elsewhere").exists())
        status, _, err = self.caisson("learn", "-o", self.dir / "no" / "p", "--", "/bin/true")
        self.assertEqual(status, 125)
        self.assertIn("No such file", err)

    def test_a_link_in_the_folders_place_leads_nowhere(self):
        """The program may write where the proposal is to go."""
        for name in ("mine", "mine/sub", "others"):
            (self.dir / name).mkdir()
            (self.dir / name).chmod(0o777)
        status, _, err = self.caisson(
            "learn", "--rw", f"{self.dir / 'mine'}:/mine", "-o", self.dir / "mine/sub/p.yaml", "--",
            "/bin/sh", "-c", f"mv /mine/sub /mine/old && ln -s {self.dir / 'others'} /mine/sub")
        self.assertEqual(status, 1, err)
        self.assertTrue((self.dir / "mine/sub").is_symlink())
        self.assertEqual(list((self.dir / "others").iterdir()), [])
        self.assertIn("Proposed by", (self.dir / "mine/old/p.yaml").read_text())

    def test_a_folder_that_nothing_can_be_made_in_is_refused_before_it_runs(self):
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        folder = self.dir / "closed"
        folder.mkdir(mode=0o555)
        for path, said in ((folder / "p", "Permission denied"), (self.dir, "overwritten"),
                           (f"{folder}/", "overwritten"), ("/dev/stdout", "overwritten"),
                           (self.dir / "x" / "p", "No such file")):
            status, out, err = self.caisson("learn", "-o", path, "--", "/bin/sh", "-c", "echo ran")
            self.assertEqual((status, out), (125, b""), path)
            self.assertIn(said, err)

    def test_a_file_that_comes_meanwhile_stays(self):
        path = self.dir / "p.yaml"
        p = self.start("learn", "-o", path, *self.program("waits"))
        self.assertEqual(p.stdout.readline(), b"waiting ok\n")
        self.assertFalse(path.exists())
        path.write_text("mine")
        p.send_signal(signal.SIGTERM)
        _, err = p.communicate(timeout=WAIT)
        self.assertEqual(p.returncode, 125)
        self.assertIn(b"nothing was proposed", err)
        self.assertEqual(path.read_text(), "mine")

    def test_the_operator_ends_it_in_the_middle(self):
        for signo, how in ((signal.SIGTERM, "signal 15"), (signal.SIGINT, "signal 2")):
            path = self.dir / f"p{int(signo)}.yaml"
            p = self.start("learn", "-o", path, *self.program("waits"))
            self.assertEqual(p.stdout.readline(), b"waiting ok\n")
            p.send_signal(signo)
            p.communicate(timeout=WAIT)
            self.assertEqual(p.returncode, 1)
            self.assertIn(f"# It died of {how}", path.read_text())
        # Killed, it leaves no process, and still what was learned.
        path = self.dir / "killed.yaml"
        options = self.program("waits")
        p = self.start("learn", "-o", path, *options)
        self.assertEqual(p.stdout.readline(), b"waiting ok\n")
        left = below(p.pid)
        p.kill()
        p.wait()
        self.assertGreater(len(left), 3)
        wait_for(lambda: not any(proc_text(pid, "cmdline") for pid in left), "all of it gone")
        self.assertRegex(path.read_text(), "# (It died of signal 15|CUT SHORT): ")

    def test_a_timeout_still_proposes_what_was_seen(self):
        text, _, _ = self.learn("--timeout", "3s", "--", "/bin/sh", "-c", "umask 0; sleep 100")
        self.assertRegex(text, "# (It died of signal 15|CUT SHORT): ")
        self.assertNotIn("try --profile jit", text)
        self.assertNotIn("umask", rows(text, "end"))

    def test_it_is_never_0_and_125_without_a_proposal(self):
        status, out, err = self.caisson("learn", "--", "/nowhere")
        self.assertEqual((status, out), (125, b""))
        self.assertIn("nothing was proposed", err)
        for words, said in ((("--profile", "jit", "--onto", "/x", "--", "true"), "--onto"),
                            (("--onto", "/nowhere", "--", "true"), "/nowhere"),
                            (("--profile", "provider", "--", "true"), "neither native"),
                            (("-c", "/x", "--", "true"), "--config: not an option of learn"),
                            ((), "learn: needs -- COMMAND")):
            status, out, err = self.caisson("learn", *words)
            self.assertEqual((status, out), (125, b""))
            self.assertIn(said, err)
        other = self.dir / "other.yaml"
        for text, said in (("version: 1\n", "has no profile learned"),
                           ("version: 1\nprofiles:\n  - id: learned\n    base: provider\n",
                            "not one that a program is learned on")):
            other.write_text(text)
            status, out, err = self.caisson("learn", "--onto", other, "--", "true")
            self.assertEqual((status, out), (125, b""))
            self.assertIn(said, err)

    def test_it_is_coloured_on_a_terminal_only(self):
        for env, want in ({}, True), ({"NO_COLOR": "1"}, False):
            master, slave = pty.openpty()
            self.addCleanup(os.close, master)
            p = self.start("learn", "-o", self.dir / f"p{want}", "--", "/bin/true",
                           stderr=slave, env=env)
            os.close(slave)
            self.assertEqual(p.wait(WAIT), 1)
            said = os.read(master, 65536)
            self.assertEqual(said.count(b"*** NOT A SANDBOX ***"), 2)
            self.assertEqual(b"\x1b[1;37;41m*** NOT A SANDBOX ***" in said, want, said)
            if not want:
                self.assertNotIn(b"\x1b", said)
        self.assertNotIn(b"\x1b", self.caisson("learn", "--", "/bin/true")[2].encode())

    def test_the_record_tells_it_from_exec(self):
        self.caisson("exec", "--", "/bin/true")
        self.learn("--", "/bin/true")
        status, out, _ = self.caisson("audit", "show")
        self.assertEqual(status, 0)
        accepted = [line for line in out.decode().splitlines() if "operation.accepted" in line]
        self.assertEqual(len(accepted), 2)
        self.assertEqual(sorted("NOT A SANDBOX: learn" in line for line in accepted),
                         [False, True])
        status, out, _ = self.caisson("audit", "-o", "jsonl", "show")
        self.assertEqual(out.count(b'"mode":"learn"'), 1)
        self.assertEqual(self.caisson("audit", "verify")[0], 0)


if __name__ == "__main__":
    unittest.main()
