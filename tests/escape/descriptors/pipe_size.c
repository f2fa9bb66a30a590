/*
 * Make a pipe as large as it goes.
 * A thousand of them are a gibibyte of the kernel's memory that no rlimit counts.
 */
#include "tests/escape/escape.h"

ESCAPE(pipe_size)
{
	int p[2];

	if (pipe(p) < 0)
		return BROKEN;
	return tried(fcntl(p[0], F_SETPIPE_SZ, 1 << 20));
}
