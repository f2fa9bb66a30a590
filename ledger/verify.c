#include "ledger/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util.h"
#include "ledger/head.h"

#define INDEX_IN_USE "the index was not closed, or a ledger is writing to it: not compared"
#define MAKE_INDEX_AGAIN                                                                       \
	"remove the index directory's " INDEX_FILE ": the ledger makes it again"

/* Keeps the first one. */
static void __attribute__((format(printf, 2, 3)))
say(char out[VERIFY_PROBLEM_MAX], const char *fmt, ...)
{
	va_list ap;

	if (out[0] != '\0')
		return;
	va_start(ap, fmt);
	vsnprintf(out, VERIFY_PROBLEM_MAX, fmt, ap);
	va_end(ap);
}

static const char *
why_unread(int error)
{
	switch (error) {
	case -ENOTSUP: return "it is no regular file";
	case -EUCLEAN: return "it is damaged, of another version, or not of our making";
	case -EBADMSG: return "its line is not of our making";
	default: return strerror(-error);
	}
}

static void
open_index(struct verify *v, int index_fd)
{
	int ret = index_fd < 0 ? -ENOENT : index_open_readonly(index_fd, &v->index);

	v->owns_index = ret == 0;
	if (ret == -ENOENT)
		say(v->note, "there is no index yet: not compared");
	else if (ret == -EBUSY)
		say(v->note, INDEX_IN_USE);
	else if (ret < 0)
		say(v->index_problem, "the index cannot be read: %s; " MAKE_INDEX_AGAIN,
		    why_unread(ret));
}

/* A broker that writes faster than we read would keep us for ever. */
static int
note_end(struct verify *v, int journal_fd)
{
	cleanup_fd int fd = -1;
	struct stat st;
	char name[17];
	int ret;

	ret = reader_last_segment(journal_fd, &v->last_segment);
	if (ret < 0 || v->last_segment == 0)
		return ret;
	journal_name(name, v->last_segment);
	fd = openat(journal_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	/* What does not open is the reader's to name, with what to do about it. */
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		v->last_segment = UINT64_MAX;
	else
		v->last_size = (uint64_t)st.st_size;
	return 0;
}

static bool
is_at_end(const struct verify *v)
{
	const struct position *at = &v->reader.at;

	return at->segment > v->last_segment ||
	       (at->segment == v->last_segment && at->segment > 0 &&
		   at->offset >= v->last_size);
}

int
verify_start(
    struct verify *v, int journal_fd, int index_fd, struct index *index, const uint8_t *expect)
{
	int ret;

	memset(v, 0, sizeof(*v));
	/* Head and index first: while we look, the record can only grow beyond them. */
	ret = index_fd < 0 ? -ENOENT : head_read(index_fd, &v->head);
	v->index_fd = index_fd;
	v->has_head = ret == 0;
	if (ret == -ENOENT)
		say(v->note, "there is no head yet: not compared");
	else if (ret < 0)
		say(v->head_problem,
		    "the head cannot be read: %s; compare the record with a value "
		    "kept elsewhere (--expect), then remove the file",
		    why_unread(ret));
	v->index = index;
	if (!index)
		open_index(v, index_fd);
	if (v->index)
		v->indexed = index_position(v->index);
	v->has_expect = expect != NULL;
	if (expect)
		memcpy(v->expect.hash, expect, JOURNAL_HASH);
	ret = note_end(v, journal_fd);
	return ret < 0 ? ret : reader_init(&v->reader, journal_fd);
}

static void
look_at(struct verify *v, const struct entry *e)
{
	const struct position *at = &v->reader.at;

	if (v->index && at->count <= v->indexed.count && v->index_problem[0] == '\0') {
		if (index_compare(v->index, at->count, e) == 1)
			v->rows++;
		else
			say(v->index_problem,
			    "the index differs from the journal in record "
			    "%llu; " MAKE_INDEX_AGAIN,
			    (unsigned long long)at->count);
	}
	if (v->index && at->count == v->indexed.count &&
	    memcmp(at->hash, v->indexed.hash, JOURNAL_HASH) != 0)
		say(v->index_problem,
		    "the index was made from another record; " MAKE_INDEX_AGAIN);
	if (v->has_head && at->count == v->head.count &&
	    memcmp(at->hash, v->head.hash, JOURNAL_HASH) != 0)
		say(v->head_problem,
		    "the head was made for another record: at record %llu the "
		    "chain has another value; the journal was replaced",
		    (unsigned long long)at->count);
	v->expect_found = v->has_expect && memcmp(at->hash, v->expect.hash, JOURNAL_HASH) == 0;
}

static void
conclude(struct verify *v)
{
	unsigned long long count = v->reader.at.count, head = v->head.count;
	uint64_t rows = 0;

	if (v->reader.damaged)
		say(v->journal_problem, "%s", v->reader.problem);
	if (v->index && v->indexed.count > count)
		say(v->index_problem,
		    "the index has %llu records and the journal %llu: the end of the "
		    "record was cut off, or lost with the machine's power before it was synced",
		    (unsigned long long)v->indexed.count, count);
	if (v->index && v->index_problem[0] == '\0' &&
	    /* A ledger goes on adding to its own. */
	    (index_rows(v->index, v->owns_index ? UINT64_MAX : v->indexed.count, &rows) < 0 ||
		rows != v->indexed.count))
		say(v->index_problem,
		    "the index has other rows than the record; " MAKE_INDEX_AGAIN);
	if (v->has_head && head > count)
		say(v->head_problem,
		    "the head says that %llu records were on the disk, and the journal "
		    "has %llu: the end of the record was cut off; restore it from a copy",
		    head, count);
	if (v->has_expect && !v->expect_found)
		say(v->head_problem,
		    "the record does not end in the expected value: it is another "
		    "record, it was cut off, or it has grown since");
	if (v->owns_index && index_moved(v->index, v->index_fd)) {
		v->index_problem[0] = '\0';
		say(v->note, INDEX_IN_USE);
	}
	v->valid = v->journal_problem[0] == '\0' && v->index_problem[0] == '\0' &&
		   v->head_problem[0] == '\0';
	v->done = true;
}

int
verify_step(struct verify *v, unsigned max)
{
	struct entry e;
	int ret;

	while (!v->done && max-- > 0) {
		ret = is_at_end(v) ? READER_END : reader_next(&v->reader, &e);
		if (ret < 0)
			return ret;
		if (ret == READER_RECORD)
			look_at(v, &e);
		else
			conclude(v);
	}
	return v->done;
}

const char *
verify_text(const struct verify *v)
{
	if (v->journal_problem[0] != '\0')
		return v->journal_problem;
	if (v->head_problem[0] != '\0')
		return v->head_problem;
	if (v->index_problem[0] != '\0')
		return v->index_problem;
	return v->note;
}

void
verify_finish(struct verify *v)
{
	reader_finish(&v->reader);
	if (v->owns_index)
		index_close(v->index);
	memset(v, 0, sizeof(*v));
}
