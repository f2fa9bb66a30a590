/*
 * Open again what a process of the host has open.
 * CVE-2019-5736 overwrote runc through /proc/self/exe and a descriptor.
 */
#include "tests/escape/escape.h"

ESCAPE(proc_victim_fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/fd/3", arg_number("victim"));
	return tried_open(path, O_RDONLY);
}
