#include "broker/session_private.h"

#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "broker/broker.h"
#include "broker/operation.h"
#include "broker/place.h"
#include "broker/provider.h"
#include "broker/record.h"
#include "broker/rest.h"
#include "broker/sandbox.h"
#include "broker/shared.h"
#include "broker/turn.h"
#include "common/stop.h"
#include "common/util.h"

static int
session_compare(const struct session *a, const struct session *b)
{
	return a->id < b->id ? -1 : a->id > b->id;
}

TREE_GENERATE(session_tree, session, by_id, session_compare)

struct session *
session_find(struct broker *b, uint64_t id)
{
	struct session key = { .id = id };

	return RB_FIND(session_tree, &b->session_tree, &key);
}

/* ---- its children --------------------------------------------------------------------- */

static int
worker_compare(const struct child *a, const struct child *b)
{
	return a->number < b->number ? -1 : a->number > b->number;
}

TREE_GENERATE(worker_tree, child, by_number, worker_compare)

struct child *
worker_find(struct broker *b, uint64_t number)
{
	struct child key = { .number = number };

	return RB_FIND(worker_tree, &b->workers, &key);
}

struct child *
worker_create(struct session *s)
{
	struct operation *op = s->operation;
	struct child *w = malloc(sizeof *w);

	if (w == NULL)
		return NULL;
	/* In a sandbox a command comes over the link, too: its worker becomes it. */
	child_init(w, s->broker, config_hold(op->config),
	    op->kind == operation_kind_turn || op->sandbox != NULL ? CHILD_TURN : CHILD_COMMAND,
	    op->runtime);
	w->session = s;
	w->number = s->id;
	if (op->sandbox != NULL && op->sandbox->has_workspace)
		w->workspace = op->sandbox->number;
	return w;
}

void
worker_destroy(struct child *w)
{
	if (w == NULL)
		return;
	if (w->state != CHILD_ABSENT)
		RB_REMOVE(worker_tree, &w->broker->workers, w);
	alarm_clear(&w->alarm);
	pipe_close(&w->in);
	pipe_close(&w->out);
	pipe_close(&w->err);
	buf_finish(&w->input);
	reload_release(w->broker, w->config);
	free(w);
}

void
child_init(struct child *c, struct broker *b, struct config *config,
    enum child_kind kind, uint32_t index)
{
	memset(c, 0, sizeof *c);
	c->broker = b;
	c->config = config;
	c->kind = kind;
	c->index = index;
	c->in.fd = c->out.fd = c->err.fd = -1;
	TAILQ_INIT(&c->lanes);
	TAILQ_INIT(&c->dispatched);
	TAILQ_INIT(&c->late);
}

void
child_ask(struct child *c)
{
	struct control spawn = {
		.verb = CONTROL_SPAWN, .kind = c->kind, .session = c->number, .index = c->index,
		.generation = c->config->generation, .workspace = c->workspace,
	};

	if (c->kind == CHILD_COMMAND && c->session->operation->has_input)
		spawn.flags = CONTROL_WITH_INPUT;
	c->state = CHILD_ASKED;
	c->linked = c->killed = false;
	memset(&c->exit, 0, sizeof c->exit);
	++*(c->kind == CHILD_PROVIDER	   ? &c->broker->stats.children_providers
		: c->kind == CHILD_WORKSPACE ? &c->broker->stats.children_workspaces
					     : &c->broker->stats.children_workers);
	control_tell(c->broker, &spawn);
}

/* What a kill order names: why it is given. */
static enum ending
kill_cause(const struct session *s)
{
	enum ending e = s->operation->ending;

	return e == ENDING_none || e == ENDING_completed || e == ENDING_failed
	    ? ENDING_released : e;
}

void
child_kill(struct child *c)
{
	struct control kill = {
		.verb = CONTROL_KILL, .kind = c->kind, .session = c->number, .index = c->index,
		.generation = c->config->generation,
	};

	if (c->killed || (c->state != CHILD_ASKED && c->state != CHILD_RUNNING))
		return;
	c->killed = true;
	/* What ended the worker is nothing that a provider did. */
	kill.cause = child_serves(c) || c->session == NULL ? ENDING_released
							   : kill_cause(c->session);
	control_tell(c->broker, &kill);
}

