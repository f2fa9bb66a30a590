/*
 * cursor: where a listing or search goes on, as an opaque string.
 *
 * It holds the names that lead from the place where the search began to the last entry
 * seen, never a position in a file or memory: it stays good whatever becomes of the
 * directory, and in another process.  It is not a permission: what it names is looked up
 * beneath the path that was decided.  Pure.
 */
#ifndef WORKER_FILES_CURSOR_H
#define WORKER_FILES_CURSOR_H

#include "worker/files/segments.h"

struct cursor {
	struct segments at; /* slices of `text` */
	char *text;
};

/* Appends the cursor of the first `n` names as a string value.  `kind` is one letter per
 * tool: a cursor of another is refused. */
void cursor_pack(struct buf *out, char kind, const struct segments *at, size_t n);

/*
 * Reads a cursor; the caller releases it with cursor_finish().  Returns 0; -EINVAL for
 * what cursor_pack() did not write; -ENOMEM.
 */
int cursor_unpack(struct slice text, char kind, struct cursor *ret);
/* Zeroed ones are allowed. */
void cursor_finish(struct cursor *c);

#endif /* WORKER_FILES_CURSOR_H */
