#include "common/nearest.h"

#include <check.h>
#include <string.h>

#include "common/util.h"

static const char *const offered[] = { "run", "exec", "session", "ps", "list", "show", "check",
	"timeout", "tmp" };

static const struct {
	const char *typed, *meant;
} rows[] = {
	{ "sesion", "session" },	/* left out */
	{ "sessionn", "session" },	/* put in */
	{ "chack", "check" },		/* mistaken */
	{ "timeuot", "timeout" },	/* swapped */
	{ "rn", "run" },
	{ "sess", "session" },		/* the beginning, however much is to come */
	{ "time", "timeout" },		/* although tmp is two faults away */
	{ "session", "session" },
	{ "frobnicate", NULL },
	{ "x", NULL },			/* of one letter everything is near */
	{ "", NULL },
	{ "tst", NULL },
	{ "\xff\xfe\x1b", NULL },
	/* as long as a word can be, and longer */
	{ "timeouttimeouttimeouttimeouttime", NULL },
	{ "timeouttimeouttimeouttimeouttimeo", NULL },
};

START_TEST(a_word_with_few_faults_is_the_one_that_was_meant)
{
	struct nearest s;
	size_t i;

	nearest_init(&s, rows[_i].typed, strlen(rows[_i].typed));
	for (i = 0; i < countof(offered); i++)
		nearest_offer(&s, offered[i], strlen(offered[i]));
	ck_assert_pstr_eq(s.word, rows[_i].meant);
	if (s.word != NULL)
		ck_assert_uint_eq(s.nword, strlen(s.word));
}
END_TEST

START_TEST(of_equals_the_first_offered_stays)
{
	struct nearest s;

	nearest_init(&s, "lost", 4);
	nearest_offer(&s, "last", 4);
	nearest_offer(&s, "list", 4);
	ck_assert_str_eq(s.word, "last");
	nearest_offer(&s, "lost", 4);
	ck_assert_str_eq(s.word, "lost");
}
END_TEST

START_TEST(only_the_given_bytes_of_a_word_are_looked_at)
{
	struct nearest s;

	nearest_init(&s, "chek=1", 4);
	nearest_offer(&s, "check FILE", 5);
	ck_assert_uint_eq(s.nword, 5);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("nearest");
	TCase *t = tcase_create("nearest");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(t, a_word_with_few_faults_is_the_one_that_was_meant, 0, countof(rows));
	tcase_add_test(t, of_equals_the_first_offered_stays);
	tcase_add_test(t, only_the_given_bytes_of_a_word_are_looked_at);
	suite_add_tcase(suite, t);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
