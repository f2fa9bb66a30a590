"""What `grant.why` says of a call is what happens to it (TU-13, TU-33, TU-46)."""

import random
import time
import unittest

from broker_host import invoke, ok, runtime, serve, tool
from grants_lab import Case, TREE, capability

HOSTS, PAIRS = 12, 40
WORDS = ["a", "ab", "b"]
ACTIONS = ["read", "write", "append"]


class Agreement(Case):
    """Random grants, issued, derived, revoked; for each call first the question, then a turn."""

    def grants(self, chosen, client):
        """Some that meet often, of every kind that can be issued."""
        now = int(time.time() * 1000)
        for i in range(chosen.randrange(3, 12)):
            path = [chosen.choice(WORDS) for _ in range(chosen.randrange(3))]
            actions = chosen.sample([*ACTIONS, "*"], chosen.randrange(1, 3))
            limits = chosen.choice([{}, {}, {"maxUses": chosen.randrange(1, 4)},
                                    {"purposes": [chosen.choice(["test", "play"])]},
                                    {"notBefore": now + 10 ** 7},
                                    {"expiresAt": now + 10 ** 7}])
            wanted = dict(id=f"g{i}", subject=chosen.choice(["agent:test"] * 4 + ["agent:x"]),
                          capabilities=[capability(
                              path, actions, chosen.choice(["exact", "descendants"]),
                              **chosen.choice([{}, {}, {"owner": "human:op"},
                                               {"owner": "human:else"}]))], **limits)
            if chosen.randrange(4) == 0:
                wanted["parent"] = "root"
                wanted["capabilities"] = [capability(["tree", *path], ["read"])]
            client.expect_reply(client.request("grant.issue", **wanted))

    def ask_and_call(self, host, client, name, path):
        """(what was said beforehand, the code that the turn's call got)"""
        said = client.call("grant.why", subject="agent:test", tool=name,
                           arguments={"path": path})
        self.pair = name, path
        turn, event = client.turn()
        self.assertEqual(turn["status"], "succeeded", event)
        return said, turn["output"]

    def test_hundreds_of_random_calls(self):
        tools = [tool(f"files.{a}", "write", action=a) for a in ACTIONS]
        seen, chosen = {}, random.Random(11)
        for _ in range(HOSTS):
            def work(child, params):
                name, path = self.pair
                return {"status": "complete", "output": invoke(
                    child, name, path=path).get("error", {}).get("code", "allowed")}
            host = self.host(runtime(work), serve(lambda p: ok()), tools=tools, grants=[TREE])
            client = host.client()
            self.grants(chosen, client)
            for n in range(PAIRS):
                if n % 10 == 9:
                    client.expect_reply(client.request(
                        "grant.revoke", id=chosen.choice(["root", "g0", "g1", "g2"])))
                name = "files." + chosen.choice(ACTIONS)
                path = "/".join(chosen.choice([*WORDS, "tree"])
                                for _ in range(chosen.randrange(4)))
                path = chosen.choice([path] * 9 + [path + "/../x"])
                said, told = self.ask_and_call(host, client, name, path)
                self.assertEqual(said["code"], told, (name, path, said))
                self.assertEqual(said["allowed"], told == "allowed")
                seen[told] = seen.get(told, 0) + 1
                self.compare_with_record(host, said, told)
        self.assertEqual(sum(seen.values()), HOSTS * PAIRS)
        for code in ("allowed", "no_matching_grant", "tool_unavailable", "invalid_request"):
            self.assertGreater(seen.get(code, 0), 5, seen)

    def compare_with_record(self, host, said, told):
        """The grant that it named is the one that decided; a denial's cause is its cause."""
        checked = [r for r in host.records() if r["type"] == "authorization.checked" and
                   "tool" in r]
        if told == "allowed":
            self.assertEqual(said["grant"], checked[-1]["grant"])
        elif told == "no_matching_grant":
            self.assertEqual((said["cause"], said.get("detail"), said.get("closest")),
                             tuple(checked[-1].get(k) for k in ("cause", "detail", "grant")))


if __name__ == "__main__":
    unittest.main()
