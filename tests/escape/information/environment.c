/*
 * Read the environment of a process of the host.
 * Where tokens are kept.
 */
#include "tests/escape/escape.h"

ESCAPE(environment)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/environ", arg_number("victim"));
	return tried_open(path, O_RDONLY);
}
