"""Attacks over the network: on others' sessions, on the parser, on files, on memory."""

import contextlib
import json
import resource
import select
import unittest
import urllib.parse

import real
from attack_network_lab import ALICE, BASE, BOB, Case, OTHER, digest


class Others(Case):
    """One principal against another's."""

    def test_nothing_of_another_s_is_there(self):
        self.daemon()
        s = self.acquire(ALICE)
        ws = self.ws(s)
        ws.say(type="send", idempotencyKey="k", operation={"command": {"shell": "echo x >x; cat >y"}})
        op = ws.hear()["accepted"]["operationID"]
        while True:
            e = ws.hear()
            if e["type"] == "completed":
                break
        missing = self.ask("GET", f"{BASE}/s-00000000deadbeef", BOB)
        self.assertEqual(missing[0], 404)
        for method, path in (("GET", ""), ("DELETE", ""), ("DELETE", "?mode=immediate&wait=true"),
                             ("POST", "/heartbeat"), ("GET", "/operations"),
                             ("GET", f"/operations/{op}"), ("GET", "/files"),
                             ("GET", "/files/stat?path=x"), ("GET", "/files/content?path=x")):
            body = b"" if method == "POST" else None
            for base in (BASE, OTHER):
                self.assertEqual(self.ask(method, f"{base}/{s}{path}", BOB, body), missing, path)
                self.assertEqual(self.ask(method, f"{base}/s-00000000deadbeef{path}", BOB, body),
                                 missing, path)
        raw = self.raw()
        self.assertEqual(raw.upgrade(s, BOB)[0], 404)
        # Through a session of one's own: the operation's id, rightly guessed.
        own = self.acquire(BOB)
        no_op = self.ask("GET", f"{BASE}/{own}/operations/op-nobodys", BOB)
        self.assertEqual(no_op[0], 404)
        status, answer = self.ask("GET", f"{BASE}/{own}/operations/{op}", BOB)
        self.assertEqual((status, answer["error"]["code"]), (404, "not_found"))
        ws = self.ws(own, BOB)
        seen = []
        for name in (op, "op-nobodys"):
            ws.say(type="resume", operationID=name, after=0)
            seen.append(ws.hear())
        self.assertEqual(seen[0], seen[1])
        # The same key in a session of one's own is another.
        event, _ = ws.run(key="k", command={"shell": "echo mine"})
        self.assertEqual(event["type"], "completed")
        ws.say(type="cancel", operationID=op)
        self.assertEqual(ws.hear()[:2], ("close", 1008))
        self.assertEqual(self.ask("GET", f"{BASE}/{s}", ALICE)[1]["state"], "ready")

    def test_an_empty_list_does_not_say_that_there_are_others(self):
        self.daemon()
        self.assertNotIn("next", self.ask("GET", BASE, BOB)[1])
        for token in (ALICE, BOB, ALICE, ALICE):
            self.acquire(token)
        for limit in (1, 2, 100):
            status, page = self.ask("GET", f"{BASE}?limit={limit}", BOB)
            self.assertEqual((status, len(page["sessions"])), (200, 1))
            self.assertNotIn("next", page, limit)

    def test_a_key_is_another_for_another(self):
        self.daemon()
        a = self.acquire(ALICE, Idempotency_Key="same")
        b = self.acquire(BOB, Idempotency_Key="same")
        self.assertNotEqual(a, b)
        self.assertEqual(self.acquire(ALICE, Idempotency_Key="same"), a)

    def test_of_requests_on_one_connection_each_is_its_own_s(self):
        self.daemon()
        raw = self.raw()
        a, b = self.acquire(ALICE), self.acquire(BOB)
        raw.send(raw.line("GET", BASE, ALICE) + raw.line("GET", BASE, BOB) +
                 raw.line("GET", BASE, "nobody-0123456789") + raw.line("GET", BASE) +
                 raw.line("GET", f"{BASE}/{a}", BOB) + raw.line("DELETE", f"{BASE}/{a}", BOB) +
                 raw.line("GET", f"{BASE}/{a}", ALICE))
        answers = [raw.answer() for _ in range(7)]
        self.assertEqual([x[0] for x in answers], [200, 200, 401, 401, 404, 404, 200])
        self.assertEqual([[s["id"] for s in json.loads(x[2])["sessions"]] for x in answers[:2]],
                         [[a], [b]])


