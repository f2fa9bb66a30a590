/*
 * audit: `caisson audit show|verify|query`: reads records, and checks them.
 *
 * For every directory it asks about it starts a ledger of its own, confined and read-only
 * (D-16), which is all that ever looks at the bytes of a record.  Everything shown was
 * written by others: control characters are escaped.
 */
#ifndef CLIENT_AUDIT_H
#define CLIENT_AUDIT_H

#include "common/protocol.h"

struct options;

enum audit_verb {
	AUDIT_SHOW,
	AUDIT_VERIFY,
	AUDIT_QUERY,
};

struct audit_options {
	enum audit_verb verb;
	const char *state_dir; /* NULL: the default of caisson(1) */
	const char *run_id;    /* NULL: all */
	bool jsonl, quiet, verbose;
	struct msg_audit_read filter; /* cursor and limit are not looked at */
	bool has_expect;
	uint8_t expect[32]; /* the one record asked about must end in this */
};

/*
 * Returns the exit status: 0; 1 if a record is not valid; 125 if it could not be read, with
 * a line on standard error.
 */
int audit_run(const struct audit_options *o);
/* The same from the command line: argv is not looked at. */
int audit_main(const struct options *o, int argc, char **argv);

#endif /* CLIENT_AUDIT_H */
