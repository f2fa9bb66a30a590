/* state: segments of runs that share nothing else; what a killed run left. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tests/unit/state_fixture.h"

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
	ck_assert_int_eq(rmdir(run.journal), 0); /* it is empty */
	ck_assert_int_eq(mkdir(run.journal, 0700), 0);
	close(run.journal_fd);
	run.journal_fd = open(run.journal, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
	Suite *s = suite_create("state_segments");
	TCase *segments = tcase_create("segments");
	SRunner *runner;
	int failed;

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
	suite_add_tcase(s, segments);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
