"""The built-in command runtime as a process: what it reads, and what it becomes (OP-10, OP-11)."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

import test_chamber
import wire

COMMAND = wire.program("caisson-command")
RUN = wire.program("program/chamber_run")
PATH = "/usr/local/bin:/usr/bin:/bin"

wire.keep_low_descriptors()

# Plays the broker inside a chamber, for the program that its first argument names.
BROKER = """
import json, socket, subprocess, os, sys
def pack(v):
    if isinstance(v, bool): return b"\\xc3" if v else b"\\xc2"
    if v is None: return b"\\xc0"
    if isinstance(v, int): return bytes([v])
    if isinstance(v, str):
        b = v.encode()
        return b"\\xda" + len(b).to_bytes(2, "big") + b
    if isinstance(v, bytes): return b"\\xc6" + len(v).to_bytes(4, "big") + v
    if isinstance(v, list): return bytes([0x90 | len(v)]) + b"".join(map(pack, v))
    return bytes([0x80 | len(v)]) + b"".join(pack(k) + pack(x) for k, x in v.items())
def frame(v):
    b = pack(v)
    return len(b).to_bytes(4, "big") + b
while os.open("/dev/null", os.O_RDONLY) < 4:
    pass
def be_child():
    os.dup2(fd, 3)
    os.set_inheritable(3, True)
