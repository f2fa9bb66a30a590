"""Attacks through files: what a hostile host user, or one who damaged a disk, leaves behind.

On the record and its index (D-16): whatever stands in the place of a file, nothing waits,
nothing is run, `caisson audit` says which file it is, and the ledger recovers what it can
make again.  On the files provider: others change the tree while it is served.
"""

import collections
import contextlib
import json
import os
import pathlib
import socket
import sqlite3
import subprocess
import sys
import threading
import unittest

import real
import test_audit
import test_files
import wire

ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t)"


def put_fifo(path):
    os.mkfifo(path)


def put_socket(path):
    with socket.socket(socket.AF_UNIX) as s:
        # The name of a socket is short.
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.chdir(path.parent)
            s.bind(path.name)
        finally:
            os.fchdir(here)
            os.close(here)


KINDS = {"a FIFO": put_fifo, "a directory": os.mkdir, "a socket": put_socket,
         "a link": lambda path: os.symlink("/etc/passwd", path),
         "a link to a device": lambda path: os.symlink("/dev/zero", path)}


class Record(test_audit.Case):
    def setUp(self):
        super().setUp()
        self.made = 0

    def settled(self):
        """A story in a directory of its own, seen by a ledger that has ended."""
        for old in (self.dir / "runs").glob("*"):
            test_audit.shutil.rmtree(old)
        self.made += 1
        journal = self.journal(f"run-{self.made}").story()
        self.settle(journal)
        return journal

    def replaced(self, path):
        """Each kind in turn in the place of a file."""
        for kind, put in KINDS.items():
            journal = self.settled()
            victim = path(journal)
            victim.unlink()
            put(victim)
            with self.subTest(kind, file=victim.name):
                yield journal

    def test_a_segment_that_is_no_file_is_damage_with_its_name(self):
        for number in (1, 2):
            for _ in self.replaced(lambda journal, n=number: journal.path(n)):
                out, _ = self.audit("verify", status=1)
                self.assertIn(f"segment {number} is not a regular file", out)
                _, err = self.audit("show", status=1)
                self.assertIn(f"segment {number} is not a regular file", err)

    def test_an_index_that_is_no_file_is_said_and_made_again(self):
        for journal in self.replaced(lambda journal: journal.directory / "index/index.sqlite"):
            out, _ = self.audit("verify", status=1)
            self.assertIn("index", out)
            self.assertIn("no regular file", out)
            out, err = self.audit("show")
            self.assertEqual((len(out.splitlines()), err), (8, ""))

    def test_a_head_that_is_no_file_is_said(self):
        for _ in self.replaced(lambda journal: journal.directory / "index/head"):
            out, _ = self.audit("verify", status=1)
            self.assertIn("the head cannot be read", out)

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_a_segment_that_is_closed_to_us_is_named_and_is_no_empty_record(self):
        journal = self.settled()
        journal.path(2).chmod(0)
        for verb in ("show", "verify", "query"):
            out, err = self.audit(verb, status=125)
            self.assertEqual(out, "")
            self.assertIn("journal.00000002: Permission denied", err)

    def changed(self, sql):
        journal = self.settled()
        path = journal.directory / "index/index.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.executescript(sql)
            db.commit()
        return journal

    # What whoever can write the index might have a ledger do.
    PROGRAMS = {
        "a view for a table": "ALTER TABLE records RENAME TO r; CREATE VIEW records AS "
                              f"{ENDLESS} SELECT r.* FROM r, t WHERE x < 0",
        "a view for the position": "ALTER TABLE position RENAME TO p; CREATE VIEW position AS "
                                   f"{ENDLESS} SELECT p.* FROM p, t WHERE x < 0",
        "a trigger": "CREATE TRIGGER x AFTER INSERT ON records BEGIN INSERT INTO calls "
                     "SELECT max(count), 1 FROM records; END",
        "an index on a table": "CREATE INDEX u ON records(type)",
        "a table that is not there": "DROP TABLE records",
        "a table of other columns": "DROP TABLE uses; CREATE TABLE uses(a)",
        "a table of its own": "CREATE TABLE mine(a)",
    }

    def test_an_index_that_is_a_program_is_not_run(self):
        for name, sql in self.PROGRAMS.items():
            with self.subTest(name):
                journal = self.changed(sql)
                out, _ = self.audit("verify", status=1)
                self.assertIn("the index cannot be read: it is damaged, of another", out)
                journal.append("operation.accepted", detail="turn", operation="op-9")
                self.settle(journal)
                out, _ = self.audit("verify")
                self.assertIn("8 records", out)
                self.assertIn("index ok", out)

    def damaged(self, damage):
        """One ledger may end of it; the next has the record to its end, on its head."""
        journal = self.settled()
        for i in range(300):
            journal.append("operation.accepted", detail="turn", operation=f"op-{i + 5}")
        self.settle(journal)
        damage(journal.directory / "index/index.sqlite")
        for i in range(300):
            journal.append("operation.ended", outcome="succeeded", cause="completed",
                           status="succeeded", operation=f"op-{i + 5}")
        for _ in range(2):
            ledger = self.ledger(journal)
            with contextlib.suppress(OSError):
                ledger.tell(test_audit.SHUTDOWN)
            ledger.wait()
        head = (journal.directory / "index/head").read_text().split()
        self.assertEqual(head[2], "607")
        # Of a page that nobody had to look at, the verification says what to do.
        index = journal.directory / "index/index.sqlite"
        done = subprocess.run(
            [test_audit.CAISSON, "audit", "verify", "--state", self.dir], capture_output=True)
        if done.returncode == 1:
            self.assertIn(b"remove the index directory's index.sqlite", done.stdout)
            index.unlink()
            self.settle(journal)
        out, _ = self.audit("verify")
        self.assertIn("607 records", out)
        self.assertIn("index ok, head ok", out)

    def test_a_damaged_page_costs_one_ledger_and_not_every_later_one(self):
        def page(number, size=4096):
            def damage(path):
                with open(path, "r+b") as f:
                    f.seek(number * size)
                    f.write(b"\xa5" * size)
            return damage

        for number in range(1, 12):
            with self.subTest(page=number):
                self.damaged(page(number))

    def test_rows_behind_the_position_are_no_reason_to_stop_for_ever(self):
        def row(path):
            with contextlib.closing(sqlite3.connect(path)) as db:
                db.execute("INSERT INTO records(count) VALUES(310)")
                db.commit()
        self.damaged(row)


