"""Sessions' workspaces: where there are none, and what a death at any step leaves of them."""

import contextlib
import os
import shutil
import signal
import subprocess
import unittest

from daemon_lab import CAISSON, Case, Daemon
from real import WAIT, wait_for
from wire import BUILD, Closed, TIMEOUT, said

STOPS = BUILD / "stops" / "bin" / "caissond"

SHELL = "version: 1\nruntimes: [{ id: shell, builtin: command }]\n"
FILES = ("version: 1\nruntimes: [{ id: a, command: [/bin/true] }]\n"
         "providers: [{ id: files, builtin: files, workspace: true }]\n")


WRITER = """import os
import caisson


def run(turn):
    text = turn.message["text"]
    if text == "one":
        turn.invoke("files.mkdir", {"path": "docs"})
    turn.invoke("files.write", {"path": "docs/" + text, "text": text})
    return {"shown": os.path.exists("/workspace")}


caisson.serve(run)
"""
AGENT = """version: 1
runtimes: [{{ id: a, command: [python3, /app/writer.py], app: {app}, profile: interpreter }}]
providers: [{{ id: files, builtin: files, workspace: true }}]
grants:
  - id: g
    subject: agent:a
    issuer: human:operator
    namespace: default
    capabilities:
      - {{ resource: {{ namespace: workspace, path: docs, scope: descendants }}, actions: ["*"] }}
"""


class Starts(Case):
    def test_too_few_descriptors_for_all_sessions_are_told_of(self):
        if not shutil.which("prlimit"):
            self.skipTest("needs prlimit")
        for most, told in ((1000, True), (10, False)):
            with self.subTest(most=most):
                self.config.write_text(SHELL + f"sessions: {{ max: {most} }}\n")
                d = Daemon(self, runner=["prlimit", "--nofile=4096:4096"])
                self.assertEqual(told, "sessions.max: 1000 sessions at work may need 17024 "
                                 "descriptors, and the hard limit is 4096" in d.stderr(),
                                 d.stderr())
                self.assertTrue((self.state / "namespaces/default/workspaces").is_dir())
                d.close()


class Private(Case):
    """A run of its own has no session."""

    def refused(self, config, *words):
        self.config.write_text(config)
        r = subprocess.run([CAISSON, "run", "--state", self.state, "-c", self.config, *words],
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT)
        self.assertEqual(r.returncode, 125)
        return said(r.stderr.decode())

    def test_the_runtime_for_commands_is_a_daemon_s(self):
        self.assertIn("the runtime \"shell\" of ", self.refused(SHELL))
        self.assertIn("works in a session's workspace", self.refused(SHELL, "--runtime", "shell"))

    def test_files_of_a_workspace_are_a_daemon_s(self):
        self.assertIn("the provider \"files\" of ", self.refused(FILES))
        self.assertIn("serves a session's workspace", self.refused(FILES, "--", "/bin/true"))


class Life(Case):
    """A session's directory comes and goes with it, and with nothing else."""

    def setUp(self):
        super().setUp()
        self.config.write_text(SHELL)
        self.place = self.state / "namespaces/default/workspaces"

    def there(self):
        return sorted(os.listdir(self.place))

    @staticmethod
    def acquire(client):
        return client.call("session.acquire")["session"]["id"]

    @staticmethod
    def open_sessions(client):
        return sorted(s["id"][2:] for s in client.call("session.list", cursor=0, limit=1000)
                      ["sessions"] if s["state"] == "ready")

    def command(self, client, session, line):
        client.call("operation.submit", session=session, kind="command", shell=line)
        while True:
            event = client.expect("operation.event")[1]
            if event["type"] in ("completed", "failed"):
                return event

    def only_the_open_ones_are_there(self, d):
        client = d.client()
        wait_for(lambda: self.there() == self.open_sessions(client), "what is nobody's to go")
        for number in self.open_sessions(client):
            client.call("session.release", session="s-" + number, mode="immediate", wait=True)
        wait_for(lambda: self.there() == [], "all to go")
        self.assertNotIn("cannot remove", d.stderr())


