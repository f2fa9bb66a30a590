/*
 * Change the times of a file of a read-only mount.
 * Nor utimes; make builds what is old.
 */
#include "tests/escape/escape.h"

ESCAPE(utimes_ro)
{
	return tried(utimensat(AT_FDCWD, path_in("ro", "file"), NULL, 0));
}
