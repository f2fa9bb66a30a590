"""What was decided is what happened: spellings of a path, from a call to the disk (TU-35).

The real broker decides on a grant for one subtree.  Between it and the real files provider
stands a recorder: it notes the resource that was decided and what the provider answered.  Each
file's content is its own path, and after each call the whole tree is looked at: what was acted on
is what the disk says, not what a reply does.
"""

import contextlib
import os
import pathlib
import tempfile
import threading
import unittest

import test_files
import wire
from broker_host import Host, grant, runtime, tool

SUBTREE = ["docs", "sub"]
ACTIONS = ["read", "list", "grep", "write", "delete", "rename", "mkdir"]
TEXT = {"type": "string"}
TOOLS = [tool("files.read"), tool("files.list", action="list"),
         tool("files.grep", action="grep", properties={"path": TEXT, "text": TEXT}),
         tool("files.write", "write", action="write", properties={"path": TEXT, "text": TEXT}),
         tool("files.delete", "write", action="delete"),
         tool("files.rename", "write", action="rename",
              properties={"path": TEXT, "from": TEXT, "to": TEXT}),
         tool("files.mkdir", "write", action="mkdir")]
# What each tool is asked beside its path.
EXTRA = {"grep": {"text": "docs"}, "write": {"text": "written"},
         "rename": {"from": "inner", "to": "renamed"}}

INVALID, NONE = "invalid_request", "no_matching_grant"
LONG = "n" * 255

# A spelling, and what is decided: a code of the broker's, or the path that reaches the provider.
SPELLINGS = [
    ("docs/sub/a", ["docs", "sub", "a"]),
    ("docs/sub/d", ["docs", "sub", "d"]),
    ("docs/sub/d/inner", ["docs", "sub", "d", "inner"]),
    ("docs/sub", SUBTREE),
    ("docs/sub/missing", ["docs", "sub", "missing"]),
    ("docs/sub/link", ["docs", "sub", "link"]),
    ("docs/sub/up/secret", ["docs", "sub", "up", "secret"]),
    ("docs/sub/out/secret", ["docs", "sub", "out", "secret"]),
    # climbing
    ("docs/sub/..", INVALID), ("docs/sub/../secret", INVALID), ("docs/sub/../sub/a", INVALID),
    ("docs/sub/d/../a", INVALID), ("..", INVALID), ("../outside/secret", INVALID),
    ("docs/sub/.", INVALID), ("docs/./sub/a", INVALID), ("./docs/sub/a", INVALID),
    # empty segments, and slashes at the ends
    ("docs//sub/a", INVALID), ("docs/sub//a", INVALID), ("/docs/sub/a", INVALID),
    ("//docs/sub/a", INVALID), ("docs/sub/a//", INVALID), ("docs/sub/d//", INVALID),
    ("docs/sub/a.", ["docs", "sub", "a."]), ("docs/sub/d/", ["docs", "sub", "d"]),
    # encodings that somebody else would decode
    ("docs/sub/%2e%2e/secret", ["docs", "sub", "%2e%2e", "secret"]),
    ("docs/sub/%2e%2e%2fsecret", ["docs", "sub", "%2e%2e%2fsecret"]),
    ("docs%2fsub%2fa", NONE), ("docs/%73ub/a", NONE),
    ("docs/sub/..%00/secret", ["docs", "sub", "..%00", "secret"]),
    ("docs/sub/\uff0e\uff0e/secret", ["docs", "sub", "\uff0e\uff0e", "secret"]),
    ("docs/sub/\u2025/secret", ["docs", "sub", "\u2025", "secret"]),
    ("docs\u2215sub\u2215a", NONE), ("docs\uff0fsub\uff0fa", NONE),
    # control characters
    ("docs/sub/a\0", INVALID), ("docs/sub/\0", INVALID), ("docs/sub\0/../secret", INVALID),
    ("docs/secret\0/docs/sub/a", INVALID), ("docs/sub/a\n", INVALID), ("docs/sub/a\x7f", INVALID),
    ("docs/sub/a\x85", INVALID),
    # the other separator
    ("docs\\sub\\a", INVALID), ("docs/sub\\..\\secret", INVALID), ("docs/sub/..\\secret", INVALID),
    # letters that another system would take for the same
    ("DOCS/sub/a", NONE), ("docs/SUB/a", NONE), ("docs/Sub/a", NONE),
    ("docs/sub/A", ["docs", "sub", "A"]),
    ("docs/sub/e\u0301", ["docs", "sub", "e\u0301"]), ("docs/sub/\u00e9", ["docs", "sub", "\u00e9"]),
    ("docs/s\u016bb/a", NONE), ("docs/\u017fub/a", NONE),
    # prefixes and siblings
    ("docs/su", NONE), ("docs/subx/a", NONE), ("docs/sub2", NONE), ("docs", NONE), ("", NONE),
    ("docs/secret", NONE), ("secret/docs/sub/a", NONE),
    # white space and dots
    (" docs/sub/a", INVALID), ("docs/sub/a ", INVALID), ("docs/sub /a", INVALID),
    ("docs/ sub/a", INVALID), ("docs/sub/\u00a0a", INVALID), ("docs/sub/\u3000", INVALID),
    ("docs/sub/a.", ["docs", "sub", "a."]), ("docs/sub/...", ["docs", "sub", "..."]),
    ("~/docs/sub/a", NONE), ("docs/sub/~", ["docs", "sub", "~"]),
    ("docs/sub/a:stream", ["docs", "sub", "a:stream"]),
    ("docs/sub/*", ["docs", "sub", "*"]), ("docs/*/a", NONE),
    # too long
    (f"docs/sub/{LONG}", ["docs", "sub", LONG]), (f"docs/sub/{LONG}n", ["docs", "sub", LONG + "n"]),
    (f"docs/sub/{LONG}nn", INVALID),
    ("docs/sub/" + "/".join("x" * 62), [*SUBTREE, *"x" * 62]),
    ("docs/sub/" + "/".join("x" * 63), INVALID),
    # names of unfinished files
    ("docs/sub/.caisson-0123456789abcdef.tmp", ["docs", "sub", ".caisson-0123456789abcdef.tmp"]),
]

