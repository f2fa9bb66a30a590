/* state: the state directory, its key, runs that share nothing else, segments. */
#include "supervisor/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>

#include "common/util.h"

static char dir[64], err[STATE_ERROR_MAX];

static void
setup(void)
{
	strlcpy(dir, "/tmp/test_state-XXXXXX", sizeof(dir));
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void
teardown(void)
{
	chmod(dir, 0700);
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct rundir
create(void)
{
	struct rundir run;

	ck_assert_msg(rundir_create(dir, &run, err) == 0, "%s", err);
	return run;
}

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

START_TEST(segments_are_numbered_reserved_and_locked)
{
	struct rundir run = create();
	uint64_t number, i;
	char path[256];
	struct stat st;
	int fd, other;

	for (i = 1; i <= 3; i++) {
		ck_assert_int_eq(rundir_segment(&run, 1u << 20, &fd, &number), 0);
		ck_assert_uint_eq(number, i);
		snprintf(path, sizeof(path), "%s/journal.%08u", run.journal, (unsigned)i);
		ck_assert_int_eq(stat(path, &st), 0);
		ck_assert_int_eq(st.st_size, 0);
		ck_assert_uint_eq(st.st_mode & 07777, 0400);
		other = open(path, O_RDONLY | O_CLOEXEC);
		ck_assert_int_lt(flock(other, LOCK_EX | LOCK_NB), 0);
		close(fd);
		ck_assert_int_eq(flock(other, LOCK_EX | LOCK_NB), 0);
		close(other);
	}
	rundir_seal(&run);
	rundir_finish(&run);
}
END_TEST

/* A subverted broker can add to the record but not rewrite it. */
START_TEST(a_segment_can_only_be_appended_to)
{
	struct rundir run = create();
	uint64_t number;
	struct stat st;
	char byte;
	int fd;

	ck_assert_int_eq(rundir_segment(&run, 1u << 20, &fd, &number), 0);
	ck_assert_int_eq(write(fd, "abc", 3), 3);
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
	ck_assert_int_eq(write(fd, "def", 3), 3);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, 6);
	ck_assert_int_lt(pread(fd, &byte, 1, 0), 0);
	close(fd);
	rundir_seal(&run);
	rundir_finish(&run);
}
END_TEST

/* What a visit leaves is what it wrote; a segment that is written to is left alone. */
START_TEST(what_was_reserved_and_not_used_is_given_back)
{
	struct rundir run = create();
	char path[3][256], text[4] = "";
	struct stat st[3];
	uint64_t number;
	int fd[3], i;

	for (i = 0; i < 3; i++) {
		ck_assert_int_eq(rundir_segment(&run, 1u << 20, &fd[i], &number), 0);
		ck_assert_int_eq(write(fd[i], "abc", 3), 3);
		snprintf(path[i], sizeof(path[i]), "%s/journal.%08d", run.journal, i + 1);
		if (i < 2)
			close(fd[i]);
	}
	rundir_seal(&run);
	rundir_trim(&run, 1);
	for (i = 0; i < 3; i++) {
		ck_assert_int_eq(stat(path[i], &st[i]), 0);
		ck_assert_int_eq(st[i].st_size, 3);
		ck_assert_uint_eq(st[i].st_mode & 07777, 0400);
	}
	if (st[0].st_blocks * 512 >= 1 << 20) /* else there are no reservations here */
		ck_assert_int_le(st[1].st_blocks * 512, 1 << 16);
	ck_assert_int_eq(st[0].st_blocks, st[2].st_blocks);
	i = open(path[1], O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(read(i, text, 3), 3);
	ck_assert_str_eq(text, "abc");
	close(i);
	close(fd[2]);
	rundir_finish(&run);
}
END_TEST

START_TEST(a_reservation_that_cannot_be_had_leaves_nothing)
{
	struct rundir run = create();
	uint64_t number = 7;
	char path[256];
	int fd = -1;

	ck_assert_int_lt(rundir_segment(&run, 1ull << 62, &fd, &number), 0);
	ck_assert_int_eq(fd, -1);
	snprintf(path, sizeof(path), "%s/journal.00000001", run.journal);
	ck_assert_int_lt(access(path, F_OK), 0);
	ck_assert_int_eq(rundir_segment(&run, 1u << 20, &fd, &number), 0);
	ck_assert_uint_eq(number, 1);
	close(fd);
	rundir_seal(&run);
	rundir_finish(&run);
}
END_TEST

START_TEST(a_segment_is_never_made_over_another)
{
	struct rundir run = create();
	uint64_t number;
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/journal.00000001", run.journal);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	close(fd);
	ck_assert_int_eq(rundir_segment(&run, 1u << 20, &fd, &number), -EEXIST);
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

/* Is a segment of the run append-only, as the file system has it? */
static bool
is_append_only(const char *id)
{
	char path[256];
	int fd, flags = 0;

	snprintf(path, sizeof(path), "%s/runs/%s/journal/journal.00000001", dir, id);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ioctl(fd, FS_IOC_GETFLAGS, &flags), 0);
	close(fd);
	return flags & FS_APPEND_FL;
}

/* Makes a run with a segment in a process that is then killed; its id. */
static void
kill_a_run(char id[64], int *ret_segment)
{
	int pair[2], segment;
	struct rundir run;
	uint64_t number;
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		run = create();
		if (rundir_segment(&run, STATE_SEGMENT_MIN, &segment, &number) < 0 ||
		    write(pair[1], &segment, sizeof(segment)) != sizeof(segment) ||
		    write(pair[1], run.id, strlen(run.id) + 1) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(pair[0], &segment, sizeof(segment)), sizeof(segment));
	ck_assert_int_gt(read(pair[0], id, 64), 0);
	if (ret_segment != NULL) { /* as a broker has it */
		int pidfd = pidfd_open(pid, 0);

		*ret_segment = pidfd_getfd(pidfd, segment, 0);
		ck_assert_int_ge(*ret_segment, 0);
		close(pidfd);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(pair[0]);
	close(pair[1]);
}

static int
count_unsealed(void)
{
	char path[128];
	int n = -2; /* . and .. */
	DIR *d;

	snprintf(path, sizeof(path), "%s/unsealed", dir);
	d = opendir(path);
	ck_assert_ptr_nonnull(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

START_TEST(a_killed_run_is_sealed_by_the_next_and_a_living_one_is_not)
{
	char killed[64], settling[64];
	struct rundir mine, next;
	uint64_t number;
	int segment, theirs;

	mine = create();
	ck_assert_int_eq(rundir_segment(&mine, STATE_SEGMENT_MIN, &segment, &number), 0);
	kill_a_run(killed, NULL);
	ck_assert(is_append_only(killed));
	ck_assert_int_eq(count_unsealed(), 2);
	kill_a_run(settling, &theirs);
	ck_assert(!is_append_only(killed));
	ck_assert(is_append_only(settling));
	ck_assert_int_eq(count_unsealed(), 2);
	next = create();
	ck_assert(is_append_only(settling)); /* its broker writes to it yet */
	ck_assert(is_append_only(mine.id));
	ck_assert_int_eq(count_unsealed(), 3); /* settling, mine, next */
	close(theirs);
	rundir_finish(&next); /* without a segment: nothing to seal */
	next = create();
	ck_assert(!is_append_only(settling));
	ck_assert(is_append_only(mine.id));
	ck_assert_int_eq(count_unsealed(), 2);
	close(segment);
	rundir_seal(&mine);
	ck_assert(!is_append_only(mine.id));
	rundir_finish(&mine);
	rundir_finish(&next);
	ck_assert_int_eq(count_unsealed(), 0);
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

/* As root, and where the tests' directory lies. */
static bool
keeps_append_only(void)
{
	char name[] = "/tmp/test_state-flag-XXXXXX";
	int fd = mkostemp(name, O_CLOEXEC), flags = 0;
	bool keeps = geteuid() == 0 && ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0;

	flags |= FS_APPEND_FL;
	keeps = keeps && ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
	flags &= ~FS_APPEND_FL;
	if (keeps)
		ioctl(fd, FS_IOC_SETFLAGS, &flags);
	close(fd);
	unlink(name);
	return keeps;
}

int
main(void)
{
	Suite *s = suite_create("state");
	TCase *place = tcase_create("the directory"), *segments = tcase_create("segments");
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
	tcase_add_checked_fixture(segments, setup, teardown);
	tcase_add_test(segments, segments_are_numbered_reserved_and_locked);
	tcase_add_test(segments, a_segment_can_only_be_appended_to);
	tcase_add_test(segments, what_was_reserved_and_not_used_is_given_back);
	tcase_add_test(segments, a_reservation_that_cannot_be_had_leaves_nothing);
	tcase_add_test(segments, a_segment_is_never_made_over_another);
	if (keeps_append_only())
		tcase_add_test(segments, a_killed_run_is_sealed_by_the_next_and_a_living_one_is_not);
	else
		puts("skip: append-only files take root and a file system that has them");
	suite_add_tcase(s, place);
	suite_add_tcase(s, segments);
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
