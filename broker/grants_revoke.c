#include "broker/grants_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/call.h"
#include "broker/client.h"
#include "broker/escalations.h"
#include "broker/grants.h"
#include "broker/operation.h"
#include "broker/place.h"
#include "broker/record.h"
#include "broker/session.h"
#include "broker/shared.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/walk.h"

/*
 * grant.revoke: it counts at once, as it only takes away; then come the record and, once that
 * is durable, the answer (D-7).  A record that cannot be written is written as soon as one can
 * be: until then who waits is told that it holds in this broker only.
 */

#define DISPATCHED_MAX (512u << 10) /* bytes of calls that an answer names */

struct waiter {
	struct client *client; /* NULL: it is gone */
	uint32_t msgid;
	bool already;
	struct buf dispatched; /* elements */
	uint32_t ndispatched, omitted;
	STAILQ_ENTRY(waiter) link; /* revoking.waiters */
};

/* Lives until its record is durable. */
struct revoking {
	struct broker *broker;
	struct grant_fact *fact;
	struct asker by;
	const char *cause; /* NULL: somebody asked for it */
	char escalation[ESCALATION_ID]; /* that it reopens; "": none */
	bool refused; /* its record was, and is to be written again */
	STAILQ_HEAD(, waiter) waiters;
	TAILQ_ENTRY(revoking) link; /* broker.revocations */
};

/* ---- what runs under it --------------------------------------------------------------- */

static void
name_call(
    struct waiter *w, const char *operation, const char *call, const char *tool)
{
	if (w->dispatched.n > DISPATCHED_MAX) {
		w->omitted++;
		return;
	}
	pack_map(&w->dispatched, 3);
	pack_str(&w->dispatched, "operation");
	pack_str(&w->dispatched, operation);
	pack_str(&w->dispatched, "call");
	pack_str(&w->dispatched, call);
	pack_str(&w->dispatched, "tool");
	pack_str(&w->dispatched, tool);
	w->ndispatched++;
}

/* Whose operation is over, and still nobody knows what becomes of it. */
static void
name_late(struct waiter *w, const struct child *p, const struct grant *g)
{
	const struct late *l;

	TAILQ_FOREACH (l, &p->late, entry)
		if (grant_set_within(p->broker->grant_set, l->grant, g))
			name_call(w, l->operation, l->call, l->tool);
}

static void
name_calls_of(struct waiter *w, const struct session *s, const struct grant *g)
{
	const struct config *config = s->operation->config;
	const struct call *c;

	TAILQ_FOREACH (c, &s->operation->calls, link)
		if (c->state == CALL_DISPATCHED &&
		    grant_set_within(s->broker->grant_set, c->grant, g))
			name_call(w, c->operation->id, c->id, c->tool->name);
	for (size_t i = 0; s->providers != NULL && i < config->nproviders; i++)
		name_late(w, &s->providers[i], g);
}

/* ---- answers -------------------------------------------------------------------------- */

static void
waiter_destroy(struct waiter *w)
{
	buf_finish(&w->dispatched);
	free(w);
}

static void
waiter_answer(struct waiter *w, uint64_t at_ms)
{
	struct msg_grant_revoke_reply reply = { .at = at_ms, .already = w->already,
		.omitted = w->omitted };
	struct buf list = { 0 };

	pack_array(&list, w->ndispatched);
	pack_raw(&list, buf_slice(&w->dispatched));
	reply.dispatched = buf_slice(&list);
	if (list.failed || w->dispatched.failed)
		grants_refuse_errno(w->client, w->msgid, -ENOMEM);
	else if (w->client != NULL)
		link_reply(w->client->link, MSG_grant_revoke_reply, w->msgid, &reply);
	buf_finish(&list);
}

static void
revoking_destroy(struct revoking *r)
{
	asker_forget(r->broker, &r->by);
	free(r);
}

/* Each gets its answer: durable, or not yet. */
static void
answer_all(struct revoking *r, bool durable)
{
	struct waiter *w;

	while ((w = STAILQ_FIRST(&r->waiters)) != NULL) {
		STAILQ_REMOVE_HEAD(&r->waiters, link);
		if (durable)
			waiter_answer(w, r->fact->revoked_at_ms);
		else
			grants_refuse(w->client, w->msgid, "audit_unavailable", true,
			    "it is revoked in this broker, but the journal cannot be written: "
			    "should the broker end before it can, it is not; ask again");
		waiter_destroy(w);
	}
}

/* ---- the record ----------------------------------------------------------------------- */

static void
revoking_on_record(void *arg, bool ok)
{
	struct revoking *r = arg;

	STOP_POINT("broker.revoke_durable");
	answer_all(r, ok);
	r->refused = !ok;
	if (!ok)
		return;
	r->fact->open = NULL;
	TAILQ_REMOVE(&r->broker->revocations, r, link);
	revoking_destroy(r);
}

static bool
in_outage(const struct broker *b)
{
	return journal_holds(b->journal) && !journal_available(b->journal);
}

