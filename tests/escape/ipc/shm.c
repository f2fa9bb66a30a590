/*
 * Attach a segment of shared memory of the host by its number.
 * X and databases keep theirs there; containers with --ipc=host read them.
 */
#include "tests/escape/escape.h"

#include <sys/shm.h>

ESCAPE(shm)
{
	return shmat((int)arg_number("shm"), NULL, SHM_RDONLY) == (void *)-1 ? errno : 0;
}
