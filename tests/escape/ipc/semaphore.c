/*
 * Change a semaphore of the host.
 * Whoever waits there waits for us.
 */
#include "tests/escape/escape.h"

#include <sys/sem.h>

ESCAPE(semaphore)
{
	struct sembuf up = { .sem_op = 1, .sem_flg = IPC_NOWAIT };

	return tried(semop((int)arg_number("sem"), &up, 1));
}
