#include "broker/client.h"

#include <errno.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/child.h"
#include "broker/feed.h"
#include "broker/operation.h"
#include "broker/sandbox.h"
#include "broker/subscriber.h"
#include "common/request_key.h"
#include "common/walk.h"

/*
 * Who comes back to an operation, or asks what became of it.  One in a session is its
 * principal's, and any number may follow it; one without is the operator's, and its events
 * have one reader, for whom it waits.
 */

static void
refuse_unknown(struct client *c, uint32_t msgid)
{
	link_refuse(c->link, msgid, "not_found", "there is no such operation", false);
}

/* Another principal's does not exist. */
static bool
list_is_seen(const struct feed_list *l, const struct client *c)
{
	return principal_is_operator(c->principal) ||
	    (l->principal != NULL && strcmp(l->principal, c->principal->id) == 0);
}

static struct feed *
feed_seen(struct client *c, struct slice id)
{
	struct feed *f = feed_find(c->broker->feeds, id);

	return f != NULL && f->admitted && list_is_seen(f->list, c) ? f : NULL;
}

/* ---- operations without a session ----------------------------------------------------- */

static bool
operation_is_alone(const struct operation *op)
{
	return op->feed == NULL && !op->told;
}

/* The open operation `id`, or the only one; -EINVAL if there are several. */
static int
find_alone(struct client *c, const struct msg_operation_attach *a, struct operation **ret)
{
	struct broker *b = c->broker;
	struct operation *op;
	struct session *s;

	*ret = NULL;
	if (a->has_operation) {
		op = operation_find(b, a->operation);
		if (op != NULL && operation_is_alone(op))
			*ret = op;
		return 0;
	}
	TAILQ_FOREACH (s, &b->sessions, link) {
		if (!operation_is_alone(s->operation))
			continue;
		if (*ret != NULL)
			return -EINVAL;
		*ret = s->operation;
	}
	return 0;
}

static void
attach_alone(struct client *c, uint32_t msgid, struct operation *op)
{
	struct msg_operation_attach_reply reply = { .operation = slice_of(op->id) };

	operation_set_client(op, c);
	link_reply(c->link, MSG_operation_attach_reply, msgid, &reply);
}

/* ---- what has a feed ------------------------------------------------------------------ */

static void
attach_feed(struct client *c, uint32_t msgid, struct feed *f, uint64_t after)
{
	struct msg_operation_attach_reply reply = { .operation = slice_of(f->id) };
	struct subscriber *s;
	int r;

	if (after > feed_last(f)) {
		link_refuse(c->link, msgid, "invalid_argument",
		    "after: no event of this operation has that number yet", false);
		return;
	}
	r = subscriber_create(f, c, after, &s);
	if (r < 0) {
		link_refuse(c->link, msgid, "resource_exhausted",
		    r == -ENOMEM ? "out of memory"
				 : "too many follow this operation, or this client too many; "
				   "close a connection, and attach again", true);
		return;
	}
	link_reply(c->link, MSG_operation_attach_reply, msgid, &reply);
	subscriber_pump(s);
}

static void
handle_attach(struct client *c, const struct message *m)
{
	const struct msg_operation_attach *a = &m->u.operation_attach;
	struct feeds *fs = c->broker->feeds;
	struct operation *op = NULL;
	struct feed *f = NULL;
	bool several = false;

	if (principal_is_operator(c->principal))
		several = find_alone(c, a, &op) < 0;
	if (op == NULL && a->has_operation) {
		f = feed_seen(c, a->operation);
	} else if (op == NULL && principal_is_operator(c->principal)) {
		several |= fs->loose.nended > 1;
		f = TAILQ_FIRST(&fs->loose.feeds);
	}
	if (several)
		link_refuse(c->link, m->msgid, "invalid_argument",
		    "there are several operations: name one", false);
	else if (op != NULL)
		attach_alone(c, m->msgid, op);
	else if (f != NULL)
		attach_feed(c, m->msgid, f, a->has_after ? a->after : 0);
	else
		refuse_unknown(c, m->msgid);
}

static void
handle_show(struct client *c, const struct message *m)
{
	const struct feed *f = feed_seen(c, m->u.operation_show.operation);
	struct msg_operation_show_reply reply = { 0 };
	struct buf *map = &c->broker->scratch;

	if (f == NULL) {
		refuse_unknown(c, m->msgid);
		return;
	}
	map->n = 0;
	feed_pack(map, f);
	reply.operation = buf_slice(map);
	link_reply(c->link, MSG_operation_show_reply, m->msgid, &reply);
	map->n = 0;
}

static void
handle_list(struct client *c, const struct message *m)
{
	const struct msg_operation_list *q = &m->u.operation_list;
	struct sandbox *sb = sandbox_find_for(c, q->session);
	struct msg_operation_list_reply reply = { 0 };
	struct buf maps = { 0 }, list = { 0 };
	uint32_t count = 0;
	struct feed *f;

	if (sb == NULL || q->limit == 0) {
		link_refuse(c->link, m->msgid, sb == NULL ? "not_found" : "invalid_argument",
		    sb == NULL ? "there is no such session" : "limit: is at least 1", false);
		return;
	}
	TAILQ_FOREACH (f, &sb->feeds.feeds, entry) {
		if (!f->admitted || f->number <= q->cursor)
			continue;
		if (count == q->limit) {
			reply.next = TAILQ_PREV(f, feed_queue, entry)->number;
			break;
		}
		feed_pack(&maps, f);
		count++;
	}
	pack_array(&list, count);
	buf_add(&list, maps.p, maps.n);
	reply.operations = buf_slice(&list);
	if (maps.failed || list.failed)
		refusal_send(c, m->msgid, &refusal_no_memory);
	else
		link_reply(c->link, MSG_operation_list_reply, m->msgid, &reply);
	buf_finish(&maps);
	buf_finish(&list);
}

