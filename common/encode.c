#include "common/protocol.h"

#include <errno.h>
#include <string.h>

#include "common/util.h"
#include "common/walk.h"

/* What the header of a value says it is. */
static bool
is_map(struct slice v)
{
	return (v.p[0] & 0xf0) == 0x80 || v.p[0] == 0xde || v.p[0] == 0xdf;
}

static bool
is_array(struct slice v)
{
	return (v.p[0] & 0xf0) == 0x90 || v.p[0] == 0xdc || v.p[0] == 0xdd;
}

static bool
is_text(struct slice s, size_t min, size_t max)
{
	return s.n >= min && s.n <= max && utf8_valid(s.p, s.n);
}

static bool
encode_error(struct buf *out, const struct wire_error *e)
{
	if (!is_text(e->code, 1, 64) || !is_text(e->message, 0, ERROR_MESSAGE_MAX))
		return false;
	pack_map(out, e->details.n > 0 ? 4 : 3);
	pack_str(out, "code");
	pack_str_n(out, e->code.p, e->code.n);
	pack_str(out, "message");
	pack_str_n(out, e->message.p, e->message.n);
	pack_str(out, "retryable");
	pack_bool(out, e->retryable);
	if (e->details.n > 0) {
		pack_str(out, "details");
		pack_raw(out, e->details);
	}
	return true;
}

static bool
encode_slice(struct buf *out, const struct field_desc *f, struct slice s)
{
	if (s.n < f->min || s.n > f->max)
		return false;
	switch (f->type) {
	case FIELD_STR:
		if (!utf8_valid(s.p, s.n))
			return false;
		pack_str_n(out, s.p, s.n);
		return true;
	case FIELD_BIN:
		pack_bin(out, s.p, s.n);
		return true;
	case FIELD_MAP:
		if (!is_map(s))
			return false;
		break;
	case FIELD_LIST:
		if (!is_array(s))
			return false;
		break;
	default:
		break;
	}
	pack_raw(out, s);
	return true;
}

/* False: the field is outside its range. */
static bool
encode_field(struct buf *out, const struct field_desc *f, const uint8_t *m)
{
	const void *field = m + f->offset;
	uint64_t v;

	pack_str_n(out, f->name, f->name_n);
	switch (f->type) {
	case FIELD_UINT:
		v = *(const uint64_t *)field;
		pack_uint(out, v);
		return v <= f->max;
	case FIELD_BOOL:
		pack_bool(out, *(const bool *)field);
		return true;
	case FIELD_ENUM:
		v = *(const unsigned *)field;
		if (v > f->max)
			return false;
		pack_str(out, f->names[v]);
		return true;
	case FIELD_ERROR:
		return encode_error(out, field);
	default:
		return encode_slice(out, f, *(const struct slice *)field);
	}
}

static bool
is_meant(const struct field_desc *f, const uint8_t *m)
{
	return f->required || *(const bool *)(m + f->has_offset);
}

static bool
encode_map(struct buf *out, const struct msg_desc *desc, const uint8_t *m)
{
	const struct field_desc *f;
	uint32_t count = 0;

	for (f = desc->fields; f->name != NULL; f++)
		count += is_meant(f, m);
	pack_map(out, count);
	for (f = desc->fields; f->name != NULL; f++)
		if (is_meant(f, m) && !encode_field(out, f, m))
			return false;
	return true;
}

/* Undoes what was added since `start` and says why it has to be. */
static int
undo(struct buf *out, size_t start, int error)
{
	out->n = start;
	out->failed = false;
	return error;
}

static size_t
begin_frame(struct buf *out)
{
	size_t start = out->n;

	buf_add(out, (const uint8_t[4]) { 0 }, 4);
	return start;
}

static int
end_frame(struct buf *out, size_t start, bool in_range)
{
	size_t n;
	uint8_t *p;

	if (out->failed)
		return undo(out, start, -ENOMEM);
	n = out->n - start - 4;
	if (!in_range || n > FRAME_MAX)
		return undo(out, start, -ERANGE);
	p = out->p + start;
	p[0] = (uint8_t)(n >> 24);
	p[1] = (uint8_t)(n >> 16);
	p[2] = (uint8_t)(n >> 8);
	p[3] = (uint8_t)n;
	return 0;
}

static int
encode_call(struct buf *out, enum msg_type type, enum msg_kind kind, uint32_t msgid,
    const void *m)
{
	const struct msg_desc *desc = protocol_desc(type);
	size_t start;

	if (out->failed)
		return -ENOMEM;
	if (desc->kind != kind)
		return -ERANGE;
	start = begin_frame(out);
	pack_array(out, kind == MSG_REQUEST ? 4 : 3);
	pack_uint(out, kind);
	if (kind == MSG_REQUEST)
		pack_uint(out, msgid);
	pack_str(out, desc->method);
	pack_array(out, 1);
	return end_frame(out, start, encode_map(out, desc, m));
}

int
protocol_request(struct buf *out, enum msg_type type, uint32_t msgid, const void *m)
{
	return encode_call(out, type, MSG_REQUEST, msgid, m);
}

int
protocol_notify(struct buf *out, enum msg_type type, const void *m)
{
	return encode_call(out, type, MSG_NOTIFY, 0, m);
}

int
protocol_reply(struct buf *out, enum msg_type type, uint32_t msgid, const void *m)
{
	const struct msg_desc *desc = protocol_desc(type);
	size_t start;

	if (out->failed)
		return -ENOMEM;
	if (desc->kind != MSG_RESPONSE)
		return -ERANGE;
	start = begin_frame(out);
	pack_array(out, 4);
	pack_uint(out, MSG_RESPONSE);
	pack_uint(out, msgid);
	pack_nil(out);
	return end_frame(out, start, encode_map(out, desc, m));
}

int
protocol_refuse(
    struct buf *out, uint32_t msgid, const char *code, const char *message, bool retryable)
{
	struct wire_error e = { slice_of(code), slice_of(message), retryable, { NULL, 0 } };
	size_t start;
	bool in_range;

	if (out->failed)
		return -ENOMEM;
	start = begin_frame(out);
	pack_array(out, 4);
	pack_uint(out, MSG_RESPONSE);
	pack_uint(out, msgid);
	in_range = encode_error(out, &e);
	pack_nil(out);
	return end_frame(out, start, in_range);
}

int
protocol_pack(struct buf *out, enum msg_type type, const void *m)
{
	size_t start = out->n;
	bool in_range;

	if (out->failed)
		return -ENOMEM;
	in_range = encode_map(out, protocol_desc(type), m);
	if (out->failed)
		return undo(out, start, -ENOMEM);
	return in_range ? 0 : undo(out, start, -ERANGE);
}
