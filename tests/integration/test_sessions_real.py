"""Sessions of a real daemon: commands and files in a workspace, and what survives what."""

import os
import signal
import unittest

import daemon_lab
import real
from daemon_lab import Daemon
from real import wait_for
from wire import TIMEOUT

CONFIG = """version: 1
limits: { kill_grace: 200ms, shutdown_grace: 5s }
sessions: { max: 4, queue: 4, operation_timeout: 60s }
runtimes:
  - { id: shell, builtin: command, profile: interpreter }
"""


class Real(daemon_lab.Case):
    def configure(self, grace="20s", more=""):
        path = self.dir / "c.yaml"
        path.write_text(CONFIG + more)
        return path

    def daemon(self):
        return Daemon(self)

    @staticmethod
    def acquire(client, **params):
        return client.call("session.acquire", **params)["session"]["id"]

    def run_one(self, client, session, **params):
        """Its terminal event, and what it wrote before that."""
        operation = client.call("operation.submit", session=session, **params)["operation"]
        written = b""
        while True:
            _, e = client.expect("operation.event")
            self.assertEqual(e["operation"], operation)
            if e["type"] == "output":
                written += e["data"]
            elif e["type"] in ("completed", "failed"):
                return e, written

    def shell(self, client, session, line, **params):
        e, written = self.run_one(client, session, kind="command", shell=line, **params)
        return e["body"]["command"].get("exitCode"), written.decode()

    def workspaces(self):
        return sorted(self.state.glob("namespaces/default/workspaces/*"))


class Commands(Real):
    def test_commands_share_a_workspace_and_nothing_else_with_the_next(self):  # OP-5
        client = self.daemon().client()
        s = self.acquire(client)
        self.assertEqual(self.shell(client, s, "pwd; echo one >a; echo $$"), (0, "/workspace\n2\n"))
        self.assertEqual(self.shell(client, s, "cat a; exit 7"), (7, "one\n"))
        self.assertEqual(self.shell(client, s, "cat; ls", content=b"in\n"), (0, "in\na\n"))
        other = self.acquire(client)
        self.assertEqual(self.shell(client, other, "ls"), (0, ""))
        e, _ = self.run_one(client, s, kind="command", argv=["no-such-program"])
        self.assertEqual((e["body"]["code"], e["body"]["command"]["exitCode"]), ("not_found", 127))
        e, _ = self.run_one(client, s, kind="command", shell="kill -9 $$")
        self.assertEqual(e["body"]["command"]["signal"], 9)

    def test_many_commands_that_fail_do_not_stop_the_runtime(self):
        client = self.daemon().client()
        s = self.acquire(client)
        for _ in range(7):
            self.assertEqual(self.shell(client, s, "exit 1"), (1, ""))

    def test_what_is_out_of_time_is_ended_with_all_that_it_started(self):  # OP-31
        client = self.daemon().client()
        s = self.acquire(client)
        e, written = self.run_one(client, s, kind="command", timeoutMs=3000,
                                  shell="echo begun; sleep 1000 & sleep 1000")
        self.assertEqual((e["body"]["code"], e["body"]["command"]["timedOut"], written),
                         ("deadline_exceeded", True, b"begun\n"))
        self.assertEqual(self.shell(client, s, "echo next"), (0, "next\n"))

    def test_files_are_the_same_for_clients_and_commands(self):
        client = self.daemon().client()
        s = self.acquire(client)
        e, _ = self.run_one(client, s, kind="createDirectory", path="d/e", recursive=True)
        self.assertEqual(e["type"], "completed", e)
        e, _ = self.run_one(client, s, kind="writeFile", path="d/e/f", content=b"one\n")
        self.assertEqual(e["body"]["writeFile"]["size"], 4)
        self.assertEqual(self.shell(client, s, "cat d/e/f; echo two >>d/e/f"), (0, "one\n"))
        self.assertEqual(client.call("file.read", session=s, path="d/e/f"),
                         {"content": b"one\ntwo\n", "size": 8})
        self.assertEqual(client.call("file.stat", session=s, path="d/e")["entry"]["type"],
                         "directory")
        self.assertEqual([e["name"] for e in client.call("file.list", session=s, limit=9)
                          ["entries"]], ["d"])
        e, _ = self.run_one(client, s, kind="deleteFile", path="d", recursive=True)
        self.assertEqual(e["type"], "completed", e)
        self.assertEqual(self.shell(client, s, "ls"), (0, ""))


class Ends(Real):
    def test_a_release_leaves_neither_process_nor_workspace(self):  # OP-34
        daemon = self.daemon()
        client = daemon.client()
        s = self.acquire(client)
        self.shell(client, s, "mkdir -p a/b; touch a/b/c; chmod 0 a/b")
        self.assertEqual(len(self.workspaces()), 1)
        client.call("operation.submit", session=s, kind="command", shell="sleep 1000")
        while client.expect("operation.event")[1]["type"] != "accepted":
            pass
        request = client.request("session.release", session=s, mode="immediate", wait=True)
        seen = []
        while True:
            m = client.receive()
            if m[0] == 1 and m[1] == request:
                self.assertEqual(m[3]["session"]["state"], "closed")
                break
            seen.append(m[2][0])
        self.assertEqual(seen[-1]["body"]["code"], "canceled")
        wait_for(lambda: not self.workspaces(), "the workspace is gone")

    def test_sessions_outlive_the_broker_and_the_daemon(self):
        daemon = self.daemon()
        client = daemon.client()
        s = self.acquire(client, leaseMs=600000)
        self.shell(client, s, "echo kept >a")
        os.kill(daemon.service("broker"), signal.SIGKILL)
        self.assertTrue(client.closed())
        client = daemon.client()
        self.assertEqual(client.call("session.show", session=s)["session"]["state"], "ready")
        self.assertEqual(self.shell(client, s, "cat a"), (0, "kept\n"))
        self.assertEqual(daemon.end(), 0, daemon.stderr())
        client = self.daemon().client()
        self.assertEqual(self.shell(client, s, "cat a"), (0, "kept\n"))
        client.call("session.release", session=s, wait=True)
        wait_for(lambda: not self.workspaces(), "the workspace is gone")
        self.verified()


if __name__ == "__main__":
    unittest.main()
