"""Grants over the wire, as an operator asks for them."""

import unittest

from broker_host import Host, grant, invoke, ok, runtime, serve, tool

READ, WRITE = tool("files.read"), tool("files.write", "write", action="write")
APPEND = tool("files.append", "write", action="append")
DOCS = grant("g-docs", ["docs"], ["read"])
TOOLS = [READ, WRITE, APPEND]
TREE = grant("root", ["tree"], ["read", "write"], subject="human:op", issuer="human:root",
             delegationDepth=2, purposes=["test", "play"], notBefore=5, expiresAt=1 << 45)


def capability(path, actions, scope="descendants", **members):
    return {"namespace": "workspace", "path": path, "scope": scope, "actions": actions, **members}


def below(*path, actions=("read",)):
    return [capability(list(path), list(actions))]


def issue(client, capabilities=None, subject="agent:test", **members):
    return client.call("grant.issue", subject=subject,
                       capabilities=capabilities or below("docs"), **members)


def refused(client, method, **params):
    error, result = client.expect_reply(client.request(method, **params))
    assert result is None, result
    return error["code"], error["message"]


def listed(client, limit=100, **params):
    """Every grant, over as many pages as it takes."""
    found, cursor = [], 0
    while True:
        page = client.call("grant.list", cursor=cursor, limit=limit, **params)
        found += page["grants"]
        cursor = page["next"]
        if cursor == 0:
            return found


def ids(client):
    return [g["id"] for g in listed(client)]


def reads(*paths, name="files.read"):
    """A runtime that makes one call for each path; its output is their codes, "" for none."""
    def work(child, params):
        return {"status": "complete", "output": [
            invoke(child, name, str(i), path=p).get("error", {}).get("code", "")
            for i, p in enumerate(paths)]}
    return runtime(work)


class Case(unittest.TestCase):
    def host(self, worker=None, provider=None, **config):
        config = {"tools": TOOLS, "grants": [DOCS], **config}
        host = Host(worker=worker or reads("docs/a"), provider=provider or serve(lambda p: ok()),
                    **config)
        self.addCleanup(host.__exit__, None, None, None)
        return host

    def output(self, client):
        turn, event = client.turn()
        self.assertEqual(turn["status"], "succeeded", event)
        return turn["output"]
