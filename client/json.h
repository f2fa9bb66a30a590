/*
 * json: the edge between JSON texts and MessagePack values.
 *
 * Writing goes straight from the frame, without a tree between: valid UTF-8 passes
 * through, whatever a terminal could obey is \uXXXX, binary is base64, integers are
 * exact, reals the shortest text that reads back as the same number.  Reading is strict.
 */
#ifndef CLIENT_JSON_H
#define CLIENT_JSON_H

#include "common/protocol.h"

#define JSON_DEPTH_MAX PAYLOAD_DEPTH_MAX
#define JSON_ERROR_MAX 256

/* Appends the value, which a walk has passed, on one line. */
void json_write(struct slice value, struct buf *out);
/* The same over several lines, for people: two blanks a level. */
void json_write_pretty(struct slice value, struct buf *out);
/* Parts for envelopes that are written by hand. */
void json_write_string(struct slice s, struct buf *out);
void json_write_base64(struct slice s, struct buf *out);

/*
 * Reads one JSON text into a MessagePack value of at most ARGUMENTS_MAX bytes.  Returns 0;
 * -EINVAL with `err` naming line and column (or the bound); -ENOMEM.
 */
int json_read(const char *text, struct buf *out, char err[JSON_ERROR_MAX]);

#endif /* CLIENT_JSON_H */
