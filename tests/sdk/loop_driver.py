"""A driver that does what the message of its turn says (test_sdk_loop.py), on the loop in Python.

The message: {"open", "decide": [one a decision], "close", "close_ms"}, each part a map of what to
do, in this order:

    emit    an event of this type, to say that it has come so far
    await   "draining" or "cancelled": until the turn is
    raise   fail with this text
    hang    never come back
    decide  the decision to return

What it is asked and told stands on standard output: `ask HEX` with the packed input, `close STATUS`.
"""

import sys
import threading

import caisson
import caisson_loop


def act(turn, part):
    if "emit" in part:
        turn.emit(part["emit"])
    if "await" in part:
        getattr(turn, part["await"]).wait()
    if "raise" in part:
        raise RuntimeError(part["raise"])
    if "hang" in part:
        threading.Event().wait()
    return part.get("decide")


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Driver:
    def __init__(self, turn):
        self.turn, self.parts = turn, iter(turn.message["decide"])
        act(turn, turn.message.get("open", {}))

    def decide(self, given):
        say("ask " + caisson.pack(given).hex())
        return act(self.turn, next(self.parts))

    def close(self, status):
        say("close " + status)
        act(self.turn, self.turn.message.get("close", {}))


caisson.serve(lambda turn: caisson_loop.run(turn, Driver, turn.message["close_ms"]))
