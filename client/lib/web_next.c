#include <stdio.h>
#include <string.h>

#include "client/lib/internal.h"
#include "common/base64.h"
#include "common/event_json.h"
#include "common/json.h"
#include "common/utf8.h"
#include "common/util.h"
#include "common/walk.h"

/* What a gateway says on a WebSocket: frames, messages, events. */

#define MESSAGE_MAX (2u << 20) /* bytes of one message */

static int
bad(struct caisson_error *error, const char *why)
{
	return error_set(error, "protocol", "this is no gateway of this version: %s", why);
}

/* ---- from frames to messages ------------------------------------------------------------- */

static int
on_close(struct slice payload, struct caisson_error *error)
{
	unsigned code = payload.n >= 2 ? (unsigned)payload.p[0] << 8 | payload.p[1] : 1005;

	return error_set(error, "transport", "the gateway closed the session: %u%s%.*s", code,
	    payload.n > 2 ? " " : "", payload.n > 2 ? (int)payload.n - 2 : 0,
	    payload.n > 2 ? (const char *)payload.p + 2 : "");
}

/* 1: a message is whole; 0: not yet; -1. */
static int
on_frame(struct wire *w, const struct wshead *h, struct slice payload,
    struct caisson_error *error)
{
	switch (h->type) {
	case WSHEAD_CLOSE:
		wire_frame(&w->ch->out, WSHEAD_CLOSE, payload.p, payload.n);
		return on_close(payload, error);
	case WSHEAD_PING:
		wire_frame(&w->ch->out, WSHEAD_PONG, payload.p, payload.n);
		return 0;
	case WSHEAD_PONG:
		return 0;
	case WSHEAD_TEXT:
		if (w->within)
			return bad(error, "a message within another");
		break;
	case WSHEAD_CONTINUATION:
		if (!w->within)
			return bad(error, "the rest of no message");
		break;
	default:
		return bad(error, "a message that is no text");
	}
	buf_add(&w->message, payload.p, payload.n);
	if (w->message.failed)
		return error_set(error, "transport", "out of memory");
	w->within = !h->last;
	return h->last;
}

/* 1: w->message is the next one; 0; -1. */
static int
take_message(struct wire *w, struct caisson_error *error)
{
	struct wshead h;
	struct slice in;
	int r;

	if (w->message_over)
		w->message.n = 0;
	w->message_over = false;
	for (;;) {
		in = channel_input(w->ch);
		r = wshead_read(in.p, in.n, false, &h);
		if (r < 0 || (r > 0 && h.payload_bytes > MESSAGE_MAX - w->message.n))
			return bad(error, "no frame that a server may send");
		if (r == 0 || in.n - h.bytes < h.payload_bytes)
			return 0;
		r = on_frame(w, &h, (struct slice){ in.p + h.bytes, h.payload_bytes }, error);
		if (r < 0)
			return -1;
		channel_consume(w->ch, h.bytes + h.payload_bytes);
		if (r > 0) {
			w->message_over = true;
			return 1;
		}
	}
}

/* ---- from messages to events ------------------------------------------------------------- */

static bool
member(struct slice map, const char *name, enum value_type type, struct value *ret)
{
	return value_get(map, name, ret) && ret->type == type;
}

static bool
unpack_output(struct wire *w, struct slice body, struct msg_operation_event *ret)
{
	struct value stream, data;
	uint8_t *room;

	if (!member(body, "stream", VALUE_STR, &stream) || !member(body, "data", VALUE_STR, &data))
		return false;
	if (!slice_is(stream.bytes, "stdout") && !slice_is(stream.bytes, "stderr"))
		return false;
	w->data.n = 0;
	room = buf_reserve(&w->data, data.bytes.n / 4 * 3 + 3);
	if (room == NULL || base64_decode(data.bytes.p, data.bytes.n, room, &ret->data.n) < 0)
		return false;
	ret->has_stream = ret->has_data = true;
	ret->stream = slice_is(stream.bytes, "stdout") ? stream_stdout : stream_stderr;
	ret->data.p = room;
	return true;
}

static bool
unpack_event(
    struct wire *w, struct slice map, struct slice type, struct msg_operation_event *ret)
{
	struct value sequence, body;
	size_t i;

	for (i = 0; i < EVENT_JSON_TYPES; i++)
		if (slice_is(type, event_json_type((enum event_type)i)))
			break;
	if (i == EVENT_JSON_TYPES || !member(map, "sequence", VALUE_UINT, &sequence) ||
	    !member(map, event_json_type((enum event_type)i), VALUE_MAP, &body))
		return false;
	ret->sequence = sequence.uint;
	ret->type = (enum event_type)i;
	if (ret->type == event_type_output)
		return unpack_output(w, body.raw, ret);
	ret->has_body = true;
	ret->body = body.raw;
	return true;
}

/* {"type":"error","error":"...","code":"..."} */
static bool
unpack_refusal(struct slice map, struct incoming *ret)
{
	struct value text, code;
	char name[65];

	if (!member(map, "error", VALUE_STR, &text) || !member(map, "code", VALUE_STR, &code))
		return false;
	snprintf(name, sizeof name, "%.*s", (int)code.bytes.n, (const char *)code.bytes.p);
	ret->refused = true;
	error_set(&ret->refusal, name, "%.*s", (int)text.bytes.n, (const char *)text.bytes.p);
	return true;
}

/* One that was asked for is answered, well or not; false: there is none. */
static bool
take_cancel(struct wire *w)
{
	uint32_t *n = w->older_cancels > 0 ? &w->older_cancels : &w->cancels;

	if (*n == 0)
		return false;
	(*n)--;
	return true;
}

int
web_next(struct wire *w, struct incoming *ret, struct caisson_error *error)
{
	static const struct json_bounds bounds = { MESSAGE_MAX, VALUE_DEPTH_MAX, VALUE_NODES_MAX };
	char err[JSON_ERROR_MAX];
	struct value type;
	struct slice map;
	int r;

	while ((r = take_message(w, error)) > 0) {
		*ret = (struct incoming){ 0 };
		w->value.n = 0;
		if (json_read_bounded(buf_slice(&w->message), &bounds, &w->value, err) < 0)
			return bad(error, err);
		map = buf_slice(&w->value);
		if (value_open(&(struct slice){ map.p, map.n }).type != VALUE_MAP ||
		    !member(map, "type", VALUE_STR, &type))
			return bad(error, "a message without type");
		if (slice_is(type.bytes, "cancel")) { /* acknowledged (D-6) */
			if (!take_cancel(w))
				return bad(error, "a cancellation that nobody asked for");
			continue;
		}
		if (slice_is(type.bytes, "error")) {
			if (!unpack_refusal(map, ret))
				return bad(error, "an error without code");
			if ((w->older_cancels > 0 || !w->asked) && take_cancel(w))
				continue; /* it came too late: the events say what happened */
			w->asked = false;
			return 1;
		}
		w->asked = false;
		if (!unpack_event(w, map, type.bytes, &ret->event))
			return bad(error, "no event");
		return 1;
	}
	return r;
}
