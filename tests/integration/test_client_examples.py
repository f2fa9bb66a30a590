"""The examples of libcaisson, built as docs/CLIENTS.md says against what `make install` puts there,
and run against a whole daemon."""

import hashlib
import os
import shutil
import subprocess
import unittest

import daemon_lab
import wire
from daemon_lab import Daemon

TOKEN = "alice-token"
CONFIG = """version: 1
limits: {{ kill_grace: 200ms, shutdown_grace: 5s }}
principals:
  - {{ id: "human:alice", tokens: [{alice}], runtimes: [shell] }}
gateway: {{ listen: [{{ socket: {dir}/g.sock }}] }}
runtimes:
  - {{ id: shell, builtin: command }}
"""


@unittest.skipUnless(shutil.which("make") and shutil.which("cc") and shutil.which("pkg-config"),
                     "make, a compiler and pkg-config are not all installed")
class Examples(daemon_lab.Case):
    def configure(self, grace="20s", more=""):
        path = self.dir / "c.yaml"
        path.write_text(CONFIG.format(dir=self.dir, alice=hashlib.sha256(TOKEN.encode()).hexdigest()))
        return path

    def setUp(self):
        super().setUp()
        self.config = self.configure()
        build = os.environ["CAISSON_BUILD"]
        subprocess.run(["make", "-s", "-C", wire.ROOT, f"B={build}", f"PREFIX={self.dir}/there",
                        "--old-file=all", "install"], check=True, timeout=wire.TIMEOUT,
                       stdout=subprocess.DEVNULL)
        self.flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "caisson"], check=True, timeout=wire.TIMEOUT,
            stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PKG_CONFIG_PATH": f"{self.dir}/there/lib/pkgconfig"}).stdout.split()
        self.daemon = Daemon(self)

    def example(self, name, target, *lines, **env):
        """(status, stdout, stderr)"""
        program = self.dir / name
        sanitizers = ["-fsanitize=address,undefined"] if wire.SANITIZED else []
        subprocess.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", *sanitizers, "-o", program,
                        wire.ROOT / "examples/client" / f"{name}.c", *self.flags],
                       check=True, timeout=wire.TIMEOUT)
        done = subprocess.run([program, target, *lines], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              timeout=wire.TIMEOUT, env={"PATH": os.environ["PATH"], **env})
        return done.returncode, done.stdout, done.stderr

    def test_one_that_waits(self):
        line = "seq 3; echo no >&2; exit 4"
        for target, env in ((self.socket, {}),
                            (f"http+unix://{self.dir}/g.sock", {"CAISSON_TOKEN": TOKEN})):
            self.assertEqual(self.example("run", target, line, **env), (4, "1\n2\n3\n", "no\n"))
        status, out, err = self.example("run", f"http+unix://{self.dir}/g.sock", line)
        self.assertEqual((status, out), (125, ""))
        self.assertIn("unauthenticated", err)

    def test_many_in_one_loop(self):
        status, out, err = self.example("watch", self.socket, "echo one", "exit 3", "kill -9 $$")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("1: one\n", out)
        self.assertRegex(out, r'(?m)^2: .*"completed".*"exitCode":3')
        self.assertRegex(out, r'(?m)^3: .*"completed".*"signal":9')
        status, _, err = self.example("watch", f"{self.dir}/none.sock", "true", "true")
        self.assertEqual(status, 1)
        self.assertRegex(err, r"1: transport: .*\n2: transport: .*\n")

    def test_the_header_is_one_of_any_c_and_of_cxx(self):
        source = self.dir / "other.cc"
        source.write_text("""#include <libcaisson.h>
int main(int, char **argv)
{
	caisson_options options = caisson_options();
	caisson_error error;
	options.target = argv[1];
	options.namespace_name = "default";
	caisson_client *client = caisson_client_create(&options, &error);
	int failed = client == nullptr || caisson_client_connect(client, &error) != 0;
	caisson_client_destroy(client);
	return failed;
}
""")
        header = f"{self.dir}/there/include/libcaisson.h"
        for standard in ("c99", "c11", "gnu17"):
            subprocess.run(["cc", f"-std={standard}", "-pedantic-errors", "-Wall", "-Wextra", "-Werror",
                            "-fsyntax-only", "-x", "c", header], check=True, timeout=wire.TIMEOUT)
        if not shutil.which("c++"):
            self.skipTest("no compiler of C++ is installed")
        sanitizers = ["-fsanitize=address,undefined"] if wire.SANITIZED else []
        for standard in ("c++11", "c++20"):
            subprocess.run(["c++", f"-std={standard}", "-pedantic-errors", "-Wall", "-Wextra", "-Werror",
                            *sanitizers, "-o", self.dir / "other", source, *self.flags],
                           check=True, timeout=wire.TIMEOUT)
            done = subprocess.run([self.dir / "other", self.socket], check=False, timeout=wire.TIMEOUT)
            self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
