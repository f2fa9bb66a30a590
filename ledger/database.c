#include "ledger/database.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"

/* Names are relative to the working directory, and stay so: in a chamber
 * its absolute name does not exist. */
static int
relative_name(sqlite3_vfs *vfs, const char *name, int n, char *out)
{
	(void)vfs;
	return strlcpy(out, name, (size_t)n) < (size_t)n ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int
use_relative_names(void)
{
	static sqlite3_vfs relative;
	sqlite3_vfs *unix_vfs;

	if (relative.zName)
		return 0;
	if (sqlite3_initialize() != SQLITE_OK)
		return -ENOMEM;
	unix_vfs = sqlite3_vfs_find("unix");
	if (!unix_vfs)
		return -ENOSYS;
	relative = *unix_vfs;
	relative.pNext = NULL;
	relative.zName = "relative";
	relative.xFullPathname = relative_name;
	return sqlite3_vfs_register(&relative, 0) == SQLITE_OK ? 0 : -ENOMEM;
}

int
database_enter(int dir_fd)
{
	int err = use_relative_names();

	return err == 0 && fchdir(dir_fd) < 0 ? -errno : err;
}

int
database_open(const char *name, int flags, sqlite3 **ret)
{
	const char *vfs = strcmp(name, ":memory:") == 0 ? NULL : "relative";
	sqlite3 *db = NULL;
	int err = sqlite3_open_v2(name, &db, flags | SQLITE_OPEN_NOMUTEX, vfs);

	if (err != SQLITE_OK) {
		err = sqlite3_system_errno(db);
		sqlite3_close(db);
		return err > 0 ? -err : -EIO;
	}
	sqlite3_extended_result_codes(db, 1);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	*ret = db;
	return 0;
}

int
database_version(sqlite3 *db)
{
	sqlite3_stmt *s = NULL;
	int v = -1;

	if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &s, NULL) == SQLITE_OK &&
	    sqlite3_step(s) == SQLITE_ROW)
		v = sqlite3_column_int(s, 0);
	sqlite3_finalize(s);
	return v;
}

static bool
same_column(sqlite3_stmt *a, sqlite3_stmt *b, int i)
{
	int n = sqlite3_column_bytes(a, i);
	const void *p = sqlite3_column_text(a, i), *q = sqlite3_column_text(b, i);

	return n == sqlite3_column_bytes(b, i) && (p == NULL) == (q == NULL) &&
	       (p == NULL || memcmp(p, q, (size_t)n) == 0);
}

bool
database_same_schema(sqlite3 *x, sqlite3 *y)
{
	static const char sql[] = "SELECT type, name, tbl_name, sql FROM sqlite_master"
				  " ORDER BY type, name";
	sqlite3_stmt *a = NULL, *b = NULL;
	int i, got = SQLITE_ERROR, other = SQLITE_ERROR;
	bool same;

	same = sqlite3_prepare_v2(x, sql, -1, &a, NULL) == SQLITE_OK &&
	       sqlite3_prepare_v2(y, sql, -1, &b, NULL) == SQLITE_OK;
	while (same) {
		got = sqlite3_step(a);
		other = sqlite3_step(b);
		if (got != SQLITE_ROW || other != SQLITE_ROW)
			break;
		for (i = 0; i < 4; i++)
			same = same && same_column(a, b, i);
	}
	sqlite3_finalize(a);
	sqlite3_finalize(b);
	return same && got == SQLITE_DONE && other == SQLITE_DONE;
}

int
database_failed(sqlite3 *db, const char *which, const char *what)
{
	log_error("%s: cannot %s: %s", which, what, sqlite3_errmsg(db));
	switch (sqlite3_errcode(db) & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_CONSTRAINT: /* rows behind the position: not of our making */
		return -EUCLEAN;
	default: return -EIO;
	}
}
