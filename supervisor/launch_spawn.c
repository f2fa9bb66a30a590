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

/* Everything that the child reads: it has the parent's memory, and must change none of it. */
struct spawn {
	char path[PATH_MAX];
	int from[LAUNCH_FDS_MAX + 2]; /* in the order of their places, from LAUNCH_FD_SOCKET on */
	int high[LAUNCH_FDS_MAX + 2]; /* scratch */
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
	if (sigprocmask(SIG_SETMASK, &all, &old) < 0)
		return -errno;
	pid = clone(spawn_child, stack + sizeof(stack),
	    CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, s, &pidfd);
	error = errno;
	sigprocmask(SIG_SETMASK, &old, NULL);
	return pid < 0 ? -error : pidfd;
}

size_t
launch_spawn_fds(const int *fds, size_t nfds, int null_fd, int *out)
{
	size_t n = nfds < 3 ? 3 : nfds;

	for (size_t i = 0; i < n; i++) {
		out[i] = i < nfds ? fds[i] : -1;
		if (out[i] < 0 && i >= 3)
			return 0;
		if (out[i] < 0)
			out[i] = null_fd;
	}
	return n;
}

int
launch_spawn(int socket, int plan, const int *fds, size_t nfds)
{
	static struct spawn s; /* the child has this very copy */
	siginfo_t si;
	int pidfd;

	if (nfds > LAUNCH_FDS_MAX)
		return -EINVAL;
	snprintf(s.path, sizeof(s.path), "%s/caisson-worker", launch_libexec());
	s.n = 0;
	s.error = 0;
	s.from[s.n++] = socket;
	s.from[s.n++] = plan;
	for (size_t i = 0; i < nfds; i++)
		s.from[s.n++] = fds[i];
	pidfd = clone_vfork(&s);
	if (pidfd < 0 || s.error == 0)
		return pidfd;
	waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED | __WALL);
	close(pidfd);
	return -s.error;
}
