"""The rows of the conformance matrix, each against an agent of its own.

An attempt is what a runtime was told, or what became of its turn, beside what it should have
been; `lab.py` has their roles and grades.  The order is that of the matrix.
"""

import threading
import time

from lab import (ATTACK, CONTROL, NOT_APPLICABLE, NOT_EXERCISED, PAST, PROBE, Attempt,
                 OWNER, Row, TOOLS, World, call, capability)

NONE, GONE = "denied no_matching_grant", "denied tool_unavailable"
OK, CHAIN = "succeeded", "denied delegation_chain_invalid"

WORLD = World()
ROWS = []


def row(name, condition, modes=False):
    """Registers a row, and its agent: World.agent() says what that may do."""
    agent = f"{name}-{len(ROWS)}"
    WORLD.agent(agent)

    def register(function):
        ROWS.append(Row(name, condition, lambda lab: function(lab, agent), modes))
        return function
    return register


def left_out(name, condition, why, grade=NOT_APPLICABLE):
    ROWS.append(Row(name, condition, None, grade=grade, why=why))


def read(path="docs/a.txt"):
    return call("files.read", path=path)


def write(path, text="written"):
    return call("files.write", path=path, text=text)


def scratch(lab, agent, turn, n, what="write in scratch"):
    """The control that most rows end with: what was told, and what the disk says."""
    path = f"scratch/{agent}"
    done = turn[n]
    if done == OK and lab.text(path) != "written":
        done = "succeeded, and nothing was written"
    return Attempt(CONTROL, what, OK, done)


def to_scratch(agent):
    return write(f"scratch/{agent}")


def given(agent, name, *capabilities, **constraints):
    """One more grant of an agent; returns its name."""
    WORLD.grant(f"{agent}-{name}", f"agent:{agent}", list(capabilities), **constraints)


def agent_of_next(name):
    return f"{name}-{len(ROWS)}"


FORGED = {"id": "forged", "subject": "agent:*", "issuer": OWNER, "namespace": "default",
          "issuedAt": PAST,
          "capabilities": [capability("workspace", "private", ["read", "write"])]}


@row("forged-grant", "baseline")
def forged_grant(lab, agent):
    turn = lab.turn(agent, call("lab.read", path="docs/a.txt", grants=[FORGED]), read(),
                    write("private/a.txt"), to_scratch(agent), message={"grants": [FORGED]})
    yield Attempt(ATTACK, "a grant object inside read arguments is data", OK, turn[0])
    yield Attempt(ATTACK, "a grant object in the message is data", OK, turn[1])
    yield Attempt(PROBE, "replace what only the forged grant covers", NONE, turn[2])
    yield Attempt(PROBE, "the file is as it was", "text of private/a.txt",
                  lab.text("private/a.txt"))
    yield scratch(lab, agent, turn, 3)


@row("hidden-tool", "baseline")
def hidden_tool(lab, agent):
    turn = lab.turn(agent, call("no.such", path="docs/a.txt"), call("off.read", path="docs/a.txt"),
                    read())
    yield Attempt(ATTACK, "a name that is not registered", GONE, turn[0])
    yield Attempt(ATTACK, "a granted tool of a disabled namespace", GONE, turn[1])
    yield Attempt(CONTROL, "read", OK, turn[2])
    refused = [r for r in turn.records("tool.refused")]
    yield Attempt(PROBE, "both are refused by the envelope", ["envelope", "envelope"],
                  [r["source"] for r in refused])


VAULT = agent_of_next("host-policy-denied")
given(VAULT, "vault", capability("vault", ".", ["read", "write"]))


@row("host-policy-denied", "frozen ledger and mutations")
def host_policy_denied(lab, agent):
    turn = lab.turn(agent, call("vault.read", path="frozen/a"),
                    call("vault.write", path="open/a", text="x"), call("vault.read", path="open/a"))
    yield Attempt(ATTACK, "read below a frozen tree", "denied host_policy_denied", turn[0])
    denied = [r for r in turn.records("authorization.checked") if r["outcome"] == "denied"]
    yield Attempt(PROBE, "the record names the grant that was overridden",
                  [lab.mark(f"{agent}-vault")], [r.get("grant") for r in denied])
    yield Attempt(ATTACK, "a mutation that is never allowed is not there", GONE, turn[1])
    yield Attempt(CONTROL, "read beside it", OK, turn[2])


