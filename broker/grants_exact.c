#include "broker/grants_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/client.h"
#include "broker/escalations.h"
#include "broker/grant_wire.h"
#include "broker/judge.h"
#include "common/hex.h"
#include "common/link.h"
#include "common/walk.h"

/*
 * Grants for one exact call, said by its tool and arguments or by the escalation that asked
 * for it; and the list of those.  Arguments come this far and no further: what is kept is
 * their keyed digest (D-12).
 */

/* ---- the grant ------------------------------------------------------------------------ */

/* What the call needs, and nothing beside it. */
static int
capability_of(struct zone *z, struct grant *g, const char *resource, struct slice path,
    const char *action)
{
	struct capability *c = zone_alloc(z, 1, sizeof *c);
	const char **actions = zone_alloc(z, 1, sizeof *actions);
	const char *rule;
	int r;

	if (c == NULL || actions == NULL)
		return -ENOMEM;
	c->namespace = zone_text(z, slice_of(resource));
	actions[0] = zone_text(z, slice_of(action));
	if (c->namespace == NULL || actions[0] == NULL)
		return -ENOMEM;
	r = grant_read_texts(z, path, PATH_SEGMENTS_MAX, &c->path.segment, &c->path.n, &rule);
	if (r < 0)
		return r;
	c->actions = actions;
	c->nactions = 1;
	g->capabilities = c;
	g->ncapabilities = 1;
	return 0;
}

/* Bound to the call, for one use unless it says otherwise, which is then its fault. */
static int
bind(struct zone *z, struct grant *g, const char *tool, const uint8_t *digest)
{
	g->tool = zone_text(z, slice_of(tool));
	memcpy(g->digest, digest, sizeof g->digest);
	if (!g->bounded)
		g->max_uses = 1;
	g->bounded = true;
	return g->tool != NULL ? 0 : -ENOMEM;
}

static int
bind_to_call(struct broker *b, const struct msg_grant_issue *m, struct zone *z, struct grant *g,
    struct grant_refusal *ret)
{
	const struct config_tool *tool = config_tool(b->config, m->tool);
	struct judgement j;
	int r;

	if (tool == NULL)
		return grants_invalid(ret, "not_found", "tool", "there is no such tool");
	if (!judge_resolve(b->digest, tool, m->arguments, &j)) {
		ret->code = j.code;
		snprintf(ret->text, sizeof ret->text, "arguments: %s", j.why);
		judge_finish(&j);
		return -EINVAL;
	}
	r = bind(z, g, tool->name, j.digest);
	if (r == 0 && g->ncapabilities == 0)
		r = capability_of(z, g, tool->resource, buf_slice(&j.need.path), tool->action);
	judge_finish(&j);
	return r;
}

static int
bind_to_escalation(const struct escalation *e, struct zone *z, struct grant *g,
    struct grant_refusal *ret)
{
	int r;

	if (!escalation_names_a_call(e))
		return grants_invalid(ret, "failed_precondition", "resolves",
		    "asks for no exact call: say what is to be granted");
	r = bind(z, g, e->tool, e->digest);
	return r < 0 ? r : capability_of(z, g, e->resource, buf_slice(&e->path), e->action);
}

int
grants_exact(struct broker *b, const struct msg_grant_issue *m, struct zone *z, struct grant *g,
    struct escalation **ret_escalation, struct grant_refusal *ret)
{
	struct escalation *e = NULL;
	int r = 0;

	if (m->has_resolves) {
		e = escalations_find(&b->escalations, m->resolves);
		if (e == NULL)
			return grants_invalid(ret, "not_found", "resolves",
			    "no escalation of this id is known: caisson grant list --pending "
			    "has them");
		if (e->resolved)
			return grants_invalid(ret, "failed_precondition", "resolves",
			    "a grant was issued for it already");
		if (g->subject == NULL)
			g->subject = zone_text(z, slice_of(e->requester));
		if (g->subject == NULL)
			return -ENOMEM;
		if (strcmp(g->subject, e->requester) != 0)
			return grants_invalid(
			    ret, "invalid_argument", "subject", "is not who asked");
	}
	if (g->subject == NULL)
		return grants_invalid(ret, "invalid_argument", "subject", "is missing");
	if (m->has_tool != m->has_arguments)
		return grants_invalid(ret, "invalid_argument",
		    m->has_tool ? "arguments" : "tool", "is missing: a call has both");
	if (m->has_tool)
		r = bind_to_call(b, m, z, g, ret);
	else if (e != NULL && !m->has_capabilities)
		r = bind_to_escalation(e, z, g, ret);
	*ret_escalation = e;
	return r;
}

/* ---- the list ------------------------------------------------------------------------- */

#define PAGE_MAX   (512u << 10) /* bytes, but for the last of them */
#define PAGE_COUNT 384		/* with the longest paths as many values as a frame may have */

static void
escalation_pack(struct buf *b, const struct escalation *e)
{
	bool call = escalation_names_a_call(e);
	char hex[2 * sizeof e->digest + 1];

	pack_map(b, 4u + (e->operation != NULL) + (call ? 5 : 0));
	pack_str(b, "id");
	pack_str(b, e->id);
	pack_str(b, "requester");
	pack_str(b, e->requester);
	pack_str(b, "requestedAt");
	pack_uint(b, e->requested_at_ms);
	pack_str(b, "status");
	pack_str(b, e->resolved ? "resolved" : "pending");
	if (e->operation != NULL) {
		pack_str(b, "operation");
		pack_str(b, e->operation);
	}
	if (!call)
		return;
	hex_encode(e->digest, sizeof e->digest, hex);
	pack_str(b, "tool");
	pack_str(b, e->tool);
	pack_str(b, "action");
	pack_str(b, e->action);
	pack_str(b, "resource");
	pack_str(b, e->resource);
	pack_str(b, "path");
	pack_raw(b, buf_slice(&e->path));
	pack_str(b, "digest");
	pack_str(b, hex);
}

void
grants_list_escalations(
    struct client *c, uint32_t msgid, const struct msg_escalation_list *m)
{
	struct msg_escalation_list_reply reply = { 0 };
	struct buf items = { 0 }, all = { 0 };
	const struct escalation *e;
	uint64_t i = 0;
	uint32_t n = 0;

	TAILQ_FOREACH (e, &c->broker->escalations.list, link) {
		if (i++ < m->cursor || (m->has_subject && !slice_is(m->subject, e->requester)))
			continue;
		if (items.n >= PAGE_MAX || n == PAGE_COUNT) {
			reply.next = i - 1;
			break;
		}
		escalation_pack(&items, e);
		n++;
	}
	pack_array(&all, n);
	pack_raw(&all, buf_slice(&items));
	reply.escalations = buf_slice(&all);
	if (items.failed || all.failed)
		grants_refuse_errno(c, msgid, -ENOMEM);
	else
		link_reply(c->link, MSG_escalation_list_reply, msgid, &reply);
	buf_finish(&items);
	buf_finish(&all);
}
