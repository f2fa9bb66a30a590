/*
 * Name a file through the root of a process of the host.
 * /proc/1/root was the whole host for many a container that shared its pid namespace.
 */
#include "tests/escape/escape.h"

ESCAPE(proc_victim_root)
{
	char path[4096];

	snprintf(
	    path, sizeof(path), "/proc/%ld/root%s/file", arg_number("victim"), arg("secret"));
	return tried_open(path, O_RDONLY);
}
