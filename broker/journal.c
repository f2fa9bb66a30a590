#include "broker/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "broker/journal_private.h"
#include "common/log.h"

#define RESERVE_MIN  (64u << 10) /* bytes kept for endings at a segment's end */
#define END_WAIT_MS  2000 /* at the end of the process, for a sync that may never end */
#define UNSYNCED_MAX 256 /* records nobody waits for, before a sync is asked for anyway */

/* ---- space -------------------------------------------------------------------------- */

static uint64_t
reserve_of(uint64_t reserved)
{
	uint64_t reserve = reserved / 8 > RESERVE_MIN ? reserved / 8 : RESERVE_MIN;

	return reserve < reserved / 2 ? reserve : reserved / 2;
}

/* Would `n` more bytes stay within what `class` may use of `reserved`, `used` being used? */
static bool
fits(uint64_t reserved, uint64_t used, uint64_t n, enum journal_class class)
{
	uint64_t end = class == JOURNAL_EFFECT ? reserved - reserve_of(reserved) : reserved;

	return used <= end && n <= end - used;
}

/* ---- the end of a turn of the loop -------------------------------------------------- */

/* What is as durable as the configuration says. */
static uint64_t
durable_seq(const struct journal *j)
{
	return j->durable ? j->synced_seq : j->written_seq;
}

/* Calls what can be called, in order.  Callbacks may append. */
static void
complete(struct journal *j)
{
	struct waiter w;

	while (j->first_seq < j->next_seq) {
		w = *journal_waiter(j, j->first_seq);
		if (!w.refused && j->first_seq > durable_seq(j))
			break;
		j->first_seq++;
		j->lost = w.lost;
		if (w.done)
			w.done(w.arg, !w.refused);
	}
}

static bool
someone_waits(struct journal *j)
{
	uint64_t seq;

	if (j->written_seq - j->synced_seq > UNSYNCED_MAX)
		return true;
	seq = j->asked_seq >= j->first_seq ? j->asked_seq + 1 : j->first_seq;
	for (; seq <= j->written_seq; seq++)
		if (journal_waiter(j, seq)->done && !journal_waiter(j, seq)->refused)
			return true;
	return false;
}

uint64_t
journal_syncs(const struct journal *j)
{
	return j->syncs;
}

bool
journal_available(const struct journal *j)
{
	uint64_t one = JOURNAL_ENTRY_MAX;

	switch (j->phase) {
	case PHASE_OPEN:
		return j->next_fd >= 0 ||
		       (j->held.n == 0 &&
			   fits(j->reserved, j->length + j->out.n, one, JOURNAL_EFFECT));
	case PHASE_LEAVING:
		return !j->failed && j->next_fd >= 0 &&
		       fits(j->next_reserved, j->held.n, 2 * one, JOURNAL_EFFECT);
	default: return false;
	}
}

static void
turn(struct journal *j)
{
	bool available;

	journal_flush(j);
	/* One sync for everything that waits; the thread takes the latest request. */
	if (j->durable && j->phase == PHASE_OPEN && j->written_seq > j->asked_seq &&
	    someone_waits(j))
		journal_ask_sync(j);
	complete(j);
	available = journal_available(j);
	if (available != j->told) {
		j->told = available;
		j->handler->on_available(available, j->arg);
	}
	if (j->want) {
		j->want = false;
		j->asked = true;
		j->handler->on_segment_wanted(j->segment + 1, j->arg);
	}
}

static void
journal_on_turn(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	turn(arg);
}

static void
journal_on_late(void *arg)
{
	turn(arg);
}

static void
journal_on_sync(evutil_socket_t fd, short events, void *arg)
{
	struct journal *j = arg;

	(void)fd;
	(void)events;
	journal_settle_sync(j);
	turn(j);
}

static void
journal_on_stall(void *arg)
{
	struct journal *j = arg;

	journal_give_up_sync(j);
	turn(j);
}

static void
journal_on_retry(void *arg)
{
	struct journal *j = arg;

	j->barren = 0; /* waited for */
	if (j->phase == PHASE_NONE && j->next_fd >= 0)
		journal_begin(j);
	else
		journal_want_segment(j);
	turn(j);
}

