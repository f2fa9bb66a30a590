#include "broker/sandbox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/client.h"
#include "broker/operation.h"
#include "broker/rest.h"
#include "broker/workspace.h"
#include "common/clock.h"
#include "common/hex.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/walk.h"

#define PAGE_BYTES_MAX (512u << 10)

struct sandboxes {
	RB_HEAD(number_tree, sandbox) by_number;
	RB_HEAD(serial_tree, sandbox) by_serial;
	TAILQ_HEAD(, sandbox) closed; /* oldest first */
	unsigned nclosed;
	size_t open; /* that are not over */
	uint64_t next_serial;
};

/* Who is answered once a session is ready, or over. */
struct waiting {
	struct client *client;
	struct sandbox *sandbox;
	uint32_t msgid;
	enum waits what;
	TAILQ_ENTRY(waiting) entry; /* sandbox.waiting */
	LIST_ENTRY(waiting) of_client; /* client.waiting */
};

static int
number_compare(const struct sandbox *a, const struct sandbox *b)
{
	return a->number < b->number ? -1 : a->number > b->number;
}

static int
serial_compare(const struct sandbox *a, const struct sandbox *b)
{
	return a->serial < b->serial ? -1 : a->serial > b->serial;
}

TREE_GENERATE(number_tree, sandbox, by_number, number_compare)
TREE_GENERATE(serial_tree, sandbox, by_serial, serial_compare)

/* The names in protocol.def, of an enum that no field has. */
static const char *const state_names[] = {
	[sandbox_state_registering] = "registering",
	[sandbox_state_ready] = "ready",
	[sandbox_state_closing] = "closing",
	[sandbox_state_closed] = "closed",
	[sandbox_state_failed] = "failed",
};

const struct refusal refusal_no_session = { "not_found", "there is no such session",
	false };
static const struct refusal waits_too_much = { "resource_exhausted",
	"too many requests of this client wait for sessions", true };

/* ---- all of them ---------------------------------------------------------------------- */

struct sandboxes *
sandboxes_create(void)
{
	struct sandboxes *all = calloc(1, sizeof *all);

	if (all == NULL)
		return NULL;
	RB_INIT(&all->by_number);
	RB_INIT(&all->by_serial);
	TAILQ_INIT(&all->closed);
	all->next_serial = 1;
	return all;
}

static void
sandbox_destroy(struct sandbox *sb)
{
	struct sandboxes *all = sb->broker->sandboxes;

	sandbox_answer(sb, &refusal_not_ready);
	if (sb->serial != 0) {
		RB_REMOVE(number_tree, &all->by_number, sb);
		RB_REMOVE(serial_tree, &all->by_serial, sb);
	}
	if (sb->has_key)
		admissions_remove(&sb->broker->acquired, &sb->owner->keys, &sb->key);
	alarm_clear(&sb->alarm);
	workspace_destroy(sb->workspace);
	rest_destroy(sb);
	feed_list_finish(&sb->feeds);
	admissions_finish(&sb->keys, &sb->owner->keys);
	free(sb->runtime);
	principal_release(sb->broker, sb->owner);
	free(sb->trace);
	free(sb);
}

void
sandboxes_finish(struct broker *b)
{
	struct sandbox *sb;

	if (b->sandboxes == NULL)
		return;
	while ((sb = RB_ROOT(&b->sandboxes->by_serial)) != NULL)
		sandbox_destroy(sb);
	free(b->sandboxes);
	b->sandboxes = NULL;
	admissions_finish(&b->acquired, NULL);
}

size_t
sandboxes_open(const struct broker *b)
{
	return b->sandboxes->open;
}

size_t
sandboxes_queued(const struct broker *b)
{
	struct sandbox *sb;
	size_t n = 0;

	RB_FOREACH (sb, serial_tree, &b->sandboxes->by_serial)
		n += sb->queued;
	return n;
}

bool
sandboxes_stop_all(struct broker *b)
{
	struct sandbox *sb;
	bool gone = true;

	RB_FOREACH (sb, serial_tree, &b->sandboxes->by_serial)
		gone &= workspace_stop(sb->workspace) & rest_end(sb);
	return gone;
}