bool
child_is_gone(const struct child *c)
{
	return (c->state == CHILD_ABSENT || c->state == CHILD_GONE) && c->link == NULL;
}

/* The record of a kill is appended; the kill never waits for it. */
static void
kill_record(struct session *s)
{
	struct operation *op = s->operation;
	struct record r;

	if (s->worker->state != CHILD_RUNNING || s->worker->killed)
		return;
	record_init(&r, s->broker, op, "kill.ordered");
	RECORD_TEXT(&r.m, cause, ending_desc(kill_cause(s))->cause);
	record_append(&r, JOURNAL_ENDING, NULL, NULL);
}

void
session_kill(struct session *s)
{
	s->kill_at_ms = 0;
	kill_record(s);
	child_kill(s->worker);
	for (size_t i = 0; i < s->operation->config->nproviders; i++)
		child_kill(&s->providers[i]);
}

/* ---- its life ------------------------------------------------------------------------- */

static bool
session_is_over(const struct session *s)
{
	if (!s->closing || !s->operation->told || s->operation->records > 0 ||
	    s->operation->at_work)
		return false;
	if (!child_is_gone(s->worker) || s->worker->out.fd >= 0 || s->worker->err.fd >= 0)
		return false;
	for (size_t i = 0; i < s->operation->config->nproviders; i++)
		if (!child_is_gone(&s->providers[i]))
			return false;
	return true;
}

static void
session_destroy(struct session *s)
{
	struct broker *b = s->broker;

	STOP_POINT("broker.session_over");
	TAILQ_REMOVE(&b->sessions, s, link);
	RB_REMOVE(session_tree, &b->session_tree, s);
	b->nsessions -= s->operation->sandbox == NULL;
	worker_destroy(s->worker);
	for (size_t i = 0; i < s->operation->config->nproviders; i++)
		provider_finish(&s->providers[i]);
	alarm_clear(&s->alarm);
	shared_leave(s->shared);
	if (s->operation->sandbox != NULL)
		sandbox_on_over(s->operation);
	operation_destroy(s->operation);
	free(s->providers);
	free(s->lanes);
	free(s);
	broker_check_settled(b);
}

void
broker_check_settled(struct broker *b)
{
	if (b->shutting_down && TAILQ_EMPTY(&b->sessions) && shared_stop_all(b) &&
	    sandboxes_stop_all(b))
		b->on_settled(b);
}

/* Its end of the link is not its to close: a turn's worker, and a command's before that has
 * become the command. */
static bool
speaks(const struct session *s)
{
	return s->worker->kind == CHILD_TURN &&
	    (s->operation->kind == operation_kind_turn || s->operation->payload != NULL);
}

/* What ended a worker whose end is complete, where nothing else did before. */
static enum ending
worker_ending(const struct session *s)
{
	const struct exit_facts *x = &s->worker->exit;

	if (s->worker->state != CHILD_GONE)
		return ENDING_runtime_protocol_violation;
	if (x->cause != ENDING_none && x->cause < ENDING_MAX)
		return (enum ending)x->cause;
	if (!speaks(s) && x->kind != EXIT_UNKNOWN)
		return ENDING_completed;
	return x->kind == EXIT_EXITED ? ENDING_exited
	    : x->kind == EXIT_SIGNALED ? ENDING_signaled
					: ENDING_host_lost;
}

/* Both halves of the worker's end are here: nothing can come from it any more. */
static void
session_worker_over(struct session *s)
{
	struct operation *op = s->operation;
	enum ending ending = worker_ending(s);

	s->half_at_ms = 0;
	if (!op->ended) {
		op->exit = s->worker->exit;
		/* What it used in the turns before is no part of this one. */
		op->used_before = s->worker->served > 0;
		if (ending == ENDING_runtime_protocol_violation && op->fault.rule == NULL)
			op->fault.rule = "the link was closed by a process that lives on";
		operation_end(op, ending);
	}
	if (s->worker->state == CHILD_GONE)
		session_kill(s); /* providers have nobody to work for */
}

