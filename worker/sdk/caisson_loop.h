/*
 * caisson_loop: the standard loop of a turn: a driver decides, the loop does everything else.
 * Include caisson.h before this.
 *
 *	static int
 *	decide(void *data, struct caisson *c, struct caisson_value given, struct caisson_writer *w)
 *	{
 *		if (caisson_is(caisson_get(given, "type"), "start"))
 *			return caisson_decide_call(w, "files.stat", arguments, NULL);
 *		return caisson_decide_complete(w, output);
 *	}
 *
 *	return caisson_loop_serve(&(struct caisson_driver){ .decide = decide }) < 0;
 *
 * `given` is a map: {"type": "start"}, or {"type": "tool_result", "result": {"tool", "status":
 * "succeeded", "denied" or "failed", "output" or "error": {"code", "message", "retryable",
 * "details"?}}}; it is borrowed for that decision.  A decision is a map, too, such as a model
 * writes:
 *
 *	{"type": "tool_call", "call": {"tool", "arguments", "idempotencyKey"?}, "step"?}
 *	{"type": "complete", "output", "metadata"?}
 *	{"type": "fail", "error": {"code", "message", "retryable"?, "details"?}, "metadata"?}
 *	{"type": "escalate", "reason", "metadata"?}
 *
 * - Anything else fails the turn with `invalid_driver_decision`, and so does a step behind the
 *   loop's own, which counts decisions from 0.  A step ahead of it is passed on as claimed.
 * - A call that is refused, for a budget too, is a result like any other.  But the loop asks
 *   for as many decisions as the turn has steps; then the turn fails with
 *   `step_limit_exceeded`.
 * - An error of the driver's fails the turn with `driver_failed`.  What there is to say of it
 *   is the driver's to write, to standard error.
 * - Once the turn drains, no decision is asked for.  One that is being made counts if it ends
 *   the turn; its call is left to the broker to refuse.  Then the turn ends as cancelled.
 * - A call of `sharedos.escalate` asks a person, too, and may say what for.  It escalates the
 *   turn once the broker has taken it, if that tool is offered; else it is a call like any
 *   other.
 * - Nothing takes a decision away from a driver that makes it: who waits for long looks at
 *   caisson_state() meanwhile.
 */
#ifndef CAISSON_LOOP_H
#define CAISSON_LOOP_H

#ifndef CAISSON_H
#error "include caisson.h before caisson_loop.h"
#endif

#define CAISSON_CLOSE_MS 1000
#define CAISSON_ASK_TOOL "sharedos.escalate"

struct caisson_driver {
	/* A turn begins; `turn` is borrowed until its end.  NULL for nothing to do.  0, or a
	 * negative errno: the driver has failed, and is not closed. */
	int (*open)(void *data, struct caisson *c, const struct caisson_turn *turn);
	/* Writes the next decision.  0, or a negative errno: the driver has failed.  May emit
	 * and annotate, but makes no calls and ends no turn. */
	int (*decide)(void *data, struct caisson *c, struct caisson_value given,
	    struct caisson_writer *ret_decision);
	/* The turn ends: "succeeded", "failed", "cancelled" or "escalated".  NULL for nothing
	 * to do.  Runs on a thread of its own, without the link, and is left behind there after
	 * close_ms, or half of what the turn has left: what `data` is must stay.  If there can
	 * be no thread, it is not called. */
	void (*close)(void *data, const char *status);
	void *data;
	unsigned close_ms; /* 0: CAISSON_CLOSE_MS */
};

/* Runs `turn`, which caisson_next_turn() gave, and sends its outcome.  0 or an error of
 * caisson.h, after which the turn is still open. */
int caisson_loop_turn(
    struct caisson *c, const struct caisson_turn *turn, const struct caisson_driver *driver);

/* Opens the link and runs every turn until the broker closes it.  0 or an error of
 * caisson.h. */
int caisson_loop_serve(const struct caisson_driver *driver);

/* Write a valid decision, if `w` is empty and the values are within their bounds.  `step` may
 * be NULL: the loop's own.  0 or -ENOMEM. */
int caisson_decide_call(struct caisson_writer *w, const char *tool,
    const struct caisson_writer *arguments, const uint32_t *step);
int caisson_decide_complete(struct caisson_writer *w, const struct caisson_writer *output);
int caisson_decide_fail(struct caisson_writer *w, const char *code, const char *message);
int caisson_decide_escalate(struct caisson_writer *w, const char *reason);

#endif /* CAISSON_LOOP_H */
