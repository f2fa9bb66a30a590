/*
 * cover: what one capability covers (TU-34 to TU-37), and what the ceiling refuses (TU-44).
 */
#include <string.h>

#include "broker/authority/set_private.h"

bool
capability_acts(const struct capability *c, const char *action)
{
	size_t i;

	/* A requested "*" is a literal like any other: only a held one equals it (TU-36). */
	for (i = 0; i < c->nactions; i++)
		if (strcmp(c->actions[i], action) == 0 || strcmp(c->actions[i], "*") == 0)
			return true;
	return false;
}

bool
capability_reaches(const struct capability *c, const struct path *p)
{
	return c->descendants ? path_within(p, &c->path) : path_equal(p, &c->path);
}

static bool
is_owned(const struct capability *c, const struct context *ctx)
{
	return c->owner == NULL || strcmp(c->owner, ctx->owner) == 0;
}

enum missing
capability_missing(
    const struct capability *c, const struct context *ctx, const struct requirement *req)
{
	if (strcmp(c->namespace, req->namespace) != 0)
		return MISSING_resource;
	if (!capability_reaches(c, &req->path))
		return MISSING_path;
	if (!capability_acts(c, req->action))
		return MISSING_action;
	return is_owned(c, ctx) ? MISSING_none : MISSING_owner;
}

/* Does it lie where the ceiling refuses, all of it? */
static bool
is_below(const struct capability *refused, const struct path *path, bool descendants)
{
	return refused->descendants ? path_within(path, &refused->path)
				    : !descendants && path_equal(path, &refused->path);
}

/* What asks for every action asks for a refused one among them. */
static bool
is_refused_action(const struct capability *refused, const char *action)
{
	return strcmp(action, "*") == 0 || capability_acts(refused, action);
}

enum ceiling_answer
ceiling_on_requirement(
    const struct ceiling *c, const struct context *ctx, const struct requirement *req)
{
	size_t i;

	if (c == NULL)
		return CEILING_passes;
	if (!c->available)
		return CEILING_unavailable;
	for (i = 0; i < c->nrefused; i++)
		if (strcmp(c->refused[i].namespace, req->namespace) == 0 &&
		    is_owned(&c->refused[i], ctx) &&
		    is_below(&c->refused[i], &req->path, false) &&
		    is_refused_action(&c->refused[i], req->action))
			return CEILING_refuses;
	return CEILING_passes;
}

/* Of a capability that is refused action by action nothing is left. */
static bool
is_refused(const struct ceiling *c, const struct context *ctx, const struct capability *cap,
    const char *action)
{
	size_t i;

	for (i = 0; i < c->nrefused; i++)
		if (strcmp(c->refused[i].namespace, cap->namespace) == 0 &&
		    is_owned(&c->refused[i], ctx) &&
		    is_below(&c->refused[i], &cap->path, cap->descendants) &&
		    capability_acts(&c->refused[i], action))
			return true;
	return false;
}

enum ceiling_answer
ceiling_on_capability(const struct ceiling *c, const struct context *ctx,
    const struct capability *cap, const char *action)
{
	size_t i;

	if (c == NULL)
		return CEILING_passes;
	if (!c->available)
		return CEILING_unavailable;
	if (action != NULL)
		return is_refused(c, ctx, cap, action) ? CEILING_refuses : CEILING_passes;
	for (i = 0; i < cap->nactions; i++)
		if (!is_refused(c, ctx, cap, cap->actions[i]))
			return CEILING_passes;
	return CEILING_refuses;
}
