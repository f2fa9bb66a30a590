/*
 * doctor: the table holds together, and a report says what was found in both its forms.
 */
#include "supervisor/doctor/doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <check.h>
#include <jansson.h>

#include "common/util.h"
#include "supervisor/doctor/probe.h"
#include "supervisor/profiles.h"

static struct doctor_report report;
static char *text;
static size_t size;

static void
setup(void)
{
	static const char *const profiles[] = { "native", "interpreter" };

	memset(&report, 0, sizeof(report));
	for (int i = 0; i < DOCTOR_ROWS; i++) {
		report.findings[i].state = DOCTOR_YES;
		snprintf(report.findings[i].detail, sizeof(report.findings[i].detail), "found");
	}
	for (size_t i = 0; i < countof(profiles); i++) {
		report.launches[i].profile = profiles[i];
		report.launches[i].launched = true;
	}
	report.nlaunches = countof(profiles);
}

static void
teardown(void)
{
	free(text);
	text = NULL;
}

static void
deny(int row, int error)
{
	report.findings[row].state = DOCTOR_NO;
	report.findings[row].error = error;
}

static const char *
as_text(bool colour, bool verbose)
{
	FILE *f;

	free(text);
	f = open_memstream(&text, &size);
	doctor_print_text(f, &report, colour, verbose);
	fclose(f);
	return text;
}

static json_t *
as_json(void)
{
	json_error_t error;
	json_t *j;
	FILE *f;

	free(text);
	f = open_memstream(&text, &size);
	doctor_print_json(f, &report);
	fclose(f);
	ck_assert_ptr_eq(strchr(text, '\n'), text + size - 1);
	j = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	ck_assert_msg(j != NULL, "%s: %s", error.text, text);
	return j;
}

