#include "broker/rest.h"

#include <unistd.h>

#include <event2/event.h>

#include "broker/broker.h"
#include "broker/child.h"
#include "broker/operation.h"
#include "broker/record.h"
#include "broker/sandbox.h"
#include "broker/session_private.h"
#include "broker/turn.h"
#include "common/log.h"
#include "common/stop.h"

#define FRAMES_MAX 256 /* that one may send while it rests: it is not to keep the broker busy */
#define DRAINS_MAX 64 /* chunks of what it wrote before a turn that are dropped as it begins */

static void
rest_gone(struct child *w)
{
	struct sandbox *sb = w->rests_in;
	struct broker *b = w->broker;

	if (!child_is_gone(w))
		return;
	sb->resting = NULL;
	worker_destroy(w);
	sandbox_on_rested(sb);
	broker_check_settled(b);
}

/* ---- its end -------------------------------------------------------------------------- */

static void
rest_on_alarm(void *arg)
{
	struct child *w = arg;
	struct record r;

	broker_tick(w->broker);
	if (w->killed || w->state != CHILD_RUNNING)
		return;
	sandbox_record_init(&r, w->rests_in, "kill.ordered");
	RECORD_TEXT(&r.m, cause, ending_desc(ENDING_released)->cause);
	record_append(&r, JOURNAL_ENDING, NULL, NULL);
	child_kill(w);
}

static void
leave_by(struct child *w, uint64_t grace_ms)
{
	w->leaves = true;
	alarm_set(w->broker->alarms, &w->alarm, w->broker->now_ms + grace_ms);
}

bool
rest_leaves(const struct sandbox *sb)
{
	return sb->resting != NULL && sb->resting->leaves;
}

bool
rest_end(struct sandbox *sb)
{
	struct child *w = sb->resting;

	if (w != NULL && !w->leaves) {
		link_close(w->link);
		leave_by(w, w->config->kill_grace_ms);
	}
	return w == NULL;
}

void
rest_on_config(struct sandbox *sb)
{
	const struct child *w = sb->resting;
	uint32_t index;

	if (w != NULL && !config_same_runtime(w->config, w->index, sb->broker->config, &index))
		rest_end(sb);
}

void
rest_on_taken(struct sandbox *sb)
{
	struct broker *b = sb->broker;
	struct child *w = sb->resting;
	struct config *before;
	uint32_t index;

	/* Before that it knows the configuration of before alone. */
	if (w == NULL || w->leaves || w->config == b->config || b->replaced != NULL)
		return;
	if (!config_same_runtime(w->config, w->index, b->config, &index))
		return; /* it leaves, or will as its turn begins */
	before = w->config;
	w->config = config_hold(b->config);
	w->index = index;
	reload_release(b, before);
}

void
rest_on_link_end(struct child *w)
{
	/* Its process has a moment to follow, so that its end says how it came. */
	if (!w->leaves)
		leave_by(w, EXIT_HALF_MS);
	rest_gone(w);
}

void
rest_on_exit(struct child *w)
{
	worker_record(w);
	w->leaves = true;
	alarm_clear(&w->alarm);
	pipe_close(&w->out);
	pipe_close(&w->err);
	link_close(w->link);
	rest_gone(w);
}

void
rest_orphan(struct sandbox *sb)
{
	if (sb->resting == NULL)
		return;
	sb->resting->leaves = true;
	child_orphan(sb->resting);
	rest_gone(sb->resting);
}

void
rest_destroy(struct sandbox *sb)
{
	worker_destroy(sb->resting);
	sb->resting = NULL;
}

/* ---- what it says --------------------------------------------------------------------- */

void
rest_on_message(struct child *w, const struct message *m)
{
	w->frames++;
	if (w->frames > FRAMES_MAX)
		link_fault(w->link, "too many frames between two turns");
	else if (m->kind == MSG_REQUEST)
		link_refuse(w->link, m->msgid, "host_closed", "host is closed", false);
}

/* ---- between sessions ----------------------------------------------------------------- */

static bool
may_rest(const struct session *s)
{
	const struct operation *op = s->operation;
	const struct child *w = s->worker;
	uint32_t index;

	return op->sandbox != NULL && op->sandbox->resting == NULL && op->turn != NULL &&
	    op->turn->rests && !s->broker->shutting_down &&
	    config_same_runtime(w->config, w->index, s->broker->config, &index) && w->turns &&
	    w->state == CHILD_RUNNING && !w->killed && w->link != NULL &&
	    (op->ending == ENDING_completed || op->ending == ENDING_failed);
}

bool
rest_keep(struct session *s)
{
	struct sandbox *sb = s->operation->sandbox;
	struct child *w = s->worker, *absent;

	if (!may_rest(s))
		return false;
	absent = worker_create(s);
	if (absent == NULL)
		return false;
	s->worker = absent;
	sb->resting = w;
	w->session = NULL;
	w->rests_in = sb;
	w->served++;
	w->frames = 0;
	w->alarm = (struct alarm){ .fn = rest_on_alarm, .arg = w };
	rest_on_taken(sb); /* it may have run over a reload */
	/* A client that was slow held them back; now nobody is. */
	if (w->out.event != NULL)
		event_add(w->out.event, NULL);
	if (w->err.event != NULL)
		event_add(w->err.event, NULL);
	STOP_POINT("broker.worker_rests");
	return true;
}

/* What lies in its stream was written before the turn. */
static void
drop(struct child *w, const struct pipe *p)
{
	static uint8_t chunk[OUTPUT_CHUNK_MAX];
	ssize_t n = 1;

	for (int i = 0; p->fd >= 0 && n > 0 && i < DRAINS_MAX; i++) {
		n = read(p->fd, chunk, sizeof chunk);
		if (n > 0)
			w->broker->stats.unheard_bytes += (uint64_t)n;
	}
}

enum rest
rest_give(struct session *s)
{
	struct sandbox *sb = s->operation->sandbox;
	struct child *w = sb != NULL ? sb->resting : NULL;
	uint32_t index;

	if (w == NULL)
		return REST_NONE;
	if (!config_same_runtime(w->config, w->index, s->operation->config, &index) ||
	    index != s->operation->runtime)
		rest_end(sb);
	if (w->leaves) {
		sb->awaited = true;
		return REST_LEAVES;
	}
	drop(w, &w->out);
	drop(w, &w->err);
	worker_destroy(s->worker);
	s->worker = w;
	w->session = s;
	w->rests_in = NULL;
	sb->resting = NULL;
	STOP_POINT("broker.worker_given");
	return REST_GIVEN;
}
