"""Providers of all sessions, at the broker, when another configuration follows."""

import queue
import unittest

from broker_host import Hold, PROVIDER, TURN, grant, tool
from test_reload_broker import Case, DOCS, Leash, PLAN, STOPS
from wire import Closed, TIMEOUT

ONE = {"id": "p", "shared": True, "concurrency": 4}
OTHER = {"id": "other", "shared": True, "concurrency": 4}
READ, READ_SECOND = tool("files.read"), tool("files.read", provider=1)


class Provider:
    """Calls as they come, for the test to answer."""

    def __init__(self, stays=False):
        self.calls, self.stays = queue.Queue(), stays

    def __call__(self, child):
        child.peer.hello("provider")
        try:
            while True:
                m = child.peer.receive()
                if m[0] == 0:
                    self.calls.put((child, m[1], m[3][0]))
        except Closed:
            if self.stays:
                child.killed.wait(TIMEOUT)
            raise

    def next(self):
        return self.calls.get(timeout=TIMEOUT)

    def answer(self, output="text"):
        """The next call; returns the process that had it."""
        child, msgid, params = self.next()
        self.reply(child, msgid, params, output)
        return child

    @staticmethod
    def reply(child, msgid, params, output="text"):
        child.peer.reply(msgid, callId=params["call"], status="succeeded", output=output)


class Shared(Case):
    def start(self, n=2, stays=False, **config):
        self.provider = Provider(stays)
        self.leashes = [Leash() for _ in range(n)]
        config.setdefault("providers", [ONE])
        config.setdefault("tools", [READ])
        self.served = self.host(self.leashes, provider=self.provider, **config)
        return self.served, self.leashes

    def reload(self, generation, providers, since, tools=None, **config):
        if since is not None:
            config["providersSince"] = since
        config.setdefault("grants", [DOCS])
        self.taken(self.served, generation, providers=providers,
                   tools=[READ] if tools is None else tools, **config)

    def ask(self, leash, id="1", name="files.read", **arguments):
        return leash.child.peer.request("tool.invoke", operation=leash.child.operation, id=id,
                                        tool=name, arguments=arguments or {"path": "docs/a"})

    def heard(self, leash, msgid):
        error, result = leash.child.peer.expect_reply(msgid)
        self.assertIsNone(error)
        return result.get("output") or result["error"]["code"]

    def call(self, leash, **more):
        """One that is answered: (the process, what came of it)."""
        msgid = self.ask(leash, **more)
        return self.provider.answer(), self.heard(leash, msgid)

    def spawns(self):
        return [(c.spawn["generation"], c.spawn["index"]) for c in self.served.children
                if c.spawn["kind"] == PROVIDER]

    def over(self, generation):
        while generation not in self.served.over:
            self.served.round()

    def end(self, client, leash):
        leash.gone.set()
        client.finish()


