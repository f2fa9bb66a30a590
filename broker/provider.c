#include "broker/provider.h"

#include <errno.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/call.h"
#include "broker/child.h"
#include "broker/operation.h"
#include "broker/place.h"
#include "broker/session.h"
#include "broker/session_private.h"
#include "broker/shared.h"
#include "common/link.h"
#include "common/log.h"
#include "common/util.h"

/*
 * The process of a provider.  A session's own lives and dies with it; a shared one is the
 * namespace's: made when the first session needs it, made again after a pause when it has
 * died, ended when the broker ends.
 */

#define PAUSE_FIRST_MS 100 /* before a shared one is made again; doubles from death to death */
#define PAUSE_LAST_MS  5000
#define STEADY_MS      10000 /* who has lived for so long begins with a short pause again */
#define HELLO_MS       30000 /* a shared one that has said no hello by then is not waited for */
#define STOP_MS	       500 /* at the end: to answer, then to go of itself */

static const struct link_handler provider_handler;

static bool
is_shared(const struct child *p)
{
	return p->session == NULL;
}

static const char *
provider_id(const struct child *p)
{
	return child_provider(p)->id;
}

/* ---- its alarm ------------------------------------------------------------------------ */

static void
earlier(uint64_t *at, uint64_t candidate)
{
	if (candidate != 0 && (*at == 0 || candidate < *at))
		*at = candidate;
}

void
provider_arm(struct child *p)
{
	uint64_t at = p->half_at_ms;

	if (is_shared(p)) {
		if (p->wanted)
			earlier(&at, p->again_at_ms);
		earlier(&at, p->hello_by_ms);
		earlier(&at, p->stop_at_ms);
		earlier(&at, place_lost_at(p));
		if (shared_is_left(p))
			at = p->broker->now_ms;
	} else {
		session_arm(p->session);
	}
	if (at == 0)
		alarm_clear(&p->alarm);
	else
		alarm_set(p->broker->alarms, &p->alarm, at);
}

/* All that is left of it is lost, and nobody else gets a place: what D-9 does to a session's
 * own happens to it, as it hits no call that anybody waits for. */
static void
end_if_lost(struct child *p)
{
	if (p->lost == 0 || p->lost < p->running || place_is_left(p) || p->killed)
		return;
	log_id("provider", provider_id(p));
	log_warn(
	    "provider %s: every place that it has left is lost: it is ended", provider_id(p));
	child_kill(p);
}

static bool
is_due(uint64_t *at_ms, uint64_t now)
{
	bool due = *at_ms != 0 && now >= *at_ms;

	if (due)
		*at_ms = 0;
	return due;
}

static void
shared_on_alarm(struct child *p)
{
	uint64_t now = p->broker->now_ms;

	if (p->wanted && now >= p->again_at_ms) {
		p->wanted = false;
		provider_need(p);
	}
	if (is_due(&p->hello_by_ms, now)) {
		log_id("provider", provider_id(p));
		log_warn("provider %s has said nothing for %d s: it is ended", provider_id(p),
		    HELLO_MS / 1000);
		child_kill(p);
	}
	place_count_lost(p);
	end_if_lost(p);
	if (is_due(&p->stop_at_ms, now))
		child_kill(p);
}

static void
provider_on_alarm(void *arg)
{
	struct child *p = arg;

	broker_tick(p->broker);
	if (is_shared(p) && shared_is_left(p)) {
		shared_reap(p);
		return;
	}
	if (is_due(&p->half_at_ms, p->broker->now_ms))
		child_kill(p); /* without a link it can do nothing more */
	if (is_shared(p))
		shared_on_alarm(p);
	provider_arm(p);
}

/* ---- births --------------------------------------------------------------------------- */

struct child *
provider_of(struct session *s, uint32_t index)
{
	return s->operation->config->providers[index].shared ? shared_provider(s->shared, index)
							      : &s->providers[index];
}

bool
provider_need(struct child *p)
{
	if (p->state == CHILD_ASKED || p->state == CHILD_RUNNING)
		return true;
	if (is_shared(p)) {
		if (p->broker->shutting_down || p->stop_at_ms != 0)
			return false;
		if (p->link != NULL || p->broker->now_ms < p->again_at_ms) {
			p->wanted = true;
			provider_arm(p);
			return true;
		}
	} else if (p->session->closing || p->starts >= PROVIDER_STARTS_MAX || p->link != NULL) {
		return false;
	}
	p->starts++;
	p->wanted = false;
	child_ask(p);
	return true;
}

int
provider_take_link(struct child *p, int fd)
{
	p->link = link_open(
	    p->broker->base, fd, ROLE_BROKER, ROLE_PROVIDER, &provider_handler, p);
	if (p->link == NULL)
		return -ENOMEM;
	p->born_at_ms = p->broker->now_ms;
	if (is_shared(p)) {
		p->hello_by_ms = p->broker->now_ms + HELLO_MS;
		provider_arm(p);
	}
	return 0;
}

