"""Whatever an operator asks, in whatever order, and whenever the broker dies (D-7, D-10, D-16).

A random story: grants are given, derived, taken away, listed and asked about, well and badly
formed, turns make calls, with and without keys, the configuration is replaced, and the broker is
killed while answers are outstanding, or its disk fails.  The next one must stand where the journal says; each answer
that was given still holds, and nothing happened twice.

CAISSON_GRANTS_STORIES=n tells n of them, CAISSON_GRANTS_SEED=n from that one on.
"""

import collections
import contextlib
import os
import pathlib
import random
import tempfile
import unittest

import test_audit
from broker_host import JOURNALS, grant, runtime, serve, tool
from grants_lab import capability, listed
from test_grants_durable import Kept, implied
from outage_lab import PLAN, STOPS
from wire import Closed

STORIES = int(os.environ.get("CAISSON_GRANTS_STORIES", 3))
SEED = int(os.environ.get("CAISSON_GRANTS_SEED", 1))
LIVES, STEPS = 4, 25
WORDS = ["a", "b", "c"]
ACTIONS = ["read", "write"]
TOOLS = [tool(f"files.{a}", "write", action=a) for a in ACTIONS]
CONFIGS = [[grant("log", ["a"], ["write"], maxUses=3)],
           [grant("log", ["a"], ["write", "read"], maxUses=5)],
           [grant("log", ["a"], ["write"], maxUses=3), grant("deep", ["b"], ["*"])],
           []]
FAR = 1 << 45
BESIDE = {"exhausted", "pending", "expired", "foreign", "orphaned"}  # what a state says besides


class Mortal(Kept):
    def serve(self):
        with contextlib.suppress(OSError):  # it died as it asked for something
            super().serve()


