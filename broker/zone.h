/*
 * zone: memory that is released all at once.  A zone starts as zeroes, only grows, and
 * what lies in it never moves.
 */
#ifndef BROKER_ZONE_H
#define BROKER_ZONE_H

#include "common/protocol.h"

struct zone_block;

struct zone {
	struct zone_block *blocks;
	size_t left; /* bytes of the newest block */
};

void zone_finish(struct zone *z);
/* `count` zeroed elements of `size` bytes, aligned for anything; NULL if memory is out. */
void *zone_alloc(struct zone *z, size_t count, size_t size);
/* A NUL-terminated copy; NULL if memory is out.  A NUL within `s` is the caller's worry. */
char *zone_text(struct zone *z, struct slice s);
/* A copy of the bytes; p is NULL if memory is out, never for n == 0. */
struct slice zone_bytes(struct zone *z, struct slice s);

#endif /* BROKER_ZONE_H */
