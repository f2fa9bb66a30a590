/* The codec against every row of its table.  D-5: what is malformed is named, never guessed. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "sample.h"

static const char *
rule_of(const struct buf *b, const struct msg_desc *desc)
{
	struct fault fault = { 0 };
	struct message m;
	int r = sample_decode(b, desc, &m, &fault);

	if (r == 0)
		return "none";
	ck_assert_int_eq(r, -EPROTO);
	ck_assert_ptr_nonnull(fault.rule);
	ck_assert_uint_le(fault.offset, b->n);
	return fault.rule;
}

/* Decodes `b` and asserts that it encodes to the same bytes. */
static void
assert_same_again(const struct buf *b, const struct msg_desc *desc)
{
	struct fault fault = { 0 };
	struct buf again = { 0 };
	struct message m;
	int r = sample_decode(b, desc, &m, &fault);

	ck_assert_msg(
	    r == 0, "%s: %s %s", desc->id, fault.rule, fault.field ? fault.field : "");
	ck_assert_int_eq(m.type, desc->type);
	ck_assert_int_eq(m.kind, desc->kind);
	ck_assert_int_eq(sample_encode(&again, &m), 0);
	ck_assert_uint_eq(again.n, b->n + 4);
	ck_assert_mem_eq(again.p + 4, b->p, b->n);
	ck_assert_uint_eq((size_t)again.p[1] << 16 | again.p[2] << 8 | again.p[3], b->n);
	buf_finish(&again);
}

/* Calls `check` for every row and every sample of it. */
static void
for_all(void (*check)(struct buf *b, const struct msg_desc *desc))
{
	struct buf b = { 0 };
	unsigned type, how;

	for (type = 0; type < MSG_TYPE_MAX; type++)
		for (how = 0; how < SAMPLE_MAX; how++) {
			sample_frame(&b, protocol_desc(type), how, NULL);
			check(&b, protocol_desc(type));
		}
	buf_finish(&b);
}

static void
check_same_again(struct buf *b, const struct msg_desc *desc)
{
	assert_same_again(b, desc);
}

START_TEST(every_message_reads_and_writes_the_same_bytes)
{
	for_all(check_same_again);
}
END_TEST

static void
check_truncations(struct buf *b, const struct msg_desc *desc)
{
	struct buf cut = { 0 };
	size_t n, step = b->n > 2000 ? b->n / 500 : 1;

	for (n = 0; n < b->n; n += step) {
		/* Of exact size, for the sanitizer. */
		cut.p = malloc(n > 0 ? n : 1);
		cut.n = cut.cap = n;
		memcpy(cut.p, b->p, n);
		ck_assert_str_eq(rule_of(&cut, desc), "truncated value");
		buf_finish(&cut);
	}
	buf_add(b, "\xc0", 1);
	ck_assert_str_eq(rule_of(b, desc), "bytes left over");
}

START_TEST(every_truncation_is_refused)
{
	for_all(check_truncations);
}
END_TEST

START_TEST(every_flipped_bit_is_refused_or_canonical)
{
	const struct msg_desc *desc = protocol_desc(_i);
	struct buf b = { 0 }, again = { 0 };
	struct fault fault;
	struct message m;
	size_t i;
	int bit;

	sample_frame(&b, desc, SAMPLE_ALL, NULL);
	for (i = 0; i < b.n; i++)
		for (bit = 0; bit < 8; bit++) {
			b.p[i] ^= (uint8_t)(1 << bit);
			if (sample_decode(&b, desc, &m, &fault) == 0) {
				again.n = 0;
				ck_assert_int_eq(sample_encode(&again, &m), 0);
				ck_assert_uint_eq(again.n, b.n + 4);
				ck_assert_mem_eq(again.p + 4, b.p, b.n);
			}
			b.p[i] ^= (uint8_t)(1 << bit);
		}
	buf_finish(&b);
	buf_finish(&again);
}
END_TEST

START_TEST(every_other_direction_is_a_fault)
{
	const struct msg_desc *desc = protocol_desc(_i);
	enum msg_type type = desc->type;
	struct buf b = { 0 };
	unsigned from, to;

	sample_frame(&b, desc, SAMPLE_REQUIRED, NULL);
	for (from = 1; from <= ROLE_CLIENT; from <<= 1)
		for (to = 1; to <= ROLE_CLIENT; to <<= 1) {
			bool allowed = (desc->from & from) && (desc->to & to);
			struct fault fault = { 0 };
			struct message m;
			int r = protocol_decode(b.p, b.n, from, to, sample_state(desc),
			    sample_pending, &type, &m, &fault);

			ck_assert_int_eq(r, allowed ? 0 : -EPROTO);
			if (!allowed)
				ck_assert_str_eq(fault.rule, "wrong direction");
		}
	buf_finish(&b);
}
END_TEST