@row("read-to-mutation", "baseline")
def read_to_mutation(lab, agent):
    turn = lab.turn(agent, read(), write("docs/a.txt"), to_scratch(agent))
    yield Attempt(CONTROL, "read the target", OK, turn[0])
    yield Attempt(ATTACK, "replace it", NONE, turn[1])
    yield Attempt(PROBE, "the file is as it was", "text of docs/a.txt", lab.text("docs/a.txt"))
    yield scratch(lab, agent, turn, 2)


given(agent_of_next("expired-grant"), "old", capability("workspace", "private", ["read"]),
      expiresAt="2001-01-02T00:00:00Z")


@row("expired-grant", "presented again in the call")
def expired_grant(lab, agent):
    old = next(g for g in lab.world.grants if g["id"] == lab.mark(f"{agent}-old"))
    turn = lab.turn(agent, call("lab.read", path="private/a.txt", grant=old), read(),
                    to_scratch(agent))
    yield Attempt(ATTACK, "read with an expired grant", NONE, turn[0])
    yield Attempt(CONTROL, "read", OK, turn[1])
    yield scratch(lab, agent, turn, 2)


given(agent_of_next("replayed-grant"), "revoked", capability("workspace", "private", ["read"]))


@row("replayed-grant", "grant revoked", modes=True)
def replayed_grant(lab, agent):
    turn = lab.turn(agent, read("private/a.txt"))
    yield Attempt(CONTROL, "read while it stands", OK, turn[0])
    lab.revoke(f"{agent}-revoked")
    turn = lab.turn(agent, read("private/a.txt"), to_scratch(agent))
    yield Attempt(ATTACK, "read after it was revoked", NONE, turn[0])
    yield scratch(lab, agent, turn, 1)


PARENTED = agent_of_next("replayed-grant")
LINEAGE = WORLD.grant(f"{PARENTED}-parent", OWNER, [capability("workspace", "private", ["read"])],
                      delegationDepth=1)
WORLD.grant(f"{PARENTED}-child", f"agent:{PARENTED}",
            [capability("workspace", "private", ["read"])], OWNER, LINEAGE)


@row("replayed-grant", "ancestor revoked", modes=True)
def replayed_descendant(lab, agent):
    turn = lab.turn(agent, read("private/a.txt"))
    yield Attempt(CONTROL, "read while the ancestor stands", OK, turn[0])
    lab.revoke(f"{agent}-parent")
    turn = lab.turn(agent, read("private/a.txt"), to_scratch(agent))
    yield Attempt(ATTACK, "read after the ancestor was revoked", CHAIN, turn[0])
    yield scratch(lab, agent, turn, 1)


given(agent_of_next("revoked-mid-turn"), "revoked", capability("workspace", "private", ["read"]))


@row("revoked-mid-turn", "two turns", modes=True)
def revoked_mid_turn(lab, agent):
    turn = lab.turn(agent, read("private/a.txt"), {"do": "gate"}, read("private/a.txt"),
                    at_gate=lambda: lab.revoke(f"{agent}-revoked"))
    yield Attempt(CONTROL, "read before", OK, turn[0])
    yield Attempt(PROBE, "read again in the same turn", OK if lab.mode == "next-turn" else NONE,
                  turn[1])
    turn = lab.turn(agent, read("private/a.txt"), to_scratch(agent))
    yield Attempt(ATTACK, "read in the next turn", NONE, turn[0])
    yield scratch(lab, agent, turn, 1)


@row("expired-mid-turn", "one turn")
def expired_mid_turn(lab, agent):
    # A machine can be so slow that it is over before the first call: then with more time.
    for seconds in (2, 8, 32):
        until = time.time() + seconds
        name = lab.client_of_its_own(
            "grant.issue", subject=f"agent:{agent}", expiresAt=int(until * 1000),
            capabilities=[{"namespace": "workspace", "path": ["private"], "scope": "descendants",
                           "actions": ["read"]}])["id"]
        turn = lab.turn(agent, read("private/a.txt"), {"do": "gate"}, read("private/a.txt"),
                        to_scratch(agent), at_gate=lambda: passes(until))
        if turn[0] == OK:
            break
    yield Attempt(CONTROL, "read before", OK, turn[0])
    yield Attempt(ATTACK, "read once the clock has passed its end", NONE, turn[1])
    closest = [r.get("grant") for r in turn.records("authorization.checked")
               if r["outcome"] == "denied"]
    yield Attempt(PROBE, "the record names that grant", [name], closest)
    yield scratch(lab, agent, turn, 2)


