"""Layer by layer: what holds, and what happens where an older kernel lacks it."""

import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

from wire import SANITIZED

BUILD = os.environ.get("CAISSON_BUILD", os.path.join(os.getcwd(), "build"))
RUN = os.path.join(BUILD, "test", "program", "chamber_run")
ROOT = os.geteuid() == 0

# Whatever the kernel, a chamber has these or is refused.
ALWAYS = ("user namespace", "namespaces", "mounts", "pivot_root", "proc", "rlimits",
          "capabilities", "descriptors", "no_new_privs", "landlock", "seccomp", "network",
          "parent death")


def run(*command, options=(), before=()):
    """The program's output, how far each layer holds ({} if refused), and the end."""
    done = subprocess.run([*before, RUN, "-L", *options, "--", *command], timeout=120,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    said = [json.loads(line) for line in done.stderr.decode().splitlines() if line[:1] == "{"]
    layers = said[0] if said[0]["event"] == "layers" else {}
    return done.stdout.decode(), layers, said[-1]


def python(script, options=(), before=()):
    return run("/usr/bin/python3", "-I", "-c", script, options=("-p", "interpreter", *options),
               before=before)


def injected(what):
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={what.split(':')[0]}",
            "-e", f"inject={what}"]


class Reported(unittest.TestCase):
    def test_every_layer_that_is_always_there(self):
        _, layers, _ = run("true")
        for name in ALWAYS:
            self.assertGreater(layers[name], 0, name)
        self.assertEqual(layers["uid"], 1 if ROOT else -1)

    def test_what_nobody_asked_for_is_neither(self):
        _, layers, _ = run("true", options=("-p", "provider", "-N"))
        self.assertEqual((layers["network"], layers["landlock tcp"]), (0, 0))

    def test_without_root_a_required_uid_is_refused(self):
        out, layers, end = run("echo", "it ran", options=("-r", "uid"))
        if ROOT:
            self.assertEqual((out, layers["uid"]), ("it ran\n", 1))
        else:
            self.assertEqual((out, end["event"], end["layer"]), ("", "refused", "uid"))
            self.assertIn("root", end["why"])


