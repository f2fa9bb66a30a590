/*
 * inbox: bytes that have been read from a stream, and the frames that are whole in them.
 *
 * Owns one buffer while bytes are in it, which grows to what the peer's frames need.  Starts as
 * zeroes; inbox_finish() releases.  No I/O.  Of one thread.
 */
#ifndef COMMON_INBOX_H
#define COMMON_INBOX_H

#include <stdbool.h>

#include "common/protocol.h"

struct inbox {
	uint8_t *p; /* p[start..end) has been read and not yet taken */
	size_t start, end, cap;
	bool full; /* the last read took all the room there was */
};

void inbox_finish(struct inbox *in);

/*
 * Room for the next read, `*ret_n` bytes at `*ret_p`, at most LINK_READ_MAX.  Frames taken
 * before are void after it.  Returns 0 or -ENOMEM.
 */
int inbox_room(struct inbox *in, uint8_t **ret_p, size_t *ret_n);
/*
 * Nothing is read for now: an empty buffer goes, and one of them is kept for whoever reads
 * next.  Frames taken before are void.
 */
void inbox_rest(struct inbox *in);
/* `n` bytes of that room have been filled; `room` is what was offered. */
void inbox_filled(struct inbox *in, size_t n, size_t room);

/*
 * Takes the next frame, without its length word; it lives until inbox_room().  Returns 1;
 * 0 if none is whole; -EPROTO for a length of 0 or over FRAME_MAX.
 */
int inbox_take(struct inbox *in, struct slice *ret);

/* True if bytes are there that have not been taken. */
bool inbox_holds(const struct inbox *in);

#endif /* COMMON_INBOX_H */
