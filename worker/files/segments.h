/*
 * segments: a path as the names it consists of (TU-35).  Pure; slices are borrowed.
 *
 * A name that a path can hold here: 1..255 bytes of UTF-8, neither . nor .., without
 * separators (/ and \), control characters or white space at an end, and not one of our
 * own temporary names.
 */
#ifndef WORKER_FILES_SEGMENTS_H
#define WORKER_FILES_SEGMENTS_H

#include <stdbool.h>

#include "common/protocol.h"

#define SEGMENT_BYTES_MAX 255 /* NAME_MAX of every file system we know */
#define SEGMENTS_TEXT_MAX (PATH_SEGMENTS_MAX * 256u) /* bytes of a path as text */

/* Names beginning and ending so are our unfinished files: never listed, never served. */
#define TEMP_PREFIX ".caisson-"
#define TEMP_SUFFIX ".tmp"

struct segments {
	struct slice name[PATH_SEGMENTS_MAX];
	size_t n; /* 0: the root */
	bool slash; /* the text ended in a slash: a directory is meant */
};

/* Can a path hold this name? */
bool segments_is_name(const uint8_t *p, size_t n);
/* Is it the name of an unfinished file of ours? */
bool segments_is_temp(const uint8_t *p, size_t n);

/*
 * Splits text at its slashes.  "" and "." are the root; one slash may end it, none begin
 * it.  Returns 0, or -EINVAL for what is not a path.
 */
int segments_parse(struct slice text, struct segments *ret);

/* Reads a packed array of names.  Returns 0, or -EINVAL. */
int segments_unpack(struct slice list, struct segments *ret);

bool segments_equal(const struct segments *a, const struct segments *b);

/* Writes the first `n` names, joined by slashes, to `out`, which has room for
 * SEGMENTS_TEXT_MAX bytes; returns how many it wrote.  No NUL is added. */
size_t segments_join(const struct segments *s, size_t n, char *out);

/* Appends all names, joined by slashes, as a string value. */
void segments_pack(struct buf *out, const struct segments *s);

#endif /* WORKER_FILES_SEGMENTS_H */
