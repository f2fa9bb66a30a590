"""RFC 6455 from end to end, case by case: a peer that speaks bytes against the operations endpoint
of a daemon's gateway.

Numbers are those of the conformance suite that WebSocket servers are commonly held against.  It
expects a server that echoes; this one answers where a frame is one of ours, so each row says what
comes here: ASK is answered with an error frame, any other text closes with 1008, and so does
binary (OP-23: and the connection goes on).
"""

import itertools
import json
import random
import socket
import unittest

import network_lab
from gateway_host import Raw, masked
from network_lab import TOKEN, WAIT
from wire import program

TIMEOUT = 300  # of this file, for run.py
LIMIT = 1 << 20  # bytes of a message

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
ASK = b'{"type":"resume","after":0,"operationID":"%s"}'
ANSWER = "answer"
MAYBE = "an answer, unless what breaks the rules was seen before it was ready"
WRONG = 1002


def asking(size=None, name=b"none"):
    """The bytes of a message that is answered, `size` long."""
    text = ASK % name
    return text if size is None else text.ljust(size)


def text(payload=asking(), **more):
    return masked(TEXT, payload, **more)


def fragments(payload, size, opcode=TEXT, last=True):
    """The frames of a message in parts of `size` bytes."""
    parts = [payload[i:i + size] for i in range(0, len(payload), size)] or [b""]
    return [masked(opcode if i == 0 else 0, part, fin=last and i == len(parts) - 1)
            for i, part in enumerate(parts)]


def chopped(frames, size=1):
    data = b"".join(frames)
    return [data[i:i + size] for i in range(0, len(data), size)]


def close(code=None, reason=b""):
    return masked(CLOSE, b"" if code is None else code.to_bytes(2, "big") + reason)


class Case(network_lab.Case):
    def setUp(self):
        if program("caisson-gateway") is None:
            self.skipTest("caisson-gateway is not built")
        super().setUp()
        self.daemon()
        with self.client() as client:
            self.sandbox = client.acquire("shell").id
        self.path = f"/v1/namespaces/default/runtimes/shell/sessions/{self.sandbox}/operations:ws"

    def upgrade(self, **headers):
        host, _, port = self.plain.rpartition(":")
        sock = socket.create_connection((host, int(port)), WAIT)
        self.addCleanup(sock.close)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = Raw(sock)
        return client, client.upgrade(self.path, **{"Authorization": f"Bearer {TOKEN}", **headers})

    def open(self):
        client, answer = self.upgrade()
        self.assertEqual(answer.status, 101, answer)
        return client

    def answered(self, client, frame=None):
        opcode, payload = frame or client.frame()
        self.assertEqual(opcode, TEXT, payload)
        self.assertEqual(json.loads(payload)["code"], "not_found", payload)

    def say(self, client, parts):
        for part in parts:
            try:
                client.send(part)
            except (BrokenPipeError, ConnectionResetError):
                return  # it was closed at what came before

    def run_case(self, parts, *expected):
        """Sends `parts`; expected frames: ANSWER, MAYBE, a pong's payload, or, last, the code of
        the close frame (None: without one).  Unless one ends it, the connection has to be as good
        as new."""
        client = self.open()
        self.say(client, parts)
        waiting = None
        for wanted in expected:
            frame, waiting = waiting or client.frame(), None
            if wanted is ANSWER or (wanted is MAYBE and frame[0] == TEXT):
                self.answered(client, frame)
            elif wanted is MAYBE:
                waiting = frame
            elif isinstance(wanted, bytes):
                self.assertEqual(frame, (PONG, wanted))
            else:
                self.closed(frame, wanted)
        if not expected or isinstance(expected[-1], (bytes, str)):
            client.send(text())
            self.answered(client)
            client.send(close(1000))
            self.closed(client.frame(), 1000)
        # Whoever began, the server ends the connection, and says nothing more.
        self.say(client, [close(1000)])
        self.assertEqual(client.rest(), b"")
        client.sock.close()

    def closed(self, frame, code):
        opcode, payload = frame
        self.assertEqual(opcode, CLOSE, payload)
        self.assertEqual(int.from_bytes(payload[:2], "big") if payload else None, code, payload)
        payload[2:].decode()  # a reason is UTF-8

    def run_table(self, rows):
        for name, parts, *expected in rows:
            with self.subTest(case=name):
                self.run_case(parts, *expected)


