/*
 * records: the rows of records.def as data, and their ids.  TU-64 to TU-69, D-11.
 */
#ifndef COMMON_RECORDS_H
#define COMMON_RECORDS_H

#include "common/protocol.h"

enum record_type {
	RECORD_none = 0,
#define RECORD(id, type, when, doc) RECORD_##id,
#include "common/records.def"
	RECORD_MAX
};

/* When a record is written, beside what it tells of. */
enum record_when {
	RECORD_BEFORE, /* before the effect that it names, or there is no effect */
	RECORD_WITH,   /* before the event that tells of it is sent */
	RECORD_AFTER,  /* with the next write; a failure never changes a result (TU-64) */
};

struct record_desc {
	const char *type; /* "authorization.checked" */
	enum record_when when;
	const char *doc;
};

/* The row of `r`; NULL for RECORD_none and for a number that is none. */
const struct record_desc *record_desc(unsigned r);
/* "authorization.checked"; "" for a number that is none. */
const char *record_name(unsigned r);
/* A new id, never derived from content (TU-65): "r-" and 24 random hexadecimal digits. */
void record_mint(char ret_id[32]);
/* The record of that type; RECORD_none if there is none. */
enum record_type record_named(struct slice type);

#endif /* COMMON_RECORDS_H */