START_TEST(every_other_state_is_a_fault)
{
	const struct msg_desc *desc = protocol_desc(_i);
	enum msg_type type = desc->type;
	struct buf b = { 0 };
	unsigned state;

	sample_frame(&b, desc, SAMPLE_REQUIRED, NULL);
	for (state = LINK_NEW; state <= LINK_BUSY; state <<= 1) {
		bool allowed = desc->states & state;
		struct fault fault = { 0 };
		struct message m;
		int r = protocol_decode(b.p, b.n, sample_role(desc->from),
		    sample_role(desc->to), state, sample_pending, &type, &m, &fault);

		ck_assert_int_eq(r, allowed ? 0 : -EPROTO);
		if (!allowed)
			ck_assert_str_eq(fault.rule, "not in this state");
	}
	buf_finish(&b);
}
END_TEST

START_TEST(a_missing_field_is_a_fault_if_it_is_required)
{
	const struct msg_desc *desc = protocol_desc(_i);
	const struct field_desc *f;
	struct buf b = { 0 };

	for (f = desc->fields; f->name != NULL; f++) {
		struct sample_override left_out = { f, { NULL, 0 } };

		sample_frame(&b, desc, SAMPLE_ALL, &left_out);
		ck_assert_str_eq(rule_of(&b, desc), f->required ? "missing field" : "none");
	}
	buf_finish(&b);
}
END_TEST

static const struct {
	const char *bytes;
	size_t n;
	unsigned good_for; /* mask of 1 << enum field_type */
} kinds[] = {
	{ "\xc0", 1, 1 << FIELD_VALUE },
	{ "\xc2", 1, 1 << FIELD_VALUE | 1 << FIELD_BOOL },
	{ "\x01", 1, 1 << FIELD_VALUE | 1 << FIELD_UINT },
	{ "\xff", 1, 1 << FIELD_VALUE },
	{ "\xcb\x3f\xf0\0\0\0\0\0\0", 9, 1 << FIELD_VALUE },
	{ "\xa1x", 2, 1 << FIELD_VALUE | 1 << FIELD_STR | 1 << FIELD_ENUM },
	{ "\xc4\x01x", 3, 1 << FIELD_VALUE | 1 << FIELD_BIN },
	{ "\x90", 1, 1 << FIELD_VALUE | 1 << FIELD_LIST },
	{ "\x80", 1, 1 << FIELD_VALUE | 1 << FIELD_MAP | 1 << FIELD_ERROR },
};

START_TEST(every_wrong_type_of_every_field_is_a_fault)
{
	const struct msg_desc *desc = protocol_desc(_i);
	const struct field_desc *f;
	struct buf b = { 0 };
	size_t k;

	for (f = desc->fields; f->name != NULL; f++)
		for (k = 0; k < countof(kinds); k++) {
			struct slice raw = { (const uint8_t *)kinds[k].bytes, kinds[k].n };
			struct sample_override o = { f, raw };
			const char *rule;

			sample_frame(&b, desc, SAMPLE_REQUIRED, &o);
			rule = rule_of(&b, desc);
			if (kinds[k].good_for & 1u << f->type)
				ck_assert_str_ne(rule, "wrong type");
			else
				ck_assert_str_eq(rule, "wrong type");
		}
	buf_finish(&b);
}
END_TEST

/* A value of `f` at `over` beyond (or below) its bound, in place of a good one. */
static const char *
rule_at(const struct msg_desc *desc, const struct field_desc *f, uint64_t size)
{
	struct buf raw = { 0 }, b = { 0 };
	struct sample_override o = { f, { NULL, 0 } };
	const char *rule;

	if (f->type == FIELD_UINT)
		pack_uint(&raw, size);
	else
		sample_sized(&raw, f, size);
	o.raw = (struct slice) { raw.p, raw.n };
	sample_frame(&b, desc, SAMPLE_REQUIRED, &o);
	rule = rule_of(&b, desc);
	buf_finish(&raw);
	buf_finish(&b);
	return rule;
}

START_TEST(every_range_holds_at_its_edges)
{
	const struct msg_desc *desc = protocol_desc(_i);
	const struct field_desc *f;

	for (f = desc->fields; f->name != NULL; f++) {
		switch (f->type) {
		case FIELD_UINT:
			ck_assert_str_eq(rule_at(desc, f, f->max), "none");
			if (f->max < UINT64_MAX)
				ck_assert_str_eq(
				    rule_at(desc, f, f->max + 1), "number out of range");
			break;
		case FIELD_STR:
		case FIELD_BIN:
			if (f->min > 0)
				ck_assert_str_eq(
				    rule_at(desc, f, f->min - 1), "too short");
			/* fall through */
		case FIELD_VALUE:
		case FIELD_MAP:
		case FIELD_LIST:
			/* What is as large as a frame is bounded by the frame. */
			if (f->max > RESULT_MAX)
				break;
			ck_assert_str_eq(rule_at(desc, f, f->max), "none");
			ck_assert_str_eq(rule_at(desc, f, f->max + 1), "too long");
			break;
		default:
			break;
		}
	}
}
END_TEST