@unittest.skipUnless(test_files.FILES, "caisson-files is not built")
class Tree(test_files.Files):
    """Whatever others do to the tree, nothing beside the root is seen or touched."""

    def setUp(self):
        super().setUp()
        self.outside = self.root / "outside"
        self.root = self.root / "root"
        for folder in (self.outside, self.root):
            folder.mkdir()
        for name in ("f", "secret"):
            (self.outside / name).write_text("SECRET")

    def race(self, change, calls, rounds=400):
        """Repeats the calls while another thread repeats the change; what was answered."""
        over = threading.Event()

        def work():
            i = 0
            while not over.is_set():
                with contextlib.suppress(OSError):
                    change(i)
                i += 1
        thread = threading.Thread(target=work)
        thread.start()
        seen = collections.Counter()
        try:
            p = self.provider()
            for _ in range(rounds):
                for tool, path, arguments in calls:
                    out = p.do(tool, path, **arguments)
                    seen[out if isinstance(out, str) else "ok"] += 1
                    self.assertNotIn("SECRET", str(out))
                    self.assertNotIn("secret", str(out))
            self.assertEqual(p.finish(), (0, ""))
        finally:
            over.set()
            thread.join()
        self.assertEqual(sorted(os.listdir(self.outside)), ["f", "secret"])
        for name in ("f", "secret"):
            self.assertEqual((self.outside / name).read_text(), "SECRET")
        return set(seen)

    def test_a_directory_that_turns_into_a_link_and_back_leads_nowhere(self):
        (self.root / "d").mkdir()
        (self.root / "d/f").write_text("ours")

        def change(_):
            os.rename(self.root / "d", self.root / "e")
            os.symlink(self.outside, self.root / "d")
            os.unlink(self.root / "d")
            os.rename(self.root / "e", self.root / "d")
        seen = self.race(change, [
            ("read", "d/f", {}), ("list", "d", {}), ("search", None, {"name": "s*"}),
            ("write", "d/f", {"text": "ours"}),
            ("write", "d/new", {"text": "ours", "createOnly": True}),
            ("grep", None, {"text": "SECRET"}), ("mkdir", "d/made", {}),
            ("rename", "d", {"from": "secret", "to": "moved"}), ("delete", "d/secret", {}),
            ("delete", "d/made", {}), ("delete", "d/new", {})])
        self.assertLessEqual(seen, {"ok", "symlink", "not_found", "exists"})

    def test_a_file_that_turns_into_anything_is_replaced_or_refused(self):
        made = [lambda p: p.write_text("ours"), lambda p: p.symlink_to(self.outside / "secret"),
                os.mkfifo, os.mkdir, lambda p: p.symlink_to("/dev/zero")]

        def change(i):
            draft = self.root / f"draft-{i}"
            made[i % len(made)](draft)
            if (self.root / "f").is_dir() and not (self.root / "f").is_symlink():
                os.rmdir(self.root / "f")
            os.rename(draft, self.root / "f")
        seen = self.race(change, [
            ("read", "f", {}), ("write", "f", {"text": "ours"}),
            ("write", "f", {"text": "ours", "expect": "0" * 64}),
            ("write", "f", {"text": "ours", "createOnly": True}), ("grep", "f", {"text": "SE"}),
            ("rename", None, {"from": "f", "to": "g"}), ("delete", "f", {}), ("delete", "g", {})])
        self.assertLessEqual(seen, {"ok", "symlink", "not_found", "not_regular", "exists",
                                    "is_directory", "not_directory", "changed"})

    def test_of_two_providers_one_creates_and_one_replaces(self):
        p, q = self.provider(), self.provider()
        (self.root / "shared").write_text("0")
        for i in range(100):
            digest = test_files.hashlib.sha256((self.root / "shared").read_bytes()).hexdigest()
            for path, arguments in ((f"new-{i}", {"createOnly": True}),
                                    ("shared", {"expect": digest})):
                asked = [(x, x.ask("write", path, text=f"{i} {who}", **arguments))
                         for who, x in (("p", p), ("q", q))]
                ended = [x.answer(*a)["status"] for x, a in asked]
                self.assertIn(sorted(ended), (["failed", "succeeded"], ["failed", "failed"])
                              if path == "shared" else (["failed", "succeeded"],))

    def test_forged_cursors_lead_nowhere(self):
        os.symlink(self.outside, self.root / "link")
        os.mkfifo(self.root / "fifo")
        p = self.provider()
        deep = "s" + "/".join(["a"] * 65)
        for cursor in ("l../../etc", "l/", "l", "s../x", deep, "l\0", "x"):
            text = test_files.base64.b64encode(cursor.encode()).decode()
            self.assertEqual(p.do("list", cursor=text), "invalid_cursor")
            self.assertEqual(p.do("search", name="*", cursor=text), "invalid_cursor")
        for cursor in ("slink/a", "sfifo/a", "s" + "/".join(["a"] * 64)):
            text = test_files.base64.b64encode(cursor.encode()).decode()
            for e in p.do("search", name="*", cursor=text)["entries"]:
                self.assertNotIn("/", e["path"])

    def test_a_root_that_is_moved_stays_the_root_and_one_that_is_gone_is_an_error(self):
        p = self.provider()
        os.rename(self.root, self.root.with_name("moved"))
        self.root.mkdir()
        self.assertTrue(p.do("write", "f", text="x")["created"])
        self.assertEqual(os.listdir(self.root), [])
        os.unlink(self.root.with_name("moved") / "f")
        os.rmdir(self.root.with_name("moved"))
        self.assertIn(p.do("write", "f", text="x"), ("not_found", "permission"))
        self.assertEqual(p.finish(), (0, ""))


