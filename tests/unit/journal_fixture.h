/*
 * journal_fixture: a journal in a directory, whose n-th write or sync goes by plan: short, failing,
 * or stalled until it is let go.
 */
#ifndef TESTS_UNIT_JOURNAL_FIXTURE_H
#define TESTS_UNIT_JOURNAL_FIXTURE_H

#include <check.h>
#include <fcntl.h>
#include <pthread.h>

#include <event2/event.h>

#include "broker/journal.h"
#include "common/util.h"

#define MIB (1u << 20)

/* What the disk does.  Calls are counted from 1; 0 is never. */
static struct plan {
	int short_write, write_error, write_errno; /* these calls */
	ssize_t short_bytes; /* written by the short one; -1: all but one */
	int sync_error;
	int stalled_sync; /* this call waits for release() */
	int writes, syncs;
	bool waiting, released;
} plan;
static pthread_mutex_t plan_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t plan_moved = PTHREAD_COND_INITIALIZER;

static inline ssize_t
plan_append(int fd, const struct iovec *iov, int n)
{
	plan.writes++;
	if (plan.writes == plan.write_error) {
		errno = plan.write_errno;
		return -1;
	}
	if (plan.writes == plan.short_write)
		return write(fd, iov[0].iov_base,
		    plan.short_bytes < 0 ? iov[0].iov_len - 1 : (size_t)plan.short_bytes);
	return writev(fd, iov, n);
}

static inline int
plan_sync(int fd)
{
	int error, ret = 0;

	pthread_mutex_lock(&plan_lock);
	plan.syncs++;
	error = plan.syncs == plan.sync_error ? EIO : 0;
	if (plan.syncs == plan.stalled_sync) {
		plan.waiting = true;
		pthread_cond_broadcast(&plan_moved);
		while (!plan.released)
			pthread_cond_wait(&plan_moved, &plan_lock);
	}
	pthread_mutex_unlock(&plan_lock);
	if (!error)
		ret = fdatasync(fd);
	errno = error;
	return error ? -1 : ret;
}

static inline void
until_stalled(void)
{
	pthread_mutex_lock(&plan_lock);
	while (!plan.waiting)
		pthread_cond_wait(&plan_moved, &plan_lock);
	pthread_mutex_unlock(&plan_lock);
}

static inline void
release(void)
{
	pthread_mutex_lock(&plan_lock);
	plan.released = true;
	pthread_cond_broadcast(&plan_moved);
	pthread_mutex_unlock(&plan_lock);
}

static const struct journal_io plan_io = { plan_append, plan_sync };

/* The supervisor's part, and the broker's. */
static struct event_base *base;
static struct journal *j;
static char dir[] = "/tmp/caisson-journal-XXXXXX";
static uint64_t reserved = MIB;
static bool auto_segments = true;
static unsigned wanted; /* how often a segment was asked for */
static uint64_t wanted_number;
static int available = -1; /* what on_available() said last */
static char told[4096];	   /* callbacks: "1+ 2- ...": record, ok or refused */

