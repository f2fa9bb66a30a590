/* quota: project ids that nobody else has, with a kernel that is played here: few have quotas. */
#include "supervisor/quota.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util.h"
#include "supervisor/uid.h"

#define PROJECTS 256

/* ---- the kernel -------------------------------------------------------------------- */

struct project {
	uint32_t id;
	uint64_t files, kib, most;
};

static struct project projects[PROJECTS];
static size_t nprojects;
static struct fsxattr ours;
static bool uncounted;	/* an id is taken, and nobody counts */
static unsigned rivals; /* so many more ids are given to another's file as we are given them */
static int error, asked;
static uint16_t state;

static struct project *
project_of(uint32_t id)
{
	size_t i;

	for (i = 0; i < nprojects; i++)
		if (projects[i].id == id)
			return &projects[i];
	ck_assert_uint_lt(nprojects, PROJECTS);
	projects[nprojects].id = id;
	return &projects[nprojects++];
}

static int
play_quota(unsigned command, uint32_t id, void *data)
{
	struct project *p = project_of(id);
	struct if_dqblk *d = data;

	asked++;
	ck_assert_uint_eq(command & SUBCMDMASK, PRJQUOTA);
	if (error) {
		errno = error;
		return -1;
	}
	switch ((command >> SUBCMDSHIFT) & 0xffffff) {
	case Q_XGETQSTATV: ((struct fs_quota_statv *)data)->qs_flags = state; return 0;
	case Q_GETQUOTA: d->dqb_curinodes = p->files; return 0;
	case Q_SETQUOTA:
		ck_assert_uint_eq(d->dqb_valid, QIF_LIMITS);
		ck_assert(d->dqb_bsoftlimit == 0 && d->dqb_isoftlimit == 0);
		p->kib = d->dqb_bhardlimit;
		p->most = d->dqb_ihardlimit;
		return 0;
	default: ck_abort_msg("%x", command);
	}
}

static int
play_give(const struct fsxattr *x)
{
	project_of(ours.fsx_projid)->files -= ours.fsx_projid != 0 && !uncounted;
	ours = *x;
	project_of(x->fsx_projid)->files += !uncounted;
	if (rivals) {
		rivals--;
		project_of(x->fsx_projid)->files++;
	}
	return 0;
}

long
syscall(long number, ...)
{
	long (*next)(long, ...) = (long (*)(long, ...))(uintptr_t)dlsym(RTLD_NEXT, "syscall");
	long a[6];
	va_list ap;
	size_t i;

	va_start(ap, number);
	for (i = 0; i < countof(a); i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_quotactl_fd)
		return play_quota((unsigned)a[1], (uint32_t)a[2], (void *)(uintptr_t)a[3]);
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int
ioctl(int fd, unsigned long request, ...)
{
	struct fsxattr *x;
	va_list ap;

	va_start(ap, request);
	x = va_arg(ap, struct fsxattr *);
	va_end(ap);
	ck_assert_int_ge(fd, 0);
	ck_assert(request == FS_IOC_FSGETXATTR || request == FS_IOC_FSSETXATTR);
	if (request == FS_IOC_FSSETXATTR)
		return play_give(x);
	*x = ours;
	return 0;
}

static int dir_fd;

static void
begin(void)
{
	memset(projects, 0, sizeof(projects));
	ours = (struct fsxattr){ .fsx_xflags = FS_XFLAG_NOATIME };
	nprojects = rivals = 0;
	error = asked = 0;
	uncounted = false;
	state = FS_QUOTA_PDQ_ACCT | FS_QUOTA_PDQ_ENFD;
}

static void
setup(void)
{
	begin();
	dir_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dir_fd, 0);
}

static void
teardown(void)
{
	close(dir_fd);
}

/* ---- what is ours ------------------------------------------------------------------ */

START_TEST(a_directory_has_an_id_of_ours_that_what_is_made_in_it_inherits)
{
	uint32_t p;

	ck_assert_uint_eq(quota_project(dir_fd), QUOTA_PROJECT_NONE);
	ck_assert_int_eq(quota_claim(dir_fd, 0xfedcba9876543210, (1 << 20) + 1, &p), 0);
	ck_assert_uint_ge(p, QUOTA_PROJECT_FIRST);
	ck_assert_uint_lt(p, QUOTA_PROJECT_FIRST + QUOTA_PROJECT_COUNT);
	ck_assert_uint_eq(quota_project(dir_fd), p);
	/* What it was besides it still is. */
	ck_assert_uint_eq(ours.fsx_xflags, FS_XFLAG_NOATIME | FS_XFLAG_PROJINHERIT);
	ck_assert_uint_eq(project_of(p)->kib, 1025); /* rounded up */
	ck_assert_uint_eq(project_of(p)->most, QUOTA_FILES_MIN + 256);
	ck_assert_int_eq(quota_bound(dir_fd, p, 0), 0);
	ck_assert(project_of(p)->kib == 0 && project_of(p)->most == 0);
}
END_TEST

