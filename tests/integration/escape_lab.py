"""The escape suite at work: what is attacked, by whom, from where, and what came of it.

A World is what a technique attacks: directories, sockets, a process, all of the host.  run()
lets techniques of tests/escape/ loose on one, from one of the SIDES: a control without a
chamber, a chamber of a profile, bubblewrap.  An outcome is a word of tests/escape/main.c, or
"end:CALL" where the chamber was ended for a system call.
"""

import base64
import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import pty
import re
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import termios
import time

import wire

ROOT = os.geteuid() == 0
SOURCES = wire.ROOT / "tests" / "escape"
PROGRAM = wire.BUILD / "escape" / "escape"
CAISSON = wire.program("caisson")
CHAMBER_RUN = wire.program("program/chamber_run")
PROFILES = ("native", "interpreter", "jit", "provider")  # the last is on no command line
CONTROLS = ("plain", "ns", "tty", "leak", "link", "next", "nobody")  # and root
WAIT = 4 * wire.TIMEOUT
NOBODY = 65534

libc = ctypes.CDLL(None, use_errno=True)


# Where the table stands in docs/CONFINEMENT.md.
BEGIN = "<!-- written by `make escape-table` -->"
END = "<!-- end of what it writes -->"


class Technique:
    """A row of table.tsv, and what the first comment of its source says."""

    def __init__(self, source, row):
        self.name, self.kind = source.stem, source.parent.name
        comment = re.match(r"/\*\n \* (.*?)\n \*/", source.read_text(), re.S)[1]
        self.title, _, self.where = comment.replace("\n * ", " ").partition(". ")
        self.control, self.layer, self.expected = row or ("plain", "", "")

    def expects(self, profile):
        """What may come of it: words of `expected`, some of them for some only (who=word)."""
        who = {profile, "root" if ROOT else "user"}
        words = [w.partition("=") for w in self.expected.split("|")]
        special = {word for to, _, word in words if word and to in who}
        return special or {to for to, _, word in words if not word}


def techniques():
    """All of them, in the order of the table."""
    sources = {s.stem: s for s in SOURCES.glob("*/*.c")}
    found = []
    for line in (SOURCES / "table.tsv").read_text().splitlines():
        if line and not line.startswith("#"):
            name, *row = re.split(r"\t+", line)
            found.append(Technique(sources.pop(name), row))
    return found + [Technique(s, None) for s in sorted(sources.values())]


def cell(outcome):
    """An outcome for people."""
    words = {"ESCAPED": "**succeeds**", "CONTAINED": "nothing of the host", "BOUNDED": "bounded",
             "ABSENT": "nothing to attack"}
    return words.get(outcome, re.sub(r"^end:(.*)", r"ended (`\1`)", outcome))


def cells(technique):
    """The cells of its row that do not depend on the machine."""
    words = [w.partition("=") for w in technique.expected.split("|")]
    said = [f"{cell(word)} ({to})" if word and word != "-" else cell(to)
            for to, _, word in words if word != "-"]
    said += [f"{to}: what it is for" for to, _, word in words if word == "-"]
    return [f"| `{technique.name}` {technique.title}", technique.layer, ", ".join(said)]


# ---- what is attacked ------------------------------------------------------------------


