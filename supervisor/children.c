#include "supervisor/children.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/util.h"
#include "supervisor/child_env.h"
#include "supervisor/launch.h"
#include "supervisor/learn.h"
#include "supervisor/peer.h"
#include "supervisor/process.h"
#include "supervisor/profiles.h"
#include "supervisor/uid.h"

#define CHILDREN_MAX  1024 /* at once: far more than one namespace's sessions need */
#define MOUNTS_MAX    130  /* 64 of the profile's, 64 of its own, /app, the root of files */
#define CHILD_FDS_MAX 4	   /* 0, 1, 2, link */

struct child {
	struct children *owner;
	uint64_t session;
	enum child_kind kind;
	uint32_t index;
	struct launch *launch;
	struct uid_claim uid;
	int fds[CHILD_FDS_MAX]; /* the child's ends, until it is born */
	size_t nfds;
	bool unmapped;		 /* second try, without id-mapped mounts */
	bool started, input;	 /* the exec happened; its input is a pipe */
	uid_t uid_outside;
	const struct profile *profile;
	uint64_t since_ms; /* wall clock */
	TAILQ_ENTRY(child) link; /* children.list */
};

struct children {
	struct event_base *base;
	const struct conf_namespace *config;
	enum operation_kind operation_kind;
	struct learn *learn;
	const struct children_handler *handler;
	void *arg;
	TAILQ_HEAD(, child) list;
	unsigned count;
};

/* ---- what a child is --------------------------------------------------------------- */

