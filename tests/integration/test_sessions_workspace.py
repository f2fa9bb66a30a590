"""File operations on a session's workspace, between its operations and past them."""

import queue
import threading
import unittest

from broker_host import FILES
from sessions_lab import Commands, Sessions, WORKS
from wire import TIMEOUT


class Files:
    """Serves a workspace that is a dictionary, until the test holds it back."""

    def __init__(self):
        self.data, self.calls, self.children = {}, [], []
        self.go = threading.Event()
        self.go.set()
        self.asked = queue.Queue()

    def __call__(self, child):
        self.children.append(child)
        child.peer.hello("files")
        while True:
            m = child.peer.receive(timeout=600)
            if m[0] != 0:
                continue
            params = m[3][0]
            self.calls.append(params)
            self.asked.put(params["tool"])
            self.go.wait(TIMEOUT)
            child.peer.reply(m[1], callId=params["call"], **self.answer(params))

    def answer(self, params):
        a = params["arguments"]
        if params["tool"] == "workspace.write":
            before = self.data.get(a["path"], b"") if a["append"] else b""
            created = a["path"] not in self.data
            self.data[a["path"]] = before + a["content"]
            return {"status": "succeeded",
                    "output": {"size": len(self.data[a["path"]]), "created": created}}
        if params["tool"] == "workspace.rename":
            self.data[a["to"]] = self.data.pop(a["from"])
            return {"status": "succeeded", "output": {"replaced": False}}
        if params["tool"] == "workspace.list":
            names = sorted(self.data)
            return {"status": "succeeded", "output": {"entries": [
                {"name": n, "type": "file", "size": len(self.data[n])}
                for n in names[:a["limit"]]], **({"next": "c"} if a["limit"] < len(names) else {})}}
        if a["path"] not in self.data:
            return {"status": "failed", "error": {
                "code": "not_found", "message": "path: there is nothing of that name"}}
        if params["tool"] == "workspace.read":
            n = a.get("offset", 0)
            return {"status": "succeeded", "output": {
                "content": self.data[a["path"]][n:n + a["length"]],
                "size": len(self.data[a["path"]])}}
        if params["tool"] == "workspace.stat":
            return {"status": "succeeded", "output": {
                "name": a["path"], "type": "file", "size": len(self.data[a["path"]]),
                "modifiedAt": 1}}
        del self.data[a["path"]]
        return {"status": "succeeded", "output": {"type": "file"}}