def passes(instant):
    """Returns when the wall clock says more: there is no event for that."""
    while time.time() <= instant + 0.01:
        threading.Event().wait(max(instant + 0.02 - time.time(), 0))


CROSSING = agent_of_next("namespace-crossing")
given(CROSSING, "other", capability("workspace", "others", ["read"], owner="human:other"))


@row("namespace-crossing", "baseline")
def namespace_crossing(lab, agent):
    turn = lab.turn(agent, read(), read("../others/a.txt"), read("others/a.txt"))
    yield Attempt(CONTROL, "read", OK, turn[0])
    yield Attempt(ATTACK, "a path that leads out to another owner's", "denied invalid_request",
                  turn[1])
    yield Attempt(ATTACK, "a grant for another owner's resources", NONE, turn[2])
    # No call can say whose it is: what claims it ends the link, and reaches nobody.
    for claim in ("namespace", "actor", "owner"):
        turn = lab.turn(agent, read(), {**read(), "do": "forge", "claims": {claim: "human:other"}},
                        read())
        yield Attempt(CONTROL, "read", OK, turn[0])
        yield Attempt(ATTACK, f"a call that names its {claim}",
                      (None, "runtime_protocol_violation", 1),
                      (turn[1], cause(turn), len(turn.records("tool.invoked"))))


def cause(turn):
    return next((r["cause"] for r in turn.records("operation.ended")), None)


given(agent_of_next("bounded-grant"), "once", capability("workspace", "log", ["append"]),
      maxUses=1)


@row("bounded-grant", "single use")
def bounded_grant(lab, agent):
    append = call("lab.append", path="log/a", text="x")
    turn = lab.turn(agent, append, append, to_scratch(agent))
    yield Attempt(PROBE, "append", OK, turn[0])
    yield Attempt(ATTACK, "append again", "denied grant_exhausted", turn[1])
    yield scratch(lab, agent, turn, 2)


left_out("usage-store-unavailable", "append", "uses are counted in the broker and in its journal: "
         "there is no store beside them that could fail alone; an outage of the journal ends the "
         "turn `audit_unavailable`")
left_out("authority-unavailable", "at turn boundary",
         "grants are in the broker's memory: nothing is loaded at a turn's boundary that could be "
         "missing; a broker that cannot have them does not start, and the set that fails closed is "
         "shown in `test_authority.c`", NOT_EXERCISED)

given(agent_of_next("tool-ceiling-escape"), "wide", capability("workspace", ".", ["read"]))


@row("tool-ceiling-escape", "baseline")
def tool_ceiling_escape(lab, agent):
    turn = lab.turn(agent, call("lab.escape", path="private/a.txt"),
                    call("lab.escape", path="docs/a.txt"), read())
    yield Attempt(ATTACK, "a tool that resolves outside its declared tree",
                  "failed invalid_tool_requirement", turn[0])
    yield Attempt(CONTROL, "the same within it", OK, turn[1])
    yield Attempt(CONTROL, "read", OK, turn[2])


@row("invalid-tool-result", "another call's id")
def invalid_tool_result(lab, agent):
    turn = lab.turn(agent, call("lab.misdeliver", path="docs/a.txt"), read())
    yield Attempt(ATTACK, "a handler that answers another call", "failed invalid_tool_result",
                  turn[0])
    yield Attempt(CONTROL, "read", OK, turn[1])


@row("budget-exceeded", "1 call, 8 steps")
def call_budget(lab, agent):
    turn = lab.turn(agent, read(), read(), maxToolCalls=1, maxSteps=8)
    yield Attempt(CONTROL, "the first call", OK, turn[0])
    yield Attempt(ATTACK, "a second", "denied tool_call_limit_exceeded", turn[1])


@row("budget-exceeded", "2 steps, 8 calls")
def step_budget(lab, agent):
    def at(step):
        return {**read(), "step": step}
    turn = lab.turn(agent, at(0), at(1), at(2), at(1), maxToolCalls=8, maxSteps=2)
    yield Attempt(CONTROL, "steps 0 and 1", (OK, OK), (turn[0], turn[1]))
    yield Attempt(ATTACK, "a step past the ceiling", "denied step_limit_exceeded", turn[2])
    yield Attempt(CONTROL, "a step that was there", OK, turn[3])


