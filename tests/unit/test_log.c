/* Lines of the log: nothing that a peer wrote reaches a terminal as it is. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/util.h"

static int reader;

static void
set_up(void)
{
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC | O_NONBLOCK | O_DIRECT), 0);
	reader = fds[0];
	ck_assert_int_eq(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	close(fds[1]);
	log_init("caisson-test", LOG_INFO_);
}

/* One packet of the pipe is one write(2). */
static const char *
line(void)
{
	static char text[8192];
	ssize_t n = read(reader, text, sizeof text - 1);

	if (n < 0)
		return NULL;
	text[n] = '\0';
	return text;
}

static const struct {
	const char *text, *escaped;
} cases[] = {
	{ "plain text", "plain text" },
	{ "", "" },
	{ "two\nlines", "two\\x0alines" },
	{ "\x1b[31mred", "\\x1b[31mred" },
	{ "\r\t\x7f", "\\x0d\\x09\\x7f" },
	{ "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\x80",
	    "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\x80" },
	{ "\xc2\x9b"
	  "31m",
	    "\\xc2\\x9b31m" },
	{ "\xff\xfe", "\\xff\\xfe" },
	{ "\xc3", "\\xc3" },
	{ "\xe2\x82", "\\xe2\\x82" },
	{ "\x80x", "\\x80x" },
	{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },
	{ "a\xe2\x80\xae"
	  "b",
	    "a\\xe2\\x80\\xae"
	    "b" },
	{ "a\xe2\x81\xa6"
	  "b",
	    "a\\xe2\\x81\\xa6"
	    "b" },
};

START_TEST(what_could_steer_a_terminal_is_escaped)
{
	char want[256];

	snprintf(want, sizeof want, "caisson-test: warning: %s\n", cases[_i].escaped);
	log_warn("%s", cases[_i].text);
	ck_assert_str_eq(line(), want);
	ck_assert_ptr_null(line());
}
END_TEST

START_TEST(a_line_is_one_write_of_bounded_length)
{
	static const char fills[] = { 'x', '\n' };
	char longest[5000];
	const char *text;
	size_t i, n;

	for (i = 0; i < countof(fills); i++)
		for (n = 990; n < sizeof longest; n += n < 1030 ? 1 : 997) {
			memset(longest, fills[i], n);
			longest[n] = '\0';
			log_error("%s", longest);
			text = line();
			ck_assert_ptr_nonnull(text);
			ck_assert_uint_le(strlen(text), 1024);
			ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
			if (n > 1020)
				ck_assert_ptr_nonnull(strstr(text, "...\n"));
			ck_assert_ptr_null(line());
		}
}
END_TEST

START_TEST(the_level_decides_what_is_printed_and_errno_is_kept)
{
	log_init("caisson-test", LOG_WARN_);
	errno = ENOSPC;
	log_error("one");
	ck_assert_int_eq(errno, ENOSPC);
	ck_assert_str_eq(line(), "caisson-test: error: one\n");
	log_warn("two");
	ck_assert_str_eq(line(), "caisson-test: warning: two\n");
	log_info("three");
	log_debug("four");
	ck_assert_ptr_null(line());
	log_init("caisson-test", LOG_DEBUG_);
	log_info("three");
	ck_assert_str_eq(line(), "caisson-test: info: three\n");
	log_debug("%d", 4);
	ck_assert_str_eq(line(), "caisson-test: debug: 4\n");
}
END_TEST

START_TEST(fatal_says_so_and_exits)
{
	fatal("cannot %s", "go on");
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("log");
	TCase *tc = tcase_create("log");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(tc, set_up, NULL);
	tcase_add_loop_test(tc, what_could_steer_a_terminal_is_escaped, 0, (int)countof(cases));
	tcase_add_test(tc, a_line_is_one_write_of_bounded_length);
	tcase_add_test(tc, the_level_decides_what_is_printed_and_errno_is_kept);
	tcase_add_exit_test(tc, fatal_says_so_and_exits, 125);
	suite_add_tcase(s, tc);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