@unittest.skipUnless(os.geteuid() == 0, "only root mounts and gives files away")
class Owners(real.Case):
    """The provider of a run, in its chamber, where files and mounts are another's."""

    AGENT = """
import caisson
def run(turn):
    told = []
    for tool, arguments in turn.message:
        try:
            turn.invoke(tool, arguments)
            told.append("ok")
        except (caisson.ToolDenied, caisson.ToolFailed) as e:
            told.append(e.code)
    return told
caisson.serve(run)
"""

    def setUp(self):
        super().setUp()
        self.app, self.root = self.dir / "app", self.dir / "root"
        for folder in (self.app, self.root):
            folder.mkdir(mode=0o755)
            folder.chmod(0o755)
        (self.app / "agent.py").write_text(self.AGENT)
        (self.app / "caisson.py").write_text((wire.SDK / "caisson.py").read_text())
        os.chown(self.root, 1000, 1000)

    def mount(self, *words):
        at = words[-1]
        if subprocess.run(["mount", *words], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("nothing can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", at], check=True)

    def calls(self, *calls):
        """What became of each, and standard error."""
        allowed = [word for action in ("read", "write", "grep", "delete", "rename", "mkdir")
                   for word in ("--allow", f"{action}:.")]
        _, out, err = self.caisson(
            "run", "--root", self.root, "--app", self.app, *allowed, "-m", "@-", "--",
            "python3", "/app/agent.py", stdin=json.dumps(calls).encode())
        return json.loads(out), err

    def test_files_of_another_are_not_replaced_and_the_code_says_why(self):
        (self.root / "other").write_text("theirs")
        (self.root / "closed").write_text("theirs")
        (self.root / "closed").chmod(0o600)
        told, _ = self.calls(["files.write", {"path": "other", "text": "x"}],
                             ["files.read", {"path": "other"}],
                             ["files.read", {"path": "closed"}],
                             ["files.write", {"path": "ours", "text": "x"}],
                             ["files.mkdir", {"path": "made"}])
        self.assertEqual(told, ["permission", "ok", "permission", "ok", "ok"])
        self.assertEqual((self.root / "made").stat().st_uid, 1000)
        self.assertEqual((self.root / "other").read_text(), "theirs")
        self.assertEqual((self.root / "ours").stat().st_uid, 1000)

    def test_what_is_mounted_beneath_is_served_but_for_the_kernels_own(self):
        for name in ("inner", "proc"):
            (self.root / name).mkdir()
        (self.root / "shadow").touch()
        self.mount("-t", "tmpfs", "x", str(self.root / "inner"))
        (self.root / "inner/f").write_text("x")
        self.mount("-t", "proc", "x", str(self.root / "proc"))
        self.mount("--bind", "/etc/shadow", str(self.root / "shadow"))
        before = pathlib.Path("/etc/shadow").read_bytes()
        told, _ = self.calls(["files.read", {"path": "inner/f"}],
                             ["files.read", {"path": "proc/version"}],
                             ["files.read", {"path": "proc/1/environ"}],
                             ["files.read", {"path": "shadow"}],
                             ["files.write", {"path": "shadow", "text": "x"}],
                             ["files.delete", {"path": "shadow"}],
                             ["files.delete", {"path": "inner"}],
                             ["files.rename", {"from": "inner", "to": "x"}],
                             ["files.mkdir", {"path": "proc/x"}],
                             ["files.grep", {"path": "proc", "text": "x"}])
        self.assertEqual(told, ["ok"] + ["permission"] * 9)
        self.assertEqual(pathlib.Path("/etc/shadow").read_bytes(), before)

    def test_a_file_system_that_cannot_map_ids_is_served_as_its_owner_but_never_as_root(self):
        self.mount("-t", "ramfs", "x", str(self.root))
        (self.root / "f").write_text("x")
        self.root.chmod(0o755)
        told, err = self.calls(["files.write", {"path": "new", "text": "x"}])
        self.assertEqual(told, ["tool_execution_failed"])
        self.assertIn("belongs to root", err)
        os.chown(self.root, 1000, 1000)
        told, _ = self.calls(["files.write", {"path": "new", "text": "x"}],
                             ["files.read", {"path": "f"}])
        self.assertEqual(told, ["ok", "ok"])
        self.assertEqual((self.root / "new").stat().st_uid, 1000)

    def test_a_root_that_is_closed_to_its_owner_is_said(self):
        self.root.chmod(0)
        told, err = self.calls(["files.read", {"path": "f"}])
        self.assertEqual(told, ["tool_execution_failed"])
        self.assertIn("cannot open the root: Permission denied", err)

    def test_a_full_disk_keeps_the_old_content(self):
        self.mount("-t", "tmpfs", "-o", "size=64k,uid=1000,gid=1000,mode=755", "x",
                   str(self.root))
        (self.root / "f").write_text("old")
        os.chown(self.root / "f", 1000, 1000)
        told, _ = self.calls(["files.write", {"path": "f", "text": "x" * 100000}],
                             ["files.write", {"path": "new", "text": "x" * 100000}],
                             ["files.write", {"path": "small", "text": "x"}])
        self.assertEqual(told, ["no_space", "no_space", "ok"])
        self.assertEqual((self.root / "f").read_text(), "old")
        self.assertEqual(sorted(os.listdir(self.root)), ["f", "small"])


# Only its own tests: those of the class it builds on are run where they stand.
for _name in dir(test_files.Files):
    if _name.startswith("test_"):
        setattr(Tree, _name, None)

if __name__ == "__main__":
    sys.exit(unittest.main())
