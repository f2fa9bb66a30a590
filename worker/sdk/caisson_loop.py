"""The standard loop of a turn: a driver decides, the loop does everything else.

    import caisson_loop as loop

    class Driver:
        def __init__(self, turn):          # a turn begins
            self.turn = turn
        def decide(self, given):
            if given["type"] == "start":
                return loop.call("files.read", {"path": self.turn.message})
            result = given["result"]       # {"tool", "status", "output" or "error"}
            return loop.complete(result["status"])
        def close(self, status):           # may be left out; how the turn ended
            pass

    loop.serve(Driver)

A decision is a map, such as a model writes; the functions below make valid ones.

    {"type": "tool_call", "call": {"tool", "arguments", "idempotencyKey"?}, "step"?}
    {"type": "complete", "output", "metadata"?}
    {"type": "fail", "error": {"code", "message", "retryable"?, "details"?}, "metadata"?}
    {"type": "escalate", "reason", "metadata"?}

* Anything else fails the turn with `invalid_driver_decision`, and so does a step behind the
  loop's own, which counts decisions from 0.  A step ahead of it is passed on as claimed.
* A call that is refused, for a budget too, is a result like any other.  But the loop asks for
  as many decisions as the turn has steps; then the turn fails with `step_limit_exceeded`.
* An exception of the driver's fails the turn with `driver_failed`; its text goes to standard
  error and nowhere else.
* Once the turn drains, no decision is asked for.  One that is being made counts if it ends the
  turn; its call is left to the broker to refuse.  Then the turn ends as cancelled.
* A call of `sharedos.escalate` asks a person, too, and may say what for.  It escalates the turn
  once the broker has taken it, if that tool is offered; else it is a call like any other.
* `decide` runs on one thread, where the driver was made.  It is left behind when the turn is
  over; `close` runs on another, for at most `close_ms` and half of what the turn has left.

Copy this file and caisson.py beside your program.
"""

import queue
import sys
import threading
import time
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, wait

import caisson
from caisson import Outcome, ProtocolError, bounded

CLOSE_MS = 1000
ESCALATE = "sharedos.escalate"
# How a driver is told that its turn ended.
_STATUS = {"complete": "succeeded", "fail": "failed", "escalate": "escalated"}
# What the maps of a decision must have, and what they may have.
_DECISIONS = {"tool_call": ({"type", "call"}, {"step"}),
              "complete": ({"type", "output"}, {"metadata"}),
              "fail": ({"type", "error"}, {"metadata"}),
              "escalate": ({"type", "reason"}, {"metadata"})}
_CALL = {"tool", "arguments"}, {"idempotencyKey"}
_ERROR = {"code", "message"}, {"retryable", "details"}


def call(tool, arguments, step=None, idempotency_key=None):
    """Decides to make a call."""
    called = {"tool": tool, "arguments": arguments}
    if idempotency_key is not None:
        called["idempotencyKey"] = idempotency_key
    decision = {"type": "tool_call", "call": called}
    return decision if step is None else {**decision, "step": step}


def complete(output):
    """Decides that the turn is done."""
    return {"type": "complete", "output": output}


def fail(code, message="", retryable=False):
    """Decides that the turn has failed."""
    return {"type": "fail", "error": {"code": code, "message": message, "retryable": retryable}}


def escalate(reason):
    """Decides that a person has to decide."""
    return {"type": "escalate", "reason": reason}


class _DriverFailed(Exception):
    """Holds, as its cause, what the driver raised."""


class _Seat:
    """The thread of one driver.  Whoever waits for it may leave; it is not waited for."""

    def __init__(self, turn):
        self._turn, self._calls = turn, queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self):
        for future, function, argument in iter(self._calls.get, None):
            try:
                future.set_result(function(argument))
            except BaseException as e:
                future.set_exception(e)

    def start(self, function, argument):
        future = Future()
        self._calls.put((future, function, argument))
        return future

    def result(self, future):
        """What comes of it; Cancelled or LinkClosed if the turn is over before."""
        wait([future, self._turn.over], return_when=FIRST_COMPLETED)
        if self._turn.over.done():
            self._turn.over.result()
        try:
            return future.result()
        except BaseException as e:
            raise _DriverFailed from e

    def leave(self):
        self._calls.put(None)


