/*
 * Empty a file of a read-only mount.
 * Landlock knew no truncate before its third version.
 */
#include "tests/escape/escape.h"

ESCAPE(truncate_ro)
{
	return tried(truncate(path_in("ro", "file"), 4));
}
