#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/channel.h"
#include "common/util.h"

/*
 * Where a gateway or a daemon is.  Users write it, so that each fault is named; a URL has
 * neither user nor path: both would be ignored, and that is worse than refused.
 */

static int
bad(const char *text, const char *why, struct caisson_error *error)
{
	return error_set(error, "usage", "%.200s: %s", text, why);
}

static bool
port_is_valid(const char *port)
{
	char *end;
	unsigned long n = strtoul(port, &end, 10);

	return port[0] >= '1' && port[0] <= '9' && *end == '\0' && n <= 65535;
}

/* HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT. */
static int
parse_authority(
    const char *text, const char *rest, struct target *ret, struct caisson_error *error)
{
	bool literal = rest[0] == '[';
	const char *host = literal ? rest + 1 : rest;
	size_t n = strcspn(host, literal ? "]" : ":");
	const char *behind = host + n + (literal && host[n] != '\0');

	if (n == 0 || (literal && host[n] != ']'))
		return bad(text, "there is no host in it", error);
	if (strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:%") < n)
		return bad(text, "this is no name of a host", error);
	if (*behind != '\0' && *behind != ':')
		return bad(text, "behind the host only :PORT may follow", error);
	if (*behind == ':' && !port_is_valid(behind + 1))
		return bad(text, "the port must be a number from 1 to 65535", error);
	ret->host = strndup(host, n);
	ret->port = strdup(*behind == ':' ? behind + 1 : ret->tls ? "443" : "80");
	ret->authority = strdup(rest);
	return 0;
}

int
target_parse(const char *text, struct target *ret, struct caisson_error *error)
{
	const char *rest = strstr(text, "://");
	cleanup_free char *own = NULL;
	size_t n;

	*ret = (struct target){ 0 };
	if (rest == NULL) {
		ret->kind = TARGET_LOCAL;
		ret->path = strdup(text);
		return ret->path != NULL ? 0 : bad(text, "out of memory", error);
	}
	rest += 3;
	n = strlen(rest);
	own = strndup(rest, n > 0 && rest[n - 1] == '/' ? n - 1 : n);
	if (own == NULL)
		return bad(text, "out of memory", error);
	ret->kind = TARGET_TCP;
	ret->tls = strncmp(text, "https://", 8) == 0;
	if (strncmp(text, "http+unix://", 12) == 0) {
		ret->kind = TARGET_UNIX;
		ret->path = strdup(own);
		ret->authority = strdup("localhost");
		if (own[0] != '/')
			return bad(text, "the path of the socket must begin with /", error);
	} else if (!ret->tls && strncmp(text, "http://", 7) != 0) {
		return bad(text, "use https://, http://, http+unix:// or a path", error);
	} else if (strpbrk(own, "/?#@") != NULL) {
		return bad(text, "neither user nor path may be in it: the API has its own", error);
	} else if (parse_authority(text, own, ret, error) < 0) {
		return -1;
	}
	if (ret->authority == NULL || (ret->path == NULL && (ret->host == NULL || ret->port == NULL)))
		return bad(text, "out of memory", error);
	return 0;
}

void
target_finish(struct target *t)
{
	free(t->path);
	free(t->host);
	free(t->port);
	free(t->authority);
	*t = (struct target){ 0 };
}
