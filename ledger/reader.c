#include "ledger/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/records.h"
#include "common/util.h"

#define BUF_MAX	   (1u << 20)  /* bytes read at once; many entries */
#define RESYNC_MAX (32u << 20) /* bytes hashed in search of entries behind a damaged one */

int
reader_init(struct reader *r, int dir_fd)
{
	memset(r, 0, sizeof(*r));
	r->dir_fd = dir_fd;
	r->fd = -1;
	r->buf = malloc(BUF_MAX);
	return r->buf ? 0 : -ENOMEM;
}

void
reader_finish(struct reader *r)
{
	if (r->fd >= 0)
		close(r->fd);
	free(r->buf);
	memset(r, 0, sizeof(*r));
	r->fd = -1;
}

/* -ENOTSUP for what is no regular file: nobody who writes a journal makes such a one. */
static int
open_segment(int dir_fd, uint64_t number)
{
	cleanup_fd int fd = -1;
	struct stat st;
	char name[17];

	if (number == 0 || number > 99999999)
		return -ENOENT;
	journal_name(name, number);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOTSUP;
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? steal_fd(&fd) : -ENOTSUP;
}

static void
use_segment(struct reader *r, int fd, uint64_t number)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = fd;
	r->at.segment = number;
	r->at.offset = 0;
	r->buf_offset = r->buf_n = 0;
}

void
reader_seek(struct reader *r, const struct position *at)
{
	use_segment(r, -1, at->segment);
	r->at = *at;
}

static ssize_t
read_at(int fd, void *p, size_t n, uint64_t offset)
{
	size_t got = 0;
	ssize_t ret;

	while (got < n) {
		ret = pread(fd, (uint8_t *)p + got, n - got, (off_t)(offset + got));
		if (ret < 0 && errno == EINTR)
			continue;
		if (ret < 0)
			return -errno;
		if (ret == 0)
			break;
		got += (size_t)ret;
	}
	return (ssize_t)got;
}

/* The length of the whole entry at `p`, 0 if its word is none. */
static size_t
entry_length(const uint8_t *p, size_t n)
{
	size_t len;

	if (n < 4)
		return 0;
	len = protocol_length(p);
	return len > JOURNAL_HASH && len <= JOURNAL_ENTRY_MAX - 4 ? len + 4 : 0;
}

/* The record at the front of `p`, whatever it chains to. */
static bool
entry_parse(const uint8_t *p, size_t n, struct entry *ret)
{
	size_t len = entry_length(p, n);
	struct fault fault;

	if (len == 0 || len > n)
		return false;
	ret->map = (struct slice){ p + JOURNAL_HEAD, len - JOURNAL_HEAD };
	ret->length = len;
	return protocol_unpack(ret->map.p, ret->map.n, MSG_record, &ret->record, &fault) == 0;
}

static int __attribute__((format(printf, 2, 3))) damage(struct reader *r, const char *fmt, ...)
{
	va_list ap;
	int n;

	n = snprintf(r->problem, sizeof(r->problem),
	    "segment %llu, offset %llu: ", (unsigned long long)r->at.segment,
	    (unsigned long long)r->at.offset);
	va_start(ap, fmt);
	vsnprintf(r->problem + n, sizeof(r->problem) - (size_t)n, fmt, ap);
	va_end(ap);
	r->damaged = true;
	return READER_DAMAGE;
}

/* A segment that cannot be opened: says which, and returns what it means. */
static int
unopened(struct reader *r, uint64_t number, int error)
{
	char name[17];

	if (error == -ENOTSUP)
		return damage(r,
		    "segment %llu is not a regular file; restore it from a copy",
		    (unsigned long long)number);
	journal_name(name, number);
	snprintf(r->problem, sizeof(r->problem), "%s: %s", name, strerror(-error));
	return error;
}

/* What stands wrong at this place, from the reading of it. */
static const char *
describe(enum journal_read read, const struct fault *fault)
{
	switch (read) {
	case JOURNAL_READ_END: return "the segment ends";
	case JOURNAL_READ_SHORT: return "an entry begins and does not end";
	case JOURNAL_READ_CHAIN:
		return "the entry does not follow from the one before it: one of them was "
		       "changed";
	default: return fault->rule ? fault->rule : "not an entry";
	}
}

