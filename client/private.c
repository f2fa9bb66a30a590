#include "client/private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/child.h"
#include "common/control.h"
#include "common/util.h"

#define FD_ABOVE                                                                               \
	16 /* where no descriptor of the contract lies: dup2() then never meets its source */

struct private
{
	const struct private_handler *handler;
	void *arg;
	pid_t pid; /* 0 once reaped */
	int control_fd, life_fd;
	struct event *control, *child;
};

char *
private_program(void)
{
	char *path = realpath("/proc/self/exe", NULL), *slash, *ret = NULL;

	if (path == NULL)
		return NULL;
	slash = strrchr(path, '/');
	*slash = '\0';
	if (asprintf(&ret, "%s/caissond", path) < 0)
		ret = NULL;
	free(path);
	return ret;
}

/* Moves the descriptor to FD_ABOVE or beyond. */
static int
lift_fd(int *fd)
{
	int above = fcntl(*fd, F_DUPFD_CLOEXEC, FD_ABOVE);

	if (above < 0)
		return -errno;
	close(*fd);
	*fd = above;
	return 0;
}

static int
spawn(const char *path, char **argv, int control_fd, int life_fd, int proposal_fd, pid_t *ret)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(
	    &attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	r = 0;
	if (proposal_fd >= 0) /* may be our standard output, which it gets no other way */
		r = posix_spawn_file_actions_adddup2(&files, proposal_fd, PRIVATE_FD_PROPOSAL);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(
		    &files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(
		    &files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&files, control_fd, PRIVATE_FD_CONTROL);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&files, life_fd, PRIVATE_FD_LIFE);
	if (r == 0)
		r = posix_spawn_file_actions_addclosefrom_np(&files,
		    (proposal_fd >= 0 ? PRIVATE_FD_PROPOSAL : PRIVATE_FD_LIFE) + 1);
	if (r == 0)
		r = posix_spawn(ret, path, &files, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return -r;
}

static void
private_close_control(struct private *p)
{
	if (p->control != NULL)
		event_free(p->control);
	p->control = NULL;
	util_close(&p->control_fd);
	p->control_fd = -1;
}

static void
private_on_control(evutil_socket_t fd, short events, void *arg)
{
	struct private *p = arg;
	int fds[CONTROL_FDS_MAX], r;
	struct control c;
	unsigned nfds, i;

	(void)events;
	r = control_recv((int)fd, &c, fds, &nfds);
	if (r == -EAGAIN)
		return;
	if (r <= 0) { /* it is gone, or about to be: SIGCHLD says the rest */
		private_close_control(p);
		return;
	}
	for (i = c.verb == CONTROL_BROKER ? 1 : 0; i < nfds; i++)
		close(fds[i]);
	if (c.verb == CONTROL_BROKER && nfds > 0)
		p->handler->on_broker(fds[0], p->arg);
	else if (c.verb == CONTROL_FAILED)
		p->handler->on_failed(p->arg);
}

static void
private_on_child(evutil_socket_t fd, short events, void *arg)
{
	struct private *p = arg;
	int status;
	char byte;

	(void)fd;
	(void)events;
	if (p->pid == 0 || waitpid(p->pid, &status, WNOHANG) != p->pid)
		return;
	/* What it sent before it died is still to be read. */
	while (
	    p->control != NULL && recv(p->control_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
		private_on_control(p->control_fd, 0, p);
	p->pid = 0;
	private_close_control(p);
	p->handler->on_gone(status, p->arg);
}

int
private_start(struct event_base *base, int argc, char **argv, int proposal_fd,
    const struct private_handler *handler, void *arg, struct private **ret)
{
	int control[2] = { -1, -1 }, life[2] = { -1, -1 }, i, r = -ENOMEM;
	cleanup_free char *path = private_program();
	cleanup_free char **words = calloc((size_t)argc + 3, sizeof(*words));
	struct private *p = calloc(1, sizeof(*p));

	if (p != NULL)
		p->control_fd = p->life_fd = -1;
	if (path == NULL || words == NULL || p == NULL)
		goto out;
	words[0] = path;
	words[1] = (char *)(uintptr_t) "--private";
	for (i = 0; i < argc; i++)
		words[i + 2] = argv[i];
	p->handler = handler;
	p->arg = arg;
	r = -EMFILE;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, control) <
		0 ||
	    pipe2(life, O_CLOEXEC) < 0 || lift_fd(&control[1]) < 0 || lift_fd(&life[0]) < 0)
		goto out;
	p->control_fd = steal_fd(&control[0]);
	p->life_fd = steal_fd(&life[1]);
	r = -ENOMEM;
	p->control =
	    event_new(base, p->control_fd, EV_READ | EV_PERSIST, private_on_control, p);
	p->child = evsignal_new(base, SIGCHLD, private_on_child, p);
	if (p->control == NULL || p->child == NULL || event_add(p->control, NULL) < 0 ||
	    event_add(p->child, NULL) < 0)
		goto out;
	r = spawn(path, words, control[1], life[0], proposal_fd, &p->pid);
	if (r == 0) {
		*ret = p;
		p = NULL;
	}
out:
	private_destroy(p);
	for (i = 0; i < 2; i++) {
		util_close(&control[i]);
		util_close(&life[i]);
	}
	return r;
}

void
private_end(struct private *p)
{
	util_close(&p->life_fd);
	p->life_fd = -1;
	private_close_control(p);
}

void
private_destroy(struct private *p)
{
	if (p == NULL)
		return;
	private_end(p);
	if (p->child != NULL)
		event_free(p->child);
	free(p);
}
