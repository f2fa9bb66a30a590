/*
 * Make a hard link to a file that is mounted read-only, in a place that is writable.
 * Whoever may link another's file keeps it, set-uid bit and all.
 */
#include "tests/escape/escape.h"

ESCAPE(hard_link)
{
	return tried(link(path_in("ro", "file"), path_in("rw", "linked")));
}
