"""The envelope around a turn, against scripted peers: what it lets in, what it offers, what it
refuses, and how it ends (TU-1 to TU-72).  test_broker.py has a call's life, test_outage.py the
journal's failures."""

import unittest

from broker_host import Turns, grant, invoke, runtime, tool

READ, WRITE = tool("files.read"), tool("files.write", "write", action="write")
DOCS, WRITES = grant("g-docs", ["docs"], ["read"]), grant("g-write", ["docs"], ["write"])


class Envelope(Turns, unittest.TestCase):
    TOOLS, GRANTS = [READ, WRITE], [DOCS, WRITES]


class Ceiling(Envelope):
    """What the host refuses, whatever is granted (TU-44)."""

    FROZEN = [{"namespace": "workspace", "path": ["docs", "ledger"], "scope": "descendants",
               "actions": ["*"]},
              {"namespace": "workspace", "path": [], "scope": "descendants",
               "actions": ["write"]}]

    def test_a_frozen_tree_is_refused_and_the_rest_is_not(self):  # TU-44
        def work(child, params):
            self.offered = [t["name"] for t in params["tools"]]
            return {"status": "complete", "output": [
                invoke(child, name, str(n), path=path) for n, (name, path) in enumerate([
                    ("files.read", "docs/ledger/2026"), ("files.read", "docs/a"),
                    ("files.write", "docs/a")])]}
        frozen, control, write = self.run_turn(runtime(work), ceiling=self.FROZEN)["output"]
        self.assertEqual((frozen["status"], frozen["error"]["code"]),
                         ("denied", "host_policy_denied"))
        self.assertNotIn("g-docs", repr(frozen))
        self.assertEqual(control["status"], "succeeded")
        # Discovery honours it: what it refuses altogether is not offered.
        self.assertEqual(self.offered, ["files.read"])
        self.assertEqual(write["error"]["code"], "tool_unavailable")
        r = self.record("authorization.checked", outcome="denied")
        self.assertEqual((r["reason"], r["grant"], r["path"]),
                         ("host_policy_denied", "g-docs", ["docs", "ledger", "2026"]))

    def test_a_refusal_of_the_ceiling_spends_no_use(self):  # TU-44
        def work(child, params):
            return {"status": "complete", "output": [
                invoke(child, "files.read", str(n), path=path)["status"]
                for n, path in enumerate(["docs/ledger/a", "docs/ledger/b", "docs/a"])]}
        turn = self.run_turn(runtime(work), ceiling=self.FROZEN,
                             grants=[grant("once", ["docs"], ["read"], maxUses=1)])
        self.assertEqual(turn["output"], ["denied", "denied", "succeeded"])


if __name__ == "__main__":
    unittest.main()
