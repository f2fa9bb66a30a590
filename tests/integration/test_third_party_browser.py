"""What others put before a gateway: a proxy and a browser."""

import contextlib
import http.server
import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import threading
import unittest
import urllib.parse

from network_lab import TOKEN, WAIT
from real import wait_for
from third_party_lab import BASE, CLIENTS, Client, Lab, output

TIMEOUT = 400  # of this file, for run.py
NGINX = """daemon off;
worker_processes 1;
error_log stderr notice;
pid {dir}/nginx.pid;
events {{ worker_connections 64; }}
http {{
  access_log {dir}/access.log;
  client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;
  uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
  proxy_http_version 1.1;
  proxy_set_header Host $http_host;
  proxy_set_header Upgrade $http_upgrade;
  proxy_set_header Connection $forward;
  map $http_upgrade $forward {{ default upgrade; "" ""; }}
  server {{
    listen 127.0.0.1:{plain} reuseport;
    root {pages};
    location /v1/ {{ proxy_pass http://unix:{unix}:; proxy_read_timeout 2s; proxy_send_timeout 2s; }}
    location /report {{ proxy_pass http://127.0.0.1:{report}; }}
  }}
  server {{
    listen 127.0.0.1:{elsewhere} reuseport;
    root {pages};
    location /report {{ proxy_pass http://127.0.0.1:{report}; }}
  }}
  server {{
    listen 127.0.0.1:{secure} ssl reuseport;
    ssl_certificate {dir}/server.pem;
    ssl_certificate_key {dir}/server.key;
    location /v1/ {{
      proxy_pass https://{tls};
      proxy_ssl_trusted_certificate {dir}/server.pem;
      proxy_ssl_verify on;
      proxy_ssl_name localhost;
    }}
  }}
}}
"""


