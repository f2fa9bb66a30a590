/*
 * Read the shared memory of another chamber.
 * Browsers and databases leave theirs in /dev/shm for others to open.
 */
#include "tests/escape/escape.h"

ESCAPE(neighbour_shm)
{
	char path[256];

	snprintf(path, sizeof(path), "/dev/shm/%s", arg("neighbour"));
	return tried_open(path, O_RDONLY);
}
