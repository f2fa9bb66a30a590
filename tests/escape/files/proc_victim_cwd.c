/*
 * Enter the working directory of a process of the host.
 * CVE-2024-21626 in its plainest form.
 */
#include "tests/escape/escape.h"

ESCAPE(proc_victim_cwd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/cwd", arg_number("victim"));
	return tried(chdir(path));
}
