/*
 * Reading a journal, its head, and verifying it (D-16).  A power loss is every prefix of a
 * journal; a tamperer is every changed byte.
 */
#include <check.h>
#include <errno.h>

#include "ledger/head.h"
#include "tests/unit/ledger_fixture.h"

/* ---- a journal as a broker writes it -------------------------------------------------- */

static size_t
get_file(uint64_t number, uint8_t *buf, size_t cap)
{
	char name[17];
	ssize_t n;
	int fd;

	journal_name(name, number);
	fd = openat(journal_fd, name, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	n = read(fd, buf, cap);
	ck_assert_int_ge(n, 0);
	close(fd);
	return (size_t)n;
}

/* ---- helpers ------------------------------------------------------------------------ */

static int
read_to_end(struct reader *r)
{
	struct entry e;
	int ret;

	ck_assert_int_eq(reader_init(r, journal_fd), 0);
	while ((ret = reader_next(r, &e)) == READER_RECORD)
		;
	return ret;
}

/* ---- reader ------------------------------------------------------------------------- */

START_TEST(a_whole_journal_reads_to_its_end)
{
	struct reader r;

	write_story();
	ck_assert_int_eq(read_to_end(&r), READER_END);
	ck_assert_uint_eq(r.at.count, 13);
	ck_assert_uint_eq(r.at.segment, 2);
	ck_assert_mem_eq(r.at.hash, w.chain, JOURNAL_HASH);
	ck_assert_uint_eq(r.torn + r.torn_before, 0);
	reader_finish(&r);
}
END_TEST

START_TEST(an_empty_journal_is_one)
{
	struct reader r;

	ck_assert_int_eq(read_to_end(&r), READER_END);
	ck_assert_uint_eq(r.at.count, 0);
	reader_finish(&r);
	ck_assert(is_valid());
}
END_TEST

START_TEST(a_growing_journal_is_followed_into_the_next_segment)
{
	struct reader r;
	struct entry e;

	begin();
	put_accepted("op-1", "turn");
	save();
	ck_assert_int_eq(read_to_end(&r), READER_END);
	ck_assert_uint_eq(r.at.count, 2);
	put_ended("op-1");
	save();
	put_file(2, "", 0); /* made ahead of its use */
	ck_assert_int_eq(reader_next(&r, &e), READER_RECORD);
	ck_assert_int_eq(reader_next(&r, &e), READER_END);
	put_accepted("op-2", "turn");
	save();
	begin();
	save();
	ck_assert_int_eq(reader_next(&r, &e), READER_RECORD);
	ck_assert_uint_eq(e.segment, 1);
	ck_assert_int_eq(reader_next(&r, &e), READER_RECORD);
	ck_assert_uint_eq(e.segment, 2);
	ck_assert_int_eq(reader_next(&r, &e), READER_END);
	reader_finish(&r);
}
END_TEST

/* Power loss: exactly the whole records before the cut, and a broker goes on from there. */
START_TEST(every_prefix_of_a_journal_reads_and_can_be_continued)
{
	uint8_t first[8192], second[8192];
	struct writer whole;
	struct reader r;
	size_t nfirst, n, before;
	unsigned in_second, want;
	struct position at;

	write_story();
	nfirst = get_file(1, first, sizeof(first));
	get_file(2, second, sizeof(second));
	whole = w;
	for (n = 0; n <= nfirst + whole.file.n; n++) {
		clear(journal_fd);
		put_file(1, first, n < nfirst ? n : nfirst);
		if (n >= nfirst)
			put_file(2, second, n - nfirst);
		ck_assert_msg(read_to_end(&r) == READER_END, "cut at %zu: %s", n, r.problem);
		if (n >= nfirst) {
			for (in_second = 0;
			     in_second < whole.n && whole.ends[in_second] <= n - nfirst;
			     in_second++)
				;
			want = 7 + in_second;
			ck_assert_uint_eq(r.at.count, want);
			before = in_second ? whole.ends[in_second - 1] : 0;
			ck_assert_uint_eq(r.torn, n - nfirst - before);
		} else {
			ck_assert_uint_le(r.at.count, 7);
			ck_assert_uint_eq(r.torn, n - r.at.offset);
		}
		at = r.at;
		reader_finish(&r);

		/* What a broker does that is told so. */
		memset(&w, 0, sizeof(w));
		memcpy(w.chain, at.hash, JOURNAL_HASH);
		w.count = at.count;
		w.segment = n >= nfirst ? 2 : 1;
		begin_after(at.segment == w.segment ? at.offset : 0);
		put_ended("op-1");
		save();
		ck_assert_msg(read_to_end(&r) == READER_END, "after %zu: %s", n, r.problem);
		ck_assert_uint_eq(r.at.count, at.count + 2);
		reader_finish(&r);
		ck_assert(is_valid());
		buf_finish(&w.file);
	}
	w = whole;
}
END_TEST

/* ---- verify: what is wrong is found ---------------------------------------------------- */

START_TEST(any_changed_byte_is_found)
{
	uint8_t bytes[2][8192];
	size_t n[2], i;
	unsigned s;

	write_story();
	run_ledger();
	ck_assert(is_valid());
	for (s = 0; s < 2; s++)
		n[s] = get_file(s + 1, bytes[s], sizeof(bytes[s]));
	for (s = 0; s < 2; s++)
		for (i = 0; i < n[s]; i++) {
			bytes[s][i] ^= (uint8_t)(1u << (i % 8));
			put_file(s + 1, bytes[s], n[s]);
			ck_assert_msg(!is_valid(), "segment %u, byte %zu", s + 1, i);
			bytes[s][i] ^= (uint8_t)(1u << (i % 8));
		}
}
END_TEST

/* Without a head, all but the last two entries are still safe from that. */
START_TEST(a_changed_byte_before_the_end_is_found_without_a_head)
{
	uint8_t bytes[8192];
	struct reader r;
	size_t n, i;

	write_story();
	n = get_file(2, bytes, sizeof(bytes));
	for (i = 0; i < w.ends[w.n - 4]; i++) {
		bytes[i] ^= 0x40;
		put_file(2, bytes, n);
		ck_assert_msg(read_to_end(&r) == READER_DAMAGE, "byte %zu", i);
		ck_assert_ptr_nonnull(strstr(r.problem, "segment "));
		reader_finish(&r);
		bytes[i] ^= 0x40;
	}
}
END_TEST

enum { CUT_END, CUT_SEGMENT, DROP_FIRST, SWAP_SEGMENTS, LIE_LENGTH, OLD_COPY };
static const struct {
	const char *what;
	int how;
	const char *says;
} tampering[] = {
	{ "the last record is cut off", CUT_END, "cut off" },
	{ "the last segment is removed", CUT_SEGMENT, "cut off" },
	{ "the first segment is removed", DROP_FIRST, "missing" },
	{ "two segments are exchanged", SWAP_SEGMENTS, "segment" },
	{ "the next segment names a shorter one before it", LIE_LENGTH, "was replaced" },
	{ "another journal of the same form", OLD_COPY, "another" },
};

START_TEST(tampering_is_found_and_named)
{
	uint8_t a[8192], b[8192];
	size_t na, nb;
	struct verify v;

	write_story();
	run_ledger();
	na = get_file(1, a, sizeof(a));
	nb = get_file(2, b, sizeof(b));
	switch (tampering[_i].how) {
	case CUT_END: put_file(2, b, w.ends[w.n - 2]); break;
	case CUT_SEGMENT: unlinkat(journal_fd, "journal.00000002", 0); break;
	case DROP_FIRST: unlinkat(journal_fd, "journal.00000001", 0); break;
	case SWAP_SEGMENTS:
		put_file(1, b, nb);
		put_file(2, a, na);
		break;
	case LIE_LENGTH:
		begin_after(w.ends[3]);
		save();
		break;
	case OLD_COPY:
		buf_finish(&w.file);
		memset(&w, 0, sizeof(w));
		begin();
		put_accepted("op-9", "turn");
		for (int i = 0; i < 12; i++)
			put_block("op-9", (uint64_t)i);
		save();
		unlinkat(journal_fd, "journal.00000002", 0);
		break;
	}
	v = verified(NULL, NULL);
	ck_assert(!v.valid);
	ck_assert_msg(strstr(verify_text(&v), tampering[_i].says), "%s: %s", tampering[_i].what,
	    verify_text(&v));
	verify_finish(&v);
}
END_TEST

START_TEST(only_the_expected_head_is_accepted)
{
	uint8_t other[JOURNAL_HASH] = { 1 };
	struct verify v;

	write_story();
	run_ledger();
	v = verified(NULL, w.chain);
	ck_assert(v.valid);
	verify_finish(&v);
	v = verified(NULL, other);
	ck_assert(!v.valid);
	verify_finish(&v);
	put_ended("op-1");
	save();
	v = verified(NULL, w.chain);
	ck_assert(v.valid);
	verify_finish(&v);
}
END_TEST

START_TEST(a_changed_index_is_found)
{
	struct index *x;
	struct verify v;
	struct entry e;
	struct reader r;

	write_story();
	run_ledger();
	/* A row that the journal does not have. */
	ck_assert_int_eq(reader_init(&r, journal_fd), 0);
	ck_assert_int_eq(reader_next(&r, &e), READER_RECORD);
	ck_assert_int_eq(index_open(index_fd, &x), 0);
	struct position after = index_position(x);
	after.count++;
	ck_assert_int_eq(index_add(x, &e, &after), 0);
	ck_assert_int_eq(index_commit(x), 0);
	index_settle(x);
	index_close(x);
	reader_finish(&r);
	v = verified(NULL, NULL);
	ck_assert(!v.valid);
	ck_assert_ptr_nonnull(strstr(verify_text(&v), "index"));
	verify_finish(&v);
	/* Bytes that are no database. */
	int fd = openat(index_fd, INDEX_FILE, O_WRONLY | O_TRUNC | O_CLOEXEC);
	ck_assert_int_eq(write(fd, "no database, no database, no database", 37), 37);
	close(fd);
	ck_assert(!is_valid());
	/* The ledger makes it again, and all is well. */
	run_ledger();
	ck_assert(is_valid());
}
END_TEST

/* ---- head --------------------------------------------------------------------------- */

static const struct {
	const char *text;
	int error;
} heads[] = {
	{ "", -EBADMSG },
	{ "caisson-head 2 1 ", -EBADMSG },
	{ "caisson-head 1 1 00 1 1\n", -EBADMSG },
	{ "caisson-head 1 1 "
	  "0000000000000000000000000000000000000000000000000000000000000000 1 99\n",
	    0 },
	{ "caisson-head 1 1 "
	  "0000000000000000000000000000000000000000000000000000000000000000 1 99",
	    -EBADMSG },
	{ "caisson-head 1 01 "
	  "0000000000000000000000000000000000000000000000000000000000000000 1 99\n",
	    -EBADMSG },
	{ "caisson-head 1 1 "
	  "000000000000000000000000000000000000000000000000000000000000000G 1 99\n",
	    -EBADMSG },
	{ "caisson-head 1 99999999999999999999999 "
	  "0000000000000000000000000000000000000000000000000000000000000000 1 99\n",
	    -EBADMSG },
};

START_TEST(only_what_we_would_write_is_a_head)
{
	struct position at = { .count = 7 };
	int fd = openat(index_fd, HEAD_FILE, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_eq(
	    write(fd, heads[_i].text, strlen(heads[_i].text)), (ssize_t)strlen(heads[_i].text));
	close(fd);
	ck_assert_int_eq(head_read(index_fd, &at), heads[_i].error);
	ck_assert_uint_eq(at.count, heads[_i].error ? 7 : 1);
}
END_TEST

START_TEST(a_head_is_replaced_whole)
{
	struct position at = { .count = UINT64_MAX, .segment = 3, .offset = 9 }, got;

	ck_assert_int_eq(head_read(index_fd, &got), -ENOENT);
	memset(at.hash, 0xab, sizeof(at.hash));
	ck_assert_int_eq(head_write(index_fd, &at), 0);
	at.count = 2;
	ck_assert_int_eq(head_write(index_fd, &at), 0);
	ck_assert_int_eq(head_read(index_fd, &got), 0);
	ck_assert_uint_eq(got.count, 2);
	ck_assert_mem_eq(got.hash, at.hash, JOURNAL_HASH);
	ck_assert_int_eq(faccessat(index_fd, HEAD_FILE ".new", F_OK, 0), -1);
}
END_TEST

/* ---- ledger: state, queries, damage ------------------------------------------------------ */

/* Or a broker that writes as fast as it is read would keep a look going for ever. */
START_TEST(a_look_ends_where_the_record_ended_when_it_began)
{
	struct verify v;
	uint64_t count;

	write_story();
	v = verified(NULL, NULL);
	count = v.reader.at.count;
	verify_finish(&v);
	ck_assert_int_eq(verify_start(&v, journal_fd, -1, NULL, NULL), 0);
	do {
		put_ended("op-1");
		save();
	} while (verify_step(&v, 1) == 0 && v.reader.at.count < 2 * count);
	ck_assert(v.done && v.valid);
	ck_assert_uint_eq(v.reader.at.count, count);
	verify_finish(&v);
}
END_TEST

START_TEST(a_live_index_is_not_compared_with_an_older_look)
{
	struct ledger l;
	struct verify v;

	write_story();
	open_ledger(&l, false);
	ck_assert_int_eq(verify_start(&v, journal_fd, index_fd, l.index, NULL), 0);
	ck_assert_int_eq(verify_step(&v, 3), 0);
	put_ended("op-1");
	save();
	ck_assert_int_eq(ledger_follow(&l, 10), 0);
	while (verify_step(&v, 3) == 0)
		;
	ck_assert_msg(v.valid, "%s", verify_text(&v));
	verify_finish(&v);
	/* Its log holds what its file does not: another reader only says so. */
	v = verified(NULL, NULL);
	ck_assert(v.valid);
	ck_assert_uint_gt(strlen(verify_text(&v)), 0);
	verify_finish(&v);
	ledger_finish(&l);
}
END_TEST

static TCase *
add_case(Suite *s, const char *name)
{
	TCase *t = tcase_create(name);

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	suite_add_tcase(s, t);
	return t;
}

int
main(void)
{
	Suite *s = suite_create("ledger_verify");
	TCase *t;
	SRunner *r;
	int failed;

	t = add_case(s, "reader");
	tcase_add_test(t, a_whole_journal_reads_to_its_end);
	tcase_add_test(t, an_empty_journal_is_one);
	tcase_add_test(t, a_growing_journal_is_followed_into_the_next_segment);
	tcase_add_test(t, every_prefix_of_a_journal_reads_and_can_be_continued);
	t = add_case(s, "verify");
	tcase_add_test(t, any_changed_byte_is_found);
	tcase_add_test(t, a_changed_byte_before_the_end_is_found_without_a_head);
	tcase_add_loop_test(t, tampering_is_found_and_named, 0, countof(tampering));
	tcase_add_test(t, only_the_expected_head_is_accepted);
	tcase_add_test(t, a_changed_index_is_found);
	tcase_add_test(t, a_look_ends_where_the_record_ended_when_it_began);
	tcase_add_test(t, a_live_index_is_not_compared_with_an_older_look);
	t = add_case(s, "head");
	tcase_add_loop_test(t, only_what_we_would_write_is_a_head, 0, countof(heads));
	tcase_add_test(t, a_head_is_replaced_whole);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
