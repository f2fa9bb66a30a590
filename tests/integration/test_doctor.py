"""`caisson doctor`: what is missing is named with its remedy, on machines that lack it.

A machine that lacks a layer is this one with its calls failing as they would there, or a
place in it where the kernel says no: an outer user namespace, bubblewrap, a bare chamber.
"""

import json
import os
import pathlib
import pty
import select
import shutil
import subprocess
import sys
import unittest

import real
import wire

DOCTOR = [real.CAISSON, "doctor"]
CHAMBER_RUN = wire.program("program/chamber_run")
PROFILES = {"native", "interpreter", "jit", "provider", "files", "broker", "ledger"}


class Case(real.Case):
    def doctor(self, *words, before=(), status=None, env=None):
        """The report of `-o json`; its form is checked."""
        for _ in range(3):
            done = subprocess.run(
                [*before, *DOCTOR, "-o", "json", "--state", str(self.state), *words],
                env=real.environment(**(env or {})), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=2 * wire.TIMEOUT)
            # Its own race, with the stop in which its child waits for it: nothing was run.
            if not (before and done.stderr.startswith(b"strace: ptrace(PTRACE_LISTEN")):
                break
        return self.read(done.stdout, done.returncode, status, done.stderr)

    def read(self, out, returned, status, err=b""):
        try:
            report = json.loads(out)
        except ValueError:
            self.fail(f"{returned}: {out!r} {err!r}")
        self.assertEqual(out.count(b"\n"), 1)
        self.assertEqual(returned, 0 if report["enforced"] else 1)
        if status is not None:
            self.assertEqual(returned, status, self.gaps(report))
        self.rows = {row["id"]: row for row in report["rows"]}
        self.profiles = {p["name"]: p for p in report["profiles"]}
        self.assertLessEqual(PROFILES, set(self.profiles))
        self.assertEqual(self.profiles[report["default"]]["enforced"], report["enforced"])
        for row in report["rows"]:
            self.assertEqual(set(row), {"id", "group", "title", "purpose", "need", "state",
                                        "error", "detail", "remedy"})
            self.assertIn(row["need"], ("needed", "wanted", "information"))
            self.assertTrue(row["detail"], row)
            self.assertNotEqual(row["detail"], "", row)
        return report

    @staticmethod
    def gaps(report):
        return [(r["id"], r["state"], r["detail"])
                for r in report["rows"] if r["state"] != "yes"]

    def missing(self, row, remedy, error=None):
        """It is not there, counts, and says what to do."""
        self.assertEqual(self.rows[row]["state"], "no", self.rows[row])
        self.assertIn(remedy, self.rows[row]["remedy"])
        if error:
            self.assertEqual(self.rows[row]["error"], error)


