"""The README's tool of one's own: its commands, as they stand there."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import real
import wire

README = wire.ROOT / "README.md"


class Notes(real.Case):
    def setUp(self):
        super().setUp()
        text = README.read_text(encoding="utf-8").partition("## Writing a tool")[2]
        self.lines = re.findall(r"^    (cp -rL examples.*|build/bin/caisson run.*)$", text, re.M)
        self.assertEqual(len(self.lines), 4)
        self.mine = self.dir / "mine"
        self.run_line(self.lines[0])

    def run_line(self, line):
        """Its standard output; the copy is the test's, and so are state and programs."""
        line = line.replace("mine", str(self.mine)).replace("build/bin/caisson", real.CAISSON)
        result = subprocess.run(
            ["sh", "-c", line], cwd=wire.ROOT, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=wire.TIMEOUT, check=False, text=True,
            env=real.environment(CAISSON_STATE=str(self.state)))
        self.assertEqual((result.returncode, wire.said(result.stderr)), (0, ""), line)
        return result.stdout

    def calls(self, *calls, config="notes.yaml"):
        status, out, err = self.caisson("run", "-c", str(self.mine / config), "-m",
                                        json.dumps(calls))
        self.assertEqual(status, 0, err)
        return json.loads(out)

    def test_the_commands_work_as_they_stand(self):
        found = [json.loads(self.run_line(line)) for line in self.lines[1:]]
        self.assertEqual(found, [[{"name": "todo/milk"}], [{"names": ["todo/milk"]}],
                                 ["no_matching_grant"]])

    def test_what_it_wrote_is_there_and_nothing_else_is_reached(self):
        self.assertEqual(self.calls(
            ["notes.put", {"name": "todo/a", "text": "one"}],
            ["notes.put", {"name": "todo/b", "text": "two"}],
            ["notes.put", {"name": "other/c", "text": "three"}],
            ["notes.get", {"name": "todo/../other/c"}],
            ["notes.get", {"name": "todo//a"}],
            ["notes.get", {"name": "todo/none"}],
            ["notes.put", {"name": "todo/a", "more": 1, "text": ""}],
            ["notes.find", {"under": "todo"}]), [
                {"name": "todo/a"}, {"name": "todo/b"}, "no_matching_grant", "invalid_request",
                "invalid_request", "not_found", "invalid_tool_arguments",
                {"names": ["todo/a", "todo/b"]}])
        self.assertEqual(self.calls(["notes.get", {"name": "todo/b"}]),
                         [{"name": "todo/b", "text": "two"}])
        self.assertEqual(sorted(os.listdir(self.mine / "notes")), [".gitignore", "notes.db"])
        self.assertEqual(os.stat(self.mine / "notes" / "notes.db").st_uid,
                         os.stat(self.mine / "notes").st_uid)


class Daemon(real.Case):
    """The README's day of an operator: its commands, as they stand there, in one shell."""

    def script(self):
        text = README.read_text(encoding="utf-8").partition("## Running a daemon")[2]
        lines = re.findall(r"^    (.*)$", text.partition("\n## ")[0], re.M)
        script = "\n".join(lines)
        self.assertEqual(script.count("--resolves ID\n"), 1)
        # What one line says, and the next one needs: whoever types it copies it.
        asked = "$(build/bin/caisson grant list --pending -o jsonl | cut -d'\"' -f4)"
        return script.replace("ID\n", asked + "\n").replace("build/bin", f"{wire.BUILD}/bin")

    def stop(self):
        pid = self.dir / "mine" / "notes.pid"
        if pid.exists():
            os.kill(int(pid.read_text()), signal.SIGTERM)

    def test_the_commands_work_as_they_stand(self):
        shutil.copytree(wire.ROOT / "examples/provider", self.dir / "mine")
        self.addCleanup(self.stop)
        result = subprocess.run(
            ["bash", "-c", "trap 'echo status $?' DEBUG\n" + self.script()], cwd=self.dir,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=wire.TIMEOUT, check=False, text=True,
            env=real.environment(CAISSON_STATE=str(self.state)))
        expected = [
            "is served at", r"\[\s+\"no_matching_grant\"\s+\]\nstatus 0",
            "no, no_matching_grant: it needs write:notes:diary", "status 3", "issued diary",
            r"\"name\": \"diary\"\s+}\s+\]\nstatus 0", "revoked diary", "issued ask",
            r"may I[?] \(escalation e-[0-9a-f]+\)\nstatus 5",
            "e-[0-9a-f]+ +agent:secretary .*read:notes:diary",
            "read:notes:diary, by one call of notes.get", r"\"text\": \"one\"", "broker +running",
            "told to end by signal 15"]
        self.assertRegex(result.stdout, "(?s)" + ".*".join(expected))
        self.assertEqual(result.returncode, 0, result.stdout)


COUNT = """version: 1
authority: human:operator
limits: {{ turn_timeout: 60s }}
runtimes:
  - {{ id: a, command: [python3, /app/agent.py], app: agent, profile: interpreter,
       env: [PYTHONPATH=/sdk], mounts: [{{ source: sdk, target: /sdk }}] }}
providers:
  - {{ id: count, command: {command}, app: app, profile: {profile}, mounts: [
       {{ source: sdk, target: /sdk }}] }}
tools:
  - name: text.count
    provider: count
    namespace: text
    effect: read
    input: {{ type: object, properties: {{ text: {{ type: string }} }}, required: [text] }}
    requires: {{ action: count, resource: {{ namespace: text, path: "" }} }}
grants:
  - {{ id: g, subject: agent:a, issuer: human:operator, namespace: default, capabilities: [
       {{ resource: {{ namespace: text, path: ., scope: exact }}, actions: [count] }}] }}
"""


class Count(real.Case):
    def counts(self, command, profile):
        for name in ("agent", "sdk"):
            source = wire.SDK if name == "sdk" else wire.ROOT / "examples/provider/agent"
            shutil.copytree(source, self.dir / name)
        config = self.dir / "count.yaml"
        config.write_text(COUNT.format(command=command, profile=profile))
        texts = ["", "one", "one two\n three\n", "é\t\n"]
        status, out, err = self.caisson("run", "-c", str(config), "-m", json.dumps(
            [["text.count", {"text": text}] for text in texts]))
        self.assertEqual(status, 0, err)
        self.assertEqual(json.loads(out), [
            {"bytes": len(t.encode()), "words": len(t.split()), "lines": t.count("\n")}
            for t in texts])

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_in_javascript(self):
        (self.dir / "app").mkdir()
        shutil.copy(wire.ROOT / "examples/node/count.mjs", self.dir / "app")
        self.counts("[node, /app/count.mjs]", "jit")

    @unittest.skipIf(wire.SANITIZED or not shutil.which("cc"), "needs cc and a plain build")
    def test_in_c(self):
        (self.dir / "app").mkdir()
        subprocess.run(["cc", f"-I{wire.SDK}", "-o", self.dir / "app/count",
                        wire.ROOT / "examples/c/count.c",
                        wire.BUILD / "lib/libcaisson-runtime.a"], check=True)
        self.counts("[/app/count]", "provider")


if __name__ == "__main__":
    unittest.main()
