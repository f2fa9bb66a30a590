#include "broker/workspace_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/operation.h"
#include "broker/sandbox.h"
#include "broker/session_private.h"
#include "common/log.h"
#include "common/util.h"
#include "common/walk.h"

/* The child that serves a workspace: its births, its link, its end. */

#define IDLE_MS	   10000 /* without a request, then it is told to go */
#define LEAVE_MS   500	 /* to go of itself */
#define ANSWER_MS  30000 /* for one that reads; a change has its operation's deadline */
#define STARTS_MAX 4	 /* without a hello, then what waits fails */

static const struct link_handler workspace_handler;

static int
child_compare(const struct workspace *a, const struct workspace *b)
{
	return a->child.number < b->child.number ? -1 : a->child.number > b->child.number;
}

TREE_GENERATE(workspace_tree, workspace, by_number, child_compare)

struct child *
workspace_find(struct broker *b, uint64_t number)
{
	struct workspace key = { .child.number = number };
	struct workspace *w = RB_FIND(workspace_tree, &b->workspaces, &key);

	return w != NULL ? &w->child : NULL;
}

static struct workspace *
workspace_of(struct child *c)
{
	return (struct workspace *)(void *)((char *)c - offsetof(struct workspace, child));
}

/* ---- its alarm ------------------------------------------------------------------------ */

static void
earlier(uint64_t *at, uint64_t candidate)
{
	if (candidate != 0 && (*at == 0 || candidate < *at))
		*at = candidate;
}

static void
workspace_arm(struct workspace *w)
{
	const struct request *r = TAILQ_FIRST(&w->sent); /* the oldest */
	uint64_t at = w->kill_at_ms;

	if (w->alive) {
		earlier(&at, w->idle_at_ms);
		if (r != NULL && r->op == NULL)
			earlier(&at, r->sent_at_ms + ANSWER_MS);
	}
	if (at == 0)
		alarm_clear(&w->alarm);
	else
		alarm_set(w->child.broker->alarms, &w->alarm, at);
}

/* Told to go: nothing more is sent to it. */
static void
leave(struct workspace *w)
{
	if (!w->alive || w->leaving)
		return;
	w->leaving = true;
	w->idle_at_ms = 0;
	if (w->child.link == NULL) {
		child_kill(&w->child);
		return;
	}
	link_close(w->child.link);
	w->kill_at_ms = w->child.broker->now_ms + LEAVE_MS;
}

static void
workspace_on_alarm(void *arg)
{
	struct workspace *w = arg;
	const struct request *r;
	uint64_t now;

	broker_tick(w->child.broker);
	now = w->child.broker->now_ms;
	r = TAILQ_FIRST(&w->sent);
	if (w->kill_at_ms != 0 && now >= w->kill_at_ms) {
		w->kill_at_ms = 0;
		child_kill(&w->child);
	}
	if (r != NULL && r->op == NULL && now >= r->sent_at_ms + ANSWER_MS) {
		log_warn("the workspace of %s does not answer: its child is ended",
		    w->sandbox->id);
		child_kill(&w->child);
	}
	if (w->idle_at_ms != 0 && now >= w->idle_at_ms)
		leave(w);
	workspace_arm(w);
}

/* ---- births --------------------------------------------------------------------------- */

struct workspace *
workspace_of_sandbox(struct sandbox *sb)
{
	struct workspace *w = sb->workspace;

	if (w != NULL)
		return w;
	w = calloc(1, sizeof *w);
	if (w == NULL)
		return NULL;
	child_init(&w->child, sb->broker, NULL, CHILD_WORKSPACE, 0);
	w->sandbox = sb;
	w->alarm = (struct alarm){ .fn = workspace_on_alarm, .arg = w };
	TAILQ_INIT(&w->waiting);
	TAILQ_INIT(&w->sent);
	sb->workspace = w;
	return w;
}

static void
workspace_need(struct workspace *w)
{
	struct broker *b = w->child.broker;

	if (w->alive)
		return;
	child_init(&w->child, b, config_hold(b->config), CHILD_WORKSPACE, 0);
	w->child.number = b->next_session++;
	w->child.workspace = w->sandbox->number;
	w->alive = true;
	w->leaving = false;
	w->starts++;
	RB_INSERT(workspace_tree, &b->workspaces, w);
	child_ask(&w->child);
}

/* Sends what waits, once it has said hello. */
static void
workspace_pump(struct workspace *w)
{
	struct request *r;

	w->idle_at_ms = 0;
	if (!w->leaving && w->child.link != NULL && w->greeted)
		while ((r = TAILQ_FIRST(&w->waiting)) != NULL)
			if (!request_send(w, r))
				break;
	if (TAILQ_EMPTY(&w->waiting) && TAILQ_EMPTY(&w->sent) && w->greeted)
		w->idle_at_ms = w->child.broker->now_ms + IDLE_MS;
	workspace_arm(w);
}

void
workspace_ask(struct workspace *w)
{
	workspace_need(w);
	workspace_pump(w);
}

