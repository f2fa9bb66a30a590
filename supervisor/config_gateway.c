#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "supervisor/config_private.h"
#include "supervisor/sockets.h"

#define refuse conf_check_refuse

/* Where a gateway listens, and what a daemon keeps for its clients. */

static int
check_socket_path(struct conf_checker *k, const char *path, struct node_at at, const char *key)
{
	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return refuse(k, at, "%s: %.200s: is over %zu bytes long, which no socket may be",
		    key, path, sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	return 0;
}

static int
check_address(struct conf_checker *k, const char *text, bool plain, struct node_at at,
    const char *key)
{
	struct sockaddr_storage a;
	socklen_t n;

	if (sockets_parse(text, &a, &n) < 0)
		return refuse(k, at,
		    "%s: \"%.80s\" is no address, expected a numeric host and a port, like "
		    "127.0.0.1:8443 or [::1]:8443",
		    key, text);
	if (plain && !sockets_is_loopback(&a))
		return refuse(k, at,
		    "%s: without tls it is read on its way: expected tls, or a loopback address",
		    key);
	return 0;
}

static int
check_listener(struct conf_checker *k, const struct conf_listener *l, const char *key)
{
	char sub[60];

	if (l->has_socket && l->has_address)
		return refuse(k, l->at_address,
		    "%s.address: is there beside socket, expected one of them", key);
	if (!l->has_socket && !l->has_address)
		return refuse(k, l->at, "%s: neither address nor socket is there, expected one of "
		    "them", key);
	if (l->has_socket && l->has_tls)
		return refuse(k, l->at_tls, "%s.tls: is for an address", key);
	snprintf(sub, sizeof(sub), "%s.%s", key, l->has_socket ? "socket" : "address");
	return l->has_socket ? check_socket_path(k, l->socket, l->at_socket, sub)
			     : check_address(k, l->address, !l->has_tls, l->at_address, sub);
}

static bool
has_port(const struct sockaddr_storage *a)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)a;
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)a;

	return a->ss_family == AF_INET6 ? in6->sin6_port != 0 : in->sin_port != 0;
}

/* Two that leave their port to the system get two. */
static bool
same_address(const char *x, const char *y)
{
	struct sockaddr_storage a, b;
	socklen_t na, nb;

	return x && y && sockets_parse(x, &a, &na) == 0 && sockets_parse(y, &b, &nb) == 0 &&
	       na == nb && has_port(&a) && !memcmp(&a, &b, na);
}

static int
check_listeners(struct conf_checker *k, const struct conf_gateway *g)
{
	const struct conf_listener *v = g->listen.v;
	char key[40];
	size_t i, j;
	int r = 0;

	for (i = 0; i < g->listen.n && r == 0; i++) {
		snprintf(key, sizeof(key), "gateway.listen[%zu]", i);
		r = check_listener(k, &v[i], key);
		for (j = 0; j < i && r == 0; j++)
			if (same_address(v[i].address, v[j].address) ||
			    (v[i].socket && v[j].socket && !strcmp(v[i].socket, v[j].socket)))
				r = refuse(k, v[i].at,
				    "%s: is where gateway.listen[%zu] is, expected another place",
				    key, j);
	}
	return r;
}

static int
check_monitor(struct conf_checker *k, const struct conf_gateway *g)
{
	static const char key[] = "gateway.monitor";
	size_t i;
	int r;

	if (!g->monitor)
		return 0;
	r = *g->monitor == '/' ? check_socket_path(k, g->monitor, g->at_monitor, key)
			       : check_address(k, g->monitor, true, g->at_monitor, key);
	for (i = 0; i < g->listen.n && r == 0; i++)
		if (same_address(g->monitor, g->listen.v[i].address) ||
		    (g->listen.v[i].socket && !strcmp(g->monitor, g->listen.v[i].socket)))
			r = refuse(k, g->at_monitor,
			    "%s: is where gateway.listen[%zu] is, expected another place", key, i);
	return r;
}

int
conf_check_gateway(struct conf_checker *k)
{
	const struct conf_gateway *g = &k->c->gateway;
	const struct conf_retention *t = &k->c->retention;
	int r;

	if (t->total < t->operation)
		return refuse(k, t->has_total ? t->at_total : t->at_operation,
		    "retention.total: is less than retention.operation");
	if (!k->c->has_gateway)
		return 0;
	if (g->listen.n == 0)
		return refuse(k, k->c->at_gateway,
		    "gateway.listen: is empty, expected an address or a socket");
	r = check_listeners(k, g);
	return r < 0 ? r : check_monitor(k, g);
}
