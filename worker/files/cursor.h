/*
 * cursor: where a listing or search goes on, as an opaque string.
 *
 * It holds the names that lead from the place where the search began to the last entry
 * seen, and of one that is only begun the position in it, never one in a directory or in
 * memory: it stays good whatever becomes of the directory, and in another process.  It is not
 * a permission: what it names is looked up beneath the path that was decided.  Pure.
 */
#ifndef WORKER_FILES_CURSOR_H
#define WORKER_FILES_CURSOR_H

#include "worker/files/segments.h"

/* Where in a file to go on: a byte, and the line that it is in.  Zeroes: behind it. */
struct cursor_place {
	uint64_t offset, line;
};

struct cursor {
	struct segments at; /* slices of `text` */
	struct cursor_place place;
	char *text;
};

/* Appends the cursor of these names as a string value.  `kind` is one letter per
 * tool: a cursor of another is refused. */
void cursor_pack(struct buf *out, char kind, const struct segments *at);

/*
 * Reads a cursor; the caller releases it with cursor_finish().  Returns 0; -EINVAL for
 * what cursor_pack() did not write; -ENOMEM.
 */
int cursor_unpack(struct slice text, char kind, struct cursor *ret);
/* The same for cursors with a place, which may have no names: the base is a file itself. */
void cursor_pack_place(struct buf *out, char kind, const struct segments *at,
    struct cursor_place place);
int cursor_unpack_place(struct slice text, char kind, struct cursor *ret);
/* Zeroed ones are allowed. */
void cursor_finish(struct cursor *c);

#endif /* WORKER_FILES_CURSOR_H */
