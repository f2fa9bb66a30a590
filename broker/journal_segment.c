#include "broker/journal_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/records.h"

/* Bytes of endings kept in an outage: all that can be open, many times. */
#define HELD_MAX (4u << 20)

/* ---- the queue of records ----------------------------------------------------------- */

struct waiter *
journal_waiter(struct journal *j, uint64_t seq)
{
	assert(seq >= j->first_seq && seq < j->next_seq);
	return &j->ring[seq & (j->cap - 1)];
}

int
journal_waiter_push(struct journal *j, enum journal_class class, journal_fn *done, void *arg)
{
	struct waiter *ring;
	uint64_t seq;
	size_t cap;

	if (j->next_seq - j->first_seq == j->cap) {
		cap = j->cap ? 2 * j->cap : 64;
		ring = calloc(cap, sizeof(*ring));
		if (!ring)
			return -ENOMEM;
		for (seq = j->first_seq; seq < j->next_seq; seq++)
			ring[seq & (cap - 1)] = *journal_waiter(j, seq);
		free(j->ring);
		j->ring = ring;
		j->cap = cap;
	}
	j->next_seq++;
	*journal_waiter(j, j->next_seq - 1) =
	    (struct waiter){ .done = done, .arg = arg, .class = class };
	return 0;
}

static void
refuse(struct journal *j, uint64_t from, uint64_t to)
{
	uint64_t seq;

	for (seq = from < j->first_seq ? j->first_seq : from; seq <= to; seq++)
		journal_waiter(j, seq)->refused = true;
}

void
journal_wake(struct journal *j)
{
	event_active(j->turn, EV_TIMEOUT, 1);
}

void
journal_alarm(struct journal *j, struct alarm *a, uint64_t in_ms)
{
	if (a->at_ms == 0)
		alarm_set(j->alarms, a, clock_ms() + in_ms);
}

void
journal_want_segment(struct journal *j)
{
	if (j->asked || j->next_fd >= 0 || j->retry.at_ms != 0)
		return;
	if (j->failed && !j->proven && j->barren > 0) {
		/* The next may be no better, and a disk is not filled with beginnings. */
		journal_alarm(j, &j->retry, JOURNAL_RETRY_MS);
		return;
	}
	j->want = true;
	journal_wake(j);
}

/* ---- segments ----------------------------------------------------------------------- */

int
journal_hold(struct journal *j, const uint8_t *p, size_t n)
{
	uint32_t len = (uint32_t)n;
	size_t before = j->held.n;

	if (j->held.n + sizeof(len) + n > HELD_MAX)
		return -ENOSPC;
	buf_add(&j->held, &len, sizeof(len));
	buf_add(&j->held, p, n);
	if (j->held.failed) {
		j->held.failed = false;
		j->held.n = before;
		return -ENOMEM;
	}
	return 0;
}

/* A refused ending: kept without its callback, which is told now.  A release keeps it. */
static void
keep(struct journal *j, uint64_t seq, const uint8_t *p, size_t n)
{
	struct waiter w = *journal_waiter(j, seq);
	bool stays = w.class == JOURNAL_RELEASE;
	size_t before = j->held.n;

	if (journal_hold(j, p, n) < 0 ||
	    journal_waiter_push(j, w.class, stays ? w.done : NULL, stays ? w.arg : NULL) < 0) {
		j->held.n = before;
		log_error("cannot keep the record of an ending: memory or bound");
	} else if (stays) {
		journal_waiter(j, seq)->done = NULL;
	}
}

/* The record `seq`, packed as `p`, stands in no file. */
static void
drop(struct journal *j, uint64_t seq, const uint8_t *p, size_t n)
{
	struct waiter *w = journal_waiter(j, seq);

	w->refused = w->lost = true;
	if (w->class != JOURNAL_EFFECT)
		keep(j, seq, p, n);
}

