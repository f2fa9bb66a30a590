#include "broker/grants_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/authority/chain.h"
#include "broker/authority/set.h"
#include "broker/broker.h"
#include "broker/client.h"
#include "broker/config.h"
#include "broker/grant_copy.h"
#include "broker/grant_wire.h"
#include "broker/grants.h"
#include "broker/principal.h"
#include "broker/record.h"
#include "broker/standing.h"
#include "common/clock.h"
#include "common/link.h"
#include "common/log.h"
#include "common/stop.h"

/*
 * grant.issue: checks, record, [durable], set, answer.  A grant counts for nobody before it is
 * on record, and then for the turns that are admitted after it (TU-40).
 */

struct issue {
	struct broker *broker;
	struct client *client; /* NULL: it is gone */
	uint32_t msgid;
	struct asker by;
	struct zone zone; /* what `grant` points to */
	struct grant grant;
	struct grant_fact *fact; /* its id, reserved */
	char escalation[ESCALATION_ID]; /* that it resolves; "": none */
	TAILQ_ENTRY(issue) link; /* broker.issues */
};

static void
issue_destroy(struct issue *i)
{
	zone_finish(&i->zone);
	asker_forget(i->broker, &i->by);
	free(i);
}

/* ---- what was asked ------------------------------------------------------------------- */

int
grants_invalid(
    struct grant_refusal *ret, const char *code, const char *field, const char *rule)
{
	ret->code = code;
	snprintf(ret->text, sizeof ret->text, "%s: %s", field, rule);
	return -EINVAL;
}

static int
issue_read(struct issue *i, const struct msg_grant_issue *m, struct grant_refusal *ret)
{
	const struct config *config = i->broker->config;
	struct grant *g = &i->grant;
	struct escalation *escalation = NULL;
	char id[40];
	int r;

	broker_mint(id, "g");
	*g = (struct grant){
		.id = zone_text(&i->zone, m->has_id ? m->id : slice_of(id)),
		.subject = m->has_subject ? zone_text(&i->zone, m->subject) : NULL,
		.issuer = m->has_issuer ? zone_text(&i->zone, m->issuer) : config->authority,
		.namespace = config->namespace,
		.issued_at_ms = clock_wall_ms(),
		.not_before_ms = m->has_notBefore ? m->notBefore : 0,
		.expires_at_ms = m->has_expiresAt ? m->expiresAt : 0,
		.delegation_depth = m->has_delegationDepth ? (uint32_t)m->delegationDepth : 0,
		.bounded = m->has_maxUses,
		.max_uses = m->has_maxUses ? (uint32_t)m->maxUses : 0,
	};
	if (g->id == NULL || (m->has_subject && g->subject == NULL) || g->issuer == NULL)
		return -ENOMEM;
	ret->code = "invalid_argument";
	/* 0 would mean never: what was meant to be over must not live for ever. */
	if (m->has_expiresAt && m->expiresAt <= g->issued_at_ms)
		return grants_invalid(ret, ret->code, "expiresAt", "has passed");
	r = !m->has_capabilities ? 0
				 : grant_read_capabilities(&i->zone, m->capabilities, g,
				       ret->text, sizeof ret->text);
	if (r == 0 && m->has_purposes)
		r = grant_read_purposes(&i->zone, m->purposes, g, ret->text, sizeof ret->text);
	if (r == 0)
		r = grants_exact(i->broker, m, &i->zone, g, &escalation, ret);
	if (r == 0 && escalation != NULL)
		memcpy(i->escalation, escalation->id, sizeof i->escalation);
	return r;
}

/* What each rule of a derivation is about (TU-46). */
static const struct {
	const char *field, *rule;
} derivations[] = {
	[DERIVATION_empty_capabilities] = { "capabilities", "names no capability" },
	[DERIVATION_id_collides_with_parent] = { "id", "is the parent's" },
	[DERIVATION_parent_not_delegable] = { "parent",
	    "may not be handed on: it has no delegationDepth" },
	[DERIVATION_depth_exhausted] = { "delegationDepth", "is not less than the parent's" },
	[DERIVATION_capability_not_within_parent] = { "capabilities",
	    "has one that lies in no single one of the parent's" },
	[DERIVATION_purpose_not_within_parent] = { "purposes",
	    "has one that the parent has not" },
	[DERIVATION_window_not_within_parent] = { "notBefore and expiresAt",
	    "are not within the parent's" },
	[DERIVATION_issued_before_parent] = { "parent", "is issued later than now" },
	[DERIVATION_bounded_parent_not_delegable] = { "parent",
	    "may not be handed on: its uses are bounded" },
};