/* ---- the interface ------------------------------------------------------------------ */

struct journal *
journal_create(struct event_base *base, const struct journal_io *io, bool durable,
    uint64_t count, const uint8_t chain[JOURNAL_HASH], uint64_t segment, uint64_t length,
    const struct journal_handler *handler, void *arg)
{
	struct journal *j;
	int ret;

	j = calloc(1, sizeof(*j));
	if (!j)
		return NULL;
	j->io = io;
	j->handler = handler;
	j->arg = arg;
	j->durable = durable;
	j->fd = j->next_fd = -1;
	j->first_seq = j->next_seq = 1;
	j->phase = PHASE_UNKNOWN;
	j->sync = journal_sync_create(io);
	j->turn = event_new(base, -1, 0, journal_on_turn, j);
	j->alarms = alarms_create(base);
	j->late = (struct alarm){ .fn = journal_on_late, .arg = j };
	j->retry = (struct alarm){ .fn = journal_on_retry, .arg = j };
	j->stall = (struct alarm){ .fn = journal_on_stall, .arg = j };
	if (j->sync)
		j->on_sync = event_new(
		    base, journal_sync_fd(j->sync), EV_READ | EV_PERSIST, journal_on_sync, j);
	if (!j->turn || !j->alarms || !j->on_sync ||
	    event_add(j->on_sync, NULL) < 0) {
		ret = errno;
		journal_destroy(j);
		errno = ret ? ret : ENOMEM;
		return NULL;
	}
	if (chain)
		journal_state(j, count, chain, segment, length);
	return j;
}

void
journal_state(struct journal *j, uint64_t count, const uint8_t chain[JOURNAL_HASH],
    uint64_t segment, uint64_t length)
{
	assert(j->phase == PHASE_UNKNOWN);
	j->count = j->sealed_count = count;
	memcpy(j->chain, chain, JOURNAL_HASH);
	memcpy(j->sealed_chain, chain, JOURNAL_HASH);
	j->segment = segment;
	j->length = length;
	j->phase = PHASE_NONE;
	if (j->next_fd < 0)
		journal_want_segment(j);
}

void
journal_stall_after(struct journal *j, uint32_t ms)
{
	j->stall_ms = ms;
}

/* What is written reaches the disk, unless the disk does not answer. */
static void
sync_end(struct journal *j)
{
	struct journal_sync_result r;

	journal_flush(j);
	r = journal_sync_wait(j->sync, END_WAIT_MS);
	if (r.idle && j->phase == PHASE_OPEN && j->written_seq > j->synced_seq) {
		journal_sync_ask(j->sync, j->fd, j->written_seq);
		r = journal_sync_wait(j->sync, END_WAIT_MS);
	}
	if (r.error != 0 || !r.idle)
		log_error("cannot sync the journal at its end");
}

void
journal_destroy(struct journal *j)
{
	if (!j)
		return;
	if (j->sync && j->fd >= 0)
		sync_end(j);
	if (j->held.n > 0)
		log_error("the record lacks endings that could not be written");
	journal_sync_destroy(j->sync);
	if (j->turn)
		event_free(j->turn);
	if (j->on_sync)
		event_free(j->on_sync);
	alarm_clear(&j->late);
	alarm_clear(&j->retry);
	alarm_clear(&j->stall);
	alarms_destroy(j->alarms);
	if (j->fd >= 0)
		close(j->fd);
	if (j->next_fd >= 0)
		close(j->next_fd);
	buf_finish(&j->out);
	buf_finish(&j->held);
	free(j->ring);
	free(j);
}

