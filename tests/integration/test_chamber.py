"""What a program sees and can do in a chamber: each attempt is made for real."""

import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from wire import SANITIZED

BUILD = os.environ.get("CAISSON_BUILD", os.path.join(os.getcwd(), "build"))
RUN = os.path.join(BUILD, "test", "program", "chamber_run")
ROOT = os.geteuid() == 0
METER_CGROUP_V2 = 3  # common/control.h


def chamber(*command, options=(), stdin=subprocess.DEVNULL):
    """Runs `command` in a chamber; returns its output, its errors and how it ended."""
    done = subprocess.run([RUN, *options, "--", *command], stdin=stdin, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    errors, _, last = done.stderr.decode().rstrip("\n").rpartition("\n")
    return done.stdout.decode(), errors, json.loads(last)


def shell(script, options=()):
    return chamber("/bin/sh", "-c", script, options=options)


def python(script, options=("-p", "interpreter")):
    return chamber("/usr/bin/python3", "-I", "-c", script, options=options)


class Sees(unittest.TestCase):
    def test_the_root_holds_what_was_put_there_and_nothing_else(self):
        out, _, _ = shell("ls -A /")
        allowed = {"bin", "sbin", "lib", "lib32", "lib64", "usr", "etc", "dev", "proc", "tmp"}
        self.assertLessEqual(set(out.split()), allowed)

    def test_no_secret_of_the_host_is_there(self):
        self.assertTrue(os.path.exists("/etc/shadow"), "the host has one")
        for path in ("/etc/shadow", "/root", "/home", "/var", "/run", "/sys", "/boot",
                     "/etc/ssh", "/dev/shm/../sda", "/dev/tty", "/dev/ptmx", "/dev/mem"):
            with self.subTest(path):
                _, errors, end = shell(f"cat {path} || ls {path}")
                self.assertNotEqual(end["status"], 0)
                self.assertIn("No such file", errors)

    def test_passwd_is_made_up(self):
        out, _, _ = shell("cat /etc/passwd")
        self.assertEqual(len(out.splitlines()), 2)
        self.assertNotIn("root", out)

    def test_proc_shows_the_program_and_nothing_of_the_host(self):
        out, _, _ = python("import os; print([p for p in os.listdir('/proc') if p.isdigit()], "
                           "os.getpid(), os.path.exists('/proc/sys'), "
                           "os.path.exists('/proc/cpuinfo'), os.path.exists('/proc/1'))")
        pids, pid, *others = re.match(r"\[(.*)\] (\d+) (\w+) (\w+) (\w+)", out).groups()
        self.assertEqual(pids, f"'{pid}'")
        self.assertEqual(others, ["False"] * 3)

    def test_status_of_the_process(self):
        out, _, _ = shell("cat /proc/self/status")
        status = dict(line.split(":\t", 1) for line in out.splitlines() if ":\t" in line)
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(status["Seccomp"], "2")
        self.assertEqual(status["Uid"].split(), ["1000"] * 4)
        self.assertEqual(status["Gid"].split(), ["1000"] * 4)
        if ROOT:
            self.assertEqual(status["Groups"].split(), [])

    def test_no_signal_is_ignored_or_blocked_that_was_above(self):
        every = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD})

        def ignore():
            for signo in every:
                signal.signal(signo, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, every)

        done = subprocess.run([RUN, "--", "cat", "/proc/self/status"], timeout=120,
                              preexec_fn=ignore, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        status = dict(line.split(":\t", 1) for line in done.stdout.decode().splitlines()
                      if ":\t" in line)
        for name in ("SigBlk", "SigIgn", "SigCgt"):
            self.assertEqual(int(status[name], 16), 0, name)

    def test_hostname_and_core_limit(self):
        out, _, _ = shell("uname -n; ulimit -c")
        self.assertEqual(out.split(), ["caisson", "0"])

    def test_the_terminal_is_not_its_own(self):
        out, _, _ = python("import os; print(os.getsid(0) == os.getpid())")
        self.assertEqual(out.strip(), "True")


class Writes(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="chamber-")
        self.addCleanup(shutil.rmtree, self.dir)
        with open(os.path.join(self.dir, "file"), "w") as f:
            f.write("before")

    def test_nowhere_but_in_tmp(self):
        for path in ("/x", "/usr/x", "/usr/bin/x", "/etc/x", "/etc/passwd", "/app/x",
                     "/app/file", "/dev/x", "/lib/x", "/proc/x"):
            with self.subTest(path):
                out, _, end = python(
                    f"import errno, os\n"
                    f"try: os.open({path!r}, os.O_WRONLY | os.O_CREAT, 0o600)\n"
                    f"except OSError as e: print(errno.errorcode[e.errno])",
                    options=("-m", f"{self.dir}:/app"))
                self.assertIn(out.strip(), ("EROFS", "EACCES", "ENOENT"))
                self.assertEqual(end["status"], 0)
        with open(os.path.join(self.dir, "file")) as f:
            self.assertEqual(f.read(), "before")

    def test_modes_and_times_of_what_is_read_only_stay(self):
        # Landlock does not cover these: the mount does.
        out, _, _ = python(
            "import os\n"
            "for f in (lambda: os.chmod('/app/file', 0o777), lambda: os.utime('/app/file'),\n"
            "          lambda: os.chmod('/usr/bin/env', 0o777)):\n"
            "    try: f(); print('done')\n"
            "    except OSError as e: print(e.errno)",
            options=("-m", f"{self.dir}:/app"))
        self.assertEqual(out.split(), ["30"] * 3)

    def test_tmp_is_private_and_bounded(self):
        out, errors, end = shell("echo a > /tmp/a && ls /tmp; cat /dev/zero > /tmp/b; ls -s /tmp/b",
                                 options=("-t", "1048576"))
        self.assertIn("No space left", errors)
        self.assertEqual(out.split()[0], "a")
        self.assertLessEqual(int(out.split()[1]), 1024)
        self.assertEqual(end["status"], 0)

    def test_tmp_is_bounded_in_files(self):
        out, _, _ = python(
            "n = 0\n"
            "try:\n"
            "    while n < 100000:\n"
            "        open(f'/tmp/{n}', 'w').close(); n += 1\n"
            "except OSError as e: print(e.errno, n < 20000)")
        self.assertEqual(out.split(), ["28", "True"])

    def test_a_writable_directory_is_written_by_its_owner(self):
        _, errors, end = shell("echo new > /data/new && mkdir /data/d && mv /data/new /data/d/",
                               options=("-m", f"{self.dir}:/data:w"))
        self.assertEqual((errors, end["status"]), ("", 0))
        st = os.stat(os.path.join(self.dir, "d", "new"))
        self.assertEqual((st.st_uid, st.st_gid), (os.geteuid(), os.getegid()))

    @unittest.skipUnless(ROOT, "a directory of another user needs root")
    def test_a_directory_of_another_user_stays_his(self):
        os.chown(self.dir, 4242, 4343)
        os.chmod(self.dir, 0o700)
        _, errors, end = shell("echo new > /data/new", options=("-m", f"{self.dir}:/data:w"))
        self.assertEqual((errors, end["status"]), ("", 0))
        st = os.stat(os.path.join(self.dir, "new"))
        self.assertEqual((st.st_uid, st.st_gid), (4242, 4343))

    def test_nothing_that_it_wrote_can_be_executed(self):
        for options, directory in (((), "/tmp"), (("-m", f"{self.dir}:/data:w"), "/data")):
            with self.subTest(directory):
                _, errors, end = shell(
                    f"cp /bin/true {directory}/t && chmod 755 {directory}/t && {directory}/t",
                    options=options)
                self.assertIn("Permission denied", errors)
                self.assertEqual(end["status"], 126)

    def test_a_link_out_of_a_writable_directory_leads_nowhere(self):
        os.symlink("/etc/shadow", os.path.join(self.dir, "link"))
        os.symlink("../../../../etc/shadow", os.path.join(self.dir, "link2"))
        _, errors, end = shell("cat /data/link /data/link2",
                               options=("-m", f"{self.dir}:/data:w"))
        self.assertEqual(errors.count("No such file"), 2)
        self.assertEqual(end["status"], 1)


class Mounts(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="chamber-")
        self.addCleanup(shutil.rmtree, self.dir)

    def test_a_link_planted_at_a_mount_point_is_not_followed(self):
        # An earlier chamber could write here.
        for name, to in (("sub", "/etc"), ("deep", "/tmp")):
            os.symlink(to, os.path.join(self.dir, name))
        for target in ("/data/sub", "/data/deep/er"):
            with self.subTest(target):
                out, _, end = chamber("echo", "it ran", options=(
                    "-m", f"{self.dir}:/data:w", "-m", f"/usr/share:{target}"))
                self.assertEqual((out, end["event"], end["layer"]), ("", "refused", "mounts"))
        self.assertFalse(os.path.exists("/tmp/er"))

    def test_a_target_cannot_climb(self):
        for target in ("/a/../../x", "/..", "/", "/./x"):
            with self.subTest(target):
                _, _, end = chamber("true", options=("-m", f"/usr/share:{target}"))
                self.assertEqual((end["event"], end["layer"]), ("refused", "mounts"))

    def test_a_mount_over_what_the_chamber_has_is_the_operators_wish(self):
        out, _, _ = shell("ls /tmp", options=("-m", f"{self.dir}:/tmp:w"))
        self.assertEqual(out, "")

    def tree(self):
        """A program and a directory beside it; the program's own directory and a file there."""
        data = os.path.join(self.dir, "app", "data")
        os.makedirs(data)
        shutil.copy("/bin/true", os.path.join(self.dir, "app", "program"))
        with open(os.path.join(data, "kept"), "w", encoding="ascii") as f:
            f.write("the host's\n")
        return os.path.dirname(data), data

    def test_what_is_dropped_does_not_run_by_another_way_to_it(self):
        app, data = self.tree()
        drop = "cp /app/program /data/dropped && chmod 755 /data/dropped && "
        for name, mounts, dropped in (
                ("within the program's", (f"{app}:/app", f"{data}:/data:w"), "/app/data/dropped"),
                ("the same", (f"{app}:/app", f"{data}:/data:w", f"{data}:/again"),
                 "/again/dropped")):
            options = [word for m in mounts for word in ("-m", m)]
            with self.subTest(name):
                _, _, end = shell(f"{drop} {dropped}", options=options)
                self.assertEqual(end["status"], 126)
                out, _, _ = shell(f"{drop} /app/program && ls {dropped} /app/data/kept",
                                  options=options)
                self.assertEqual(out.split(), [dropped, "/app/data/kept"])

    def test_what_is_read_only_in_a_writable_directory_stays_where_it_is(self):
        app, data = self.tree()
        move = (f"cd {app}; echo mine > data/kept; mv data other; rm -r data; mkdir -p data; "
                "echo mine > data/kept; echo written > free")
        for mounts in ((f"{app}:{app}:w", f"{data}:{data}"), (f"{data}:{data}", f"{app}:{app}:w")):
            with self.subTest(mounts):
                shell(move, options=[word for m in mounts for word in ("-m", m)])
                with open(os.path.join(data, "kept"), encoding="ascii") as f:
                    self.assertEqual(f.read(), "the host's\n")
                os.unlink(os.path.join(app, "free"))

    def test_what_lies_between_cannot_be_moved_away(self):
        _, data = self.tree()
        kept = os.path.join(data, "kept")
        move = (f"cd {self.dir}; mv app other; mkdir -p app/data && echo mine > app/data/kept; "
                "mv app/data app/more; echo written > free")
        some = ("-m", f"{self.dir}:{self.dir}:w", "-m", f"{kept}:{kept}")
        shell(move, options=some)
        self.assertTrue(os.path.exists(os.path.join(self.dir, "free")))
        with open(kept, encoding="ascii") as f:
            self.assertEqual(f.read(), "the host's\n")
        out, _, _ = shell(f"cd {self.dir}/app && echo more > data/more && cat data/more",
                          options=some)
        self.assertEqual(out, "more\n")

    @unittest.skipUnless(ROOT, "only root gives files away")
    def test_what_lies_between_and_is_somebody_else_s_is_not_shown_as_one_s_own(self):
        _, data = self.tree()
        kept = os.path.join(data, "kept")
        os.chown(data, 12345, 12345)
        options = ("-m", f"{self.dir}:{self.dir}:w", "-m", f"{kept}:{kept}")
        _, errors, end = shell(f"echo mine > {data}/mine", options=options)
        self.assertEqual((end["event"], end["layer"]), ("refused", "plan"), errors)
        out, _, _ = shell("echo mine", options=(*options, "-m", f"{data}:{data}"))
        self.assertEqual(out, "mine\n")

    def test_the_system_cannot_be_shown_writable(self):
        _, _, end = chamber("true", options=("-m", "/usr:/data:w"))
        self.assertEqual((end["event"], end["layer"]), ("refused", "plan"))

    @unittest.skipUnless(ROOT, "mounts are id-mapped by root only")
    def test_a_file_system_that_cannot_map_ids_is_refused(self):
        _, _, end = chamber("true", options=("-m", "/sys/fs:/x"))
        self.assertEqual((end["event"], end["layer"]), ("refused", "uid"))

    def test_our_own_programs_are_shown_to_our_own(self):
        for profile in ("broker", "ledger", "provider"):
            out, errors, _ = chamber("ls", "-A", "/", options=("-p", profile))
            self.assertIn("libexec", out.split(), errors)
            if profile != "provider":
                self.assertLessEqual({"libexec", "usr", "dev"}, set(out.split()))
                self.assertNotIn("etc", out.split())
                self.assertNotIn("proc", out.split())


class Reaches(unittest.TestCase):
    def test_no_network(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        # Outside it can be reached, by this very user.
        socket.create_connection(listener.getsockname()).close()
        out, _, _ = python(
            "import socket\n"
            "for f in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK):\n"
            "    try: socket.socket(f, socket.SOCK_RAW if f == 16 else socket.SOCK_STREAM)\n"
            "    except OSError as e: print(e.errno)")
        self.assertEqual(out.split(), ["13"] * 4)

    def test_declared_hosts_have_the_network_and_nothing_else(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        port = listener.getsockname()[1]
        out, errors, _ = python(f"import socket; socket.create_connection(('127.0.0.1', {port})); "
                                "print('connected')\n"
                                "try: socket.socket(socket.AF_UNIX)\n"
                                "except OSError as e: print(e.errno)",
                                options=("-p", "provider", "-N"))
        self.assertEqual((errors, out.split()), ("", ["connected", "13"]))

    def test_a_packet_socket_is_a_violation(self):
        _, _, end = python("import socket; socket.socket(17, 3)")
        self.assertEqual((end["cause"], end["syscall"]), ("seccomp", "socket"))

    def test_no_process_of_the_host(self):
        out, _, _ = python("import os\n"
                           f"try: os.kill({os.getpid()}, 0)\n"
                           "except OSError as e: print(e.errno)")
        self.assertEqual(out.strip(), "3")

    def test_violations_are_named(self):
        for name, nr in (("ptrace", 101), ("mount", 165), ("umount2", 166), ("unshare", 272),
                         ("setns", 308), ("bpf", 321), ("perf_event_open", 298),
                         ("userfaultfd", 323), ("add_key", 248), ("kexec_load", 246),
                         ("open_tree", 428), ("pivot_root", 155), ("chroot", 161),
                         ("open_by_handle_at", 304), ("init_module", 175), ("reboot", 169)):
            if name == "ptrace" and SANITIZED:
                continue  # LeakSanitizer needs it
            with self.subTest(name):
                _, _, end = python(f"import ctypes; ctypes.CDLL(None).syscall({nr}, 0, 0, 0)")
                self.assertEqual((end["cause"], end["syscall"]), ("seccomp", name))


class WithoutFilter(unittest.TestCase):
    """Broker and ledger load a list of their own: the other layers hold by themselves."""

    def attempt(self, *command):
        _, errors, end = chamber(*command, options=("-p", "broker", "-I"))
        self.assertEqual(end["event"], "exit")
        self.assertNotEqual(end["status"], 0)
        return errors

    def test_no_user_namespace(self):
        self.assertIn("No space left", self.attempt("unshare", "-U", "true"))

    def test_no_other_namespace(self):
        for option in ("-m", "-n", "-p", "-i", "-u", "-C"):
            self.assertIn("Operation not permitted", self.attempt("unshare", option, "true"))

    def test_no_network(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        port = listener.getsockname()[1]
        self.attempt("bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}")

    def test_nothing_can_be_written(self):
        for path in ("/x", "/usr/x", "/libexec/x", "/dev/x"):
            self.attempt("sh", "-c", f": > {path}")


class Limits(unittest.TestCase):
    def test_processes(self):
        out, _, end = python(
            "import os, signal\n"
            "n = 0\n"
            "try:\n"
            "    while n < 100:\n"
            "        if os.fork() == 0: signal.pause()\n"
            "        n += 1\n"
            "except OSError as e: print(e.errno, n)",
            options=("-n", "8"))
        self.assertEqual(out.split(), ["11", "7"])
        self.assertEqual(end["status"], 0)

    def test_memory(self):
        _, _, end = python("b = b'x' * (512 << 20)", options=("-M", str(256 << 20)))
        v1 = ROOT and os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes")
        if v1 or end["meter"] == METER_CGROUP_V2:
            self.assertEqual(end["cause"], "oom")
        else:
            self.assertEqual(end["status"], 1)  # MemoryError

    def test_cpu_seconds(self):
        _, _, end = shell("while :; do :; done", options=("-c", "1"))
        self.assertEqual((end["kind"], end["status"]), (2, 24))  # SIGXCPU
        self.assertEqual((end["cause"], end["limit"]), ("limit", "cpu_time"))

    def test_a_share_of_the_processor_is_enforced_or_refused(self):
        _, _, end = shell("true", options=("-C", "50"))
        if end["event"] == "refused":
            self.assertEqual(end["layer"], "cgroup")
            self.assertIn("processor", end["why"])
        else:
            self.assertEqual(end["status"], 0)

    def test_no_group_is_left(self):
        p = subprocess.Popen([RUN, "-C", "50", "-M", str(256 << 20), "--", "true"],
                             stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        p.wait()
        # Of others that were killed there may be some, until the next one sweeps.
        self.assertEqual(glob.glob(f"/sys/fs/cgroup/**/caisson-{p.pid}-*", recursive=True), [])


class Works(unittest.TestCase):
    """The lists must not be in the way of honest programs."""

    def test_a_shell_with_pipes(self):
        out, errors, end = shell("seq 1000 | sort -rn | head -3 | tr '\\n' ' '; "
                                 "cd /tmp; touch a b; cp -a a c; mv b d; ln -s a l; ls | wc -l; "
                                 "find . -name a; du -s . >/dev/null; df . >/dev/null; "
                                 "tar cf t.tar a c && tar tf t.tar | wc -l; stat -c %s a; "
                                 "dd if=/dev/zero bs=1k count=1 2>/dev/null | sha256sum | cut -c1-4; "
                                 "mkfifo p; date +%Z >/dev/null; sed -i s/x/y/ a; rm -r /tmp/c; id -un")
        self.assertEqual(errors, "")
        self.assertEqual(end["status"], 0)
        self.assertEqual(out.split(), ["1000", "999", "998", "4", "./a", "2", "0", "5f70", "caisson"])

    def test_python_with_threads_children_and_asyncio(self):
        out, errors, end = python(
            "import asyncio, mmap, os, pwd, subprocess, tempfile, threading, json, sqlite3\n"
            "import concurrent.futures, multiprocessing, shutil, socket, ssl, time, uuid\n"
            "with concurrent.futures.ThreadPoolExecutor(8) as p:\n"
            "    assert sum(p.map(lambda x: x * x, range(100))) == 328350\n"
            "assert subprocess.run(['sh', '-c', 'exit 3']).returncode == 3\n"
            "m = mmap.mmap(-1, 1 << 20); m[5] = 1\n"
            "a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n"
            "async def f():\n"
            "    p = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\n"
            "    return (await p.communicate())[0]\n"
            "assert asyncio.run(f()) == b'hi\\n'\n"
            "with tempfile.TemporaryDirectory() as d:\n"
            "    sqlite3.connect(d + '/db').execute('create table t (a)')\n"
            "    shutil.copy('/usr/bin/env', d)\n"
            "with multiprocessing.Pool(2) as p: assert p.map(abs, [-1, -2]) == [1, 2]\n"
            "print(pwd.getpwuid(os.getuid()).pw_name)\n")
        self.assertEqual((errors, out.strip(), end["status"]), ("", "caisson", 0))

    def test_standard_streams_by_name(self):
        done = subprocess.run([RUN, "--", "bash", "-c",
                               "echo a > /dev/stdout; cat /dev/stdin >> /dev/fd/1; cat <(echo c); "
                               "echo d > /dev/stderr"],
                              input=b"b\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.stdout, b"a\nb\nc\n")
        self.assertEqual(done.stderr.splitlines()[0], b"d")

    def test_perl_and_awk(self):
        out, errors, _ = shell("perl -e 'print 6*7, qq(\\n); system q(echo child)'; "
                               "awk 'BEGIN { print 1+1 }'")
        self.assertEqual((errors, out.split()), ("", ["42", "child", "2"]))


class Refused(unittest.TestCase):
    def nested(self, script):
        done = subprocess.run(["unshare", "-Ur", "--mount", "sh", "-c", f"{script}; exec \"$@\"",
                               "sh", RUN, "--", "echo", "it ran"], timeout=120,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        return done.stdout.decode(), json.loads(done.stderr.decode().splitlines()[-1])

    def test_root_of_one_uid_is_not_taken_for_root(self):
        out, end = self.nested(":")
        self.assertEqual((out, end["event"], end["status"]), ("it ran\n", "exit", 0))

    def test_without_user_namespaces_it_says_what_to_do(self):
        out, end = self.nested("echo 0 >/proc/sys/user/max_user_namespaces")
        self.assertEqual((out, end["event"], end["layer"]), ("", "refused", "user namespace"))
        self.assertIn("user.max_user_namespaces", end["why"])

    def test_where_proc_is_masked_it_says_so(self):
        out, end = self.nested("mount -t tmpfs none /proc/sys")
        self.assertEqual((out, end["event"]), ("", "refused"))
        self.assertIn(end["layer"], ("user namespace", "proc"))

    def test_where_proc_sys_is_read_only_it_says_so(self):
        out, end = self.nested("mount --bind /proc/sys /proc/sys && "
                               "mount -o remount,bind,ro,nosuid,nodev,noexec /proc/sys || "
                               "mount -o remount,bind,ro /proc/sys")
        self.assertEqual((out, end["event"]), ("", "refused"))
        self.assertIn("/proc", end["why"])


class Dies(unittest.TestCase):
    def test_with_its_supervisor(self):
        # The whole tree holds the pipe: end-of-file means that nobody is left.
        p = subprocess.Popen([RUN, "--", "sh", "-c",
                              "(setsid sh -c 'sleep 1000' &); echo up; sleep 1000"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)
        self.assertEqual(p.stdout.readline(), b"up\n")
        p.kill()
        self.assertEqual(p.stdout.read(), b"")
        p.wait()
        p.stdout.close()

    def test_leaving_no_mount(self):
        with open("/proc/self/mountinfo") as f:
            before = f.read()
        self.test_with_its_supervisor()
        with open("/proc/self/mountinfo") as f:
            self.assertEqual(f.read(), before)


def uid_of(pid):
    """None if it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return re.search(r"^Uid:\t(\d+)", f.read(), re.M)[1]
    except (FileNotFoundError, ProcessLookupError):
        return None


@unittest.skipUnless(ROOT, "uids can be claimed by root only")
class Identity(unittest.TestCase):
    def test_two_chambers_have_two_uids(self):
        running = [subprocess.Popen([RUN, "--", "sh", "-c", "echo up; read x"],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL) for _ in range(2)]
        uids = []
        for p in running:
            self.assertEqual(p.stdout.readline(), b"up\n")
            with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
                children = f.read().split()
            # Beside pid 1 there may be its launcher, or one that stands by already: as root.
            uids += {uid_of(child) for child in children} - {"0", None}
        for p in running:
            p.communicate(b"\n")
        self.assertEqual(len(uids), 2)
        self.assertEqual(len({"0", "1000", *uids}), 4)


class StoodBy:
    """The same of a chamber that stood by before it was wanted, by chamber_run."""

    @classmethod
    def setUpClass(cls):
        os.environ["CHAMBER_STANDS"] = ""
        cls.addClassCleanup(os.environ.pop, "CHAMBER_STANDS")

    def test_that_it_did(self):
        for options in ((), ("-p", "interpreter", "-n", "8", "-M", str(256 << 20)), ("-I",)):
            with self.subTest(options):
                _, errors, end = chamber("/bin/true", options=options)
                self.assertIs(end["stood"], True, errors)


class SeesOfOneThatStoodBy(StoodBy, Sees):
    pass


class WritesOfOneThatStoodBy(StoodBy, Writes):
    @unittest.skipUnless(ROOT, "mounts of its own are root's only")
    def test_that_it_did(self):
        _, errors, end = chamber("/bin/true", options=("-m", f"{self.dir}:/data:w"))
        self.assertIs(end["stood"], True, errors)


class MountsOfOneThatStoodBy(StoodBy, Mounts):
    pass


class ReachesFromOneThatStoodBy(StoodBy, Reaches):
    pass


class LimitsOfOneThatStoodBy(StoodBy, Limits):
    pass


class IdentityOfOneThatStoodBy(StoodBy, Identity):
    pass


if __name__ == "__main__":
    unittest.main()
