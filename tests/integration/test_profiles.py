"""Profiles, built in and of a configuration: real programs do their work, and no more."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from wire import SANITIZED

BUILD = os.environ.get("CAISSON_BUILD", os.path.join(os.getcwd(), "build"))
CAISSON = os.path.join(BUILD, "bin", "caisson")
RUN = os.path.join(BUILD, "test", "program", "chamber_run")
EXAMPLE = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "profiles.yaml")
NODE = shutil.which("node")
SIGSYS_STATUS = 159


def caisson(*words):
    done = subprocess.run([CAISSON, *words], stdin=subprocess.DEVNULL, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def chamber(profile, *command):
    done = subprocess.run([RUN, "-p", profile, "--", *command], stdin=subprocess.DEVNULL,
                          timeout=120, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    errors, _, last = done.stderr.decode().rstrip("\n").rpartition("\n")
    return done.stdout.decode(), errors, json.loads(last)


WORK = """
const fs = require('fs'), cp = require('child_process'), crypto = require('crypto');
const zlib = require('zlib'), dns = require('dns'), net = require('net');
const { Worker } = require('worker_threads');
const once = (e, name) => new Promise((r, j) => { e.on(name, r); e.on('error', j); });
(async () => {
  const did = [];
  await new Promise(r => setTimeout(r, 2)); did.push('timers');
  fs.writeFileSync('/tmp/a', 'x'); await fs.promises.mkdir('/tmp/d');
  await fs.promises.rename('/tmp/a', '/tmp/d/a'); await fs.promises.copyFile('/tmp/d/a', '/tmp/d/b');
  fs.cpSync('/tmp/d', '/tmp/e', { recursive: true }); fs.rmSync('/tmp/e', { recursive: true });
  fs.chmodSync('/tmp/d/a', 0o600); fs.utimesSync('/tmp/d/a', 1, 1); fs.symlinkSync('a', '/tmp/d/l');
  if (fs.readdirSync('/tmp/d').length === 3) did.push('files');
  const w = new Worker('require("worker_threads").parentPort.postMessage(1 + 1)', { eval: true });
  if (await once(w, 'message') === 2) did.push('workers');
  if (await once(cp.spawn('/bin/sh', ['-c', 'exit 3']), 'exit') === 3) did.push('spawn');
  if (cp.execSync('echo exec').toString() === 'exec\\n') did.push('exec');
  crypto.generateKeyPairSync('rsa', { modulusLength: 1024 });
  await new Promise(r => crypto.pbkdf2('a', 'b', 1000, 16, 'sha256', r)); did.push('crypto');
  if (zlib.gunzipSync(zlib.gzipSync('abc')).toString() === 'abc') did.push('zlib');
  await new Promise((r, j) => dns.lookup('localhost', e => e ? j(e) : r())); did.push('lookup');
  await new Promise(r => net.connect(1, '127.0.0.1').on('error', r)); did.push('refused');
  const heard = once(process, 'SIGUSR2'), stay = setInterval(() => 0, 1000);
  process.kill(process.pid, 'SIGUSR2'); await heard; clearInterval(stay);
  did.push('signals');
  new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])));
  let x = 0; for (let i = 0; i < 3e6; i++) x = (x * 31 + i) | 0;
  if (x === 637018976) did.push('jit');
  console.log(did.join(' '));
})().catch(e => { console.error(e); process.exit(9); });
"""
WORKED = "timers files workers spawn exec crypto zlib lookup refused signals jit\n"


@unittest.skipUnless(NODE, "no node here")
class Node(unittest.TestCase):
    def test_it_does_its_ordinary_work(self):
        status, out, errors = caisson("exec", "--profile", "jit", "--", "node", "-e", WORK)
        self.assertEqual((status, out), (0, WORKED), errors)

    def test_it_is_refused_what_no_chamber_has(self):
        for code, expected in (("process.getuid() && process.setuid(0)", "EPERM"),
                               ("require('net').createServer().listen(1)", "EACCES"),
                               ("require('fs').watch('/tmp')", "ENOSYS")):
            with self.subTest(code):
                status, _, errors = caisson("exec", "--profile", "jit", "--", "node", "-e", code)
                self.assertNotEqual(status, 0)
                self.assertIn(expected, errors)


PYTHON = """
import asyncio, concurrent.futures, multiprocessing, os, signal, socket, subprocess, threading
did = []
def square(x): return x * x
async def work():
    p = await asyncio.create_subprocess_exec("echo", "x", stdout=subprocess.PIPE)
    assert (await p.communicate())[0] == b"x\\n"
    assert await asyncio.to_thread(square, 3) == 9
    heard = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heard.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await heard.wait()
