#include "gateway/routes.h"

#include <stdio.h>

#include "common/util.h"
#include "gateway/operations.h"
#include "gateway/session_files.h"
#include "gateway/sessions.h"

/* /v1/namespaces/NAMESPACE/runtimes/RUNTIME/sessions */
enum { AT_NAMESPACE = 2, AT_RUNTIME = 4, BASE_SEGMENTS = 6, AT_SESSION = 6, AT_OPERATION = 8 };

static const struct route routes[] = {
#define ROUTE(method, path, needs, members, handler)                                           \
	{ HTTP_##method, path, needs, members, handler },
#include "gateway/routes.def"
#undef ROUTE
};

static bool
is_base(const struct request *r)
{
	static const char *const base[BASE_SEGMENTS] = { "v1", "namespaces", NULL, "runtimes",
		NULL, "sessions" };

	if (r->nsegments < BASE_SEGMENTS)
		return false;
	for (unsigned i = 0; i < BASE_SEGMENTS; i++)
		if (base[i] != NULL ? !slice_is(r->segments[i], base[i])
				    : r->segments[i].n == 0)
			return false;
	return true;
}

/* The next word of `text` up to `end` characters; false at the end. */
static bool
next_word(const char **text, char end, struct slice *ret)
{
	if (**text == '\0')
		return false;
	*ret = (struct slice){ (const uint8_t *)*text, strcspn(*text, (char[]){ end, '\0' }) };
	*text += ret->n;
	*text += **text == end;
	return true;
}

static bool
path_matches(const char *path, const struct request *r)
{
	unsigned i = BASE_SEGMENTS;
	struct slice word;

	for (; next_word(&path, '/', &word); i++) {
		if (i == r->nsegments)
			return false;
		if (slice_is(word, "*") ? r->segments[i].n == 0
					: !slice_equal(word, r->segments[i]))
			return false;
	}
	return i == r->nsegments;
}

const struct route *
routes_find(const struct request *r, char allow[ROUTES_ALLOW_MAX])
{
	enum http_method method = r->method == HTTP_HEAD ? HTTP_GET : r->method;
	size_t n = 0;

	allow[0] = '\0';
	if (!is_base(r))
		return NULL;
	for (size_t i = 0; i < countof(routes); i++) {
		if (!path_matches(routes[i].path, r))
			continue;
		if (routes[i].method == method)
			return &routes[i];
		n += (size_t)snprintf(allow + n, ROUTES_ALLOW_MAX - n, "%s%s%s",
		    n > 0 ? ", " : "", http_method_name(routes[i].method),
		    routes[i].method == HTTP_GET ? ", HEAD" : "");
	}
	return NULL;
}

struct slice
routes_namespace(const struct request *r)
{
	return r->segments[AT_NAMESPACE];
}

struct slice
routes_runtime(const struct request *r)
{
	return r->segments[AT_RUNTIME];
}

struct slice
routes_session(const struct request *r)
{
	return r->segments[AT_SESSION];
}

struct slice
routes_operation(const struct request *r)
{
	return r->segments[AT_OPERATION];
}

static bool
has_member(const struct route *route, struct slice name)
{
	const char *words = route->members;
	struct slice word;

	while (next_word(&words, ' ', &word))
		if (slice_equal(word, name))
			return true;
	return false;
}

bool
routes_bad_member(const struct route *route, const struct request *r, struct slice *ret)
{
	unsigned i, k;

	for (i = 0; i < r->nparams; i++) {
		*ret = r->params[i].name;
		if (!has_member(route, *ret))
			return true;
		for (k = 0; k < i; k++)
			if (slice_equal(r->params[k].name, *ret))
				return true;
	}
	return false;
}