def _members(value, shape):
    """The map `value`; ProtocolError unless it has the members of `shape`."""
    must, may = shape
    if not isinstance(value, dict) or not must <= value.keys() <= must | may:
        raise ProtocolError("members are missing, or too many")
    return value


def _read(decision, at):
    """(call, step) or an Outcome; ProtocolError if it is no decision at step `at`."""
    kind = decision.get("type") if isinstance(decision, dict) else None
    shape = _DECISIONS.get(kind) if isinstance(kind, str) else None
    if shape is None:
        raise ProtocolError("no such decision")
    rest = {k: v for k, v in _members(decision, shape).items() if k != "type"}
    if kind != "tool_call":
        if kind == "fail":
            bounded(**_members(rest["error"], _ERROR))
        return Outcome(kind, **rest)
    called = bounded(**_members(decision["call"], _CALL))
    step = bounded(step=decision.get("step", at))["step"]
    if step < at:
        raise ProtocolError("step is behind the loop's own")
    return called, step


def _result(turn, called, step):
    """Makes a call; the result that the driver is given."""
    tool = called["tool"]
    try:
        output = turn.invoke(tool, called["arguments"], step, called.get("idempotencyKey"))
        return {"tool": tool, "status": "succeeded", "output": output}
    except caisson.Refused as e:
        status = "failed" if isinstance(e, caisson.ToolFailed) else "denied"
        error = {"code": e.code, "message": e.message, "retryable": e.retryable}
        if e.details is not None:
            error["details"] = e.details
        return {"tool": tool, "status": status, "error": error}


def _failed(code, message, **more):
    return Outcome("fail", error={"code": code, "message": message, **more})


def _steps(turn, decide):
    given = {"type": "start"}
    for at in range(turn.limits.max_steps):
        if turn.draining.is_set():
            break
        decision = _read(decide(given), at)
        if isinstance(decision, Outcome):
            return decision
        result = _result(turn, *decision)
        asked = result["tool"] == ESCALATE and ESCALATE in turn.tools
        if asked and result["status"] == "succeeded":
            return Outcome("escalate", reason="asked")  # the ask itself is with the broker
        given = {"type": "tool_result", "result": result}
    if turn.draining.is_set():
        raise caisson.Cancelled("the time was up")
    return _failed("step_limit_exceeded", "the loop has used its steps")


def _close(driver, status, seconds):
    """Closes what comes of `driver`, and leaves it behind after so many seconds."""
    def work():
        if driver.exception() is None and hasattr(driver.result(), "close"):
            try:
                driver.result().close(status)
            except BaseException:
                traceback.print_exc()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        print("caisson_loop: close() takes too long and is left behind", file=sys.stderr)


def run(turn, make_driver, close_ms=CLOSE_MS):
    """One turn, decided by `make_driver(turn)`; its outcome, for caisson.serve()."""
    seat = _Seat(turn)
    driver = seat.start(make_driver, turn)

    def decide(given):
        return seat.result(seat.start(lambda g: driver.result().decide(g), given))

    try:
        seat.result(driver)
        outcome = _steps(turn, decide)
        status = _STATUS[outcome["status"]]
    except (caisson.Cancelled, caisson.LinkClosed) as e:
        outcome, status = _failed("turn_cancelled", str(e)), "cancelled"
    except ProtocolError as e:
        outcome, status = _failed("invalid_driver_decision", str(e)), "failed"
    except _DriverFailed as e:
        cause = e.__cause__
        traceback.print_exception(type(cause), cause, cause.__traceback__)
        outcome = _failed("driver_failed", "the driver failed", retryable=True)
        status = "failed"
    seat.leave()
    seconds = close_ms / 1000
    if not turn.over.done():  # the close must not cost the outcome
        seconds = max(min(seconds, (turn.limits.deadline - time.monotonic()) / 2), 0)
    _close(driver, status, seconds)
    return outcome


def serve(make_driver, close_ms=CLOSE_MS, name="caisson_loop.py"):
    """Answers every turn with a driver of its own until the broker closes the link."""
    caisson.serve(lambda turn: run(turn, make_driver, close_ms), name)
