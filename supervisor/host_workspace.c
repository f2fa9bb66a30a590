/* The workspaces of a daemon's sessions: what its broker orders, and is told. */
#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "supervisor/host_private.h"

static void
workspaces_tell(const struct control *c, void *arg)
{
	struct host *h = arg;

	peer_send(h->services[BROKER].peer, c, NULL, 0);
}

static void
workspaces_on_idle(void *arg)
{
	host_go_on(arg);
}

static const struct workspaces_handler handler = {
	.tell = workspaces_tell,
	.on_idle = workspaces_on_idle,
};

int
host_open_workspaces(struct host *h)
{
	h->workspaces = workspaces_create(h->base, h->o.run->workspaces_fd,
	    h->o.run->workspaces, h->config->sessions.max, &handler, h);
	if (h->workspaces) {
		children_show(h->children, h->workspaces);
		return 0;
	}
	log_error("cannot read %s: %s", h->o.run->workspaces, strerror(errno));
	return -errno;
}

int
host_workspace(struct host *h, const struct control *c)
{
	return h->workspaces ? workspaces_make(h->workspaces, c->workspace) : -EPROTO;
}

int
host_workspace_drop(struct host *h, const struct control *c)
{
	return h->workspaces ? workspaces_drop(h->workspaces, c->workspace) : -EPROTO;
}
