#include <errno.h>
#include <string.h>

#include "common/util.h"
#include "common/walk.h"
#include "ledger/index_private.h"

#define DIGEST_BYTES 32 /* of a key, and of what a call means (protocol.def) */

int
index_locate(struct index *x, uint64_t count, struct entry *ret)
{
	sqlite3_stmt *s = index_statement(x, STATEMENT_LOCATE);
	int step, err = -ENOENT;

	if (!s)
		return index_failed(x, "prepare");
	sqlite3_bind_int64(s, 1, (sqlite3_int64)count);
	step = sqlite3_step(s);
	if (step == SQLITE_ROW) {
		ret->segment = (uint64_t)sqlite3_column_int64(s, 0);
		ret->offset = (uint64_t)sqlite3_column_int64(s, 1);
		ret->length = (uint64_t)sqlite3_column_int64(s, 2);
		err = 0;
	} else if (step != SQLITE_DONE) {
		err = index_failed(x, "read");
	}
	sqlite3_reset(s);
	return err;
}

int
index_rows(struct index *x, uint64_t last, uint64_t *ret)
{
	sqlite3_stmt *s = NULL;
	int err = -EIO;

	if (sqlite3_prepare_v2(x->db, "SELECT count(*) FROM records WHERE count <= ?", -1, &s,
		NULL) == SQLITE_OK &&
	    sqlite3_bind_int64(s, 1, last > INT64_MAX ? INT64_MAX : (sqlite3_int64)last) ==
		SQLITE_OK &&
	    sqlite3_step(s) == SQLITE_ROW) {
		*ret = (uint64_t)sqlite3_column_int64(s, 0);
		err = 0;
	}
	sqlite3_finalize(s);
	return err;
}

static bool
same_text(sqlite3_stmt *s, int column, bool has, struct slice v)
{
	if (!has || sqlite3_column_type(s, column) == SQLITE_NULL)
		return !has && sqlite3_column_type(s, column) == SQLITE_NULL;
	return (size_t)sqlite3_column_bytes(s, column) == v.n &&
	       (v.n == 0 || memcmp(sqlite3_column_text(s, column), v.p, v.n) == 0);
}

static bool
same_uint(sqlite3_stmt *s, int column, uint64_t v)
{
	return sqlite3_column_int64(s, column) ==
	       (v > INT64_MAX ? INT64_MAX : (sqlite3_int64)v);
}

static bool
same_row(sqlite3_stmt *s, const struct entry *e)
{
	const struct msg_record *r = &e->record;

	return same_uint(s, 1, e->segment) && same_uint(s, 2, e->offset) &&
	       same_uint(s, 3, e->length) && same_uint(s, 4, r->at) &&
	       same_text(s, 5, true, r->type) &&
	       (sqlite3_column_type(s, 6) != SQLITE_NULL) == r->has_outcome &&
	       (!r->has_outcome || same_uint(s, 6, r->outcome)) &&
	       same_text(s, 7, r->has_operation, r->operation) &&
	       same_text(s, 8, r->has_call, r->call) &&
	       same_text(s, 9, r->has_callId, r->callId) &&
	       same_text(s, 10, r->has_trace, r->trace) &&
	       same_text(s, 11, r->has_actor, r->actor) &&
	       same_text(s, 12, r->has_tool, r->tool) &&
	       same_text(s, 13, r->has_grant, r->grant) &&
	       same_text(s, 14, r->has_subject, r->subject) &&
	       same_text(s, 15, r->has_session, r->session) &&
	       same_text(s, 16, r->has_principal, r->principal);
}

int
index_compare(struct index *x, uint64_t count, const struct entry *e)
{
	sqlite3_stmt *s = index_statement(x, STATEMENT_COMPARE);
	int step, ret;

	if (!s)
		return index_failed(x, "prepare");
	sqlite3_bind_int64(s, 1, (sqlite3_int64)count);
	step = sqlite3_step(s);
	ret = step == SQLITE_ROW    ? same_row(s, e)
	      : step == SQLITE_DONE ? 0
				    : index_failed(x, "read");
	sqlite3_reset(s);
	return ret;
}

/* ---- filters ------------------------------------------------------------------------ */