/* Forgets `out`: its records never reached a file.  Endings are kept. */
static void
drop_out(struct journal *j)
{
	uint64_t seq, last = j->sealed_seq;
	struct buf out = j->out;
	size_t at = 0, n;
	const uint8_t *p;

	j->out = (struct buf){ 0 };
	seq = j->written_seq + 1;
	while (at < out.n) {
		p = out.p + at;
		n = 4 + (size_t)protocol_length(p);
		at += n;
		if (j->opening) {
			j->opening = false;
			continue;
		}
		drop(j, seq++, p + JOURNAL_HEAD, n - JOURNAL_HEAD);
	}
	buf_finish(&out);
	j->written_seq = j->sealed_seq = last;
	j->sealed_count = j->count;
	memcpy(j->sealed_chain, j->chain, JOURNAL_HASH);
}

/* Forgets what was held for the next segment, and refuses it.  Endings are kept. */
static void
drop_held(struct journal *j)
{
	uint64_t seq, last = j->next_seq - 1;
	struct buf held = j->held;
	uint32_t len;
	size_t at = 0;

	j->held = (struct buf){ 0 };
	for (seq = j->sealed_seq + 1; seq <= last; seq++) {
		memcpy(&len, held.p + at, sizeof(len));
		at += sizeof(len);
		drop(j, seq, held.p + at, len);
		at += len;
	}
	assert(at == held.n);
	buf_finish(&held);
	j->written_seq = j->sealed_seq = last;
}

static void
watch_sync(struct journal *j)
{
	if (j->stall_ms != 0)
		journal_alarm(j, &j->stall, j->stall_ms);
}

void
journal_ask_sync(struct journal *j)
{
	j->asked_seq = j->written_seq;
	j->syncs++;
	journal_sync_ask(j->sync, j->fd, j->written_seq);
	watch_sync(j);
}

void
journal_leave(struct journal *j)
{
	assert(j->phase == PHASE_OPEN && j->out.n == 0);
	j->phase = PHASE_LEAVING;
	journal_ask_sync(j);
	journal_want_segment(j);
}

/* Counts what stands whole in the first `n` bytes of `out`, and forgets it. */
static void
settle_written(struct journal *j, size_t n)
{
	size_t at = 0, len;
	const uint8_t *p;

	while (at + JOURNAL_HEAD <= n) {
		p = j->out.p + at;
		len = 4 + (size_t)protocol_length(p);
		if (len > n - at)
			break;
		at += len;
		j->count++;
		memcpy(j->chain, p + 4, JOURNAL_HASH);
		if (j->opening)
			j->opening = false;
		else
			j->written_seq++;
	}
	j->length += at;
	memmove(j->out.p, j->out.p + at, j->out.n - at);
	j->out.n -= at;
}

void
journal_flush(struct journal *j)
{
	struct iovec iov = { j->out.p, j->out.n };
	ssize_t n;
	int error;

	if (j->phase != PHASE_OPEN || j->out.n == 0)
		return;
	errno = 0;
	n = j->io->append(j->fd, &iov, 1);
	error = errno;
	if (n == (ssize_t)j->out.n) {
		j->length += j->out.n;
		j->count = j->sealed_count;
		memcpy(j->chain, j->sealed_chain, JOURNAL_HASH);
		j->written_seq = j->sealed_seq;
		j->opening = false;
		j->out.n = 0;
		j->failed = false;
		j->proven = j->proven || !j->durable;
		return;
	}
	log_error("cannot append to journal segment %llu: %s", (unsigned long long)j->segment,
	    n < 0 ? strerror(error) : "short write");
	settle_written(j, n > 0 ? (size_t)n : 0);
	drop_out(j);
	j->failed = true;
	journal_leave(j);
	journal_wake(j);
}

static int
seal_opened(struct journal *j)
{
	struct msg_record r = { 0 };
	char id[32];

	record_mint(id);
	r.id = slice_of(id);
	r.type = slice_of(record_name(RECORD_segment_opened));
	r.at = clock_wall_ms();
	r.segment = j->segment;
	r.previousCount = j->count;
	r.previousHash = (struct slice){ j->chain, JOURNAL_HASH };
	r.previousLength = j->length;
	r.has_segment = r.has_previousCount = r.has_previousHash = r.has_previousLength = true;
	return journal_entry(&j->out, j->sealed_chain, &r);
}

