#include "broker/grants_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "broker/authority/chain.h"
#include "broker/broker.h"
#include "broker/client.h"
#include "broker/grant_wire.h"
#include "broker/grants.h"
#include "broker/judge.h"
#include "common/clock.h"
#include "common/util.h"
#include "common/walk.h"

/*
 * grant.list and grant.why: they read, and change nothing.  And which request of an operator's
 * goes where.
 */

#define PAGE_MAX    (512u << 10)	/* bytes of grants, but for the last of them */
#define PAGE_NODES  PAYLOAD_NODES_MAX	/* values in them, likewise */
#define PAGE_LOOKED 65536		/* grants looked at for one page */

void
grants_refuse(struct client *c, uint32_t msgid, const char *code, bool retryable,
    const char *format, ...)
{
	char text[640];
	va_list args;

	if (c == NULL)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	link_refuse(c->link, msgid, code, text, retryable);
}

void
grants_refuse_errno(struct client *c, uint32_t msgid, int error)
{
	static const struct {
		int error;
		const char *code, *text;
		bool retryable;
	} rows[] = {
		{ -ENOMEM, "resource_exhausted", "out of memory", true },
		{ -ENOSPC, "resource_exhausted",
		    "the namespace has as many grants as it may have", false },
		{ -ERANGE, "invalid_argument",
		    "the grant is larger than a record may be, 64 KiB: give several", false },
	};
	size_t i = 0;

	while (i < countof(rows) && rows[i].error != error)
		i++;
	if (i < countof(rows))
		grants_refuse(
		    c, msgid, rows[i].code, rows[i].retryable, "%s", rows[i].text);
	else /* whoever asks is answered, whatever it was */
		grants_refuse(c, msgid, "internal", false, "%s", strerror(-error));
}

/* ---- list ----------------------------------------------------------------------------- */

/* Of the grant, and where that is sound: why it can allow nothing in this namespace. */
static const char *
state_of(const struct broker *b, const struct grant *g, uint64_t now_ms)
{
	const char *state = grant_state(g, now_ms);
	bool active = strcmp(state, "active") == 0;

	if (!active && strcmp(state, "pending") != 0)
		return state;
	if (strcmp(g->issuer, b->config->authority) != 0 ||
	    strcmp(g->namespace, b->config->namespace) != 0)
		return "foreign";
	if (active && authority_chain_fault(b->grant_set, g, now_ms) != CHAIN_ok)
		return "orphaned";
	return state;
}

void
grants_pack(const struct broker *b, const struct grant *g, uint64_t now_ms, struct buf *out)
{
	struct grant_facts facts = {
		.origin = grants_issued(b->grants, g) ? "record" : "configuration",
		.state = state_of(b, g, now_ms),
	};

	grant_pack(out, g, &facts);
}

/* How many values the packed grant behind `before` is. */
static uint32_t
nodes_of(const struct buf *b, size_t before)
{
	uint32_t nodes = 0;
	unsigned depth;

	if (!b->failed)
		value_measure((struct slice){ b->p + before, b->n - before }, &depth, &nodes);
	return nodes;
}

static void
list(struct client *c, uint32_t msgid, const struct msg_grant_list *m)
{
	const struct broker *b = c->broker;
	struct msg_grant_list_reply reply = { 0 };
	struct buf items = { 0 }, all = { 0 };
	size_t i = m->cursor, count = grants_count(b->grants, b->config), looked = 0, before;
	uint64_t now_ms = clock_wall_ms();
	uint32_t n = 0, nodes = 0;

	for (; i < count && n < m->limit && items.n < PAGE_MAX && nodes < PAGE_NODES &&
	     looked < PAGE_LOOKED; i++, looked++) {
		const struct grant *g = grants_at(b->grants, b->config, i);

		if (g == NULL || (m->has_subject && !slice_is(m->subject, g->subject)))
			continue;
		before = items.n;
		grants_pack(b, g, now_ms, &items);
		nodes += nodes_of(&items, before);
		n++;
	}
	pack_array(&all, n);
	pack_raw(&all, buf_slice(&items));
	reply.grants = buf_slice(&all);
	reply.next = i < count ? i : 0;
	if (items.failed || all.failed)
		grants_refuse_errno(c, msgid, -ENOMEM);
	else
		link_reply(c->link, MSG_grant_list_reply, msgid, &reply);
	buf_finish(&items);
	buf_finish(&all);
}