class Life:
    """One broker, from its start to its death or end."""

    def __init__(self, story, config, plan=None):
        self.story, self.chance = story, story.chance
        self.generation, self.turns, self.open = 0, [], 0
        self.host = Mortal(story.run, worker=runtime(self.work), provider=serve(self.effect),
                           tools=TOOLS, grants=CONFIGS[config], revocation=story.mode,
                           killGraceMs=50, **({} if plan is None else dict(
                               program_path=str(STOPS), env={PLAN: plan})))
        self.client = self.host.client()

    def effect(self, params):
        self.story.effects.append((params["call"], params["path"]))
        return {"status": "failed", "error": {"code": "no", "message": "", "retryable": False}} \
            if params["path"][-1:] == ["c"] else {"status": "succeeded", "output": 1}

    def work(self, child, params):
        for i, (name, path, key) in enumerate(self.turns.pop(0) if self.turns else []):
            more = {} if key is None else {"idempotencyKey": key}
            sent = child.peer.request("tool.invoke", operation=child.operation, id=str(i),
                                      tool=name, arguments={"path": path}, **more)
            while child.peer.receive()[:2] != [1, sent]:
                continue  # it is told to drain
        return {"status": "complete", "output": None}

    # ---- what may happen -------------------------------------------------------------------

    def some_capability(self):
        return capability([self.chance.choice(WORDS) for _ in range(self.chance.randrange(3))],
                          self.chance.sample([*ACTIONS, "*"], self.chance.randrange(1, 3)),
                          self.chance.choice(["exact", "descendants"]))

    def issue(self):
        chance = self.chance
        params = dict(subject=chance.choice(["agent:test"] * 5 + ["human:op", "agent:x"]),
                      id=chance.choice([f"g{chance.randrange(99)}", f"g{chance.randrange(9)}"]),
                      **chance.choice([{}, {"maxUses": chance.randrange(1, 4)},
                                       {"delegationDepth": chance.randrange(3)},
                                       {"purposes": ["test"]}, {"expiresAt": FAR},
                                       {"notBefore": FAR - 1}, {"expiresAt": 1},
                                       {"delegationDepth": 99}, {"purposes": []}]))
        if chance.randrange(4) == 0:
            params.update(tool="files." + chance.choice(ACTIONS),
                          arguments={"path": "/".join(chance.choices(WORDS, k=2))})
        else:
            params["capabilities"] = [self.some_capability()
                                      for _ in range(chance.randrange(3))]
        if chance.randrange(4) == 0:
            params["parent"] = f"g{chance.randrange(20)}"
        return "grant.issue", params

    def revoke(self):
        return "grant.revoke", {"id": self.chance.choice(
            [f"g{self.chance.randrange(30)}", "log", "deep"] +
            [g for g in self.story.given][-3:])}

    def why(self):
        return "grant.why", dict(subject=self.chance.choice(["agent:test", "agent:x", "human:op"]),
                                 tool="files." + self.chance.choice([*ACTIONS, "none"]),
                                 arguments={"path": self.chance.choice(["a/b", "..", "", "c"])})

    def list(self):
        return "grant.list", dict(cursor=self.chance.choice([0, 0, 3, 1 << 63]),
                                  limit=self.chance.choice([1, 5, 10000]))

    def submit(self):
        self.turns.append([(f"files.{self.chance.choice(ACTIONS)}",
                            "/".join(self.chance.choices(WORDS, k=self.chance.randrange(1, 3))),
                            self.chance.choice([None, None, f"k{self.chance.randrange(6)}"]))
                           for _ in range(self.chance.randrange(1, 6))])
        return "operation.submit", dict(kind="turn")

    def reload(self):
        self.generation += 1
        which = self.chance.randrange(len(CONFIGS))
        self.host.offer(self.generation, tools=TOOLS, grants=CONFIGS[which],
                        revocation=self.story.mode)
        if self.host.answers.get(timeout=60)["error"] == 0:
            self.story.config = which

    # ---- one life --------------------------------------------------------------------------

    def live(self, steps, dies):
        """Asks, and hears what is answered; the last questions may stay without an answer."""
        asked = {}
        for n in range(steps):
            if self.chance.randrange(10) == 0:
                self.reload()
                continue
            method, params = self.chance.choice(
                [self.issue] * 4 + [self.revoke] * 2 +
                [self.why, self.list, self.submit, self.submit])()
            asked[self.client.request(method, **params)] = method, params
            if self.chance.randrange(3):
                self.hear(asked)
        if dies:
            self.host.kill()
        try:
            self.hear(asked)
        except (Closed, OSError):
            pass

    def meet(self):
        """Asks alone for what the first sync is for."""
        method, params = "grant.issue", dict(subject="agent:x", capabilities=[
            capability(["a"], ["read"], "exact")])
        self.hear({self.client.request(method, **params): (method, params)})

    def hear(self, asked):
        while asked:
            m = self.client.receive()
            if m[0] == 1 and m[1] in asked:
                method, params = asked.pop(m[1])
                self.open += method == "operation.submit" and m[2] is None
                self.story.on_answer(method, params, m[2], m[3])
            else:
                self.on_event(m)

    def on_event(self, m):
        self.open -= m[0] == 2 and m[2][0]["type"] in ("completed", "failed")

    def settle(self):
        """Until every turn is over, and what followed it is written."""
        while self.open:
            self.on_event(self.client.receive())
        for _ in range(3):
            self.host.round()


