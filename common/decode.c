/*
 * The decoder of protocol.h.  Apart from the encoder so that a program which only packs
 * (the supervisor) does not link it.
 */
#include "common/protocol.h"

#include <errno.h>
#include <string.h>

#include "common/util.h"
#include "common/walk.h"

/* Where the decoder stands, so that any rule can say what it was looking at. */
struct decode {
	bool bounded; /* what it carries will be passed on wrapped: the bounds of a payload hold */
	const uint8_t *start;
	struct slice rest;
	struct fault *fault;
};

static int
bad(struct decode *d, const uint8_t *at, const char *rule, const char *method,
    const char *field)
{
	*d->fault = (struct fault) { rule, method, field, (size_t)(at - d->start) };
	return -EPROTO;
}

/* Returns NULL, or the bound that a value breaks which will be passed on. */
static const char *
decode_payload(const struct decode *d, struct slice value)
{
	uint32_t nodes;
	unsigned depth;

	/* Each level and each value takes a byte: most are too short to be looked at. */
	if (!d->bounded || value.n <= PAYLOAD_DEPTH_MAX)
		return NULL;
	value_measure(value, &depth, &nodes);
	return depth > PAYLOAD_DEPTH_MAX   ? "value nested too deep to be passed on" :
	    nodes > PAYLOAD_NODES_MAX ? "too many values to be passed on" :
					     NULL;
}

/* Names and messages are one text for everybody, also where a NUL ends it. */
static bool
has_nul(struct slice s)
{
	return s.n > 0 && memchr(s.p, 0, s.n) != NULL;
}

static int
decode_error(struct decode *d, const struct value *v, struct wire_error *ret)
{
	struct slice s = v->raw;
	bool has_code = false, has_message = false;
	const char *rule;
	struct value map;
	uint32_t i;

	if (v->type != VALUE_MAP)
		return bad(d, v->raw.p, "error is not a map", NULL, NULL);
	*ret = (struct wire_error) { 0 };
	map = value_open(&s);
	for (i = 0; i < map.count; i++) {
		const uint8_t *at = s.p;
		struct slice k = value_key(&s);
		struct value e = value_skip(&s);

		if (slice_is(k, "code")) {
			if (e.type != VALUE_STR || e.bytes.n < 1 || e.bytes.n > 64 ||
			    has_nul(e.bytes))
				return bad(d, e.raw.p, "code of an error", NULL, NULL);
			ret->code = e.bytes;
			has_code = true;
		} else if (slice_is(k, "message")) {
			if (e.type != VALUE_STR || e.bytes.n > ERROR_MESSAGE_MAX)
				return bad(d, e.raw.p, "message of an error", NULL, NULL);
			ret->message = e.bytes;
			has_message = true;
		} else if (slice_is(k, "retryable")) {
			if (e.type != VALUE_BOOL)
				return bad(d, e.raw.p, "retryable of an error", NULL, NULL);
			ret->retryable = e.boolean;
		} else if (slice_is(k, "details")) {
			rule = e.raw.n > DETAILS_MAX ? "details of an error" :
						       decode_payload(d, e.raw);
			if (rule != NULL)
				return bad(d, e.raw.p, rule, NULL, NULL);
			ret->details = e.raw;
		} else {
			return bad(d, at, "unknown field of an error", NULL, NULL);
		}
	}
	if (!has_code || !has_message)
		return bad(d, v->raw.p, "error without code or message", NULL, NULL);
	return 0;
}

static const enum value_type wire_types[] = {
	[FIELD_STR] = VALUE_STR,
	[FIELD_BIN] = VALUE_BIN,
	[FIELD_UINT] = VALUE_UINT,
	[FIELD_BOOL] = VALUE_BOOL,
	[FIELD_ENUM] = VALUE_STR,
	[FIELD_MAP] = VALUE_MAP,
	[FIELD_LIST] = VALUE_ARRAY,
	[FIELD_ERROR] = VALUE_MAP,
};

static bool
decode_enum(const struct field_desc *f, struct slice name, unsigned *ret)
{
	unsigned i;

	for (i = 0; f->names[i] != NULL; i++)
		if (slice_is(name, f->names[i])) {
			*ret = i;
			return true;
		}
	return false;
}

