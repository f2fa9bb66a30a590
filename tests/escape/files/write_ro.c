/*
 * Write to a file of a read-only mount.
 * The plainest of all.
 */
#include "tests/escape/escape.h"

ESCAPE(write_ro)
{
	return tried_open(path_in("ro", "file"), O_WRONLY);
}
