/*
 * sample: valid frames of every row of protocol.def, made from the table alone, byte by
 * byte, so that they do not depend on the encoder that they test.
 */
#ifndef TESTS_SAMPLE_H
#define TESTS_SAMPLE_H

#include <string.h>

#include "common/walk.h"

#define SAMPLE_BIG (100u << 10) /* bytes: several such fields fit one frame */

enum sample {
	SAMPLE_REQUIRED, /* required fields only, each as small as may be */
	SAMPLE_ALL, /* every field, each as small as may be */
	SAMPLE_BIG_ALL, /* every field, each as large as may be, up to SAMPLE_BIG */
	SAMPLE_MAX
};

static inline void
sample_text(struct buf *b, size_t n)
{
	static char text[1 << 20];

	if (text[0] == '\0')
		memset(text, 'a', sizeof text);
	pack_str_n(b, text, n);
}

static inline void
sample_bin(struct buf *b, size_t n)
{
	static const char zeroes[1 << 20];

	pack_bin(b, zeroes, n);
}

/* A bin that takes exactly `n` bytes with its header; `n` is not in a gap of the forms. */
static inline void
sample_filler(struct buf *b, size_t n)
{
	sample_bin(b, n <= 257 ? n - 2 : n <= 65538 ? n - 3 : n - 5);
}

static inline void
sample_error(struct buf *b, bool big)
{
	pack_map(b, big ? 4 : 3);
	pack_str(b, "code");
	sample_text(b, big ? 64 : 1);
	pack_str(b, "message");
	sample_text(b, big ? ERROR_MESSAGE_MAX : 0);
	pack_str(b, "retryable");
	pack_bool(b, big);
	if (big) {
		pack_str(b, "details");
		pack_array(b, 0);
	}
}

/* A value of exactly `n` bytes (for strings and bytes: of their contents). */
static inline void
sample_sized(struct buf *b, const struct field_desc *f, size_t n)
{
	switch (f->type) {
	case FIELD_STR: sample_text(b, n); return;
	case FIELD_BIN: sample_bin(b, n); return;
	case FIELD_VALUE:
		sample_filler(b, n);
		return;
	case FIELD_LIST:
		pack_array(b, 1);
		sample_filler(b, n - 1);
		return;
	case FIELD_MAP:
		pack_map(b, 1);
		pack_str(b, "k");
		sample_filler(b, n - 3);
		return;
	default:
		return;
	}
}

static inline void
sample_value(struct buf *b, const struct field_desc *f, bool big)
{
	size_t n = big ? (f->max < SAMPLE_BIG ? f->max : SAMPLE_BIG) : f->min;

	switch (f->type) {
	case FIELD_UINT: pack_uint(b, big ? f->max : 0); return;
	case FIELD_BOOL: pack_bool(b, big); return;
	case FIELD_ENUM: pack_str(b, f->names[big ? f->max : 0]); return;
	case FIELD_ERROR: sample_error(b, big); return;
	case FIELD_VALUE:
	case FIELD_MAP:
	case FIELD_LIST:
		if (big)
			break;
		if (f->type == FIELD_VALUE)
			pack_nil(b);
		else if (f->type == FIELD_MAP)
			pack_map(b, 0);
		else
			pack_array(b, 0);
		return;
	default:
		break;
	}
	sample_sized(b, f, n);
}

/* One field whose value is given instead; `f` NULL: none. */
struct sample_override {
	const struct field_desc *f;
	struct slice raw; /* n == 0: the field is left out */
};

static inline void
sample_map(struct buf *b, const struct msg_desc *desc, enum sample how,
    const struct sample_override *o)
{
	const struct field_desc *f;
	uint32_t count = 0;
	int pass;

	for (pass = 0; pass < 2; pass++) {
		if (pass == 1)
			pack_map(b, count);
		for (f = desc->fields; f->name != NULL; f++) {
			bool given = o != NULL && o->f == f;

			if (given ? o->raw.n == 0 : !f->required && how == SAMPLE_REQUIRED)
				continue;
			if (pass == 0) {
				count++;
				continue;
			}
			pack_str(b, f->name);
			if (given)
				pack_raw(b, o->raw);
			else
				sample_value(b, f, how == SAMPLE_BIG_ALL);
		}
	}
}

/* What stands before the map. */
static inline void
sample_envelope(struct buf *b, const struct msg_desc *desc, uint32_t msgid)
{
	pack_array(b, desc->kind == MSG_NOTIFY ? 3 : 4);
	pack_uint(b, desc->kind);
	if (desc->kind != MSG_NOTIFY)
		pack_uint(b, msgid);
	if (desc->kind == MSG_RESPONSE) {
		pack_nil(b);
	} else {
		pack_str(b, desc->method);
		pack_array(b, 1);
	}
}

/* A frame without its length word. */
static inline void
sample_frame(struct buf *b, const struct msg_desc *desc, enum sample how,
    const struct sample_override *o)
{
	b->n = 0;
	sample_envelope(b, desc, 7);
	sample_map(b, desc, how, o);
}

/* The one request that is open in these tests, for replies: *arg is the reply's type. */
static inline int
sample_pending(void *arg, uint32_t msgid)
{
	const enum msg_type *reply = arg;

	return msgid == 7 && protocol_desc(*reply)->kind == MSG_RESPONSE ? (int)*reply - 1 : -1;
}

static inline enum role
sample_role(unsigned mask)
{
	return (enum role)(mask & -mask);
}

static inline enum link_state
sample_state(const struct msg_desc *desc)
{
	return (enum link_state)(desc->states & -desc->states);
}

static inline int
sample_decode(const struct buf *b, const struct msg_desc *desc, struct message *ret,
    struct fault *fault)
{
	enum msg_type type = desc->type;

	return protocol_decode(b->p, b->n, sample_role(desc->from), sample_role(desc->to),
	    sample_state(desc), sample_pending, &type, ret, fault);
}

/* Encodes what was decoded, with its length word. */
static inline int
sample_encode(struct buf *out, const struct message *m)
{
	char code[65], text[ERROR_MESSAGE_MAX + 1];
	bool has_nul = m->failed &&
	    (memchr(m->error.code.p, 0, m->error.code.n) != NULL ||
		memchr(m->error.message.p, 0, m->error.message.n) != NULL);

	if (m->failed && m->error.details.n == 0 && !has_nul) {
		memcpy(code, m->error.code.p, m->error.code.n);
		code[m->error.code.n] = '\0';
		memcpy(text, m->error.message.p, m->error.message.n);
		text[m->error.message.n] = '\0';
		return protocol_refuse(out, m->msgid, code, text, m->error.retryable);
	}
	if (m->failed) /* more than the public function can say: no claim */
		return 1;
	switch (m->kind) {
	case MSG_REQUEST: return protocol_request(out, m->type, m->msgid, &m->u);
	case MSG_RESPONSE: return protocol_reply(out, m->type, m->msgid, &m->u);
	case MSG_NOTIFY: return protocol_notify(out, m->type, &m->u);
	}
	return -1;
}

#endif /* TESTS_SAMPLE_H */
