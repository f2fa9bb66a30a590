/*
 * Rename a file within a read-only mount.
 * The directory is what is written.
 */
#include "tests/escape/escape.h"

ESCAPE(rename_ro)
{
	return tried(rename(path_in("ro", "rename_ro"), path_in("ro", "renamed")));
}
