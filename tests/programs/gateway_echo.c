/*
 * The gateway with a user of the test's: /echo is a WebSocket that says again what it hears,
 * and everything else is answered with what was asked.  For tests of what every user gets:
 * time, bounds, buffers, order.
 *
 *   GET /bytes/N         N bytes, as a body
 *   GET /later           answered when another one asks for /now
 *   /echo                WebSocket: "text" -> "text"; "flood N" -> messages of 1 KiB up to N,
 *                        while the client takes them; "close" -> closed with 1008
 *   /known               counts as one whose proof was taken, from then on
 *   anything else        method, segments, members and body, a line each
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "common/log.h"
#include "common/rlimit.h"
#include "common/util.h"
#include "gateway/confine.h"
#include "gateway/control.h"
#include "gateway/tls.h"
#include "gateway/websocket.h"

static struct conn *later[64];

static void
respond(struct conn *c, struct slice body)
{
	const struct response r = { .status = 200, .type = "text/plain", .body = body };

	conn_respond(c, &r);
}

static void
add_line(struct buf *b, const char *what, struct slice s)
{
	buf_add(b, what, strlen(what));
	buf_add(b, " ", 1);
	buf_add(b, s.p, s.n);
	buf_add(b, "\n", 1);
}

static void
say_again(struct conn *c, const struct request *r)
{
	struct buf b = { 0 };
	char digest[65] = "";

	add_line(&b, "method", slice_of(http_method_name(r->method)));
	for (unsigned i = 0; i < r->nsegments; i++)
		add_line(&b, "segment", r->segments[i]);
	for (unsigned i = 0; i < r->nparams; i++)
		add_line(&b, "member", r->params[i].value);
	for (size_t i = 0; r->has_certificate && i < 32; i++)
		snprintf(digest + 2 * i, 3, "%02x", r->certificate[i]);
	if (r->has_certificate)
		add_line(&b, "certificate", slice_of(digest));
	add_line(&b, "body", r->body);
	respond(c, buf_slice(&b));
	buf_finish(&b);
}

static void
send_bytes(struct conn *c, struct slice count)
{
	cleanup_free char *text = slice_dup(count);
	size_t n = text != NULL ? strtoul(text, NULL, 10) : 0;
	cleanup_free uint8_t *p = malloc(n + 1);

	if (p == NULL)
		abort();
	memset(p, 'x', n);
	respond(c, (struct slice){ p, n });
}

static void
answer_later(struct conn *c)
{
	for (size_t i = 0; i < countof(later); i++)
		if (later[i] == NULL) {
			later[i] = c;
			return;
		}
	abort();
}

static void
answer_now(void)
{
	for (size_t i = 0; i < countof(later); i++) {
		if (later[i] != NULL)
			say_again(later[i], conn_request(later[i]));
		later[i] = NULL;
	}
}

static void
echo_on_request(struct conn *c, const struct request *r)
{
	struct slice first = r->nsegments > 0 ? r->segments[0] : slice_of("");

	if (slice_is(first, "echo")) {
		if (ws_check(c))
			ws_accept(c, NULL);
	} else if (slice_is(first, "bytes") && r->nsegments == 2) {
		send_bytes(c, r->segments[1]);
	} else if (slice_is(first, "later")) {
		answer_later(c);
	} else {
		if (slice_is(first, "now"))
			answer_now();
		if (slice_is(first, "known"))
			conn_set_proven(c);
		say_again(c, r);
	}
}

/* The number of messages that are still to be sent is the user's pointer. */
static void
flood(struct conn *c)
{
	uint8_t text[1024];
	uintptr_t left = (uintptr_t)conn_user(c);

	memset(text, 'f', sizeof(text));
	for (; left > 0 && !conn_is_full(c); left--) {
		snprintf((char *)text, 32, "%lu", (unsigned long)left);
		text[strlen((char *)text)] = ' ';
		ws_send_text(c, (struct slice){ text, sizeof(text) });
	}
	conn_set_user(c, (void *)left);
}

static void
echo_on_text(struct conn *c, struct slice text)
{
	char count[16] = "";

	if (slice_is(text, "close")) {
		ws_close(c, WS_POLICY, "as you wish");
	} else if (text.n > 6 && text.n < 16 && memcmp(text.p, "flood ", 6) == 0) {
		memcpy(count, text.p + 6, text.n - 6);
		conn_set_user(c, (void *)(uintptr_t)strtoul(count, NULL, 10));
		flood(c);
	} else {
		ws_send_text(c, text);
	}
}

static void
echo_on_close(struct conn *c, unsigned code)
{
	if (code != 0)
		log_info("closed %u", code);
	for (size_t i = 0; i < countof(later); i++)
		if (later[i] == c)
			later[i] = NULL;
}

/* Who waits is answered when the end comes, if there is a WebSocket to hear of it. */
static void
echo_on_leave(struct conn *c)
{
	answer_now();
	ws_close(c, WS_GOING_AWAY, NULL);
}

static const struct conn_handler handler = {
	.body_bytes = SIZE_MAX,
	.on_request = echo_on_request,
	.on_text = echo_on_text,
	.on_drained = flood,
	.on_leave = echo_on_leave,
	.on_close = echo_on_close,
};

int
main(int argc, char **argv)
{
	static struct gateway gateway;
	struct gateway_config_fault fault;
	const char *what = "configuration";

	log_init("gateway_echo", LOG_INFO_);
	signal(SIGPIPE, SIG_IGN);
	rlimit_raise_descriptors();
	tls_init();
	if (argc != 2 ||
	    gateway_config_read((int)strtol(argv[1], NULL, 10), &gateway.config, &fault) < 0 ||
	    gateway_begin(&gateway, &handler) < 0 || gateway_confine(&what) < 0) {
		log_error("cannot start: %s", what);
		return 125;
	}
	gateway_control_ready(&gateway);
	event_base_dispatch(gateway.base);
	gateway_end(&gateway);
	return 0;
}
