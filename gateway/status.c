#include "gateway/status.h"

#include "common/util.h"

static const struct {
	const char *code;
	unsigned status;
} table[] = {
	{ "invalid_argument", 400 },
	{ "out_of_range", 416 },
	{ "unauthenticated", 401 },
	{ "permission_denied", 403 },
	{ "not_found", 404 },
	{ "already_exists", 409 },
	{ "failed_precondition", 409 },
	{ "replay_expired", 409 },
	{ "aborted", 409 },
	{ "canceled", 409 },
	{ "resource_exhausted", 429 },
	{ "deadline_exceeded", 504 },
	{ "unavailable", 503 },
	{ "audit_unavailable", 503 },
	{ "internal", 500 },
};

unsigned
status_of(struct slice code)
{
	for (size_t i = 0; i < countof(table); i++)
		if (slice_is(code, table[i].code))
			return table[i].status;
	return 500;
}