class Http(Case):
    def status_of(self, data):
        """Of each answer to what is sent as it is, until the end."""
        raw = self.raw()
        raw.send(data)
        found = []
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                found.append(raw.answer()[0])
        raw.close()
        return found

    def test_what_two_readers_could_read_in_two_ways_is_refused(self):
        self.daemon()
        head = f"POST {BASE} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ALICE}\r\n"
        smuggled = f"DELETE {BASE}/s-1 HTTP/1.1\r\nHost: x\r\n\r\n"
        for name, text in {
            "two lengths": head + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
            "list of lengths": head + "Content-Length: 2, 2\r\n\r\n{}",
            "signed": head + "Content-Length: +2\r\n\r\n{}",
            "hex": head + "Content-Length: 0x2\r\n\r\n{}",
            "negative": head + "Content-Length: -1\r\n\r\n{}",
            "huge": head + "Content-Length: 18446744073709551618\r\n\r\n{}",
            "huger": head + "Content-Length: " + "9" * 400 + "\r\n\r\n{}",
            "spaces in it": head + "Content-Length: 1 1\r\n\r\n{}",
            "space before colon": head + "Content-Length : 2\r\n\r\n{}",
            "both": head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "chunked and 1.0": head.replace("1.1", "1.0") + "Transfer-Encoding: chunked\r\n\r\n"
                               "0\r\n\r\n" + smuggled,
            "chunked otherwise": head + "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n" + smuggled,
            "strange chunked": head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
            "two encodings": head + "Transfer-Encoding: chunked\r\nTransfer-encoding: x\r\n\r\n",
            "bare lf": head.replace("\r\n", "\n") + "Content-Length: 2\n\n{}",
            "bare cr": head + "X: a\rContent-Length: 2\r\n\r\n{}",
            "fold": head + "X: a\r\n Content-Length: 2\r\nContent-Length: 0\r\n\r\n",
            "nul": head + "X: a\0b\r\nContent-Length: 2\r\n\r\n{}",
            "nul in name": head + "X\0: a\r\nContent-Length: 2\r\n\r\n{}",
            "no name": head + ": a\r\nContent-Length: 2\r\n\r\n{}",
            "no host": head.replace("Host: x\r\n", "") + "Content-Length: 2\r\n\r\n{}",
            "two hosts": head + "host: y\r\nContent-Length: 2\r\n\r\n{}",
            "two tokens": head + f"authorization: Bearer {BOB}\r\nContent-Length: 2\r\n\r\n{{}}",
            "host of a url": head.replace(BASE, "http://evil" + BASE) + "Content-Length: 2\r\n\r\n{}",
            "two keys": head + "Idempotency-Key: a\r\nIdempotency-Key: b\r\n"
                               "Content-Length: 2\r\n\r\n{}",
            "spaces": head.replace(" HTTP", "  HTTP") + "Content-Length: 2\r\n\r\n{}",
            "tab": head.replace(" HTTP", "\tHTTP") + "Content-Length: 2\r\n\r\n{}",
            "version": head.replace("HTTP/1.1", "HTTP/1.2") + "Content-Length: 2\r\n\r\n{}",
            "version 9": f"GET {BASE}\r\n\r\n",
        }.items():
            with self.subTest(name):
                found = self.status_of(text.encode("latin1"))
                self.assertEqual(len(found), 1, found)
                self.assertIn(found[0], (400, 413, 501, 505))
        self.assertEqual(self.ask("GET", BASE, ALICE)[1]["sessions"], [])
        for body in ("Content-Length: 2\r\n\r\n{}",
                     "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"):
            # What follows is a request of its own, with no proof of its own.
            raw = self.raw()
            raw.send((head + body + smuggled).encode())
            self.assertEqual([raw.answer()[0] for _ in range(2)], [201, 401])

    def test_a_path_is_what_it_is(self):
        self.daemon()
        s = self.acquire()
        for path in (f"{BASE}/{s}/", f"{BASE}//{s}", f"/{BASE}/{s}", f"{BASE}/{s}/.",
                     f"{BASE}/{s}/../{s}", f"{BASE}/{s}/%2e%2e/{s}", f"{BASE}/%2e%2e/sessions/{s}",
                     f"{BASE}%2F{s}", f"{BASE}/{s}%2Ffiles", f"{BASE}/{s}%00", f"{BASE}/{s}%0a",
                     f"{BASE}/{s}.", f"{BASE}/{s};x", f"{BASE}/{s.upper()}",
                     BASE.upper() + "/" + s, f"{BASE}/{s}%ff", f"{BASE}/{s}%zz",
                     f"{BASE}/{s}/files/../../{s}", f"{BASE}/s-{s[2:]:0>20}", f"{BASE}/{s[2:]}",
                     f"{BASE}/{s}%20", f"{BASE}\\{s}", f"{BASE}/{s}#x", f"{BASE}/{s}?x=1",
                     f"{BASE}/{'s' * 3000}", "*", "/", "//", f"{BASE}/{s}/files?path=a&path=b",
                     f"{BASE}/{s}/files?limit=0", f"{BASE}/{s}/files?limit=1001",
                     f"{BASE}/{s}/files?limit=+1", f"{BASE}/{s}/files?limit=18446744073709551617",
                     f"{BASE}/{s}/files?cursor=" + "A" * 2000,
                     BASE.replace("default", "Default") + f"/{s}",
                     BASE.replace("default", "other") + f"/{s}"):
            with self.subTest(path):
                self.assertIn(self.ask("GET", path, ALICE)[0], (400, 404))
        escaped = "".join(f"%{ord(c):02x}" for c in s)
        self.assertEqual(self.ask("GET", f"{BASE}/{escaped}", ALICE)[1]["id"], s)

    def test_a_page_of_another_origin_gets_nothing(self):
        self.daemon()
        s = self.acquire()
        here = self.address
        port = int(here.rpartition(":")[2])
        for origin in ("null", "", f"https://{here}", f"http://127.0.0.1:{port + 1}",
                       f"http://127.0.0.1", f"http://x@{here}", f"http://{here}@evil",
                       f"http://{here}/", f"http://{here}.evil", f"http://localhost:{port}",
                       f"http://{here} http://evil", "http://", f"//{here}", here):
            for method, path in (("GET", f"{BASE}/{s}"), ("POST", BASE), ("DELETE", f"{BASE}/{s}")):
                self.assertEqual(self.ask(method, path, ALICE, b"" if method == "POST" else None,
                                          Origin=origin)[0], 403, origin)
            self.assertEqual(self.raw().upgrade(s, ALICE, Origin=origin)[0], 403, origin)
        self.assertEqual(self.ask("GET", f"{BASE}/{s}", ALICE, Origin=f"http://{here}")[0], 200)
        self.assertEqual(self.raw().upgrade(s, ALICE, Origin=f"HTTP://{here}")[0], 101)

    def test_two_proofs_are_none(self):
        self.daemon()
        s = self.acquire()
        offer = "caisson, caisson.bearer."
        for token, protocols, status in (
                (None, offer + ALICE, 101), (None, offer + BOB, 404), (None, offer + "x", 401),
                (BOB, offer + ALICE, 404), ("wrong", offer + ALICE, 401),
                (None, f"{offer}{BOB}, caisson.bearer.{ALICE}", 401),
                (None, offer + ALICE + "%0d%0aX: y", 401), (None, "caisson", 401),
                (None, "caisson.bearer.", 401), (None, "CAISSON.BEARER." + ALICE, 401)):
            with self.subTest(protocols=protocols, token=token):
                found = self.raw().upgrade(s, token, Sec_WebSocket_Protocol=protocols)
                self.assertEqual(found[0], status)
                self.assertNotIn(ALICE, str(found))
        for value in ("Basic " + ALICE, ALICE, "Bearer", "Bearer  ", f"Bearer {ALICE},{BOB}",
                      f"Bearer {ALICE} {BOB}", f"Bearer\t{ALICE}", f'Bearer "{ALICE}"',
                      "Bearer " + "A" * 5000, "Bearer " + digest(ALICE)):
            self.assertEqual(self.ask("GET", BASE, None, None, Authorization=value)[0], 401, value)

    def test_nothing_of_a_request_gets_into_headers_logs_or_records_as_more_than_it_is(self):
        d = self.daemon()
        s = self.acquire()
        for name, value in (("Idempotency-Key", "a b"), ("Idempotency-Key", "a\x1b[2J"),
                            ("Idempotency-Key", "x" * 129), ("traceparent", "00-x"),
                            ("traceparent", "00-" + "0" * 32 + "-" + "1" * 16 + "-01"),
                            ("Idempotency-Key", "\u00e9")):
            status, _ = self.ask("POST", BASE, ALICE, {}, **{name.replace("-", "_"): value})
            self.assertEqual(status, 400, (name, value))
        evil = "%0d%0aSet-Cookie:%20x%1b%5b2J"
        for path in (f"{BASE}/{evil}", f"{BASE}?{evil}=1", f"{BASE}/{s}/files?path={evil}",
                     f"{BASE}/{s}/files/content?path={evil}", f"{BASE}/{s}/files?cursor={evil}"):
            raw = self.raw()
            raw.send(raw.line("GET", path, ALICE))
            status, headers, body = raw.answer()
            self.assertIn(status, (400, 404))
            self.assertNotIn("set-cookie", headers)
            self.assertNotIn(b"\x1b", body)
            self.assertNotIn(b"\n", body.strip())
        self.assertNotIn("\x1b", d.stderr())
        self.assertNotIn("Set-Cookie", d.stderr())