class Sound(Case):
    def test_this_machine_is_fit_for_its_own_tests(self):
        report = self.doctor(status=0)
        self.assertEqual(report["root"], real.IS_ROOT)
        for row in report["rows"]:
            if row["need"] == "needed":
                self.assertIn(row["state"], ("yes", "not_applicable"), row)
        for profile in self.profiles.values():
            self.assertTrue(profile["launched"], profile)
            self.assertEqual((profile["layer"], profile["message"], profile["because"]),
                             (None, "", []))

    def test_what_root_gets_and_others_do_not(self):
        self.doctor(status=0)
        if real.IS_ROOT:
            self.assertEqual(self.rows["own_uid"]["state"], "yes")
            self.assertNotIn("uid", self.profiles["interpreter"]["absent"])
        else:
            self.missing("own_uid", "as root")
            self.assertIn("uid", self.profiles["interpreter"]["absent"])
            self.assertIn("own_uid", self.profiles["interpreter"]["without"])
            self.assertEqual(self.rows["append_only"]["state"], "not_applicable")
            self.assertEqual(self.rows["workspace_quota"]["state"], "not_applicable")

    @unittest.skipIf(wire.SANITIZED, "a sanitizer needs more address space than any limit")
    def test_a_limit_that_the_doctor_sees_is_one_that_a_chamber_gets(self):
        self.doctor(status=0)
        for row, words in (("cgroup_memory", ["--memory", "256MiB"]),
                           ("cgroup_cpu", ["--cpu", "50"]), ("cgroup_pids", ["--pids", "32"])):
            status, _, err = self.caisson("exec", *words, "--", "true")
            if self.rows[row]["state"] == "yes":
                self.assertEqual(status, 0, err)
            else:
                self.assertTrue(self.rows[row]["remedy"], row)
                # Memory and processes have rlimits besides; a share of the processor has not.
                self.assertEqual(status, 125 if row == "cgroup_cpu" else 0, err)

    def test_it_leaves_nothing_behind(self):
        self.doctor(status=0)
        self.assertFalse(self.state.exists())
        real.nothing_left()
        self.assertEqual(real.marked(str(self.state)), [])

    def test_text_says_the_same(self):
        done = subprocess.run([*DOCTOR, "--state", str(self.state)], env=real.environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              timeout=2 * wire.TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("\033", done.stdout)
        self.assertRegex(done.stdout, r"\n  yes  user namespace  +uid 1000 inside\n")
        self.assertTrue(done.stdout.endswith(
            "\nThe default profile, interpreter, can be enforced.\n"))

    def on_terminal(self, **env):
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        child = subprocess.Popen([*DOCTOR, "--state", str(self.state)],
                                 env=real.environment(TERM="xterm", **env),
                                 stdin=subprocess.DEVNULL, stdout=slave)
        os.close(slave)
        said = b""
        while select.select([master], [], [], 2 * wire.TIMEOUT)[0]:
            try:
                more = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not more:
                break
            said += more
        self.assertEqual(child.wait(wire.TIMEOUT), 0)
        return said.decode()

    def test_colours_are_for_terminals_that_want_them(self):
        env = {k: v for k, v in os.environ.items() if k == "NO_COLOR"}
        self.assertEqual(env, {}, "NO_COLOR is set for the tests")
        self.assertIn("\033[", self.on_terminal())
        self.assertNotIn("\033[", self.on_terminal(NO_COLOR="1"))

    def test_usage(self):
        for words in (["-o", "jsonl"], ["what"], ["--runtime", "x"], ["--", "true"]):
            done = subprocess.run([*DOCTOR, *words], env=real.environment(),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  timeout=wire.TIMEOUT)
            self.assertEqual((done.returncode, done.stdout), (125, b""), words)
            self.assertEqual(done.stderr.count(b"\n"), 1)

    def test_a_closed_output_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(DOCTOR, env=real.environment(), stdout=full,
                                  stderr=subprocess.PIPE, timeout=2 * wire.TIMEOUT)
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"standard output", done.stderr)


class Installation(Case):
    def setUp(self):
        super().setUp()
        self.copy = self.dir / "copy"
        shutil.copytree(wire.BUILD / "bin", self.copy / "bin")
        shutil.copytree(wire.BUILD / "libexec", self.copy / "libexec")

    def of_copy(self):
        done = subprocess.run([self.copy / "bin" / "caisson", "doctor", "-o", "json",
                               "--state", str(self.state)], env=real.environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=2 * wire.TIMEOUT)
        return self.read(done.stdout, done.returncode, 1, done.stderr)

    def test_a_missing_launcher_is_a_line_of_its_own(self):
        (self.copy / "libexec" / "caisson-worker").unlink()
        self.of_copy()
        self.missing("helper_worker", "make install", "ENOENT")
        self.assertIn("helper missing", self.rows["helper_worker"]["detail"])
        self.assertFalse(self.profiles["interpreter"]["launched"])

    def test_a_broker_that_cannot_be_executed_is_missing(self):
        (self.copy / "libexec" / "caisson-broker").chmod(0o644)
        self.of_copy()
        self.missing("helper_broker", "make install", "EACCES")
        self.assertEqual(self.profiles["interpreter"]["because"], ["helper_broker"])
        self.assertTrue(self.profiles["interpreter"]["launched"])

    def test_a_missing_supervisor_is_said_by_the_client(self):
        (self.copy / "bin" / "caissond").unlink()
        done = subprocess.run([self.copy / "bin" / "caisson", "doctor"], stderr=subprocess.PIPE,
                              stdout=subprocess.PIPE, timeout=wire.TIMEOUT)
        self.assertEqual((done.returncode, done.stdout), (125, b""))
        self.assertIn(b"cannot start caissond", done.stderr)

    @unittest.skipUnless(real.IS_ROOT, "needs a mount, and ids are mapped by root only")
    def test_a_state_directory_whose_file_system_cannot_map_ids(self):
        self.state.mkdir()
        self.doctor(before=["unshare", "-m", "sh", "-c", 'mount -t ramfs x "$0" && exec "$@"',
                            str(self.state)])
        self.missing("idmap", "ext4", "EINVAL")
        self.assertIn(str(self.state), self.rows["idmap"]["detail"])

    def test_a_state_directory_that_others_can_write(self):
        self.state.mkdir()
        self.state.chmod(0o777)
        self.doctor(status=1)
        self.missing("state_directory", "--state", "EPERM")
        self.assertEqual(self.rows["append_only"]["state"], "untried")
        self.assertEqual(self.rows["workspace_quota"]["state"], "untried")


