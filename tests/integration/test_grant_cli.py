"""`caisson grant`: authority by the operator, of a daemon and at rest (D-7, D-17, D-18)."""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time
import unittest

import real
import wire
from daemon_lab import CAISSON, Daemon, ending, submit
from grant_cli_lab import Grants, READ
from real import IS_ROOT, WAIT, wait_for
from wire import Closed, Peer

TIMEOUT = 300  # of this file, for run.py


class Words(Grants):
    """Every mistake is one line, before anything is started."""

    def test_mistakes_name_the_word_and_its_value(self):
        give = ["issue", "--subject", "agent:a"]
        for words, text in (
                ([], "grant: needs list, issue, derive, revoke or why"),
                (["take"], "grant: \"take\" is no verb"),
                (["revoke"], "grant revoke: a word is missing, expected revoke ID"),
                (["list", "--subject", "me"], "--subject: \"me\" is no address"),
                ([*give, "--capability", "read"], "--capability: \"read\" is not ACTION"),
                ([*give, "--allow", "eat:docs"], "--allow: \"eat:docs\" does not begin with"),
                ([*give, "--expires", "soon"], "--expires: \"soon\" is neither a time"),
                ([*give, "--max-uses", "0"], "--max-uses: must be more than 0"),
                (["issue", "--from", str(self.dir / "x")], f"--from: {self.dir / 'x'}: No such"),
                (["why", "agent:a", "t", "{"], "ARGUMENTS: line 1"),
                (["list", "--root", "."], "--root: not an option of grant")):
            with self.subTest(words=words):
                self.refused(text, *words)
        self.assertFalse(self.state.exists())

    def test_without_a_daemon_it_says_where_it_looked(self):
        self.refused(f"grant list: no daemon at {self.socket}: start one with caissond -c FILE",
                     "list", served=True)

    def test_text_of_others_is_escaped(self):
        self.refused("grant: \"\\x1b[31m\" is no verb", "\x1b[31m")