for run in json.loads(sys.argv[2]):
    if "stdin" in run:
        run["stdin"] = run["stdin"].encode()
    ours, theirs = socket.socketpair()
    fd = theirs.fileno()
    child = subprocess.Popen([sys.argv[1]], pass_fds=[3], preexec_fn=be_child,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    theirs.close()
    ours.sendall(frame([1, 1, None, {"protocol": PROTOCOL, "frameMax": 1}]))
    ours.sendall(frame([0, 1, "command.run", [run]]))
    out, _ = child.communicate()
    said = b""
    while True:
        more = ours.recv(1 << 16)
        if not more:
            break
        said += more
    print(json.dumps([out.decode(), child.returncode, b"message" in said]))
"""


class Runtime(wire.Peer):
    """Plays the broker for one command runtime."""

    def __init__(self, greet=True, cwd=None, env=None):
        self.process, ours = wire.start_on_link(
            [COMMAND], env={"PATH": PATH, "CAISSON_LINK_FD": "3", **(env or {})}, cwd=cwd,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        super().__init__(ours)
        if greet:
            self.answer_hello()

    def finish(self):
        """What it wrote, and how it ended: (status, stdout, stderr)."""
        out, err = self.process.communicate(timeout=wire.TIMEOUT)
        self.close()
        return self.process.returncode, out, err

    def run(self, **params):
        """One command that is begun: (status, stdout, stderr)."""
        self.request("command.run", **params)
        assert self.closed(), "the link is still open"
        return self.finish()

    def refuse_to_run(self, **params):
        """The error of one that is not: ({code, message}, exit status)."""
        error, result = self.expect_reply(self.request("command.run", **params))
        assert result is None, result
        assert self.closed()
        status, out, err = self.finish()
        assert (out, err) == (b"", b""), (out, err)
        return error, status


@unittest.skipUnless(COMMAND, "caisson-command is not built")
class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def runtime(self, **options):
        r = Runtime(**options)

        def end():
            r.process.kill()
            r.process.communicate()
            r.close()

        self.addCleanup(end)
        return r

    def run_one(self, cwd=None, env=None, **params):
        return self.runtime(cwd=cwd, env=env).run(**params)

    def test_it_becomes_the_program_with_its_arguments_and_status(self):
        r = self.runtime()
        pid = r.process.pid
        status, out, err = r.run(
            argv=["sh", "-c", 'echo "$$ $1"; echo two >&2; exit 7', "sh", "a b"])
        self.assertEqual((status, out, err), (7, f"{pid} a b\n".encode(), b"two\n"))

    def test_a_shell_line_is_the_shells(self):
        self.assertEqual(self.run_one(shell="echo a | tr a b; exit 3"), (3, b"b\n", b""))

    def test_it_waits_for_its_command(self):
        r = self.runtime()
        self.assertIsNone(r.process.poll())
        self.assertEqual(r.run(shell="echo late"), (0, b"late\n", b""))

    def test_the_command_has_nothing_of_the_runtimes(self):
        out = self.run_one(argv=["/usr/bin/env"])[1].decode()
        self.assertNotIn("CAISSON", out)
        listed = self.run_one(shell="ls /proc/self/fd")[1].split()
        self.assertEqual(listed, [b"0", b"1", b"2", b"3"])  # the last is that of ls
        status = self.run_one(shell="cat /proc/self/status")[1].decode()
        for name in ("SigBlk", "SigIgn", "SigCgt"):
            self.assertEqual(int(status.split(f"{name}:\t")[1].split("\n")[0], 16), 0, name)

    def test_environment_is_added_to_that_of_the_chamber(self):
        r = self.runtime(env={"KEPT": "1", "CHANGED": "old"})
        self.assertEqual(r.run(shell='echo "$KEPT $CHANGED $NEW"',
                               env={"CHANGED": "new", "NEW": "a=b c", "EMPTY": ""})[1],
                         b"1 new a=b c\n")

    def test_the_program_is_looked_for_in_the_path_it_is_given(self):
        tool = self.folder / "tool"
        tool.write_text("#!/bin/sh\necho mine\n")
        tool.chmod(0o755)
        r = self.runtime()
        self.assertEqual(r.run(argv=["tool"], env={"PATH": str(self.folder)})[1], b"mine\n")
        self.assertEqual(self.run_one(argv=["./tool"], cwd=self.folder)[1], b"mine\n")

    def test_a_directory_beneath_the_one_it_is_in(self):
        (self.folder / "a" / "..b").mkdir(parents=True)
        out = self.run_one(cwd=self.folder, directory="a/..b", argv=["pwd"])[1].decode()
        self.assertEqual(pathlib.Path(out.strip()), self.folder / "a" / "..b")

    def test_no_other_directory(self):
        (self.folder / "a").mkdir()
        for directory in ("/", "/tmp", "..", "../x", "a/..", "a/../..", "a/./../b", ""):
            with self.subTest(directory):
                error, status = self.runtime(cwd=self.folder).refuse_to_run(
                    argv=["pwd"], directory=directory)
                self.assertEqual((error["code"], status), ("invalid_argument", 126))
        error, _ = self.runtime(cwd=self.folder).refuse_to_run(argv=["pwd"], directory="none")
        self.assertEqual(error["code"], "not_found")

    def test_standard_input_is_given_whole(self):
        for size in (0, 1, 4096, 4097, 65537, 700000):
            with self.subTest(size):
                data = os.urandom(size)
                self.assertEqual(self.run_one(argv=["cat"], stdin=data), (0, data, b""))
        self.assertEqual(self.run_one(argv=["cat"]), (0, b"", b""))
        self.assertEqual(self.run_one(argv=["true"], stdin=b"unread"), (0, b"", b""))

    def test_what_cannot_be_started_is_told_and_not_run(self):
        (self.folder / "data").write_text("x")
        (self.folder / "orphan").write_text("#!/no/such/interpreter\n")
        (self.folder / "orphan").chmod(0o755)
        for argv, code, status in ((["no-such-program"], "not_found", 127),
                                   (["/no/such"], "not_found", 127),
                                   (["./orphan"], "not_found", 127),
                                   (["/etc"], "permission_denied", 126),
                                   (["./data"], "permission_denied", 126),
                                   (["true", "x" * 200000], "invalid_argument", 126)):
            with self.subTest(argv[0]):
                error, ended = self.runtime(cwd=self.folder).refuse_to_run(argv=argv)
                self.assertEqual((error["code"], ended), (code, status))
                self.assertNotIn("x" * 300, error["message"])
        error, _ = self.runtime().refuse_to_run(argv=["é" * 200])
        self.assertEqual(error["message"].count("é"), 128)

    def test_exactly_one_of_argv_and_shell(self):
        for params in ({}, {"argv": ["true"], "shell": "true"}, {"argv": []}, {"argv": [1]},
                       {"argv": ["a\0b"]}, {"argv": [""]}, {"argv": "true"}, {"shell": ["true"]},
                       {"shell": "a\0b"}, {"shell": "true", "more": 1},
                       {"shell": "true", "env": {"A=B": "x"}}, {"shell": "true", "env": {"": "x"}},
                       {"shell": "true", "env": {"A": 1}}, {"shell": "true", "env": ["A"]},
                       {"shell": "true", "stdin": "text"}, {"shell": "true", "directory": 1}):
            with self.subTest(params):
                error, status = self.runtime().refuse_to_run(**params)
                self.assertEqual((error["code"], status), ("invalid_argument", 126))

    def test_the_end_of_the_link_before_a_command_is_its_end(self):
        for greet in (True, False):
            r = self.runtime(greet=greet)
            r.sock.shutdown(1)
            self.assertTrue(r.closed())
            self.assertEqual(r.finish(), (0, b"", b""))

    def test_a_malformed_frame_ends_it_and_starts_nothing(self):
        run = wire.frame([0, 1, "command.run", [{"shell": "echo ran"}]])
        for name, data in (("length 0", b"\0\0\0\0" + run), ("too long", b"\x7f\0\0\0"),
                           ("no value", b"\0\0\0\1\xc1"), ("two values", b"\0\0\0\2\1\1"),
                           ("truncated", run[:4] + b"\x94\0\1" + b"\xdf\xff\xff\xff\xff" * 40),
                           ("deep", b"\0\0\0\x40" + b"\x91" * 64),
                           ("other", wire.frame([0, 1, "operation.run", [{"shell": "echo ran"}]])),
                           ("no request", wire.frame([2, "command.run", [{"shell": "echo ran"}]])),
                           ("two bodies", wire.frame([0, 1, "command.run", [{}, {}]])),
                           ("kind", wire.frame(["", 1, "command.run", [{"shell": "echo ran"}]]))):
            with self.subTest(name):
                r = self.runtime()
                r.send_raw(data)
                r.sock.shutdown(1)
                self.assertTrue(r.closed())
                self.assertEqual(r.finish(), (125, b"", b"caisson-command: the broker broke "
                                                       b"the protocol\n"))

    def test_every_prefix_of_a_command_starts_nothing(self):
        run = wire.frame([0, 1, "command.run", [{"shell": "echo ran"}]])
        for n in range(len(run)):
            r = self.runtime()
            r.send_raw(run[:n])
            r.sock.shutdown(1)
            self.assertTrue(r.closed())
            self.assertEqual(r.finish()[:2], (125 if n else 0, b""), n)

    def test_another_protocol_is_not_spoken(self):
        r = self.runtime(greet=False)
        msgid, _ = r.expect("hello")
        r.reply(msgid, protocol=1, frameMax=1 << 20)
        self.assertTrue(r.closed())
        self.assertEqual(r.finish()[0], 125)

    def test_without_a_link_it_says_so(self):
        done = subprocess.run([COMMAND], close_fds=True, timeout=wire.TIMEOUT,
                              preexec_fn=lambda: os.closerange(3, 64), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"descriptor 3", done.stderr)

    def test_a_signal_ends_the_command_as_any_other(self):
        r = self.runtime()
        r.request("command.run", shell="kill -TERM $$")
        self.assertTrue(r.closed())
        self.assertEqual(r.finish()[0], -signal.SIGTERM)


@unittest.skipUnless(COMMAND and RUN, "caisson-command or chamber_run is not built")
@unittest.skipIf(wire.SANITIZED, "a sanitized program needs more than a chamber shows")
class Confined(unittest.TestCase):
    def chamber(self, profile, runs, options=()):
        """Plays the broker in a chamber; (what each command came to, how the chamber ended)."""
        script = BROKER.replace("PROTOCOL", str(wire.caisson.PROTOCOL))
        out, errors, end = test_chamber.chamber(
            "/usr/bin/python3", "-I", "-c", script, "/opt/caisson-command", json.dumps(runs),
            options=["-p", profile, "-m", f"{COMMAND}:/opt/caisson-command", *options])
        self.assertEqual(end["status"], 0, (errors, end))
        return [json.loads(line) for line in out.splitlines()]

    def test_the_profiles_of_runtimes_let_it_become_its_command(self):
        runs = [{"argv": ["/bin/echo", "hello"]}, {"shell": "echo one | cat; exit 4"},
                {"argv": ["wc", "-c"], "stdin": "x" * 100},
                {"argv": ["wc", "-c"], "stdin": "x" * 100000}, {"argv": ["no-such-program"]},
                {"shell": "pwd", "directory": "tmp"}]
        for profile in ("native", "interpreter", "jit"):
            with self.subTest(profile):
                self.assertEqual(self.chamber(profile, runs),
                                 [["hello\n", 0, False], ["one\n", 4, False],
                                  ["100\n", 0, False], ["100000\n", 0, False],
                                  ["", 127, True], ["/tmp\n", 0, False]])

    def test_limits_are_those_of_all_that_the_command_starts(self):
        # The test's python and the command count, too.
        forks = ("import os, signal\nn = 0\ntry:\n    while n < 100:\n"
                 "        if os.fork() == 0: signal.pause()\n        n += 1\n"
                 "except OSError as e: print(e.errno, n, flush=True)\n"
                 "os.kill(0, signal.SIGKILL)")
        [[out, status, _]] = self.chamber("interpreter", [
            {"argv": ["setsid", "-w", "/usr/bin/python3", "-I", "-c", forks]}],
            options=["-n", "12"])
        error, n = map(int, out.split())
        self.assertEqual(error, 11)
        self.assertLess(n, 12)
        self.assertNotEqual(status, 0)


if __name__ == "__main__":
    unittest.main()
