/*
 * grant_copy: a grant of which everything lies in one piece of memory.
 */
#ifndef BROKER_GRANT_COPY_H
#define BROKER_GRANT_COPY_H

#include "broker/authority/authority.h"
#include "broker/zone.h"

/* How much memory everything takes that the grant names. */
size_t grant_copy_bytes(const struct grant *g);
/* Copies it there, where there is that much and aligned for a pointer.  All else of `ret` is as
 * in `g`. */
void grant_copy_into(void *memory, const struct grant *g, struct grant *ret);
/* The same in a zone.  Returns 0 or -ENOMEM. */
int grant_copy(struct zone *z, const struct grant *g, struct grant *ret);

#endif /* BROKER_GRANT_COPY_H */
