"""What a broker takes over from the one before it, when its ledger fails it (D-2, D-11)."""

import socket
import unittest

import broker_host
from broker_host import Host
from wire import Peer


class DyingLedger(Host):
    """Its first ledger dies between two pages of the state; the next one has it all."""

    def serve_ledger(self):
        page = {"count": 0, "hash": bytes(32), "segment": 0, "length": 0, "grants": [],
                "revocations": [], "uses": [], "escalations": [], "keys": [], **self.state}
        msgid, _ = self.ledger.expect("state.load")
        self.ledger.reply(msgid, **page, next=1)
        self.ledger.expect("state.load")
        self.ledger.close()
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self.ledger = Peer(ours)
        self.tell(broker_host.LEDGER, [theirs.fileno()])
        theirs.close()
        super().serve_ledger()


class Takeover(unittest.TestCase):
    def test_what_two_ledgers_told_is_ended_once(self):  # D-2
        prior = {"operation": "op-prior", "kind": "turn", "sequence": 1 << 20, "calls": ["c-1"]}
        with DyingLedger(state={"operations": [prior]}) as host:
            event = host.client().call("operation.attach", operation="op-prior")
            self.assertEqual(event["operation"], "op-prior")
            self.assertEqual([r["type"] for r in host.records()], [
                "segment.opened", "broker.started", "tool.invoked", "turn.ended",
                "operation.ended"])

    def test_what_ended_before_ends_alike_for_who_asks_late(self):  # D-2
        told = {
            ("command", "completed", "3"): {"kind": "exited", "code": 3},
            ("command", "completed", "signal 11 core"):
                {"kind": "signaled", "signal": 11, "core": True},
            ("turn", "exited", "137"): {"kind": "exited", "code": 137},
            ("turn", "signaled", "9"): {"kind": "signaled", "signal": 9, "core": False},
            ("command", "limit", "pids"): {"kind": "limit", "name": "pids"},
            ("turn", "seccomp", "ptrace"): {"kind": "seccomp", "syscall": "ptrace"},
            ("turn", "seccomp", ""): {"kind": "seccomp"},
            ("command", "oom", ""): {"kind": "oom"},
        }
        ended = [{"operation": f"op-{i}", "kind": kind, "sequence": 3, "cause": cause,
                  "status": "failed", "calls": [], **({"detail": detail} if detail else {})}
                 for i, (kind, cause, detail) in enumerate(told)]
        with Host(state={"operations": ended}) as host:
            for i, (said, cause) in enumerate(told.items()):
                with self.subTest(said):
                    client = host.client()
                    client.call("operation.attach", operation=f"op-{i}")
                    body = client.finish()["body"]
                    self.assertEqual(body.get("cause") or body["command"]["cause"], cause)


if __name__ == "__main__":
    unittest.main()