START_TEST(every_name_of_an_enumeration_and_no_other_is_known)
{
	const struct msg_desc *desc = protocol_desc(_i);
	const struct field_desc *f;
	struct buf b = { 0 }, raw = { 0 };
	unsigned i;

	for (f = desc->fields; f->name != NULL; f++) {
		struct sample_override o = { f, { NULL, 0 } };

		if (f->type != FIELD_ENUM)
			continue;
		for (i = 0; f->names[i] != NULL; i++) {
			raw.n = 0;
			pack_str(&raw, f->names[i]);
			o.raw = (struct slice) { raw.p, raw.n };
			sample_frame(&b, desc, SAMPLE_REQUIRED, &o);
			assert_same_again(&b, desc);
			/* One letter less, and one more. */
			raw.n = 0;
			pack_str_n(&raw, f->names[i], strlen(f->names[i]) - 1);
			o.raw = (struct slice) { raw.p, raw.n };
			sample_frame(&b, desc, SAMPLE_REQUIRED, &o);
			ck_assert_str_eq(rule_of(&b, desc), "unknown name");
			raw.n = 0;
			pack_str_n(&raw, f->names[i], strlen(f->names[i]) + 1);
			o.raw = (struct slice) { raw.p, raw.n };
			sample_frame(&b, desc, SAMPLE_REQUIRED, &o);
			ck_assert_str_eq(rule_of(&b, desc), "unknown name");
		}
		ck_assert_uint_eq(i, f->max + 1);
	}
	buf_finish(&b);
	buf_finish(&raw);
}
END_TEST

START_TEST(an_unknown_field_and_one_given_twice_are_faults)
{
	const struct msg_desc *desc = protocol_desc(_i);
	struct buf b = { 0 }, map = { 0 };
	struct slice s;

	/* The map of the sample, with one more pair at its end. */
	sample_map(&map, desc, SAMPLE_REQUIRED, NULL);
	s = (struct slice) { map.p, map.n };
	sample_envelope(&b, desc, 7);
	pack_map(&b, value_open(&s).count + 1);
	pack_raw(&b, s);
	pack_str(&b, "unheardOf");
	pack_nil(&b);
	ck_assert_str_eq(rule_of(&b, desc), "unknown field");
	if (s.n > 0) {
		s = (struct slice) { map.p, map.n };
		b.n = 0;
		sample_envelope(&b, desc, 7);
		pack_map(&b, value_open(&s).count + 1);
		pack_raw(&b, s);
		/* Its first pair again. */
		pack_raw(&b, value_skip(&s).raw);
		pack_raw(&b, value_skip(&s).raw);
		ck_assert_str_eq(rule_of(&b, desc), "duplicate key");
	}
	buf_finish(&b);
	buf_finish(&map);
}
END_TEST

START_TEST(fields_may_come_in_any_order)
{
	const struct msg_desc *desc = protocol_desc(_i);
	struct buf b = { 0 }, map = { 0 }, again = { 0 };
	struct slice s, pair[64];
	struct fault fault;
	struct message m;
	uint32_t n, i;

	sample_map(&map, desc, SAMPLE_ALL, NULL);
	s = (struct slice) { map.p, map.n };
	n = value_open(&s).count;
	for (i = 0; i < n; i++) {
		pair[i] = value_skip(&s).raw;
		pair[i].n += value_skip(&s).raw.n;
	}
	sample_envelope(&b, desc, 7);
	pack_map(&b, n);
	while (i > 0)
		pack_raw(&b, pair[--i]);
	ck_assert_int_eq(sample_decode(&b, desc, &m, &fault), 0);
	/* Written, it is in the table's order. */
	ck_assert_int_eq(sample_encode(&again, &m), 0);
	ck_assert_mem_eq(again.p + again.n - map.n, map.p, map.n);
	buf_finish(&b);
	buf_finish(&map);
	buf_finish(&again);
}
END_TEST

/* ---- the form of a message ------------------------------------------------------------- */

