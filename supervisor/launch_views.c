#include "supervisor/launch_views.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
views_add(struct views *s, const struct view *view)
{
	if (s->n == VIEWS_MAX)
		return -E2BIG;
	s->v[s->n++] = *view;
	return 0;
}

static void
views_free(const struct view *v)
{
	free(v->made);
	free(v->made_source);
}

void
views_finish(struct views *s)
{
	for (size_t i = 0; i < s->n; i++)
		views_free(&s->v[i]);
	s->n = 0;
}

const char *
views_below(const char *path, const char *above)
{
	if (path[0] != '/' || above[0] != '/')
		return NULL;
	for (;;) {
		size_t n;

		path += strspn(path, "/");
		above += strspn(above, "/");
		n = strcspn(above, "/");
		if (n == 0)
			return path;
		if (strncmp(path, above, n) != 0 || (path[n] != '/' && path[n] != '\0'))
			return NULL;
		path += n;
		above += n;
	}
}

static bool
is_same(const char *a, const char *b)
{
	const char *rest = views_below(a, b);

	return rest != NULL && rest[0] == '\0';
}

static size_t
depth(const char *path)
{
	size_t n = 0;

	for (path += strspn(path, "/"); *path != '\0'; path += strspn(path, "/"), n++)
		path += strcspn(path, "/");
	return n;
}

/* Parents first, and otherwise as it was said. */
static void
sort(struct views *s)
{
	for (size_t i = 1; i < s->n; i++) {
		struct view v = s->v[i];
		size_t at = i;

		if (v.standing)
			continue;
		for (; at > 0 && !s->v[at - 1].standing &&
		     depth(s->v[at - 1].target) > depth(v.target);
		     at--)
			s->v[at] = s->v[at - 1];
		s->v[at] = v;
	}
}

/* Who shows what `path` names: the deepest that it lies in, the last of those that are there. */
static const struct view *
shows(const struct views *s, const char *path)
{
	const struct view *found = NULL;

	for (size_t i = 0; i < s->n; i++)
		if (views_below(path, s->v[i].target) != NULL &&
		    (found == NULL || depth(s->v[i].target) >= depth(found->target)))
			found = &s->v[i];
	return found;
}

/* Path `rest` below `at`, ours to free. */
static char *
join(const char *at, const char *rest)
{
	char *path;

	return asprintf(&path, "%s%s%s", at, at[strlen(at) - 1] == '/' ? "" : "/", rest) < 0 ?
	    NULL : path;
}

/* Of those that show a thing at `path`, `w` shows it so far: shows it there by itself. */
static int
cover(struct views *s, const struct view *w, const char *path)
{
	struct view v = { .target = path, .writable = true, .idmap = w->idmap };
	int ret = -ENOMEM;

	v.whole = w->whole != NULL ? w->whole : w->source;
	v.made = strdup(path);
	v.made_source = join(w->source, views_below(path, w->target));
	v.target = v.made;
	v.source = v.made_source;
	if (v.made != NULL && v.made_source != NULL)
		ret = views_add(s, &v);
	if (ret < 0)
		views_free(&v);
	return ret;
}

/*
 * A chamber that can write above a mount cannot move the mount, but what lies between, and the
 * mount with it: unless that is a mount, too.
 */
static int
cover_between(struct views *s, const struct view *w, const char *target)
{
	char between[4096];
	const char *rest = views_below(target, w->target);

	for (rest = rest != NULL ? strchr(rest, '/') : NULL; rest != NULL;
	     rest = strchr(rest, '/')) {
		size_t n = (size_t)(rest - target);
		const struct view *v;

		rest += strspn(rest, "/");
		if (rest[0] == '\0')
			return 0;
		if (n >= sizeof(between))
			return -E2BIG;
		memcpy(between, target, n);
		between[n] = '\0';
		v = shows(s, between);
		if (v == w)
			return cover(s, w, between); /* who is the next to be looked at */
		if (v != NULL && !v->writable)
			return 0; /* from here on nothing can be moved */
	}
	return 0;
}

/* For reading only, where a writable directory shows it at `path`.  What lies between may be
 * moved: what starts here is what stands elsewhere. */
static int
show_again(struct views *s, const char *source, const char *path)
{
	struct view v = { .source = source, .made = strdup(path) };
	int ret = -ENOMEM;

	v.target = v.made;
	if (v.made != NULL)
		ret = views_add(s, &v);
	if (ret < 0)
		views_free(&v);
	return ret;
}

/* `r`, which is read-only, lies in `w`, which is writable: at `place` there. */
static int
settle_within(struct views *s, struct view *r, const struct view *w, const char *place)
{
	if (is_same(r->target, place))
		return cover_between(s, w, r->target);
	if (shows(s, place) != w)
		return 0;
	if (r->ours && !is_same(r->source, w->source))
		return show_again(s, r->source, place);
	if (r->standing)
		return -EACCES;
	r->executable = false;
	return 0;
}

/* `w`, which is writable, lies in `r`, from which programs start: at `place` there. */
static int
settle_around(struct views *s, const struct view *r, const struct view *w, char *place)
{
	struct view shown = {
		.source = w->source, .target = place, .idmap = w->idmap, .made = place
	};
	int ret;

	if (shows(s, place) != r) {
		free(place);
		return 0;
	}
	ret = views_add(s, &shown);
	if (ret < 0)
		free(place);
	return ret;
}

static int
settle(struct views *s, struct view *r, const struct view *w)
{
	const char *within = views_below(r->source, w->source);
	const char *around = views_below(w->source, r->source);
	char *place;
	int ret;

	if (within == NULL && (around == NULL || around[0] == '\0'))
		return 0;
	place = within != NULL ? join(w->target, within) : join(r->target, around);
	if (place == NULL)
		return -ENOMEM;
	if (within == NULL)
		return settle_around(s, r, w, place);
	ret = settle_within(s, r, w, place);
	free(place);
	return ret;
}

int
views_settle(struct views *s)
{
	size_t n = s->n;
	int ret = 0;

	sort(s);
	s->fault = SIZE_MAX;
	for (size_t i = 0; i < n && ret == 0; i++)
		for (size_t j = 0; j < s->n && ret == 0; j++) /* those that come, too */
			if (!s->v[i].writable && s->v[j].writable && !s->v[j].executable) {
				ret = settle(s, &s->v[i], &s->v[j]);
				s->fault = ret < 0 ? j : SIZE_MAX;
			}
	if (ret == 0)
		sort(s);
	return ret;
}
