#include "supervisor/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "common/options.h"
#include "common/util.h"
#include "supervisor/activation.h"
#include "supervisor/socket_name.h"

#define BACKLOG 1024 /* what a gateway that starts again finds waiting */

struct sockets {
	size_t n;
	int fds[SOCKETS_MAX];
	struct socket_name names[SOCKETS_MAX];
};

/* ---- addresses --------------------------------------------------------------------- */

static int
parse_host(const char *host, bool v6, uint16_t port, struct sockaddr_storage *ret, socklen_t *ret_size)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	struct sockaddr_in *in = (struct sockaddr_in *)ret;

	memset(ret, 0, sizeof(*ret));
	if (v6) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		*ret_size = sizeof(*in6);
		return inet_pton(AF_INET6, host, &in6->sin6_addr) == 1 ? 0 : -EINVAL;
	}
	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	*ret_size = sizeof(*in);
	return inet_pton(AF_INET, host, &in->sin_addr) == 1 ? 0 : -EINVAL;
}

int
sockets_parse(const char *text, struct sockaddr_storage *ret, socklen_t *ret_size)
{
	const char *colon = strrchr(text, ':'), *host = text;
	char name[INET6_ADDRSTRLEN + 1];
	uint64_t port = 0;
	bool v6 = text[0] == '[';
	size_t n;

	if (!colon)
		return -EINVAL;
	n = (size_t)(colon - text);
	if (v6 && (n < 2 || text[n - 1] != ']'))
		return -EINVAL;
	if (v6) {
		host++;
		n -= 2;
	}
	if (n == 0 || n >= sizeof(name) || options_parse_number(colon + 1, UINT16_MAX, &port) < 0)
		return -EINVAL;
	memcpy(name, host, n);
	name[n] = '\0';
	return parse_host(name, v6, (uint16_t)port, ret, ret_size);
}

bool
sockets_is_loopback(const struct sockaddr_storage *address)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;

	if (address->ss_family == AF_INET)
		return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return address->ss_family == AF_UNIX ||
	       (address->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr));
}

/* ---- opening ----------------------------------------------------------------------- */

static int
refuse(char err[SOCKETS_ERROR_MAX], const struct sockets_want *w, const char *what, int error)
{
	snprintf(err, SOCKETS_ERROR_MAX, "%.100s: %.200s: cannot %s: %s%s", w->key, w->address,
	    what, strerror(error),
	    error == EADDRINUSE      ? " (name another port, or stop what listens there)"
	    : error == EACCES	     ? " (ports below 1024 are root's)"
	    : error == EADDRNOTAVAIL ? " (name an address of this machine)"
				     : "");
	return -error;
}

static int
listen_at(const struct sockets_want *w, const struct sockaddr_storage *address, socklen_t size,
    int *ret_fd, char err[SOCKETS_ERROR_MAX])
{
	cleanup_fd int fd =
	    socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int on = 1;

	if (fd < 0)
		return refuse(err, w, "make a socket", errno);
	/* The connections of a daemon before this one may linger.  [::] is v6 alone: 0.0.0.0
	 * can be named beside it. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    (address->ss_family == AF_INET6 &&
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0))
		return refuse(err, w, "set it up", errno);
	if (bind(fd, (const struct sockaddr *)address, size) < 0 || listen(fd, BACKLOG) < 0)
		return refuse(err, w, "listen there", errno);
	*ret_fd = steal_fd(&fd);
	return 0;
}

int
sockets_take_path(struct activation *a, const char *name, const char *path)
{
	struct sockaddr_storage address = { .ss_family = AF_UNIX };
	struct sockaddr_un *un = (struct sockaddr_un *)&address;

	if (strlcpy(un->sun_path, path, sizeof(un->sun_path)) >= sizeof(un->sun_path))
		return -ENOENT;
	return activation_take(a, name, &address,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1));
}

static int
open_path(struct sockets *s, const struct sockets_want *w, struct activation *a,
    char err[SOCKETS_ERROR_MAX])
{
	if (a)
		s->fds[s->n] = sockets_take_path(a, w->name, w->path);
	if (s->fds[s->n] >= 0)
		return 0;
	return socket_name_bind(&s->names[s->n], w->key, w->path, 0600, &s->fds[s->n], err);
}

static int
open_address(struct sockets *s, const struct sockets_want *w, struct activation *a,
    char err[SOCKETS_ERROR_MAX])
{
	struct sockaddr_storage address;
	socklen_t size;

	if (sockets_parse(w->address, &address, &size) < 0) {
		snprintf(err, SOCKETS_ERROR_MAX,
		    "%.100s: %.200s: expected an address and a port, 127.0.0.1:8443 or "
		    "[::1]:8443",
		    w->key, w->address);
		return -EINVAL;
	}
	if (a)
		s->fds[s->n] = activation_take(a, w->name, &address, size);
	return s->fds[s->n] >= 0 ? 0 : listen_at(w, &address, size, &s->fds[s->n], err);
}

int
sockets_open(const struct sockets_want *want, size_t n, struct activation *a,
    struct sockets **ret, char err[SOCKETS_ERROR_MAX])
{
	struct sockets *s;
	int r = 0;

	*ret = NULL;
	if (n == 0)
		return 0;
	s = n <= SOCKETS_MAX ? calloc(1, sizeof(*s)) : NULL;
	if (!s) {
		snprintf(err, SOCKETS_ERROR_MAX, "%.100s: %s", want->key,
		    n > SOCKETS_MAX ? "too many sockets" : "out of memory");
		return n > SOCKETS_MAX ? -E2BIG : -ENOMEM;
	}
	while (s->n < n && r == 0) {
		s->fds[s->n] = -1;
		s->names[s->n] = SOCKET_NAME_NONE;
		r = want[s->n].path ? open_path(s, &want[s->n], a, err)
				    : open_address(s, &want[s->n], a, err);
		s->n++;
	}
	if (r < 0) {
		sockets_close(s);
		return r;
	}
	*ret = s;
	return 0;
}

void
sockets_close(struct sockets *s)
{
	size_t i;

	for (i = 0; s && i < s->n; i++) {
		util_close(&s->fds[i]);
		socket_name_finish(&s->names[i]);
	}
	free(s);
}

size_t
sockets_count(const struct sockets *s)
{
	return s ? s->n : 0;
}

const int *
sockets_fds(const struct sockets *s)
{
	return s ? s->fds : NULL;
}

void
sockets_name(const struct sockets *s, size_t i, char name[SOCKETS_NAME_MAX])
{
	struct sockaddr_storage address = { 0 };
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address;
	const struct sockaddr_in *in = (const struct sockaddr_in *)&address;
	socklen_t size = sizeof(address) - 1; /* a path may end without NUL */
	char host[INET6_ADDRSTRLEN] = "?";

	strlcpy(name, "?", SOCKETS_NAME_MAX);
	if (getsockname(s->fds[i], (struct sockaddr *)&address, &size) < 0)
		return;
	if (address.ss_family == AF_UNIX) {
		strlcpy(name, ((const struct sockaddr_un *)&address)->sun_path, SOCKETS_NAME_MAX);
	} else if (address.ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(name, SOCKETS_NAME_MAX, "[%s]:%u", host, ntohs(in6->sin6_port));
	} else {
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(name, SOCKETS_NAME_MAX, "%s:%u", host, ntohs(in->sin_port));
	}
}