const char fault_too_long[] = "too long";

/* Checks type and range of one value and stores it.  Returns NULL or the rule it breaks. */
static const char *
decode_field(struct decode *d, const struct field_desc *f, const struct value *v, uint8_t *m)
{
	void *field = m + f->offset;
	const char *rule;
	size_t n;

	if (f->type != FIELD_VALUE && v->type != wire_types[f->type])
		return "wrong type";
	switch (f->type) {
	case FIELD_UINT:
		if (v->uint > f->max)
			return "number out of range";
		*(uint64_t *)field = v->uint;
		break;
	case FIELD_BOOL:
		*(bool *)field = v->boolean;
		break;
	case FIELD_ENUM:
		if (!decode_enum(f, v->bytes, field))
			return "unknown name";
		break;
	case FIELD_ERROR:
		if (decode_error(d, v, field) < 0)
			return d->fault->rule;
		break;
	case FIELD_STR:
	case FIELD_BIN:
		n = v->bytes.n;
		if (n < f->min || n > f->max)
			return n < f->min ? "too short" : fault_too_long;
		if (f->type == FIELD_STR && has_nul(v->bytes))
			return "holds a NUL";
		*(struct slice *)field = v->bytes;
		break;
	case FIELD_VALUE:
	case FIELD_MAP:
	case FIELD_LIST:
		if (v->raw.n > f->max)
			return fault_too_long;
		*(struct slice *)field = v->raw;
		/* A field as long as a frame is its reader's to bound. */
		rule = f->max < FRAME_MAX ? decode_payload(d, v->raw) : NULL;
		if (rule != NULL)
			return rule;
		break;
	}
	*(bool *)(m + f->has_offset) = true;
	return NULL;
}

/* Senders mostly keep the table's order: look at the field after the last one first. */
static const struct field_desc *
find_field(const struct msg_desc *desc, const struct field_desc *hint, struct slice name)
{
	const struct field_desc *f;

	for (f = hint; f->name != NULL; f++)
		if (f->name_n == name.n && memcmp(f->name, name.p, name.n) == 0)
			return f;
	for (f = desc->fields; f != hint; f++)
		if (f->name_n == name.n && memcmp(f->name, name.p, name.n) == 0)
			return f;
	return NULL;
}

/* The map at the front of `d->rest` is the fields of `desc`. */
static int
decode_map(struct decode *d, const struct msg_desc *desc, uint8_t *m)
{
	const char *method = protocol_name(desc->type), *rule;
	const struct field_desc *f = desc->fields, *next = f;
	const uint8_t *at = d->rest.p;
	struct value map;
	uint32_t i;

	/* From the header alone: reading it moves on. */
	if ((*at & 0xf0) != 0x80 && *at != 0xde && *at != 0xdf)
		return bad(d, at, "fields are not a map", method, NULL);
	memset(m, 0, desc->size);
	d->bounded = desc->to & ROLE_BROKER && !(desc->from & ROLE_LEDGER);
	map = value_open(&d->rest);
	for (i = 0; i < map.count; i++) {
		struct slice k;
		struct value v;

		at = d->rest.p;
		k = value_key(&d->rest);
		v = value_skip(&d->rest);
		f = find_field(desc, next, k);
		if (f == NULL)
			return bad(d, at, "unknown field", method, NULL);
		rule = decode_field(d, f, &v, m);
		if (rule != NULL)
			return bad(d, v.raw.p, rule, method, f->name);
		next = f + 1;
	}
	for (f = desc->fields; f->name != NULL; f++)
		if (f->required && !*(bool *)(m + f->has_offset))
			return bad(d, d->rest.p, "missing field", method, f->name);
	return 0;
}

/* After the kind, requests and responses have an id. */
static int
decode_msgid(struct decode *d, uint32_t *ret)
{
	const uint8_t *at = d->rest.p;
	struct value v = value_skip(&d->rest);

	if (v.type != VALUE_UINT || v.uint > UINT32_MAX)
		return bad(d, at, "message id is not 32 bits", NULL, NULL);
	*ret = (uint32_t)v.uint;
	return 0;
}

