#include "supervisor/launch_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/child.h"
#include "common/util.h"
#include "supervisor/launch_plan.h"
#include "worker/plan.h"

/* Everything that the child reads: it has the parent's memory, and must change none of it. */
struct spawn {
	char path[PATH_MAX];
	int from[PLAN_FDS_MAX + 3]; /* in the order of their places, from LAUNCH_FD_SOCKET on */
	int high[PLAN_FDS_MAX + 3]; /* scratch */
	int n;
	int error;
};

/*
 * Runs on a stack of its own in the parent's memory, all signals blocked.  First
 * everything moves above the places, so that no place is taken before it was read.
 */
static int __attribute__((no_sanitize("address", "undefined")))
spawn_child(void *arg)
{
	struct spawn *s = arg;
	char *argv[] = { (char[]){ "caisson-worker" }, NULL }, *env[] = { NULL };
	int i;

	for (i = 0; i < s->n; i++) {
		s->high[i] = fcntl(s->from[i], F_DUPFD_CLOEXEC, LAUNCH_FD_SOCKET + s->n);
		if (s->high[i] < 0)
			goto fail;
	}
	for (i = 0; i < s->n; i++)
		if (dup2(s->high[i], LAUNCH_FD_SOCKET + i) < 0)
			goto fail;
	execve(s->path, argv, env);
fail:
	s->error = errno;
	_exit(127);
}

static int
clone_vfork(struct spawn *s)
{
	static char stack[64 << 10] __attribute__((aligned(16)));
	sigset_t all, old;
	int pidfd = -1, error;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = clone(spawn_child, stack + sizeof(stack),
	    CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, s, &pidfd);
	error = errno;
	sigprocmask(SIG_SETMASK, &old, NULL);
	return pid < 0 ? -error : pidfd;
}

int
launch_spawn(int socket, int plan, const int *fds, size_t nfds, int status)
{
	static struct spawn s; /* the child has this very copy */
	siginfo_t si;
	int pidfd;

	if (nfds > PLAN_FDS_MAX)
		return -EINVAL;
	snprintf(s.path, sizeof(s.path), "%s/caisson-worker", launch_libexec());
	s.n = 0;
	s.error = 0;
	s.from[s.n++] = socket;
	s.from[s.n++] = plan;
	for (size_t i = 0; i < nfds; i++)
		s.from[s.n++] = fds[i];
	if (status >= 0)
		s.from[s.n++] = status;
	pidfd = clone_vfork(&s);
	if (pidfd < 0 || s.error == 0)
		return pidfd;
	waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED | __WALL);
	close(pidfd);
	return -s.error;
}
