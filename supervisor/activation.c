#include "supervisor/activation.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/options.h"
#include "common/util.h"

/* What systemd may call one. */
static const struct {
	const char *name;
	bool internet; /* may it be reached by TCP? */
} names[] = {
	{ "public", true },
	{ "monitor", true },
	{ "local", false },
};

static int
refuse(char err[ACTIVATION_ERROR_MAX], int fd, const char *name, const char *what)
{
	snprintf(err, ACTIVATION_ERROR_MAX, "LISTEN_FDS: descriptor %d, %.100s: %s", fd, name,
	    what);
	return -EINVAL;
}

/* 1 or 0; a negative errno if `fd` is nothing like it. */
static int
option(int fd, int which)
{
	socklen_t size = sizeof(int);
	int value = 0;

	return getsockopt(fd, SOL_SOCKET, which, &value, &size) < 0 ? -errno : value;
}

static int
check(int fd, const char *name, bool internet, char err[ACTIVATION_ERROR_MAX])
{
	int domain = option(fd, SO_DOMAIN);

	if (option(fd, SO_TYPE) != SOCK_STREAM || option(fd, SO_ACCEPTCONN) != 1)
		return refuse(err, fd, name, "is no listening stream socket (ListenStream=)");
	if (domain != AF_UNIX && !(internet && (domain == AF_INET || domain == AF_INET6)))
		return refuse(err, fd, name,
		    internet ? "is neither a TCP nor a UNIX socket" : "is no UNIX socket");
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		return refuse(err, fd, name, strerror(errno));
	return 0;
}

/* The next of the names, which colons separate. */
static void
next_name(const char **rest, char *name, size_t cap)
{
	size_t n = strcspn(*rest, ":");

	snprintf(name, cap, "%.*s", (int)n, *rest);
	*rest += n + ((*rest)[n] == ':');
}

static int
take(struct activation *a, int fd, const char *name, char err[ACTIVATION_ERROR_MAX])
{
	size_t i;
	int r;

	for (i = 0; i < countof(names) && strcmp(names[i].name, name) != 0; i++)
		;
	if (i == countof(names))
		return refuse(err, fd, name,
		    "expected FileDescriptorName=public, monitor or local in its unit");
	r = check(fd, name, names[i].internet, err);
	if (r < 0)
		return r;
	a->v[a->n].fd = fd;
	strlcpy(a->v[a->n].name, name, sizeof(a->v[a->n].name));
	a->n++;
	return 0;
}

static int
take_all(struct activation *a, int first, char err[ACTIVATION_ERROR_MAX])
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	const char *rest = getenv("LISTEN_FDNAMES");
	uint64_t whose, n;
	char name[64];
	int r = 0;

	if (!pid || !fds || options_parse_number(pid, INT32_MAX, &whose) < 0 ||
	    whose != (uint64_t)getpid())
		return 0;
	if (options_parse_number(fds, ACTIVATION_MAX, &n) < 0) {
		snprintf(err, ACTIVATION_ERROR_MAX, "LISTEN_FDS: %.60s: expected 0 to %d", fds,
		    ACTIVATION_MAX);
		return -EINVAL;
	}
	if (!rest)
		rest = "";
	while (a->n < n && r == 0) {
		next_name(&rest, name, sizeof(name));
		r = take(a, first + (int)a->n, name, err);
	}
	return r;
}

int
activation_read(int first, struct activation *ret, char err[ACTIVATION_ERROR_MAX])
{
	int r;

	ret->n = 0;
	r = take_all(ret, first, err);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return r;
}

/* ---- which is which ---------------------------------------------------------------- */

static bool
listens_at(int fd, const struct sockaddr_storage *want, socklen_t want_size)
{
	struct sockaddr_storage there = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&there;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&there;
	const struct sockaddr_in6 *want6 = (const struct sockaddr_in6 *)want;
	const struct sockaddr_in *want4 = (const struct sockaddr_in *)want;
	socklen_t size = sizeof(there);

	if (getsockname(fd, (struct sockaddr *)&there, &size) < 0 ||
	    there.ss_family != want->ss_family)
		return false;
	if (want->ss_family == AF_INET)
		return in->sin_addr.s_addr == want4->sin_addr.s_addr &&
		       (want4->sin_port == 0 || in->sin_port == want4->sin_port);
	if (want->ss_family == AF_INET6)
		return !memcmp(&in6->sin6_addr, &want6->sin6_addr, sizeof(in6->sin6_addr)) &&
		       (want6->sin6_port == 0 || in6->sin6_port == want6->sin6_port);
	return size == want_size && !memcmp(&there, want, size);
}

int
activation_take(struct activation *a, const char *name, const struct sockaddr_storage *address,
    socklen_t size)
{
	unsigned i;

	for (i = 0; i < a->n; i++)
		if (a->v[i].fd >= 0 && !strcmp(a->v[i].name, name) &&
		    (!address || listens_at(a->v[i].fd, address, size)))
			return steal_fd(&a->v[i].fd);
	return -ENOENT;
}

int
activation_check(const struct activation *a, char err[ACTIVATION_ERROR_MAX])
{
	unsigned i;

	for (i = 0; i < a->n; i++)
		if (a->v[i].fd >= 0)
			return refuse(err, a->v[i].fd, a->v[i].name,
			    "no socket of this configuration has its address: name it under "
			    "gateway or socket, or take it out of the unit");
	return 0;
}

void
activation_finish(struct activation *a)
{
	unsigned i;

	for (i = 0; i < a->n; i++)
		util_close(&a->v[i].fd);
	a->n = 0;
}