void
sandboxes_end_rest(struct broker *b)
{
	struct sandbox *sb;

	RB_FOREACH (sb, serial_tree, &b->sandboxes->by_serial)
		rest_end(sb);
}

void
sandboxes_on_config(struct broker *b)
{
	struct sandbox *sb;

	RB_FOREACH (sb, serial_tree, &b->sandboxes->by_serial)
		rest_on_config(sb);
}

void
sandboxes_on_taken(struct broker *b)
{
	struct sandbox *sb;

	RB_FOREACH (sb, serial_tree, &b->sandboxes->by_serial)
		rest_on_taken(sb);
}

void
sandboxes_orphan_all(struct broker *b)
{
	struct sandbox *sb;

	RB_FOREACH (sb, serial_tree, &b->sandboxes->by_serial) {
		workspace_orphan(sb->workspace);
		rest_orphan(sb);
	}
}

struct sandbox *
sandbox_numbered(struct broker *b, uint64_t number)
{
	struct sandbox key = { .number = number };

	return RB_FIND(number_tree, &b->sandboxes->by_number, &key);
}

uint64_t
sandbox_id_number(struct slice id)
{
	char digits[17];
	uint8_t bytes[8];
	uint64_t n = 0;

	if (id.n != 18 || id.p[0] != 's' || id.p[1] != '-')
		return 0;
	memcpy(digits, id.p + 2, 16);
	digits[16] = '\0';
	if (!hex_decode(digits, bytes, sizeof bytes))
		return 0;
	for (size_t i = 0; i < sizeof bytes; i++)
		n = n << 8 | bytes[i];
	return n;
}

struct sandbox *
sandbox_find(struct broker *b, struct slice id)
{
	struct sandbox *sb = sandbox_numbered(b, sandbox_id_number(id));

	return sb != NULL && slice_is(id, sb->id) ? sb : NULL;
}

struct sandbox *
sandbox_find_for(struct client *c, struct slice id)
{
	struct sandbox *sb = sandbox_find(c->broker, id);

	return sb != NULL && principal_sees(c->principal, sb->owner) ? sb : NULL;
}

/* ---- one ------------------------------------------------------------------------------ */

struct sandbox *
sandbox_create(struct broker *b, uint64_t number, struct slice runtime, struct principal *owner)
{
	struct sandboxes *all = b->sandboxes;
	struct sandbox *sb = calloc(1, sizeof *sb);

	if (sb == NULL)
		return NULL;
	sb->broker = b;
	sb->number = number;
	sb->runtime = slice_dup(runtime);
	sb->alarm = (struct alarm){ .fn = sandbox_on_alarm, .arg = sb };
	TAILQ_INIT(&sb->queue);
	TAILQ_INIT(&sb->waiting);
	snprintf(sb->id, sizeof sb->id, "s-%016" PRIx64, number);
	if (sb->runtime == NULL) {
		free(sb);
		return NULL;
	}
	sb->owner = principal_hold(owner);
	feed_list_init(&sb->feeds, sb->id, sb->owner->id);
	sb->serial = all->next_serial++;
	RB_INSERT(number_tree, &all->by_number, sb);
	RB_INSERT(serial_tree, &all->by_serial, sb);
	all->open++;
	return sb;
}

void
sandbox_close(struct sandbox *sb, bool recorded)
{
	struct sandboxes *all = sb->broker->sandboxes;
	struct control drop = {
		.verb = CONTROL_WORKSPACE_DROP, .workspace = sb->number
	};

	sb->ended_at_ms = clock_wall_ms();
	alarm_clear(&sb->alarm);
	workspace_destroy(sb->workspace);
	sb->workspace = NULL;
	/* One that is over, and not on record as that, comes back with the next broker. */
	if (sb->has_files && recorded)
		control_tell(sb->broker, &drop);
	principal_session_close(sb->owner);
	all->open--;
	TAILQ_INSERT_TAIL(&all->closed, sb, closed);
	if (all->nclosed < SANDBOX_CLOSED_KEPT) {
		all->nclosed++;
		return;
	}
	sb = TAILQ_FIRST(&all->closed);
	TAILQ_REMOVE(&all->closed, sb, closed);
	sandbox_destroy(sb);
}