static int
issue_derive(struct issue *i, const struct msg_grant_issue *m, struct grant_refusal *ret)
{
	const struct grant_set *set = i->broker->grant_set;
	const struct grant *parent =
	    grant_set_find(set, (const char *)m->parent.p, m->parent.n);
	enum derivation d;
	enum chain_fault fault;

	if (parent == NULL)
		return grants_invalid(ret, "not_found", "parent", "there is no such grant");
	if (m->has_issuer && !slice_is(m->issuer, parent->subject))
		return grants_invalid(ret, chain_fault_name(CHAIN_issuer_not_parent_subject),
		    "issuer", "is not the parent's subject: leave it out");
	d = grant_derive(parent, &i->grant);
	if (d != DERIVATION_ok)
		return grants_invalid(
		    ret, derivation_name(d), derivations[d].field, derivations[d].rule);
	fault = authority_parent_fault(set, parent, i->grant.issued_at_ms);
	if (fault != CHAIN_ok)
		return grants_invalid(ret, chain_fault_name(fault), "parent",
		    "nothing that is derived from it can be used");
	return 0;
}

static int
issue_check(struct issue *i, const struct msg_grant_issue *m, struct grant_refusal *ret)
{
	struct slice id = slice_of(i->grant.id);
	const char *field, *fault;
	struct grant whole;
	int r = 0;

	if (m->has_parent)
		r = issue_derive(i, m, ret);
	else if (i->grant.ncapabilities == 0)
		r = grants_invalid(ret, derivation_name(DERIVATION_empty_capabilities),
		    "capabilities", "names no capability");
	if (r < 0)
		return r;
	/* Parent and configuration may go while the record is on its way. */
	if (grant_copy(&i->zone, &i->grant, &whole) < 0)
		return -ENOMEM;
	i->grant = whole;
	fault = grant_fault(&i->grant, &field);
	if (*fault != '\0')
		return grants_invalid(ret, "invalid_argument", field, fault);
	if (grants_knows(i->broker->grants, id) ||
	    standing_knows(i->broker->standing, id))
		return grants_invalid(ret, "already_exists", "id",
		    "there is, or was, a grant of this id; no id is used twice");
	/* With those on their way: what is on record must fit at the next start. */
	if (grant_set_size(i->broker->grant_set) + i->broker->nissues >=
	    AUTHORITY_GRANTS_MAX)
		return -ENOSPC;
	i->fact = grants_fact_make(i->broker->grants, id);
	if (i->fact == NULL)
		return -ENOMEM;
	i->fact->reserved = true;
	return 0;
}

/* ---- the record ----------------------------------------------------------------------- */

/* While the record is on its way nobody else resolves it; without a record nobody has. */
static void
escalation_mark(struct issue *i, bool resolved)
{
	struct escalation *e =
	    escalations_find(&i->broker->escalations, slice_of(i->escalation));

	if (e != NULL)
		e->resolved = resolved;
}

static void
refuse_outage(struct client *c, uint32_t msgid, bool lost)
{
	grants_refuse(c, msgid, "audit_unavailable", true,
	    lost ? "the journal cannot be written, so nothing was given"
		 : "the journal cannot be written, so nothing was given; what of it is written "
		   "is taken back as soon as it can be: should the broker end before, list "
		   "the grants and revoke it");
}

static void
issue_answer(struct issue *i)
{
	struct msg_grant_issue_reply reply = { .id = slice_of(i->grant.id),
		.at = i->grant.issued_at_ms };
	struct buf grant = { 0 };

	if (i->client == NULL)
		return;
	grants_pack(i->broker, &i->fact->grant, i->grant.issued_at_ms, &grant);
	reply.grant = buf_slice(&grant);
	if (grant.failed)
		grants_refuse_errno(i->client, i->msgid, -ENOMEM);
	else
		link_reply(i->client->link, MSG_grant_issue_reply, i->msgid, &reply);
	buf_finish(&grant);
}

