#include "supervisor/launch_layers.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/child.h"
#include "common/util.h"
#include "supervisor/peer.h"
#include "supervisor/profiles.h"
#include "worker/kernel.h"

/* The supervisor's; no report can say anything about them. */
static const enum layer own[] = { LAYER_RIGHTS, LAYER_EXIT_FACTS };

int
launch_layers_probe_exit_facts(void)
{
	struct kernel_pidfd_info info = { .mask = KERNEL_PIDFD_INFO_EXIT };
	cleanup_fd int self = (int)syscall(SYS_pidfd_open, getpid(), 0);

	return self < 0 || ioctl(self, KERNEL_PIDFD_GET_INFO, &info) < 0 ? -errno : 0;
}

/* Above 0, 0 without a link, or a negative errno. */
static int
link_rights(const struct chamber *c)
{
	int on = 1;
	socklen_t n = sizeof(on);

	if (c->nfds <= RUNTIME_FD_LINK)
		return 0;
	/* Both ends of a link are made alike (peer_pair). */
	if (getsockopt(c->fds[RUNTIME_FD_LINK], SOL_SOCKET, PEER_SO_PASSRIGHTS, &on, &n) < 0)
		return errno == ENOTSOCK ? 0 : -errno;
	return on == 0;
}

int
launch_layers_own(const struct chamber *c, struct launch_layers *ret, enum layer *ret_layer)
{
	static int exit_facts = 1; /* 1: not asked yet */
	uint32_t optional = c->profile->optional & ~c->required;
	int state[LAYER_MAX];

	if (exit_facts > 0)
		exit_facts = launch_layers_probe_exit_facts();
	state[LAYER_RIGHTS] = link_rights(c);
	state[LAYER_EXIT_FACTS] = exit_facts == 0 ? 1 : exit_facts;
	for (size_t i = 0; i < countof(own); i++) {
		enum layer layer = own[i];

		if (state[layer] < 0 && (optional & 1u << layer) == 0) {
			*ret_layer = layer;
			return state[layer];
		}
		ret->state[layer] = (int16_t)state[layer];
	}
	return 0;
}

void
launch_layers_report(struct launch_layers *l, const int16_t reported[LAYER_MAX])
{
	struct launch_layers all = { { 0 } };

	for (size_t i = 0; i < LAYER_MAX; i++)
		all.state[i] = reported[i];
	for (size_t i = 0; i < countof(own); i++)
		all.state[own[i]] = l->state[own[i]];
	*l = all;
}