class Lives(Life):
    def test_a_session_s_is_its_number_and_closed_to_others(self):
        d = Daemon(self)
        client = d.client()
        s = self.acquire(client)
        self.assertEqual(self.there(), [s[2:]])
        self.assertEqual((self.place / s[2:]).stat().st_mode & 0o7777, 0o700)
        self.assertEqual(self.command(client, s, "echo x >x; mkdir -p a/b; chmod 0 a")["type"],
                         "completed")
        owner = (self.place / s[2:]).stat().st_uid
        self.assertEqual((self.place / s[2:] / "x").stat().st_uid, owner)
        client.call("session.release", session=s, wait=True)
        wait_for(lambda: self.there() == [], "its workspace to go")

    @unittest.skipUnless(os.geteuid() == 0, "ids are mapped by root only")
    def test_a_file_system_that_cannot_map_ids_is_told_of_at_the_start(self):
        self.state.mkdir(exist_ok=True)
        d = Daemon(self, runner=["unshare", "-m", "sh", "-c", 'mount -t ramfs x "$0" && '
                                 'chmod 700 "$0" && exec "$@"', self.state])
        told = "cannot map ids on this kernel: as root no chamber with a workspace will start"
        self.assertIn(told, d.stderr())
        self.assertIn("put the state directory on ext4", d.stderr())
        client = d.client()
        event = self.command(client, self.acquire(client), "true")
        self.assertEqual(event["type"], "failed")
        self.assertEqual(event["body"]["cause"]["layer"], "uid")
        d.close()
        d = Daemon(self)
        self.assertNotIn(told, d.stderr())

    def test_a_command_sees_no_more_of_us_than_what_started_it(self):
        client = Daemon(self).client()
        s = self.acquire(client)
        self.assertEqual(self.command(client, s, "env >env; ls -a / >root; ls /libexec >ours; "
                                      "ls -l /proc/self/fd >fds; cp /bin/true .; "
                                      "! ./true 2>/dev/null && ! touch /libexec/x "
                                      "/workspace/../x /app 2>/dev/null")
                         ["body"]["command"]["exitCode"], 0)
        here = self.place / s[2:]
        env = dict(line.split("=", 1) for line in (here / "env").read_text().splitlines())
        self.assertEqual({k: env.get(k) for k in ("HOME", "PATH", "CAISSON_LINK_FD")},
                         {"HOME": "/workspace", "PATH": "/usr/local/bin:/usr/bin:/bin",
                          "CAISSON_LINK_FD": None})
        self.assertEqual((here / "ours").read_text(), "caisson-command\n")
        self.assertNotIn("srv", (here / "root").read_text().split())
        self.assertNotIn("socket:", (here / "fds").read_text())  # its link is gone

    def test_who_serves_its_files_is_listed(self):
        d = Daemon(self)
        client = d.client()
        s = self.acquire(client)
        self.assertEqual(client.call("file.list", session=s, limit=5)["entries"], [])
        client.request("process.list")
        rows = []
        while (message := client.receive())[0] == 2:
            rows.append(message[2][0])
        self.assertEqual([(r["role"], r["profile"]) for r in rows if r.get("id") == "workspace"],
                         [("provider", "files")])

    def test_an_agent_s_tools_serve_what_its_chamber_does_not_show(self):
        (self.dir / "app" / "writer.py").write_text(WRITER)
        self.config.write_text(AGENT.format(app=self.dir / "app"))
        client = Daemon(self).client()
        s = self.acquire(client)
        for text in ("one", "two"):
            client.call("operation.submit", session=s, kind="turn", message={"text": text})
            while (event := client.expect("operation.event")[1])["type"] != "completed":
                self.assertNotEqual(event["type"], "failed", event)
            self.assertEqual(event["body"]["turn"]["output"], {"shown": False})
        self.assertEqual((self.place / s[2:] / "docs" / "two").read_text(), "two")
        self.assertEqual(client.call("file.list", session=s, path="docs", limit=9)["entries"][0]
                         ["name"], "one")

    def test_the_next_daemon_keeps_what_is_a_session_s_and_removes_the_rest(self):
        d = Daemon(self)
        client = d.client()
        s = self.acquire(client)
        self.command(client, s, "echo kept >x")
        d.close()
        nobodys = self.place / "00000000deadbeef"
        (nobodys / "d").mkdir(parents=True)
        (nobodys / "d" / "\n\x1b[2J").write_text("x")
        (nobodys / "up").symlink_to(self.place)
        (nobodys / "d").chmod(0)
        (self.place / "notes").mkdir()  # no name that a daemon gives
        d = Daemon(self)
        client = d.client()
        wait_for(lambda: not nobodys.exists(), "what is nobody's to go")
        self.assertEqual(self.there(), sorted([s[2:], "notes"]))
        self.assertEqual((self.place / s[2:] / "x").read_text(), "kept\n")
        (self.place / "notes").rmdir()
        self.only_the_open_ones_are_there(d)


@unittest.skipUnless(STOPS.exists(), "build/stops is not built (make stops)")
class Stops(Life):
    """caissond is killed at each step of a workspace's life: the next start removes what is left."""

    ACQUIRED = ("workspace_making", "workspace_made")
    RELEASED = ("workspace_dropped", "workspace_empty", "workspace_goes", "workspace_removed")

    def until_death(self, d, content):
        client = d.client()
        with contextlib.suppress(Closed, ConnectionError):
            s = self.acquire(client)
            if content:
                self.command(client, s, "mkdir a; echo x >a/x; chmod 0 a")
            client.call("session.release", session=s, wait=True)
            while client.receive():  # the workspace goes beside the answer
                pass
        self.assertEqual(d.process.wait(TIMEOUT), -signal.SIGKILL)

    def test_nothing_is_left_of_a_death_at_any_step(self):
        for content in (False, True):
            for point in self.ACQUIRED + self.RELEASED:
                if point == "workspace_goes" and not content:
                    continue  # what is empty needs no chamber
                with self.subTest(point=point, content=content):
                    d = Daemon(self, program=STOPS,
                               env={"CAISSON_STOP": "supervisor." + point})
                    self.until_death(d, content)
                    d.close()
                    d = Daemon(self)
                    self.only_the_open_ones_are_there(d)
                    d.close()


if __name__ == "__main__":
    unittest.main()
