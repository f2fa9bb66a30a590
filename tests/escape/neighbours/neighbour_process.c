/*
 * Find a process of another chamber.
 * Agents of one user read each other's arguments and environment.
 */
#include "tests/escape/escape.h"

#include <dirent.h>

ESCAPE(neighbour_process)
{
	DIR *proc = opendir("/proc");
	char path[300], option[256];
	struct dirent *e;

	snprintf(option, sizeof(option), "--neighbour=%s", arg("neighbour"));
	while (proc != NULL && (e = readdir(proc)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
		if (file_has(path, option) == 1)
			return 0;
	}
	return CONTAINED;
}
