#include "broker/stats.h"

#include <errno.h>
#include <stddef.h>

#include "broker/broker.h"
#include "broker/feed.h"
#include "broker/journal.h"
#include "broker/sandbox.h"
#include "broker/session.h"
#include "common/records.h"
#include "common/util.h"
#include "common/walk.h"

#define AT(member) (uint16_t)(offsetof(struct stats, member) + 1) /* 0: not counted */

static void
count(struct stats *s, uint16_t at)
{
	if (at != 0)
		++*(uint64_t *)((char *)s + at - 1);
}

/* ---- what is on record ------------------------------------------------------------------- */

#define OUTCOMES (record_outcome_canceled + 1)

/* By outcome; of a type whose records have none, the first. */
static const struct counted {
	struct slice type;
	bool of_call; /* only of those that name one */
	uint16_t at[OUTCOMES];
} counted[] = {
#define TYPE(name) { (const uint8_t *)(name), sizeof(name) - 1 }
	{ TYPE("operation.ended"), false,
	    { [record_outcome_succeeded] = AT(ended_succeeded),
		[record_outcome_failed] = AT(ended_failed),
		[record_outcome_denied] = AT(ended_denied),
		[record_outcome_escalated] = AT(ended_escalated),
		[record_outcome_interrupted] = AT(ended_interrupted),
		[record_outcome_canceled] = AT(ended_canceled) } },
	{ TYPE("tool.invoked"), false,
	    { [record_outcome_succeeded] = AT(calls_succeeded),
		[record_outcome_failed] = AT(calls_failed),
		[record_outcome_denied] = AT(calls_denied),
		[record_outcome_interrupted] = AT(calls_interrupted),
		[record_outcome_canceled] = AT(calls_canceled) } },
	{ TYPE("tool.refused"), false,
	    { [record_outcome_failed] = AT(calls_failed),
		[record_outcome_denied] = AT(calls_denied) } },
	/* A decision that allows is followed by what came of the call. */
	{ TYPE("authorization.checked"), true,
	    { [record_outcome_denied] = AT(calls_denied) } },
	{ TYPE("tool.replayed"), false, { AT(calls_replayed) } },
	{ TYPE("session.acquired"), false, { AT(sessions_acquired) } },
	{ TYPE("session.released"), false, { AT(sessions_released) } },
	{ TYPE("grant.issued"), false, { AT(grants_issued) } },
	{ TYPE("grant.revoked"), false, { AT(grants_revoked) } },
#undef TYPE
};

static void
count_accepted(struct stats *s, const struct msg_record *m)
{
	if (slice_is(m->detail, "turn"))
		s->accepted_turns++;
	else if (slice_is(m->detail, "command"))
		s->accepted_commands++;
	else
		s->accepted_files++;
}

void
stats_on_record(struct stats *s, const struct msg_record *m)
{
	s->journal_records++;
	if (slice_is(m->type, "operation.accepted")) {
		count_accepted(s, m);
		return;
	}
	for (size_t i = 0; i < countof(counted); i++) {
		const struct counted *c = &counted[i];

		if (!slice_equal(c->type, m->type))
			continue;
		/* What comes late has no outcome: it changes nothing. */
		if ((!c->of_call || m->has_callId) && (m->has_outcome || c->at[0] != 0))
			count(s, c->at[c->at[0] != 0 ? 0 : m->outcome]);
		return;
	}
}

/* ---- what is refused --------------------------------------------------------------------- */

static const struct {
	const char *code;
	uint16_t at;
} codes[] = {
	{ "invalid_argument", AT(refused_invalid_argument) },
	{ "unauthenticated", AT(refused_unauthenticated) },
	{ "permission_denied", AT(refused_permission_denied) },
	{ "not_found", AT(refused_not_found) },
	{ "already_exists", AT(refused_already_exists) },
	{ "failed_precondition", AT(refused_failed_precondition) },
	{ "resource_exhausted", AT(refused_resource_exhausted) },
	{ "unavailable", AT(refused_unavailable) },
	{ "audit_unavailable", AT(refused_audit_unavailable) },
};

void
stats_on_refusal(struct stats *s, const char *code)
{
	for (size_t i = 0; i < countof(codes); i++)
		if (strcmp(codes[i].code, code) == 0) {
			count(s, codes[i].at);
			return;
		}
	s->refused_other++;
}

/* ---- what is told ------------------------------------------------------------------------ */

static const struct {
	const char *field;
	uint16_t at;
} fields[] = {
#define METRIC_gateway(field)
#define METRIC_broker(field)		       { #field, AT(field) },
#define METRIC(field, name, type, owner, help) METRIC_##owner(field)
#include "common/metrics.def"
#undef METRIC_gateway
#undef METRIC_broker
};

int
stats_pack(const struct stats *s, struct buf *b)
{
	pack_map(b, countof(fields));
	for (size_t i = 0; i < countof(fields); i++) {
		pack_str(b, fields[i].field);
		pack_uint(b, *(const uint64_t *)((const char *)s + fields[i].at - 1));
	}
	return b->failed ? -ENOMEM : 0;
}

static void
set_gauges(struct broker *b)
{
	const struct client *c;
	const struct session *s;

	b->stats.open_clients_local = b->stats.open_clients_gateway = 0;
	b->stats.open_subscriptions = 0;
	TAILQ_FOREACH (c, &b->clients, entry) {
		++*(c->gateway ? &b->stats.open_clients_gateway : &b->stats.open_clients_local);
		b->stats.open_subscriptions += c->nsubscriptions;
	}
	b->stats.retained_bytes = b->feeds->store.bytes;
	b->stats.open_operations = 0;
	TAILQ_FOREACH (s, &b->sessions, link)
		b->stats.open_operations++;
	b->stats.open_sessions = sandboxes_open(b);
	b->stats.queued_operations = sandboxes_queued(b);
	b->stats.queued_bytes = b->queued_bytes;
	b->stats.journal_available = journal_available(b->journal);
	b->stats.journal_syncs = journal_syncs(b->journal);
}

void
stats_read(struct client *c, uint32_t msgid)
{
	struct msg_stats_read_reply reply = { 0 };
	struct buf b = { 0 };

	set_gauges(c->broker);
	if (stats_pack(&c->broker->stats, &b) == 0) {
		reply.stats = buf_slice(&b);
		link_reply(c->link, MSG_stats_read_reply, msgid, &reply);
	} else {
		link_refuse(c->link, msgid, "resource_exhausted", "out of memory", true);
	}
	buf_finish(&b);
}
