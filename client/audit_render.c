#include "client/audit_render.h"

#include <stdio.h>
#include <string.h>

#include "client/grant_render.h"
#include "client/text.h"
#include "common/json.h"
#include "common/util.h"
#include "common/walk.h"

#define RESET "\033[0m"
#define BOLD  "\033[1m"
#define DIM   "\033[2m"

static void
add(struct buf *out, const char *text)
{
	buf_add(out, text, strlen(text));
}

static void
paint(struct buf *out, bool colour, const char *code)
{
	if (colour)
		add(out, code);
}

/* Escaped, and filled up to `width` bytes. */
static void
add_cell(struct buf *out, struct slice text, size_t width)
{
	size_t before = out->n;

	text_escape_line(text, out);
	while (!out->failed && out->n - before < width)
		add(out, " ");
}

static struct slice
text_of(struct slice map, const char *key)
{
	struct value v;

	return value_get(map, key, &v) && v.type == VALUE_STR ? v.bytes : (struct slice){ 0 };
}

static uint64_t
uint_of(struct slice map, const char *key)
{
	struct value v;

	return value_get(map, key, &v) && v.type == VALUE_UINT ? v.uint : 0;
}

static const struct {
	const char *outcome, *colour;
} colours[] = {
	{ "allowed", "\033[32m" },
	{ "succeeded", "\033[32m" },
	{ "denied", "\033[31m" },
	{ "failed", "\033[31m" },
	{ "interrupted", "\033[33m" },
	{ "canceled", "\033[33m" },
	{ "escalated", "\033[33m" },
};

static void
add_outcome(struct buf *out, struct slice outcome, bool colour)
{
	size_t i;

	for (i = 0; i < countof(colours); i++)
		if (slice_is(outcome, colours[i].outcome))
			paint(out, colour, colours[i].colour);
	add_cell(out, outcome, 11);
	paint(out, colour, RESET);
}

/* " prefix text", or nothing. */
static void
add_part(struct buf *out, const char *prefix, struct slice text)
{
	if (text.n == 0)
		return;
	add(out, prefix);
	text_escape_line(text, out);
}

/* "workspace:docs/a.txt" */
static void
add_resource(struct buf *out, struct slice map)
{
	struct slice resource = text_of(map, "resource"), rest;
	struct value path, segment;
	uint32_t i;

	if (resource.n == 0)
		return;
	add_part(out, "  ", text_of(map, "action"));
	add_part(out, " ", resource);
	add(out, ":");
	if (!value_get(map, "path", &path) || path.type != VALUE_ARRAY)
		return;
	rest = path.raw;
	value_next(&rest);
	for (i = 0; i < path.count; i++) {
		segment = value_skip(&rest);
		if (i > 0)
			add(out, "/");
		if (segment.type == VALUE_STR)
			text_escape_line(segment.bytes, out);
	}
}

static void
add_instant(struct buf *out, const char *prefix, struct slice map, const char *key)
{
	struct value v;

	if (!value_get(map, key, &v) || v.type != VALUE_UINT)
		return;
	add(out, prefix);
	text_add_time(out, v.uint, "%F %T", false);
}

static void
add_number(struct buf *out, const char *format, struct slice map, const char *key)
{
	struct value v;

	if (value_get(map, key, &v) && v.type == VALUE_UINT)
		text_addf(out, format, (unsigned long long)v.uint);
}

/* What a grant gives: "  agent:a may read:workspace:docs/a". */
static void
add_capabilities(struct buf *out, struct slice map)
{
	struct slice rest;
	struct value v;
	uint32_t i;

	add_part(out, "  ", text_of(map, "subject"));
	if (!value_get(map, "capabilities", &v) || v.type != VALUE_ARRAY)
		return;
	rest = v.raw;
	value_next(&rest);
	add(out, " may");
	for (i = 0; i < v.count; i++) {
		struct value item = value_skip(&rest);

		add(out, i > 0 ? ", " : " ");
		if (item.type == VALUE_MAP)
			grant_render_capability(item.raw, out);
	}
}

/* And within what bounds. */
static void
add_constraints(struct buf *out, struct slice map)
{
	struct slice rest;
	struct value v;
	uint32_t i;

	add_part(out, "  escalation ", text_of(map, "escalation"));
	add_part(out, "  derived from ", text_of(map, "parent"));
	add_part(out, "  issued by ", text_of(map, "issuer"));
	add_instant(out, "  from ", map, "notBefore");
	add_instant(out, "  until ", map, "expiresAt");
	add_number(out, "  uses at most %llu", map, "maxUses");
	if (uint_of(map, "delegationDepth") > 0)
		add_number(out, "  %llu deep", map, "delegationDepth");
	if (value_get(map, "purposes", &v) && v.type == VALUE_ARRAY) {
		rest = v.raw;
		value_next(&rest);
		for (i = 0; i < v.count; i++) {
			struct value item = value_skip(&rest);

			if (item.type == VALUE_STR)
				add_part(out, i > 0 ? ", " : "  for ", item.bytes);
		}
	}
	add_number(out, "  by uid %llu", map, "by");
}

