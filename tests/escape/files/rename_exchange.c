/*
 * Exchange a file of a read-only mount for one of its own.
 * RENAME_EXCHANGE replaces a program in one step.
 */
#include "tests/escape/escape.h"

ESCAPE(rename_exchange)
{
	const char *own = path_in("rw", "own");

	close(open(own, O_WRONLY | O_CREAT, 0600));
	return tried(renameat2(AT_FDCWD, own, AT_FDCWD, path_in("ro", "rename_exchange"), 2));
}
