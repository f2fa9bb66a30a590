#include "common/records.h"

#include <stdio.h>
#include <stdlib.h>

static const struct record_desc records[RECORD_MAX] = {
#define RECORD(id, type, when, doc) [RECORD_##id] = { type, RECORD_##when, doc },
#include "common/records.def"
};

const struct record_desc *
record_desc(unsigned r)
{
	return r > RECORD_none && r < RECORD_MAX ? &records[r] : NULL;
}

const char *
record_name(unsigned r)
{
	return r > RECORD_none && r < RECORD_MAX ? records[r].type : "";
}

enum record_type
record_named(struct slice type)
{
	unsigned r;

	for (r = RECORD_none + 1; r < RECORD_MAX; r++)
		if (slice_is(type, records[r].type))
			return r;
	return RECORD_none;
}

void
record_mint(char ret_id[32])
{
	snprintf(ret_id, 32, "r-%08x%08x%08x", arc4random(), arc4random(), arc4random());
}
