#include "supervisor/doctor/launch.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <event2/event.h>

#include "common/util.h"
#include "supervisor/cgroup.h"
#include "supervisor/children.h"
#include "supervisor/doctor/doctor.h"
#include "supervisor/launch.h"
#include "supervisor/profiles.h"
#include "supervisor/uid.h"

#define LAUNCH_MS 6000 /* takes about 20 */

struct attempt {
	const struct profile *profile;
	struct doctor_launch *result;
	struct attempts *all;
	struct launch *launch; /* NULL: over */
	struct uid_claim uid;
};

struct attempts {
	struct event_base *base;
	struct attempt one[DOCTOR_PROFILES_MAX];
	size_t n, running;
};

static void
finish(struct attempt *a)
{
	a->launch = NULL;
	uid_release(&a->uid);
	if (--a->all->running == 0)
		event_base_loopbreak(a->all->base);
}

static void
say_refused(struct attempt *a, enum layer layer, int error)
{
	a->result->layer = layer;
	launch_explain(layer, error, a->result->message, sizeof(a->result->message));
}

static void
attempt_on_started(struct launch *l, void *arg)
{
	const struct launch_layers *layers = launch_layers(l);
	struct attempt *a = arg;

	for (unsigned i = 0; i < LAYER_MAX; i++)
		if (layers->state[i] < 0)
			a->result->absent |= 1u << i;
}

static void
attempt_on_refused(
    struct launch *l, enum layer layer, int error, const struct exit_facts *exit, void *arg)
{
	struct attempt *a = arg;

	(void)l;
	if (exit != NULL && exit->cause == ENDING_deadline) {
		a->result->layer = layer;
		snprintf(a->result->message, sizeof(a->result->message),
		    "hangs: not started after %d ms, and it was killed", LAUNCH_MS);
	} else {
		say_refused(a, layer, error);
	}
	finish(a);
}

static void
attempt_on_exit(struct launch *l, const struct exit_facts *exit, void *arg)
{
	struct attempt *a = arg;
	struct doctor_launch *r = a->result;

	(void)l;
	r->launched = exit->kind == EXIT_EXITED && exit->status == 0;
	if (r->launched)
		;
	else if (exit->cause == ENDING_seccomp)
		snprintf(r->message, sizeof(r->message), "true(1) made a forbidden call: %s",
		    profile_syscall_name(exit->arch, exit->syscall));
	else if (exit->cause == ENDING_deadline)
		snprintf(r->message, sizeof(r->message),
		    "hangs: not ended after %d ms, and it was killed", LAUNCH_MS);
	else
		snprintf(r->message, sizeof(r->message),
		    "true(1) was started and ended with %s %d",
		    exit->kind == EXIT_SIGNALED ? "signal" : "status", exit->status);
	finish(a);
}

static void
attempts_on_deadline(evutil_socket_t fd, short events, void *arg)
{
	struct attempts *all = arg;

	(void)fd;
	(void)events;
	for (size_t i = 0; i < all->n; i++)
		if (all->one[i].launch != NULL)
			launch_kill(all->one[i].launch, ENDING_deadline);
}

static void
attempt_start(struct attempt *a)
{
	static const struct launch_handler handler = { attempt_on_started, attempt_on_refused,
		attempt_on_exit };
	static const struct uid_range range = CHILD_UID_RANGE;
	char *argv[] = { (char[]){ "true" }, NULL };
	char *env[] = { (char[]){ "PATH=/usr/bin:/bin" }, NULL };
	struct chamber c = { .profile = a->profile,
		.argv = argv,
		.env = env,
		.cwd = "/",
		.init = a->profile->filtered, /* broker and ledger are pid 1 themselves */
		.die_with_parent = true };
	enum layer layer = LAYER_UID;
	int r = 0;

	if (uid_is_root())
		r = uid_claim(&range, &a->uid);
	if (r == 0) {
		c.uid = c.gid = a->uid.uid;
		r = launch_start(a->all->base, &c, &handler, a, &a->launch, &layer);
	}
	if (r < 0) {
		say_refused(a, layer, -r);
		finish(a);
	}
}

static void
attempt_add(struct attempts *all, struct doctor_report *report, const struct profile *profile)
{
	struct attempt *a = &all->one[all->n++];

	a->all = all;
	a->uid = UID_CLAIM_NONE;
	a->profile = profile;
	a->result = &report->launches[report->nlaunches++];
	a->result->profile = profile->name;
}

int
doctor_launch_all(struct doctor_report *report)
{
	const struct timeval until = { LAUNCH_MS / 1000, LAUNCH_MS % 1000 * 1000 };
	struct attempts all = { .base = event_base_new() };
	const struct profile *profile;
	struct event *timer = NULL;
	int r = -ENOMEM;

	if (all.base != NULL)
		timer = event_new(all.base, -1, 0, attempts_on_deadline, &all);
	if (timer == NULL || event_add(timer, &until) < 0)
		goto out;
	for (size_t i = 0; (profile = profile_builtin(i)) != NULL; i++) {
		assert(i < DOCTOR_PROFILES_MAX);
		attempt_add(&all, report, profile);
	}
	/* One more than there are: nothing ends the loop before all are started. */
	all.running = all.n + 1;
	for (size_t i = 0; i < all.n; i++)
		attempt_start(&all.one[i]);
	if (--all.running > 0)
		event_base_dispatch(all.base);
	r = 0;
out:
	if (timer != NULL)
		event_free(timer);
	cgroup_host_finish();
	if (all.base != NULL)
		event_base_free(all.base);
	return r;
}