static const char *
member(json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

START_TEST(every_row_says_what_it_is_for_and_comes_after_what_it_needs)
{
	for (int i = 0; i < DOCTOR_ROWS; i++) {
		const struct doctor_row *d = &doctor_rows[i];

		ck_assert_ptr_nonnull(d->probe);
		ck_assert_msg(*d->title && *d->purpose && *doctor_group(i), "%s", d->id);
		ck_assert_msg(strlen(d->title) <= 29, "%s is too wide", d->id);
		ck_assert_msg(d->after < i, "%s comes before what it needs", d->id);
		/* What needs a row that may be missing cannot itself be needed. */
		ck_assert_msg(d->after < 0 || d->need != DOCTOR_NEEDED ||
				  doctor_rows[d->after].need == DOCTOR_NEEDED,
		    "%s", d->id);
		/* A gap that counts has a remedy, which fits. */
		ck_assert_msg(d->need == DOCTOR_INFORMATION || *d->remedy, "%s", d->id);
		ck_assert_uint_lt(strlen(d->remedy), sizeof(report.findings[0].remedy));
		for (int j = 0; j < i; j++)
			ck_assert_str_ne(d->id, doctor_rows[j].id);
	}
}
END_TEST

START_TEST(the_default_profile_is_one)
{
	ck_assert_ptr_nonnull(profile_named(PROFILE_DEFAULT));
	ck_assert_str_eq(doctor_default(&report)->profile, PROFILE_DEFAULT);
	report.nlaunches = 0;
	ck_assert_ptr_null(doctor_default(&report));
}
END_TEST

START_TEST(the_remedy_is_the_probes_then_the_errnos_then_the_rows)
{
	const int row = DOCTOR_ROW_landlock;

	ck_assert_str_eq(doctor_remedy(&report, row), "");
	deny(row, ENOSYS);
	ck_assert_str_eq(doctor_remedy(&report, row), doctor_rows[row].remedy);
	deny(row, EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(doctor_remedy(&report, row), "lsm="));
	strcpy(report.findings[row].remedy, "ask the owner");
	ck_assert_str_eq(doctor_remedy(&report, row), "ask the owner");
}
END_TEST

START_TEST(only_what_is_needed_stands_in_the_way)
{
	const struct doctor_launch *l = &report.launches[1];

	ck_assert(doctor_is_enforced(&report, l));
	deny(DOCTOR_ROW_yama, 0);
	ck_assert(!doctor_is_gap(&report, DOCTOR_ROW_yama, l->profile));
	deny(DOCTOR_ROW_landlock_tcp, EINVAL);
	ck_assert(doctor_is_gap(&report, DOCTOR_ROW_landlock_tcp, l->profile));
	ck_assert(doctor_is_enforced(&report, l));
	ck_assert_ptr_nonnull(strstr(as_text(false, false), "without: TCP\n"));
	deny(DOCTOR_ROW_helper_broker, ENOENT);
	ck_assert(!doctor_is_enforced(&report, l));
	ck_assert_ptr_nonnull(strstr(as_text(false, false), "because of: caisson-broker\n"));
}
END_TEST

START_TEST(a_launch_that_failed_is_the_last_word)
{
	report.launches[1].launched = false;
	report.launches[1].layer = LAYER_PROC;
	strcpy(report.launches[1].message, "proc: forbidden");
	ck_assert(!doctor_is_enforced(&report, &report.launches[1]));
	ck_assert(doctor_is_enforced(&report, &report.launches[0]));
	ck_assert_ptr_nonnull(strstr(as_text(false, false), "proc: forbidden\n"));
	ck_assert_ptr_nonnull(strstr(text, "cannot be enforced.\n"));
}
END_TEST

START_TEST(what_a_launch_says_is_absent_is_said)
{
	json_t *j, *absent;

	report.launches[1].absent = 1u << LAYER_UID | 1u << LAYER_GROUPS;
	j = as_json();
	absent = json_object_get(
	    json_array_get(json_object_get(j, "profiles"), 1), "absent");
	ck_assert_uint_eq(json_array_size(absent), 2);
	ck_assert_str_eq(json_string_value(json_array_get(absent, 0)), layer_name(LAYER_UID));
	ck_assert_str_eq(
	    json_string_value(json_array_get(absent, 1)), layer_name(LAYER_GROUPS));
	json_decref(j);
	as_text(false, false);
	ck_assert_ptr_nonnull(strstr(text, "\n  yes  native\n"));
	ck_assert_ptr_nonnull(strstr(text, "\n  yes  interpreter\n"));
	ck_assert_ptr_nonnull(strstr(text, "absent, as the launch says: uid, "));
}
END_TEST

START_TEST(a_probe_that_hangs_is_said_and_the_launch_decides)
{
	report.findings[DOCTOR_ROW_seccomp].state = DOCTOR_UNKNOWN;
	ck_assert(doctor_is_enforced(&report, &report.launches[1]));
	ck_assert_ptr_nonnull(strstr(as_text(false, false), "\n  ?    filter "));
}
END_TEST

START_TEST(text_has_colour_and_purposes_where_they_are_wanted)
{
	deny(DOCTOR_ROW_landlock, ENOSYS);
	ck_assert_ptr_null(strchr(as_text(false, false), '\033'));
	ck_assert_ptr_nonnull(strstr(text, "\n  NO   landlock "));
	ck_assert_ptr_nonnull(strstr(text, doctor_rows[DOCTOR_ROW_landlock].remedy));
	ck_assert_ptr_nonnull(strstr(text, doctor_rows[DOCTOR_ROW_landlock].purpose));
	ck_assert_ptr_null(strstr(text, doctor_rows[DOCTOR_ROW_pid_namespace].purpose));
	ck_assert_ptr_nonnull(strstr(as_text(true, false), "\033[31mNO \033[0m  landlock"));
	ck_assert_ptr_nonnull(
	    strstr(as_text(false, true), doctor_rows[DOCTOR_ROW_pid_namespace].purpose));
}
END_TEST

START_TEST(what_was_found_reaches_a_terminal_escaped)
{
	strcpy(report.findings[0].detail, "/a\033[2J\n\xff");
	ck_assert_ptr_nonnull(strstr(as_text(false, false), "/a\\x1b[2J\\x0a\\xff\n"));
}
END_TEST

/* ---- machines with other settings ---- */

static char settings[] = "/tmp/test_doctor.XXXXXX";
static const char *const setting_names[] = { "kernel/unprivileged_userns_clone",
	"kernel/apparmor_restrict_unprivileged_userns", "user/max_user_namespaces",
	"dev/tty/legacy_tiocsti", "kernel/yama/ptrace_scope" };
static const char *const setting_dirs[] = { "kernel", "kernel/yama", "user", "dev", "dev/tty" };

static void
setup_settings(void)
{
	char path[128];

	strcpy(settings + strlen(settings) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(settings));
	for (size_t i = 0; i < countof(setting_dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", settings, setting_dirs[i]);
		ck_assert_int_eq(mkdir(path, 0700), 0);
	}
	probe_settings = settings;
}

static void
teardown_settings(void)
{
	char path[128];

	for (size_t i = 0; i < countof(setting_names); i++) {
		snprintf(path, sizeof(path), "%s/%s", settings, setting_names[i]);
		unlink(path);
	}
	for (size_t i = countof(setting_dirs); i-- > 0;) {
		snprintf(path, sizeof(path), "%s/%s", settings, setting_dirs[i]);
		rmdir(path);
	}
	rmdir(settings);
}

static void
set_setting(const char *name, const char *value)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", settings, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(value, f), 0);
	fclose(f);
}

START_TEST(a_refused_namespace_is_laid_to_the_setting_that_refuses_it)
{
	struct doctor_finding f = { .state = DOCTOR_NO, .error = EPERM };

	probe_advise(&f);
	ck_assert_str_eq(f.remedy, ""); /* that of the row stands */
	set_setting(setting_names[1], "1\n");
	probe_advise(&f);
	ck_assert_ptr_nonnull(
	    strstr(f.remedy, "kernel.apparmor_restrict_unprivileged_userns=0"));
	set_setting(setting_names[0], "0\n");
	probe_advise(&f);
	ck_assert_ptr_nonnull(strstr(f.remedy, "kernel.unprivileged_userns_clone=1"));
	f = (struct doctor_finding){ .state = DOCTOR_NO, .error = ENOSPC };
	probe_advise(&f);
	ck_assert_str_eq(f.remedy, ""); /* another cause */
}
END_TEST

static const struct {
	int row;
	const char *name, *value; /* NULL: it is not there */
	enum doctor_state state;
} setting_rows[] = {
	{ DOCTOR_ROW_userns_clone, "kernel/unprivileged_userns_clone", NULL, DOCTOR_YES },
	{ DOCTOR_ROW_userns_clone, "kernel/unprivileged_userns_clone", "1\n", DOCTOR_YES },
	{ DOCTOR_ROW_userns_clone, "kernel/unprivileged_userns_clone", "0\n", DOCTOR_NO },
	{ DOCTOR_ROW_apparmor, "kernel/apparmor_restrict_unprivileged_userns", NULL,
	    DOCTOR_YES },
	{ DOCTOR_ROW_apparmor, "kernel/apparmor_restrict_unprivileged_userns", "0\n",
	    DOCTOR_YES },
	{ DOCTOR_ROW_apparmor, "kernel/apparmor_restrict_unprivileged_userns", "1\n",
	    DOCTOR_NO },
	{ DOCTOR_ROW_max_userns, "user/max_user_namespaces", "0\n", DOCTOR_NO },
	{ DOCTOR_ROW_max_userns, "user/max_user_namespaces", "15000\n", DOCTOR_YES },
	{ DOCTOR_ROW_max_userns, "user/max_user_namespaces", NULL, DOCTOR_NO },
	{ DOCTOR_ROW_max_userns, "user/max_user_namespaces", "many\n", DOCTOR_NO },
	{ DOCTOR_ROW_tiocsti, "dev/tty/legacy_tiocsti", "0\n", DOCTOR_NO },
	{ DOCTOR_ROW_tiocsti, "dev/tty/legacy_tiocsti", NULL, DOCTOR_YES }, /* older than it */
	{ DOCTOR_ROW_yama, "kernel/yama/ptrace_scope", "1\n", DOCTOR_YES },
	{ DOCTOR_ROW_yama, "kernel/yama/ptrace_scope", NULL, DOCTOR_NO },
};

START_TEST(settings_are_read_as_they_are)
{
	struct doctor_finding f = { .state = DOCTOR_UNTRIED };

	if (setting_rows[_i].value != NULL)
		set_setting(setting_rows[_i].name, setting_rows[_i].value);
	doctor_rows[setting_rows[_i].row].probe(&f);
	ck_assert_int_eq(f.state, setting_rows[_i].state);
	ck_assert_str_ne(f.detail, "");
}
END_TEST

START_TEST(json_says_everything_in_one_object)
{
	json_t *j, *rows, *row, *profile;

	deny(DOCTOR_ROW_user_namespace, ENOSPC);
	deny(DOCTOR_ROW_landlock_tcp, EINVAL);
	report.launches[1].launched = false;
	report.launches[1].layer = LAYER_USER_NAMESPACE;
	strcpy(report.launches[1].message, "no \"more\"");
	strcpy(report.findings[0].detail, "/\"\\\n\xff\xc3\xa4");
	j = as_json();
	rows = json_object_get(j, "rows");
	ck_assert_uint_eq(json_array_size(rows), DOCTOR_ROWS);
	ck_assert_str_eq(
	    member(json_array_get(rows, 0), "detail"), "/\"\\\n\xef\xbf\xbd\xc3\xa4");
	row = json_array_get(rows, DOCTOR_ROW_user_namespace);
	ck_assert_str_eq(member(row, "id"), "user_namespace");
	ck_assert_str_eq(member(row, "group"), "namespaces");
	ck_assert_str_eq(member(row, "need"), "needed");
	ck_assert_str_eq(member(row, "state"), "no");
	ck_assert_str_eq(member(row, "error"), "ENOSPC");
	ck_assert_ptr_nonnull(strstr(member(row, "remedy"), "user.max_user_namespaces"));
	ck_assert(json_is_null(json_object_get(json_array_get(rows, 0), "error")));
	ck_assert(json_is_false(json_object_get(j, "enforced")));
	profile = json_array_get(json_object_get(j, "profiles"), 1);
	ck_assert_str_eq(member(profile, "name"), "interpreter");
	ck_assert_str_eq(member(profile, "layer"), "user namespace");
	ck_assert_str_eq(member(profile, "message"), "no \"more\"");
	ck_assert_uint_eq(json_array_size(json_object_get(profile, "absent")), 0);
	ck_assert_str_eq(
	    json_string_value(json_array_get(json_object_get(profile, "because"), 0)),
	    "user_namespace");
	ck_assert_str_eq(
	    json_string_value(json_array_get(json_object_get(profile, "without"), 0)),
	    "landlock_tcp");
	json_decref(j);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("doctor");
	TCase *t = tcase_create("report");
	SRunner *runner = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, every_row_says_what_it_is_for_and_comes_after_what_it_needs);
	tcase_add_test(t, the_default_profile_is_one);
	tcase_add_test(t, the_remedy_is_the_probes_then_the_errnos_then_the_rows);
	tcase_add_test(t, only_what_is_needed_stands_in_the_way);
	tcase_add_test(t, a_launch_that_failed_is_the_last_word);
	tcase_add_test(t, what_a_launch_says_is_absent_is_said);
	tcase_add_test(t, a_probe_that_hangs_is_said_and_the_launch_decides);
	tcase_add_test(t, text_has_colour_and_purposes_where_they_are_wanted);
	tcase_add_test(t, what_was_found_reaches_a_terminal_escaped);
	tcase_add_test(t, json_says_everything_in_one_object);
	suite_add_tcase(s, t);
	t = tcase_create("settings");
	tcase_add_checked_fixture(t, setup_settings, teardown_settings);
	tcase_add_test(t, a_refused_namespace_is_laid_to_the_setting_that_refuses_it);
	tcase_add_loop_test(
	    t, settings_are_read_as_they_are, 0, (int)countof(setting_rows));
	suite_add_tcase(s, t);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