void
session_check_worker(struct session *s)
{
	const struct child *w = s->worker;
	bool streams_open = w->out.fd >= 0 || w->err.fd >= 0;
	bool quiet = w->link == NULL && !streams_open;

	if (!w->linked && w->state != CHILD_GONE)
		return;
	if (w->state == CHILD_GONE && quiet)
		session_worker_over(s);
	else if (s->half_at_ms == 0 &&
	    (w->state == CHILD_GONE || (speaks(s) && w->link == NULL)))
		s->half_at_ms = s->broker->now_ms + EXIT_HALF_MS;
}

/* Open, and not read until the client's queue is short again. */
static bool
is_held(const struct pipe *p)
{
	return p->event != NULL && !event_pending(p->event, EV_READ, NULL);
}

void
session_streams_moved(struct session *s)
{
	if (s->half_at_ms == 0 || s->worker->state != CHILD_GONE)
		return;
	s->half_at_ms = s->broker->now_ms + EXIT_HALF_MS;
	session_arm(s);
}

static void
session_half_passed(struct session *s)
{
	struct child *w = s->worker;

	/* A client that reads slowly is no reason to lose what the worker wrote. */
	if (w->state == CHILD_GONE && !s->operation->ended &&
	    (is_held(&w->out) || is_held(&w->err))) {
		session_streams_moved(s);
		return;
	}
	/* Whoever holds a stream of a tree that is gone is not this worker. */
	if (w->state == CHILD_GONE) {
		pipe_close(&w->out);
		pipe_close(&w->err);
		link_close(w->link);
	}
	session_worker_over(s);
}

static void
session_on_alarm(void *arg)
{
	struct session *s = arg;
	struct operation *op = s->operation;
	uint64_t now;

	broker_tick(s->broker);
	now = s->broker->now_ms;
	if (!op->ended && op->turn != NULL && op->turn->drain_at_ms != 0 &&
	    now >= op->turn->drain_at_ms) {
		op->turn->drain_at_ms = 0;
		turn_drain(op, false);
	}
	if (!op->ended && op->deadline_at_ms != 0 && now >= op->deadline_at_ms)
		operation_end(op,
		    op->turn != NULL && op->turn->outage ? ENDING_audit_unavailable
							  : ENDING_deadline);
	if (s->half_at_ms != 0 && now >= s->half_at_ms)
		session_half_passed(s);
	if (s->closing && s->kill_at_ms != 0 && now >= s->kill_at_ms)
		session_kill(s);
	if (session_is_over(s))
		session_destroy(s);
	else
		session_arm(s);
}

static void
earlier(uint64_t *at, uint64_t candidate)
{
	if (candidate != 0 && (*at == 0 || candidate < *at))
		*at = candidate;
}

void
session_arm(struct session *s)
{
	const struct operation *op = s->operation;
	uint64_t at = 0;

	if (session_is_over(s))
		at = s->broker->now_ms;
	if (!op->ended) {
		earlier(&at, op->deadline_at_ms);
		if (op->turn != NULL)
			earlier(&at, op->turn->drain_at_ms);
	}
	earlier(&at, s->half_at_ms);
	earlier(&at, s->kill_at_ms);
	if (at == 0)
		alarm_clear(&s->alarm);
	else
		alarm_set(s->broker->alarms, &s->alarm, at);
}

void
session_flow(struct session *s)
{
	struct operation *op = s->operation;
	struct link *l = s->worker->link;
	bool full = op->ncalls >= SESSION_CALLS_MAX || op->call_bytes >= SESSION_BYTES_MAX;
	/* What a dead worker left in its socket is little, and waits for nobody. */
	bool ahead = !op->ended && s->worker->state != CHILD_GONE && !operation_may_output(op);

	if (l == NULL)
		return;
	if (ahead && op->client != NULL)
		link_watch(op->client->link, OUTPUT_QUEUE_MAX / 2);
	if ((full || ahead) == op->paused)
		return;
	op->paused = full || ahead;
	if (op->paused)
		link_pause(l);
	else
		link_resume(l);
}

