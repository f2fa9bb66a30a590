/*
 * The encoder of protocol.h: measure, then write.  A first pass over the fields checks them
 * and sums up the room that they take at most; the second one writes, and has nothing left
 * to look at.
 */
#include "common/protocol.h"

#include <errno.h>
#include <string.h>

#include "common/put.h"
#include "common/utf8.h"
#include "common/walk.h"

/* Room of a field, with its name, beside the bytes of strings and values. */
#define FIELD_ROOM (sizeof(struct field_key) + PUT_MAX + FIELD_NAME_MAX)
/* Of everything around the fields of a message. */
#define FRAME_ROOM (4 + 4 * PUT_MAX + FIELD_NAME_MAX)

struct measure {
	size_t room;
	uint32_t n; /* fields */
};

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

/* ---- room: 0 for what is outside its range ----------------------------------------------- */

static size_t
error_room(const struct wire_error *e)
{
	if (!is_text(e->code, 1, 64) || !is_text(e->message, 0, ERROR_MESSAGE_MAX))
		return 0;
	return 5 * FIELD_ROOM + e->code.n + e->message.n + e->details.n;
}

static size_t
slice_room(const struct field_desc *f, struct slice s)
{
	if (s.n < f->min || s.n > f->max || (f->type == FIELD_STR && !utf8_valid(s.p, s.n)) ||
	    (f->type == FIELD_MAP && !is_map(s)) || (f->type == FIELD_LIST && !is_array(s)))
		return 0;
	return FIELD_ROOM + s.n;
}

static size_t
field_room(const struct field_desc *f, const uint8_t *m)
{
	const void *field = m + f->offset;

	switch (f->type) {
	case FIELD_UINT: return *(const uint64_t *)field <= f->max ? FIELD_ROOM : 0;
	case FIELD_BOOL: return FIELD_ROOM;
	case FIELD_ENUM: return *(const unsigned *)field <= f->max ? FIELD_ROOM : 0;
	case FIELD_ERROR: return error_room(field);
	default: return slice_room(f, *(const struct slice *)field);
	}
}

/* Is it part of a whole map: set, or required?  Of a part of one it is if set. */
static bool
is_meant(const struct field_desc *f, const uint8_t *m, bool whole)
{
	return (whole && f->required) || *(const bool *)(m + f->has_offset);
}

/* False if a field is outside its range. */
static bool
measure(const struct msg_desc *desc, const uint8_t *m, bool whole, struct measure *ret)
{
	size_t n;

	*ret = (struct measure) { 0 };
	for (const struct field_desc *f = desc->fields; f->name != NULL; f++) {
		if (!is_meant(f, m, whole))
			continue;
		n = field_room(f, m);
		if (n == 0)
			return false;
		ret->room += n;
		ret->n++;
	}
	return true;
}

/* ---- writing: into room that was measured ------------------------------------------------ */

static uint8_t *
put_slice(uint8_t *p, struct slice s)
{
	return put_bytes(p, s.p, s.n);
}

static uint8_t *
put_text(uint8_t *p, const char *text)
{
	return put_str(p, text, strlen(text));
}

static uint8_t *
put_error(uint8_t *p, const struct wire_error *e)
{
	p = put_map(p, e->details.n > 0 ? 4 : 3);
	p = put_text(p, "code");
	p = put_str(p, e->code.p, e->code.n);
	p = put_text(p, "message");
	p = put_str(p, e->message.p, e->message.n);
	p = put_text(p, "retryable");
	p = put_byte(p, e->retryable ? 0xc3 : 0xc2);
	return e->details.n > 0 ? put_slice(put_text(p, "details"), e->details) : p;
}

static uint8_t *
put_field(uint8_t *p, const struct field_desc *f, const uint8_t *m)
{
	const void *field = m + f->offset;
	const struct slice *s = field;

	memcpy(p, &f->key, sizeof f->key); /* all of it: less than to look at its length */
	p += 1 + f->name_n;
	switch (f->type) {
	case FIELD_UINT: return put_uint(p, *(const uint64_t *)field);
	case FIELD_BOOL: return put_byte(p, *(const bool *)field ? 0xc3 : 0xc2);
	case FIELD_ENUM: return put_text(p, f->names[*(const unsigned *)field]);
	case FIELD_ERROR: return put_error(p, field);
	case FIELD_STR: return put_str(p, s->p, s->n);
	case FIELD_BIN: return put_slice(put_bin_head(p, (uint32_t)s->n), *s);
	default: return put_slice(p, *s);
	}
}

