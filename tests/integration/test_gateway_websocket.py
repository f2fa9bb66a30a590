"""WebSockets over real sockets (RFC 6455), TLS, and what connections cost."""

import contextlib
import hashlib
import os
import resource
import select
import socket
import ssl
import subprocess
import tempfile
import unittest

from gateway_host import Host, SETTLED, SHUTDOWN, certificate, masked, trusting
from test_gateway_transport import ECHO, PUBLIC, echo, memory_of
from wire import Closed, SANITIZED, TIMEOUT, program


def opened(host, listener=0, tls=None):
    client = host.connect(listener, tls)
    answer = client.upgrade("/echo")
    assert answer.status == 101, answer
    return client


@unittest.skipUnless(program(ECHO), "gateway_echo is not built")
class Handshake(unittest.TestCase):
    def test_the_answer_is_that_of_the_rfc(self):
        with echo() as host, host.connect() as client:
            answer = client.upgrade("/echo")
            self.assertEqual(answer.status, 101)
            self.assertEqual(answer.headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
            self.assertEqual(answer.headers["upgrade"].lower(), "websocket")
            self.assertNotIn("sec-websocket-extensions", answer.headers)  # declined

    def test_what_is_no_handshake_is_told(self):
        rows = ((400, {"Sec_WebSocket_Key": "short"}), (400, {"Sec_WebSocket_Key": "AAAA" * 6}),
                (426, {"Sec_WebSocket_Version": "8"}), (426, {"Sec_WebSocket_Version": "13, 8"}),
                (426, {"Upgrade": "h2c"}), (426, {"Connection": "keep-alive"}))
        with echo() as host:
            for status, headers in rows:
                with self.subTest(headers), host.connect() as client:
                    answer = client.upgrade("/echo", **headers)
                    self.assertEqual(answer.status, status)
                    if status == 426:
                        self.assertEqual(answer.headers["sec-websocket-version"], "13")
            with host.connect() as client:
                client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n"
                            b"Upgrade: websocket\r\nContent-Length: 0\r\nSec-WebSocket-Version: 13\r\n"
                            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
                self.assertEqual(client.response().status, 400)

    def test_behind_a_handshake_that_is_refused_nothing_is_served(self):
        """A proxy that overlooks the refusal would pass on as frames what would be requests here."""
        behind = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
        for path, version in (("/echo", b"8"), ("/", b"13")):
            with self.subTest(path), echo() as host, host.connect() as client:
                client.send(b"GET %s HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                            b"Sec-WebSocket-Version: %s\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
                            % (path.encode(), version) + behind)
                answer = client.response()
                self.assertEqual((answer.status, answer.headers["connection"]),
                                 (426 if path == "/echo" else 200, "close"))
                self.assertEqual(client.rest(), b"")

    def test_frames_may_come_with_the_handshake(self):
        with echo() as host, host.connect() as client:
            client.send(b"GET /echo HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n"
                        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" + masked(1, b"early"))
            self.assertEqual(client.response().status, 101)
            self.assertEqual(client.frame(), (1, b"early"))


@unittest.skipUnless(program(ECHO), "gateway_echo is not built")
class Frames(unittest.TestCase):
    def test_messages_of_every_size_come_back(self):
        with echo() as host, opened(host) as client:
            for n in (0, 1, 125, 126, 65535, 65536, 300000, 1 << 20):
                client.send_frame(1, b"x" * n)
                self.assertEqual(client.frame(), (1, b"x" * n))

    def test_byte_by_byte_with_a_ping_between_fragments(self):
        data = masked(1, "a€".encode()[:2], fin=False) + masked(9, b"ping") + \
            masked(0, "a€".encode()[2:])
        with echo() as host, opened(host) as client:
            client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(len(data)):
                client.send(data[i:i + 1])
            self.assertEqual(client.frame(), (10, b"ping"))
            self.assertEqual(client.frame(), (1, "a€".encode()))

    def test_pipelined_messages_come_back_in_order(self):
        with echo() as host, opened(host) as client:
            client.send(b"".join(masked(1, b"%d" % i) for i in range(2000)))
            for i in range(2000):
                self.assertEqual(client.frame(), (1, b"%d" % i))

    def test_what_breaks_the_rfc_is_closed_with_its_code(self):
        rows = ((1002, b"\x81\x05hello", "not masked"), (1002, masked(1, b"", reserved=0x40), "RSV1"),
                (1002, masked(3), "opcode 3"), (1002, masked(0, b"x"), "a continuation of nothing"),
                (1002, masked(9, b"", fin=False), "a ping in fragments"),
                (1002, masked(9, b"x" * 126), "a long ping"),
                (1002, masked(8, b"\x03"), "a close of one byte"),
                (1002, masked(8, b"\x03\xed"), "a close with 1005"),
                (1007, masked(1, b"\xff"), "no UTF-8"),
                (1007, masked(8, b"\x03\xe8\xff"), "no UTF-8 in a reason"),
                (1008, masked(2, b"x"), "binary"),
                (1009, b"\x81\xff" + (1 << 40).to_bytes(8, "big"), "too big, before it comes"),
                (1009, masked(1, b"x" * (1 << 19), fin=False) * 1 + masked(0, b"x" * (1 << 19), fin=False)
                 + masked(0, b"x"), "too big in fragments"))
        with echo() as host, opened(host) as neighbour:
            for code, data, why in rows:
                with self.subTest(why), opened(host) as client:
                    client.send(data)
                    self.assertEqual(client.close_code(), code)
                    client.send_frame(8, code.to_bytes(2, "big"))
                    self.assertEqual(client.rest(), b"")
            neighbour.send_text("still here")
            self.assertEqual(neighbour.frame(), (1, b"still here"))

    def test_the_closing_handshake_from_either_side(self):
        with echo() as host:
            with opened(host) as client:
                client.send_frame(8, b"\x0f\xa0bye")
                self.assertEqual(client.close_code(), 4000)
                self.assertEqual(client.rest(), b"")
            with opened(host) as client:
                client.send_frame(8)
                self.assertEqual(client.frame(), (8, b""))
                self.assertEqual(client.rest(), b"")
            with opened(host) as client:
                client.send_text("close")
                client.send_text("not heard any more")
                self.assertEqual(client.frame(), (8, b"\x03\xf0as you wish"))
                client.send_frame(8, b"\x03\xf0")
                self.assertEqual(client.rest(), b"")
            with opened(host) as client:  # a client that never answers the close
                client.send_text("close")
                self.assertEqual(client.close_code(), 1008)
                self.assertEqual(client.rest(), b"")
            codes = [line.split()[-1] for line in host.log().splitlines() if "closed" in line]
            self.assertEqual(codes, ["4000", "1005", "1008", "1006"])


@unittest.skipUnless(program(ECHO), "gateway_echo is not built")
class Life(unittest.TestCase):
    def test_pings_come_and_an_answer_keeps_it_alive(self):
        with echo(pingIntervalMs=400) as host, opened(host) as client:
            for _ in range(5):
                self.assertEqual(client.frame(), (9, b""))
                client.send_frame(10)
            client.send_text("alive")
            while True:
                opcode, payload = client.frame()
                if opcode == 1:
                    break
            self.assertEqual(payload, b"alive")

    def test_two_pings_without_an_answer_end_it(self):
        with echo(pingIntervalMs=200) as host, opened(host) as client:
            pings = client.rest()
            self.assertEqual(pings, b"\x89\x00" * 2)

    def test_a_slow_reader_gets_everything_and_costs_a_bound(self):
        count = 20000  # messages of 1 KiB
        with echo() as host, opened(host) as client, opened(host) as other:
            client.send_text(f"flood {count}")
            other.send_text("x")
            self.assertEqual(other.frame(), (1, b"x"))
            host.ping()
            self.assertLess(memory_of(host), (12 << 20) * (16 if SANITIZED else 1))
            for left in range(count, 0, -1):
                opcode, payload = client.frame()
                self.assertEqual((opcode, len(payload), int(payload.split()[0])), (1, 1024, left))

    def test_a_reader_that_takes_nothing_is_cut_off_and_no_other(self):
        with echo(writeTimeoutMs=1500, pingIntervalMs=400) as host, opened(host) as client:
            client.send_text("flood 50000")
            poll = select.poll()
            poll.register(client.sock, select.POLLHUP | select.POLLERR)
            self.assertTrue(poll.poll(TIMEOUT * 1000))
            with opened(host) as other:
                other.send_text("x")
                while True:
                    opcode, payload = other.frame()
                    if opcode == 1:
                        break
                self.assertEqual(payload, b"x")

    def test_a_client_that_never_reads_pongs_is_not_read_for_ever(self):
        with echo() as host, opened(host) as client:
            client.sock.setblocking(False)
            ping = masked(9, b"p" * 125) * 500
            sent = 0
            with self.assertRaises(BlockingIOError):
                while sent < 1 << 27:  # more than sockets and the bound hold
                    sent += client.sock.send(ping)
            self.assertLess(memory_of(host), (12 << 20) * (16 if SANITIZED else 1))

    def test_fragments_without_an_end_are_bounded_over_all_connections(self):
        part = b"\xff" + (1 << 20).to_bytes(8, "big") + bytes(4) + b"x" * (1 << 20)
        with echo(bodyBytes=32 << 20) as host, contextlib.ExitStack() as stack:
            ended = 0
            for i in range(4):
                client = stack.enter_context(opened(host))
                try:
                    for k in range(24):  # 24 MiB each
                        client.send((b"\x00" if k else b"\x01") + part)
                    client.send_frame(9, b"p")
                    self.assertEqual(client.frame(), (10, b"p"))
                except (Closed, OSError):
                    ended += 1
            self.assertGreaterEqual(ended, 1)
            self.assertLess(ended, 4)
            stack.close()
            with opened(host) as client:
                client.send_text("x")
                self.assertEqual(client.frame(), (1, b"x"))

    def test_a_shutdown_closes_with_1001_and_answers_what_is_in_service(self):
        with echo() as host, opened(host) as client, host.connect() as asked, host.connect() as idle:
            self.assertEqual(idle.get("/").status, 200)
            asked.send(b"GET /later HTTP/1.1\r\nHost: h\r\n\r\nGET /more HTTP/1.1\r\nHost: h\r\n\r\n")
            host.ping()
            host.tell(verb=SHUTDOWN)
            self.assertEqual(client.close_code(), 1001)
            answer = asked.response()
            self.assertEqual((answer.status, answer.headers["connection"]), (200, "close"))
            self.assertEqual(asked.rest(), b"")
            self.assertEqual(idle.rest(), b"")
            client.send_frame(8, b"\x03\xe9")
            self.assertEqual(client.rest(), b"")
            for one in (client, asked, idle):
                one.sock.close()
            host.expect(SETTLED)
            self.assertEqual(host.stop(), 0)

    def test_clients_that_do_not_part_hold_no_shutdown_up(self):
        with echo() as host, opened(host), host.connect() as asked:
            asked.send(b"GET /later HTTP/1.1\r\nHost: h\r\n\r\n")
            host.ping()
            host.tell(verb=SHUTDOWN)
            host.expect(SETTLED)
            self.assertEqual(host.stop(), 0)

    def test_a_shutdown_listens_no_more(self):
        with echo() as host:
            host.tell(verb=SHUTDOWN)
            host.expect(SETTLED)
            for sock in host.sockets:
                sock.close()  # the supervisor's own
            with self.assertRaises(OSError):
                host.connect().get("/")


@unittest.skipUnless(program(ECHO), "gateway_echo is not built")
class Cost(unittest.TestCase):
    @unittest.skipIf(SANITIZED, "a sanitizer's memory is another")
    def test_a_websocket_at_rest_costs_less_than_a_kilobyte(self):
        count = 1000
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < 2 * count:
            self.skipTest(f"needs {2 * count} descriptors, and may have {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * count), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        with echo(connections=4 * count) as host:
            warm = [opened(host) for _ in range(100)]
            before = memory_of(host)
            clients = [opened(host) for _ in range(count)]
            for client in clients:
                client.send_text("once")
                self.assertEqual(client.frame(), (1, b"once"))
            each = (memory_of(host) - before) / count
            self.assertLess(each, 1024)
            for client in (*warm, *clients):
                client.sock.close()


@unittest.skipUnless(program(ECHO), "gateway_echo is not built")
class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.first = certificate(cls.directory.name, "first")
        cls.second = certificate(cls.directory.name, "second")
        certificate(cls.directory.name, "client")
        cls.client = [os.path.join(cls.directory.name, f"client.{end}") for end in ("pem", "key")]

    def rows(self, pair=None, **members):
        pem, key = pair or self.first
        return [{"kind": "public", "certificate": pem, "key": key, **members}]

    def test_messages_and_bodies_pass(self):
        with echo(self.rows()) as host, host.connect(0, trusting(self.first[0])) as client:
            self.assertEqual(len(client.get("/bytes/3000000").body), 3000000)
            self.assertIn(b"x" * 500000, client.request("POST", "/", b"x" * 500000).body)
            self.assertEqual(client.upgrade("/echo").status, 101)
            for n in (1, 20000, 1 << 20):
                client.send_frame(1, b"y" * n)
                self.assertEqual(client.frame(), (1, b"y" * n))
            client.send_text("flood 3000")
            for left in range(3000, 0, -1):
                self.assertEqual(int(client.frame()[1].split()[0]), left)

    def test_old_versions_and_plain_text_are_refused(self):
        with echo(self.rows()) as host:
            for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
                context = trusting()
                context.set_ciphers("ALL:@SECLEVEL=0")
                context.minimum_version = context.maximum_version = version
                with self.subTest(version), self.assertRaises((ssl.SSLError, OSError)):
                    host.connect(0, context)
            context = trusting()
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            with host.connect(0, context) as client:
                self.assertEqual(client.sock.version(), "TLSv1.2")
                self.assertEqual(client.get("/").status, 200)
            with host.connect(0) as client:
                client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
                self.assertFalse(client.rest().startswith(b"HTTP"))

    def test_a_protocol_that_is_not_ours_is_refused(self):
        with echo(self.rows()) as host:
            context = trusting()
            context.set_alpn_protocols(["h2", "http/1.1"])
            with host.connect(0, context) as client:
                self.assertEqual(client.sock.selected_alpn_protocol(), "http/1.1")
            context = trusting()
            context.set_alpn_protocols(["h2"])
            with self.assertRaises((ssl.SSLError, OSError)):
                host.connect(0, context)

    def test_a_client_certificate_is_handed_up_as_its_digest(self):
        pem = open(self.client[0], encoding="ascii").read()
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.subTest(version), echo(self.rows(askCertificate=True)) as host:
                context = trusting(client=self.client)
                context.maximum_version = version
                with host.connect(0, context) as client:
                    self.assertIn(f"certificate {digest}\n".encode(), client.get("/").body)
                with host.connect(0, trusting()) as client:  # it need not have one
                    self.assertNotIn(b"certificate", client.get("/").body)
        with echo(self.rows()) as host, host.connect(0, trusting(client=self.client)) as client:
            self.assertNotIn(b"certificate", client.get("/").body)  # nobody asked

    def test_a_handshake_that_stops_is_ended(self):
        with echo(self.rows(), headerTimeoutMs=300) as host:
            for data in (b"", b"\x16\x03\x01\x02\x00\x01"):
                with host.connect(0) as client:
                    client.send(data)
                    self.assertEqual(client.rest(), b"")

    def test_another_certificate_is_for_new_connections(self):
        with echo(self.rows()) as host, host.connect(0, trusting(self.first[0])) as old:
            self.assertEqual(old.get("/").status, 200)
            self.assertEqual(host.reconfigure(self.rows(self.second))["error"], 0)
            self.assertEqual(old.get("/").status, 200)
            with host.connect(0, trusting(self.second[0])) as new:
                self.assertEqual(new.get("/").status, 200)
            with self.assertRaises(ssl.SSLError):
                host.connect(0, trusting(self.first[0]))

    def test_a_configuration_that_is_wrong_leaves_what_was(self):
        with echo(self.rows()) as host:
            wrong = (self.rows([self.first[0], self.second[1]]), self.rows() * 2,
                     self.rows([b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                                self.first[1]]))
            for rows in wrong:
                self.assertEqual(host.reconfigure(rows)["error"], 22)
            self.assertEqual(host.reconfigure(namespace="other")["error"], 22)
            with host.connect(0, trusting(self.first[0])) as client:
                self.assertEqual(client.get("/").status, 200)

    def test_no_session_is_resumed_and_none_renegotiated(self):
        with echo(self.rows()) as host:
            context = trusting()
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            with host.connect(0, context) as client:
                client.get("/")
                session = client.sock.session
            sock = socket.create_connection(host.addresses[0], TIMEOUT)
            with context.wrap_socket(sock, server_hostname="localhost", session=session) as again:
                self.assertFalse(again.session_reused)
            said = subprocess.run(
                ["openssl", "s_client", "-tls1_2", "-connect", "%s:%d" % host.addresses[0]],
                input=b"R\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT)
            self.assertIn(b"no renegotiation", said.stdout)


if __name__ == "__main__":
    unittest.main()