START_TEST(ids_of_others_are_none_of_ours)
{
	static const uint32_t ids[] = { 1, QUOTA_PROJECT_FIRST - 1,
		QUOTA_PROJECT_FIRST + QUOTA_PROJECT_COUNT, UINT32_MAX };
	size_t i;

	for (i = 0; i < countof(ids); i++) {
		ours.fsx_projid = ids[i];
		ck_assert_uint_eq(quota_project(dir_fd), QUOTA_PROJECT_NONE);
	}
	ours.fsx_projid = QUOTA_PROJECT_FIRST;
	ck_assert_uint_eq(quota_project(dir_fd), QUOTA_PROJECT_FIRST);
}
END_TEST

/* The ids that `seed` leads to, in turn. */
static uint32_t
claim_again(uint64_t seed)
{
	uint32_t p;

	memset(&ours, 0, sizeof(ours));
	ck_assert_int_eq(quota_claim(dir_fd, seed, 4096, &p), 0);
	return p;
}

START_TEST(an_id_that_something_has_is_passed_over_and_keeps_its_bound)
{
	uint32_t first = claim_again(7), second = claim_again(7), third = claim_again(7);

	ck_assert(first != second && second != third && first != third);
	project_of(first)->kib = 99;
	project_of(second)->files = 0; /* its last file is gone: it is free */
	ck_assert_uint_eq(claim_again(7), second);
	ck_assert_uint_eq(project_of(first)->kib, 99);
}
END_TEST

START_TEST(of_two_who_are_after_the_same_id_each_goes_on_to_another)
{
	uint32_t first = claim_again(7), p;

	begin();
	rivals = 1;
	ck_assert_int_eq(quota_claim(dir_fd, 7, 4096, &p), 0);
	ck_assert_uint_ne(p, first);
	ck_assert_uint_eq(project_of(first)->kib, 0); /* not bounded by who does not have it */
	ck_assert_uint_eq(project_of(first)->files, 1);
	ck_assert_uint_eq(project_of(p)->files, 1);
	ck_assert_uint_eq(project_of(p)->kib, 4);
}
END_TEST

START_TEST(where_all_are_taken_it_gives_up)
{
	uint32_t p;

	rivals = 1000;
	ck_assert_int_eq(quota_claim(dir_fd, 7, 4096, &p), -EAGAIN);
	ck_assert_uint_eq(rivals, 1000 - 64);
}
END_TEST

START_TEST(an_id_that_counts_nothing_bounds_nothing)
{
	uint32_t p;

	uncounted = true;
	ck_assert_int_eq(quota_claim(dir_fd, 7, 4096, &p), -ESRCH);
}
END_TEST

START_TEST(what_the_kernel_says_no_to_is_told)
{
	uint32_t p;

	error = EPERM;
	ck_assert_int_eq(quota_claim(dir_fd, 7, 4096, &p), -EPERM);
	ck_assert_int_eq(quota_bound(dir_fd, QUOTA_PROJECT_FIRST, 1), -EPERM);
	ck_assert_uint_eq(ours.fsx_projid, 0);
	error = ENOENT; /* XFS, of an id that was never used */
	ck_assert_int_eq(quota_bound(dir_fd, QUOTA_PROJECT_FIRST, 1), -ENOENT);
}
END_TEST

START_TEST(a_file_system_is_asked_what_it_enforces)
{
	static const struct {
		int error;
		uint16_t state;
		int expected;
	} rows[] = {
		{ 0, FS_QUOTA_PDQ_ACCT | FS_QUOTA_PDQ_ENFD, 0 },
		{ 0, FS_QUOTA_PDQ_ACCT, -ESRCH },
		{ 0, FS_QUOTA_UDQ_ACCT | FS_QUOTA_UDQ_ENFD, -EOPNOTSUPP },
		{ ENOSYS, 0, -EOPNOTSUPP },
		{ EINVAL, 0, -EOPNOTSUPP },
		{ EIO, 0, -EIO },
	};
	size_t i;

	for (i = 0; i < countof(rows); i++) {
		error = rows[i].error;
		state = rows[i].state;
		ck_assert_int_eq(quota_probe(dir_fd), uid_is_root() ? rows[i].expected : -EPERM);
		ck_assert_ptr_nonnull(quota_remedy(rows[i].expected));
	}
	ck_assert_int_eq(asked != 0, uid_is_root());
	ck_assert_str_ne(quota_remedy(-ESRCH), quota_remedy(-EOPNOTSUPP));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("quota");
	TCase *t = tcase_create("ids");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_directory_has_an_id_of_ours_that_what_is_made_in_it_inherits);
	tcase_add_test(t, ids_of_others_are_none_of_ours);
	tcase_add_test(t, an_id_that_something_has_is_passed_over_and_keeps_its_bound);
	tcase_add_test(t, of_two_who_are_after_the_same_id_each_goes_on_to_another);
	tcase_add_test(t, where_all_are_taken_it_gives_up);
	tcase_add_test(t, an_id_that_counts_nothing_bounds_nothing);
	tcase_add_test(t, what_the_kernel_says_no_to_is_told);
	tcase_add_test(t, a_file_system_is_asked_what_it_enforces);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