/*
 * Damage or a torn tail?  Two entries that chain to each other were once written whole,
 * and behind a torn entry nothing is ever written.
 */
static bool
entries_follow(const uint8_t *p, size_t n, const uint8_t before[JOURNAL_HASH])
{
	uint8_t chain[JOURNAL_HASH];
	struct msg_record r;
	struct fault fault;
	size_t i, len, next_len, hashed = 0;
	struct buf sealed = { 0 };
	bool found = false;

	/* The writer may have completed it since we looked. */
	memcpy(chain, before, sizeof(chain));
	if (journal_next(p, n, chain, &r, &len, &fault) == JOURNAL_READ_OK)
		return false;
	/* The chain value of the entry that is wrong may be all that is wrong with it. */
	len = entry_length(p, n);
	if (len > 0 && len <= n &&
	    journal_seal(
		&sealed, chain, (struct slice){ p + JOURNAL_HEAD, len - JOURNAL_HEAD }) == 0)
		found = journal_next(p + len, n - len, chain, &r, &next_len, &fault) ==
			JOURNAL_READ_OK;
	buf_finish(&sealed);
	for (i = 0; !found && i + JOURNAL_HEAD < n && hashed < RESYNC_MAX; i++) {
		len = entry_length(p + i, n - i);
		if (len == 0 || len >= n - i)
			continue;
		next_len = entry_length(p + i + len, n - i - len);
		if (next_len == 0 || next_len > n - i - len)
			continue;
		hashed += next_len;
		memcpy(chain, p + i + 4, sizeof(chain));
		found = journal_next(p + i + len, n - i - len, chain, &r, &next_len, &fault) ==
			JOURNAL_READ_OK;
	}
	return found;
}

/* Looks for them in what lies behind `offset` of a segment.  Returns 1, 0 or an errno. */
static int
tail_is_damaged(int fd, uint64_t offset, const uint8_t before[JOURNAL_HASH])
{
	struct stat st;
	uint8_t *tail;
	uint64_t n;
	ssize_t got;
	int ret;

	if (fstat(fd, &st) < 0)
		return -errno;
	n = (uint64_t)st.st_size > offset ? (uint64_t)st.st_size - offset : 0;
	/* A batch is never larger than this, and a torn tail is part of one batch. */
	if (n > RESYNC_MAX)
		n = RESYNC_MAX;
	tail = malloc(n ? n : 1);
	if (!tail)
		return -ENOMEM;
	got = read_at(fd, tail, n, offset);
	ret = got < 0 ? (int)got : entries_follow(tail, (size_t)got, before);
	free(tail);
	return ret;
}

/* The first record of the segment `fd`: true if one is there, however it chains. */
static int
peek(int fd, uint8_t *buf, struct entry *ret)
{
	ssize_t n = read_at(fd, buf, JOURNAL_ENTRY_MAX, 0);

	return n < 0 ? (int)n : entry_parse(buf, (size_t)n, ret);
}

/* Does segment `number`, of which `e` is the first record, follow from here? */
static int
check_opened(
    struct reader *r, uint64_t number, const struct entry *e, uint64_t length, const char *what)
{
	const struct msg_record *m = &e->record;
	unsigned long long n = number;

	if (!slice_is(m->type, record_name(RECORD_segment_opened)) || !m->has_segment ||
	    !m->has_previousCount || !m->has_previousHash || !m->has_previousLength ||
	    m->segment != number)
		return damage(r,
		    "segment %llu does not begin with its own name; "
		    "compare it with a copy",
		    n);
	if (m->previousCount > r->at.count)
		return damage(r,
		    "%s, and segment %llu says that %llu more records stood here: "
		    "they were changed or removed; restore this segment from a copy",
		    what, n, (unsigned long long)(m->previousCount - r->at.count));
	if (m->previousCount < r->at.count || m->previousLength != length ||
	    memcmp(m->previousHash.p, r->at.hash, JOURNAL_HASH) != 0)
		return damage(r,
		    "segment %llu follows another record than the one before it: "
		    "one of them was replaced; compare both with a copy",
		    n);
	return 0;
}