void
journal_segment(struct journal *j, int fd, uint64_t number, uint64_t reserved_bytes)
{
	if (j->phase == PHASE_UNKNOWN || j->next_fd >= 0 || number != j->segment + 1 ||
	    reserved_bytes < 2 * JOURNAL_ENTRY_MAX) {
		close(fd);
		/* One that was sent before the ledger had counted: ask for the right one. */
		log_warn("journal segment %llu is not the one that was asked for",
		    (unsigned long long)number);
		j->asked = false;
		if (j->phase != PHASE_UNKNOWN)
			journal_want_segment(j);
		return;
	}
	j->asked = j->want = false;
	j->next_fd = fd;
	j->next_reserved = reserved_bytes;
	if (j->phase == PHASE_NONE)
		journal_begin(j);
	else if (j->phase == PHASE_OPEN && j->held.n > 0) {
		journal_flush(j);
		if (j->phase == PHASE_OPEN)
			journal_leave(j);
	}
	journal_wake(j);
}

void
journal_no_segment(struct journal *j, int error)
{
	log_error("no new journal segment: %s", strerror(error));
	j->asked = false;
	journal_alarm(j, &j->retry, JOURNAL_RETRY_MS);
}

/* Where a record of `n` bytes, head included, goes: 1: `out`; 0: held; negative: nowhere. */
static int
place(struct journal *j, size_t n, enum journal_class class)
{
	if (j->phase == PHASE_OPEN && j->held.n == 0) {
		if (fits(j->reserved, j->length + j->out.n, n, class))
			return 1;
		journal_want_segment(j);
		if (j->next_fd < 0)
			return -ENOSPC;
		journal_flush(j);
		if (j->phase == PHASE_OPEN)
			journal_leave(j);
	}
	if (j->phase == PHASE_OPEN)
		return -ENOSPC;
	if (j->failed || j->phase == PHASE_UNKNOWN || j->phase == PHASE_NONE) {
		journal_want_segment(j);
		return j->failed ? -EIO : -EAGAIN;
	}
	if (j->next_fd < 0 || !fits(j->next_reserved, j->held.n, n + JOURNAL_ENTRY_MAX, class))
		return -ENOSPC;
	return 0;
}

static int
append_held(
    struct journal *j, struct slice map, enum journal_class class, journal_fn *done, void *arg)
{
	size_t before = j->held.n;
	int ret;

	ret = journal_hold(j, map.p, map.n);
	if (ret == 0)
		ret = journal_waiter_push(j, class, done, arg);
	if (ret < 0)
		j->held.n = before;
	return ret;
}

static int
append_out(
    struct journal *j, struct slice map, enum journal_class class, journal_fn *done, void *arg)
{
	int ret;

	ret = journal_waiter_push(j, class, done, arg);
	if (ret < 0)
		return ret;
	ret = journal_seal(&j->out, j->sealed_chain, map);
	if (ret < 0) {
		j->next_seq--;
		return ret;
	}
	j->sealed_seq++;
	j->sealed_count++;
	assert(j->sealed_seq == j->next_seq - 1);
	/* The next segment in time, so that normal operation never waits for it. */
	if (j->length + j->out.n > (j->reserved - reserve_of(j->reserved)) / 2)
		journal_want_segment(j);
	/* The alarm is not taken back when company comes first: that would be most times. */
	if (class != JOURNAL_OUTCOME)
		journal_wake(j);
	else
		journal_alarm(j, &j->late, journal_late_ms());
	return 0;
}

int
journal_append(struct journal *j, struct slice record, enum journal_class class,
    journal_fn *done, void *arg)
{
	int where, ret;

	if (record.n > JOURNAL_ENTRY_MAX - JOURNAL_HEAD)
		return -ERANGE;
	where = place(j, JOURNAL_HEAD + record.n, class);
	if (where > 0)
		return append_out(j, record, class, done, arg);
	if (where == 0)
		return append_held(j, record, class, done, arg);
	if (class == JOURNAL_EFFECT)
		return where;
	ret = append_held(j, record, class, class == JOURNAL_RELEASE ? done : NULL, arg);
	if (ret < 0)
		log_error("cannot keep the record of an ending: %s", strerror(-ret));
	return ret == 0 && class == JOURNAL_RELEASE ? 0 : where;
}

bool
journal_holds(const struct journal *j)
{
	return j->held.n > 0;
}

bool
journal_lost(const struct journal *j)
{
	return j->lost;
}
