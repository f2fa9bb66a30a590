"""The gateway's process: its control link, its end, and what it serves without a broker."""

import unittest

from gateway_host import CONFIG_TAKEN, Host, SETTLED, SHUTDOWN, certificate, trusting
from wire import TIMEOUT, program


@unittest.skipUnless(program("caisson-gateway"), "not built")
class Control(unittest.TestCase):
    def test_it_answers_the_heartbeat_and_ends_with_its_supervisor(self):
        with Host() as host:
            host.ping()
            self.assertEqual(host.stop(), 1)

    def test_a_shutdown_is_settled_and_then_it_ends_in_peace(self):
        with Host() as host, host.connect() as client:
            self.assertEqual(client.get("/").status, 404)
            host.tell(verb=SHUTDOWN)
            host.expect(SETTLED)
            self.assertEqual(client.rest(), b"")
            self.assertEqual(host.stop(), 0)

    def test_a_configuration_that_is_wrong_is_refused_with_its_listener(self):
        host = Host([{"kind": "public"}, {"kind": "public", "certificate": b"x", "key": b"y"}])
        answer = host.expect(CONFIG_TAKEN)
        self.assertEqual((answer["error"], answer["index"]), (22, 1))
        self.assertEqual(host.process.wait(TIMEOUT), 125)
        self.assertIn("listener 2: the certificate is no PEM chain", host.log())
        host.stop()


@unittest.skipUnless(program("caisson-gateway"), "not built")
class Listeners(unittest.TestCase):
    def test_plain_unix_and_tls_serve_the_same(self):
        with Host([{"kind": "public"}, {"kind": "public", "unix": True}]) as plain:
            for listener in (0, 1):
                with plain.connect(listener) as client:
                    self.assertEqual(client.get("/").status, 404)
        certificate_pem, key = certificate(plain_directory(self), "server")
        with Host([{"kind": "public", "certificate": certificate_pem, "key": key}]) as host:
            with host.connect(0, trusting(certificate_pem)) as client:
                self.assertEqual(client.get("/").status, 404)
                self.assertEqual(client.sock.version(), "TLSv1.3")

    def test_the_monitor_says_that_it_lives(self):
        with Host() as host, host.connect(1) as client:
            answer = client.get("/healthz")
            self.assertEqual((answer.status, answer.body), (200, b"ok\n"))
            self.assertEqual(client.get("/v1").status, 404)


def plain_directory(case):
    import tempfile
    directory = tempfile.TemporaryDirectory()
    case.addCleanup(directory.cleanup)
    return directory.name


if __name__ == "__main__":
    unittest.main()
