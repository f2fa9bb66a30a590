#include "common/endings.h"

#include <stddef.h>
#include <string.h>

#include "common/control.h"
#include "common/util.h"

static const struct ending_desc endings[ENDING_MAX] = {
#define ENDING(cause, op, status, code, call, retry, run, exec, http, doc, next) \
	[ENDING_##cause] = { #cause, op, status, code, call, retry, run, exec, http, doc, \
		next },
#define LIMIT(name, text, next)
#include "common/endings.def"
};

static const struct limit_desc limits[EXIT_LIMIT_MAX] = {
#define ENDING(cause, op, status, code, call, retry, run, exec, http, doc, next)
#define LIMIT(name, text, next) [EXIT_LIMIT_##name] = { #name, text, next },
#include "common/endings.def"
};

static const struct {
	const char *status;
	int exit;
} turn_exits[] = {
	{ "succeeded", 0 },
	{ "failed", 1 },
	{ "denied", 3 },
	{ "cancelled", 4 },
	{ "escalated", 5 },
};

const struct ending_desc *
ending_desc(uint32_t e)
{
	return e > ENDING_none && e < ENDING_MAX ? &endings[e] : NULL;
}

enum ending
ending_named(const char *cause, unsigned long n)
{
	unsigned i;

	for (i = ENDING_none + 1; i < ENDING_MAX; i++)
		if (strlen(endings[i].cause) == n && memcmp(endings[i].cause, cause, n) == 0)
			return (enum ending)i;
	return ENDING_none;
}

const struct limit_desc *
limit_desc(uint32_t limit)
{
	return limit > EXIT_LIMIT_none && limit < EXIT_LIMIT_MAX ? &limits[limit] : NULL;
}

const struct limit_desc *
limit_named(const char *name, unsigned long n)
{
	for (unsigned i = EXIT_LIMIT_none + 1; i < EXIT_LIMIT_MAX; i++)
		if (strlen(limits[i].name) == n && memcmp(limits[i].name, name, n) == 0)
			return &limits[i];
	return NULL;
}

int
ending_turn_exit(const char *turn_status)
{
	size_t i;

	for (i = 0; i < countof(turn_exits); i++)
		if (strcmp(turn_exits[i].status, turn_status) == 0)
			return turn_exits[i].exit;
	return 1; /* a status that none of ours has is nobody's success */
}