def memory(pid):
    """Resident bytes of a process."""
    for line in (real.proc_text(pid, "status") or "").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


class Cheap(Case):
    def test_who_proves_nothing_makes_neither_log_nor_journal_grow(self):
        d = self.daemon()
        self.alive()
        before = [(p.name, p.stat().st_size) for p in self.segments()], len(d.stderr())
        for _ in range(100):
            self.assertEqual(self.ask("POST", BASE, "wrong", {})[0], 401)
            self.assertEqual(self.ask("POST", BASE, None, {})[0], 401)
            self.assertEqual(self.ask("GET", BASE + "/s-0000000000000001", ALICE)[0], 404)
            self.assertEqual(self.ask("GET", "/%", ALICE)[0], 400)
            self.assertEqual(self.ask("POST", OTHER, ALICE, {})[0], 403)
        self.assertEqual(([(p.name, p.stat().st_size) for p in self.segments()], len(d.stderr())),
                         before, d.stderr())

    def test_who_takes_no_answer_gets_no_more_of_them(self):
        d = self.daemon()
        s = self.acquire()
        self.assertEqual(self.shell(s, "head -c 1048576 /dev/zero >a"), (0, ""))
        gateway = d.service("gateway")
        before = memory(gateway)
        raw = self.raw(SO_RCVBUF=4096)
        one = raw.line("GET", f"{BASE}/{s}/files/content?path=a", ALICE)
        raw.send(one * 64)
        for _ in range(300):
            self.alive()
        self.assertLess(memory(gateway) - before, 16 << 20)
        for _ in range(64):
            status, _, body = raw.answer()
            self.assertEqual((status, len(body)), (200, 1 << 20))
        self.alive()

    def test_bytes_of_requests_that_never_end_leave_room_for_small_ones(self):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most[1] < 2300:
            self.skipTest("needs 2300 descriptors (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(2300, most[0]), most[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, most)
        self.daemon()
        s = self.acquire()
        for size in [40000] * 1700 + [4000] * 20 + [300] * 60:  # 64 MiB, and what is left of it
            raw = self.raw()
            with contextlib.suppress(ConnectionError):
                raw.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\n" +
                         b" " * size)
        raw = self.raw()
        line = raw.line("GET", f"{BASE}/{s}", ALICE)
        raw.send(line[:20])
        self.alive()  # what was sent before has come
        raw.send(line[20:])
        self.assertEqual(raw.answer()[0], 200)
        ws = self.ws(s)
        frame = ws.frame(b'{"type":"send","operation":{"command":{"shell":"true"}}}')
        ws.send(frame[:20])
        self.alive()
        ws.send(frame[20:])
        self.assertEqual(ws.hear()["type"], "accepted")

    def test_bytes_that_come_one_by_one_are_one_message(self):
        self.daemon()
        ws = self.ws(self.acquire())
        text = b'{"type":"send","operation":{"command":{"shell":"echo hi"}}}'
        ws.send(ws.frame(b"", 1, False) + ws.frame(b"x", 9) +
                b"".join(ws.frame(bytes([b]), 0, False) for b in text) + ws.frame(b"", 0))
        self.assertEqual(ws.hear()["type"], "accepted")
        while ws.hear()["type"] != "completed":
            pass
        ws.send(ws.frame(b"", 1, False) + ws.frame(b"", 0, False) * 100000)
        self.alive()

    def test_who_pings_and_reads_nothing_is_read_no_more(self):
        d = self.daemon()
        s = self.acquire()
        gateway = d.service("gateway")
        before = memory(gateway)
        ws = self.ws(s)
        ws.sock.setblocking(False)
        pings = rest = ws.frame(b"x" * 125, 9) * 1000
        poll = select.poll()
        poll.register(ws.sock, select.POLLOUT)
        with self.assertRaises(BlockingIOError):  # the kernel's buffers, and then it stands
            for _ in range(100000):
                try:
                    rest = rest[ws.sock.send(rest):] or pings
                except BlockingIOError:
                    self.alive()
                    if not poll.poll(0):
                        raise
        self.assertLess(memory(gateway) - before, 8 << 20)