static int fill(struct reader *r, const uint8_t **ret_p, size_t *ret_n);

/*
 * Was an entry written here after we looked?  Asked once a later segment has begun: from
 * then on nothing is added to this one.
 */
static bool
has_grown(struct reader *r)
{
	uint8_t chain[JOURNAL_HASH];
	struct msg_record m;
	struct fault fault;
	const uint8_t *p;
	size_t n, len;

	memcpy(chain, r->at.hash, sizeof(chain));
	r->buf_n = 0;
	return r->fd >= 0 && fill(r, &p, &n) == 0 &&
	       journal_next(p, n, chain, &m, &len, &fault) == JOURNAL_READ_OK;
}

/* Was this tail looked through already, at this size? */
static bool
looks_new(struct reader *r, uint64_t segment, uint64_t size)
{
	if (r->clean_segment == segment && r->clean_size == size &&
	    r->clean_count == r->at.count)
		return false;
	r->clean_segment = segment;
	r->clean_size = size;
	r->clean_count = r->at.count;
	return true;
}

/*
 * This segment gives no more entries: goes on to the next one that has any.  Returns 1 if
 * there is one, READER_END, READER_DAMAGE or a negative errno.
 */
static int
next_segment(struct reader *r, enum journal_read read, const struct fault *fault, uint64_t size)
{
	cleanup_free uint8_t *buf = malloc(JOURNAL_ENTRY_MAX);
	uint64_t number, last, length = r->at.offset, torn = size - r->at.offset;
	struct entry e;
	struct stat st;
	int fd, ret;

	if (!buf)
		return -ENOMEM;
	ret = reader_last_segment(r->dir_fd, &last);
	if (ret < 0)
		return ret;
	for (number = r->at.segment + 1; number <= last; number++) {
		fd = open_segment(r->dir_fd, number);
		if (fd == -ENOENT)
			return damage(r,
			    "segment %llu is missing, and segment %llu is there; "
			    "restore it from a copy",
			    (unsigned long long)number, (unsigned long long)last);
		if (fd < 0)
			return unopened(r, number, fd);
		ret = peek(fd, buf, &e);
		if (ret == 0 && fstat(fd, &st) < 0)
			ret = -errno;
		if (ret > 0 && has_grown(r)) {
			close(fd);
			return 1;
		}
		if (ret > 0)
			ret = check_opened(r, number, &e, length, describe(read, fault));
		else if (ret == 0)
			ret = -EAGAIN;
		if (ret == READER_DAMAGE) {
			close(fd);
			return ret;
		}
		if (ret == 0) {
			r->torn_before += torn;
			use_segment(r, fd, number);
			return 1;
		}
		if (ret == -EAGAIN && st.st_size > 0 &&
		    looks_new(r, number, (uint64_t)st.st_size))
			ret = tail_is_damaged(fd, 0, r->at.hash);
		close(fd);
		if (ret == 1)
			return damage(r,
			    "segment %llu does not begin with an entry, and records "
			    "follow; restore that segment from a copy",
			    (unsigned long long)number);
		if (ret < 0 && ret != -EAGAIN)
			return ret;
		/* Made, and never begun whole. */
		torn += (uint64_t)st.st_size;
		length = 0;
	}
	r->torn = torn;
	return READER_END;
}

static int
at_end(struct reader *r, enum journal_read read, const struct fault *fault)
{
	struct stat st = { 0 };
	int ret;

	if (r->fd >= 0 && fstat(r->fd, &st) < 0)
		return -errno;
	if (r->fd >= 0 && (uint64_t)st.st_size < r->at.offset)
		return damage(r,
		    "the segment is shorter than it was: %llu bytes are missing; "
		    "restore it from a copy",
		    (unsigned long long)(r->at.offset - (uint64_t)st.st_size));
	ret = next_segment(r, read, fault, (uint64_t)st.st_size);
	if (ret != READER_END || read == JOURNAL_READ_END ||
	    !looks_new(r, r->at.segment, (uint64_t)st.st_size))
		return ret;
	ret = tail_is_damaged(r->fd, r->at.offset, r->at.hash);
	if (ret == 1)
		return damage(r, "%s, and records follow it; restore this segment from a copy",
		    describe(read, fault));
	return ret;
}