# What fails, how, the row that must say so, what its remedy must hold, and the layer that
# refuses the launch.
LACKING = (
    ("clone3", "ENOSYS", "clone3", "Linux 5.3", {"namespaces", "user namespace"}),
    ("clone3", "EPERM", "clone3", "seccomp profile", {"namespaces", "user namespace"}),
    ("mount", "EPERM", "mount_namespace", "AppArmor", {"mounts"}),
    ("sethostname", "EPERM", "uts_namespace", "CONFIG_UTS_NS", {"namespaces"}),
    ("fsopen", "ENOSYS", "mount_api", "Linux 5.12", {"mounts", "proc"}),
    ("fsopen", "EPERM", "mount_api", "AppArmor", {"mounts", "proc"}),
    ("mount_setattr", "ENOSYS", "mount_api", "Linux 5.12", {"mounts", "sources", "uid"}),
    ("pivot_root", "EINVAL", "pivot_root", "initramfs", {"pivot_root"}),
    ("capset", "EPERM", "capabilities", "run outside", {"capabilities"}),
    ("prctl", "EINVAL", "no_new_privs", "prctl", None),
    ("setrlimit,prlimit64", "EPERM", "rlimits", "prlimit64", {"rlimits"}),
    ("landlock_create_ruleset", "ENOSYS", "landlock", "CONFIG_SECURITY_LANDLOCK", {"landlock"}),
    ("landlock_create_ruleset", "EOPNOTSUPP", "landlock", "lsm=", {"landlock"}),
    ("landlock_restrict_self", "EPERM", "landlock", "seccomp profile", {"landlock"}),
    ("seccomp", "EINVAL", "seccomp", "CONFIG_SECCOMP_FILTER", {"seccomp"}),
    ("seccomp", "ENOSYS", "seccomp", "CONFIG_SECCOMP_FILTER", {"seccomp"}),
    ("pidfd_open", "ENOSYS", "pidfd", "Linux 5.4", None),
    ("pidfd_getfd", "EPERM", "pidfd_getfd", "seccomp profile", {"seccomp"}),
    ("close_range", "ENOSYS", "close_range", "Linux 5.9", {"descriptors"}),
    ("memfd_create", "ENOSYS", "memfd", "Linux 3.17", None),
)


@unittest.skipIf(wire.SANITIZED, "LeakSanitizer and strace cannot both trace")
@unittest.skipUnless(shutil.which("strace"), "strace is not installed")
class Lacking(Case):
    def without(self, calls, how, **kw):
        return self.doctor(before=["strace", "-f", "-qq", "-o", "/dev/null", "-e",
                                   f"trace={calls}", "-e", f"inject={calls}:{how}"], **kw)

    def test_each_gap_is_named_with_its_remedy(self):
        for calls, error, row, remedy, layers in LACKING:
            with self.subTest(calls=calls, error=error):
                self.without(calls, f"error={error}", status=1)
                self.missing(row, remedy, error)
                default = self.profiles["interpreter"]
                self.assertIn(row, default["because"])
                self.assertFalse(default["launched"])
                self.assertTrue(default["message"])
                if layers is not None:
                    self.assertIn(default["layer"], layers, default)

    def test_what_rests_on_a_gap_is_not_tried(self):
        self.without("fsopen", "error=ENOSYS", status=1)
        for row in ("tmpfs", "pivot_root", "proc"):
            self.assertEqual(self.rows[row]["state"], "untried")
            self.assertNotIn(row, self.profiles["interpreter"]["because"])

    def test_openat2_is_needed_for_sources_and_the_provider(self):
        self.without("openat2", "error=ENOSYS", status=1)
        self.missing("openat2", "Linux 5.6", "ENOSYS")

    def test_a_kernel_without_the_newer_rules_of_landlock_is_enough(self):
        # io_uring stands for what is only told.
        self.without("io_uring_setup", "error=EPERM", status=0)
        self.assertEqual(self.rows["io_uring"]["state"], "no")
        self.assertEqual(self.rows["io_uring"]["error"], "EPERM")

    def test_a_probe_that_hangs_is_said_and_does_not_hang_the_doctor(self):
        self.without("io_uring_setup", "signal=STOP", status=0)
        self.assertEqual(self.rows["io_uring"]["state"], "unknown")
        self.assertIn("hangs", self.rows["io_uring"]["detail"])
        self.assertEqual(real.marked(str(self.state)), [])

    def test_a_launch_that_hangs_is_said_and_ended(self):
        self.without("landlock_restrict_self", "signal=STOP", status=1)
        self.assertEqual(self.rows["landlock"]["state"], "unknown")
        self.assertIn("hangs", self.profiles["interpreter"]["message"])
        self.assertEqual(real.marked(str(self.state)), [])

    def test_a_probe_that_dies_is_said(self):
        self.without("io_uring_setup", "signal=KILL", status=0)
        self.assertEqual(self.rows["io_uring"]["state"], "unknown")
        self.assertIn("signal 9", self.rows["io_uring"]["detail"])


