/*
 * confine: the broker's own filter, in two steps: CONFINE_START before the first byte of
 * anybody is read, CONFINE_READY once the journal's thread exists and before any worker
 * or client has a link.  The lists are syscalls.def; anything else kills the process.
 */
#ifndef BROKER_CONFINE_H
#define BROKER_CONFINE_H

enum confine_step {
	CONFINE_START,
	CONFINE_READY
};

/*
 * Loads the filter of `step` for every thread, with no_new_privs.  Returns 0 or a negative
 * errno; the caller must not go on then.
 */
int confine_self(enum confine_step step);

#endif /* BROKER_CONFINE_H */