@contextlib.contextmanager
def ports(n):
    """Nobody else gets them meanwhile; who listens with SO_REUSEPORT, as the same user, does."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(n):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.bind(("127.0.0.1", 0))
            found.append(sock.getsockname()[1])
        yield found


class Proxy(Lab):
    """nginx before the gateway, as its manual has it for a WebSocket, with less patience."""

    settings = "  ping_interval: 500ms\n"

    def setUp(self):
        nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if nginx is None:
            self.skipTest("nginx is not installed: apt-get install nginx-light")
        super().setUp()
        self.reports = queue.Queue()
        reports = self.reports

        class Report(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Report)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with ports(3) as found:
            self.start_nginx(nginx, server.server_port, *found)

    def start_nginx(self, nginx, report, plain, elsewhere, secure):
        self.proxied, self.secured = f"127.0.0.1:{plain}", f"127.0.0.1:{secure}"
        self.elsewhere = f"127.0.0.1:{elsewhere}"
        (self.dir / "nginx.conf").write_text(NGINX.format(
            dir=self.dir, pages=CLIENTS, unix=self.unix, report=report, tls=self.tls,
            plain=plain, elsewhere=elsewhere, secure=secure))
        with open(self.dir / "nginx.err", "wb") as errors:
            process = subprocess.Popen([nginx, "-p", self.dir, "-c", self.dir / "nginx.conf"],
                                       stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        self.addCleanup(process.wait, WAIT)
        self.addCleanup(process.terminate)
        if os.geteuid() == 0:
            # Its workers are another user, to whom the socket is not open otherwise.
            os.chmod(self.unix, 0o666)

        def answers():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", plain), WAIT):
                return True
            self.assertIsNone(process.poll(), (self.dir / "nginx.err").read_text())
            return False
        wait_for(answers, "nginx")

    def socket_url(self, scheme, address):
        self.sandbox = self.acquire()
        return f"{scheme}://{address}{BASE}/{self.sandbox}/operations:ws"

    def access(self):
        """(method, status) of each request that the proxy carried."""
        text = (self.dir / "access.log").read_text()
        return re.findall(r'"(\S+) \S+ \S+" (\d+)', text)


class Proxied(Proxy):
    def test_requests_and_operations_pass(self):
        for scheme, address, library in (("ws", self.proxied, "websockets"),
                                         ("wss", self.secured, "websockets"), ("ws", self.proxied, "ws"),
                                         ("wss", self.secured, "ws")):
            with self.subTest(scheme=scheme, library=library):
                web = scheme.replace("ws", "http")
                ca = ["--cacert", self.dir / "server.pem"]
                self.json(f"{web}://{address}{BASE}", at=ca)
                self.json("-H", f"Origin: {web}://{address}", f"{web}://{address}{BASE}", at=ca)
                self.json("-H", f"Origin: {web}://{self.elsewhere}", f"{web}://{address}{BASE}", at=ca,
                          status=403)
                client = Client(self, library, self.socket_url(scheme, address))
                client.expect("open")
                client.shell("echo hi")
                self.assertEqual(output(client.until("completed", "failed")), b"hi\n")
                client.tell("close", 1000)
                client.expect("close", 1000)

    def test_pings_keep_what_is_silent(self):
        """For longer than the proxy waits for a byte."""
        client = Client(self, "wsproto", self.socket_url("ws", self.proxied))
        client.expect("open")
        for _ in range(6):  # 3 s, of which it waits 2
            self.assertEqual(client.said.get(timeout=WAIT), ["ping"])
        client.shell("echo hi")
        self.assertEqual(output(client.until("completed", "failed")), b"hi\n")


class Browser(Proxy):
    def browse(self, page, **o):
        """What the page reports."""
        command = [self.browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   "--disable-dev-shm-usage", "--disable-background-networking",
                   f"--user-data-dir={self.dir}/profile", "--remote-debugging-pipe",
                   f"http://{page}/page.html#{urllib.parse.quote(json.dumps(o))}"]
        commands, answers = os.pipe(), os.pipe()

        def be_child():  # its debugging pipe: 3 and 4, whose end is its own
            os.dup2(commands[0], 53)
            os.dup2(answers[1], 54)
            os.dup2(53, 3)
            os.dup2(54, 4)
        with open(self.dir / "browser.err", "wb") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, close_fds=False,
                start_new_session=True, preexec_fn=be_child,
                env={"PATH": os.environ["PATH"], "HOME": str(self.dir)})
        try:
            return self.reports.get(timeout=3 * WAIT)
        except queue.Empty:
            self.fail((self.dir / "browser.err").read_text()[-2000:])
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for fd in (*commands, *answers):
                os.close(fd)

    def setUp(self):
        names = ("chromium", "chromium-browser", "google-chrome")
        self.browser = next(filter(None, map(shutil.which, names)), None)
        if self.browser is None:
            self.skipTest("no browser is installed: apt-get install chromium")
        super().setUp()

    def options(self):
        url = self.socket_url("ws", self.proxied)
        return {"url": url, "http": f"http://{self.proxied}{BASE}/{self.sandbox}", "token": TOKEN,
                "shell": "echo browser", "subprotocols": ["caisson", f"caisson.bearer.{TOKEN}"]}

    def test_a_page_of_the_same_origin_runs_a_command(self):
        """OP-19, OP-24"""
        asked, opened, *events, closed = self.browse(self.proxied, **self.options())
        self.assertEqual(asked[:2], ["http", 200])
        self.assertEqual(asked[2]["id"], self.sandbox)
        self.assertEqual((opened, closed), (["open", "caisson"], ["close", 1000]))
        events = [event for _, event in events]
        self.assertEqual(output(events), b"browser\n")
        self.assertEqual(events[-1]["completed"]["command"]["exitCode"], 0)

    def test_a_page_of_another_origin_does_nothing(self):
        """OP-19: though it has the token."""
        self.assertEqual(self.browse(self.elsewhere, **self.options()),
                         [["http", "TypeError"], ["close", 1006]])
        self.assertEqual(self.json(self.url(f"/{self.sandbox}/operations")), {"operations": []})
        self.assertIn(("GET", "403"), self.access())  # the WebSocket's, whose preflight there is none
        self.assertNotIn(("GET", "101"), self.access())


if __name__ == "__main__":
    unittest.main()
