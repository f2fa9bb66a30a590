/* lockfile: held by one, and never a file that is anybody else's. */
#include "supervisor/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <check.h>

#include "common/util.h"

static char dir[64];
static int dir_fd;
static pid_t holder;

static void
setup(void)
{
	strlcpy(dir, "/tmp/test_lockfile-XXXXXX", sizeof(dir));
	ck_assert_ptr_nonnull(mkdtemp(dir));
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dir_fd, 0);
}

static void
teardown(void)
{
	unlinkat(dir_fd, "lock", 0);
	unlinkat(dir_fd, "victim", 0);
	close(dir_fd);
	rmdir(dir);
}

static void
make(const char *name, const char *text)
{
	cleanup_fd int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* It is refused, and nothing was written to it. */
static void
refused(const char *name, int error, const char *text)
{
	char found[64] = "";
	cleanup_fd int fd = -1;

	ck_assert_int_eq(lockfile_take(dir_fd, "lock", 0, &holder), error);
	fd = openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_ge(read(fd, found, sizeof(found) - 1), 0);
	ck_assert_str_eq(found, text);
	ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
}

START_TEST(one_holds_it_and_the_other_is_told_who)
{
	char text[LOCKFILE_HOLDER_MAX], expected[64];
	int fd = lockfile_take(dir_fd, "lock", 0, &holder);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(lockfile_take(dir_fd, "lock", 0, &holder), -EWOULDBLOCK);
	ck_assert_int_eq(holder, getpid());
	snprintf(expected, sizeof(expected), "(kill %d)", (int)getpid());
	ck_assert_ptr_nonnull(strstr(lockfile_holder(holder, text), expected));
	lockfile_remove(dir_fd, "lock", fd);
	ck_assert_int_eq(faccessat(dir_fd, "lock", F_OK, 0), -1);
}
END_TEST

START_TEST(who_has_not_said_its_pid_is_not_named)
{
	static const char *const texts[] = { "", "0\n", "-1\n", "12", "1 2\n", "99999999999\n" };

	for (size_t i = 0; i < countof(texts); i++) {
		char text[LOCKFILE_HOLDER_MAX];
		cleanup_fd int fd = -1;

		make("lock", texts[i]);
		fd = openat(dir_fd, "lock", O_RDWR | O_CLOEXEC);
		ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
		ck_assert_int_eq(lockfile_take(dir_fd, "lock", 0, &holder), -EWOULDBLOCK);
		ck_assert_ptr_null(strstr(lockfile_holder(holder, text), "kill"));
		ck_assert_int_eq(unlinkat(dir_fd, "lock", 0), 0);
	}
}
END_TEST

START_TEST(a_link_is_not_followed)
{
	make("victim", "mine\n");
	ck_assert_int_eq(symlinkat("victim", dir_fd, "lock"), 0);
	refused("victim", -ELOOP, "mine\n");
}
END_TEST

START_TEST(a_file_of_another_name_too_is_not_written_to)
{
	make("victim", "mine\n");
	ck_assert_int_eq(linkat(dir_fd, "victim", dir_fd, "lock", 0), 0);
	refused("victim", -EPERM, "mine\n");
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
	ck_assert_int_eq(mkfifoat(dir_fd, "lock", 0666), 0);
	refused("lock", -EPERM, "");
}
END_TEST

START_TEST(a_file_of_somebody_elses_is_refused)
{
	if (geteuid() != 0)
		return; /* cannot be made */
	make("lock", "4242\n");
	ck_assert_int_eq(fchownat(dir_fd, "lock", 4242, 4242, 0), 0);
	ck_assert_int_eq(fchmodat(dir_fd, "lock", 0666, 0), 0);
	refused("lock", -EPERM, "4242\n");
}
END_TEST

START_TEST(the_end_takes_away_only_what_is_its_own)
{
	int fd = lockfile_take(dir_fd, "lock", 0, &holder);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(unlinkat(dir_fd, "lock", 0), 0);
	make("lock", "of the next\n");
	lockfile_remove(dir_fd, "lock", fd);
	ck_assert_int_eq(faccessat(dir_fd, "lock", F_OK, 0), 0);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("lockfile");
	TCase *t = tcase_create("lockfile");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, one_holds_it_and_the_other_is_told_who);
	tcase_add_test(t, who_has_not_said_its_pid_is_not_named);
	tcase_add_test(t, a_link_is_not_followed);
	tcase_add_test(t, a_file_of_another_name_too_is_not_written_to);
	tcase_add_test(t, what_is_no_file_is_refused);
	tcase_add_test(t, a_file_of_somebody_elses_is_refused);
	tcase_add_test(t, the_end_takes_away_only_what_is_its_own);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
