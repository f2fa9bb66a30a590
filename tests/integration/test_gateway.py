"""The gateway's process: its control link, its end, and what it serves without a broker."""

import errno
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from gateway_host import CONFIG_TAKEN, Host, SETTLED, SHUTDOWN, certificate, trusting
from wire import ROOT, SANITIZED, TIMEOUT, program


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
        certificate_pem, key = certificate(new_directory(self), "server")
        with Host([{"kind": "public", "certificate": certificate_pem, "key": key}]) as host:
            with host.connect(0, trusting(certificate_pem)) as client:
                self.assertEqual(client.get("/").status, 404)
                self.assertEqual(client.sock.version(), "TLSv1.3")


def stats_broker(peer):
    """Answers stats.read for as long as it is asked."""
    peer.answer_hello()
    while True:
        msgid, _ = peer.expect("stats.read")
        peer.reply(msgid, stats={})


LINE = re.compile(r'([a-z_:]+)(\{[a-z_]+="[^"\\]*"(?:,[a-z_]+="[^"\\]*")*\})? (-?[0-9.]+)')


@unittest.skipUnless(program("caisson-gateway"), "not built")
class Monitor(unittest.TestCase):
    def test_it_says_that_it_lives_whatever_the_broker_does(self):
        with Host() as host, host.connect(1) as client:
            host.dial_fault = errno.EAGAIN
            answer = client.get("/healthz")
            self.assertEqual((answer.status, answer.body), (200, b"alive\n"))
            self.assertEqual(client.request("HEAD", "/healthz").status, 200)

    def test_nothing_else_is_there_and_the_public_has_none_of_it(self):
        with Host() as host:
            with host.connect(1) as client:
                for path in ("/", "/v1/namespaces/default", "/metrics/", "/healthz/x", "/METRICS"):
                    self.assertEqual(client.get(path).status, 404, path)
                answer = client.request("POST", "/metrics", b"")
                self.assertEqual((answer.status, answer.headers["allow"]), (405, "GET, HEAD"))
            with host.connect(0) as client:
                for path in ("/healthz", "/readyz", "/metrics"):
                    self.assertEqual(client.get(path).status, 404, path)

    def test_no_body_is_taken(self):
        with Host() as host:
            for head, status in ((b"Content-Length: 1\r\n\r\n", 413), (b"Content-Length: 0\r\n\r\n", 200)):
                with host.connect(1) as client:
                    client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + head)
                    self.assertEqual(client.response().status, status)

    def test_a_page_whose_name_points_here_reads_nothing(self):
        """A browser sends the name that its page came from, wherever that points by now."""
        def ask(client, path, host, more=""):
            return client.send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()).response()

        with Host() as host, host.connect(1) as client:
            port = host.addresses[1][1]
            for path in ("/metrics", "/healthz", "/readyz", "/nothing"):
                answer = ask(client, path, f"evil.example:{port}")
                self.assertEqual(answer.status, 403, path)
                self.assertIn(b"localhost", answer.body)
                self.assertEqual(ask(client, path, f"127.0.0.1:{port}", "Origin: http://evil.example\r\n").status, 403)
            for name in (f"127.0.0.1:{port}", f"localhost:{port}", "[::1]:9100"):
                self.assertEqual(ask(client, "/healthz", name).status, 200, name)
            self.assertTrue(host.dialed.empty())

    def test_it_is_ready_when_the_broker_answers_and_only_then(self):
        with Host() as host, host.connect(1) as client:
            host.dial_fault = errno.EAGAIN  # there is no broker
            self.assertEqual(client.get("/readyz").status, 503)
            host.dial_fault = None
            host.broker = stats_broker
            self.assertEqual(client.get("/readyz").status, 200)
            self.assertEqual(client.get("/readyz").status, 200)

    def test_a_broker_that_hangs_is_asked_again_over_another_link(self):
        with Host() as host, host.connect(1) as client:
            self.assertEqual(client.get("/readyz").status, 503)  # no answer to hello
            first = host.dialed.get(timeout=TIMEOUT)
            host.broker = stats_broker
            self.assertEqual(client.get("/readyz").status, 200)
            first.expect("hello")
            self.assertTrue(first.closed())

    def test_a_broker_that_ends_is_said_at_once(self):
        def dies(peer):
            peer.answer_hello()
            peer.expect("stats.read")

        with Host(broker=dies) as host, host.connect(1) as client:
            self.assertEqual(client.get("/readyz").status, 503)
            host.broker = stats_broker
            self.assertEqual(client.get("/readyz").status, 200)

    def test_a_refusal_is_no_readiness(self):
        def refuses(peer):
            peer.answer_hello()
            while True:
                peer.refuse(peer.expect("stats.read")[0], "unauthenticated")

        with Host(broker=refuses) as host, host.connect(1) as client:
            self.assertEqual(client.get("/readyz").status, 503)

    def metrics(self, client):
        answer = client.get("/metrics")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        return answer.body.decode()

    def test_metrics_are_text_of_prometheus(self):
        with Host(broker=stats_broker) as host, host.connect(1) as client:
            text = self.metrics(client)
        kinds, values, done = {}, {}, set()
        family = None
        for line in text.splitlines():
            if line.startswith("# HELP "):
                family = line.split()[2]
                self.assertNotIn(family, done)  # all rows of a name stand together
                done.add(family)
            elif line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.assertEqual(name, family)
                kinds[name] = kind
            else:
                name, labels, value = LINE.fullmatch(line).groups()
                self.assertEqual(name, family)
                self.assertEqual(kinds[name] == "counter", name.endswith("_total"), name)
                values[name + (labels or "")] = float(value)
        self.assertEqual(values["caisson_broker_up"], 1)
        self.assertEqual(values["caisson_gateway_open_connections"], 1)
        self.assertIn('caisson_gateway_responses_total{class="2xx"}', values)
        self.assertEqual(len([name for name in values if name.startswith("caisson_build_info{")]), 1)
        self.assertGreater(values["process_start_time_seconds"], 1.6e9)
        promtool = shutil.which("promtool")
        if promtool:
            said = subprocess.run([promtool, "check", "metrics"], input=text, text=True,
                                  capture_output=True, timeout=TIMEOUT)
            self.assertEqual((said.returncode, said.stdout + said.stderr), (0, ""))

    def test_metrics_count_what_happened_and_come_without_a_broker(self):
        with Host() as host, host.connect(1) as client, host.connect(0) as public:
            host.dial_fault = errno.EAGAIN
            for _ in range(3):
                public.get("/nothing")
            lines = self.metrics(client).splitlines()
            self.assertIn("caisson_broker_up 0", lines)
            self.assertIn('caisson_gateway_responses_total{class="4xx"} 3', lines)
            self.assertIn("caisson_gateway_open_connections 2", lines)
            self.assertIn("caisson_gateway_connections_total 2", lines)

    def test_a_client_that_goes_while_it_waits_is_forgotten(self):
        with Host() as host:
            for _ in range(40):  # more than wait at once
                with host.connect(1) as client:
                    client.send(b"GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n")
            host.broker = stats_broker
            with host.connect(1) as client:
                while client.get("/readyz").status != 200:
                    pass


