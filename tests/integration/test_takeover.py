"""What a broker takes over from the one before it, when its ledger fails it (D-2, D-11)."""

import socket
import unittest

import broker_host
from broker_host import Host
from wire import Peer


class DyingLedger(Host):
    """Its first ledger dies between two pages of the state; the next one has it all."""

    def serve_ledger(self):
        page = {"count": 0, "hash": bytes(32), "segment": 0, "length": 0, "uses": [], **self.state}
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


if __name__ == "__main__":
    unittest.main()