/* A chamber, and what it borrows. */
struct draft {
	struct chamber chamber;
	struct chamber_mount mounts[MOUNTS_MAX];
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

static int
make_env(struct draft *d, const struct conf_words *own, bool has_link)
{
	struct conf_words all = { NULL, 0 };

	if (add_profile_env(&all, d->chamber.profile) && add_words(&all, own))
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

static int
draft_runtime(struct draft *d, const struct child *c)
{
	const struct conf_runtime *t = &c->owner->config->runtimes.v[c->index];
	struct chamber *h = &d->chamber;

	h->learn = c->owner->learn;
	h->profile = h->learn ? learn_profile(h->learn)
			      : conf_profile_named(c->owner->config, t->profile);
	/* Where a listener further up watches, nothing could be learned. */
	h->required = h->learn ? 1u << LAYER_LISTENER : 0;
	h->argv = t->command.v;
	h->memory_bytes = limit_of(t->memory, h->profile->memory_bytes);
	h->tmp_bytes = t->tmp;
	h->cpu_percent = limit_of(t->cpu, h->profile->cpu_percent);
	h->pids = (unsigned)t->pids;
	add_profile_mounts(d, h->profile, !c->unmapped);
	add_mounts(d, t->app, t->mounts.v, t->mounts.n, !c->unmapped);
	return make_env(d, &t->env, c->kind == CHILD_TURN);
}

static char *const files_argv[] = { (char *)(uintptr_t) "/libexec/caisson-files",
	(char *)(uintptr_t) "/srv", NULL };

static int
draft_provider(struct draft *d, const struct child *c)
{
	const struct conf_provider *p = &c->owner->config->providers.v[c->index];
	struct chamber *h = &d->chamber;

	h->profile = p->builtin == BUILTIN_FILES ? profile_named("files") :
						   conf_profile_named(c->owner->config, p->profile);
	h->argv = p->builtin == BUILTIN_FILES ? files_argv : p->command.v;
	h->memory_bytes = limit_of(p->memory, h->profile->memory_bytes);
	h->tmp_bytes = p->tmp;
	h->cpu_percent = limit_of(p->cpu, h->profile->cpu_percent);
	h->pids = (unsigned)p->pids;
	add_profile_mounts(d, h->profile, !c->unmapped);
	add_mounts(d, p->app, p->mounts.v, p->mounts.n, !c->unmapped);
	if (p->builtin == BUILTIN_FILES) {
		add_mount(d, p->root, "/srv", true, !c->unmapped);
		h->cwd = "/";
	}
	return make_env(d, &p->env, true);
}

/*
 * As root, a uid of its own.  Where the file system cannot map ids, the built-in provider
 * runs as the owner of what it serves, so that what it writes is the owner's.
 */
static int
draft_uid(struct draft *d, struct child *c)
{
	static const struct uid_range range = CHILD_UID_RANGE;
	const struct conf_provider *p;
	struct stat st;
	int r;

	if (!uid_is_root())
		return 0;
	p = c->kind == CHILD_PROVIDER ? &c->owner->config->providers.v[c->index] : NULL;
	if (c->unmapped && p && p->builtin == BUILTIN_FILES) {
		if (stat(p->root, &st) < 0)
			return -errno;
		if (st.st_uid == 0) {
			log_error("%s belongs to root and lies on a file system that cannot "
				  "map ids: give it to another user, or move it",
			    p->root);
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

/* ---- birth ------------------------------------------------------------------------- */

static const struct launch_handler child_handler;

static void
tell(const struct child *c, enum control_verb verb, enum layer layer, int error,
    const struct exit_facts *exit)
{
	struct control m = { .verb = verb,
		.kind = c->kind,
		.session = c->session,
		.index = c->index,
		.layer = layer,
		.error = error };

	if (exit)
		m.exit = *exit;
	c->owner->handler->tell(&m, NULL, 0, c->owner->arg);
}

static void
close_ends(struct child *c)
{
	size_t i;

	for (i = 0; i < c->nfds; i++) {
		util_close(&c->fds[i]);
		c->fds[i] = -1;
	}
	c->nfds = 0;
}

/* Last statement of whoever calls it: the owner may be gone afterwards. */
static void
destroy_child(struct child *c)
{
	struct children *ch = c->owner;

	TAILQ_REMOVE(&ch->list, c, link);
	ch->count--;
	close_ends(c);
	uid_release(&c->uid);
	free(c);
	if (TAILQ_EMPTY(&ch->list))
		ch->handler->on_empty(ch->arg);
}

static int
launch_child(struct child *c, enum layer *ret_layer)
{
	struct draft d = { .chamber = { .init = true, .die_with_parent = true } };
	int r;

	*ret_layer = LAYER_PLAN;
	r = c->kind == CHILD_PROVIDER ? draft_provider(&d, c) : draft_runtime(&d, c);
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
		    c->owner->base, &d.chamber, &child_handler, c, &c->launch, ret_layer);
	}
	child_env_destroy(d.env);
	return r;
}

static void
refuse_child(struct child *c, enum layer layer, int error, const struct exit_facts *exit)
{
	char why[512];

	/* A command that is not there is the caller's business, and told by its status. */
	if (layer != LAYER_EXEC) {
		launch_explain(layer, error, why, sizeof(why));
		log_error("%s", why);
	}
	tell(c, CONTROL_REFUSED, layer, error, exit);
	destroy_child(c);
}

static void
child_on_started(struct launch *l, void *arg)
{
	struct child *c = arg;

	(void)l;
	close_ends(c);
	c->started = true;
	tell(c, CONTROL_STARTED, LAYER_NONE, 0, NULL);
}

static void
child_on_refused(
    struct launch *l, enum layer layer, int error, const struct exit_facts *exit, void *arg)
{
	struct child *c = arg;

	(void)l;
	c->launch = NULL;
	if (layer == LAYER_UID && !c->unmapped && c->nfds && uid_is_root()) {
		log_info("ids cannot be mapped on this file system: trying without");
		c->unmapped = true;
		error = launch_child(c, &layer);
		if (error == 0)
			return;
		error = -error;
		exit = NULL;
	}
	refuse_child(c, layer, error, exit);
}

/* Of a runtime's, the client hears; of a provider's, only the operator can. */
static void
log_forbidden(const struct child *c, const struct exit_facts *exit)
{
	const struct conf_namespace *config = c->owner->config;

	if (exit->cause != ENDING_seccomp)
		return;
	if (c->kind == CHILD_PROVIDER)
		log_warn("provider %s: ended, as its profile forbids the system call %s",
		    config->providers.v[c->index].id,
		    profile_syscall_name(exit->arch, exit->syscall));
	else
		log_info("runtime %s: ended, as its profile forbids the system call %s",
		    config->runtimes.v[c->index].id,
		    profile_syscall_name(exit->arch, exit->syscall));
}

static void
child_on_exit(struct launch *l, const struct exit_facts *exit, void *arg)
{
	struct child *c = arg;

	(void)l;
	log_forbidden(c, exit);
	learn_on_exit(c->owner->learn, exit);
	STOP_POINT("supervisor.before_exit");
	tell(c, CONTROL_EXIT, LAYER_NONE, 0, exit);
	STOP_POINT("supervisor.after_exit");
	destroy_child(c);
}

static const struct launch_handler child_handler = {
	.on_started = child_on_started,
	.on_refused = child_on_refused,
	.on_exit = child_on_exit,
};

/* ---- links and pipes --------------------------------------------------------------- */

/* The broker's ends of a child, in the order of CONTROL_LINK. */
struct ends {
	int fds[CONTROL_FDS_MAX];
	unsigned n;
};

/* One pipe; the broker's end is non-blocking, as the broker cannot make it so. */
static int
make_pipe(struct child *c, size_t fd, struct ends *ends, bool broker_writes)
{
	int pair[2], ours, theirs;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	ours = broker_writes ? pair[1] : pair[0];
	theirs = broker_writes ? pair[0] : pair[1];
	c->fds[fd] = theirs;
	ends->fds[ends->n++] = ours;
	return fcntl(ours, F_SETFL, broker_writes ? O_WRONLY | O_NONBLOCK : O_NONBLOCK) < 0
		   ? -errno
		   : 0;
}

static int
make_link(struct child *c, struct ends *ends)
{
	int r =
	    peer_pair(SOCK_STREAM, true, false, &ends->fds[ends->n], &c->fds[RUNTIME_FD_LINK]);

	if (r < 0)
		return r;
	ends->n++;
	return 0;
}

static int
make_ends(struct child *c, bool with_input, struct ends *ends)
{
	int r = 0;

	c->nfds = c->kind == CHILD_COMMAND ? 3 : 4;
	if (c->kind != CHILD_COMMAND)
		r = make_link(c, ends);
	else if (with_input)
		r = make_pipe(c, STDIN_FILENO, ends, true);
	if (r == 0 && c->kind != CHILD_PROVIDER)
		r = make_pipe(c, STDOUT_FILENO, ends, false);
	return r == 0 ? make_pipe(c, STDERR_FILENO, ends, false) : r;
}

/* ---- orders ------------------------------------------------------------------------ */

static struct child *
find_child(const struct children *ch, const struct control *c)
{
	struct child *child;

	TAILQ_FOREACH(child, &ch->list, link)
	if (child->session == c->session && child->kind == c->kind && child->index == c->index)
		return child;
	return NULL;
}

/* May a sound broker name such a child? */
static bool
is_known(const struct children *ch, const struct control *c)
{
	switch (c->kind) {
	case CHILD_TURN:
		return ch->operation_kind == operation_kind_turn &&
		       c->index < ch->config->runtimes.n;
	case CHILD_COMMAND:
		return ch->operation_kind == operation_kind_command &&
		       c->index < ch->config->runtimes.n;
	case CHILD_PROVIDER: return c->index < ch->config->providers.n;
	default: return false;
	}
}

static int
start_child(struct child *c, bool with_input, enum layer *ret_layer)
{
	struct control link = {
		.verb = CONTROL_LINK, .kind = c->kind, .session = c->session, .index = c->index
	};
	struct ends ends = { .n = 0 };
	unsigned i;
	int r = make_ends(c, with_input, &ends);

	if (r < 0) {
		for (i = 0; i < ends.n; i++)
			close(ends.fds[i]);
		*ret_layer = LAYER_DESCRIPTORS;
		return r;
	}
	STOP_POINT("supervisor.before_link");
	c->owner->handler->tell(&link, ends.fds, ends.n, c->owner->arg);
	STOP_POINT("supervisor.after_link");
	r = launch_child(c, ret_layer);
	STOP_POINT("supervisor.after_spawn");
	return r;
}

int
children_spawn(struct children *ch, const struct control *c)
{
	enum layer layer = LAYER_PLAN;
	struct child *child;
	int r;

	if (!is_known(ch, c) || find_child(ch, c) || ch->count >= CHILDREN_MAX ||
	    (c->flags & ~CONTROL_WITH_INPUT) || (c->flags && c->kind != CHILD_COMMAND))
		return -EPROTO;
	child = calloc(1, sizeof(*child));
	if (!child) {
		struct control m = *c;

		m.verb = CONTROL_REFUSED;
		m.layer = LAYER_PLAN;
		m.error = ENOMEM;
		ch->handler->tell(&m, NULL, 0, ch->arg);
		return 0;
	}
	*child = (struct child){ .owner = ch,
		.session = c->session,
		.kind = c->kind,
		.index = c->index,
		.input = c->flags & CONTROL_WITH_INPUT,
		.since_ms = clock_wall_ms(),
		.uid = UID_CLAIM_NONE,
		.fds = { -1, -1, -1, -1 } };
	TAILQ_INSERT_TAIL(&ch->list, child, link);
	ch->count++;
	r = start_child(child, c->flags & CONTROL_WITH_INPUT, &layer);
	if (r < 0)
		refuse_child(child, layer, -r, NULL);
	return 0;
}

int
children_kill(struct children *ch, const struct control *c)
{
	struct child *child;

	if (!is_known(ch, c) || !ending_desc(c->cause))
		return -EPROTO;
	child = find_child(ch, c);
	if (child && child->launch)
		launch_kill(child->launch, (enum ending)c->cause);
	return 0;
}

int
children_signal(struct children *ch, const struct control *c)
{
	struct child *child;

	if (c->error < 0 || !control_may_signal((uint64_t)c->error) ||
	    c->kind != CHILD_COMMAND || !is_known(ch, c))
		return -EPROTO;
	child = find_child(ch, c);
	if (child && child->launch)
		launch_signal(child->launch, c->error);
	return 0;
}

/* ---- all of them ------------------------------------------------------------------- */

struct children *
children_create(struct event_base *base, const struct conf_namespace *c,
    enum operation_kind kind, struct learn *learn, const struct children_handler *handler,
    void *arg)
{
	struct children *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->base = base;
	ch->config = c;
	ch->operation_kind = kind;
	ch->learn = learn;
	ch->handler = handler;
	ch->arg = arg;
	TAILQ_INIT(&ch->list);
	return ch;
}

void
children_destroy(struct children *ch)
{
	assert(!ch || TAILQ_EMPTY(&ch->list));
	free(ch);
}

void
children_kill_all(struct children *ch, enum ending cause)
{
	struct child *c, *next;

	TAILQ_FOREACH_SAFE(c, &ch->list, link, next)
	launch_kill(c->launch, cause);
}

void
children_each(const struct children *ch, children_fn *fn, void *arg)
{
	const struct child *c;

	TAILQ_FOREACH(c, &ch->list, link)
	{
		bool provider = c->kind == CHILD_PROVIDER;
		struct process p = {
			.role = provider ? process_role_provider : process_role_worker,
			.state = c->started ? process_state_running : process_state_starting,
			.has_session = true,
			.session = c->session,
			.id = provider ? ch->config->providers.v[c->index].id
				       : ch->config->runtimes.v[c->index].id,
			.launch = c->launch,
			.uid = c->uid_outside,
			.profile = c->profile,
			.handed = process_handed(c->kind, c->input),
			.since_ms = c->since_ms,
		};

		fn(&p, arg);
	}
}

bool
children_empty(const struct children *ch)
{
	return TAILQ_EMPTY(&ch->list);
}
