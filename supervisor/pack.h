/*
 * pack: the configuration as frames config.broker ... config.end for a starting broker.
 *
 * What a broker needs to decide: no paths of the machine, no commands, no environment.  The
 * supervisor packs frames and never unpacks one.
 */
#ifndef SUPERVISOR_PACK_H
#define SUPERVISOR_PACK_H

#include "supervisor/config.h"

#define PACK_KEY 32 /* bytes of the installation's key */

struct pack_facts {
	enum operation_kind kind; /* of every runtime: all turn, or (caisson exec) command */
	bool learn; /* of a command: its calls are learned, not refused */
	bool daemon; /* it has sessions, and other clients than the operator */
	uint64_t timeout_ms; /* instead of limits.turn_timeout; 0 for a command: none */
	/* wall clock, of this caissond's start: issuedAt of grants that do not say */
	uint64_t now_ms;
	uint32_t operator_uid; /* D-18 */
	const uint8_t *key; /* PACK_KEY bytes */
	uint64_t generation; /* how many there were before it */
	/* Of each runtime, then of each provider: the generation since which its processes have
	 * been made as they are now; NULL: nothing is said. */
	const uint64_t *since;
};

/*
 * Appends all frames to `out`.  Returns 0; -ERANGE if something does not fit its row (then
 * config.def allows more than protocol.def: a bug of ours); -ENOMEM.
 */
int pack_config(
    struct buf *out, const struct conf_namespace *c, const struct pack_facts *facts);

/* The same as pack_memfd() has it, and no other copy is left: the key is in it. */
int pack_sealed(const struct conf_namespace *c, const struct pack_facts *facts);

/*
 * Appends what a gateway serves, config.gateway ... config.end, to `out`; c->has_gateway.
 * Reads the certificates and keys of its listeners, which come in the order of gateway.listen,
 * with that of the monitor behind them.  Returns 0; or a negative errno with one line in `err`,
 * as conf_open().  The keys are in `out`: it is for the caller to wipe.
 */
int pack_gateway(struct buf *out, const struct conf_namespace *c, const char *file,
    char err[CONF_ERROR_MAX]);

/* A sealed memfd with these bytes, its offset at the start, or a negative errno. */
int pack_memfd(const struct buf *b);

#endif /* SUPERVISOR_PACK_H */
