#include <string.h>

#include "supervisor/config_private.h"

#define refuse conf_check_refuse

/* What grants and the ceiling say, beyond what one field alone can. */

int
conf_check_words(struct conf_checker *k, const struct conf_words *w, size_t max,
    struct node_at at, const char *key)
{
	size_t i, j;

	for (i = 0; i < w->n; i++) {
		if (!*w->v[i] || strlen(w->v[i]) > max)
			return refuse(k, at, "%s[%zu]: expected 1 to %zu bytes", key, i, max);
		for (j = 0; j < i; j++)
			if (!strcmp(w->v[i], w->v[j]))
				return refuse(k, at, "%s[%zu]: stands there twice", key, i);
	}
	return 0;
}

static int
check_actions(
    struct conf_checker *k, const struct conf_capability *v, size_t n, const char *key)
{
	char sub[100];
	size_t i;
	int r = 0;

	for (i = 0; i < n && r == 0; i++) {
		snprintf(sub, sizeof(sub), "%s[%zu].actions", key, i);
		r = conf_check_words(k, &v[i].actions, 128, v[i].at_actions, sub);
	}
	return r;
}

static int
check_grant(struct conf_checker *k, const struct conf_grant *g, const char *key)
{
	const struct conf_constraints *c = &g->constraints;
	char sub[100];
	int r;

	if (g->capabilities.n == 0)
		return refuse(k, g->at, "%s.capabilities: is empty, expected at least 1", key);
	snprintf(sub, sizeof(sub), "%s.capabilities", key);
	r = check_actions(k, g->capabilities.v, g->capabilities.n, sub);
	if (r < 0)
		return r;
	snprintf(sub, sizeof(sub), "%s.constraints.purposes", key);
	if ((r = conf_check_words(k, &c->purposes, 512, c->at_purposes, sub)) < 0)
		return r;
	if (c->has_notBefore && c->has_expiresAt && c->notBefore >= c->expiresAt)
		return refuse(k, c->at_expiresAt,
		    "%s.constraints.expiresAt: is not after notBefore, expected a later "
		    "instant",
		    key);
	return 0;
}

int
conf_check_grants(struct conf_checker *k)
{
	char key[40];
	size_t i;
	int r;

	r = check_actions(k, k->c->ceiling.v, k->c->ceiling.n, "ceiling");
	for (i = 0; i < k->c->grants.n && r == 0; i++) {
		snprintf(key, sizeof(key), "grants[%zu]", i);
		r = check_grant(k, &k->c->grants.v[i], key);
	}
	return r;
}
