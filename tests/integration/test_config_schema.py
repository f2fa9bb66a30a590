"""The JSON Schema of the configuration, which editors check by: what it takes and what not.

Another implementation of JSON Schema validates, where there is one; `caisson config check` must
be of the same opinion.
"""

import json
import pathlib
import subprocess
import tempfile
import unittest

import real

try:
    import jsonschema
    import yaml
except ImportError:
    jsonschema = yaml = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "dist/caisson.schema.json"

WHOLE = """version: 1
namespace: docs
limits: { turn_timeout: 30s, max_steps: 4 }
sessions: { max: 10, queue: 2 }
retention: { mode: memory, operation: 64KiB, total: 1MiB }
principals:
  - { id: "human:alice", tokens: [%s], runtimes: ["*"] }
gateway:
  listen: [ { address: "127.0.0.1:0" } ]
  connections: 10
runtimes:
  - { id: a, command: [python3, -c, pass], profile: interpreter, memory: 64MiB, warm: 2 }
tools: []
grants:
  - id: g
    subject: agent:a
    issuer: human:operator
    namespace: docs
    capabilities:
      - { resource: { namespace: workspace, path: [a, b], scope: exact }, actions: [read] }
    constraints: { maxUses: 3, expiresAt: 2030-01-01T00:00:00Z }
""" % ("0" * 64)

# Changes of it, and why nobody takes them.
WRONG = (
    ("namespace: docs\n", "namespaces: docs\n", "no such key"),
    ("max_steps: 4", "max_steps: many", "no number"),
    ("max_steps: 4", "max_steps: 1001", "beyond"),
    ("turn_timeout: 30s", "turn_timeout: 30", "a duration without a unit"),
    ("operation: 64KiB", "operation: 65536", "a size without a unit"),
    ("mode: memory", "mode: forever", "none of the words"),
    ("id: a, command", "command", "an id is required"),
    ("  connections: 10", "  connections: [10]", "a list"),
    ("scope: exact", "scope: near", "none of the words"),
    ("subject: agent:a", "subject: a", "no address"),
    ("tools: []", "tools: {}", "no list"),
)


def load(text):
    """As JSON has it: an instant is text."""
    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {
            letter: [(tag, pattern) for tag, pattern in found if not tag.endswith(":timestamp")]
            for letter, found in yaml.SafeLoader.yaml_implicit_resolvers.items()}
    return yaml.load(text, Loader)


@unittest.skipIf(jsonschema is None, "python3-jsonschema or python3-yaml is not installed")
class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.schema = json.loads(SCHEMA.read_text())
        cls.validator = jsonschema.validators.validator_for(cls.schema)(cls.schema)

    def errors(self, text):
        return [e.message for e in self.validator.iter_errors(load(text))]

    def check(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "c.yaml"
            path.write_text(text)
            return subprocess.run([real.CAISSON, "config", "check", path], capture_output=True,
                                  text=True, timeout=real.WAIT, check=False)

    def test_it_is_a_schema(self):
        self.validator.check_schema(self.schema)

    def test_the_examples_are_valid(self):
        found = sorted((ROOT / "examples").glob("*.yaml"))
        self.assertTrue(found)
        for path in found:
            with self.subTest(path.name):
                self.assertEqual(self.errors(path.read_text()), [])

    def test_what_is_wrong_is_refused_by_both(self):
        self.assertEqual(self.errors(WHOLE), [])
        self.assertEqual(self.check(WHOLE).returncode, 0, self.check(WHOLE).stderr)
        for old, new, why in WRONG:
            with self.subTest(why):
                self.assertIn(old, WHOLE)
                text = WHOLE.replace(old, new, 1)
                self.assertNotEqual(self.errors(text), [])
                self.assertNotEqual(self.check(text).returncode, 0)


if __name__ == "__main__":
    unittest.main()