static inline int
segment_file(uint64_t number)
{
	char path[64], name[17];
	int fd;

	journal_name(name, number);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static inline void
on_segment_wanted(uint64_t number, void *arg)
{
	(void)arg;
	wanted++;
	wanted_number = number;
	if (auto_segments)
		journal_segment(j, segment_file(number), number, reserved);
}

static inline void
on_available(bool yes, void *arg)
{
	(void)arg;
	available = yes;
}

static const struct journal_handler handler = { on_segment_wanted, on_available };

static inline void
on_done(void *arg, bool ok)
{
	size_t n = strlen(told);

	snprintf(
	    told + n, sizeof(told) - n, "%s%d%c", n ? " " : "", *(int *)arg, ok ? '+' : '-');
}

static inline void
setup(void)
{
	plan = (struct plan){ 0 };
	wanted = 0;
	available = -1;
	told[0] = '\0';
	auto_segments = true;
	reserved = MIB;
	strcpy(dir, "/tmp/caisson-journal-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	base = event_base_new();
}

static inline void
teardown(void)
{
	char path[64], name[17];
	uint64_t i;

	release();
	journal_destroy(j);
	j = NULL;
	event_base_free(base);
	for (i = 1; i < 20; i++) {
		journal_name(name, i);
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		unlink(path);
	}
	ck_assert_int_eq(rmdir(dir), 0);
}

static inline void
create(bool durable)
{
	uint8_t zero[JOURNAL_HASH] = { 0 };

	j = journal_create(base, &plan_io, durable, 0, zero, 0, 0, &handler, NULL);
	ck_assert_ptr_nonnull(j);
}

static inline void
turn(void)
{
	ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
}

static inline void
until_told(const char *text)
{
	while (strlen(told) < strlen(text))
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	ck_assert_str_eq(told, text);
}

static inline void
until_available(int yes)
{
	while (available != yes)
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
}

static int numbers[2000];

static inline int
append_record(const struct msg_record *r, enum journal_class class, journal_fn *done, int i)
{
	struct buf map = { 0 };
	int ret;

	ck_assert_int_eq(protocol_pack(&map, MSG_record, r), 0);
	ret = journal_append(j, buf_slice(&map), class, done, &numbers[i]);
	buf_finish(&map);
	return ret;
}

static inline int
append_sized(int i, enum journal_class class, size_t extra, bool callback)
{
	static uint8_t text[60000];
	struct msg_record r = { 0 };
	struct buf list = { 0 };
	char id[32];
	int ret;

	snprintf(id, sizeof(id), "%d", i);
	numbers[i] = i;
	r.id = slice_of(id);
	r.type = slice_of(class == JOURNAL_EFFECT ? "authorization.checked" : "tool.invoked");
	r.at = 1;
	if (extra > 0) {
		/* One string of `extra` bytes in the path. */
		uint8_t head[] = { 0x91, 0xda, (uint8_t)(extra >> 8), (uint8_t)extra };

		memset(text, 'x', sizeof(text));
		buf_add(&list, head, sizeof(head));
		buf_add(&list, text, extra);
		r.has_path = true;
		r.path = (struct slice){ list.p, list.n };
	}
	ret = append_record(&r, class, callback ? on_done : NULL, i);
	buf_finish(&list);
	return ret;
}

static inline int
append(int i, enum journal_class class)
{
	return append_sized(i, class, 0, true);
}

/* The ids in segments from..to, "o" for segment.opened, checking the chain and what each
 * segment says of the one before. */
static inline const char *
record_is(unsigned segments)
{
	static char text[8192];
	static uint8_t bytes[4 * MIB];
	uint8_t chain[JOURNAL_HASH] = { 0 };
	uint64_t count = 0, length = 0, number;
	struct msg_record r;
	struct fault fault;
	char path[64], name[17];
	size_t at, len, n;
	ssize_t got;
	int fd;

	text[0] = '\0';
	for (number = 1; number <= segments; number++) {
		journal_name(name, number);
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		ck_assert_int_ge(fd, 0);
		got = read(fd, bytes, sizeof(bytes));
		ck_assert_int_ge(got, 0);
		close(fd);
		uint8_t before[JOURNAL_HASH];
		memcpy(before, chain, sizeof(before));
		for (at = 0; journal_next(bytes + at, (size_t)got - at, chain, &r, &len,
				 &fault) == JOURNAL_READ_OK;
		     at += len) {
			n = strlen(text);
			if (at == 0) {
				ck_assert(slice_is(r.type, "segment.opened"));
				ck_assert_uint_eq(r.segment, number);
				ck_assert_uint_eq(r.previousCount, count);
				ck_assert_uint_eq(r.previousLength, length);
				ck_assert_mem_eq(r.previousHash.p, before, sizeof(before));
				snprintf(text + n, sizeof(text) - n, "%so", n ? " " : "");
			} else {
				ck_assert(!slice_is(r.type, "segment.opened"));
				snprintf(
				    text + n, sizeof(text) - n, " %.*s", (int)r.id.n, r.id.p);
			}
			count++;
		}
		length = at;
	}
	return text;
}

#endif /* TESTS_UNIT_JOURNAL_FIXTURE_H */