static int
decode_call(struct decode *d, enum role from, enum role to, enum link_state state,
    struct message *ret)
{
	const uint8_t *at = d->rest.p;
	struct value method = value_skip(&d->rest);
	const struct msg_desc *desc;

	if (method.type != VALUE_STR)
		return bad(d, at, "method is not a string", NULL, NULL);
	desc = protocol_method(method.bytes);
	if (desc == NULL)
		return bad(d, at, "unknown method", NULL, NULL);
	if (desc->kind != ret->kind)
		return bad(d, at, "request and notification exchanged", desc->method, NULL);
	if (!(desc->from & from) || !(desc->to & to))
		return bad(d, at, "wrong direction", desc->method, NULL);
	if (!(desc->states & state))
		return bad(d, at, "not in this state", desc->method, NULL);
	if (*d->rest.p != 0x91)
		return bad(d, d->rest.p, "params are not an array of one", desc->method, NULL);
	value_open(&d->rest);
	ret->type = desc->type;
	return decode_map(d, desc, (uint8_t *)&ret->u);
}

static int
decode_response(struct decode *d, enum role from, enum role to, protocol_pending_fn *pending,
    void *arg, struct message *ret)
{
	int request = pending != NULL ? pending(arg, ret->msgid) : -1, r;
	const struct msg_desc *desc;
	const uint8_t *at = d->rest.p;
	struct value error;

	if (request < 0)
		return bad(d, at, "reply to nothing", NULL, NULL);
	ret->type = (enum msg_type)(request + 1);
	desc = protocol_desc(ret->type);
	if (!(desc->from & from) || !(desc->to & to))
		return bad(d, at, "wrong direction", protocol_name(ret->type), NULL);
	d->bounded = to == ROLE_BROKER;
	error = value_skip(&d->rest);
	if (error.type == VALUE_NIL)
		return decode_map(d, desc, (uint8_t *)&ret->u);
	r = decode_error(d, &error, &ret->error);
	if (r < 0) {
		d->fault->method = protocol_name(ret->type);
		return r;
	}
	if (*d->rest.p != 0xc0)
		return bad(d, d->rest.p, "error and result", protocol_name(ret->type), NULL);
	ret->failed = true;
	return 0;
}

int
protocol_decode(const uint8_t *p, size_t n, enum role from, enum role to,
    enum link_state state, protocol_pending_fn *pending, void *arg, struct message *ret,
    struct fault *fault)
{
	static const uint32_t shapes[] = {
		[MSG_REQUEST] = 4, [MSG_RESPONSE] = 4, [MSG_NOTIFY] = 3
	};
	struct decode d = { .start = p, .rest = { p, n }, .fault = fault };
	struct value frame, kind;
	int r;

	if (n > FRAME_MAX)
		return bad(&d, p, "frame too long", NULL, NULL);
	r = walk_value(p, n, fault);
	if (r < 0)
		return r;
	frame = value_open(&d.rest);
	if (frame.type != VALUE_ARRAY || frame.count < 3)
		return bad(&d, p, "not a message", NULL, NULL);
	kind = value_skip(&d.rest);
	if (kind.type != VALUE_UINT || kind.uint >= countof(shapes) ||
	    frame.count != shapes[kind.uint])
		return bad(&d, p, "not a message", NULL, NULL);
	ret->kind = (enum msg_kind)kind.uint;
	ret->msgid = 0;
	ret->failed = false;
	ret->error = (struct wire_error) { 0 };
	if (ret->kind != MSG_NOTIFY && (r = decode_msgid(&d, &ret->msgid)) < 0)
		return r;
	if (ret->kind == MSG_RESPONSE)
		return decode_response(&d, from, to, pending, arg, ret);
	return decode_call(&d, from, to, state, ret);
}

int
protocol_unpack(
    const uint8_t *p, size_t n, enum msg_type type, void *ret_m, struct fault *fault)
{
	struct decode d = { .start = p, .rest = { p, n }, .fault = fault };
	int r = walk_value(p, n, fault);

	return r < 0 ? r : decode_map(&d, protocol_desc(type), ret_m);
}
