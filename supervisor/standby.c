#include "supervisor/standby.h"

#include <errno.h>
#include <string.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"
#include "supervisor/ground.h"
#include "supervisor/launch_private.h"

#define FILL_MS	   5 /* after one has begun to run: its first steps come before */
#define UNUSED_MS  60000
#define DEATHS_MAX 3 /* in a row, of those that waited */

/* One kind. */
struct slot {
	struct launch_kind kind; /* root_id 0: the slot is free */
	uint64_t used_at_ms; /* monotonic */
	uint64_t fill_at_ms; /* 0: not before the next use */
	uint64_t since_ms; /* wall clock */
	struct launch *launch; /* NULL: none waits */
};

static struct {
	struct event_base *base; /* NULL: closed */
	struct event *timer;
	struct slot slots[STANDBY_KINDS_MAX];
	unsigned n;
	unsigned deaths; /* since the last that was used */
	LIST_HEAD(, launch) ending;
} all;

static void standby_arm(void);

/* ---- deaths ---- */

static struct slot *
slot_of(const struct launch *l)
{
	for (struct slot *s = all.slots; s < all.slots + all.n; s++)
		if (s->launch == l)
			return s;
	return NULL;
}

static void
turn_off(void)
{
	log_warn("%d chambers in a row died while they stood by: none does any more; launches "
		 "take longer, and the reasons are in the log at level debug",
	    DEATHS_MAX);
	standby_renew(0);
}

static void
lose(struct slot *s, const char *why)
{
	log_debug("a chamber that stood by is gone: %s", why);
	s->launch = NULL;
	s->fill_at_ms = 0;
	if (++all.deaths >= DEATHS_MAX)
		turn_off();
}

static void
standby_on_started(struct launch *l, void *arg)
{
	(void)l; /* cannot be: nobody gave it an order */
	(void)arg;
}

static void
standby_on_refused(
    struct launch *l, enum layer layer, int error, const struct exit_facts *exit, void *arg)
{
	struct slot *s = slot_of(l);
	char why[512];

	(void)exit;
	(void)arg;
	if (s == NULL) { /* on our order */
		LIST_REMOVE(l, ending);
		return;
	}
	launch_explain(layer, error, why, sizeof(why));
	lose(s, why);
}

static void
standby_on_exit(struct launch *l, const struct exit_facts *exit, void *arg)
{
	(void)l;
	(void)exit;
	(void)arg;
}

static const struct launch_handler handler = {
	.on_started = standby_on_started,
	.on_refused = standby_on_refused,
	.on_exit = standby_on_exit,
};

/* ---- slots ---- */

static void
slot_end(struct slot *s)
{
	struct launch *l = s->launch;

	*s = (struct slot){ .launch = NULL };
	if (l == NULL)
		return;
	LIST_INSERT_HEAD(&all.ending, l, ending);
	launch_kill(l, ENDING_shutdown);
}

static bool
is_kind(const struct slot *s, const struct launch_kind *k)
{
	return s->kind.root_id != 0 && s->kind.root_id == k->root_id &&
	       s->kind.flags == k->flags && s->kind.group == k->group;
}

static struct slot *
slot_with(const struct launch_kind *k)
{
	for (struct slot *s = all.slots; s < all.slots + all.n; s++)
		if (is_kind(s, k))
			return s;
	return NULL;
}

/* The one that was used longest ago, or never. */
static struct slot *
slot_oldest(void)
{
	struct slot *oldest = all.slots;

	for (struct slot *s = all.slots; s < all.slots + all.n; s++)
		if (s->used_at_ms < oldest->used_at_ms)
			oldest = s;
	return oldest;
}

static void
slot_fill(struct slot *s)
{
	int r;

	s->fill_at_ms = 0;
	r = launch_stand(all.base, &s->kind, &handler, NULL, &s->launch);
	if (r == -ENOENT)
		slot_end(s); /* what it would stand on is gone */
	else if (r < 0)
		lose(s, strerror(-r));
	else
		s->since_ms = clock_wall_ms();
}

/* ---- time ---- */

/* The next instant at which something is to be done about it; UINT64_MAX: none. */
static uint64_t
due_at_ms(const struct slot *s)
{
	if (s->kind.root_id == 0)
		return UINT64_MAX;
	return s->launch == NULL && s->fill_at_ms != 0 ? s->fill_at_ms :
							  s->used_at_ms + UNUSED_MS;
}