static uint8_t *
put_fields(uint8_t *p, const struct msg_desc *desc, const uint8_t *m, bool whole)
{
	for (const struct field_desc *f = desc->fields; f->name != NULL; f++)
		if (is_meant(f, m, whole))
			p = put_field(p, f, m);
	return p;
}

/* ---- frames ------------------------------------------------------------------------------ */

/* Room for a frame; NULL, and `out` is as before, if memory is out. */
static uint8_t *
reserve(struct buf *out, size_t n)
{
	bool failed = out->failed;
	uint8_t *p = buf_reserve(out, n);

	out->failed = failed;
	return p;
}

/* The array of a message, up to its method or the result that follows. */
static uint8_t *
put_envelope(uint8_t *p, enum msg_kind kind, uint32_t msgid)
{
	p = put_array(p, kind == MSG_NOTIFY ? 3 : 4);
	p = put_uint(p, kind);
	return kind == MSG_NOTIFY ? p : put_uint(p, msgid);
}

static int
end_frame(struct buf *out, uint8_t *start, const uint8_t *end)
{
	size_t n = (size_t)(end - start) - 4;
	uint32_t length = htobe32((uint32_t)n);

	if (n > FRAME_MAX)
		return -ERANGE;
	memcpy(start, &length, sizeof length);
	buf_end(out, end);
	return 0;
}

static int
encode(struct buf *out, enum msg_type type, enum msg_kind kind, uint32_t msgid, const void *m)
{
	const struct msg_desc *desc = protocol_desc(type);
	struct measure size;
	uint8_t *start, *p;

	if (out->failed)
		return -ENOMEM;
	if (desc->kind != kind || !measure(desc, m, true, &size))
		return -ERANGE;
	start = reserve(out, FRAME_ROOM + size.room);
	if (start == NULL)
		return -ENOMEM;
	p = put_envelope(start + 4, kind, msgid);
	if (kind == MSG_RESPONSE)
		p = put_byte(p, 0xc0); /* no error */
	else
		p = put_array(put_text(p, desc->method), 1);
	return end_frame(out, start, put_fields(put_map(p, size.n), desc, m, true));
}

int
protocol_request(struct buf *out, enum msg_type type, uint32_t msgid, const void *m)
{
	return encode(out, type, MSG_REQUEST, msgid, m);
}

int
protocol_notify(struct buf *out, enum msg_type type, const void *m)
{
	return encode(out, type, MSG_NOTIFY, 0, m);
}

int
protocol_reply(struct buf *out, enum msg_type type, uint32_t msgid, const void *m)
{
	return encode(out, type, MSG_RESPONSE, msgid, m);
}

int
protocol_refuse(
    struct buf *out, uint32_t msgid, const char *code, const char *message, bool retryable)
{
	struct wire_error e = { slice_of(code), slice_of(message), retryable, { NULL, 0 } };
	size_t room = error_room(&e);
	uint8_t *start, *p;

	if (out->failed)
		return -ENOMEM;
	if (room == 0)
		return -ERANGE;
	start = reserve(out, FRAME_ROOM + room);
	if (start == NULL)
		return -ENOMEM;
	p = put_envelope(start + 4, MSG_RESPONSE, msgid);
	p = put_error(p, &e);
	return end_frame(out, start, put_byte(p, 0xc0)); /* no result */
}

/* ---- bare maps --------------------------------------------------------------------------- */

int
protocol_pack_with(
    struct buf *out, enum msg_type type, const struct fields *common, const void *m)
{
	static const struct fields none;
	const struct msg_desc *desc = protocol_desc(type);
	struct measure size;
	uint8_t *p;

	if (common == NULL)
		common = &none;
	if (out->failed)
		return -ENOMEM;
	if (!measure(desc, m, true, &size))
		return -ERANGE;
	p = reserve(out, PUT_MAX + size.room + common->packed.n);
	if (p == NULL)
		return -ENOMEM;
	p = put_fields(put_map(p, size.n + common->n), desc, m, true);
	buf_end(out, put_slice(p, buf_slice(&common->packed)));
	return 0;
}

int
protocol_pack(struct buf *out, enum msg_type type, const void *m)
{
	return protocol_pack_with(out, type, NULL, m);
}

int
protocol_pack_fields(struct fields *f, enum msg_type type, const void *m)
{
	const struct msg_desc *desc = protocol_desc(type);
	struct measure size;
	uint8_t *p;

	if (!measure(desc, m, false, &size))
		return -ERANGE;
	p = reserve(&f->packed, size.room);
	if (p == NULL)
		return -ENOMEM;
	buf_end(&f->packed, put_fields(p, desc, m, false));
	f->n += size.n;
	return 0;
}
