#include "broker/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "broker/journal_sync.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/records.h"

#define RESERVE_MIN    (64u << 10) /* bytes kept for endings at a segment's end */
#define HELD_MAX       (4u << 20) /* bytes of endings kept in an outage: all that can be open, many times */
#define UNSYNCED_MAX   256 /* records that nobody waits for, before a sync is asked for anyway */
#define RETRY_MS       1000 /* between two requests for a segment that could not be made */

enum phase {
	PHASE_UNKNOWN, /* the ledger has not spoken */
	PHASE_NONE, /* no segment to write to */
	PHASE_OPEN, /* entries go to `out`, and from there to `fd` */
	PHASE_LEAVING, /* `fd` is synced to its end; records are held for the next segment */
};

/* One record from its append to its callback. */
struct waiter {
	journal_fn *done;
	void *arg;
	enum journal_class class;
	bool refused;
};

/*
 * Records are numbered from 1 in the order of their appends (not as in the chain, where
 * segment.opened counts too):
 *
 *	synced_seq <= written_seq <= sealed_seq < next_seq
 *	           in the file    in `out`      in `held`
 */
struct journal {
	const struct journal_io *io;
	const struct journal_handler *handler;
	void *arg;
	bool durable;
	struct event *turn; /* active: something is left for the end of this turn */
	struct event *on_sync;
	struct event *retry;
	struct journal_sync *sync;
	enum phase phase;
	bool failed; /* the segment before failed, and no other has come */
	bool told; /* what on_available() said last */

	/* The record as it stands in files, and with `out` added to it. */
	uint64_t segment, length, count;
	uint8_t chain[JOURNAL_HASH];
	uint64_t sealed_count;
	uint8_t sealed_chain[JOURNAL_HASH];

	int fd; /* of `segment`, or -1 */
	uint64_t reserved; /* bytes of it */
	int next_fd; /* the segment after it, or -1 */
	uint64_t next_reserved;
	bool asked; /* for a segment, and no answer yet */
	bool want; /* ask at the end of this turn */

	struct buf out; /* entries */
	bool opening; /* the first of them is segment.opened */
	struct buf held; /* u32 length in the host's order, packed map; again */
	struct buf scratch;

	struct waiter *ring; /* of cap waiters: records first_seq..next_seq - 1 */
	size_t cap;
	uint64_t first_seq, next_seq, sealed_seq, written_seq, synced_seq, asked_seq;
};

static ssize_t
system_append(int fd, const struct iovec *iov, int n)
{
	return writev(fd, iov, n);
}

const struct journal_io journal_io_system = { system_append, fdatasync };

/* ---- the queue of records ----------------------------------------------------------- */

static struct waiter *
waiter_at(struct journal *j, uint64_t seq)
{
	assert(seq >= j->first_seq && seq < j->next_seq);
	return &j->ring[seq & (j->cap - 1)];
}

static int
waiter_push(struct journal *j, enum journal_class class, journal_fn *done, void *arg)
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
			ring[seq & (cap - 1)] = *waiter_at(j, seq);
		free(j->ring);
		j->ring = ring;
		j->cap = cap;
	}
	j->next_seq++;
	*waiter_at(j, j->next_seq - 1) = (struct waiter){ done, arg, class, false };
	return 0;
}

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
		w = *waiter_at(j, j->first_seq);
		if (!w.refused && j->first_seq > durable_seq(j))
			break;
		j->first_seq++;
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
		if (waiter_at(j, seq)->done && !waiter_at(j, seq)->refused)
			return true;
	return false;
}

static void
refuse(struct journal *j, uint64_t from, uint64_t to)
{
	uint64_t seq;

	for (seq = from < j->first_seq ? j->first_seq : from; seq <= to; seq++)
		waiter_at(j, seq)->refused = true;
}

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

static void
wake(struct journal *j)
{
	event_active(j->turn, EV_TIMEOUT, 1);
}

static void
want_segment(struct journal *j)
{
	if (!j->asked && j->next_fd < 0 && !evtimer_pending(j->retry, NULL)) {
		j->want = true;
		wake(j);
	}
}

/* ---- segments ----------------------------------------------------------------------- */

/* Keeps a packed record for the next segment. */
static int
hold(struct journal *j, const uint8_t *p, size_t n)
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