/* To a broker in LINK_NEW from a worker, with hello open as request 7 of the broker's. */
static const struct {
	const char *bytes;
	size_t n;
	const char *rule;
} shapes[] = {
#define SHAPE(text, rule) { text, sizeof(text) - 1, rule }
	SHAPE("\xc0", "not a message"),
	SHAPE("\x80", "not a message"),
	SHAPE("\x90", "not a message"),
	SHAPE("\x92\x02\xa5hello", "not a message"),
	SHAPE("\x95\x00\x07\xa5hello\x91\x81\xa8protocol\x01\xc0", "not a message"),
	SHAPE("\x94\x03\x07\xa5hello\x90", "not a message"),
	SHAPE("\x94\xff\x07\xa5hello\x90", "not a message"),
	SHAPE("\x94\xa0\x07\xa5hello\x90", "not a message"),
	SHAPE("\x94\x02\xa5hello\x91\x80\xc0", "not a message"),
	SHAPE("\x93\x00\xa5hello\x91\x80", "not a message"),
	SHAPE("\x93\x01\x07\xc0", "not a message"),
	SHAPE("\x94\x00\xff\xa5hello\x91\x80", "message id is not 32 bits"),
	SHAPE("\x94\x00\xa1x\xa5hello\x91\x80", "message id is not 32 bits"),
	SHAPE("\x94\x00\xcf\0\0\0\1\0\0\0\0\xa5hello\x91\x80", "message id is not 32 bits"),
	SHAPE("\x94\x01\xc0\xc0\x80", "message id is not 32 bits"),
	SHAPE("\x94\x00\x07\xc4\x05hello\x91\x80", "method is not a string"),
	SHAPE("\x94\x00\x07\x01\x91\x80", "method is not a string"),
	SHAPE("\x94\x00\x07\xa0\x91\x80", "unknown method"),
	SHAPE("\x94\x00\x07\xa4hell\x91\x80", "unknown method"),
	SHAPE("\x94\x00\x07\xa5hellO\x91\x80", "unknown method"),
	SHAPE("\x94\x00\x07\xa6hello\0\x91\x80", "unknown method"),
	SHAPE("\x93\x02\xa5hello\x91\x80", "request and notification exchanged"),
	SHAPE("\x94\x00\x07\xacoutput.write\x91\x80", "request and notification exchanged"),
	SHAPE("\x94\x00\x07\xa5hello\x90", "params are not an array of one"),
	SHAPE("\x94\x00\x07\xa5hello\x92\x80\x80", "params are not an array of one"),
	SHAPE("\x94\x00\x07\xa5hello\x80", "params are not an array of one"),
	SHAPE("\x94\x00\x07\xa5hello\xc0", "params are not an array of one"),
	SHAPE("\x94\x00\x07\xa5hello\x91\xc0", "fields are not a map"),
	SHAPE("\x94\x00\x07\xa5hello\x91\x90", "fields are not a map"),
	SHAPE("\x94\x00\x07\xa5hello\x91\x80", "missing field"),
	SHAPE("\x94\x00\x07\xa5hello\x91\x81\xa8protocol\x01", NULL),
	SHAPE("\x94\x01\x08\xc0\x80", "reply to nothing"),
	SHAPE("\x94\x01\x07\xc0\xc0", "wrong direction"),
};

START_TEST(the_form_of_a_message_is_checked_first)
{
	enum msg_type type = MSG_hello_reply;
	struct fault fault = { 0 };
	struct message m;
	int r = protocol_decode((const uint8_t *)shapes[_i].bytes, shapes[_i].n, ROLE_WORKER,
	    ROLE_BROKER, LINK_NEW, sample_pending, &type, &m, &fault);

	if (shapes[_i].rule == NULL) {
		ck_assert_int_eq(r, 0);
	} else {
		ck_assert_int_eq(r, -EPROTO);
		ck_assert_str_eq(fault.rule, shapes[_i].rule);
	}
}
END_TEST

