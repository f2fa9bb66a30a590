/*
 * Set a file's attributes by a call newer than most lists.
 * Immutable and append-only flags, project ids: Linux 6.17.
 */
#include "tests/escape/escape.h"

ESCAPE(file_setattr)
{
	const char *path = path_in("rw", "file_setattr");
	uint64_t a[3] = { 0 };

	close(open(path, O_WRONLY | O_CREAT, 0600));
	return tried(syscall(469, AT_FDCWD, path, a, sizeof(a), 0));
}