/* A refused ending: kept without its callback, which has been told. */
static void
keep(struct journal *j, const uint8_t *p, size_t n)
{
	size_t before = j->held.n;

	if (hold(j, p, n) < 0 || waiter_push(j, JOURNAL_ENDING, NULL, NULL) < 0) {
		j->held.n = before;
		log_error("cannot keep the record of an ending: memory or bound");
	}
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
		n = 4 + ((size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]);
		at += n;
		if (j->opening) {
			j->opening = false;
			continue;
		}
		waiter_at(j, seq)->refused = true;
		if (waiter_at(j, seq)->class == JOURNAL_ENDING)
			keep(j, p + JOURNAL_HEAD, n - JOURNAL_HEAD);
		seq++;
	}
	buf_finish(&out);
	j->written_seq = j->sealed_seq = last;
	j->sealed_count = j->count;
	memcpy(j->sealed_chain, j->chain, JOURNAL_HASH);
}

/* Nothing is appended to this segment any more: it is synced to its end, then left. */
static void
leave(struct journal *j)
{
	assert(j->phase == PHASE_OPEN && j->out.n == 0);
	j->phase = PHASE_LEAVING;
	j->asked_seq = j->written_seq;
	journal_sync_ask(j->sync, j->fd, j->written_seq);
	want_segment(j);
}

/* Counts what stands whole in the first `n` bytes of `out`, and forgets it. */
static void
settle_written(struct journal *j, size_t n)
{
	size_t at = 0, len;
	const uint8_t *p;

	while (at + JOURNAL_HEAD <= n) {
		p = j->out.p + at;
		len = 4 + ((size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]);
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

/* One write for all that this turn appended. */
static void
flush(struct journal *j)
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
		return;
	}
	log_error("cannot append to journal segment %llu: %s", (unsigned long long)j->segment,
	    n < 0 ? strerror(error) : "short write");
	settle_written(j, n > 0 ? (size_t)n : 0);
	drop_out(j);
	j->failed = true;
	leave(j);
	wake(j);
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

/* The old segment is left, and the next is there: its first records. */
static void
begin(struct journal *j)
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
		event_add(j->retry, &(struct timeval){ .tv_sec = RETRY_MS / 1000 });
		return;
	}
	j->length = 0;
	j->opening = true;
	j->held.n = 0;
	j->sealed_seq = j->next_seq - 1;
	j->fd = j->next_fd;
	j->reserved = j->next_reserved;
	j->next_fd = -1;
	j->phase = PHASE_OPEN;
	wake(j);
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
		begin(j);
	else
		want_segment(j);
}

static void
settle_sync(struct journal *j)
{
	struct journal_sync_result r = journal_sync_poll(j->sync);

	if (j->phase != PHASE_OPEN && j->phase != PHASE_LEAVING)
		return;
	if (r.synced > j->synced_seq)
		j->synced_seq = r.synced;
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
	}
}

/* ---- the end of a turn of the loop -------------------------------------------------- */

bool
journal_available(const struct journal *j)
{
	uint64_t one = JOURNAL_ENTRY_MAX;

	switch (j->phase) {
	case PHASE_OPEN:
		return j->next_fd >= 0 || (j->held.n == 0 &&
		    fits(j->reserved, j->length + j->out.n, one, JOURNAL_EFFECT));
	case PHASE_LEAVING:
		return !j->failed && j->next_fd >= 0 &&
		    fits(j->next_reserved, j->held.n, 2 * one, JOURNAL_EFFECT);
	default:
		return false;
	}
}

