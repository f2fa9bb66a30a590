/*
 * ps_render: what processes look like.  Pure.
 *
 * People get an aligned table, everything untrusted escaped; programs get one JSON object a
 * line.
 */
#ifndef CLIENT_PS_RENDER_H
#define CLIENT_PS_RENDER_H

#include "client/cells.h"

/* Rows as text. */
struct ps_table {
	struct cells cells;
	struct buf detail; /* a line for each row, with -v */
};

/* "broker", ... */
const char *ps_role(enum process_role role);
/* One line of JSON with its newline. */
void ps_render_jsonl(const struct msg_process_row *row, struct buf *out);

void ps_table_init(struct ps_table *t);
void ps_table_add(struct ps_table *t, const struct msg_process_row *row);
/* Appends head and rows; with `verbose` layers and descriptors below each. */
void ps_table_render(const struct ps_table *t, bool verbose, struct buf *out);
void ps_table_finish(struct ps_table *t);

#endif /* CLIENT_PS_RENDER_H */
