"""docs/API.md against a whole daemon: its configuration, its commands and what it shows, as they
stand there."""

import json
import os
import re
import shutil
import subprocess
import unittest

import daemon_lab
import wire
from daemon_lab import Daemon
from python_client_lab import PACKAGE  # noqa: F401  (puts the client on the path)
from real import wait_for

from caisson_client import Client, _websocket
from caisson_client._calls import Gateway
from caisson_client._http import Http

PAGE = "\n" + (wire.ROOT / "docs" / "API.md").read_text(encoding="utf-8")
RUNTIMES = """
runtimes:
  - { id: shell, builtin: command }
"""


def blocks(chapter):
    """The blocks that a chapter shows, each as its text."""
    text = PAGE.partition(f"\n{chapter}\n")[2].partition("\n## ")[0]
    found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", text, re.M)
    return [re.sub(r"^    ", "", block, flags=re.M) for block in found]


class Page(daemon_lab.Case):
    def setUp(self):
        for tool in ("bash", "curl", "openssl", "sha256sum"):
            if not shutil.which(tool):
                self.skipTest(f"{tool} is not installed")
        self.config_block, self.certificate, self.names = blocks("# HTTP and WebSocket API")
        super().setUp()
        self.daemon = Daemon(self)
        [self.address] = wait_for(
            lambda: re.findall(r"gateway listens on 127.0.0.1:(\d+)", self.daemon.stderr()),
            "the gateway's listener")
        self.client = Client(f"http+unix://{self.dir}/http.sock", token=self.token,
                             timeout=wire.TIMEOUT)
        self.addCleanup(self.client.close)

    def configure(self, grace="20s", more=""):
        """As the page has it, but for addresses and what is between the dots."""
        self.shell(self.certificate + 'printf %s "$TOKEN" >token')
        self.token = (self.dir / "token").read_text()
        digest = self.shell("printf %s \"$(cat token)\" | sha256sum").split()[0]
        text, count = re.subn(r"2bb80d53\.\.\.", digest, self.config_block)
        self.assertEqual(count, 1)
        text = text.replace("0.0.0.0:8443", '"127.0.0.1:0"').replace(
            "/run/caisson/http.sock", f"{self.dir}/http.sock")
        path = self.dir / "c.yaml"
        path.write_text("version: 1\n" + text + RUNTIMES)
        return path

    def shell(self, script, **env):
        done = subprocess.run(
            ["bash", "-c", "shopt -s expand_aliases\n" + script], cwd=self.dir,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=wire.TIMEOUT, text=True,
            check=False, env={"PATH": os.environ["PATH"], **env})
        self.assertEqual(done.returncode, 0, f"{script}\n{done.stdout}{done.stderr}")
        return done.stdout

    def command(self, line, **env):
        """What a command of the page's writes."""
        names = self.names.replace("localhost:8443", f"localhost:{self.address}")
        return self.shell(names + line, TOKEN=self.token, **env)

    def acquired(self):
        return self.client.acquire("shell")

    def run_here(self, box, line):
        with box.open() as session:
            session.send(shell=line)
            return list(session.receive())

    def test_the_requests(self):
        [commands] = blocks("## Requests")
        acquire, listing, content, release = commands.splitlines()
        session = json.loads(self.command(acquire))
        self.assertEqual((session["state"], session["leaseMs"], session["runtime"]),
                         ("ready", 600000, "shell"))
        self.assertEqual(json.loads(self.command(acquire))["id"], session["id"])  # its key
        source = "int main(void) { return 0; } /* " + "x" * 100 + " */\n"
        self.run_here(self.client.sandbox("shell", session["id"]),
                      f"mkdir src; printf %s '{source}' >src/main.c")
        self.assertEqual(json.loads(self.command(listing, ID=session["id"])), {
            "entries": [{"name": "main.c", "type": "file", "size": len(source)}]})
        self.assertEqual(self.command(content, ID=session["id"]), source[:100])
        ended = json.loads(self.command(release, ID=session["id"]))
        self.assertEqual((ended["id"], ended["state"]), (session["id"], "closed"))

    def test_the_socket_is_the_same(self):
        line = re.search(r"^`(curl --unix-socket \S+ http://localhost)/v1/\.\.\.`", PAGE, re.M)[1]
        box = self.acquired()
        found = self.shell(f"{line}{box._path} -sS -H 'Authorization: Bearer {self.token}'".replace(
            "/run/caisson/http.sock", f"{self.dir}/http.sock"))
        self.assertEqual(json.loads(found)["id"], box.id)

    def test_what_a_session_and_an_operation_have(self):
        """Every member that is said, and no other."""
        text = re.search(r"\* A \*session\* has .*?\.\n(?=\* )", PAGE, re.S)[0]
        words = [re.sub(r"\([^)]*\)", "", part) for part in text.partition("An *operation*")[::2]]
        session, operation = (set(re.findall(r"`(\w+)`", part)) for part in words)
        box = self.client.acquire("shell", lease=60)
        end = self.run_here(box, "true")[-1]
        shown = [box.show(), box.operation(end.operation)]
        shown.append(box.release(wait=True))
        self.assertLessEqual({*shown[0], *shown[2]}, session)
        self.assertLessEqual(session - {"running"}, {*shown[0], *shown[2]})
        self.assertLessEqual(set(shown[1]), operation)
        self.assertLessEqual(operation - {"modifiedAt", "code", "cause"}, set(shown[1]))

    def test_the_error_is_the_one_that_is_shown(self):
        [shown] = blocks("## Errors")
        self.assertEqual(json.loads(self.command('c "$B/s-none"')), json.loads(shown))

    def test_the_statuses(self):
        box = self.acquired()
        self.run_here(box, "head -c 2000000 /dev/zero >large; mkfifo fifo")
        status = "c -o /dev/null -w '%{http_code}' "
        for line, expected in (
                ('-X POST "$B" -d "{}x"', 400), ('"$B"', 401),
                ('-H "Origin: https://elsewhere.example" "$B"', 403), ('"$B/none"', 404),
                ('-X PUT "$B"', 405), ('"$B/$ID/files/content?path=large"', 413),
                ('-H "X: $(head -c 100000 /dev/zero | tr \'\\0\' x)" "$B"', 431),
                ('-r 3000000- "$B/$ID/files/content?path=large"', 416),
                ('-H "Idempotency-Key: a" -X POST "$B" -d \'{"queue":1}\'', 201),
                ('-H "Idempotency-Key: a" -X POST "$B" -d \'{"queue":1}\'', 200),
                ('-H "Idempotency-Key: a" -X POST "$B" -d \'{"queue":2}\'', 409)):
            with self.subTest(line):
                before = "TOKEN=nobodys; " if expected == 401 else ""
                self.assertEqual(self.command(before + status + line, ID=box.id), str(expected))
                if expected >= 400:
                    self.assertRegex(PAGE, rf"(?m)^\|[ 0-9,]*\b{expected}\b")

    def test_the_websocket(self):
        """What is shown after its command, but for ids and numbers that vary."""
        command, said, *shown = blocks("## The WebSocket")[0].splitlines()
        self.assertIn("/v1/namespaces/default/runtimes/shell/sessions/$ID/operations:ws", command)
        box = self.acquired()
        http = Http(Gateway(f"http+unix://{self.dir}/http.sock", self.token, None, None,
                            wire.TIMEOUT))
        stream, data = http.upgrade(box._path + "/operations:ws")
        self.addCleanup(stream.close)
        stream._sock.settimeout(wire.TIMEOUT)
        stream._sock.sendall(_websocket.encode(_websocket.TEXT, said.encode()))
        parser, messages = _websocket.Parser(), []
        while len(messages) < len(shown):
            messages += [text for opcode, text in parser.feed(data) if opcode == _websocket.TEXT]
            if len(messages) < len(shown):
                data = stream._sock.recv(1 << 16)
                self.assertTrue(data)

        def known(text):
            text = re.sub(r'"operationID":"[^"]*"', '"operationID":"ID"', text)
            return re.sub(r'"usage":{"cpuMs":[^}]*}', '"usage":{...}', text)
        self.assertEqual([known(m.decode()) for m in messages], [known(line) for line in shown])

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_the_page_of_the_same_origin(self):
        flags = ["--no-warnings", "--experimental-websocket"]
        has = subprocess.run(["node", *flags, "-p", "typeof WebSocket"], capture_output=True,
                             text=True, check=False, timeout=wire.TIMEOUT).stdout
        if has != "function\n":
            self.skipTest("node has no WebSocket")
        script = blocks("## The WebSocket")[-1].replace(
            "console.log(JSON.parse(m.data))",
            "{ console.log(m.data); if (JSON.parse(m.data).completed) ws.close(); }")
        before = "const [host, id, token] = process.argv.slice(1), location = { host };\n"
        done = subprocess.run(
            ["node", *flags, "-e", before + script, f"localhost:{self.address}",
             self.acquired().id, self.token], capture_output=True, text=True, check=False,
            timeout=wire.TIMEOUT, stdin=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "NODE_EXTRA_CA_CERTS": str(self.dir / "server.pem")})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
        self.assertEqual(kinds, ["accepted", "output", "completed"])


if __name__ == "__main__":
    unittest.main()