/* ---- deaths --------------------------------------------------------------------------- */

/* What it took and did not answer may have happened; what waits is for the next one. */
static void
workspace_gone(struct workspace *w)
{
	struct broker *b = w->child.broker;
	/* Freed with the last that began under it. */
	struct config *config = (struct config *)(uintptr_t)w->child.config;

	if (!w->alive)
		return;
	pipe_drain(&w->child);
	pipe_close(&w->child.err);
	RB_REMOVE(workspace_tree, &b->workspaces, w);
	w->alive = w->greeted = false;
	w->kill_at_ms = w->idle_at_ms = 0;
	w->child.config = NULL;
	requests_fail(&w->sent, true);
	if (w->stopping || w->starts >= STARTS_MAX) {
		requests_fail(&w->waiting, false);
		w->starts = 0;
	} else if (!TAILQ_EMPTY(&w->waiting)) {
		workspace_need(w);
	}
	workspace_arm(w);
	reload_release(b, config);
	sandbox_check(w->sandbox);
	broker_check_settled(b);
}

void
workspace_on_refused(struct child *c, const struct control *m)
{
	struct workspace *w = workspace_of(c);

	if (!w->leaving && !w->stopping) /* else it was refused because we were done with it */
		log_warn("nobody can serve the workspace of %s: %s: %s", w->sandbox->id,
		    layer_name(m->layer), strerror(m->error));
	w->starts = STARTS_MAX; /* it would be refused again */
	if (c->link != NULL)
		link_close(c->link);
	else
		workspace_gone(w);
}

void
workspace_on_exit(struct child *c, const struct control *m)
{
	struct workspace *w = workspace_of(c);

	if (!w->leaving && !w->stopping)
		log_warn("who serves the workspace of %s has died (%s %d)", w->sandbox->id,
		    m->exit.kind == EXIT_SIGNALED ? "signal" : "status", m->exit.status);
	/* Answers that it wrote before its end are read first. */
	if (c->link == NULL)
		workspace_gone(w);
}

void
workspace_orphan(struct workspace *w)
{
	if (w == NULL || !w->alive)
		return;
	w->stopping = true;
	child_orphan(&w->child);
	if (w->child.link == NULL)
		workspace_gone(w);
}

bool
workspace_is_gone(const struct workspace *w)
{
	return w == NULL || !w->alive;
}

bool
workspace_stop(struct workspace *w)
{
	if (w == NULL)
		return true;
	if (!w->stopping) {
		w->stopping = true;
		requests_fail_reads(w);
		leave(w);
		workspace_arm(w);
	}
	return !w->alive;
}

void
workspace_destroy(struct workspace *w)
{
	struct broker *b;

	if (w == NULL)
		return;
	b = w->child.broker;
	requests_forget(w);
	alarm_clear(&w->alarm);
	if (w->alive) { /* behind the loop only */
		RB_REMOVE(workspace_tree, &b->workspaces, w);
		pipe_close(&w->child.err);
	}
	free(w);
}

void
workspace_on_ended(struct operation *op, uint64_t kill_at_ms)
{
	struct workspace *w = op->sandbox->workspace;

	if (!op->at_work || !request_withdraw(w, op))
		return;
	/* It is in the middle of it: the next operation waits for that, not for long. */
	earlier(&w->kill_at_ms, kill_at_ms);
	workspace_arm(w);
}

/* ---- its link ------------------------------------------------------------------------- */

int
workspace_take_link(struct child *c, int fd)
{
	c->link = link_open(
	    c->broker->base, fd, ROLE_BROKER, ROLE_PROVIDER, &workspace_handler, c);
	return c->link != NULL ? 0 : -ENOMEM;
}

static void
workspace_on_message(struct link *l, const struct message *m, void *arg)
{
	struct workspace *w = workspace_of(arg);

	broker_tick(w->child.broker);
	if (m->type == MSG_hello) {
		w->greeted = true;
		w->starts = 0;
	} else if (m->type == MSG_tool_call_reply) {
		if (!request_answer(w, m))
			link_fault(l, "answer to another call");
		if (!w->leaving)
			w->kill_at_ms = 0; /* it is done with what was given up */
	}
	workspace_pump(w);
}

static void
workspace_on_end(
    struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct child *c = arg;
	struct workspace *w = workspace_of(c);

	(void)l;
	(void)error;
	broker_tick(c->broker);
	c->link = NULL;
	w->greeted = false;
	if (end == LINK_END_FAULT)
		log_warn("who serves the workspace of %s broke the protocol: %s",
		    w->sandbox->id, fault->rule);
	if (c->state == CHILD_GONE) {
		workspace_gone(w);
		return;
	}
	if (end != LINK_END_EOF && end != LINK_END_CLOSED)
		child_kill(c);
	earlier(&w->kill_at_ms, c->broker->now_ms + EXIT_HALF_MS);
	w->leaving = true;
	workspace_arm(w);
}

static const struct link_handler workspace_handler = {
	.on_message = workspace_on_message,
	.on_end = workspace_on_end,
};
