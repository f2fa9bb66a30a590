/*
 * Read a file that a supplementary group of the host's user may read.
 * nsjail#288: groups survive setgroups=deny.
 */
#include "tests/escape/escape.h"

ESCAPE(group_file)
{
	return tried_open(path_in("ro", "group"), O_RDONLY);
}
