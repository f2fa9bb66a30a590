/* launch_exit: from the kernel's evidence to a cause. */
#include "supervisor/launch_exit.h"

#include <signal.h>
#include <string.h>

#include <check.h>

#include "common/util.h"

#define SECOND 1000000u
#define NO_COUNTS .usage = { .oom_kills = CGROUP_UNTOLD, .pids_refused = CGROUP_UNTOLD }
#define COUNTS(oom, pids) .usage = { .oom_kills = (oom), .pids_refused = (pids) }

static const struct {
	const char *reason;
	enum exit_kind kind;
	int status;
	struct launch_evidence evidence;
	enum ending cause;
	enum exit_limit limit;
} table[] = {
	/* Three deaths that look alike. */
	{ "exit 137", EXIT_EXITED, 137, { COUNTS(0, 0) }, ENDING_none, 0 },
	{ "kill -9", EXIT_SIGNALED, SIGKILL, { COUNTS(0, 0) }, ENDING_none, 0 },
	{ "out of memory", EXIT_SIGNALED, SIGKILL, { COUNTS(1, 0) }, ENDING_oom, 0 },

	{ "a child was killed for memory, and it failed", EXIT_EXITED, 137, { COUNTS(1, 0) },
	    ENDING_oom, 0 },
	{ "a child was, and it coped", EXIT_EXITED, 0, { COUNTS(1, 0) }, ENDING_none, 0 },
	{ "nobody counts", EXIT_SIGNALED, SIGKILL, { NO_COUNTS }, ENDING_none, 0 },
	{ "an order", EXIT_SIGNALED, SIGKILL,
	    { .ordered = ENDING_deadline, COUNTS(1, 0) }, ENDING_deadline, 0 },
	{ "an order that came too late", EXIT_EXITED, 3,
	    { .ordered = ENDING_deadline, NO_COUNTS }, ENDING_none, 0 },
	{ "an order, and a signal of its own", EXIT_SIGNALED, SIGSEGV,
	    { .ordered = ENDING_canceled, NO_COUNTS }, ENDING_none, 0 },
	{ "a violation", EXIT_SIGNALED, SIGKILL,
	    { .ordered = ENDING_seccomp, .syscall = 101, .arch = 7, NO_COUNTS }, ENDING_seccomp, 0 },

	{ "a file over its limit", EXIT_SIGNALED, SIGXFSZ, { NO_COUNTS }, ENDING_limit,
	    EXIT_LIMIT_file_size },
	{ "SIGXFSZ from outside", EXIT_SIGNALED, SIGXFSZ,
	    { .signals_sent = 1ull << SIGXFSZ, NO_COUNTS }, ENDING_none, 0 },

	{ "time used up", EXIT_SIGNALED, SIGXCPU,
	    { .cpu_limit_us = SECOND, .limited_us = SECOND, NO_COUNTS }, ENDING_limit,
	    EXIT_LIMIT_cpu_time },
	{ "used up, and the first signal ignored", EXIT_SIGNALED, SIGKILL,
	    { .cpu_limit_us = SECOND, .limited_us = 2 * SECOND, NO_COUNTS }, ENDING_limit,
	    EXIT_LIMIT_cpu_time },
	{ "SIGXCPU that somebody raised", EXIT_SIGNALED, SIGXCPU,
	    { .cpu_limit_us = SECOND, .limited_us = SECOND - 1, NO_COUNTS }, ENDING_none, 0 },
	{ "no limit", EXIT_SIGNALED, SIGXCPU, { .limited_us = SECOND, NO_COUNTS }, ENDING_none,
	    0 },
	{ "busy, and ended well", EXIT_EXITED, 0,
	    { .cpu_limit_us = SECOND, .limited_us = SECOND, NO_COUNTS }, ENDING_none, 0 },

	{ "a fork refused, and it failed", EXIT_EXITED, 2, { COUNTS(0, 3) }, ENDING_limit,
	    EXIT_LIMIT_pids },
	{ "refused, and aborted", EXIT_SIGNALED, SIGABRT, { COUNTS(0, 3) }, ENDING_limit,
	    EXIT_LIMIT_pids },
	{ "refused, and it coped", EXIT_EXITED, 0, { COUNTS(0, 3) }, ENDING_none, 0 },
	{ "refused, then told to end", EXIT_SIGNALED, SIGTERM,
	    { .signals_sent = 1ull << SIGTERM, COUNTS(0, 3) }, ENDING_none, 0 },
	{ "both: memory is what killed", EXIT_SIGNALED, SIGKILL, { COUNTS(1, 3) }, ENDING_oom, 0 },

	{ "a filter without a listener", EXIT_SIGNALED, SIGSYS,
	    { .filter_kills = true, NO_COUNTS }, ENDING_seccomp, 0 },
	{ "SIGSYS under a listener", EXIT_SIGNALED, SIGSYS, { NO_COUNTS }, ENDING_none, 0 },
	{ "nobody knows", EXIT_UNKNOWN, 0, { COUNTS(1, 1) }, ENDING_none, 0 },
	{ "a real-time signal", EXIT_SIGNALED, 64, { COUNTS(0, 1) }, ENDING_limit,
	    EXIT_LIMIT_pids },
};

