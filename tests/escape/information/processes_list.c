/*
 * See that a process of the host is there.
 * Names and arguments of all that runs.
 */
#include "tests/escape/escape.h"

ESCAPE(processes_list)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld", arg_number("victim"));
	return tried(access(path, F_OK));
}
