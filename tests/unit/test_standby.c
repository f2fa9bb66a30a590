/*
 * standby: which chambers stand by, and what becomes of them.  That what stood by is as any other,
 * test_launch.c says.
 */
#include "supervisor/standby.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <check.h>
#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"
#include "supervisor/launch_private.h"
#include "supervisor/profiles.h"
#include "supervisor/uid.h"

#define USES 1000

static struct uid_claim claim = UID_CLAIM_NONE;
static struct event_base *base;

/* In the place of common/clock.c: it can be put forward. */
static uint64_t ahead_ms;

static uint64_t
now_ms(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t
clock_ms(void)
{
	return now_ms(CLOCK_MONOTONIC) + ahead_ms;
}

uint64_t
clock_wall_ms(void)
{
	return now_ms(CLOCK_REALTIME);
}

struct outcome {
	bool stood, over;
	enum layer refused;
	int status;
};

static void
on_started(struct launch *l, void *arg)
{
	(void)l;
	(void)arg;
}

static void
on_refused(
    struct launch *l, enum layer layer, int error, const struct exit_facts *exit, void *arg)
{
	struct outcome *o = arg;

	(void)l;
	(void)error;
	(void)exit;
	o->refused = layer;
	o->over = true;
}

static void
on_exit_facts(struct launch *l, const struct exit_facts *exit, void *arg)
{
	struct outcome *o = arg;

	(void)l;
	o->status = exit->kind == EXIT_EXITED ? exit->status : -1;
	o->over = true;
}

static const struct launch_handler handler = { on_started, on_refused, on_exit_facts };

static struct outcome
run(const char *profile, unsigned pids)
{
	char *const argv[] = { (char[]){ "/bin/true" }, NULL };
	char *const env[] = { NULL };
	struct chamber c = { .profile = profile_named(profile), .argv = argv, .env = env,
		.cwd = "/", .init = true, .die_with_parent = true, .pids = pids,
		.uid = claim.uid, .gid = claim.uid };
	struct outcome o = { .status = -1 };
	struct launch *l;
	enum layer layer;

	ck_assert_int_eq(launch_start(base, &c, &handler, &o, &l, &layer), 0);
	o.stood = launch_stood_by(l);
	while (!o.over)
		event_base_loop(base, EVLOOP_ONCE);
	return o;
}

/* All that are missing are there, and wait. */
static void
fill(void)
{
	standby_fill();
	while (standby_count(true) < standby_count(false))
		event_base_loop(base, EVLOOP_ONCE);
}

static void
open_for(unsigned kinds)
{
	base = event_base_new();
	ck_assert_int_eq(standby_open(base, kinds), 0);
}

static void
nobody_is_left(void)
{
	standby_close();
	event_base_free(base);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	ck_assert_int_eq(errno, ECHILD);
}

static unsigned
count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

START_TEST(a_launch_takes_the_one_that_waits_and_leaves_another)
{
	struct outcome o;

	open_for(1);
	ck_assert(!run("native", 0).stood);
	for (int i = 0; i < 3; i++) {
		fill();
		ck_assert_uint_eq(standby_count(true), 1);
		o = run("native", 0);
		ck_assert(o.stood);
		ck_assert_int_eq(o.status, 0);
	}
	nobody_is_left();
}
END_TEST

START_TEST(another_kind_does_not_take_it)
{
	open_for(2);
	run("native", 0);
	fill();
	ck_assert(!run("provider", 0).stood);
	fill();
	ck_assert_uint_eq(standby_count(true), 2);
	ck_assert(run("native", 0).stood);
	ck_assert(run("provider", 0).stood);
	nobody_is_left();
}
END_TEST

START_TEST(there_are_no_more_than_are_wanted)
{
	open_for(1);
	run("native", 0);
	fill();
	run("provider", 0); /* the one used last stays */
	fill();
	ck_assert_uint_eq(standby_count(false), 1);
	ck_assert(run("provider", 0).stood);
	standby_renew(0);
	ck_assert(!run("provider", 0).stood);
	fill();
	ck_assert_uint_eq(standby_count(false), 0);
	nobody_is_left();
}
END_TEST

static struct launch *waiting;

static void
note(const struct launch *l, uint64_t since_ms, void *arg)
{
	(void)since_ms;
	(void)arg;
	waiting = (struct launch *)(uintptr_t)l;
}

static void
kill_one(bool launcher)
{
	fill();
	ck_assert_uint_eq(standby_count(true), 1);
	standby_each(note, NULL);
	ck_assert_int_eq(
	    pidfd_send_signal(launcher ? waiting->launcher.pidfd : waiting->init.pidfd,
		SIGKILL, NULL, 0), 0);
	while (standby_count(false) > 0)
		event_base_loop(base, EVLOOP_ONCE);
}

START_TEST(one_that_dies_as_it_waits_is_forgotten)
{
	open_for(1);
	run("native", 0);
	kill_one(_i);
	standby_fill();
	ck_assert_uint_eq(standby_count(false), 0); /* not before the next use */
	ck_assert(!run("native", 0).stood);
	fill();
	ck_assert(run("native", 0).stood);
	nobody_is_left();
}
END_TEST

START_TEST(one_that_has_just_died_is_not_given_an_order)
{
	struct outcome o;

	open_for(1);
	run("native", 0);
	fill();
	standby_each(note, NULL);
	ck_assert_int_eq(pidfd_send_signal(waiting->init.pidfd, SIGKILL, NULL, 0), 0);
	while (launch_stands(waiting))
		; /* the kernel's own word, before the loop has heard of it */
	o = run("native", 0);
	ck_assert(!o.stood);
	ck_assert_int_eq(o.status, 0);
	nobody_is_left();
}
END_TEST

START_TEST(what_is_sent_to_the_supervisors_group_does_not_reach_it)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
	struct outcome o;

	ck_assert_int_eq(setpgid(0, 0), 0);
	ck_assert_int_eq(sigaction(SIGINT, &ignore, &old), 0);
	open_for(1);
	run("native", 0);
	fill();
	ck_assert_int_eq(kill(0, SIGINT), 0);
	o = run("native", 0);
	ck_assert(o.stood);
	ck_assert_int_eq(o.status, 0); /* it lived to be given its order, and went on */
	ck_assert_int_eq(sigaction(SIGINT, &old, NULL), 0);
	nobody_is_left();
}
END_TEST