@unittest.skipUnless(shutil.which("strace"), "strace is not installed")
@unittest.skipIf(SANITIZED, "LeakSanitizer and strace cannot both trace")
class OlderKernel(unittest.TestCase):
    """A call fails as it would there: reported where optional, refused where required."""

    def check_absent(self, what, layer, remedy, options=()):
        before = injected(what)
        out, layers, end = run("echo", "it ran", options=options, before=before)
        self.assertEqual((out, end["event"]), ("it ran\n", "exit"))
        self.assertLess(layers[layer], 0)
        self.assertIn(remedy, layers[layer + " why"])
        out, _, end = run("echo", "it ran", options=(*options, "-r", layer), before=before)
        self.assertEqual((out, end["event"], end["layer"]), ("", "refused", layer))
        self.assertIn(remedy, end["why"])

    def test_landlock_rung_by_rung(self):
        _, layers, _ = run("true")
        for abi in range(1, layers["landlock"] + 1):
            with self.subTest(abi=abi):
                # The first of these calls asks for the version.
                before = injected(f"landlock_create_ruleset:retval={abi}:when=1")
                out, layers, end = run("sh", "-c", "cat /etc/passwd | wc -l; : > /usr/x",
                                       before=before)
                self.assertEqual((out, end["event"], end["status"]), ("2\n", "exit", 2))
                self.assertEqual(layers["landlock"], abi)
                self.assertEqual(layers["landlock tcp"] > 0, abi >= 4)
                self.assertEqual(layers["landlock scopes"] > 0, abi >= 6)

    def test_landlock_without_tcp(self):
        self.check_absent("landlock_create_ruleset:retval=3:when=1", "landlock tcp", "6.7")

    def test_landlock_without_scopes(self):
        self.check_absent("landlock_create_ruleset:retval=5:when=1", "landlock scopes", "6.12")

    def test_no_landlock_is_always_a_refusal(self):
        for error, remedy in (("ENOSYS", "5.13"), ("EOPNOTSUPP", "lsm=")):
            out, _, end = run("echo", "it ran",
                              before=injected(f"landlock_create_ruleset:error={error}:when=1"))
            self.assertEqual((out, end["event"], end["layer"]), ("", "refused", "landlock"))
            self.assertIn(remedy, end["why"])

    def test_time_namespace(self):
        # Which of the launcher's unshares it is depends on who runs it.
        for when in range(1, 6):
            before = injected(f"unshare:error=EINVAL:when={when}")
            _, layers, end = run("true", before=before)
            if layers and layers["time namespace"] < 0:
                break
        self.check_absent(f"unshare:error=EINVAL:when={when}", "time namespace", "TIME_NS")

    def test_mdwe(self):
        # Which of its prctls it is, counted in the one process that makes it (65 of Linux 6.3).
        with tempfile.NamedTemporaryFile("r") as trace:
            run("true", before=["strace", "-f", "-qq", "-o", trace.name, "-e", "trace=prctl"])
            lines = [line.split(None, 1) for line in trace if " prctl(" in line]
        pid, = {pid for pid, call in lines if call.startswith(("prctl(0x41", "prctl(PR_SET_MDWE"))}
        calls = [call for p, call in lines if p == pid]
        when = 1 + next(i for i, call in enumerate(calls)
                        if call.startswith(("prctl(0x41", "prctl(PR_SET_MDWE")))
        self.check_absent(f"prctl:error=EINVAL:when={when}", "mdwe", "6.3")

    def test_exit_facts(self):
        # Asked for first of all, and at the end.
        self.check_absent("ioctl:error=ENOTTY:when=1", "exit facts", "6.15")
        with tempfile.NamedTemporaryFile("r") as trace:
            run("true", before=["strace", "-qq", "-o", trace.name, "-e", "trace=ioctl"])
            last = len(trace.readlines())
        _, _, end = run("sh", "-c", "exit 77",
                        before=injected(f"ioctl:error=ENOTTY:when={last}"))
        self.assertEqual((end["kind"], end["status"]), (1, 77))

    def test_passrights(self):
        self.check_absent("setsockopt,getsockopt:error=ENOPROTOOPT", "passrights", "6.16",
                          options=("-l",))

    def test_a_listener_further_up(self):
        self.check_absent("seccomp:error=EBUSY:when=1", "listener", "no name")


class Mdwe(unittest.TestCase):
    PROBE = ("import ctypes, errno, mmap\n"
             "c = ctypes.CDLL(None, use_errno=True)\n"
             "c.mmap.restype = ctypes.c_void_p\n"
             "c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 4\n"
             "c.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]\n"
             "rwx = c.mmap(None, 4096, 7, 0x22, -1, 0)\n"
             "rw = c.mmap(None, 4096, 3, 0x22, -1, 0)\n"
             "print(rwx == ctypes.c_void_p(-1).value, c.mprotect(rw, 4096, 5),\n"
             "      errno.errorcode.get(ctypes.get_errno()), c.mprotect(rw, 4096, 1))\n")

    def test_what_was_written_is_not_executed(self):
        out, layers, end = python(self.PROBE)
        if layers["mdwe"] < 0:
            self.skipTest("this kernel has no MDWE")
        self.assertEqual((out.split(), end["status"]), (["True", "-1", "EACCES", "0"], 0))
        # Outside it would have been.
        done = subprocess.run(["/usr/bin/python3", "-I", "-c", self.PROBE],
                              stdout=subprocess.PIPE, check=True)
        self.assertEqual(done.stdout.split()[:2], [b"False", b"0"])

    def test_dynamic_programs_and_their_modules_run(self):
        out, _, end = python("import ssl, sqlite3, hashlib, ctypes, zlib, json, decimal; print(1)")
        self.assertEqual((out, end["status"]), ("1\n", 0))


class Rights(unittest.TestCase):
    PROBE = ("import array, os, socket\n"
             "s = socket.socket(fileno=3)\n"
             "def send(ancillary):\n"
             "    try: return s.sendmsg([b'x'], ancillary)\n"
             "    except OSError as e: return -e.errno\n"
             "fds = array.array('i', [0])\n"
             "print(send([]), send([(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]), send([]))\n")

    def test_no_descriptor_travels_on_a_link(self):
        out, layers, _ = python(self.PROBE, options=("-l",))
        if layers["passrights"] < 0:
            self.skipTest("this kernel has no SO_PASSRIGHTS")
        self.assertEqual(out.split(), ["1", "-1", "1"])


