/*
 * Climb out of a mount by "..".
 * The parent of a mount's root is where it is mounted, not where it came from.
 */
#include "tests/escape/escape.h"

ESCAPE(dotdot)
{
	return tried_open(path_in("ro", "../secret/file"), O_RDONLY);
}
