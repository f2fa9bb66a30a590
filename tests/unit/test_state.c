/* state: the state directory and its key; who holds a namespace of it. */
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "tests/unit/state_fixture.h"

static mode_t
mode_of(const char *format, ...)
{
	char path[512];
	struct stat st;
	va_list ap;

	va_start(ap, format);
	vsnprintf(path, sizeof(path), format, ap);
	va_end(ap);
	ck_assert_msg(stat(path, &st) == 0, "%s: %s", path, strerror(errno));
	return st.st_mode & 07777;
}

START_TEST(two_runs_share_the_key_and_nothing_else)
{
	struct rundir a = create(), b = create();

	ck_assert_str_ne(a.id, b.id);
	ck_assert_str_ne(a.journal, b.journal);
	ck_assert_mem_eq(a.key, b.key, STATE_KEY);
	ck_assert_int_eq(strspn(a.id, "0123456789T"), 15);
	ck_assert_int_eq(strlen(a.id), 22);
	rundir_finish(&a);
	rundir_finish(&b);
}
END_TEST

START_TEST(nobody_else_can_look_in)
{
	struct rundir run = create();

	ck_assert_uint_eq(mode_of("%s/key", dir), 0600);
	ck_assert_uint_eq(mode_of("%s/runs", dir), 0700);
	ck_assert_uint_eq(mode_of("%s/runs/%s", dir, run.id), 0700);
	ck_assert_uint_eq(mode_of("%s/runs/%s/lock", dir, run.id), 0600);
	ck_assert_uint_eq(mode_of("%s", run.journal), 0700);
	ck_assert_uint_eq(mode_of("%s", run.index), 0700);
	rundir_finish(&run);
}
END_TEST

START_TEST(a_run_is_locked_as_long_as_it_lives)
{
	struct rundir run = create();
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/runs/%s/lock", dir, run.id);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_lt(flock(fd, LOCK_EX | LOCK_NB), 0);
	rundir_finish(&run);
	ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
	close(fd);
}
END_TEST

START_TEST(what_is_missing_is_made)
{
	char deep[256];
	struct rundir run;

	snprintf(deep, sizeof(deep), "%s/a/b/c", dir);
	ck_assert_msg(rundir_create(deep, &run, err) == 0, "%s", err);
	ck_assert_uint_eq(mode_of("%s", deep), 0700);
	rundir_finish(&run);
}
END_TEST

START_TEST(many_at_once_agree_on_the_key)
{
	enum { N = 8 };
	uint8_t keys[N][STATE_KEY];
	int pipes[N][2], i;

	for (i = 0; i < N; i++) {
		ck_assert_int_eq(pipe(pipes[i]), 0);
		if (fork() == 0) {
			struct rundir run;

			_exit(rundir_create(dir, &run, err) < 0 ||
			      write(pipes[i][1], run.key, STATE_KEY) != STATE_KEY);
		}
		close(pipes[i][1]);
	}
	for (i = 0; i < N; i++) {
		ck_assert_int_eq(read(pipes[i][0], keys[i], STATE_KEY), STATE_KEY);
		ck_assert_mem_eq(keys[i], keys[0], STATE_KEY);
		close(pipes[i][0]);
	}
}
END_TEST

/* Without a usable state directory: 125, naming --state (D-17). */
START_TEST(what_cannot_be_used_is_named)
{
	struct rundir run;
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/file", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	close(fd);
	ck_assert_int_lt(rundir_create(path, &run, err), 0);
	ck_assert_ptr_nonnull(strstr(err, "--state /tmp/test_state-"));
	rundir_finish(&run);
	snprintf(path, sizeof(path), "%s/file/below", dir);
	ck_assert_int_lt(rundir_create(path, &run, err), 0);
	ck_assert_ptr_nonnull(strstr(err, "cannot create it"));
	rundir_finish(&run);
}
END_TEST

START_TEST(a_directory_that_others_can_write_to_is_refused)
{
	struct rundir run;

	chmod(dir, 0777);
	ck_assert_int_eq(rundir_create(dir, &run, err), -EPERM);
	ck_assert_ptr_nonnull(strstr(err, "others can write there"));
	rundir_finish(&run);
}
END_TEST

START_TEST(a_key_of_another_size_is_refused)
{
	struct rundir run = create();
	char path[256];

	rundir_finish(&run);
	snprintf(path, sizeof(path), "%s/key", dir);
	ck_assert_int_eq(truncate(path, STATE_KEY - 1), 0);
	ck_assert_int_lt(rundir_create(dir, &run, err), 0);
	ck_assert_ptr_nonnull(strstr(err, "the file key"));
	rundir_finish(&run);
}
END_TEST

START_TEST(the_environment_says_where_the_state_is)
{
	struct rundir run;
	char path[256];

	if (geteuid() == 0)
		return; /* root's place is fixed */
	setenv("XDG_STATE_HOME", dir, 1);
	ck_assert_msg(rundir_create(NULL, &run, err) == 0, "%s", err);
	snprintf(path, sizeof(path), "%s/caisson/runs/", dir);
	ck_assert(!strncmp(run.journal, path, strlen(path)));
	rundir_finish(&run);
	setenv("XDG_STATE_HOME", "relative", 1);
	setenv("HOME", dir, 1);
	ck_assert_msg(rundir_create(NULL, &run, err) == 0, "%s", err);
	snprintf(path, sizeof(path), "%s/.local/state/caisson/runs/", dir);
	ck_assert(!strncmp(run.journal, path, strlen(path)));
	rundir_finish(&run);
	unsetenv("XDG_STATE_HOME");
	unsetenv("HOME");
	ck_assert_int_lt(rundir_create(NULL, &run, err), 0);
	ck_assert_ptr_nonnull(strstr(err, "--state DIR: is needed"));
	rundir_finish(&run);
}
END_TEST