# Whoever has the whole network namespace of a chamber in hand, and every capability over the
# chamber's own user namespace: what its pid 1 had, and more.
NETWORK_ATTACK = """
import ctypes, errno, fcntl, os, socket, struct, sys
USER, NET, GET_PARENT = 0x10000000, 0x40000000, 0xb702
c = ctypes.CDLL(None, use_errno=True)
def enter(fd, kind):
    return "ok" if c.setns(fd, kind) == 0 else errno.errorcode[ctypes.get_errno()]
def raise_lo(up):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try: fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", up))
    except OSError as e: return errno.errorcode[e.errno]
    return "ok"
pid, root = sys.argv[1], os.geteuid() == 0
user, net = (os.open(f"/proc/{pid}/ns/{n}", os.O_RDONLY) for n in ("user", "net"))
if not root: print(enter(fcntl.ioctl(user, GET_PARENT), USER))
print(enter(net, NET), raise_lo(1), raise_lo(0))
print(enter(user, USER), raise_lo(1), enter(net, NET))
try: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
except OSError as e: print(errno.errorcode[e.errno])
"""


class Time(unittest.TestCase):
    def test_the_clocks_do_not_tell_since_when_the_host_is_up(self):
        clocks = ("import time\n"
                  "print(*(int(time.clock_gettime(c)) for c in (1, 7, 0)))\n")
        out, layers, _ = python(clocks)
        if layers["time namespace"] < 0:
            self.skipTest("this kernel has no time namespaces")
        monotonic, boottime, real = map(int, out.split())
        host = [int(time.clock_gettime(c)) for c in (1, 7, 0)]
        if host[1] < 300:
            self.skipTest("a machine that has just started")
        self.assertLess(max(monotonic, boottime), host[1] - 100)
        self.assertLess(abs(real - host[2]), 100)

    def test_waiting_works_as_outside(self):
        out, _, end = python(
            "import asyncio, select, threading, time\n"
            "def took(f):\n"
            "    t = time.monotonic(); f(); return time.monotonic() - t >= .05\n"
            "async def later():\n"
            "    loop = asyncio.get_running_loop(); done = loop.create_future()\n"
            "    loop.call_later(.06, done.set_result, None); await done\n"
            "print(took(lambda: select.select([], [], [], .06)),\n"
            "      took(lambda: threading.Event().wait(.06)), took(lambda: asyncio.run(later())))")
        self.assertEqual((out.split(), end["status"]), (["True"] * 3, 0))


