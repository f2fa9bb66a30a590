/*
 * pending: which requests of ours are open on a link: message id -> type of request.
 *
 * A table with open addressing; ids come from a counter, so that they spread by
 * themselves.  Starts as zeroes; pending_finish() releases.  No I/O.
 */
#ifndef COMMON_PENDING_H
#define COMMON_PENDING_H

#include <stddef.h>
#include <stdint.h>

struct pending {
	struct pending_slot {
		uint32_t msgid;
		int32_t type; /* of the request, plus one; 0: free */
	} *slot;
	uint32_t cap; /* a power of two, or 0 */
	uint32_t n;
};

void pending_finish(struct pending *p);
/* Makes room for one more.  Returns 0 or -ENOMEM. */
int pending_reserve(struct pending *p);
/* Adds an id that is not in the table, after pending_reserve(). */
void pending_add(struct pending *p, uint32_t msgid, int type);
/* The type of the request `msgid`; -1 if none is open. */
int pending_get(const struct pending *p, uint32_t msgid);
/* Removes `msgid` if it is there. */
void pending_remove(struct pending *p, uint32_t msgid);

#endif /* COMMON_PENDING_H */
