/* What lives in this namespace, for its broker. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "supervisor/host_private.h"
#include "supervisor/process.h"
#include "supervisor/profiles.h"

struct list {
	struct process *v;
	size_t n, cap;
	bool failed;
};

static void
list_add(const struct process *p, void *arg)
{
	struct list *l = arg;
	struct process *more;

	if (l->failed)
		return;
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 16;
		more = reallocarray(l->v, l->cap, sizeof(*more));
		if (!more) {
			l->failed = true;
			return;
		}
		l->v = more;
	}
	l->v[l->n++] = *p;
}

static void
add_service(struct list *l, const struct service *s)
{
	static const char *const of_broker[] = { "null", "null", "log", "control", "config",
		NULL };
	static const char *const of_ledger[] = { "null", "null", "log", "control", "journal",
		"index", NULL };
	static const char *const of_gateway[] = { "null", "null", "log", "control", "listening",
		"config", NULL };
	static const struct {
		enum process_role role;
		const char *const *handed;
	} facts[SERVICES] = {
		[BROKER] = { process_role_broker, of_broker },
		[LEDGER] = { process_role_ledger, of_ledger },
		[GATEWAY] = { process_role_gateway, of_gateway },
	};
	struct process p = {
		.role = facts[s->id].role,
		.state = s->started ? process_state_running : process_state_starting,
		.launch = s->launch,
		.uid = s->uid.lock_fd >= 0 ? s->uid.uid : geteuid(),
		.profile = profile_named(service_names[s->id]),
		.handed = facts[s->id].handed,
		.since_ms = s->since_ms,
	};

	if (s->launch)
		list_add(&p, l);
}

/* No program, so no profile: only what is decided already.  As root its uid is not: that
 * comes with the order, and to call it root's until then would say more than it may do. */
static void
add_standby(const struct launch *l, uint64_t since_ms, void *arg)
{
	static const char *const handed[] = { NULL };
	static const struct profile own = { .name = "-", .network = NETWORK_OWN },
				    shared = { .name = "-", .network = NETWORK_SHARED };
	struct process p = {
		.role = process_role_standby,
		.state = launch_pid(l) ? process_state_warm : process_state_starting,
		.launch = l,
		.uid = geteuid(),
		.uid_comes = uid_is_root(),
		.profile = standby_shares_network(l) ? &shared : &own,
		.handed = handed,
		.since_ms = since_ms,
	};

	list_add(&p, arg);
}

static int
pack_processes(const struct host *h, struct buf *b)
{
	struct list l = { 0 };
	int i, r;

	for (i = 0; i < SERVICES; i++)
		add_service(&l, &h->services[i]);
	children_each(h->children, list_add, &l);
	standby_each(add_standby, &l);
	r = l.failed ? -ENOMEM : process_pack(b, l.v, l.n);
	free(l.v);
	return r;
}

int
host_list(struct host *h)
{
	struct control m = { .verb = CONTROL_PROCESSES };
	struct buf b = { 0 };
	int fd = pack_processes(h, &b);

	if (fd >= 0)
		fd = pack_memfd(&b);
	buf_finish(&b);
	if (fd < 0) {
		log_warn("cannot list the processes: %s", strerror(-fd));
		m.error = -fd;
	}
	peer_send(h->services[BROKER].peer, &m, &fd, fd >= 0);
	return 0;
}
