/* Those that wait for their first session: what the pool asks for, and what is said of them. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/stop.h"
#include "supervisor/children_private.h"
#include "supervisor/profiles.h"

struct child *
child_of_entry(const struct pool_entry *e)
{
	return (struct child *)((uintptr_t)e - offsetof(struct child, entry));
}

/* Whatever its chamber is, it depends on no session. */
static int
children_start_warm(size_t line, void *arg)
{
	struct children *ch = arg;
	struct generation *g = ch->current; /* no other's pool starts any */
	bool provider = line >= g->config->runtimes.n;
	enum layer layer = LAYER_DESCRIPTORS;
	struct child *c;
	char why[512];
	int r;

	c = child_create(ch, g, provider ? CHILD_PROVIDER : CHILD_TURN,
	    (uint32_t)(provider ? line - g->config->runtimes.n : line));
	if (!c)
		return -ENOMEM;
	c->warm = true;
	r = child_make_ends(c);
	if (r == 0)
		r = child_launch(c, &child_handler, &layer);
	if (r < 0) {
		launch_explain(layer, -r, why, sizeof(why));
		log_error("%s %s: none can wait: %s", provider ? "provider" : "runtime",
		    child_id(c), why);
		child_free(c);
		return r;
	}
	TAILQ_INSERT_TAIL(&ch->warm, c, link);
	pool_enter(g->pool, &c->entry, line);
	STOP_POINT("supervisor.warm_spawned");
	return 0;
}

static bool
children_is_fit(const struct pool_entry *e, void *arg)
{
	(void)arg;
	return launch_lives(child_of_entry(e)->launch);
}

static void
children_end_warm(struct pool_entry *e, void *arg)
{
	(void)arg;
	launch_kill(child_of_entry(e)->launch, ENDING_shutdown);
}

static const struct pool_handler pool_handler = {
	.start = children_start_warm,
	.is_fit = children_is_fit,
	.end = children_end_warm,
	.now_ms = clock_ms,
};

struct pool *
children_create_pool(struct children *ch, const struct conf_namespace *c)
{
	size_t n = c->runtimes.n + c->providers.n, i;
	unsigned *want = calloc(n + 1, sizeof(*want));
	struct pool *p;

	if (!want)
		return NULL;
	for (i = 0; i < n && ch->operation_kind == operation_kind_turn; i++)
		want[i] = i < c->runtimes.n
			      ? (unsigned)c->runtimes.v[i].warm
			      : (unsigned)c->providers.v[i - c->runtimes.n].warm;
	p = pool_create(ch->base, want, n, &pool_handler, ch);
	free(want);
	return p;
}

void
child_log_off(const struct child *c)
{
	log_error("%s %s: %d of its processes died within %d s as they started: none is started "
		  "for %d s; how they ended is above, or on record",
	    child_is_provider(c) ? "provider" : "runtime", child_id(c), START_DEATHS_MAX + 1,
	    START_WINDOW_MS / 1000, START_WINDOW_MS / 1000);
}

/* Nobody else hears of one that had no session yet. */
void
child_log_warm_exit(const struct child *c, const struct exit_facts *exit)
{
	const struct ending_desc *cause = ending_desc((enum ending)exit->cause);
	bool forbidden = exit->cause == ENDING_seccomp;

	log_warn("%s %s: one that waited for its first session has ended: %s %d%s%s%s%s",
	    child_is_provider(c) ? "provider" : "runtime", child_id(c),
	    exit->kind == EXIT_EXITED	  ? "status"
	    : exit->kind == EXIT_SIGNALED ? "signal"
					  : "unknown",
	    exit->status, cause ? ", " : "", cause ? cause->cause : "", forbidden ? " " : "",
	    forbidden ? profile_syscall_name(exit->arch, exit->syscall) : "");
}

void
children_fill(struct children *ch)
{
	pool_fill(ch->current->pool);
}

void
children_drain(struct children *ch)
{
	pool_drain(ch->current->pool);
}
