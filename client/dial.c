#include "client/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "client/text.h"
#include "common/control.h"
#include "common/local_socket.h"
#include "common/options.h"
#include "common/rlimit.h"
#include "common/runtime_dir.h"
#include "common/util.h"

struct dial {
	const struct dial_handler *handler;
	void *arg;
	pid_t pid;
	int fd;
	struct event *readable;
};

char *
dial_path(const struct options *o, const char *command)
{
	char *path = o->has_socket ? strdup(o->socket) : runtime_socket_default("default");

	if (path == NULL)
		text_say(
		    "%s: --socket PATH is needed where XDG_RUNTIME_DIR is not set", command);
	return path;
}

int
dial_connect(const char *path)
{
	struct ucred peer;

	return local_socket_connect(path, 0, &peer);
}

void
dial_explain(const char *command, const char *path, int error)
{
	if (error == ENOENT || error == ECONNREFUSED)
		text_say("%s: no daemon at %s: start one with caissond -c FILE, or name its "
			 "socket with --socket",
		    command, path);
	else if (error == EACCES || error == EPERM)
		text_say(
		    "%s: %s: %s: the daemon is another user's; ask as that user, or as root",
		    command, path, strerror(error));
	else if (error == EKEYREJECTED)
		text_say("%s: %s: whoever listens there is neither you nor root: nothing was "
			 "sent; name the socket of your daemon with --socket",
		    command, path);
	else
		text_say("%s: cannot connect to %s: %s", command, path, strerror(error));
}

/* ---- the process that connects ----------------------------------------------------- */

/* After fork, and for good.  Its end is end-of-file. */
static _Noreturn void
serve(int fd, const char *path)
{
	struct control m;
	char byte;
	int connection;

	rlimit_raise_descriptors();
	setsid(); /* what a terminal says is said to the client */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	for (;;) {
		ssize_t n = read(fd, &byte, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(0);
		connection = dial_connect(path);
		m = (struct control){ .verb = connection < 0 ? CONTROL_FAILED : CONTROL_BROKER,
			.error = connection < 0 ? -connection : 0 };
		if (control_send(fd, &m, &connection, connection >= 0) < 0)
			_exit(0);
		util_close(&connection);
	}
}

static void
dial_on_readable(evutil_socket_t fd, short events, void *arg)
{
	struct dial *d = arg;
	int fds[CONTROL_FDS_MAX], r;
	struct control c;
	unsigned nfds, i;

	(void)events;
	r = control_recv((int)fd, &c, fds, &nfds);
	if (r == -EAGAIN)
		return;
	if (r <= 0) {
		event_del(d->readable);
		d->handler->on_failed(r < 0 ? -r : ECHILD, d->arg);
		return;
	}
	for (i = 1; i < nfds; i++)
		close(fds[i]);
	if (nfds > 0)
		d->handler->on_connection(fds[0], d->arg);
	else
		d->handler->on_failed(c.error, d->arg);
}

int
dial_start(struct event_base *base, const char *path, const struct dial_handler *handler,
    void *arg, struct dial **ret)
{
	struct dial *d = calloc(1, sizeof(*d));
	int pair[2];

	if (d == NULL)
		return -ENOMEM;
	d->handler = handler;
	d->arg = arg;
	d->fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		free(d);
		return -errno;
	}
	d->fd = pair[0];
	d->readable = event_new(base, d->fd, EV_READ | EV_PERSIST, dial_on_readable, d);
	d->pid = d->readable != NULL && fcntl(d->fd, F_SETFL, O_NONBLOCK) == 0 &&
			 event_add(d->readable, NULL) == 0
		     ? fork()
		     : -1;
	if (d->pid == 0) {
		/* Streams that others wait for the end of are not ours to hold. */
		if (dup2(pair[1], STDIN_FILENO) < 0)
			_exit(0);
		closefrom(STDIN_FILENO + 1);
		serve(STDIN_FILENO, path);
	}
	close(pair[1]);
	if (d->pid < 0) {
		dial_destroy(d);
		return -ENOMEM;
	}
	*ret = d;
	return 0;
}

void
dial_again(struct dial *d)
{
	ssize_t n = write(d->fd, "+", 1);

	(void)n; /* one that is gone is met by its end-of-file */
}

void
dial_destroy(struct dial *d)
{
	if (d == NULL)
		return;
	if (d->readable != NULL)
		event_free(d->readable);
	util_close(&d->fd);
	/* It may be waiting in connect(): it is init's then, and ends by itself. */
	if (d->pid > 0)
		waitpid(d->pid, NULL, WNOHANG);
	free(d);
}
