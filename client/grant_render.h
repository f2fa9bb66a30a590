/*
 * grant_render: what grants, and answers about them, look like.  Pure.
 *
 * People get aligned tables and sentences, everything that somebody else chose escaped;
 * programs get one JSON object a line, with the members of the protocol.
 */
#ifndef CLIENT_GRANT_RENDER_H
#define CLIENT_GRANT_RENDER_H

#include "client/cells.h"

/* Grants as rows, with a line of more for each. */
struct grant_table {
	struct cells cells;
	struct buf detail; /* as many lines as there are rows */
};

void grant_table_init(struct grant_table *t);
/* Adds a list of maps, as of grant.list. */
void grant_table_add(struct grant_table *t, struct slice list);
/* Head and rows, or nothing if there are none; with `verbose` the rest of each below it. */
void grant_table_render(const struct grant_table *t, bool verbose, struct buf *out);
void grant_table_finish(struct grant_table *t);

/* Asks that wait, a list of escalation.list's: rows of a table, or lines of JSON. */
void grant_asks_init(struct cells *t);
void grant_asks_add(struct cells *t, struct slice list);
void grant_render_asks_jsonl(struct slice list, struct buf *out);

/* One line each for a list of maps. */
void grant_render_list_jsonl(struct slice list, struct buf *out);
/* One line for a message of the protocol. */
void grant_render_jsonl(enum msg_type type, const void *m, struct buf *out);

/* What was issued, and the grant as a table. */
void grant_render_issued(
    const struct msg_grant_issue_reply *m, bool verbose, struct buf *out);
/* That it is revoked, and which calls were already on their way. */
void grant_render_revoked(
    struct slice id, const struct msg_grant_revoke_reply *m, struct buf *out);
/* Yes and by which grant, or no and what is missing. */
void grant_render_why(const struct msg_grant_why_reply *m, bool colour, struct buf *out);

/* Would it happen: is the call allowed, in a turn that is admitted? */
bool grant_is_allowed(const struct msg_grant_why_reply *m);

/* " read,list:workspace:docs/x" with two stars behind the slash where all below is meant. */
void grant_render_capability(struct slice map, struct buf *out);

#endif /* CLIENT_GRANT_RENDER_H */