PROVIDERS_CODES = {"not_found", "not_directory", "is_directory", "symlink", "exists", "not_empty",
                   "invalid_tool_arguments"}


def snapshot(top):
    """{path: what it is and holds} of everything, links not followed."""
    found = {}
    for folder, names, files in os.walk(top):
        for name in names + files:
            path = pathlib.Path(folder, name)
            key = str(path.relative_to(top))
            found[key] = (os.readlink(path) if path.is_symlink() else
                          path.read_text() if path.is_file() else "directory")
    return found


@unittest.skipUnless(test_files.FILES and wire.program("caisson-broker"), "it is not built")
class Paths(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="caisson-test-")
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.root = self.top / "root"
        for path in ("root/docs/sub/a", "root/docs/sub/d/inner", "root/docs/secret",
                     "root/docs/subx/a", "root/docs/SUB/a", "root/a", "root/secret/docs/sub/a",
                     "outside/secret", "outside/inner"):
            file = self.top / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(path)
        for at, to in (("link", "../secret"), ("up", ".."), ("out", "../../../outside")):
            os.symlink(to, self.root / "docs/sub" / at)

    def turn(self, function, **config):
        """Runs function(call) in a worker, where call(tool, path) asks the broker and returns
        (status, code or output, [what the provider was told])."""
        provider = test_files.Provider(self.root)
        self.addCleanup(provider.process.stderr.close)
        seen, said = [], []

        def record(child):
            """Everything that the broker sends goes on to the provider, and back."""
            child.peer.hello("provider")
            with contextlib.suppress(wire.Closed):
                while True:
                    m = child.peer.receive()
                    if m[0] != 0:
                        continue
                    seen.append(m[3][0])
                    error, result = provider.expect_reply(provider.request(m[2], **m[3][0]))
                    assert error is None, error
                    child.peer.reply(m[1], **result)

        def work(child, params):
            def call(name, path, **extra):
                seen.clear()
                arguments = {"path": path, **EXTRA.get(name, {}), **extra}
                msgid = child.peer.request("tool.invoke", operation=child.operation, id="1",
                                           tool=f"files.{name}", arguments=arguments)
                error, result = child.peer.expect_reply(msgid)
                assert error is None, error
                code = result["error"]["code"] if "error" in result else result.get("output")
                return result["status"], code, list(seen)
            try:
                function(call)
            except BaseException as e:  # on the broker's thread: told where the test is
                said.append(e)
            return {"status": "complete"}

        with Host(worker=runtime(work), provider=record, tools=TOOLS,
                  grants=[grant("g", SUBTREE, ACTIONS)], maxToolCalls=10000, **config) as host:
            turn, _ = host.client().turn(maxToolCalls=10000)
        self.assertEqual(provider.finish(), (0, ""))
        if said:
            raise said[0]
        self.assertEqual(turn["status"], "succeeded")

    def check(self, name, spelling, decided, before, answer):
        """One call against what was decided for it."""
        status, told, seen = answer
        after = snapshot(self.top)
        changed = {p for p in {*before, *after} if before.get(p) != after.get(p)}
        if isinstance(decided, str):
            self.assertEqual((status, told, seen), ("denied", decided, []))
            self.assertEqual(changed, set())
            return
        # Decided once, and told as it was decided.
        self.assertEqual([(s["action"], s["namespace"], s["path"], s["arguments"]["path"])
                          for s in seen], [(name, "workspace", decided, spelling)])
        mine = "/".join(["root", *decided])
        if status == "failed":
            self.assertIn(told, PROVIDERS_CODES)
            self.assertEqual(changed, set())
            return
        self.assertEqual(status, "succeeded")
        acted = {"write": {mine}, "delete": {mine}, "mkdir": {mine},
                 "rename": {f"{mine}/inner", f"{mine}/renamed"}}.get(name, set())
        self.assertEqual(changed, acted)
        if name == "read":
            self.assertEqual(told["text"], mine)
        elif name == "list":
            self.assertEqual({e["name"] for e in told["entries"]},
                             {p[len(mine) + 1:].partition("/")[0] for p in before
                              if p.startswith(mine + "/")})
        elif name == "grep":
            for e in told["entries"]:
                self.assertEqual(e["text"], f"root/{e['path']}")
                self.assertEqual(e["path"].split("/")[:len(decided)], decided)

    def test_what_is_decided_is_what_happens_however_it_is_spelled(self):
        succeeded = {name: [] for name in ACTIONS}

        def work(call):
            for spelling, decided in SPELLINGS:
                for name in ACTIONS:
                    with self.subTest(tool=name, path=spelling[:80]):
                        before = snapshot(self.top)
                        answer = call(name, spelling)
                        self.check(name, spelling, decided, before, answer)
                        if answer[0] == "succeeded":
                            succeeded[name].append(spelling)
                            self.restore(name, spelling)
        self.turn(work)
        # Something of each was done: a table that refuses all shows nothing.
        self.assertEqual(succeeded["read"], ["docs/sub/a", "docs/sub/d/inner"])
        self.assertEqual(succeeded["list"], ["docs/sub/d", "docs/sub", "docs/sub/d/"])
        self.assertEqual(succeeded["rename"], ["docs/sub/d", "docs/sub/d/"])
        self.assertEqual(succeeded["delete"], ["docs/sub/a", "docs/sub/d/inner"])
        for name in ("write", "mkdir"):
            for spelling in ("docs/sub/missing", "docs/sub/A", "docs/sub/e\u0301", "docs/sub/\u00e9",
                             "docs/sub/...", "docs/sub/~", "docs/sub/*", f"docs/sub/{LONG}"):
                self.assertIn(spelling, succeeded[name])

    def restore(self, name, spelling):
        """Takes back what the call did."""
        path = self.root / spelling
        if name == "rename":
            os.rename(path / "renamed", path / "inner")
        elif name == "mkdir":
            path.rmdir()
        elif name == "delete":
            path.write_text(f"root/{spelling}")
        elif name == "write":
            if spelling in ("docs/sub/a", "docs/sub/d/inner"):
                path.write_text(f"root/{spelling}")
            else:
                path.unlink()

    def test_a_link_that_is_swapped_in_leads_no_call_elsewhere(self):
        """`docs/sub/d` is a directory and a link to outside, by turns, as fast as can be."""
        sub, over = self.root / "docs/sub", threading.Event()
        os.symlink("../../../outside", sub / "other")
        seen = set()

        def swap():
            while not over.is_set():
                for old, new in (("d", "spare"), ("other", "d"), ("d", "other"), ("spare", "d")):
                    with contextlib.suppress(OSError):
                        os.rename(sub / old, sub / new)

        def work(call):
            for _ in range(60):
                for name, path, extra in (
                        ("read", "docs/sub/d/inner", {}), ("list", "docs/sub/d", {}),
                        ("grep", "docs/sub", {"text": "side"}), ("grep", "docs/sub/d", {}),
                        ("write", "docs/sub/d/inner", {"text": "root/docs/sub/d/inner"}),
                        ("delete", "docs/sub/d/secret", {}), ("mkdir", "docs/sub/d/new", {}),
                        ("rename", "docs/sub/d", {"from": "secret", "to": "stolen"}),
                        ("delete", "docs/sub/d/new", {})):
                    status, told, provider = call(name, path, **extra)
                    self.assertEqual([p["path"] for p in provider], [path.split("/")])
                    seen.add(status if status == "succeeded" else told)
                    self.assertNotIn("outside", str(told))
                    self.assertNotIn("secret", str(told))
        thread = threading.Thread(target=swap)
        thread.start()
        try:
            self.turn(work)
        finally:
            over.set()
            thread.join()
        self.assertEqual({p: c for p, c in snapshot(self.top / "outside").items()},
                         {"secret": "outside/secret", "inner": "outside/inner"})
        self.assertIn("succeeded", seen)
        self.assertLessEqual(seen, {"succeeded", "symlink", "not_found", "exists", "not_directory"})


if __name__ == "__main__":
    unittest.main()