NEVER = """socket socketpair connect bind listen open openat openat2 creat execve execveat clone clone3
    fork vfork ptrace process_vm_readv process_vm_writev io_uring_setup memfd_create kill tkill
    setresuid mount unshare setns bpf sendto accept""".split()


class Filter(unittest.TestCase):
    def test_the_list_has_nothing_that_reaches_further(self):
        text = (ROOT / "gateway" / "syscalls.def").read_text(encoding="utf-8")
        names = re.findall(r"^ALLOW(?:_IF|_SELF)?\((\w+)", text, re.M)
        self.assertIn("accept4", names)
        self.assertEqual([name for name in NEVER if name in names], [])
        for call in ("mmap", "mprotect", "fcntl", "tgkill", "setsockopt"):
            self.assertNotIn(f"ALLOW({call},", text)

    @unittest.skipUnless(program("caisson-gateway"), "not built")
    @unittest.skipIf(SANITIZED, "the sanitizers need more than the list")
    def test_a_gateway_that_runs_is_filtered_and_may_not_gain(self):
        with Host() as host:
            status = pathlib.Path(f"/proc/{host.pid}/status").read_text(encoding="ascii")
            self.assertRegex(status, r"(?m)^NoNewPrivs:\s1$")
            self.assertRegex(status, r"(?m)^Seccomp:\s2$")


def new_directory(case):
    directory = tempfile.TemporaryDirectory()
    case.addCleanup(directory.cleanup)
    return directory.name


if __name__ == "__main__":
    unittest.main()
