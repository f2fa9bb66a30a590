/*
 * Write into a process of the host through /proc/PID/mem.
 * CVE-2012-0056; deno#720 forgot it among the paths that are no files.
 */
#include "tests/escape/escape.h"

ESCAPE(proc_victim_mem)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/mem", arg_number("victim"));
	return tried_open(path, O_WRONLY);
}
