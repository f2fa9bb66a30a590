#include "ledger/bodies_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/walk.h"
#include "ledger/database.h"

#define BODIES_VERSION 1

static const char schema[] =
    "CREATE TABLE operations(number INTEGER PRIMARY KEY, operation TEXT UNIQUE, ended);"
    "CREATE TABLE events(number, sequence, n, type, stream, data, body,"
    " UNIQUE(number, sequence));";

static const char *const statements[BODIES_STATEMENTS] = {
	[BODIES_BEGIN] = "BEGIN",
	[BODIES_COMMIT] = "COMMIT",
	[BODIES_OPERATION] = "INSERT INTO operations VALUES(?, ?, NULL)",
	[BODIES_ENDED] = "UPDATE operations SET ended = ?2 WHERE number = ?1",
	[BODIES_FORGET] = "DELETE FROM operations WHERE number = ?",
	[BODIES_EVENT] = "INSERT INTO events VALUES(?, ?, ?, ?, ?, ?, ?)",
	[BODIES_FRONT] = "SELECT sequence, n FROM events WHERE number = ? ORDER BY sequence",
	[BODIES_CUT] = "DELETE FROM events WHERE number = ? AND sequence < ?",
	[BODIES_READ] = "SELECT sequence, type, stream, data, body FROM events"
			" WHERE number = ? AND sequence > ? ORDER BY sequence",
};

/* ---- statements ----------------------------------------------------------------------- */

static int
failed(struct bodies *b, const char *what)
{
	return database_failed(b->db, BODIES_FILE, what);
}