/* Makes the bytes at r->at.offset available, a whole entry of them if there is one. */
static int
fill(struct reader *r, const uint8_t **ret_p, size_t *ret_n)
{
	uint64_t skip = r->at.offset - r->buf_offset;
	size_t left;
	ssize_t n;

	if (r->fd < 0 && r->at.segment > 0) {
		n = open_segment(r->dir_fd, r->at.segment);
		if (n < 0)
			return unopened(r, r->at.segment, (int)n);
		r->fd = (int)n;
		r->buf_n = 0;
	}
	left = r->at.offset >= r->buf_offset && skip < r->buf_n ? r->buf_n - (size_t)skip : 0;
	if (r->fd >= 0 && (left == 0 || entry_length(r->buf + skip, left) == 0 ||
			      entry_length(r->buf + skip, left) > left)) {
		n = read_at(r->fd, r->buf, BUF_MAX, r->at.offset);
		if (n < 0)
			return (int)n;
		r->buf_offset = r->at.offset;
		r->buf_n = left = (size_t)n;
		skip = 0;
	}
	*ret_p = left > 0 ? r->buf + skip : r->buf;
	*ret_n = left;
	return 0;
}

int
reader_next(struct reader *r, struct entry *ret)
{
	uint8_t chain[JOURNAL_HASH];
	struct fault fault = { 0 };
	enum journal_read read;
	const uint8_t *p = NULL;
	size_t n = 0, len = 0;
	int err;

	for (;;) {
		if (r->damaged)
			return READER_DAMAGE;
		err = fill(r, &p, &n);
		if (err != 0)
			return err;
		memcpy(chain, r->at.hash, sizeof(chain));
		read = journal_next(p, n, chain, &ret->record, &len, &fault);
		if (read == JOURNAL_READ_OK)
			break;
		err = at_end(r, read, &fault);
		if (err != 1)
			return err;
	}
	if ((r->at.offset == 0) !=
	    slice_is(ret->record.type, record_name(RECORD_segment_opened)))
		return damage(
		    r, "a segment begins in another's middle; compare it with a copy");
	ret->map = (struct slice){ p + JOURNAL_HEAD, len - JOURNAL_HEAD };
	ret->segment = r->at.segment;
	ret->offset = r->at.offset;
	ret->length = len;
	r->at.offset += len;
	r->at.count++;
	memcpy(r->at.hash, chain, sizeof(chain));
	r->torn = 0;
	return READER_RECORD;
}

int
reader_last_segment(int dir_fd, uint64_t *ret)
{
	const struct dirent *e;
	uint64_t last = 0;
	DIR *d;
	int fd, error;

	fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	d = fdopendir(fd);
	if (!d) {
		error = errno;
		close(fd);
		return -error;
	}
	errno = 0;
	while ((e = readdir(d)) != NULL)
		if (journal_number(e->d_name) > last)
			last = journal_number(e->d_name);
	error = errno;
	closedir(d);
	if (error != 0)
		return -error;
	*ret = last;
	return 0;
}

int
reader_fetch(int dir_fd, uint64_t segment, uint64_t offset, uint64_t length, uint8_t *buf,
    struct entry *ret, uint8_t ret_hash[JOURNAL_HASH])
{
	cleanup_fd int fd = open_segment(dir_fd, segment);
	ssize_t n;

	if (fd < 0)
		return fd;
	if (length < JOURNAL_HEAD || length > JOURNAL_ENTRY_MAX)
		return -EBADMSG;
	n = read_at(fd, buf, length, offset);
	if (n < 0)
		return (int)n;
	if ((uint64_t)n != length || !entry_parse(buf, length, ret) || ret->length != length)
		return -EBADMSG;
	ret->segment = segment;
	ret->offset = offset;
	if (ret_hash)
		memcpy(ret_hash, buf + 4, JOURNAL_HASH);
	return 0;
}

int
reader_sync(int dir_fd, uint64_t segment)
{
	cleanup_fd int fd = open_segment(dir_fd, segment);

	if (fd < 0)
		return fd;
	return fdatasync(fd) < 0 ? -errno : 0;
}
