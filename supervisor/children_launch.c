/* What a child is: its chamber, and its ends of links and pipes. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/child.h"
#include "common/log.h"
#include "common/util.h"
#include "supervisor/child_env.h"
#include "supervisor/children_private.h"
#include "supervisor/launch_plan.h"
#include "supervisor/learn.h"
#include "supervisor/peer.h"
#include "supervisor/profiles.h"

#define MOUNTS_MAX 132 /* 64 of the profile's, 64 of its own, /app, a workspace, a program */
#define COMMAND	   "caisson-command" /* the built-in runtime */

/* ---- its chamber ------------------------------------------------------------------- */

/* A chamber, and what it borrows. */
struct draft {
	struct chamber chamber;
	struct chamber_mount mounts[MOUNTS_MAX];
	char workspace[WORKSPACE_PATH_MAX]; /* "": none is shown */
	char program[PATH_MAX];
	char **env;
};

static void
add_mount(struct draft *d, const char *source, const char *target, bool writable, bool idmap)
{
	d->mounts[d->chamber.nmounts++] = (struct chamber_mount){
		.source = source, .target = target, .writable = writable, .idmap = idmap
	};
}

static void
add_mounts(struct draft *d, const char *app, const struct conf_mount *v, size_t n, bool idmap)
{
	size_t i;

	d->chamber.cwd = app ? "/app" : "/tmp";
	if (app)
		add_mount(d, app, "/app", false, idmap);
	for (i = 0; i < n; i++)
		add_mount(d, v[i].source, v[i].target, v[i].writable, idmap);
}

/* The base's first, as what is further down wins. */
static void
add_profile_mounts(struct draft *d, const struct profile *p, bool idmap)
{
	size_t i;

	if (p->base)
		add_profile_mounts(d, p->base, idmap);
	for (i = 0; i < p->nmounts; i++)
		add_mount(d, p->mounts[i].source, p->mounts[i].target, p->mounts[i].writable,
		    idmap);
}

static bool
add_words(struct conf_words *w, const struct conf_words *more)
{
	size_t i;

	for (i = 0; more && i < more->n; i++)
		if (conf_words_add(w, more->v[i], strlen(more->v[i])) < 0)
			return false;
	return true;
}

static bool
add_profile_env(struct conf_words *w, const struct profile *p)
{
	return (!p->base || add_profile_env(w, p->base)) && add_words(w, p->env);
}

/* `first`, which may be NULL, is what counts if nobody says anything else. */
static int
make_env(struct draft *d, const char *first, const struct conf_words *own, bool has_link)
{
	struct conf_words all = { NULL, 0 };

	if ((!first || conf_words_add(&all, first, strlen(first)) == 0) &&
	    add_profile_env(&all, d->chamber.profile) && add_words(&all, own))
		d->env = child_env_create(&all, has_link);
	conf_words_finish(&all);
	return d->env ? 0 : -ENOMEM;
}

/* What is said of a child counts before what its profile says; UINT64_MAX there is nothing. */
static uint64_t
limit_of(uint64_t own, uint64_t profile)
{
	return own ? own : profile == UINT64_MAX ? 0 : profile;
}

/* The one that comes with us is no part of the root of a runtime's chamber. */
static int
draft_command(struct draft *d)
{
	static char *const argv[] = { (char *)(uintptr_t) "/libexec/" COMMAND, NULL };
	int n = snprintf(
	    d->program, sizeof(d->program), "%s/" COMMAND, launch_libexec());

	if (n >= (int)sizeof(d->program))
		return -ENAMETOOLONG;
	d->chamber.argv = argv;
	add_mount(d, d->program, argv[0], false, false);
	return 0;
}

