/* The codec against every row of its table.  D-5: what is malformed is named, never guessed. */
#include <check.h>
#include <errno.h>

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

/* ---- writing -------------------------------------------------------------------------- */

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
	TCase *rows = tcase_create("rows"), *all = tcase_create("all");
	SRunner *runner;
	size_t i;
	int failed;

	for (i = 0; i < countof(per_row); i++)
		tcase_add_loop_test(rows, *per_row[i], 0, MSG_TYPE_MAX);
	tcase_add_test(all, every_message_reads_and_writes_the_same_bytes);
	tcase_add_test(all, every_truncation_is_refused);
	tcase_set_timeout(all, 120);
	tcase_set_timeout(rows, 60);
	suite_add_tcase(s, rows);
	suite_add_tcase(s, all);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
