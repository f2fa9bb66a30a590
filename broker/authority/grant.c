/*
 * grant: which grants are material that may be decided with at all (TU-38).
 */
#include "broker/authority/authority.h"

#include <string.h>

#include "broker/authority/text.h"

#define IDENTIFIER_MAX 256 /* bytes */
#define ACTION_MAX     128 /* bytes */
#define PURPOSE_MAX    512 /* bytes */

const char *
address_fault(const char *text)
{
	static const char *const kinds[] = { "human:", "agent:", "group:", "service:" };
	size_t i, n;

	if (text == NULL)
		return "is missing";
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		n = strlen(kinds[i]);
		if (strncmp(text, kinds[i], n) != 0)
			continue;
		if (!text_is_plain(text + n, IDENTIFIER_MAX))
			return "has no identifier of 1 to 256 bytes of plain text";
		return "";
	}
	return "does not begin with human:, agent:, group: or service:";
}

/* The fault of the first text that is none of 1..`max` bytes. */
static const char *
list_fault(const char *const *texts, size_t n, size_t max, const char *fault)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!text_is_plain(texts[i], max))
			return fault;
	return "";
}

const char *
capability_fault(const struct capability *c, const char **ret_field)
{
	*ret_field = "namespace";
	if (!text_is_plain(c->namespace, IDENTIFIER_MAX))
		return "is not 1 to 256 bytes of plain text";
	*ret_field = "owner";
	if (c->owner != NULL && *address_fault(c->owner) != '\0')
		return address_fault(c->owner);
	*ret_field = "path";
	if (*path_fault(&c->path) != '\0')
		return path_fault(&c->path);
	*ret_field = "actions";
	if (c->nactions == 0)
		return "names no action";
	if (c->nactions > AUTHORITY_ACTIONS_MAX)
		return "has more than 64 actions";
	return list_fault((const char *const *)c->actions, c->nactions, ACTION_MAX,
	    "has an action that is not 1 to 128 bytes of plain text");
}

/* One exact call is one use of one principal, whatever else the grant says. */
static const char *
call_fault(const struct grant *g, const char **ret_field)
{
	*ret_field = "tool";
	if (g->tool == NULL)
		return "";
	if (!text_is_plain(g->tool, IDENTIFIER_MAX))
		return "is not 1 to 256 bytes of plain text";
	*ret_field = "delegationDepth";
	if (g->delegation_depth != 0)
		return "is not 0, for one exact call";
	*ret_field = "maxUses";
	return g->bounded && g->max_uses == 1 ? "" : "is not 1, for one exact call";
}

/* What of a grant restricts it: when, for what, how often, how far it may be handed on. */
static const char *
constraints_fault(const struct grant *g, const char **ret_field)
{
	*ret_field = "delegationDepth";
	if (g->delegation_depth >= AUTHORITY_CHAIN_MAX)
		return "is more than 15";
	*ret_field = "expiresAt";
	if (g->expires_at_ms != 0 && g->not_before_ms >= g->expires_at_ms)
		return "is not after notBefore";
	*ret_field = "maxUses";
	if (g->bounded && g->max_uses == 0)
		return "is 0";
	*ret_field = "purposes";
	if (g->purposes == NULL)
		return g->npurposes == 0 ? "" : "are missing";
	if (g->npurposes > AUTHORITY_PURPOSES_MAX)
		return "has more than 64 purposes";
	return list_fault((const char *const *)g->purposes, g->npurposes, PURPOSE_MAX,
	    "has a purpose that is not 1 to 512 bytes of plain text");
}

const char *
grant_fault(const struct grant *g, const char **ret_field)
{
	const char *fault;
	size_t i;

	*ret_field = "id";
	if (!text_is_plain(g->id, IDENTIFIER_MAX))
		return "is not 1 to 256 bytes of plain text";
	*ret_field = "subject";
	if (*address_fault(g->subject) != '\0')
		return address_fault(g->subject);
	*ret_field = "issuer";
	if (*address_fault(g->issuer) != '\0')
		return address_fault(g->issuer);
	*ret_field = "namespace";
	if (!text_is_plain(g->namespace, IDENTIFIER_MAX))
		return "is not 1 to 256 bytes of plain text";
	*ret_field = "parent";
	if (g->parent != NULL && !text_is_plain(g->parent, IDENTIFIER_MAX))
		return "is not 1 to 256 bytes of plain text";
	if (g->parent != NULL && strcmp(g->parent, g->id) == 0)
		return "is the grant itself";
	fault = constraints_fault(g, ret_field);
	if (*fault == '\0')
		fault = call_fault(g, ret_field);
	if (*fault != '\0')
		return fault;
	*ret_field = "capabilities";
	if (g->ncapabilities == 0)
		return "names no capability";
	if (g->ncapabilities > AUTHORITY_CAPABILITIES_MAX)
		return "has more than 64 capabilities";
	for (i = 0; i < g->ncapabilities; i++) {
		fault = capability_fault(&g->capabilities[i], ret_field);
		if (*fault != '\0')
			return fault;
	}
	return "";
}
