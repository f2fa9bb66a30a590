/*
 * wsframe: frames of RFC 6455 out of bytes and back, and messages out of frames.  No I/O.
 *
 * Frames come from a client: each is masked.  A frame is taken when it is whole; its head is
 * judged as soon as that is there.
 */
#ifndef GATEWAY_WSFRAME_H
#define GATEWAY_WSFRAME_H

#include "common/wshead.h"

struct wsframe {
	enum wshead_type type;
	bool last; /* FIN */
	struct slice payload; /* unmasked */
};

/*
 * Takes a frame of at most `max` bytes of payload off the front of `n` bytes, unmasking in
 * place. Returns 1 and sets `*ret`, and `*ret_used` to its length; 0 if it is not whole;
 * -EPROTO with `*ret_code` the code to close with.
 */
int wsframe_read(uint8_t *p, size_t n, size_t max, struct wsframe *ret, size_t *ret_used,
    unsigned *ret_code);

/* A text message that comes in fragments.  Starts as zeroes. */
struct wsmessage {
	bool begun;
	struct buf text;
	size_t checked; /* bytes of it that are whole characters */
};

/*
 * Adds a data frame.  Returns 1: `*ret` is a whole message, UTF-8, until the next call; 0: more
 * fragments come; -EPROTO with `*ret_code`; -ENOMEM.
 */
int wsmessage_add(struct wsmessage *m, const struct wsframe *f, size_t max, struct slice *ret,
    unsigned *ret_code);
void wsmessage_finish(struct wsmessage *m);

/* Appends a frame of ours: unmasked, whole. */
void wsframe_put(struct buf *out, enum wshead_type type, struct slice payload);
/* A close frame; `code` 1005: an empty one.  `reason` is cut at whole characters. */
void wsframe_put_close(struct buf *out, unsigned code, struct slice reason);
/* The code that a close frame of a client's says, 1005 for none; or, with `*ret_fault`, the
 * code to close with as it is not sound. */
unsigned wsframe_close_code(struct slice payload, bool *ret_fault);

#endif /* GATEWAY_WSFRAME_H */
