#include "broker/sandbox.h"

#include <string.h>

#include "broker/broker.h"
#include "broker/client.h"
#include "broker/operation.h"
#include "broker/record.h"
#include "broker/rest.h"
#include "broker/workspace.h"
#include "common/log.h"
#include "common/stop.h"

/*
 * How a session ends (OP-32 to OP-34): new work is refused at once; what is admitted runs to
 * its end, or is ended; then no process shows its workspace any more, its end is recorded, and
 * the workspace goes.
 */

/* Nothing of it is left: its record may follow, and then its workspace goes. */
static bool
is_empty(const struct sandbox *sb)
{
	return sb->running == NULL && sb->queued == 0 && sb->resting == NULL &&
	    workspace_is_gone(sb->workspace);
}

static void
released_on_record(void *arg, bool ok)
{
	struct sandbox *sb = arg;
	struct broker *b = sb->broker;

	broker_tick(b);
	sb->recording = false;
	if (!ok)
		log_error("the end of %s is not on record: it comes back with the next start",
		    sb->id);
	STOP_POINT("broker.release_durable");
	sb->state = sandbox_state_closed;
	sandbox_close(sb, ok);
	sandbox_answer(sb, NULL);
	broker_check_settled(b);
}

static void
released_record(struct sandbox *sb)
{
	struct record r;

	sandbox_record_init(&r, sb, "session.released");
	RECORD_TEXT(&r.m, cause, "released");
	RECORD_TEXT(&r.m, detail, sb->detail);
	sb->recording = true;
	/* In an outage it stays as it is until the record stands, and then goes. */
	if (record_append(&r, JOURNAL_RELEASE, released_on_record, sb) < 0)
		released_on_record(sb, false);
}

void
sandbox_check(struct sandbox *sb)
{
	if (sb->state != sandbox_state_closing || sb->recording)
		return;
	if (sb->running == NULL && sb->queued == 0) {
		workspace_stop(sb->workspace);
		rest_end(sb);
	}
	if (is_empty(sb))
		released_record(sb);
}

/* The one that runs, and those that wait: none of them runs after this (OP-33, OP-34). */
static void
end_all(struct sandbox *sb)
{
	struct operation *op, *next;

	for (op = TAILQ_FIRST(&sb->queue); op != NULL; op = next) {
		next = TAILQ_NEXT(op, queue);
		operation_end(op, ENDING_released);
	}
	if (sb->running != NULL)
		operation_end(sb->running, ENDING_released);
}

/* No new work, and what is there runs to its end, or (immediate) is ended; more than once is
 * no harm, and never goes back (OP-32). `detail` is static: why, for the record. */
static void
sandbox_release(struct sandbox *sb, enum release_mode mode, const char *detail)
{
	bool ready = sb->state == sandbox_state_ready;

	if (!ready && sb->state != sandbox_state_closing)
		return;
	if (!ready && (mode == release_mode_drain || sb->mode == mode))
		return; /* never back */
	sb->state = sandbox_state_closing;
	sb->mode = mode;
	sb->detail = detail;
	STOP_POINT("broker.session_closing");
	if (mode == release_mode_immediate) {
		workspace_stop(sb->workspace);
		end_all(sb);
	}
	sandbox_check(sb);
}

void
sandbox_on_alarm(void *arg)
{
	struct sandbox *sb = arg;

	broker_tick(sb->broker);
	if (!lease_is_over(&sb->lease, sb->broker->now_ms))
		alarm_set(sb->broker->alarms, &sb->alarm, sb->lease.until_ms);
	else if (!sb->broker->shutting_down)
		sandbox_release(sb, release_mode_immediate, "lease");
}

void
sandbox_handle_release(struct client *c, const struct message *message)
{
	const struct msg_session_release *m = &message->u.session_release;
	struct sandbox *sb = sandbox_find_for(c, m->session);
	enum release_mode mode = m->has_mode ? m->mode : release_mode_drain;
	bool wait = m->has_wait && m->wait, over;

	if (sb == NULL) {
		refusal_send(c, message->msgid, &refusal_no_session);
		return;
	}
	if (sb->state == sandbox_state_registering) {
		link_refuse(c->link, message->msgid, "unavailable",
		    "the session is being made; try again", true);
		return;
	}
	if (!sandbox_wait(sb, c, message->msgid, WAITS_RELEASED))
		return;
	over = sandbox_is_over(sb); /* what it waits for has been */
	sandbox_release(sb, mode, mode == release_mode_drain ? "drain" : "immediate");
	/* In an outage that has answered everybody. */
	if ((over || !wait) && !TAILQ_EMPTY(&sb->waiting))
		sandbox_answer_last(sb);
}
