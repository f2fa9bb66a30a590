/*
 * Open shared memory of the host by its name.
 * /dev/shm is a directory like any other.
 */
#include "tests/escape/escape.h"

ESCAPE(shm_host)
{
	char path[256];

	snprintf(path, sizeof(path), "/dev/shm/%s", arg("shm_name"));
	return tried_open(path, O_RDONLY);
}
