#include "ledger/keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/walk.h"
#include "ledger/bodies.h"

#define EXPIRE_MS 1000

struct keeper {
	int dir_fd;
	struct bodies *bodies; /* NULL: nobody has asked for it, or it cannot be opened */
	struct link *link;
	struct event *commit;
	struct event *expire;
	bool failed; /* and told: what comes is not kept */
};

/* ---- failure -------------------------------------------------------------------------- */

/* The broker comes again, and finds a new file if this one is damaged. */
static void
fail(struct keeper *k, int error)
{
	struct msg_body_failed m = { .problem = slice_of(strerror(-error)) };

	log_error("events of operations cannot be kept, and are not delivered: %s",
	    strerror(-error));
	if (error == -EUCLEAN || k->bodies == NULL) {
		bodies_close(k->bodies);
		k->bodies = NULL;
	}
	if (error == -EUCLEAN)
		bodies_put_aside(k->dir_fd);
	k->failed = true;
	if (k->link != NULL)
		link_notify(k->link, MSG_body_failed, &m);
}

static bool
check(struct keeper *k, int r)
{
	if (r < 0 && !k->failed)
		fail(k, r);
	return r == 0;
}

/* ---- a batch -------------------------------------------------------------------------- */

static void
tell_kept(void *arg, const char *operation, uint64_t sequence)
{
	struct msg_body_kept m = { .operation = slice_of(operation), .sequence = sequence };
	struct keeper *k = arg;

	if (k->link != NULL && sequence > 0)
		link_notify(k->link, MSG_body_kept, &m);
}

static void
commit(struct keeper *k)
{
	if (k->bodies == NULL || k->failed)
		return;
	STOP_POINT("ledger.before_keep");
	check(k, bodies_commit(k->bodies, tell_kept, k));
	STOP_POINT("ledger.after_keep");
}

static void
keeper_on_commit(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	commit(arg);
}

static void
keeper_on_expire(evutil_socket_t fd, short events, void *arg)
{
	struct keeper *k = arg;

	(void)fd;
	(void)events;
	if (k->bodies != NULL && !k->failed &&
	    check(k, bodies_expire(k->bodies, clock_wall_ms())))
		commit(k);
}

/* ---- what the broker says ------------------------------------------------------------- */

static void
handle_bounds(struct keeper *k, const struct msg_body_bounds *m)
{
	struct timeval again = { .tv_sec = EXPIRE_MS / 1000 };
	int r = 0;

	commit(k);
	k->failed = false;
	if (k->bodies == NULL)
		r = bodies_open(k->dir_fd, &k->bodies);
	if (r == 0)
		r = bodies_set_bounds(k->bodies, m);
	if (r == 0 && m->fresh)
		r = bodies_end_all(k->bodies, clock_wall_ms());
	if (r == 0)
		r = bodies_expire(k->bodies, clock_wall_ms());
	if (check(k, r))
		commit(k);
	event_add(k->expire, &again);
}

/* Empty where there is nothing: it is not kept. */
static void
handle_read(struct keeper *k, struct link *l, uint32_t msgid, const struct msg_body_read *m)
{
	struct msg_body_read_reply reply = { 0 };
	struct buf maps = { 0 }, list = { 0 };
	uint64_t ended_at_ms = 0, now_ms = clock_wall_ms();
	uint32_t n = 0;

	commit(k);
	if (k->bodies != NULL && !k->failed &&
	    !check(k, bodies_read(k->bodies, m, &maps, &n, &reply.more, &ended_at_ms))) {
		maps.n = 0;
		n = 0;
		reply.more = false;
	}
	pack_array(&list, n);
	buf_add(&list, maps.p, maps.n);
	reply.events = buf_slice(&list);
	reply.has_ageMs = ended_at_ms != 0;
	reply.ageMs = now_ms > ended_at_ms ? now_ms - ended_at_ms : 0;
	if (maps.failed || list.failed ||
	    link_reply(l, MSG_body_read_reply, msgid, &reply) == -ERANGE)
		link_refuse(l, msgid, "internal", "a page does not fit a frame", false);
	buf_finish(&maps);
	buf_finish(&list);
}

void
keeper_handle(struct keeper *k, struct link *l, const struct message *m)
{
	if (l != k->link)
		return; /* of a broker that was */
	if (m->type == MSG_body_bounds) {
		handle_bounds(k, &m->u.body_bounds);
		return;
	}
	if (m->type == MSG_body_read) {
		handle_read(k, l, m->msgid, &m->u.body_read);
		return;
	}
	if (k->bodies == NULL || k->failed)
		return;
	if (m->type == MSG_body_keep)
		check(k, bodies_keep(k->bodies, &m->u.body_keep, clock_wall_ms()));
	else
		check(k, bodies_drop(k->bodies, m->u.body_drop.operation));
	/* Behind whatever else this turn of the loop brings. */
	if (!evtimer_pending(k->commit, NULL))
		event_add(k->commit, &(struct timeval){ 0 });
}

void
keeper_on_begin(struct keeper *k, bool wanted)
{
	if (wanted)
		return;
	bodies_close(k->bodies);
	k->bodies = NULL;
	bodies_discard(k->dir_fd);
}

void
keeper_set_link(struct keeper *k, struct link *l)
{
	k->link = NULL;
	commit(k);
	k->link = l;
	k->failed = true; /* until it says how much */
}

struct keeper *
keeper_create(struct event_base *base, int dir_fd)
{
	struct keeper *k = calloc(1, sizeof *k);

	if (k == NULL)
		return NULL;
	k->dir_fd = dir_fd;
	k->failed = true;
	k->commit = evtimer_new(base, keeper_on_commit, k);
	k->expire = event_new(base, -1, EV_PERSIST, keeper_on_expire, k);
	if (k->commit == NULL || k->expire == NULL) {
		keeper_destroy(k);
		return NULL;
	}
	return k;
}

void
keeper_destroy(struct keeper *k)
{
	if (k == NULL)
		return;
	k->link = NULL;
	commit(k);
	if (k->commit != NULL)
		event_free(k->commit);
	if (k->expire != NULL)
		event_free(k->expire);
	bodies_close(k->bodies);
	free(k);
}