static int
run(struct bodies *b, const char *sql, const char *what)
{
	return sqlite3_exec(b->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : failed(b, what);
}

/* Reset, with its first bindings; NULL if it cannot be prepared. */
static sqlite3_stmt *
statement(struct bodies *b, enum bodies_statement which, int64_t first)
{
	sqlite3_stmt **s = &b->statement[which];

	if (*s == NULL && sqlite3_prepare_v3(b->db, statements[which], -1,
			      SQLITE_PREPARE_PERSISTENT, s, NULL) != SQLITE_OK)
		return NULL;
	sqlite3_reset(*s);
	sqlite3_clear_bindings(*s);
	if (sqlite3_bind_parameter_count(*s) > 0)
		sqlite3_bind_int64(*s, 1, first);
	return *s;
}

static int
finish(struct bodies *b, sqlite3_stmt *s, const char *what)
{
	int r = s != NULL && sqlite3_step(s) == SQLITE_DONE ? 0 : failed(b, what);

	if (s != NULL)
		sqlite3_reset(s);
	return r;
}

int
bodies_begin(struct bodies *b)
{
	int r = b->in_transaction ? 0 : finish(b, statement(b, BODIES_BEGIN, 0), "begin");

	if (r == 0)
		b->in_transaction = true;
	return r;
}

int
bodies_end(struct bodies *b)
{
	int r = b->in_transaction ? finish(b, statement(b, BODIES_COMMIT, 0), "commit") : 0;

	if (r == 0)
		b->in_transaction = false;
	return r;
}

/* ---- rows ----------------------------------------------------------------------------- */

int
bodies_add_operation(struct bodies *b, const struct kept *k)
{
	sqlite3_stmt *s = statement(b, BODIES_OPERATION, k->number);

	if (s != NULL)
		sqlite3_bind_text(s, 2, k->id, -1, SQLITE_STATIC);
	return finish(b, s, "add an operation");
}

int
bodies_set_ended(struct bodies *b, const struct kept *k)
{
	sqlite3_stmt *s = statement(b, BODIES_ENDED, k->number);

	if (s != NULL && k->ended_at_ms != 0)
		sqlite3_bind_int64(s, 2, (sqlite3_int64)k->ended_at_ms);
	return finish(b, s, "end an operation");
}

int
bodies_delete_operation(struct bodies *b, const struct kept *k)
{
	return finish(b, statement(b, BODIES_FORGET, k->number), "forget an operation");
}

static void
bind_slice(sqlite3_stmt *s, int i, bool has, struct slice v)
{
	if (has)
		sqlite3_bind_blob(s, i, v.n > 0 ? v.p : (const void *)"", (int)v.n,
		    SQLITE_STATIC);
}

int
bodies_add_event(struct bodies *b, const struct kept *k, const struct msg_body_keep *m)
{
	sqlite3_stmt *s = statement(b, BODIES_EVENT, k->number);

	if (s == NULL)
		return failed(b, "keep an event");
	sqlite3_bind_int64(s, 2, (sqlite3_int64)m->sequence);
	sqlite3_bind_int64(s, 3, (sqlite3_int64)(m->data.n + m->body.n));
	sqlite3_bind_int(s, 4, (int)m->type);
	if (m->has_stream)
		sqlite3_bind_int(s, 5, (int)m->stream);
	bind_slice(s, 6, m->has_data, m->data);
	bind_slice(s, 7, m->has_body, m->body);
	return finish(b, s, "keep an event");
}

int
bodies_cut(struct bodies *b, struct kept *k, uint64_t bytes, uint64_t least)
{
	sqlite3_stmt *s = statement(b, BODIES_FRONT, k->number);
	uint64_t first = k->first, gone = 0;
	int r = bodies_begin(b);

	if (r < 0)
		return r;
	r = SQLITE_ROW;
	while (s != NULL && gone < bytes && k->next - first > least &&
	    (r = sqlite3_step(s)) == SQLITE_ROW) {
		if ((uint64_t)sqlite3_column_int64(s, 0) != first)
			return -EUCLEAN;
		gone += (uint64_t)sqlite3_column_int64(s, 1) + BODIES_COST;
		first++;
	}
	if (s == NULL || r != SQLITE_ROW)
		return r == SQLITE_DONE ? -EUCLEAN : failed(b, "look for the oldest events");
	sqlite3_reset(s);
	s = statement(b, BODIES_CUT, k->number);
	if (s != NULL)
		sqlite3_bind_int64(s, 2, (sqlite3_int64)first);
	r = finish(b, s, "drop events");
	if (r == 0)
		kept_set(b, k, first, k->next, k->bytes - gone);
	return r;
}

/* The map of body.keep of one row. */
static int
pack_row(struct buf *maps, sqlite3_stmt *s, struct slice operation)
{
	struct msg_body_keep m = { .operation = operation };

	m.sequence = (uint64_t)sqlite3_column_int64(s, 0);
	m.type = (enum event_type)sqlite3_column_int(s, 1);
	m.has_stream = sqlite3_column_type(s, 2) != SQLITE_NULL;
	m.stream = (enum stream)sqlite3_column_int(s, 2);
	m.has_data = sqlite3_column_type(s, 3) != SQLITE_NULL;
	m.data.p = sqlite3_column_blob(s, 3);
	m.data.n = (size_t)sqlite3_column_bytes(s, 3);
	m.has_body = sqlite3_column_type(s, 4) != SQLITE_NULL;
	m.body.p = sqlite3_column_blob(s, 4);
	m.body.n = (size_t)sqlite3_column_bytes(s, 4);
	if (protocol_pack(maps, MSG_body_keep, &m) < 0)
		return -EUCLEAN; /* no row of ours */
	return maps->failed ? -ENOMEM : 0;
}

int
bodies_read_rows(struct bodies *b, const struct kept *k, const struct msg_body_read *m,
    struct buf *maps, uint32_t *ret_n)
{
	sqlite3_stmt *s = statement(b, BODIES_READ, k->number);
	int r = SQLITE_ERROR, e = 0;

	if (s != NULL)
		sqlite3_bind_int64(s, 2, m->after > INT64_MAX ? INT64_MAX : (int64_t)m->after);
	while (s != NULL && (r = sqlite3_step(s)) == SQLITE_ROW && e == 0) {
		size_t before = maps->n;

		e = pack_row(maps, s, m->operation);
		if (e == 0 && *ret_n > 0 && maps->n > m->limit) {
			maps->n = before;
			break;
		}
		*ret_n += e == 0;
	}
	if (e == 0 && r != SQLITE_ROW && r != SQLITE_DONE)
		e = failed(b, "read events");
	if (s != NULL)
		sqlite3_reset(s);
	return e;
}

/* ---- the file ------------------------------------------------------------------------- */

static int
load_operations(struct bodies *b)
{
	sqlite3_stmt *s = NULL;
	struct kept *k;
	int r = SQLITE_ERROR;

	if (sqlite3_prepare_v2(b->db,
		"SELECT number, operation, ended, first, next, bytes FROM operations LEFT JOIN"
		" (SELECT number AS of, min(sequence) AS first, max(sequence) + 1 AS next,"
		"  sum(n + 48) AS bytes, count(*) AS count FROM events GROUP BY number)"
		" ON of = number ORDER BY ended, number", -1, &s, NULL) == SQLITE_OK)
		while ((r = sqlite3_step(s)) == SQLITE_ROW) {
			const char *id = (const char *)sqlite3_column_text(s, 1);
			size_t n = (size_t)sqlite3_column_bytes(s, 1);

			if (id == NULL || n == 0 || n >= sizeof k->id)
				break;
			k = kept_create(b, id, n, sqlite3_column_int64(s, 0));
			if (k == NULL)
				break;
			kept_set(b, k, (uint64_t)sqlite3_column_int64(s, 3),
			    (uint64_t)sqlite3_column_int64(s, 4),
			    (uint64_t)sqlite3_column_int64(s, 5));
			if (sqlite3_column_int64(s, 2) != 0)
				kept_end(b, k, (uint64_t)sqlite3_column_int64(s, 2));
		}
	sqlite3_finalize(s);
	return r == SQLITE_DONE ? 0 : r == SQLITE_ROW ? -EUCLEAN : failed(b, "be read");
}

int
bodies_roll_back(struct bodies *b, int error)
{
	for (size_t i = 0; i < BODIES_STATEMENTS; i++)
		sqlite3_reset(b->statement[i]);
	if (b->in_transaction && !sqlite3_get_autocommit(b->db))
		sqlite3_exec(b->db, "ROLLBACK", NULL, NULL, NULL);
	b->in_transaction = false;
	kept_forget_all(b);
	return load_operations(b) == -EUCLEAN ? -EUCLEAN : error;
}

static int
create_schema(sqlite3 *db)
{
	char sql[sizeof schema + 64];

	snprintf(sql, sizeof sql, "BEGIN; %s PRAGMA user_version = %d; COMMIT", schema,
	    BODIES_VERSION);
	return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK
	    ? 0
	    : database_failed(db, BODIES_FILE, "make its tables");
}

static int
check_schema(sqlite3 *db)
{
	sqlite3 *ours;
	int r = database_open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &ours);

	if (r < 0)
		return r;
	r = create_schema(ours);
	if (r == 0 && !database_same_schema(db, ours))
		r = -EUCLEAN;
	sqlite3_close(ours);
	return r;
}