class Frames(Case):
    SIZES = (0, 125, 126, 127, 128, 65535, 65536)

    def test_1_framing(self):
        rows = []
        for i, size in enumerate(self.SIZES, 1):
            message = asking(size) if size else b""
            rows.append((f"1.1.{i}", [text(message)], ANSWER if size else 1008))
            rows.append((f"1.2.{i}", [masked(BINARY, b"\xfe" * size)], 1008))
        rows.append(("1.1.8", chopped([text(asking(65536))], 997), ANSWER))
        rows.append(("1.2.8", chopped([masked(BINARY, b"\xfe" * 65536)], 997), 1008))
        rows += [(f"masked with {mask.hex()}", [text(mask=mask)], ANSWER)
                 for mask in (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\1", b"{{{{")]
        rows += [
            ("not masked", [b"\x81\x02{}"], WRONG),
            ("a close, not masked", [b"\x88\x00"], WRONG),
            ("125 in two bytes", [b"\x81\xfe\x00\x7d"], WRONG),
            ("126 in eight bytes", [b"\x81\xff" + (126).to_bytes(8, "big")], WRONG),
            ("the highest bit of a length", [b"\x81\xff\x80" + bytes(7)], WRONG),
        ]
        self.run_table(rows)

    def test_2_pings_and_pongs(self):
        binary = b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff"
        ten = [b"payload-%d" % i for i in range(10)]
        self.run_table([
            ("2.1", [masked(PING)], b""),
            ("2.2", [masked(PING, b"Hello, world!")], b"Hello, world!"),
            ("2.3", [masked(PING, binary)], binary),
            ("2.4", [masked(PING, b"\xfe" * 125)], b"\xfe" * 125),
            ("2.5", [masked(PING, b"\xfe" * 126)], WRONG),
            ("2.6", chopped([masked(PING, b"\xfe" * 125)]), b"\xfe" * 125),
            ("2.7", [masked(PONG)]),
            ("2.8", [masked(PONG, b"unsolicited")]),
            ("2.9", [masked(PONG, b"unsolicited"), masked(PING, b"ping")], b"ping"),
            ("2.10", [masked(PING, p) for p in ten], *ten),
            ("2.11", chopped([masked(PING, p) for p in ten]), *ten),
        ])

    def test_3_reserved_bits(self):
        three = [text(), text(reserved=0x20), masked(PING)]
        self.run_table([
            ("3.1", [text(reserved=0x10)], WRONG),
            ("3.2", [b"".join(three)], MAYBE, WRONG),
            ("3.3", three, MAYBE, WRONG),
            ("3.4", chopped(three), MAYBE, WRONG),
            ("3.5", [masked(BINARY, b"\x00\xff", reserved=0x50)], WRONG),
            ("3.6", [masked(PING, b"ping", reserved=0x60)], WRONG),
            ("3.7", [masked(CLOSE, b"\x03\xe8", reserved=0x70)], WRONG),
            ("RSV1 of an extension that was declined", [text(reserved=0x40)], WRONG),
        ])

    def test_4_opcodes(self):
        rows = []
        for group, first in (("4.1", 3), ("4.2", 11)):
            for i in range(5):
                frame = masked(first + i, b"payload" if i % 2 else b"")
                rows.append((f"{group}.{i + 1}", [frame], WRONG))
                rows.append((f"{group}.{i + 1} behind a text", [text() + frame + masked(PING)],
                             MAYBE, WRONG))
                rows.append((f"{group}.{i + 1} in fragments", [masked(first + i, b"a", fin=False)],
                             WRONG))
        self.run_table(rows)

    def test_5_fragments(self):
        half = len(asking()) // 2
        two = fragments(asking(), half + 1)
        pinged = [two[0], masked(PING, b"between"), two[1]]
        loose = [masked(0, b"no beginning"), text()]
        open_end = [masked(0, b"no beginning", fin=False), text()]
        five = fragments(asking(), len(asking()) // 5 + 1)
        self.assertEqual((len(two), len(five)), (2, 5))
        rows = [
            ("5.1", fragments(b"fragment", 4, PING), WRONG),
            ("5.2", fragments(b"fragment", 4, PONG), WRONG),
            ("a close in fragments", fragments(b"\x03\xe8ab", 2, CLOSE), WRONG),
            ("5.15", [*two, masked(0, b"more", fin=False), text()], MAYBE, WRONG),
            ("5.16", [masked(0, b"a", fin=False), text(b"b", fin=False), masked(0, b"c")], WRONG),
            ("5.17", [masked(0, b"a"), text(b"b", fin=False), masked(0, b"c")], WRONG),
            ("5.18", [text(b"a", fin=False), text(b"b")], WRONG),
            ("5.19", [b"".join([*five[:2], masked(PING, b"1"), *five[2:4], masked(PING, b"2"),
                                five[4]])], b"1", b"2", ANSWER),
            ("5.20", [*five[:2], masked(PING, b"1"), *five[2:4], masked(PING, b"2"), five[4]],
             b"1", b"2", ANSWER),
            ("binary within a text", [text(b"{", fin=False), masked(BINARY, b"}")], 1008),
            ("binary in fragments", fragments(b"\xff" * 9, 3, BINARY), 1008),
        ]
        for i, ways in enumerate(((two, (ANSWER,)), (pinged, (b"between", ANSWER)),
                                  (loose, (WRONG,)), (open_end, (WRONG,)))):
            frames, expected = ways
            for j, parts in enumerate(([b"".join(frames)], frames, chopped(frames))):
                rows.append((f"5.{3 * (i + 1) + j}", parts, *expected))
        self.run_table(rows)

    def test_9_sizes(self):
        rows = [(f"9.1 {size}", [text(asking(size))], ANSWER)
                for size in (1 << 16, 1 << 18, LIMIT - 1, LIMIT)]
        rows += [(f"9.1 {size}", [text(asking(size))], 1009)
                 for size in (LIMIT + 1, 4 << 20, 16 << 20)]
        rows += [(f"9.1 {size}, before it comes", [b"\x81\xff" + size.to_bytes(8, "big")], 1009)
                 for size in (LIMIT + 1, 1 << 32, (1 << 63) - 1)]
        rows += [(f"9.2 {size}", [masked(BINARY, b"\xfe" * size)], 1008)
                 for size in (1 << 16, LIMIT)]
        for size in (64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20):
            rows.append((f"9.3 {size}", [b"".join(fragments(asking(LIMIT), size))], ANSWER))
            rows.append((f"9.3 {size}, and one byte more",
                         [b"".join(fragments(asking(LIMIT + 1), size))], 1009))
        rows += [(f"9.5 {size}", chopped([text(asking(LIMIT))], size), ANSWER)
                 for size in (64, 128, 256, 512, 1024, 2048)]
        rows.append(("10.1.1", fragments(asking(65536), 1300), ANSWER))
        empty = masked(0, b"", fin=False)
        rows.append(("many empty fragments", [text(b"", fin=False), empty * 10000,
                                              masked(0, asking())], ANSWER))
        self.run_table(rows)

    def test_9_7_there_and_back(self):
        for size in (None, 64, 256, 1024, 4096, 16384):
            client = self.open()
            for _ in range(50):
                client.send(text(asking(size)))
                self.answered(client)
            client.send(close(1000))
            self.assertEqual(client.frame(), (CLOSE, b"\x03\xe8"))


# What is UTF-8 is for Python's decoder to say; it shares nothing with ours.
KOSME = "κόσμε".encode()
SEQUENCES = {
    "6.5": [KOSME + bytes([c]) for c in KOSME] + [bytes([c]) + KOSME for c in KOSME],
    "6.6": [KOSME[:i] for i in range(1, len(KOSME) + 1)],
    "6.7": ["\x00".encode(), "\x80".encode(), "\u0800".encode(), "\U00010000".encode()],
    "6.8": [b"\xf8\x88\x80\x80\x80", b"\xfc\x84\x80\x80\x80\x80"],
    "6.9": ["\x7f".encode(), "\u07ff".encode(), "\uffff".encode(), "\U0010ffff".encode()],
    "6.10": [b"\xf7\xbf\xbf\xbf", b"\xfb\xbf\xbf\xbf\xbf", b"\xfd\xbf\xbf\xbf\xbf\xbf"],
    "6.11": ["\ud7ff".encode(), "\ue000".encode(), "\ufffd".encode(), "\U0010ffff".encode(),
             b"\xf4\x90\x80\x80"],
    "6.12": [b"\x80", b"\xbf", b"\x80\xbf", b"\x80\xbf\x80", b"\x80\xbf\x80\xbf",
             bytes(range(0x80, 0xc0))],
    "6.13": [b"".join(bytes([c, 0x20]) for c in range(0xc0, 0xe0)),
             b"".join(bytes([c, 0x20]) for c in range(0xe0, 0xf0)),
             b"".join(bytes([c, 0x20]) for c in range(0xf0, 0xf8)),
             b"\xf8 \xf9 \xfa \xfb ", b"\xfc \xfd "],
    "6.14": [b"\xc0", b"\xe0\x80", b"\xf0\x80\x80", b"\xf8\x80\x80\x80", b"\xfc\x80\x80\x80\x80",
             b"\xdf", b"\xef\xbf", b"\xf7\xbf\xbf", b"\xfb\xbf\xbf\xbf", b"\xfd\xbf\xbf\xbf\xbf"],
    "6.16": [b"\xfe", b"\xff", b"\xfe\xfe\xff\xff"],
    "6.17": [b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf", b"\xf8\x80\x80\x80\xaf",
             b"\xfc\x80\x80\x80\x80\xaf"],
    "6.18": [b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf", b"\xf8\x87\xbf\xbf\xbf",
             b"\xfc\x83\xbf\xbf\xbf\xbf"],
    "6.19": [b"\xc0\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xf8\x80\x80\x80\x80",
             b"\xfc\x80\x80\x80\x80\x80"],
    "6.20": [b"\xed\xa0\x80", b"\xed\xad\xbf", b"\xed\xae\x80", b"\xed\xaf\xbf", b"\xed\xb0\x80",
             b"\xed\xbe\x80", b"\xed\xbf\xbf"],
    "6.21": [b"\xed\xa0\x80\xed\xb0\x80", b"\xed\xa0\x80\xed\xbf\xbf", b"\xed\xad\xbf\xed\xb0\x80",
             b"\xed\xad\xbf\xed\xbf\xbf", b"\xed\xae\x80\xed\xb0\x80", b"\xed\xae\x80\xed\xbf\xbf",
             b"\xed\xaf\xbf\xed\xb0\x80", b"\xed\xaf\xbf\xed\xbf\xbf"],
    "6.22": [chr(plane << 16 | low).encode() for plane in range(17) for low in (0xfffe, 0xffff)],
    "6.23": [chr(c).encode() for c in (0xfff9, 0xfffa, 0xfffb, 0xfffc, 0xfffd)],
}
SEQUENCES["6.15"] = [b"".join(SEQUENCES["6.14"])]


def is_utf8(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def verdict(name):
    """Of ASK about an operation of this name, whose bytes JSON has to take too."""
    if not is_utf8(name):
        return 1007
    ours = 0 < len(name) <= 64 and min(name) >= 0x20 and not set(name) & set(b'"\\')
    return ANSWER if ours else 1008


class Utf8(Case):
    def test_6_1_to_6_3_whole_and_in_fragments(self):
        umlauts = "Hello-µ@ßöäüàá-UTF-8!!".encode()
        broken = b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited"
        rows = [
            ("6.1.1", [text(b"")], 1008),
            ("6.1.2", [text(b"", fin=False) + masked(0, b"", fin=False) + masked(0)], 1008),
            ("6.1.3", [text(b"", fin=False) + masked(0, asking(), fin=False) + masked(0)], ANSWER),
        ]
        for group, name in (("6.2", umlauts), ("6.2 kosme", KOSME), ("6.3", broken)):
            message = asking(name=name)
            expected = verdict(name)
            for size in (len(message), message.index(name) + 9, 3, 2, 1):
                rows.append((f"{group} by {size}", fragments(message, size), expected))
        self.run_table(rows)

    def test_6_4_what_is_wrong_is_said_before_the_message_ends(self):
        """Nothing behind the fault is sent: it is known without."""
        start = ASK.partition(b"%s")[0] + KOSME
        self.run_table([
            ("6.4.1", fragments(start + b"\xf4\x90\x80\x80", 999, last=False), 1007),
            ("6.4.2", fragments(start, 999, last=False) +
             [masked(0, b"\xf4", fin=False), masked(0, b"\x90", fin=False)], 1007),
            ("6.4.3", chopped([text(start + b"\xf4\x90\x80\x80edited")]), 1007),
            ("6.4.4", chopped([text(start + b"\xf4\x90")]), 1007),
            ("cut by a control frame", [text(start + b"\xe2\x82", fin=False), masked(PING),
                                        masked(0, b"\x20", fin=False)], b"", 1007),
            ("half a character at the end", [text(start + b"\xe2", fin=False), masked(0)], 1007),
        ])

    def test_6_5_to_6_23_sequences(self):
        rows = []
        for group, names in SEQUENCES.items():
            for i, name in enumerate(names, 1):
                message, expected = asking(name=name), verdict(name)
                rows.append((f"{group}.{i}", [text(message)], expected))
                rows.append((f"{group}.{i} in bytes", [b"".join(fragments(message, 1))], expected))
        self.assertEqual({row[2] for row in rows}, {ANSWER, 1007, 1008})
        self.run_table(rows)

    def test_sequences_of_chance(self):
        chance = random.Random(6455)
        pool = list(itertools.chain(*SEQUENCES.values()))
        rows = []
        for i in range(100):
            name = b"".join(chance.choices(pool, k=2))[:chance.randrange(1, 60)]
            message = asking(name=name)
            size = chance.randrange(1, len(message))
            rows.append((f"{i}: {name.hex()}", fragments(message, size), verdict(name)))
        self.run_table(rows)


class Closes(Case):
    VALID = (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999)
    INVALID = (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)

    def test_7_the_closing_handshake(self):
        longest = b"*" * 123
        self.run_table([
            ("7.1.1", [text() + close(1000)], MAYBE, 1000),
            ("7.1.2", [close(1000) + close(1000)], 1000),
            ("7.1.3", [close(1000) + masked(PING)], 1000),
            ("7.1.4", [close(1000) + text()], 1000),
            ("7.1.5", [text(b"a", fin=False) + close(1000) + masked(0, b"b")], 1000),
            ("7.1.6", [text(asking(1 << 18)) + close(1000) + masked(PING)], MAYBE, 1000),
            ("7.3.1", [close()], None),
            ("7.3.2", [masked(CLOSE, b"\x03")], WRONG),
            ("7.3.3", [close(1000)], 1000),
            ("7.3.4", [close(1000, b"Hello World!")], 1000),
            ("7.3.5", [close(1000, longest)], 1000),
            ("7.3.6", [close(1000, longest + b"*")], WRONG),
            ("7.5.1", [close(1000, KOSME + b"\xed\xa0\x80edited")], 1007),
            ("a reason in half a character", [close(1000, b"\xe2\x82")], 1007),
            ("octet by octet", chopped([close(1000, KOSME)]), 1000),
        ])

    def test_7_7_and_7_9_codes(self):
        rows = [(f"7.7 {code}", [close(code)], code) for code in self.VALID]
        rows += [(f"7.9 {code}", [close(code)], WRONG) for code in self.INVALID]
        chance = random.Random(7)
        for _ in range(60):
            code = chance.choice((chance.randrange(1016, 3000), chance.randrange(5000, 65536),
                                  chance.randrange(1000)))
            rows.append((f"7.9 {code}", [close(code, b"why")], WRONG))
        self.run_table(rows)

    def test_a_connection_that_ends_without_a_close_leaves_the_others(self):
        neighbour = self.open()
        for parts in ([b"\x81"], [text()[:-1]], [b"\x81\xfe\x00"], fragments(asking(), 9)[:2]):
            client = self.open()
            client.send(b"".join(parts))
            client.sock.shutdown(socket.SHUT_WR)
            with self.subTest(parts):
                self.assertIn(client.rest()[:1], (b"", b"\x88"))
        neighbour.send(text())
        self.answered(neighbour)


class Handshakes(Case):
    def test_12_compression_is_declined(self):
        for offer in ("permessage-deflate", "permessage-deflate; client_max_window_bits",
                      "permessage-bzip2, x-webkit-deflate-frame"):
            client, answer = self.upgrade(Sec_WebSocket_Extensions=offer)
            self.assertEqual(answer.status, 101)
            self.assertNotIn("sec-websocket-extensions", answer.headers)
            client.send(text())
            self.answered(client)

    def test_what_is_and_what_is_no_handshake(self):
        rows = [
            (101, {}), (101, {"Connection": "keep-alive, Upgrade"}),
            (101, {"Upgrade": "WebSocket"}), (101, {"Connection": "upgrade"}),
            (426, {"Sec_WebSocket_Version": "7"}), (426, {"Sec_WebSocket_Version": "013"}),
            (400, {"Sec_WebSocket_Key": ""}), (400, {"Sec_WebSocket_Key": "QUFB"}),
            (426, {"Upgrade": "http/3"}), (426, {"Connection": "close"}),
            (401, {"Authorization": "Bearer nobody"}), (403, {"Origin": "http://elsewhere.example"}),
        ]
        for status, headers in rows:
            with self.subTest(headers):
                self.assertEqual(self.upgrade(**headers)[1].status, status)

    def test_no_header_of_the_protocol_may_be_missing(self):
        fields = {"Host": self.plain, "Upgrade": "websocket", "Connection": "Upgrade",
                  "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
                  "Authorization": f"Bearer {TOKEN}"}
        wanted = {"Host": 400, "Upgrade": 426, "Connection": 426, "Sec-WebSocket-Version": 426,
                  "Sec-WebSocket-Key": 400, "Authorization": 401}
        host, _, port = self.plain.rpartition(":")
        for missing, status in wanted.items():
            lines = [f"{name}: {value}" for name, value in fields.items() if name != missing]
            with self.subTest(missing), Raw(socket.create_connection((host, int(port)))) as client:
                client.sock.settimeout(WAIT)
                client.send("\r\n".join([f"GET {self.path} HTTP/1.1", *lines, "", ""]).encode())
                self.assertEqual(client.response().status, status)


if __name__ == "__main__":
    unittest.main()
