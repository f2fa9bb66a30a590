#include "broker/grant_wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/hex.h"
#include "common/util.h"
#include "common/walk.h"

/* ---- reading -------------------------------------------------------------------------- */

static int
read_text(struct zone *z, struct slice s, const char **ret, const char **ret_rule)
{
	if (s.n > 0 && memchr(s.p, '\0', s.n) != NULL) {
		*ret_rule = "holds a NUL";
		return -EINVAL;
	}
	*ret = zone_text(z, s);
	return *ret != NULL ? 0 : -ENOMEM;
}

int
grant_read_texts(struct zone *z, struct slice list, size_t max, const char ***ret,
    size_t *ret_n, const char **ret_rule)
{
	struct slice in = list;
	struct value v, head = value_next(&in);
	const char **texts;
	uint32_t i;
	int r;

	if (head.count > max) {
		*ret_rule = "has too many elements";
		return -EINVAL;
	}
	texts = zone_alloc(z, head.count, sizeof *texts);
	if (texts == NULL)
		return -ENOMEM;
	for (i = 0; i < head.count; i++) {
		v = value_skip(&in);
		if (v.type != VALUE_STR) {
			*ret_rule = "has an element that is not a string";
			return -EINVAL;
		}
		r = read_text(z, v.bytes, &texts[i], ret_rule);
		if (r < 0)
			return r;
	}
	*ret = texts;
	*ret_n = head.count;
	return 0;
}

static int
read_scope(struct value v, struct capability *c, const char **ret_rule)
{
	c->descendants = slice_is(v.bytes, "descendants");
	if (c->descendants || slice_is(v.bytes, "exact"))
		return 0;
	*ret_rule = "is neither exact nor descendants";
	return -EINVAL;
}

enum { NAMESPACE = 1, OWNER = 2, PATH = 4, SCOPE = 8, ACTIONS = 16 };

static const struct {
	const char *name;
	unsigned bit;
	enum value_type type;
} members[] = {
	{ "namespace", NAMESPACE, VALUE_STR },
	{ "owner", OWNER, VALUE_STR },
	{ "path", PATH, VALUE_ARRAY },
	{ "scope", SCOPE, VALUE_STR },
	{ "actions", ACTIONS, VALUE_ARRAY },
};

static int
read_member(struct zone *z, unsigned bit, struct value v, struct capability *c,
    const char **ret_rule)
{
	switch (bit) {
	case NAMESPACE: return read_text(z, v.bytes, &c->namespace, ret_rule);
	case OWNER: return read_text(z, v.bytes, &c->owner, ret_rule);
	case PATH:
		return grant_read_texts(
		    z, v.raw, PATH_SEGMENTS_MAX, &c->path.segment, &c->path.n, ret_rule);
	case SCOPE: return read_scope(v, c, ret_rule);
	default:
		return grant_read_texts(z, v.raw, AUTHORITY_ACTIONS_MAX, &c->actions,
		    &c->nactions, ret_rule);
	}
}

/* A closed map: what is not known is refused. */
static int
read_capability(struct zone *z, struct value map, struct capability *c,
    const char **ret_field, const char **ret_rule)
{
	struct slice in = map.raw;
	unsigned seen = 0;
	size_t k;
	int r;

	*ret_field = NULL;
	*ret_rule = "is not a map";
	if (map.type != VALUE_MAP)
		return -EINVAL;
	value_next(&in);
	for (uint32_t i = 0; i < map.count; i++) {
		struct slice key = value_key(&in);
		struct value v = value_skip(&in);

		for (k = 0; k < countof(members) && !slice_is(key, members[k].name); k++)
			;
		*ret_rule = "has an unknown member";
		if (k == countof(members))
			return -EINVAL;
		*ret_field = members[k].name;
		*ret_rule = "has the wrong type";
		if (v.type != members[k].type)
			return -EINVAL;
		r = read_member(z, members[k].bit, v, c, ret_rule);
		if (r < 0)
			return r;
		*ret_field = NULL;
		seen |= members[k].bit;
	}
	*ret_rule = "is missing";
	for (k = 0; k < countof(members); k++) {
		*ret_field = members[k].name;
		if (members[k].bit != OWNER && !(seen & members[k].bit))
			return -EINVAL;
	}
	*ret_rule = capability_fault(c, ret_field);
	return **ret_rule == '\0' ? 0 : -EINVAL;
}

