#include "ledger/bodies_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int
kept_compare(const struct kept *a, const struct kept *b)
{
	return strcmp(a->id, b->id);
}

RB_GENERATE_INTERNAL(kept_tree, kept, by_id, kept_compare, static __attribute__((unused)))

/* ---- what is known of the rows -------------------------------------------------------- */

static struct kept *
kept_find(struct bodies *b, struct slice id)
{
	struct kept key;

	if (id.n >= sizeof key.id || memchr(id.p, '\0', id.n) != NULL)
		return NULL;
	memcpy(key.id, id.p, id.n);
	key.id[id.n] = '\0';
	return RB_FIND(kept_tree, &b->by_id, &key);
}

struct kept *
kept_create(struct bodies *b, const char *id, size_t n, int64_t number)
{
	struct kept *k = calloc(1, sizeof *k);

	if (k == NULL)
		return NULL;
	memcpy(k->id, id, n);
	k->number = number;
	if (number > b->last_number)
		b->last_number = number;
	RB_INSERT(kept_tree, &b->by_id, k);
	TAILQ_INSERT_TAIL(&b->open, k, place);
	return k;
}

static bool
kept_is_full(const struct kept *k)
{
	return k->ended_at_ms != 0 && k->next - k->first > 1;
}

void
kept_set(struct bodies *b, struct kept *k, uint64_t first, uint64_t next, uint64_t bytes)
{
	bool was_full = kept_is_full(k);

	b->bytes += bytes - k->bytes;
	k->first = first;
	k->next = next;
	k->bytes = bytes;
	if (was_full && !kept_is_full(k))
		TAILQ_REMOVE(&b->full, k, full);
}

void
kept_end(struct bodies *b, struct kept *k, uint64_t now_ms)
{
	if (k->ended_at_ms != 0)
		return;
	k->ended_at_ms = now_ms;
	TAILQ_REMOVE(&b->open, k, place);
	TAILQ_INSERT_TAIL(&b->ended, k, place);
	b->nended++;
	if (kept_is_full(k))
		TAILQ_INSERT_TAIL(&b->full, k, full);
}

/* It goes on: the broker that it was taken to have outlived is there. */
static void
kept_reopen(struct bodies *b, struct kept *k)
{
	if (kept_is_full(k))
		TAILQ_REMOVE(&b->full, k, full);
	TAILQ_REMOVE(&b->ended, k, place);
	TAILQ_INSERT_TAIL(&b->open, k, place);
	b->nended--;
	k->ended_at_ms = 0;
}

static void
kept_touch(struct bodies *b, struct kept *k)
{
	if (k->is_touched)
		return;
	k->is_touched = true;
	TAILQ_INSERT_TAIL(&b->touched, k, touched);
}

static void
kept_forget(struct bodies *b, struct kept *k)
{
	kept_set(b, k, k->next, k->next, 0);
	if (k->is_touched)
		TAILQ_REMOVE(&b->touched, k, touched);
	TAILQ_REMOVE(k->ended_at_ms != 0 ? &b->ended : &b->open, k, place);
	b->nended -= k->ended_at_ms != 0;
	RB_REMOVE(kept_tree, &b->by_id, k);
	free(k);
}

void
kept_forget_all(struct bodies *b)
{
	struct kept *k;

	while ((k = RB_ROOT(&b->by_id)) != NULL)
		kept_forget(b, k);
}

/* ---- what goes ------------------------------------------------------------------------ */

static int
drop(struct bodies *b, struct kept *k)
{
	int r = bodies_begin(b);

	if (r == 0)
		r = bodies_cut(b, k, UINT64_MAX, 0);
	if (r == 0)
		r = bodies_delete_operation(b, k);
	if (r == 0)
		kept_forget(b, k);
	return r;
}

static struct kept *
largest_open(struct bodies *b)
{
	struct kept *k, *largest = NULL;

	TAILQ_FOREACH (k, &b->open, place)
		if (k->bytes > 0 && (largest == NULL || k->bytes > largest->bytes))
			largest = k;
	return largest;
}

/* One that has ended, and of which nothing is left, is told of before it is forgotten. */
static int
trim_all(struct bodies *b)
{
	struct kept *k;
	int r = 0;

	while (r == 0 && b->bytes > b->bounds.totalBytes) {
		uint64_t over = b->bytes - b->bounds.totalBytes;

		if ((k = TAILQ_FIRST(&b->full)) != NULL)
			r = bodies_cut(b, k, over, 1);
		else if ((k = largest_open(b)) != NULL)
			r = bodies_cut(b, k, over, 0);
		else if ((k = TAILQ_FIRST(&b->ended)) != NULL && !k->is_touched)
			r = drop(b, k);
		else
			break;
	}
	while (r == 0 && b->nended > BODIES_ENDED_MAX &&
	    !TAILQ_FIRST(&b->ended)->is_touched)
		r = drop(b, TAILQ_FIRST(&b->ended));
	return r;
}

