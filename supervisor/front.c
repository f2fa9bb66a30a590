#include "supervisor/front.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "supervisor/pack.h"

#define KEY_MAX 40

static size_t
fill_wanted(const struct conf_gateway *g, struct sockets_want *want, char (*keys)[KEY_MAX])
{
	size_t i;

	for (i = 0; i < g->listen.n; i++) {
		snprintf(keys[i], KEY_MAX, "gateway.listen[%zu]", i);
		want[i] = (struct sockets_want){ .key = keys[i],
			.address = g->listen.v[i].address,
			.path = g->listen.v[i].socket,
			.name = "public" };
	}
	if (!g->monitor)
		return i;
	want[i] = (struct sockets_want){ .key = "gateway.monitor",
		.address = g->monitor[0] == '/' ? NULL : g->monitor,
		.path = g->monitor[0] == '/' ? g->monitor : NULL,
		.name = "monitor" };
	return i + 1;
}

int
front_open(const struct conf_namespace *c, const char *file, struct activation *a,
    struct front *ret, char err[CONF_ERROR_MAX])
{
	struct sockets_want want[SOCKETS_MAX];
	char keys[SOCKETS_MAX][KEY_MAX];
	int r;

	*ret = (struct front){ .sockets = NULL };
	if (!c->has_gateway)
		return 0;
	r = pack_gateway(&ret->config, c, file, err);
	if (r < 0)
		return r;
	return sockets_open(
	    want, fill_wanted(&c->gateway, want, keys), a, &ret->sockets, err);
}

void
front_log(const struct front *f)
{
	char name[SOCKETS_NAME_MAX];
	size_t i;

	for (i = 0; i < sockets_count(f->sockets); i++) {
		sockets_name(f->sockets, i, name);
		log_info("gateway listens on %s", name);
	}
}

void
front_end(struct front *f)
{
	sockets_close(f->sockets);
	f->sockets = NULL;
}

void
front_finish(struct front *f)
{
	front_end(f);
	front_forget(&f->config);
}

void
front_forget(struct buf *config)
{
	if (config->p)
		explicit_bzero(config->p, config->n);
	buf_finish(config);
	*config = (struct buf){ 0 };
}
