#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/util.h"
#include "supervisor/host_private.h"
#include "supervisor/profiles.h"

static const char *const programs[SERVICES] = { "/libexec/caisson-broker",
	"/libexec/caisson-ledger", "/libexec/caisson-gateway" };

void
service_drop_peer(struct service *s)
{
	peer_close(s->peer);
	s->peer = NULL;
}

static int
claim_uid(struct service *s, struct chamber *c)
{
	static const struct uid_range range = CHILD_UID_RANGE;
	int r;

	if (!uid_is_root())
		return 0;
	if (s->uid.lock_fd < 0) {
		r = uid_claim(&range, &s->uid);
		if (r < 0)
			return r;
		if (s->id == LEDGER) {
			r = rundir_give(s->host->o.run, s->uid.uid, s->uid.uid);
			if (r < 0)
				return r;
		}
	}
	c->uid = s->uid.uid;
	c->gid = s->uid.uid;
	return 0;
}

int
service_start(struct service *s, const struct chamber_mount *mounts, size_t nmounts,
    const int *more, size_t nmore, enum layer *ret_layer)
{
	char last[16];
	char *const argv[] = { (char *)(uintptr_t)programs[s->id], s->id == GATEWAY ? last : NULL,
		NULL };
	char *env[] = { NULL, NULL, NULL }, **next = env;
	int fds[RUNTIME_FD_LINK + 2 + SOCKETS_MAX] = { -1, -1, STDERR_FILENO, -1 }, ours;
	cleanup_fd int theirs = -1;
	struct chamber c = { .profile = profile_named(service_names[s->id]),
		.argv = argv,
		.env = env,
		.cwd = "/",
		.mounts = mounts,
		.nmounts = nmounts,
		.fds = fds,
		.nfds = RUNTIME_FD_LINK + 1 + nmore,
		/* Broker and ledger settle at end-of-file; a gateway has nothing to settle. */
		.die_with_parent = s->id == GATEWAY };
	int r;

#ifdef CAISSON_TEST_STOPS
	/* For the first one only, or with "again:POINT" for the second: the next lives. */
	static unsigned starts[SERVICES];
	cleanup_free char *stop = NULL;
	const char *point = getenv(STOP_ENV);
	bool again = point && !strncmp(point, "again:", 6);

	if (point && starts[s->id] == again &&
	    asprintf(&stop, STOP_ENV "=%s", again ? point + 6 : point) > 0)
		*next++ = stop;
	starts[s->id]++;
#endif
	if (log_get_format() == LOG_JSON)
		*next = (char *)(uintptr_t)LOG_ENV "=json";
	snprintf(last, sizeof(last), "%zu", RUNTIME_FD_LINK + nmore);
	*ret_layer = LAYER_UID;
	r = claim_uid(s, &c);
	if (r < 0)
		return r;
	*ret_layer = LAYER_DESCRIPTORS;
	r = peer_pair(SOCK_SEQPACKET, true, true, &ours, &theirs);
	if (r < 0)
		return r;
	s->peer = peer_open(s->host->base, ours, &service_peers[s->id], s);
	if (!s->peer)
		return -errno;
	fds[RUNTIME_FD_LINK] = theirs;
	memcpy(fds + RUNTIME_FD_LINK + 1, more, nmore * sizeof(*more));
	s->unanswered = s->unready = 0;
	s->started = false;
	s->since_ms = clock_wall_ms();
	r = launch_start(s->host->base, &c, &service_handler, s, &s->launch, ret_layer);
	if (r < 0)
		service_drop_peer(s);
	return r;
}

void
service_explain(const struct service *s, enum layer layer, int error)
{
	char why[512];

	if (s->host->status) /* the first failure is the reason; what follows is its doing */
		return;
	launch_explain(layer, error, why, sizeof(why));
	log_error("cannot start the %s: %s", service_names[s->id], why);
}

static int
start_broker_with(struct host *h, enum layer *ret_layer)
{
	cleanup_fd int config = -1;

	h->o.facts.since = children_config_since(h->children);
	config = pack_sealed(h->config, &h->o.facts);
	*ret_layer = LAYER_PLAN;
	if (config < 0)
		return config;
	h->ready = false;
	return service_start(&h->services[BROKER], NULL, 0, &config, 1, ret_layer);
}

void
host_start_broker(struct host *h)
{
	enum layer layer;
	int r;

	r = start_broker_with(h, &layer);
	STOP_POINT("supervisor.after_broker");
	if (r < 0) {
		service_explain(&h->services[BROKER], layer, -r);
		host_fail(h, layer, -r);
		return;
	}
	host_connect_ledger(h);
}

/* The ledger opens what is beneath its descriptors; the mounts say to Landlock what it may. */
void
host_start_ledger(struct host *h)
{
	struct service *s = &h->services[LEDGER];
	const struct chamber_mount mounts[] = {
		{ .source = h->o.run->journal, .target = "/journal" },
		{ .source = h->o.run->index, .target = "/index", .writable = true },
	};
	const int fds[] = { h->o.run->journal_fd, h->o.run->index_fd };
	enum layer layer;
	int r;

	r = service_start(s, mounts, countof(mounts), fds, countof(fds), &layer);
	STOP_POINT("supervisor.after_ledger");
	if (r < 0) {
		service_explain(s, layer, -r);
		host_fail(h, layer, -r);
		return;
	}
	host_connect_ledger(h);
}
