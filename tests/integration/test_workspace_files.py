"""The files provider in a session's workspace: what its client does there, and how it is
emptied (OP-5)."""

import os
import pathlib
import resource
import socket
import subprocess
import tempfile
import unittest

import test_chamber
import test_files
import wire

FILES = test_files.FILES
READ_MAX = (768 << 10) - 1024

wire.keep_low_descriptors()


class Workspace(test_files.Provider):
    def __init__(self, root):
        super().__init__(root, options=["--workspace"])

    def ask(self, tool, path=None, decided=None, **arguments):
        self._calls += 1
        call = f"call-{self._calls}"
        if path is not None:
            arguments["path"] = path
        return self.request("tool.call", call=call, tool=f"workspace.{tool}",
                            arguments=arguments, action="client", namespace="workspace",
                            path=decided or [], timeoutMs=30000), call


class Root(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "root"
        self.root.mkdir()
        self.outside = pathlib.Path(folder.name) / "outside"
        self.outside.mkdir()
        (self.outside / "kept").write_text("kept")

    def tearDown(self):
        self.assertEqual((self.outside / "kept").read_text(), "kept")
        self.assertEqual(os.listdir(self.outside), ["kept"])

    def provider(self, kind=Workspace):
        p = kind(self.root)

        def end():
            p.process.kill()
            p.process.wait()
            p.process.stderr.close()
            p.close()

        self.addCleanup(end)
        return p

    def hostile(self, folder):
        """Everything that a program could leave behind, in `folder`."""
        os.symlink(self.outside, folder / "link")
        os.symlink("nowhere", folder / "dangling")
        os.mkfifo(folder / "fifo")
        with socket.socket(socket.AF_UNIX) as s:
            # its path can be longer than an address
            here = os.open(folder, os.O_PATH)
            s.bind(f"/proc/self/fd/{here}/socket")
            os.close(here)
        os.link(self.outside / "kept", folder / "hard")
        name = os.fsencode(folder)
        for odd in (b"\xff\xfe", b"new\nline", b"-rf", b" ", b"..x", b"x" * 255,
                    b".caisson-0123456789abcdef.tmp", b"a\\b", b"\x1b[2J"):
            os.mkdir(os.path.join(name, odd))
            with open(os.path.join(name, odd, odd), "wb") as f:
                f.write(b"x")
        closed = folder / "closed"
        (closed / "below" / "further").mkdir(parents=True)
        (closed / "below" / "f").write_text("x")
        os.chmod(closed / "below" / "further", 0)
        os.chmod(closed / "below", 0o100)
        os.chmod(closed, 0)
        deep = os.open(folder, os.O_RDONLY)
        for i in range(100):  # of no path that the kernel takes
            os.mkdir("d" * 200, dir_fd=deep)
            fd = os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=deep)
            os.close(fd)
            nearer, deep = deep, os.open("d" * 200, os.O_RDONLY, dir_fd=deep)
            os.close(nearer)
        os.close(deep)
        wide = folder / "wide"
        for i in range(30):
            (wide / str(i) / "a" / "b").mkdir(parents=True)
            for k in range(30):
                (wide / str(i) / f"f{k}").write_text("x")