/* From a broker to a worker that has tool.invoke open as request 7. */
static const struct {
	const char *bytes;
	size_t n;
	const char *rule;
} replies[] = {
	SHAPE("\x94\x01\x07\x82\xa4" "code\xa1x\xa7message\xa0\xc0", NULL),
	SHAPE("\x94\x01\x07\x83\xa4" "code\xa1x\xa7message\xa0\xa9retryable\xc3\xc0", NULL),
	SHAPE("\x94\x01\x07\x83\xa4" "code\xa1x\xa7message\xa0\xa7" "details\x80\xc0", NULL),
	SHAPE("\x94\x01\x07\x82\xa4" "code\xa1x\xa7message\xa0\x80", "error and result"),
	SHAPE("\x94\x01\x07\xa1x\xc0", "error is not a map"),
	SHAPE("\x94\x01\x07\x01\xc0", "error is not a map"),
	SHAPE("\x94\x01\x07\x80\xc0", "error without code or message"),
	SHAPE("\x94\x01\x07\x81\xa4" "code\xa1x\xc0", "error without code or message"),
	SHAPE("\x94\x01\x07\x81\xa7message\xa0\xc0", "error without code or message"),
	SHAPE("\x94\x01\x07\x82\xa4" "code\xa0\xa7message\xa0\xc0", "code of an error"),
	SHAPE("\x94\x01\x07\x82\xa4" "code\x01\xa7message\xa0\xc0", "code of an error"),
	SHAPE("\x94\x01\x07\x82\xa4" "code\xa1x\xa7message\xc0\xc0", "message of an error"),
	SHAPE("\x94\x01\x07\x83\xa4" "code\xa1x\xa7message\xa0\xa9retryable\x01\xc0",
	    "retryable of an error"),
	SHAPE("\x94\x01\x07\x83\xa4" "code\xa1x\xa7message\xa0\xa4what\x01\xc0",
	    "unknown field of an error"),
	SHAPE("\x94\x01\x07\xc0\xc0", "fields are not a map"),
	SHAPE("\x94\x01\x07\xc0\x80", "missing field"),
	SHAPE("\x94\x01\x09\xc0\x80", "reply to nothing"),
};

START_TEST(a_response_is_an_error_or_a_result)
{
	enum msg_type type = MSG_tool_invoke_reply;
	struct fault fault = { 0 };
	struct message m;
	int r = protocol_decode((const uint8_t *)replies[_i].bytes, replies[_i].n, ROLE_BROKER,
	    ROLE_WORKER, LINK_BUSY, sample_pending, &type, &m, &fault);

	if (replies[_i].rule == NULL) {
		ck_assert_int_eq(r, 0);
		ck_assert(m.failed);
		ck_assert(slice_is(m.error.code, "x"));
		ck_assert_int_eq(m.type, MSG_tool_invoke_reply);
	} else {
		ck_assert_int_eq(r, -EPROTO);
		ck_assert_str_eq(fault.rule, replies[_i].rule);
	}
}
END_TEST

START_TEST(without_open_requests_every_response_is_a_fault)
{
	static const uint8_t reply[] = { 0x94, 1, 7, 0xc0, 0x80 };
	struct fault fault = { 0 };
	struct message m;

	ck_assert_int_eq(protocol_decode(reply, sizeof reply, ROLE_BROKER, ROLE_WORKER,
			     LINK_BUSY, NULL, NULL, &m, &fault),
	    -EPROTO);
	ck_assert_str_eq(fault.rule, "reply to nothing");
}
END_TEST

START_TEST(a_fault_names_the_rule_the_method_and_the_field)
{
	const struct msg_desc *desc = protocol_desc(MSG_tool_invoke);
	struct sample_override o = { &desc->fields[1], { (const uint8_t *)"\x01", 1 } };
	struct fault fault = { 0 };
	struct buf b = { 0 };
	struct message m;

	sample_frame(&b, desc, SAMPLE_REQUIRED, &o);
	ck_assert_int_eq(sample_decode(&b, desc, &m, &fault), -EPROTO);
	ck_assert_str_eq(fault.rule, "wrong type");
	ck_assert_str_eq(fault.method, "tool.invoke");
	ck_assert_str_eq(fault.field, "id");
	ck_assert_uint_eq(b.p[fault.offset], 0x01);
	buf_finish(&b);
}
END_TEST

START_TEST(a_frame_over_the_maximum_is_a_fault)
{
	struct buf b = { 0 };
	struct fault fault = { 0 };
	struct message m;

	sample_bin(&b, FRAME_MAX - 8);
	buf_add(&b, "padding!", 8);
	ck_assert_int_eq(protocol_decode(b.p, b.n, ROLE_WORKER, ROLE_BROKER, LINK_BUSY, NULL,
	    NULL, &m, &fault), -EPROTO);
	ck_assert_str_eq(fault.rule, "frame too long");
	buf_finish(&b);
}
END_TEST

/* ---- writing -------------------------------------------------------------------------- */

static struct msg_tool_invoke
good_invoke(void)
{
	static const uint8_t empty_map[] = { 0x80 };

	return (struct msg_tool_invoke){
		.operation = slice_of("op"),
		.id = slice_of("1"),
		.tool = slice_of("files.read"),
		.arguments = { empty_map, 1 },
	};
}

/* Writes behind something that must stay as it is. */
static void
assert_refused(enum msg_type type, const void *m)
{
	struct buf out = { 0 };

	buf_add(&out, "before", 6);
	ck_assert_int_eq(protocol_request(&out, type, 1, m), -ERANGE);
	ck_assert_uint_eq(out.n, 6);
	ck_assert_mem_eq(out.p, "before", 6);
	ck_assert(!out.failed);
	buf_finish(&out);
}