static int
trim(struct bodies *b)
{
	struct kept *k;
	int r = 0;

	TAILQ_FOREACH (k, &b->touched, touched)
		if (r == 0 && k->bytes > b->bounds.operationBytes)
			r = bodies_cut(b, k, k->bytes - b->bounds.operationBytes,
			    k->ended_at_ms != 0);
	return r == 0 ? trim_all(b) : r;
}

/* ---- what is kept --------------------------------------------------------------------- */

int
bodies_set_bounds(struct bodies *b, const struct msg_body_bounds *m)
{
	const char *sync = m->sync ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL";

	b->bounds = *m;
	return sqlite3_exec(b->db, sync, NULL, NULL, NULL) == SQLITE_OK ? 0 : -EIO;
}

int
bodies_end_all(struct bodies *b, uint64_t now_ms)
{
	struct kept *k;
	int r = bodies_begin(b);

	while (r == 0 && (k = TAILQ_FIRST(&b->open)) != NULL) {
		kept_end(b, k, now_ms);
		r = bodies_set_ended(b, k);
	}
	return r < 0 ? bodies_roll_back(b, r) : 0;
}

static int
add_operation(struct bodies *b, struct slice id, struct kept **ret)
{
	*ret = kept_create(b, (const char *)id.p, id.n, b->last_number + 1);
	return *ret != NULL ? bodies_add_operation(b, *ret) : -ENOMEM;
}

static int
keep(struct bodies *b, struct kept *k, const struct msg_body_keep *m, uint64_t now_ms)
{
	bool is_last = m->type == event_type_completed || m->type == event_type_failed;
	uint64_t first = k->first == k->next ? m->sequence : k->first;
	int r = 0;

	if (k->ended_at_ms != 0) {
		kept_reopen(b, k);
		r = bodies_set_ended(b, k);
	}
	if (r == 0 && k->first != k->next && m->sequence != k->next) { /* what is kept has no hole */
		r = bodies_cut(b, k, UINT64_MAX, 0);
		first = m->sequence;
	}
	if (r == 0)
		r = bodies_add_event(b, k, m);
	if (r < 0)
		return r;
	kept_set(b, k, first, m->sequence + 1,
	    k->bytes + m->data.n + m->body.n + BODIES_COST);
	if (!is_last)
		return 0;
	kept_end(b, k, now_ms);
	return bodies_set_ended(b, k);
}

int
bodies_keep(struct bodies *b, const struct msg_body_keep *m, uint64_t now_ms)
{
	struct kept *k;
	int r;

	if (m->sequence == 0 || m->sequence >= INT64_MAX ||
	    memchr(m->operation.p, '\0', m->operation.n) != NULL)
		return -EINVAL;
	r = bodies_begin(b);
	k = kept_find(b, m->operation);
	if (r == 0 && k == NULL)
		r = add_operation(b, m->operation, &k);
	if (r == 0) {
		kept_touch(b, k);
		if (m->sequence >= k->next)
			r = keep(b, k, m, now_ms);
	}
	return r < 0 ? bodies_roll_back(b, r) : 0;
}

int
bodies_commit(struct bodies *b, bodies_fn *fn, void *arg)
{
	struct kept *k;
	int r = trim(b);

	if (r == 0)
		r = bodies_end(b);
	if (r < 0)
		return bodies_roll_back(b, r);
	while ((k = TAILQ_FIRST(&b->touched)) != NULL) {
		TAILQ_REMOVE(&b->touched, k, touched);
		k->is_touched = false;
		fn(arg, k->id, k->next - 1);
	}
	return 0;
}

int
bodies_drop(struct bodies *b, struct slice operation)
{
	struct kept *k = kept_find(b, operation);
	int r = k != NULL ? drop(b, k) : 0;

	return r < 0 ? bodies_roll_back(b, r) : 0;
}

int
bodies_expire(struct bodies *b, uint64_t now_ms)
{
	struct kept *k;
	int r = 0;

	while (r == 0 && (k = TAILQ_FIRST(&b->ended)) != NULL && !k->is_touched &&
	    now_ms >= k->ended_at_ms + b->bounds.timeMs)
		r = drop(b, k);
	return r < 0 ? bodies_roll_back(b, r) : 0;
}

int
bodies_read(struct bodies *b, const struct msg_body_read *m, struct buf *maps, uint32_t *ret_n,
    bool *ret_more, uint64_t *ret_ended_at_ms)
{
	const struct kept *k = kept_find(b, m->operation);
	uint64_t from;
	int r;

	*ret_n = 0;
	*ret_more = false;
	*ret_ended_at_ms = 0;
	if (k == NULL)
		return 0;
	from = m->after >= k->first ? m->after + 1 : k->first;
	r = bodies_read_rows(b, k, m, maps, ret_n);
	*ret_more = from + *ret_n < k->next;
	*ret_ended_at_ms = k->ended_at_ms;
	return r;
}

uint64_t
bodies_bytes(const struct bodies *b)
{
	return b->bytes;
}