class Workspace(Sessions):
    def setUp(self):
        self.files = Files()

    def test_changes_are_operations_and_reads_come_past_them(self):  # OP-5
        host = self.host(runtimes=[WORKS], files=self.files)
        client = host.client()
        s = self.acquire(client)
        e = client.finish(client.submit("writeFile", session=s, path="a", content=b"one"))
        self.assertEqual((e["type"], e["body"]), ("completed", {"writeFile": {
            "size": 3, "created": True}}))
        e = client.finish(client.submit("writeFile", session=s, path="a", content=b" two",
                                        append=True))
        self.assertEqual(e["body"]["writeFile"]["size"], 7)
        self.assertEqual(client.call("file.read", session=s, path="a", offset=4),
                         {"content": b"two", "size": 7})
        client.finish(client.submit("renameFile", session=s, path="a", to="b"))
        self.assertEqual(client.call("file.stat", session=s, path="b")["entry"]["size"], 7)
        self.assertEqual(client.call("file.list", session=s, limit=5)["entries"],
                         [{"name": "b", "type": "file", "size": 7}])
        client.finish(client.submit("deleteFile", session=s, path="b"))
        self.assertEqual(client.call("file.list", session=s, limit=5), {"entries": []})
        child, = self.files.children  # one served all of it
        self.assertEqual((child.spawn["kind"], child.spawn["workspace"]), (FILES, int(s[2:], 16)))
        self.assertTrue(all(c["action"] == "client" and c["path"] == [] for c in self.files.calls))
        client.call("session.release", session=s, wait=True)
        self.assertTrue(child.over.is_set())  # before the workspace goes
        host.round()
        self.assertEqual(host.dropped, [int(s[2:], 16)])

    def test_a_change_that_fails(self):  # OP-16
        host = self.host(runtimes=[WORKS], files=self.files)
        client = host.client()
        s = self.acquire(client)
        e = client.finish(client.submit("deleteFile", session=s, path="no"))
        self.assertEqual((e["type"], e["body"]["code"], e["body"]["message"]),
                         ("failed", "not_found", "path: there is nothing of that name"))
        self.assertEqual(self.refused(client, "file.read", session=s, path="no"), "not_found")
        record = self.records(host, "operation.ended")[-1]
        self.assertEqual((record["outcome"], record["reason"]), ("failed", "not_found"))

    def test_what_a_client_may_not_ask(self):
        host = self.host(runtimes=[WORKS], files=self.files)
        client = host.client()
        s = self.acquire(client)
        for path in ("/a", "../a", "a/./b", ""):
            if path:
                self.assertEqual(self.refused(client, "file.read", session=s, path=path),
                                 "invalid_argument")
        self.assertEqual(self.refused(client, "file.list", session=s, limit=0),
                         "invalid_argument")
        self.assertEqual(self.refused(client, "file.stat", session="s-" + "0" * 16, path="a"),
                         "not_found")
        self.assertEqual(self.files.calls, [])

    def test_reads_pass_a_command_that_runs(self):  # OP-5
        commands = Commands()
        host = self.host(commands, files=self.files)
        client = host.client()
        s = self.acquire(client)
        self.files.data["x"] = b"1"
        self.submit(client, s)
        child = commands.next()
        self.assertEqual(client.call("file.read", session=s, path="x")["content"], b"1")
        id = client.submit("deleteFile", session=s, path="x")
        host.round()
        self.assertEqual(self.files.data, {"x": b"1"})  # it waits
        Commands.end(child)
        self.assertEqual(client.finish(id)["type"], "completed")
        self.assertEqual(self.files.data, {})

    def test_who_dies_at_a_change_leaves_it_unknown_and_the_next_goes_on(self):
        host = self.host(runtimes=[WORKS], files=self.files)
        client = host.client()
        s = self.acquire(client)
        self.files.go.clear()
        first = client.submit("writeFile", session=s, path="a", content=b"")
        second = client.submit("writeFile", session=s, path="b", content=b"")
        self.files.asked.get(timeout=TIMEOUT)
        self.files.children[0].finish(x_kind=2, x_status=9)
        e = client.finish(first)
        self.assertEqual((e["body"]["code"], e["body"]["cause"]["kind"]),
                         ("unavailable", "outcome_unknown"))
        self.files.go.set()
        self.assertEqual(client.finish(second)["type"], "completed")
        self.assertEqual(len(self.files.children), 2)

    def test_a_change_that_is_cancelled_is_waited_for(self):
        host = self.host(runtimes=[WORKS], files=self.files, killGraceMs=60000)
        client = host.client()
        s = self.acquire(client)
        self.files.go.clear()
        first = client.submit("writeFile", session=s, path="a", content=b"")
        second = client.submit("writeFile", session=s, path="b", content=b"")
        self.files.asked.get(timeout=TIMEOUT)
        client.call("operation.stop", operation=first)
        self.assertEqual(client.finish(first)["body"]["code"], "canceled")
        host.round()
        self.assertTrue(self.files.asked.empty())  # the second does not begin beside it
        self.files.go.set()
        self.assertEqual(client.finish(second)["type"], "completed")
        self.assertEqual(len(self.files.children), 1)

    def test_one_that_never_answers_is_killed(self):
        host = self.host(runtimes=[WORKS], files=self.files, killGraceMs=50)
        client = host.client()
        s = self.acquire(client)
        self.files.go.clear()
        # Time enough for the provider to be asked on any machine.
        first = client.submit("writeFile", session=s, path="a", content=b"", timeoutMs=2000)
        self.files.asked.get(timeout=TIMEOUT)
        self.assertEqual(client.finish(first)["body"]["code"], "deadline_exceeded")
        client.call("session.release", session=s, wait=True)
        self.assertTrue(self.files.children[0].killed.is_set())
        self.files.go.set()


if __name__ == "__main__":
    unittest.main()
