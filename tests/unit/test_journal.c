/* common/journal and common/records: the form of the record on disk.  D-16. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/sha.h>

#include "common/journal.h"
#include "common/records.h"
#include "common/util.h"

#define RECORDS 6

static struct buf whole;
static size_t ends[RECORDS]; /* where each entry ends */

static struct msg_record
make(unsigned i)
{
	static char id[RECORDS][32];
	static uint8_t hash[32];
	struct msg_record r = { 0 };

	snprintf(id[i], sizeof(id[i]), "r-%u", i);
	r.id = slice_of(id[i]);
	r.type = slice_of(i == 0 ? "segment.opened" : "operation.accepted");
	r.at = 1700000000000 + i;
	if (i == 0) {
		r.has_segment = r.has_previousCount = r.has_previousLength =
		    r.has_previousHash = true;
		r.segment = 1;
		r.previousHash = (struct slice){ hash, sizeof(hash) };
	} else {
		r.has_operation = true;
		r.operation = slice_of("op-1");
	}
	return r;
}

static void
setup(void)
{
	uint8_t chain[JOURNAL_HASH] = { 0 };
	unsigned i;

	for (i = 0; i < RECORDS; i++) {
		struct msg_record r = make(i);

		ck_assert_int_eq(journal_entry(&whole, chain, &r), 0);
		ends[i] = whole.n;
	}
}

static void
teardown(void)
{
	buf_finish(&whole);
	whole = (struct buf){ 0 };
}

/* Reads entries from `p`; returns how many were good, and how the reading ended. */
static unsigned
read_all(const uint8_t *p, size_t n, enum journal_read *ret_end)
{
	uint8_t chain[JOURNAL_HASH] = { 0 };
	struct msg_record r;
	struct fault fault;
	unsigned count = 0;
	size_t len = 0;

	while ((*ret_end = journal_next(p, n, chain, &r, &len, &fault)) == JOURNAL_READ_OK) {
		p += len;
		n -= len;
		count++;
	}
	if (*ret_end == JOURNAL_READ_BAD)
		ck_assert_ptr_nonnull(fault.rule);
	return count;
}

START_TEST(what_was_written_is_read_back)
{
	uint8_t chain[JOURNAL_HASH] = { 0 };
	struct msg_record r;
	struct fault fault;
	size_t len, at = 0;
	unsigned i;

	for (i = 0; i < RECORDS; i++) {
		struct msg_record m = make(i);

		ck_assert_int_eq(
		    journal_next(whole.p + at, whole.n - at, chain, &r, &len, &fault),
		    JOURNAL_READ_OK);
		at += len;
		ck_assert_uint_eq(at, ends[i]);
		ck_assert(slice_equal(r.id, m.id));
		ck_assert(slice_equal(r.type, m.type));
		ck_assert_uint_eq(r.at, m.at);
		ck_assert_int_eq(r.has_operation, m.has_operation);
	}
	ck_assert_int_eq(
	    journal_next(whole.p + at, 0, chain, &r, &len, &fault), JOURNAL_READ_END);
}
END_TEST

START_TEST(the_chain_is_sha256_of_the_one_before_and_the_record)
{
	uint8_t chain[JOURNAL_HASH] = { 0 }, sum[JOURNAL_HASH];
	uint8_t *joined;
	size_t at = 0, n;
	unsigned i;

	for (i = 0; i < RECORDS; i++) {
		n = ends[i] - at - JOURNAL_HEAD;
		joined = malloc(JOURNAL_HASH + n);
		ck_assert_ptr_nonnull(joined);
		memcpy(joined, chain, JOURNAL_HASH);
		memcpy(joined + JOURNAL_HASH, whole.p + at + JOURNAL_HEAD, n);
		SHA256(joined, JOURNAL_HASH + n, sum);
		free(joined);
		ck_assert_mem_eq(whole.p + at + 4, sum, JOURNAL_HASH);
		memcpy(chain, sum, JOURNAL_HASH);
		at = ends[i];
	}
}
END_TEST

START_TEST(every_truncation_gives_the_whole_records_before_it)
{
	enum journal_read end;
	unsigned want = 0;
	uint8_t *copy;
	size_t n;

	for (n = 0; n <= whole.n; n++) {
		if (want < RECORDS && n == ends[want])
			want++;
		/* A copy of exactly that size: a read beyond it is seen by ASan. */
		copy = malloc(n ? n : 1);
		ck_assert_ptr_nonnull(copy);
		memcpy(copy, whole.p, n);
		ck_assert_uint_eq(read_all(copy, n, &end), want);
		ck_assert_int_eq(end, n == 0 || (want && n == ends[want - 1])
					  ? JOURNAL_READ_END
					  : JOURNAL_READ_SHORT);
		free(copy);
	}
}
END_TEST

