#include "supervisor/children.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "supervisor/children_private.h"
#include "supervisor/learn.h"
#include "supervisor/process.h"
#include "supervisor/profiles.h"

#define CHILDREN_MAX  16384 /* at once: four for each session that may be open */
#define START_LIFE_MS 1000 /* who dies of itself before has died at its start */

/* ---- who there is ------------------------------------------------------------------ */

struct child *
child_create(
    struct children *ch, struct generation *by, enum child_kind kind, uint32_t index)
{
	struct child *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	by->children++;
	*c = (struct child){ .owner = ch,
		.by = by,
		.kind = kind,
		.index = index,
		.since_ms = clock_wall_ms(),
		.uid = UID_CLAIM_NONE,
		.fds = { -1, -1, -1, -1 } };
	return c;
}

void
child_free(struct child *c)
{
	child_close_fds(c);
	child_close_ends(c);
	uid_release(&c->uid);
	if (c->workspace)
		workspaces_release(c->owner->workspaces, c->workspace);
	c->by->children--;
	generation_release(c->owner, c->by);
	free(c);
}

static void
join_session(struct child *c, const struct control *order)
{
	c->session = order->session;
	c->ordered = order->index;
	c->warm = false;
	TAILQ_INSERT_TAIL(&c->owner->list, c, link);
	c->owner->count++;
}

/* Last statement of whoever calls it: the owner may be gone afterwards. */
static void
destroy_child(struct child *c)
{
	struct children *ch = c->owner;

	TAILQ_REMOVE(c->warm ? &ch->warm : &ch->list, c, link);
	ch->count -= !c->warm;
	child_free(c);
	if (TAILQ_EMPTY(&ch->list))
		ch->handler->on_empty(ch->arg);
}

bool
child_is_shared(const struct child *c)
{
	return c->kind == CHILD_PROVIDER &&
	       c->by->config->providers.v[c->index].scope == PROVIDER_SHARED;
}

/* A session has one worker, and one that is shared a number of its own: an index, which may be
 * that of a later configuration, is needed for nothing but a session's own providers. */
static struct child *
find_child(const struct children *ch, const struct control *c)
{
	struct child *child;

	TAILQ_FOREACH (child, &ch->list, link)
		if (child->session == c->session && child->kind == c->kind &&
		    (child->ordered == c->index || child->kind != CHILD_PROVIDER ||
			child_is_shared(child)))
			return child;
	return NULL;
}

bool
child_is_provider(const struct child *c)
{
	return c->kind == CHILD_PROVIDER || c->kind == CHILD_WORKSPACE;
}

const char *
child_id(const struct child *c)
{
	const struct conf_namespace *config = c->by->config;

	return c->kind == CHILD_WORKSPACE  ? "workspace"
	       : c->kind == CHILD_PROVIDER ? config->providers.v[c->index].id
					   : config->runtimes.v[c->index].id;
}

/* In the pool: runtimes first. */
size_t
children_line(const struct generation *g, enum child_kind kind, uint32_t index)
{
	return kind == CHILD_PROVIDER ? g->config->runtimes.n + index : index;
}

/* ---- what the broker is told ------------------------------------------------------- */

static void
tell(const struct child *c, enum control_verb verb, enum layer layer, int error,
    const struct exit_facts *exit)
{
	struct control m = { .verb = verb,
		.kind = c->kind,
		.session = c->session,
		.index = c->ordered,
		.layer = layer,
		.error = error };

	if (exit)
		m.exit = *exit;
	c->owner->handler->tell(&m, NULL, 0, c->owner->arg);
}

static void
tell_link(struct child *c)
{
	struct control m = {
		.verb = CONTROL_LINK, .kind = c->kind, .session = c->session, .index = c->ordered
	};

	c->owner->handler->tell(&m, c->ends, c->nends, c->owner->arg);
	c->nends = 0; /* taken */
}

/* There is no child. */
static void
refuse_order(
    struct children *ch, const struct control *c, enum layer layer, int error, uint64_t count)
{
	struct control m = { .verb = CONTROL_REFUSED,
		.kind = c->kind,
		.session = c->session,
		.index = c->index,
		.layer = layer,
		.error = error,
		.count = count };

	ch->handler->tell(&m, NULL, 0, ch->arg);
}

