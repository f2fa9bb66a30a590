"""A namespace, its daemon, and `caisson grant` beside it."""

import contextlib
import fcntl
import json
import os
import subprocess

import real
from daemon_lab import CAISSON, Case, ending, submit
from real import IS_ROOT, WAIT, wait_for
from wire import said

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
