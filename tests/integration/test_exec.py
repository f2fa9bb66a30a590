"""`caisson exec` end to end: a faithful filter, its endings, its chamber, its limits."""

import contextlib
import os
import pathlib
import pty
import re
import signal
import subprocess
import threading
import unittest

import wire
from real import (CAISSON, IS_ROOT, SANITIZED, WAIT, Case, below, ending, environment,
                  marked, nothing_left, output_of, proc_text, wait_for)

TIMEOUT = 300  # of this file, for run.py
BYTES = int(os.environ.get("CAISSON_EXEC_BYTES", 64 << 20))
FLAT_KIB = 64 << 10  # most memory of any one process, in KiB
BLOCK = 1 << 20


class Streams(Case):
    def peaks(self, root, into):
        for pid in below(root) | {root}:
            found = re.search(r"^Name:\t(\S*)$.*^VmHWM:\s+(\d+)", proc_text(pid, "status") or "",
                              re.M | re.S)
            if found:
                into[found[1]] = max(into.get(found[1], 0), int(found[2]))

    def pass_through(self, read):
        """Feeds BYTES of random blocks to `cat`; `read(process, n)` takes n bytes.  Peaks."""
        p, block, peaks = self.start("exec", "--", "cat"), os.urandom(BLOCK), {}
        count = max(BYTES // BLOCK, 1)

        def feed():
            for i in range(count):
                p.stdin.write(i.to_bytes(8, "big") + block[8:])
            p.stdin.close()

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        for i in range(count):
            got = read(p, BLOCK)
            # A comparison of its own: assertEqual would print a MiB.
            self.assertTrue(got == i.to_bytes(8, "big") + block[8:], f"block {i} differs")
            if i % 16 == 0 or i == count - 1:
                self.peaks(p.pid, peaks)
        self.assertEqual(p.stdout.read(), b"")
        feeder.join(WAIT)
        self.assertEqual(p.wait(WAIT), 0)
        return peaks

    def test_random_bytes_come_back_in_flat_memory(self):
        peaks = self.pass_through(lambda p, n: p.stdout.read(n))
        self.assertLessEqual({"caisson", "caissond", "caisson-broker", "cat"}, set(peaks))
        if not SANITIZED:
            self.assertEqual({name: kib for name, kib in peaks.items() if kib > FLAT_KIB}, {})

    def test_a_reader_that_stops_costs_no_memory(self):
        p, peaks = self.start("exec", "--", "cat", "/dev/zero"), {}
        self.assertEqual(p.stdout.read(1), b"\0")
        cat = wait_for(lambda: [q for q in below(p.pid)
                                if (proc_text(q, "comm") or "") == "cat\n"], "cat")[0]
        wait_for(lambda: "S" == (proc_text(cat, "stat") or " ) S").rpartition(")")[2].split()[0]
                 and "pipe_write" in (proc_text(cat, "wchan") or "pipe_write"), "cat waits")
        self.peaks(p.pid, peaks)
        if not SANITIZED:
            self.assertEqual({n: kib for n, kib in peaks.items() if kib > FLAT_KIB}, {})
        p.stdout.close()
        self.assertEqual(p.wait(WAIT), 141)

    def test_binary_output_with_nul_bytes(self):
        every = bytes(range(256)) * 3
        self.assertEqual(self.caisson("exec", "--", "cat", stdin=every), (0, every, ""))

    def test_end_of_file_reaches_the_command(self):
        p = self.start("exec", "--", "sh", "-c", "cat; echo over; exit 7")
        p.stdin.write(b"one\n")
        p.stdin.flush()
        self.assertEqual(p.stdout.readline(), b"one\n")  # nothing waits for the end
        p.stdin.close()
        self.assertEqual((p.stdout.read(), p.wait(WAIT)), (b"over\n", 7))

    def test_no_input(self):
        for given in ("</dev/null", "<&-"):
            script = f'exec "$0" exec --state "$1" -- sh -c "cat; echo over" {given}'
            p = subprocess.run(["sh", "-c", script, CAISSON, self.state], env=environment(),
                               capture_output=True, timeout=WAIT)
            self.assertEqual((p.returncode, p.stdout, wire.said(p.stderr)),
                             (0, b"over\n", b""), given)

    def test_a_command_that_reads_nothing_ends_all_the_same(self):
        p = self.start("exec", "--", "true")
        with contextlib.suppress(BrokenPipeError):
            for _ in range(64):
                p.stdin.write(bytes(1 << 16))
        self.assertEqual(p.wait(WAIT), 0)

    def test_a_closed_output(self):
        script = 'exec "$0" exec --state "$1" -- sh -c "echo out; echo err >&2; exit 4" >&-'
        p = subprocess.run(["sh", "-c", script, CAISSON, self.state], env=environment(),
                           stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=WAIT)
        self.assertEqual((p.returncode, wire.said(p.stderr)), (4, b"err\n"))

    def test_a_reader_that_leaves_ends_it_as_it_ends_any_program(self):
        p = self.start("exec", "--", "yes")
        self.assertEqual(p.stdout.readline(), b"y\n")
        p.stdout.close()
        self.assertEqual(p.wait(WAIT), 141)
        self.assertEqual(wire.said(p.stderr.read()), b"")

    def test_a_reader_of_errors_that_leaves_does_so_too(self):
        p = self.start("exec", "--", "sh", "-c", "exec yes >&2")
        while not (line := wire.said(p.stderr.readline())):
            self.assertIsNone(p.poll())
        self.assertEqual(line, b"y\n")
        p.stderr.close()
        self.assertEqual(p.wait(WAIT), 141)

    def test_a_full_disk_is_said(self):
        with open("/dev/full", "wb") as full:
            status, _, err = self.caisson("exec", "--", "echo", "lost", stdout=full)
        self.assertEqual((status, err), (
            125, "caisson: cannot write standard output: No space left on device\n"))

    def test_errors_go_their_own_way(self):
        self.assertEqual(self.caisson("exec", "--", "sh", "-c", "echo out; echo err >&2"),
                         (0, b"out\n", "err\n"))

    def test_a_lot_of_errors(self):
        status, out, err = self.caisson(
            "exec", "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' e >&2; echo out")
        self.assertEqual((status, out, len(err), set(err)), (0, b"out\n", 3000000, {"e"}))

    def test_what_a_process_left_behind_says_is_not_waited_for(self):
        for script in ("(sleep 1000; echo late) & echo main; exit 3",
                       "setsid sh -c 'sleep 1000; echo late' & echo main; exit 3",
                       "yes >&2 & echo main; exit 3"):
            status, out, _ = self.caisson("exec", "--", "sh", "-c", script)
            self.assertEqual((status, out), (3, b"main\n"), script)

    def test_what_was_written_before_the_end_is_not_lost(self):
        status, out, _ = self.caisson("exec", "--", "sh", "-c", "head -c 1000000 /dev/zero; exit 9")
        self.assertEqual((status, len(out)), (9, 1000000))


class Endings(Case):
    def test_every_exit_status_passes(self):
        todo, wrong, lock = list(range(256)), [], threading.Lock()

        def work():
            while True:
                with lock:
                    if not todo:
                        return
                    status = todo.pop()
                got = subprocess.run(
                    [CAISSON, "exec", "--state", self.state, "--", "sh", "-c", f"exit {status}"],
                    stdin=subprocess.DEVNULL, env=environment(), timeout=WAIT).returncode
                if got != status:
                    wrong.append((status, got))

        workers = [threading.Thread(target=work) for _ in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        self.assertEqual((todo, wrong), ([], []))

    def test_a_signal_is_128_and_its_number(self):
        for signo in (signal.SIGHUP, signal.SIGINT, signal.SIGABRT, signal.SIGKILL,
                      signal.SIGSEGV, signal.SIGTERM, signal.SIGUSR1):
            status, events = self.events("exec", "--", "sh", "-c", f"kill -{int(signo)} $$")
            command = ending(events)["command"]
            self.assertEqual((status, command["signal"]), (128 + signo, signo))
            self.assertEqual((command["cause"]["kind"], command["timedOut"]), ("signaled", False))

    def test_what_cannot_be_executed(self):
        file = self.dir / "file"
        file.write_text("echo no #! line\n")
        for words, want, errno in ((["nosuch"], 127, 2), (["/bin/nosuch"], 127, 2),
                                   (["/etc"], 126, 13), (["/etc/passwd"], 126, 13),
                                   (["/x/file"], 126, 13)):
            mount = ["--ro", f"{self.dir}:/x"]
            status, out, err = self.caisson("exec", *mount, "--", *words)
            self.assertEqual((status, out), (want, b""), words)
            self.assertRegex(err, rf"\Acaisson: {words[0]}: cannot be executed: [^\n]+\n\Z")
            status, events = self.events("exec", *mount, "--", *words)
            self.assertEqual((status, ending(events)["cause"]),
                             (want, {"kind": "start_failed", "layer": "exec", "errno": errno}))

    def test_past_its_timeout(self):
        status, out, err = self.caisson("exec", "--timeout", "3s", "--", "sh", "-c",
                                        "echo partial; sleep 1000; echo never")
        self.assertEqual((status, out, err),
                         (124, b"partial\n", "caisson: deadline: the time was up; "
                          "give it more time (--timeout)\n"))
        status, events = self.events("exec", "--timeout", "500ms", "--", "sleep", "1000")
        self.assertEqual((status, ending(events)["cause"]["kind"],
                          ending(events)["command"]["timedOut"]), (124, "deadline", True))

    def test_past_its_timeout_whatever_it_ignores(self):
        mark = f"77{os.getpid()}"
        status, out, _ = self.caisson(
            "exec", "--timeout", "3s", "--", "sh", "-c",
            f"trap '' TERM INT HUP; (setsid sh -c 'sleep {mark} & sleep {mark}' &); "
            f"echo partial; sleep {mark}; echo never")
        self.assertEqual((status, out), (124, b"partial\n"))
        self.assertEqual([p for p in marked(mark) if p != os.getpid()], [])

    def test_the_exact_lines_for_programs(self):
        status, out, err = self.caisson(
            "exec", "-o", "jsonl", "--", "sh", "-c", "printf 'a\\0'; exec >&-; echo e >&2; exit 3")
        text = re.sub(r"op-[0-9a-f]{32}", "op-ID", out.decode())
        text = re.sub(r'(Ms|Bytes)":\d+', r'\1":N', text)
        lines = text.splitlines(keepends=True)
        self.assertEqual((status, err, len(lines)), (3, "", 4))
        # Two pipes have no order between them.
        got = {re.sub(r'"sequence":[23]', '"sequence":S', line) for line in lines[1:3]}
        self.assertEqual(got, {
            '{"sequence":S,"type":"output","output":{"stream":"stdout","data":"YQA="}}\n',
            '{"sequence":S,"type":"output","output":{"stream":"stderr","data":"ZQo="}}\n'})
        self.assertEqual(
            lines[0],
            '{"sequence":1,"type":"accepted","accepted":{"operationID":"op-ID"}}\n')
        self.assertEqual(
            lines[3], '{"sequence":4,"type":"completed","completed":{"command":{"exitCode":3,'
            '"cause":{"kind":"exited","code":3},"timedOut":false,'
            '"usage":{"cpuMs":N,"peakBytes":N,"readBytes":N,"writtenBytes":N,'
            '"source":"rusage"}}}}\n')

    def test_a_forbidden_system_call_is_named(self):
        status, events = self.events(
            "exec", "--", "python3", "-c",
            "import ctypes; ctypes.CDLL(None).syscall(169, 0, 0, 0)")  # reboot
        if os.uname().machine != "x86_64":
            self.skipTest("the number is of x86-64")
        self.assertEqual(status, 128 + signal.SIGSYS)
        self.assertEqual(ending(events)["cause"], {"kind": "seccomp", "syscall": "reboot"})


TRAPS = ("trap 'echo got INT' INT; trap 'echo got TERM; exit 5' TERM; trap 'echo got HUP' HUP; "
         "echo ready; while :; do sleep 0.05; done")


class Signals(Case):
    def trapping(self, **popen):
        p = self.start("exec", "--", "sh", "-c", TRAPS, **popen)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        return p

    def test_none_is_ignored_or_blocked_from_the_start(self):
        """Whatever is, above us: SIGHUP by nohup, and some by caissond."""
        status, out, _ = self.caisson("exec", "--", "grep", "-E", "Sig(Blk|Ign)",
                                      "/proc/self/status", preexec_fn=lambda: [
                                          signal.signal(s, signal.SIG_IGN)
                                          for s in (signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD)])
        self.assertEqual((status, out), (0, b"SigBlk:\t" + b"0" * 16 + b"\nSigIgn:\t" + b"0" * 16
                                         + b"\n"))

    def test_they_reach_the_command(self):
        p = self.trapping()
        for signo in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            p.send_signal(signo)
            self.assertEqual(p.stdout.readline(), f"got {signo.name[3:]}\n".encode())
        self.assertEqual(p.wait(WAIT), 5)

    def test_a_second_interrupt_kills(self):
        p = self.trapping()
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.stdout.readline(), b"got INT\n")
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(WAIT), 128 + signal.SIGKILL)

    def test_one_that_is_not_caught_ends_it(self):
        for signo in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            p = self.start("exec", "--", "sh", "-c", "echo ready; exec sleep 1000")
            self.assertEqual(p.stdout.readline(), b"ready\n")
            wait_for(lambda: any(proc_text(q, "comm") == "sleep\n" for q in below(p.pid)), "sleep")
            p.send_signal(signo)
            self.assertEqual(p.wait(WAIT), 128 + signo)

    def test_ctrl_c_at_a_terminal(self):
        """The terminal signals the client alone: caissond has a session of its own."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(CAISSON, ["caisson", "exec", "--state", str(self.state), "--", "sh", "-c",
                                TRAPS], environment())
        self.addCleanup(os.close, terminal)
        seen = b""

        def until(text):
            nonlocal seen
            while text not in seen:
                seen += os.read(terminal, 4096)
            seen = seen.split(text, 1)[1]

        until(b"ready")
        os.write(terminal, b"\x03")
        until(b"got INT")
        os.write(terminal, b"\x03")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]),
                         128 + signal.SIGKILL)

    def test_a_killed_client_leaves_nothing_running(self):
        p = self.trapping()
        children = below(p.pid)
        self.assertGreaterEqual(len(children), 4)
        p.kill()
        wait_for(lambda: not any(pathlib.Path("/proc", str(q)).exists() and
                                 (proc_text(q, "stat") or ") Z").rpartition(")")[2].split()[0]
                                 not in "ZX" for q in children), "the end of its children")


class Chamber(Case):
    def out(self, *words, **popen):
        status, out, err = self.caisson("exec", *words, **popen)
        self.assertEqual(status, 0, err)
        return out.decode()

    def test_it_is_a_chamber_and_not_the_host(self):
        status, out, err = self.caisson("exec", "--", "/bin/sh", "-c",
                                        "id; cat /etc/shadow; ls /; ls /proc; exit 0")
        self.assertEqual((status, err), (0, "cat: /etc/shadow: No such file or directory\n"))
        lines = out.decode().split("\n")
        self.assertEqual(lines[0], "uid=1000(caisson) gid=1000(caisson) groups=1000(caisson)")
        self.assertLessEqual(set(lines[1:]) - {""}, {
            "bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr",
            "self", "thread-self"} | {str(n) for n in range(1, 20)})
        self.assertNotIn("home", lines)

    def test_the_environment_is_the_list_and_what_was_named(self):
        own = ["HOME=/tmp", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin"]
        env = {"SECRET": "s", "LD_PRELOAD": "", "GIVEN": "a b", "BASH_ENV": "x"}
        self.assertEqual(sorted(self.out("--", "env", env=env).splitlines()), own)
        self.assertEqual(
            sorted(self.out("--env", "GIVEN", "--env", "SET=1=2", "--env", "EMPTY=", "--", "env",
                            env=env).splitlines()),
            sorted(own + ["GIVEN=a b", "SET=1=2", "EMPTY="]))

    def test_its_descriptors_are_three_pipes(self):
        with open(__file__, "rb") as leak:
            os.set_inheritable(leak.fileno(), True)
            out = self.out("--", "sh", "-c", "ls -l /proc/$$/fd", pass_fds=[leak.fileno()])
        found = re.findall(r" (\d+) -> (\w+):", out)
        self.assertEqual(found, [("0", "pipe"), ("1", "pipe"), ("2", "pipe")])

    def test_the_application_is_its_read_only_working_directory(self):
        app = self.dir / "app"
        app.mkdir()
        (app / "tool").write_text("#!/bin/sh\npwd; cat data; echo x >data || echo refused\n")
        (app / "tool").chmod(0o755)
        (app / "data").write_text("data\n")
        for given, cwd in ((app, None), ("app", self.dir), ("../app", app), ("link", self.dir)):
            with contextlib.suppress(FileExistsError):
                (self.dir / "link").symlink_to("app")
            self.assertEqual(self.out("--app", given, "--", "/app/tool", cwd=cwd),
                             "/app\ndata\nrefused\n")
        self.assertEqual((app / "data").read_text(), "data\n")
        self.refused("--app: nothing: No such file", "exec", "--app", "nothing", "--", "true",
                     cwd=self.dir)
        self.refused("--app: tool: is no directory", "exec", "--app", "tool", "--", "true",
                     cwd=app)

    def test_mounts_by_every_kind_of_path(self):
        d = self.dir / "d"
        d.mkdir()
        (d / "f").write_text("inside\n")
        (self.dir / "link").symlink_to("d")
        (self.dir / "flink").symlink_to("d/f")
        for source, at in (("d", "/x"), ("./d", "/x"), ("link", "/x"), (d, "/x"), (d, "/a/b/c"),
                           ("d", None), ("link", None)):
            place = at or str(d)
            given = f"{source}:{at}" if at else str(source)
            self.assertEqual(self.out("--ro", given, "--", "cat", f"{place}/f", cwd=self.dir),
                             "inside\n")
        for source in ("d/f", "flink"):
            self.assertEqual(self.out("--ro", f"{source}:/etc/one", "--", "sh", "-c",
                                      "cat /etc/one; echo x >/etc/one || echo refused",
                                      cwd=self.dir), "inside\nrefused\n")
        self.assertEqual((d / "f").read_text(), "inside\n")

    def test_a_writable_mount_is_written_as_its_owner(self):
        d = self.dir / "d"
        d.mkdir()
        if IS_ROOT:
            os.chown(d, 12345, 12346)
        self.out("--rw", f"{d}:/out", "--", "sh", "-c", "echo w >/out/f; mkdir /out/sub")
        for name in ("f", "sub"):
            st, parent = (d / name).stat(), d.stat()
            self.assertEqual((st.st_uid, st.st_gid), (parent.st_uid, parent.st_gid))
        self.assertEqual((d / "f").read_text(), "w\n")

    def test_a_mount_that_cannot_be_is_said(self):
        (self.dir / "d").mkdir()
        (self.dir / "dangling").symlink_to("nowhere")
        for mount, said in ((["--ro", "nothing:/x"], "--ro: nothing: No such file"),
                            (["--rw", "dangling:/x"], "--rw: dangling: No such file"),
                            (["--ro", "d:x"], "not absolute"),
                            (["--ro", ":/x"], "has no path"),
                            (["--ro", "d:/"], "is no absolute path"),
                            (["--ro", "d:/a/../b"], "is no absolute path"),
                            (["--ro", "d:/proc/x"], "lies in /proc"),
                            (["--ro", "d:/dev"], "is the chamber's own"),
                            (["--ro", "d:/x", "--rw", "d:/x"], "the place of another mount"),
                            (["--app", "d", "--ro", "d:/app"], "the place of the application")):
            self.refused(said, "exec", *mount, "--", "true", cwd=self.dir)

    def test_what_this_user_may_not_read_is_not_shown(self):
        if IS_ROOT:
            self.skipTest("root reads everything")
        self.assertNotEqual(self.caisson("exec", "--ro", "/root:/x", "--", "ls", "/x")[0], 0)


class Limits(Case):
    def test_tmp_is_bounded(self):
        script = "head -c 3000000 /dev/zero >/tmp/f || stat -c %s /tmp/f"
        status, out, err = self.caisson("exec", "--tmp", "1MiB", "--", "sh", "-c", script)
        self.assertEqual((status, out), (0, b"1048576\n"))
        self.assertIn("No space left", err)

    def test_memory_is_bounded(self):
        program = "import sys; print('ready', flush=True); x = bytearray(400 << 20); print('no')"
        status, events = self.events("exec", "--memory", "128MiB", "--", "python3", "-c", program)
        self.assertEqual(output_of(events), b"ready\n")
        self.assertIn((status, ending(events).get("cause", {}).get("kind")),
                      ((137, "oom"), (1, None)))
        if status == 1:  # without a cgroup the address space is bounded: the allocation fails
            self.assertIn(b"MemoryError", output_of(events, "stderr"))

    def test_processes_are_bounded(self):
        status, out, err = self.caisson(
            "exec", "--pids", "16", "--", "sh", "-c",
            "i=0; while [ $i -lt 64 ]; do sleep 1000 & i=$((i+1)); done; echo all")
        self.assertNotEqual(status, 0)
        self.assertEqual(out, b"")
        self.assertIn("fork", err)

    def test_a_share_of_the_processor_is_enforced_or_refused(self):
        script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done"
        status, out, err = self.caisson("exec", "--cpu", "50", "--", "sh", "-c", script)
        if status == 125:
            self.assertRegex(err, r"\Acaissond: error: cgroup: [^\n]*processor[^\n]*\n\Z")
        else:
            self.assertEqual((status, out), (0, b"done\n"))

    def test_mistakes_are_one_line(self):
        for words, said in ((["--memory", "12"], "--memory"), (["--memory", "0KiB"], "--memory"),
                            (["--tmp", "x"], "--tmp"), (["--pids", "0"], "--pids"),
                            (["--pids", "-1"], "--pids"), (["--cpu", "1.5"], "--cpu"),
                            (["--timeout", "0s"], "--timeout"), (["--timeout", "1"], "--timeout"),
                            (["--env", "1A=x"], "--env"), (["--env", "A-B=x"], "--env"),
                            (["--env", "NOT_SET_HERE"], "--env"),
                            (["--profile", "big"], "--profile"), (["--nope"], "--nope"),
                            (["-o", "xml"], "--output"), (["-c", "/nowhere"], "/nowhere"),
                            (["--root", "/"], "--root"), (["--timeout", "1s"] * 2, "twice")):
            self.refused(said, "exec", *words, "--", "true")
        self.refused("needs -- COMMAND", "exec")
        self.refused("no COMMAND", "exec", "--")
        self.refused("no COMMAND", "exec", "--", "")

    def test_the_secret_in_a_wrong_variable_is_not_shown(self):  # D-12
        _, _, err = self.caisson("exec", "--env", "A-B=hunter2", "--", "true")
        self.assertNotIn("hunter2", err)


class Afterwards(Case):
    def test_nothing_is_left_after_thirty(self):
        for i in range(10):
            self.caisson("exec", "--", "true")
            self.caisson("exec", "--memory", "64MiB", "--timeout", "200ms", "--", "sleep", "1000")
            p = self.start("exec", "--", "sh", "-c", "setsid sleep 1000 & echo ready; cat")
            self.assertEqual(p.stdout.readline(), b"ready\n")
            p.kill()
            p.wait()
        mark = str(self.state)
        wait_for(lambda: [q for q in marked(mark) if q != os.getpid()] == [], "no process")
        nothing_left()


if __name__ == "__main__":
    unittest.main()
