/*
 * Move a file from a read-only mount into a writable one.
 * cplt#455: a rename needs other rights than a write does.
 */
#include "tests/escape/escape.h"

ESCAPE(rename_across)
{
	return tried(rename(path_in("ro", "rename_across"), path_in("rw", "moved")));
}
