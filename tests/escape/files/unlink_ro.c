/*
 * Remove a file of a read-only mount.
 * A missing lock or configuration often means "yes".
 */
#include "tests/escape/escape.h"

ESCAPE(unlink_ro)
{
	return tried(unlink(path_in("ro", "unlink_ro")));
}