/* Of a session, or of an operation in one: which, for whom, and within what bounds. */
static void
add_session(struct buf *out, struct slice map)
{
	add_part(out, "  session ", text_of(map, "session"));
	add_part(out, "  for ", text_of(map, "principal"));
	if (!slice_is(text_of(map, "type"), "session.acquired"))
		return;
	add_part(out, "  runtime ", text_of(map, "runtime"));
	add_number(out, "  lease %llu ms", map, "leaseMs");
	add_number(out, "  each at most %llu ms", map, "timeoutMs");
	add_number(out, "  queue of %llu", map, "queue");
}

static void
add_line(struct buf *out, struct slice map, bool colour)
{
	struct slice reason = text_of(map, "reason"), cause = text_of(map, "cause");
	struct slice type = text_of(map, "type");

	add(out, "  ");
	paint(out, colour, DIM);
	text_add_time(out, uint_of(map, "at"), "%F %T", true);
	paint(out, colour, RESET);
	add(out, "  ");
	add_cell(out, type, 22);
	add(out, " ");
	add_outcome(out, text_of(map, "outcome"), colour);
	add_part(out, "  ", text_of(map, "tool"));
	add_resource(out, map);
	add_capabilities(out, map);
	if (slice_is(type, "segment.opened"))
		text_addf(out, "  segment %llu", (unsigned long long)uint_of(map, "segment"));
	add_part(out, "  grant ", text_of(map, "grant"));
	add_number(out, " (%llu)", map, "uses");
	add_constraints(out, map);
	add_session(out, map);
	if (!slice_is(reason, "allowed"))
		add_part(out, "  ", reason);
	if (!slice_equal(cause, reason))
		add_part(out, reason.n ? ": " : "  ", cause);
	add_part(out, "  ", text_of(map, "detail"));
	add_part(out, "  NOT A SANDBOX: ", text_of(map, "mode"));
	while (out->n > 0 && out->p[out->n - 1] == ' ')
		out->n--;
	add(out, "\n");
}

static void
add_json(struct buf *out, struct slice map, struct slice name)
{
	struct buf json = { 0 };

	json_write(map, &json);
	add(out, "{\"run\":");
	json_write_string(name, out);
	/* The map has members, always: its own braces follow the first of ours. */
	add(out, ",");
	if (json.failed || json.n < 2)
		out->failed = true;
	else
		buf_add(out, json.p + 1, json.n - 1);
	add(out, "\n");
	buf_finish(&json);
}

void
audit_render_name(struct slice name, bool colour, struct buf *out)
{
	paint(out, colour, BOLD);
	text_escape_line(name, out);
	paint(out, colour, RESET);
	add(out, "\n");
}

uint32_t
audit_render_records(
    struct slice list, struct slice name, bool jsonl, bool colour, struct buf *out)
{
	struct value array = value_next(&list), record;
	uint32_t i;

	for (i = 0; i < array.count; i++) {
		record = value_skip(&list);
		if (record.type != VALUE_MAP)
			continue;
		if (jsonl)
			add_json(out, record.raw, name);
		else
			add_line(out, record.raw, colour);
	}
	return array.count;
}

static void
add_hex(struct buf *out, struct slice bytes)
{
	size_t i;

	for (i = 0; i < bytes.n; i++)
		text_addf(out, "%02x", bytes.p[i]);
}

static void
verdict_json(const struct msg_audit_verify_reply *v, struct slice name, struct buf *out)
{
	add(out, "{\"run\":");
	json_write_string(name, out);
	text_addf(out,
	    ",\"valid\":%s,\"count\":%llu,\"segments\":%llu,\"torn\":%llu,\"head\":\"",
	    v->valid ? "true" : "false", (unsigned long long)v->count,
	    (unsigned long long)v->segments, (unsigned long long)v->torn);
	add_hex(out, v->hash);
	add(out, "\"");
	if (v->has_problem) {
		add(out, v->valid ? ",\"note\":" : ",\"problem\":");
		json_write_string(v->problem, out);
	}
	add(out, "}\n");
}

void
audit_render_verdict(const struct msg_audit_verify_reply *v, struct slice name, bool jsonl,
    bool colour, struct buf *out)
{
	if (jsonl) {
		verdict_json(v, name, out);
		return;
	}
	text_escape_line(name, out);
	text_addf(out, ": %llu record%s%s, %llu segment%s", (unsigned long long)v->count,
	    v->count == 1 ? "" : "s", v->valid ? "" : " stand", (unsigned long long)v->segments,
	    v->segments == 1 ? "" : "s");
	if (!v->valid) {
		paint(out, colour, "\033[31m");
		add(out, ", NOT VALID: ");
		text_escape_line(v->problem, out);
		paint(out, colour, RESET);
		add(out, "\n");
		return;
	}
	paint(out, colour, "\033[32m");
	add(out, v->has_problem ? ", chain ok" : ", chain ok, index ok, head ok");
	paint(out, colour, RESET);
	add(out, ", head ");
	add_hex(out, v->hash);
	if (v->torn > 0)
		text_addf(out, ", %llu bytes of torn tails outside the record",
		    (unsigned long long)v->torn);
	add_part(out, "; ", v->has_problem ? v->problem : (struct slice){ 0 });
	add(out, "\n");
}
