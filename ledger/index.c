#include "ledger/index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "common/log.h"
#include "common/util.h"
#include "ledger/database.h"
#include "ledger/index_private.h"

#define TEXT_OF_WORD(word) #word
#define TEXT_OF(macro)	   TEXT_OF_WORD(macro)

#define INDEX_VERSION 6 /* of the schema: another one is made again from the journal */

static const char schema[] =
    "CREATE TABLE position(id INTEGER PRIMARY KEY CHECK(id = 1), count, hash, segment, offset);"
    "CREATE TABLE records(count INTEGER PRIMARY KEY, segment, offset, length, at, type,"
    " outcome, operation, call, call_id, trace, actor, tool, grant_id, subject, session,"
    " principal);"
    "CREATE TABLE operations(operation TEXT PRIMARY KEY, kind, trace, sequence, ended,"
    " cause, status, detail, reason, session, principal, started) WITHOUT ROWID;"
    "CREATE INDEX operations_ended ON operations(ended);"
    "CREATE TABLE calls(call TEXT PRIMARY KEY, operation) WITHOUT ROWID;"
    "CREATE INDEX calls_operation ON calls(operation);"
    "CREATE TABLE uses(grant_id TEXT PRIMARY KEY, spent) WITHOUT ROWID;"
    "CREATE TABLE grants(count INTEGER PRIMARY KEY, grant_id TEXT UNIQUE, record);"
    "CREATE TABLE revocations(count INTEGER PRIMARY KEY, grant_id TEXT UNIQUE, at);"
    "CREATE TABLE escalations(count INTEGER PRIMARY KEY, id TEXT UNIQUE, resolved, record);"
    "CREATE TABLE keys(count INTEGER PRIMARY KEY, key BLOB UNIQUE, fingerprint, actor, call,"
    " settled);"
    "CREATE INDEX keys_call ON keys(call);"
    "CREATE TABLE sessions(count INTEGER PRIMARY KEY, session TEXT UNIQUE, record);"
    "CREATE TABLE admissions(count INTEGER PRIMARY KEY, session TEXT, key BLOB, fingerprint,"
    " operation, UNIQUE(session, key));";