static int
draft_runtime(struct draft *d, const struct child *c)
{
	const struct conf_runtime *t = &c->by->config->runtimes.v[c->index];
	bool builtin = t->builtin == RUNTIME_COMMAND;
	struct chamber *h = &d->chamber;
	int r;

	h->learn = c->owner->learn;
	h->profile = h->learn ? learn_profile(h->learn)
			      : conf_profile_named(c->by->config, t->profile);
	/* Where a listener further up watches, nothing could be learned. */
	h->required = h->learn ? 1u << LAYER_LISTENER : 0;
	h->argv = t->command.v;
	h->memory_bytes = limit_of(t->memory, h->profile->memory_bytes);
	h->tmp_bytes = t->tmp;
	h->cpu_percent = limit_of(t->cpu, h->profile->cpu_percent);
	h->pids = (unsigned)t->pids;
	add_profile_mounts(d, h->profile, !c->unmapped);
	add_mounts(d, t->app, t->mounts.v, t->mounts.n, !c->unmapped);
	if (c->workspace) {
		add_mount(d, d->workspace, WORKSPACE_TARGET, true, !c->unmapped);
		d->mounts[h->nmounts - 1].executable = t->workspace_execute;
		h->cwd = t->app ? h->cwd : WORKSPACE_TARGET;
	}
	if (builtin && (r = draft_command(d)) < 0)
		return r;
	/* A command does not learn of the link that it came by. */
	return make_env(d, builtin ? "HOME=" WORKSPACE_TARGET : NULL, &t->env,
	    c->kind == CHILD_TURN && !builtin);
}

static char *const files_argv[] = { (char *)(uintptr_t) "/libexec/caisson-files",
	(char *)(uintptr_t) "/srv", NULL };

static int
draft_provider(struct draft *d, const struct child *c)
{
	const struct conf_provider *p = &c->by->config->providers.v[c->index];
	struct chamber *h = &d->chamber;

	h->profile = p->builtin == BUILTIN_FILES ? profile_named("files") :
						   conf_profile_named(c->by->config, p->profile);
	h->argv = p->builtin == BUILTIN_FILES ? files_argv : p->command.v;
	h->memory_bytes = limit_of(p->memory, h->profile->memory_bytes);
	h->tmp_bytes = p->tmp;
	h->cpu_percent = limit_of(p->cpu, h->profile->cpu_percent);
	h->pids = (unsigned)p->pids;
	add_profile_mounts(d, h->profile, !c->unmapped);
	add_mounts(d, p->app, p->mounts.v, p->mounts.n, !c->unmapped);
	if (p->builtin == BUILTIN_FILES) {
		add_mount(d, p->workspace ? d->workspace : p->root, "/srv", true, !c->unmapped);
		h->cwd = "/";
	}
	return make_env(d, NULL, &p->env, true);
}

/* The files provider, with what it does for the session's clients instead of its tools. */
static int
draft_workspace(struct draft *d, const struct child *c)
{
	static char *const argv[] = { (char *)(uintptr_t) "/libexec/caisson-files",
		(char *)(uintptr_t) "--workspace", (char *)(uintptr_t) "/srv", NULL };
	static const struct conf_words none = { NULL, 0 };
	struct chamber *h = &d->chamber;

	h->profile = profile_named("files");
	h->argv = argv;
	h->cwd = "/";
	add_mount(d, d->workspace, "/srv", true, !c->unmapped);
	return make_env(d, NULL, &none, true);
}

static int
draft_chamber(struct draft *d, const struct child *c)
{
	int r = 0;

	if (c->workspace)
		r = workspaces_path(c->owner->workspaces, c->workspace, d->workspace);
	if (r < 0)
		return r;
	return c->kind == CHILD_WORKSPACE  ? draft_workspace(d, c)
	       : c->kind == CHILD_PROVIDER ? draft_provider(d, c)
					   : draft_runtime(d, c);
}

/* What it serves, or shows, so that what it writes is its owner's; NULL: nothing. */
static const char *
served_by(const struct draft *d, const struct child *c)
{
	const struct conf_provider *p;

	if (c->workspace)
		return d->workspace;
	if (c->kind != CHILD_PROVIDER)
		return NULL;
	p = &c->by->config->providers.v[c->index];
	return p->builtin == BUILTIN_FILES ? p->root : NULL;
}