START_TEST(three_deaths_in_a_row_are_enough)
{
	open_for(1);
	for (int i = 0; i < 3; i++) {
		ck_assert(!run("native", 0).stood);
		kill_one(i & 1);
	}
	ck_assert(!run("native", 0).stood);
	fill();
	ck_assert_uint_eq(standby_count(false), 0);
	nobody_is_left();
}
END_TEST

START_TEST(after_a_minute_without_use_it_goes)
{
	open_for(2);
	run("native", 0);
	fill();
	ahead_ms += 50000;
	run("provider", 0); /* its minute begins now */
	fill();
	ck_assert_uint_eq(standby_count(true), 2);
	ahead_ms += 9000;
	ck_assert(run("provider", 0).stood); /* looks at the clock; not yet */
	fill();
	ck_assert_uint_eq(standby_count(true), 2);
	ahead_ms += 1000;
	run("provider", 0);
	while (standby_count(false) > 1 || standby_count(true) < 1)
		event_base_loop(base, EVLOOP_ONCE);
	ck_assert(!run("native", 0).stood);
	fill();
	ck_assert(run("provider", 0).stood);
	nobody_is_left();
}
END_TEST

/* No word to them, and nobody who would kill them: each finds out by itself. */
START_TEST(with_its_supervisor_killed_it_ends)
{
	int said[2], status;
	siginfo_t si;
	char byte;
	pid_t pid;

	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		open_for(1);
		run("native", _i == 0 ? 0 : 16);
		fill();
		if (standby_count(true) == 1 && write(said[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(said[1]);
	ck_assert_int_eq(read(said[0], &byte, 1), 1);
	close(said[0]);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	for (int i = 0; i < 2; i++) /* launcher and pid 1 are ours now */
		ck_assert_int_eq(waitid(P_ALL, 0, &si, WEXITED | __WALL), 0);
	ck_assert_int_eq(waitid(P_ALL, 0, &si, WEXITED | __WALL), -1);
	ck_assert_int_eq(errno, ECHILD);
}
END_TEST

/* Not of the kind, no plan, no descriptors, too many: it ends, and the next launch is cold. */
START_TEST(a_wrong_order_ends_it_and_nothing_else)
{
	union {
		char buf[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	int fds[2] = { STDIN_FILENO, STDIN_FILENO };
	struct iovec iov = { .iov_base = (char[]){ 0 }, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	open_for(1);
	run("native", 0);
	fill();
	standby_each(note, NULL);
	if (_i > 0) {
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE((size_t)_i * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)_i * sizeof(int));
		memcpy(CMSG_DATA(c), fds, (size_t)_i * sizeof(int));
	}
	ck_assert_int_eq(sendmsg(waiting->socket_fd, &msg, MSG_NOSIGNAL), 1);
	while (standby_count(false) > 0)
		event_base_loop(base, EVLOOP_ONCE);
	ck_assert_int_eq(run("native", 0).status, 0);
	fill();
	ck_assert(run("native", 0).stood);
	nobody_is_left();
}
END_TEST

START_TEST(its_group_is_there_before_it_is_wanted)
{
	struct outcome o;

	open_for(1);
	run("native", 16);
	fill();
	o = run("native", 24); /* of the same kind, with another limit */
	ck_assert(o.stood);
	ck_assert_int_eq(o.status, 0);
	nobody_is_left();
}
END_TEST

START_TEST(nothing_is_left_after_many_uses)
{
	unsigned before = 0;

	open_for(1);
	run("native", 0);
	for (int i = 0; i < USES; i++) {
		fill();
		ck_assert(run("native", 0).stood);
		if (i == 10) {
			fill(); /* the next one has come already, or has not */
			before = count_fds();
		}
	}
	fill();
	ck_assert_uint_eq(count_fds(), before);
	nobody_is_left();
}
END_TEST

static Suite *
suite(void)
{
	Suite *s = suite_create("standby");
	TCase *t = tcase_create("standby");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, a_launch_takes_the_one_that_waits_and_leaves_another);
	tcase_add_test(t, another_kind_does_not_take_it);
	tcase_add_test(t, there_are_no_more_than_are_wanted);
	tcase_add_test(t, what_is_sent_to_the_supervisors_group_does_not_reach_it);
	tcase_add_loop_test(t, one_that_dies_as_it_waits_is_forgotten, 0, 2);
	tcase_add_test(t, one_that_has_just_died_is_not_given_an_order);
	tcase_add_test(t, three_deaths_in_a_row_are_enough);
	tcase_add_test(t, after_a_minute_without_use_it_goes);
	tcase_add_loop_test(t, with_its_supervisor_killed_it_ends, 0, 2);
	tcase_add_loop_test(t, a_wrong_order_ends_it_and_nothing_else, 0, 3);
	tcase_add_test(t, its_group_is_there_before_it_is_wanted);
	tcase_add_test(t, nothing_is_left_after_many_uses);
	suite_add_tcase(s, t);
	return s;
}

int
main(void)
{
	struct uid_range range = { 3300000, 1000 };
	SRunner *r;
	int failed;

	log_init("test_standby", LOG_ERROR_);
	if (uid_is_root() && uid_claim(&range, &claim) < 0)
		return 1;
	r = srunner_create(suite());
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	uid_release(&claim);
	return failed == 0 ? 0 : 1;
}