static const char *const statements[STATEMENT_MAX] = {
	[STATEMENT_BEGIN] = "BEGIN",
	[STATEMENT_COMMIT] = "COMMIT",
	[STATEMENT_POSITION] = "INSERT OR REPLACE INTO position VALUES(1, ?, ?, ?, ?)",
	[STATEMENT_RECORD] =
	    "INSERT INTO records VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[STATEMENT_ACCEPTED] =
	    "INSERT OR IGNORE INTO operations(operation, kind, trace, sequence, session,"
	    " principal) VALUES(?, ?, ?, ?, ?, ?)",
	[STATEMENT_STARTED] = "UPDATE operations SET started = 1 WHERE operation = ?",
	[STATEMENT_BLOCK] = "UPDATE operations SET sequence = max(sequence, ?2)"
			    " WHERE operation = ?1",
	[STATEMENT_ENDED] =
	    "UPDATE operations SET ended = ?2, cause = ?3, status = ?4, detail = ?5,"
	    " sequence = coalesce(?6, sequence), reason = ?7 WHERE operation = ?1 AND ended IS NULL",
	[STATEMENT_CALL] = "INSERT OR IGNORE INTO calls VALUES(?, ?)",
	[STATEMENT_CALL_OVER] = "DELETE FROM calls WHERE call = ?",
	[STATEMENT_USE] = "INSERT INTO uses VALUES(?1, ?2)"
			  " ON CONFLICT(grant_id) DO UPDATE SET spent = spent + ?2",
	[STATEMENT_RELEASE] = "UPDATE uses SET spent = max(0, spent - ?2) WHERE grant_id = ?1",
	[STATEMENT_ISSUED] = "INSERT OR IGNORE INTO grants VALUES(?, ?, ?)",
	[STATEMENT_REVOKED] = "INSERT OR IGNORE INTO revocations VALUES(?, ?, ?)",
	/* The same ask again takes the place of the one before. */
	[STATEMENT_ESCALATION] = "INSERT OR REPLACE INTO escalations VALUES(?, ?, 0, ?)",
	[STATEMENT_ESCALATIONS_TRIM] =
	    "DELETE FROM escalations WHERE (SELECT count(*) FROM escalations) > ?"
	    " AND count = (SELECT count FROM escalations"
	    " ORDER BY resolved DESC, count LIMIT 1)",
	[STATEMENT_RESOLVED] = "UPDATE escalations SET resolved = 1 WHERE id = ?",
	[STATEMENT_REOPENED] = "UPDATE escalations SET resolved = 0 WHERE id = ?",
	[STATEMENT_KEY] = "INSERT OR REPLACE INTO keys VALUES(?, ?, ?, ?, ?, 0)",
	[STATEMENT_KEY_FREE] = "DELETE FROM keys WHERE call = ?",
	[STATEMENT_KEY_SETTLED] = "UPDATE keys SET settled = 1 WHERE call = ?",
	[STATEMENT_SESSION] = "INSERT OR IGNORE INTO sessions VALUES(?, ?, ?)",
	[STATEMENT_SESSION_OVER] = "DELETE FROM sessions WHERE session = ?",
	/* Of one that is over nothing is kept: its keys live as long as it does. */
	[STATEMENT_ADMISSION] = "INSERT OR IGNORE INTO admissions SELECT ?, ?2, ?, ?, ?"
				" WHERE EXISTS(SELECT 1 FROM sessions WHERE session = ?2)",
	[STATEMENT_ADMISSIONS_OVER] = "DELETE FROM admissions WHERE session = ?",
	[STATEMENT_LOCATE] = "SELECT segment, offset, length FROM records WHERE count = ?",
	[STATEMENT_COMPARE] = "SELECT * FROM records WHERE count = ?",
	[STATEMENT_OPERATIONS] =
	    "SELECT operation, kind, trace, sequence, cause, status, detail, reason, session,"
	    " principal, started, ended FROM operations"
	    " WHERE ended IS NULL OR ended IN (SELECT ended FROM operations WHERE ended IS NOT "
	    "NULL"
	    " ORDER BY ended DESC LIMIT " TEXT_OF(INDEX_ENDED) ") ORDER BY operation LIMIT -1"
	    " OFFSET ?",
	[STATEMENT_CALLS] = "SELECT call FROM calls WHERE operation = ? ORDER BY call",
	[STATEMENT_USES] =
	    "SELECT grant_id, spent FROM uses ORDER BY grant_id LIMIT -1 OFFSET ?",
	/* These only grow, and can be many: from a row on, not behind so many. */
	[STATEMENT_GRANTS] = "SELECT count, record FROM grants WHERE count > ? ORDER BY count",
	[STATEMENT_ESCALATIONS] =
	    "SELECT count, resolved, record FROM escalations WHERE count > ? ORDER BY count",
	[STATEMENT_KEYS] = "SELECT count, key, fingerprint, actor, settled FROM keys"
			   " WHERE count > ? ORDER BY count",
	[STATEMENT_SESSIONS] =
	    "SELECT count, record FROM sessions WHERE count > ? ORDER BY count",
	[STATEMENT_ADMISSIONS] = "SELECT count, session, key, fingerprint, operation"
				 " FROM admissions WHERE count > ? ORDER BY count",
	[STATEMENT_REVOCATIONS] =
	    "SELECT count, grant_id, at FROM revocations WHERE count > ? ORDER BY count",
};

/* ---- SQLite ------------------------------------------------------------------------- */

int
index_failed(struct index *x, const char *what)
{
	return database_failed(x->db, "index", what);
}