@row("grant-material", "baseline")
def grant_material(lab, agent):
    turn = lab.turn(agent, {"do": "walk"}, read())
    seen = turn.output(0) or {}
    yield Attempt(ATTACK, "identifiers of grants in all that can be reached", 0,
                  seen.get("found"))
    yield Attempt(PROBE, "what was looked at is more than a thousand objects", True,
                  seen.get("looked", 0) > 1000)
    yield Attempt(PROBE, "members that could hold authority", [],
                  [m for m in seen.get("members", ["?"]) if "grant" in m or m in (
                      "authority", "issuer", "settings", "enabledToolNamespaces", "?")])
    yield Attempt(CONTROL, "read", OK, turn[1])
    turn = lab.turn(agent, {"do": "walk"}, message={"note": "grant-mark-0123456789abcdef"})
    yield Attempt(CONTROL, "the same walk finds one that was told", 1,
                  (turn.output(0) or {}).get("found"))


BROAD = agent_of_next("over-broad-delegation")
WORLD.grant(f"{BROAD}-child", f"agent:{BROAD}",
            [capability("workspace", "docs", ["read", "write"])], OWNER, WORLD.root)


@row("over-broad-delegation", "child claims writes")
def over_broad_delegation(lab, agent):
    turn = lab.turn(agent, write("docs/a.txt"), read(), to_scratch(agent))
    yield Attempt(ATTACK, "write by a child of a grant that reads", CHAIN, turn[0])
    yield Attempt(PROBE, "the file is as it was", "text of docs/a.txt", lab.text("docs/a.txt"))
    yield Attempt(CONTROL, "read", OK, turn[1])
    yield scratch(lab, agent, turn, 2)


SNAPSHOTS = capability("snapshots", ".", ["snapshot", "list"])
given(agent_of_next("rollback-unavailable"), "snap", SNAPSHOTS)


@row("rollback-unavailable", "baseline")
def rollback_unavailable(lab, agent):
    turn = lab.turn(agent, call("snap.create"), call("snap.list"),
                    call("snap.restore", path="docs/a.txt"), to_scratch(agent))
    yield Attempt(PROBE, "create and list a snapshot", (OK, OK), (turn[0], turn[1]))
    yield Attempt(ATTACK, "restore without its action", GONE, turn[2])
    yield scratch(lab, agent, turn, 3)


given(agent_of_next("rollback-out-of-scope"), "snap", SNAPSHOTS,
      capability("workspace", "scratch", ["restore"]))


@row("rollback-out-of-scope", "baseline")
def rollback_out_of_scope(lab, agent):
    turn = lab.turn(agent, call("snap.create"), call("snap.restore", path="scratch/a"),
                    call("snap.restore", path="docs/a.txt"))
    yield Attempt(CONTROL, "create, and restore inside the scope", (OK, OK), (turn[0], turn[1]))
    yield Attempt(ATTACK, "restore outside", NONE, turn[2])


@row("broker-ungranted", "unattached and attached")
def broker_ungranted(lab, agent):
    turn = lab.turn(agent, call("ext.gone", path="tree/a"), call("ext.fetch", path="tree/a"),
                    read(), to_scratch(agent))
    yield Attempt(ATTACK, "an external tool that is not attached", GONE, turn[0])
    yield Attempt(ATTACK, "one that is, and is not granted", GONE, turn[1])
    yield Attempt(CONTROL, "read", OK, turn[2])
    yield scratch(lab, agent, turn, 3)


given(agent_of_next("broker-out-of-scope"), "ext", capability("external", "tree", ["fetch"]))


@row("broker-out-of-scope", "baseline")
def broker_out_of_scope(lab, agent):
    turn = lab.turn(agent, call("ext.fetch", path="tree/a"), call("ext.fetch", path="other/a"))
    yield Attempt(CONTROL, "an external tool inside its tree", OK, turn[0])
    yield Attempt(ATTACK, "outside", NONE, turn[1])


