#include <stdlib.h>
#include <string.h>

#include "gateway/conn_private.h"
#include "gateway/wsframe.h"

#define CLOSE_MS  2000 /* that a client has to answer a close frame */
#define PINGS_MAX 2 /* that brought nothing back */

struct ws {
	struct wsmessage message;
	size_t counted_bytes; /* of it, in gateway.buffered_bytes */
	bool closing; /* our close frame is sent */
	uint8_t pings; /* since the client's last frame */
};

/* ---- the handshake ---------------------------------------------------------------------- */

static bool
list_has(struct slice list, const char *token)
{
	struct slice one;

	while (http_list_next(&list, &one))
		if (http_is(one, token))
			return true;
	return false;
}

static bool
refuse_handshake(struct conn *c, const char *why)
{
	conn_refuse(c, 400, "invalid_argument", slice_of(why));
	return false;
}

static bool
refuse_version(struct conn *c)
{
	struct response r = { .status = 426,
		.type = "application/json",
		.body = slice_of("{\"error\":{\"code\":\"invalid_argument\",\"message\":"
				 "\"a WebSocket of version 13 is served here\"}}\n"),
		.fields = { { "Sec-WebSocket-Version", "13" }, { "Upgrade", "websocket" } } };

	conn_respond(c, &r);
	return false;
}

bool
ws_check(struct conn *c)
{
	const struct request *r = conn_request(c);
	struct slice value;
	char accept[29];

	if (r->method != HTTP_GET || r->body.n > 0)
		return refuse_handshake(c, "a WebSocket begins with GET, without a body");
	if (!r->upgrade || !http_header(r, "upgrade", &value) || !list_has(value, "websocket"))
		return refuse_version(c);
	if (!http_header(r, "sec-websocket-version", &value) || !slice_is(value, "13"))
		return refuse_version(c);
	if (!http_header(r, "sec-websocket-key", &value) || !wshead_accept(value, accept))
		return refuse_handshake(c, "Sec-WebSocket-Key is not 16 bytes in base64");
	return true;
}

bool
ws_offer_next(const struct request *r, struct ws_offers *list, struct slice *ret)
{
	for (;;) {
		if (http_list_next(&list->rest, ret))
			return true;
		while (list->header < r->nheaders &&
		    !http_is(r->headers[list->header].name, "sec-websocket-protocol"))
			list->header++;
		if (list->header == r->nheaders)
			return false;
		list->rest = r->headers[list->header++].value;
	}
}