class World:
    """Of one side, since techniques that succeed leave traces."""

    def __init__(self, at=None):
        self._undo = contextlib.ExitStack()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="escape-", dir=at)).resolve()
        self._undo.callback(shutil.rmtree, self.dir, ignore_errors=True)
        self.dir.chmod(0o755)
        self._undo.callback(self.end_survivor)
        self.name = f"escape-{secrets.token_hex(4)}"
        try:
            self._make()
        except BaseException:
            self._undo.close()
            raise

    def _make(self):
        self.args = {"abstract": self.name, "hostname": os.uname().nodename,
                     "uptime": str(int(time.clock_gettime(time.CLOCK_BOOTTIME))),
                     "shm_name": self.name, "cgroup": self._cgroup()}
        self._make_files()
        self._make_victim()
        self._make_neighbour()
        self._make_sockets()
        self._make_ipc()
        self._before = self._look()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._undo.close()

    @staticmethod
    def _cgroup():
        paths = [line.split(":", 2)[2].strip()
                 for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
        longest = max(paths, key=len)
        return longest if len(longest) > 1 else "none that has a name"

    def _make_files(self):
        for name in ("ro", "rw", "secret"):
            (self.dir / name).mkdir()
            (self.dir / name / "file").write_text("of the host\n")
            self.args[name] = str(self.dir / name)
        for name in ("rename_across", "rename_exchange", "rename_ro", "unlink_ro"):
            (self.dir / "ro" / name).write_text("of the host\n")
        (self.dir / "ro" / "group").write_text("of the host\n")
        if ROOT:
            os.chown(self.dir / "ro" / "group", 0, 4)
            os.mknod(self.dir / "rw" / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        (self.dir / "ro" / "group").chmod(0o040)
        (self.dir / "rw" / "link").symlink_to(self.dir / "secret" / "file")
        (self.dir / "rw" / "setuid").write_text("of the host\n")
        (self.dir / "rw" / "setuid").chmod(0o4755)

    def _make_victim(self):
        self.victim = subprocess.Popen(
            [PROGRAM, "--victim", self.dir / "secret" / "file"], cwd=self.dir / "secret",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True)
        self._undo.callback(self._end_victim)
        self.args["victim"], self.args["address"] = self.victim.stdout.readline().split()
        self.args["group"] = self.args["victim"]

    def _make_neighbour(self):
        """What another chamber holds; this one, for the controls, is in none."""
        name = self.args["neighbour"] = f"{self.name}-neighbour"
        p = subprocess.Popen([PROGRAM, f"--neighbour={name}"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, start_new_session=True)
        self.args["neighbour_pid"] = str(p.pid)
        for path in (f"/tmp/{name}", f"/dev/shm/{name}"):
            self._undo.callback(pathlib.Path(path).unlink, missing_ok=True)
        self._undo.callback(p.stdout.close)
        self._undo.callback(p.wait)
        self._undo.callback(p.kill)
        p.stdout.readline()

    def _end_victim(self):
        """What it says of itself at its end, "" if it is dead already."""
        if self.victim.stdin.closed:
            return ""
        with contextlib.suppress(BrokenPipeError):
            self.victim.stdin.close()
        with self.victim.stdout:
            said = self.victim.stdout.read()
        self.victim.wait()
        return said

    def _make_sockets(self):
        self.sockets = {}
        for name, family, kind, at in (
                ("port", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
                ("port6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
                ("udp_port", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
                ("stream", socket.AF_UNIX, socket.SOCK_STREAM, f"{self.dir}/ro/stream"),
                ("datagram", socket.AF_UNIX, socket.SOCK_DGRAM, f"{self.dir}/ro/datagram"),
                ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.name}"),
                ("abstract_datagram", socket.AF_UNIX, socket.SOCK_DGRAM,
                 f"\0{self.name}-datagram")):
            s = self._undo.enter_context(socket.socket(family, kind))
            try:
                s.bind(at)
            except OSError:  # a machine without IPv6
                self.args[name] = "1"
                continue
            if kind == socket.SOCK_STREAM:
                s.listen()
            s.setblocking(False)
            if family == socket.AF_UNIX and at[0] == "/":
                os.chmod(at, 0o777)
            elif family != socket.AF_UNIX:
                self.args[name] = str(s.getsockname()[1])
            self.sockets[name] = s

    def _make_ipc(self):
        for name, make, remove in (
                ("shm", lambda: libc.shmget(0, 4096, 0o600), lambda i: libc.shmctl(i, 0, None)),
                ("msg", lambda: libc.msgget(0, 0o600), lambda i: libc.msgctl(i, 0, None)),
                ("sem", lambda: libc.semget(0, 1, 0o600), lambda i: libc.semctl(i, 0, 0, None))):
            number = make()
            self.args[name] = str(number)
            if number >= 0:
                self._undo.callback(remove, number)
        path = pathlib.Path("/dev/shm", self.name)
        path.write_text("of the host\n")
        self._undo.callback(path.unlink, missing_ok=True)

    def _look(self):
        """What nobody in a chamber may have changed."""
        seen = {}
        for path in [self.dir, *self.dir.glob("ro/**/*"), *self.dir.glob("secret/**/*"),
                     self.dir / "ro", self.dir / "secret", self.dir / "rw/link"]:
            st = path.lstat()
            seen[str(path)] = (st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_size,
                               st.st_mtime_ns)
        victim = int(self.args["victim"])
        seen["victim"] = (os.getpriority(os.PRIO_PROCESS, victim), os.sched_getaffinity(victim),
                          os.getpgid(victim))
        seen["ipc"] = libc.semctl(int(self.args["sem"]), 0, 12, None)  # GETVAL
        return seen

    def traces(self):
        """What was done to the host, as lines.  Ends the victim."""
        found = [f"{name}: {self._before.get(name)} became {now}"
                 for name, now in self._look().items() if now != self._before.get(name)]
        for name, s in self.sockets.items():
            with contextlib.suppress(BlockingIOError):
                (s.recv(64) if s.type == socket.SOCK_DGRAM else s.accept()[0].close())
                found.append(f"somebody came to {name}")
        if libc.msgrcv(int(self.args["msg"]), ctypes.create_string_buffer(64), 32, 0,
                       0o4000) >= 0:  # IPC_NOWAIT
            found.append("a message in the queue")
        for path in (self.dir / "rw").glob("**/*"):
            st = path.lstat()
            if st.st_mode & 0o6000 and path.name != "setuid":
                found.append(f"{path.name} is set-uid or set-gid")
            kind = stat.S_IFMT(st.st_mode)
            if kind in (stat.S_IFBLK, stat.S_IFCHR, stat.S_IFSOCK) and path.name != "device":
                found.append(f"{path.name} is no file: {stat.filemode(st.st_mode)}")
            if (st.st_uid, st.st_gid) != (os.geteuid(), os.getegid()):
                found.append(f"{path.name} is {st.st_uid}:{st.st_gid}'s")
        found += self.end_survivor()
        said = self._end_victim()
        if said != "the memory of a process of the host, 0 signals\n":
            found.append(f"the victim says {said!r}")
        return found

    def end_survivor(self):
        """Is the lock held that the technique `survivor` takes?  Then it is ended."""
        path = self.dir / "rw" / "lock"
        if not path.exists():
            return []
        with open(path, encoding="ascii") as f:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return []
            except BlockingIOError:
                pass
            for line in f.read().split():
                # Of a pid namespace it is somebody else's number.
                if PROGRAM.name in _text(f"/proc/{line}/cmdline"):
                    os.kill(int(line), 9)
        return ["a process outlived its end"]


def _text(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


# ---- from where ------------------------------------------------------------------------


@contextlib.contextmanager
def surroundings(control):
    """Options of Popen: what stands around the attacker, and would around any program."""
    with contextlib.ExitStack() as undo:
        options = {"stdin": subprocess.DEVNULL}
        if control == "tty":
            master, slave = pty.openpty()
            undo.callback(os.close, master)
            undo.callback(os.close, slave)

            def take():
                fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

            options = {"stdin": slave, "preexec_fn": take}
        elif control in ("leak", "link"):
            ours, theirs = socket.socketpair()
            undo.enter_context(ours)
            undo.enter_context(theirs)
            folder = os.open(undo.enter_context(tempfile.TemporaryDirectory()), os.O_RDONLY)
            undo.callback(os.close, folder)
            pathlib.Path(f"/proc/self/fd/{folder}/file").write_text("of the host\n")

            def leave():
                os.dup2(theirs.fileno(), 3)
                os.dup2(folder, 4)

            options |= {"preexec_fn": leave, "pass_fds": (3, 4)}  # wire.keep_low_descriptors
        elif control == "nobody" and ROOT:
            options |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        yield {**options, "start_new_session": True}


def _words(world, names, program):
    return [program, *names, f"self={program}", *(f"{k}={v}" for k, v in world.args.items())]


def _run(argv, options):
    """The ended process, with both its outputs; whoever takes too long ends with its session."""
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    try:
        p.stdout_text, p.stderr_text = (b.decode() for b in p.communicate(timeout=WAIT))
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
        raise
    return p


def _lines(text):
    return dict(line.split(" ", 1) for line in text.splitlines())


def without(world, names, options, control):
    """No chamber: the control."""
    enter = []
    if control == "ns":
        enter = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork",
                 "--kill-child", "--mount-proc", "--net", "--ipc", "--uts"]
    return _lines(_run([*enter, *_words(world, names, PROGRAM)], options).stdout_text), None


def bubblewrap(world, names, options, _control):
    """What agents are put into: everything unshared, a root of few mounts, no filter."""
    binds = [word for name in ("bin", "sbin", "lib", "lib64")
             for word in ("--symlink", f"usr/{name}", f"/{name}")]
    done = _run(
        ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr",
         "/usr", *binds, "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev",
         "--tmpfs", "/tmp", "--ro-bind", PROGRAM.parent, "/app", "--ro-bind", world.args["ro"],
         world.args["ro"], "--bind", world.args["rw"], world.args["rw"],
         *_words(world, names, "/app/escape")], options)
    if done.returncode != 0 and not done.stdout_text:
        raise RuntimeError(done.stderr_text)
    return _lines(done.stdout_text), None


def exec_in(profile):
    """A chamber of `caisson exec`."""
    def side(world, names, options, _control):
        with tempfile.TemporaryDirectory(prefix="escape-state-") as state:
            done = _run(
                [CAISSON, "exec", "-o", "jsonl", "--state", f"{state}/state", "--profile",
                 profile, "--app", PROGRAM.parent, "--ro", world.args["ro"], "--rw",
                 world.args["rw"], "--memory", "64MiB", "--tmp", "1MiB", "--pids", "64",
                 "--", *_words(world, names, "/app/escape")], options)
        events = [json.loads(line) for line in done.stdout_text.splitlines()]
        if len(events) < 2:
            raise RuntimeError(done.stderr_text)
        out = b"".join(base64.b64decode(e["output"]["data"]) for e in events
                       if e["type"] == "output" and e["output"]["stream"] == "stdout")
        last = events[-1][events[-1]["type"]]
        cause = last.get("cause") or last["command"]["cause"]
        return _lines(out.decode()), _end(cause["kind"], cause.get("syscall"))
    return side


def chamber_of(profile, stood=False):
    """A chamber that no command line asks for, by the supervisor's own code."""
    def side(world, names, options, control):
        more = {"link": ["-l"], "next": ["-a", f"--neighbour={world.args['neighbour']}"]}
        done = _run(
            [CHAMBER_RUN, *["-S"][:stood], "-p", profile, *more.get(control, []),
             "-m", f"{PROGRAM.parent}:/app", "-m", f"{world.args['ro']}:{world.args['ro']}",
             "-m", f"{world.args['rw']}:{world.args['rw']}:w", "-t", str(1 << 20), "-n", "64",
             "-M", str(64 << 20), "--", *_words(world, names, "/app/escape")], options)
        end = json.loads(done.stderr_text.splitlines()[-1])
        if end["event"] != "exit" or end["stood"] != stood:
            raise RuntimeError(str(end))
        return _lines(done.stdout_text), _end(end["cause"], end["syscall"])
    return side


def _end(kind, syscall):
    return None if kind == "exited" else f"end:{syscall}" if kind == "seccomp" else f"end:{kind}"


def run(side, world, wanted):
    """{name: outcome}.  A technique that ends its chamber is the first that says nothing."""
    outcomes, groups = {}, {}
    chamber = side not in (without, bubblewrap)
    for t in wanted:
        # Who it is outside, and what is unshared there, concerns a control only.
        around = side is without or t.control in ("tty", "leak", "link", "next")
        # What succeeds with mounts would change them for those after it.
        alone = "" if chamber or t.control != "ns" else t.name
        groups.setdefault((t.control if around else "plain", alone), []).append(t.name)
    for (control, _), names in groups.items():
        while names:
            with surroundings(control) as options:
                said, end = side(world, names, options, control)
            outcomes.update(said)
            left = [n for n in names if n not in said]
            if len(left) == len(names) and end is None:
                raise RuntimeError(f"nothing said by {names[:3]}...")
            if left:
                outcomes[left.pop(0)] = end or "no word"
            names = left
    if outcomes.get("survivor") == "CONTAINED" and world.end_survivor():
        outcomes["survivor"] = "ESCAPED"
    return outcomes


def attack(world, profile, wanted):
    """run() from a chamber of `profile`: by the command, as far as it starts such ones.

    A technique that ends its chamber needs one of its own, which costs the most: of those one of
    each kind is run by the command, the others are launched by the supervisor's code alone.
    """
    by_command, kinds = [], set()
    for t in wanted if profile != "provider" else ():
        lethal = any(word.startswith("end:") for word in t.expects(profile))
        if t.control in ("link", "next") or lethal and t.kind in kinds:
            continue
        by_command.append(t)
        if lethal:
            kinds.add(t.kind)
    return {**run(exec_in(profile), world, by_command),
            **run(chamber_of(profile), world, [t for t in wanted if t not in by_command])}


def attack_from_one_that_stood_by(world, profile, wanted):
    """run() from chambers of `profile` whose first half was there before, without what needs
    another chamber, which would take that one.  Without root the world is not beneath /tmp.

    A technique that ends its chamber meets the same filter everywhere: native's is enough."""
    return run(chamber_of(profile, stood=True), world,
               [t for t in wanted if t.control != "next" and (profile == "native" or not any(
                   word.startswith("end:") for word in t.expects(profile)))])


def controls(world, wanted):
    """Outcomes without a chamber; "no control: why" for those that this user has none of."""
    able = [t for t in wanted if t.control in CONTROLS or
            t.control == "root" and ROOT]
    outcomes = run(without, world, able)
    for t in wanted:
        if t not in able:
            outcomes[t.name] = "needs root" if t.control == "root" else t.control
    return outcomes