class Stays(Shared):
    def test_calls_go_on_and_the_next_sessions_reach_the_same_process(self):
        host, (a, b) = self.start()
        first = self.begin(host, a)
        under_way = self.ask(a)
        held = self.provider.next()
        # It stands elsewhere, and its tool takes and gives something else.
        stricter = {**tool("files.read", provider=1, properties={
            "path": {"type": "string"}, "n": {"type": "integer"}}),
            "output": {"type": "integer"}}
        self.reload(1, [OTHER, ONE], [1, 0], tools=[stricter])
        second = self.begin(host, b)
        self.assertEqual(self.heard(b, self.ask(b)), "invalid_tool_arguments")
        arguments = {"path": "docs/a", "n": 1}
        child, came = self.call(b, id="2", **arguments)
        self.assertEqual((child, came), (held[0], "invalid_tool_result"))
        number = self.ask(b, id="3", **arguments)
        self.assertIs(self.provider.answer(7), child)
        self.assertEqual(self.heard(b, number), 7)
        self.provider.reply(*held)
        self.assertEqual(self.heard(a, under_way), "text")
        # What began before goes by what it knows, at the same process.
        self.assertEqual(self.call(a, id="2"), (child, "text"))
        self.end(first, a)
        self.over(0)
        self.assertEqual((self.spawns(), child.over.is_set()), ([(0, 0)], False))
        self.end(second, b)

    def test_places_are_of_the_sessions_of_all_configurations(self):  # D-9
        one = {**ONE, "concurrency": 1}
        host, (a, b) = self.start(providers=[one])
        clients = [self.begin(host, a)]
        asked = [(a, self.ask(a, id=str(i))) for i in range(2)]
        held = self.provider.next()
        self.reload(1, [OTHER, one], [1, 0], tools=[READ_SECOND])
        clients.append(self.begin(host, b))
        asked += [(b, self.ask(b, id=str(i))) for i in range(2)]
        host.round()
        self.assertTrue(self.provider.calls.empty())
        self.provider.reply(*held)
        for _ in range(3):
            self.assertIs(self.provider.answer(), held[0])
        for leash, msgid in asked:
            self.assertEqual(self.heard(leash, msgid), "text")
        for client, leash in zip(clients, (a, b)):
            self.end(client, leash)

    def test_twice_and_back_again_with_nobody_there(self):
        host, (a, b, c) = self.start(3)
        client = self.begin(host, a)
        child, _ = self.call(a)
        self.end(client, a)
        self.reload(1, [OTHER, ONE], [1, 0], tools=[READ_SECOND])
        self.reload(2, [ONE], [0])
        for generation in (0, 1):
            self.over(generation)
        client = self.begin(host, b)
        self.assertEqual(self.call(b), (child, "text"))
        self.end(client, b)
        self.reload(3, [OTHER, ONE], [3, 0], tools=[READ_SECOND])
        self.over(2)
        client = self.begin(host, c)
        self.assertEqual(self.call(c), (child, "text"))
        self.assertEqual(self.spawns(), [(0, 0)])
        self.end(client, c)

    def test_what_is_revoked_counts_at_the_one_that_stays(self):  # D-7
        host, (a, b) = self.start()
        first = self.begin(host, a)
        child, _ = self.call(a)
        self.reload(1, [ONE], [0], grants=[grant("g-more", ["more"], ["read"])])
        self.assertEqual(self.heard(a, self.ask(a, id="2")), "no_matching_grant")
        second = self.begin(host, b)
        self.assertEqual(self.heard(b, self.ask(b)), "no_matching_grant")
        self.assertEqual(self.call(b, id="2", path="more/a"), (child, "text"))
        self.assertTrue(self.provider.calls.empty())
        self.end(first, a)
        self.end(second, b)

    def test_orders_name_the_configuration_that_it_went_over_to(self):
        host, (a,) = self.start(1, stays=True)
        client = self.begin(host, a)
        self.call(a)
        self.end(client, a)
        self.reload(1, [OTHER, ONE], [1, 0], tools=[READ_SECOND])
        self.over(0)
        self.close(host)
        self.assertEqual([(k["generation"], k["index"]) for k in host.kills
                          if k["kind"] == PROVIDER], [(1, 1)])

    def test_a_late_answer_has_its_name_when_its_configuration_is_gone(self):  # D-2, D-9
        host, (a, b) = self.start()
        client = self.begin(host, a)
        self.ask(a)
        held = self.provider.next()
        a.gone.set()
        client.finish()
        self.reload(1, [OTHER, ONE], [1, 0], tools=[tool("files.else", provider=1)])
        self.over(0)
        named, = client.call("grant.revoke", id="g-docs")["dispatched"]
        self.assertEqual((named["call"], named["tool"]), (held[2]["call"], "files.read"))
        self.provider.reply(*held)
        self.reload(2, [ONE], [0], grants=[grant("g-again", ["docs"], ["read"])])
        client = self.begin(host, b)
        self.assertEqual(self.call(b), (held[0], "text"))
        late, = [r for r in host.records() if r.get("cause") == "late"]
        self.assertEqual((late["call"], late["tool"]), (held[2]["call"], "files.read"))
        self.end(client, b)


