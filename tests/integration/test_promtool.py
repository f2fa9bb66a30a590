"""The numbers of a daemon that has worked, before Prometheus' own judge; nobody is named in them."""

import re
import shutil
import subprocess
import unittest
import urllib.request

import network_lab
from network_lab import TOKEN, WAIT
from wire import program


class Metrics(network_lab.Case):
    def setUp(self):
        if program("caisson-gateway") is None:
            self.skipTest("caisson-gateway is not built")
        super().setUp()
        self.daemon()
        with self.client() as client:
            sandbox = client.acquire("shell")
            with sandbox.open() as session:
                self.names = [session.send(shell="echo hi; exit 3")]
                list(session.receive())
                session.write_file("a-secret-path", b"x")
                list(session.receive())
            self.names += [sandbox.id, sandbox.id[2:], "a-secret-path", TOKEN, "alice", "human:",
                           network_lab.digest(TOKEN)]
        with urllib.request.urlopen(f"http://{self.monitor}/metrics", timeout=WAIT) as answer:
            self.text = answer.read().decode()

    def test_promtool_has_nothing_to_say(self):
        if shutil.which("promtool") is None:
            self.skipTest("promtool is not installed: apt-get install prometheus")
        result = subprocess.run(["promtool", "check", "metrics"], input=self.text, text=True,
                                capture_output=True, timeout=WAIT, check=False)
        self.assertEqual((result.returncode, result.stdout + result.stderr), (0, ""))

    def test_nobody_is_named_and_work_was_counted(self):
        for name in self.names:
            self.assertNotIn(name, self.text)
        values = dict(re.findall(r"^(caisson_\S+) ([0-9.e+]+)$", self.text, re.M))
        self.assertGreater(len([v for v in values.values() if float(v) > 0]), 5, self.text)


if __name__ == "__main__":
    unittest.main()
