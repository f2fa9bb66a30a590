/*
 * args: the arguments of a call, checked strictly: known names, right types, in range,
 * nothing missing.  The broker has checked the schema of tools.def already; this is the
 * side that would suffer.  Pure.
 */
#ifndef WORKER_FILES_ARGS_H
#define WORKER_FILES_ARGS_H

#include "worker/files/files.h"

enum arg_type { ARG_STRING, ARG_INTEGER, ARG_BOOLEAN, ARG_BYTES /* or a string */ };

struct arg_desc {
	const char *name; /* NULL ends the list */
	enum arg_type type;
	bool required;
	uint64_t min, max; /* of the integer, or of the string's length in bytes */
	size_t offset, has; /* in struct files_args */
};

/* The arguments of `tool`, a name of tools.def or workspace.def; NULL for another. */
const struct arg_desc *args_of(const char *tool);

/*
 * Reads a packed map.  Strings are slices of it.  Returns 0; or -EINVAL and sets
 * `*ret_field` to the name of the wrong one (static), "arguments" for an unknown one.
 */
int args_unpack(const struct arg_desc *desc, struct slice map, struct files_args *ret,
    const char **ret_field);

#endif /* WORKER_FILES_ARGS_H */
