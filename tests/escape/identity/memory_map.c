/*
 * Tell the kernel where one's own arguments and program lie.
 * PR_SET_MM: /proc/self/exe and cmdline say what they are told to.
 */
#include "tests/escape/escape.h"

#include <sys/prctl.h>

ESCAPE(memory_map)
{
	/* PR_SET_MM_MAP_SIZE */
	unsigned size = 0;

	return tried(prctl(PR_SET_MM, 15, &size, 0, 0));
}
