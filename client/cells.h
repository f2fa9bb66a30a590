/*
 * cells: a table for people: a head, and rows whose columns are as wide as their widest cell.
 */
#ifndef CLIENT_CELLS_H
#define CLIENT_CELLS_H

#include "common/protocol.h"

#define CELLS_COLUMNS_MAX 16

/* Starts as zeroes but for the first two. */
struct cells {
	const char *const *heads;
	size_t columns;
	struct buf text; /* all cells, one after the other: append one, then cells_end() */
	struct buf ends; /* size_t: where each cell ends in `text` */
	size_t widths[CELLS_COLUMNS_MAX];
};

/* Ends the cell that was begun where the last one ended. */
void cells_end(struct cells *t);
/* Whole cells, untrusted bytes escaped; "-" for what is not there. */
void cells_add_text(struct cells *t, bool has, struct slice s);
void cells_add_uint(struct cells *t, bool has, uint64_t n);

size_t cells_rows(const struct cells *t);
/* One line each, with its newline; out->failed where memory was out. */
void cells_render_head(const struct cells *t, struct buf *out);
void cells_render_row(const struct cells *t, size_t row, struct buf *out);

void cells_finish(struct cells *t);

#endif /* CLIENT_CELLS_H */
