"""HTTP over real sockets: bytes as clients send them, slowly, wrongly, many at once."""

import contextlib
import errno
import os
import re
import resource
import select
import shutil
import socket
import tempfile
import threading
import time
import unittest

from gateway_host import Host, certificate, trusting
from wire import SANITIZED, TIMEOUT, program

ECHO = "program/gateway_echo"
PUBLIC = [{"kind": "public"}, {"kind": "monitor"}]


def echo(listeners=None, **limits):
    return Host(listeners or PUBLIC, program_name=ECHO, **limits)


@unittest.skipUnless(program(ECHO), "gateway_echo is not built")
class Requests(unittest.TestCase):
    def test_a_request_may_come_byte_by_byte(self):
        text = (b"POST /a%20b?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
                b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n")
        with echo() as host, host.connect() as client:
            client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(len(text)):
                client.send(text[i:i + 1])
            self.assertEqual(client.response().body,
                             b"method POST\nsegment a b\nmember 1\nbody hello\n")
            self.assertEqual(client.response().body, b"method GET\nsegment next\nbody \n")

    def test_a_request_may_be_cut_anywhere(self):
        text = b"POST /a?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"
        with echo() as host, host.connect() as client:
            client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for cut in range(1, len(text)):
                client.send(text[:cut])
                client.send(text[cut:])
                self.assertEqual(client.response().body,
                                 b"method POST\nsegment a\nmember 1\nbody hi\n")

    def test_pipelined_requests_are_answered_in_order(self):
        count = 500
        with echo() as host, host.connect() as client:
            client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % i for i in range(count)))
            for i in range(count):
                self.assertIn(b"segment %d\n" % i, client.response().body)

    def test_a_body_may_come_in_chunks_and_another_request_behind_it(self):
        head = b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks = b"4;x\r\nbody\r\n10\r\n" + b"GET / HTTP/1.1\r\n" + b"\r\n0\r\nX: y\r\n\r\n"
        with echo() as host, host.connect() as client:
            client.send(head + chunks + b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n")
            self.assertIn(b"bodyGET / HTTP/1.1\r\n", client.response().body)
            self.assertEqual(client.response().status, 200)
            for i in range(len(head + chunks)):  # cut anywhere
                client.send((head + chunks)[:i])
                client.send((head + chunks)[i:])
                self.assertIn(b"bodyGET / HTTP/1.1\r\n", client.response().body)

    def test_behind_a_body_whose_end_has_two_readings_nothing_is_served(self):
        chunked = b"Transfer-Encoding: chunked\r\n"
        behind = b"GET /behind HTTP/1.1\r\nHost: h\r\n\r\n"
        with echo() as host:
            for status, fields, body in (
                    (400, chunked + b"Content-Length: 5\r\n", b"0\r\n\r\n"),
                    (400, chunked + chunked, b"0\r\n\r\n"),
                    (400, b"Content-Length: 2\r\nContent-Length: 2\r\n", b"hi"),
                    (400, b"Content-Length: 2, 2\r\n", b"hi"),
                    (400, b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
                    (400, b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n"),
                    (400, b"X: y\n" + chunked, b"0\r\n\r\n"),
                    (501, b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
                    (400, chunked, b"10000000000000002\r\nhi\r\n0\r\n\r\n"),
                    (413, chunked, b"FFFFFFFF\r\nhi\r\n0\r\n\r\n"),
                    (400, chunked, b"2\nhi\r\n0\r\n\r\n"), (400, chunked, b"2\r\nhi\n0\r\n\r\n"),
                    (400, chunked, b"2 \r\nhi\r\n0\r\n\r\n"), (400, chunked, b"0\r\n\n"),
                    (400, chunked, b"2;" + b"x" * 2000 + b"\r\nhi\r\n0\r\n\r\n"),
                    (413, chunked, b"0\r\n" + b"X: y\r\n" * 5000 + b"\r\n")):
                with self.subTest(fields=fields, body=body[:20]), host.connect() as client:
                    client.send(b"POST / HTTP/1.1\r\nHost: h\r\n" + fields + b"\r\n" + body + behind)
                    self.assertEqual(client.response().status, status)
                    self.assertEqual(client.rest(), b"")

    def test_trailers_change_neither_their_request_nor_the_next(self):
        trailers = b"Host: evil\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n"
        with echo() as host, host.connect() as client:
            client.send(b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                        b"2\r\nhi\r\n0\r\n" + trailers + b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n")
            self.assertEqual(client.response().body, b"method POST\nsegment a\nbody hi\n")
            self.assertEqual(client.response().body, b"method GET\nsegment b\nbody \n")

    def test_what_is_sent_behind_a_request_in_service_waits(self):
        with echo() as host, host.connect() as client, host.connect() as other:
            client.send(b"GET /later HTTP/1.1\r\nHost: h\r\n\r\nGET /then HTTP/1.1\r\nHost: h\r\n\r\n")
            host.ping()
            self.assertEqual(select.select([client.sock], [], [], 0)[0], [])
            self.assertIn(b"now", other.get("/now").body)
            self.assertIn(b"later", client.response().body)
            self.assertIn(b"then", client.response().body)

    def test_requests_without_end_whose_answers_nobody_takes_cost_a_bound(self):
        """So many that each would fill a queue of answers and one of requests; all are answered in the end."""
        count, clients = 20000, 48
        with echo() as host, contextlib.ExitStack() as stack:
            first = memory_of(host)
            crowd = [stack.enter_context(host.connect()) for _ in range(clients)]
            for client in crowd:
                client.sock.setblocking(False)
                with self.assertRaises(BlockingIOError):
                    for _ in range(count):
                        client.sock.send(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % (10**9) * 100)
            host.ping()
            self.assertLess(memory_of(host) - first, clients * (80 << 10) * (8 if SANITIZED else 1))
        with echo() as host, host.connect() as client:
            sender = threading.Thread(target=client.send, args=(
                b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % i for i in range(count)),))
            sender.start()
            for i in range(count):
                self.assertIn(b"segment %d\n" % i, client.response().body)
            sender.join()

    def test_a_flood_behind_a_request_in_service_is_not_read(self):
        with echo() as host, host.connect() as client, host.connect() as other:
            client.send(b"GET /later HTTP/1.1\r\nHost: h\r\n\r\n")
            host.ping()
            client.sock.setblocking(False)
            sent = 0
            with self.assertRaises(BlockingIOError):
                while sent < 1 << 26:  # more than sockets hold
                    sent += client.sock.send(b"x" * (1 << 16))
            before = memory_of(host)
            self.assertLess(before, (40 << 20) * (8 if SANITIZED else 1))
            other.get("/now")

    def test_a_client_that_says_no_more_is_answered(self):
        with echo() as host, host.connect() as client:
            client.send(b"GET /bytes/3000000 HTTP/1.1\r\nHost: h\r\n\r\n")
            client.sock.shutdown(socket.SHUT_WR)
            self.assertEqual(len(client.response().body), 3000000)
            self.assertEqual(client.rest(), b"")

    def test_head_tells_the_length_and_sends_no_body(self):
        with echo() as host, host.connect() as client:
            answer = client.request("HEAD", "/bytes/1000")
            self.assertEqual((answer.status, answer.headers["content-length"]), (200, "1000"))
            self.assertEqual(client.get("/x").status, 200)

    def test_a_client_that_waits_for_100_gets_it_before_its_body(self):
        with echo() as host, host.connect() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n"
                        b"Expect: 100-continue\r\n\r\n")
            self.assertEqual(client.response().status, 100)
            client.send(b"hi")
            self.assertIn(b"body hi", client.response().body)
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n"
                        b"Expect: 100-continue\r\n\r\n")
            self.assertEqual(client.response().status, 413)
            self.assertEqual(client.rest(), b"")

    def test_http_1_0_is_served_and_closed(self):
        with echo() as host, host.connect() as client:
            client.send(b"GET /a HTTP/1.0\r\n\r\n")
            answer = client.response()
            self.assertEqual((answer.status, answer.headers["connection"]), (200, "close"))
            self.assertEqual(client.rest(), b"")

    def test_what_is_refused_is_answered_and_ends_the_connection(self):
        head = b" HTTP/1.1\r\nHost: h\r\n"
        rows = ((b"GET /%00" + head + b"\r\n", 400), (b"GET / HTTP/1.1\r\n\r\n", 400),
                (b"GET /" + b"x" * 20000, 414), (b"GET /" + head + b"X: " + b"x" * 20000, 431),
                (b"POST /" + head + b"Content-Length: 1048577\r\n\r\n", 413),
                (b"POST /" + head + b"Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n", 501),
                (b"POST /" + head + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
                (b"POST /" + head + b"Transfer-Encoding: chunked\r\n\r\n1;\nx\r\na\r\n0\r\n\r\n", 400),
                (b"TRACE /" + head + b"\r\n", 501), (b"GET / HTTP/3.0\r\n\r\n", 505),
                (b"\x16\x03\x01\x02\x00\x01\x00\x01", 400))
        with echo() as host:
            for text, status in rows:
                with self.subTest(text[:40]), host.connect() as client:
                    client.send(text)
                    answer = client.response()
                    self.assertEqual((answer.status, answer.headers["connection"]), (status, "close"))
                    self.assertTrue(answer.body.startswith(b'{"error":{"code":"'))
                    self.assertEqual(client.rest(), b"")
            with host.connect() as client:
                client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                self.assertEqual(client.rest(), b"")
            with host.connect() as client:
                self.assertEqual(client.get("/").status, 200)

    def test_an_answer_is_read_though_the_client_still_sends(self):
        """Closing at once would throw the answer away with what is not read."""
        with echo() as host, host.connect() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n")
            for _ in range(100):
                client.send(b"x" * 10000)
            self.assertEqual(client.response().status, 413)


@unittest.skipUnless(program(ECHO), "gateway_echo is not built")
class Time(unittest.TestCase):
    def test_a_slow_loris_is_told_and_ended(self):
        with echo(headerTimeoutMs=1000) as host:
            with host.connect() as client:
                client.send(b"GET / HTTP/1.1\r\nX: y")
                self.assertEqual(client.response().status, 408)
                self.assertEqual(client.rest(), b"")
            with host.connect() as client:  # a body, too
                client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx")
                self.assertEqual(client.response().status, 408)
            with host.connect() as client:  # nothing at all
                self.assertEqual(client.rest(), b"")

    def test_byte_after_byte_does_not_buy_time(self):
        with echo(headerTimeoutMs=500) as host, host.connect() as client:
            client.send(b"GET / HTTP/1.1\r\nX: ")
            answered = False
            while not answered:  # ends by the header timeout, or by the test's own
                try:
                    client.send(b"y")
                except OSError:
                    break
                answered = bool(select.select([client.sock], [], [], 0.05)[0])
            self.assertEqual(client.response().status, 408)

    def test_a_connection_at_rest_is_ended(self):
        with echo(idleTimeoutMs=1000) as host, host.connect() as client:
            self.assertEqual(client.get("/").status, 200)
            self.assertEqual(client.rest(), b"")

    def test_a_request_in_service_has_no_such_time(self):
        with echo(idleTimeoutMs=1000, headerTimeoutMs=1000, writeTimeoutMs=1000) as host:
            with host.connect() as client, host.connect() as idle:
                client.send(b"GET /later HTTP/1.1\r\nHost: h\r\n\r\n")
                self.assertEqual(idle.rest(), b"")  # the time has passed
                with host.connect() as other:
                    other.get("/now")
                self.assertEqual(client.response().status, 200)

    def test_a_client_that_takes_nothing_is_cut_off(self):
        with echo(writeTimeoutMs=400) as host, host.connect() as client, host.connect() as other:
            client.send(b"GET /bytes/50000000 HTTP/1.1\r\nHost: h\r\n\r\n")
            poll = select.poll()
            poll.register(client.sock, select.POLLHUP | select.POLLERR)
            self.assertTrue(poll.poll(TIMEOUT * 1000))  # a reset, though nothing was read
            self.assertEqual(other.get("/").status, 200)

    def test_a_client_that_takes_slowly_is_not(self):
        with echo(writeTimeoutMs=2000) as host, host.connect() as client:
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.send(b"GET /bytes/400000 HTTP/1.1\r\nHost: h\r\n\r\n")
            got = b""
            while len(got) < 400000:
                got += client.sock.recv(4096)
            self.assertTrue(got.startswith(b"HTTP/1.1 200"))


@unittest.skipUnless(program(ECHO), "gateway_echo is not built")
class Bounds(unittest.TestCase):
    def test_requests_in_flight_have_a_bound_and_the_monitor_is_beyond_it(self):
        with echo(requests=2) as host:
            with host.connect() as a, host.connect() as b, host.connect() as c, \
                    host.connect(1) as monitor:
                for client in (a, b):
                    client.send(b"GET /later HTTP/1.1\r\nHost: h\r\n\r\n")
                host.ping()
                answer = c.get("/now")
                self.assertEqual((answer.status, answer.headers["retry-after"]), (429, "1"))
                self.assertEqual(monitor.get("/healthz").status, 200)
                a.sock.close()  # it gives its place back
                while c.get("/now").status == 429:
                    pass
                self.assertEqual(b.response().status, 200)

    def test_connections_have_a_bound_and_one_at_rest_makes_room(self):
        with echo(connections=8) as host:
            clients = [host.connect() for _ in range(8)]
            for client in clients:
                self.assertEqual(client.get("/").status, 200)
            with host.connect() as ninth, host.connect(1) as monitor:
                self.assertEqual(ninth.get("/").status, 200)
                self.assertEqual(clients[0].rest(), b"")  # it rested longest
                self.assertEqual(clients[1].get("/").status, 200)
                self.assertEqual(monitor.get("/healthz").status, 200)
            for client in clients:
                client.sock.close()

    def test_who_comes_when_all_are_busy_waits_for_a_place(self):
        with echo(connections=4) as host:
            clients = [host.connect() for _ in range(4)]
            for client in clients:
                client.send(b"GET /later HTTP/1.1\r\nHost: h\r\n\r\n")
            host.ping()
            with host.connect() as fifth:
                fifth.send(b"GET /now HTTP/1.1\r\nHost: h\r\n\r\n")
                host.ping()
                self.assertEqual(select.select([fifth.sock], [], [], 0)[0], [])
                clients[0].sock.close()
                # Its end is noticed when something is written to it, or, as here, read.
                self.assertEqual(fifth.response().status, 200)
                for client in clients[1:]:
                    self.assertEqual(client.response().status, 200)
                    client.sock.close()

    def test_strangers_make_room_whatever_they_do_and_who_is_known_does_not(self):
        """Answers that nobody takes hold no place: each of these would for ten minutes."""
        with echo(connections=4, writeTimeoutMs=600000, headerTimeoutMs=600000) as host, \
                contextlib.ExitStack() as stack:
            known, *strangers = [stack.enter_context(host.connect()) for _ in range(4)]
            self.assertEqual(known.get("/known").status, 200)
            known.send(b"GET /bytes/9000000 HTTP/1.1\r\nHost: h\r\n\r\n")
            # Takes no answers; the same with a mistake behind them; and a farewell without an end.
            strangers[0].send(b"GET /bytes/9000000 HTTP/1.1\r\nHost: h\r\n\r\n")
            strangers[1].send(b"GET /bytes/9000000 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            strangers[2].send(b"GET /bytes/9000000 HTTP/1.1\r\nHost: h\r\n\r\n" + b"x" * 4000)
            for stranger in strangers:  # the one that came first goes first
                newcomer = stack.enter_context(host.connect())
                self.assertEqual(newcomer.get("/").status, 200)
                self.assertLess(len(stranger.rest()), 9000000)
            self.assertEqual(len(known.response().body), 9000000)

    def test_a_listener_has_its_share_whatever_another_holds(self):
        listeners = [{"kind": "public"}, {"kind": "public", "unix": True}]
        with echo(listeners, connections=16) as host:
            clients = [host.connect(0) for _ in range(16)]
            for client in clients[:14]:
                client.send(b"GET /later HTTP/1.1\r\nHost: h\r\n\r\n")
            host.ping()
            with host.connect(1) as local:
                self.assertEqual(local.get("/").status, 200)
                local.get("/now")
            for client in clients:
                client.sock.close()

    def test_without_descriptors_it_waits_and_goes_on(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))

        with echo(preexec=few) as host:
            clients = [host.connect() for _ in range(32)]
            served = []
            for client in clients:
                client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            ready = select.select([c.sock for c in clients], [], [], TIMEOUT)[0]
            self.assertTrue(0 < len(ready) < 32)
            host.ping()  # it is not in a loop of failures only
            for client in clients:  # each that ends makes room for one that waits
                served.append(client.response().status)
                client.sock.close()
            self.assertEqual(served, [200] * 32)
            self.assertEqual(host.log().count("cannot take a connection"), 1)
            self.assertIn(os.strerror(errno.EMFILE), host.log())


@unittest.skipUnless(program(ECHO), "gateway_echo is not built")
@unittest.skipUnless(shutil.which("openssl"), "openssl(1) makes the certificates")
class Memory(unittest.TestCase):
    CROWD = 128

    @unittest.skipIf(SANITIZED, "a sanitizer keeps what is freed")
    def test_what_a_crowd_used_goes_back_though_some_of_it_stay(self):
        with tempfile.TemporaryDirectory() as directory:
            pem, key = certificate(directory, "server")
        tls = {"kind": "public", "certificate": pem, "key": key}
        self.context = trusting(pem)
        with echo([tls, PUBLIC[1]], connections=2 * self.CROWD, pingIntervalMs=400) as host:
            with self.served(host):
                before = memory_of(host)
            crowd = [self.served(host) for _ in range(self.CROWD)]
            most = memory_of(host)
            self.assertGreater(most - before, self.CROWD * 8192)
            stay = crowd[::32]
            for client in crowd:
                if client not in stay:
                    client.sock.close()
            end = time.monotonic() + TIMEOUT
            while memory_of(host) > (before + most) / 2:
                self.assertLess(time.monotonic(), end, (before, most, memory_of(host)))
                host.ping()
            for client in stay:
                self.assertEqual(client.get("/").status, 200)
                client.sock.close()

    def served(self, host):
        client = host.connect(tls=self.context)
        assert client.get("/").status == 200
        return client


def memory_of(host):
    """Bytes of private, touched memory; where the kernel keeps that from us, as the process may
    not be traced, its own word."""
    try:
        with open(f"/proc/{host.pid}/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith("Private_Dirty"))
    except PermissionError:
        host.dial_fault = errno.EAGAIN
        with host.connect(1) as client:
            found = re.search(rb"process_resident_memory_bytes (\d+)", client.get("/metrics").body)
        return int(found[1])


if __name__ == "__main__":
    unittest.main()
