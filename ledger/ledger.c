#include "ledger/ledger.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "common/walk.h"
#include "ledger/head.h"

#define BATCH_MAX 512 /* records a transaction: 128 is where a larger one gains little */

/* Does the index end where an entry of the journal ends, with the same chain value? */
static bool
index_fits(struct ledger *l, const struct position *at)
{
	cleanup_free uint8_t *buf = malloc(JOURNAL_ENTRY_MAX);
	uint8_t hash[JOURNAL_HASH];
	struct entry e = { 0 };

	return buf && index_locate(l->index, at->count, &e) == 0 && e.segment == at->segment &&
	       e.offset + e.length == at->offset &&
	       reader_fetch(l->journal_fd, e.segment, e.offset, e.length, buf, &e, hash) == 0 &&
	       memcmp(hash, at->hash, JOURNAL_HASH) == 0;
}

int
ledger_init(struct ledger *l, int journal_fd, int index_fd, bool readonly)
{
	struct position at;
	int ret;

	memset(l, 0, sizeof(*l));
	l->journal_fd = journal_fd;
	l->index_fd = index_fd;
	l->readonly = readonly;
	ret = reader_init(&l->reader, journal_fd);
	if (ret == 0)
		ret = index_open(readonly ? -1 : index_fd, &l->index);
	if (ret < 0) {
		ledger_finish(l);
		return ret;
	}
	at = index_position(l->index);
	if (at.count > 0 && !index_fits(l, &at)) {
		log_warn("the index does not follow from the journal: it is made again");
		ret = index_clear(l->index);
		memset(&at, 0, sizeof(at));
	}
	if (ret == -EUCLEAN && !readonly) {
		index_close(l->index);
		l->index = NULL;
		index_discard(index_fd);
		ret = index_open(index_fd, &l->index);
	}
	if (at.count > 0)
		reader_seek(&l->reader, &at);
	if (ret < 0)
		ledger_finish(l);
	return ret;
}

void
ledger_finish(struct ledger *l)
{
	reader_finish(&l->reader);
	index_close(l->index);
	memset(l, 0, sizeof(*l));
}

/* The head must be a place in the record: else the record was cut or replaced. */
static void
check_head(struct ledger *l)
{
	cleanup_free uint8_t *buf = malloc(JOURNAL_ENTRY_MAX);
	uint8_t hash[JOURNAL_HASH];
	struct entry e = { 0 };
	int ret;

	if (l->readonly)
		return;
	ret = head_read(l->index_fd, &l->head);
	if (ret == -ENOENT)
		return;
	if (ret < 0 || !buf) {
		snprintf(l->problem, sizeof(l->problem), "the head cannot be read: %s",
		    strerror(ret < 0 ? -ret : ENOMEM));
	} else if (l->head.count > l->reader.at.count) {
		snprintf(l->problem, sizeof(l->problem),
		    "the head says %llu records and the journal has %llu: its end was cut off",
		    (unsigned long long)l->head.count, (unsigned long long)l->reader.at.count);
	} else if (l->head.count > 0 && (index_locate(l->index, l->head.count, &e) < 0 ||
					    reader_fetch(l->journal_fd, e.segment, e.offset,
						e.length, buf, &e, hash) < 0 ||
					    memcmp(hash, l->head.hash, JOURNAL_HASH) != 0)) {
		snprintf(l->problem, sizeof(l->problem),
		    "the head was made for another record than this one");
	}
	if (l->problem[0] != '\0')
		log_error("%s", l->problem);
}

static int
end_of_record(struct ledger *l)
{
	int ret = index_commit(l->index);

	if (ret < 0)
		return ret;
	if (l->reader.damaged && !l->warned) {
		l->warned = true;
		log_error("the record is damaged: %s", l->reader.problem);
	}
	if (!l->caught_up) {
		l->caught_up = true;
		check_head(l);
	}
	return 0;
}

/* What the index cannot say, the record can: a damaged one is not kept. */
static int
stop_at(struct ledger *l, int error)
{
	if (error == -EUCLEAN && !l->readonly) {
		index_discard(l->index_fd);
		snprintf(l->problem, sizeof(l->problem),
		    "the index is damaged: it was removed, and is made again from the record");
	} else if (l->reader.problem[0] != '\0') {
		snprintf(l->problem, sizeof(l->problem), "%s", l->reader.problem);
	} else {
		snprintf(l->problem, sizeof(l->problem), "%s", strerror(-error));
	}
	return error;
}

static int
follow(struct ledger *l, unsigned max)
{
	struct entry e;
	int ret;

	while (max-- > 0) {
		ret = reader_next(&l->reader, &e);
		if (ret < 0)
			return ret;
		if (ret != READER_RECORD)
			return end_of_record(l);
		ret = index_add(l->index, &e, &l->reader.at);
		if (ret == 0 && index_pending(l->index) >= BATCH_MAX)
			ret = index_commit(l->index);
		if (ret < 0)
			return ret;
		l->unsettled = true;
	}
	return 1;
}

int
ledger_follow(struct ledger *l, unsigned max)
{
	int ret = follow(l, max);

	return ret < 0 ? stop_at(l, ret) : ret;
}

int
ledger_move_head(struct ledger *l)
{
	const struct position *at = &l->reader.at;
	uint64_t segment;
	int ret;

	if (l->readonly || !l->caught_up || ledger_problem(l)[0] != '\0' ||
	    at->count == l->head.count)
		return 0;
	segment = l->head.segment > 0 ? l->head.segment : 1;
	for (; segment <= at->segment; segment++) {
		ret = reader_sync(l->journal_fd, segment);
		if (ret < 0)
			return ret;
	}
	ret = head_write(l->index_fd, at);
	if (ret == 0)
		l->head = *at;
	return ret;
}