static void
add_text(struct buf *sql, struct slice values[], int *n, bool has, const char *clause,
    struct slice v)
{
	if (!has)
		return;
	buf_add(sql, clause, strlen(clause));
	values[(*n)++] = v;
}

int
index_query(
    struct index *x, uint64_t after, const struct msg_audit_read *f, index_fn *fn, void *arg)
{
	static const char select[] =
	    "SELECT count, segment, offset, length FROM records WHERE count > ?1"
	    " AND at >= ?2 AND (?3 IS NULL OR at < ?3)";
	static const char order[] = " ORDER BY count LIMIT ?";
	struct buf sql = { 0 };
	struct slice texts[8];
	sqlite3_stmt *s = NULL;
	struct index_hit hit;
	int i, n = 0, step = SQLITE_DONE;

	buf_add(&sql, select, sizeof(select) - 1);
	add_text(&sql, texts, &n, f->has_trace, " AND trace = ?", f->trace);
	add_text(&sql, texts, &n, f->has_operation, " AND operation = ?", f->operation);
	add_text(&sql, texts, &n, f->has_call, " AND ? IN (call, call_id)", f->call);
	add_text(&sql, texts, &n, f->has_session, " AND session = ?", f->session);
	add_text(&sql, texts, &n, f->has_principal, " AND ? IN (actor, subject, principal)",
	    f->principal);
	add_text(&sql, texts, &n, f->has_tool, " AND tool = ?", f->tool);
	add_text(&sql, texts, &n, f->has_grant, " AND grant_id = ?", f->grant);
	if (f->has_outcome)
		buf_add(&sql, " AND outcome = ?", 16);
	buf_add(&sql, order, sizeof(order));
	if (sql.failed ||
	    sqlite3_prepare_v2(x->db, (const char *)sql.p, -1, &s, NULL) != SQLITE_OK) {
		buf_finish(&sql);
		return index_failed(x, "ask");
	}
	sqlite3_bind_int64(s, 1, after > INT64_MAX ? INT64_MAX : (sqlite3_int64)after);
	sqlite3_bind_int64(s, 2,
	    !f->has_since	   ? 0
	    : f->since > INT64_MAX ? INT64_MAX
				   : (sqlite3_int64)f->since);
	if (f->has_until && f->until <= INT64_MAX)
		sqlite3_bind_int64(s, 3, (sqlite3_int64)f->until);
	for (i = 0; i < n; i++)
		sqlite3_bind_text(
		    s, 4 + i, (const char *)texts[i].p, (int)texts[i].n, SQLITE_STATIC);
	if (f->has_outcome)
		sqlite3_bind_int(s, 4 + i++, (int)f->outcome);
	sqlite3_bind_int64(s, 4 + i, (sqlite3_int64)f->limit);
	while ((step = sqlite3_step(s)) == SQLITE_ROW) {
		hit = (struct index_hit){
			.count = (uint64_t)sqlite3_column_int64(s, 0),
			.segment = (uint64_t)sqlite3_column_int64(s, 1),
			.offset = (uint64_t)sqlite3_column_int64(s, 2),
			.length = (uint64_t)sqlite3_column_int64(s, 3),
		};
		if (!fn(arg, &hit)) {
			step = SQLITE_DONE;
			break;
		}
	}
	sqlite3_finalize(s);
	buf_finish(&sql);
	return step == SQLITE_DONE ? 0 : index_failed(x, "read");
}

/* ---- what a starting broker must know ----------------------------------------------- */

static void
add_member(struct buf *b, uint32_t *pairs, sqlite3_stmt *s, int column, const char *key)
{
	int type = sqlite3_column_type(s, column);

	if (type == SQLITE_NULL)
		return;
	pack_str(b, key);
	if (type == SQLITE_INTEGER)
		pack_uint(b, (uint64_t)sqlite3_column_int64(s, column));
	else
		pack_str_n(
		    b, sqlite3_column_text(s, column), (size_t)sqlite3_column_bytes(s, column));
	++*pairs;
}