/* Appends the map of session.show. */
static void
sandbox_pack(struct buf *b, const struct sandbox *sb)
{
	const struct operation *runs =
	    sb->running != NULL && !sb->running->ended ? sb->running : NULL;
	uint64_t now = sb->broker->now_ms, until = sb->lease.until_ms;
	bool leased = sb->lease.ms != 0 && !sandbox_is_over(sb);

	pack_map(b, 11u + (runs != NULL) + (leased ? 2 : 0) + (sandbox_is_over(sb) ? 2 : 0));
	pack_str(b, "id"), pack_str(b, sb->id);
	pack_str(b, "runtime"), pack_str(b, sb->runtime);
	pack_str(b, "kind");
	pack_str(b, sb->kind == operation_kind_turn ? "turn" : "command");
	pack_str(b, "state"), pack_str(b, state_names[sb->state]);
	pack_str(b, "principal"), pack_str(b, sb->owner->id);
	pack_str(b, "acquiredAt"), pack_uint(b, sb->acquired_at_ms);
	pack_str(b, "timeoutMs"), pack_uint(b, sb->timeout_ms);
	pack_str(b, "queueLimit"), pack_uint(b, sb->queue_max);
	pack_str(b, "queued"), pack_uint(b, sb->queued);
	pack_str(b, "operations"), pack_uint(b, sb->admitted);
	pack_str(b, "workspace"), pack_bool(b, sb->has_workspace);
	if (runs != NULL)
		pack_str(b, "running"), pack_str(b, runs->id);
	if (leased) {
		pack_str(b, "leaseMs"), pack_uint(b, sb->lease.ms);
		pack_str(b, "leaseUntil");
		pack_uint(b, clock_wall_ms() + (until > now ? until - now : 0));
	}
	if (sandbox_is_over(sb)) {
		pack_str(b, "endedAt"), pack_uint(b, sb->ended_at_ms);
		pack_str(b, "cause"), pack_str(b, sb->detail);
	}
}

/* ---- who waits ------------------------------------------------------------------------ */

static void
waiting_destroy(struct waiting *w)
{
	TAILQ_REMOVE(&w->sandbox->waiting, w, entry);
	LIST_REMOVE(w, of_client);
	w->client->nwaiting--;
	free(w);
}

bool
sandbox_wait(struct sandbox *sb, struct client *c, uint32_t msgid, enum waits what)
{
	struct waiting *w = c->nwaiting < SANDBOX_WAITING_MAX ? malloc(sizeof *w) : NULL;

	if (w == NULL) {
		refusal_send(c, msgid, &waits_too_much);
		return false;
	}
	*w = (struct waiting){
		.client = c, .sandbox = sb, .msgid = msgid, .what = what
	};
	TAILQ_INSERT_TAIL(&sb->waiting, w, entry);
	LIST_INSERT_HEAD(&c->waiting, w, of_client);
	c->nwaiting++;
	return true;
}

/* Tells `w`, and forgets it. */
static void
answer_one(struct waiting *w, const struct buf *map, const struct refusal *no)
{
	bool existing = w->what == WAITS_EXISTING;
	struct msg_session_acquire_reply acquired = {
		.session = buf_slice(map), .has_existing = existing, .existing = existing
	};
	struct msg_session_release_reply released = { .session = buf_slice(map) };
	struct client *c = w->client;

	if (no == NULL && map->failed)
		no = &refusal_no_memory;
	if (no != NULL)
		refusal_send(c, w->msgid, no);
	else if (w->what == WAITS_RELEASED)
		link_reply(c->link, MSG_session_release_reply, w->msgid, &released);
	else
		link_reply(c->link, MSG_session_acquire_reply, w->msgid, &acquired);
	waiting_destroy(w);
}

void
sandbox_answer(struct sandbox *sb, const struct refusal *no)
{
	struct buf map = { 0 };

	if (TAILQ_EMPTY(&sb->waiting))
		return;
	sandbox_pack(&map, sb);
	while (!TAILQ_EMPTY(&sb->waiting))
		answer_one(TAILQ_FIRST(&sb->waiting), &map, no);
	buf_finish(&map);
}