/* As the release of a use: kept through an outage, and written first when it is over. */
static void
revoking_record(struct revoking *r)
{
	const struct grant *g = grant_set_find(
	    r->broker->grant_set, r->fact->id, strlen(r->fact->id));
	struct record record;
	int ret;

	record_init(&record, r->broker, NULL, "grant.revoked");
	record.m.at = r->fact->revoked_at_ms;
	RECORD_TEXT(&record.m, grant, r->fact->id);
	if (g != NULL)
		RECORD_TEXT(&record.m, subject, g->subject);
	asker_record(&record.m, &r->by);
	if (r->cause != NULL)
		RECORD_TEXT(&record.m, cause, r->cause);
	if (r->escalation[0] != '\0')
		RECORD_TEXT(&record.m, escalation, r->escalation);
	ret = record_append(&record, JOURNAL_RELEASE, revoking_on_record, r);
	r->refused = ret < 0;
	if (ret < 0)
		log_error("the revocation of grant %s is not on record: %s", r->fact->id,
		    strerror(-ret));
	STOP_POINT("broker.revoke_recorded");
	if (ret < 0 || in_outage(r->broker))
		answer_all(r, false);
}

void
grants_on_journal(struct broker *b)
{
	struct revoking *r, *next;

	TAILQ_FOREACH_SAFE (r, &b->revocations, link, next) {
		if (r->refused && journal_available(b->journal))
			revoking_record(r);
		else if (in_outage(b))
			answer_all(r, false);
	}
}

static struct revoking *
revoking_create(
    struct broker *b, struct grant_fact *f, const struct asker *by, const char *cause)
{
	struct revoking *r = calloc(1, sizeof *r);

	if (r == NULL)
		return NULL;
	*r = (struct revoking){ .broker = b, .fact = f, .by = asker_copy(by),
		.cause = cause, .refused = true };
	STAILQ_INIT(&r->waiters);
	TAILQ_INSERT_TAIL(&b->revocations, r, link);
	f->open = r;
	return r;
}

void
grants_take_back(
    struct broker *b, struct grant_fact *f, const struct asker *by, const char *escalation)
{
	struct revoking *r = revoking_create(b, f, by, "not_issued");

	f->reserved = false;
	f->revoked_at_ms = clock_wall_ms();
	if (r != NULL) {
		memcpy(r->escalation, escalation, sizeof r->escalation);
		revoking_record(r);
	} else {
		log_error("grant %s was refused and may stand in the record: revoke it after "
			  "the next start", f->id);
	}
}

/* ---- the request ---------------------------------------------------------------------- */

void
grants_revoke(struct client *c, uint32_t msgid, const struct msg_grant_revoke *m)
{
	struct broker *b = c->broker;
	struct grant *g =
	    grant_set_find(b->grant_set, (const char *)m->id.p, m->id.n);
	struct grant_fact *f = grants_fact(b->grants, m->id);
	struct waiter *w;
	const struct child *p;
	struct session *s;

	if (f != NULL && f->reserved) {
		grants_refuse(c, msgid, "unavailable", true,
		    "a grant of this id is being given, and is not on record yet: ask again");
		return;
	}
	if (g == NULL && (f == NULL || f->revoked_at_ms == 0)) {
		grants_refuse(c, msgid, "not_found", false,
		    "there is no grant of this id: caisson grant list has them");
		return;
	}
	w = calloc(1, sizeof *w);
	if (f == NULL)
		f = grants_fact_make(b->grants, m->id);
	if (w != NULL && f != NULL && f->revoked_at_ms == 0 &&
	    revoking_create(
		b, f, &(struct asker){ c->uid, c->principal }, NULL) == NULL)
		f = NULL;
	if (w == NULL || f == NULL) {
		grants_refuse_errno(c, msgid, -ENOMEM);
		free(w);
		return;
	}
	*w = (struct waiter){ .client = c, .msgid = msgid, .already = f->revoked_at_ms != 0 };
	if (!w->already) {
		f->revoked_at_ms = clock_wall_ms();
		grant_set_revoke(b->grant_set, g, f->revoked_at_ms);
	}
	if (g != NULL) {
		TAILQ_FOREACH (s, &b->sessions, link)
			name_calls_of(w, s, g);
		for (p = shared_next(b, NULL); p != NULL; p = shared_next(b, p))
			name_late(w, p, g);
	}
	if (f->open == NULL) {
		waiter_answer(w, f->revoked_at_ms);
		waiter_destroy(w);
		return;
	}
	STAILQ_INSERT_TAIL(&f->open->waiters, w, link);
	if (f->open->refused)
		revoking_record(f->open);
	else if (in_outage(b))
		answer_all(f->open, false);
}

void
grants_revoke_forget(struct client *c)
{
	struct revoking *r;
	struct waiter *w;

	TAILQ_FOREACH (r, &c->broker->revocations, link)
		STAILQ_FOREACH (w, &r->waiters, link)
			if (w->client == c)
				w->client = NULL;
}

void
grants_revoke_finish(struct broker *b)
{
	struct revoking *r;
	struct waiter *w;

	while ((r = TAILQ_FIRST(&b->revocations)) != NULL) {
		TAILQ_REMOVE(&b->revocations, r, link);
		while ((w = STAILQ_FIRST(&r->waiters)) != NULL) {
			STAILQ_REMOVE_HEAD(&r->waiters, link);
			waiter_destroy(w);
		}
		revoking_destroy(r);
	}
}