static int
add_calls(struct index *x, struct buf *b, const void *operation, int n)
{
	sqlite3_stmt *s = index_statement(x, STATEMENT_CALLS);
	struct buf calls = { 0 };
	uint32_t count = 0;
	int step;

	if (!s)
		return index_failed(x, "prepare");
	sqlite3_bind_text(s, 1, operation, n, SQLITE_STATIC);
	while ((step = sqlite3_step(s)) == SQLITE_ROW) {
		pack_str_n(
		    &calls, sqlite3_column_text(s, 0), (size_t)sqlite3_column_bytes(s, 0));
		count++;
	}
	pack_str(b, "calls");
	pack_array(b, count);
	buf_add(b, calls.p, calls.n);
	if (calls.failed)
		b->failed = true;
	buf_finish(&calls);
	sqlite3_reset(s);
	return step == SQLITE_DONE ? 0 : index_failed(x, "read");
}

/* One operation, as a map. */
static int
add_operation(struct index *x, struct buf *out, sqlite3_stmt *s)
{
	static const char *const keys[] = { "operation", "kind", "trace", "sequence", "cause",
		"status", "detail", "reason", "session", "principal", "started" };
	int ended = (int)countof(keys); /* its column */
	struct buf b = { 0 };
	uint32_t pairs = 1;
	int i, ret = 0;

	for (i = 0; i < ended; i++)
		add_member(&b, &pairs, s, i, keys[i]);
	if (sqlite3_column_type(s, ended) == SQLITE_NULL)
		ret = add_calls(x, &b, sqlite3_column_text(s, 0), sqlite3_column_bytes(s, 0));
	else
		pairs--;
	pack_map(out, pairs);
	buf_add(out, b.p, b.n);
	if (b.failed)
		out->failed = true;
	buf_finish(&b);
	return ret;
}

/* Two columns from `first` on, as a map. */
static int
add_pair(struct buf *out, sqlite3_stmt *s, int first, const char *one, const char *two)
{
	uint32_t pairs = 0;

	pack_map(out, 2);
	add_member(out, &pairs, s, first, one);
	add_member(out, &pairs, s, first + 1, two);
	return 0;
}

static int
add_use(struct index *x, struct buf *out, sqlite3_stmt *s)
{
	(void)x;
	return add_pair(out, s, 0, "grant", "spent");
}

static int
add_revocation(struct index *x, struct buf *out, sqlite3_stmt *s)
{
	(void)x;
	return add_pair(out, s, 1, "grant", "at");
}

/* A record as it stands; what is damaged is no value. */
static int
add_record(struct buf *out, sqlite3_stmt *s, int column)
{
	const uint8_t *p = sqlite3_column_blob(s, column);
	size_t n = (size_t)sqlite3_column_bytes(s, column);
	struct fault fault;

	if (p == NULL || walk_value(p, n, &fault) < 0)
		return -EUCLEAN;
	buf_add(out, p, n);
	return 0;
}

static int
add_only_record(struct index *x, struct buf *out, sqlite3_stmt *s)
{
	(void)x;
	return add_record(out, s, 1);
}

static int
add_escalation(struct index *x, struct buf *out, sqlite3_stmt *s)
{
	(void)x;
	pack_map(out, 2);
	pack_str(out, "resolved");
	pack_bool(out, sqlite3_column_int(s, 1) != 0);
	pack_str(out, "record");
	return add_record(out, s, 2);
}

static int
add_digest(struct buf *out, sqlite3_stmt *s, int column, const char *name)
{
	const void *p = sqlite3_column_blob(s, column);

	if (p == NULL || sqlite3_column_bytes(s, column) != DIGEST_BYTES)
		return -EUCLEAN;
	pack_str(out, name);
	pack_bin(out, p, DIGEST_BYTES);
	return 0;
}

static int
add_name(struct buf *out, sqlite3_stmt *s, int column, const char *name)
{
	const void *text = sqlite3_column_text(s, column);

	if (text == NULL)
		return -EUCLEAN;
	pack_str(out, name);
	pack_str_n(out, text, (size_t)sqlite3_column_bytes(s, column));
	return 0;
}

static int
add_key(struct index *x, struct buf *out, sqlite3_stmt *s)
{
	(void)x;
	pack_map(out, 4);
	if (add_digest(out, s, 1, "key") < 0 || add_digest(out, s, 2, "fingerprint") < 0 ||
	    add_name(out, s, 3, "actor") < 0)
		return -EUCLEAN;
	pack_str(out, "settled");
	pack_bool(out, sqlite3_column_int(s, 4) != 0);
	return 0;
}