/* ---- a daemon's namespace ---------------------------------------------------------- */

static struct rundir
open_namespace(void)
{
	struct rundir run;

	ck_assert_msg(rundir_open(dir, "n", 0, &run, err) == 0, "%s", err);
	return run;
}

START_TEST(a_namespace_has_one_holder_and_its_segments_go_on)
{
	struct rundir run = open_namespace(), other;
	uint64_t number;
	char expected[64];
	int fd, i;

	ck_assert_uint_eq(run.segments, 0);
	ck_assert_int_eq(rundir_open(dir, "n", 0, &other, err), -EWOULDBLOCK);
	snprintf(expected, sizeof(expected), "the namespace n is held by caissond, pid %d",
	    (int)getpid());
	ck_assert_ptr_nonnull(strstr(err, expected));
	rundir_finish(&other);
	ck_assert_int_eq(rundir_open(dir, "m", 0, &other, err), 0);
	ck_assert_int_eq(memcmp(run.key, other.key, STATE_KEY), 0);
	rundir_finish(&other);
	for (i = 1; i <= 11; i++) {
		ck_assert_int_eq(rundir_segment(&run, STATE_SEGMENT_MIN, &fd, &number), 0);
		ck_assert_uint_eq(number, (uint64_t)i);
		close(fd);
	}
	rundir_seal(&run);
	rundir_finish(&run);
	run = open_namespace();
	ck_assert_uint_eq(run.segments, 11);
	ck_assert_int_eq(rundir_segment(&run, STATE_SEGMENT_MIN, &fd, &number), 0);
	ck_assert_uint_eq(number, 12);
	close(fd);
	rundir_seal(&run);
	rundir_finish(&run);
}
END_TEST

/* Does that process wait for a lock?  The kernel lists who does. */
static bool
waits_for_lock(pid_t pid)
{
	cleanup_free char *line = NULL;
	char waiter[32];
	FILE *f = fopen("/proc/locks", "re");
	bool found = false;
	size_t cap = 0;

	snprintf(waiter, sizeof(waiter), " %d ", (int)pid);
	while (f && !found && getline(&line, &cap, f) >= 0)
		found = strstr(line, "-> FLOCK") && strstr(line, waiter);
	if (f)
		fclose(f);
	return found;
}

/* What a broker and a ledger hold whose supervisor is gone: until they have let go. */
START_TEST(what_the_last_one_left_running_is_waited_for)
{
	struct rundir run = open_namespace();
	uint64_t number;
	int segment, ends[2], status;
	char byte;
	pid_t pid;

	ck_assert_int_eq(rundir_segment(&run, STATE_SEGMENT_MIN, &segment, &number), 0);
	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		/* It has both files as they were opened, and not the lock. */
		close(run.lock_fd);
		close(ends[0]);
		if (write(ends[1], "-", 1) != 1)
			_exit(2);
		while (!waits_for_lock(getppid()))
			sched_yield();
		_exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
	}
	close(ends[1]);
	close(segment);
	ck_assert_int_eq(read(ends[0], &byte, 1), 1);
	rundir_finish(&run);
	run = open_namespace();
	/* It had let go, which it says before. */
	ck_assert_int_eq(read(ends[0], &byte, 1), 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	close(ends[0]);
	rundir_finish(&run);
}
END_TEST

START_TEST(only_what_may_be_a_file_names_a_namespace)
{
	static const struct {
		const char *name;
		bool may;
	} cases[] = { { "default", true }, { "a-b_c.9", true }, { "", false }, { ".a", false },
		{ "..", false }, { "a/b", false }, { "a b", false }, { "\xc3\xa4", false },
		{ "0123456789012345678901234567890123456789012345678901234567890123", true },
		{ "01234567890123456789012345678901234567890123456789012345678901234", false } };
	size_t i;

	for (i = 0; i < countof(cases); i++)
		ck_assert_msg(rundir_may_name(cases[i].name) == cases[i].may, "%s",
		    cases[i].name);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("state");
	TCase *place = tcase_create("the directory");
	TCase *namespaces = tcase_create("namespaces");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(place, setup, teardown);
	tcase_add_test(place, two_runs_share_the_key_and_nothing_else);
	tcase_add_test(place, nobody_else_can_look_in);
	tcase_add_test(place, a_run_is_locked_as_long_as_it_lives);
	tcase_add_test(place, what_is_missing_is_made);
	tcase_add_test(place, many_at_once_agree_on_the_key);
	tcase_add_test(place, what_cannot_be_used_is_named);
	tcase_add_test(place, a_directory_that_others_can_write_to_is_refused);
	tcase_add_test(place, a_key_of_another_size_is_refused);
	tcase_add_test(place, the_environment_says_where_the_state_is);
	suite_add_tcase(s, place);
	tcase_add_checked_fixture(namespaces, setup, teardown);
	tcase_add_test(namespaces, a_namespace_has_one_holder_and_its_segments_go_on);
	tcase_add_test(namespaces, what_the_last_one_left_running_is_waited_for);
	tcase_add_test(namespaces, only_what_may_be_a_file_names_a_namespace);
	suite_add_tcase(s, namespaces);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
