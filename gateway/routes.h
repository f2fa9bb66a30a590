/*
 * routes: which handler a request is for (routes.def).  Pure.
 */
#ifndef GATEWAY_ROUTES_H
#define GATEWAY_ROUTES_H

#include "gateway/http.h"

struct caller;

enum {
	ROUTE_SESSION = 1, /* of the client, of this runtime */
	ROUTE_SOCKET = 2,
};

struct route {
	enum http_method method;
	const char *path;
	unsigned needs;
	const char *members; /* words */
	void (*handler)(struct caller *x);
};

#define ROUTES_ALLOW_MAX 64

/*
 * The route of a request.  NULL: there is none, and `allow` lists the methods of its path
 * ("GET, HEAD, DELETE"), or is empty if there is nothing at that path.
 */
const struct route *routes_find(const struct request *r, char allow[ROUTES_ALLOW_MAX]);

/* What a path of the API names.  Of a request that has a route. */
struct slice routes_namespace(const struct request *r);
struct slice routes_runtime(const struct request *r);
struct slice routes_session(const struct request *r);	/* of a path with one */
struct slice routes_operation(const struct request *r); /* likewise */

/* The first query member that the route does not have, or that stands twice; false if all are
 * well. */
bool routes_bad_member(const struct route *route, const struct request *r, struct slice *ret);

#endif /* GATEWAY_ROUTES_H */