class Places(Case):
    limits = "connections: 8\n  header_timeout: 600s"

    def test_who_says_nothing_gives_its_place_to_who_waits(self):
        self.daemon()
        silent = [self.raw() for _ in range(20)]
        for raw in silent[::2]:
            raw.send(b"GET / HTTP/1.1\r\n")
        self.alive()


PLANT = """
ln -s / up; ln -s {0} out; ln -s {0}/secret sec; ln -s /workspace self; ln -s loop loop
mkfifo fifo; mkdir d; ln -s .. d/up; echo ok >ok; ln ok hard; chmod 755 ok
python3 -c "
import os
for name in (b'nl\\nname', b'esc\\x1b[2J', b'bad\\xff', b'sur\\xed\\xa0\\x80', b'\\xc3\\xa9',
             b'n' * 255):
    open(name, 'w')
with open('sparse', 'wb') as f:
    f.truncate(1 << 40)
os.makedirs('deep')
os.chdir('deep')
for _ in range(300):
    os.mkdir('x' * 200)
    os.chdir('x' * 200)
"
chmod 0 d deep
"""


class Files(Case):
    """What a command leaves in its workspace, for who looks at it from outside."""

    def setUp(self):
        super().setUp()
        self.host = self.dir / "host"
        self.host.mkdir()
        self.host.chmod(0o777)
        self.secret = self.host / "secret"
        self.secret.write_text("host")
        self.secret.chmod(0o666)
        self.daemon()
        self.s = self.acquire()
        self.assertEqual(self.shell(self.s, PLANT.format(self.host)), (0, ""))

    def of(self, what, path, **headers):
        path = urllib.parse.quote(path)
        return self.ask("GET", f"{BASE}/{self.s}/files{what}?path={path}", ALICE, **headers)

    def test_no_link_is_followed_and_nothing_blocks(self):
        for path in ("up/etc/passwd", "out/secret", "sec", "self/ok", "loop", "d/up/ok", "fifo",
                     "../x", "/etc/passwd", ".", "..", "d/../ok", "ok/", "ok/x", "n" * 256,
                     "a/" * 2000 + "a", "a" * 4097, "ok\n", "ok\x1b", "ok\0"):
            self.assertIn(self.of("/content", path)[0], (400, 403, 404, 409, 413), path)
        self.assertEqual(self.of("/content", "hard"), (200, b"ok\n"))
        self.assertEqual(self.of("/stat", "fifo")[1]["type"], "other")
        self.assertEqual(self.of("/stat", "sec")[1]["type"], "symlink")
        self.assertEqual(self.of("/stat", "sparse")[1]["size"], 1 << 40)
        self.assertEqual(self.of("/content", "sparse")[0], 413)
        self.assertEqual(self.of("/content", "sparse", Range="bytes=-3"), (206, bytes(3)))
        self.assertEqual(self.of("/content", "sparse", Range=f"bytes={1 << 40}-")[0], 416)

    def test_names_in_a_list_are_names(self):
        status, page = self.ask("GET", f"{BASE}/{self.s}/files?limit=1000", ALICE)
        self.assertEqual(status, 200)
        names = [e["name"] for e in page["entries"]]
        self.assertIn("n" * 255, names)
        self.assertIn("\u00e9", names)
        self.assertFalse([n for n in names if any(ord(c) < 32 for c in n) or "\ufffd" in n])

    def test_no_change_reaches_out_of_it(self):
        ws = self.ws(self.s)
        for operation in ({"writeFile": {"path": "up/tmp/x", "data": "eA=="}},
                          {"writeFile": {"path": "out/y", "data": "eA=="}},
                          {"writeFile": {"path": "sec", "data": "eA=="}},
                          {"writeFile": {"path": "sec", "data": "eA==", "append": True}},
                          {"writeFile": {"path": "fifo", "data": "eA==", "append": True}},
                          {"createDirectory": {"path": "out/x/y", "recursive": True}},
                          {"deleteFile": {"path": "out/secret"}},
                          {"deleteFile": {"path": "../secret"}},
                          {"renameFile": {"from": "ok", "to": "out/ok"}},
                          {"renameFile": {"from": "out/secret", "to": "s"}},
                          {"writeFile": {"path": "d/up/x", "data": "eA=="}}):
            event, _ = ws.run(**operation)
            self.assertIn(event["type"], ("failed", "error"), operation)
        for path in ("deep", "out", "self", "d"):  # links themselves, and what is in directories
            event, _ = ws.run(deleteFile={"path": path, "recursive": True})
            self.assertEqual(event["type"], "completed", event)
        self.untouched()

    def untouched(self):
        self.assertEqual(self.secret.read_text(), "host")
        self.assertEqual(list(self.host.iterdir()), [self.secret])

    def test_a_release_removes_what_is_in_it_and_nothing_else(self):
        self.assertEqual(self.shell(self.s, "chmod 0 /workspace")[0], 0)
        self.assertEqual(self.ask("DELETE", f"{BASE}/{self.s}?wait=true", ALICE)[1]["state"],
                         "closed")
        real.wait_for(lambda: not list(self.state.glob("namespaces/default/workspaces/*")),
                      "the workspace is gone")
        self.untouched()