static void
issue_on_record(void *arg, bool ok)
{
	struct issue *i = arg;
	struct broker *b = i->broker;
	int r;

	STOP_POINT("broker.issue_durable");
	broker_tick(b);
	TAILQ_REMOVE(&b->issues, i, link);
	b->nissues--;
	if (ok) {
		r = grants_add(b->grants, &i->grant);
		if (r == 0) {
			issue_answer(i);
		} else {
			log_error("grant %s is on record and cannot be kept: %s", i->grant.id,
			    strerror(-r));
			grants_refuse(i->client, i->msgid, "internal", false,
			    "it is on record, and counts only after the next start: out of "
			    "memory");
		}
	} else {
		escalation_mark(i, false);
		refuse_outage(i->client, i->msgid, journal_lost(b->journal));
		if (journal_lost(b->journal))
			grants_fact_drop(b->grants, i->fact);
		else
			grants_take_back(b, i->fact, &i->by, i->escalation);
	}
	issue_destroy(i);
}

static int
issue_record(struct issue *i, struct buf *lists)
{
	const struct grant *g = &i->grant;
	uint8_t digest[32];
	struct record record, *r = &record;
	size_t split;

	record_init(r, i->broker, NULL, "grant.issued");
	r->m.at = g->issued_at_ms;
	RECORD_TEXT(&r->m, grant, g->id);
	RECORD_TEXT(&r->m, subject, g->subject);
	RECORD_TEXT(&r->m, issuer, g->issuer);
	if (g->parent != NULL)
		RECORD_TEXT(&r->m, parent, g->parent);
	if (g->tool != NULL) {
		RECORD_TEXT(&r->m, tool, g->tool);
		RECORD_SLICE(&r->m, arguments, ((struct slice){ g->digest, sizeof g->digest }));
	}
	if (i->escalation[0] != '\0')
		RECORD_TEXT(&r->m, escalation, i->escalation);
	grant_pack_capabilities(lists, g);
	split = lists->n;
	if (g->purposes != NULL)
		grant_pack_purposes(lists, g);
	if (lists->failed || grants_digest(i->broker->grants, g, digest) < 0)
		return -ENOMEM;
	RECORD_SLICE(&r->m, digest, ((struct slice){ digest, sizeof digest }));
	RECORD_SLICE(&r->m, capabilities, ((struct slice){ lists->p, split }));
	r->m.has_purposes = g->purposes != NULL;
	r->m.purposes = (struct slice){ lists->p + split, lists->n - split };
	r->m.has_notBefore = g->not_before_ms != 0;
	r->m.notBefore = g->not_before_ms;
	r->m.has_expiresAt = g->expires_at_ms != 0;
	r->m.expiresAt = g->expires_at_ms;
	r->m.has_maxUses = g->bounded;
	r->m.maxUses = g->max_uses;
	r->m.has_delegationDepth = true;
	r->m.delegationDepth = g->delegation_depth;
	asker_record(&r->m, &i->by);
	return record_append(r, JOURNAL_EFFECT, issue_on_record, i);
}

/* ---- the request ---------------------------------------------------------------------- */

void
grants_issue(struct client *c, uint32_t msgid, const struct msg_grant_issue *m)
{
	struct issue *i = calloc(1, sizeof *i);
	struct grant_refusal refusal = { .code = "" };
	struct broker *b = c->broker;
	struct buf lists = { 0 };
	int r = -ENOMEM;

	if (i == NULL) {
		grants_refuse_errno(c, msgid, r);
		return;
	}
	*i = (struct issue){ .broker = b, .client = c, .msgid = msgid, .by = asker_of(c) };
	r = issue_read(i, m, &refusal);
	if (r == 0)
		r = issue_check(i, m, &refusal);
	if (r == -EINVAL) {
		grants_refuse(c, msgid, refusal.code, false, "%s", refusal.text);
	} else if (r < 0) {
		grants_refuse_errno(c, msgid, r);
	} else if ((r = issue_record(i, &lists)) < 0) {
		grants_fact_drop(b->grants, i->fact);
		if (r == -ERANGE || r == -ENOMEM)
			grants_refuse_errno(c, msgid, r);
		else
			refuse_outage(c, msgid, true);
	} else {
		TAILQ_INSERT_TAIL(&b->issues, i, link);
		b->nissues++;
		escalation_mark(i, true);
		STOP_POINT("broker.issue_recorded");
	}
	buf_finish(&lists);
	if (r < 0)
		issue_destroy(i);
}

void
grants_issue_forget(struct client *c)
{
	struct issue *i;

	TAILQ_FOREACH (i, &c->broker->issues, link)
		if (i->client == c)
			i->client = NULL;
}

void
grants_issue_finish(struct broker *b)
{
	struct issue *i;

	while ((i = TAILQ_FIRST(&b->issues)) != NULL) {
		TAILQ_REMOVE(&b->issues, i, link);
		issue_destroy(i);
	}
}