/* ---- deaths ------------------------------------------------------------------------ */

/* Of one that is made again and again, as nobody's session ends with it or begins with it.  How
 * the built-in runtime ends is how a client's command ended. */
static bool
counts_deaths(const struct generation *g, uint32_t kind, uint32_t index)
{
	return (kind == CHILD_TURN &&
		   g->config->runtimes.v[index].builtin != RUNTIME_COMMAND) ||
	       (kind == CHILD_PROVIDER &&
		   g->config->providers.v[index].scope == PROVIDER_SHARED);
}

/* Of itself: nobody ordered it, and it was no success. */
static bool
is_own_fault(const struct exit_facts *exit)
{
	if (exit->kind == EXIT_EXITED && exit->status == 0)
		return false;
	return exit->cause == ENDING_none || exit->cause == ENDING_seccomp ||
	       exit->cause == ENDING_oom || exit->cause == ENDING_limit;
}

/* Of a runtime's, the client hears; of a provider's, only the operator can. */
static void
log_forbidden(const struct child *c, const struct exit_facts *exit)
{
	if (exit->cause != ENDING_seccomp)
		return;
	if (child_is_provider(c))
		log_warn("provider %s: ended, as its profile forbids the system call %s",
		    child_id(c), profile_syscall_name(exit->arch, exit->syscall));
	else
		log_info("runtime %s: ended, as its profile forbids the system call %s",
		    child_id(c), profile_syscall_name(exit->arch, exit->syscall));
}

/* One without a session. */
static void
lose_warm(struct child *c, bool ran)
{
	if (pool_lost(c->by->pool, &c->entry, ran))
		child_log_off(c);
	destroy_child(c);
}

static void
note_exit(const struct child *c, const struct exit_facts *exit)
{
	if (counts_deaths(c->by, c->kind, c->index) && is_own_fault(exit) &&
	    clock_ms() - c->started_at_ms < START_LIFE_MS &&
	    pool_died(c->by->pool, children_line(c->by, c->kind, c->index)))
		child_log_off(c);
}

static void
child_on_exit(struct launch *l, const struct exit_facts *exit, void *arg)
{
	struct child *c = arg;

	(void)l;
	if (c->warm) {
		if (c->entry.waits)
			child_log_warm_exit(c, exit);
		lose_warm(c, true);
		return;
	}
	log_forbidden(c, exit);
	note_exit(c, exit);
	learn_on_exit(c->owner->learn, exit);
	STOP_POINT("supervisor.before_exit");
	tell(c, CONTROL_EXIT, LAYER_NONE, 0, exit);
	STOP_POINT("supervisor.after_exit");
	destroy_child(c);
}

static void
refuse_child(struct child *c, enum layer layer, int error, const struct exit_facts *exit)
{
	bool waits = c->warm && c->entry.waits;
	bool ordered = layer == LAYER_HANDSHAKE && error == ECANCELED;
	char why[512];

	/*
	 * A command that is not there is the caller's business, and told by its status; what
	 * was killed on its way, as its session had ended, is nobody's.
	 */
	if (!ordered && (c->warm ? waits : layer != LAYER_EXEC)) {
		launch_explain(layer, error, why, sizeof(why));
		log_error("%s", why);
	}
	if (c->warm) {
		lose_warm(c, false);
		return;
	}
	tell(c, CONTROL_REFUSED, layer, error, exit);
	destroy_child(c);
}

/* ---- births ------------------------------------------------------------------------ */

static void
child_on_started(struct launch *l, void *arg)
{
	struct child *c = arg;

	(void)l;
	child_close_fds(c);
	c->started = true;
	c->started_at_ms = clock_ms();
	if (!c->warm)
		tell(c, CONTROL_STARTED, LAYER_NONE, 0, NULL);
}

/* May a launch that is made otherwise succeed?  Each way is tried once. */
static bool
try_otherwise(struct child *c, const struct launch *l, enum layer layer)
{
	if ((c->warm && !c->entry.waits) || c->nfds == 0)
		return false;
	if (launch_may_go_cold(l) && !c->cold) {
		log_info("a chamber that stood by died as it was taken: making another");
		c->cold = true;
		return true;
	}
	if (layer == LAYER_UID && !c->unmapped && uid_is_root()) {
		log_info("ids cannot be mapped on this file system: trying without");
		c->unmapped = true;
		return true;
	}
	return false;
}

