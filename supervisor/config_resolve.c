#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util.h"
#include "supervisor/config.h"
#include "supervisor/launch_plan.h"
#include "supervisor/profiles.h"

#define MOUNTS_MAX 132 /* 64 of the profile's, 64 of its own, an app, a root */

struct resolver {
	const char *file;
	char *err;
};

/* The mounts of a chamber, and where each is said. */
struct shown {
	struct chamber_mount v[MOUNTS_MAX];
	struct node_at at[MOUNTS_MAX];
	size_t n;
};

/* Puts the real path in the place of `*path`: the launcher follows no links, as a
 * chamber that may write above one could point it elsewhere. */
static int
resolve(struct resolver *k, char **path, bool directory, struct node_at at, const char *key)
{
	struct stat st;
	char *real;

	if (!*path)
		return 0;
	real = realpath(*path, NULL);
	if (!real || stat(real, &st) < 0) {
		conf_refuse(k->err, k->file, at, "%s: %.300s: %s", key, *path, strerror(errno));
		free(real);
		return -EINVAL;
	}
	free(*path);
	*path = real;
	if (directory && !S_ISDIR(st.st_mode))
		return conf_refuse(k->err, k->file, at,
		    "%s: %.300s: is no directory, expected one", key, real);
	return 0;
}

static int
resolve_mounts(struct resolver *k, struct conf_mount *v, size_t n, const char *list, size_t i)
{
	char key[80];
	size_t j;
	int r = 0;

	for (j = 0; j < n && r == 0; j++) {
		snprintf(key, sizeof(key), "%s[%zu].mounts[%zu].source", list, i, j);
		r = resolve(k, &v[j].source, false, v[j].at_source, key);
	}
	return r;
}

static void
show(struct shown *s, const char *source, const char *target, bool writable, struct node_at at)
{
	if (!source || s->n == MOUNTS_MAX) /* so many, the launch refuses for their number */
		return;
	s->at[s->n] = at;
	s->v[s->n++] = (struct chamber_mount){
		.source = source, .target = target, .writable = writable
	};
}

static void
show_all(struct shown *s, const struct conf_mount *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		show(s, v[i].source, v[i].target, v[i].writable, v[i].at_source);
}

static void
show_profile(struct shown *s, const struct profile *p)
{
	if (p->base)
		show_profile(s, p->base);
	show_all(s, p->mounts, p->nmounts);
}

/* What a launch would refuse, as far as names tell. */
static int
check_shown(struct resolver *k, const struct profile *p, const struct shown *s, const char *key)
{
	size_t which;
	int r = launch_plan_check(p, s->v, s->n, &which);

	if (r != -EACCES || which == s->n)
		return 0; /* the launch will say it */
	return conf_refuse(k->err, k->file, s->at[which],
	    "%s: %.300s, shown writable, holds the system's programs, or is that of our own, "
	    "expected less of it",
	    key, s->v[which].source);
}

static int
check_runtime(struct resolver *k, const struct conf_namespace *c, size_t i)
{
	const struct conf_runtime *t = &c->runtimes.v[i];
	const struct profile *p = conf_profile_named(c, t->profile);
	struct shown s = { .n = 0 };
	char key[40];

	snprintf(key, sizeof(key), "runtimes[%zu]", i);
	show_profile(&s, p);
	show(&s, t->app, "/app", false, t->at_app);
	show_all(&s, t->mounts.v, t->mounts.n);
	return check_shown(k, p, &s, key);
}

static int
check_provider(struct resolver *k, const struct conf_namespace *c, size_t i)
{
	const struct conf_provider *t = &c->providers.v[i];
	const struct profile *p = t->builtin == BUILTIN_FILES
				      ? profile_named("files")
				      : conf_profile_named(c, t->profile);
	struct shown s = { .n = 0 };
	char key[40];

	snprintf(key, sizeof(key), "providers[%zu]", i);
	show_profile(&s, p);
	show(&s, t->app, "/app", false, t->at_app);
	show_all(&s, t->mounts.v, t->mounts.n);
	/* Without a file that is where the caller happens to be, and perhaps nobody asks it. */
	if (k->file)
		show(&s, t->root, "/srv", true, t->at_root);
	return check_shown(k, p, &s, key);
}

/* Of the sockets, those that are not there yet are made. */
static int
resolve_tls(struct resolver *k, struct conf_listener *v, size_t n)
{
	char key[60];
	size_t i;
	int r = 0;

	for (i = 0; i < n && r == 0; i++) {
		snprintf(key, sizeof(key), "gateway.listen[%zu].tls.certificate", i);
		r = resolve(k, &v[i].tls.certificate, false, v[i].tls.at_certificate, key);
		if (r == 0) {
			snprintf(key, sizeof(key), "gateway.listen[%zu].tls.key", i);
			r = resolve(k, &v[i].tls.key, false, v[i].tls.at_key, key);
		}
	}
	return r;
}

int
conf_resolve(struct conf_namespace *c, const char *file, char err[CONF_ERROR_MAX])
{
	struct resolver k = { file, err };
	char key[40];
	size_t i;
	int r;

	for (i = 0; i < c->profiles.n; i++) {
		struct conf_profile *p = &c->profiles.v[i];

		if ((r = resolve_mounts(&k, p->mounts.v, p->mounts.n, "profiles", i)) < 0)
			return r;
	}
	for (i = 0; i < c->runtimes.n; i++) {
		struct conf_runtime *t = &c->runtimes.v[i];

		snprintf(key, sizeof(key), "runtimes[%zu].app", i);
		if ((r = resolve(&k, &t->app, true, t->at_app, key)) < 0 ||
		    (r = resolve_mounts(&k, t->mounts.v, t->mounts.n, "runtimes", i)) < 0 ||
		    (r = check_runtime(&k, c, i)) < 0)
			return r;
	}
	for (i = 0; i < c->providers.n; i++) {
		struct conf_provider *p = &c->providers.v[i];

		snprintf(key, sizeof(key), "providers[%zu].app", i);
		if ((r = resolve(&k, &p->app, true, p->at_app, key)) < 0)
			return r;
		snprintf(key, sizeof(key), "providers[%zu].root", i);
		if ((r = resolve(&k, &p->root, true, p->at_root, key)) < 0 ||
		    (r = resolve_mounts(&k, p->mounts.v, p->mounts.n, "providers", i)) < 0 ||
		    (r = check_provider(&k, c, i)) < 0)
			return r;
	}
	return resolve_tls(&k, c->gateway.listen.v, c->gateway.listen.n);
}
