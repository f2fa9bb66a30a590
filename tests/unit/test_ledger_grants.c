/*
 * What the index keeps of grants for a broker that starts: those that were issued, in order,
 * those that were revoked, and pages of them that fit a frame.  D-16.
 */
#include "tests/unit/index_fixture.h"

static void
add_issued(const char *id, const char *subject, uint32_t actions)
{
	struct msg_record r = record("grant.issued");
	struct buf list = { 0 };

	pack_array(&list, actions);
	for (uint32_t i = 0; i < actions; i++)
		pack_str(&list, "read");
	if (id != NULL)
		SET(&r, grant, slice_of(id));
	SET(&r, subject, slice_of(subject));
	SET(&r, capabilities, buf_slice(&list));
	add(&r);
	buf_finish(&list);
}

static void
add_revoked(const char *id)
{
	struct msg_record r = record("grant.revoked");

	if (id != NULL)
		SET(&r, grant, slice_of(id));
	add(&r);
}

static void
add_use(const char *id)
{
	struct msg_record r = record("authorization.checked");

	SET(&r, grant, slice_of(id));
	r.has_uses = r.has_outcome = true;
	r.uses = 1;
	r.outcome = record_outcome_allowed;
	add(&r);
}

/* The items of one list of a page, as text, and how many values they are. */
static uint32_t
read_list(const struct index_state *s, enum index_list which, struct buf *text)
{
	static const char *const words[INDEX_LISTS][2] = { [INDEX_GRANTS] = { "grant",
							       "subject" },
		[INDEX_REVOCATIONS] = { "grant", "at" }, [INDEX_USES] = { "grant", "spent" } };
	struct slice in = buf_slice(&s->items[which]);
	uint32_t n, nodes = 0;
	unsigned depth;

	for (uint32_t i = 0; i < s->n[which]; i++) {
		struct value map = value_skip(&in), a, b;
		char line[64];

		value_measure(map.raw, &depth, &n);
		nodes += n;
		ck_assert(value_get(map.raw, words[which][0], &a) &&
			  value_get(map.raw, words[which][1], &b));
		if (b.type == VALUE_STR)
			snprintf(line, sizeof(line), "%.*s %.*s, ", (int)a.bytes.n, a.bytes.p,
			    (int)b.bytes.n, b.bytes.p);
		else
			snprintf(line, sizeof(line), "%.*s %u, ", (int)a.bytes.n, a.bytes.p,
			    (unsigned)b.uint);
		buf_add(text, line, strlen(line));
	}
	ck_assert_uint_eq(in.n, 0);
	return nodes;
}

/* Every page: each fits, and what it holds is values.  As text: "a agent:x, | a 1003, | ". */
static unsigned
read_all(size_t max, char *out, size_t cap)
{
	struct buf text[INDEX_LISTS] = { { 0 } };
	struct index_state s;
	uint64_t cursor = 0;
	unsigned pages = 0;
	size_t i;

	do {
		uint32_t nodes = 0;
		size_t bytes = 0;

		ck_assert_int_eq(index_state(x, cursor, max, &s), 0);
		for (i = 0; i < INDEX_LISTS; i++) {
			bytes += s.items[i].n;
			nodes += read_list(&s, (enum index_list)i, &text[i]);
		}
		ck_assert_uint_le(bytes, max);
		ck_assert_uint_le(nodes, PAYLOAD_NODES_MAX);
		ck_assert(s.next == 0 || s.next > cursor);
		cursor = s.next;
		index_state_finish(&s);
		pages++;
	} while (cursor != 0);
	out[0] = '\0';
	for (i = INDEX_GRANTS; i <= INDEX_USES; i++) {
		size_t n = strlen(out);

		ck_assert_uint_lt(n + text[i].n + 2, cap);
		if (text[i].n > 0)
			memcpy(out + n, text[i].p, text[i].n);
		strcpy(out + n + text[i].n, "| ");
	}
	for (i = 0; i < INDEX_LISTS; i++)
		buf_finish(&text[i]);
	return pages;
}

START_TEST(what_was_issued_and_revoked_comes_back_in_order)
{
	char text[512];

	add_issued("b", "agent:x", 1);
	add_issued("a", "agent:y", 1);
	add_use("b");
	add_use("elsewhere");
	add_revoked("configured"); /* not of the record, and revoked all the same */
	add_revoked("b");
	add_use("b");
	ck_assert_uint_eq(read_all(1000, text, sizeof(text)), 1);
	ck_assert_str_eq(text, "b agent:x, a agent:y, | configured 1004, b 1005, | "
			       "b 2, elsewhere 1, | ");
}
END_TEST

START_TEST(the_first_record_of_an_id_counts)
{
	char text[512];

	add_issued("a", "agent:x", 1);
	add_issued("a", "agent:thief", 1);
	add_revoked("a");
	add_revoked("a");
	read_all(1000, text, sizeof(text));
	ck_assert_str_eq(text, "a agent:x, | a 1002, | | ");
}
END_TEST

START_TEST(records_that_name_no_grant_are_none)
{
	char text[512];

	add_issued(NULL, "agent:x", 1);
	add_revoked(NULL);
	read_all(1000, text, sizeof(text));
	ck_assert_str_eq(text, "| | | ");
}
END_TEST

/* The same, however small the pages are. */
START_TEST(pages_of_any_size_say_the_same)
{
	static char whole[8192], parts[8192];
	char id[16];
	size_t max;

	for (int i = 0; i < 60; i++) {
		snprintf(id, sizeof(id), "g%d", i);
		add_issued(id, "agent:x", 2);
		add_use(id);
		if (i % 3 == 0)
			add_revoked(id);
	}
	ck_assert_uint_eq(read_all(1 << 20, whole, sizeof(whole)), 1);
	for (max = 150; max < 700; max += 7) {
		ck_assert_uint_gt(read_all(max, parts, sizeof(parts)), 5);
		ck_assert_str_eq(parts, whole);
	}
}
END_TEST

START_TEST(a_page_holds_no_more_values_than_a_frame_can)
{
	static char text[65536];
	char id[16];

	for (int i = 0; i < 40; i++) {
		snprintf(id, sizeof(id), "g%d", i);
		add_issued(id, "agent:x", 2000); /* 80,000 values, 400 KiB */
	}
	ck_assert_uint_ge(read_all(1 << 20, text, sizeof(text)), 3);
}
END_TEST

START_TEST(one_that_fits_no_page_is_refused)
{
	struct index_state s;

	add_issued("a", "agent:x", 200);
	ck_assert_int_eq(index_state(x, 0, 500, &s), -E2BIG);
}
END_TEST

START_TEST(an_emptied_index_knows_of_no_grant)
{
	char text[512];

	add_issued("a", "agent:x", 1);
	add_revoked("a");
	ck_assert_int_eq(index_clear(x), 0);
	read_all(1000, text, sizeof(text));
	ck_assert_str_eq(text, "| | | ");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("ledger_grants");
	TCase *t = tcase_create("state");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, what_was_issued_and_revoked_comes_back_in_order);
	tcase_add_test(t, the_first_record_of_an_id_counts);
	tcase_add_test(t, records_that_name_no_grant_are_none);
	tcase_add_test(t, pages_of_any_size_say_the_same);
	tcase_add_test(t, a_page_holds_no_more_values_than_a_frame_can);
	tcase_add_test(t, one_that_fits_no_page_is_refused);
	tcase_add_test(t, an_emptied_index_knows_of_no_grant);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
