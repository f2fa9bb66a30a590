/*
 * Name a file through /proc/self/root.
 * Another spelling, which lists of paths do not know (OpenShell#1496).
 */
#include "tests/escape/escape.h"

ESCAPE(proc_self_root)
{
	char path[4096];

	snprintf(path, sizeof(path), "/proc/self/root%s/file", arg("secret"));
	return tried_open(path, O_RDONLY);
}
