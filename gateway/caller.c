#include "gateway/caller.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/utf8.h"
#include "common/walk.h"
#include "gateway/gateway.h"
#include "gateway/operations.h"
#include "gateway/status.h"
#include "gateway/websocket.h"

#define JSON_TYPE      "application/json"
#define SESSION_ID_MAX 64 /* bytes: of session.show */

/* ---- answers -------------------------------------------------------------------------- */

/* Nothing is in service any more; its answer goes out last, as the next may come with it. */
static struct conn *
settle(struct caller *x)
{
	x->route = NULL;
	x->on_reply = NULL;
	x->msgid = 0;
	x->session = (struct slice){ NULL, 0 };
	buf_finish(&x->content);
	return x->conn;
}

void
caller_respond(struct caller *x, const struct response *r)
{
	struct buf content = x->content; /* what is sent may be in it */

	x->content = (struct buf){ 0 };
	conn_respond(settle(x), r);
	buf_finish(&content);
}

void
caller_refuse_as(struct caller *x, unsigned status, const char *code, struct slice message)
{
	conn_refuse(settle(x), status, code, message);
}

static void
refuse(struct caller *x, struct slice code, struct slice message)
{
	char name[65];

	snprintf(name, sizeof(name), "%.*s", (int)code.n, (const char *)code.p);
	caller_refuse_as(x, status_of(code), name, message);
}

void
caller_refuse(struct caller *x, const char *code, const char *format, ...)
{
	char text[JSON_ERROR_MAX + 128];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	refuse(x, slice_of(code), slice_of(text));
}

void
caller_upgrade(struct caller *x, const char *subprotocol)
{
	ws_accept(settle(x), subprotocol);
}

void
caller_answer(struct caller *x, unsigned status, const struct buf *json)
{
	if (json->failed)
		caller_refuse(x, "unavailable", "memory is out");
	else
		caller_respond(
		    x, &(struct response){
			   .status = status, .type = JSON_TYPE, .body = buf_slice(json) });
}

void
caller_answer_value(struct caller *x, unsigned status, struct slice value)
{
	struct buf json = { 0 };

	json_write(value, &json);
	caller_answer(x, status, &json);
	buf_finish(&json);
}

void
caller_answer_page(struct caller *x, const char *name, struct slice list, struct slice next)
{
	struct buf json = { 0 };

	json_write_page(name, list, next, &json);
	caller_answer(x, 200, &json);
	buf_finish(&json);
}

/* ---- what the client says ---------------------------------------------------------------- */

bool
caller_number(struct caller *x, const char *name, uint64_t min, uint64_t max, uint64_t fallback,
    uint64_t *ret)
{
	struct slice text;

	*ret = fallback;
	if (!http_param(caller_request(x), name, &text) ||
	    (fields_number(text, max, ret) && *ret >= min))
		return true;
	caller_refuse(x, "invalid_argument", "%s: is no number from %" PRIu64 " to %" PRIu64,
	    name, min, max);
	return false;
}

bool
caller_body(struct caller *x, const struct json_member *table, void *ret, struct buf *json)
{
	const struct json_bounds bounds = { METADATA_MAX, 8, 256 };
	const struct request *r = caller_request(x);
	struct json_fault fault;
	int rc;

	if (r->body.n == 0)
		return true;
	rc = json_read_bounded(r->body, &bounds, json, fault.text);
	if (rc == 0)
		rc = json_members_read(buf_slice(json), "", table, ret, NULL, &fault);
	if (rc == -EINVAL)
		caller_refuse(x, "invalid_argument", "%s", fault.text);
	else if (rc < 0)
		caller_refuse(x, "unavailable", "memory is out");
	return rc == 0;
}

/* ---- the broker's answers ---------------------------------------------------------------- */

void
caller_ask(struct caller *x, enum msg_type type, const void *m,
    void (*on_reply)(struct caller *x, const struct message *m))
{
	int r = uplink_request(x->uplink, type, m, &x->msgid);

	x->on_reply = on_reply;
	if (r == -ERANGE)
		caller_refuse(x, "invalid_argument", "something in the request is too long");
	else if (r < 0)
		caller_refuse(x, "unavailable", "the broker cannot be asked now");
}

/* The session in the path is the client's: is it of this runtime, too? */
static void
on_session(struct caller *x, const struct message *m)
{
	struct slice session = m->u.session_show_reply.session;
	struct value runtime;

	if (!value_get(session, "runtime", &runtime) || runtime.type != VALUE_STR ||
	    !slice_equal(runtime.bytes, routes_runtime(caller_request(x)))) {
		caller_refuse(x, "not_found", "this runtime has no such session");
		return;
	}
	x->session = session;
	x->route->handler(x);
	x->session = (struct slice){ NULL, 0 };
}