START_TEST(a_cause_is_what_the_evidence_shows_and_no_more)
{
	struct exit_facts f = { .kind = table[_i].kind, .status = table[_i].status };

	launch_exit_explain(&f, &table[_i].evidence);
	ck_assert_msg(f.cause == table[_i].cause, "%s: %u", table[_i].reason, f.cause);
	ck_assert_msg(f.limit == table[_i].limit, "%s: %u", table[_i].reason, f.limit);
	ck_assert_int_eq(f.kind, table[_i].kind);
	ck_assert_int_eq(f.status, table[_i].status);
	if (table[_i].evidence.ordered == ENDING_seccomp) {
		ck_assert_uint_eq(f.syscall, 101);
		ck_assert_uint_eq(f.arch, 7);
	}
	if (table[_i].evidence.filter_kills)
		ck_assert_uint_eq(f.syscall, UINT32_MAX);
}
END_TEST

START_TEST(what_a_group_counted_stands_and_the_rest_stays)
{
	struct exit_facts f = { .kind = EXIT_EXITED, .cpu_us = 5, .peak_bytes = 6, .read_bytes = 7,
		.written_bytes = 8, .meter = METER_RUSAGE };
	struct launch_evidence e = { .usage = { CGROUP_V1, CGROUP_UNTOLD, CGROUP_UNTOLD, 100, 3,
		CGROUP_UNTOLD, CGROUP_UNTOLD, CGROUP_UNTOLD } };

	launch_exit_explain(&f, &e);
	ck_assert_uint_eq(f.meter, METER_CGROUP_V1);
	ck_assert_uint_eq(f.cpu_us, 5);
	ck_assert_uint_eq(f.peak_bytes, 100);
	ck_assert_uint_eq(f.processes, 3);
	ck_assert_uint_eq(f.read_bytes, 7);
	e.usage = (struct cgroup_usage){ CGROUP_V2, 0, 0, 1, 2, 3, 4, 0 };
	launch_exit_explain(&f, &e);
	ck_assert_uint_eq(f.meter, METER_CGROUP_V2);
	ck_assert_uint_eq(f.cpu_us, 3);
	ck_assert_uint_eq(f.written_bytes, 0);
	memset(&f, 0, sizeof(f));
	f.meter = METER_RUSAGE;
	memset(&e.usage, 0xff, sizeof(e.usage));
	e.usage.backend = CGROUP_NONE;
	launch_exit_explain(&f, &e);
	ck_assert_uint_eq(f.meter, METER_RUSAGE);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("launch_exit");
	TCase *c = tcase_create("all");
	SRunner *runner;
	int failed;

	tcase_add_loop_test(
	    c, a_cause_is_what_the_evidence_shows_and_no_more, 0, (int)countof(table));
	tcase_add_test(c, what_a_group_counted_stands_and_the_rest_stays);
	suite_add_tcase(suite, c);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