@row("catalogue-moved-mid-turn", "requirement changed after listing")
def catalogue_moved(lab, agent):
    def moved():
        """From now on the tool asks for the same place, whatever it is told."""
        lab.reload([dict(t, requires=dict(t["requires"], resource={
            "namespace": "workspace", "path": "docs/a.txt"})) if t["name"] == "lab.read" else t
                    for t in TOOLS])
    inside, outside = call("lab.read", path="docs/a.txt"), call("lab.read", path="private/a.txt")
    turn = lab.turn(agent, inside, {"do": "gate"}, inside, outside, at_gate=moved)
    yield Attempt(CONTROL, "a call before", OK, turn[0])
    yield Attempt(PROBE, "a call in scope", OK, turn[1])
    yield Attempt(ATTACK, "out of scope, which the new requirement would allow", NONE, turn[2])
    turn = lab.turn(agent, outside)
    yield Attempt(CONTROL, "the next turn has the new one", OK, turn[0])
    lab.reload(TOOLS)


given(agent_of_next("escalation"), "ask",
      capability("sharedos", "escalation", ["request"], scope="exact"))


@row("escalation", "baseline")
def escalation(lab, agent):
    turn = lab.turn(agent, call("control.unlock"), read(),
                    call("sharedos.escalate", reason="a person has to decide"), read())
    yield Attempt(ATTACK, "reach for a control tool that is not registered", GONE, turn[0])
    yield Attempt(CONTROL, "read", OK, turn[1])
    yield Attempt(PROBE, "the turn's ending", "escalated escalation_requested", turn.ending)
    yield Attempt(ATTACK, "a call behind the ask", "denied escalation_pending", turn[3])
    yield Attempt(PROBE, "one record of it, with its actor", [f"agent:{agent}"],
                  [r["actor"] for r in turn.records("escalation.requested")])


@row("escalation-refused", "grant withheld")
def escalation_refused(lab, agent):
    turn = lab.turn(agent, read(), {"do": "escalate"})
    yield Attempt(CONTROL, "read", OK, turn[0])
    yield Attempt(ATTACK, "a runtime that escalates anyway", "failed tool_unavailable", turn.ending)
    yield Attempt(PROBE, "records of an escalation", [], turn.records("escalation.requested"))


@row("runtime-crashed", "after one call")
def runtime_crashed(lab, agent):
    turn = lab.turn(agent, read(), {"do": "throw"})
    yield Attempt(CONTROL, "read", OK, turn[0])
    yield Attempt(ATTACK, "then throw", "failed runtime_failed", turn.ending)
    yield Attempt(PROBE, "the call is on record", ["succeeded"],
                  [r["outcome"] for r in turn.records("tool.invoked")])


left_out("route-lease-revoked", "send", "messages between agents are no part of Caisson: a call "
         "reaches a provider, and nobody else")

# What every record of a call has; others have more.
EVERY = {"id", "type", "outcome", "at", "trace", "namespace", "actor", "authority", "owner",
         "purpose", "operation", "callId", "tool", "reason", "source"}


@row("record-completeness", "allowed, denied, refused before the kernel")
def record_completeness(lab, agent):
    turn = lab.turn(agent, read(), read("private/a.txt"), call("no.such", path="docs/a.txt"))
    yield Attempt(CONTROL, "what was told", (OK, NONE, GONE), (turn[0], turn[1], turn[2]))
    records = [r for r in turn.records() if "callId" in r and r["type"] != "tool.invoked"]
    yield Attempt(PROBE, "one record for each", [
        ("authorization.checked", "allowed", "allowed", "kernel"),
        ("authorization.checked", "denied", "no_matching_grant", "kernel"),
        ("tool.refused", "denied", "tool_unavailable", "envelope")],
        [(r["type"], r["outcome"], r["reason"], r["source"]) for r in records])
    yield Attempt(PROBE, "members that are missing", [set(), set(), set()],
                  [EVERY - r.keys() for r in records])
    yield Attempt(PROBE, "what was decided", [("workspace", ["docs", "a.txt"], "read"),
                                              ("workspace", ["private", "a.txt"], "read")],
                  [(r["resource"], r["path"], r["action"]) for r in records
                   if r["source"] == "kernel"])
    yield Attempt(ATTACK, "content in the record", False,
                  "text of" in repr(turn.records()))


left_out("typed-governed-views", "declared", "a declared branch of the source: a tool here has one "
         "requirement and no views of its resources")
left_out("replay-freshness", "declared", "a declared side branch of the source: a call carries no "
         "instant of its own that could be old")