START_TEST(what_would_be_a_fault_is_not_written)
{
	static const uint8_t array[] = { 0x90 };
	static char longest[ARGUMENTS_MAX + 8];
	struct msg_tool_invoke m;
	struct msg_operation_signal sig = { .operation = slice_of("op"), .signo = 65 };
	struct msg_operation_submit submit = { .kind = (enum operation_kind)7 };

	m = good_invoke();
	m.operation.n = 0;
	assert_refused(MSG_tool_invoke, &m);
	m = good_invoke();
	m.id = (struct slice) { (const uint8_t *)longest, 257 };
	assert_refused(MSG_tool_invoke, &m);
	m = good_invoke();
	m.tool = slice_of("\xff");
	assert_refused(MSG_tool_invoke, &m);
	m = good_invoke();
	m.arguments = (struct slice) { NULL, 0 };
	assert_refused(MSG_tool_invoke, &m);
	m = good_invoke();
	m.arguments = (struct slice) { array, 1 };
	assert_refused(MSG_tool_invoke, &m);
	m = good_invoke();
	m.arguments = (struct slice) { (const uint8_t *)longest, ARGUMENTS_MAX + 1 };
	assert_refused(MSG_tool_invoke, &m);
	m = good_invoke();
	m.has_step = true;
	m.step = (uint64_t)UINT32_MAX + 1;
	assert_refused(MSG_tool_invoke, &m);
	assert_refused(MSG_operation_signal, &sig);
	assert_refused(MSG_operation_submit, &submit);
}
END_TEST

START_TEST(the_kind_of_a_row_decides_how_it_is_written)
{
	struct msg_tool_invoke m = good_invoke();
	struct buf out = { 0 };

	ck_assert_int_eq(protocol_notify(&out, MSG_tool_invoke, &m), -ERANGE);
	ck_assert_int_eq(protocol_reply(&out, MSG_tool_invoke, 1, &m), -ERANGE);
	ck_assert_int_eq(protocol_request(&out, MSG_turn_annotate_reply, 1, &m), -ERANGE);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(protocol_request(&out, MSG_tool_invoke, 1, &m), 0);
	buf_finish(&out);
}
END_TEST

START_TEST(a_frame_that_would_be_too_long_is_not_written)
{
	struct buf value = { 0 }, map = { 0 }, list = { 0 }, out = { 0 };
	struct msg_operation_run m = {
		.operation = slice_of("op"),
		.executionId = slice_of("e"),
		.agent = slice_of("a:b"),
	};

	sample_filler(&value, ARGUMENTS_MAX);
	pack_array(&list, 1);
	sample_filler(&list, CATALOGUE_MAX - 1);
	pack_map(&map, 1);
	pack_str(&map, "k");
	sample_filler(&map, ARGUMENTS_MAX - 3);
	m.message = (struct slice) { value.p, value.n };
	m.tools = (struct slice) { list.p, list.n };
	m.context = (struct slice) { map.p, map.n };
	ck_assert_int_eq(protocol_request(&out, MSG_operation_run, 1, &m), -ERANGE);
	ck_assert_uint_eq(out.n, 0);
	buf_finish(&value);
	buf_finish(&map);
	buf_finish(&list);
	buf_finish(&out);
}
END_TEST

START_TEST(a_refusal_reads_back)
{
	enum msg_type type = MSG_tool_invoke_reply;
	struct buf out = { 0 };
	struct fault fault;
	struct message m;

	ck_assert_int_eq(protocol_refuse(&out, 7, "turn_draining", "the turn drains", true), 0);
	ck_assert_int_eq(protocol_decode(out.p + 4, out.n - 4, ROLE_BROKER, ROLE_WORKER,
			     LINK_BUSY, sample_pending, &type, &m, &fault),
	    0);
	ck_assert(m.failed && m.error.retryable);
	ck_assert(slice_is(m.error.code, "turn_draining"));
	ck_assert(slice_is(m.error.message, "the turn drains"));
	ck_assert_int_eq(protocol_refuse(&out, 7, "", "no code", true), -ERANGE);
	ck_assert_int_eq(protocol_refuse(&out, 7, "code", "\xc3", true), -ERANGE);
	buf_finish(&out);
}
END_TEST