static int
seal_held(struct journal *j)
{
	size_t at = 0;
	uint32_t len;
	int ret = 0;

	while (ret == 0 && at < j->held.n) {
		memcpy(&len, j->held.p + at, sizeof(len));
		ret = journal_seal(&j->out, j->sealed_chain,
		    (struct slice){ j->held.p + at + sizeof(len), len });
		at += sizeof(len) + len;
		j->sealed_count++;
	}
	return ret;
}

void
journal_begin(struct journal *j)
{
	uint64_t previous = j->length;
	int ret;

	assert(j->phase == PHASE_NONE && j->fd < 0 && j->out.n == 0 && j->next_fd >= 0);
	memcpy(j->sealed_chain, j->chain, JOURNAL_HASH);
	j->sealed_count = j->count + 1;
	j->segment++;
	ret = seal_opened(j);
	if (ret == 0)
		ret = seal_held(j);
	if (ret < 0) {
		/* Memory.  Nothing has touched the new segment: try again later. */
		log_error("cannot begin journal segment %llu: %s",
		    (unsigned long long)j->segment, strerror(-ret));
		j->segment--;
		j->length = previous;
		j->out.n = 0;
		journal_alarm(j, &j->retry, JOURNAL_RETRY_MS);
		return;
	}
	j->length = 0;
	j->opening = true;
	j->held.n = 0;
	j->sealed_seq = j->next_seq - 1;
	j->fd = j->next_fd;
	j->reserved = j->next_reserved;
	j->next_fd = -1;
	j->barren = j->failed && !j->proven ? j->barren + 1 : 0;
	j->proven = false;
	j->phase = PHASE_OPEN;
	journal_wake(j);
}

/* The old segment is on the disk to its end, or never will be. */
static void
left(struct journal *j, int error)
{
	close(j->fd);
	j->fd = -1;
	j->phase = PHASE_NONE;
	journal_sync_next(j->sync, j->written_seq);
	j->synced_seq = j->asked_seq = j->written_seq;
	if (error != 0)
		j->failed = true;
	if (j->next_fd >= 0)
		journal_begin(j);
	else
		journal_want_segment(j);
}

void
journal_settle_sync(struct journal *j)
{
	struct journal_sync_result r = journal_sync_poll(j->sync);

	if (j->phase != PHASE_OPEN && j->phase != PHASE_LEAVING)
		return;
	alarm_clear(&j->stall);
	if (r.synced > j->synced_seq) {
		j->synced_seq = r.synced;
		j->proven = true;
	}
	if (r.error != 0) {
		log_error("cannot sync journal segment %llu: %s",
		    (unsigned long long)j->segment, strerror(r.error));
		if (j->durable)
			refuse(j, j->synced_seq + 1, j->written_seq);
		/* The kernel reports it once: this segment is not to be believed again. */
		if (j->phase == PHASE_OPEN)
			drop_out(j);
		left(j, r.error);
	} else if (j->phase == PHASE_LEAVING && r.idle) {
		left(j, 0);
	} else if (!r.idle) {
		watch_sync(j); /* another one has begun */
	}
}

void
journal_give_up_sync(struct journal *j)
{
	if (j->phase != PHASE_OPEN && j->phase != PHASE_LEAVING)
		return;
	log_error("journal segment %llu: a sync has not ended for %u ms; "
		  "nothing waits for it any more",
	    (unsigned long long)j->segment, j->stall_ms);
	journal_flush(j);
	if (j->phase == PHASE_OPEN)
		journal_leave(j);
	alarm_clear(&j->stall);
	j->failed = true;
	if (j->durable)
		refuse(j, j->synced_seq + 1, j->written_seq);
	drop_held(j);
}
