/* The configuration, and one that follows it: whole, or not at all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/stop.h"
#include "common/util.h"
#include "supervisor/host_private.h"

const struct conf_namespace *
host_config(const struct host *h)
{
	return h->config;
}

bool
host_is_ready(const struct host *h)
{
	return h->stage == STAGE_RUNNING && h->ready && h->services[BROKER].peer &&
	       !h->offered;
}

void
host_refresh(struct host *h)
{
	if (!host_is_ready(h))
		return;
	children_refresh(h->children);
	standby_renew((unsigned)h->config->standby);
}

int
host_reload(struct host *h, struct conf_namespace *c, uint64_t timeout_ms)
{
	struct pack_facts facts = h->o.facts;
	struct control m = { .verb = CONTROL_CONFIG, .generation = h->generations };
	int fd, r;

	if (h->stage != STAGE_RUNNING)
		return -ESHUTDOWN;
	if (!host_is_ready(h))
		return -EAGAIN;
	r = children_config_offer(h->children, h->generations, c);
	if (r < 0)
		return r;
	facts.timeout_ms = timeout_ms;
	facts.generation = h->generations;
	facts.since = children_config_since(h->children);
	fd = pack_sealed(c, &facts);
	if (fd < 0) {
		children_config_drop(h->children);
		return fd;
	}
	h->offered = c;
	h->offered_timeout_ms = timeout_ms;
	h->generations++;
	STOP_POINT("supervisor.before_config");
	peer_send(h->services[BROKER].peer, &m, &fd, 1);
	STOP_POINT("supervisor.after_config");
	return 0;
}

static void
answer(struct host *h, int error, const struct control *c)
{
	struct conf_namespace *offered = h->offered;

	h->offered = NULL;
	if (error < 0) {
		/* First, as who hears of it may have the next one at hand. */
		children_config_drop(h->children);
		h->o.on_reloaded(error, c ? (enum config_row_kind)c->kind : CONFIG_ROW_NONE,
		    c ? c->index : 0, offered, h->o.arg);
		conf_finish(offered);
		free(offered);
		return;
	}
	h->config = offered;
	host_limit_sessions(h, offered);
	h->o.facts.timeout_ms = h->offered_timeout_ms;
	h->o.facts.generation = h->generations - 1;
	children_config_take(h->children, h->stage == STAGE_RUNNING);
	standby_renew((unsigned)offered->standby);
	h->o.on_reloaded(0, CONFIG_ROW_NONE, 0, offered, h->o.arg);
}

/* A broker that cannot begin: the next one could not, either. */
static void
refuse_first(struct host *h, const struct control *c)
{
	char err[CONF_ERROR_MAX];

	conf_refuse_row(
	    err, h->o.config_file, h->config, (enum config_row_kind)c->kind, c->index);
	log_error("%s", err);
	host_fail(h, LAYER_NONE, c->error);
}

int
host_config_taken(struct host *h, const struct control *c)
{
	if (!h->offered && !h->ready && c->error > 0) {
		refuse_first(h, c);
		return 0;
	}
	if (!h->offered || c->generation != h->generations - 1 || c->error < 0)
		return -EPROTO;
	answer(h, -c->error, c);
	/* Half of it is in force, and what is left refuses everything: the next one is
	 * whole. */
	if (c->error == EIO && h->services[BROKER].launch)
		launch_kill(h->services[BROKER].launch, ENDING_host_lost);
	return 0;
}

int
host_config_over(struct host *h, const struct control *c)
{
	return children_config_over(h->children, c->generation);
}

void
host_config_alone(struct host *h)
{
	if (h->offered)
		answer(h, -EPIPE, NULL);
	children_config_over_all(h->children);
}