START_TEST(a_bare_map_reads_back)
{
	const struct msg_desc *desc = protocol_desc(_i);
	union msg_any u;
	struct fault fault = { 0 };
	struct buf map = { 0 }, again = { 0 };
	unsigned how;

	for (how = 0; how < SAMPLE_MAX; how++) {
		map.n = again.n = 0;
		sample_map(&map, desc, how, NULL);
		ck_assert_int_eq(protocol_unpack(map.p, map.n, desc->type, &u, &fault), 0);
		ck_assert_int_eq(protocol_pack(&again, desc->type, &u), 0);
		ck_assert_uint_eq(again.n, map.n);
		ck_assert_mem_eq(again.p, map.p, map.n);
		ck_assert_int_eq(
		    protocol_unpack(map.p, map.n - 1, desc->type, &u, &fault), -EPROTO);
	}
	ck_assert_int_eq(
	    protocol_unpack((const uint8_t *)"\xc0", 1, desc->type, &u, &fault), -EPROTO);
	ck_assert_str_eq(fault.rule, "fields are not a map");
	buf_finish(&map);
	buf_finish(&again);
}
END_TEST

/* What is packed once for many maps reads like what is packed for each. */
START_TEST(fields_in_common_are_part_of_the_map)
{
	struct msg_record some = { .has_trace = true, .trace = slice_of("t"),
		.has_bytes = true, .bytes = 300 };
	struct msg_record rest = { .id = slice_of("i"), .type = slice_of("y"), .at = 7,
		.has_outcome = true, .outcome = record_outcome_denied };
	struct fields common = { 0 };
	struct fault fault = { 0 };
	struct msg_record r;
	struct buf map = { 0 };

	ck_assert_int_eq(protocol_pack_fields(&common, MSG_record, &some), 0);
	ck_assert_uint_eq(common.n, 2);
	ck_assert_int_eq(protocol_pack_with(&map, MSG_record, &common, &rest), 0);
	ck_assert_int_eq(protocol_unpack(map.p, map.n, MSG_record, &r, &fault), 0);
	ck_assert(slice_is(r.id, "i") && slice_is(r.type, "y") && r.at == 7);
	ck_assert(r.has_outcome && r.outcome == record_outcome_denied);
	ck_assert(r.has_trace && slice_is(r.trace, "t") && r.has_bytes && r.bytes == 300);
	ck_assert(!r.has_call && !r.has_operation);

	/* Outside its range is an error of the whole, and nothing is added. */
	some.trace.n = 0;
	ck_assert_int_eq(protocol_pack_fields(&common, MSG_record, &some), -ERANGE);
	ck_assert_uint_eq(common.n, 2);
	buf_finish(&common.packed);
	buf_finish(&map);
}
END_TEST

/* ---- the table ------------------------------------------------------------------------- */

START_TEST(the_table_is_in_order_and_every_method_is_found)
{
	const struct msg_desc *desc = protocol_desc(_i);
	const struct field_desc *f;

	ck_assert_int_eq(desc->type, _i);
	ck_assert_ptr_nonnull(desc->doc);
	for (f = desc->fields; f->name != NULL; f++) {
		ck_assert_uint_eq(f->name_n, strlen(f->name));
		ck_assert_uint_lt(f->offset, desc->size);
		ck_assert_uint_lt(f->has_offset, desc->size);
	}
	if (desc->kind == MSG_RESPONSE) {
		const struct msg_desc *request = protocol_desc(_i - 1);

		ck_assert_int_eq(request->kind, MSG_REQUEST);
		ck_assert_uint_eq(desc->from, request->to);
		ck_assert_uint_eq(desc->to, request->from);
		ck_assert_ptr_nonnull(strstr(protocol_name(_i), " reply"));
		return;
	}
	ck_assert_ptr_eq(protocol_method(slice_of(desc->method)), desc);
	ck_assert_str_eq(protocol_name(_i), desc->method);
	/* A request is followed by its reply. */
	if (desc->kind == MSG_REQUEST)
		ck_assert_int_eq(protocol_desc(_i + 1)->kind, MSG_RESPONSE);
}
END_TEST

/* An event whose data nests `depth` deep and holds `nodes` values beside. */
static const char *
event_rule(unsigned depth, uint32_t nodes)
{
	struct buf data = { 0 }, frame = { 0 };
	struct msg_event_emit m = { .operation = slice_of("op"), .type = slice_of("t") };
	struct fault fault = { 0 };
	struct message got;
	unsigned i;

	for (i = 1; i < depth; i++)
		pack_array(&data, 1);
	pack_array(&data, nodes);
	while (nodes-- > 0)
		pack_nil(&data);
	m.data = (struct slice){ data.p, data.n };
	ck_assert_int_eq(protocol_request(&frame, MSG_event_emit, 1, &m), 0);
	protocol_decode(frame.p + 4, frame.n - 4, ROLE_WORKER, ROLE_BROKER, LINK_BUSY, NULL, NULL,
	    &got, &fault);
	buf_finish(&data);
	buf_finish(&frame);
	return fault.rule;
}

