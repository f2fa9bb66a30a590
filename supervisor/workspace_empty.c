#include "supervisor/workspace_empty.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "supervisor/child_env.h"
#include "supervisor/children.h"
#include "supervisor/launch.h"
#include "supervisor/profiles.h"
#include "supervisor/uid.h"

struct empty {
	struct launch *launch;
	struct event_base *base;
	char *path;
	bool cold; /* second try, as what stood by was lost */
	struct uid_claim uid;
	empty_fn *fn;
	void *arg;
};

static void
empty_free(struct empty *e)
{
	uid_release(&e->uid);
	free(e->path);
	free(e);
}

static void
finish(struct empty *e, int error, const char *why)
{
	empty_fn *fn = e->fn;
	void *arg = e->arg;

	empty_free(e);
	fn(error, why, arg);
}

static int launch(struct empty *e, enum layer *ret_layer);

static void
empty_on_started(struct launch *l, void *arg)
{
	(void)l;
	(void)arg;
}

static void
empty_on_refused(
    struct launch *l, enum layer layer, int error, const struct exit_facts *exit, void *arg)
{
	char why[EMPTY_WHY_MAX];
	struct empty *e = arg;

	(void)exit;
	if (launch_may_go_cold(l) && !e->cold) {
		e->cold = true;
		error = -launch(e, &layer);
		if (error == 0)
			return;
	}
	launch_explain(layer, error, why, sizeof(why));
	finish(e, error ? error : EIO, why);
}

static void
empty_on_exit(struct launch *l, const struct exit_facts *exit, void *arg)
{
	bool ok = exit->kind == EXIT_EXITED && exit->status == 0;
	char why[EMPTY_WHY_MAX];

	(void)l;
	snprintf(why, sizeof(why), "caisson-files --empty ended with %s %d",
	    exit->kind == EXIT_EXITED ? "status" : "signal", exit->status);
	finish(arg, ok ? 0 : exit->cause == ENDING_shutdown ? ECANCELED : ENOTEMPTY, why);
}

static const struct launch_handler handler = {
	.on_started = empty_on_started,
	.on_refused = empty_on_refused,
	.on_exit = empty_on_exit,
};

static int
launch(struct empty *e, enum layer *ret_layer)
{
	static const struct uid_range range = CHILD_UID_RANGE;
	static const struct conf_words none = { NULL, 0 };
	char *const argv[] = { (char *)(uintptr_t) "/libexec/caisson-files",
		(char *)(uintptr_t) "--empty", (char *)(uintptr_t) "/srv", NULL };
	const struct chamber_mount mount = {
		.source = e->path, .target = "/srv", .writable = true, .idmap = true
	};
	const int fds[] = { -1, -1, -1 };
	char **env = child_env_create(&none, false);
	struct chamber c = { .profile = profile_named("files"),
		.argv = argv,
		.env = env,
		.cwd = "/",
		.mounts = &mount,
		.nmounts = 1,
		.fds = fds,
		.nfds = countof(fds),
		.init = true,
		.die_with_parent = true,
		.cold = e->cold };
	int r = env ? 0 : -ENOMEM;

	*ret_layer = LAYER_UID;
	if (r == 0 && uid_is_root()) {
		r = e->uid.lock_fd >= 0 ? 0 : uid_claim(&range, &e->uid);
		c.uid = c.gid = e->uid.uid;
	}
	if (r == 0)
		r = launch_start(e->base, &c, &handler, e, &e->launch, ret_layer);
	child_env_destroy(env);
	return r;
}

int
empty_start(struct event_base *base, const char *path, empty_fn *fn, void *arg,
    struct empty **ret, char why[EMPTY_WHY_MAX])
{
	struct empty *e = calloc(1, sizeof(*e));
	enum layer layer = LAYER_PLAN;
	int r = -ENOMEM;

	if (e) {
		*e = (struct empty){ .base = base,
			.path = strdup(path),
			.uid = UID_CLAIM_NONE,
			.fn = fn,
			.arg = arg };
		r = e->path ? launch(e, &layer) : -ENOMEM;
	}
	if (r == 0) {
		*ret = e;
		return 0;
	}
	launch_explain(layer, -r, why, EMPTY_WHY_MAX);
	if (e)
		empty_free(e);
	return r;
}

void
empty_cancel(struct empty *e)
{
	launch_kill(e->launch, ENDING_shutdown);
}