void
sandbox_answer_last(struct sandbox *sb)
{
	struct buf map = { 0 };

	sandbox_pack(&map, sb);
	answer_one(TAILQ_LAST(&sb->waiting, waitings), &map, NULL);
	buf_finish(&map);
}

void
sandbox_forget_client(struct client *c)
{
	while (!LIST_EMPTY(&c->waiting))
		waiting_destroy(LIST_FIRST(&c->waiting));
	workspace_forget_client(c);
}

/* ---- show, list, heartbeat ------------------------------------------------------------ */

static void
handle_show(struct client *c, const struct message *m)
{
	struct msg_session_show_reply reply = { 0 };
	struct sandbox *sb = sandbox_find_for(c, m->u.session_show.session);
	struct buf map = { 0 };

	if (sb == NULL) {
		refusal_send(c, m->msgid, &refusal_no_session);
		return;
	}
	sandbox_pack(&map, sb);
	reply.session = buf_slice(&map);
	if (map.failed)
		refusal_send(c, m->msgid, &refusal_no_memory);
	else
		link_reply(c->link, MSG_session_show_reply, m->msgid, &reply);
	buf_finish(&map);
}

static void
handle_list(struct client *c, const struct message *message)
{
	const struct msg_session_list *m = &message->u.session_list;
	struct sandbox key = { .serial = m->cursor + 1 }, *sb = NULL;
	struct msg_session_list_reply reply = { 0 };
	struct buf items = { 0 }, list = { 0 };
	uint64_t last = 0;
	uint32_t n = 0;

	if (m->limit == 0) {
		link_refuse(c->link, message->msgid, "invalid_argument",
		    "limit: is at least 1", false);
		return;
	}
	if (m->cursor < UINT64_MAX)
		sb = RB_NFIND(serial_tree, &c->broker->sandboxes->by_serial, &key);
	/* To the first that is one too many: what others have makes no page longer. */
	for (; sb != NULL; sb = RB_NEXT(serial_tree, &c->broker->sandboxes->by_serial, sb)) {
		if (!principal_sees(c->principal, sb->owner) ||
		    (m->has_runtime && !slice_is(m->runtime, sb->runtime)))
			continue;
		if (n == m->limit || items.n >= PAGE_BYTES_MAX)
			break;
		last = sb->serial;
		sandbox_pack(&items, sb);
		n++;
	}
	pack_array(&list, n);
	buf_add(&list, items.p, items.n);
	reply.sessions = buf_slice(&list);
	reply.next = sb != NULL ? last : 0;
	if (items.failed || list.failed)
		refusal_send(c, message->msgid, &refusal_no_memory);
	else
		link_reply(c->link, MSG_session_list_reply, message->msgid, &reply);
	buf_finish(&items);
	buf_finish(&list);
}

static void
handle_heartbeat(struct client *c, const struct message *m)
{
	struct msg_session_heartbeat_reply reply = { 0 };
	struct sandbox *sb = sandbox_find_for(c, m->u.session_heartbeat.session);

	if (sb == NULL) {
		refusal_send(c, m->msgid, &refusal_no_session);
		return;
	}
	if (sandbox_is_over(sb)) {
		link_refuse(c->link, m->msgid, "failed_precondition", "the session is over",
		    false);
		return;
	}
	/* Its alarm stays as it is, and looks again when it comes. */
	lease_renew(&sb->lease, sb->broker->now_ms);
	reply.has_leaseUntil = sb->lease.ms != 0;
	reply.leaseUntil = clock_wall_ms() + sb->lease.until_ms - sb->broker->now_ms;
	link_reply(c->link, MSG_session_heartbeat_reply, m->msgid, &reply);
}

void
sandbox_handle(struct client *c, const struct message *m)
{
	switch (m->type) {
	case MSG_session_acquire: sandbox_handle_acquire(c, m); break;
	case MSG_session_show: handle_show(c, m); break;
	case MSG_session_list: handle_list(c, m); break;
	case MSG_session_release: sandbox_handle_release(c, m); break;
	case MSG_session_heartbeat: handle_heartbeat(c, m); break;
	default: break;
	}
}
