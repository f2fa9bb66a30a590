/*
 * json: the edge between JSON texts and MessagePack values.
 *
 * Writing goes straight from the frame, without a tree between: valid UTF-8 passes
 * through, whatever a terminal could obey is \uXXXX, binary is base64, integers are
 * exact, reals the shortest text that reads back as the same number.
 *
 * Reading is strict, and goes straight into a value, within bounds that hold while it is
 * read: exactly one value, no duplicate key, no NUL in a key, no byte that is not UTF-8, no
 * lone surrogate, integers from -2^63 to 2^64-1, reals that a double holds.  What was read
 * passes a walk.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include "common/protocol.h"

#define JSON_ERROR_MAX 256

/* Appends the value, which a walk has passed, on one line. */
void json_write(struct slice value, struct buf *out);
/* The same over several lines, for people: two blanks a level. */
void json_write_pretty(struct slice value, struct buf *out);
/* Parts for envelopes that are written by hand. */
void json_write_string(struct slice s, struct buf *out);
void json_write_base64(struct slice s, struct buf *out);
void json_write_number(uint64_t v, struct buf *out);
/* One page of a listing: {"NAME":LIST,"next":"..."}; no `next`: it is the last. */
void json_write_page(const char *name, struct slice list, struct slice next, struct buf *out);

struct json_bounds {
	size_t bytes;	 /* when packed */
	unsigned depth;	 /* at most VALUE_DEPTH_MAX */
	uint32_t values; /* keys among them; at most VALUE_NODES_MAX */
};
/* Of what the broker passes on wrapped: ARGUMENTS_MAX, PAYLOAD_DEPTH_MAX, PAYLOAD_NODES_MAX. */
extern const struct json_bounds json_payload;

/*
 * Appends what one JSON text says to `out`, as a MessagePack value.  Returns 0; -EINVAL with
 * `err` naming line and column (or the bound); -ENOMEM.  `out` is void on failure.
 */
int json_read_bounded(struct slice text, const struct json_bounds *bounds, struct buf *out,
    char err[JSON_ERROR_MAX]);
/* The same of a payload's bounds. */
int json_read(const char *text, struct buf *out, char err[JSON_ERROR_MAX]);

#endif /* COMMON_JSON_H */