class Dies(Shared):
    @unittest.skipUnless(STOPS.exists(), "the build with stops is not there")
    def test_right_at_the_reload(self):  # D-10
        """Before its record is durable it is made by the one before, and then by the next."""
        hold = Hold(self)
        host, (a, b) = self.start(program_path=str(STOPS), env={PLAN: f"sync:4={hold.text}"},
                                  **hold.host)
        first = self.begin(host, a)
        child, _ = self.call(a)
        host.round()
        host.offer(1, providers=[OTHER, ONE], providersSince=[1, 0], tools=[READ_SECOND],
                   **{"killGraceMs": hold.host["killGraceMs"]}, grants=[DOCS])
        host.round()
        child.exit = {"x_kind": 2, "x_status": 9}
        child.finish()
        host.round()
        self.assertTrue(host.answers.empty(), "it is not durable yet")
        hold.release()
        self.assertEqual(self.answer(host)["error"], 0)
        for leash in (a, b):
            client = first if leash is a else self.begin(host, leash)
            again, came = self.call(leash, id="again")
            self.assertEqual((came, again is child), ("text", False))
            self.end(client, leash)
        self.assertEqual(len(self.spawns()), 2, "one for both")
        self.over(0)

    def test_with_calls_of_both_configurations(self):  # D-10
        host, (a, b) = self.start()
        clients = [self.begin(host, a)]
        lost = [(a, self.ask(a))]
        child, *_ = self.provider.next()
        self.reload(1, [OTHER, ONE], [1, 0], tools=[READ_SECOND])
        clients.append(self.begin(host, b))
        lost.append((b, self.ask(b)))
        self.assertIs(self.provider.next()[0], child)
        child.finish()
        for leash, msgid in lost:
            self.assertEqual(self.heard(leash, msgid), "interrupted")
        second, _ = self.call(b, id="2")
        self.assertEqual(self.call(a, id="2"), (second, "text"))
        # Asked for by what is in force, whoever needs it.
        self.assertEqual(self.spawns(), [(0, 0), (1, 1)])
        for client, leash in zip(clients, (a, b)):
            self.end(client, leash)


class Goes(Shared):
    def replaced(self, *reloads):
        """The turn that knew it keeps it; the others have another one."""
        host, (a, b) = self.start()
        first = self.begin(host, a)
        old, _ = self.call(a)
        for generation, (providers, since, *tools) in enumerate(reloads, 1):
            self.reload(generation, providers, since, *tools)
        second = self.begin(host, b)
        new, came = self.call(b)
        self.assertEqual((came, new is old), ("text", False))
        self.assertEqual(self.call(a, id="2"), (old, "text"))
        self.end(first, a)
        self.assertTrue(old.over.wait(TIMEOUT))
        self.over(0)
        self.assertEqual(self.call(b, id="2"), (new, "text"))
        self.end(second, b)
        self.assertNotIn("has died", host.log_text())

    def test_one_that_is_made_another_way(self):
        self.replaced(([ONE], [1]))

    def test_one_that_was_another_in_between(self):
        self.replaced(([ONE], [1]), ([ONE], [2]))
        self.replaced(([OTHER], [1], []), ([ONE], [2]))

    def test_one_of_which_nothing_is_said(self):
        self.replaced(([ONE], None))

    def test_one_whose_places_are_others_whatever_is_said(self):
        self.replaced(([{**ONE, "concurrency": 1}], [0]))

    def test_one_that_each_session_has_for_itself_now(self):
        self.replaced(([{**ONE, "shared": False}], [0]))

    def test_at_once_where_nobody_needs_it(self):
        host, (a,) = self.start(1)
        client = self.begin(host, a)
        child, _ = self.call(a)
        self.end(client, a)
        self.reload(1, [OTHER], [1], tools=[])
        self.assertTrue(child.over.wait(TIMEOUT))
        self.over(0)
        self.assertEqual([c.spawn["kind"] for c in host.children], [TURN, PROVIDER])


if __name__ == "__main__":
    unittest.main()
