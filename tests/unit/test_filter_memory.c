/*
 * profiles: no memory, at each allocation of a filter's compilation in turn.  libseccomp does not
 * tell of each that it misses: a filter is whole, or there is none.
 */
#include "supervisor/profiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>

#include "common/util.h"
#include "supervisor/profiles_rules.h"

#ifndef CAISSON_ASAN /* a sanitizer has an allocator of its own */

#include "failing_malloc.h"

/* One in so many is refused, each of them in a soak. */
#define STRIDE 251ul

enum { WHOLE, NONE, OTHER, OVER };

static const char *const bases[] = { "native", "provider", "files" };

/* A profile that is compiled anew, and whose filter is its base's but for one rule. */
static int
make(const char *base, unsigned long fail, struct profile **ret)
{
	static const struct profile_rule own = {
		.nr = SYS_getppid, .action = PROFILE_ERRNO, .error = 1
	};
	const char *text;
	size_t fault;
	int r;

	malloc_arm(fail);
	r = profile_create("mine", profile_named(base), &own, 1, ret, &fault, &text);
	armed = false;
	return r;
}

/* In a process of its own: there are allocations whose failure libseccomp dies of, or for
 * which it turns in a circle until the timer, of its own processor time, ends it. */
static int
attempt(const char *base, unsigned long fail, const struct profile *good)
{
	static const struct itimerval circle = { .it_value = { .tv_usec = 250000 } };
	const struct sock_filter *mine, *whole;
	size_t n, len;
	struct profile *p;
	int status, r;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid > 0) {
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		return WIFEXITED(status) ? WEXITSTATUS(status) : NONE;
	}
	setitimer(ITIMER_PROF, &circle, NULL);
	ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr)); /* what libc says as it dies */
	r = make(base, fail, &p);
	if (r < 0)
		_exit(NONE);
	for (int network = 0; network < 2; network++)
		if (profile_filter(p, network, &mine, &n) < 0 ||
		    profile_filter(good, network, &whole, &len) < 0 || n != len ||
		    memcmp(mine, whole, n * sizeof(*mine)) != 0)
			_exit(OTHER);
	_exit(asked < fail ? OVER : WHOLE); /* it needed no more than that */
}

START_TEST(a_filter_is_whole_or_there_is_none)
{
	unsigned long stride = getenv("CAISSON_SOAK") ? 1 : STRIDE, none = 0, fail;
	struct profile *good;
	int r = WHOLE;

	ck_assert_int_eq(make(bases[_i], 0, &good), 0); /* the base's rules are read once */
	for (fail = 1; r != OVER; fail += stride) {
		r = attempt(bases[_i], fail, good);
		ck_assert_msg(r != OTHER, "allocation %lu: another filter", fail);
		none += r == NONE;
	}
	ck_assert_uint_gt(none, 5);
	profile_destroy(good);
}
END_TEST

static Suite *
suite(void)
{
	Suite *s = suite_create("filter_memory");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, getenv("CAISSON_SOAK") ? 3600 : 120);
	tcase_add_loop_test(t, a_filter_is_whole_or_there_is_none, 0, countof(bases));
	suite_add_tcase(s, t);
	return s;
}

int
main(void)
{
	SRunner *r = srunner_create(suite());
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

#else

int
main(void)
{
	puts("filter_memory: skipped: a sanitizer has an allocator of its own");
	return 0;
}

#endif
