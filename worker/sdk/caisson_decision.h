/*
 * caisson_decision: what a driver decides, read for the loop.  No part of the interface: that
 * is caisson_loop.h.
 */
#ifndef CAISSON_DECISION_H
#define CAISSON_DECISION_H

#include "worker/sdk/caisson.h"
#include "worker/sdk/caisson_loop.h"

/* What a decision comes to: a call, or the outcome of the turn.  Points into the decision. */
struct caisson_plan {
	enum caisson_request kind;
	const char *status, *closed;
	struct caisson_value value, metadata;
	struct caisson_value tool, arguments, key; /* of a call; the key may be none */
	uint32_t step;
};

/* Reads what was decided at step `at`; false if that is no decision. */
bool caisson_decision_read(struct caisson_value v, uint32_t at, struct caisson_plan *ret);

/* Is it a string of so many bytes, with no NUL in it? */
bool caisson_is_text(struct caisson_value v, size_t least, size_t most);

/* Appends a name and a string. */
static inline void
caisson_put_text(struct caisson_writer *w, const char *name, const char *text)
{
	caisson_put_str(w, name);
	caisson_put_str(w, text);
}

#endif /* CAISSON_DECISION_H */