int
grant_read_capabilities(
    struct zone *z, struct slice list, struct grant *g, char *err, size_t cap)
{
	struct slice in = list;
	struct value head = value_next(&in);
	const char *field = NULL, *rule = NULL;
	struct capability *all;
	int r;

	if (head.count > AUTHORITY_CAPABILITIES_MAX) {
		snprintf(err, cap, "capabilities: has more than 64 elements");
		return -EINVAL;
	}
	all = zone_alloc(z, head.count, sizeof *all);
	if (all == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < head.count; i++) {
		r = read_capability(z, value_skip(&in), &all[i], &field, &rule);
		if (r == -EINVAL)
			snprintf(err, cap, "capabilities[%u]%s%s: %s", i,
			    field != NULL ? "." : "", field != NULL ? field : "", rule);
		if (r < 0)
			return r;
	}
	g->capabilities = all;
	g->ncapabilities = head.count;
	return 0;
}

int
grant_read_purposes(
    struct zone *z, struct slice list, struct grant *g, char *err, size_t cap)
{
	const char *rule = NULL;
	int r = grant_read_texts(
	    z, list, AUTHORITY_PURPOSES_MAX, &g->purposes, &g->npurposes, &rule);

	if (r == -EINVAL)
		snprintf(err, cap, "purposes: %s", rule);
	return r;
}

int
grant_read_record(struct zone *z, const struct msg_record *r, struct grant *ret, char *err,
    size_t cap)
{
	const char *field, *fault;
	int e;

	snprintf(err, cap, "a member is missing");
	if (!r->has_grant || !r->has_subject || !r->has_issuer || !r->has_namespace ||
	    !r->has_capabilities || !r->has_delegationDepth || !r->has_digest)
		return -EINVAL;
	*ret = (struct grant){ .id = zone_text(z, r->grant),
		.subject = zone_text(z, r->subject),
		.issuer = zone_text(z, r->issuer),
		.namespace = zone_text(z, r->namespace),
		.parent = r->has_parent ? zone_text(z, r->parent) : NULL,
		.issued_at_ms = r->at,
		.not_before_ms = r->has_notBefore ? r->notBefore : 0,
		.expires_at_ms = r->has_expiresAt ? r->expiresAt : 0,
		.delegation_depth = (uint32_t)r->delegationDepth,
		.bounded = r->has_maxUses,
		.max_uses = r->has_maxUses ? (uint32_t)r->maxUses : 0 };
	if (ret->id == NULL || ret->subject == NULL || ret->issuer == NULL ||
	    ret->namespace == NULL || (r->has_parent && ret->parent == NULL))
		return -ENOMEM;
	if (r->has_tool && r->has_arguments) {
		ret->tool = zone_text(z, r->tool);
		if (ret->tool == NULL)
			return -ENOMEM;
		memcpy(ret->digest, r->arguments.p, sizeof ret->digest);
	}
	e = grant_read_capabilities(z, r->capabilities, ret, err, cap);
	if (e == 0 && r->has_purposes)
		e = grant_read_purposes(z, r->purposes, ret, err, cap);
	if (e < 0)
		return e;
	fault = grant_fault(ret, &field);
	snprintf(err, cap, "%s: %s", field, fault);
	return *fault == '\0' ? 0 : -EINVAL;
}

/* ---- packing -------------------------------------------------------------------------- */