/*
 * As root, a uid of its own.  Where the file system cannot map ids, the built-in provider
 * runs as the owner of what it serves, and what shows a workspace as the owner of that.
 */
static int
draft_uid(struct draft *d, struct child *c)
{
	static const struct uid_range range = CHILD_UID_RANGE;
	const char *root;
	struct stat st;
	int r;

	if (!uid_is_root())
		return 0;
	root = c->unmapped ? served_by(d, c) : NULL;
	if (root) {
		if (stat(root, &st) < 0)
			return -errno;
		if (st.st_uid == 0) {
			log_error("%s belongs to root and lies on a file system that cannot "
				  "map ids: give it to another user, or move it",
			    root);
			return -EPERM;
		}
		d->chamber.uid = st.st_uid;
		d->chamber.gid = st.st_gid;
		return 0;
	}
	if (c->uid.lock_fd < 0 && (r = uid_claim(&range, &c->uid)) < 0)
		return r;
	d->chamber.uid = c->uid.uid;
	d->chamber.gid = c->uid.uid;
	return 0;
}

int
child_launch(struct child *c, const struct launch_handler *handler, enum layer *ret_layer)
{
	struct draft d = {
		.chamber = { .init = true, .die_with_parent = true, .cold = c->cold }
	};
	int r;

	*ret_layer = LAYER_PLAN;
	r = draft_chamber(&d, c);
	if (r == 0) {
		*ret_layer = LAYER_UID;
		r = draft_uid(&d, c);
	}
	if (r == 0) {
		c->uid_outside = uid_is_root() ? d.chamber.uid : geteuid();
		c->profile = d.chamber.profile;
		d.chamber.env = d.env;
		d.chamber.mounts = d.mounts;
		d.chamber.fds = c->fds;
		d.chamber.nfds = c->nfds;
		r = launch_start(
		    c->owner->base, &d.chamber, handler, c, &c->launch, ret_layer);
	}
	child_env_destroy(d.env);
	return r;
}

/* ---- links and pipes --------------------------------------------------------------- */

static void
close_all(int *fds, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		util_close(&fds[i]);
		fds[i] = -1;
	}
}

void
child_close_fds(struct child *c)
{
	close_all(c->fds, c->nfds);
	c->nfds = 0;
}

void
child_close_ends(struct child *c)
{
	close_all(c->ends, c->nends);
	c->nends = 0;
}

/* One pipe; the broker's end is non-blocking, as the broker cannot make it so. */
static int
make_pipe(struct child *c, size_t fd, bool broker_writes)
{
	int pair[2], ours, theirs;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	ours = broker_writes ? pair[1] : pair[0];
	theirs = broker_writes ? pair[0] : pair[1];
	c->fds[fd] = theirs;
	c->ends[c->nends++] = ours;
	return fcntl(ours, F_SETFL, broker_writes ? O_WRONLY | O_NONBLOCK : O_NONBLOCK) < 0
		   ? -errno
		   : 0;
}

static int
make_link(struct child *c)
{
	int r = peer_pair(
	    SOCK_STREAM, true, false, &c->ends[c->nends], &c->fds[RUNTIME_FD_LINK]);

	if (r < 0)
		return r;
	c->nends++;
	return 0;
}

int
child_make_ends(struct child *c)
{
	int r = 0;

	c->nfds = c->kind == CHILD_COMMAND ? 3 : 4;
	if (c->kind != CHILD_COMMAND)
		r = make_link(c);
	else if (c->input)
		r = make_pipe(c, STDIN_FILENO, true);
	if (r == 0 && !child_is_provider(c))
		r = make_pipe(c, STDOUT_FILENO, false);
	if (r == 0)
		r = make_pipe(c, STDERR_FILENO, false);
	if (r < 0) {
		child_close_fds(c);
		child_close_ends(c);
	}
	return r;
}
