/*
 * database: how a ledger opens a SQLite file that may have been changed behind its back.
 *
 * Names are relative to the working directory, which is the ledger's own (in a chamber its
 * absolute name does not exist).  No trigger and no view of such a file ever runs.
 */
#ifndef LEDGER_DATABASE_H
#define LEDGER_DATABASE_H

#include <stdbool.h>

#include <sqlite3.h>

/* The working directory becomes `dir_fd`, to which names are relative.  0 or a negative
 * errno. */
int database_enter(int dir_fd);
/* `flags` of sqlite3_open_v2(); `name` ":memory:" or relative.  0 or a negative errno. */
int database_open(const char *name, int flags, sqlite3 **ret);
/* PRAGMA user_version; -1 if it cannot be read. */
int database_version(sqlite3 *db);
/* Do both hold the same tables, and nothing else? */
bool database_same_schema(sqlite3 *x, sqlite3 *y);
/* Logs what SQLite says of the call that failed just now: "index: cannot ...".  Returns
 * -EUCLEAN for a damaged one, else -EIO. */
int database_failed(sqlite3 *db, const char *which, const char *what);

#endif /* LEDGER_DATABASE_H */
