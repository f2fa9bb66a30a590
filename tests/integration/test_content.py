"""Nothing that a turn was sent is in what it leaves behind (TU-67, D-12): the real processes, and
then every file of the state directory, and the log, searched for every value."""

import json
import unittest

import real
import wire

AGENT = r'''
import caisson


def run(turn):
    m = turn.message
    print(m["printed"], flush=True)
    turn.annotate("note", m["annotation"])
    turn.emit("said", m["event"])
    got = [turn.invoke("files.read", {"path": "docs/a.txt"})["text"]]
    turn.invoke("files.write", {"path": "docs/b.txt", "text": m["written"]})
    for tool, arguments in (("files.read", {"path": "docs/a.txt", m["member"]: 1}),
                            ("files.read", {"path": m["missing"]}),
                            ("files.read", {"path": "docs/" + m["denied"] + "/../x"}),
                            ("files.read", {"path": 7, "text": m["refused"]}),
                            ("none." + "such", {"x": m["unoffered"]})):
        try:
            turn.invoke(tool, arguments)
        except (caisson.ToolDenied, caisson.ToolFailed) as e:
            got.append(e.code)
    assert len(got) == 6, got
    if m["fails"]:
        raise caisson.Fail("mine", m["failure"])
    return {"got": got, "result": m["result"]}


caisson.serve(run)
'''
KEYS = ("printed annotation event written member denied refused unoffered failure "
        "result").split()


class Content(real.Case):
    def setUp(self):
        super().setUp()
        app, root = self.dir / "app", self.dir / "root"
        (root / "docs").mkdir(parents=True)
        app.mkdir()
        for name, text in (("agent.py", AGENT),
                           ("caisson.py", (wire.SDK / "caisson.py").read_text())):
            (app / name).write_text(text)
        (root / "docs" / "a.txt").write_text("s3cret-file")
        self.words = ["run", "--app", str(app), "--root", str(root), "--allow", "read:docs",
                      "--allow", "write:docs", "--profile", "interpreter"]

    def left(self):
        """Every byte of the state directory: journal, index, head and whatever else."""
        files = [p for p in self.state.rglob("*") if p.is_file()]
        names = " ".join(str(p.relative_to(self.state)) for p in files)
        self.assertIn("journal", names)
        self.assertIn("index", names)
        return names.encode() + b"".join(p.read_bytes() for p in files)

    def test_no_value_of_a_turn_is_left_behind(self):  # TU-29, TU-67, D-12
        for fails in (False, True):
            message = {k: f"s3cret-{k}" for k in KEYS}
            # What was decided is in the record: that is what it is for.
            message.update(missing="docs/decided-path", fails=fails)
            status, out, log = self.caisson(
                *self.words, "-m", json.dumps(message), "--", "/usr/bin/python3",
                "/app/agent.py")
            self.assertEqual(status, 1 if fails else 0, log)
            self.assertIn(b"s3cret-printed", out)
            told = b"" if fails else b"s3cret-file"
            self.assertIn(told, out)
            left = self.left()
            self.assertIn(b"decided-path", left)
            self.assertNotIn(b"s3cret", left)
            # The client tells the one who asked how it ended, and nobody else.
            told = log.replace("s3cret-failure", "") if fails else log
            self.assertNotIn("s3cret", told)


if __name__ == "__main__":
    unittest.main()