void
attach_handle(struct client *c, const struct message *m)
{
	if (m->type == MSG_operation_attach)
		handle_attach(c, m);
	else if (m->type == MSG_operation_list)
		handle_list(c, m);
	else
		handle_show(c, m);
}

/* ---- who submits ---------------------------------------------------------------------- */

static const struct refusal key_alone = { "invalid_argument",
	"idempotencyKey: goes with a session, in which it is known", false };
static const struct refusal key_form = { "invalid_argument",
	"idempotencyKey: is not " REQUEST_KEY_RULE, false };
static const struct refusal key_taken = { "already_exists",
	"idempotencyKey: another request came under it: use another key", false };
static const struct refusal key_expired = { "replay_expired",
	"this was submitted before, and what it became is not kept any more: it is on record",
	false };
static const struct refusal under_way = { "unavailable",
	"this client submits it already: wait for that answer", true };
static const struct refusal follows_too_many = { "resource_exhausted",
	"this client follows as many operations as it may; wait for one to end", true };

#define TEXT_OF(number) #number
#define TEXT(number)	TEXT_OF(number)
#define FULL(number, where, remedy)                                                        \
	{ "resource_exhausted", "idempotencyKey: " TEXT(number) " are known " where        \
				", as many as may be; go without one, or " remedy, false }

static const struct refusal no_room[] = {
	[ADMISSION_full_table] =
	    FULL(ADMISSIONS_MAX, "in this session", "acquire another session"),
	[ADMISSION_full_share] = FULL(ADMISSIONS_SHARE_MAX, "of this principal",
	    "release sessions: their keys go with them"),
	[ADMISSION_full_total] = FULL(ADMISSIONS_TOTAL_MAX, "of all principals",
	    "release sessions: their keys go with them"),
};

const struct refusal *
attach_no_room(enum admission_state state)
{
	return &no_room[state];
}

/* It was admitted under this key: follows it. */
static const struct refusal *
follow_again(struct client *c, uint32_t msgid, const char *id)
{
	struct feed *f = feed_find(c->broker->feeds, slice_of(id));
	struct subscriber *s;
	int r;

	if (f == NULL)
		return &key_expired;
	r = subscriber_create(f, c, 0, &s);
	if (r < 0)
		return r == -EALREADY ? &under_way
		    : r == -ENOSPC    ? &follows_too_many
				      : &refusal_no_memory;
	subscriber_wait(s, msgid, true);
	return NULL;
}

bool
attach_by_key(struct client *c, uint32_t msgid, const struct msg_operation_submit *m,
    struct admission_key *ret_key)
{
	struct sandbox *sb = m->has_session ? sandbox_find_for(c, m->session) : NULL;
	const struct refusal *no = NULL;
	enum admission_state state;
	const char *id;

	if (m->has_idempotencyKey && !m->has_session) {
		no = &key_alone;
	} else if (sb == NULL) {
		return false; /* in no session, or in none that it may know of */
	} else if (!m->has_idempotencyKey) {
		no = c->nsubscriptions >= SUBSCRIPTIONS_MAX ? &follows_too_many : NULL;
	} else if (!request_key_is_valid(m->idempotencyKey)) {
		no = &key_form;
	} else if (admission_key_make(c->broker->digest, c->principal->id, MSG_operation_submit,
		       m, ret_key) < 0) {
		no = &refusal_no_memory;
	} else {
		state = admissions_look(&sb->keys, &sb->owner->keys, ret_key, &id);
		switch (state) {
		case ADMISSION_new:
			no = c->nsubscriptions >= SUBSCRIPTIONS_MAX ? &follows_too_many : NULL;
			break;
		case ADMISSION_same:
			no = follow_again(c, msgid, id);
			if (no == NULL)
				return true;
			break;
		case ADMISSION_other: no = &key_taken; break;
		default: no = attach_no_room(state);
		}
	}
	if (no != NULL)
		refusal_send(c, msgid, no);
	return no != NULL;
}

static void
operation_on_room(void *arg)
{
	struct operation *op = arg;

	pipe_resume(op->session->worker);
}

int
attach_submitter(struct operation *op, struct client *c, const struct admission_key *key)
{
	struct sandbox *sb = op->sandbox;
	struct subscriber *s;
	int r;

	if (sb == NULL)
		return 0;
	if (key != NULL) {
		r = admissions_add(&sb->keys, &sb->owner->keys, key, op->id);
		if (r < 0)
			return r;
		op->key = *key;
		op->has_key = true;
	}
	op->feed = feed_create(op->broker->feeds, &sb->feeds, op->id, op->kind);
	if (op->feed == NULL)
		return -ENOMEM;
	op->feed->on_room = operation_on_room;
	op->feed->arg = op;
	return subscriber_create(op->feed, c, 0, &s);
}

void
attach_forget(struct operation *op, const struct refusal *no)
{
	if (op->accepted)
		return;
	if (op->feed != NULL)
		feed_refuse(op->feed, no->code, no->message);
	op->feed = NULL;
	if (op->has_key)
		admissions_remove(&op->sandbox->keys, &op->sandbox->owner->keys, &op->key);
	op->has_key = false;
}
