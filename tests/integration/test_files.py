"""The files provider as a process: its link, its confinement, its death; no chamber."""

import base64
import errno
import hashlib
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import unittest

import wire

FILES = wire.program("caisson-files")

wire.keep_low_descriptors()


class Provider(wire.Peer):
    """Plays the broker for one provider of `root`."""

    def __init__(self, root, greet=True, options=()):
        self.process, ours = wire.start_on_link(
            [FILES, *options, str(root)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        super().__init__(ours)
        self._calls = 0
        if greet:
            self.answer_hello()

    def ask(self, tool, path=None, decided=None, **arguments):
        """Sends a call; returns (msgid, id of the call)."""
        self._calls += 1
        call = f"call-{self._calls}"
        if path is not None:
            arguments["path"] = path
        if decided is None:
            decided = [s for s in (path or "").split("/") if s]
        return self.request("tool.call", call=call, tool=f"files.{tool}", arguments=arguments,
                            action="read", namespace="workspace", path=decided,
                            timeoutMs=30000), call

    def answer(self, msgid, call):
        error, result = self.expect_reply(msgid)
        assert error is None and result["callId"] == call, (error, result)
        return result

    def do(self, tool, path=None, **arguments):
        """The output of a call that succeeds, or the code of one that fails."""
        result = self.answer(*self.ask(tool, path, **arguments))
        if result["status"] == "succeeded":
            return result["output"]
        assert result["status"] == "failed", result
        return result["error"]["code"]

    def finish(self):
        """Closes the link; returns (exit status, what it wrote on standard error)."""
        self.close()
        _, err = self.process.communicate(timeout=wire.TIMEOUT)
        return self.process.returncode, err.decode()


@unittest.skipUnless(FILES, "caisson-files is not built")
class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def provider(self, root=None, **options):
        p = Provider(root or self.root, **options)

        def end():
            p.process.kill()
            p.process.wait()
            p.process.stderr.close()
            p.close()

        self.addCleanup(end)
        return p

    def test_every_tool_works_and_the_end_is_clean(self):
        p = self.provider()
        (self.root / "docs").mkdir()
        out = p.do("write", "docs/a.txt", text="hello\n")
        self.assertEqual(out["sha256"], hashlib.sha256(b"hello\n").hexdigest())
        self.assertEqual(p.do("read", "docs/a.txt")["text"], "hello\n")
        self.assertEqual(p.do("stat", "docs/a.txt")["size"], 6)
        self.assertEqual([e["name"] for e in p.do("list", "docs")["entries"]], ["a.txt"])
        self.assertEqual(p.do("search", name="*.txt")["entries"],
                         [{"path": "docs/a.txt", "type": "file"}])
        self.assertEqual(p.do("grep", text="ell")["entries"],
                         [{"path": "docs/a.txt", "line": 1, "offset": 1, "text": "hello",
                           "textOffset": 0, "whole": True}])
        self.assertEqual(p.do("mkdir", "docs/new")["type"], "directory")
        out = p.do("rename", "docs", **{"from": "a.txt", "to": "b.txt"})
        self.assertEqual((out["type"], out["replaced"]), ("file", False))
        self.assertEqual(p.do("delete", "docs"), "not_empty")
        for path in ("docs/b.txt", "docs/new", "docs"):
            p.do("delete", path)
        self.assertEqual(os.listdir(self.root), [])
        raw = bytes(range(256))
        p.do("write", "raw", base64=base64.b64encode(raw).decode())
        self.assertEqual(base64.b64decode(p.do("read", "raw")["base64"]), raw)
        self.assertEqual(p.finish(), (0, ""))

    def test_a_refusal_names_the_argument_and_no_content(self):
        os.symlink("/etc/passwd", self.root / "link")
        p = self.provider()
        error = p.answer(*p.ask("read", "link"))["error"]
        self.assertEqual(error["code"], "symlink")
        self.assertTrue(error["message"].startswith("path: "))
        for secret in ("/etc", "passwd", str(self.root)):
            self.assertNotIn(secret, error["message"])
        error = p.answer(*p.ask("read", "link", decided=["other"]))["error"]
        self.assertEqual(error["code"], "invalid_tool_arguments")
        self.assertEqual(p.do("remove", "link"), "tool_unavailable")
        self.assertEqual(p.finish(), (0, ""))

    def test_many_calls_at_once_are_all_answered_and_cancel_harms_nothing(self):
        (self.root / "f").write_bytes(b"x" * (1 << 20))
        p = self.provider()
        asked = [p.ask("read", "f", offset=i) for i in range(64)]
        p.notify("tool.cancel", call=asked[5][1])
        p.notify("tool.cancel", call="no-such-call")
        for i, (msgid, call) in enumerate(asked):
            out = p.answer(msgid, call)["output"]
            self.assertEqual((out["offset"], out["length"]), (i, 512 << 10))
        self.assertEqual(p.finish(), (0, ""))

    def test_a_malformed_frame_ends_it(self):
        for frame in (b"\0\0\0\1\xc1", b"\xff\xff\xff\xff", wire.frame([2, "tool.call", [{}]]),
                      wire.frame([0, 1, "operation.run", [{}]])):
            with self.subTest(frame=frame):
                p = self.provider()
                p.send_raw(frame)
                self.assertTrue(p.closed())
                status, err = p.finish()
                self.assertEqual(status, 1)
                self.assertIn("protocol", err)

    def test_it_is_confined_before_it_serves(self):
        p = self.provider()
        status = pathlib.Path(f"/proc/{p.process.pid}/status").read_text()
        self.assertIn("NoNewPrivs:\t1", status)
        self.assertIn("Seccomp:\t2", status)
        self.assertEqual(p.do("list")["entries"], [])

    def test_a_root_that_is_none_is_an_error_of_its_start(self):
        p = self.provider(self.root / "missing", greet=False)
        self.assertTrue(p.closed())
        status, err = p.finish()
        self.assertEqual(status, 125)
        self.assertIn("cannot open the root", err)

    def test_killed_at_any_moment_a_write_is_whole_or_not_there(self):
        old, new = "o" * 200000, "n" * 200000
        seen = set()
        for i in range(40):
            (self.root / "f").write_text(old)
            p = self.provider()
            asked = [p.ask("write", "f", text=new if k % 2 == 0 else old) for k in range(8)]
            for _ in range(i % 8):
                p.answer(*asked.pop(0))
            p.process.send_signal(signal.SIGKILL)
            p.process.wait()
            text = (self.root / "f").read_text()
            self.assertIn(text, (old, new))
            seen.add(text)
        # What the dead may have left is nobody's: not listed, not found, not readable.
        p = self.provider()
        self.assertEqual([e["name"] for e in p.do("list")["entries"]], ["f"])
        self.assertEqual([e["path"] for e in p.do("search", name="*")["entries"]], ["f"])
        for leftover in set(os.listdir(self.root)) - {"f"}:
            self.assertRegex(leftover, r"^\.caisson-[0-9a-f]{16}\.tmp$")
            self.assertEqual(p.do("read", leftover), "invalid_tool_arguments")
        self.assertEqual(len(seen), 2)

    def test_a_large_tree_takes_no_more_memory_than_a_small_one(self):
        big = self.root / "big"
        big.mkdir()
        for i in range(20000):
            os.close(os.open(big / f"{i:06}-{'x' * 100}", os.O_CREAT | os.O_WRONLY))
        with open(self.root / "sparse", "wb") as f:
            f.truncate(3 << 30)
        p = self.provider()
        p.do("list")
        before = self.peak(p)
        names, cursor = [], {}
        while True:
            out = p.do("list", "big", **cursor)
            names += [e["name"] for e in out["entries"]]
            if out["complete"]:
                break
            cursor = {"cursor": out["cursor"]}
        self.assertEqual(len(names), 20000)
        self.assertEqual(names, sorted(names))
        self.assertTrue(p.do("read", "sparse", offset=(3 << 30) - 10)["complete"])
        if not wire.SANITIZED:
            self.assertLess(self.peak(p) - before, 8 << 10)

    @staticmethod
    def peak(p):
        """Peak memory of the provider in KiB."""
        for line in pathlib.Path(f"/proc/{p.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
        raise AssertionError("no VmHWM")

    @unittest.skipUnless(os.geteuid() == 0, "only root writes for another")
    def test_what_root_writes_belongs_to_the_owner_of_the_root(self):
        os.chown(self.root, 65534, 65534)
        p = self.provider()
        self.assertTrue(p.do("write", "f", text="x")["created"])
        st = (self.root / "f").stat()
        self.assertEqual((st.st_uid, st.st_gid), (65534, 65534))
        p.do("mkdir", "d")
        st = (self.root / "d").stat()
        self.assertEqual((st.st_uid, st.st_gid, st.st_mode & 0o7777), (65534, 65534, 0o755))

    def test_a_file_size_limit_is_an_answer_and_not_a_death(self):
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
        try:
            p = self.provider()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        self.assertEqual(p.do("write", "f", text="x" * 2000), "no_space")
        self.assertEqual(os.listdir(self.root), [])
        self.assertTrue(p.do("write", "f", text="x" * 10)["created"])

    def test_it_holds_no_descriptor_but_its_own(self):
        p = self.provider()
        try:
            fds = os.listdir(f"/proc/{p.process.pid}/fd")
        except OSError as e:
            self.skipTest(os.strerror(e.errno or errno.EIO))
        before = len(fds)
        for i in range(20):
            p.do("write", f"f{i}", text="x")
            p.do("read", f"f{i}")
            p.do("list")
            p.do("search", name="*")
            p.do("grep", text="x", limit=1)
            p.do("mkdir", f"d{i}")
            p.do("rename", **{"from": f"d{i}", "to": "d"})
            p.do("delete", "d")
            p.do("delete", "missing")
            p.do("read", "missing")
        self.assertEqual(len(os.listdir(f"/proc/{p.process.pid}/fd")), before)


if __name__ == "__main__":
    unittest.main()