static int
add_admission(struct index *x, struct buf *out, sqlite3_stmt *s)
{
	(void)x;
	pack_map(out, 4);
	if (add_digest(out, s, 2, "key") < 0 || add_digest(out, s, 3, "fingerprint") < 0)
		return -EUCLEAN;
	return add_name(out, s, 1, "session") < 0 || add_name(out, s, 4, "operation") < 0
		   ? -EUCLEAN
		   : 0;
}

static const struct list {
	enum statement statement;
	bool by_row; /* its first column says where the next page goes on; else a number does */
	int (*add)(struct index *x, struct buf *out, sqlite3_stmt *s);
} lists[INDEX_LISTS] = {
	[INDEX_OPERATIONS] = { STATEMENT_OPERATIONS, false, add_operation },
	[INDEX_GRANTS] = { STATEMENT_GRANTS, true, add_only_record },
	[INDEX_REVOCATIONS] = { STATEMENT_REVOCATIONS, true, add_revocation },
	[INDEX_USES] = { STATEMENT_USES, false, add_use },
	[INDEX_ESCALATIONS] = { STATEMENT_ESCALATIONS, true, add_escalation },
	[INDEX_KEYS] = { STATEMENT_KEYS, true, add_key },
	[INDEX_SESSIONS] = { STATEMENT_SESSIONS, true, add_only_record },
	[INDEX_ADMISSIONS] = { STATEMENT_ADMISSIONS, true, add_admission },
};

/* A cursor is the list, and what of it is behind: items, or a row. */
#define CURSOR_LIST 56 /* bits below it */

struct page {
	size_t max, bytes;
	uint32_t nodes;
	uint64_t behind; /* of the list that is being read */
	bool full;
};

/* Has the item behind `before` a place in the page?  The first one that has none ends it. */
static int
page_take(struct page *page, struct buf *out, size_t before)
{
	struct slice item = { out->p + before, out->n - before };
	uint32_t nodes;
	unsigned depth;

	value_measure(item, &depth, &nodes);
	if (page->bytes + item.n > page->max || page->nodes + nodes > PAYLOAD_NODES_MAX) {
		out->n = before;
		page->full = true;
		return page->bytes == 0 ? -E2BIG : 0;
	}
	page->bytes += item.n;
	page->nodes += nodes;
	return 0;
}

static int
add_items(struct index *x, const struct list *list, struct page *page, struct buf *out,
    uint32_t *count)
{
	sqlite3_stmt *s = index_statement(x, list->statement);
	size_t before;
	int ret = 0, step;

	if (!s)
		return index_failed(x, "prepare");
	sqlite3_bind_int64(s, 1, (sqlite3_int64)page->behind);
	while ((step = sqlite3_step(s)) == SQLITE_ROW) {
		before = out->n;
		ret = list->add(x, out, s);
		if (ret == 0)
			ret = out->failed ? -ENOMEM : page_take(page, out, before);
		if (ret < 0 || page->full)
			break;
		++*count;
		page->behind = list->by_row ? (uint64_t)sqlite3_column_int64(s, 0)
					    : page->behind + 1;
	}
	if (step != SQLITE_DONE && step != SQLITE_ROW)
		ret = index_failed(x, "read");
	sqlite3_reset(s);
	return ret;
}

int
index_state(struct index *x, uint64_t cursor, size_t max, struct index_state *ret)
{
	struct page page = { .max = max };
	uint64_t i = cursor >> CURSOR_LIST;
	int err = 0;

	memset(ret, 0, sizeof(*ret));
	page.behind = cursor & ((UINT64_C(1) << CURSOR_LIST) - 1);
	for (; err == 0 && i < INDEX_LISTS; i++, page.behind = 0) {
		err = add_items(x, &lists[i], &page, &ret->items[i], &ret->n[i]);
		if (page.full)
			break;
	}
	if (err < 0) {
		index_state_finish(ret);
		return err;
	}
	ret->next = page.full ? i << CURSOR_LIST | page.behind : 0;
	return 0;
}

void
index_state_finish(struct index_state *s)
{
	for (size_t i = 0; i < INDEX_LISTS; i++)
		buf_finish(&s->items[i]);
	memset(s, 0, sizeof(*s));
}
