/*
 * launch: no memory, at each allocation of the supervisor's in turn.  What the failure matrix
 * (tests/fault) does to system calls: the program ran with all its layers, or never, the error
 * names one, nothing is left over, and the next launch is as good as any.  The first one, in
 * which libraries compile filters, has been before.
 */
#include "supervisor/launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>
#include <event2/event.h>

#include "common/util.h"
#include "supervisor/children.h"
#include "supervisor/profiles.h"
#include "supervisor/uid.h"

#ifndef CAISSON_ASAN /* a sanitizer has an allocator of its own */

#include "failing_malloc.h"

/* ---- one launch -------------------------------------------------------------------------- */

struct outcome {
	struct event_base *base;
	bool started, refused, ended; /* no assertion while one allocation is to fail */
	enum layer layer; /* why it was not born */
	int error;
	struct launch_layers layers;
	struct exit_facts exit;
	char said[8]; /* by the program */
};

static struct uid_claim claim;

static void
on_started(struct launch *l, void *arg)
{
	struct outcome *o = arg;

	o->started = true;
	o->layers = *launch_layers(l);
}

static void
on_refused(struct launch *l, enum layer layer, int error, const struct exit_facts *exit,
    void *arg)
{
	struct outcome *o = arg;

	(void)l;
	(void)exit;
	o->refused = true;
	o->layer = layer;
	o->error = error;
	event_base_loopbreak(o->base);
}

static void
on_exit_facts(struct launch *l, const struct exit_facts *exit, void *arg)
{
	struct outcome *o = arg;

	(void)l;
	o->ended = true;
	o->exit = *exit;
	event_base_loopbreak(o->base);
}

static const struct launch_handler handler = { on_started, on_refused, on_exit_facts };

/* The `fail`-th allocation from launch_start() to the end of the launch is refused. */
static struct outcome
launch_with(unsigned long fail)
{
	char *const argv[] = { (char[]){ "/bin/echo" }, (char[]){ "ran" }, NULL };
	char *const env[] = { (char[]){ "PATH=/usr/bin:/bin" }, NULL };
	struct outcome o = { .base = event_base_new() };
	struct launch *l;
	int out[2], r;
	ssize_t n;

	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	const int fds[] = { -1, out[1], STDERR_FILENO };
	const struct chamber c = { .profile = profile_named("native"), .argv = argv, .env = env,
		.cwd = "/", .fds = fds, .nfds = countof(fds), .init = true,
		.die_with_parent = true, .uid = claim.uid, .gid = claim.uid };

	malloc_arm(fail);
	r = launch_start(o.base, &c, &handler, &o, &l, &o.layer);
	if (r == 0)
		event_base_dispatch(o.base);
	armed = false;
	ck_assert(r == 0 ? o.started == o.ended && o.refused != o.ended
			 : !o.started && !o.refused && !o.ended);
	if (r < 0) {
		o.refused = true;
		o.error = -r;
	}
	close(out[1]);
	n = read(out[0], o.said, sizeof(o.said) - 1);
	ck_assert_int_ge(n, 0);
	close(out[0]);
	event_base_free(o.base);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG | __WALL), -1); /* nobody is left */
	ck_assert_int_eq(errno, ECHILD);
	return o;
}

static unsigned
descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/* Born whole, or not at all. */
static void
check_outcome(const struct outcome *o, const struct outcome *good, unsigned long fail)
{
	char why[512];

	if (!o->refused) {
		ck_assert_msg(o->started && strcmp(o->said, "ran\n") == 0 &&
				  o->exit.kind == EXIT_EXITED && o->exit.status == 0,
		    "allocation %lu: it ran otherwise", fail);
		ck_assert_mem_eq(&o->layers, &good->layers, sizeof(o->layers));
		return;
	}
	ck_assert_msg(o->said[0] == '\0', "allocation %lu: refused, and it ran", fail);
	ck_assert_msg(o->layer > LAYER_NONE && o->layer < LAYER_MAX,
	    "allocation %lu: no layer is named", fail);
	ck_assert_msg(o->error == ENOMEM, "allocation %lu: %s: %s", fail,
	    layer_name(o->layer), strerror(o->error));
	launch_explain(o->layer, o->error, why, sizeof(why));
	ck_assert_msg(strstr(why, layer_name(o->layer)) != NULL, "%s", why);
}

/* ---- the tests --------------------------------------------------------------------------- */

static void
setup(void)
{
	static const struct uid_range range = CHILD_UID_RANGE;

	claim = UID_CLAIM_NONE;
	if (uid_is_root())
		ck_assert_int_eq(uid_claim(&range, &claim), 0);
	else
		claim.uid = getuid();
}

static void
teardown(void)
{
	uid_release(&claim);
}

START_TEST(without_memory_a_launch_is_whole_or_leaves_nothing)
{
	struct outcome good, o;
	unsigned long fail, refused = 0;
	unsigned before;
	long held;

	launch_with(0); /* what every launch needs is made once */
	good = launch_with(0);
	check_outcome(&good, &good, 0);
	before = descriptors();
	held = alive;
	for (fail = 1;; fail++) {
		o = launch_with(fail);
		if (asked < fail)
			break; /* it needed no more than that */
		check_outcome(&o, &good, fail);
		refused += o.refused;
		o = launch_with(0);
		ck_assert_msg(!o.refused, "after allocation %lu: the next is refused", fail);
		check_outcome(&o, &good, fail);
		ck_assert_msg(descriptors() == before, "allocation %lu: descriptors", fail);
		ck_assert_msg(alive == held, "allocation %lu: %ld are left", fail, alive - held);
	}
	ck_assert_uint_gt(refused, 5);
}
END_TEST

static Suite *
suite(void)
{
	Suite *s = suite_create("launch_memory");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 300);
	tcase_add_test(t, without_memory_a_launch_is_whole_or_leaves_nothing);
	suite_add_tcase(s, t);
	return s;
}

int
main(void)
{
	SRunner *r = srunner_create(suite());
	int failed;

	signal(SIGPIPE, SIG_IGN);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

#else

int
main(void)
{
	puts("launch_memory: skipped: a sanitizer has an allocator of its own");
	return 0;
}

#endif