LISTENER = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
# every call is allowed but acct(2), number 163, which is told to us
code = b"".join(struct.pack("HBBI", *i) for i in (
    (0x20, 0, 0, 0), (0x15, 0, 1, 163), (6, 0, 0, 0x7fc00000), (6, 0, 0, 0x7fff0000)))
buf = ctypes.create_string_buffer(code)
prog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(buf)))
listener = libc.syscall(317, 1, 8, ctypes.byref(prog))
if listener < 0:
    sys.exit("seccomp: " + os.strerror(ctypes.get_errno()))
os.set_inheritable(listener, True)  # a listener that is closed is none
os.execv(sys.argv[1], sys.argv[1:])
"""


class Elsewhere(Case):
    """Places in which the kernel itself refuses."""

    @unittest.skipUnless(os.uname().machine == "x86_64", "its numbers are those of x86_64")
    def test_below_a_listener_the_cause_has_no_name(self):
        self.doctor(before=[sys.executable, "-c", LISTENER], status=0)
        self.missing("seccomp_listener", "outside the supervisor", "EBUSY")
        self.assertEqual(self.rows["seccomp_notify"]["state"], "yes")
        self.assertIn("seccomp_listener", self.profiles["interpreter"]["without"])

    @unittest.skipUnless(shutil.which("unshare"), "needs unshare")
    def test_no_user_namespace_is_left(self):
        script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
        self.doctor(before=["unshare", "-Ur", "sh", "-c", script, "sh"], status=1)
        self.missing("user_namespace", "sysctl -w user.max_user_namespaces=", "ENOSPC")
        self.missing("max_userns", "sysctl -w user.max_user_namespaces=")
        self.assertEqual(self.rows["pid_namespace"]["state"], "untried")
        self.assertEqual(self.profiles["interpreter"]["layer"], "user namespace")
        self.assertEqual(self.profiles["interpreter"]["because"], ["user_namespace"])

    @unittest.skipUnless(shutil.which("bwrap"), "needs bubblewrap")
    def test_inside_bubblewrap_with_a_masked_proc(self):
        self.state = pathlib.Path("/tmp/state")
        self.doctor(before=["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev",
                            "--proc", "/proc", "--ro-bind", "/dev/null", "/proc/kallsyms",
                            "--tmpfs", "/tmp", "--ro-bind", str(wire.BUILD), str(wire.BUILD)],
                    status=1)
        self.missing("proc", "unmask /proc", "EPERM")
        self.assertEqual(self.profiles["interpreter"]["layer"], "proc")
        self.assertEqual(self.rows["user_namespace"]["state"], "yes")

    @unittest.skipUnless(shutil.which("bwrap"), "needs bubblewrap")
    def test_inside_bubblewrap_that_forbids_user_namespaces(self):
        self.state = pathlib.Path("/tmp/state")
        self.doctor(before=["bwrap", "--unshare-user", "--disable-userns", "--cap-drop", "ALL",
                            "--ro-bind", "/", "/", "--tmpfs", "/tmp", "--ro-bind",
                            str(wire.BUILD), str(wire.BUILD)], status=1)
        self.missing("user_namespace", "user.max_user_namespaces", "ENOSPC")
        self.assertEqual(self.rows["landlock"]["state"], "yes")

    @unittest.skipUnless(CHAMBER_RUN, "the test programs are not built")
    def test_inside_a_chamber_without_capabilities(self):
        # The broker's kind, which has no filter: any other ends at the first such question.
        # It has no /proc either, by which the client would find caissond.
        out = self.dir / "out"
        with open(out, "wb") as f:
            done = subprocess.run(
                [CHAMBER_RUN, "-p", "broker", "-m", f"{wire.BUILD.resolve()}:/built", "--",
                 "/built/bin/caissond", "--doctor", "-o", "json", "--state", "/state"],
                stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.PIPE,
                timeout=2 * wire.TIMEOUT)
        self.read(out.read_bytes(), done.returncode, 1, done.stderr)
        self.missing("user_namespace", "user.max_user_namespaces", "ENOSPC")
        self.missing("state_directory", "--state")
        self.assertIn("user_namespace", self.profiles["interpreter"]["because"])


if __name__ == "__main__":
    unittest.main()