static void
pack_texts(struct buf *b, const char *const *texts, size_t n)
{
	pack_array(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		pack_str(b, texts[i]);
}

static void
pack_text(struct buf *b, const char *key, const char *text)
{
	pack_str(b, key);
	pack_str(b, text);
}

static void
pack_number(struct buf *b, const char *key, uint64_t number)
{
	pack_str(b, key);
	pack_uint(b, number);
}

void
grant_pack_capability(struct buf *b, const struct capability *c, bool owner)
{
	owner = owner && c->owner != NULL;
	pack_map(b, owner ? 5 : 4);
	pack_text(b, "namespace", c->namespace);
	if (owner)
		pack_text(b, "owner", c->owner);
	pack_str(b, "path");
	pack_texts(b, (const char *const *)c->path.segment, c->path.n);
	pack_text(b, "scope", c->descendants ? "descendants" : "exact");
	pack_str(b, "actions");
	pack_texts(b, (const char *const *)c->actions, c->nactions);
}

void
grant_pack_capabilities(struct buf *b, const struct grant *g)
{
	pack_array(b, (uint32_t)g->ncapabilities);
	for (size_t i = 0; i < g->ncapabilities; i++)
		grant_pack_capability(b, &g->capabilities[i], true);
}

void
grant_pack_purposes(struct buf *b, const struct grant *g)
{
	pack_texts(b, (const char *const *)g->purposes, g->npurposes);
}

static void
pack_call(struct buf *b, const struct grant *g)
{
	char hex[2 * AUTHORITY_DIGEST_BYTES + 1];

	hex_encode(g->digest, sizeof g->digest, hex);
	pack_str(b, "call");
	pack_map(b, 2);
	pack_text(b, "tool", g->tool);
	pack_text(b, "digest", hex);
}

void
grant_pack(struct buf *b, const struct grant *g, const struct grant_facts *facts)
{
	uint32_t pairs = 7;

	pairs += (g->tool != NULL) + (g->parent != NULL) + (g->not_before_ms != 0) +
		 (g->expires_at_ms != 0) + g->bounded + (g->purposes != NULL);
	if (facts != NULL)
		pairs += 3 + (g->revoked_at_ms != 0);
	pack_map(b, pairs);
	pack_text(b, "id", g->id);
	pack_text(b, "subject", g->subject);
	pack_text(b, "issuer", g->issuer);
	pack_text(b, "namespace", g->namespace);
	if (g->parent != NULL)
		pack_text(b, "parent", g->parent);
	pack_str(b, "capabilities");
	grant_pack_capabilities(b, g);
	pack_number(b, "issuedAt", g->issued_at_ms);
	if (g->not_before_ms != 0)
		pack_number(b, "notBefore", g->not_before_ms);
	if (g->expires_at_ms != 0)
		pack_number(b, "expiresAt", g->expires_at_ms);
	if (g->bounded)
		pack_number(b, "maxUses", g->max_uses);
	pack_number(b, "delegationDepth", g->delegation_depth);
	if (g->purposes != NULL) {
		pack_str(b, "purposes");
		grant_pack_purposes(b, g);
	}
	if (g->tool != NULL)
		pack_call(b, g);
	if (facts == NULL)
		return;
	pack_number(b, "spent", g->spent);
	if (g->revoked_at_ms != 0)
		pack_number(b, "revokedAt", g->revoked_at_ms);
	pack_text(b, "origin", facts->origin);
	pack_text(b, "state", facts->state);
}

const char *
grant_state(const struct grant *g, uint64_t now_ms)
{
	if (g->revoked_at_ms != 0)
		return "revoked";
	if (g->expires_at_ms != 0 && now_ms >= g->expires_at_ms)
		return "expired";
	if (g->bounded && g->spent >= g->max_uses)
		return "exhausted";
	return now_ms < g->not_before_ms || now_ms < g->issued_at_ms ? "pending" : "active";
}
