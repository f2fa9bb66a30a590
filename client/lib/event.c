#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/internal.h"
#include "common/event_json.h"
#include "common/json.h"
#include "common/walk.h"

static const enum caisson_event_type types[] = {
	[event_type_accepted] = CAISSON_ACCEPTED,
	[event_type_output] = CAISSON_OUTPUT,
	[event_type_progress] = CAISSON_PROGRESS,
	[event_type_completed] = CAISSON_COMPLETED,
	[event_type_failed] = CAISSON_FAILED,
	[event_type_gap] = CAISSON_GAP,
};

static uint64_t
number(struct slice map, const char *name)
{
	struct value v;

	return map.n > 0 && value_get(map, name, &v) && v.type == VALUE_UINT ? v.uint : 0;
}

int
event_show(const struct msg_operation_event *e, struct buf *json, struct buf *code,
    struct caisson_event *ret, struct caisson_error *error)
{
	struct slice body = e->has_body ? e->body : (struct slice){ NULL, 0 };
	struct value v;

	*ret = (struct caisson_event){ .type = types[e->type], .sequence = e->sequence };
	ret->terminal = e->type == event_type_completed || e->type == event_type_failed;
	ret->to_stderr = e->has_stream && e->stream == stream_stderr;
	if (e->has_data) {
		ret->data = e->data.p;
		ret->data_bytes = e->data.n;
	}
	ret->from = number(body, "from");
	ret->to = number(body, "to");
	code->n = json->n = 0;
	if (e->type == event_type_failed && value_get(body, "code", &v) && v.type == VALUE_STR)
		buf_add(code, v.bytes.p, v.bytes.n);
	buf_add(code, "", 1);
	event_json_write(e, json);
	buf_add(json, "", 1);
	if (code->failed || json->failed)
		return error_set(error, "transport", "out of memory");
	ret->code = (const char *)code->p;
	ret->json = (const char *)json->p;
	return 0;
}

/* ---- answers ----------------------------------------------------------------------------- */

static const struct json_bounds answer_bounds = { 2u << 20, VALUE_DEPTH_MAX, VALUE_NODES_MAX };

static bool
answer_get(const char *json, const char *name, struct buf *value, struct value *ret)
{
	struct slice text = { (const uint8_t *)json, strlen(json) };
	char err[JSON_ERROR_MAX];

	return json_read_bounded(text, &answer_bounds, value, err) == 0 &&
	    value_open(&(struct slice){ value->p, value->n }).type == VALUE_MAP &&
	    value_get(buf_slice(value), name, ret);
}

bool
answer_member(const char *json, const char *name, char *ret, size_t cap)
{
	struct buf value = { 0 };
	struct value v;
	bool ok = answer_get(json, name, &value, &v) && v.type == VALUE_STR && v.bytes.n < cap;

	if (ok)
		snprintf(ret, cap, "%.*s", (int)v.bytes.n, (const char *)v.bytes.p);
	buf_finish(&value);
	return ok;
}

uint64_t
answer_number(const char *json, const char *name)
{
	struct buf value = { 0 };
	struct value v;
	uint64_t n =
	    answer_get(json, name, &value, &v) && v.type == VALUE_UINT ? v.uint : 0;

	buf_finish(&value);
	return n;
}
