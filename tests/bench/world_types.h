/*
 * world_types: what the parts of a world (world.h) know of each other.
 */
#ifndef TESTS_BENCH_WORLD_TYPES_H
#define TESTS_BENCH_WORLD_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "common/control.h"

#define CALLS_MAX  10000 /* of one turn: the protocol's ceiling */
#define SEGMENT    (256u << 20) /* bytes */
#define FLIGHT_MAX 32

/* What a turn of `calls` calls measured; shared with the worker that ran it. */
struct run {
	uint32_t ns[CALLS_MAX]; /* each call, one in flight */
	uint64_t total_ns; /* the calls after the warm-up */
	uint32_t calls, warm; /* of `calls`, not counted */
	uint32_t flight; /* calls in flight */
	size_t payload; /* bytes of the arguments' data and of the result */
	/* bytes of each frame, for the floor */
	uint32_t invoke, call, result, reply;
};

struct world {
	pid_t broker, worker, provider;
	int control, ledger, journal_dir;
	bool null_journal, durable, detached;
	int broker_cpu, worker_cpu;
	unsigned more_grants; /* of the same agent, for other places */
	struct run *run;
	struct control spawned[2]; /* worker, provider: what was asked for */
	uint64_t segments;
};

#endif /* TESTS_BENCH_WORLD_TYPES_H */
