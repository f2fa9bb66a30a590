/*
 * Read in which cgroup of the host it runs.
 * The path names units, containers and users.
 */
#include "tests/escape/escape.h"

ESCAPE(cgroup_path)
{
	int found = file_has("/proc/self/cgroup", arg("cgroup"));

	return found < 0 ? errno : found ? 0 : CONTAINED;
}