if __name__ == "__main__":
    assert subprocess.check_output(["sh", "-c", "echo sub"]) == b"sub\\n"
    assert os.popen("echo popen").read() == "popen\\n"
    assert os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1] == 0
    did.append("subprocess")
    t = [threading.Thread(target=square, args=(1,)) for _ in range(20)]
    [x.start() for x in t]; [x.join() for x in t]; did.append("threading")
    asyncio.run(work()); did.append("asyncio")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(square, [2])) == [4]
    did.append("multiprocessing")
    assert socket.getaddrinfo("localhost", 80); did.append("getaddrinfo")
    print(*did)
"""


class Python(unittest.TestCase):
    def test_it_does_its_ordinary_work(self):
        for profile in ("interpreter", "native", "jit"):
            with self.subTest(profile):
                out, errors, _ = chamber(profile, "/usr/bin/python3", "-I", "-c", PYTHON)
                self.assertEqual(
                    out, "subprocess threading asyncio multiprocessing getaddrinfo\n", errors)


SOURCE = os.path.join(os.path.dirname(__file__), "..", "programs", "ordinary.c")
ORDINARY = "threads\nspawn\npipes\nlookup\ntimers\nfiles\n"
SHELL = """
set -e
echo a b | (read x y; echo $y $x)
test "$(printf '%s\\n' 3 1 2 | sort | tr '\\n' ' ')" = "1 2 3 "
trap 'echo trapped' USR1; kill -USR1 $$
mkdir /tmp/d; echo x > /tmp/d/f; cp -a /tmp/d /tmp/e; mv /tmp/e/f /tmp/g; ln -s g /tmp/l; cat /tmp/l
chmod 600 /tmp/g; touch -d @1 /tmp/g; tar -cf /tmp/t.tar -C /tmp d; tar -tf /tmp/t.tar; rm -r /tmp/d
(exit 3) & wait $! || echo $?
"""


class Compiled(unittest.TestCase):
    """Machine code and the shell, under each profile, as what they are linked to differs."""

    PROFILES = ("native", "interpreter", "jit", "provider")

    @unittest.skipIf(SANITIZED, "a sanitizer is no ordinary program")
    def test_a_threaded_program_does_its_ordinary_work(self):
        program = os.path.join(BUILD, "test", "program", "ordinary")
        self.works(program)

    def test_a_static_program_does_its_ordinary_work(self):
        for compiler in ("gcc", "musl-gcc"):
            if not shutil.which(compiler):
                self.skipTest(f"no {compiler} here")
            with self.subTest(compiler), tempfile.TemporaryDirectory() as d:
                os.chmod(d, 0o755)
                program = os.path.join(d, "ordinary")
                subprocess.run([compiler, "-static", "-w", "-D_GNU_SOURCE", "-pthread", "-o",
                                program, SOURCE], check=True, stderr=subprocess.DEVNULL)
                self.works(program)

    def works(self, program):
        for profile in self.PROFILES:
            with self.subTest(profile):
                done = subprocess.run([RUN, "-p", profile, "-m", program + ":/app/ordinary", "--",
                                       "/app/ordinary"], stdin=subprocess.DEVNULL, timeout=120,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertEqual(done.stdout.decode(), ORDINARY, done.stderr.decode())

    def test_a_shell_does_its_ordinary_work(self):
        for profile in self.PROFILES:
            with self.subTest(profile):
                out, errors, _ = chamber(profile, "/bin/sh", "-c", SHELL)
                self.assertEqual(out, "b a\ntrapped\nx\nd/\nd/f\n3\n", errors)


OWN = """
version: 1
profiles:
  - id: first
    base: interpreter
    tmp: 4MiB
    pids: 20
    open_files: 32
    file_size: 1MiB
    env: [FROM=first, ONLY=first]
    mounts: [{ source: data, target: /data }]
    syscalls:
      - { name: symlink, action: EROFS }
      - { name: uname, action: end }
      - { name: memfd_create, action: allow }
      - { name: ioctl, action: base }
      - { name: ioctl, action: EXDEV, when: [{ argument: 1, equals: 0x5413 }] }
      - { name: kill, action: allow, when: [{ argument: 1, equals: 0 }] }
  - id: second
    base: first
    env: [FROM=second]
    syscalls: [{ name: memfd_create, action: ENOSYS }]
runtimes:
  - { id: r, command: [x], profile: second }
