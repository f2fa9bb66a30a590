/*
 * launch_private: what the files of launch share.
 *
 *   launch.c        a launch from its birth to its end
 *   launch_start.c  births: of one that is wanted now, of one that stands by, and its order
 *   standby.c       which stand by
 */
#ifndef SUPERVISOR_LAUNCH_PRIVATE_H
#define SUPERVISOR_LAUNCH_PRIVATE_H

#include <sys/queue.h>

#include <event2/util.h>

#include "supervisor/cgroup.h"
#include "supervisor/launch.h"
#include "supervisor/launch_exit.h"
#include "supervisor/standby.h"
#include "worker/plan.h"

struct event;
struct ground_root;
struct listener;

/*
 * A launch is over when both of its processes are reaped and the launch socket has been
 * read to its end; only then does it speak of refusal or exit.  Any step may be the last
 * one of any process, so nothing here waits for a particular next message: each report is
 * checked against those that came before it, and every end leads to launch_settle().
 */
struct launch {
	struct event_base *base;
	struct launch_handler handler;
	void *arg;

	struct launch_proc launcher, init;
	int runtime_fd; /* the program's pidfd; without an init, pid 1's own */
	bool runtime_is_init;

	int socket_fd, status_fd;
	struct event *on_socket, *on_launcher, *on_init;
	struct event *on_grace; /* when pid 1 has had its time to reap; NULL: no order yet */

	struct plan_header *page; /* where the kernel writes the pid of pid 1 */
	size_t page_size;

	unsigned seen; /* 1 << enum launch_stage */
	int listener_number; /* in the runtime's process, -1: none */
	struct listener *listener; /* NULL: none, or not yet */
	struct learn *learn;
	struct launch_layers layers;
	struct ground_root *root; /* what the launcher is making, if it does */
	struct launch_kind kind; /* of its first half */
	bool stood_by; /* its first half was done before it was wanted */
	bool ordered; /* and has its order */
	bool recurs; /* others of its kind are likely to follow */
	bool released; /* it has our byte, and may exec */
	bool started, dying;
	enum layer layer; /* of the first failure; LAYER_NONE: none */
	int error;
	struct launch_evidence evidence; /* of why it ended */
	struct cgroup *cgroup;
	LIST_ENTRY(launch) ending; /* standby.c's: ended on its order */
};

/* ---- launch.c ---- */

/* Events of a launch, which is `arg`. */
void launch_on_socket(evutil_socket_t fd, short events, void *arg);
void launch_on_launcher(evutil_socket_t fd, short events, void *arg);
/* Kills and reaps its processes, however far they are. */
void launch_end_now(struct launch *l);
/* Of one whose processes are reaped, or were never born. */
void launch_free(struct launch *l);

/* ---- launch_start.c ---- */

/*
 * Begins a launch that waits for its order: of `kind`, whose root is still held.  0 and `*ret`;
 * -ENOENT if it is not; another negative errno.
 */
int launch_stand(struct event_base *base, const struct launch_kind *kind,
    const struct launch_handler *handler, void *arg, struct launch **ret);
/* May it still be given its order?  Asks the kernel, before any event comes. */
bool launch_stands(const struct launch *l);

#endif /* SUPERVISOR_LAUNCH_PRIVATE_H */
