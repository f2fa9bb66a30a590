/*
 * json_members: what an object may hold, as a table, and out of it into a struct.
 *
 * Unknown members, missing ones, other types and numbers out of range are refused with a text
 * that names the member and where it stands.  Pure.
 */
#ifndef COMMON_JSON_MEMBERS_H
#define COMMON_JSON_MEMBERS_H

#include "common/json.h"

enum json_kind {
	JSON_KIND_TEXT,	  /* struct slice: min to max bytes, no NUL */
	JSON_KIND_BYTES,  /* struct slice: base64 of min to max bytes; one of them in a table */
	JSON_KIND_NUMBER, /* uint64_t: an integer from min to max */
	JSON_KIND_FLAG,	  /* bool: true, false */
	JSON_KIND_ANY, /* struct slice, packed: within the bounds of json_payload, to max bytes */
	JSON_KIND_OBJECT,   /* likewise, and an object */
	JSON_KIND_TEXTS,    /* likewise: an array of at least min strings, none with a NUL */
	JSON_KIND_TEXT_MAP, /* likewise: an object of strings, none with a NUL */
	JSON_KIND_FRAME, /* struct slice, packed: an object whose parts are looked at later */
};

struct json_member {
	const char *name; /* NULL ends a table */
	enum json_kind kind;
	bool required;
	uint64_t min, max;
	size_t offset, has; /* of the field and of its bool, in the caller's struct */
};

/* Into `field` and `has_field` of the struct. */
#define JSON_MEMBER(name, kind, required, min, max, type, field) \
	{ name, JSON_KIND_##kind, required, min, max, offsetof(type, field), \
		offsetof(type, has_##field) }

/* Why an object was refused. */
struct json_fault {
	char text[JSON_ERROR_MAX];
};

/*
 * Reads `value`, packed as json_read_bounded() does, into `ret`, which its caller has zeroed;
 * slices point into `value`, decoded base64 into `bytes` (NULL if the table has none), which
 * is the caller's.  `where` stands before the members in an error: "" or "operation.command.".
 * Returns 0; -EINVAL with `ret_fault` set; -ENOMEM.
 */
int json_members_read(struct slice value, const char *where, const struct json_member *table,
    void *ret, struct buf *bytes, struct json_fault *ret_fault);

#endif /* COMMON_JSON_MEMBERS_H */