static void
child_on_refused(
    struct launch *l, enum layer layer, int error, const struct exit_facts *exit, void *arg)
{
	struct child *c = arg;

	c->launch = NULL;
	if (try_otherwise(c, l, layer)) {
		error = child_launch(c, &child_handler, &layer);
		if (error == 0)
			return;
		error = -error;
		exit = NULL;
	}
	refuse_child(c, layer, error, exit);
}

const struct launch_handler child_handler = {
	.on_started = child_on_started,
	.on_refused = child_on_refused,
	.on_exit = child_on_exit,
};

/* ---- orders ------------------------------------------------------------------------ */

static bool
is_known(const struct children *ch, const struct conf_namespace *config,
    const struct control *c)
{
	switch (c->kind) {
	case CHILD_TURN:
		return ch->operation_kind == operation_kind_turn &&
		       c->index < config->runtimes.n;
	case CHILD_COMMAND:
		return ch->operation_kind == operation_kind_command &&
		       c->index < config->runtimes.n;
	case CHILD_PROVIDER: return c->index < config->providers.n;
	case CHILD_WORKSPACE: return c->index == 0;
	default: return false;
	}
}

/* May a sound broker name such a child?  Then by which configuration, else NULL. */
static struct generation *
known_by(const struct children *ch, const struct control *c)
{
	struct generation *g = generation_find(ch, c->generation);

	return g && is_known(ch, g->config, c) ? g : NULL;
}

/* Is this a child that shows its session's workspace? */
static bool
shows(const struct conf_namespace *config, const struct control *c)
{
	switch (c->kind) {
	case CHILD_TURN: return config->runtimes.v[c->index].workspace;
	case CHILD_PROVIDER: return config->providers.v[c->index].workspace;
	default: return c->kind == CHILD_WORKSPACE;
	}
}

/* It is a client's command, to which a client sends signals. */
static bool
runs_command(const struct conf_namespace *config, const struct control *c)
{
	return c->kind == CHILD_COMMAND ||
	       (c->kind == CHILD_TURN &&
		   config->runtimes.v[c->index].builtin == RUNTIME_COMMAND);
}

/* The kinds of which some may wait for their first session. */
static bool
may_wait(const struct control *c)
{
	return c->kind == CHILD_TURN || c->kind == CHILD_PROVIDER;
}

/* One that waits becomes this session's; false if none does. */
static bool
hand_out(struct children *ch, const struct generation *g, const struct control *order)
{
	struct pool_entry *e =
	    pool_take(g->pool, children_line(g, (enum child_kind)order->kind, order->index));
	struct child *c;

	if (!e)
		return false;
	c = child_of_entry(e);
	STOP_POINT("supervisor.before_handout");
	TAILQ_REMOVE(&ch->warm, c, link);
	join_session(c, order);
	tell_link(c);
	STOP_POINT("supervisor.handout_linked");
	if (c->started)
		tell(c, CONTROL_STARTED, LAYER_NONE, 0, NULL);
	STOP_POINT("supervisor.after_handout");
	return true;
}

static int
start_cold(struct child *c, enum layer *ret_layer)
{
	int r = child_make_ends(c);

	*ret_layer = LAYER_DESCRIPTORS;
	if (r < 0)
		return r;
	STOP_POINT("supervisor.before_link");
	tell_link(c);
	STOP_POINT("supervisor.after_link");
	r = child_launch(c, &child_handler, ret_layer);
	STOP_POINT("supervisor.after_spawn");
	return r;
}

static bool
is_sound(const struct children *ch, const struct control *c)
{
	return !find_child(ch, c) && ch->count < CHILDREN_MAX &&
	       !(c->flags & ~CONTROL_WITH_INPUT) && (!c->flags || c->kind == CHILD_COMMAND) &&
	       (c->kind != CHILD_WORKSPACE || c->workspace != 0);
}

/* Refuses what the configuration, or what became of those before it, lets nobody make. */
static bool
is_refused(struct children *ch, const struct generation *g, const struct control *c)
{
	unsigned deaths = 0;

	if (counts_deaths(g, c->kind, c->index))
		deaths = pool_refuses(
		    g->pool, children_line(g, (enum child_kind)c->kind, c->index));
	if (deaths > 0)
		refuse_order(ch, c, LAYER_DEATHS, EAGAIN, deaths);
	else if (shows(g->config, c) && c->workspace == 0)
		refuse_order(ch, c, LAYER_SOURCES, ENOENT, 0);
	else
		return false;
	return true;
}