/* What the broker passes on wrapped must be no fault at whoever gets it. */
START_TEST(a_value_to_the_broker_leaves_room_for_its_wrapping)
{
	ck_assert_ptr_null(event_rule(PAYLOAD_DEPTH_MAX, 1));
	ck_assert_str_eq(
	    event_rule(PAYLOAD_DEPTH_MAX + 1, 0), "value nested too deep to be passed on");
	ck_assert_ptr_null(event_rule(1, PAYLOAD_NODES_MAX - 1));
	ck_assert_str_eq(event_rule(1, PAYLOAD_NODES_MAX), "too many values to be passed on");
	ck_assert_str_eq(
	    event_rule(2, PAYLOAD_NODES_MAX - 1), "too many values to be passed on");
}
END_TEST

START_TEST(a_name_with_a_nul_in_it_is_a_fault)
{
	struct msg_hello m = { .protocol = 1, .has_name = true, .name = { (const uint8_t *)"a\0b", 3 } };
	struct buf frame = { 0 };
	struct fault fault = { 0 };
	struct message got;

	ck_assert_int_eq(protocol_request(&frame, MSG_hello, 1, &m), 0);
	ck_assert_int_eq(protocol_decode(frame.p + 4, frame.n - 4, ROLE_WORKER, ROLE_BROKER,
			     LINK_NEW, NULL, NULL, &got, &fault), -EPROTO);
	ck_assert_str_eq(fault.rule, "holds a NUL");
	buf_finish(&frame);
}
END_TEST

START_TEST(the_form_on_the_wire_is_the_one_that_is_documented)
{
	/* The example of docs/PROTOCOL.md. */
	static const char hello[] =
	    "\x00\x00\x00\x1e\x94\x00\x01\xa5hello\x91\x82\xa8protocol\x01"
	    "\xa4name\xa3"
	    "bot";
	struct msg_hello m = { .protocol = 1, .has_name = true, .name = slice_of("bot") };
	struct buf out = { 0 };

	ck_assert_int_eq(protocol_request(&out, MSG_hello, 1, &m), 0);
	ck_assert_uint_eq(out.n, sizeof hello - 1);
	ck_assert_mem_eq(out.p, hello, sizeof hello - 1);
	buf_finish(&out);
}
END_TEST

int
main(void)
{
	static const TTest *const *const per_row[] = {
		&every_flipped_bit_is_refused_or_canonical,
		&every_other_direction_is_a_fault,
		&every_other_state_is_a_fault,
		&a_missing_field_is_a_fault_if_it_is_required,
		&every_wrong_type_of_every_field_is_a_fault,
		&every_range_holds_at_its_edges,
		&every_name_of_an_enumeration_and_no_other_is_known,
		&an_unknown_field_and_one_given_twice_are_faults,
		&fields_may_come_in_any_order,
		&a_bare_map_reads_back,
		&the_table_is_in_order_and_every_method_is_found,
	};
	Suite *s = suite_create("protocol");
	TCase *rows = tcase_create("rows"), *form = tcase_create("form"),
	      *all = tcase_create("all");
	TCase *write = tcase_create("write");
	SRunner *runner;
	size_t i;
	int failed;

	for (i = 0; i < countof(per_row); i++)
		tcase_add_loop_test(rows, *per_row[i], 0, MSG_TYPE_MAX);
	tcase_add_test(all, every_message_reads_and_writes_the_same_bytes);
	tcase_add_test(all, every_truncation_is_refused);
	tcase_add_loop_test(
	    form, the_form_of_a_message_is_checked_first, 0, (int)countof(shapes));
	tcase_add_loop_test(form, a_response_is_an_error_or_a_result, 0, (int)countof(replies));
	tcase_add_test(form, without_open_requests_every_response_is_a_fault);
	tcase_add_test(form, a_fault_names_the_rule_the_method_and_the_field);
	tcase_add_test(form, a_frame_over_the_maximum_is_a_fault);
	tcase_add_test(form, a_value_to_the_broker_leaves_room_for_its_wrapping);
	tcase_add_test(form, a_name_with_a_nul_in_it_is_a_fault);
	tcase_add_test(write, fields_in_common_are_part_of_the_map);
	tcase_add_test(write, what_would_be_a_fault_is_not_written);
	tcase_add_test(write, the_kind_of_a_row_decides_how_it_is_written);
	tcase_add_test(write, a_frame_that_would_be_too_long_is_not_written);
	tcase_add_test(write, a_refusal_reads_back);
	tcase_add_test(write, the_form_on_the_wire_is_the_one_that_is_documented);
	tcase_set_timeout(all, 120);
	tcase_set_timeout(rows, 60);
	suite_add_tcase(s, rows);
	suite_add_tcase(s, all);
	suite_add_tcase(s, form);
	suite_add_tcase(s, write);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