struct session *
session_create(struct broker *b, struct operation *op)
{
	struct session *s = calloc(1, sizeof *s);
	size_t n = op->config->nproviders;

	if (s == NULL)
		return NULL;
	s->broker = b;
	s->id = b->next_session++;
	s->operation = op;
	s->alarm = (struct alarm){ .fn = session_on_alarm, .arg = s };
	s->providers = calloc(n + 1, sizeof *s->providers);
	s->lanes = calloc(n + 1, sizeof *s->lanes);
	s->worker = worker_create(s);
	if (s->worker != NULL && s->providers != NULL && s->lanes != NULL)
		s->shared = shared_join(b, op->config);
	if (s->shared == NULL) {
		worker_destroy(s->worker);
		free(s->providers);
		free(s->lanes);
		free(s);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		provider_init(&s->providers[i], b, op->config, (uint32_t)i);
		s->providers[i].session = s;
		s->providers[i].number = s->id;
		s->providers[i].workspace = s->worker->workspace;
		lane_init(&s->lanes[i]);
	}
	TAILQ_INSERT_TAIL(&b->sessions, s, link);
	RB_INSERT(session_tree, &b->session_tree, s);
	b->nsessions += op->sandbox == NULL;
	return s;
}

void
session_start(struct session *s)
{
	struct turn *t = s->operation->turn;
	enum rest rest = rest_give(s);

	if (rest == REST_LEAVES)
		return; /* and this comes again once it has left */
	STOP_POINT("broker.before_spawn");
	if (rest == REST_GIVEN) {
		turn_run(s->operation);
	} else {
		RB_INSERT(worker_tree, &s->broker->workers, s->worker);
		child_ask(s->worker);
	}
	for (size_t i = 0; t != NULL && i < t->ncatalogue; i++)
		if (!t->catalogue[i]->own)
			provider_need(provider_of(s, t->catalogue[i]->provider));
	STOP_POINT("broker.spawn_asked");
	session_arm(s);
}

void
session_close(struct session *s, uint64_t grace_ms)
{
	struct operation *op = s->operation;
	uint64_t at = s->broker->now_ms + grace_ms;
	struct msg_operation_abort abort = { .operation = slice_of(op->id) };
	struct control term = { .verb = CONTROL_SIGNAL, .kind = s->worker->kind,
		.session = s->worker->number, .index = s->worker->index, .error = 15,
		.generation = op->config->generation };

	session_flow(s);
	if (!s->closing) {
		bool success = op->ending == ENDING_completed || op->ending == ENDING_failed;

		s->closing = true;
		/* Providers have nobody to work for where the worker only waits. */
		s->kill_at_ms = rest_keep(s) ? s->broker->now_ms : at;
		if (s->worker->link != NULL && success) {
			link_close_drained(s->worker->link, (int)grace_ms);
		} else if (s->worker->link != NULL) { /* only now is an abort sent (D-8) */
			abort.cause = slice_of(ending_desc(op->ending)->cause);
			link_notify(s->worker->link, MSG_operation_abort, &abort);
		} else if (op->kind == operation_kind_command && grace_ms > 0 &&
		    s->worker->state == CHILD_RUNNING) {
			control_tell(s->broker, &term);
		}
	} else if (s->kill_at_ms != 0 && at < s->kill_at_ms) {
		s->kill_at_ms = at;
	}
	if (s->kill_at_ms != 0 && s->kill_at_ms <= s->broker->now_ms)
		session_kill(s);
	session_check_worker(s);
	session_arm(s);
}

void
session_on_stream_end(struct child *c)
{
	if (c->session == NULL || child_serves(c))
		return;
	session_check_worker(c->session);
	session_arm(c->session);
}
