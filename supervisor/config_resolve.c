#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util.h"
#include "supervisor/config.h"

struct resolver {
	const char *file;
	char *err;
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
		    (r = resolve_mounts(&k, t->mounts.v, t->mounts.n, "runtimes", i)) < 0)
			return r;
	}
	for (i = 0; i < c->providers.n; i++) {
		struct conf_provider *p = &c->providers.v[i];

		snprintf(key, sizeof(key), "providers[%zu].app", i);
		if ((r = resolve(&k, &p->app, true, p->at_app, key)) < 0)
			return r;
		snprintf(key, sizeof(key), "providers[%zu].root", i);
		if ((r = resolve(&k, &p->root, true, p->at_root, key)) < 0 ||
		    (r = resolve_mounts(&k, p->mounts.v, p->mounts.n, "providers", i)) < 0)
			return r;
	}
	return resolve_tls(&k, c->gateway.listen.v, c->gateway.listen.n);
}