class Network(unittest.TestCase):
    def start(self, *options):
        p = subprocess.Popen([RUN, "-L", *options, "--", "sleep", "1000"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE)

        def stop():
            p.kill()
            p.wait()
            p.stderr.close()

        self.addCleanup(stop)
        layers = json.loads(p.stderr.readline())
        # The program itself: pid 1 lets nobody without root look.
        with open("/proc/{pid}/task/{pid}/children".format(**layers)) as f:
            layers["pid"] = int(f.read())
        return layers

    def shared(self):
        layers = self.start()
        if layers["landlock scopes"] <= 0:
            self.skipTest("chambers share no network where abstract sockets are not scoped")
        self.assertEqual(layers["network"], 2)
        return layers

    def test_a_shared_one_tells_nothing_of_others(self):
        self.shared()
        out, _, _ = python(
            "import errno, os, socket\n"
            "pair = socket.socketpair()\n"
            "seen = set()\n"
            "for n in os.listdir('/proc/self/net'):\n"
            "    p = '/proc/self/net/' + n\n"
            "    try: (os.listdir if os.path.isdir(p) else open)(p); seen.add(n)\n"
            "    except OSError as e: seen.add(errno.errorcode[e.errno])\n"
            "for f in (lambda: os.chmod('/proc/self/net/unix', 0o777),\n"
            "          lambda: os.chmod('/proc/self/net', 0o777)):\n"
            "    try: f(); seen.add('done')\n"
            "    except OSError as e: seen.add(errno.errorcode[e.errno])\n"
            "print(*sorted(seen))")
        self.assertEqual(out.split(), ["EACCES", "EROFS"])

    def test_no_capability_of_a_chamber_reaches_a_shared_one(self):
        pid = str(self.shared()["pid"])
        done = subprocess.run(["/usr/bin/python3", "-I", "-c", NETWORK_ATTACK, pid],
                              stdout=subprocess.PIPE, check=True, text=True, timeout=60)
        *entered, first, second, packet = done.stdout.splitlines()
        self.assertEqual(entered, [] if ROOT else ["ok"])
        self.assertEqual(first.split(), ["ok", "ok", "ok"])  # its owner may
        self.assertEqual(second.split(), ["ok", "EPERM", "EPERM"])
        self.assertEqual(packet, "EPERM")

    @unittest.skipUnless(ROOT, "nobody else may read what nobody may")
    def test_there_is_nothing_in_it_but_loopback_which_is_down(self):
        pid = self.shared()["pid"]
        with open(f"/proc/{pid}/net/dev") as f:
            names = [line.split(":")[0].strip() for line in f.read().splitlines()[2:]]
        with open(f"/proc/{pid}/net/if_inet6") as f:
            self.assertEqual((names, f.read()), (["lo"], ""))

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    @unittest.skipIf(SANITIZED, "LeakSanitizer and strace cannot both trace")
    def test_where_abstract_sockets_are_not_scoped_each_has_its_own(self):
        _, layers, end = run("true", before=injected("landlock_create_ruleset:retval=5:when=1"))
        self.assertEqual((layers["network"], end["status"]), (1, 0))

    def test_declared_hosts_never_share(self):
        self.assertEqual(self.start("-p", "provider", "-N")["network"], 0)


class Groups(unittest.TestCase):
    """A file that only a group may read, shown to a chamber whose supervisor is in it."""

    GROUP = 4242

    def setUp(self):
        if not ROOT:
            self.skipTest("only root can be given another group")
        self.dir = tempfile.mkdtemp(prefix="layers-")
        self.addCleanup(shutil.rmtree, self.dir)
        os.chmod(self.dir, 0o755)
        path = os.path.join(self.dir, "file")
        with open(path, "w") as f:
            f.write("secret")
        os.chown(path, 4141, self.GROUP)
        os.chmod(path, 0o640)
        self.options = ("-m", f"{self.dir}:/data")

    def as_user(self):
        before = ["setpriv", "--reuid=65534", "--regid=65534", f"--groups=65534,{self.GROUP}"]
        if subprocess.run([*before, "test", "-x", RUN]).returncode != 0:
            self.skipTest("the build cannot be read by nobody")
        seen = subprocess.run([*before, "cat", os.path.join(self.dir, "file")],
                              stdout=subprocess.PIPE)
        self.assertEqual(seen.stdout, b"secret")  # outside, it can
        return before

    def test_as_root_they_are_dropped(self):
        before = ["setpriv", f"--groups=0,{self.GROUP}"]
        out, layers, end = run("sh", "-c", "id -G; cat /data/file", options=self.options,
                               before=before)
        self.assertEqual((out, layers["groups"]), ("1000\n", 1))
        self.assertEqual(end["status"], 1)

    def test_without_root_a_chamber_that_requires_it_never_runs(self):
        out, _, end = run("cat", "/data/file", options=(*self.options, "-r", "groups"),
                          before=self.as_user())
        self.assertEqual((out, end["event"], end["layer"]), ("", "refused", "groups"))
        self.assertIn("root", end["why"])

    def test_without_root_and_where_optional_it_is_told(self):
        _, layers, end = run("true", options=self.options, before=self.as_user())
        self.assertEqual((layers["groups"], end["event"]), (-1, "exit"))
        self.assertIn("supplementary groups", layers["groups why"])

    def test_a_user_of_one_group_has_none_to_lose(self):
        before = ["setpriv", "--reuid=65534", "--regid=65534", "--groups=65534"]
        if subprocess.run([*before, "test", "-x", RUN]).returncode != 0:
            self.skipTest("the build cannot be read by nobody")
        out, layers, _ = run("echo", "it ran", options=("-r", "groups"), before=before)
        self.assertEqual((out, layers["groups"]), ("it ran\n", 1))


if __name__ == "__main__":
    unittest.main()