static int
run(struct index *x, const char *sql)
{
	return sqlite3_exec(x->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : -EIO;
}

sqlite3_stmt *
index_statement(struct index *x, enum statement which)
{
	if (!x->statement[which] &&
	    sqlite3_prepare_v3(x->db, statements[which], -1, SQLITE_PREPARE_PERSISTENT,
		&x->statement[which], NULL) != SQLITE_OK)
		return NULL;
	sqlite3_reset(x->statement[which]);
	sqlite3_clear_bindings(x->statement[which]);
	return x->statement[which];
}

static int
open_db(const char *name, int flags, struct index **ret)
{
	struct index *x = calloc(1, sizeof(*x));
	int err = x ? database_open(name, flags, &x->db) : -ENOMEM;

	if (err < 0)
		free(x);
	else
		*ret = x;
	return err;
}

static int
load_position(struct index *x)
{
	sqlite3_stmt *s = NULL;
	int ret = -EIO;

	memset(&x->at, 0, sizeof(x->at));
	if (sqlite3_prepare_v2(x->db, "SELECT count, hash, segment, offset FROM position", -1,
		&s, NULL) != SQLITE_OK)
		return -EIO;
	switch (sqlite3_step(s)) {
	case SQLITE_DONE: ret = 0; break;
	case SQLITE_ROW:
		if (sqlite3_column_bytes(s, 1) != JOURNAL_HASH)
			break;
		x->at.count = (uint64_t)sqlite3_column_int64(s, 0);
		memcpy(x->at.hash, sqlite3_column_blob(s, 1), JOURNAL_HASH);
		x->at.segment = (uint64_t)sqlite3_column_int64(s, 2);
		x->at.offset = (uint64_t)sqlite3_column_int64(s, 3);
		ret = 0;
		break;
	}
	sqlite3_finalize(s);
	return ret;
}

static int
create_schema(struct index *x)
{
	char pragma[64];

	snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %d", INDEX_VERSION);
	if (run(x, "BEGIN") < 0 || run(x, schema) < 0 || run(x, pragma) < 0 ||
	    run(x, "COMMIT") < 0)
		return index_failed(x, "make tables");
	return 0;
}

/*
 * A view in the place of a table, or a trigger, would be a program of whoever made the
 * file, and may never end.
 */
static int
check_schema(struct index *x)
{
	struct index *ours;
	int err = open_db(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &ours);

	if (err < 0)
		return err;
	err = create_schema(ours);
	if (err == 0 && !database_same_schema(x->db, ours->db))
		err = -EIO;
	index_close(ours);
	return err;
}

static int
load(struct index *x)
{
	int err = check_schema(x);

	return err < 0 ? err : load_position(x);
}

static int
open_writable(struct index **ret)
{
	struct index *x;
	int err;

	err = open_db(INDEX_FILE, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &x);
	if (err < 0)
		return err;
	/* One process only: no shared memory beside the file. */
	err = run(x, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
		     "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;");
	if (err == 0)
		switch (database_version(x->db)) {
		case INDEX_VERSION: err = load(x); break;
		case 0: err = create_schema(x); break;
		default: err = -EIO;
		}
	if (err < 0) {
		index_close(x);
		return err;
	}
	*ret = x;
	return 0;
}

void
index_discard(int dir_fd)
{
	unlinkat(dir_fd, INDEX_FILE, 0);
	unlinkat(dir_fd, INDEX_FILE "-wal", 0);
	unlinkat(dir_fd, INDEX_FILE "-shm", 0);
}

int
index_open(int dir_fd, struct index **ret)
{
	mode_t mask;
	int err;

	if (dir_fd < 0) {
		err =
		    open_db(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, ret);
		return err < 0 ? err : create_schema(*ret);
	}
	err = database_enter(dir_fd);
	if (err < 0)
		return err;
	mask = umask(077);
	err = open_writable(ret);
	if (err == -EIO || err == -EUCLEAN) {
		log_warn("the index is damaged or of another version: it is made again");
		index_discard(dir_fd);
		err = open_writable(ret);
	}
	umask(mask);
	return err;
}

int
index_open_readonly(int dir_fd, struct index **ret)
{
	struct stat st;
	int err;

	if (fstatat(dir_fd, INDEX_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode)) /* the opening of a FIFO would wait */
		return -ENOTSUP;
	/* What stands in the log is not in the file yet, and the log may change. */
	if (fstatat(dir_fd, INDEX_FILE "-wal", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0)
		return -EBUSY;
	err = database_enter(dir_fd);
	if (err == 0)
		err = open_db("file:" INDEX_FILE "?immutable=1",
		    SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, ret);
	if (err < 0)
		return err;
	if (database_version((*ret)->db) != INDEX_VERSION || load(*ret) < 0) {
		index_close(*ret);
		*ret = NULL;
		return -EUCLEAN;
	}
	(*ret)->seen = st;
	return 0;
}

bool
index_moved(const struct index *x, int dir_fd)
{
	struct stat st;

	if (fstatat(dir_fd, INDEX_FILE "-wal", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0)
		return true;
	return fstatat(dir_fd, INDEX_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	       st.st_ino != x->seen.st_ino || st.st_size != x->seen.st_size ||
	       st.st_mtim.tv_sec != x->seen.st_mtim.tv_sec ||
	       st.st_mtim.tv_nsec != x->seen.st_mtim.tv_nsec;
}

void
index_close(struct index *x)
{
	size_t i;

	if (!x)
		return;
	for (i = 0; i < STATEMENT_MAX; i++)
		sqlite3_finalize(x->statement[i]);
	sqlite3_close(x->db);
	free(x);
}

struct position
index_position(const struct index *x)
{
	return x->at;
}

unsigned
index_pending(const struct index *x)
{
	return x->pending;
}

int
index_clear(struct index *x)
{
	int ret = index_commit(x);

	if (ret == 0 &&
	    run(x, "BEGIN; DELETE FROM position; DELETE FROM records; DELETE FROM operations;"
		   "DELETE FROM calls; DELETE FROM uses; DELETE FROM grants;"
		   "DELETE FROM revocations; DELETE FROM escalations; DELETE FROM keys;"
		   "DELETE FROM sessions; DELETE FROM admissions; COMMIT") < 0)
		ret = index_failed(x, "empty the tables");
	memset(&x->at, 0, sizeof(x->at));
	return ret;
}

void
index_settle(struct index *x)
{
	if (sqlite3_wal_checkpoint_v2(x->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) !=
	    SQLITE_OK)
		log_warn("index: cannot empty its log: %s", sqlite3_errmsg(x->db));
}
