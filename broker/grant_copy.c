#include "broker/grant_copy.h"

#include <errno.h>
#include <string.h>

/* Where the next copied thing goes; with `at` NULL only `n` counts. */
struct room {
	uint8_t *at;
	size_t n;
};

static void *
put(struct room *r, const void *from, size_t n)
{
	void *to = r->at != NULL ? r->at + r->n : NULL;

	if (to != NULL && n > 0)
		memcpy(to, from, n);
	r->n += (n + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
	return to;
}

static const char *
put_text(struct room *r, const char *text)
{
	return text != NULL ? put(r, text, strlen(text) + 1) : NULL;
}

static const char **
put_list(struct room *r, const char *const *texts, size_t n)
{
	const char **copy = put(r, texts, n * sizeof(*texts)), *text;
	size_t i;

	for (i = 0; i < n; i++) {
		text = put_text(r, texts[i]);
		if (copy != NULL)
			copy[i] = text;
	}
	return copy;
}

/* Every pointer of a grant leads into the copy's own memory. */
static void
put_grant(struct room *r, const struct grant *g, struct grant *ret)
{
	struct capability *all, c;
	size_t i;

	*ret = *g;
	ret->id = put_text(r, g->id);
	ret->subject = put_text(r, g->subject);
	ret->issuer = put_text(r, g->issuer);
	ret->namespace = put_text(r, g->namespace);
	ret->parent = put_text(r, g->parent);
	ret->tool = put_text(r, g->tool);
	if (g->purposes != NULL)
		ret->purposes = put_list(r, g->purposes, g->npurposes);
	all = put(r, g->capabilities, g->ncapabilities * sizeof(*all));
	ret->capabilities = all;
	for (i = 0; i < g->ncapabilities; i++) {
		c = g->capabilities[i];
		c.namespace = put_text(r, c.namespace);
		c.owner = put_text(r, c.owner);
		c.path.segment = put_list(r, c.path.segment, c.path.n);
		c.actions = put_list(r, c.actions, c.nactions);
		if (all != NULL)
			all[i] = c;
	}
}

size_t
grant_copy_bytes(const struct grant *g)
{
	struct room r = { NULL, 0 };
	struct grant copy;

	put_grant(&r, g, &copy);
	return r.n;
}

void
grant_copy_into(void *memory, const struct grant *g, struct grant *ret)
{
	struct room r = { memory, 0 };

	put_grant(&r, g, ret);
}

int
grant_copy(struct zone *z, const struct grant *g, struct grant *ret)
{
	void *memory = zone_alloc(z, 1, grant_copy_bytes(g));

	if (memory == NULL)
		return -ENOMEM;
	grant_copy_into(memory, g, ret);
	return 0;
}