@unittest.skipUnless(FILES, "caisson-files is not built")
class Client(Root):
    def test_every_operation_works_and_the_end_is_clean(self):
        p = self.provider()
        self.assertEqual(p.do("mkdir", "a/b", recursive=True), {"created": True})
        self.assertEqual(p.do("write", "a/b/f", content=b"\xff\0one"),
                         {"size": 5, "created": True})
        self.assertEqual(p.do("write", "a/b/f", content="text"), {"size": 4, "created": False})
        self.assertEqual(p.do("write", "a/b/f", content=b"!\xff", append=True),
                         {"size": 6, "created": False})
        self.assertEqual(p.do("write", "new", content=b"", append=True),
                         {"size": 0, "created": True})
        self.assertEqual(p.do("read", "a/b/f"), {"content": b"text!\xff", "size": 6})
        self.assertEqual(p.do("read", "a/b/f", offset=4, length=1), {"content": b"!", "size": 6})
        self.assertEqual(p.do("read", "a/b/f", offset=99), {"content": b"", "size": 6})
        entry = p.do("stat", "a/b/f")
        at = entry.pop("modifiedAt")
        self.assertEqual(entry, {"name": "f", "type": "file", "size": 6})
        self.assertEqual(at, (self.root / "a/b/f").stat().st_mtime_ns // 1000000)
        self.assertEqual(p.do("stat", "a")["type"], "directory")
        self.assertEqual(p.do("stat", "")["type"], "directory")
        self.assertEqual(p.do("rename", **{"from": "a/b/f", "to": "g"}), {"replaced": False})
        self.assertEqual(p.do("rename", **{"from": "g", "to": "new"}), {"replaced": True})
        self.assertEqual((self.root / "new").read_bytes(), b"text!\xff")
        self.assertEqual(p.do("rename", **{"from": "a", "to": "z"}), {"replaced": False})
        self.assertEqual(p.do("list"), {"entries": [
            {"name": "new", "type": "file", "size": 6},
            {"name": "z", "type": "directory", "size": 0}]})
        page = p.do("list", limit=1)
        self.assertEqual([e["name"] for e in page["entries"]], ["new"])
        self.assertEqual([e["name"] for e in p.do("list", cursor=page["next"])["entries"]], ["z"])
        self.assertEqual(p.do("delete", "new"), {"type": "file"})
        self.assertEqual(p.do("delete", "z", recursive=True), {"type": "directory"})
        self.assertEqual(os.listdir(self.root), [])
        self.assertEqual(p.finish(), (0, ""))

    def test_the_largest_content_goes_both_ways(self):
        data = os.urandom(READ_MAX)
        p = self.provider()
        self.assertEqual(p.do("write", "f", content=data)["size"], READ_MAX)
        p.do("write", "f", content=b"more", append=True)
        self.assertEqual(p.do("read", "f", length=READ_MAX),
                         {"content": data, "size": READ_MAX + 4})
        self.assertEqual(p.do("read", "f", offset=READ_MAX)["content"], b"more")

    def test_a_failure_has_the_name_of_a_status(self):
        (self.root / "file").write_text("x")
        (self.root / "dir" / "sub").mkdir(parents=True)
        os.symlink(self.outside / "kept", self.root / "link")
        os.symlink(self.outside, self.root / "exit")
        os.mkfifo(self.root / "fifo")
        p = self.provider()
        for code, tool, path, more in (
                ("not_found", "read", "none", {}), ("not_found", "stat", "none", {}),
                ("not_found", "delete", "none", {}), ("not_found", "list", "none", {}),
                ("not_found", "write", "none/f", {"content": b""}),
                ("not_found", "mkdir", "none/d", {}),
                ("not_found", "rename", None, {"from": "none", "to": "x"}),
                ("not_found", "rename", None, {"from": "file", "to": "none/x"}),
                ("already_exists", "mkdir", "dir", {}), ("already_exists", "mkdir", "", {}),
                ("already_exists", "mkdir", "file", {"recursive": True}),
                ("already_exists", "rename", None, {"from": "dir", "to": "file"}),
                ("already_exists", "rename", None, {"from": "file", "to": "dir"}),
                ("already_exists", "rename", None, {"from": "file", "to": "file"}),
                ("invalid_argument", "rename", None, {"from": "dir", "to": "dir/sub/x"}),
                ("failed_precondition", "delete", "dir", {}),
                ("failed_precondition", "delete", "", {"recursive": True}),
                ("failed_precondition", "write", "", {"content": b""}),
                ("failed_precondition", "write", "dir", {"content": b""}),
                ("failed_precondition", "write", "dir", {"content": b"", "append": True}),
                ("failed_precondition", "read", "dir", {}),
                ("failed_precondition", "read", "link", {}),
                ("failed_precondition", "read", "fifo", {}),
                ("failed_precondition", "read", "exit/kept", {}),
                ("failed_precondition", "list", "exit", {}),
                ("failed_precondition", "write", "link", {"content": b"x"}),
                ("failed_precondition", "write", "link", {"content": b"x", "append": True}),
                ("failed_precondition", "write", "fifo", {"content": b"x", "append": True}),
                ("failed_precondition", "write", "exit/kept", {"content": b"x"}),
                ("failed_precondition", "delete", "exit/kept", {}),
                ("failed_precondition", "mkdir", "exit/new", {"recursive": True}),
                ("failed_precondition", "rename", None, {"from": "exit/kept", "to": "x"}),
                ("failed_precondition", "rename", None, {"from": "file", "to": "exit/kept"}),
                ("failed_precondition", "read", "file/x", {}),
                ("invalid_argument", "read", "../outside/kept", {}),
                ("invalid_argument", "read", "/etc/passwd", {}),
                ("invalid_argument", "read", "a//b", {}), ("invalid_argument", "read", "./a", {}),
                ("invalid_argument", "read", "a\0b", {}),
                ("invalid_argument", "read", "file", {"length": 0}),
                ("invalid_argument", "read", "file", {"length": READ_MAX + 1}),
                ("invalid_argument", "read", "file", {"more": 1}), ("invalid_argument", "read", None, {}),
                ("invalid_argument", "write", "f", {}), ("invalid_argument", "write", "f", {"content": 1}),
                ("invalid_argument", "write", "f", {"content": b"", "append": 1}),
                ("invalid_argument", "write", "f", {"content": b"", "recursive": True}),
                ("invalid_argument", "write", "f/", {"content": b""}),
                ("invalid_argument", "list", "", {"limit": 0}),
                ("invalid_argument", "list", "", {"limit": 1001}),
                ("invalid_argument", "list", "", {"cursor": "x"}),
                ("invalid_argument", "delete", "file", {"recursive": 1}),
                ("invalid_argument", "grep", "file", {})):
            with self.subTest((tool, path, more)):
                self.assertEqual(p.do(tool, path, **more), code)
        self.assertEqual(p.do("read", "file", decided=["file"]), "invalid_argument")
        self.assertEqual((self.root / "file").read_text(), "x")
        self.assertEqual(sorted(os.listdir(self.root)), ["dir", "exit", "fifo", "file", "link"])

    def test_neither_knows_the_others_tools(self):
        p = self.provider()
        self.assertEqual(p.answer(p.request(
            "tool.call", call="c", tool="files.write", arguments={"path": "f", "text": ""},
            action="write", namespace="workspace", path=["f"], timeoutMs=1), "c")["status"],
                         "failed")
        agents = self.provider(test_files.Provider)
        for tool, arguments in (("workspace.delete", {"path": "f", "recursive": True}),
                                ("workspace.write", {"path": "f", "content": b"x"})):
            result = agents.answer(agents.request(
                "tool.call", call="c", tool=tool, arguments=arguments, action="write",
                namespace="workspace", path=[], timeoutMs=1), "c")
            self.assertEqual(result["error"]["code"], "tool_unavailable")
        for tool, more in (("delete", {"recursive": True}), ("mkdir", {"recursive": True}),
                           ("write", {"text": "x", "append": True}), ("write", {"content": b"x"})):
            self.assertEqual(agents.do(tool, "f", **more), "invalid_tool_arguments")
        self.assertEqual(os.listdir(self.root), [])

    def test_what_a_command_left_is_deleted_and_what_it_points_to_stays(self):
        (self.root / "all").mkdir()
        self.hostile(self.root / "all")
        os.symlink(self.outside, self.root / "link")
        p = self.provider()
        self.assertEqual(p.do("rename", **{"from": "link", "to": "moved"}), {"replaced": False})
        self.assertEqual(p.do("delete", "moved"), {"type": "symlink"})
        self.assertEqual(p.do("delete", "all/fifo"), {"type": "other"})
        self.assertEqual(p.do("delete", "all", recursive=True), {"type": "directory"})
        self.assertEqual(os.listdir(self.root), [])

    def test_a_workspace_that_was_closed_is_open_to_its_client(self):
        (self.root / "f").write_text("x")
        os.chmod(self.root, 0)
        p = self.provider()
        self.assertEqual(p.do("read", "f")["content"], b"x")

    def test_a_write_that_does_not_fit_leaves_the_file_as_it_was(self):
        (self.root / "f").write_bytes(b"x" * 900)
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
        try:
            p = self.provider()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        for append in (True, False):
            self.assertEqual(p.do("write", "f", content=b"y" * 2000, append=append),
                             "resource_exhausted")
            self.assertEqual((self.root / "f").read_bytes(), b"x" * 900)
        self.assertEqual(p.do("write", "f", content=b"y" * 100, append=True)["size"], 1000)


@unittest.skipUnless(FILES, "caisson-files is not built")
class Empty(Root):
    def empty(self, *arguments):
        done = subprocess.run([FILES, "--empty", *map(str, arguments or [self.root])], env={},
                              timeout=wire.TIMEOUT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return done.returncode, done.stderr

    def test_nothing_stays_whatever_it_is(self):
        self.hostile(self.root)
        os.chmod(self.root, 0)
        self.assertEqual(self.empty(), (0, ""))
        self.assertEqual(os.listdir(self.root), [])
        self.assertEqual(self.empty(), (0, ""))

    def test_a_tree_needs_no_more_descriptors_than_a_file(self):
        self.hostile(self.root)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, limit[1]))
        try:
            ended = self.empty()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        self.assertEqual(ended, (0, ""))
        self.assertEqual(os.listdir(self.root), [])

    @unittest.skipUnless(os.geteuid() == 0, "only root makes what another cannot remove")
    def test_what_stays_is_said_and_the_rest_is_gone(self):
        os.chmod(self.root.parent, 0o711)
        os.chown(self.root, 65534, 65534)
        (self.root / "others").mkdir()
        (self.root / "others" / "f").write_text("x")
        for i in range(10):
            (self.root / f"own{i}").mkdir()
            os.chown(self.root / f"own{i}", 65534, 65534)

        def be_nobody():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

        program = pathlib.Path(tempfile.mkdtemp()) / "caisson-files"
        self.addCleanup(lambda: (program.unlink(), program.parent.rmdir()))
        program.write_bytes(pathlib.Path(FILES).read_bytes())
        program.chmod(0o755)
        program.parent.chmod(0o755)
        done = subprocess.run([str(program), "--empty", str(self.root)], env={}, preexec_fn=be_nobody,
                              timeout=wire.TIMEOUT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^[^\n]*something stays[^\n]*\n$")
        self.assertEqual(os.listdir(self.root), ["others"])

    def test_no_root_is_an_error_of_its_start(self):
        self.assertEqual(self.empty(self.root / "none")[0], 125)
        self.assertEqual(self.empty(self.root, "more")[0], 125)
        self.assertEqual(self.empty("link-less", "")[0], 125)


@unittest.skipUnless(FILES and test_chamber.BUILD and os.path.exists(test_chamber.RUN),
                     "caisson-files or chamber_run is not built")
@unittest.skipIf(wire.SANITIZED, "a sanitized program needs more than a chamber shows")
class Confined(Root):
    def test_it_is_emptied_from_within_a_chamber(self):
        for mode in (0o755, 0):
            os.chmod(self.root, 0o755)
            self.hostile(self.root)
            os.chmod(self.root, mode)
            _, errors, end = test_chamber.chamber(
                "/opt/caisson-files", "--empty", "/srv",
                options=["-p", "files", "-m", f"{FILES}:/opt/caisson-files",
                         "-m", f"{self.root}:/srv:w"])
            self.assertEqual((end["status"], errors), (0, ""), end)
            self.assertEqual(os.listdir(self.root), [])


if __name__ == "__main__":
    unittest.main()