class Story:
    def __init__(self, test, seed, run, fails=False):
        self.test, self.chance, self.run = test, random.Random(seed), run
        self.mode = self.chance.choice(["immediate", "next_turn"])
        self.config, self.fails = 0, fails
        self.given, self.revoked, self.effects, self.kinds = {}, set(), [], set()

    def on_answer(self, method, params, error, result):
        self.kinds.add((method, error["code"] if error else ""))
        if error is not None:
            return
        if method == "grant.issue":
            self.test.assertNotIn(result["id"], self.given)
            self.given[result["id"]] = result["grant"]
        elif method == "grant.revoke":
            self.revoked.add(params["id"])

    def check(self, life):
        """What a broker that took over has, is what the journal says and what was answered."""
        test, records = self.test, life.host.records()
        found = {g["id"]: g for g in listed(life.client)}
        told, others = implied(records)
        for name, (state, spent) in told.items():
            test.assertEqual(found[name]["spent"], spent, name)
            test.assertTrue(found[name]["state"] == state or
                            (state != "revoked" and found[name]["state"] in BESIDE),
                            (state, found[name]))
        test.assertEqual({g for g, v in found.items() if v["origin"] == "record"}, set(told))
        test.assertLessEqual(set(self.given), set(told))
        test.assertLessEqual(self.revoked, {n for n, (s, _) in told.items() if s == "revoked"} |
                             others)
        for name, was in self.given.items():
            for member in was.keys() - {"state", "spent", "revokedAt"}:
                test.assertEqual(found[name][member], was[member], (name, member))
        for name in others & set(found):
            test.assertEqual(found[name]["state"], "revoked")
        self.check_effects(records, found)

    def check_effects(self, records, found):
        decided = {r["call"]: r for r in records if
                   r["type"] == "authorization.checked" and "call" in r}
        calls = [call for call, _ in self.effects]
        self.test.assertEqual(len(calls), len(set(calls)))
        self.test.assertLessEqual(set(calls), set(decided))
        used = collections.Counter(decided[c]["grant"] for c in calls)
        keys = collections.Counter(decided[c]["key"] for c in calls if "key" in decided[c])
        self.test.assertLessEqual(set(keys.values()), {1}, "a key's call was made twice")
        for name, n in used.items():
            uses = max(found[name].get("maxUses", n) if name in found else n,
                       5 if name == "log" else 0)
            self.test.assertLessEqual(n, uses, name)

    def plan(self):
        """A disk that fails a few times, early enough to be met."""
        return " ".join(self.chance.choice(
            ["write:{}=ENOSPC", "write:{}=EIO", "write:{}=short", "sync:{}=EIO",
             "sync:{}=stall/200", "sync:{}=stall/1500"]).format(self.chance.randrange(3, 15))
            for _ in range(self.chance.randrange(1, 4)))

    def tell(self):
        for n in range(LIVES):
            met = self.fails and n == 0  # whatever else is met: that depends on who is quicker
            life = Life(self, self.config, None if not self.fails or n + 1 == LIVES else
                        "sync:1=EIO " * met + self.plan())
            try:
                self.check(life)
                if met:
                    life.meet()
                life.live(self.chance.randrange(STEPS), n + 1 < LIVES)
                if n + 1 == LIVES:
                    life.settle()  # and what it has in its memory is no other
                    self.check(life)
            finally:
                if n + 1 < LIVES:
                    life.host.close()
                else:
                    life.host.__exit__(None, None, None)


@unittest.skipUnless(test_audit.LEDGER, "caisson-ledger is not built")
class Stories(unittest.TestCase):
    def stories(self, **more):
        kinds = set()
        for seed in range(SEED, SEED + STORIES):
            with self.subTest(seed=seed), tempfile.TemporaryDirectory(
                    prefix="caisson-grants-", dir=JOURNALS) as folder:
                story = Story(self, seed, pathlib.Path(folder), **more)
                story.tell()
                kinds |= story.kinds
        self.assertLessEqual({("grant.issue", ""), ("grant.revoke", ""), ("grant.why", ""),
                              ("grant.issue", "invalid_argument"),
                              ("operation.submit", "")}, kinds)
        return kinds

    def test_each_answer_holds_and_nothing_happens_twice(self):  # D-7, D-10, D-16
        self.stories()

    @unittest.skipUnless(STOPS.exists(), "build/stops is not built (make stops)")
    def test_nor_when_the_disk_fails(self):  # D-10, D-11, TU-55
        self.assertIn(("grant.issue", "audit_unavailable"), self.stories(fails=True))


if __name__ == "__main__":
    unittest.main()