static void
handle_list(struct client *c, const struct message *m)
{
	if (m->u.grant_list.limit == 0)
		grants_refuse(c, m->msgid, "invalid_argument", false, "limit: is 0");
	else
		list(c, m->msgid, &m->u.grant_list);
}

/* ---- why ------------------------------------------------------------------------------ */

/* An optional member of a reply. */
#define SAY(reply, field, text) ((reply)->has_##field = true, (reply)->field = slice_of(text))

static void
why_decided(struct msg_grant_why_reply *r, const struct judgement *j)
{
	const struct decision *d = &j->decision;
	const struct grant *closest = d->grant != NULL ? d->grant : d->closest;
	const char *detail = decision_detail(d);

	if (r->allowed)
		SAY(r, grant, d->grant->id);
	else if (closest != NULL)
		SAY(r, closest, closest->id);
	if (detail != NULL)
		SAY(r, detail, detail);
}

static void
why_judged(struct msg_grant_why_reply *r, const struct judgement *j)
{
	r->allowed = j->status == call_status_succeeded;
	r->code = slice_of(j->code);
	if (j->need.path.n > 0) {
		SAY(r, action, j->need.requirement.action);
		SAY(r, resource, j->need.requirement.namespace);
		r->has_path = true;
		r->path = buf_slice(&j->need.path);
	}
	if (j->decided)
		why_decided(r, j);
	else if (j->why[0] != '\0')
		SAY(r, detail, j->why);
}

static void
why(struct client *c, uint32_t msgid, const struct msg_grant_why *m, const char *subject,
    const char *purpose)
{
	const struct broker *b = c->broker;
	struct context ctx = {
		.actor = subject,
		.authority = b->config->authority,
		.owner = b->config->owner,
		.namespace = b->config->namespace,
		.purpose = purpose,
		.admitted_at_ms = clock_wall_ms(),
		.revision = grant_set_revision(b->grant_set),
	};
	struct msg_grant_why_reply reply = { 0 };
	struct decision admission;
	struct judgement j;
	const char *cause;

	judge_beforehand(b->config, b->grant_set, b->digest, &ctx, m->tool, m->arguments,
	    ctx.admitted_at_ms, &j, &cause);
	why_judged(&reply, &j);
	if (cause != NULL)
		SAY(&reply, cause, cause);
	if (strncmp(subject, "agent:", 6) == 0) {
		admission =
		    judge_admission(b->grant_set, &ctx, subject + 6, ctx.admitted_at_ms);
		SAY(&reply, admission, verdict_name(admission.verdict));
	}
	link_reply(c->link, MSG_grant_why_reply, msgid, &reply);
	judge_finish(&j);
}

static void
handle_why(struct client *c, const struct message *m)
{
	const struct msg_grant_why *w = &m->u.grant_why;
	char subject[301], purpose[513];
	const char *fault;

	snprintf(
	    subject, sizeof subject, "%.*s", (int)w->subject.n, (const char *)w->subject.p);
	snprintf(
	    purpose, sizeof purpose, "%.*s", (int)w->purpose.n, (const char *)w->purpose.p);
	fault = address_fault(subject);
	if (*fault != '\0')
		grants_refuse(c, m->msgid, "invalid_argument", false, "subject: %s", fault);
	else
		why(c, m->msgid, w, subject,
		    w->has_purpose ? purpose : c->broker->config->purpose);
}

/* ---- requests ------------------------------------------------------------------------- */

static void
handle_issue(struct client *c, const struct message *m)
{
	grants_issue(c, m->msgid, &m->u.grant_issue);
}

static void
handle_revoke(struct client *c, const struct message *m)
{
	grants_revoke(c, m->msgid, &m->u.grant_revoke);
}

static void
handle_escalations(struct client *c, const struct message *m)
{
	grants_list_escalations(c, m->msgid, &m->u.escalation_list);
}

static const struct {
	enum msg_type type;
	void (*handle)(struct client *, const struct message *);
} handlers[] = {
	{ MSG_grant_issue, handle_issue },
	{ MSG_grant_revoke, handle_revoke },
	{ MSG_grant_list, handle_list },
	{ MSG_grant_why, handle_why },
	{ MSG_escalation_list, handle_escalations },
};

void
grants_handle(struct client *c, const struct message *m)
{
	for (size_t i = 0; i < countof(handlers); i++)
		if (handlers[i].type == m->type)
			handlers[i].handle(c, m);
}

void
grants_forget(struct client *c)
{
	grants_issue_forget(c);
	grants_revoke_forget(c);
}

void
grants_finish(struct broker *b)
{
	grants_issue_finish(b);
	grants_revoke_finish(b);
}