OUTLIVE = """python3 -c "
import os, select
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in (0, 1, 2):
            os.close(fd)
        while True:
            open('tick', 'a').write('.')
            select.select([], [], [], 0.001)
    os._exit(0)
while not os.path.exists('tick'):
    select.select([], [], [], 0.001)
"
"""


class Commands(Case):
    def test_nothing_of_a_command_outlives_it_or_sees_another_s(self):
        self.daemon()
        s, other = self.acquire(ALICE), self.acquire(BOB)
        self.assertEqual(self.shell(other, "echo x >secret", BOB)[0], 0)
        self.assertEqual(self.shell(s, OUTLIVE)[0], 0)
        first = self.shell(s, "wc -c <tick; find / -name secret 2>/dev/null; "
                              f"grep -c {other[2:]} /proc/self/mountinfo")
        self.assertEqual(first, (1, first[1].split()[0] + "\n0\n"))
        self.alive()
        self.assertEqual(self.shell(s, "wc -c <tick"), (0, first[1].split()[0] + "\n"))
        port = self.address.rpartition(":")[2]
        self.assertIn("Error", self.shell(s, "python3 -c \"import socket; socket."
                                          f"create_connection(('127.0.0.1', {port}))\" 2>&1")[1])

    def test_who_reads_and_releases_at_once_does_not_fill_the_log(self):
        d = self.daemon()
        before = d.stderr()
        for _ in range(8):
            s = self.acquire()
            raw = self.raw()
            raw.send(raw.line("GET", f"{BASE}/{s}/files", ALICE))
            self.assertEqual(self.ask("DELETE", f"{BASE}/{s}?mode=immediate&wait=true",
                                      ALICE)[0], 200)
            self.assertIn(raw.answer()[0], (200, 404, 409, 503))
        self.assertEqual(d.stderr(), before)


if __name__ == "__main__":
    unittest.main()