void
ledger_settle(struct ledger *l)
{
	if (!l->unsettled || l->readonly)
		return;
	l->unsettled = false;
	index_settle(l->index);
}

const char *
ledger_problem(const struct ledger *l)
{
	return l->reader.damaged ? l->reader.problem : l->problem;
}

/* ---- answers ------------------------------------------------------------------------ */

static const char *
why(int ret)
{
	return ret == -E2BIG ? "an operation has too many open calls" : strerror(-ret);
}

int
ledger_state(struct ledger *l, uint64_t cursor, struct msg_state_load_reply *ret,
    struct index_state *lists, struct buf *bytes, const char **ret_why)
{
	const struct position *at = &l->reader.at;
	uint64_t last;
	struct slice list[INDEX_LISTS];
	size_t ends[INDEX_LISTS], at_byte = 0;
	int err;

	*ret_why = ledger_problem(l);
	if ((*ret_why)[0] != '\0')
		return -EBADMSG;
	err = reader_last_segment(l->journal_fd, &last);
	if (err == 0)
		err = index_state(l->index, cursor, STATE_PAGE_MAX / 2, lists);
	if (err == -EUCLEAN)
		stop_at(l, err);
	if (err < 0) {
		*ret_why = err == -EUCLEAN ? l->problem : why(err);
		return err;
	}
	for (size_t i = 0; i < INDEX_LISTS; i++) {
		pack_array(bytes, lists->n[i]);
		pack_raw(bytes, buf_slice(&lists->items[i]));
		ends[i] = bytes->n;
	}
	if (bytes->failed) {
		*ret_why = why(-ENOMEM);
		return -ENOMEM;
	}
	for (size_t i = 0; i < INDEX_LISTS; at_byte = ends[i++])
		list[i] = (struct slice){ bytes->p + at_byte, ends[i] - at_byte };
	*ret = (struct msg_state_load_reply){
		.count = at->count,
		.hash = { at->hash, JOURNAL_HASH },
		.segment = last,
		/* A later segment that was made and never begun is the one before the next. */
		.length = last == at->segment ? at->offset : 0,
		.operations = list[INDEX_OPERATIONS],
		.grants = list[INDEX_GRANTS],
		.revocations = list[INDEX_REVOCATIONS],
		.uses = list[INDEX_USES],
		.escalations = list[INDEX_ESCALATIONS],
		.keys = list[INDEX_KEYS],
		.has_sessions = true,
		.sessions = list[INDEX_SESSIONS],
		.has_admissions = true,
		.admissions = list[INDEX_ADMISSIONS],
		.next = lists->next,
	};
	return 0;
}

struct reading {
	struct ledger *ledger;
	struct buf *records; /* elements */
	uint8_t *buf;
	uint32_t n;
	uint64_t last;
	uint64_t limit;
	bool more;
	int error;
};

/* The map of the record, with its place. */
static void
add_record(struct buf *out, const struct entry *e, uint64_t count)
{
	struct slice rest = e->map;
	struct value map = value_next(&rest);
	bool has_segment = e->record.has_segment; /* segment.opened names itself */

	pack_map(out, map.count + (has_segment ? 1 : 2));
	pack_str(out, "count");
	pack_uint(out, count);
	if (!has_segment) {
		pack_str(out, "segment");
		pack_uint(out, e->segment);
	}
	buf_add(out, rest.p, rest.n);
}

static bool
read_hit(void *arg, const struct index_hit *hit)
{
	struct reading *r = arg;
	size_t before = r->records->n;
	struct entry e;

	r->error = reader_fetch(
	    r->ledger->journal_fd, hit->segment, hit->offset, hit->length, r->buf, &e, NULL);
	if (r->error < 0)
		return false;
	add_record(r->records, &e, hit->count);
	if (r->records->failed) {
		r->error = -ENOMEM;
		return false;
	}
	/* The frame has an envelope of its own. */
	if (r->records->n > FRAME_MAX - 4096) {
		r->records->n = before;
		r->more = true;
		return false;
	}
	r->n++;
	r->last = hit->count;
	r->more = r->n == r->limit;
	return true;
}

int
ledger_read(struct ledger *l, const struct msg_audit_read *m, struct msg_audit_read_reply *ret,
    struct buf *bytes, const char **ret_why)
{
	cleanup_free uint8_t *buf = malloc(JOURNAL_ENTRY_MAX);
	struct buf records = { 0 };
	struct reading r = { .ledger = l, .records = &records, .buf = buf, .limit = m->limit };
	int err;

	*ret_why = strerror(ENOMEM);
	if (!buf)
		return -ENOMEM;
	err = index_query(l->index, m->cursor, m, read_hit, &r);
	if (err == 0)
		err = r.error;
	pack_array(bytes, r.n);
	buf_add(bytes, records.p, records.n);
	buf_finish(&records);
	if (err == 0 && bytes->failed)
		err = -ENOMEM;
	if (err < 0) {
		*ret_why =
		    err == -EBADMSG ? "a record has changed since it was indexed" : why(err);
		return err;
	}
	ret->records = (struct slice){ bytes->p, bytes->n };
	ret->next = r.more ? r.last : 0;
	return 0;
}