/* The broker knows who it is. */
static void
serve(struct caller *x)
{
	struct msg_session_show m = { .session = { NULL, 0 } };
	const struct request *r = caller_request(x);
	struct slice member;

	if (!slice_is(routes_namespace(r), conn_gateway(x->conn)->config.namespace)) {
		caller_refuse(x, "not_found", "there is no such namespace here");
		return;
	}
	if (routes_bad_member(x->route, r, &member)) {
		caller_refuse(x, "invalid_argument",
		    "query: \"%.*s\" is unknown, or stands twice",
		    (int)utf8_cut(member.p, member.n, 64), (const char *)member.p);
		return;
	}
	if (!(x->route->needs & ROUTE_SESSION)) {
		x->route->handler(x);
		return;
	}
	m.session = routes_session(r);
	if (m.session.n > SESSION_ID_MAX)
		caller_refuse(x, "not_found", "there is no such session");
	else
		caller_ask(x, MSG_session_show, &m, on_session);
}

static void
on_ready(struct uplink *u, void *arg)
{
	struct caller *x = arg;

	(void)u;
	conn_set_proven(x->conn);
	if (x->route != NULL)
		serve(x);
}

static void
on_message(struct uplink *u, const struct message *m, void *arg)
{
	struct caller *x = arg;

	(void)u;
	if (m->kind != MSG_RESPONSE || x->on_reply == NULL || m->msgid != x->msgid)
		return; /* of a WebSocket that ended */
	if (m->failed)
		refuse(x, m->error.code, m->error.message);
	else
		x->on_reply(x, m);
}

/* Whether what was asked last has happened, nobody can say. */
static void
on_end(struct uplink *u, struct slice code, struct slice message, void *arg)
{
	struct caller *x = arg;

	x->uplink = NULL;
	if (x->route != NULL && x->on_reply != NULL && slice_is(code, "unavailable"))
		caller_refuse(x, "unavailable",
		    "the broker ended before it answered: whether this was done is not known");
	else if (x->route != NULL)
		refuse(x, code, message);
	uplink_close(u);
}

static const struct uplink_handler uplink_handler = { on_ready, on_message, on_end };

/* ---- requests --------------------------------------------------------------------------- */

static void
connect_to_broker(struct caller *x, const struct proof *proof)
{
	if (x->uplink != NULL && !uplink_is_of(x->uplink, proof)) {
		uplink_close(x->uplink);
		x->uplink = NULL;
	}
	if (uplink_is_ready(x->uplink)) {
		serve(x);
		return;
	}
	if (x->uplink == NULL)
		x->uplink = uplink_open(conn_gateway(x->conn), proof, &uplink_handler, x);
	if (x->uplink == NULL)
		caller_refuse(x, "unavailable", "memory is out");
}

static struct caller *
caller_of(struct conn *c)
{
	struct caller *x = conn_user(c);

	if (x != NULL)
		return x;
	x = calloc(1, sizeof(*x));
	if (x != NULL) {
		x->conn = c;
		conn_set_user(c, x);
	}
	return x;
}

void
caller_on_request(struct conn *c, const struct request *r)
{
	char allow[ROUTES_ALLOW_MAX];
	const struct route *route = routes_find(r, allow);
	struct caller *x;
	struct proof proof;

	if (!fields_origin_is_ours(r)) {
		conn_refuse(c, 403, "permission_denied",
		    slice_of("a page of another origin may not ask"));
	} else if (route == NULL && allow[0] != '\0') {
		conn_refuse_method(c, allow);
	} else if (route == NULL) {
		conn_refuse(c, 404, "not_found", slice_of("there is nothing at this path"));
	} else if (fields_proof(r, route->needs & ROUTE_SOCKET, &proof) < 0) {
		conn_refuse(c, 401, "unauthenticated",
		    slice_of("a bearer token or a client certificate is needed"));
	} else if (r->method != HTTP_POST && r->body.n > 0) {
		conn_refuse(c, 400, "invalid_argument", slice_of("no body is expected"));
	} else if (!(route->needs & ROUTE_SOCKET) || ws_check(c)) {
		x = caller_of(c);
		if (x == NULL) {
			conn_refuse(c, 503, "unavailable", slice_of("memory is out"));
			return;
		}
		x->route = route;
		connect_to_broker(x, &proof);
	}
}

void
caller_destroy(struct caller *x)
{
	if (x == NULL)
		return;
	operations_destroy(x->operations);
	uplink_close(x->uplink);
	buf_finish(&x->content);
	free(x);
}