class OfADaemon(Grants):
    def setUp(self):
        super().setUp()
        self.daemon = Daemon(self)

    def test_issue_derive_why_revoke(self):  # TU-38, TU-46
        out, err = self.grant("issue", "--id", "root", "--subject", "human:operator", "--capability",
                              "read,list:workspace:docs/**", "--delegation-depth", "1",
                              "--expires", "1h", served=True)
        self.assertEqual(err, "")
        self.assertRegex(out, r"\Aissued root at 20\S+Z; .*\nID +SUBJECT +ISSUER +STATE ")
        self.assertIn("read,list:workspace:docs/**", out)
        (child,) = self.objects("derive", "root", "--subject", "agent:a", "--allow", "read:docs",
                                served=True)
        self.assertEqual((child["grant"]["parent"], child["grant"]["issuer"]),
                         ("root", "human:operator"))
        why = ["why", "agent:a", "files.read", '{"path": "docs/a.txt"}']
        out, _ = self.grant(*why, served=True)
        self.assertEqual(out, "yes: it needs read:workspace:docs/a.txt, which the grant "
                              f"{child['id']} allows\n")
        self.assertEqual(self.reads(self.daemon, "docs/a.txt"), [""])
        out, _ = self.grant("revoke", "root", served=True)
        self.assertRegex(out, r"\Arevoked root at 20\S+Z\n\Z")
        (no,) = self.objects(*why, served=True, status=3)
        self.assertEqual((no["allowed"], no["closest"]), (False, child["id"]))
        out, _ = self.grant(*why, served=True, status=3)
        self.assertIn(f"  closest is the grant {child['id']}\n  what is missing: ", out)
        self.assertNotEqual(self.reads(self.daemon, "docs/a.txt"), [""])

    def test_why_is_no_where_the_call_could_not_happen(self):
        why = ["why", "agent:a", "files.list"]
        self.assertEqual(self.grant(*why, '{"path": "docs"}', served=True)[0],
                         "yes: it needs list:workspace:docs, which the grant g-list allows\n")
        for words, text in ((["why", "agent:a", "files.list", '{"path": "x"}'],
                             "no, no_matching_grant: it needs list:workspace:x\n"),
                            (["why", "agent:a", "nothing", "{}"], "no, tool_unavailable\n"),
                            ([*why, '{"paths": 1}'], "no, invalid_tool_arguments"),
                            (["why", "human:x", "files.list", '{"path": "docs"}'], "no, ")):
            with self.subTest(words=words):
                out, _ = self.grant(*words, served=True, status=3)
                self.assertTrue(out.startswith(text), out)

    def test_purposes_and_windows_are_said(self):
        self.objects("issue", "--id", "g", "--subject", "agent:a", "--capability", READ,
                     "--purpose", "night run", "--not-before", "2020-01-01T00:00:00Z", served=True)
        why = ["why", "agent:a", "files.read", '{"path": "docs/a.txt"}']
        self.grant(*why, served=True, status=3)
        self.grant(*why, "--purpose", "night run", served=True)
        out, _ = self.grant("list", "-v", "--subject", "agent:a", served=True)
        self.assertIn("begins 2020-01-01T00:00:00Z; for: night run\n", out)

    def test_a_grant_is_read_from_a_file_or_standard_input(self):
        grant = {"id": "g-file", "subject": "agent:a", "capabilities": [
            {"resource": {"namespace": "workspace", "path": "docs", "scope": "descendants"},
             "actions": ["read"]}], "constraints": {"maxUses": 1}}
        path = self.dir / "grant.json"
        path.write_text(json.dumps(grant))
        self.grant("issue", "--from", path, served=True)
        result = subprocess.run(
            [CAISSON, "grant", "issue", "--socket", self.socket, "--from", "-"],
            input=json.dumps({**grant, "id": "g-input"}), capture_output=True, text=True,
            timeout=WAIT, env=real.environment(), check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertLessEqual({"g-file", "g-input"}, set(self.states(served=True)))
        path.write_text(json.dumps({**grant, "subjct": "agent:a"}))
        self.refused(f"--from: {path}: has a member \"subjct\"", "issue", "--from", path,
                     served=True)

    def test_what_the_broker_refuses_is_one_line_with_its_code(self):
        self.objects("issue", "--id", "g", "--subject", "agent:a", "--capability", READ,
                     served=True)
        give = ["--subject", "agent:b", "--capability", READ]
        for words, text in ((["revoke", "nothing"], "grant revoke: refused: not_found: "),
                            (["derive", "nothing", *give], "grant derive: refused: not_found: "),
                            (["derive", "g", *give], "refused: parent_not_delegable: "),
                            (["issue", "--id", "g", *give], "refused: already_exists: id: "),
                            (["issue", *give, "--expires", "2020-01-01T00:00:00Z"],
                             "refused: invalid_argument: expiresAt: ")):
            with self.subTest(words=words):
                self.refused(text, *words, served=True)

    def test_a_list_of_many_pages(self):
        with self.daemon.client() as peer:
            for i in range(0, 1100, 100):
                asked = [peer.request("grant.issue", id=f"g-{j}", subject="agent:b", capabilities=[
                    {"namespace": "n", "path": [str(j)], "scope": "exact", "actions": ["a"]}])
                    for j in range(i, i + 100)]
                for msgid in asked:
                    self.assertIsNone(peer.expect_reply(msgid)[0])
        found = self.objects("list", "--subject", "agent:b", served=True)
        self.assertEqual([g["id"] for g in found if g["id"].startswith("g-")],
                         [f"g-{i}" for i in range(1100)])
        lines = self.grant("list", served=True)[0].splitlines()
        self.assertEqual(len(lines), 1 + 1103)
        column = lines[0].index("SUBJECT")
        self.assertEqual({line[column - 1] + line[column:].split(":")[0] for line in lines[1:]},
                         {" agent"})

    def test_none_is_said_on_standard_error(self):
        out, err = self.grant("list", "--subject", "agent:nobody", served=True)
        self.assertEqual((out, err), ("", "caisson: grant list: there are none\n"))
        self.assertEqual(self.grant("list", "-q", "--subject", "agent:nobody", served=True),
                         ("", ""))

    @unittest.skipUnless(IS_ROOT, "needs root, to be somebody else")
    def test_a_stranger_is_refused_everything(self):  # D-18
        for words in (["list"], ["revoke", "g-list"],
                      ["issue", "--subject", "agent:a", "--capability", READ],
                      ["derive", "g-list", "--subject", "agent:a", "--capability", READ],
                      ["why", "agent:a", "files.list", '{"path": "docs"}']):
            result = subprocess.run(
                ["setpriv", "--reuid", "4242", "--regid", "4242", "--clear-groups", CAISSON,
                 "grant", *words, "--socket", self.socket], capture_output=True, text=True,
                stdin=subprocess.DEVNULL, timeout=WAIT, check=False, env=real.environment())
            if result.returncode in (126, 127) or ": Permission denied" in result.stderr:
                self.skipTest("the build is not to be read by another user")
            self.assertEqual((result.returncode, result.stdout), (125, ""))
            self.assertIn(f"grant {words[0]}: refused: permission_denied: ", result.stderr)
        self.assertEqual(self.states(served=True)["g-list"], "active")

    def test_the_record_tells_who_gave_what_and_can_be_asked(self):
        self.objects("issue", "--id", "g-1", "--subject", "agent:b", "--capability", READ,
                     "--max-uses", "3", "--expires", "2100-01-01T00:00:00Z", served=True)
        self.objects("revoke", "g-1", served=True)
        out = self.query("--grant", "g-1")
        lines = out.splitlines()
        self.assertEqual(len(lines), 3, out)
        self.assertRegex(lines[1], "grant.issued +agent:b may read:workspace:docs/\\*\\*  grant "
                         "g-1  issued by human:operator  until 2100-01-01 00:00:00  "
                         f"uses at most 3  by uid {os.geteuid()}")
        self.assertRegex(lines[2], f"grant.revoked .*  grant g-1  by uid {os.geteuid()}")
        self.assertEqual([r["type"] for r in self.found("--principal", "agent:b")],
                         ["grant.issued", "grant.revoked"])
        at = self.found("--grant", "g-1")[0]["at"]
        text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at // 1000))
        later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at // 1000 + 3600))
        self.assertEqual(len(self.found("--grant", "g-1", "--since", text)), 2)
        self.assertEqual(self.found("--grant", "g-1", "--until", text), [])
        self.assertEqual(self.found("--grant", "g-1", "--since", later), [])

    def query(self, *words):
        result = self.caisson("audit", "--state", self.state, "query", *words)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def found(self, *words):
        return [json.loads(line) for line in self.query("-o", "jsonl", *words).splitlines()]


SLOW = """import os
import pathlib
import select

import wire


def wait(params):
    pathlib.Path("/effects/at").touch()
    while not pathlib.Path("/effects/go").exists():
        select.select([], [], [], 0.01)
    return {}


wire.serve_provider({"slow.wait": wait})
"""
SLOW_CONFIG = """  - {{ id: slow, command: [python3, /app/a/b/slow.py], app: {app}, profile: interpreter,
      mounts: [{{ source: {effects}, target: /effects, writable: true }}] }}
tools:
  - {{ name: slow.wait, provider: slow, namespace: slow, effect: write, input: {{ type: object }},
       requires: {{ action: wait, resource: {{ namespace: slow, path: x }} }} }}
grants:
"""


class Dispatched(Grants):
    def test_a_call_that_had_begun_is_named_and_goes_on(self):  # D-7
        app, effects = self.dir / "slow" / "a" / "b", self.dir / "effects"
        app.mkdir(parents=True)
        effects.mkdir()
        effects.chmod(0o777)
        (app / "slow.py").write_text(SLOW)
        for source in (pathlib.Path(wire.__file__), wire.SDK / "caisson.py"):
            shutil.copy(source, app)
        agent = self.dir / "app" / "agent.py"
        agent.write_text(agent.read_text().replace('"files.read", {"path": path}', '"slow.wait", {}'))
        self.config.write_text(self.config.read_text().replace("grants:\n", SLOW_CONFIG.format(
            app=self.dir / "slow", effects=effects)))
        d = Daemon(self)
        self.objects("issue", "--id", "g-slow", "--subject", "agent:a", "--capability",
                     "wait:slow:x", served=True)
        with d.client() as peer:
            operation = submit(peer, {"paths": ["", ""]})
            wait_for((effects / "at").exists, "the call")
            (revoked,) = self.objects("revoke", "g-slow", served=True)
            ((call,), already) = (revoked["dispatched"], revoked["already"])
            self.assertEqual((already, call["operation"], call["tool"]),
                             (False, operation, "slow.wait"))
            out, _ = self.grant("revoke", "g-slow", served=True)
            self.assertRegex(out, r"\Awas revoked already: g-slow, at 20\S+Z\ncalls that had begun, "
                             rf"and go on:\n  slow.wait  operation {operation}  call "
                             rf"{call['call']}\n\Z")
            (effects / "go").touch()
            self.assertEqual(ending(peer)["body"]["turn"]["output"], ["", "no_matching_grant"])
        self.assertEqual([r["outcome"] for r in self.records() if r["type"] == "tool.invoked"
                          and r["call"] == call["call"]], ["succeeded"])


class Hostile(Grants):
    """A broker that lies: what it says is shown, never obeyed, and an end is not a success."""

    def served_by(self, serve):
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(self.socket))
        listener.listen()

        def run():
            conn, _ = listener.accept()
            with Peer(conn) as peer:
                peer.answer_hello()
                serve(peer)
                with contextlib.suppress(Closed, OSError):
                    peer.receive()
        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)

    def test_escape_sequences_are_shown(self):
        def serve(peer):
            msgid, _ = peer.expect("grant.list")
            peer.reply(msgid, next=0, grants=[
                {"id": "\x1b[2J", "subject": "agent:\u202ea", "state": "a\nb", "capabilities": [
                    {"actions": ["\x07"], "namespace": "n", "scope": "exact", "path": ["\t"]}]},
                {"capabilities": [1, {}], "id": 7}])
        self.served_by(serve)
        out, _ = self.grant("list", "-v", served=True)
        self.assertFalse(set(out) & set("\x1b\u202e\x07\t"))
        self.assertEqual(out.count("\n"), 5)
        self.assertIn("\\x1b[2J", out)

    def test_an_end_before_the_answer_says_what_may_have_happened(self):
        for words, text in ((["issue", "--subject", "agent:a", "--capability", READ],
                             "its broker died, and may have issued it: see caisson grant list"),
                            (["revoke", "g"], "its broker died; ask again")):
            self.served_by(lambda peer: (peer.receive(), peer.close()))
            self.refused(text, *words, served=True)
            self.socket.unlink()

    def test_nonsense_is_a_fault(self):
        self.served_by(lambda peer: peer.send_raw(b"\0\0\0\1\xc1"))
        self.refused("grant list: the broker broke the protocol: ", "list", served=True)


if __name__ == "__main__":
    unittest.main()
