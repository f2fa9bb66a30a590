/* Lines of the log: nothing that a peer wrote reaches a terminal as it is. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/log_line.h"
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
			log_init("caisson-test", LOG_INFO_); /* so many at once are too many */
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

/* What stands in the object behind its instant. */
static const char *
behind_instant(const char *text)
{
	int at = 0;

	ck_assert_ptr_nonnull(text);
	sscanf(text, "{\"ts\":\"%*4d-%*2d-%*2dT%*2d:%*2d:%*2d.%*3dZ\",%n", &at);
	ck_assert_int_eq(at, (int)strlen("{\"ts\":\"2027-01-01T00:00:00.000Z\","));
	return text + at;
}

START_TEST(a_line_is_one_object_where_json_is_wanted)
{
	static const struct {
		const char *text, *escaped;
	} t[] = {
		{ "plain text", "plain text" },
		{ "\"quoted\" \\", "\\\"quoted\\\" \\\\" },
		{ "two\nlines\x1b", "two\\u000alines\\u001b" },
		{ "\xff\xc3", "\\ufffd\\ufffd" },
		{ "a\xe2\x80\xaez\xc2\x9b", "a\\u202ez\\u009b" },
		{ "\xe2\x82\xac", "\xe2\x82\xac" },
	};
	char want[256];

	setenv(LOG_ENV, "json", 1);
	log_init("caisson-test", LOG_INFO_);
	for (size_t i = 0; i < countof(t); i++) {
		snprintf(want, sizeof want,
		    "\"level\":\"warning\",\"process\":\"caisson-test\",\"pid\":%d,\"msg\":"
		    "\"%s\"}\n",
		    (int)getpid(), t[i].escaped);
		log_warn("%s", t[i].text);
		ck_assert_str_eq(behind_instant(line()), want);
		ck_assert_ptr_null(line());
	}
	log_set_format(LOG_TEXT);
	log_warn("text");
	ck_assert_str_eq(line(), "caisson-test: warning: text\n");
}
END_TEST

START_TEST(ids_are_members_of_the_next_line_alone)
{
	static char longest[700];
	const char *text;

	log_set_format(LOG_JSON);
	log_id("provider", "fi\"les");
	log_id("call", "c-1");
	log_info("%s", "gone");
	text = line();
	ck_assert_ptr_nonnull(
	    strstr(text, ",\"ids\":{\"provider\":\"fi\\\"les\",\"call\":\"c-1\"},\"msg\":\"gone\"}\n"));
	log_info("%s", "gone");
	ck_assert_ptr_null(strstr(line(), "ids"));
	/* Of a line that nobody sees, too. */
	log_id("call", "c-1");
	log_debug("hidden");
	log_info("shown");
	ck_assert_ptr_null(strstr(line(), "ids"));
	memset(longest, '\n', sizeof longest - 1);
	log_id("call", longest);
	log_info("too long");
	text = line();
	ck_assert_ptr_null(strstr(text, "ids"));
	ck_assert_ptr_nonnull(strstr(text, "\"msg\":\"too long\"}\n"));
}
END_TEST

START_TEST(an_object_is_whole_however_long_its_text_is)
{
	static const char fills[] = { 'x', '\n', '"' };
	char longest[3000];
	const char *text;

	log_set_format(LOG_JSON);
	for (size_t i = 0; i < countof(fills); i++)
		for (size_t n = 1000; n < sizeof longest; n += 499) {
			memset(longest, fills[i], n);
			longest[n] = '\0';
			log_error("%s", longest);
			text = line();
			ck_assert_uint_le(strlen(text), 4096);
			ck_assert_str_eq(text + strlen(text) - 3, "\"}\n");
			if (n > 1023)
				ck_assert_str_eq(text + strlen(text) - 6, "...\"}\n");
		}
}
END_TEST

/* Whatever a peer does, the log holds some of it, and how much more there was. */
START_TEST(one_place_cannot_flood_the_log)
{
	unsigned n = 0, i;
	unsigned long suppressed = 0;
	const char *text;

	for (i = 0; i < 1000; i++) {
		log_warn("peer %u broke the protocol", i);
		while ((text = line()))
			n++;
	}
	ck_assert_uint_ge(n, LOG_BURST);
	ck_assert_uint_le(n, 2 * LOG_BURST); /* a machine so slow that 10 s went by */
	log_warn("another place");
	ck_assert_str_eq(line(), "caisson-test: warning: another place\n");
	ck_assert_ptr_null(line());
	/* The next one that may come says how many did not. */
	while (suppressed == 0) {
		poll(NULL, 0, 10);
		log_warn("peer %u broke the protocol", i++);
		if ((text = line()))
			sscanf(text, "caisson-test: warning: suppressed %lu lines", &suppressed);
	}
	ck_assert_uint_ge(suppressed, 800);
	ck_assert_ptr_nonnull(strstr(line(), "broke the protocol"));
}
END_TEST

START_TEST(instants_are_those_of_the_calendar)
{
	static const struct {
		uint64_t ms;
		const char *text;
	} t[] = {
		{ 0, "1970-01-01T00:00:00.000Z" },
		{ 951782399999, "2000-02-28T23:59:59.999Z" },
		{ 951782400000, "2000-02-29T00:00:00.000Z" },
		{ 1709164800001, "2024-02-29T00:00:00.001Z" },
		{ 1798761599000, "2026-12-31T23:59:59.000Z" },
		{ 4107542400000, "2100-03-01T00:00:00.000Z" },
	};

	for (size_t i = 0; i < countof(t); i++) {
		struct log_line l = { .cap = LOG_LINE_BYTES };

		ck_assert(log_line_add_instant(&l, t[i].ms));
		l.text[l.n] = '\0';
		ck_assert_str_eq(l.text, t[i].text);
	}
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
	tcase_add_test(tc, a_line_is_one_object_where_json_is_wanted);
	tcase_add_test(tc, ids_are_members_of_the_next_line_alone);
	tcase_add_test(tc, an_object_is_whole_however_long_its_text_is);
	tcase_add_test(tc, one_place_cannot_flood_the_log);
	tcase_add_test(tc, instants_are_those_of_the_calendar);
	tcase_add_exit_test(tc, fatal_says_so_and_exits, 125);
	suite_add_tcase(s, tc);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
