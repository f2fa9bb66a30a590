/*
 * uid: claims that hold for the whole machine, and end with their holder.
 */
#include "supervisor/uid.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>

static char dir[] = "/tmp/test_uid.XXXXXX";

static void
make_dir(void)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void
drop_dir(void)
{
	char path[64];

	for (unsigned uid = 700; uid < 710; uid++) {
		snprintf(path, sizeof(path), "%s/%u", dir, uid);
		unlink(path);
	}
	rmdir(dir);
}

START_TEST(claims_are_distinct_and_come_to_an_end)
{
	const struct uid_range range = { 700, 3 };
	struct uid_claim c[4];

	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(uid_claim_in(dir, &range, &c[i]), 0);
		ck_assert_uint_eq(c[i].uid, 700 + (unsigned)i);
	}
	ck_assert_int_eq(uid_claim_in(dir, &range, &c[3]), -EAGAIN);
	uid_release(&c[1]);
	ck_assert_int_eq(c[1].lock_fd, -1);
	uid_release(&c[1]); /* twice is once */
	ck_assert_int_eq(uid_claim_in(dir, &range, &c[3]), 0);
	ck_assert_uint_eq(c[3].uid, 701);
	uid_release(&c[0]);
	uid_release(&c[2]);
	uid_release(&c[3]);
}
END_TEST

/* By the machine's own locks: what this process holds is passed over, and comes back. */
START_TEST(claims_of_the_machine_are_distinct_and_used_again)
{
	const struct uid_range range = { 0x70008000, 64 };
	struct uid_claim c[20], again;
	uid_t freed;
	int i, j;

	if (geteuid() != 0) {
		fprintf(stderr, "skip: test_uid: only root claims a uid of the machine\n");
		return;
	}
	for (i = 0; i < 20; i++) {
		ck_assert_int_eq(uid_claim(&range, &c[i]), 0);
		for (j = 0; j < i; j++)
			ck_assert_uint_ne(c[i].uid, c[j].uid);
	}
	freed = c[7].uid;
	uid_release(&c[7]);
	ck_assert_int_eq(uid_claim(&range, &again), 0);
	ck_assert_uint_eq(again.uid, freed);
	uid_release(&again);
	for (i = 0; i < 20; i++)
		uid_release(&c[i]);
}
END_TEST

START_TEST(a_claim_ends_with_the_process_that_holds_it)
{
	const struct uid_range range = { 700, 1 };
	struct uid_claim c;
	int up[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(up), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		byte = uid_claim_in(dir, &range, &c) == 0 ? 'y' : 'n';
		_exit(write(up[1], &byte, 1) != 1 || pause());
	}
	ck_assert_int_eq(read(up[0], &byte, 1), 1);
	ck_assert_int_eq(byte, 'y');
	ck_assert_int_eq(uid_claim_in(dir, &range, &c), -EAGAIN);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ck_assert_int_eq(uid_claim_in(dir, &range, &c), 0);
	uid_release(&c);
}
END_TEST

START_TEST(a_range_with_root_in_it_is_refused)
{
	static const struct uid_range ranges[] = { { 0, 5 }, { 700, 0 }, { UINT32_MAX - 1, 5 },
		{ UINT32_MAX, 1 } };
	struct uid_claim c;

	ck_assert_int_eq(uid_claim_in(dir, &ranges[_i], &c), -EINVAL);
}
END_TEST

START_TEST(a_link_in_the_place_of_a_lock_is_refused)
{
	const struct uid_range range = { 700, 1 };
	struct uid_claim c;
	char path[64];

	snprintf(path, sizeof(path), "%s/700", dir);
	ck_assert_int_eq(symlink("/dev/null", path), 0);
	ck_assert_int_eq(uid_claim_in(dir, &range, &c), -ELOOP);
}
END_TEST

static bool
write_map(const char *path, const char *line)
{
	FILE *f = fopen(path, "we");
	bool ok = f != NULL && fputs(line, f) >= 0;

	return f != NULL && fclose(f) == 0 && ok;
}

/* Exits with 0 if it is told to be no root, 77 where it cannot become one. */
static _Noreturn void
become_the_only_one(uid_t uid)
{
	char line[32];

	snprintf(line, sizeof(line), "0 %u 1\n", uid);
	if (unshare(CLONE_NEWUSER) < 0 || !write_map("/proc/self/uid_map", line))
		_exit(77);
	_exit(geteuid() != 0 || uid_is_root());
}

/* Pitfall: what its parent was told. */
START_TEST(a_child_alone_in_a_user_namespace_is_no_root)
{
	bool root = uid_is_root();
	int status;
	pid_t pid;

	ck_assert(!root || geteuid() == 0);
	pid = fork();
	if (pid == 0)
		become_the_only_one(geteuid());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		puts("skip: no user namespace to be had");
	else
		ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert_int_eq(uid_is_root(), root);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("uid");
	TCase *t = tcase_create("claims");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, make_dir, drop_dir);
	tcase_add_test(t, claims_are_distinct_and_come_to_an_end);
	tcase_add_test(t, claims_of_the_machine_are_distinct_and_used_again);
	tcase_add_test(t, a_claim_ends_with_the_process_that_holds_it);
	tcase_add_loop_test(t, a_range_with_root_in_it_is_refused, 0, 4);
	tcase_add_test(t, a_link_in_the_place_of_a_lock_is_refused);
	tcase_add_test(t, a_child_alone_in_a_user_namespace_is_no_root);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
