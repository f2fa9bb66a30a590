/*
 * Make a segment of shared memory.
 * It outlives its maker and is in nobody's rlimit.
 */
#include "tests/escape/escape.h"

#include <sys/shm.h>

ESCAPE(shm_make)
{
	int id = shmget(IPC_PRIVATE, 4096, 0600);

	return id < 0 ? errno : tried(shmctl(id, IPC_RMID, NULL));
}
