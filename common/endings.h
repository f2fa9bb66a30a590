/*
 * endings: the rows of endings.def as data.  D-2, D-13.  Pure.
 */
#ifndef COMMON_ENDINGS_H
#define COMMON_ENDINGS_H

#include <stdbool.h>
#include <stdint.h>

enum ending {
	ENDING_none = 0,
#define ENDING(cause, op, status, code, call, retry, run, exec, http, doc, next) ENDING_##cause,
#define LIMIT(name, text, next)
#include "common/endings.def"
	ENDING_MAX
};

enum { EXIT_FROM_FACTS = -1, EXIT_FROM_TURN = -2 };

struct ending_desc {
	const char *cause;
	const char *operation_code; /* "" for a completed operation */
	const char *turn_status, *turn_code;
	const char *call_code;
	bool retryable;
	int exit_run, exit_exec; /* or EXIT_FROM_* */
	int http;
	const char *doc;
	const char *next; /* advice; "" for none */
};

/* A detail of ENDING_limit. */
struct limit_desc {
	const char *name, *text, *next;
};

/* The row of `e`; NULL for ENDING_none and for a number that is none. */
const struct ending_desc *ending_desc(uint32_t e);
/* The ending named `cause`; ENDING_none if there is none. */
enum ending ending_named(const char *cause, unsigned long n);
/* The row of `limit` (enum exit_limit); NULL for none and for a number that is none. */
const struct limit_desc *limit_desc(uint32_t limit);
/* The row of that name; NULL if the kernel tells of none such. */
const struct limit_desc *limit_named(const char *name, unsigned long n);
/* Exit status of `caisson run` for a turn of that status: 0, 1, 3, 4 or 5 (caisson(1)). */
int ending_turn_exit(const char *turn_status);

#endif /* COMMON_ENDINGS_H */
