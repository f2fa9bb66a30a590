/*
 * index_private: what index.c (the file), index_add.c (writing) and index_query.c (reading)
 * share.
 */
#ifndef LEDGER_INDEX_PRIVATE_H
#define LEDGER_INDEX_PRIVATE_H

#include <sys/stat.h>

#include <sqlite3.h>

#include "ledger/index.h"

enum statement {
	STATEMENT_BEGIN,
	STATEMENT_COMMIT,
	STATEMENT_POSITION,
	STATEMENT_RECORD,
	STATEMENT_ACCEPTED,
	STATEMENT_STARTED,
	STATEMENT_BLOCK,
	STATEMENT_ENDED,
	STATEMENT_CALL,
	STATEMENT_CALL_OVER,
	STATEMENT_USE,
	STATEMENT_RELEASE,
	STATEMENT_ISSUED,
	STATEMENT_REVOKED,
	STATEMENT_ESCALATION,
	STATEMENT_ESCALATIONS_TRIM,
	STATEMENT_RESOLVED,
	STATEMENT_REOPENED,
	STATEMENT_KEY,
	STATEMENT_KEY_FREE,
	STATEMENT_KEY_SETTLED,
	STATEMENT_SESSION,
	STATEMENT_SESSION_OVER,
	STATEMENT_ADMISSION,
	STATEMENT_ADMISSIONS_OVER,
	STATEMENT_LOCATE,
	STATEMENT_COMPARE,
	STATEMENT_OPERATIONS,
	STATEMENT_CALLS,
	STATEMENT_USES,
	STATEMENT_GRANTS,
	STATEMENT_REVOCATIONS,
	STATEMENT_ESCALATIONS,
	STATEMENT_KEYS,
	STATEMENT_SESSIONS,
	STATEMENT_ADMISSIONS,
	STATEMENT_MAX,
};

struct index {
	sqlite3 *db;
	sqlite3_stmt *statement[STATEMENT_MAX]; /* prepared at first use */
	unsigned pending;			/* records in the open transaction */
	struct position at;			/* with them */
	struct stat seen; /* of a read-only one: its file when it was opened */
};

/* Logs what SQLite says of the call that failed just now.  Returns -EUCLEAN or -EIO. */
int index_failed(struct index *x, const char *what);

/* The statement, reset and without bindings; NULL if it cannot be prepared. */
sqlite3_stmt *index_statement(struct index *x, enum statement which);

#endif /* LEDGER_INDEX_PRIVATE_H */