static void
turn(struct journal *j)
{
	bool available;

	flush(j);
	/* One sync for everything that waits; the thread takes the latest request. */
	if (j->durable && j->phase == PHASE_OPEN && j->written_seq > j->asked_seq &&
	    someone_waits(j)) {
		j->asked_seq = j->written_seq;
		journal_sync_ask(j->sync, j->fd, j->written_seq);
	}
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
journal_on_sync(evutil_socket_t fd, short events, void *arg)
{
	struct journal *j = arg;

	(void)fd;
	(void)events;
	settle_sync(j);
	turn(j);
}

static void
journal_on_retry(evutil_socket_t fd, short events, void *arg)
{
	struct journal *j = arg;

	(void)fd;
	(void)events;
	if (j->phase == PHASE_NONE && j->next_fd >= 0)
		begin(j);
	else
		want_segment(j);
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

	ret = journal_prepare();
	if (ret < 0) {
		errno = -ret;
		return NULL;
	}
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
	j->retry = evtimer_new(base, journal_on_retry, j);
	if (j->sync)
		j->on_sync = event_new(base, journal_sync_fd(j->sync), EV_READ | EV_PERSIST,
		    journal_on_sync, j);
	if (!j->turn || !j->retry || !j->on_sync || event_add(j->on_sync, NULL) < 0) {
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
		want_segment(j);
}

void
journal_destroy(struct journal *j)
{
	if (!j)
		return;
	if (j->sync && j->fd >= 0) {
		flush(j);
		journal_sync_wait(j->sync);
		if (j->phase == PHASE_OPEN && j->written_seq > j->synced_seq) {
			journal_sync_ask(j->sync, j->fd, j->written_seq);
			if (journal_sync_wait(j->sync).error != 0)
				log_error("cannot sync the journal at its end");
		}
	}
	if (j->held.n > 0)
		log_error("the record lacks endings that could not be written");
	journal_sync_destroy(j->sync);
	if (j->turn)
		event_free(j->turn);
	if (j->on_sync)
		event_free(j->on_sync);
	if (j->retry)
		event_free(j->retry);
	if (j->fd >= 0)
		close(j->fd);
	if (j->next_fd >= 0)
		close(j->next_fd);
	buf_finish(&j->out);
	buf_finish(&j->held);
	buf_finish(&j->scratch);
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
			want_segment(j);
		return;
	}
	j->asked = j->want = false;
	j->next_fd = fd;
	j->next_reserved = reserved_bytes;
	if (j->phase == PHASE_NONE)
		begin(j);
	else if (j->phase == PHASE_OPEN && j->held.n > 0) {
		flush(j);
		if (j->phase == PHASE_OPEN)
			leave(j);
	}
	wake(j);
}

void
journal_no_segment(struct journal *j, int error)
{
	log_error("no new journal segment: %s", strerror(error));
	j->asked = false;
	event_add(j->retry, &(struct timeval){ .tv_sec = RETRY_MS / 1000 });
}

/* Where a record of `n` bytes, its head included, goes: 1: `out`, 0: held, negative: refused. */
static int
place(struct journal *j, size_t n, enum journal_class class)
{
	if (j->phase == PHASE_OPEN && j->held.n == 0) {
		if (fits(j->reserved, j->length + j->out.n, n, class))
			return 1;
		want_segment(j);
		if (j->next_fd < 0)
			return -ENOSPC;
		flush(j);
		if (j->phase == PHASE_OPEN)
			leave(j);
	}
	if (j->phase == PHASE_OPEN)
		return -ENOSPC;
	if (j->failed || j->phase == PHASE_UNKNOWN || j->phase == PHASE_NONE) {
		want_segment(j);
		return j->failed ? -EIO : -EAGAIN;
	}
	if (j->next_fd < 0 || !fits(j->next_reserved, j->held.n, n + JOURNAL_ENTRY_MAX, class))
		return -ENOSPC;
	return 0;
}

static int
append_held(struct journal *j, struct slice map, enum journal_class class, journal_fn *done,
    void *arg)
{
	size_t before = j->held.n;
	int ret;

	ret = hold(j, map.p, map.n);
	if (ret == 0)
		ret = waiter_push(j, class, done, arg);
	if (ret < 0)
		j->held.n = before;
	return ret;
}

static int
append_out(struct journal *j, struct slice map, enum journal_class class, journal_fn *done,
    void *arg)
{
	int ret;

	ret = waiter_push(j, class, done, arg);
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
		want_segment(j);
	wake(j);
	return 0;
}

int
journal_append(struct journal *j, const struct msg_record *r, enum journal_class class,
    journal_fn *done, void *arg)
{
	struct slice map;
	int where, ret;

	j->scratch.n = 0;
	ret = protocol_pack(&j->scratch, MSG_record, r);
	if (ret < 0)
		return ret;
	map = (struct slice){ j->scratch.p, j->scratch.n };
	if (map.n > JOURNAL_ENTRY_MAX - JOURNAL_HEAD)
		return -ERANGE;
	where = place(j, JOURNAL_HEAD + map.n, class);
	if (where > 0)
		return append_out(j, map, class, done, arg);
	if (where == 0)
		return append_held(j, map, class, done, arg);
	if (class == JOURNAL_ENDING) {
		ret = append_held(j, map, class, NULL, NULL);
		if (ret < 0)
			log_error("cannot keep the record of an ending: %s", strerror(-ret));
	}
	return where;
}

uint64_t
journal_count(const struct journal *j)
{
	return j->sealed_count;
}