"""


class Own(unittest.TestCase):
    """Each attempt is made for real, with a neighbour that is allowed."""

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        os.chmod(cls.dir.name, 0o755)
        os.mkdir(os.path.join(cls.dir.name, "data"))
        with open(os.path.join(cls.dir.name, "data", "word"), "w") as f:
            f.write("here\n")
        cls.file = os.path.join(cls.dir.name, "own.yaml")
        with open(cls.file, "w") as f:
            f.write(OWN)

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def python(self, profile, code, *more):
        return caisson("exec", "-c", self.file, "--profile", profile, *more, "--",
                       "/usr/bin/python3", "-I", "-c", code)

    def test_an_errno_is_the_errno_that_was_said(self):
        for code, expected in (("os.symlink('a', '/tmp/l')", 30),
                               ("fcntl.ioctl(0, 0x5413)", 18),
                               ("ctypes.CDLL(None, use_errno=True).ioctl(0, "
                                "ctypes.c_ulong(0x700005413)) < 0 and "
                                "exec('raise OSError(ctypes.get_errno(), str())')", 18)):
            with self.subTest(code):
                status, out, errors = self.python(
                    "first", "import os, fcntl, ctypes\ntry: " + code +
                    "\nexcept OSError as e: print(e.errno)")
                self.assertEqual((status, out), (0, f"{expected}\n"), errors)

    def test_the_end_is_named(self):
        status, _, errors = self.python("first", "import os; os.uname()")
        self.assertEqual(status, SIGSYS_STATUS)
        self.assertIn("forbids: uname", errors)

    def test_what_is_said_about_a_call_is_all(self):
        ask = "import os; os.kill(os.getpid(), 0); print('asked', flush=True)"
        status, out, errors = self.python("first", ask)
        self.assertEqual((status, out), (0, "asked\n"), errors)
        for high in ("", " | 1 << 32"):
            status, out, errors = self.python("first", ask + "; import ctypes; ctypes.CDLL(None)"
                                              f".syscall(62, os.getpid(), ctypes.c_ulong(15{high}))")
            self.assertEqual((status, out), (SIGSYS_STATUS, "asked\n"))
            self.assertIn("forbids: kill", errors)

    def test_what_was_added_is_there_until_it_is_taken_away(self):
        code = ("import os\ntry: print(os.memfd_create('x') > 2)\n"
                "except OSError as e: print(e.errno)")
        self.assertEqual(self.python("first", code)[1], "True\n")
        self.assertEqual(self.python("second", code)[1], "38\n")
        self.assertEqual(self.python("interpreter", code)[1], "38\n")

    def test_limits_mounts_and_environment_are_the_profiles(self):
        code = ("import os, resource as r\n"
                "print(r.getrlimit(r.RLIMIT_NOFILE)[0], r.getrlimit(r.RLIMIT_FSIZE)[0],\n"
                "      os.statvfs('/tmp').f_blocks * os.statvfs('/tmp').f_frsize,\n"
                "      os.environ['FROM'], os.environ['ONLY'], open('/data/word').read())")
        self.assertEqual(self.python("first", code)[1], "32 1048576 4194304 first first here\n\n")
        self.assertEqual(self.python("second", code)[1], "32 1048576 4194304 second first here\n\n")
        # What a run says counts before what its profile says.
        self.assertEqual(self.python("second", code, "--tmp", "8MiB", "--env", "FROM=me")[1],
                         "32 1048576 8388608 me first here\n\n")

    def test_a_name_that_is_none_is_said(self):
        status, _, errors = self.python("third", "")
        self.assertEqual(status, 125)
        self.assertIn('--profile: "third" is neither native, interpreter nor jit, nor one of '
                      + self.file, errors)

    def test_a_misspelt_call_is_an_error_with_its_place(self):
        with open(self.file + ".bad", "w") as f:
            f.write(OWN.replace("name: symlink", "name: simlink"))
        status, out, errors = caisson("config", "check", self.file + ".bad")
        self.assertEqual((status, out), (125, ""))
        self.assertIn('own.yaml.bad:13:17: profiles[0].syscalls[0].name: "simlink" is no system '
                      "call", errors)
        self.assertEqual(errors.count("\n"), 1)

    @unittest.skipUnless(NODE, "no node here")
    def test_the_example_does_what_it_says(self):
        status, out, errors = caisson("config", "check", EXAMPLE)
        self.assertEqual(status, 0, errors)
        status, out, errors = caisson(
            "exec", "-c", EXAMPLE, "--profile", "web-quiet", "--", "node", "-e",
            "try { require('fs').linkSync('/tmp', '/tmp/l') } "
            "catch (e) { console.log(e.code, process.env.NODE_ENV) } "
            "process.kill(process.pid, 0); process.kill(process.pid, 'SIGTERM')")
        self.assertEqual((status, out), (SIGSYS_STATUS, "EPERM production\n"), errors)
        self.assertIn("forbids: kill", errors)


if __name__ == "__main__":
    unittest.main()
