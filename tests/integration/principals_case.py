"""A broker with principals, and clients that prove who they are."""

import hashlib
import unittest

from broker_host import DONE, FROM_GATEWAY, Host, ok, principal, runtime, serve, tool

ALICE, BOB, ADMIN, CARD = "al-token-0123456789", "bob-token-0123456789", "adm-token", b"c" * 32
UID = 54321  # of a person at the local socket


def digest(token):
    return hashlib.sha256(token.encode()).digest()


PRINCIPALS = (
    principal("human:alice", tokens=[digest(ALICE)], uids=[UID], runtimes=["test"]),
    principal("human:bob", tokens=[digest(BOB)], certificates=[CARD], connections=2),
    principal("human:admin", tokens=[digest(ADMIN)], operator=True),
)


class Case(unittest.TestCase):
    def host(self, **config):
        config.setdefault("principals", PRINCIPALS)
        config.setdefault("tools", [tool("files.read")])
        config.setdefault("worker", runtime(lambda child, params: DONE))
        config.setdefault("provider", serve(lambda params: ok()))
        host = Host(**config)
        self.addCleanup(host.__exit__, None, None, None)
        self.addCleanup(self.check_silence, host)
        return host

    def check_silence(self, host):
        """No token is ever written anywhere: neither in the log nor in the record (D-12)."""
        log, record = host.log_text(), repr(host.records())
        for token in (ALICE, BOB, ADMIN):
            for text in (token, token[:-1], hashlib.sha256(token.encode()).hexdigest()):
                self.assertNotIn(text, log)
                self.assertNotIn(text, record)

    def error(self, peer, method, **params):
        error, result = peer.expect_reply(peer.request(method, **params))
        self.assertIsNone(result, method)
        for token in (ALICE, BOB, ADMIN):
            self.assertNotIn(token[:-1], repr(error))
        return error

    def refused(self, peer, code, method, **params):
        error = self.error(peer, method, **params)
        self.assertEqual(error["code"], code, (method, error))
        return error

    def gateway(self, host, **who):
        return host.client(flags=FROM_GATEWAY, **{"uid": 0, "gid": 0, "pid": 0, **who})

    def proven(self, host, token=ALICE, **shown):
        peer = self.gateway(host)
        reply = peer.call("principal.prove", **(shown or {"token": token}))
        return peer, reply

    def served(self, host):
        """A neighbour, who is the operator at the local socket."""
        with host.client() as peer:
            turn, _ = peer.turn(message=1)
            self.assertEqual(turn["status"], "succeeded")
