/*
 * wshead: what both ends of a WebSocket (RFC 6455) have to know alike: the head of a frame, and
 * what answers a key.  Pure.
 *
 * A client's frames are masked and a server's are not; whoever reads says which it expects, and
 * makes or undoes the mask itself.
 */
#ifndef COMMON_WSHEAD_H
#define COMMON_WSHEAD_H

#include "common/protocol.h"

#define WSHEAD_MAX	   14 /* bytes, the mask among them */
#define WSHEAD_MASK	   4 /* bytes */
#define WSHEAD_CONTROL_MAX 125 /* bytes of payload of a control frame */
#define WSHEAD_KEY	   24 /* characters of Sec-WebSocket-Key */
#define WSHEAD_ACCEPT	   28 /* characters of Sec-WebSocket-Accept */

enum wshead_type {
	WSHEAD_CONTINUATION = 0x0,
	WSHEAD_TEXT = 0x1,
	WSHEAD_BINARY = 0x2,
	WSHEAD_CLOSE = 0x8,
	WSHEAD_PING = 0x9,
	WSHEAD_PONG = 0xa,
};

struct wshead {
	enum wshead_type type;
	bool last; /* FIN */
	size_t bytes; /* of the head, with the mask that ends it */
	uint64_t payload_bytes; /* behind it, below 2^63 */
};

bool wshead_is_control(unsigned type);

/*
 * Reads the head that `n` bytes begin with, of a side whose frames are `masked`.  Returns 1 once
 * its length is there, its mask may come later; 0: not yet; -EPROTO as soon as it is known that
 * no such side may send it (5.1, 5.2, 5.5).
 */
int wshead_read(const uint8_t *p, size_t n, bool masked, struct wshead *ret);

/*
 * Writes the head of a frame that is a whole message, or a control frame; returns its length.
 * With `mask` that is the end of it.
 */
size_t wshead_write(enum wshead_type type, const uint8_t *mask, uint64_t payload_bytes,
    uint8_t ret[WSHEAD_MAX]);

/* What answers a key, NUL-terminated; false if that is not the base64 of 16 bytes. */
bool wshead_accept(struct slice key, char ret[WSHEAD_ACCEPT + 1]);

#endif /* COMMON_WSHEAD_H */
