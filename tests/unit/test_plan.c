/*
 * plan: what the launcher accepts.  A plan comes from the supervisor, and is checked as
 * if it did not.
 */
#include "worker/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <check.h>

#include "common/util.h"
#include "supervisor/cgroup.h"
#include "supervisor/launch_plan.h"
#include "supervisor/profiles.h"
#include "supervisor/uid.h"

static const struct cgroup_entry no_group;
static struct plan_header *page;
static size_t size;
static int plan_fd;
static _Alignas(8) char copy[PLAN_MAX];

static void
make_plan(void)
{
	char *const argv[] = { (char[]){ "true" }, (char[]){ "one" }, NULL };
	char *const env[] = { (char[]){ "A=1" }, NULL };
	static const struct chamber_mount m = { .source = "/usr", .target = "/app" };
	struct chamber c = { .profile = profile_named("native"), .argv = argv, .env = env,
		.cwd = "/", .mounts = &m, .nmounts = 1, .init = true, .uid = 1234, .gid = 1234 };
	enum layer layer;

	plan_fd = launch_plan_create(&c, &no_group, &page, &size, &layer);
	ck_assert_int_ge(plan_fd, 0);
	memcpy(copy, page, size);
}

static void
drop_plan(void)
{
	munmap(page, size);
	close(plan_fd);
}

START_TEST(a_plan_of_the_supervisor_is_accepted)
{
	struct plan p;

	ck_assert_int_eq(plan_check(copy, size, &p), 0);
	ck_assert_uint_eq(p.h->argc, 2);
	ck_assert_str_eq(plan_string(&p, p.argv[1]), "one");
	ck_assert_str_eq(plan_string(&p, p.env[0]), "A=1");
	ck_assert_str_eq(plan_string(&p, p.h->cwd), "/");
	ck_assert_ptr_null(plan_string(&p, PLAN_NONE));
	ck_assert_uint_gt(p.h->nfilter, 0);
	ck_assert_uint_eq(p.h->uid, uid_is_root() ? 1234 : geteuid());
}
END_TEST

START_TEST(the_size_of_a_plan_cannot_be_changed)
{
	ck_assert_int_eq(ftruncate(plan_fd, 1), -1);
	ck_assert_int_eq(ftruncate(plan_fd, PLAN_MAX), -1);
}
END_TEST

START_TEST(every_truncation_is_refused)
{
	struct plan p;

	for (size_t n = 0; n < size; n++) {
		ck_assert_int_eq(plan_check(copy, n, &p), -EINVAL);
		/* Also one that admits to it, as long as that cuts a table. */
		memcpy(copy, page, size);
		((struct plan_header *)(void *)copy)->size_bytes = (uint32_t)n;
		ck_assert_int_eq(plan_check(copy, n, &p), -EINVAL);
		memcpy(copy, page, size);
	}
}
END_TEST

/* Each word of the header and of the steps, set to what it should not be. */
START_TEST(no_wrong_number_leads_outside)
{
	static const uint32_t wrong[] = { 0, 1, 3, 0x7fffffff, 0x80000000, 0xfffffff8,
		UINT32_MAX, PLAN_MAX, PLAN_MAX - 4 };
	const struct plan_header *h = (const void *)copy;
	size_t end = h->steps + h->nsteps * sizeof(struct plan_step);
	struct plan p;

	for (size_t at = 0; at + 4 <= end; at += 4)
		for (size_t w = 0; w < countof(wrong); w++) {
			memcpy(copy + at, &wrong[w], 4);
			if (plan_check(copy, size, &p) == 0) {
				/* Accepted: then every reference can be followed (ASan looks on). */
				for (uint32_t i = 0; i < p.h->argc; i++)
					ck_assert_uint_lt(strlen(plan_string(&p, p.argv[i])), size);
				for (uint32_t i = 0; i < p.h->envc; i++)
					ck_assert_uint_lt(strlen(plan_string(&p, p.env[i])), size);
				for (uint32_t i = 0; i < p.h->nsteps; i++)
					if (p.steps[i].target != PLAN_NONE)
						ck_assert_uint_lt(strlen(plan_string(&p,
								      p.steps[i].target)), size);
				ck_assert((const char *)(p.filter + p.h->nfilter) <= copy + size);
			}
			memcpy(copy, page, size);
		}
}
END_TEST

START_TEST(too_much_is_refused_before_anything_starts)
{
	static char big[600 << 10];
	char *const argv[] = { (char[]){ "true" }, big, big, NULL };
	struct chamber c = { .profile = profile_named("native"), .argv = argv, .cwd = "/",
		.uid = 1, .gid = 1 };
	struct plan_header *ignored;
	enum layer layer;
	size_t n;

	memset(big, 'x', sizeof(big) - 1);
	ck_assert_int_eq(launch_plan_create(&c, &no_group, &ignored, &n, &layer), -E2BIG);
	ck_assert_int_eq(layer, LAYER_PLAN);
}
END_TEST

START_TEST(as_root_a_chamber_without_a_uid_is_refused)
{
	char *const argv[] = { (char[]){ "true" }, NULL };
	struct chamber c = { .profile = profile_named("native"), .argv = argv, .cwd = "/" };
	struct plan_header *ignored;
	enum layer layer;
	size_t n;

	if (!uid_is_root())
		return;
	ck_assert_int_eq(launch_plan_create(&c, &no_group, &ignored, &n, &layer), -EINVAL);
	ck_assert_int_eq(layer, LAYER_UID);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("plan");
	TCase *t = tcase_create("check");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, make_plan, drop_plan);
	tcase_add_test(t, a_plan_of_the_supervisor_is_accepted);
	tcase_add_test(t, the_size_of_a_plan_cannot_be_changed);
	tcase_add_test(t, every_truncation_is_refused);
	tcase_add_test(t, no_wrong_number_leads_outside);
	tcase_add_test(t, too_much_is_refused_before_anything_starts);
	tcase_add_test(t, as_root_a_chamber_without_a_uid_is_refused);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