START_TEST(every_changed_byte_stops_the_reading_there)
{
	enum journal_read end;
	unsigned entry = 0, bit;
	size_t i;

	for (i = 0; i < whole.n; i++) {
		if (i == ends[entry])
			entry++;
		for (bit = 0; bit < 8; bit++) {
			whole.p[i] ^= (uint8_t)(1u << bit);
			ck_assert_uint_eq(read_all(whole.p, whole.n, &end), entry);
			ck_assert_int_ne(end, JOURNAL_READ_END);
			whole.p[i] ^= (uint8_t)(1u << bit);
		}
	}
}
END_TEST

START_TEST(entries_in_another_order_do_not_chain)
{
	enum journal_read end;
	size_t first = ends[0], second = ends[1] - ends[0];
	uint8_t *swapped = malloc(ends[1]);

	ck_assert_ptr_nonnull(swapped);
	memcpy(swapped, whole.p + first, second);
	memcpy(swapped + second, whole.p, first);
	ck_assert_uint_eq(read_all(swapped, ends[1], &end), 0);
	ck_assert_int_eq(end, JOURNAL_READ_CHAIN);
	free(swapped);
}
END_TEST

START_TEST(a_record_over_the_bound_changes_nothing)
{
	uint8_t chain[JOURNAL_HASH] = { 7 }, before[JOURNAL_HASH] = { 7 };
	struct buf out = { 0 };
	struct msg_record r = make(1);
	uint8_t *map = calloc(1, JOURNAL_ENTRY_MAX);

	ck_assert_ptr_nonnull(map);
	buf_add(&out, "x", 1);
	ck_assert_int_eq(journal_seal(&out, chain,
			     (struct slice){ map, JOURNAL_ENTRY_MAX - JOURNAL_HEAD + 1 }),
	    -ERANGE);
	ck_assert_int_eq(journal_seal(&out, chain, (struct slice){ map, 0 }), -ERANGE);
	r.id = (struct slice){ NULL, 0 };
	ck_assert_int_eq(journal_entry(&out, chain, &r), -ERANGE);
	ck_assert_uint_eq(out.n, 1);
	ck_assert_mem_eq(chain, before, JOURNAL_HASH);
	ck_assert_int_eq(
	    journal_seal(&out, chain, (struct slice){ map, JOURNAL_ENTRY_MAX - JOURNAL_HEAD }),
	    0);
	ck_assert_uint_eq(out.n, 1 + JOURNAL_ENTRY_MAX);
	free(map);
	buf_finish(&out);
}
END_TEST

static const struct {
	const char *name;
	uint64_t number;
} names[] = {
	{ "journal.00000001", 1 },
	{ "journal.99999999", 99999999 },
	{ "journal.00000000", 0 },
	{ "journal.1", 0 },
	{ "journal.000000001", 0 },
	{ "journal.0000000x", 0 },
	{ "journal.00000001~", 0 },
	{ "journal.", 0 },
	{ "", 0 },
	{ "index", 0 },
};

START_TEST(only_names_of_segments_have_a_number)
{
	char name[17];

	ck_assert_uint_eq(journal_number(names[_i].name), names[_i].number);
	if (names[_i].number) {
		journal_name(name, names[_i].number);
		ck_assert_str_eq(name, names[_i].name);
	}
}
END_TEST

START_TEST(every_record_type_has_its_row)
{
	const struct record_desc *d = record_desc((unsigned)_i);

	if (_i == RECORD_none || _i == RECORD_MAX) {
		ck_assert_ptr_null(d);
		ck_assert_str_eq(record_name((unsigned)_i), "");
		return;
	}
	ck_assert_ptr_nonnull(d);
	ck_assert_int_eq(record_named(slice_of(d->type)), _i);
	ck_assert_uint_gt(strlen(d->doc), 0);
	ck_assert_int_eq(record_named(slice_of("nothing.such")), RECORD_none);
}
END_TEST

/* TU-65 */
START_TEST(minted_ids_differ)
{
	char a[32], b[32];

	record_mint(a);
	record_mint(b);
	ck_assert_uint_eq(strlen(a), 26);
	ck_assert_str_ne(a, b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("journal");
	TCase *form = tcase_create("form"), *damage = tcase_create("damage"),
	      *tables = tcase_create("tables");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(form, setup, teardown);
	tcase_add_test(form, what_was_written_is_read_back);
	tcase_add_test(form, the_chain_is_sha256_of_the_one_before_and_the_record);
	tcase_add_test(form, a_record_over_the_bound_changes_nothing);
	suite_add_tcase(s, form);
	tcase_add_checked_fixture(damage, setup, teardown);
	tcase_set_timeout(damage, 60);
	tcase_add_test(damage, every_truncation_gives_the_whole_records_before_it);
	tcase_add_test(damage, every_changed_byte_stops_the_reading_there);
	tcase_add_test(damage, entries_in_another_order_do_not_chain);
	suite_add_tcase(s, damage);
	tcase_add_loop_test(tables, only_names_of_segments_have_a_number, 0, countof(names));
	tcase_add_loop_test(tables, every_record_type_has_its_row, 0, RECORD_MAX + 1);
	tcase_add_test(tables, minted_ids_differ);
	suite_add_tcase(s, tables);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
