"""64 workers race for the uses of one grant while what runs them is killed (TU-43, TU-71, D-10).

Kills fall at counts of effects, not at times, on a process that chance picks: the provider takes
a token for each effect, and there are so many until the next kill.  The seed is in every failure,
and CAISSON_RACE_SEED repeats it.
"""

import fcntl
import os
import random
import signal
import struct
import termios
import threading
import time
import unittest

import daemon_lab
import deaths_lab
import real
import wire
from wire import Closed

WORKERS, USES, STRIDE = 64, 100, 4
# To a turn that is admitted when nothing is left the tool is not offered any more.
SPENT = {"grant_exhausted", "tool_unavailable"}

CONFIG = """version: 1
authority: human:op
limits: {{ turn_timeout: 5m, kill_grace: 100ms, shutdown_grace: 5s, max_tool_calls: 1000,
          max_steps: 1000 }}
runtimes:
  - id: agent
    command: [/usr/bin/python3, -B, /app/a/b/deaths_agent.py, calls]
    app: {dir}/race
    profile: interpreter
    mounts: [{{ source: {dir}/effects, target: /effects, writable: true }}]
providers:
  - id: count
    command: [/usr/bin/python3, -B, /app/a/b/deaths_provider.py, token, "0"]
    app: {dir}/race
    mounts: [{{ source: {dir}/effects, target: /effects, writable: true }}]
tools:
  - name: count.add
    provider: count
    namespace: count
    effect: write
    input: {{ type: object, properties: {{ name: {{ type: string }} }}, required: [name] }}
    requires: {{ action: add, resource: {{ namespace: count, path: "{{name}}" }} }}
grants:
  - id: hundred
    subject: agent:agent
    issuer: human:op
    namespace: default
    capabilities:
      - {{ resource: {{ namespace: count, path: ., scope: descendants }}, actions: [add] }}
    constraints: {{ maxUses: {uses} }}
"""


class Races(daemon_lab.Case):
    def configure(self):
        (self.dir / "effects").mkdir()
        os.chmod(self.dir / "effects", 0o777)
        os.mkfifo(self.dir / "effects" / "go")
        os.chmod(self.dir / "effects" / "go", 0o666)
        # Held open: no reader meets an end.
        self.tokens = os.open(self.dir / "effects" / "go", os.O_RDWR | os.O_CLOEXEC)
        self.addCleanup(os.close, self.tokens)
        deaths_lab.copy_programs(self.dir / "race")
        path = self.dir / "c.yaml"
        path.write_text(CONFIG.format(dir=self.dir, uses=USES))
        return path

    def effects(self):
        log = self.dir / "effects" / "log"
        return log.read_text().split() if log.exists() else []

    def turn(self, message):
        """The output of one turn, or None where it or its daemon's broker came to an end."""
        try:
            with daemon_lab.connect(self.socket) as peer:
                peer.hello()
                daemon_lab.submit(peer, message, "agent")
                event = daemon_lab.ending(peer)
        except (Closed, OSError):
            return None
        return event["body"].get("turn", {}).get("output")

    def contend(self, i, message, over):
        """One of the many: turn after turn.  `spent` keeps the last stride in which one of them
        found nothing from its beginning to its end."""
        while not over.is_set():
            stride = self.stride
            told = self.turn(message) or []
            self.refusals |= {word[0] for word in told if isinstance(word, list)}
            if self.is_spent(told):
                self.spent[i] = stride

    @staticmethod
    def is_spent(told):
        return bool(told) and all(isinstance(word, list) and word[0] in SPENT for word in told)

    def strike(self, what):
        """Kills one process that chance picks from those whose command line says `what`."""
        alive = [pid for pid in sorted(real.below(self.daemon.process.pid))
                 if what in (real.proc_text(pid, "cmdline") or "")]
        if alive:
            try:
                os.kill(self.chance.choice(alive), signal.SIGKILL)
                return True
            except ProcessLookupError:
                pass
        return False

    def left(self):
        """Tokens that no effect has taken."""
        return struct.unpack("i", fcntl.ioctl(self.tokens, termios.FIONREAD, bytes(4)))[0]

    def nothing_moves(self):
        """All tokens are taken, or nobody holds a use that could take one."""
        return self.left() == 0 or min(self.spent) == self.stride

    def strike_by_counts(self, victims):
        """Lets STRIDE effects happen, kills one of the first victim, and so on; then all the rest."""
        for self.stride, what in enumerate([*victims, None], 1):
            os.write(self.tokens, bytes(STRIDE if what else 2 * USES))
            real.wait_for(self.nothing_moves, "effects", 10 * wire.TIMEOUT)
            if self.left():
                break  # all uses are gone
            self.struck += bool(what) and self.strike(what)

    def race(self, victims, **message):
        seed = int(os.environ.get("CAISSON_RACE_SEED", random.SystemRandom().randrange(1 << 32)))
        self.chance, self.refusals, self.struck = random.Random(seed), set(), 0
        self.stride, self.spent = 0, [0] * WORKERS
        self.daemon = daemon_lab.Daemon(self)
        over = threading.Event()
        threads = [threading.Thread(target=self.contend, args=(i, message, over))
                   for i in range(WORKERS)]
        with self.subTest(seed=seed):
            for t in threads:
                t.start()
            try:
                self.strike_by_counts(victims)
            finally:
                over.set()
                for t in threads:
                    t.join(10 * wire.TIMEOUT)
            self.assertEqual(self.daemon.end(), 0, self.daemon.stderr())
            self.check()

    def check(self):
        records, effects = self.records(), self.effects()
        reserved = [r["call"] for r in records
                    if r["type"] == "authorization.checked" and r.get("uses") and "call" in r]
        released = [r["call"] for r in records if r["type"] == "grant.usage.released"]
        self.verified()
        self.assertEqual(len(reserved), len(set(reserved)))
        self.assertEqual(len(released), len(set(released)))
        self.assertEqual(len(reserved) - len(released), USES)
        self.assertEqual(len(effects), len(set(effects)), "an effect happened twice")
        self.assertLessEqual(len(effects), USES)
        self.assertLessEqual(set(effects), set(reserved) - set(released))
        self.assertIn("grant_exhausted", self.refusals)
        self.assertLessEqual(self.refusals, SPENT | {"interrupted", "tool_execution_failed"})

    def test_nobody_spends_more_than_there_is(self):  # TU-43
        self.race([], rounds=list("abcd"), calls=2)
        self.assertEqual(len(self.effects()), USES)

    def test_nor_when_what_runs_them_is_killed(self):  # TU-71, D-10
        # What a broker's death leaves unknown stays spent, so that one comes last.
        victims = ["deaths_agent", "deaths_provider", "caisson-ledger"] * 3
        self.race([*victims, "caisson-broker", "deaths_provider", "caisson-broker"],
                  rounds=list("abcdefgh"), calls=1)
        self.assertGreaterEqual(self.struck, len(victims))


if __name__ == "__main__":
    unittest.main()