/* ---- deaths --------------------------------------------------------------------------- */

static void
provider_pause(struct child *p)
{
	uint64_t now = p->broker->now_ms;

	if (now - p->born_at_ms >= STEADY_MS || p->pause_ms == 0)
		p->pause_ms = PAUSE_FIRST_MS;
	else
		p->pause_ms *= 2;
	if (p->pause_ms > PAUSE_LAST_MS)
		p->pause_ms = PAUSE_LAST_MS;
	p->again_at_ms = now + p->pause_ms;
}

static void
provider_gone(struct child *p, bool for_good)
{
	pipe_drain(p);
	pipe_close(&p->err);
	link_close(p->link);
	p->hello_by_ms = p->stop_at_ms = p->half_at_ms = 0;
	if (is_shared(p))
		provider_pause(p);
	/* Of a shared one that does not come to its hello, the next call may find another. */
	call_on_provider_gone(
	    p, for_good || (is_shared(p) && p->starts >= PROVIDER_STARTS_MAX));
	provider_arm(p);
	if (is_shared(p))
		broker_check_settled(p->broker);
}

void
provider_on_refused(struct child *p, const struct control *c)
{
	if (is_shared(p) ? !p->broker->shutting_down : !p->session->closing) {
		log_id("provider", provider_id(p));
		log_warn("provider %s cannot be started: %s: %s", provider_id(p),
		    layer_name(c->layer), strerror(c->error));
	}
	p->starts = PROVIDER_STARTS_MAX; /* it would be refused again */
	p->born_at_ms = p->broker->now_ms;
	provider_gone(p, true);
}

void
provider_on_exit(struct child *p, const struct control *c)
{
	if (is_shared(p) ? !p->broker->shutting_down && p->stop_at_ms == 0
			 : !p->session->closing) {
		log_id("provider", provider_id(p));
		log_warn("provider %s has died (%s %d)", provider_id(p),
		    c->exit.kind == EXIT_SIGNALED ? "signal" : "status", c->exit.status);
	}
	/* Answers that it wrote before its end are read first: see its link's end. */
	if (p->link == NULL)
		provider_gone(p, false);
}

/* ---- its link ------------------------------------------------------------------------- */

/* At the end a shared one is left as soon as nothing comes from it any more. */
static void
leave(struct child *p)
{
	if (p->stop_at_ms != 0 && p->running == p->lost && p->link != NULL)
		link_close(p->link);
}

static void
provider_on_message(struct link *l, const struct message *m, void *arg)
{
	struct child *p = arg;

	(void)l;
	broker_tick(p->broker);
	p->hello_by_ms = 0;
	if (m->type == MSG_tool_call_reply)
		call_on_result(p, m);
	else if (is_shared(p))
		p->starts = 0;
	call_pump(p); /* after hello, and after each answer */
	leave(p);
}

static void
provider_on_end(
    struct link *l, enum link_end end, const struct fault *fault, int error, void *arg)
{
	struct child *p = arg;

	(void)l;
	(void)error;
	broker_tick(p->broker);
	p->link = NULL;
	if (end == LINK_END_FAULT)
		log_warn("provider %s broke the protocol: %s", provider_id(p), fault->rule);
	if (p->state == CHILD_GONE)
		provider_gone(p, false);
	else if (end != LINK_END_EOF && end != LINK_END_CLOSED)
		child_kill(p);
	else if (p->stop_at_ms == 0) /* how it ended is its own to say, if it has */
		p->half_at_ms = p->broker->now_ms + EXIT_HALF_MS;
	provider_arm(p);
}

static void
provider_on_drained(struct link *l, void *arg)
{
	(void)l;
	call_pump(arg);
}

static const struct link_handler provider_handler = {
	.on_message = provider_on_message,
	.on_end = provider_on_end,
	.on_drained = provider_on_drained,
};

/* ---- its record ----------------------------------------------------------------------- */

void
provider_init(struct child *p, struct broker *b, struct config *config, uint32_t index)
{
	child_init(p, b, config, CHILD_PROVIDER, index);
	p->alarm = (struct alarm){ .fn = provider_on_alarm, .arg = p };
}

void
provider_finish(struct child *p)
{
	pipe_close(&p->err);
	place_forget_late(p);
	alarm_clear(&p->alarm);
}

void
provider_stop(struct child *p)
{
	if (child_is_gone(p) || p->stop_at_ms != 0 || p->killed)
		return;
	p->stop_at_ms = p->broker->now_ms + STOP_MS;
	p->wanted = false;
	leave(p);
	provider_arm(p);
}

void
provider_orphan(struct child *p)
{
	child_orphan(p);
	p->stop_at_ms = p->hello_by_ms = p->half_at_ms = 0;
	p->wanted = false;
	provider_arm(p);
}