static int
open_file(struct bodies *b, const char *name)
{
	int r = database_open(name, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &b->db);

	if (r == 0)
		r = run(b, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
			   "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;"
			   "PRAGMA journal_size_limit = 4194304", "be opened");
	if (r == 0)
		switch (database_version(b->db)) {
		case BODIES_VERSION: r = check_schema(b->db); break;
		case 0: r = create_schema(b->db); break;
		default: r = -EUCLEAN;
		}
	return r == 0 ? load_operations(b) : r;
}

static int
open_one(const char *name, struct bodies **ret)
{
	struct bodies *b = calloc(1, sizeof *b);
	int r;

	if (b == NULL)
		return -ENOMEM;
	RB_INIT(&b->by_id);
	TAILQ_INIT(&b->open);
	TAILQ_INIT(&b->ended);
	TAILQ_INIT(&b->full);
	TAILQ_INIT(&b->touched);
	r = open_file(b, name);
	if (r < 0)
		bodies_close(b);
	else
		*ret = b;
	return r;
}

int
bodies_open(int dir_fd, struct bodies **ret)
{
	mode_t mask;
	int r;

	if (dir_fd < 0)
		return open_one(":memory:", ret);
	r = database_enter(dir_fd);
	if (r < 0)
		return r;
	mask = umask(077);
	r = open_one(BODIES_FILE, ret);
	if (r == -EUCLEAN) {
		bodies_put_aside(dir_fd);
		r = open_one(BODIES_FILE, ret);
	}
	umask(mask);
	return r;
}

void
bodies_close(struct bodies *b)
{
	if (b == NULL)
		return;
	for (size_t i = 0; i < BODIES_STATEMENTS; i++)
		sqlite3_finalize(b->statement[i]);
	sqlite3_close(b->db); /* rolls back what is open */
	kept_forget_all(b);
	free(b);
}

/* Its log belongs to it, and is nothing without it. */
static void
remove_log(int dir_fd)
{
	unlinkat(dir_fd, BODIES_FILE "-wal", 0);
	unlinkat(dir_fd, BODIES_FILE "-shm", 0);
}

void
bodies_discard(int dir_fd)
{
	unlinkat(dir_fd, BODIES_ASIDE, 0);
	unlinkat(dir_fd, BODIES_FILE, 0);
	remove_log(dir_fd);
}

void
bodies_put_aside(int dir_fd)
{
	log_error(BODIES_FILE " is damaged or of another version: it is put aside as "
		  BODIES_ASIDE ", and events before now are not kept; look at it, and remove it");
	if (renameat(dir_fd, BODIES_FILE, dir_fd, BODIES_ASIDE) < 0)
		unlinkat(dir_fd, BODIES_FILE, 0);
	remove_log(dir_fd);
}
