#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "gateway/accept.h"
#include "gateway/conn_private.h"

/* ---- answers --------------------------------------------------------------------------- */

static void
add(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

static void __attribute__((format(printf, 2, 3)))
add_line(struct buf *b, const char *fmt, ...)
{
	char line[160];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	assert(n >= 0 && (size_t)n < sizeof(line));
	buf_add(b, line, (size_t)n);
}

static void
count(struct gateway *g, unsigned status)
{
	uint64_t *const classes[] = { &g->stats.responses_2xx, &g->stats.responses_3xx,
		&g->stats.responses_4xx, &g->stats.responses_5xx };

	++*classes[status / 100 - 2];
}

/* Who is answered so may have sent more than was read: where the next request begins is
 * unknown. */
static bool
ends_with(const struct conn *c, const struct response *r)
{
	return r->close || c->g->leaving || c->exchange == NULL ||
	    !c->exchange->request.keep_alive;
}

static void
put_response(struct conn *c, const struct response *r, bool close)
{
	struct buf *out = conn_out(c);
	bool head = c->exchange != NULL && c->exchange->request.method == HTTP_HEAD;

	assert(r->status >= 200 && r->status <= 599);
	add_line(out, "HTTP/1.1 %u %s\r\n", r->status, http_reason(r->status));
	if (r->status != 204 && r->status != 304)
		add_line(out, "Content-Length: %zu\r\n", r->body.n);
	if (r->type != NULL)
		add_line(out, "Content-Type: %s\r\n", r->type);
	add(out, "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
	for (size_t i = 0; i < countof(r->fields) && r->fields[i].name != NULL; i++) {
		add(out, r->fields[i].name);
		add(out, ": ");
		add(out, r->fields[i].value);
		add(out, "\r\n");
	}
	add(out, close ? "Connection: close\r\n\r\n" : "\r\n");
	if (!head)
		buf_add(out, r->body.p, r->body.n);
	count(c->g, r->status);
}

/* The request is answered: the next one, or the end. */
static void
go_on(struct conn *c, bool close)
{
	conn_drop_exchange(c);
	c->begun = false;
	if (close) {
		conn_finish(c);
	} else {
		conn_expect(c, c->g->config.idle_timeout_ms);
		acceptor_on_rest(c->acceptor);
	}
	conn_touch(c);
}

void
conn_respond(struct conn *c, const struct response *r)
{
	bool close = ends_with(c, r);

	if (c->ended)
		return;
	put_response(c, r, close);
	go_on(c, close);
}

static void
add_escaped(struct buf *b, struct slice text)
{
	char code[8];

	for (size_t i = 0; i < text.n; i++) {
		uint8_t byte = text.p[i];

		if (byte == '"' || byte == '\\') {
			snprintf(code, sizeof(code), "\\%c", byte);
			add(b, code);
		} else if (byte < 0x20 || byte == 0x7f) {
			snprintf(code, sizeof(code), "\\u%04x", byte);
			add(b, code);
		} else {
			buf_add(b, &byte, 1);
		}
	}
}

static void
refuse(struct conn *c, unsigned status, const char *code, struct slice message,
    const char *allow, bool close)
{
	struct response r = { .status = status, .type = "application/json", .close = close };
	struct buf body = { 0 };

	add(&body, "{\"error\":{\"code\":\"");
	add_escaped(&body, slice_of(code));
	add(&body, "\",\"message\":\"");
	add_escaped(&body, message);
	add(&body, "\"}}\n");
	r.body = buf_slice(&body);
	if (body.failed)
		r.body.n = 0;
	if (status == 401) {
		r.fields[0].name = "WWW-Authenticate";
		r.fields[0].value = "Bearer";
	} else if (status == 429 || status == 503) {
		r.fields[0].name = "Retry-After";
		r.fields[0].value = "1";
	} else if (allow != NULL) {
		r.fields[0].name = "Allow";
		r.fields[0].value = allow;
	}
	conn_respond(c, &r);
	buf_finish(&body);
}

void
conn_refuse(struct conn *c, unsigned status, const char *code, struct slice message)
{
	refuse(c, status, code, message, NULL, false);
}

void
conn_refuse_method(struct conn *c, const char *allow)
{
	refuse(c, 405, "invalid_argument", slice_of("this resource has no such method"), allow,
	    false);
}

/* ---- requests -------------------------------------------------------------------------- */

void
conn_drop_exchange(struct conn *c)
{
	if (c->exchange == NULL)
		return;
	if (c->exchange->counted)
		c->g->stats.requests_in_flight--;
	free(c->exchange);
	c->exchange = NULL;
}

static void
refuse_fault(struct conn *c, const struct http_fault *fault)
{
	if (fault->status == 0) {
		conn_end(c);
		return;
	}
	refuse(c, fault->status, fault->code, slice_of(fault->message), NULL, true);
}

void
conn_late_request(struct conn *c)
{
	static const struct http_fault late = { 408, "deadline_exceeded",
		"the request did not come whole in time" };

	if (c->closing)
		return;
	c->g->stats.cut_off += c->begun;
	if (c->in_bytes > 0)
		refuse_fault(c, &late);
	else
		conn_finish(c);
}

/* Only who gets an answer later is in service: there is a bound to those. */
static bool
is_refused_for_load(struct conn *c)
{
	const struct gateway *g = c->g;

	if (acceptor_is_monitor(c->acceptor) ||
	    g->stats.requests_in_flight < g->config.requests)
		return false;
	conn_refuse(c, 429, "resource_exhausted",
	    slice_of("too many requests at once: try again later"));
	return true;
}

static bool
begin_exchange(struct conn *c, const uint8_t *p)
{
	size_t n = c->scan.head_bytes + c->scan.body_bytes;
	struct exchange *e = malloc(sizeof(*e) + n);
	struct http_fault fault;
	int r;

	if (e == NULL)
		return false;
	e->counted = false;
	memcpy(e->bytes, p, n);
	r = http_read(&c->scan, e->bytes, &e->request, &fault);
	c->scan = (struct http_scan){ 0 };
	c->continued = false;
	if (r < 0) {
		free(e);
		refuse_fault(c, &fault);
		return true;
	}
	e->request.secure = c->tls != NULL;
	e->request.listener = acceptor_index(c->acceptor);
	if (c->tls != NULL)
		e->request.has_certificate = tls_certificate(c->tls, e->request.certificate);
	c->exchange = e;
	conn_expect(c, 0);
	return true;
}

static void
serve(struct conn *c)
{
	struct gateway *g = c->g;

	g->stats.requests++;
	if (is_refused_for_load(c))
		return;
	if (!acceptor_is_monitor(c->acceptor)) {
		c->exchange->counted = true;
		g->stats.requests_in_flight++;
	}
	c->handler->on_request(c, &c->exchange->request);
}

/* Part of a request is there. */
static void
await_rest(struct conn *c)
{
	if (!c->begun) {
		c->begun = true;
		conn_expect(c, c->g->config.header_timeout_ms);
	}
	if (c->scan.expects_continue && c->scan.head_bytes > 0 && !c->continued) {
		c->continued = true;
		add(conn_out(c), "HTTP/1.1 100 Continue\r\n\r\n");
		conn_touch(c);
	}
}

size_t
conn_take_requests(struct conn *c, uint8_t *p, size_t n)
{
	const struct gateway_config *config = &c->g->config;
	struct http_limits limits = { config->header_bytes,
		c->handler->body_bytes < config->body_bytes ? c->handler->body_bytes
							    : config->body_bytes };
	struct http_fault fault;
	size_t used;
	int r;

	c->held = conn_is_behind(c);
	if (c->exchange != NULL || c->held)
		return 0;
	r = http_measure(&c->scan, &limits, p, n, &fault);
	if (r < 0) {
		refuse_fault(c, &fault);
		return n;
	}
	if (r == 0) {
		await_rest(c);
		return 0;
	}
	used = c->scan.head_bytes + c->scan.body_bytes;
	if (!begin_exchange(c, p))
		conn_end(c);
	else if (c->exchange != NULL)
		serve(c);
	return used;
}
