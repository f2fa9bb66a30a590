/* Paths are segments (TU-35): what is one, what is below what, and never by prefix. */
#include "broker/authority/authority.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/limits.h"
#include "common/util.h"

/* Joins the segments with '|', so that a test sees where they end. */
static char *
joined(const struct path *p)
{
	static char out[8192];
	size_t i, n = 0;

	out[0] = '\0';
	for (i = 0; i < p->n; i++)
		n += (size_t)snprintf(
		    out + n, sizeof(out) - n, "%s%s", i > 0 ? "|" : "", p->segment[i]);
	return out;
}

static const struct {
	const char *text, *segments;
} good[] = {
	{ "", "" },
	{ ".", "" },
	{ "./", "" },
	{ "a", "a" },
	{ "a/", "a" },
	{ "a/b/c", "a|b|c" },
	{ "docs/read me.txt", "docs|read me.txt" },
	{ "...", "..." },
	{ ".hidden/..b", ".hidden|..b" },
	{ "*", "*" },
	{ "caf\xc3\xa9/\xe6\xbc\xa2/\xf0\x9f\x8c\x8a",
	    "caf\xc3\xa9|\xe6\xbc\xa2|\xf0\x9f\x8c\x8a" },
};

START_TEST(a_good_text_becomes_its_segments)
{
	const char *fault = NULL;
	struct path p;

	ck_assert_int_eq(path_parse(good[_i].text, strlen(good[_i].text), &p, &fault), 0);
	ck_assert_ptr_null(fault);
	ck_assert_str_eq(joined(&p), good[_i].segments);
	ck_assert_str_eq(path_fault(&p), "");
	path_finish(&p);
	ck_assert_uint_eq(p.n, 0);
	path_finish(&p);
}
END_TEST

#define TEXT(s) s, sizeof(s) - 1

static const struct {
	const char *text;
	size_t n;
	const char *fault;
} bad[] = {
	{ TEXT("/"), "it begins with a slash" },
	{ TEXT("/etc/shadow"), "it begins with a slash" },
	{ TEXT("//"), "it begins with a slash" },
	{ TEXT("a//b"), "a segment is empty" },
	{ TEXT("a//"), "a segment is empty" },
	{ TEXT(".."), "a segment is . or .." },
	{ TEXT("../"), "a segment is . or .." },
	{ TEXT("a/../b"), "a segment is . or .." },
	{ TEXT("a/./b"), "a segment is . or .." },
	{ TEXT("./a"), "a segment is . or .." },
	{ TEXT("a/.."), "a segment is . or .." },
	{ TEXT("a\\b"), "a segment holds a separator or control character" },
	{ TEXT("a\0b"), "a segment holds a separator or control character" },
	{ TEXT("docs\0"), "a segment holds a separator or control character" },
	{ TEXT("a\nb"), "a segment holds a separator or control character" },
	{ TEXT("a\x7f"), "a segment holds a separator or control character" },
	{ TEXT("a\xc2\x85"), "a segment holds a separator or control character" },
	{ TEXT("a\x1b[2J"), "a segment holds a separator or control character" },
	{ TEXT(" a"), "a segment begins with white space" },
	{ TEXT("a /b"), "a segment ends with white space" },
	{ TEXT(" "), "a segment begins with white space" },
	{ TEXT("..\xe3\x80\x80"), "a segment ends with white space" },
	{ TEXT("\xef\xbb\xbf.."), "a segment begins with white space" },
	{ TEXT("a\xff"), "not UTF-8" },
	{ TEXT("a\x80"), "not UTF-8" },
	{ TEXT("a\xc3"), "not UTF-8" },
	{ TEXT("\xc0\xae\xc0\xae"), "not UTF-8" }, /* ".." overlong */
	{ TEXT("\xe0\x80\xaf"), "not UTF-8" },	   /* "/" overlong */
	{ TEXT("\xf0\x80\x80\xaf"), "not UTF-8" },
	{ TEXT("\xed\xa0\x80"), "not UTF-8" },	   /* a surrogate */
	{ TEXT("\xf4\x90\x80\x80"), "not UTF-8" }, /* beyond U+10FFFF */
	{ TEXT("\xf8\x88\x80\x80\x80"), "not UTF-8" },
};

