"""Chambers that stood by and die as they are taken: no launch fails for that."""

import contextlib
import unittest

import deaths_lab
import real
from daemon_lab import Case, Daemon, ending, submit, waiting
from real import WAIT, wait_for

TIMEOUT = 240  # of this file, for run.py
STOPS = deaths_lab.STOPS
LOST = "a chamber that stood by died as it was taken"


@unittest.skipUnless((STOPS / "bin" / "caissond").exists(), "the build with stops is not there")
class Lost(Case):
    def daemon(self, point, profile):
        """Whoever passes `point` with a plan of that profile dies there."""
        self.config = self.configure(more=f"""profiles:
  - {{ id: mine, base: interpreter }}
""")
        self.config.write_text(self.config.read_text().replace("runtimes:", f"""runtimes:
  - {{ id: c, command: [python3, /app/agent.py], app: {self.dir / "app"}, profile: mine }}"""))
        return Daemon(self, program=STOPS / "bin" / "caissond",
                      env={"CAISSON_STOP": f"{profile}:{point}"})

    def stand(self, peer):
        """One stands by, for the kind of `peer`'s first turn."""
        for _ in range(5):
            operation = waiting(peer)
            # What somebody mounts on this machine ends it: then it is for the next use.
            with contextlib.suppress(AssertionError):
                wait_for(self.stands, "one to stand by", WAIT / 5)
            peer.call("operation.stop", operation=operation)
            ending(peer)
            if self.stands():
                return
        self.fail("none stands by")

    def stands(self):
        result = self.caisson("ps", "--socket", self.socket, "-o", "jsonl")
        return '"role":"standby","state":"warm"' in result.stdout

    def ends(self, d):
        all_of_it = real.below(d.process.pid)
        self.assertEqual(d.end(), 0)
        for pid in all_of_it:
            with contextlib.suppress(FileNotFoundError):
                self.assertNotIn(b"caisson", open(f"/proc/{pid}/comm", "rb").read())

    def test_with_its_order_another_is_made(self):
        for point in ("launch.ordered", "init.ordered"):
            with self.subTest(point=point):
                d = self.daemon(point, "interpreter")
                peer = d.client()
                self.stand(peer)
                submit(peer, {"say": 1})
                event = ending(peer)
                self.assertEqual(event["type"], "completed", event)
                self.assertEqual(d.stderr().count(LOST), 1)
                self.ends(d)

    def test_where_the_other_dies_too_that_is_the_ending(self):
        d = self.daemon("init.before_runtime", "mine")
        peer = d.client()
        self.stand(peer)
        submit(peer, {"say": 1}, "c")
        cause = ending(peer)["body"]["cause"]
        self.assertEqual((cause["kind"], cause["layer"]), ("start_failed", "handshake"))
        self.assertEqual(d.stderr().count(LOST), 1)
        self.ends(d)

    def test_what_had_leave_to_run_is_not_begun_again(self):
        d = self.daemon("program.before_exec", "mine")
        peer = d.client()
        self.stand(peer)
        submit(peer, {"say": 1}, "c")
        cause = ending(peer)["body"]["cause"]
        self.assertEqual((cause["kind"], cause["layer"]), ("start_failed", "handshake"))
        self.assertNotIn(LOST, d.stderr())
        self.ends(d)


if __name__ == "__main__":
    unittest.main()