static void
spawn_cold(struct child *child, const struct control *c)
{
	enum layer layer;
	int r;

	child->input = c->flags & CONTROL_WITH_INPUT;
	join_session(child, c);
	r = start_cold(child, &layer);
	if (r < 0)
		refuse_child(child, layer, -r, NULL);
}

int
children_spawn(struct children *ch, const struct control *c)
{
	struct generation *g = known_by(ch, c);
	struct child *child;

	if (!g || !is_sound(ch, c))
		return -EPROTO;
	if (is_refused(ch, g, c) || (may_wait(c) && hand_out(ch, g, c)))
		return 0;
	child = child_create(ch, g, (enum child_kind)c->kind, c->index);
	if (!child) {
		refuse_order(ch, c, LAYER_PLAN, ENOMEM, 0);
		return 0;
	}
	if (shows(g->config, c)) {
		if (!ch->workspaces || !workspaces_hold(ch->workspaces, c->workspace)) {
			child_free(child);
			return -EPROTO;
		}
		child->workspace = c->workspace;
	}
	spawn_cold(child, c);
	return 0;
}

int
children_kill(struct children *ch, const struct control *c)
{
	struct child *child;

	if (!known_by(ch, c) || !ending_desc(c->cause))
		return -EPROTO;
	child = find_child(ch, c);
	if (child && child->launch)
		launch_kill(child->launch, (enum ending)c->cause);
	return 0;
}

int
children_signal(struct children *ch, const struct control *c)
{
	struct generation *g = known_by(ch, c);
	struct child *child;

	if (c->error < 0 || !control_may_signal((uint64_t)c->error) || !g ||
	    !runs_command(g->config, c))
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
	ch->operation_kind = kind;
	ch->learn = learn;
	ch->handler = handler;
	ch->arg = arg;
	TAILQ_INIT(&ch->list);
	TAILQ_INIT(&ch->warm);
	TAILQ_INIT(&ch->generations);
	ch->current = generation_create(ch, 0, c);
	if (!ch->current) {
		free(ch);
		errno = ENOMEM;
		return NULL;
	}
	return ch;
}

void
children_show(struct children *ch, struct workspaces *w)
{
	ch->workspaces = w;
}

void
children_destroy(struct children *ch)
{
	struct conf_namespace *offered;
	struct generation *g;

	if (!ch)
		return;
	assert(children_empty(ch));
	offered = children_config_drop(ch);
	if (offered)
		conf_finish(offered);
	free(offered);
	while ((g = TAILQ_FIRST(&ch->generations)))
		generation_destroy(ch, g);
	free(ch);
}

void
children_kill_all(struct children *ch, enum ending cause)
{
	struct child *c, *next;

	TAILQ_FOREACH_SAFE(c, &ch->list, link, next)
	launch_kill(c->launch, cause);
}

static void
tell_of(const struct child *c, children_fn *fn, void *arg)
{
	struct process p = {
		.role = child_is_provider(c) ? process_role_provider : process_role_worker,
		.state = !c->started ? process_state_starting
			 : c->warm   ? process_state_warm
				     : process_state_running,
		.has_session = !c->warm,
		.session = c->session,
		.id = child_id(c),
		.launch = c->launch,
		.uid = c->uid_outside,
		.profile = c->profile,
		.handed = process_handed(c->kind, c->input),
		.since_ms = c->since_ms,
	};

	fn(&p, arg);
}

void
children_each(const struct children *ch, children_fn *fn, void *arg)
{
	const struct child *c;

	TAILQ_FOREACH (c, &ch->list, link)
		tell_of(c, fn, arg);
	TAILQ_FOREACH (c, &ch->warm, link)
		tell_of(c, fn, arg);
}

bool
children_idle(const struct children *ch)
{
	return TAILQ_EMPTY(&ch->list);
}

bool
children_empty(const struct children *ch)
{
	return TAILQ_EMPTY(&ch->list) && TAILQ_EMPTY(&ch->warm);
}