START_TEST(a_bad_text_is_refused_and_leaves_nothing)
{
	struct path p = { NULL, 77 };
	const char *fault = NULL;
	char *exact;

	/* An allocation of its own, so that a read beyond the end is seen. */
	exact = malloc(bad[_i].n);
	ck_assert_ptr_nonnull(exact);
	memcpy(exact, bad[_i].text, bad[_i].n);
	ck_assert_int_eq(path_parse(exact, bad[_i].n, &p, &fault), -EINVAL);
	ck_assert_str_eq(fault, bad[_i].fault);
	ck_assert_uint_eq(p.n, 77);
	free(exact);
}
END_TEST

START_TEST(a_segment_ends_at_256_bytes)
{
	char text[PATH_SEGMENT_MAX + 2];
	const char *fault = NULL;
	struct path p;

	memset(text, 'x', sizeof(text));
	ck_assert_int_eq(path_parse(text, PATH_SEGMENT_MAX, &p, &fault), 0);
	path_finish(&p);
	ck_assert_int_eq(path_parse(text, PATH_SEGMENT_MAX + 1, &p, &fault), -EINVAL);
	ck_assert_str_eq(fault, "a segment is too long");
}
END_TEST

START_TEST(a_path_ends_at_64_segments)
{
	char text[2 * PATH_SEGMENTS_MAX + 2];
	const char *fault = NULL, *one[PATH_SEGMENTS_MAX + 1];
	struct path p;
	size_t i;

	for (i = 0; i < sizeof(text); i++)
		text[i] = i % 2 == 0 ? 'x' : '/';
	ck_assert_int_eq(path_parse(text, 2 * PATH_SEGMENTS_MAX, &p, &fault), 0);
	ck_assert_uint_eq(p.n, PATH_SEGMENTS_MAX);
	path_finish(&p);
	ck_assert_int_eq(path_parse(text, 2 * PATH_SEGMENTS_MAX + 1, &p, &fault), -EINVAL);
	ck_assert_str_eq(fault, "too many segments");

	for (i = 0; i < countof(one); i++)
		one[i] = "x";
	p = (struct path){ one, PATH_SEGMENTS_MAX };
	ck_assert_str_eq(path_fault(&p), "");
	p.n++;
	ck_assert_str_eq(path_fault(&p), "too many segments");
}
END_TEST

START_TEST(a_path_with_a_missing_segment_is_none)
{
	const char *one[] = { "a", NULL };

	ck_assert_str_eq(path_fault(&(struct path){ one, 2 }), "a segment is missing");
	ck_assert_str_eq(path_fault(&(struct path){ NULL, 1 }), "a segment is missing");
}
END_TEST

static const struct {
	const char *a, *b;
	bool within;
} pairs[] = {
	{ "", "", true },
	{ "a", "", true },
	{ "a", "a", true },
	{ "a/b", "a", true },
	{ "a/b/c", "a/b", true },
	{ "", "a", false },
	{ "a", "a/b", false },
	{ "docs2", "docs", false }, /* sibling with the same prefix */
	{ "docs-private/x", "docs", false },
	{ "doc", "docs", false },
	{ "x/docs", "docs", false },
	{ "Docs/x", "docs", false },
	{ "docs/x", "*", false },
	{ "a/c/b", "a/b", false },
};

START_TEST(below_is_by_segment_and_never_by_prefix)
{
	const char *fault;
	struct path a, b;

	ck_assert_int_eq(path_parse(pairs[_i].a, strlen(pairs[_i].a), &a, &fault), 0);
	ck_assert_int_eq(path_parse(pairs[_i].b, strlen(pairs[_i].b), &b, &fault), 0);
	ck_assert_int_eq(path_within(&a, &b), pairs[_i].within);
	ck_assert_int_eq(path_equal(&a, &b), strcmp(pairs[_i].a, pairs[_i].b) == 0);
	path_finish(&a);
	path_finish(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("path");
	TCase *parse = tcase_create("parse"), *compare = tcase_create("compare");
	SRunner *r;
	int failed;

	tcase_add_loop_test(parse, a_good_text_becomes_its_segments, 0, countof(good));
	tcase_add_loop_test(parse, a_bad_text_is_refused_and_leaves_nothing, 0, countof(bad));
	tcase_add_test(parse, a_segment_ends_at_256_bytes);
	tcase_add_test(parse, a_path_ends_at_64_segments);
	tcase_add_test(parse, a_path_with_a_missing_segment_is_none);
	suite_add_tcase(s, parse);
	tcase_add_loop_test(
	    compare, below_is_by_segment_and_never_by_prefix, 0, countof(pairs));
	suite_add_tcase(s, compare);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