static void
standby_on_timer(evutil_socket_t fd, short events, void *arg)
{
	uint64_t now_ms = clock_ms();

	(void)fd;
	(void)events;
	(void)arg;
	for (struct slot *s = all.slots; s < all.slots + all.n; s++) {
		if (now_ms < due_at_ms(s))
			continue;
		if (s->launch == NULL && s->fill_at_ms != 0)
			slot_fill(s);
		else
			slot_end(s);
	}
	standby_arm();
}

static void
standby_arm(void)
{
	uint64_t now_ms = clock_ms(), first = UINT64_MAX, in_ms;
	struct timeval tv;

	for (const struct slot *s = all.slots; s < all.slots + all.n; s++)
		if (due_at_ms(s) < first)
			first = due_at_ms(s);
	if (first == UINT64_MAX) {
		event_del(all.timer);
		return;
	}
	in_ms = first > now_ms ? first - now_ms : 0;
	tv.tv_sec = (time_t)(in_ms / 1000);
	tv.tv_usec = (suseconds_t)(in_ms % 1000) * 1000;
	event_add(all.timer, &tv);
}

/* ---- use ---- */

bool
standby_may_have(unsigned group)
{
	for (const struct slot *s = all.slots; s < all.slots + all.n; s++)
		if (s->launch != NULL && s->kind.group == group)
			return true;
	return false;
}

struct launch *
standby_take(const struct launch_kind *kind)
{
	struct slot *s = slot_with(kind);
	struct launch *l = s != NULL ? s->launch : NULL;

	if (l == NULL || !launch_stands(l))
		return NULL; /* its death is on its way to us */
	s->launch = NULL;
	all.deaths = 0;
	LIST_INSERT_HEAD(&all.ending, l, ending);
	return l;
}

void
standby_gave(struct launch *l)
{
	LIST_REMOVE(l, ending);
}

void
standby_note(const struct launch_kind *kind)
{
	struct slot *s;

	if (all.base == NULL || all.n == 0)
		return;
	for (s = all.slots; s < all.slots + all.n; s++)
		if (s->kind.root_id != 0 && !ground_has_root(s->kind.root_id))
			slot_end(s);
	if (kind->root_id == 0 || !ground_has_root(kind->root_id))
		return;
	s = slot_with(kind);
	if (s == NULL) {
		s = slot_oldest();
		slot_end(s);
		s->kind = *kind;
	}
	s->used_at_ms = clock_ms();
	if (s->launch == NULL)
		s->fill_at_ms = s->used_at_ms + FILL_MS;
	standby_arm();
}

void
standby_fill(void)
{
	for (struct slot *s = all.slots; s < all.slots + all.n; s++)
		if (s->fill_at_ms != 0)
			slot_fill(s);
}

unsigned
standby_count(bool ready)
{
	unsigned n = 0;

	for (const struct slot *s = all.slots; s < all.slots + all.n; s++)
		n += s->launch != NULL &&
		    (!ready || s->launch->seen & 1u << STAGE_STANDING);
	return n;
}

bool
standby_shares_network(const struct launch *l)
{
	return l->kind.flags & PLAN_SHARED_NETWORK;
}

void
standby_each(standby_fn *fn, void *arg)
{
	for (const struct slot *s = all.slots; s < all.slots + all.n; s++)
		if (s->launch != NULL)
			fn(s->launch, s->since_ms, arg);
}

/* ---- all of them ---- */

int
standby_open(struct event_base *base, unsigned kinds)
{
	memset(&all, 0, sizeof(all));
	all.timer = evtimer_new(base, standby_on_timer, NULL);
	if (all.timer == NULL)
		return -ENOMEM;
	all.base = base;
	standby_renew(kinds);
	return 0;
}

void
standby_renew(unsigned kinds)
{
	if (all.base == NULL)
		return;
	for (struct slot *s = all.slots; s < all.slots + all.n; s++)
		slot_end(s);
	event_del(all.timer);
	all.n = kinds < STANDBY_KINDS_MAX ? kinds : STANDBY_KINDS_MAX;
	all.deaths = 0;
}

void
standby_close(void)
{
	struct launch *l;

	if (all.base == NULL)
		return;
	standby_renew(0);
	while ((l = LIST_FIRST(&all.ending)) != NULL) {
		LIST_REMOVE(l, ending);
		launch_end_now(l);
		launch_free(l);
	}
	event_free(all.timer);
	all.base = NULL;
	all.timer = NULL;
}