static void
add(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

void
ws_accept(struct conn *c, const char *subprotocol)
{
	struct buf *out = conn_out(c);
	struct slice key = { NULL, 0 };
	char accept[29];

	if (c->ended)
		return;
	c->ws = calloc(1, sizeof(*c->ws));
	if (c->ws == NULL || !http_header(conn_request(c), "sec-websocket-key", &key) ||
	    !wshead_accept(key, accept)) {
		conn_end(c);
		return;
	}
	add(out, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
		 "Connection: Upgrade\r\nSec-WebSocket-Accept: ");
	add(out, accept);
	if (subprotocol != NULL) {
		add(out, "\r\nSec-WebSocket-Protocol: ");
		add(out, subprotocol);
	}
	add(out, "\r\n\r\n");
	conn_drop_exchange(c);
	c->g->stats.responses_1xx++;
	c->g->stats.open_websockets++;
	c->g->stats.websockets++;
	c->code = WS_ABNORMAL;
	conn_expect(c, c->g->config.ping_interval_ms);
	if (c->g->leaving)
		conn_leave_ws(c);
	conn_touch(c);
}

/* ---- sending ----------------------------------------------------------------------------- */

bool
ws_is_open(const struct conn *c)
{
	return c->ws != NULL && !c->ws->closing && !c->closing && !c->ended;
}

void
ws_send_text(struct conn *c, struct slice text)
{
	if (!ws_is_open(c))
		return;
	wsframe_put(conn_out(c), WSHEAD_TEXT, text);
	c->g->stats.messages_sent++;
	conn_touch(c);
}

static void
send_close(struct conn *c, unsigned code, const char *reason)
{
	wsframe_put_close(
	    conn_out(c), code, reason != NULL ? slice_of(reason) : (struct slice){ NULL, 0 });
	c->ws->closing = true;
	conn_touch(c);
}

void
ws_close(struct conn *c, unsigned code, const char *reason)
{
	if (!ws_is_open(c))
		return;
	send_close(c, code, reason);
	/* What it still sends has to be read for its answer to be found. */
	c->paused = false;
	conn_expect(c, CLOSE_MS);
}

void
conn_leave_ws(struct conn *c)
{
	if (c->handler->on_leave != NULL && ws_is_open(c))
		c->handler->on_leave(c);
	else
		ws_close(c, WS_GOING_AWAY, "the service ends");
}

/* ---- what comes -------------------------------------------------------------------------- */

/* It broke a rule: it is told which, and that is all. */
static void
fail(struct conn *c, unsigned code)
{
	static const char *const reasons[] = {
		[WS_PROTOCOL - WS_NORMAL] = "not what RFC 6455 allows",
		[WS_NOT_TEXT - WS_NORMAL] = "text that is not UTF-8",
		[WS_POLICY - WS_NORMAL] = "messages are text",
		[WS_TOO_BIG - WS_NORMAL] = "the message is too big",
	};

	if (!c->ws->closing)
		send_close(c, code, reasons[code - WS_NORMAL]);
	conn_finish(c);
}

static void
take_close(struct conn *c, struct slice payload)
{
	bool fault;
	unsigned code = wsframe_close_code(payload, &fault);

	if (fault) {
		fail(c, code);
		return;
	}
	c->code = code;
	if (c->ws->closing && conn_queued(c) == 0) {
		conn_end(c); /* both have said it */
		return;
	}
	if (!c->ws->closing)
		send_close(c, code, NULL);
	conn_finish(c);
}

/* Fragments that wait for the last one are as much as any other bytes that do. */
static void
count_message(struct conn *c)
{
	struct ws *ws = c->ws;

	c->g->buffered_bytes -= ws->counted_bytes;
	ws->counted_bytes = ws->message.text.cap;
	c->g->buffered_bytes += ws->counted_bytes;
}

static void
forget_message(struct conn *c)
{
	wsmessage_finish(&c->ws->message);
	count_message(c);
}

static void
take_data(struct conn *c, const struct wsframe *f)
{
	struct slice text;
	unsigned code;
	int r;

	if (c->ws->closing)
		return;
	r = wsmessage_add(&c->ws->message, f, c->g->config.body_bytes, &text, &code);
	if (r == -ENOMEM) {
		conn_end(c);
	} else if (r < 0) {
		fail(c, code);
	} else if (r > 0) {
		c->g->stats.messages_received++;
		c->handler->on_text(c, text);
		forget_message(c);
	} else {
		count_message(c);
		if (c->ws->counted_bytes > c->g->config.header_bytes &&
		    c->g->buffered_bytes > CONNS_BUFFERED_MAX)
			conn_end(c);
	}
}

static void
take_frame(struct conn *c, const struct wsframe *f)
{
	c->ws->pings = 0;
	switch (f->type) {
	case WSHEAD_PING:
		if (ws_is_open(c)) {
			wsframe_put(conn_out(c), WSHEAD_PONG, f->payload);
			conn_touch(c);
		}
		break;
	case WSHEAD_PONG:
		break;
	case WSHEAD_CLOSE:
		take_close(c, f->payload);
		break;
	default:
		take_data(c, f);
	}
}

size_t
conn_take_frames(struct conn *c, uint8_t *p, size_t n)
{
	struct wsframe f;
	unsigned code;
	size_t used;
	int r;

	r = wsframe_read(p, n, c->g->config.body_bytes, &f, &used, &code);
	if (r < 0) {
		fail(c, code);
		return n;
	}
	if (r == 0)
		return 0;
	take_frame(c, &f);
	return used;
}

/* ---- time -------------------------------------------------------------------------------- */

void
conn_late_frame(struct conn *c)
{
	if (c->ws->closing) {
		conn_end(c);
		return;
	}
	conn_expect(c, c->g->config.ping_interval_ms);
	/* One that we do not read, or that still takes what waits, cannot show that it lives.
	 * */
	if (c->paused || conn_queued(c) > 0)
		return;
	if (c->ws->pings == PINGS_MAX) {
		conn_cut_off(c);
		return;
	}
	c->ws->pings++;
	wsframe_put(conn_out(c), WSHEAD_PING, (struct slice){ NULL, 0 });
	conn_touch(c);
}

void
conn_drop_ws(struct conn *c)
{
	if (c->ws == NULL)
		return;
	forget_message(c);
	free(c->ws);
	c->ws = NULL;
	c->g->stats.open_websockets--;
}
