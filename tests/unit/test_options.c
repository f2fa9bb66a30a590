/* options: every row of options.def, every kind of mistake, and the man pages. */
#include "common/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "common/util.h"

static struct options o;
static char err[OPTIONS_ERROR_MAX];

static int
parse(enum command command, char **argv)
{
	int n = 0;

	while (argv[n] != NULL)
		n++;
	return options_parse(command, n, argv, &o, err);
}

/* The words live in a static array: options borrow them. */
static int
parse_words(enum command command, const char *const *words)
{
	static char *argv[64];
	int n = 0;

	do {
		argv[n] = (char *)(uintptr_t)words[n];
	} while (words[n++] != NULL);
	return parse(command, argv);
}

#define PARSE(command, ...)                                                                    \
	parse_words(COMMAND_##command, (const char *const[]){ #command, __VA_ARGS__, NULL })

static void
setup(void)
{
	unsetenv("CAISSON_CONFIG");
	unsetenv("CAISSON_STATE");
	unsetenv("CAISSON_SOCKET");
	memset(&o, 0, sizeof(o));
}

static void
teardown(void)
{
	options_finish(&o);
}

START_TEST(a_whole_line_is_read)
{
	ck_assert_int_eq(PARSE(run, "-v", "--timeout", "5m", "--memory=64MiB", "--allow",
			     "read:docs", "--allow=write:", "--", "x"),
	    -EINVAL);
	ck_assert_str_eq(err, "--allow: \"write:\" has no path");
	options_finish(&o);
	ck_assert_int_eq(
	    PARSE(run, "-vq", "--timeout", "5m", "--memory=64MiB", "--allow", "read:docs",
		"--allow=write:.", "--ro", "/usr/share/doc:/doc", "--rw", "out", "--env",
		"A=b=c", "--env", "HOME", "-m", "{\"a\":1}", "-o", "jsonl", "--max-tool-calls",
		"7", "--", "python3", "-v", "--"),
	    0);
	ck_assert(o.verbose && o.quiet && o.has_timeout && !o.has_state && !o.has_config);
	ck_assert_uint_eq(o.timeout_ms, 300000);
	ck_assert_uint_eq(o.memory_bytes, 64 << 20);
	ck_assert_uint_eq(o.max_tool_calls, 7);
	ck_assert_uint_eq(o.allow.n, 2);
	ck_assert_str_eq(o.allow.item[0].left, "read");
	ck_assert_str_eq(o.allow.item[0].right, "docs");
	ck_assert_str_eq(o.allow.item[1].right, ".");
	ck_assert_str_eq(o.ro.item[0].left, "/usr/share/doc");
	ck_assert_str_eq(o.ro.item[0].right, "/doc");
	ck_assert_ptr_null(o.rw.item[0].right);
	ck_assert_str_eq(o.env.item[0].right, "b=c");
	ck_assert_ptr_null(o.env.item[1].right);
	ck_assert_str_eq(o.message, "{\"a\":1}");
	ck_assert_uint_eq(o.output, OUTPUT_JSONL);
	ck_assert_uint_eq(o.ncommand, 3);
	ck_assert_str_eq(o.command[1], "-v");
	ck_assert_str_eq(o.command[2], "--");
}
END_TEST

START_TEST(short_options_take_their_value_behind_them_or_next)
{
	ck_assert_int_eq(PARSE(run, "-vcFILE"), 0);
	ck_assert_str_eq(o.config, "FILE");
	options_finish(&o);
	ck_assert_int_eq(PARSE(run, "-c", "FILE", "-ojsonl"), 0);
	ck_assert_uint_eq(o.output, OUTPUT_JSONL);
}
END_TEST

START_TEST(audit_and_config_take_words)
{
	ck_assert_int_eq(
	    PARSE(audit, "show", "--run", "r1", "--since", "2026-11-29T13:53:34Z"), 0);
	ck_assert_uint_eq(o.nwords, 1);
	ck_assert_str_eq(o.words[0], "show");
	ck_assert_str_eq(o.run, "r1");
	ck_assert_uint_eq(o.since_ms, 1795960414000);
	options_finish(&o);
	ck_assert_int_eq(PARSE(config, "check", "a.yaml"), 0);
	ck_assert_str_eq(o.words[1], "a.yaml");
}
END_TEST

START_TEST(the_environment_counts_where_the_line_is_silent)
{
	setenv("CAISSON_STATE", "/s", 1);
	setenv("CAISSON_CONFIG", "/c", 1);
	ck_assert_int_eq(PARSE(run, "-v"), 0);
	ck_assert_str_eq(o.state, "/s");
	ck_assert_str_eq(o.config, "/c");
	options_finish(&o);
	/* A COMMAND on the line is a world of its own: only -c itself adds a file to it. */
	ck_assert_int_eq(PARSE(run, "--state", "/t", "--", "x"), 0);
	ck_assert_str_eq(o.state, "/t");
	ck_assert(!o.has_config);
	options_finish(&o);
	/* A turn goes to a daemon only where the line says so, and nothing of ours goes there. */
	setenv("CAISSON_SOCKET", "/r", 1);
	ck_assert_int_eq(PARSE(run, "--", "x"), 0);
	ck_assert(!o.has_socket);
	options_finish(&o);
	ck_assert_int_eq(PARSE(run, "--socket", "/s"), 0);
	ck_assert(!o.has_config && !o.has_state);
	options_finish(&o);
	ck_assert_int_eq(PARSE(exec, "--", "x"), 0);
	ck_assert(!o.has_socket && !o.has_config);
	options_finish(&o);
	ck_assert_int_eq(PARSE(learn, "--", "x"), 0);
	ck_assert(!o.has_socket && !o.has_config);
	options_finish(&o);
	ck_assert_int_eq(PARSE(ps, "-v"), 0);
	ck_assert_str_eq(o.socket, "/r");
	options_finish(&o);
	ck_assert_int_eq(PARSE(daemon, "-f"), 0);
	ck_assert_str_eq(o.socket, "/r");
	ck_assert_str_eq(o.state, "/s");
	ck_assert_str_eq(o.config, "/c");
}
END_TEST

START_TEST(help_and_version_stop_the_reading)
{
	ck_assert_int_eq(PARSE(exec, "--help", "--nonsense"), 0);
	ck_assert(o.help);
	options_finish(&o);
	ck_assert_int_eq(PARSE(exec, "--version"), 0);
	ck_assert(o.version);
}
END_TEST

static const struct {
	enum command command;
	const char *argv[6];
	const char *message;
} mistakes[] = {
	{ COMMAND_run, { "--timeout", "10 parsecs", "--", "x" },
	    "--timeout: \"10 parsecs\" is not a duration (250ms, 10s, 5m)" },
	{ COMMAND_run, { "--timeout", "10" },
	    "--timeout: \"10\" is not a duration (250ms, 10s, 5m)" },
	{ COMMAND_run, { "--timeout", "-1s" },
	    "--timeout: \"-1s\" is not a duration (250ms, 10s, 5m)" },
	{ COMMAND_run, { "--timeout", "50d" },
	    "--timeout: \"50d\" is not a duration (250ms, 10s, 5m)" },
	{ COMMAND_run, { "--timeout", "1200h" }, "--timeout: \"1200h\" is too much" },
	{ COMMAND_run, { "--timeout=0s" }, "--timeout: must be more than 0" },
	{ COMMAND_run, { "--timeout" }, "--timeout: needs DURATION" },
	{ COMMAND_run, { "--timeout=1s", "--timeout=2s" }, "--timeout: given twice" },
	{ COMMAND_run, { "--memory", "64MB" },
	    "--memory: \"64MB\" is not a size (64KiB, 1MiB)" },
	{ COMMAND_run, { "--memory", "64" }, "--memory: \"64\" is not a size (64KiB, 1MiB)" },
	{ COMMAND_run, { "--memory", "99999999TiB" }, "--memory: \"99999999TiB\" is too much" },
	{ COMMAND_run, { "--memory", "99999999999999999999999B" },
	    "--memory: \"99999999999999999999999B\" is too much" },
	{ COMMAND_run, { "--pids", "many" }, "--pids: \"many\" is not a whole number" },
	{ COMMAND_run, { "--pids", "0" }, "--pids: must be more than 0" },
	{ COMMAND_run, { "--pids", "1000001" }, "--pids: 1000001 is more than 1000000" },
	{ COMMAND_run, { "--pids=" }, "--pids: \"\" is not a whole number" },
	{ COMMAND_run, { "--app=" }, "--app: is empty" },
	{ COMMAND_doctor, { "-o", "jsonl" }, "--output: \"jsonl\" is none of human|json" },
	{ COMMAND_doctor, { "x" }, "x: one word too many" },
	{ COMMAND_config, { "-o", "json" }, "--output: not an option of config" },
	{ COMMAND_run, { "-o", "xml" }, "--output: \"xml\" is none of human|jsonl" },
	{ COMMAND_run, { "-o", "human|jsonl" },
	    "--output: \"human|jsonl\" is none of human|jsonl" },
	{ COMMAND_run, { "-o" }, "-o: needs human|jsonl" },
	{ COMMAND_run, { "--allow", "docs" }, "--allow: \"docs\" is not ACTION:PATH" },
	{ COMMAND_run, { "--allow", "remove:docs" },
	    "--allow: \"remove:docs\" does not begin with read, write, list, search, grep, delete, "
	    "rename or mkdir" },
	{ COMMAND_run, { "--allow", "read:/etc" },
	    "--allow: \"read:/etc\" has an absolute path; it is relative to the provider's root" },
	{ COMMAND_run, { "--allow", "read:a/../../b" },
	    "--allow: \"read:a/../../b\" leads out of the provider's root" },
	{ COMMAND_run, { "--ro", ":/x" }, "--ro: \":/x\" has no path" },
	{ COMMAND_run, { "--ro", "a:b" },
	    "--ro: \"a:b\" names a place in the chamber that is not absolute" },
	{ COMMAND_exec, { "--env", "1A=secret" }, "--env: \"1A\" does not begin with a name" },
	{ COMMAND_exec, { "--env", "=secret" }, "--env: \"\" does not begin with a name" },
	{ COMMAND_exec, { "--env", "A B=secret" },
	    "--env: \"A B\" has a name with other characters than letters, digits and _" },
	{ COMMAND_exec, { "--allow", "read:." }, "--allow: not an option of exec" },
	{ COMMAND_run, { "--expect", "00" }, "--expect: not an option of run" },
	{ COMMAND_audit, { "-c", "x" }, "--config: not an option of audit" },
	{ COMMAND_daemon, { "-o", "jsonl" }, "--output: \"jsonl\" is none of human|json" },
	{ COMMAND_run, { "--frobnicate=1" }, "--frobnicate: no such option" },
	{ COMMAND_run, { "--time", "1s" }, "--time: no such option; did you mean --timeout?" },
	{ COMMAND_run, { "-x" }, "-x: no such option" },
	{ COMMAND_run, { "-\033" }, "-?: no such option" },
	{ COMMAND_run, { "-v=1" }, "-=: no such option" },
	{ COMMAND_run, { "--verbose=1" }, "--verbose: takes no value" },
	{ COMMAND_learn, { "-v" }, "learn: needs -- COMMAND" },
	{ COMMAND_learn, { "--onto", "f", "--profile", "jit", "--", "x" },
	    "--profile: the base is that of --onto" },
	{ COMMAND_exec, { "--onto", "f", "--", "x" }, "--onto: not an option of exec" },
	{ COMMAND_exec, { "ls" }, "ls: a COMMAND stands after --" },
	{ COMMAND_exec, { "-v" }, "exec: needs -- COMMAND" },
	{ COMMAND_exec, { "--" }, "--: no COMMAND behind it" },
	{ COMMAND_exec, { "--", "" }, "--: no COMMAND behind it" },
	{ COMMAND_run, { "--socket", "/s", "--memory", "1MiB" },
	    "--memory: is the daemon's to say, with --socket" },
	{ COMMAND_run, { "--socket", "/s", "--", "x" },
	    "--: with --socket the COMMAND is the daemon's" },
	{ COMMAND_ps, { "x" }, "x: one word too many" },
	{ COMMAND_daemon, { "-f" }, "caissond: needs -c FILE, what it serves" },
	{ COMMAND_daemon, { "-n", "0" }, "--ready-fd: must be more than 0" },
	{ COMMAND_run, { "-v" }, "run: needs -- COMMAND or -c FILE" },
	{ COMMAND_run, { "--runtime", "a" }, "--runtime: needs -c FILE, which defines it" },
	{ COMMAND_run, { "-cf", "--runtime", "a", "--", "x" },
	    "--runtime: the COMMAND is the configuration's" },
	{ COMMAND_run, { "-cf", "--app", "a" }, "--app: needs -- COMMAND" },
	{ COMMAND_grant, { "--max-uses", "0" }, "--max-uses: must be more than 0" },
	{ COMMAND_grant, { "--max-uses", "4294967296" },
	    "--max-uses: 4294967296 is more than 4294967295" },
	{ COMMAND_grant, { "--purpose", "a", "--purpose=" }, "--purpose: \"\" is empty" },
	{ COMMAND_grant, { "--id", "a", "--id", "b" }, "--id: given twice" },
	{ COMMAND_grant, { "list", "--state", "d" },
	    "--state: needs -c FILE, whose namespace is in it" },
	{ COMMAND_grant, { "list", "--root", "d" }, "--root: not an option of grant" },
	{ COMMAND_audit, { "show", "--", "x" }, "--: audit takes no COMMAND" },
	{ COMMAND_audit, { "a", "b", "c", "d", "e" }, "e: one word too many" },
	{ COMMAND_audit, { "--since", "yesterday" },
	    "--since: \"yesterday\" is not a time (2027-01-01T00:00:00Z)" },
	{ COMMAND_audit, { "--since", "2027-02-30T00:00:00Z" },
	    "--since: \"2027-02-30T00:00:00Z\" is not a time (2027-01-01T00:00:00Z)" },
	{ COMMAND_audit, { "--since", "2027-01-01T00:00:00Zulu" },
	    "--since: \"2027-01-01T00:00:00Zulu\" is not a time (2027-01-01T00:00:00Z)" },
};

START_TEST(every_mistake_is_named)
{
	char *argv[8] = { (char *)(uintptr_t) "x" };
	size_t i;

	for (i = 0; i < countof(mistakes[_i].argv) && mistakes[_i].argv[i] != NULL; i++)
		argv[i + 1] = (char *)(uintptr_t)mistakes[_i].argv[i];
	ck_assert_int_eq(parse(mistakes[_i].command, argv), -EINVAL);
	ck_assert_str_eq(err, mistakes[_i].message);
}
END_TEST

START_TEST(texts_are_taken_as_they_are_and_in_order)
{
	ck_assert_int_eq(PARSE(grant, "issue", "--purpose", "a=b:c", "--purpose=-v"), 0);
	ck_assert_uint_eq(o.purpose.n, 2);
	ck_assert_str_eq(o.purpose.item[0].left, "a=b:c");
	ck_assert_str_eq(o.purpose.item[1].left, "-v");
	ck_assert_ptr_null(o.purpose.item[1].right);
}
END_TEST

/* Behind -- stand the words of `grant`, too: an id may begin like an option. */
START_TEST(what_stands_behind_the_dashes_of_grant_are_words)
{
	ck_assert_int_eq(PARSE(grant, "revoke", "-q", "--", "--id", "--"), 0);
	ck_assert(o.quiet && !o.has_grant_id && o.command == NULL);
	ck_assert_uint_eq(o.nwords, 3);
	ck_assert_str_eq(o.words[1], "--id");
	ck_assert_str_eq(o.words[2], "--");
}
END_TEST

START_TEST(who_names_a_daemon_of_grants_does_not_mean_a_file)
{
	setenv("CAISSON_CONFIG", "/c", 1);
	setenv("CAISSON_STATE", "/s", 1);
	setenv("CAISSON_SOCKET", "/r", 1);
	ck_assert_int_eq(PARSE(grant, "list"), 0);
	ck_assert(o.has_config && o.has_state && o.has_socket);
	options_finish(&o);
	ck_assert_int_eq(PARSE(grant, "list", "--socket", "/x"), 0);
	ck_assert(!o.has_config && !o.has_state);
	options_finish(&o);
	ck_assert_int_eq(PARSE(grant, "list", "--socket", "/x", "-c", "/y"), 0);
	ck_assert_str_eq(o.config, "/y");
	ck_assert_str_eq(o.state, "/s");
	options_finish(&o);
	unsetenv("CAISSON_CONFIG");
	ck_assert_int_eq(PARSE(grant, "list"), 0);
	ck_assert(!o.has_config && !o.has_state && o.has_socket);
}
END_TEST

START_TEST(a_repeatable_option_has_a_bound)
{
	char *argv[2 * OPTIONS_PAIRS_MAX + 4] = { (char *)(uintptr_t) "exec" };
	int i;

	for (i = 1; i <= 2 * (OPTIONS_PAIRS_MAX + 1); i += 2) {
		argv[i] = (char *)(uintptr_t) "--env";
		argv[i + 1] = (char *)(uintptr_t) "A=1";
	}
	ck_assert_int_eq(parse(COMMAND_exec, argv), -EINVAL);
	ck_assert_str_eq(err, "--env: given more than 64 times");
}
END_TEST

START_TEST(no_name_and_no_letter_stands_twice_for_one_command)
{
	const struct option_desc *a, *b;

	for (a = option_descs; a->name != NULL; a++)
		for (b = a + 1; b->name != NULL; b++) {
			ck_assert(a->kind == OPTION_FLAG || a->metavar != NULL);
			if ((a->commands & b->commands) == 0)
				continue;
			ck_assert_str_ne(a->name, b->name);
			ck_assert(a->letter == 0 || a->letter != b->letter);
		}
}
END_TEST

START_TEST(every_option_is_in_the_usage_of_its_commands_only)
{
	const struct command_desc *c;
	const struct option_desc *d;
	char *text = NULL, name[128];
	const char *s;
	size_t n;
	FILE *f;

	for (c = command_descs; c->name != NULL; c++) {
		f = open_memstream(&text, &n);
		options_usage(f, "caisson", c->command);
		fclose(f);
		for (d = option_descs; d->name != NULL; d++) {
			n = (size_t)snprintf(name, sizeof(name), " --%s%s%s", d->name,
			    d->metavar ? " " : "", d->metavar ? d->metavar : "");
			for (s = text; (s = strstr(s, name)) != NULL; s += n)
				if (s[n] == ' ' || s[n] == '\n')
					break;
			ck_assert_msg((s != NULL) == ((d->commands & c->command) != 0),
			    "%s: %s", c->name, name);
		}
		/* Behind the synopsis and what it does, whole words in lines that a terminal shows. */
		for (s = strstr(text, "\n\n"); s != NULL && *++s != '\0'; s = strchr(s, '\n'))
			ck_assert_msg(strcspn(s, "\n") <= 96, "%s: %.100s", c->name, s);
		free(text);
	}
}
END_TEST

/* The man pages are written by hand; that they are complete and not more is checked here. */
static void
check_man(const char *path, unsigned commands)
{
	const struct option_desc *d;
	char *text = NULL, item[192], letter[16];
	size_t n = 0, items = 0, wanted = 0;
	const char *s;
	FILE *f = fopen(path, "r");

	ck_assert_msg(f != NULL, "%s", path);
	ck_assert(getdelim(&text, &n, '\0', f) > 0);
	fclose(f);
	for (d = option_descs; d->name != NULL; d++) {
		if (!(d->commands & commands))
			continue;
		wanted++;
		snprintf(letter, sizeof(letter), "%c , Fl ", d->letter);
		snprintf(
		    item, sizeof(item), "\n.It Fl %s-%s", d->letter ? letter : "", d->name);
		n = strlen(item);
		for (s = text; (s = strstr(s, item)) != NULL; s += n)
			if (s[n] == '\n' || s[n] == ' ')
				break;
		ck_assert_msg(s != NULL, "%s:%s", path, item);
		ck_assert_msg(
		    d->metavar == NULL ? s[n] == '\n' : strncmp(s + n, " Ar ", 4) == 0, "%s:%s",
		    path, item);
	}
	for (s = text; (s = strstr(s, "\n.It Fl ")) != NULL; s++)
		items++;
	ck_assert_uint_eq(items, wanted);
	free(text);
}

START_TEST(the_man_pages_list_exactly_the_options)
{
	if (access("docs/caisson.1", R_OK) < 0) {
		fprintf(
		    stderr, "test_options: not in the source tree, man pages not checked\n");
		return;
	}
	check_man("docs/caisson.1",
	    COMMAND_run | COMMAND_exec | COMMAND_learn | COMMAND_audit | COMMAND_config |
		COMMAND_doctor | COMMAND_grant | COMMAND_ps | COMMAND_top |
		COMMAND_remote);
	check_man("docs/caissond.8", COMMAND_daemon);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("options");
	TCase *good = tcase_create("good lines"), *bad = tcase_create("mistakes"),
	      *table = tcase_create("the table");
	SRunner *runner = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(good, setup, teardown);
	tcase_add_test(good, a_whole_line_is_read);
	tcase_add_test(good, short_options_take_their_value_behind_them_or_next);
	tcase_add_test(good, audit_and_config_take_words);
	tcase_add_test(good, the_environment_counts_where_the_line_is_silent);
	tcase_add_test(good, help_and_version_stop_the_reading);
	tcase_add_test(good, texts_are_taken_as_they_are_and_in_order);
	tcase_add_test(good, what_stands_behind_the_dashes_of_grant_are_words);
	tcase_add_test(good, who_names_a_daemon_of_grants_does_not_mean_a_file);
	tcase_add_checked_fixture(bad, setup, teardown);
	tcase_add_loop_test(bad, every_mistake_is_named, 0, (int)countof(mistakes));
	tcase_add_test(bad, a_repeatable_option_has_a_bound);
	tcase_add_test(table, no_name_and_no_letter_stands_twice_for_one_command);
	tcase_add_test(table, every_option_is_in_the_usage_of_its_commands_only);
	tcase_add_test(table, the_man_pages_list_exactly_the_options);
	suite_add_tcase(s, good);
	suite_add_tcase(s, bad);
	suite_add_tcase(s, table);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
